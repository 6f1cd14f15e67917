"""Prescribed turns about a horizontal axis, with a thrust that ends at rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from heavytop._arrays import Array, finite_matrix
from heavytop.control import Reference, constrained_least, derivatives, thrust_correction, thrust_reference
from heavytop.copters.vehicle import Vehicle, wrench_matrix

TERMS = 18
SAMPLES = 121
MARGIN = 0.02
"""Share of the range of thrust reserved for the controller."""


def rotated(
    vehicle: Vehicle,
    angle: Callable[[Array], Array],
    base: Callable[[np.ndarray, float], np.ndarray],
    duration: float,
    knots: Sequence[float],
    axis: str,
    free: bool,
) -> Reference:
    """The reference with the attitude angle(t) about ``axis`` and the specific thrust base(angle, g) plus the least correction that ends at rest.

    The correction (:func:`.thrust_correction`) has the least integral of its square such that, if possible, every rotor stays within its limits
    (a quadratic program).
    """
    g = float(np.linalg.norm(vehicle.model.description.gravity))
    edges = np.array([0.0, *knots, duration])
    gram, rows, right, shapes = thrust_correction(angle, lambda th: base(th, g), g, edges, TERMS, axis, free)
    times = np.linspace(0.0, duration, SAMPLES)[1:-1]
    low, high = thrust_bounds(vehicle, angle, times, axis)
    before = base(angle(times), g)
    c = _least(gram, rows, right, shapes(times), low - before, high - before)

    def thrust(t: np.ndarray) -> np.ndarray:
        return base(angle(t), g) + shapes(t) @ c

    return thrust_reference(vehicle.model, angle, thrust, axis, duration, breaks=list(knots))


def thrust_bounds(
    vehicle: Vehicle, angle: Callable[[Array], Array], times: np.ndarray, axis: str
) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest specific thrust (n,) with every rotor within its limits while it also turns the vehicle."""
    wide = np.full(len(times), np.inf)
    if vehicle.limits is None:
        return -wide, wide
    lower, upper = vehicle.limits.bounds(vehicle.model)
    margin = MARGIN * (upper - lower)
    second = derivatives(lambda t: np.reshape(angle(t), (1,)), 2, "angle")(times)[2][:, 0]
    inertia = vehicle.model.description.inertias["hull"]
    share = np.linalg.pinv(finite_matrix(wrench_matrix(vehicle.airframe.rotors), "the wrenches of the rotors"))
    k = "xyz".index(axis)
    moment = np.zeros(6)
    moment[3 + k] = float(np.asarray(inertia.moment_at_com)[k, k])
    per_thrust = share[:, 2] * float(inertia.mass)
    turn = second[:, None] * (share @ moment)
    with np.errstate(divide="ignore"):
        low = np.max((lower + margin - turn) / per_thrust, axis=1)
        high = np.min((upper - margin - turn) / per_thrust, axis=1)
    return low, high


def _least(
    gram: np.ndarray, rows: np.ndarray, right: np.ndarray, s: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """min c^T gram c with rows c = right and low <= s c <= high; without the latter if that is impossible."""
    plain = constrained_least(gram, rows, right)
    value = s @ plain
    if np.all(value >= low) and np.all(value <= high):
        return plain
    import casadi

    A = np.vstack([rows, s])
    shape = {"h": casadi.DM(gram).sparsity(), "a": casadi.DM(A).sparsity()}
    quiet = {"print_iter": False, "print_header": False, "print_info": False, "error_on_fail": False, "max_iter": 500}
    solver = casadi.conic("thrust", "qrqp", shape, quiet)
    found = solver(h=gram, a=A, lba=np.concatenate([right, low]), uba=np.concatenate([right, high]), x0=plain)
    c = np.asarray(found["x"]).ravel()
    slack = 1e-6 * (1 + np.max(np.abs(value)))
    kept = np.all(s @ c >= low - slack) and np.all(s @ c <= high + slack)
    met = np.max(np.abs(rows @ c - right)) < 1e-9 * (1 + np.max(np.abs(right)))
    return c if solver.stats()["success"] and kept and met else plain
