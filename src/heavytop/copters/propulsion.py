"""Coefficients of propellers, motors and frame: measured or typical ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytop.control import AirDrag, Propellers
from heavytop.errors import ModelError
from heavytop.system import GRAVITY

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

TYPICAL_SPEED = 1000.0
"""Largest angular velocity of a propeller without data, rad/s."""
TYPICAL_LAG = 0.02
"""Time constant of a motor without data, s."""
LEAST_LAG = 1e-3
"""Shortest time constant (s) of a motor: explicit steps of 1 ms are stable with it."""
SERVO = 80.0
"""Natural frequency of tilt servos, rad/s, critically damped."""
HEADROOM = 3.0
"""Largest thrust of a rotor without limits, as a multiple of that of hovering."""


@dataclass(frozen=True)
class Propulsion:
    """Coefficients of propellers and frame.

    Parameters
    ----------
    thrust_coefficient : k_eta, N/(rad/s)^2. torque_coefficient : k_m, N m/(rad/s)^2.
    speed : least and largest angular velocity, rad/s. time_constant : tau of the motors, s; default: a typical one. At least 1 ms is used.
    rotor_drag, inflow : k_d, k_z, kg/rad. translational_lift : k_h, kg/m. parasitic_drag : c (3,), N/(m/s)^2.

    Examples
    --------
    >>> Propulsion(1e-5, 2e-7, (0.0, 1000.0)).thrust_range
    (0.0, 10.0)
    """

    thrust_coefficient: float
    torque_coefficient: float
    speed: tuple[float, float]
    time_constant: float = TYPICAL_LAG
    rotor_drag: float = 0.0
    inflow: float = 0.0
    translational_lift: float = 0.0
    parasitic_drag: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("time_constant", "rotor_drag", "inflow", "translational_lift", "parasitic_drag"):
            value = getattr(self, name)
            if not np.all(np.isfinite(value)) or np.any(np.less(value, 0)):
                raise ModelError(f"{name} of a propulsion must not be negative, got {value}.")
        if not (np.isfinite(self.thrust_coefficient) and self.thrust_coefficient > 0):
            raise ModelError(f"thrust_coefficient of a propulsion must be positive, got {self.thrust_coefficient}.")

    @property
    def lag(self) -> float:
        """Time constant of the motors in plants and controllers, s."""
        return max(self.time_constant, LEAST_LAG)

    @property
    def drag_ratio(self) -> float:
        """Torque per thrust, m."""
        return self.torque_coefficient / self.thrust_coefficient

    @property
    def air_drag(self) -> AirDrag:
        """Drag of rotors and frame, without the places of the rotors."""
        return AirDrag(self.rotor_drag, self.inflow, self.translational_lift, self.parasitic_drag)

    @property
    def has_drag(self) -> bool:
        """Whether a coefficient of drag is known."""
        return bool(self.rotor_drag or self.inflow or self.translational_lift or any(self.parasitic_drag))

    @property
    def actuators(self) -> Propellers:
        """The actuators of a controller: propellers of first order in the speed, with limits."""
        low, high = self.thrust_range
        return Propellers(self.lag, "speed", low, high, self.thrust_coefficient)

    @property
    def thrust_range(self) -> tuple[float, float]:
        """Least and largest thrust of a rotor in still air, N."""
        low, high = self.speed
        return self.thrust_coefficient * low * abs(low), self.thrust_coefficient * high**2


def typical_propulsion(vehicle: Vehicle) -> Propulsion:
    """Coefficients of a vehicle without data: motors with a lag of 20 ms, the limits of its thrusts at 1000 rad/s, its air drag at the rotors.

    >>> from heavytop.copters import quadcopter
    >>> p = typical_propulsion(quadcopter())
    >>> [round(float(x), 6) for x in p.thrust_range], p.time_constant
    ([0.0, 6.0], 0.02)
    """
    rotors = vehicle.airframe.rotors
    share = (vehicle.weight or vehicle.mass * GRAVITY) / len(rotors)  # without gravity: that of the Earth
    low, high = (np.array([rotor.thrust[i] for rotor in rotors], dtype=float) for i in (0, 1))
    top = float(np.max(high)) if np.all(np.isfinite(high)) else HEADROOM * share
    least = float(np.min(low)) if np.all(np.isfinite(low)) else 0.0
    per_square = top / TYPICAL_SPEED**2
    return Propulsion(
        per_square,
        per_square * float(np.mean([abs(rotor.drag_ratio) for rotor in rotors])),
        (float(np.sign(least)) * np.sqrt(abs(least) / per_square), TYPICAL_SPEED),
        TYPICAL_LAG,
        rotor_drag=vehicle.drag / (len(rotors) * np.sqrt(share / per_square)),
    )
