"""The inputs that a motion needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop.system.model import Model

DEPENDENT = 1e-9
"""Relative size below which a direction of the inputs counts as without effect."""


def needed_inputs(
    model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray, parameters: Mapping[str, Any] | None = None
) -> np.ndarray:
    """Inputs u (..., nu) with ``B u = M a + bias`` as well as possible, for states (..., nq), (..., nv) and accelerations (..., nv).

    Reactions of loops and constraints take their part: only what acts along the velocities N that they allow has to be balanced,
    ``N^T B u = N^T (M a + bias)``.

    Examples
    --------
    >>> import heavytop as ht
    >>> quad = ht.library.quadcopter().derive()
    >>> needed_inputs(quad, quad.neutral(), np.zeros(6), np.zeros(6)).round(3)
    array([2.207, 2.207, 2.207, 2.207])
    """
    force, B = model.inverse_dynamics(q, v, a, parameters), model.input_matrix(q, parameters)
    if model.is_constrained:
        N = np.swapaxes(model.minimal_tangent(q, v, parameters=parameters).N, -2, -1)
        force, B = np.matvec(N, force), N @ B
    return np.matvec(np.linalg.pinv(B, rcond=DEPENDENT), force)
