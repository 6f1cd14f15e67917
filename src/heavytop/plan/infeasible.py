"""Why no motion was found: which constraint at which time is missed, and by how much."""

from __future__ import annotations

import numpy as np

from heavytop.errors import PlanError
from heavytop.plan.build import Functions
from heavytop.plan.solvers import Solution, Solver
from heavytop.plan.transcription import Transcription

SHOWN = 3


class InfeasibleError(PlanError):
    """No motion fulfils all constraints, or none was found.

    Attributes
    ----------
    misses : (label, time in s, amount) of what is missed most, worst first.
    """

    def __init__(self, message: str, misses: list[tuple[str, float, float]]) -> None:
        super().__init__(message)
        self.misses = misses


def explain(functions: Functions, program: Transcription, solution: Solution, solver: Solver) -> InfeasibleError:
    """The error that says what could not be met."""
    values, (lower, upper) = program.values(solution.x), program.row_bounds
    outside = np.maximum(np.maximum(lower - values, values - upper), 0.0)
    times = np.concatenate([[0.0], np.cumsum(program.lengths(solution.x))])
    misses: dict[str, tuple[str, float, float]] = {}
    for index in np.argsort(-outside)[:200]:
        if outside[index] <= 1e-6:
            break
        row = program.row(int(index))
        misses.setdefault(row.label, (row.label, float(times[row.node]), float(outside[index])))
    found = list(misses.values())[:SHOWN]
    told = "; ".join(f"{label} at t = {t:.4g} s by {amount:.3g}" for label, t, amount in found)
    name = functions.problem.model.name
    if not found:
        return InfeasibleError(
            f"no plan of {name!r} was found: the solver stopped after {solution.iterations} iterations ({solution.message}). All "
            "constraints are met there, but it is no optimum. Another guess, a smoother cost or more iterations may help.",
            [],
        )
    return InfeasibleError(
        f"no plan of {name!r} was found ({solution.message}): missed is {told}. Allow more time or input, move the constraint, or "
        "give another guess (guess=..., guesses=8).",
        found,
    )
