"""What a flight is disturbed by: wind, measurement noise, a payload; and how plant and controller meet them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop.control.disturbances import Windy, add_wind
from heavytop.control.measurements import Delayed, Noisy
from heavytop.control.wind import Breeze
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ModelError
from heavytop.simulate import Controller
from heavytop.system.joints import Fixed
from heavytop.system.model import Model
from heavytop.system.moments import Inertia
from heavytop.system.system import System

POSITION_NOISE, TURN_NOISE = 0.005, np.deg2rad(0.3)
"""Standard deviations of measured positions (m) and attitudes (rad) for noise 1."""
SPEED_NOISE, RATE_NOISE = 0.03, 0.02
"""The same of velocities (m/s) and angular velocities (rad/s)."""
ROUNDING = 1e-6
"""Of a delay, relative, that is not told from a whole number of samples."""
LONGEST_DELAY = 2.0
"""Seconds; what is measured later is of no use to a vehicle, and every sample of it is kept."""


@dataclass(frozen=True)
class Conditions:
    """Disturbances of a flight.

    Parameters
    ----------
    wind : mean speed along x in m/s; gusts of a third of it come from all sides.
    noise : measurement noise; 1 is that of a good motion capture system with differentiated signals, 0 none.
    payload : mass in kg that is fixed below the hull and that the controller does not know.
    seed : of gusts and noise.
    delay : age of the measurements in s, a multiple of the sample period.

    Examples
    --------
    >>> Conditions(wind=3.0, delay=0.01).delay
    0.01
    """

    wind: float = 0.0
    noise: float = 0.0
    payload: float = 0.0
    seed: int = 0
    delay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("wind", "noise", "payload", "delay"):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0:
                raise ModelError(f"{name} of a flight must be a non-negative number, got {value}.")
        if self.delay > LONGEST_DELAY:
            raise ModelError(f"delay of a flight must be at most {LONGEST_DELAY:g} s, got {self.delay:g}.")

    @property
    def calm(self) -> bool:
        """Whether nothing disturbs the flight."""
        return self.wind == 0 and self.noise == 0 and self.payload == 0 and self.delay == 0

    def system(self, vehicle: Vehicle) -> System:
        """The vehicle as it flies: with its payload."""
        system = vehicle.describe()
        if self.payload:
            size = (0.06, 0.06, 0.06)
            moment = self.payload / 6 * np.square(size)
            inertia = Inertia(self.payload, moment_at_com=moment)
            system.body("payload", parent="hull", at=(0.0, 0.0, -0.06), joint=Fixed(), inertia=inertia)
        return system

    def plant(self, vehicle: Vehicle) -> Model:
        """The model that flies: the vehicle with payload and air drag; wind enters by three more inputs."""
        if self.wind == 0 and self.payload == 0:
            return vehicle.plant
        system = self.system(vehicle)
        if self.wind:
            add_wind(system, "hull", vehicle.drag)
        return system.derive()

    def deviations(self, nv: int) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations (nv,) of configuration (tangent) and velocity; body coordinates in the order linear, angular."""
        if nv % 3:
            raise ModelError(
                f"noise is defined for bodies with vectors of three coordinates, got {nv} velocity coordinates."
            )
        turning = nv - 3
        place = np.array([POSITION_NOISE] * 3 + [TURN_NOISE] * turning)
        speed = np.array([SPEED_NOISE] * 3 + [RATE_NOISE] * turning)
        return self.noise * place, self.noise * speed

    def measured(self, controller: Controller, model: Model, start: tuple[Any, Any], step: float) -> Controller:
        """The controller that sees the state of ``model`` noisy and late; ``start`` is what it sees first, ``step`` its sample period."""
        if self.noise:
            controller = Noisy(controller, model, *self.deviations(model.nv), seed=self.seed + 1)
        if not self.delay:
            return controller
        return Delayed(controller, self.samples_late(step), start)

    def samples_late(self, period: float) -> int:
        """The delay in samples.

        Raises
        ------
        ModelError
            It is not a whole number of samples.
        """
        samples = round(self.delay / period)
        if abs(self.delay - samples * period) > ROUNDING * self.delay:
            near = " or ".join(
                f"{k * period:g} s" for k in sorted({int(self.delay / period), int(self.delay / period) + 1})
            )
            raise ModelError(
                f"a delay of {self.delay:g} s is {self.delay / period:.4g} samples of {period:g} s, but measurements are passed on at samples: "
                f"fly with a delay of {near}, or with another step."
            )
        return samples

    def blown(self, controller: Controller) -> Controller:
        """The controller in a plant that feels wind."""
        return Windy(controller, Breeze(self.wind, self.seed)) if self.wind else controller
