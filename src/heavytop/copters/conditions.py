"""Conditions of a flight: wind, measurement noise, delay and payload, and their effect on plant and controller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.control import Breeze, Delayed, Noisy, OnPart, Sensed, Sensors, Windy, add_wind
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError, ModelError
from heavytop.simulate import Controller
from heavytop.system import Model

POSITION_NOISE, TURN_NOISE = 0.005, np.deg2rad(0.3)
"""Standard deviations of measured positions (m) and attitudes (rad) for noise 1."""
SPEED_NOISE, RATE_NOISE = 0.03, 0.02
"""The same of velocities (m/s) and angular velocities (rad/s)."""
ROUNDING = 1e-6
"""Relative tolerance of a delay that is a whole number of samples."""
LONGEST_DELAY = 2.0
"""Seconds; every sample of a delay is stored."""


@dataclass(frozen=True)
class Conditions:
    """Disturbances of a flight.

    Parameters
    ----------
    wind : mean speed along x in m/s, or mean velocity (3,) in world axes; gusts of a third of it come from all directions.
    noise : measurement noise; 1 is that of a good motion capture system with differentiated signals, or of ``sensors``.
    payload : mass in kg that is fixed below the hull and unknown to the controller.
    seed : of gusts and noise.
    delay : age of the measurements in s, a multiple of the sample period; 0: that of ``sensors``.
    sensors : of the vehicle, if specified in its description; ``noise`` scales their noise and biases.

    Examples
    --------
    >>> Conditions(wind=3.0, delay=0.01).delay
    0.01
    """

    wind: Any = 0.0
    noise: float = 0.0
    payload: float = 0.0
    seed: int = 0
    delay: float = 0.0
    sensors: Sensors | None = None

    @classmethod
    def of(
        cls,
        vehicle: Vehicle,
        wind: Any = 0.0,
        noise: float | None = None,
        payload: float = 0.0,
        seed: int = 0,
        delay: float = 0.0,
    ) -> Conditions:
        """The conditions of a vehicle with its own sensors, if any; ``noise`` is 1 with them, 0 without, unless given."""
        if noise is None:
            noise = 0.0 if vehicle.sensors is None else 1.0
        return cls(wind, noise, payload, seed, delay, vehicle.sensors)

    def __post_init__(self) -> None:
        wind = numbers(self.wind, "wind of a flight")
        if wind.shape not in ((), (3,)) or not np.all(np.isfinite(wind)) or (wind.shape == () and wind < 0):
            raise ModelError(
                f"wind of a flight must be a non-negative number (m/s along x) or three finite ones (its mean velocity), got {self.wind}."
            )
        still = wind.shape == () or not np.any(wind)
        object.__setattr__(self, "wind", float(np.max(wind)) if still else tuple(wind.tolist()))
        for name in ("noise", "payload", "delay"):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0:
                raise ModelError(f"{name} of a flight must be a non-negative number, got {value}.")
        if self.delay > LONGEST_DELAY:
            raise ModelError(f"delay of a flight must be at most {LONGEST_DELAY:g} s, got {self.delay:g}.")

    @property
    def calm(self) -> bool:
        """Whether nothing disturbs the flight."""
        return not (self.wind or self.noise or self.payload or self.delay or self.sensors is not None)

    @property
    def needs_integral(self) -> bool:
        """Whether a law needs integral action, because a force acts all the time."""
        return bool(self.wind or self.payload)

    def plant(self, vehicle: Vehicle) -> Model:
        """The model that flies: the vehicle with payload and air drag; wind enters by three more inputs."""
        if not (self.wind or self.payload):
            return vehicle.plant
        system = vehicle.with_payload(self.payload)
        if self.wind:
            add_wind(system, "hull", vehicle.drag)
        return system.derive()

    def deviations(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations (nv,) of configuration (tangent) and velocity: of lengths for translations, of angles for rotations."""
        slides: list[bool] = []
        for each in model.description.joints:
            floating, nv = each.joint.kind == "floating", each.joint.coordinates.nv
            slides += [True] * 3 + [False] * 3 if floating else [each.joint.kind == "prismatic"] * nv
        place = np.where(slides, POSITION_NOISE, TURN_NOISE)
        speed = np.where(slides, SPEED_NOISE, RATE_NOISE)
        return self.noise * place, self.noise * speed

    def with_sensors(self, controller: Controller, model: Model, start: tuple[Any, Any], step: float) -> Controller:
        """The controller with noisy and late measurements of the state of ``model``; ``start`` is the first one, ``step`` the period."""
        if self.sensors is not None:
            return self._sensed(controller, model, step, self.sensors_in_flight(self.sensors))
        if self.noise:
            controller = Noisy(controller, model, *self.deviations(model), seed=self.seed + 1)
        return Delayed(controller, self.delay_samples(step), start) if self.delay else controller

    def sensors_in_flight(self, sensors: Sensors) -> Sensors:
        """The sensors with the noise and the delay of the flight."""
        sensors = replace(sensors.scaled(self.noise), seed=self.seed + 1)
        return sensors.late(self.delay) if self.delay else sensors

    def _sensed(self, controller: Any, model: Model, step: float, sensors: Sensors) -> Controller:
        """The controller with the sensors of its vehicle; a bare law uses neither accelerometer nor rotor speeds."""
        if self.delay:
            self.delay_samples(step)
        used = replace(sensors, accelerometer=None, rotor_speeds=None)
        if not any(np.any([s.noise, s.bias, np.max(s.delay)]) for s in (getattr(used, name) for name in used.names)):
            return controller
        try:
            return Sensed(OnPart(controller, model), model, used)
        except ControlError as error:
            raise ControlError(
                f"the sensors specified in {model.name!r} cannot be simulated: {error} Or fly it without them: leave "
                "[sensors] out of its file, or replace(vehicle, sensors=None)."
            ) from error

    def delay_samples(self, period: float) -> int:
        """The delay in samples; raises a ModelError unless it is a whole number of them."""
        samples = round(self.delay / period)
        if abs(self.delay - samples * period) > ROUNDING * self.delay:
            below = int(self.delay / period)
            raise ModelError(
                f"a delay of {self.delay:g} s is {self.delay / period:.4g} samples of {period:g} s, but must be a whole number of them: "
                f"fly with a delay of {below * period:g} s or {(below + 1) * period:g} s, or with another step."
            )
        return samples

    def with_wind(self, controller: Controller) -> Controller:
        """The controller in a plant with wind inputs."""
        return Windy(controller, Breeze(self.wind, self.seed)) if self.wind else controller
