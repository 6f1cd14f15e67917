"""Quadratic program of a sample: states are eliminated (condensing), DAQP solves for the inputs."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from heavytop.control.mpc.horizon_motion import Linear
from heavytop.errors import ControlError
from heavytop.ocp import StateBounds

BLOCKS = 5
"""Number of column blocks in which the Hessian is computed."""
SOFT = 8
"""DAQP's flag of a soft constraint."""
SOFTNESS = 1e-5
"""DAQP's ``rho_soft``: remaining part of a violation, about."""
WIDE = 1e30
"""DAQP's infinity."""


@cache
def solver() -> Any:
    """The module of DAQP."""
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
    limits : limits of the inputs. bounds : soft bounds of the states, or None.
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
        bounds: StateBounds | None,
    ) -> None:
        self.n, self.nx, self.nu, self.limits = horizon, nx, nu, limits
        self._root = np.broadcast_to(np.diag(np.sqrt(weights)), (horizon, nx, nx)).copy()
        eigenvalues, vectors = np.linalg.eigh(final)
        self._root[-1] = np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * vectors.T
        self._effort = np.tile(effort, horizon)
        # x_k = f_k + S_k du: [f S] of a node is [A r; 0 1] times that of the previous node, next to B
        inputs = horizon * nu
        self._sums = np.zeros((horizon, nx + 1, 1 + inputs))
        self._sums[:, nx, 0] = 1.0
        self._step = np.zeros((horizon, nx + 1, nx + 1))
        self._step[:, nx, nx] = 1.0
        self._divide()
        self._turned, self._weighed = np.zeros((horizon, nx, nx + 1)), np.empty((horizon, nx, 1 + inputs))
        # blocks of inputs: first and last column, and the first row of the nodes they affect
        nodes = np.round(np.linspace(0, horizon, min(BLOCKS, horizon) + 1)).astype(int).tolist()
        self._blocks = [(a * nu, b * nu, a * nx) for a, b in pairwise(nodes)]
        self._low, self._high = (np.zeros(0),) * 2 if bounds is None else (bounds.lower, bounds.upper)
        soft = horizon * len(self._low)
        # violated bounds are restored within two thirds of the horizon: immediately it would take all available input
        self._way_back = np.maximum(1.0 - 1.5 * np.arange(1, horizon + 1) / horizon, 0.0)[:, None]
        self._sense = np.concatenate([np.zeros(inputs), np.full(soft, SOFT)]).astype(np.intc)
        self._none = np.zeros((0, inputs))
        self.forget()

    def copy(self) -> QuadraticProgram:
        """A program with its own arrays, not warm-started."""
        made = object.__new__(QuadraticProgram)
        vars(made).update(vars(self))
        made._sums, made._step, made._turned = self._sums.copy(), self._step.copy(), self._turned.copy()
        made._weighed = self._weighed.copy()
        made._divide()
        made.forget()
        return made

    def _divide(self) -> None:
        """Views of the sums: B (N, nx, nu) of the moves; for each move its step, its previous sums, and its result."""
        sums, nu = self._sums, self.nu
        node, row, item = sums.strides
        self._own = as_strided(sums[0, :, 1:], (self.n, self.nx, nu), (node + nu * item, row, item))
        before = [slice(0, 1 + k * nu) for k in range(self.n)]
        self._chain = [(self._step[k], sums[k - 1, :, before[k]], sums[k, :, before[k]]) for k in range(1, self.n)]

    def forget(self) -> None:
        """Do not warm-start the next solution."""
        self._warm: Any = None
        self._held = True

    def _square(self, G: np.ndarray) -> np.ndarray:
        """H = G^T G + R, block by block: an input affects only later nodes."""
        H, inputs = np.empty((G.shape[1],) * 2), G.shape[1]
        for first, last, row in self._blocks:
            later = G[row:]
            np.matmul(later[:, first:last].T, later[:, :last], out=H[first:last, :last])
            H[:first, first:last] = H[first:last, :first].T
        H.reshape(-1)[:: inputs + 1] += self._effort
        return H

    def solve(
        self,
        linear: Linear,
        deviation: np.ndarray,
        u: np.ndarray,
        u_R: np.ndarray,
        kept: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Changes of the inputs (N, nu) and of the nodes (N, nx); None if there is no solution.

        deviation : see :meth:`weighed`. kept : bounded values (N + 1, m) at the nodes and their slopes (N + 1, m, nx).
        """
        n, nx, nu, sums, step = self.n, self.nx, self.nu, self._sums, self._step
        step[:, :nx, :nx], step[:, :nx, nx] = linear.A, linear.defect
        self._own[...], sums[0, :nx, 0] = linear.B, linear.defect[0]
        for move, before, after in self._chain:
            np.matmul(move, before, out=after)
        f, S = sums[:, :nx, 0], sums[:, :nx, 1:]
        np.matmul(self._root, linear.turn, out=self._turned[:, :, :nx])
        np.matmul(self._turned, sums, out=self._weighed)
        G = self._weighed[:, :, 1:].reshape(-1, n * nu)
        deviation = (deviation + self._weighed[:, :, 0]).reshape(-1)
        H = self._square(G)
        g = deviation @ G + self._effort * (u - u_R).ravel()
        lower, upper = ((side - u).ravel() for side in self.limits)
        rows = self._none
        if kept is not None:
            value, slope = kept[0], kept[1][1:]
            rows = np.matmul(slope, S).reshape(-1, n * nu)
            here = value[1:] + np.matvec(slope, f)
            low = self._low - self._way_back * np.maximum(self._low - value[0], 0.0)
            high = self._high + self._way_back * np.maximum(value[0] - self._high, 0.0)
            lower = np.concatenate([lower, (low - here).ravel()])
            upper = np.concatenate([upper, (high - here).ravel()])
        x = self._minimize(H, g, rows, np.minimum(upper, WIDE), np.maximum(lower, -WIDE))
        return None if x is None else (x.reshape(n, nu), S @ x + f)

    def _minimize(
        self, H: np.ndarray, g: np.ndarray, rows: np.ndarray, upper: np.ndarray, lower: np.ndarray
    ) -> np.ndarray | None:
        """The minimum, warm-started from the previous active bounds; if there were none, a plain call is faster."""
        if not np.isfinite(g).all() or not np.isfinite(H).all():
            return None
        if not self._held:
            x, _, flag, info = solver().solve(H, g, rows, upper, lower, self._sense, rho_soft=SOFTNESS)
        else:
            if self._warm is None:
                self._warm = solver().Model()
                self._warm.settings = {"rho_soft": SOFTNESS}
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

    def weighed(self, away: np.ndarray) -> np.ndarray:
        """Deviations (N, nx) times the roots of their weights."""
        return np.matvec(self._root, away)

    def cost(self, deviation: np.ndarray, more: np.ndarray) -> float:
        """Half the squared norm of weighed deviations (N, nx) and of inputs relative to the reference (N, nu)."""
        d, more = deviation.reshape(-1), more.reshape(-1)
        return 0.5 * float(d @ d + self._effort @ (more * more))
