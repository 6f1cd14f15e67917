"""A checked planning problem: an optimal control problem with its cost and its constraints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heavytop.errors import wrong_shape
from heavytop.functions import Value
from heavytop.ocp import ChartRates, Derivatives, OptimalControlProblem
from heavytop.plan.constraints import Constraint
from heavytop.plan.costs import Cost
from heavytop.plan.scene import node_function


@dataclass(frozen=True)
class Phase:
    """A part of a motion.

    Attributes
    ----------
    shortest, longest : bounds of its duration in s; equal if it is fixed.
    steps : number of intervals.
    path : constraints at all its nodes. end : constraints at its last node.

    Examples
    --------
    >>> Phase(0.5, 2.0, steps=40).steps
    40
    """

    shortest: float
    longest: float
    steps: int
    path: tuple[Constraint, ...] = ()
    end: tuple[Constraint, ...] = ()

    @property
    def free(self) -> bool:
        """Whether its duration is to be found."""
        return self.longest > self.shortest


@dataclass(frozen=True, eq=False)
class BoundConstraint:
    """A constraint with its function of the variables of a node and its bounds (m,)."""

    constraint: Constraint
    function: Derivatives
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, rates: ChartRates, constraint: Constraint) -> BoundConstraint:
        """Trace the function of a constraint."""
        function = node_function(rates, "constraint", constraint.function, len(constraint.constants))
        (size,) = function.traced_value.outputs["value"]
        sides = [np.atleast_1d(np.asarray(side, dtype=float)) for side in constraint.bounds()]
        for side in sides:
            if side.shape not in ((1,), (size,)):
                raise wrong_shape(f"bounds of {constraint.label!r}", (size,), side.shape, "One for each value.")
        return cls(constraint, function, *(np.broadcast_to(side, (size,)) for side in sides))

    def depends_on_inputs(self, rates: ChartRates) -> bool:
        """Whether the function depends on the inputs."""
        return bool(self.function.patterns[0][:, rates.nx :].any())


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem(OptimalControlProblem, Value):
    """A planning problem.

    Attributes
    ----------
    cost : the cost. path : constraints of all phases. begin : constraints at the first node.
    method : "shooting" (explicit steps), "collocation" (implicit ones), or "auto": collocation of stiff motions.
    """

    phases: tuple[Phase, ...]
    cost: Cost
    path: tuple[Constraint, ...] = ()
    begin: tuple[Constraint, ...] = ()
    method: str = "auto"

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """All constraints."""
        return (*self.path, *self.begin, *(c for phase in self.phases for c in (*phase.path, *phase.end)))

    @cached_property
    def bound_constraints(self) -> dict[Constraint, BoundConstraint]:
        """All constraints with their functions."""
        return {
            constraint: BoundConstraint.of(self.rates, constraint) for constraint in dict.fromkeys(self.constraints)
        }
