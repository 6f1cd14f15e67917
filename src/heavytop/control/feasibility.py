"""Whether a reference can be followed: the inputs it needs and the force that is missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import finite_matrix
from heavytop.control.allocation import Limits
from heavytop.control.reference import Feasibility, Reference
from heavytop.system.model import Model


def feasibility(
    reference: Reference, limits: Any, until: float | None, samples: int, model: Model | None
) -> Feasibility:
    """Least-squares inputs B u = M a_R + c + ... - f along the reference, and the residual (rank-revealing)."""
    plant = model or reference.model
    times = np.linspace(0.0, until or reference.horizon, samples)
    times = np.unique(np.concatenate([times, [b for b in reference.breaks if 0 <= b <= times[-1]]]))
    q, v, a = reference(times)
    force = plant.inverse_dynamics(q, v, a)
    B = plant.input_matrix(q)
    u = np.matvec(np.linalg.pinv(finite_matrix(B, "the input matrix along the reference")), force)
    residual = force - np.matvec(B, u)
    outside: tuple[str, ...] = ()
    bounds = Limits.of(limits)
    if bounds is not None:
        lower, upper = bounds.bounds(plant)
        slack = 1e-9 * np.max(np.abs(u), initial=1.0)
        wrong = np.any((u < lower - slack) | (u > upper + slack), axis=0)
        outside = tuple(name for name, bad in zip(plant.u_names, wrong, strict=True) if bad)
    return Feasibility(plant.u_names, times, u, residual, outside)
