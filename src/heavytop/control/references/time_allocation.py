"""Time allocation of minimum-snap curves: the shortest times within the limits of a vehicle.

The shares of the legs minimise the snap for a given total time; then the total time is minimised subject to limits of inputs, speed and
angular velocity. Scaling the time does not change the shape of the curve, so that one number is unknown.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from heavytop._arrays import Numbers, finite_matrix
from heavytop.control.references.curves import PiecewisePolynomial, minimum_snap
from heavytop.control.references.feasibility import exceeded
from heavytop.control.references.flatness import attitude_about, motion_of, numeric_gravity, unit_vector
from heavytop.control.references.reference import coordinates_of_motion
from heavytop.errors import ControlError, wrong_shape
from heavytop.ocp import Limits
from heavytop.system import Model

SAMPLES = 60
"""Times per leg at which the limits are checked."""


def snap_shares(points: Numbers, iterations: int = 60) -> np.ndarray:
    """Shares (m,) of the total time of the legs between ``points`` (m + 1, n) that minimise the integral of the squared snap.

    >>> snap_shares([[0, 0, 0], [1, 0, 0], [2, 0, 0]]).round(6)
    array([0.5, 0.5])
    """
    from scipy.optimize import minimize

    places = finite_matrix(points, "points")
    if len(places) < 2:
        raise ControlError(f"a curve needs at least two points, got {len(places)}.")
    legs = np.linalg.norm(np.diff(places, axis=0), axis=1)
    if not np.all(legs > 0):
        raise ControlError("two neighbouring points are equal: the time between them is undetermined.")
    first = np.sqrt(legs) / np.sum(np.sqrt(legs))
    if len(legs) == 1:
        return first

    def cost(logs: np.ndarray) -> float:
        share = np.exp(logs - np.max(logs))
        times = np.concatenate([[0.0], np.cumsum(share / share.sum())])
        return float(np.log(_snap(minimum_snap(places, times))))

    found = minimize(cost, np.log(first), method="L-BFGS-B", options={"maxiter": iterations})
    share = np.exp(found.x - np.max(found.x))
    return share / share.sum()


def _snap(curve: PiecewisePolynomial) -> float:
    """Integral of the squared snap."""
    nodes, weights = np.polynomial.legendre.leggauss(4)  # degree three, squared
    total = 0.0
    for a, b in pairwise(curve.breaks):
        t = (a + b) / 2 + (b - a) / 2 * nodes
        total += float((b - a) / 2 * weights @ np.sum(curve.derivative(4)(t) ** 2, axis=1))
    return max(total, 1e-300)


def timed_snap(
    model: Model,
    points: Numbers,
    limits: Any = None,
    *,
    side: Any = None,
    heading: Any = None,
    speed: float = np.inf,
    rate: float = np.inf,
    margin: float = 0.05,
) -> PiecewisePolynomial:
    """Minimum-snap curve through ``points`` (m + 1, 3), as fast as the limits of a vehicle with parallel thrusts allow.

    Parameters
    ----------
    model : as in :func:`.flat_reference`. limits : limits of its inputs, less a ``margin`` of their range.
    side, heading : as in :func:`.flat_reference`. speed : largest speed, m/s. rate : largest angular velocity, rad/s.

    Raises
    ------
    ControlError
        The time is unlimited, or no time is long enough (hovering itself exceeds a limit).

    Examples
    --------
    >>> from heavytop.control import flat_reference
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> curve = timed_snap(craft.model, [[0, 0, 0], [2, 0, 1], [2, 2, 0]], craft.limits)
    >>> flat_reference(craft.model, curve, duration=curve.duration).feasibility(craft.limits).is_feasible()
    True
    """
    places = finite_matrix(points, "points")
    if places.shape[1] != 3:
        raise wrong_shape("points", ("m + 1", 3), places.shape)
    for what, value in (("speed", speed), ("rate", rate)):
        if not value > 0:
            raise ControlError(f"the largest {what} must be positive, got {value}.")
    if not 0 <= margin < 0.5:
        raise ControlError(f"the margin is a share of the range of the inputs from 0 to below 0.5, got {margin}.")
    bounds, gravity = Limits.of(limits), numeric_gravity(model)
    if bounds is None and not (np.isfinite(speed) or np.isfinite(rate)):
        raise ControlError("the time is unlimited: give limits of the inputs, a largest speed or a largest rate.")
    given = np.asarray(next((x for x in (side, heading) if x is not None), (1.0, 0.0, 0.0)), dtype=float)
    if np.linalg.norm(np.cross(given, gravity)) <= 1e-6 * np.linalg.norm(given) * np.linalg.norm(gravity):
        raise ControlError(
            "the side or heading vector is parallel to gravity: at rest it does not determine the attitude. Choose another one."
        )
    shares = np.concatenate([[0.0], np.cumsum(snap_shares(places))])
    unit = minimum_snap(places, shares)
    where = np.unique(np.concatenate([np.linspace(a, b, SAMPLES) for a, b in pairwise(shares)]))
    shapes = [unit.derivative(k)(where) for k in range(5)]

    def allowed(total: float) -> bool:
        r, r1, r2, r3, r4 = (shape / total**k for k, shape in enumerate(shapes))
        if np.max(np.linalg.norm(r1, axis=1)) > speed:
            return False
        a = r2 - gravity
        if np.min(np.linalg.norm(a, axis=1)) < 0.05 * float(np.linalg.norm(gravity)):
            return False  # near free fall the axis would turn over
        R, omega, omega_rate = attitude_about(unit_vector(a, r3, r4), side, heading)
        if not np.all(np.isfinite(omega)) or np.max(np.linalg.norm(omega, axis=1)) > rate:
            return False
        if bounds is None:
            return True
        q, v, acceleration = coordinates_of_motion(model, *motion_of(R, omega, omega_rate, r, r1, r2))
        force, B = model.inverse_dynamics(q, v, acceleration), model.input_matrix(q)
        u = np.matvec(np.linalg.pinv(finite_matrix(B, "the input matrix along the curve")), force)
        return not exceeded(model, bounds, where * total, u, -margin)

    low = high = float(np.sum(np.linalg.norm(np.diff(places, axis=0), axis=1)))
    for _ in range(40):
        if allowed(high):
            break
        low, high = high, 2 * high
    else:
        raise ControlError(
            f"no time is long enough: even at rest {model.name!r} exceeds its limits with a margin of {100 * margin:g} %."
        )
    while allowed(low) and low > 1e-3:
        low, high = low / 2, low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return minimum_snap(places, shares * high)
