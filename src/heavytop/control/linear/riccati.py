"""Discrete Riccati equation: one step, stationary, periodic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop.errors import ControlError

MARGIN = 1e-10
"""Least distance of the modes of a regulated step from the unit circle."""


def riccati(P: np.ndarray, A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step backwards: K = (R + B^T P B)^-1 B^T P A, P = Q + A^T P (A - B K)."""
    K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    new = Q + A.T @ P @ (A - B @ K)
    return 0.5 * (new + new.T), K


def stationary(A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stationary P and K; a ControlError if the inputs do not stabilise the motion to first order."""
    from scipy.linalg import solve_discrete_are

    try:
        P = solve_discrete_are(A, B, Q + 1e-12 * np.eye(len(A)), R)
        K = riccati(P, A, B, Q, R)[1]
    except (np.linalg.LinAlgError, ValueError):
        K = np.full((B.shape[1], len(A)), np.nan)
    # rounding may move an uncontrollable mode off the unit circle, which yields an invalid solution
    if not np.all(np.isfinite(K)) or np.max(np.abs(np.linalg.eigvals(A - B @ K))) > 1.0 - MARGIN:
        raise ControlError(
            "no regulator exists here: to first order the inputs do not stabilise the motion. Check that it is in balance, and that "
            "every state is controllable."
        )
    return P, K


def periodic(A: Sequence[np.ndarray], B: np.ndarray, Q: Sequence[np.ndarray], R: np.ndarray) -> np.ndarray:
    """P (nz, nz) of the periodic solution at the start of a period of steps.

    A step maps P to H + A^T P (I + G P)^-1 A with G = B R^-1 B^T, H = Q; so do several steps, with another triple (A, G, H):
    the solution is that of one constant step with the triple of the period.
    """
    eye = np.eye(len(Q[0]))
    F, G, H = eye, np.zeros_like(eye), np.zeros_like(eye)
    for k in range(len(A)):
        BRB = B[k] @ np.linalg.solve(R, B[k].T)
        inverse = np.linalg.inv(eye + G @ Q[k])
        F, G, H = A[k] @ inverse @ F, BRB + A[k] @ inverse @ G @ A[k].T, H + F.T @ Q[k] @ inverse @ F
        G, H = 0.5 * (G + G.T), 0.5 * (H + H.T)
    values, vectors = np.linalg.eigh(G)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return stationary(F, root, H, eye)[0]
