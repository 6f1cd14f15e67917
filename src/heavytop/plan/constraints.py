"""Goals and constraints by name: what a motion must do at its end, at a gate, or all the way.

A constraint gives ``lower <= function(scene) <= upper``. All of them are objects of numbers and names, so that equal kinds share their
native code: ``KeepOut("hull", (1, 0, 0), 0.3)`` at another place costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, transpose, vector
from heavytop._format import Brief, format_vector
from heavytop._pickling import Unchanging
from heavytop.compile import on_symbols
from heavytop.errors import PlanError, wrong_shape
from heavytop.geometry import so3
from heavytop.plan.scene import NodeScene, check_frame, node_function
from heavytop.plan.time_augmented_model import call
from heavytop.system.model import Model


class Constraint(Unchanging, ABC):
    """What a motion must fulfil at a moment.

    >>> issubclass(Point, Constraint)
    True
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in reports."""

    @property
    def kind(self) -> str | None:
        """Text that determines :meth:`function`; None if it cannot be told (functions of the user)."""
        return None

    @property
    def own(self) -> np.ndarray:
        """Numbers that :meth:`function` finds in ``scene.own``."""
        return np.zeros(0)

    @abstractmethod
    def function(self, scene: NodeScene) -> Array:
        """The values (m,)."""

    @abstractmethod
    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds (m,) of the values."""

    def check(self, model: Model) -> None:
        """Raise what is wrong with the constraint for this model."""
        lower, upper = self.bounds(model)
        if np.any(np.isnan(lower)) or np.any(np.isnan(upper)) or np.any(lower > upper):
            raise PlanError(
                f"{self.label}: the lower bound {lower.tolist()} is above the upper bound {upper.tolist()}."
            )
        if np.any(lower == np.inf) or np.any(upper == -np.inf):
            raise PlanError(f"{self.label}: the bounds {lower.tolist()} and {upper.tolist()} leave no number.")

    def excess(self, model: Model, values: np.ndarray) -> np.ndarray:
        """How far values (..., m) are beyond the nearest of their bounds, negative inside; in m or rad where they are lengths or angles."""
        lower, upper = self.bounds(model)
        return np.maximum(lower - values, values - upper)

    def missed_by(self, at: np.ndarray) -> float:
        """How far (m) its own point misses it at a place (3,) of the world, negative where it does not; of no place: never."""
        return -np.inf

    def violation(self, model: Model, values: np.ndarray) -> np.ndarray:
        """How far values (..., m) are outside their bounds."""
        return np.maximum(self.excess(model, values), 0.0)


def _triple(value: Any, what: str) -> tuple[float, float, float]:
    array = np.asarray(value, dtype=float)
    if array.shape != (3,) or not np.all(np.isfinite(array)):
        raise wrong_shape(what, (3,), array.shape, "Three finite numbers in m.")
    return tuple(array.tolist())


@dataclass(frozen=True)
class Point(Constraint):
    """A point of a frame at a place of the world, within ``radius``.

    Parameters
    ----------
    frame : name of the frame or body. at : (3,) place in the world in m. offset : (3,) the point in the frame.
    radius : how far it may be away; 0: exactly there.

    Examples
    --------
    >>> Point("hull", (1, 0, 2)).label
    "point of 'hull' at (1, 0, 2)"
    """

    frame: str
    at: Any
    offset: Any = (0.0, 0.0, 0.0)
    radius: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", _triple(self.at, "the place of a point"))
        object.__setattr__(self, "offset", _triple(self.offset, "the offset of a point"))
        if not 0 <= self.radius < np.inf:
            raise PlanError(f"the radius around a point must be zero or positive, got {self.radius}.")

    @property
    def label(self) -> str:
        return f"point of {self.frame!r} at {format_vector(self.at)}"

    @property
    def kind(self) -> str:
        return f"point {self.frame} {self.offset} {self.radius > 0}"

    @property
    def own(self) -> np.ndarray:
        return np.array([*self.at, self.radius])

    def function(self, scene: NodeScene) -> Array:
        away = scene.point(self.frame, self.offset) - scene.own[:3]
        # (|d|^2 - r^2) / 2 r has the slope of the distance where it is zero
        return away if self.radius == 0 else vector((np.vecdot(away, away) / scene.own[3] - scene.own[3]) / 2)

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return (np.zeros(3), np.zeros(3)) if self.radius == 0 else (np.full(1, -np.inf), np.zeros(1))

    def excess(self, model: Model, values: np.ndarray) -> np.ndarray:
        return super().excess(model, values) if self.radius == 0 else _distance(values, self.radius) - self.radius

    def missed_by(self, at: np.ndarray) -> float:
        return float(np.linalg.norm(at - np.array(self.at))) - self.radius

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)


@dataclass(frozen=True)
class Gate(Point):
    """A point that must be passed on the way; gates are passed in the order in which they are given, each ends a phase.

    >>> Gate("hull", (1, 0, 2), radius=0.2).label
    "gate of 'hull' at (1, 0, 2)"
    """

    @property
    def label(self) -> str:
        return f"gate of {self.frame!r} at {format_vector(self.at)}"


@dataclass(frozen=True, eq=False, repr=False)
class AtPose(Brief, Constraint):
    """A frame in a given pose G (4, 4), all six degrees of freedom.

    >>> AtPose("hull", np.eye(4)).label
    "pose of 'hull'"
    """

    frame: str
    G: Any

    def __post_init__(self) -> None:
        if np.shape(self.G) != (4, 4):
            raise wrong_shape("a pose", (4, 4), np.shape(self.G))
        G = np.asarray(self.G, dtype=float)
        R = G[:3, :3]
        rigid = np.allclose(R.T @ R, np.eye(3), atol=1e-6) and np.linalg.det(R) > 0 and np.allclose(G[3], (0, 0, 0, 1))
        if not np.all(np.isfinite(G)) or not rigid:
            raise PlanError(f"a pose needs a rotation matrix, a place and (0, 0, 0, 1) as last row, got {G.tolist()}.")

    @property
    def label(self) -> str:
        return f"pose of {self.frame!r}"

    @property
    def kind(self) -> str:
        return f"pose {self.frame}"

    @property
    def own(self) -> np.ndarray:
        G = np.asarray(self.G, dtype=float)
        return np.concatenate([G[:3, 3], G[:3, :3].reshape(-1)])

    def function(self, scene: NodeScene) -> Array:
        G, R = scene.pose(self.frame), np.reshape(scene.own[3:12], (3, 3))
        return concatenate(G[:3, 3] - scene.own[:3], so3.cayley_inverse(transpose(R) @ G[:3, :3]))

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(6), np.zeros(6)

    def missed_by(self, at: np.ndarray) -> float:
        return float(np.linalg.norm(at - np.asarray(self.G, dtype=float)[:3, 3]))

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)


@dataclass(frozen=True)
class KeepOut(Constraint):
    """A point of a frame stays out of a sphere.

    >>> KeepOut("hull", (1, 0, 1), 0.5).label
    "'hull' out of the sphere at (1, 0, 1)"
    """

    frame: str
    center: Any
    radius: float
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _triple(self.center, "the centre of a sphere"))
        object.__setattr__(self, "offset", _triple(self.offset, "the offset of a point"))
        if not 0 < self.radius < np.inf:
            raise PlanError(f"the radius of a sphere to keep out of must be positive, got {self.radius}.")

    @property
    def label(self) -> str:
        return f"{self.frame!r} out of the sphere at {format_vector(self.center)}"

    @property
    def kind(self) -> str:
        return f"keep out {self.frame} {self.offset}"

    @property
    def own(self) -> np.ndarray:
        return np.array([*self.center, self.radius])

    def function(self, scene: NodeScene) -> Array:
        away = scene.point(self.frame, self.offset) - scene.own[:3]
        return vector((np.vecdot(away, away) / scene.own[3] - scene.own[3]) / 2)

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(1), np.full(1, np.inf)

    def excess(self, model: Model, values: np.ndarray) -> np.ndarray:
        """How deep (m) the point is in the sphere."""
        return self.radius - _distance(values, self.radius)

    def missed_by(self, at: np.ndarray) -> float:
        return self.radius - float(np.linalg.norm(at - np.array(self.center)))

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)


@dataclass(frozen=True)
class KeepIn(Constraint):
    """A point of a frame stays in a box with edges along the axes of the world; infinite sides are allowed.

    >>> KeepIn("hull", (0, 0, 0), (1, 1, 2)).label
    "'hull' in the box from (0, 0, 0) to (1, 1, 2)"
    """

    frame: str
    lower: Any
    upper: Any
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            side = np.asarray(getattr(self, name), dtype=float)
            if side.shape != (3,):
                raise wrong_shape(f"{name} corner of a box", (3,), side.shape)
            object.__setattr__(self, name, tuple(side.tolist()))
        object.__setattr__(self, "offset", _triple(self.offset, "the offset of a point"))

    @property
    def label(self) -> str:
        return f"{self.frame!r} in the box from {format_vector(self.lower)} to {format_vector(self.upper)}"

    @property
    def kind(self) -> str:
        return f"box {self.frame} {self.offset}"

    def function(self, scene: NodeScene) -> Array:
        return scene.point(self.frame, self.offset)

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.lower), np.array(self.upper)

    def missed_by(self, at: np.ndarray) -> float:
        return float(np.max(np.maximum(np.array(self.lower) - at, at - np.array(self.upper))))

    def check(self, model: Model) -> None:
        super().check(model)
        check_frame(model, self.frame)


@dataclass(frozen=True)
class HalfSpace(Constraint):
    """A point of a frame stays on the side of a plane to which ``normal`` points: normal . place >= distance.

    >>> HalfSpace("hull", (0, 0, 1), 0.1).label
    "'hull' beyond the plane (0, 0, 1) . r = 0.1"
    """

    frame: str
    normal: Any
    distance: float
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        normal = np.array(_triple(self.normal, "the normal of a plane"))
        if not np.linalg.norm(normal) > 0:
            raise PlanError("the normal of a plane must not be zero.")
        if not np.isfinite(float(self.distance)):
            raise PlanError(f"the distance of a plane must be finite, got {self.distance!r}.")
        object.__setattr__(self, "normal", tuple((normal / np.linalg.norm(normal)).tolist()))
        object.__setattr__(self, "offset", _triple(self.offset, "the offset of a point"))

    @property
    def label(self) -> str:
        return f"{self.frame!r} beyond the plane {format_vector(self.normal)} . r = {self.distance:g}"

    @property
    def kind(self) -> str:
        return f"half space {self.frame} {self.offset}"

    @property
    def own(self) -> np.ndarray:
        return np.array(self.normal)

    def function(self, scene: NodeScene) -> Array:
        return vector(np.vecdot(scene.own[:3], scene.point(self.frame, self.offset)))

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.array([float(self.distance)]), np.full(1, np.inf)

    def missed_by(self, at: np.ndarray) -> float:
        return self.distance - float(np.dot(self.normal, at))

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)


@dataclass(frozen=True)
class Cone(Constraint):
    """The axis of a frame stays within an angle of a direction of the world: attitude, or the swing of a load.

    Parameters
    ----------
    frame : whose axis it is. angle : largest angle in rad, 0 to pi. axis : (3,) in the frame. about : (3,) in the world.

    Examples
    --------
    >>> Cone("load", np.radians(30)).label
    "axis of 'load' within 30 degrees"
    """

    frame: str
    angle: float
    axis: Any = (0.0, 0.0, 1.0)
    about: Any = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        for name in ("axis", "about"):
            value = np.array(_triple(getattr(self, name), f"the {name} of a cone"))
            if not np.linalg.norm(value) > 0:
                raise PlanError(f"the {name} of a cone must not be zero.")
            object.__setattr__(self, name, tuple((value / np.linalg.norm(value)).tolist()))
        if not 0 < self.angle <= np.pi:
            raise PlanError(f"the angle of a cone must be between 0 and pi rad, got {self.angle}.")

    @property
    def label(self) -> str:
        return f"axis of {self.frame!r} within {np.degrees(self.angle):.4g} degrees"

    @property
    def kind(self) -> str:
        return f"cone {self.frame}"

    @property
    def own(self) -> np.ndarray:
        return np.array([*self.axis, *self.about])

    def function(self, scene: NodeScene) -> Array:
        R = scene.pose(self.frame)[:3, :3]
        return vector(np.vecdot(scene.own[3:6], np.matvec(R, scene.own[:3])))

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.array([np.cos(self.angle)]), np.full(1, np.inf)

    def excess(self, model: Model, values: np.ndarray) -> np.ndarray:
        """By which angle (rad) the axis is outside."""
        return np.arccos(np.clip(values, -1.0, 1.0)) - self.angle

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)


def swing(load: str, angle: float, axis: Any = (0.0, 0.0, 1.0)) -> Cone:
    """The load swings at most by ``angle`` (rad) from where it hangs: its ``axis``, which points up at rest, stays in a cone.

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

    @property
    def label(self) -> str:
        return f"{self.name!r} in [{self.lower:g}, {self.upper:g}]"

    @property
    def kind(self) -> str:
        return f"between {self.name}"

    def function(self, scene: NodeScene) -> Array:
        model = scene.model
        for names, values in ((model.u_names, scene.u), (model.v_names, scene.v), (model.q_names, scene.q)):
            if self.name in names:
                return vector(values[names.index(self.name)])
        raise AssertionError(self.name)

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.array([float(self.lower)]), np.array([float(self.upper)])

    def check(self, model: Model) -> None:
        from heavytop.errors import unknown_name

        super().check(model)
        names = (*model.u_names, *model.v_names, *model.q_names)
        if self.name not in names:
            raise unknown_name(f"input, velocity or coordinate of {model.name!r}", self.name, names)


@dataclass(frozen=True, eq=False, repr=False)
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

    @property
    def label(self) -> str:
        return self.name

    def function(self, scene: NodeScene) -> Array:
        if not callable(self.inner):
            raise PlanError(f"{self.name}: Own needs a function of q, v, u and t, got {self.inner!r}.")
        value = as_array(on_symbols(call, self.name, PlanError)(self.inner, scene))
        if 0 in value.shape:
            raise PlanError(
                f"the function of {self.name!r} has no values: its array has the shape {tuple(value.shape)}."
            )
        return np.reshape(value, (1,)) if len(value.shape) == 0 else value

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        size = self._size(model)
        sides = []
        for name in ("lower", "upper"):
            side = np.atleast_1d(np.asarray(getattr(self, name), dtype=float))
            if side.shape not in ((1,), (size,)):
                raise wrong_shape(
                    f"{name} bound of {self.name!r}", (size,), side.shape, "As many as the function has values."
                )
            sides.append(np.broadcast_to(side, (size,)).copy())
        return sides[0], sides[1]

    def _size(self, model: Model) -> int:
        """How many values the function has."""
        known = vars(self).get("_known")
        if known is None or known[0] is not model:
            function = node_function(model, "constraint", self.function, 0, None)
            known = model, function.patterns[0].shape[0]
            object.__setattr__(self, "_known", known)
        return known[1]


@dataclass(frozen=True, eq=False)
class Rest(Constraint):
    """All velocities zero.

    >>> Rest().label
    'rest'
    """

    @property
    def label(self) -> str:
        return "rest"

    @property
    def kind(self) -> str:
        return "rest"

    def function(self, scene: NodeScene) -> Array:
        return scene.v

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(model.nv), np.zeros(model.nv)


def _distance(values: np.ndarray, radius: float) -> np.ndarray:
    """The distance d from values (d^2 / r - r) / 2."""
    return np.sqrt(np.maximum(radius * (2.0 * values + radius), 0.0))
