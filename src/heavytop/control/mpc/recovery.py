"""Recovery of vehicles: an energy-based law for states from which the horizon does not see the way back.

The law converges from almost every state, also where no optimisation over one second does, for example upside down with little thrust. Its
motion over the horizon is a motion of the model within the limits, from which the optimisation starts. While even this motion ends
far turned, its inputs are used.
"""

from __future__ import annotations

import numpy as np

from heavytop.control.laws.law import FeedbackLaw
from heavytop.control.laws.prototype import Prototype, poles_of
from heavytop.control.laws.tracking_laws import energy_law
from heavytop.control.observers.hull import Hull
from heavytop.errors import ControlError
from heavytop.ocp import Limits
from heavytop.system import Model

HELD, REACHED = 0.24, 1.0
"""Bounds of the frequency w of the tilt: w times the length of a move, w^2 per angular acceleration by the inputs."""
POSITION, TILT, YAW = -0.25, complex(-0.8, 0.6), 0.375
"""Double pole of the position, pole of the tilt, frequency of the yaw, per w."""
SPREAD, HEADING = 0.85, 0.065
"""Desired tilt inertia per mass times w^4 / g^2, desired yaw inertia per tilt inertia: at the limits the heading gives way."""
TORQUE_PRIORITY = 1e4


def recovery_law(model: Model, limits: tuple[np.ndarray, np.ndarray], step: float) -> FeedbackLaw | None:
    """The law of one free body with parallel thrusts along its z axis and moments about all axes, held over ``step``; None for other models."""
    try:
        hull = Hull.of(model)
    except ControlError:
        return None
    force, moment = hull.wrenches[:3], hull.wrenches[3:]
    g = -float(hull.gravity[2])
    parallel = not np.any(force[:2]) and np.any(force[2]) and not np.any(hull.gravity[:2]) and g > 0
    if not parallel or np.linalg.matrix_rank(moment) < 3:
        return None
    w = min(HELD / step, np.sqrt(REACHED * _tilt_acceleration(hull, *limits)))
    spread = SPREAD * g**2 / w**4
    lateral = [POSITION * w, POSITION * w, TILT * w, TILT.conjugate() * w]
    try:
        prototype = Prototype.from_poles(
            lateral, lateral[:2], poles_of(YAW * w, 0.9), mass=hull.mass, spread=spread, yaw_inertia=HEADING * spread * hull.mass,
            gravity=g, body=model.description.joints[0].b,
        )  # fmt: skip
        return energy_law(model, prototype, Limits(*limits, TORQUE_PRIORITY))
    except ControlError:
        return None


def _tilt_acceleration(hull: Hull, low: np.ndarray, high: np.ndarray) -> float:
    """The smaller angular acceleration (rad/s^2) about x or y that inputs within their limits cause in either direction, at least."""
    rates = np.linalg.solve(hull.moment, hull.wrenches[3:])[:2]
    span = np.where(rates != 0.0, high - low, 0.0)
    return float(np.min(np.sum(np.abs(rates) * span, axis=1)) / 4)
