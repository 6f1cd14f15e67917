"""Costs of a plan: time, effort, jerk, distance from a reference, user-defined functions; they can be added and scaled.

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
from heavytop.compile import on_symbols, trace_of
from heavytop.errors import PlanError, wrong_shape
from heavytop.functions import Value
from heavytop.ocp import residual
from heavytop.plan.scene import NodeScene, check_frame, takes_time
from heavytop.system import Model

if TYPE_CHECKING:
    from heavytop.control import Reference


class Cost(Value, ABC):
    """A cost; costs can be added and multiplied by numbers.

    >>> issubclass(Time, Cost)
    True
    """

    __array_ufunc__ = None  # NumPy must not make an array of costs

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

    @property
    def uses_time(self) -> bool:
        """Whether the cost depends on the time explicitly."""
        return False

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raise an error if the cost does not fit the model."""


class RunningCost(Cost):
    """The integral of a cost per time."""

    def constants(self, model: Model) -> np.ndarray:
        """Numbers that :meth:`integrand` finds in ``scene.constants``."""
        return np.zeros(0)

    @abstractmethod
    def integrand(self, scene: NodeScene) -> Array:
        """Cost per time."""

    def check(self, model: Model) -> None:
        self.constants(model)


def _weights(value: Any, what: str, size: int, signed: bool = False) -> np.ndarray:
    """Finite numbers (size,) from one number or as many, not negative unless signed."""
    array = np.asarray(value, dtype=float)
    if array.shape not in ((), (size,)):
        raise wrong_shape(what, (size,), array.shape)
    if not np.all(np.isfinite(array)) or (not signed and np.any(array < 0)):
        raise PlanError(f"{what} must be finite{'' if signed else ' and not negative'}, got {array.tolist()}.")
    return np.broadcast_to(array, (size,))


def _as_value(cost: Cost, *names: str) -> None:
    """Store arrays of a frozen dataclass as tuples, so that equal costs compare equal."""
    for name in names:
        value = getattr(cost, name)
        if isinstance(value, np.ndarray | list):
            object.__setattr__(cost, name, tuple(np.asarray(value, dtype=float).tolist()))


@dataclass(frozen=True)
class Sum(Cost):
    """A weighted sum of costs."""

    parts: tuple[tuple[float, Cost], ...]

    @property
    def terms(self) -> tuple[tuple[float, Cost], ...]:
        return self.parts

    @property
    def uses_time(self) -> bool:
        return any(term.uses_time for _, term in self.parts)

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

    def integrand(self, scene: NodeScene) -> Array:
        return np.asarray(1.0)


@dataclass(frozen=True, repr=False)
class Effort(RunningCost):
    """Integral of ``sum_i weights_i (u_i - about_i)^2``.

    Parameters
    ----------
    about : (nu,) inputs of zero cost; None: zero. weights : a number or (nu,).

    Examples
    --------
    >>> 2.0 * Effort()
    2 * Effort()
    """

    about: Any = None
    weights: Any = 1.0

    def __post_init__(self) -> None:
        _as_value(self, "about", "weights")

    def __repr__(self) -> str:
        return "Effort()"

    def constants(self, model: Model) -> np.ndarray:
        about = _weights(0.0 if self.about is None else self.about, "about of Effort", model.nu, signed=True)
        return np.concatenate([about, _weights(self.weights, "weights of Effort", model.nu)])

    def integrand(self, scene: NodeScene) -> Array:
        n = scene.model.nu
        away = scene.u - scene.constants[:n]
        return np.vecdot(scene.constants[n : 2 * n], away * away)


@dataclass(frozen=True, repr=False)
class Speed(RunningCost):
    """Integral of ``sum_i weights_i v_i^2`` over the velocity coordinates.

    >>> Time() + 0.1 * Speed()
    Time() + 0.1 * Speed()
    """

    weights: Any = 1.0

    def __post_init__(self) -> None:
        _as_value(self, "weights")

    def __repr__(self) -> str:
        return "Speed()"

    def constants(self, model: Model) -> np.ndarray:
        return _weights(self.weights, "weights of Speed", model.nv)

    def integrand(self, scene: NodeScene) -> Array:
        return np.vecdot(scene.constants[: scene.model.nv], scene.v * scene.v)


@dataclass(frozen=True)
class Jerk(RunningCost):
    """Integral of the squared jerk of a point of a frame; inputs are then linear in time, and their rate is part of it.

    >>> Jerk("hull").frame
    'hull'
    """

    frame: str
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        _as_value(self, "offset")

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)

    def integrand(self, scene: NodeScene) -> Array:
        """|j|^2 with the jerk j, the third rate of the position of the point along the motion."""
        model = scene.model
        sizes = {"q": scene.rates.nq, "v": model.nv, "u": model.nu, "p": len(model.parameter_names)}
        symbols = {name: symbol(name, size) for name, size in sizes.items()}
        rate = symbol("u_rate", model.nu)
        at = NodeScene(scene.rates, symbols["q"], symbols["v"], symbols["u"], symbols["p"], symbol("none", 0))
        (q_rate,) = scene.rates.traced("rate").expressions(at.q, at.v, at.p)
        along = lambda x: (  # noqa: E731
            directional(x, at.q, q_rate) + directional(x, at.v, at.acceleration()) + directional(x, at.u, rate)
        )
        jerk = along(along(directional(at.point(self.frame, self.offset), at.q, q_rate)))
        traced = trace_of("jerk", {**symbols, "u_rate": rate}, {"square": np.vecdot(jerk, jerk)})
        return traced.expressions(scene.q, scene.v, scene.u, scene.p, scene.u_rate)[0]


@dataclass(frozen=True, repr=False)
class Distance(Cost):
    """Sum over the nodes of the squared distance from a reference, times the step: a plan that stays near it.

    Parameters
    ----------
    reference : the reference. places, speeds : weights of coordinates in the chart around q_R and of velocities.

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
        other = self.reference.model
        if (other.nq, other.nv) != (model.nq, model.nv):
            raise PlanError(
                f"Distance: the reference belongs to {other.name!r} with {other.nq} coordinates, the plan to {model.name!r} with {model.nq}."
            )
        _weights([self.places, self.speeds], "weights of Distance", 2)

    def at_node(self, scene: NodeScene) -> Array:
        """Squared distance (1,) from (q_R, v_R) = scene.constants."""
        nq, nv = scene.rates.nq, scene.model.nv
        away = residual(scene.rates.coordinates, scene.constants[:nq], scene.q)
        faster = scene.v - scene.constants[nq : nq + nv]
        return np.reshape(self.places * np.vecdot(away, away) + self.speeds * np.vecdot(faster, faster), (1,))


@dataclass(frozen=True, repr=False)
class OwnCost(RunningCost):
    """Integral of ``function(q, v, u, t)``, a number in NumPy notation; it takes those of q, v, u and t that it names.

    >>> callable(OwnCost(lambda q, v: q[0] ** 2).inner)
    True
    """

    inner: Callable[..., Array]

    def __post_init__(self) -> None:
        if not callable(self.inner):
            raise PlanError(f"OwnCost needs a function of q, v, u and t, got {self.inner!r}.")

    def __repr__(self) -> str:
        return "OwnCost()"

    @property
    def uses_time(self) -> bool:
        return takes_time(self.inner)

    def integrand(self, scene: NodeScene) -> Array:
        value = as_array(on_symbols(scene.call, "OwnCost", PlanError)(self.inner))
        if prod(shape(value)) != 1:
            raise PlanError(f"the function of OwnCost must return a number, got an array of shape {shape(value)}.")
        return np.reshape(value, ())
