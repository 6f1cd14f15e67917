"""Whether a reference can be followed: the inputs it needs, the force that is missing, and which limit is exceeded when and by how much."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import finite_matrix
from heavytop.control.limits.thrust_sector import Sector, TiltLimits
from heavytop.control.references.reference import Exceeded, Feasibility, Reference
from heavytop.ocp.bounds import Limits
from heavytop.system.model import Model

SLACK = 1e-9
"""Share of an input's range, or of its size, that counts as rounding."""


def feasibility(
    reference: Reference, limits: Any, until: float | None, samples: int, model: Model | None
) -> Feasibility:
    """Least-squares inputs B u = M a_R + c + ... - f along the reference, and the residual (rank-revealing)."""
    plant = model or reference.model
    times = np.linspace(0.0, reference.horizon if until is None else until, samples)
    times = np.unique(np.concatenate([times, [b for b in reference.breaks if 0 <= b <= times[-1]]]))
    q, v, a = reference(times)
    at = reference.clock(times, plant)
    force = plant.inverse_dynamics(q, v, a, at)
    B = plant.input_matrix(q, at)
    u = np.matvec(np.linalg.pinv(finite_matrix(B, "the input matrix along the reference")), force)
    residual = force - np.matvec(B, u)
    still = plant.inverse_dynamics(q, np.zeros_like(v), np.zeros_like(a), at)
    terms = np.maximum(np.abs(force), np.abs(still)) + np.matvec(np.abs(B), np.abs(u))
    sizes = plant.evaluate("velocity_sizes", q, parameters=at)
    largest = np.max(terms * sizes, initial=0.0)  # forces times their levers are moments, and compare
    bounds = Limits.of(limits)
    beyond = () if bounds is None else exceeded(plant, bounds, times, u)
    outside = tuple(name for name in plant.u_names if any(name in e.inputs for e in beyond))
    return Feasibility(plant.u_names, times, u, residual, outside, beyond, np.broadcast_to(largest / sizes, v.shape))


def exceeded(
    model: Model, limits: Limits, times: np.ndarray, u: np.ndarray, slack: float = SLACK
) -> tuple[Exceeded, ...]:
    """Limits that inputs u (n, nu) at times (n,) exceed, each where it is worst; a negative ``slack`` keeps a margin of every range."""
    found: list[Exceeded] = []
    names, inner = model.u_names, set()
    if isinstance(limits, TiltLimits):
        for sector in limits.sectors:
            inner |= {sector.across, sector.along}
            pair = (names[sector.across], names[sector.along])
            for what, values, (low, high), least in _of_sector(sector, times, u[:, [sector.across, sector.along]]):
                found += _worst(pair, what, times, values, (low, high, least), slack)
    lower, upper = limits.bounds(model)
    largest = float(np.max(np.abs(u), initial=0.0))
    for k, name in enumerate(names):
        if k not in inner:
            found += _worst((name,), repr(name), times, u[:, k], (lower[k], upper[k], largest), slack)
    return tuple(found)


def _of_sector(
    sector: Sector, times: np.ndarray, force: np.ndarray
) -> list[tuple[str, np.ndarray, tuple[float, float], float]]:
    """Thrust, tilt and tilt rate with their bounds and a size that none of them is below."""
    told = f"of input {sector.across} and {sector.along}"
    angle = np.unwrap(np.arctan2(-force[:, 0], force[:, 1]))
    found = [(f"the thrust {told}", np.linalg.norm(force, axis=1), sector.thrust, 0.0)]
    if sector.bounded:
        middle = (sector.tilt[0] + sector.tilt[1]) / 2
        angle = angle - 2 * np.pi * np.round((angle[0] - middle) / (2 * np.pi))
        found.append((f"the tilt {told}", angle, sector.tilt, 1.0))
    if np.isfinite(sector.rate) and len(times) > 1:
        found.append((f"the tilt rate {told}", np.gradient(angle, times), (-sector.rate, sector.rate), 0.0))
    return found


def _worst(
    inputs: tuple[str, ...],
    what: str,
    times: np.ndarray,
    values: np.ndarray,
    bounds: tuple[float, float, float],
    slack: float,
) -> list[Exceeded]:
    """Where values are farthest beyond ``bounds``: least, largest, and a size of such values where these are infinite."""
    low, high, least = bounds
    size = high - low if np.isfinite(high - low) and high > low else np.max(np.abs(values), initial=least)
    room = slack * max(float(size), np.max(np.abs(values), initial=0.0) if slack > 0 else 0.0)
    sides = []
    for bound, off in ((low, low - values), (high, values - high)):
        k = int(np.argmax(off))
        if off[k] > room:
            sides.append(Exceeded(inputs, what, float(times[k]), float(values[k]), float(bound)))
    return sides
