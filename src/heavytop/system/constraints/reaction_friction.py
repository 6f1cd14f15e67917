"""Friction whose size depends on the reaction of its own constraint: nonideal constraints of Coulomb's kind.

Friction k adds the generalised force N_k F_k(q, v), where N_k = |P_k lam| is the size of the reaction (P_k picks the force of one constraint from the
multipliers) and F_k the force per unit of it. The multipliers then follow from lam = lam0 + L N with lam0 those without friction and
L = -S^+ Phi M^-1 F, so that N solves

    N_k = |P_k (lam0 + sum_j L_j N_j)|.

With C_kj = |P_k L_j| the right-hand side changes by at most C |dN|. If the spectral radius of C is below 1 there is exactly one solution for
every load. For one friction that is also necessary: squared, the equation (1 - |P L|^2) N^2 - 2 (P lam0 . P L) N - |P lam0|^2 = 0 has one root
that is not negative if |P L| < 1, and none or two otherwise: Painleve's paradox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heavytop._arrays import Array, column, from_columns, matrix, vector

NEWTON = 10
"""Newton steps for the sizes of several reactions."""


@dataclass(frozen=True, eq=False)
class FrictionTerm:
    """One friction: force (nv,) per unit of the reaction, and P (k, m) that takes all multipliers to the reaction."""

    name: str
    force: Array
    reaction: Array


class ReactionFriction:
    """The frictions of a constrained system.

    Parameters
    ----------
    terms : the frictions.
    released : F (nv,) -> M^-1 F. bound : acceleration (nv,) -> -S^+ Phi a, the multipliers that hold it.
    """

    def __init__(
        self, terms: Sequence[FrictionTerm], released: Callable[[Array], Array], bound: Callable[[Array], Array]
    ) -> None:
        self.terms = tuple(terms)
        self.accelerations = from_columns(*(released(term.force) for term in terms))
        self.gains = from_columns(*(bound(column(self.accelerations, k)) for k in range(len(terms))))

    def _reactions_per_unit(self, k: int) -> list[Array]:
        """P_k L_j for all j."""
        return [np.matvec(self.terms[k].reaction, column(self.gains, j)) for j in range(len(self.terms))]

    @cached_property
    def gain(self) -> Array:
        """Spectral radius of C (for several frictions a bound a little above it): below 1 there is one solution."""
        count = len(self.terms)
        C = [[_size(x) for x in self._reactions_per_unit(k)] for k in range(count)]
        if count == 1:
            return C[0][0]
        power = matrix(C)
        for _ in range(3):
            power = power @ power
        largest = 0.0
        for k in range(count):
            largest = np.maximum(largest, sum(power[k, j] for j in range(count)))
        return np.sqrt(np.sqrt(np.sqrt(largest)))

    def sizes(self, lam0: Array) -> Array:
        """N (count,) from the multipliers without friction; where there is no unique solution, some finite numbers."""
        count = len(self.terms)
        if count == 1:
            load, slope = np.matvec(self.terms[0].reaction, lam0), self._reactions_per_unit(0)[0]
            along, rest = np.vecdot(load, slope), 1.0 - np.vecdot(slope, slope)
            rest = np.where(rest > 0.0, rest, 1.0)
            return vector((along + np.sqrt(along * along + rest * np.vecdot(load, load))) / rest)
        loads = [np.matvec(term.reaction, lam0) for term in self.terms]
        slopes = [self._reactions_per_unit(k) for k in range(count)]
        N = vector(*(_size(load) for load in loads))
        for _ in range(NEWTON):
            values, rows = [], []
            for k in range(count):
                x = loads[k]
                for j in range(count):
                    x = x + N[j] * slopes[k][j]
                size = _size(x)
                values.append(N[k] - size)
                rows.append([(1.0 if j == k else 0.0) - np.vecdot(x, slopes[k][j]) / size for j in range(count)])
            N = N - np.linalg.solve(matrix(rows), vector(*values))
        return N


def _size(x: Array) -> Array:
    """|x|, whose derivative is finite at zero."""
    return np.sqrt(np.vecdot(x, x) + 1e-200)
