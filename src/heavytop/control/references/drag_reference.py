"""Reference whose attitude compensates known drag."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, scale
from heavytop.control.actuators.lag import Propellers
from heavytop.control.disturbances.air_drag import AirDrag, leaned
from heavytop.control.observers.hull import Hull, HullMotion
from heavytop.control.references.reference import Motion3, Reference
from heavytop.geometry import so3

ITERATIONS = 12
STENCIL = 4e-3
"""Spacing (s) of the five-point stencil for the rates of the attitude."""


def reference_speeds(hull: Hull, actuators: Propellers | None, specific: Array) -> Array:
    """Speeds (nu,) of the rotors that produce a specific force (3,), in proportions as in hover."""
    share = np.linalg.pinv(hull.wrenches) @ np.array([0.0, 0.0, hull.mass, 0.0, 0.0, 0.0])
    size = np.sqrt(np.vecdot(specific, specific) + 1e-18)
    return (actuators or Propellers(follows="speed")).level(scale(size, share, 1))


class DragReference:
    """References whose thrust and drag together accelerate the vehicle along the curve.

    At every time m (r'' - g) = f b + drag(R, r', n(f)) is solved for the axis b by fixed-point iteration; the vehicle turns as little as possible
    from the attitude of the given reference. Angular velocity and its rate follow from five neighbouring times (order four).
    Its accelerations are those of the thrust alone, r'' - d.
    """

    def __init__(self, reference: Reference, hull: Hull, drag: AirDrag, actuators: Propellers | None) -> None:
        self.reference, self.hull, self.drag, self.actuators = reference, hull, drag, actuators

    @classmethod
    def of(cls, reference: Reference, hull: Hull, drag: AirDrag, actuators: Propellers | None = None) -> Reference:
        """The reference with drag; one at rest in still air is unchanged."""
        times = np.linspace(0.0, reference.horizon, 9)
        _, v, a = reference(times)
        if not np.any(v) and not np.any(a) and not np.any(np.asarray(drag.wind)):
            return reference
        return reference._changed(evaluate=cls(reference, hull, drag, actuators).evaluate, traced=None)

    def evaluate(self, t: np.ndarray) -> Motion3:
        """q_R, v_R and a_R at times (n,)."""
        h, hull = STENCIL, self.hull
        around = [self._attitude(t + k * h) for k in (-2, -1, 0, 1, 2)]
        R = [turned for turned, *_ in around]
        now, motion, acceleration, d = around[2]
        back = np.swapaxes(now, -1, -2)
        first = (R[0] - 8 * R[1] + 8 * R[3] - R[4]) / (12 * h)
        second = (-R[0] + 16 * R[1] - 30 * R[2] + 16 * R[3] - R[4]) / (12 * h * h)
        omega, omega_rate = 0.5 * so3.vee2(back @ first), 0.5 * so3.vee2(back @ second)
        wanted = HullMotion(motion.r, now, motion.velocity, omega)
        q, v, a = hull.coordinates(wanted, acceleration - d, omega_rate)
        return q, v, a

    def _attitude(self, t: np.ndarray) -> tuple[Any, HullMotion, Any, Any]:
        """Rotation, motion, acceleration and the drag's part of it (n, 3), world axes."""
        hull = self.hull
        motion, acceleration, _ = hull.reference(*self.reference(t))
        specific = acceleration - hull.gravity
        d, R = np.zeros_like(specific), motion.R
        for _ in range(ITERATIONS):
            R = leaned(motion.R, specific - d)
            speeds = reference_speeds(hull, self.actuators, specific - d)
            d = np.matvec(R, self.drag.acceleration(hull, motion._replace(R=R), speeds))
        return leaned(motion.R, specific - d), motion, acceleration, d
