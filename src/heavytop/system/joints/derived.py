"""Joints made from others: any pose function, joints that follow another one, joints moved by a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from heavytop._arrays import Array, as_array, constant, is_symbolic, shape
from heavytop._format import brief
from heavytop.compile import NOT_MATH, on_symbols
from heavytop.coordinates import Angle, Coordinates, Vector
from heavytop.errors import ModelError
from heavytop.system.joints.base import Joint, JointParts, checked_parts
from heavytop.system.joints.spatial import Fixed


class Custom(Joint):
    """A joint given by coordinates and a pose ``G(q)`` written in NumPy notation.

    Its body Jacobian and the rate of it are derived exactly (eq. 3.123). The pose is verified to stay in SE(3).

    Parameters
    ----------
    coordinates : any :class:`~heavytop.coordinates.Coordinates`.
    pose : function of q (nq,) that returns the (4, 4) pose of the moved frame in the joint frame.

    Examples
    --------
    A screw joint that advances 5 mm per radian:

    >>> import numpy as np, heavytop as ht
    >>> from heavytop.geometry import se3, so3
    >>> def screw(q):
    ...     return se3.pose(so3.rotation_about("z", q[0]), ht.vector(0.0, 0.0, 0.005 * q[0]))
    >>> joint = Custom(ht.coordinates.Angle(), screw)
    >>> joint.jacobian(np.array([0.3]))[:, 0]
    array([0.   , 0.   , 0.005, 0.   , 0.   , 1.   ])
    """

    def __init__(self, coordinates: Coordinates, pose: Callable[[Array], Array], **parts: Unpack[JointParts]) -> None:
        self.parts = checked_parts("Custom", parts)
        self.coordinates = coordinates
        self._pose = pose
        self.verify()

    def _arguments(self) -> Iterable[str]:
        return (repr(self.coordinates), brief(self._pose))

    def pose(self, q: Array) -> Array:
        return as_array(self._pose(q))


class Coupled(Joint):
    """A revolute or prismatic joint whose coordinate is a linear function of that of another joint.

    It has no own coordinates: ``q_own = ratio * q_source + offset``. The coupling is exact and adds neither equations nor
    unknowns, and what acts on this joint is felt by the source.

    Parameters
    ----------
    joint : ``Revolute`` or ``Prismatic``: how this joint moves.
    source : name of the joint it follows, revolute (with coordinates "angle") or prismatic.
    ratio, offset : ratio and offset of the linear function, in rad, m or their quotient.

    Examples
    --------
    Two fingers of a gripper that open by the same distance:

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> finger = ht.Inertia(0.1)
    >>> system.body("left", joint=ht.Prismatic("y"), inertia=finger)
    >>> system.body("right", joint=ht.Coupled(ht.Prismatic("y"), "left", ratio=-1.0), inertia=finger)
    >>> model = system.derive()
    >>> model.nv, model.mass_matrix([0.02])
    (1, array([[0.2]]))
    """

    def __init__(
        self, joint: Joint, source: str, ratio: Any = 1.0, offset: Any = 0.0, **parts: Unpack[JointParts]
    ) -> None:
        if joint.kind not in ("revolute", "prismatic") or joint.coordinates.nq != 1:
            raise ModelError(
                f"Coupled joint: only a Revolute or Prismatic joint can follow another one, got {joint!r}."
            )
        self.joint, self.source = joint, source
        self.parts = checked_parts("Coupled", {**joint.parts, **parts})
        self.kind, self.follows = joint.kind, source
        self.ratio, self.offset = constant(ratio), constant(offset)
        for label, value in (("ratio", self.ratio), ("offset", self.offset)):
            if value.shape != () or not (is_symbolic(value) or np.isfinite(value)):
                raise ModelError(f"Coupled joint: {label} must be one finite number, got {value!r}.")
        self.coordinates = Vector(0)

    def _arguments(self) -> Iterable[str]:
        alone = f"{type(self.joint).__name__}({', '.join(self.joint._arguments())})"  # without the parts, which this joint has
        offset = () if not is_symbolic(self.offset) and self.offset == 0 else (f"offset={brief(self.offset)}",)
        return (alone, repr(self.source), f"ratio={brief(self.ratio)}", *offset)

    @property
    def own_coordinates(self) -> Coordinates:
        return self.joint.coordinates

    @property
    def turns_about(self) -> Array | None:
        return self.joint.turns_about

    @property
    def slides_along(self) -> Array | None:
        return self.joint.slides_along

    @cached_property
    def translations(self) -> int:
        return self.joint.translations

    def check_source(self, joint: Joint | None, label: str, known: Iterable[str]) -> None:
        super().check_source(joint, label, known)
        if joint is None:
            return
        if not isinstance(joint.coordinates, Angle | Vector) or joint.coordinates.nq != 1:
            raise ModelError(
                f"joint {label!r} follows {self.source!r}, which must be a Revolute joint with coordinates 'angle' or a Prismatic one, "
                f"got {type(joint).__name__} with {joint.coordinates.nq} coordinates."
            )

    def following(self, source: str, label: str) -> Coupled:
        made = Coupled(self.joint, source, self.ratio, self.offset)
        return made.having(**self.parts) if self.parts else made

    def follow(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Coordinate (1,) and velocity (1,) of this joint from those of the source."""
        return self.ratio * q + self.offset, self.ratio * v

    def pose(self, q: Array) -> Array:
        return self.joint.pose(q)

    def jacobian(self, q: Array) -> Array:
        return self.joint.jacobian(q)

    def bias(self, q: Array, v: Array) -> Array:
        return self.joint.bias(q, v)

    def check_closure(self) -> None:
        raise ModelError(
            "a Coupled joint cannot close a loop, since it has no own coordinate. Put it into the tree, and close the loop with its inner joint."
        )


class Prescribed(Joint):
    """A joint whose coordinates are given functions of time.

    It has no coordinates and adds no degree of freedom. The driving force follows from the reactions; ``model.driver_power`` and the
    energy balance of a run report its power.

    Parameters
    ----------
    joint : the joint to move, such as ``Prismatic("x")``.
    motion : function in NumPy notation that returns the configuration at time t in s: one number for one coordinate, else (nq,). Position
        and velocity must be continuous for the forces to be finite; a simulation raises an error if the motion jumps.

    Examples
    --------
    A pendulum on a trolley that is driven back and forth:

    >>> import heavytop as ht
    >>> system = ht.System(name="crane")
    >>> system.body("trolley", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: 0.5 * np.sin(t)), inertia=ht.Inertia(10.0))
    >>> system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, com=(0, 0, -1)))
    >>> model = system.derive(native=False)
    >>> model.nv, model.acceleration([0.0], [0.0], parameters={"time": np.pi / 2}).round(9)
    (1, array([-0.5]))
    """

    def __init__(self, joint: Joint, motion: Callable[[Array], Any]) -> None:
        if not isinstance(joint, Joint) or joint.coordinates.nv == 0:
            raise ModelError(
                f"Prescribed joint: it takes a joint that moves by itself, such as ht.Prismatic('x'), got {joint!r}."
            )
        if not callable(motion):
            raise ModelError(f"Prescribed joint: motion must be a function of the time, got {motion!r}.")
        if joint.parts:
            raise ModelError(
                f"Prescribed joint: {', '.join(joint.parts)} cannot act in a joint whose motion is given. Give the joint without, and the "
                "force as one between its bodies (system.damper, system.strut)."
            )
        self.joint, self.motion = joint, motion
        self.coordinates = Vector(0)

    def _arguments(self) -> Iterable[str]:
        return (repr(self.joint), brief(self.motion))

    def prescribed(self, at: Array, time: Array) -> tuple[Array, Joint]:
        given = on_symbols(self.motion, "motion of a prescribed joint")(time)
        size = self.joint.coordinates.nq
        value = as_array(given) if given is not None else np.zeros((0, 0))
        if size == 1 and shape(value) == ():
            value = np.reshape(value, (1,))
        if shape(value) != (size,):
            raise ModelError(
                f"motion of a prescribed joint must return the {size} coordinates of its {type(self.joint).__name__} joint, got "
                f"{'None' if given is None else f'an array of shape {shape(value)}'}."
            )
        if not is_symbolic(value) and not np.all(np.isfinite(value)):
            raise ModelError(
                f"motion of a prescribed joint must return finite numbers, got {value.tolist()}. {NOT_MATH}"
            )
        return at @ self.joint.pose(value), Fixed()

    def pose(self, q: Array) -> Array:
        raise ModelError(
            "a Prescribed joint moves with the time, not with coordinates: give it to system.body or system.connect."
        )

    def check_closure(self) -> None:
        raise ModelError(
            "a Prescribed joint cannot close a loop. Put a frame that moves into the tree (system.frame with an at that depends on "
            "system.time), and close the loop there with its inner joint."
        )
