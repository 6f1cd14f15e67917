"""A pilot who follows a reference: position and velocity to angles, heading and throttle."""

from __future__ import annotations

from math import asin, atan2, cos, dist, hypot, pi, radians, sin, sqrt
from typing import TYPE_CHECKING

from heavytop.copters.stacks.stack import Desired, Measurements, Sticks

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

ANGLE_LIMIT = radians(60.0)
"""Angle of full deflection of roll and pitch."""
YAW_RATE = radians(670.0)
"""Rate of full deflection of yaw."""
LEFT = 0.01
"""Distance from its first place at which a vehicle has left it, m; skids give way by less."""
TURN = 1.5
"""Gain of the heading, 1/s: firmware with its default gains yaws slowly where propellers have little torque."""


class PositionPilot:
    """Sticks that hold the position of the reference, with levelled flight.

    The desired acceleration is a_R + k_d (v_R - v) + k_p (r_R - r) + integral; its direction gives roll and pitch, its size the throttle. The
    throttle is that of motors whose thrust grows with the square of their command. The integral begins with the motion: until a vehicle has left
    its first place, the ground may carry it.

    Parameters
    ----------
    vehicle : to be flown. stiffness, damping : k_p (1/s^2), k_d (1/s). integral : gain (1/s^3) of the position error, within 3 m/s^2.
    tilt : largest tilt, rad.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> level = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    >>> here = Measurements(0.0, (0, 0, 0), (0, 0, 9.81), level, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    >>> sticks = PositionPilot(quadcopter())(here, Desired((0.0, 0.0, 1.0), (0, 0, 0), (0, 0, 0), 0.0))
    >>> abs(sticks.roll), sticks.throttle > 0.5
    (0.0, True)
    """

    def __init__(
        self,
        vehicle: Vehicle,
        stiffness: float = 4.0,
        damping: float = 3.5,
        integral: float = 1.0,
        tilt: float = radians(35.0),
    ) -> None:
        self.mass, self.most = vehicle.mass, sum(float(rotor.thrust[1]) for rotor in vehicle.airframe.rotors)
        self.gravity = vehicle.weight / vehicle.mass
        self.gains, self.tilt = (stiffness, damping, integral), tilt
        self.sum = [0.0, 0.0, 0.0]
        self.before: float | None = None
        self.first: tuple[float, float, float] | None = None
        self.moving = False

    def __call__(self, seen: Measurements, desired: Desired) -> Sticks:
        """The sticks of a sample."""
        stiffness, damping, integral = self.gains
        step = 0.0 if self.before is None else max(seen.t - self.before, 0.0)
        self.before = seen.t
        self.first = self.first or seen.position
        self.moving = self.moving or dist(seen.position, self.first) > LEFT
        integral = integral if self.moving else 0.0
        wanted = []
        for k in range(3):
            away = desired.position[k] - seen.position[k]
            self.sum[k] = min(max(self.sum[k] + step * integral * away, -3.0), 3.0)
            slower = desired.velocity[k] - seen.velocity[k]
            wanted.append(desired.acceleration[k] + stiffness * away + damping * slower + self.sum[k])
        up = max(wanted[2] + self.gravity, 0.3 * self.gravity)
        across, most = hypot(wanted[0], wanted[1]), up * sin(self.tilt) / cos(self.tilt)
        if across > most:
            wanted[0], wanted[1] = wanted[0] * most / across, wanted[1] * most / across
        R = seen.R
        heading = atan2(R[1][0], R[0][0])
        ahead = cos(heading) * wanted[0] + sin(heading) * wanted[1]
        left = -sin(heading) * wanted[0] + cos(heading) * wanted[1]
        size = sqrt(ahead * ahead + left * left + up * up)
        pitch = atan2(ahead, up)
        roll = asin(-left / size)
        turn = (desired.heading - heading + pi) % (2 * pi) - pi
        thrust = self.mass * up / max(R[2][2], 0.5)
        return Sticks(
            _within(roll / ANGLE_LIMIT),
            _within(pitch / ANGLE_LIMIT),
            _within(-TURN * turn / YAW_RATE),
            sqrt(min(max(thrust / self.most, 0.0), 1.0)),
        )


def _within(x: float) -> float:
    return min(max(x, -1.0), 1.0)
