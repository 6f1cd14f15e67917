"""Tasks of inverse kinematics: residuals r(q) that vanish where a frame, a point, a direction or the centre of mass is as required.

Each task has rows r (m,) and their exact Jacobian J (m, n) by the joints' velocities, in metres, radians or pure numbers, on symbols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    as_array,
    concatenate,
    is_finite,
    jacobian,
    numbers,
    part,
    shape,
    sparse,
    submatrix,
    symbol,
    transpose,
)
from heavytop._format import Brief
from heavytop.compile import on_symbols
from heavytop.errors import ModelError, ShapeError, wrong_shape
from heavytop.geometry import linalg, se3, so3
from heavytop.system.description import WORLD
from heavytop.system.description.graph import placement
from heavytop.system.description.inputs import unit_axis
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.expressions import Expressions

LINEAR, ANGULAR, ALL = slice(0, 3), slice(3, 6), slice(None)
ON_MANIFOLD = 1e-6
"""Largest defect of the rotation of a given pose."""


class Kinematic:
    """Kinematics of a description in the joints' own velocities (n,), whatever velocities its model has.

    Attributes
    ----------
    axes : joint -> (place in q, place in v) of joints with one coordinate.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.q, self.p = expressions.q, expressions.p
        self.coordinates = expressions.coordinates
        self.nq, self.nv = self.coordinates.nq, self.coordinates.nv
        self.tree = expressions.tree(symbol("v", self.nv))
        self.axes = axes_of(expressions)

    def jacobian(self, value: Array) -> Array:
        """Derivative (m, n) of a vector (m,) of q along the velocities."""
        return sparse(jacobian(value, self.q) @ self.tree.joint_kinematics_matrix)

    @cached_property
    def rows(self) -> Array:
        """(n, n): velocities in the joints' own blocks per unit of each velocity, the identity unless some are absolute."""
        joints = [edge for edge in self.tree.edges if edge.joint.coordinates.nv]
        return sparse(np.concatenate([self.tree.relative_rows(edge.label) for edge in joints], axis=0))

    def displaced(self, step: Array) -> Array:
        """The configuration displaced by ``step`` (n,)."""
        joints = self.expressions.description.joints
        own = step if all(e.joint.velocity_frame == "relative" for e in joints) else np.matvec(self.rows, step)
        return self.coordinates.retract(self.q, own)

    def point(self, a: str, b: str, at: Array) -> tuple[Array, Array]:
        """Position (3,) in frame a of the point ``at`` (3,) of frame b, and its Jacobian (3, n) in axes of a."""
        motion = self.tree.motion(a, b)
        R, J = se3.rotation(motion.pose), motion.jacobian
        turned = submatrix(J, LINEAR, ALL) - so3.wed(at) @ submatrix(J, ANGULAR, ALL)
        return se3.transform(motion.pose, at), sparse(R @ turned)


def axes_of(expressions: Expressions) -> dict[str, tuple[int, int]]:
    """Joint -> (place in q, place in v) of the joints with one coordinate, which limits and postures concern."""
    found, at_q, at_v = {}, 0, 0
    for edge in expressions.description.joints:
        block = edge.joint.coordinates
        if block.nq == block.nv == 1:
            found[edge.label] = at_q, at_v
        at_q, at_v = at_q + block.nq, at_v + block.nv
    return found


class TaskRows(NamedTuple):
    """Residual r (m,) of a task, its Jacobian J (m, n), and the ``value`` (k,) that comes near a target where r vanishes, or None."""

    r: Array
    J: Array
    value: Array | None


class Part(NamedTuple):
    """TaskRows of a task that have a unit in common: their noun, their places and the unit."""

    noun: str
    rows: slice
    unit: str


class KinematicTask(Brief, ABC):
    """Base of all tasks of ``model.inverse_kinematics``.

    Attributes
    ----------
    weight : weight of the residual in the least squares: one number or one for each row; rows with weight 0 are free.
    priority : tasks with priority 1 come first; those with 2 are fulfilled as far as this changes nothing of the first, and so on.
    """

    weight: Any
    priority: int

    def _check(self) -> None:
        """Raise a ModelError for weights and priorities that mean nothing."""
        if (
            type(self.weight) is float
            and 0.0 < self.weight < np.inf
            and type(self.priority) is int
            and self.priority > 0
        ):
            return
        weights = numbers(self.weight, f"weight of {self.title}")
        if weights.shape not in ((), (self.count,)) or not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
            raise ModelError(
                f"weight of {self.title} must be one number or {self.count}, finite and not negative, got {weights.tolist()}."
            )
        if not np.any(weights > 0.0):
            raise ModelError(f"weight of {self.title} is 0 everywhere: leave the task out.")
        if not isinstance(self.priority, int) or self.priority < 1:
            raise ModelError(f"priority of {self.title} must be a whole number, 1 or more, got {self.priority!r}.")

    @property
    @abstractmethod
    def title(self) -> str:
        """The task and its place, for messages."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of rows m."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """TaskRows by unit."""

    @property
    @abstractmethod
    def structure(self) -> Hashable:
        """Everything that the traced rows depend on besides :meth:`data`."""

    @abstractmethod
    def data(self) -> Floats:
        """The numbers (..., d) of the target, then those of the task."""

    @abstractmethod
    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        """Residual and Jacobian with the symbols ``data`` (d,)."""

    def target(self) -> Floats:
        """The value (..., k) that the rows come near to."""
        raise NotImplementedError

    def fixed(self) -> Floats:
        """The numbers of :meth:`data` behind the target, which are the same for all problems of a batch."""
        return np.zeros(0)

    def weights(self) -> Floats:
        """Weight (m,) of each row."""
        return self._weights

    @cached_property
    def _weights(self) -> Floats:
        return np.full(self.count, self.weight, dtype=float)

    def value_weights(self) -> Floats:
        """Weight of each entry of the value."""
        return self.weights()


def _points(value: Any, what: str, size: int = 3) -> Floats:
    """Finite numbers (..., size)."""
    array = numbers(value, what)
    if array.ndim == 0 or array.shape[-1] != size:
        raise wrong_shape(what, ("...", size), array.shape)
    if not np.all(np.isfinite(array)):
        raise ShapeError(f"{what} must be finite.")
    return array


def _are_poses(G: Floats) -> bool:
    """Whether all of G (..., 4, 4) are poses; in one pass, as this is a large part of the time of a single problem."""
    R = G[..., :3, :3]
    defect = np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)).max(initial=0.0)
    last = np.abs(G[..., 3, :] - (0.0, 0.0, 0.0, 1.0)).max(initial=0.0)
    if not (defect <= ON_MANIFOLD and last <= ON_MANIFOLD):
        return False
    return bool((np.linalg.det(R) > 0.0).all()) and is_finite(G)


def _set(task: Any, **values: Any) -> None:
    """Store checked fields of a frozen dataclass as read-only arrays."""
    for name, value in values.items():
        kept = value.copy()
        kept.setflags(write=False)
        object.__setattr__(task, name, kept)


@dataclass(frozen=True, eq=False, repr=False)
class PoseTask(KinematicTask):
    """The pose of a frame: r = (position error in axes of ``relative_to``, rotation vector from the target), in m and rad.

    Parameters
    ----------
    frame : body or frame that is moved.
    pose : (..., 4, 4) its target in ``relative_to``.
    at : the part of the frame that reaches the target: a position (3,) or pose (4, 4) in the frame, such as that of a tool.
    relative_to : frame of the target.
    weight : one number, or six: position along x, y, z, rotation about x, y, z of the target. TaskRows with weight 0 are free.
    priority : see :class:`~heavytop.system.inverse_kinematics.tasks.KinematicTask`.

    >>> PoseTask("tool", np.eye(4), weight=(1, 1, 1, 1, 1, 0)).count
    6
    """

    frame: str
    pose: Any
    at: Any = None
    relative_to: str = WORLD
    weight: Any = 1.0
    priority: int = 1

    def __post_init__(self) -> None:
        what = self.title
        pose = numbers(self.pose, what)
        if pose.shape[-2:] != (4, 4):
            raise wrong_shape(what, ("...", 4, 4), pose.shape, "A point (..., 3) is a PositionTask.")
        if not _are_poses(pose):
            raise ModelError(f"{what} is not a pose: build it with se3.pose(R, r).")
        _set(self, pose=pose)
        if self.at is not None:
            at = np.asarray(placement(self.at, f"at of {self.title}"))
            if not linalg.is_pose(at, ON_MANIFOLD):
                raise ModelError(f"at of {self.title} is not a pose: build it with se3.pose(R, r).")
            _set(self, at=at)
        self._check()

    @property
    def title(self) -> str:
        return f"pose of {self.frame!r}"

    @property
    def count(self) -> int:
        return 6

    @property
    def parts(self) -> tuple[Part, ...]:
        return Part(f"position of {self.frame!r}", LINEAR, "m"), Part(f"rotation of {self.frame!r}", ANGULAR, "rad")

    @property
    def structure(self) -> Hashable:
        return PoseTask, self.frame, self.relative_to, self.at is not None

    def data(self) -> Floats:
        return self.target() if self.at is None else concatenate(self.target(), self.fixed())

    def fixed(self) -> Floats:
        return np.zeros(0) if self.at is None else np.concatenate([self.at[:3, 3], self.at[:3, :3].reshape(9)])

    def target(self) -> Floats:
        pose = self.pose
        return np.concatenate([pose[..., :3, 3], pose[..., :3, :3].reshape(*pose.shape[:-2], 9)], axis=-1)

    def value_weights(self) -> Floats:
        return self._value_weights

    @cached_property
    def _value_weights(self) -> Floats:
        # |R - R_target|^2 / 2 is about the squared angle
        w = self.weights()
        return np.concatenate([w[:3], [np.sqrt(w[3:] @ w[3:] / 6.0)] * 9])

    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        motion = kinematic.tree.motion(self.relative_to, self.frame)
        R, J = se3.rotation(motion.pose), motion.jacobian
        turn = submatrix(J, ANGULAR, ALL)
        at = np.zeros(3)
        if self.at is not None:
            at, own = part(data, 12, 15), np.reshape(part(data, 15, 24), (3, 3))
            R, turn = R @ own, sparse(transpose(own) @ turn)
        place, moved = kinematic.point(self.relative_to, self.frame, at)
        away = so3.log(transpose(np.reshape(part(data, 3, 12), (3, 3))) @ R)
        turned = sparse(so3.tangent_inverse(away) @ turn)
        r = concatenate(place - part(data, 0, 3), away)
        return TaskRows(r, sparse(np.concatenate([moved, turned], axis=0)), concatenate(place, np.reshape(R, (9,))))


@dataclass(frozen=True, eq=False, repr=False)
class PositionTask(KinematicTask):
    """A point of a frame: r = its position minus the target, in m and in axes of ``relative_to``.

    Parameters
    ----------
    frame : body or frame.
    point : (..., 3) target in ``relative_to``.
    at : (3,) the point in the frame.
    relative_to, weight, priority : as in :class:`PoseTask`; three weights.

    >>> PositionTask("foot", (0.1, 0.2, 0.0), weight=(1, 1, 0)).title
    "position of 'foot'"
    """

    frame: str
    point: Any
    at: Any = (0.0, 0.0, 0.0)
    relative_to: str = WORLD
    weight: Any = 1.0
    priority: int = 1

    def __post_init__(self) -> None:
        _set(self, point=_points(self.point, f"point of {self.title}"), at=_points(self.at, f"at of {self.title}"))
        self._check()

    @property
    def title(self) -> str:
        return f"position of {self.frame!r}"

    @property
    def count(self) -> int:
        return 3

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.title, LINEAR, "m"),)

    @property
    def structure(self) -> Hashable:
        return PositionTask, self.frame, self.relative_to

    def data(self) -> Floats:
        return concatenate(self.point, self.at)

    def fixed(self) -> Floats:
        return self.at

    def target(self) -> Floats:
        return self.point

    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        place, J = kinematic.point(self.relative_to, self.frame, part(data, 3, 6))
        return TaskRows(place - part(data, 0, 3), J, place)


@dataclass(frozen=True, eq=False, repr=False)
class DirectionTask(KinematicTask):
    """A direction of a frame: r = the unit vector along its ``axis`` minus the target, both in axes of ``relative_to``.

    The rotation about the axis is free. |r| = 2 sin(angle / 2).

    Parameters
    ----------
    frame : body or frame.
    direction : (..., 3) target, of any length, in ``relative_to``.
    axis : axis of the frame: "x", "-z", ... or a vector (3,).
    relative_to, weight, priority : as in :class:`PoseTask`.

    >>> DirectionTask("camera", (0, 0, -2), axis="z").direction
    array([ 0.,  0., -1.])
    """

    frame: str
    direction: Any
    axis: Any = "z"
    relative_to: str = WORLD
    weight: Any = 1.0
    priority: int = 1

    def __post_init__(self) -> None:
        what = f"direction of {self.frame!r}"
        direction = _points(self.direction, what)
        length = np.linalg.norm(direction, axis=-1, keepdims=True)
        if not np.all(length > 0.0):
            raise ModelError(f"{what} must have a length.")
        _set(self, direction=direction / length, axis=np.asarray(unit_axis(self.axis, self.title)))
        self._check()

    @property
    def title(self) -> str:
        return f"direction of {self.frame!r}"

    @property
    def count(self) -> int:
        return 3

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.title, LINEAR, "rad"),)

    @property
    def structure(self) -> Hashable:
        return DirectionTask, self.frame, self.relative_to

    def data(self) -> Floats:
        return concatenate(self.direction, self.axis)

    def fixed(self) -> Floats:
        return self.axis

    def target(self) -> Floats:
        return self.direction

    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        pointing, J = _pointing(kinematic, self.relative_to, self.frame, part(data, 3, 6))
        return TaskRows(pointing - part(data, 0, 3), J, pointing)


def _pointing(kinematic: Kinematic, a: str, b: str, axis: Array) -> tuple[Array, Array]:
    """The axis (3,) of frame b in axes of a, and its Jacobian: d(R e) = -R wed(e) omega."""
    motion = kinematic.tree.motion(a, b)
    R = se3.rotation(motion.pose)
    return np.matvec(R, axis), sparse(-(R @ so3.wed(axis)) @ submatrix(motion.jacobian, ANGULAR, ALL))


@dataclass(frozen=True, eq=False, repr=False)
class GazeTask(KinematicTask):
    """A line of sight: the ``axis`` of a frame at its point ``at`` points to a target; r = the axis minus the unit vector to the target.

    Parameters
    ----------
    frame : body or frame, such as a camera.
    point : (..., 3) target in ``relative_to``.
    axis : axis of the frame: "x", "-z", ... or a vector (3,).
    at : (3,) point of the frame from which it looks.
    relative_to, weight, priority : as in :class:`PoseTask`.

    >>> GazeTask("camera", (1, 0, 0.5), axis="z").title
    "gaze of 'camera'"
    """

    frame: str
    point: Any
    axis: Any = "z"
    at: Any = (0.0, 0.0, 0.0)
    relative_to: str = WORLD
    weight: Any = 1.0
    priority: int = 1

    def __post_init__(self) -> None:
        axis = np.asarray(unit_axis(self.axis, self.title))
        point, at = _points(self.point, f"point of {self.title}"), _points(self.at, f"at of {self.title}")
        _set(self, point=point, at=at, axis=axis)
        self._check()

    @property
    def title(self) -> str:
        return f"gaze of {self.frame!r}"

    @property
    def count(self) -> int:
        return 3

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.title, LINEAR, "rad"),)

    @property
    def structure(self) -> Hashable:
        return GazeTask, self.frame, self.relative_to

    def data(self) -> Floats:
        return concatenate(self.point, self.at, self.axis)

    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        place, moved = kinematic.point(self.relative_to, self.frame, part(data, 3, 6))
        pointing, turned = _pointing(kinematic, self.relative_to, self.frame, part(data, 6, 9))
        away = part(data, 0, 3) - place
        distance = np.sqrt(np.vecdot(away, away) + 1e-300)
        u = away / distance
        # du = -(I - u u^T) / distance times the motion of the point
        across = (np.eye(3) - np.reshape(u, (3, 1)) @ np.reshape(u, (1, 3))) / distance
        return TaskRows(pointing - u, sparse(turned + across @ moved), None)


@dataclass(frozen=True, eq=False, repr=False)
class CenterOfMassTask(KinematicTask):
    """The common centre of mass of all bodies: r = its position in the world minus the target, in m.

    Parameters
    ----------
    point : (..., 3) target in the world.
    weight, priority : as in :class:`PoseTask`; three weights, ``(1, 1, 0)`` for the projection on the floor.

    >>> CenterOfMassTask((0, 0, 0), weight=(1, 1, 0)).weights()
    array([1., 1., 0.])
    """

    point: Any
    weight: Any = 1.0
    priority: int = 1

    def __post_init__(self) -> None:
        _set(self, point=_points(self.point, "point of the centre of mass"))
        self._check()

    @property
    def title(self) -> str:
        return "centre of mass"

    @property
    def count(self) -> int:
        return 3

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.title, LINEAR, "m"),)

    @property
    def structure(self) -> Hashable:
        return (CenterOfMassTask,)

    def data(self) -> Floats:
        return self.point

    def target(self) -> Floats:
        return self.point

    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        description = kinematic.expressions.description
        if not description.inertias:
            raise ModelError(f"{description.name!r} has no masses, so it has no centre of mass.")
        terms = EquationTerms(description, kinematic.tree, kinematic.q, kinematic.tree.v)
        place = terms.center_of_mass
        return TaskRows(place - data, kinematic.jacobian(place), place)


@dataclass(frozen=True, eq=False, repr=False)
class PostureTask(KinematicTask):
    """A posture: r = coordinates of the joints with one axis minus the target, in rad or m; usually with a low priority.

    Parameters
    ----------
    q : (..., nq) target; coordinates of other joints are ignored.
    weight, priority : as in :class:`PoseTask`; one number.

    >>> PostureTask(np.zeros(6)).priority
    2
    """

    q: Any
    weight: Any = 1.0
    priority: int = 2
    places: tuple[int, ...] | None = None
    """Set by the solver: places of the joints in q."""

    def __post_init__(self) -> None:
        q = numbers(self.q, "q of a posture")
        if q.ndim == 0 or not is_finite(q):
            raise ShapeError("q of a posture must be finite numbers (..., nq).")
        _set(self, q=q)
        self._check()

    @property
    def title(self) -> str:
        return "posture"

    @property
    def count(self) -> int:
        return self.q.shape[-1] if self.places is None else len(self.places)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.title, slice(0, self.count), "rad or m"),)

    @property
    def structure(self) -> Hashable:
        return PostureTask, self.places

    def data(self) -> Floats:
        return self.q[..., list(self.places or ())]

    def target(self) -> Floats:
        return self.data()

    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        axes = list(kinematic.axes.values())
        value = concatenate(*(part(kinematic.q, at, at + 1) for at, _ in axes))
        return TaskRows(value - data, sparse(np.eye(kinematic.nv)[[at for _, at in axes]]), value)


@dataclass(frozen=True, eq=False, repr=False)
class FunctionTask(KinematicTask):
    """A user-defined residual ``function(q)`` (m,) in NumPy notation, which is zero when the task is fulfilled.

    It is traced and compiled once for a function: define the function once for many calls.

    Parameters
    ----------
    function : function of the configuration q (nq,).
    size : number of entries m of the residual.
    name : for reports.
    weight, priority : as in :class:`PoseTask`.

    >>> FunctionTask(lambda q: q[0] + q[1], 1, "sum of two angles").title
    'sum of two angles'
    """

    function: Callable[[Array], Array]
    size: int = 1
    name: str = "function"
    weight: Any = 1.0
    priority: int = 1

    def __post_init__(self) -> None:
        self._check()

    @property
    def title(self) -> str:
        return self.name

    @property
    def count(self) -> int:
        return self.size

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.title, slice(0, self.size), ""),)

    @property
    def structure(self) -> Hashable:
        return FunctionTask, self.function, self.size

    def data(self) -> Floats:
        return np.zeros(0)

    def rows(self, kinematic: Kinematic, data: Array) -> TaskRows:
        r = as_array(on_symbols(self.function, f"the task {self.name!r}")(kinematic.q))
        r = np.reshape(r, (1,)) if shape(r) == () else r
        if shape(r) != (self.size,):
            raise wrong_shape(f"the residual of the task {self.name!r}", (self.size,), shape(r))
        return TaskRows(r, kinematic.jacobian(r), None)
