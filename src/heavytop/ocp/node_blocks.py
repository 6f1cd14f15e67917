"""Constraints and costs at nodes, each function evaluated at all its nodes in one native batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from heavytop.ocp.charts import Derivatives


class NodeConstraint(Protocol):
    """A constraint at a node."""

    @property
    def label(self) -> str: ...

    def violation(self, values: np.ndarray) -> np.ndarray:
        """Distance of values outside the bounds."""
        ...


@dataclass(eq=False)
class Block:
    """One function at some nodes.

    Attributes
    ----------
    function : function of (e, v, u), q_bar, p and constants.
    nodes : (n,). constants : (n, k). lower, upper : (n, m) for constraints. constraints : (n,) the constraint at each node.
    weights : (n,) for costs, else None.
    """

    function: Derivatives
    nodes: np.ndarray
    constants: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    constraints: Sequence[NodeConstraint]
    weights: np.ndarray | None = None
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    @property
    def labels(self) -> list[str]:
        """Label of the constraint at each node."""
        return [constraint.label for constraint in self.constraints]

    def violations(self, rows: np.ndarray) -> np.ndarray:
        """Distance of rows (n, m) outside their bounds, as the constraints measure it."""
        each = [constraint.violation(row) for constraint, row in zip(self.constraints, rows, strict=True)]
        return np.reshape(each, rows.shape)

    @property
    def rows(self) -> int:
        """Constraint rows of all its nodes."""
        return 0 if self.weights is not None else self.lower.size

    @property
    def cost_weights(self) -> np.ndarray:
        """Weights (n,) of a cost."""
        return np.zeros(len(self.nodes)) if self.weights is None else self.weights

    def prepare(self, columns: np.ndarray) -> None:
        """Determine the structure of the derivatives; ``columns`` are those of (e, v, u) in the variables of a node."""
        first, second = self.function.patterns
        self.columns = columns
        self._first = np.nonzero(first)
        self._second = np.nonzero(np.triu(second))

    def jacobian_structure(self, row: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Jacobian, for rows that begin at ``row`` and nodes of ``size`` variables."""
        r, c = self._first
        rows = row + np.arange(len(self.nodes))[:, None] * self.lower.shape[1] + r
        return rows.ravel(), (self.nodes[:, None] * size + self.columns[c]).ravel()

    def hessian_structure(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Hessian."""
        r, c = self._second
        base = self.nodes[:, None] * size
        return (base + self.columns[r]).ravel(), (base + self.columns[c]).ravel()

    def _arguments(self, Y: np.ndarray, centres: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, ...]:
        return Y[self.nodes][:, self.columns], centres[self.nodes], p, self.constants

    def values(self, Y: np.ndarray, centres: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Values (n, m)."""
        return self.function.value(*self._arguments(Y, centres, p))[0]

    def jacobian(self, Y: np.ndarray, centres: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Entries of the Jacobian in the order of :meth:`jacobian_structure`."""
        slope = self.function.first(*self._arguments(Y, centres, p))[1]
        return slope[:, self._first[0], self._first[1]].ravel()

    def gradient(self, Y: np.ndarray, centres: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Gradient (n, columns) of the weighted cost."""
        slope = self.function.first(*self._arguments(Y, centres, p))[1][:, 0]
        return slope * self.cost_weights[:, None]

    def hessian(self, Y: np.ndarray, centres: np.ndarray, p: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Entries of the Hessian of ``lam . value`` with lam (n, m)."""
        if not len(self._second[0]):
            return np.zeros(0)
        (curve,) = self.function.second(lam, *self._arguments(Y, centres, p))
        return curve[:, self._second[0], self._second[1]].ravel()
