"""Inverse dynamics for the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import is_finite
from heavytop.system import Model

DEPENDENT = 1e-9
"""Relative singular value below which a direction of the inputs is without effect."""


def needed_inputs(
    model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray, parameters: Mapping[str, Any] | None = None
) -> np.ndarray:
    """Inputs u (..., nu) of least error in ``B u = M a + bias``, for states (..., nq), (..., nv) and accelerations (..., nv).

    Loops and constraints react: only forces along their admissible velocities N have to be balanced, ``N^T B u = N^T (M a + bias)``.

    Examples
    --------
    >>> import heavytop as ht
    >>> quad = ht.library.quadcopter().derive()
    >>> needed_inputs(quad, quad.neutral(), np.zeros(6), np.zeros(6)).round(3)
    array([2.207, 2.207, 2.207, 2.207])
    """
    force = model.evaluate("inverse_dynamics", q, v, a, parameters=parameters)
    B = model.evaluate("input_matrix", q, parameters=parameters)
    if not (is_finite(force) and is_finite(B)):
        model.inverse_dynamics(q, v, a, parameters)  # raises the reason
        model.input_matrix(q, parameters)
    if model.is_constrained:
        N = np.swapaxes(model.minimal_tangent(q, v, parameters=parameters).N, -2, -1)
        force, B = np.matvec(N, force), N @ B
    return np.matvec(np.linalg.pinv(B, rcond=DEPENDENT), force)
