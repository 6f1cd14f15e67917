"""The quadratic program of a sample: states are eliminated (condensing), inputs remain, DAQP solves it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from heavytop.errors import ControlError

SOFT = 8
"""DAQP's mark of a constraint that may be violated at a cost."""


@cache
def solver() -> Any:
    """The solver DAQP, or an error that says how to get it."""
    try:
        import daqp
    except ImportError:
        raise ControlError("predictive control needs the package 'daqp': pip install daqp.") from None
    return daqp


class QuadraticProgram:
    """min sum over the nodes of |D (d + T x)|^2 + |u + du - u_R|_R^2 with x_{k+1} = A x_k + B du_k + r_k, within limits.

    Parameters
    ----------
    horizon, nx, nu : sizes. weights : (nx,) of deviations, final : (nx, nx) at the last node, effort : (nu,).
    limits : of the inputs. speeds : lower and upper (nv,) of velocities and where they begin in x.
    """

    def __init__(
        self,
        horizon: int,
        nx: int,
        nu: int,
        weights: np.ndarray,
        final: np.ndarray,
        effort: np.ndarray,
        limits: tuple[np.ndarray, np.ndarray],
        speeds: tuple[np.ndarray, np.ndarray, int],
    ) -> None:
        self.n, self.nx, self.nu, self.limits = horizon, nx, nu, limits
        self._root = np.broadcast_to(np.diag(np.sqrt(weights)), (horizon, nx, nx)).copy()
        eigenvalues, vectors = np.linalg.eigh(final)
        self._root[-1] = np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * vectors.T
        self._effort = np.tile(effort, horizon)
        self._S = np.zeros((horizon, nx, horizon * nu))
        self._f = np.zeros((horizon, nx))
        self._diagonal = np.arange(horizon * nu)
        low, high, start = speeds
        bounded = np.nonzero(np.isfinite(low) | np.isfinite(high))[0]
        self._rows, self._low, self._high, self._bounded = bounded + start, low[bounded], high[bounded], bounded
        hard, soft = horizon * nu, horizon * len(bounded)
        self._sense = np.concatenate([np.zeros(hard), np.full(soft, SOFT)]).astype(np.intc)
        self._none = np.zeros((0, hard))
        self._wide = 1e30

    def solve(
        self, A: np.ndarray, B: np.ndarray, defect: np.ndarray, away: np.ndarray, turn: np.ndarray, u: np.ndarray,
        u_R: np.ndarray, v: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
        """Changes of the inputs (N, nu) and of the nodes (N, nx); None if there is no solution."""
        n, nu, S, f = self.n, self.nu, self._S, self._f
        S[0, :, :nu], f[0] = B[0], defect[0]
        for k in range(1, n):
            np.matmul(A[k], S[k - 1, :, : k * nu], out=S[k, :, : k * nu])
            S[k, :, k * nu : (k + 1) * nu] = B[k]
            f[k] = A[k] @ f[k - 1] + defect[k]
        weighted = self._root @ turn
        G = (weighted @ S).reshape(-1, n * nu)
        deviation = np.matvec(self._root, away) + np.matvec(weighted, f)
        H = G.T @ G
        H[self._diagonal, self._diagonal] += self._effort
        g = deviation.reshape(-1) @ G + self._effort * (u - u_R).ravel()
        lower, upper = ((side - u).ravel() for side in self.limits)
        rows = self._none
        if len(self._rows):
            rows = S[:, self._rows].reshape(-1, n * nu)
            here = v[:, self._bounded] + f[:, self._rows]
            lower = np.concatenate([lower, (self._low - here).ravel()])
            upper = np.concatenate([upper, (self._high - here).ravel()])
        x, _, flag, _ = solver().solve(
            H, g, rows, np.minimum(upper, self._wide), np.maximum(lower, -self._wide), self._sense
        )
        if flag not in (1, 2):  # optimal, or optimal with soft constraints violated
            return None
        du = x.reshape(n, nu)
        return du, S @ x + f
