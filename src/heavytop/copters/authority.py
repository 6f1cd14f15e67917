"""The authority of a vehicle: what its rotors can do besides carrying it, the basis of the constants of the robust controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytop._format import Brief
from heavytop.copters.hover_feasibility import LEVEL, input_bounds_of, reach
from heavytop.copters.propulsion import typical_propulsion
from heavytop.copters.vehicle import wrench_matrix
from heavytop.system import GRAVITY

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle


@dataclass(frozen=True, repr=False)
class Authority(Brief):
    """Largest thrust, and largest angular accelerations while carrying the weight.

    Attributes
    ----------
    lift : largest thrust without roll and pitch moment, per weight.
    tilt : angular acceleration about the weaker axis of roll and pitch, rad/s^2: geometric mean of those with the weight carried and with
        any thrust. yaw : about z, with the weight carried, rad/s^2.
    lag : time constant of the motors, s. gravity : m/s^2.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> can = Authority.of(quadcopter())
    >>> round(can.lift, 2), round(can.tilt)
    (2.72, 150)
    """

    lift: float
    tilt: float
    yaw: float
    lag: float
    gravity: float = GRAVITY

    @classmethod
    def of(cls, vehicle: Vehicle) -> Authority:
        """Those of a vehicle with its limbs and loads locked in the neutral configuration."""
        rotors, model = vehicle.airframe.rotors, vehicle.model
        M = model.mass_matrix(model.neutral())[:6, :6]
        mass, S = float(M[0, 0]), M[3:, :3] / M[0, 0]
        com, moment = np.array([S[2, 1], S[0, 2], S[1, 0]]), np.diag(M[3:, 3:] + mass * S @ S)
        gravity = (vehicle.weight or mass * GRAVITY) / mass
        weight, W = mass * gravity, wrench_matrix(rotors)
        W[3:] -= np.cross(com, W[:3].T).T
        low, high = input_bounds_of(rotors, weight)

        def both(name: str, fixed: dict[str, float]) -> float:
            """The smaller one of the angular accelerations both ways."""
            found = [reach(W, low, high, fixed, name, sign) for sign in (1.0, -1.0)]
            return max(0.0, min(0.0 if x is None else x for x in found)) / moment[AXES.index(name)]

        tilts = []
        for name in AXES[:2]:
            others = {k: v for k, v in LEVEL.items() if k != name}
            tilts.append(np.sqrt(both(name, others | {"thrust": weight}) * both(name, others)))
        lift = (reach(W, low, high, LEVEL, "thrust") or 0.0) / weight
        lag = (vehicle.propulsion or typical_propulsion(vehicle)).lag
        return cls(float(lift), float(min(tilts)), float(both("yaw", LEVEL | {"thrust": weight})), lag, float(gravity))

    def turning_time(self, angle: float = np.pi, rate: float = 0.0) -> float:
        """Time (s) to turn by an angle (rad) and stop, with an angular velocity (rad/s) the wrong way at the start.

        Full angular acceleration both ways, each built up by the motors; the angular velocity at the start is stopped with half of it.

        >>> Authority(2.0, 400.0, 10.0, 0.05).turning_time().__round__(3)
        0.277
        """
        whole = angle + rate**2 / self.tilt
        return float(2 * np.sqrt(whole / self.tilt) + 2 * rate / self.tilt + 2 * self.lag)

    def drop(self, angle: float = np.pi, speed: float = 0.0, rate: float = 0.0) -> float:
        """Estimated largest loss of height (m) of a recovery from a tilt (rad), a downward speed (m/s) and an angular velocity (rad/s).

        The vehicle falls while it turns upright, and then brakes with 65 % of its spare thrust. A start from less height is not
        expected to recover; infinite without spare thrust.

        >>> Authority(2.0, 400.0, 10.0, 0.05).drop().__round__(2)
        0.96
        """
        if self.lift <= 1:
            return np.inf
        time = self.turning_time(angle, rate)
        fast, brake = speed + self.gravity * time, BRAKING * (self.lift - 1) * self.gravity
        return float(speed * time + 0.5 * self.gravity * time**2 + fast**2 / (2 * brake))


BRAKING = 0.65
"""Share of the spare thrust that brakes a fall."""
AXES = ("roll", "pitch", "yaw")
