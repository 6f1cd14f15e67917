"""Force elements: a stored energy, a dissipated power, a force, an added inertia."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from heavytop._arrays import Array, freeze_fields
from heavytop.errors import ModelError, unknown_name
from heavytop.system.description import WORLD

if TYPE_CHECKING:
    from heavytop.system.forces.ports import Port
    from heavytop.system.kinematics.kinematics import Kinematics

PIECES = ("energy", "energy_gradient", "dissipation", "resistance", "damping", "secant", "force", "inertia")
"""Methods that define an element: at least one of energy, dissipation, resistance, force and inertia."""


NAMES = ("a", "b", "body", "joint", "relative_to", "memory")
"""Attributes of elements and inputs that name a body, frame or joint."""
LISTS = ("terms", "path")
"""Attributes that are sequences of tuples, which begin with such a name."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line to draw between the point ``at_a`` of frame a and ``at_b`` of frame b; ``look``: drawn as.

    >>> Line("hull", (0, 0, 0), "load", (0, 0, 0.5)).look
    'cable'
    """

    a: str
    at_a: Any
    b: str
    at_b: Any
    look: Literal["strut", "cable"] = "cable"


@dataclass(frozen=True, eq=False)
class Pull:
    """A spring and damper on the length of a path through points (3,) of bodies, slack between the lengths ``low`` and ``high``."""

    path: tuple[tuple[str, Any], ...]
    stiffness: Any
    viscosity: Any
    low: Any
    high: Any


def renamed(element: Any, name: Callable[[str], str], world: bool = True) -> Any:
    """A copy of an element or input whose :data:`NAMES` and :data:`LISTS` have new names; ``world``: also the world.

    >>> from heavytop.system import JointForce
    >>> renamed(JointForce("elbow", gear=5.0), "left/{}".format)
    JointForce(body='left/elbow', gear=5)
    """

    def new(label: str) -> str:
        return label if label == WORLD and not world else name(label)

    made = copy(element)
    for field in NAMES:
        value = getattr(element, field, None)
        if isinstance(value, str):
            object.__setattr__(made, field, new(value))
    for field in LISTS:
        value = getattr(element, field, None)
        if isinstance(value, tuple | list):
            object.__setattr__(made, field, tuple((new(item[0]), *item[1:]) for item in value))
    return made


class ForceElement(ABC):
    """Base of all force elements. Derive your own from :class:`PairElement` (between two bodies) or :class:`JointElement` (in a joint).

    An element acts on a configuration ``x`` and a velocity ``w`` (n,): the relative pose and twist of two bodies, or the coordinates and
    velocities of a joint. It defines any of the methods below in NumPy notation; its attributes may hold parameters of the system.
    Missing methods are derived from the others by exact differentiation, and redundant ones are compared at random
    states when the system is derived, so that energy and force cannot contradict each other.

    ========================= =====================================================================================================
    ``energy(x)``             stored energy V in J
    ``energy_gradient(x)``    its gradient (n,) along the velocities; derived from ``energy``
    ``dissipation(x, w)``     dissipation function R in W; the element resists with dR/dw
    ``resistance(x, w)``      the resisting force (n,) itself, dissipating the power ``w . resistance``; derived from ``dissipation``
    ``damping(x)``            the part of it that is linear in w, as a matrix (n, n); derived where all of it is linear
    ``force(x, w)``           the total force (n,) of the element: -dV/dx - resistance and any further force, whose power counts as
                              supplied
    ``inertia()``             constant matrix (n, n) of a kinetic energy 1/2 w^T I w; only in joints
    ``secant(x, w)``          matrix (n, n) of friction, for linearly implicit steps: ``secant(x, w) w`` is its resistance
    ========================= =====================================================================================================

    An element with ``states``, names of numbers s that change by themselves, receives them behind the velocities in ``w`` and returns their
    resistance behind the forces: ``s' = -resistance``, and ``s^2/2`` is stored energy. ``memory`` is their name among the joints of the model.

    >>> from heavytop.system.forces import Gravity
    >>> issubclass(Gravity, ForceElement)
    False
    """

    reads_coordinates: ClassVar[bool] = False
    """Whether it is a ``function`` of the coordinates of the whole system."""
    states: tuple[str, ...] = ()
    """Names of its states (:mod:`heavytop.system.forces.inner`)."""
    memory: str = ""
    """Name of the states in the model."""

    def __post_init__(self) -> None:
        if type(self).__module__.startswith("heavytop."):  # those of the library are frozen dataclasses
            freeze_fields(self)

    @property
    def kind(self) -> str:
        """Name of the kind of element in messages and summaries, from its class name."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", type(self).__name__).lower()

    @property
    def title(self) -> str:
        """The element and its place, for messages."""
        return self.kind

    def name_of(self, piece: str) -> str:
        """Name of one of the methods in messages."""
        return f"{piece} of {self.title}"

    @property
    def is_between_frames(self) -> bool:
        """Whether its force depends on poses of bodies or frames, not on the coordinates of a joint alone."""
        return False

    def is_inner(self, root: str) -> bool:
        """Whether it acts only between bodies that the joint ``root`` carries, so that moving all of them together changes nothing."""
        return False

    @abstractmethod
    def port(self, kinematics: Kinematics) -> Port:
        """Where it acts."""

    def _with_states(self, port: Port) -> Port:
        """A port that includes the states of the element."""
        from heavytop.system.forces.ports import StatePort

        return StatePort(port, self.memory) if self.states else port

    def check_names(self, frames: Collection[str], joints: Collection[str]) -> None:
        """Raise an error for a frame or joint that does not exist."""
        return

    def resolved(self, port: Port) -> ForceElement:
        """The element with all values that depend on its place; called once before all methods below."""
        return self

    def lines(self) -> tuple[Line, ...]:
        """Lines to draw."""
        return ()

    def renamed(self, name: Callable[[str], str]) -> ForceElement:
        """The same element where bodies, frames and joints have the names ``name(old)``, in a system that is attached to another one.

        By default the attributes ``a``, ``b``, ``body``, ``joint``, ``relative_to``, ``terms`` and ``path`` hold names.
        """
        return renamed(self, name)

    # --- methods that define it -------------------------------------------------------------------------------------------------

    def joint_constants(self) -> Mapping[str, Array]:
        """Constants of a joint of one axis for robot files: stiffness and rest, damping, friction, armature; empty if none applies."""
        return {}

    def not_negative(self) -> Mapping[str, Any]:
        """Constants that must not be negative at any parameters, by name: arrays, or moments such as a damping."""
        return {}

    def positive(self) -> Mapping[str, Array]:
        """Constants that must be positive, by name."""
        return {}

    def left_out(self) -> str:
        """Properties that :meth:`joint_constants` leaves out, as text; empty if it is complete."""
        return ""

    def pull(self) -> Pull | None:
        """The element as a spring and damper along a path, for robot files; None if it is something else."""
        return None

    def energy(self, x: Array, /) -> Array:
        """Stored energy in J."""
        return 0.0

    def energy_gradient(self, x: Array, /) -> Array:
        """Gradient (n,) of the energy along the velocities."""
        raise NotImplementedError

    def dissipation(self, x: Array, w: Array, /) -> Array:
        """Dissipation function in W."""
        raise NotImplementedError

    def resistance(self, x: Array, w: Array, /) -> Array:
        """Resisting force (n,)."""
        raise NotImplementedError

    def damping(self, x: Array, /) -> Array:
        """Matrix (n, n) of the part of the resistance that is linear in w."""
        raise NotImplementedError

    def secant(self, x: Array, w: Array, /) -> Array:
        """Matrix S (n, n), symmetric and positive semidefinite, with S w = friction.

        Friction hardly changes with the speed until it stops a motion: a linearly implicit step that sees only its derivative overshoots, or does
        not stop at all. The order of the integrator does not depend on S.
        """
        raise NotImplementedError

    def force(self, x: Array, w: Array, /) -> Array:
        """Total force (n,)."""
        raise NotImplementedError

    def inertia(self) -> Array:
        """Constant inertia (n, n)."""
        raise NotImplementedError

    @classmethod
    def gives(cls, piece: str) -> bool:
        """Whether the class defines a method itself instead of leaving it to be derived."""
        return getattr(cls, piece) is not getattr(ForceElement, piece)

    @property
    def is_nonconservative(self) -> bool:
        """Whether it can dissipate or supply power."""
        return any(map(self.gives, ("dissipation", "resistance", "force")))

    def check_pieces(self) -> None:
        """Raise a ModelError for an element that does nothing, or defines a derivative without its integral."""
        for piece in PIECES:
            if piece in getattr(self, "__dict__", {}):
                raise ModelError(
                    f"{self.kind}: {piece} was set as an attribute of the object, where it has no effect. Define it as a method of the class."
                )
        if not any(map(self.gives, ("energy", "dissipation", "resistance", "force", "inertia"))):
            raise ModelError(
                f"{self.title} does nothing: it defines none of energy(x), dissipation(x, w), resistance(x, w), force(x, w) and inertia()."
            )
        for piece, others in (
            ("energy_gradient", ("energy",)),
            ("damping", ("dissipation", "resistance")),
            ("secant", ("dissipation", "resistance")),
        ):
            if self.gives(piece) and not any(map(self.gives, others)):
                raise ModelError(f"{self.title} defines {piece}(...) but not {' or '.join(others)}(...).")


class PairElement(ForceElement):
    """A force element between two bodies or frames: ``x`` is the pose (4, 4) of b in a, ``w`` the body twist (6,) of b relative to a.

    Its force is the wrench (6,) (force, moment) on b, in the axes and at the origin of b; the reaction acts on a.

    Attributes
    ----------
    a, b : names of two bodies or frames.

    Examples
    --------
    A rope that only pulls, as a class in your own file:

    >>> import numpy as np, heavytop as ht
    >>> class Tether(ht.PairElement):
    ...     def __init__(self, a, b, length, stiffness):
    ...         self.a, self.b, self.length, self.stiffness = a, b, length, stiffness
    ...     def energy(self, pose):
    ...         distance = np.sqrt(np.vecdot(pose[:3, 3], pose[:3, 3]))
    ...         return 0.5 * self.stiffness * np.maximum(distance - self.length, 0.0) ** 2
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1, 1, 1)))
    >>> system.add(Tether("world", "ball", length=1.0, stiffness=10.0))
    >>> model = system.derive()
    >>> q = model.neutral()
    >>> q[0] = 1.5
    >>> model.acceleration(q, np.zeros(6))[:3].round(9) + 0.0
    array([-2.5,  0. ,  0. ])
    """

    a: str
    b: str

    @property
    def title(self) -> str:
        return f"{self.kind} between {self.a!r} and {self.b!r}"

    @property
    def is_between_frames(self) -> bool:
        return True

    def is_inner(self, root: str) -> bool:
        return type(self).port is PairElement.port and WORLD not in (self.a, self.b)

    def port(self, kinematics: Kinematics) -> Port:
        from heavytop.system.forces.ports import PairPort

        return self._with_states(PairPort(kinematics, self.a, self.b))

    def check_names(self, frames: Collection[str], joints: Collection[str]) -> None:
        for name in (self.a, self.b):
            if name not in frames:
                raise unknown_name(f"body or frame (in {self.title})", name, frames)
        if self.a == self.b:
            raise ModelError(f"{self.kind} connects {self.a!r} with itself.")

    def lines(self) -> tuple[Line, ...]:
        """From the origin of a to that of b by default."""
        return (Line(self.a, (0.0, 0.0, 0.0), self.b, (0.0, 0.0, 0.0)),)


class JointElement(ForceElement):
    """A force element in a joint: ``x`` are the coordinates (nq,) of the joint, ``w`` its velocities (nv,) relative to the parent.

    Its force (nv,) is conjugate to those velocities: torques for angular velocities, forces for linear ones.

    Attributes
    ----------
    joint : name of the joint (that of the body it carries, unless ``connect(name=...)`` gave it another).

    Examples
    --------
    A progressive spring in a hinge:

    >>> import heavytop as ht
    >>> class Progressive(ht.JointElement):
    ...     def __init__(self, joint, stiffness):
    ...         self.joint, self.stiffness = joint, stiffness
    ...     def energy(self, q):
    ...         return 0.25 * self.stiffness * q[0] ** 4
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("door", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    >>> system.add(Progressive("door", 3.0))
    >>> system.derive().acceleration([2.0], [0.0])
    array([-24.])
    """

    joint: str

    @property
    def title(self) -> str:
        return f"{self.kind} in {self.joint!r}"

    def is_inner(self, root: str) -> bool:
        return type(self).port is JointElement.port and self.joint != root

    def port(self, kinematics: Kinematics) -> Port:
        from heavytop.system.forces.ports import JointPort

        return self._with_states(JointPort(kinematics, self.joint))

    def check_names(self, frames: Collection[str], joints: Collection[str]) -> None:
        if self.joint not in joints:
            raise unknown_name(f"joint (in {self.title})", self.joint, joints)


class CoordinateElement(ForceElement):
    """A force element on all coordinates q (``x``) and the joints' own velocities v (``w``).

    >>> issubclass(CoordinateElement, ForceElement)
    True
    """

    reads_coordinates = True

    def name_of(self, piece: str) -> str:
        return f"{self.kind}(q)" if piece in ("energy", "energy_gradient", "damping") else f"{self.kind}(q, v)"

    def port(self, kinematics: Kinematics) -> Port:
        from heavytop.system.forces.ports import SystemPort

        return SystemPort(kinematics)
