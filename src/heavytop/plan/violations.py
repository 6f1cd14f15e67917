"""What a plan does between its nodes, where the solver does not look: by how much constraints and limits are exceeded there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from heavytop.plan.constraints import Constraint
from heavytop.plan.node_functions import Functions
from heavytop.plan.problem import Problem
from heavytop.plan.result import Plan

SAMPLES, CLOSER = 8, 17
"""Parts into which an interval is cut, and moments looked at around the worst of them."""
MET = 1e-6
"""Share of a limit of inputs or rates that solvers leave: they hold these exactly between the nodes as well."""


@dataclass(frozen=True, eq=False)
class _Check:
    """One constraint or limit: its name, the intervals in which it holds, and how far (n,) values y = (0, v, u) at centres are beyond it."""

    label: str
    intervals: slice
    excess: Callable[[np.ndarray, np.ndarray], np.ndarray]


def between_nodes(functions: Functions, plan: Plan) -> tuple[str, float]:
    """Largest violation between the nodes of constraints and of limits of coordinates, velocities, inputs and their rates: (label, amount).

    Every interval is sampled; where a constraint comes closest to its bound, or goes farthest beyond, it is sampled more densely.
    """
    worst = max(_rates(plan), key=lambda item: item[1], default=("", 0.0))
    checks, length = list(_checks(functions)), np.diff(plan.times)
    fractions = np.linspace(0.0, 1.0, SAMPLES, endpoint=False)[1:]
    coarse = plan.times[:-1, None] + fractions * length[:, None]
    if not checks:
        return worst
    y, centres = (part.reshape(*coarse.shape, -1) for part in _states(plan, coarse.ravel()))
    around = []
    for check in checks:
        own = check.intervals
        found = check.excess(_flat(y[own]), _flat(centres[own]))
        at = int(np.argmax(found))
        interval = (own.start or 0) + at // len(fractions)
        step = length[interval] / SAMPLES
        around.append(coarse[own].ravel()[at] + step * np.linspace(-1.0, 1.0, CLOSER + 2)[1:-1])
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
    places = np.zeros((len(times), plan.problem.model.coordinates.nv))
    return np.concatenate([places, v, plan.inputs(times)], axis=1), plan.problem.with_time(q, times)


def _checks(functions: Functions) -> Iterator[_Check]:
    problem = functions.problem
    for constraint in problem.path:
        yield _Check(constraint.label, slice(0, problem.steps), _excess(functions, constraint))
    first = 0
    for phase, last in zip(problem.phases, problem.ends, strict=True):
        for constraint in phase.path:
            yield _Check(constraint.label, slice(first, int(last)), _excess(functions, constraint))
        first = int(last)
    yield from _limits(problem)


def _excess(functions: Functions, constraint: Constraint) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    problem = functions.problem

    def excess(y: np.ndarray, centres: np.ndarray) -> np.ndarray:
        (values,) = functions.function(constraint).value(y, centres, problem.parameters, constraint.own)
        return np.max(constraint.excess(problem.model, values), axis=-1, initial=-np.inf)

    return excess


def _limits(problem: Problem) -> Iterator[_Check]:
    """Limits of velocities and inputs."""
    model, ne = problem.model, problem.model.coordinates.nv
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
    """How far rates of the inputs, which are constant in every interval, are beyond their limits."""
    if plan.problem.bounds.rate is None:
        return
    found = np.diff(plan.u, axis=0) / np.diff(plan.times)[:, None]
    for side, bounds, sign in zip(("lower", "upper"), plan.problem.bounds.rate, (-1.0, 1.0), strict=True):
        for name, rate, bound in zip(plan.model.u_names, found.T, bounds, strict=True):
            if np.isfinite(bound):
                amount = float(np.max(_beyond(sign * (rate - bound), MET * (1.0 + abs(bound)))))
                yield f"{side} limit {bound:.4g} of the rate of {name!r}", amount
