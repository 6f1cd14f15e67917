"""Flights of equal structure in one native batch: disturbances, delays and lags with one value per flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate
from heavytop.control import Actuated, BaseController, Breeze, Breezes, Delayed, Noisy, Propellers, Seen, Windy
from heavytop.copters import (
    LAWS,
    Composition,
    Conditions,
    Recipe,
    StoredGains,
    Tunable,
    integral_action,
    recipe_of,
    tunable,
)
from heavytop.errors import ControlError
from heavytop.ocp import needed_inputs
from heavytop.simulate import BoundLaw
from heavytop.sweep.cases import Values
from heavytop.sweep.model_cases import Group

PARAMETERS = ("payload", "mass")
"""Settings that are parameters of the plant."""
MEASURED = ("noise", "seed", "delay", "lag")
"""Settings that vary within a batch unless the law or the vehicle has its own sensors."""
VARIED = (*PARAMETERS, "wind", *MEASURED)
"""Settings that vary within a batch, besides gains of the law."""
CONDITIONS = ("wind", "noise", "seed", "delay")
"""Those of them that are conditions of a flight."""


def gain_variable(name: str) -> str:
    """The variable of a gain.

    >>> gain_variable("position frequency")
    'position_frequency'
    """
    return name.replace(" ", "_")


@dataclass(frozen=True, eq=False)
class VariedGains:
    """A law whose gains differ within a batch, and the recipe of its prototypes. Integral action keeps the gain of the vehicle's own prototype."""

    recipe: Recipe
    tuned: Tunable

    @classmethod
    def of(cls, composed: Composition) -> VariedGains:
        """Those of a named law with a prototype."""
        if composed.law not in LAWS:
            raise ControlError(
                f"gains vary with the laws {', '.join(LAWS)}, not with {composed.law_name!r}: vary law= as a function of them instead."
            )
        vehicle = composed.vehicle
        tuned = vehicle if composed.limits else replace(vehicle, limits=None)
        integral = integral_action(vehicle) if composed.integrating else ()
        return cls(recipe_of(vehicle), tunable(tuned, str(composed.law), integral))

    def tracking(self, composed: Composition, values: Mapping[str, Any]) -> StoredGains:
        """The law on the maneuver with gains (count,), or numbers."""
        names = [name for name in self.recipe.defaults if gain_variable(name) in values]
        columns = np.stack([np.asarray(values[gain_variable(name)], dtype=float) for name in names], axis=-1)
        rows, which = np.unique(np.atleast_2d(columns), axis=0, return_inverse=True)
        made = [self.recipe.prototype(dict(zip(names, row.tolist(), strict=True))) for row in rows]
        numbers = np.stack([self.tuned.values(prototype) for prototype in made])[which.reshape(-1)]
        period = composed.step if composed.integrating else None
        return StoredGains(self.tuned, composed.maneuver, numbers if columns.ndim > 1 else numbers[0], period)


@dataclass(frozen=True, eq=False)
class FlightGroup(Group):
    """Flights of equal structure.

    Attributes
    ----------
    composed : one of them. tracking : the law on the maneuver. lag : lag of the propellers next to it, s.
    varied : names of :data:`VARIED` that differ within the batch. longest : samples of their longest delay. mass : that of all of them, kg.
    gains : gains of the law, if they differ.
    """

    composed: Composition
    tracking: BaseController
    lag: float
    varied: tuple[str, ...]
    longest: int
    mass: float | None
    gains: VariedGains | None = None

    @property
    def own_signal_size(self) -> int:
        size = 0 if self.law is None else self.law.signal_size
        return size if {"wind", "noise", "seed"} & set(self.varied) else 0

    @property
    def has_own_laws(self) -> bool:
        """Whether the law depends on the values of the points or on their starts."""
        return bool(self.composed.conditions.delay or set(self.varied) - set(PARAMETERS))

    def controller(self, start: tuple[np.ndarray, np.ndarray], values: Values) -> Any:
        """The controller of a batch from starts of the plant, with values (count,) of the varied names."""
        conditions = self.composed.conditions
        own = {name: np.asarray(values[name]) for name in self.varied if name in CONDITIONS}
        if own:
            given: dict[str, Any] = {f.name: getattr(conditions, f.name) for f in fields(conditions)} | own
            conditions = BatchConditions(**given, longest=self.longest)
        lag = np.asarray(values["lag"], dtype=float) if "lag" in self.varied else self.lag
        return self._controller(conditions, start, lag, values)

    def _controller(
        self, conditions: Conditions, start: tuple[np.ndarray, np.ndarray], lag: Any, gains: Mapping[str, Any]
    ) -> Any:
        tracking = self.tracking if self.gains is None else self.gains.tracking(self.composed, gains)
        tracking = with_lag(self.composed, tracking, lag) if np.any(lag) else tracking
        return replace(self.composed, conditions=conditions).controller(start, tracking)

    def bound(self, *more: Any) -> FlightGroup:
        """The group with its law bound; ``more`` : further values that must be equal within a batch."""
        one = {name: np.ones(1, dtype=int if name == "seed" else float) for name in self.varied}
        if "delay" in one:
            one["delay"] = np.array([self.period])
        if self.gains is not None:
            nominal = {gain_variable(name): value for name, value in self.gains.recipe.defaults.items()}
            one |= {name: np.array([nominal[name]]) for name in self.varied if name not in VARIED}
        control = self.controller(self.composed.start(), one)
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("spec", "law", "period", "code")}
        return FlightGroup.of(replace(self.spec, control=control), *more, self.varied, self.mass, **own)

    def single(self, start: tuple[np.ndarray, np.ndarray], values: Mapping[str, Any]) -> tuple[Composition, Any]:
        """The flight of one point and its controller."""
        own = {name: values[name] for name in self.varied if name in CONDITIONS}
        flown = replace(self.composed, conditions=replace(self.composed.conditions, **own))
        lag = float(values["lag"]) if "lag" in self.varied else self.lag
        return flown, self._controller(flown.conditions, start, lag, values)

    def bound_law(self, start: tuple[np.ndarray, np.ndarray], values: Values) -> BoundLaw:
        """The law from starts of the plant: a delayed law gets them until the first measurement arrives."""
        if self.law is None or not self.has_own_laws:
            return self.law  # pyright: ignore
        return replace(self.law, law=self.controller(start, values).sampled(self.period))


@dataclass(frozen=True, eq=False)
class BatchConditions(Conditions):
    """Disturbances of a batch of flights: wind, noise, seed and delay have one value, or one per flight (count,); all of them act.

    ``longest`` : samples of the longest delay.
    """

    longest: int = 0

    def __post_init__(self) -> None:
        """The values were checked before they became a batch."""

    def with_sensors(self, controller: Any, model: Any, start: tuple[Any, Any], step: float) -> Any:
        """The controller with noisy and late measurements."""
        if self.sensors is not None:
            return super().with_sensors(controller, model, start, step)
        if np.any(self.noise):
            controller = Noisy(controller, model, *self.deviations(model), seed=np.asarray(self.seed) + 1)
        if not np.any(self.delay):
            return controller
        samples = np.round(np.asarray(self.delay) / step).astype(int)
        return Delayed(controller, samples, start, self.longest if samples.ndim else None)

    def with_wind(self, controller: Any) -> Any:
        """The controller in a plant with wind inputs."""
        if not np.any(self.wind):
            return controller
        if not (np.ndim(self.seed) or isinstance(self.wind, np.ndarray)):
            return super().with_wind(controller)
        wind, seed = self.wind, np.atleast_1d(self.seed)
        if not isinstance(wind, np.ndarray):
            wind = np.tile(Breeze(wind).mean, (len(seed), 1))
        return Windy(controller, Breezes(wind, seed))


# --- lag of the propellers -----------------------------------------------------------------------------------------------------------


def with_lag(composed: Composition, tracking: BaseController, lag: float | np.ndarray) -> BaseController:
    """The law with propellers that lag (s, one number or one per flight) behind their commands, first at hover."""
    vehicle, low, high = composed.vehicle, -np.inf, np.inf
    model, (q, _) = vehicle.model, composed.maneuver.start
    if vehicle.limits is not None and composed.limits:
        lower, upper = vehicle.limits.bounds(model)
        low, high = float(np.min(lower)), float(np.max(upper))
    rest = np.zeros(model.nv)
    hover = needed_inputs(model, q, rest, rest)  # without the limits
    propellers = Propellers(float(np.max(lag)), lowest=low, highest=high)
    return Lagging(tracking, propellers, hover, composed.period, np.asarray(lag, dtype=float))


class Lagging(Actuated):
    """Propellers whose lag is a part of the memory: flights that differ in it share their native code."""

    def __init__(
        self, controller: Any, actuators: Propellers, start: np.ndarray, sample_time: float, lag: np.ndarray
    ) -> None:
        super().__init__(controller, actuators, start, sample_time)
        self.propellers = actuators
        self.kept = np.exp(-sample_time / lag)
        self.own_state_size += 1

    def first(self) -> np.ndarray:
        """The levels, and the part of a level that is left after a period."""
        levels = super().first()
        levels = np.broadcast_to(levels, (*self.kept.shape, levels.shape[-1]))
        return np.concatenate([levels, self.kept[..., None]], axis=-1)

    def acted(self, at: Seen, u: Array) -> Array:
        """Outputs of the actuators."""
        return self.actuators.output(at.z[:-1])

    def following(self, at: Seen, u: Array) -> Array:
        """The exact response to a demand held over a period; the part stays."""
        levels, kept = at.z[:-1], at.z[-1]
        return concatenate(levels * kept + self.propellers.target(u) * (1 - kept), at.z[-1:])
