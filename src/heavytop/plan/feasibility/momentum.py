"""Goals that are unreachable by force: a bound from the momentum of the whole system, checked before a solver starts.

Inner forces do not move the centre of mass: ``m r'' = m g + F`` with the external force F of the inputs. Limited inputs bound F in any attitude,
so that along a direction n the acceleration lies in an interval [A, B]. A point with such an acceleration that starts with the velocity v_0
and ends after T with v_1 moves at most

    d(T) = v_0 T + B t_1^2 / 2 + B t_1 t_2 + A t_2^2 / 2,    t_1 = (v_1 - v_0 - A T) / (B - A),    t_2 = T - t_1,

first with B, then with A. Only goals that are impossible for every allowed duration are rejected; the condition is necessary, not sufficient.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from heavytop.errors import PlanError
from heavytop.geometry import se3
from heavytop.plan.problem import Problem
from heavytop.system import WORLD, JointForce, Thruster, Wrench, at_defaults, unit_axis

SLACK = 1e-6
"""Part of a distance or velocity that counts as rounding."""
MOST_CORNERS = 12
"""Largest number of inputs in one frame for which the largest force is searched in all corners of their limits."""


class Push(NamedTuple):
    """The external force of the inputs.

    Attributes
    ----------
    turning : largest norm (N) of the forces along body axes, in any attitude.
    fixed : (n, 3) forces in the world per unit, of the inputs ``low`` to ``high`` (n,).
    axis : (3,) the only direction in which nothing but inputs acts; None: all directions.
    """

    turning: float
    fixed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    axis: np.ndarray | None

    def along(self, n: np.ndarray) -> tuple[float, float]:
        """Least and largest force (N) along the direction n (3,)."""
        along = self.fixed @ n
        acts = along != 0.0
        low, high = (side[acts] * along[acts] for side in (self.low, self.high))
        return float(np.minimum(low, high).sum() - self.turning), float(np.maximum(low, high).sum() + self.turning)


def check_momentum(problem: Problem, shortest: float, longest: float) -> None:
    """Raise a PlanError if limited inputs cannot bring the centre of mass from the start to the goal within any duration allowed."""
    push = None if problem.start is None or problem.goal is None else outer_push(problem)
    if push is None:
        return
    model, parameters = problem.model, dict(zip(problem.model.parameter_names, problem.parameters, strict=True))
    mass = float(_valued(problem, sum((i.mass for i in model.description.inertias.values()), np.zeros(()))))
    gravity = _valued(problem, model.description.gravity)
    if not mass > 0:
        return
    states = [(state.q[: model.nq], state.v) for state in (problem.start, problem.goal) if state is not None]
    r_0, r_1 = (model.evaluate("center_of_mass", q, parameters=parameters) for q, _ in states)
    v_0, v_1 = (model.evaluate("momentum", q, v, parameters=parameters)[0] / mass for q, v in states)
    within = "" if not np.isfinite(longest) else f" in {longest:g} s"
    ways = []
    for n in _directions(push, r_1 - r_0, v_0, gravity, longest):
        force, weight = push.along(n), float(gravity @ n)
        if np.all(np.isfinite(force)):
            pull = f", its weight with {mass * weight:.4g} N" if abs(weight) > 1e-9 else ""
            text = (
                f"the goal cannot be reached by force: the limited inputs of {model.name!r} push its {mass:g} kg "
                f"along ({', '.join(f'{x + 0.0:.3g}' for x in n)}) with {force[0]:.4g} to {force[1]:.4g} N{pull}, so that"
            )
            ways.append((text, *(weight + f / mass for f in force), *(float(x @ n) for x in (r_1 - r_0, v_0, v_1))))
    for text, a, b, _, begin, end in ways:
        times = _times(a, b, end - begin, shortest, longest)
        stuck = times == (0.0, 0.0) and np.max(np.abs(r_1 - r_0)) > SLACK  # any motion makes it slower or faster
        if times is None or stuck:
            raise PlanError(
                f"{text} the velocity of its centre of mass cannot change from {begin:.4g} to {end:.4g} m/s{within}. "
                "Allow larger inputs or more time."
            )
        if times[0] > times[1]:
            return  # at the edge
        shortest, longest = times
    for text, a, b, distance, begin, end in ways:
        far = _farthest(a, b, begin, end, shortest, longest)
        if distance > far + SLACK * (1.0 + abs(distance) + abs(far)):
            raise PlanError(
                f"{text} its centre of mass comes at most {far:.4g} m far{within}, and the goal is {distance:.4g} m away. "
                "Allow larger inputs or more time."
            )


def _times(a: float, b: float, change: float, shortest: float, longest: float) -> tuple[float, float] | None:
    """Durations in which accelerations in [a, b] change a velocity by ``change``; None: none; crossed: only by rounding."""
    exact = _durations(a, b, change, change, shortest, longest)
    if exact[0] <= exact[1]:
        return exact
    rounding = SLACK * (1.0 + abs(change))
    low, high = _durations(a, b, change - rounding, change + rounding, shortest, longest)
    return (1.0, 0.0) if low <= high else None


def _durations(a: float, b: float, least: float, most: float, low: float, high: float) -> tuple[float, float]:
    """Durations T in [low, high] for which [a T, b T] and [least, most] intersect."""
    for slope, bound in ((b, least), (-a, -most)):  # slope T >= bound
        if slope > 0:
            low = max(low, bound / slope)
        elif slope < 0:
            high = min(high, bound / slope)
        elif bound > 0:
            return 1.0, 0.0
    return low, high


def _farthest(a: float, b: float, begin: float, end: float, low: float, high: float) -> float:
    """Largest distance over all durations in [low, high], which may be infinite."""
    if b - a > 0:
        first = Polynomial([(end - begin) / (b - a), -a / (b - a)])
        second = Polynomial([0.0, 1.0]) - first
        distance = Polynomial([0.0, begin]) + 0.5 * b * first**2 + b * first * second + 0.5 * a * second**2
    else:
        distance = Polynomial([0.0, begin, 0.5 * a])
    _, linear, square = np.pad(distance.coef, (0, 3 - len(distance.coef)))
    candidates = [low, *([high] if np.isfinite(high) else [])]
    if square != 0 and low < -0.5 * linear / square < high:
        candidates.append(-0.5 * linear / square)
    grows = not np.isfinite(high) and (square > 0 or (square == 0 and linear > 0))
    return np.inf if grows else float(max(distance(np.array(candidates))))


def _directions(push: Push, away: np.ndarray, v: np.ndarray, gravity: np.ndarray, longest: float) -> list[np.ndarray]:
    """Directions to check: the axes, that of the goal, and that of the goal relative to free fall."""
    if push.axis is not None:
        return [push.axis, -push.axis]
    further = [away, *([away - v * longest - 0.5 * gravity * longest**2] if np.isfinite(longest) else [])]
    return [*np.eye(3), *-np.eye(3), *(x / np.linalg.norm(x) for x in further if np.linalg.norm(x) > 1e-9)]


def _valued(problem: Problem, value: Any) -> np.ndarray:
    """A number or array of the description with the parameters of the problem."""
    described = problem.model.description.parameters
    known = tuple(replace(p, value=float(x)) for p, x in zip(described, problem.parameters, strict=True))
    return at_defaults(value, known)


def outer_push(problem: Problem) -> Push | None:
    """The external force of the inputs; None if anything else may push: reactions of the world, springs, dampers, user-defined elements."""
    description = problem.model.description
    roots = [edge for edge in description.graph.edges if WORLD in (edge.a, edge.b)]
    if description.loops or description.constraints or description.time is not None or len(roots) != 1:
        return None
    (root,) = roots
    if root.a != WORLD or root.joint.kind not in ("floating", "prismatic") or root.joint.follows:
        return None
    if not all(element.is_inner(root.label) for element in description.elements):
        return None
    slides = root.joint.slides_along
    axis = None if slides is None else _valued(problem, se3.rotation(root.at)) @ _valued(problem, slides)
    fixed: dict[int, np.ndarray] = {}
    turning: dict[str, dict[int, np.ndarray]] = {}
    for k, given in enumerate(description.inputs.values()):
        if type(given) is JointForce:
            if given.body == root.label:
                if axis is None:
                    return None
                fixed[k] = float(_valued(problem, given.gear)) * axis
        elif type(given) is Thruster:
            turning.setdefault(given.body, {})[k] = _valued(problem, unit_axis(given.axis, given.body))
        elif type(given) is not Wrench:
            return None
        elif given.relative_to == WORLD:
            places = fixed if given.frame == "world" else turning.setdefault(given.body, {})
            places[k] = _valued(problem, given.force)
    low, high = problem.bounds.u
    largest = sum(
        _largest(np.array([*forces.values()]), low[[*forces]], high[[*forces]]) for forces in turning.values()
    )
    return Push(float(largest), np.array([*fixed.values()]).reshape(-1, 3), low[[*fixed]], high[[*fixed]], axis)


def _largest(forces: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Largest norm, or a bound of it, of a sum of forces (n, 3) per unit with units between low and high (n,)."""
    acts = np.any(forces != 0.0, axis=1)
    forces, low, high = forces[acts], low[acts], high[acts]
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        return np.inf
    if len(forces) > MOST_CORNERS:
        return float(np.linalg.norm(forces, axis=1) @ np.maximum(np.abs(low), np.abs(high)))
    corners = np.array(list(product(*zip(low, high, strict=True)))).reshape(-1, len(forces))  # the norm is convex
    return float(np.max(np.linalg.norm(corners @ forces, axis=1), initial=0.0))
