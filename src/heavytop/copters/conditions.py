"""What a flight is disturbed by: wind, measurement noise, a payload; and how plant and controller meet them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, split
from heavytop.control.tracking import Controller
from heavytop.copters.vehicle import Vehicle
from heavytop.copters.wrapper import Wrapper
from heavytop.errors import ModelError
from heavytop.system.inputs import Wrench
from heavytop.system.joints import Fixed
from heavytop.system.model import Model
from heavytop.system.moments import Damping, Inertia

POSITION_NOISE, TURN_NOISE = 0.005, np.deg2rad(0.3)
"""Standard deviations of measured positions (m) and attitudes (rad) for noise 1."""
SPEED_NOISE, RATE_NOISE = 0.03, 0.02
"""The same of velocities (m/s) and angular velocities (rad/s)."""


@dataclass(frozen=True)
class Conditions:
    """Disturbances of a flight.

    Parameters
    ----------
    wind : mean speed along x in m/s; gusts of a third of it come from all sides.
    noise : measurement noise; 1 is that of a good motion capture system with differentiated signals, 0 none.
    payload : mass in kg that is fixed below the hull and that the controller does not know.
    seed : of gusts and noise.
    """

    wind: float = 0.0
    noise: float = 0.0
    payload: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("wind", "noise", "payload"):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0:
                raise ModelError(f"{name} of a flight must be a number that is not negative, got {value}.")

    @property
    def calm(self) -> bool:
        """Whether nothing disturbs the flight."""
        return self.wind == 0 and self.noise == 0 and self.payload == 0

    def plant(self, vehicle: Vehicle) -> Model:
        """The model that flies: the vehicle with payload and air drag; wind enters by three more inputs, forces in world axes."""
        if self.wind == 0 and self.payload == 0:
            return vehicle.plant
        system = vehicle.describe()
        if self.payload:
            size = (0.06, 0.06, 0.06)
            moment = self.payload / 6 * np.square(size)
            inertia = Inertia(self.payload, moment_at_com=moment)
            system.body("payload", parent="hull", at=(0.0, 0.0, -0.06), joint=Fixed(), inertia=inertia)
        if self.wind:
            system.damper("world", "hull", Damping(vehicle.drag))
            for axis, direction in zip("xyz", np.eye(3), strict=True):
                system.input(f"wind_{axis}", Wrench("hull", force=direction, frame="world"))
        return system.derive()

    def air(self, times: Any) -> np.ndarray:
        """Velocity of the air (n, 3) in m/s: a mean and a few gusts, the same for the same seed."""
        t = np.asarray(times, dtype=float)
        rng = np.random.default_rng(self.seed)
        rates = rng.uniform(0.5, 6.0, (6, 3))
        phases = rng.uniform(0.0, 2 * np.pi, (6, 3))
        sizes = np.array([1.0, 1.0, 0.5]) / np.sqrt(1 + rates)
        gusts = np.sum(sizes * np.sin(rates * t[..., None, None] + phases), axis=-2)
        return self.wind * (np.array([1.0, 0.0, 0.0]) + 0.3 * gusts)

    def measured(self, count: int, nv: int) -> np.ndarray:
        """Noise (count, 2 nv) of configuration (tangent) and velocity; body coordinates in the order linear, angular."""
        if nv % 3:
            raise ModelError(
                f"noise is defined for bodies with vectors of three coordinates, got {nv} velocity coordinates."
            )
        blocks = nv // 3
        place = [POSITION_NOISE] * 3 + [TURN_NOISE] * (3 * (blocks - 1))
        speed = [SPEED_NOISE] * 3 + [RATE_NOISE] * (3 * (blocks - 1))
        scale = self.noise * np.array(place + speed)
        return scale * np.random.default_rng(self.seed + 1).standard_normal((count, 2 * nv))


class Disturbed(Wrapper):
    """A controller that sees noise, in a plant that feels wind."""

    def __init__(self, inner: Controller, law_model: Model, vehicle: Vehicle, conditions: Conditions) -> None:
        super().__init__(inner, law_model)
        self.vehicle, self.conditions = vehicle, conditions
        self._parts = (inner.signal_size, 2 * law_model.nv * bool(conditions.noise), 3 * bool(conditions.wind))
        self.signal_size = sum(self._parts)

    def signal(self, times: Any) -> np.ndarray:
        """Reference, noise and wind force side by side (n, m)."""
        times = np.asarray(times, dtype=float)
        parts = [self.inner.signal(times)] if self._parts[0] else []
        if self._parts[1]:
            parts.append(self.conditions.measured(len(times), self.own.nv))
        if self._parts[2]:
            parts.append(self.vehicle.drag * self.conditions.air(times))
        return np.concatenate(parts, axis=-1) if parts else np.zeros((len(times), 0))

    def seen(self, symbols: Mapping[str, Array]) -> dict[str, Array]:
        """The measured state and the reference."""
        values = super().seen(symbols)
        if self.signal_size:
            values["signal"], noise, _ = split(symbols["signal"], self._parts)
            if self._parts[1]:
                shift, rate = split(noise, (self.own.nv, self.own.nv))
                values["q"] = self.own.coordinates.retract(values["q"], shift)
                values["v"] = values["v"] + rate
        return values

    def plant_inputs(self, u: Array, symbols: Mapping[str, Array]) -> Array:
        """The wind joins the inputs."""
        return concatenate(u, split(symbols["signal"], self._parts)[2]) if self._parts[2] else u
