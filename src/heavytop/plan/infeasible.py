"""Diagnosis of infeasible problems: the same problem with soft goals and constraints, at the least sum of violations.

Dynamics and limits of inputs and velocities stay as they are; every row of a goal or constraint gets two slacks, and their sum is the cost. Slacks
that remain at the optimum show the constraint that cannot be met, when, and by how much.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from heavytop.errors import PlanError
from heavytop.ocp import Transcription
from heavytop.ocp.solvers import NonlinearProgram, Solution, Solver, SolveRequest, Status
from heavytop.plan.loops import CLOSE

Violation = tuple[str, float, float]
"""Label, time in s, amount."""
SHOWN, MET = 3, 1e-6
DIAGNOSED = 500
"""Largest number of iterations towards the least violation."""
DRIFT = 10.0
"""Sum of the defects of all intervals in the loops, relative to a single one times their number."""


class InfeasibleError(PlanError):
    """No motion fulfils all constraints, or none was found.

    Attributes
    ----------
    violations : (label, time in s, amount) of the most violated constraints, worst first.
    """

    def __init__(self, message: str, violations: list[Violation]) -> None:
        super().__init__(message)
        self.violations = violations


class Elastic(NonlinearProgram):
    """A transcription with soft goal and constraints: the program of least violation. Variables: its own, then both slacks."""

    def __init__(self, inner: Transcription) -> None:
        self.inner, self._n = inner, inner.variables
        layout, problem = inner.layout, inner.problem
        self._blocks = np.arange(inner.offsets["block0"], inner.rows) if inner.constraints else np.zeros(0, dtype=int)
        ne = layout.ne - int(problem.timed)  # the time at the end is not a goal
        entries = np.r_[:ne, layout.ne : layout.nx] if problem.goal is not None else np.zeros(0, dtype=int)
        self._goal = goal = inner.count * inner.size + entries
        self._goal_rows = inner.rows + np.arange(len(goal))
        self._soft_rows = np.concatenate([self._blocks, self._goal_rows])
        self.soft = len(self._soft_rows)
        lower, upper = inner.lower.copy(), inner.upper.copy()
        if problem.goal is not None:
            lower[goal] = np.concatenate([np.full(ne, -np.inf), problem.bounds.v[0]])
            upper[goal] = np.concatenate([np.full(ne, np.inf), problem.bounds.v[1]])
        self.lower = np.concatenate([lower, np.zeros(2 * self.soft)])
        self.upper = np.concatenate([upper, np.full(2 * self.soft, np.inf)])

    @property
    def units(self) -> np.ndarray | None:
        """Units of the variables; those of slacks are 1."""
        units = self.inner.units
        return None if units is None else np.concatenate([units, np.ones(2 * self.soft)])

    @cached_property
    def row_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the rows; those of the goal are last."""
        low, high = self.inner.row_bounds
        lower, upper = self.inner.lower[self._goal], self.inner.upper[self._goal]
        return np.concatenate([low, lower]), np.concatenate([high, upper])

    def objective(self, x: np.ndarray) -> float:
        return float(x[self._n :].sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(self._n), np.ones(2 * self.soft)])

    def values(self, x: np.ndarray) -> np.ndarray:
        rows = np.concatenate([self.inner.values(x[: self._n]), x[self._goal]])
        over, under = np.split(x[self._n :], 2)
        rows[self._soft_rows] += under - over
        return rows

    @cached_property
    def jacobian_structure(self) -> tuple[np.ndarray, np.ndarray]:
        r, c = self.inner.jacobian_structure
        rows = np.concatenate([r, self._goal_rows, self._soft_rows, self._soft_rows])
        columns = np.concatenate([c, self._goal, self._n + np.arange(2 * self.soft)])
        return rows.astype(np.int32), columns.astype(np.int32)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        ones = np.ones(self.soft)
        return np.concatenate([self.inner.jacobian(x[: self._n]), np.ones(len(self._goal)), -ones, ones])

    @property
    def hessian_structure(self) -> tuple[np.ndarray, np.ndarray]:
        return self.inner.hessian_structure

    def hessian(self, x: np.ndarray, lam: np.ndarray, cost_weight: float) -> np.ndarray:
        return self.inner.hessian(x[: self._n], lam[: self.inner.rows], 0.0)

    def symbolic(self) -> dict[str, Any]:
        """The program as CasADi expressions, for solvers that differentiate themselves."""
        import casadi as ca

        from heavytop.ocp import symbolic

        inner = symbolic(self.inner)
        over, under = ca.MX.sym("over", self.soft), ca.MX.sym("under", self.soft)
        rows = ca.vertcat(inner["g"], inner["x"][self._goal.tolist()])
        rows[self._soft_rows.tolist()] += under - over
        return {"x": ca.vertcat(inner["x"], over, under), "f": ca.sum1(over) + ca.sum1(under), "g": rows}

    def start(self, x: np.ndarray) -> np.ndarray:
        """Variables with slacks that fulfil all soft rows, from the variables x of the transcription."""
        inside = np.clip(x, self.lower[: self._n], self.upper[: self._n])
        rows = np.concatenate([self.inner.values(inside), inside[self._goal]])[self._soft_rows]
        low, high = (side[self._soft_rows] for side in self.row_bounds)
        slacks = np.concatenate([np.maximum(rows - high, 0.0), np.maximum(low - rows, 0.0)])
        return np.concatenate([inside, slacks + 1e-3])

    def violations(self, x: np.ndarray) -> list[Violation]:
        """All violations, worst first, each label once; the amounts of constraints are in their own measure."""
        inner, slack = self.inner, np.abs(np.subtract(*np.split(x[self._n :], 2)))
        times = np.concatenate([[0.0], np.cumsum(inner.lengths(x[: self._n]))])
        ne = inner.layout.ne - int(inner.problem.timed)
        names = [f"place along {name!r}" for name in inner.rates.coordinates.v_names[:ne]]
        names += map(repr, inner.problem.model.v_names)
        amounts, values = slack.copy(), inner.values(x[: self._n])
        for i, block in enumerate(inner.constraints):
            start = inner.offsets[f"block{i}"]
            rows = values[start : start + block.rows].reshape(block.lower.shape)
            amounts[start - self._blocks[0] :][: block.rows] = block.violations(rows).ravel()
        found: dict[str, Violation] = {}
        for k in np.argsort(-slack, kind="stable"):
            if slack[k] <= MET:
                break
            if k < len(self._blocks):
                label, node = inner.row_labels[self._blocks[k]]
                t = times[node]
            else:
                label, t = f"the goal ({names[k - len(self._blocks)]})", times[-1]
            found.setdefault(label, (label, float(t), float(amounts[k])))
        return list(found.values())


def least_violation(
    program: Transcription, x: np.ndarray, solver: Solver, iterations: int = DIAGNOSED
) -> tuple[Solution, list[Violation]]:
    """The motion of least violation of goal and constraints, from the variables x of the problem, and its violations."""
    elastic = Elastic(program)
    if not elastic.soft:
        return Solution(x, x, x, x, np.inf, 0, Status.FAILED, "no soft rows"), []
    solution = solver.solve(
        SolveRequest(elastic, elastic.start(x), tolerance=1e-7, iterations=min(iterations, DIAGNOSED))
    )
    violations = elastic.violations(solution.x)
    solution.x = solution.x[: len(x)]
    return solution, violations


def other_closure(program: Transcription, x: np.ndarray, defect: float) -> list[Violation]:
    """Violations of the goal by a motion that ends in another closure of the loops, with the same independent coordinates.

    Dependent coordinates agree with the goal up to the drift of the integration, estimated from ``defect``.
    """
    problem, end = program.problem, program.nodes(x)[-1, program.layout.e]
    if problem.follows is None:
        return []
    far = np.where(problem.follows[: len(end)], np.abs(end), 0.0)
    k = int(np.argmax(far))
    if far[k] <= max(CLOSE, DRIFT * program.count * defect):
        return []
    label = f"the goal (place along {program.rates.coordinates.v_names[k]!r})"
    return [(label, float(program.lengths(x).sum()), float(far[k]))]


def explain(program: Transcription, solution: Solution, violations: list[Violation]) -> InfeasibleError:
    """The error with the most violated constraints."""
    name = program.problem.model.name
    if not violations:
        return InfeasibleError(
            f"no plan of {name!r} was found: the solver stopped after {solution.iterations} iterations ({solution.message}). A motion within all "
            "constraints may exist. Another guess (guess=..., guesses=8), a smoother cost or more iterations may help.",
            [],
        )
    worst = "; ".join(f"{label} at t = {t:.4g} s by {amount:.3g}" for label, t, amount in violations[:SHOWN])
    return InfeasibleError(
        f"no plan of {name!r} was found: the closest motion violates {worst}. Allow more time or input, move the constraint, "
        "or give another guess (guess=..., guesses=8).",
        violations,
    )


def singular(program: Transcription, solution: Solution, defect: float) -> InfeasibleError:
    """The error for a solution that no integration reproduces."""
    return InfeasibleError(
        f"no plan of {program.problem.model.name!r} was found: the solution with {program.count} steps differs from a fine simulation by "
        f"{defect:.3g}, however it is integrated. It passes a singularity of the equations (wheels steered by 90 degrees, for "
        "example) or changes within a step: bound the coordinates that lead there (limits=...), give another guess or more steps.",
        [],
    )
