"""Goals of systems with loops and constraints: what of a state is free to be asked for, and what follows.

Loops and constraints hold along a motion by themselves, but for the drift of its integration. A goal that pins all coordinates asks for them once
more, with rows that depend on each other and contradict each other by that drift. So the independent coordinates are pinned alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop.control.charts import chart_rate
from heavytop.plan.problem import Problem, State
from heavytop.system.model import Model
from heavytop.system.tangent import null_space

NEAR = 0.1
"""How far (m, rad) places that follow may be from the goal while a plan is looked for; beyond lies another way to close the loops."""
CLOSE = 1e-3
"""The same at the end."""


def followed(model: Model, goal: State, parameters: Any) -> np.ndarray:
    """Which entries of (e, v) (ne + nv,) at a goal follow from the others."""
    c = model.coordinates
    free = np.zeros(c.nv + model.nv, dtype=bool)
    if not model.description.loops and not model.description.constraints:
        return free
    H, Phi, _ = model.evaluate("tangent_rows", goal.q, goal.v, parameters=parameters)
    along = np.array([chart_rate(c, goal.q, np.zeros(c.nv), w) for w in np.eye(c.nv)]).T
    places, _ = null_space(model, H @ np.linalg.inv(along), ())
    free[list(places)] = True
    free[c.nv :] = ~_bound(model, Phi)
    return ~free


def followed_velocities(problem: Problem, q: np.ndarray) -> np.ndarray:
    """Which velocities (nv,) follow from the others at a configuration q (nq,) of the problem's model."""
    model, p = problem.described, problem.parameters.copy()
    if not model.is_constrained:
        return np.zeros(model.nv, dtype=bool)
    if problem.clocked and model.description.time is not None:
        p[-1] = q[-1]
    parameters = dict(zip(model.parameter_names, p, strict=True))
    return _bound(model, model.evaluate("constraint_jacobian", q[: model.nq], parameters=parameters))


def _bound(model: Model, Phi: np.ndarray) -> np.ndarray:
    """Velocities (nv,) that the equations Phi v = b determine by the others."""
    bound = np.ones(model.nv, dtype=bool)
    bound[list(null_space(model, Phi, ())[0])] = False
    return bound
