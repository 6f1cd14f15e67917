"""Joints: coordinates and a map from them to SE(3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, TypedDict, Unpack

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    constant,
    directional,
    from_columns,
    is_symbolic,
    shape,
    submatrix,
    symbol,
    to_sx,
)
from heavytop._format import brief
from heavytop.compile import NOT_MATH, on_symbols, trace
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError, unknown_name
from heavytop.functions import MECHANISM, Value, recipe
from heavytop.geometry import linalg, se3
from heavytop.system.dynamics.solve import at_numbers
from heavytop.system.joints.closure import check_closure, derived_closure


class JointParts(TypedDict, total=False):
    """Keywords of every joint; a system adds the elements together with the joint.

    ``stiffness`` and ``rest`` : of a spring, as in ``system.joint_spring``.
    ``damping`` : viscous friction, as in ``system.joint_damper``.
    ``friction`` : dry friction; a mapping holds the keywords of ``system.joint_friction``.
    ``armature`` : inertia of a rotor; a mapping holds the keywords of ``system.armature``.
    ``limits`` : (lower, upper), stored in ``system.limits``; a mapping holds the keywords of ``system.joint_stop``, which is added too.
    """

    stiffness: Array
    rest: Array
    damping: Array
    friction: Array | Mapping[str, Any]
    armature: Array | Mapping[str, Any]
    limits: Sequence[float | None] | Mapping[str, Any]


def checked_parts(joint: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Read-only copies of the given keywords; raises an error for unknown ones and for a rest without a spring."""
    for name in parts:
        if name not in JointParts.__annotations__:
            raise unknown_name(f"keyword of {joint}", name, JointParts.__annotations__)
    kept = {name: _frozen(value) for name, value in parts.items() if value is not None}
    if "rest" in kept and "stiffness" not in kept:
        raise ModelError(f"{joint} joint: rest= belongs to a spring; also give stiffness=.")
    return kept


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _frozen(item) for name, item in value.items()}
    return constant(value) if isinstance(value, np.ndarray) else tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class JointLimits:
    """Bounds of a single-axis joint, as data: position (rad or m), largest speed, largest effort; None: unbounded.

    >>> JointLimits(-1.0, 2.0).upper
    2.0
    """

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None


class Joint(Value, ABC):
    """A joint: coordinates with a pose ``G(q)`` of the moved frame in the joint frame.

    Subclasses give :attr:`coordinates` and :meth:`pose`. The body Jacobian follows from them by differentiation
    (eq. 3.123); joints that know it in closed form override :meth:`jacobian`.
    """

    coordinates: Coordinates
    """Configuration and velocity coordinates of the joint."""
    velocity_frame: str = "relative"
    """"relative": the velocity coordinates describe the motion relative to the parent; "absolute": relative to the world."""
    kind: str = ""
    """Its name in robot files: "revolute", "prismatic", "spherical", "planar", "floating", "fixed"; empty if they have none."""
    follows: str | None = None
    """Name of the joint whose coordinates move this one; None if it has its own."""
    parts: Mapping[str, Any] = MappingProxyType({})
    """Elements in the joint, given as keywords: see :class:`~heavytop.system.joints.base.JointParts`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "pose" in vars(cls) and "kind" not in vars(cls):  # it moves in another way than its base class
            cls.kind = ""

    def __repr__(self) -> str:
        """The call that makes it, without default values.

        >>> from heavytop.system import Free, Revolute
        >>> Revolute("-z", stiffness=2.0), Free("quaternion")
        (Revolute('-z', stiffness=2), Free(attitude='quaternion'))
        """
        arguments = [*self._arguments(), *(f"{name}={brief(value)}" for name, value in self.parts.items())]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _arguments(self) -> Iterable[str]:
        """Arguments besides the parts, as text."""
        return ()

    def having(self, **parts: Unpack[JointParts]) -> Self:
        """The same joint with elements in it; user-defined joints have this instead of keywords.

        >>> from heavytop.system import Revolute
        >>> sorted(Revolute("z").having(stiffness=3.0, damping=0.1).parts)
        ['damping', 'stiffness']
        """
        return _with_parts(self, {**self.parts, **parts})

    @property
    def own_coordinates(self) -> Coordinates:
        """Coordinates of a joint that follows another one as if it were independent; otherwise :attr:`coordinates`."""
        return self.coordinates

    @property
    def q_units(self) -> tuple[str, ...]:
        """Unit of each configuration coordinate; "1" for pure numbers, empty where unknown."""
        return self.coordinates.q_units

    @property
    def v_units(self) -> tuple[str, ...]:
        """Unit of each velocity coordinate; empty where unknown."""
        return self.coordinates.v_units

    @property
    def force_units(self) -> tuple[str, ...]:
        """Unit of the force conjugate to each velocity coordinate; empty where unknown."""
        return tuple({"m/s": "N", "rad/s": "N m"}.get(unit, "") for unit in self.v_units)

    @property
    def turns_about(self) -> Array | None:
        """Unit axis (3,) in the joint frame if it turns about this one only, else None; a single coordinate is then the angle."""
        return None

    @property
    def slides_along(self) -> Array | None:
        """Unit axis (3,) in the joint frame if it slides along this one only, else None; a single coordinate is then the displacement."""
        return None

    @property
    def is_fixed(self) -> bool:
        """Whether it never moves."""
        return self.coordinates.nv == 0 and self.follows is None

    @cached_property
    def translations(self) -> int:
        """Number of independent directions in which the origin of the moved frame can move: the rank of the linear Jacobian."""
        if self.coordinates.nv == 0:
            return 0
        q = symbol("q", self.coordinates.nq)
        J = self.jacobian(q)
        return int(np.linalg.matrix_rank(self._anywhere(submatrix(J, slice(0, 3), slice(None)), q)))

    def _anywhere(self, value: Array, q: Array) -> Floats:
        """A matrix of q, and of parameters, at random numbers."""
        if not is_symbolic(value):
            return np.asarray(value, dtype=float)
        import casadi

        rng = np.random.default_rng(0)
        pairs = [(q, self.coordinates.random(rng))]
        known = {entry.element_hash() for entry in casadi.vertsplit(to_sx(q))}
        pairs += [(s, rng.uniform(0.5, 1.5)) for s in casadi.symvar(to_sx(value)) if s.element_hash() not in known]
        return at_numbers(value, pairs)

    def prescribed(self, at: Array, time: Array) -> tuple[Array, Joint]:
        """The placement ``at`` including a prescribed motion in ``time``, and the remaining joint: itself unless its motion is prescribed."""
        return at, self

    def follow(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Its own coordinates and velocities from those of the joint that it :attr:`follows`; a linear map."""
        return q, v

    def following(self, source: str, label: str) -> Joint:
        """The same joint following one of another name; ``label`` is the name of this one."""
        raise ModelError(
            f"joint {label!r} follows {self.follows!r} in a user-defined way, so it cannot be attached under another name. Define following(source, "
            "label) of its class."
        )

    def follow_matrix(self, n: int) -> Array:
        """Its velocities per unit of each of the ``n`` velocities of the joint that it :attr:`follows`."""
        return self.follow(np.zeros(1), np.eye(n))[1]

    def check_source(self, joint: Joint | None, label: str, known: Iterable[str]) -> None:
        """Raise a ModelError unless ``joint`` is one that can be followed; ``label`` is the name of this one."""
        if joint is None:
            raise unknown_name(f"joint (that {label!r} follows)", str(self.follows), known)

    @abstractmethod
    def pose(self, q: Array) -> Array:
        """Pose (..., 4, 4) of the moved frame in the joint frame."""

    def jacobian(self, q: Array) -> Array:
        """Body Jacobian (..., 6, nv): relative body twist = jacobian(q) v, from eq. 3.123 by differentiation."""
        if not is_symbolic(q):
            return self._traced_jacobian(q)[0]
        A = self.coordinates.kinematics_matrix(q)
        G, inverse = self.pose(q), se3.inverse(self.pose(q))
        columns = [se3.vee(inverse @ directional(G, q, A[:, j])) for j in range(self.coordinates.nv)]
        return from_columns(*columns)

    @cached_property
    def _traced_jacobian(self):
        return trace(self.jacobian, {"q": (self.coordinates.nq,)}, name=f"{type(self).__name__}.jacobian")

    def bias(self, q: Array, v: Array) -> Array:
        """Rate of the Jacobian times the velocity (6,): d/dt(jacobian(q)) v, on symbols."""
        rate = directional(self.jacobian(q), q, self.coordinates.rate(q, v))
        return np.matvec(rate, v)

    def closure(self, G: Array) -> Array:
        """phi(G) (m,) for the relative pose G (4, 4) of two frames, zero for admissible poses: the equations of a loop.

        Joints that know their equations in closed form override it; otherwise they follow from :meth:`pose` and :meth:`jacobian`.
        """
        return derived_closure(self, G)

    def closure_branch(self, G: Array) -> Array:
        """Values (k,) that are positive on the intended one of several separate sets of poses on which :meth:`closure` vanishes."""
        return np.zeros(0)

    def check_closure(self) -> None:
        """Raise a ModelError for a joint that cannot close a loop."""
        if type(self).closure is Joint.closure or not self.is_built_in:
            check_closure(self)

    @property
    def is_built_in(self) -> bool:
        """Whether the class belongs to the library, whose tests verify it."""
        return type(self).__module__.startswith("heavytop.")

    def with_velocity(self, frame: str) -> Joint:
        """The same joint with its velocity coordinates taken in another frame; only some joints offer a choice."""
        raise ModelError(
            f"{type(self).__name__} joints offer no choice of the velocity frame, got {frame!r}; only Spherical does."
        )

    def verify(self, samples: int = 3, tolerance: float = 1e-9, parameters: Sequence[tuple[Array, float]] = ()) -> None:
        """Raise a ModelError unless pose, Jacobian and bias fit together, at random configurations.

        The pose must stay in SE(3), the kinematics must keep the constraints, and an own or inherited Jacobian and bias must be those of its
        pose. ``parameters`` are (symbol, number) pairs.
        """
        block, name = self.coordinates, type(self).__name__
        if self.velocity_frame not in ("relative", "absolute"):
            raise ModelError(f"{name}: velocity_frame must be 'relative' or 'absolute', got {self.velocity_frame!r}.")
        if block.nq == 0:
            return
        q, v = symbol("q", block.nq), symbol("v", block.nv)
        pose = on_symbols(self.pose, f"pose of {name}")(q)
        if pose is None or shape(pose) != (4, 4):
            got = "None" if pose is None else f"shape {shape(pose)}"
            raise ModelError(f"{name}: the pose must be a 4x4 matrix, got {got}.")
        own = {
            "jacobian(q)": ((6, block.nv), on_symbols(self.jacobian, f"jacobian of {name}")(q)),
            "bias(q, v)": ((6,), on_symbols(self.bias, f"bias of {name}")(q, v)),
        }
        for piece, (size, value) in own.items():
            if value is None or shape(value) != size:
                got = "None" if value is None else f"shape {shape(value)}"
                raise ModelError(f"{name}: {piece} must be an array of shape {size}, got {got}.")
        derived = {"jacobian(q)": Joint.jacobian(self, q), "bias(q, v)": Joint.bias(self, q, v)}
        rng = np.random.default_rng(0)
        for place in block.random(rng, (samples,)):
            numbers = [(q, place), (v, rng.standard_normal(block.nv)), *parameters]
            at = f"at q = {np.array2string(place, precision=4)}"
            G = self._number(pose, numbers)
            if np.any(np.isnan(G)):
                raise ModelError(f"pose of {name} turned a symbol into the number nan. {NOT_MATH}")
            if not linalg.is_pose(G, tolerance):
                defect = np.max(np.abs(G[:3, :3].T @ G[:3, :3] - np.eye(3)))
                raise ModelError(
                    f"{name}: the given pose G(q) is not in SE(3) {at}: "
                    f"R^T R - I has an entry of {defect:.3g}, det R = {np.linalg.det(G[:3, :3]):.6g}, last row {G[3].tolist()}. "
                    "G(q) must be a rotation and a translation wherever the constraints phi(q) = 0 hold."
                )
            drift = np.abs(block.constraint_jacobian(place) @ block.kinematics_matrix(place))
            if np.max(drift, initial=0.0) > tolerance:
                row, column = np.unravel_index(np.argmax(drift), drift.shape)
                raise ModelError(
                    f"{name}: the kinematics matrix A(q) violates the constraints: dphi/dq A must vanish, but "
                    f"{block.v_names[column]!r} changes {block.constraint_names[row]!r} at the rate "
                    f"{drift[row, column]:.3g} {at}."
                )
            for piece, expected in derived.items():
                given, meant = self._number(own[piece][1], numbers), self._number(expected, numbers)
                if not np.max(np.abs(given - meant)) <= 1e-6 * (1.0 + np.max(np.abs(meant))):
                    method = piece.split("(")[0]
                    raise ModelError(
                        f"{name}: {piece} does not match its pose: {at} it is {np.array2string(given.ravel(), precision=4)} instead of "
                        f"{np.array2string(meant.ravel(), precision=4)}. Derive the class from Joint and omit {method} to have it "
                        "derived, or correct one of the two."
                    )

    def _number(self, value: Array, numbers: Sequence[tuple[Array, Any]]) -> Floats:
        """An expression with numbers in place of its symbols."""
        try:
            return at_numbers(value, numbers)
        except ValueError as foreign:
            raise ModelError(
                f"{type(self).__name__} uses symbols that are not parameters of the system: {foreign}. Declare them with "
                "system.parameter(name, value) of the same system."
            ) from None


@recipe
def _with_parts(joint: Any, parts: Mapping[str, Any]) -> Any:
    made = object.__new__(type(joint))
    vars(made).update({name: value for name, value in vars(joint).items() if name not in MECHANISM})
    vars(made).update(parts=checked_parts(type(joint).__name__, parts), _sealed=True)
    return made
