"""A planning problem, complete and checked: an optimal control problem with its cost and its constraints."""

from __future__ import annotations

from dataclasses import dataclass

from heavytop._pickling import Unchanging
from heavytop.ocp.problem import OptimalControlProblem
from heavytop.plan.constraints import Constraint
from heavytop.plan.costs import Cost


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem(OptimalControlProblem, Unchanging):
    """A planning problem.

    Attributes
    ----------
    cost : the cost. path : constraints of all phases. begin : constraints at the first node.
    method : "shooting" (explicit steps), "collocation" (implicit ones), or "auto": where the motion is stiff.
    """

    phases: tuple[Phase, ...]
    cost: Cost
    path: tuple[Constraint, ...] = ()
    begin: tuple[Constraint, ...] = ()
    method: str = "auto"
