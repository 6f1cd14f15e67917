"""What a plan makes least: time, effort, jerk, distance from a reference, functions of the user; they can be added and scaled.

>>> Time() + 1e-3 * Effort()
Time() + 0.001 * Effort()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, as_array, directional, shape, symbol
from heavytop._pickling import Unchanging
from heavytop.compile import on_symbols, trace_of
from heavytop.errors import PlanError, wrong_shape
from heavytop.ocp.charts import miss
from heavytop.plan.scene import NodeScene, check_frame
from heavytop.plan.time_augmented_model import call
from heavytop.system.model import Model

if TYPE_CHECKING:
    from heavytop.control.references.reference import Reference


class Cost(Unchanging, ABC):
    """A cost; costs can be added and multiplied by numbers.

    >>> issubclass(Time, Cost)
    True
    """

    weight: float = 1.0
    __array_ufunc__ = None  # an array is no factor, and NumPy shall not make an array of costs

    def __add__(self, other: Cost) -> Sum:
        if not isinstance(other, Cost):
            return NotImplemented
        return Sum((*self.terms, *other.terms))

    def __rmul__(self, factor: float) -> Sum:
        if np.ndim(factor):
            raise PlanError(f"a cost must be multiplied by one number, got an array of shape {np.shape(factor)}.")
        factor = float(factor)
        if not 0 <= factor < np.inf:
            raise PlanError(f"a cost must be multiplied by a finite, non-negative number, got {factor}.")
        return Sum(tuple((factor * weight, term) for weight, term in self.terms))

    __mul__ = __rmul__

    @property
    def terms(self) -> tuple[tuple[float, Cost], ...]:
        """Weights and single costs."""
        return ((1.0, self),)

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raise what is wrong with the cost for this model."""


class RunningCost(Cost):
    """A cost that is the integral of a cost per time."""

    @property
    def kind(self) -> str | None:
        """Text that determines :meth:`integrand`, or None."""
        return None

    def own(self, model: Model) -> np.ndarray:
        """Numbers that :meth:`integrand` finds in ``scene.own``."""
        return np.zeros(0)

    @abstractmethod
    def integrand(self, scene: NodeScene) -> Array:
        """Cost per time."""

    def check(self, model: Model) -> None:
        self.own(model)


def _check_weights(what: str, values: np.ndarray, positive: bool) -> None:
    if not np.all(np.isfinite(values)) or (positive and np.any(values < 0)):
        raise PlanError(f"{what} must be finite{' and not negative' if positive else ''}, got {values.tolist()}.")


@dataclass(frozen=True, eq=False)
class Sum(Cost):
    """A weighted sum of costs."""

    parts: tuple[tuple[float, Cost], ...]

    @property
    def terms(self) -> tuple[tuple[float, Cost], ...]:
        return self.parts

    def check(self, model: Model) -> None:
        for _, term in self.parts:
            term.check(model)

    def __repr__(self) -> str:
        return " + ".join(repr(t) if w == 1.0 else f"{w:g} * {t!r}" for w, t in self.parts)


@dataclass(frozen=True)
class Time(RunningCost):
    """Duration in s.

    >>> Time() + 0.1 * Speed()
    Time() + 0.1 * Speed()
    """

    @property
    def kind(self) -> str:
        return "time"

    def integrand(self, scene: NodeScene) -> Array:
        return np.asarray(1.0)


@dataclass(frozen=True, eq=False)
class Effort(RunningCost):
    """Integral of ``sum_i weights_i (u_i - about_i)^2``.

    Parameters
    ----------
    about : (nu,) inputs that cost nothing; None: zero. weights : a number or (nu,).

    Examples
    --------
    >>> 2.0 * Effort()
    2 * Effort()
    """

    about: Any = None
    weights: Any = 1.0

    def __repr__(self) -> str:
        return "Effort()"

    @property
    def kind(self) -> str:
        return "effort"

    def own(self, model: Model) -> np.ndarray:
        parts = []
        for name, value in (("about", 0.0 if self.about is None else self.about), ("weights", self.weights)):
            array = np.asarray(value, dtype=float)
            if array.shape not in ((), (model.nu,)):
                raise wrong_shape(f"{name} of Effort", (model.nu,), array.shape)
            _check_weights(f"{name} of Effort", array, name == "weights")
            parts.append(np.broadcast_to(array, (model.nu,)))
        return np.concatenate(parts)

    def integrand(self, scene: NodeScene) -> Array:
        n = scene.model.nu
        away = scene.u - scene.own[:n]
        return np.vecdot(scene.own[n : 2 * n], away * away)


@dataclass(frozen=True, eq=False)
class Speed(RunningCost):
    """Integral of ``sum_i weights_i v_i^2`` over the velocity coordinates.

    >>> Time() + 0.1 * Speed()
    Time() + 0.1 * Speed()
    """

    weights: Any = 1.0

    def __repr__(self) -> str:
        return "Speed()"

    @property
    def kind(self) -> str:
        return "speed"

    def own(self, model: Model) -> np.ndarray:
        array = np.asarray(self.weights, dtype=float)
        if array.shape not in ((), (model.nv,)):
            raise wrong_shape("weights of Speed", (model.nv,), array.shape)
        _check_weights("weights of Speed", array, True)
        return np.broadcast_to(array, (model.nv,)).copy()

    def integrand(self, scene: NodeScene) -> Array:
        return np.vecdot(scene.own[: scene.model.nv], scene.v * scene.v)


@dataclass(frozen=True)
class Jerk(RunningCost):
    """Integral of the squared jerk of a point of a frame; inputs are linear in time then, and their rate is part of it.

    >>> Jerk("hull").frame
    'hull'
    """

    frame: str
    offset: Any = (0.0, 0.0, 0.0)

    @property
    def kind(self) -> str:
        return f"jerk {self.frame} {tuple(map(float, self.offset))}"

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)

    def integrand(self, scene: NodeScene) -> Array:
        """|j|^2 with the jerk j, the third rate of the place of the point along the motion."""
        model, sizes = scene.model, {"q": scene.model.nq, "v": scene.model.nv, "u": scene.model.nu}
        own = {name: symbol(name, size) for name, size in sizes.items()}
        p, rate = symbol("p", len(model.parameter_names)), symbol("u_rate", model.nu)
        at = NodeScene(model, own["q"], own["v"], own["u"], p, symbol("none", 0))
        (q_rate,) = model.traced("rate").expressions(at.q, at.v, p)
        along = lambda x: (  # noqa: E731
            directional(x, at.q, q_rate) + directional(x, at.v, at.acceleration()) + directional(x, at.u, rate)
        )
        jerk = along(along(directional(at.point(self.frame, self.offset), at.q, q_rate)))
        traced = trace_of("jerk", {**own, "p": p, "u_rate": rate}, {"square": np.vecdot(jerk, jerk)})
        return traced.expressions(scene.q, scene.v, scene.u, scene.p, scene.u_rate)[0]


@dataclass(frozen=True, eq=False)
class Distance(Cost):
    """Sum over the nodes of the squared distance from a reference, times the step: a plan that stays near it.

    Parameters
    ----------
    reference : to stay near. places, speeds : weights of places in the chart around q_R and of velocities.

    Examples
    --------
    >>> from dataclasses import fields
    >>> [field.name for field in fields(Distance)]
    ['reference', 'places', 'speeds']
    """

    reference: Reference
    places: float = 1.0
    speeds: float = 0.0

    def __repr__(self) -> str:
        return "Distance()"

    def check(self, model: Model) -> None:
        own = self.reference.model
        if (own.nq, own.nv) != (model.nq, model.nv):
            raise PlanError(
                f"Distance: the reference is one of {own.name!r} with {own.nq} coordinates, the plan one of {model.name!r} with {model.nq}."
            )
        _check_weights("weights of Distance", np.array([self.places, self.speeds], dtype=float), True)

    def at_node(self, scene: NodeScene) -> Array:
        """Squared distance (1,) from (q_R, v_R) = scene.own."""
        nq, nv = scene.model.nq, scene.model.nv
        away = miss(scene.model.coordinates, scene.own[:nq], scene.q)
        faster = scene.v - scene.own[nq : nq + nv]
        return np.reshape(self.places * np.vecdot(away, away) + self.speeds * np.vecdot(faster, faster), (1,))


@dataclass(frozen=True, eq=False)
class OwnCost(RunningCost):
    """Integral of ``function(q, v, u, t)``, a number in NumPy notation; it takes those of q, v, u and t that it names.

    >>> callable(OwnCost(lambda q, v: q[0] ** 2).inner)
    True
    """

    inner: Callable[..., Array]

    def __repr__(self) -> str:
        return "OwnCost()"

    def integrand(self, scene: NodeScene) -> Array:
        value = as_array(on_symbols(call, "OwnCost", PlanError)(self.inner, scene))
        if prod(shape(value)) != 1:
            raise PlanError(f"the function of OwnCost must return a number, got an array of shape {shape(value)}.")
        return np.reshape(value, ())

    def as_constraint(self, scene: NodeScene) -> Array:
        """The integrand as a vector (1,)."""
        return np.reshape(self.integrand(scene), (1,))

    def check(self, model: Model) -> None:
        if not callable(self.inner):
            raise PlanError(f"OwnCost needs a function of q, v, u and t, got {self.inner!r}.")
