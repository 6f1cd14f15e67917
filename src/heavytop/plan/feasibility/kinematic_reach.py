"""Where the points of an arm cannot be: hinges and ball joints keep the distances from pivot to pivot, whatever the angles are.

A point whose chain of joints from the world only turns stays within the sum R of these distances from the first pivot. A constraint that is
missed there by more than R is missed everywhere, since moving by a length changes a miss by at most that length.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from heavytop.plan.constraints import Constraint
from heavytop.plan.problem import Problem
from heavytop.system.description.names import WORLD

TURNING, RIGID = ("revolute", "spherical"), "fixed"
"""Kinds of joints that keep the distance of pivots."""


def reach(problem: Problem, frame: str, offset: Any = (0.0, 0.0, 0.0)) -> tuple[np.ndarray, float] | None:
    """The pivot (3,) in the world around which a point of a frame moves, and how far (m) it comes; None: there is no bound.

    >>> import heavytop as ht
    >>> from heavytop.plan.describe import describe
    >>> system = ht.System(name="arm")
    >>> _ = system.body("link", joint=ht.Revolute("y"), at=(0, 0, 1), inertia=ht.Inertia(1.0, com=(0, 0, 0.5)))
    >>> _ = system.input("M", ht.JointForce("link"))
    >>> options = dict.fromkeys(("limits", "rates", "cost", "steps", "phases", "parameters")) | {"periodic": False, "path": ()}
    >>> problem = describe(system.derive(), [0.0], [1.0], 1.0, inputs="held", **options)
    >>> pivot, far = reach(problem, "link", (0, 0, 0.5))
    >>> pivot.tolist(), far
    ([0.0, 0.0, 1.0], 0.5)
    """
    model = problem.described
    description = model.description
    if description.time is not None:
        return None
    steps = {step.frame: step for step in description.graph.spanning_tree()}
    pivots, here = [], frame
    while here != WORLD:
        step = steps.get(here)
        if step is None or step.edge.joint.kind not in (*TURNING, RIGID):
            return None
        if step.edge.joint.kind != RIGID:
            pivots.insert(0, step.edge.b)
        here = step.parent
    q, parameters = model.neutral(), dict(zip(model.parameter_names, problem.parameters, strict=True))

    def place(name: str, point: Any = (0.0, 0.0, 0.0)) -> np.ndarray:
        if name == WORLD:
            return np.asarray(point, dtype=float)
        G = model.pose(WORLD, name, q, parameters=parameters)
        return G[:3, 3] + G[:3, :3] @ np.asarray(point, dtype=float)

    chain = [*(place(name) for name in pivots), place(frame, offset)]
    return chain[0], float(sum(np.linalg.norm(b - a) for a, b in pairwise(chain)))


def out_of_reach(problem: Problem, constraint: Constraint) -> tuple[float, float] | None:
    """How far (m) the point of a constraint comes, and by how much it misses it at best; None where nothing is known or nothing missed."""
    frame: Any = getattr(constraint, "frame", None)
    missed = constraint.missed_by
    if not isinstance(frame, str) or not np.isfinite(missed(np.zeros(3))):
        return None
    found = reach(problem, frame, getattr(constraint, "offset", (0.0, 0.0, 0.0)))
    if found is None:
        return None
    pivot, far = found
    least = missed(pivot) - far
    return (far, float(least)) if least > 1e-9 * (1.0 + far) else None
