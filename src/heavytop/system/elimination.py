"""Sparse LDL^T elimination on symbols, with guarded pivots for matrices that may lose rank.

For a positive semidefinite matrix a zero pivot means that its row depends on the rows before it: the unknown is set to zero and the
elimination goes on. That solves consistent systems with redundant equations (Bricard's mechanism, planar loops in space) without any
decision at derivation time, in straight-line code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, is_symbolic, to_sx

RANK_TOLERANCE = 1e-11
"""A pivot of S = Phi M^-1 Phi^T below this share of its diagonal entry counts as zero: the row of Phi then lies within about 3e-6 rad
(the square root), measured in the metric M^-1, of the span of the rows before it."""


def independent_rows(Phi: np.ndarray, M: np.ndarray) -> int:
    """Number of independent rows of Phi (m, n), by the same measure as the guarded elimination."""
    S = Phi @ np.linalg.solve(M, Phi.T)
    size = np.sqrt(np.diag(S))
    kept = size > 0.0
    scaled = S[np.ix_(kept, kept)] / np.outer(size[kept], size[kept])
    return int(np.sum(np.linalg.eigvalsh(scaled) > RANK_TOLERANCE)) if np.any(kept) else 0


class SparseLDL:
    """Factorisation P M P^T = L D L^T of a symbolic symmetric matrix by scalar elimination that skips structural zeros.

    With ``guarded`` each inverse pivot is 1/d where d is well above rounding, else 0 (rank-revealing for consistent systems).
    """

    def __init__(self, matrix: Array, guarded: bool = False) -> None:
        import casadi

        M = casadi.SX(matrix.to_casadi()) if is_symbolic(matrix) else casadi.SX(casadi.DM(np.atleast_2d(matrix)))
        self.n = M.shape[0]
        self._zero = casadi.SX(0.0)
        self.rows = [{j: M[i, j] for j in range(self.n) if not M[i, j].is_zero()} for i in range(self.n)]
        diagonal = [row.get(i, self._zero) for i, row in enumerate(self.rows)]
        self.order = self._minimum_degree()
        self.inverse_pivots: dict[int, casadi.SX] = {}
        self.factors: dict[int, dict[int, casadi.SX]] = {}
        active = [dict(row) for row in self.rows]
        done: set[int] = set()
        for k in self.order:
            done.add(k)
            pivot = active[k].get(k, self._zero)
            self.inverse_pivots[k] = self._inverse(pivot, diagonal[k], guarded)
            below = {i: value for i, value in active[k].items() if i not in done}
            scaled = {i: value * self.inverse_pivots[k] for i, value in below.items()}
            self.factors[k] = scaled
            for i, factor in scaled.items():
                for j, value in below.items():
                    if j >= i:
                        updated = active[i].get(j, self._zero) - factor * value
                        active[i][j] = updated
                        active[j][i] = updated

    def _inverse(self, pivot, diagonal, guarded: bool):
        import casadi

        if not guarded:
            return 1.0 / pivot  # a zero here means a velocity that moves no mass: the result is then not finite
        if pivot.is_zero():
            return self._zero
        regular = pivot > RANK_TOLERANCE * diagonal
        return casadi.if_else(regular, 1.0 / casadi.if_else(regular, pivot, 1.0), 0.0)

    def _minimum_degree(self) -> list[int]:
        """Elimination order by least number of neighbours at each stage."""
        neighbours = [set(row) - {i} for i, row in enumerate(self.rows)]
        left, order = set(range(self.n)), []
        while left:
            k = min(left, key=lambda i: (len(neighbours[i]), i))
            left.discard(k)
            order.append(k)
            for i in neighbours[k]:
                neighbours[i] |= neighbours[k]
                neighbours[i] -= {i, k}
        return order

    def solve_column(self, column: dict[int, Any]) -> dict[int, Any]:
        """x with M x = column, both as sparse dictionaries index -> expression."""
        x = dict(column)
        for k in self.order:
            if k not in x:
                continue
            for i, factor in self.factors[k].items():
                x[i] = x.get(i, self._zero) - factor * x[k]
        result = {k: value * self.inverse_pivots[k] for k, value in x.items() if not self.inverse_pivots[k].is_zero()}
        for k in reversed(self.order):
            for i, factor in self.factors[k].items():
                if i in result:
                    result[k] = result.get(k, self._zero) - factor * result[i]
        return result

    def solve(self, right: Array) -> Array:
        """X with M X = right for a vector (n,) or a matrix (n, m)."""
        import casadi

        is_vector = len(right.shape) == 1
        R = to_sx(right) if is_vector else casadi.SX(right.to_casadi() if is_symbolic(right) else casadi.DM(right))
        X = casadi.SX(self.n, R.shape[1])
        for j in range(R.shape[1]):
            column = {i: R[i, j] for i in range(self.n) if not R[i, j].is_zero()}
            for i, value in self.solve_column(column).items():
                X[i, j] = value
        return casadi.ArrayInterface(casadi.densify(X).T, 1) if is_vector else casadi.ArrayInterface(X, 2)
