"""Violations of constraints and limits between the nodes of a plan, where the solver does not enforce them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from heavytop.plan.constraints import Constraint
from heavytop.plan.problem import Problem
from heavytop.plan.result import Plan

SAMPLES, CLOSER = 8, 17
"""Samples of an interval, and of the neighbourhood of the worst of them."""
MET = 1e-6
"""Relative violation of limits of inputs or rates that solvers leave: these limits hold exactly between the nodes."""


@dataclass(frozen=True, eq=False)
class _Check:
    """One constraint or limit: its label, its intervals, and its excess (n,) at y = (0, v, u) in charts around centres."""

    label: str
    intervals: slice
    excess: Callable[[np.ndarray, np.ndarray], np.ndarray]


def between_nodes(plan: Plan) -> tuple[str, float]:
    """Largest violation between the nodes of constraints and of limits of coordinates, velocities, inputs and their rates: (label, amount).

    Every interval is sampled, more densely around the largest excess of each constraint.
    """
    worst = max(_rates(plan), key=lambda item: item[1], default=("", 0.0))
    checks, length = list(_checks(plan.problem)), np.diff(plan.times)
    fractions = np.linspace(0.0, 1.0, SAMPLES, endpoint=False)[1:]
    coarse = plan.times[:-1, None] + fractions * length[:, None]
    if not checks:
        return worst
    y, centres = (part.reshape(*coarse.shape, -1) for part in _states(plan, coarse.ravel()))
    around = []
    for check in checks:
        intervals = check.intervals
        found = check.excess(_flat(y[intervals]), _flat(centres[intervals]))
        at = int(np.argmax(found))
        interval = (intervals.start or 0) + at // len(fractions)
        step = length[interval] / SAMPLES
        around.append(coarse[intervals].ravel()[at] + step * np.linspace(-1.0, 1.0, CLOSER + 2)[1:-1])
        worst = max(worst, (check.label, float(found[at])), key=lambda item: item[1])
    y, centres = (part.reshape(len(checks), CLOSER, -1) for part in _states(plan, np.concatenate(around)))
    for k, check in enumerate(checks):
        worst = max(worst, (check.label, float(np.max(check.excess(y[k], centres[k])))), key=lambda item: item[1])
    return worst if worst[1] > 0 else ("", 0.0)


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, values.shape[-1])


def _states(plan: Plan, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """y = (0, v, u) and configurations at moments of a plan."""
    q, v, _ = plan.reference(times)
    e = np.zeros((len(times), plan.problem.rates.ne))
    return np.concatenate([e, v, plan.inputs(times)], axis=1), plan.problem.with_time(q, times)


def _checks(problem: Problem) -> Iterator[_Check]:
    for constraint in problem.path:
        yield _Check(constraint.label, slice(0, problem.steps), _excess(problem, constraint))
    first = 0
    for phase, last in zip(problem.phases, problem.ends, strict=True):
        for constraint in phase.path:
            yield _Check(constraint.label, slice(first, int(last)), _excess(problem, constraint))
        first = int(last)
    yield from _limits(problem)


def _excess(problem: Problem, constraint: Constraint) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    function = problem.bound_constraints[constraint].function

    def excess(y: np.ndarray, centres: np.ndarray) -> np.ndarray:
        (values,) = function.value(y, centres, problem.parameters, constraint.constants)
        return np.max(constraint.excess(values), axis=-1, initial=-np.inf)

    return excess


def _limits(problem: Problem) -> Iterator[_Check]:
    """Limits of velocities and inputs."""
    model, ne = problem.model, problem.rates.ne
    for names, sides, first, met in (
        (model.v_names, problem.bounds.v, ne, 0.0),
        (model.u_names, problem.bounds.u, ne + model.nv, MET),
    ):
        for side, bounds, sign in (("lower", sides[0], -1.0), ("upper", sides[1], 1.0)):
            for k in np.nonzero(np.isfinite(bounds))[0]:
                column, bound = first + int(k), float(bounds[k])
                label = f"{side} limit {bound:.4g} of {names[k]!r}"
                kept = met * (1.0 + abs(bound))
                yield _Check(
                    label,
                    slice(0, problem.steps),
                    lambda y, _, c=column, b=bound, s=sign, m=kept: _beyond(s * (y[:, c] - b), m),
                )


def _beyond(amount: np.ndarray, met: float) -> np.ndarray:
    return np.where(np.abs(amount) <= met, 0.0, amount)


def _rates(plan: Plan) -> Iterator[tuple[str, float]]:
    """Violations of the limits of input rates, which are constant in every interval."""
    if plan.problem.bounds.rate is None:
        return
    found = np.diff(plan.u, axis=0) / np.diff(plan.times)[:, None]
    for side, bounds, sign in zip(("lower", "upper"), plan.problem.bounds.rate, (-1.0, 1.0), strict=True):
        for name, rate, bound in zip(plan.model.u_names, found.T, bounds, strict=True):
            if np.isfinite(bound):
                amount = float(np.max(_beyond(sign * (rate - bound), MET * (1.0 + abs(bound)))))
                yield f"{side} limit {bound:.4g} of the rate of {name!r}", amount
