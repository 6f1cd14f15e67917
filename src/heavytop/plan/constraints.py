"""Goals and constraints by name, at the end of a motion, at a gate, or along the path.

A constraint is ``lower <= function(scene) <= upper``. Constraints are values: equal arguments make equal constraints, and constraints that differ in
numbers only share their native code, so ``KeepOut("hull", (1, 0, 0), 0.3)`` at another position is not compiled again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, transpose, vector
from heavytop._format import Brief, format_vector
from heavytop.compile import on_symbols
from heavytop.errors import PlanError, unknown_name, wrong_shape
from heavytop.functions import Value
from heavytop.geometry import so3
from heavytop.plan.scene import NodeScene, check_frame, takes_time
from heavytop.system import TIME, Model

Triple = tuple[float, float, float]


class Constraint(Value, ABC):
    """A condition on a motion at a moment.

    >>> issubclass(Point, Constraint)
    True
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in reports."""

    @property
    def constants(self) -> np.ndarray:
        """Numbers that :meth:`function` finds in ``scene.constants``."""
        return np.zeros(0)

    @property
    def uses_time(self) -> bool:
        """Whether the function depends on the time explicitly."""
        return False

    @abstractmethod
    def function(self, scene: NodeScene) -> Array:
        """The values (m,)."""

    def bounds(self) -> tuple[Any, Any]:
        """Lower and upper bounds of the values: numbers or (m,); zero by default."""
        return 0.0, 0.0

    def check(self, model: Model) -> None:
        """Raise an error if the model lacks a name that the constraint uses."""

    def excess(self, values: np.ndarray) -> np.ndarray:
        """Distance of values (..., m) beyond the nearest of their bounds, negative inside; in m or rad for lengths and angles."""
        lower, upper = self.bounds()
        return np.maximum(lower - values, values - upper)

    def violation(self, values: np.ndarray) -> np.ndarray:
        """Distance of values (..., m) outside their bounds."""
        return np.maximum(self.excess(values), 0.0)

    def violation_at(self, position: np.ndarray) -> float:
        """Violation (m) with the constrained point at a position (3,) of the world, negative inside; -inf if it constrains no position."""
        return -np.inf


@dataclass(frozen=True)
class _OfFrame(Constraint):
    """A constraint of a frame."""

    frame: str

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)


@dataclass(frozen=True)
class Point(_OfFrame):
    """A point of a frame at a position of the world, within ``radius``.

    Parameters
    ----------
    frame : name of the frame or body. at : (3,) position in the world in m. offset : (3,) the point in the frame.
    radius : allowed distance; 0: exactly there.

    Examples
    --------
    >>> Point("hull", (1, 0, 2)).label
    "point of 'hull' at (1, 0, 2)"
    """

    at: Any
    offset: Any = (0.0, 0.0, 0.0)
    radius: float = 0.0

    def __post_init__(self) -> None:
        _set(self, at=_triple(self.at, "the position of a point"), offset=_triple(self.offset, "the offset of a point"))
        if not 0 <= self.radius < np.inf:
            raise PlanError(f"the radius around a point must be zero or positive, got {self.radius}.")

    @property
    def label(self) -> str:
        return f"point of {self.frame!r} at {format_vector(self.at)}"

    @property
    def constants(self) -> np.ndarray:
        return np.array([*self.at, self.radius])

    def function(self, scene: NodeScene) -> Array:
        away = scene.point(self.frame, self.offset) - scene.constants[:3]
        return away if self.radius == 0 else _outside_sphere(away, scene.constants[3])

    def bounds(self) -> tuple[Any, Any]:
        return (0.0, 0.0) if self.radius == 0 else (-np.inf, 0.0)

    def excess(self, values: np.ndarray) -> np.ndarray:
        return super().excess(values) if self.radius == 0 else _distance(values, self.radius) - self.radius

    def violation_at(self, position: np.ndarray) -> float:
        return float(np.linalg.norm(position - np.array(self.at))) - self.radius


@dataclass(frozen=True)
class Gate(Point):
    """A point that must be passed on the way; gates are passed in the given order, each ends a phase.

    >>> Gate("hull", (1, 0, 2), radius=0.2).label
    "gate of 'hull' at (1, 0, 2)"
    """

    @property
    def label(self) -> str:
        return f"gate of {self.frame!r} at {format_vector(self.at)}"


@dataclass(frozen=True, repr=False)
class AtPose(Brief, _OfFrame):
    """A frame in a given pose G (4, 4), all six degrees of freedom.

    >>> AtPose("hull", np.eye(4)).label
    "pose of 'hull'"
    """

    G: Any

    def __post_init__(self) -> None:
        if np.shape(self.G) != (4, 4):
            raise wrong_shape("a pose", (4, 4), np.shape(self.G))
        G = np.asarray(self.G, dtype=float)
        R = G[:3, :3]
        rigid = np.allclose(R.T @ R, np.eye(3), atol=1e-6) and np.linalg.det(R) > 0 and np.allclose(G[3], (0, 0, 0, 1))
        if not rigid:
            raise PlanError(
                f"a pose needs a rotation matrix, a position and (0, 0, 0, 1) as last row, got {G.tolist()}."
            )
        _set(self, G=tuple(map(tuple, G.tolist())))

    @property
    def label(self) -> str:
        return f"pose of {self.frame!r}"

    @property
    def constants(self) -> np.ndarray:
        G = np.array(self.G)
        return np.concatenate([G[:3, 3], G[:3, :3].reshape(-1)])

    def function(self, scene: NodeScene) -> Array:
        G, R = scene.pose(self.frame), np.reshape(scene.constants[3:12], (3, 3))
        return concatenate(G[:3, 3] - scene.constants[:3], so3.cayley_inverse(transpose(R) @ G[:3, :3]))

    def violation_at(self, position: np.ndarray) -> float:
        return float(np.linalg.norm(position - np.array(self.G)[:3, 3]))


@dataclass(frozen=True)
class KeepOut(_OfFrame):
    """A point of a frame stays out of a sphere.

    >>> KeepOut("hull", (1, 0, 1), 0.5).label
    "'hull' out of the sphere at (1, 0, 1)"
    """

    center: Any
    radius: float
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        center, offset = _triple(self.center, "the centre of a sphere"), _triple(self.offset, "the offset of a point")
        _set(self, center=center, offset=offset)
        if not 0 < self.radius < np.inf:
            raise PlanError(f"the radius of a sphere to keep out of must be positive, got {self.radius}.")

    @property
    def label(self) -> str:
        return f"{self.frame!r} out of the sphere at {format_vector(self.center)}"

    @property
    def constants(self) -> np.ndarray:
        return np.array([*self.center, self.radius])

    def function(self, scene: NodeScene) -> Array:
        return _outside_sphere(scene.point(self.frame, self.offset) - scene.constants[:3], scene.constants[3])

    def bounds(self) -> tuple[Any, Any]:
        return 0.0, np.inf

    def excess(self, values: np.ndarray) -> np.ndarray:
        """Depth (m) of the point in the sphere."""
        return self.radius - _distance(values, self.radius)

    def violation_at(self, position: np.ndarray) -> float:
        return self.radius - float(np.linalg.norm(position - np.array(self.center)))


@dataclass(frozen=True)
class KeepIn(_OfFrame):
    """A point of a frame stays in a box with edges along the axes of the world; infinite sides are allowed.

    >>> KeepIn("hull", (0, 0, 0), (1, 1, 2)).label
    "'hull' in the box from (0, 0, 0) to (1, 1, 2)"
    """

    lower: Any
    upper: Any
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        lower, upper = (np.asarray(side, dtype=float) for side in (self.lower, self.upper))
        for name, side in (("lower", lower), ("upper", upper)):
            if side.shape != (3,):
                raise wrong_shape(f"{name} corner of a box", (3,), side.shape)
        _set(self, lower=tuple(lower.tolist()), upper=tuple(upper.tolist()))
        _set(self, offset=_triple(self.offset, "the offset of a point"))
        _check_bounds(self.label, lower, upper)

    @property
    def label(self) -> str:
        return f"{self.frame!r} in the box from {format_vector(self.lower)} to {format_vector(self.upper)}"

    def function(self, scene: NodeScene) -> Array:
        return scene.point(self.frame, self.offset)

    def bounds(self) -> tuple[Any, Any]:
        return np.array(self.lower), np.array(self.upper)

    def violation_at(self, position: np.ndarray) -> float:
        return float(np.max(self.excess(position)))


POWER = 16
"""Of the norm that rounds a box: the larger, the nearer to its faces and the sharper at its edges."""
SWELL = 3.0 ** (1 / POWER)
"""The rounded body that holds the box is larger by this factor."""


@dataclass(frozen=True)
class KeepOutBox(_OfFrame):
    """A point of a frame stays out of a box with edges along the axes of the world.

    With the distances d from the centre and half the sides h, sum_i (d_i / h_i)^16 >= 3: a body with round edges that holds the box, with faces 7 %
    of half a side outside those of the box. :class:`HalfSpace` is for infinite walls.

    Examples
    --------
    >>> KeepOutBox("hull", (0, 0, 0), (1, 1, 2)).label
    "'hull' out of the box from (0, 0, 0) to (1, 1, 2)"
    """

    lower: Any
    upper: Any
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name, what in (("lower", "lower corner"), ("upper", "upper corner"), ("offset", "offset of the point")):
            _set(self, **{name: _triple(getattr(self, name), f"{what} of a box to keep out of")})
        if not np.all(np.array(self.lower) < self.upper):
            raise PlanError(
                f"the lower corner of a box to keep out of must lie below its upper one, got {self.lower} and {self.upper}."
            )

    @property
    def label(self) -> str:
        return f"{self.frame!r} out of the box from {format_vector(self.lower)} to {format_vector(self.upper)}"

    @property
    def center(self) -> np.ndarray:
        """Centre (3,) of the box."""
        return (np.array(self.lower) + np.array(self.upper)) / 2

    @property
    def half_sides(self) -> np.ndarray:
        """Half of the sides (3,)."""
        return (np.array(self.upper) - np.array(self.lower)) / 2

    @property
    def constants(self) -> np.ndarray:
        return np.concatenate([self.center, self.half_sides])

    def function(self, scene: NodeScene) -> Array:
        away = (scene.point(self.frame, self.offset) - scene.constants[:3]) / scene.constants[3:]
        squares = away * away
        # away from the centre by the norm; the small number keeps its slope finite in the centre itself
        return vector((np.sum(squares ** (POWER // 2)) + 1e-12) ** (1 / POWER) - SWELL)

    def bounds(self) -> tuple[Any, Any]:
        return 0.0, np.inf

    def excess(self, values: np.ndarray) -> np.ndarray:
        """Depth (m) of the point in the rounded box, along the shortest half side."""
        return -values * float(np.min(self.half_sides))

    def violation_at(self, position: np.ndarray) -> float:
        return float(np.min(np.minimum(position - np.array(self.lower), np.array(self.upper) - position)))


@dataclass(frozen=True)
class HalfSpace(_OfFrame):
    """A point of a frame stays on the side of a plane to which ``normal`` points: normal . position >= distance.

    >>> HalfSpace("hull", (0, 0, 1), 0.1).label
    "'hull' beyond the plane (0, 0, 1) . r = 0.1"
    """

    normal: Any
    distance: float
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        normal, offset = _direction(self.normal, "the normal of a plane"), _triple(self.offset, "the offset of a point")
        if not np.isfinite(float(self.distance)):
            raise PlanError(f"the distance of a plane must be finite, got {self.distance!r}.")
        _set(self, normal=normal, offset=offset)

    @property
    def label(self) -> str:
        return f"{self.frame!r} beyond the plane {format_vector(self.normal)} . r = {self.distance:g}"

    @property
    def constants(self) -> np.ndarray:
        return np.array(self.normal)

    def function(self, scene: NodeScene) -> Array:
        return vector(np.vecdot(scene.constants[:3], scene.point(self.frame, self.offset)))

    def bounds(self) -> tuple[Any, Any]:
        return float(self.distance), np.inf

    def violation_at(self, position: np.ndarray) -> float:
        return self.distance - float(np.dot(self.normal, position))


@dataclass(frozen=True)
class Cone(_OfFrame):
    """The axis of a frame stays within an angle of a direction of the world: attitude, or the swing of a load.

    Parameters
    ----------
    frame : frame of the axis. angle : largest angle in rad, 0 to pi. axis : (3,) in the frame. about : (3,) in the world.

    Examples
    --------
    >>> Cone("load", np.radians(30)).label
    "axis of 'load' within 30 degrees"
    """

    angle: float
    axis: Any = (0.0, 0.0, 1.0)
    about: Any = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        _set(self, axis=_direction(self.axis, "the axis of a cone"))
        _set(self, about=_direction(self.about, "the direction of a cone"))
        if not 0 < self.angle <= np.pi:
            raise PlanError(f"the angle of a cone must be between 0 and pi rad, got {self.angle}.")

    @property
    def label(self) -> str:
        return f"axis of {self.frame!r} within {np.degrees(self.angle):.4g} degrees"

    @property
    def constants(self) -> np.ndarray:
        return np.array([*self.axis, *self.about])

    def function(self, scene: NodeScene) -> Array:
        R = scene.pose(self.frame)[:3, :3]
        return vector(np.vecdot(scene.constants[3:6], np.matvec(R, scene.constants[:3])))

    def bounds(self) -> tuple[Any, Any]:
        return np.cos(self.angle), np.inf

    def excess(self, values: np.ndarray) -> np.ndarray:
        """Angle (rad) of the axis outside the cone."""
        return np.arccos(np.clip(values, -1.0, 1.0)) - self.angle


def swing(load: str, angle: float, axis: Any = (0.0, 0.0, 1.0)) -> Cone:
    """Bound the swing of a load by ``angle`` (rad) from rest: its ``axis``, which points up at rest, stays in a cone.

    >>> swing("load", np.radians(30)).label
    "axis of 'load' within 30 degrees"
    """
    return Cone(load, angle, axis)


@dataclass(frozen=True)
class Between(Constraint):
    """A coordinate, velocity or input by its name within bounds; equal bounds fix it.

    >>> Between("theta", -1.0, 1.0).label
    "'theta' in [-1, 1]"
    """

    name: str
    lower: float = -np.inf
    upper: float = np.inf

    def __post_init__(self) -> None:
        _set(self, lower=float(self.lower), upper=float(self.upper))
        _check_bounds(self.label, np.array(self.lower), np.array(self.upper))

    @property
    def label(self) -> str:
        return f"{self.name!r} in [{self.lower:g}, {self.upper:g}]"

    @property
    def uses_time(self) -> bool:
        return self.name == TIME

    def function(self, scene: NodeScene) -> Array:
        model = scene.model
        for names, values in ((model.u_names, scene.u), (model.v_names, scene.v), (scene.rates.q_names, scene.q)):
            if self.name in names:
                return vector(values[names.index(self.name)])
        raise unknown_name(f"input, velocity or coordinate of {model.name!r}", self.name, scene.rates.q_names)

    def bounds(self) -> tuple[Any, Any]:
        return self.lower, self.upper

    def check(self, model: Model) -> None:
        names = (*model.u_names, *model.v_names, *model.q_names)
        if self.name not in (*names, TIME):
            raise unknown_name(f"input, velocity or coordinate of {model.name!r}", self.name, names)


@dataclass(frozen=True, repr=False)
class Own(Brief, Constraint):
    """``lower <= function(q, v, u, t) <= upper`` with a function in NumPy notation that returns a number or a vector.

    It takes those of q, v, u and the time t (s) that it names; with t obstacles and gates may move.

    >>> Own(lambda q, v: q[0], lower=-1.0, upper=1.0, name="left wall").name
    'left wall'
    """

    inner: Callable[..., Array]
    lower: Any = 0.0
    upper: Any = 0.0
    name: str = "own constraint"

    def __post_init__(self) -> None:
        if not callable(self.inner):
            raise PlanError(f"{self.name}: Own needs a function of q, v, u and t, got {self.inner!r}.")
        lower, upper = (np.asarray(side, dtype=float) for side in (self.lower, self.upper))
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise wrong_shape(f"upper bound of {self.name!r}", lower.shape, upper.shape, "As many as lower bounds.")
        _check_bounds(self.name, lower, upper)
        sides = (tuple(side.tolist()) if side.ndim else float(side) for side in (lower, upper))
        _set(self, **dict(zip(("lower", "upper"), sides, strict=True)))

    @property
    def label(self) -> str:
        return self.name

    @property
    def uses_time(self) -> bool:
        return takes_time(self.inner)

    def function(self, scene: NodeScene) -> Array:
        value = as_array(on_symbols(scene.call, self.name, PlanError)(self.inner))
        if 0 in value.shape:
            raise PlanError(f"the function of {self.name!r} returns an empty array of shape {tuple(value.shape)}.")
        return np.reshape(value, (1,)) if len(value.shape) == 0 else value

    def bounds(self) -> tuple[Any, Any]:
        return np.array(self.lower), np.array(self.upper)


@dataclass(frozen=True)
class Rest(Constraint):
    """All velocities zero.

    >>> Rest().label
    'rest'
    """

    @property
    def label(self) -> str:
        return "rest"

    def function(self, scene: NodeScene) -> Array:
        return scene.v


def _outside_sphere(away: Array, radius: Array) -> Array:
    """(|d|^2 - r^2) / 2 r (1,), with the slope of the distance on the sphere."""
    return vector((np.vecdot(away, away) / radius - radius) / 2)


def _distance(values: np.ndarray, radius: float) -> np.ndarray:
    """The distance d from values (d^2 / r - r) / 2."""
    return np.sqrt(np.maximum(radius * (2.0 * values + radius), 0.0))


def _set(constraint: Constraint, **fields: Any) -> None:
    """Set fields of a frozen dataclass while it is constructed."""
    for name, value in fields.items():
        object.__setattr__(constraint, name, value)


def _triple(value: Any, what: str) -> Triple:
    array = np.asarray(value, dtype=float)
    if array.shape != (3,) or not np.all(np.isfinite(array)):
        raise wrong_shape(what, (3,), array.shape, "Three finite numbers in m.")
    return tuple(array.tolist())


def _direction(value: Any, what: str) -> Triple:
    array = np.array(_triple(value, what))
    if not np.linalg.norm(array) > 0:
        raise PlanError(f"{what} must not be zero.")
    return tuple((array / np.linalg.norm(array)).tolist())


def _check_bounds(label: str, lower: np.ndarray, upper: np.ndarray) -> None:
    if not np.all(lower <= upper) or np.any(lower == np.inf) or np.any(upper == -np.inf):
        raise PlanError(f"{label}: bounds are empty: lower {lower.tolist()}, upper {upper.tolist()}.")
