"""Why no motion was found: the same problem with goals and constraints that may be missed, at the least sum of misses.

Dynamics and limits of inputs and velocities stay as they are; every row of a goal or constraint gets two slacks, whose sum is the cost. What
remains of them at the optimum is what cannot be met, where, and by how much.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from heavytop.errors import PlanError
from heavytop.ocp.solvers import Solution, Solver, Status
from heavytop.ocp.transcription import Transcription
from heavytop.plan.loops import CLOSE

SHOWN, MET = 3, 1e-6
DRIFT = 10.0
"""Defects that all intervals together may add up to in the loops."""


class InfeasibleError(PlanError):
    """No motion fulfils all constraints, or none was found.

    Attributes
    ----------
    misses : (label, time in s, amount) of what is missed most, worst first.
    """

    def __init__(self, message: str, misses: list[tuple[str, float, float]]) -> None:
        super().__init__(message)
        self.misses = misses


class Elastic:
    """A transcription whose goal and constraints may be missed: the program of least misses. Variables: those, then both slacks."""

    def __init__(self, inner: Transcription) -> None:
        self.inner, n = inner, inner.variables
        layout, goal = inner.layout, inner.problem.goal
        self._blocks = np.arange(inner.offsets["block0"], inner.rows) if inner.constraints else np.zeros(0, dtype=int)
        places = layout.ne - int(inner.problem.clocked)  # the time at the end is no goal
        own = np.r_[:places, layout.ne : layout.nx] if goal is not None else np.zeros(0, dtype=int)
        self._goal = last = inner.count * inner.size + own
        self._asked = inner.lower[last], inner.upper[last]
        self.soft = len(self._blocks) + len(self._goal)
        lower, upper = inner.lower.copy(), inner.upper.copy()
        if goal is not None:
            speeds = inner.problem.bounds.v
            lower[last] = np.concatenate([np.full(places, -np.inf), speeds[0]])
            upper[last] = np.concatenate([np.full(places, np.inf), speeds[1]])
        self.lower = np.concatenate([lower, np.zeros(2 * self.soft)])
        self.upper = np.concatenate([upper, np.full(2 * self.soft, np.inf)])
        self._n = n

    @property
    def units(self) -> np.ndarray | None:
        """Those of the transcription; slacks are as they are."""
        inner = self.inner.units
        return None if inner is None else np.concatenate([inner, np.ones(2 * self.soft)])

    @cached_property
    def row_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the rows; those of the goal are last."""
        low, high = self.inner.row_bounds
        return np.concatenate([low, self._asked[0]]), np.concatenate([high, self._asked[1]])

    @property
    def _soft_rows(self) -> np.ndarray:
        return np.concatenate([self._blocks, self.inner.rows + np.arange(len(self._goal))])

    def objective(self, x: np.ndarray) -> float:
        """Sum of the slacks."""
        return float(x[self._n :].sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Ones."""
        return np.concatenate([np.zeros(self._n), np.ones(2 * self.soft)])

    def values(self, x: np.ndarray) -> np.ndarray:
        """Rows less what they are over, plus what they are under."""
        rows = np.concatenate([self.inner.values(x[: self._n]), x[self._goal]])
        over, under = np.split(x[self._n :], 2)
        rows[self._soft_rows] += under - over
        return rows

    @cached_property
    def slope_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Jacobian."""
        r, c = self.inner.slope_places
        goal = self.inner.rows + np.arange(len(self._goal))
        slack = self._n + np.arange(2 * self.soft)
        rows = np.concatenate([r, goal, self._soft_rows, self._soft_rows])
        return rows.astype(np.int32), np.concatenate([c, self._goal, slack]).astype(np.int32)

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """Entries of the Jacobian."""
        ones = np.ones(self.soft)
        return np.concatenate([self.inner.slopes(x[: self._n]), np.ones(len(self._goal)), -ones, ones])

    @property
    def curve_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Hessian."""
        return self.inner.curve_places

    def curves(self, x: np.ndarray, lam: np.ndarray, cost_weight: float) -> np.ndarray:
        """Entries of the Hessian: only rows are curved."""
        return self.inner.curves(x[: self._n], lam[: self.inner.rows], 0.0)

    def symbolic(self) -> dict[str, Any]:
        """The program as expressions of CasADi, for solvers that differentiate themselves."""
        import casadi as ca

        from heavytop.ocp.solvers.symbolic import symbolic

        inner = symbolic(self.inner)
        over, under = ca.MX.sym("over", self.soft), ca.MX.sym("under", self.soft)
        rows = ca.vertcat(inner["g"], inner["x"][self._goal.tolist()])
        rows[self._soft_rows.tolist()] += under - over
        return {"x": ca.vertcat(inner["x"], over, under), "f": ca.sum1(over) + ca.sum1(under), "g": rows}

    def misses(self, x: np.ndarray) -> list[tuple[str, float, float]]:
        """(label, time, amount) of everything that is missed, worst first, each label once; constraints tell amounts in their own measure."""
        inner, slack = self.inner, np.abs(np.subtract(*np.split(x[self._n :], 2)))
        times = np.concatenate([[0.0], np.cumsum(inner.lengths(x[: self._n]))])
        model = inner.problem.model
        places = model.coordinates.v_names[: inner.layout.ne - int(inner.problem.clocked)]
        names = [*(f"place along {name!r}" for name in places), *map(repr, model.v_names)]
        found: dict[str, tuple[str, float, float]] = {}
        amounts = slack.copy()
        if len(self._blocks):
            rows, sizes = inner.values(x[: self._n])[self._blocks], [block.rows for block in inner.constraints]
            parts = np.split(rows, np.cumsum(sizes)[:-1])
            measured = [
                block.violations(model, part.reshape(block.lower.shape)).ravel()
                for block, part in zip(inner.constraints, parts, strict=True)
            ]
            amounts[: len(rows)] = np.concatenate(measured)
        for k in np.argsort(-slack, kind="stable"):
            if slack[k] <= MET:
                break
            if k < len(self._blocks):
                row = inner.row(int(self._blocks[k]))
                label, t = row.label, times[row.node]
            else:
                label, t = f"the goal ({names[k - len(self._blocks)]})", times[-1]
            found.setdefault(label, (label, float(t), float(amounts[k])))
        return list(found.values())


def least_misses(
    program: Transcription, x: np.ndarray, solver: Solver
) -> tuple[Solution, list[tuple[str, float, float]]]:
    """The motion that misses goal and constraints least, from the variables x of the problem, and what it misses."""
    elastic: Any = Elastic(program)
    if not elastic.soft:
        return Solution(x, x, x, x, np.inf, 0, Status.FAILED, "nothing can be missed"), []
    inside = np.clip(x, elastic.lower[: len(x)], elastic.upper[: len(x)])
    rows = np.concatenate([program.values(inside), inside[elastic._goal]])[elastic._soft_rows]
    low, high = (side[elastic._soft_rows] for side in elastic.row_bounds)
    slacks = np.concatenate([np.maximum(rows - high, 0.0), np.maximum(low - rows, 0.0)])
    solution = solver.solve(elastic, np.concatenate([inside, slacks + 1e-3]), tolerance=1e-7, iterations=500)
    misses = elastic.misses(solution.x)
    solution.x = solution.x[: len(x)]
    return solution, misses


def other_closure(program: Transcription, x: np.ndarray, defect: float) -> list[tuple[str, float, float]]:
    """What of the goal is missed by a motion that ends in another closure of the loops, with the same independent coordinates: as misses.

    Up to the drift of the integration, which ``defect`` tells, the places that follow from the others are those of the goal.
    """
    problem, end = program.problem, program.nodes(x)[-1, program.layout.e]
    if problem.follows is None:
        return []
    far = np.where(problem.follows[: len(end)], np.abs(end), 0.0)
    k = int(np.argmax(far))
    if far[k] <= max(CLOSE, DRIFT * program.count * defect):
        return []
    label = f"the goal (place along {problem.model.coordinates.v_names[k]!r})"
    return [(label, float(program.lengths(x).sum()), float(far[k]))]


def explain(program: Transcription, solution: Solution, misses: list[tuple[str, float, float]]) -> InfeasibleError:
    """The error that says what could not be met."""
    name = program.problem.model.name
    if not misses:
        return InfeasibleError(
            f"no plan of {name!r} was found: the solver stopped after {solution.iterations} iterations ({solution.message}). A motion that "
            "meets all constraints may exist, but no optimum was found. Another guess (guess=..., guesses=8), a smoother cost or more "
            "iterations may help.",
            [],
        )
    told = "; ".join(f"{label} at t = {t:.4g} s by {amount:.3g}" for label, t, amount in misses[:SHOWN])
    return InfeasibleError(
        f"no plan of {name!r} was found: the closest motion misses {told}. Allow more time or input, move the constraint, "
        "or give another guess (guess=..., guesses=8).",
        misses,
    )


def singular(program: Transcription, solution: Solution, defect: float) -> InfeasibleError:
    """The error of a solution that is no motion: no step through it is accurate."""
    return InfeasibleError(
        f"no plan of {program.problem.model.name!r} was found: what the solver found with {program.count} steps misses a fine simulation by "
        f"{defect:.3g}, however it is integrated. It passes a place where the equations are singular (wheels steered by 90 degrees, for "
        "example) or changes within a step: bound the coordinates that lead there (limits=...), give another guess or more steps.",
        [],
    )
