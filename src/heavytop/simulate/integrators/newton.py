"""One step of Newton's method on symbols: a sparse elimination without pivoting, for equations ordered so that pivots are safe.

The equations of an implicit step have the structure of a mechanical system with constraints: first those whose derivative by their own
unknowns is near a mass matrix or the identity, then those of the multipliers, whose Schur complement ``Phi M^-1 Phi^T`` is positive
semidefinite. Such matrices need no pivoting. Where equations of constraints depend on each other the complement is singular; there the
pivots are lifted by a share of their scale. This changes the correction, not the equations: what Newton's method converges to, it solves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heavytop._arrays import Array, from_sx, to_sx
from heavytop.system import minimum_degree

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
    order = [*_least_degree(rows, range(last)), *range(last, len(rows))]
    solution = _eliminate(rows, [-right[i] for i in range(len(rows))], order)
    return from_sx(casadi.vertcat(*solution), (len(rows),))


def _eliminate(rows: list[dict[int, Any]], right: list[Any], order: Sequence[int]) -> list[Any]:
    """Gauss' elimination with the diagonal entries in the given order as pivots."""
    done: set[int] = set()
    inverse = {}
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
            right[i] = right[i] - factor * right[k]
    solution: dict[int, Any] = {}
    for k in reversed(order):
        total = right[k]
        for j, value in rows[k].items():
            if j in solution:
                total = total - value * solution[j]
        solution[k] = total * inverse[k]
    return [solution[k] for k in range(len(rows))]


def _least_degree(rows: list[dict[int, Any]], chosen: Sequence[int]) -> list[int]:
    """The chosen equations in the order of least fill-in, by the structure of the matrix made symmetric."""
    neighbours = [set(row) - {i} for i, row in enumerate(rows)]
    for i, row in enumerate(rows):
        for j in row:
            if i != j:
                neighbours[j].add(i)
    return minimum_degree(neighbours, chosen)
