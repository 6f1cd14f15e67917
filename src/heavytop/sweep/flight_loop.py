"""The controllers of a batch of flights: made when their starts are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate
from heavytop.control import Actuated, Propellers
from heavytop.control.laws.wrapper import Seen
from heavytop.copters.composition import Composition
from heavytop.ocp.inverse_inputs import needed_inputs


class FlightLoop:
    """The controller of a flight before its start is known: a delay begins with what is seen there."""

    def __init__(self, composed: Composition, tracking: Any, settings: Mapping[str, Any]) -> None:
        self.composed, self.tracking, self.settings = composed, tracking, dict(settings)
        self.start = composed.maneuver.start
        self.vehicle, self.conditions = composed.vehicle, composed.conditions
        self.memo: dict[Any, Any] = {}
        self._made: Any = None

    def around(self, start: tuple[np.ndarray, np.ndarray]) -> Any:
        """The whole controller from the start of the plant, with the lag next to the law."""
        if not self.conditions.delay and self._made is not None:
            return self._made
        tracking, step = self.tracking, float(self.settings["step"])
        if self.settings["lag"]:
            low, high = self._bounds()
            propellers = Propellers(float(self.settings["lag"]), lowest=low, highest=high)
            tracking = Lagging(tracking, propellers, self._hover(), sample_time=step)
        self._made = self.composed.controller(start, tracking)
        return self._made

    def _bounds(self) -> tuple[float, float]:
        limits = self.vehicle.limits
        if limits is None or not self.settings["limits"]:
            return -np.inf, np.inf
        lower, upper = limits.bounds(self.vehicle.model)
        return float(np.min(lower)), float(np.max(upper))

    def _hover(self) -> np.ndarray:
        """Inputs at rest on the reference, without the limits."""
        model, (q, _) = self.vehicle.model, self.start
        rest = np.zeros(model.nv)
        return needed_inputs(model, q, rest, rest)

    # what decides whether two loops share their native code; see shared_code.likeness

    @property
    def signal_size(self) -> int:
        """Of the whole controller."""
        return self._any().signal_size

    @property
    def state_size(self) -> int:
        """Of the whole controller."""
        return self._any().state_size

    def _any(self) -> Any:
        return self.around(self.composed.start((self.start[0][None], self.start[1][None])))

    def sampled(self, period: float | None) -> Any:
        """The controller at a period."""
        return self._any().sampled(period)

    def traced(self, model: Any) -> Any:
        """The function of the controller."""
        return self._any().traced(model)


class Lagging(Actuated):
    """Propellers whose lag is in the memory: flights that differ in it share their native code."""

    def __init__(self, controller: Any, actuators: Propellers, start: np.ndarray, sample_time: float) -> None:
        super().__init__(controller, actuators, start, sample_time)
        self.propellers = actuators
        self.kept = float(np.exp(-sample_time / actuators.time_constant))
        self.own_state_size += 1

    def first(self) -> np.ndarray:
        """The levels, and which part of a level is left after a period."""
        return np.append(super().first(), self.kept)

    def acted(self, at: Seen, u: Array) -> Array:
        """What the actuators give."""
        return self.actuators.output(at.z[:-1])

    def following(self, at: Seen, u: Array) -> Array:
        """The exact response to a demand held over a period; the part stays."""
        levels, kept = at.z[:-1], at.z[-1]
        return concatenate(levels * kept + self.propellers.target(u) * (1 - kept), at.z[-1:])
