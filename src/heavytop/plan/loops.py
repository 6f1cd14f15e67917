"""Goals of systems with loops and constraints: independent coordinates, and those that follow from them.

Loops and constraints hold along a motion, up to the drift of the integration. A goal that fixes all coordinates would impose them again, by dependent
rows that contradict each other by that drift. So only independent coordinates are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part
from heavytop.ocp import State, chart, chart_rate
from heavytop.plan.constraints import Constraint
from heavytop.plan.problem import Problem
from heavytop.plan.scene import NodeScene
from heavytop.system import Model, null_space, sizes

CLOSE = 1e-3
"""Largest distance (m, rad) of dependent coordinates from the goal."""


def followed(model: Model, goal: State, parameters: Any) -> np.ndarray:
    """Which entries of (e, v) (ne + nv,) at a goal follow from the others."""
    c = model.coordinates
    free = np.zeros(c.nv + model.nv, dtype=bool)
    if not model.description.loops and not model.description.constraints:
        return free
    H, Phi, _ = model.evaluate("tangent_rows", goal.q, goal.v, parameters=parameters)
    along = np.array([chart_rate(c, goal.q, np.zeros(c.nv), w) for w in np.eye(c.nv)]).T
    joints, columns, rows, holonomic = sizes(model, goal.q, parameters)
    places, _ = null_space(model, H @ np.linalg.inv(along), (), holonomic, joints)
    free[list(places)] = True
    free[c.nv :] = ~_bound(model, Phi, rows, columns)
    return ~free


def followed_velocities(problem: Problem, q: np.ndarray) -> np.ndarray:
    """Which velocities (nv,) follow from the others at a configuration q (nq,) of the problem."""
    model, p = problem.model, problem.parameters.copy()
    if not model.is_constrained:
        return np.zeros(model.nv, dtype=bool)
    if problem.timed and model.description.time is not None:
        p[-1] = q[-1]
    parameters = dict(zip(model.parameter_names, p, strict=True))
    q = q[: model.nq]
    _, columns, rows, _ = sizes(model, q, parameters)
    return _bound(model, model.evaluate("constraint_jacobian", q, parameters=parameters), rows, columns)


@dataclass(frozen=True)
class Closed(Constraint):
    """Loops and constraints at an unspecified start; along the motion they hold anyway.

    Attributes
    ----------
    positions, velocities : independent rows of both residuals.
    """

    positions: tuple[int, ...]
    velocities: tuple[int, ...]

    @property
    def label(self) -> str:
        return "loops and constraints"

    def function(self, scene: NodeScene) -> Array:
        (phi,) = scene.rates.traced("position_residual").expressions(scene.q, scene.p)
        (rate,) = scene.rates.traced("velocity_residual").expressions(scene.q, scene.v, scene.p)
        rows = [part(phi, k, k + 1) for k in self.positions] + [part(rate, k, k + 1) for k in self.velocities]
        return concatenate(*rows)


def closed(model: Model, q: np.ndarray, parameters: Any) -> Closed:
    """The constraint that closes loops, with independent rows around the configuration q; exactly there they may be singular."""
    away = 0.3 * np.random.default_rng(0).standard_normal((3, model.coordinates.nv))
    around = [q, *(model.coordinates.project(chart(model.coordinates, q, e)) for e in away)]
    each = [model.evaluate("tangent_rows", place, np.zeros(model.nv), parameters=parameters)[:2] for place in around]
    joints, columns, rows, holonomic = sizes(model, q, parameters)
    kept = []
    for side, of_rows, of_columns in zip(zip(*each, strict=True), (holonomic, rows), (joints, columns), strict=True):
        stacked = np.concatenate(side, axis=1)
        # dependent rows are dependent columns of the transpose: each equation is divided by its size
        weights = np.divide(1.0, of_rows, out=np.ones_like(of_rows), where=of_rows > 0.0)
        others = range(len(stacked))
        if stacked.size:
            others = null_space(model, stacked.T, (), np.tile(1 / of_columns, len(side)), weights)[0]
        kept.append(tuple(k for k in range(len(stacked)) if k not in others))
    return Closed(*kept)


def _bound(model: Model, Phi: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Velocities (nv,) that the equations Phi v = b determine by the others."""
    bound = np.ones(model.nv, dtype=bool)
    bound[list(null_space(model, Phi, (), rows, columns)[0])] = False
    return bound
