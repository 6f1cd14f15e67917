"""Collocation with eliminated stages: intervals of stiff motions with exact first and second derivatives.

The rates k_i at the points c_i of an interval solve ``k_i = rho(x + h sum_j a_ij k_j, u_i)`` for all i. Newton's method finds them for
all intervals together, so that the nonlinear program has the variables and rows of shooting. Derivatives are those of the implicit function,

    M dk = rho_x (dx + dh sum_j a_ij k_j) + rho_u du,     M^T mu = b lam + ...,     M_ij = delta_ij - h a_ij rho_x(z_i),

and the second ones are composed from dz and mu as for explicit methods (:mod:`heavytop.ocp.shooting`).
"""

from __future__ import annotations

import numpy as np

from heavytop.ocp.charts import ChartRates, Derivatives
from heavytop.ocp.shooting import NodeLayout, Shooting, Trajectory
from heavytop.simulate import Tableau

MOST, CLOSE = 30, 1e-13
"""Largest number of Newton steps, and the relative change at convergence."""


class Collocation(Shooting):
    """Integration of N intervals with ``substeps`` steps of an implicit method; arguments as for :class:`.Shooting`."""

    def _step(self, made: Trajectory, step: int, x: np.ndarray, dx: np.ndarray, slopes: bool) -> None:
        """Fill the stages of a step; their rates are NaN if Newton's method does not converge."""
        n = self.tableau.stages
        stages = slice(step * n, (step + 1) * n)
        made.k[:, stages], made.z[:, stages] = self._rates(made, step, x)
        if slopes:
            self._add_slopes(made, step, dx)

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        return np.einsum("i,ni...->n...", np.array(self.tableau.b), values)

    def _rates(self, made: Trajectory, step: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rates k (N, s, nx) and arguments z (N, s, nx + nu) of all stages of a step from x (N, nx)."""
        (count, nx), n, (_, h, _, q_bar, parameters, _) = x.shape, self.tableau.stages, made.given
        u = made.z[:, step * n : (step + 1) * n, nx:].copy()
        if not step:  # the rates where the step begins
            begin = np.concatenate([np.broadcast_to(x[:, None], (count, n, nx)), u], axis=2)
            k = self._first(begin, q_bar, parameters)[0]
        else:
            k = made.k[:, (step - 1) * n : step * n].copy()
        best = np.full(count, np.inf)
        converged = np.zeros(count, dtype=bool)
        with np.errstate(all="ignore"):
            for _ in range(MOST):
                z = np.concatenate([x[:, None] + h[:, None, None] * np.einsum("ij,njk->nik", self._a, k), u], axis=2)
                rate, slope = self._first(z, q_bar, parameters)
                error = (rate - k).reshape(count, -1)
                M = self._matrix(h, slope)
                usable = np.isfinite(error).all(axis=1) & np.isfinite(M).all(axis=(1, 2))
                change = np.full_like(error, np.nan)
                if usable.any():
                    change[usable] = _solve(M[usable], error[usable][:, :, None])[:, :, 0]
                size = np.abs(change).max(axis=1) / (1.0 + np.abs(k).max(axis=(1, 2)))
                k = k + change.reshape(k.shape)
                # rounding keeps stiff rates from full convergence: also accepted when they no longer improve
                converged |= (size < CLOSE) | ((size < 1e-9) & (size >= 0.5 * best))
                best = np.fmin(best, size)
                if np.all(converged | ~usable):
                    break
        k[~converged] = np.nan
        z = np.concatenate([x[:, None] + h[:, None, None] * np.einsum("ij,njk->nik", self._a, k), u], axis=2)
        return k, z

    def _first(self, z: np.ndarray, q_bar: np.ndarray, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rates (N, s, nx) and their slopes (N, s, nx, nx + nu) at all stages, in one native batch."""
        count, n = z.shape[:2]
        centres = np.repeat(q_bar, n, axis=0)
        rate, slope = self.rates.rho.first(z.reshape(count * n, -1), centres, parameters)
        return rate.reshape(count, n, -1), slope.reshape(count, n, *slope.shape[1:])

    def _matrix(self, h: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """M (N, s nx, s nx)."""
        count, n, nx = slope.shape[:3]
        M = -np.einsum("n,ij,nikl->nikjl", h, self._a, slope[..., :nx]).reshape(count, n * nx, n * nx)
        M[:, np.arange(n * nx), np.arange(n * nx)] += 1.0
        return M

    def _add_slopes(self, made: Trajectory, step: int, dx: np.ndarray) -> None:
        """Fill the slopes of the stages of a step."""
        layout, nx, n, (_, h, dh, q_bar, parameters, _) = self.layout, self.layout.nx, self.tableau.stages, made.given
        stages = slice(step * n, (step + 1) * n)
        z, count = made.z[:, stages], len(made.z)
        _, slope = self._first(np.nan_to_num(z), q_bar, parameters)
        base = np.repeat(dx[:, None], n, axis=1)
        if layout.free:
            base[..., layout.tau] += dh[:, None, None] * np.einsum("ij,njk->nik", self._a, made.k[:, stages])
        du = np.stack(self._input_slopes[stages])
        forced = slope[..., :nx] @ base + slope[..., nx:] @ du
        dk = _solve(self._matrix(h, slope), forced.reshape(count, n * nx, -1)).reshape(forced.shape)
        made.slope[:, stages], made.dk[:, stages] = slope, dk
        made.dz[:, stages, :nx] = base + np.einsum("n,ij,njkl->nikl", h, self._a, dk)

    def _stage_multipliers(
        self, slope: np.ndarray, adjoint: np.ndarray, h: np.ndarray, pushed: np.ndarray
    ) -> np.ndarray:
        n, (count, nx) = self.tableau.stages, adjoint.shape
        right = np.array(self.tableau.b)[:, None] * adjoint[:, None] + np.einsum("ji,njk->nik", self._a, pushed)
        M = np.swapaxes(self._matrix(h[:, 0], slope), 1, 2)
        return _solve(M, right.reshape(count, n * nx, 1)).reshape(count, n, nx)


def _solve(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions of all systems; NaN for singular ones."""
    try:
        return np.linalg.solve(M, right)
    except np.linalg.LinAlgError:
        found = np.full(right.shape, np.nan)
        for k in range(len(M)):
            try:
                found[k] = np.linalg.solve(M[k], right[k])
            except np.linalg.LinAlgError:
                continue
        return found


def intervals(
    rates: ChartRates, layout: NodeLayout, tableau: Tableau, substeps: int = 1, integrand: Derivatives | None = None
) -> Shooting:
    """The integration of intervals by a tableau, explicit or implicit."""
    kind = Collocation if tableau.implicit else Shooting
    return kind(rates, layout, tableau, substeps, integrand)
