"""Sparse LDL^T elimination on symbols, with guarded pivots for matrices that may lose rank.

For a positive semidefinite matrix a zero pivot means that its row depends on the rows before it: the unknown is set to zero and the
elimination goes on. That solves consistent systems with redundant equations (Bricard's mechanism, planar loops in space) without any
decision at derivation time, in straight-line code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, Flags, Floats, is_symbolic, to_sx

RANK_TOLERANCE = 1e-10
"""A pivot of S = Phi M^-1 Phi^T below this share of the scale of its row counts as zero: in the metric M^-1 the row of Phi then lies within
about 1e-5 (the square root) of the span of the rows before it. The scale is the sum of the diagonal entries of the rows it belongs to,
so that a row that vanishes completely, as in an aligned mechanism, is found to vanish."""


ROUNDING = 1e-16
"""Share of the sum of all scales that is added to each: a loop that is redundant as a whole has rows of rounding errors alone, about 1e-16 of the
others (1e-32 in S), which must not be judged by themselves."""


INDEPENDENT = 1e-9
"""Singular value of rows, relative to the largest, below which they depend on each other."""

NEAR = 1e-3
"""Share of its scale below which a pivot indicates a nearly singular configuration."""


def row_scales(diagonal: Sequence[Any], groups: Sequence[int]) -> list[Any]:
    """For each row the sum of the diagonal entries of its group."""
    totals: dict[int, Any] = {}
    for entry, group in zip(diagonal, groups, strict=True):
        totals[group] = totals[group] + entry if group in totals else entry
    return [totals[group] for group in groups]


def guarded_scales(diagonal: Sequence[Any], groups: Sequence[int]) -> list[Any]:
    """The scales of :func:`row_scales`, none of them below rounding of the others."""
    scales = row_scales(diagonal, groups)
    if len(set(groups)) < 2:
        return scales
    floor = ROUNDING * sum(diagonal)
    return [scale + floor for scale in scales]


def scaled_compliance(Phi: Floats, M: Floats, groups: Sequence[int]) -> Floats:
    """S = Phi M^-1 Phi^T (m, m) with each row and column divided by the root of its scale; zero where that vanishes."""
    S = Phi @ np.linalg.solve(M, Phi.T)
    size = np.sqrt(guarded_scales(np.diag(S).tolist(), groups))
    return S / np.where(size > 0.0, size, np.inf) / np.where(size > 0.0, size, np.inf)[:, None]


def independent_rows(Phi: Floats, M: Floats, groups: Sequence[int]) -> int:
    """Number of independent rows of Phi (m, n), by the same measure as the guarded elimination."""
    return int(np.sum(np.linalg.eigvalsh(scaled_compliance(Phi, M, groups)) > RANK_TOLERANCE))


def dependent_rows(rows: Floats) -> Flags:
    """Which rows (m, n) take part in a linear dependence, so that forces in them are not unique.

    >>> dependent_rows(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]))
    array([False,  True,  True])
    """
    left, singular, _ = np.linalg.svd(rows)
    rank = int(np.sum(singular > INDEPENDENT * singular[0]))
    return np.max(np.abs(left[:, rank:]), axis=1, initial=0.0) > 1e-6


def minimum_degree(neighbours: list[set[int]], chosen: Iterable[int], last: bool = False) -> list[int]:
    """The chosen nodes of a graph in the order of least fill-in: always one with the fewest neighbours; ``neighbours`` are used up.

    Of several it is the first, or the ``last``: in a mass matrix a joint next to the leaves, so that rows of points there stay sparse.

    >>> minimum_degree([{1, 2}, {0}, {0}], range(3))
    [1, 0, 2]
    """
    left, order = set(chosen), []
    while left:
        k = min(left, key=lambda i: (len(neighbours[i]), -i if last else i))
        left.discard(k)
        order.append(k)
        for i in neighbours[k]:
            neighbours[i] |= neighbours[k]
            neighbours[i] -= {i, k}
    return order


class SparseLDL:
    """Factorisation P M P^T = L D L^T of a symbolic symmetric matrix by scalar elimination that skips structural zeros.

    With ``groups`` it is guarded: each inverse pivot is 1/d where d is well above rounding, else 0 (rank-revealing for consistent
    systems). Rows of the same group are compared with the same scale.

    Attributes
    ----------
    near : 1 where a pivot that counts is below ``NEAR`` of its scale (guarded only), near a singular configuration; else 0.
    """

    def __init__(self, matrix: Array, groups: Sequence[int] | None = None) -> None:
        import casadi

        M = casadi.SX(matrix.to_casadi()) if is_symbolic(matrix) else casadi.SX(casadi.DM(np.atleast_2d(matrix)))
        self.n = M.shape[0]
        self._zero = casadi.SX(0.0)
        self.rows = [{j: M[i, j] for j in range(self.n) if not M[i, j].is_zero()} for i in range(self.n)]
        diagonal = [row.get(i, self._zero) for i, row in enumerate(self.rows)]
        scales = None if groups is None else guarded_scales(diagonal, groups)
        self.near = casadi.SX(0.0)
        self.order = minimum_degree(
            [set(row) - {i} for i, row in enumerate(self.rows)], range(self.n), last=groups is None
        )
        self.inverse_pivots: dict[int, casadi.SX] = {}
        self.factors: dict[int, dict[int, casadi.SX]] = {}
        active = [dict(row) for row in self.rows]
        done: set[int] = set()
        for k in self.order:
            done.add(k)
            pivot = active[k].get(k, self._zero)
            self.inverse_pivots[k] = 1.0 / pivot if scales is None else self._guarded(pivot, scales[k])
            below = {i: value for i, value in active[k].items() if i not in done}
            scaled = {i: value * self.inverse_pivots[k] for i, value in below.items()}
            self.factors[k] = scaled
            for i, factor in scaled.items():
                for j, value in below.items():
                    if j >= i:
                        updated = active[i].get(j, self._zero) - factor * value
                        active[i][j] = updated
                        active[j][i] = updated

    def _guarded(self, pivot: Any, scale: Any) -> Any:
        import casadi

        if pivot.is_zero():
            return self._zero
        regular = pivot > RANK_TOLERANCE * scale
        self.near = casadi.logic_or(self.near, casadi.logic_and(regular, pivot < NEAR * scale))
        return casadi.if_else(regular, 1.0 / casadi.if_else(regular, pivot, 1.0), 0.0)

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
