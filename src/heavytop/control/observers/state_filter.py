"""A filter of noisy measurements: position, velocity and attitude propagated by accelerometer and gyro, corrected by what is measured.

The gains are those of a stationary Kalman filter for the noise of the sensors. Per axis, with the sample period h,

    (r, v) <- (r + h v, v + h a) + K ((r_m, v_m) - (r + h v, v + h a)),    R <- R' cayley(k e),    R' = R cayley(h omega),

where a is the measured specific force plus gravity in the attitude of the middle of the sample, and e the rotation from R' to the measured attitude.
The constant error of the accelerometer follows from the errors of the velocity, four times as slowly as the velocity itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, flatten_columns, part, transpose, unflatten_columns
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull, HullMotion
from heavytop.control.observers.sensors import Sensors
from heavytop.geometry import so3
from heavytop.system import GRAVITY, Model

LEAST_GAIN = 0.05
"""Smallest share of an error of position, velocity or attitude that is corrected within a sample."""


class Filtered(Wrapper):
    """A controller with filtered measurements: less noise, no lag. Angular velocities are not filtered.

    Without an accelerometer the acceleration is unknown, and little except the attitude is filtered. Perfect sensors are not filtered at all.

    Parameters
    ----------
    controller : the wrapped controller. model : model of the vehicle. sensors : its sensors, with their noise.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import Sensor, Sensors
    >>> from heavytop.copters import quadcopter
    >>> noisy = Sensors(position=Sensor(0.005), velocity=Sensor(0.03), accelerometer=Sensor(0.2))
    >>> quiet = Filtered(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model, noisy)
    >>> quiet.gains(0.005)[0].round(2).tolist()
    [[0.05, 0.0], [0.09, 0.05]]
    """

    def __init__(self, controller: Any, model: Model, sensors: Sensors) -> None:
        super().__init__(controller)
        self.model, self.hull, self.sensors = model, Hull.of(model), sensors
        self.own_state_size = 22

    @property
    def provides(self) -> Mapping[str, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {} if self.sensors.accelerometer is None else {"accelerometer": 3}

    def gains(self, period: float) -> tuple[np.ndarray, float]:
        """K (2, 2) of position and velocity, and k of the attitude."""
        s, gravity = self.sensors, float(np.linalg.norm(self.hull.gravity)) or GRAVITY
        felt = gravity if s.accelerometer is None else float(np.hypot(s.accelerometer.noise, s.accelerometer.bias))
        felt += gravity * s.attitude.noise
        K = stationary_gain(period, felt, s.position.noise, s.velocity.noise)
        drift = period * float(np.hypot(s.gyro.noise, s.gyro.bias))
        k = scalar_gain(drift, s.attitude.noise)
        return np.maximum(K, LEAST_GAIN * np.eye(2)), max(k, LEAST_GAIN)

    def _estimate(self, at: Seen) -> tuple[HullMotion, Array]:
        """The motion, and the constant error (3,) of the accelerometer."""
        if "estimate" in at.shared:
            return at.shared["estimate"]
        hull, h, z = self.hull, at.period, at.z
        m = hull.motion(at.q, at.v)
        r, v, omega = part(z, 0, 3), part(z, 3, 6), part(z, 6, 9)
        before, started = unflatten_columns(part(z, 9, 18), 3), z[18]
        K, k = self.gains(h)
        turn = 0.5 * h * (omega + m.omega)
        R = before @ so3.cayley(turn)
        middle, bias = before @ so3.cayley(0.5 * turn), part(z, 19, 22)
        a = np.zeros(3)
        if "accelerometer" in at.signals:
            a = np.matvec(middle, at.signals["accelerometer"] - bias) + hull.gravity
        fast = v + h * a
        off_r, off_v = m.r - (r + 0.5 * h * (v + fast)), m.velocity - fast
        error = 0.5 * so3.vee2(transpose(R) @ m.R)
        first = started < 0.5
        found = HullMotion(
            np.where(first, m.r, m.r - off_r + K[0, 0] * off_r + K[0, 1] * off_v),
            np.where(first, m.R, R @ so3.cayley(k * error)),
            np.where(first, m.velocity, fast + K[1, 0] * off_r + K[1, 1] * off_v),
            m.omega,
        )
        # critically damped: v' = -K e / h and bias' = K^2 e / (4 h^2)
        bias = bias - np.where(first, 0.0, K[1, 1] ** 2 / (4 * h)) * np.matvec(transpose(middle), off_v)
        at.shared["estimate"] = found, bias
        return found, bias

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The filtered state."""
        motion, bias = self._estimate(at)
        q, v, _ = self.hull.coordinates(motion)
        if not self.provides:
            return {"q": q, "v": v}
        return {"q": q, "v": v, "accelerometer": at.signals["accelerometer"] - bias}

    def following(self, at: Seen, u: Array) -> Array:
        m, bias = self._estimate(at)
        return concatenate(m.r, m.velocity, m.omega, flatten_columns(m.R), np.ones(1), bias)


def stationary_gain(period: float, acceleration: float, place: float, speed: float) -> np.ndarray:
    """K (2, 2) of the stationary Kalman filter of a position and a velocity, both measured, with an acceleration known up to its deviation.

    >>> stationary_gain(0.005, 1.0, 0.0, 0.03)[0].tolist()
    [1.0, 0.0]
    """
    h = period
    if not (place and speed):  # exact measurements need no model
        return np.diag([1.0 if not place else 0.0, 1.0 if not speed else scalar_gain(h * acceleration, speed)])
    F, Q = np.array([[1.0, h], [0.0, 1.0]]), acceleration**2 * np.outer([0.5 * h * h, h], [0.5 * h * h, h])
    R = np.diag([place**2, speed**2])
    from scipy.linalg import solve_discrete_are

    P = solve_discrete_are(F.T, np.eye(2), Q + 1e-12 * R, R)
    return P @ np.linalg.inv(P + R)


def scalar_gain(drift: float, noise: float) -> float:
    """Gain of the stationary Kalman filter of a quantity that drifts per sample and is measured with noise.

    >>> scalar_gain(1.0, 0.0), round(scalar_gain(0.1, 1.0), 4)
    (1.0, 0.0951)
    """
    if noise == 0:
        return 1.0
    ratio = (drift / noise) ** 2
    variance = 0.5 * (ratio + np.sqrt(ratio * ratio + 4 * ratio))  # predicted, per that of the noise
    return float(variance / (1 + variance))
