"""One step of Newton's method on symbols: a sparse elimination without pivoting, for equations ordered so that pivots are safe.

The equations of an implicit step have the structure of a mechanical system with constraints: first those whose derivative with respect to their own
unknowns is near a mass matrix or the identity, then those of the multipliers, whose Schur complement ``Phi M^-1 Phi^T`` is positive
semidefinite. Such matrices need no pivoting. Where equations of constraints depend on each other the complement is singular; there the
pivots are lifted by a share of their scale. This changes the correction, not the equations: what Newton's method converges to, it solves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heavytop._arrays import Array, from_sx, shape, to_sx
from heavytop.system import minimum_degree, row_scales

LIFT = 1e-10
"""Share of its scale that is added to the pivot of an equation that may depend on others. Every correction leaves about this share (over the
square of the smallest singular value) of the residual, so the convergence stays faster than any linear one that could be noticed."""


def newton_correction(residual: Array, unknowns: Array, lifts: dict[int, Any], last: int) -> Array:
    """``dx`` (n,) with ``d residual/d unknowns dx = -residual``, the Jacobian exact.

    Parameters
    ----------
    residual : (n,) in the order of the unknowns. lifts : number of an equation -> what is added to its diagonal entry.
    last : number of the first equation of those that are eliminated at the end, in the order given; the ones before it are eliminated by
        least degree.
    """
    import casadi

    right, x = to_sx(residual), to_sx(unknowns)
    J = casadi.sparsify(casadi.jacobian(right, x))
    rows = [{j: J[i, j] for j in J[i, :].sparsity().get_col() if not J[i, j].is_zero()} for i in range(J.shape[0])]
    for i, lift in lifts.items():
        rows[i][i] = rows[i].get(i, casadi.SX(0.0)) + lift
    order = [*least_degree(rows, range(last)), *range(last, len(rows))]
    solution = factorised(rows, order).solve([-right[i] for i in range(len(rows))])
    return from_sx(casadi.vertcat(*solution), (len(rows),))


def row_lifts(Phi: Array, mass: Array, groups: Sequence[int]) -> list[Array]:
    """For each row of Phi a small share of the scale of ``Phi M^-1 Phi^T`` in its group."""
    own = [sum(Phi[i, j] * Phi[i, j] / mass[j, j] for j in range(Phi.shape[1])) for i in range(Phi.shape[0])]
    scales = row_scales(own, groups)
    total = sum(own)
    return [LIFT * scale + LIFT * LIFT * total for scale in scales]


class Kept:
    """Numbers that one function computes and another reads: called with an expression it returns the symbol that stands for it there.

    Constants stay as they are.
    """

    def __init__(self, name: str) -> None:
        self._name, self._symbols, self._values = name, [], []

    def __call__(self, expression: Any) -> Any:
        import casadi

        if expression.is_constant():
            return expression
        self._values.append(expression)
        self._symbols.append(casadi.SX.sym(f"{self._name}_{len(self._symbols)}"))
        return self._symbols[-1]

    @property
    def symbols(self) -> Array:
        """Symbols (n,) of all of them."""
        return _column(self._symbols)

    @property
    def values(self) -> Array:
        """Expressions (n,) of all of them."""
        return _column(self._values)


def _column(entries: Sequence[Any]) -> Array:
    import casadi

    return from_sx(casadi.vertcat(casadi.SX(0, 1), *entries), (len(entries),))


@dataclass
class SparseRows:
    """A symbolic matrix by its entries that are not zero: column -> CasADi scalar, row by row."""

    rows: list[dict[int, Any]]

    @classmethod
    def of(cls, matrix: Array) -> SparseRows:
        """From an array (m, n)."""
        m, n = shape(matrix)
        flat = to_sx(matrix)
        entries = [[flat[i * n + j] for j in range(n)] for i in range(m)]
        return cls([{j: x for j, x in enumerate(row) if not x.is_zero()} for row in entries])

    def plus(self, other: SparseRows, factor: Any = 1.0) -> SparseRows:
        """Sum of this and ``factor`` times another."""
        total = [dict(row) for row in self.rows]
        for row, more in zip(total, other.rows, strict=True):
            for j, value in more.items():
                row[j] = row[j] + factor * value if j in row else factor * value
        return SparseRows(total)

    def times(self, other: SparseRows) -> SparseRows:
        """Product with another."""
        result: list[dict[int, Any]] = []
        for row in self.rows:
            total: dict[int, Any] = {}
            for k, factor in row.items():
                for j, value in other.rows[k].items():
                    total[j] = total[j] + factor * value if j in total else factor * value
            result.append(total)
        return SparseRows(result)

    def mapped(self, function: Callable[[Any], Any]) -> SparseRows:
        """The same structure with other entries."""
        return SparseRows([{j: function(value) for j, value in row.items()} for row in self.rows])

    def applied(self, x: Any) -> list[Any]:
        """Product with a CasADi column."""
        import casadi

        return [sum((value * x[j] for j, value in row.items()), casadi.SX(0.0)) for row in self.rows]


@dataclass
class Factorisation:
    """A matrix after Gauss' elimination with its diagonal entries in the given order as pivots.

    Attributes
    ----------
    factors : (i, k, factor): row i less factor times row k. inverse : inverse of the pivots. rows : the eliminated rows.
    """

    factors: list[tuple[int, int, Any]]
    inverse: dict[int, Any]
    rows: list[dict[int, Any]]
    order: Sequence[int]

    def mapped(self, function: Callable[[Any], Any]) -> Factorisation:
        """The same structure with other entries."""
        return Factorisation(
            [(i, k, function(x)) for i, k, x in self.factors],
            {k: function(x) for k, x in self.inverse.items()},
            [{j: function(x) for j, x in row.items() if j != i} for i, row in enumerate(self.rows)],
            self.order,
        )

    def solve(self, right: Sequence[Any]) -> list[Any]:
        """The solution for a right-hand side."""
        right = list(right)
        for i, k, factor in self.factors:
            right[i] = right[i] - factor * right[k]
        solution: dict[int, Any] = {}
        for k in reversed(self.order):
            total = right[k]
            for j, value in self.rows[k].items():
                if j in solution:
                    total = total - value * solution[j]
            solution[k] = total * self.inverse[k]
        return [solution[k] for k in range(len(self.rows))]


def factorised(rows: list[dict[int, Any]], order: Sequence[int]) -> Factorisation:
    """Gauss' elimination with the diagonal entries in the given order as pivots; changes ``rows``."""
    done: set[int] = set()
    inverse: dict[int, Any] = {}
    factors: list[tuple[int, int, Any]] = []
    for k in order:
        done.add(k)
        inverse[k] = 1.0 / rows[k][k]
        for i in range(len(rows)):
            if i in done or k not in rows[i]:
                continue
            factor = rows[i].pop(k) * inverse[k]
            for j, value in rows[k].items():
                if j not in done:
                    rows[i][j] = rows[i][j] - factor * value if j in rows[i] else -factor * value
            factors.append((i, k, factor))
    return Factorisation(factors, inverse, rows, order)


def least_degree(rows: list[dict[int, Any]], chosen: Sequence[int]) -> list[int]:
    """The chosen equations in the order of least fill-in, by the structure of the matrix made symmetric."""
    neighbours = [set(row) - {i} for i, row in enumerate(rows)]
    for i, row in enumerate(rows):
        for j in row:
            if i != j:
                neighbours[j].add(i)
    return minimum_degree(neighbours, chosen)
