"""The quadratic program of a sample: states are eliminated (condensing), inputs remain, DAQP solves it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from heavytop.control.horizon_motion import Linear
from heavytop.errors import ControlError

SOFT = 8
"""DAQP's mark of a constraint that may be violated at a cost."""
WIDE = 1e30
"""What DAQP takes for infinity."""


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
        # x_k = f_k + S_k du: [f S] of a node is [A r; 0 1] times that of the node before, with B beside it
        inputs = horizon * nu
        self._sums = np.zeros((horizon, nx + 1, 1 + inputs))
        self._sums[:, nx, 0] = 1.0
        node, row, item = self._sums.strides
        self._own = as_strided(self._sums[0, :, 1:], (horizon, nx, nu), (node + nu * item, row, item))
        self._step = np.zeros((horizon, nx + 1, nx + 1))
        self._step[:, nx, nx] = 1.0
        self._diagonal = np.arange(inputs)
        low, high, start = speeds
        bounded = np.nonzero(np.isfinite(low) | np.isfinite(high))[0]
        self._rows, self._low, self._high, self._bounded = bounded + start, low[bounded], high[bounded], bounded
        soft = horizon * len(bounded)
        self._sense = np.concatenate([np.zeros(inputs), np.full(soft, SOFT)]).astype(np.intc)
        self._none = np.zeros((0, inputs))
        self.forget()

    def forget(self) -> None:
        """Begin the next solution anew instead of from the last one."""
        self._warm: Any = None
        self._held = True

    def solve(
        self, linear: Linear, u: np.ndarray, u_R: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Changes of the inputs (N, nu) and of the nodes (N, nx); None if there is no solution."""
        n, nx, nu, sums, step = self.n, self.nx, self.nu, self._sums, self._step
        step[:, :nx, :nx], step[:, :nx, nx] = linear.A, linear.defect
        self._own[...], sums[0, :nx, 0] = linear.B, linear.defect[0]
        for k in range(1, n):
            np.matmul(step[k], sums[k - 1, :, : 1 + k * nu], out=sums[k, :, : 1 + k * nu])
        f, S = sums[:, :nx, 0], sums[:, :nx, 1:]
        weighted = self._root @ linear.turn
        G = (weighted @ S).reshape(-1, n * nu)
        deviation = np.matvec(self._root, linear.away) + np.matvec(weighted, f)
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
        x = self._minimize(H, g, rows, np.minimum(upper, WIDE), np.maximum(lower, -WIDE))
        return None if x is None else (x.reshape(n, nu), S @ x + f)

    def _minimize(
        self, H: np.ndarray, g: np.ndarray, rows: np.ndarray, upper: np.ndarray, lower: np.ndarray
    ) -> np.ndarray | None:
        """The minimum, from the bounds that were active the last time; where none was, the plain call is faster."""
        if not np.isfinite(g).all() or not np.isfinite(H).all():
            return None
        if not self._held:
            x, _, flag, info = solver().solve(H, g, rows, upper, lower, self._sense)
        else:
            if self._warm is None:
                self._warm = solver().Model()
                ready = self._warm.setup(H, g, rows, upper, lower, self._sense.copy())[0]
            else:
                ready = self._warm.update(H=H, f=g, A=rows if len(rows) else None, bupper=upper, blower=lower)
            x, _, flag, info = self._warm.solve() if ready >= 0 else (g, 0.0, ready, {})
        if flag not in (1, 2):  # optimal, or optimal with soft constraints violated
            self.forget()
            return None
        held = bool(info["lam"].any())
        if held is not self._held:
            self._warm, self._held = None, held
        return x

    def cost(self, away: np.ndarray, more: np.ndarray) -> np.ndarray:
        """Half the weighted squares (...,) of deviations (..., N, nx) and of inputs beyond those of the reference (..., N, nu)."""
        deviation = np.matvec(self._root, away)
        effort = self._effort.reshape(self.n, self.nu)
        return 0.5 * (np.sum(deviation**2, axis=(-2, -1)) + np.sum(effort * more**2, axis=(-2, -1)))
