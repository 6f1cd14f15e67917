"""RotorPy's controller as a law: Lee's geometric control with its gains, so that it flies the same plants in the same native loop.

F = m (-k_p (r - r_R) - k_d (r' - r_R') + r_R'' - g),   thrust F . R e_z,
b3 = F / |F|,  b2 = unit(b3 x e_x),  b1 = b2 x b3,   moment Theta (-k_R e_R - k_w omega) + omega x Theta omega,
e_R = vee(R_d^T R - R^T R_d) / 2.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from heavytop._arrays import Array, concatenate, from_columns, transpose, vector
from heavytop.compile import Traced
from heavytop.control import FeedbackLaw, Hull, trace_inputs
from heavytop.copters import Vehicle
from heavytop.geometry import so3

POSITION_GAIN, VELOCITY_GAIN = np.array([6.5, 6.5, 15.0]), np.array([4.0, 4.0, 9.0])
ATTITUDE_GAIN, RATE_GAIN = 544.0, 46.64


class GeometricLaw(FeedbackLaw):
    """The controller that RotorPy flies its Hummingbird with."""

    kind = "geometric"

    def __init__(self, vehicle: Vehicle) -> None:
        self.vehicle, self.model, self.hull = vehicle, vehicle.model, Hull.of(vehicle.model)

    def thrusts(self, q: Array, v: Array, q_R: Array, v_R: Array, a_R: Array) -> Array:
        """Thrusts (nu,), limited by nothing."""
        hull = self.hull
        m = hull.motion(q, v)
        wanted, acceleration, _ = hull.reference(q_R, v_R, a_R)
        force = -POSITION_GAIN * (m.r - wanted.r) - VELOCITY_GAIN * (m.velocity - wanted.velocity)
        force = hull.mass * (force + acceleration - hull.gravity)
        b3 = _unit(force)
        b2 = _unit(np.cross(b3, np.array([1.0, 0.0, 0.0])))
        R_d = from_columns(np.cross(b2, b3), b2, b3)
        error = 0.5 * so3.vee2(transpose(R_d) @ m.R) * 1.0
        Theta = hull.moment
        gyro = np.cross(m.omega, np.matvec(Theta, m.omega))
        moment = np.matvec(Theta, -ATTITUDE_GAIN * error - RATE_GAIN * m.omega) + gyro
        lift = np.vecdot(force, np.matvec(m.R, np.array([0.0, 0.0, 1.0])))
        return np.matvec(np.linalg.inv(hull.wrenches[2:]), concatenate(vector(lift), moment))

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of q, v, q_R, v_R, a_R, p."""
        return trace_inputs("geometric_law", self.model, self.thrusts)


def _unit(x: Array) -> Array:
    return x / np.sqrt(np.vecdot(x, x))
