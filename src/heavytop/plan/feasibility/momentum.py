"""What no motion can reach by force alone, proved by the momentum of the whole system before a solver starts.

Inner forces do not move the centre of mass: ``m r'' = m g + F`` with the force F of the inputs from outside. Limited inputs bound F, whatever
the attitude, so that along a direction n the acceleration lies in an interval [A, B]. A point with such an acceleration that starts with the
velocity v_0 and ends after T with v_1 moves at most

    d(T) = v_0 T + B t_1^2 / 2 + B t_1 t_2 + A t_2^2 / 2,    t_1 = (v_1 - v_0 - A T) / (B - A),    t_2 = T - t_1,

first with B, then with A. Only what is impossible for every duration allowed is refused; a goal that passes may still be out of reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from heavytop.errors import PlanError
from heavytop.geometry import se3
from heavytop.ocp.problem import State
from heavytop.plan.problem import Problem
from heavytop.system.description.description import at_defaults
from heavytop.system.description.inputs import JointForce, Thruster, Wrench, unit_axis
from heavytop.system.description.names import WORLD

SLACK = 1e-6
"""Part of a distance or velocity that counts as rounding."""
MOST_CORNERS = 12
"""Inputs in one frame up to which the largest force is looked for in all corners of their limits."""


class Push(NamedTuple):
    """The force of the inputs from outside.

    Attributes
    ----------
    turning : largest norm (N) of what acts along axes of bodies, in any attitude.
    fixed : (n, 3) forces in the world per unit, of the inputs ``low`` to ``high`` (n,).
    axis : (3,) the only direction in which nothing but inputs acts; None: all are.
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
    if problem.start is None or problem.goal is None:
        return
    push = outer_push(problem)
    if push is None:
        return
    model, parameters = problem.described, dict(zip(problem.described.parameter_names, problem.parameters, strict=True))
    mass = float(_valued(problem, sum((i.mass for i in model.description.inertias.values()), np.zeros(()))))
    gravity = _valued(problem, model.description.gravity)
    if not mass > 0:
        return

    def centre(state: State) -> tuple[np.ndarray, np.ndarray]:
        q = state.q[: model.nq]
        return model.center_of_mass(q, parameters), model.momentum(q, state.v, parameters=parameters).linear / mass

    (r_0, v_0), (r_1, v_1) = centre(problem.start), centre(problem.goal)
    ways: list[_Way] = []
    for n in _directions(push, r_1 - r_0, v_0, gravity, longest):
        force, weight = push.along(n), float(gravity @ n)
        if np.all(np.isfinite(force)):
            a, b = (weight + f / mass for f in force)
            ways.append(_Way(n, force, mass * weight, a, b, *(float(x @ n) for x in (r_1 - r_0, v_0, v_1))))
    text = f"the goal cannot be reached by force: the limited inputs of {model.name!r} push its {mass:g} kg "
    span = _within(shortest, longest)
    for way in ways:
        times = _times(way.a, way.b, way.end - way.begin, shortest, longest)
        if times is None:
            raise PlanError(
                f"{text}{way.told()}, so that it cannot {way.change()}{span}. Allow larger inputs or more time."
            )
        if times[0] > times[1]:
            return  # at the edge
        shortest, longest = times
        if longest == 0.0 and np.max(np.abs(r_1 - r_0)) > SLACK:  # whatever it does, it becomes slower or faster
            raise PlanError(
                f"{text}{way.told()}, so that it cannot {way.change()}, however long it takes. Allow larger inputs."
            )
    for way in ways:
        far = _farthest(way.a, way.b, way.begin, way.end, shortest, longest)
        if way.distance > far + SLACK * (1.0 + abs(way.distance) + abs(far)):
            raise PlanError(
                f"{text}{way.told()}, so that its centre of mass comes at most {far:.4g} m far{span}, and the goal is {way.distance:.4g} m away. "
                "Allow larger inputs or more time."
            )


class _Way(NamedTuple):
    """A direction: forces of inputs and weight (N), accelerations from a to b (m/s^2), distance (m), velocities at both ends (m/s)."""

    n: np.ndarray
    force: tuple[float, float]
    weight: float
    a: float
    b: float
    distance: float
    begin: float
    end: float

    def told(self) -> str:
        """The forces in words."""
        low, high = self.force
        text = f"along ({', '.join(f'{x + 0.0:.3g}' for x in self.n)}) with {low:.4g} to {high:.4g} N"
        return text + (f", its weight with {self.weight:.4g} N" if abs(self.weight) > 1e-9 else "")

    def change(self) -> str:
        """What its velocity has to do."""
        if abs(self.end - self.begin) < SLACK:
            return "end as fast as it began"
        return f"change the velocity of its centre of mass by {self.end - self.begin:.4g} m/s"


def _within(shortest: float, longest: float) -> str:
    if not np.isfinite(longest):
        return ""
    return f" in {longest:g} s" if shortest == longest else f" in {shortest:g} to {longest:g} s"


def _times(a: float, b: float, change: float, shortest: float, longest: float) -> tuple[float, float] | None:
    """Durations in which accelerations in [a, b] change a velocity by ``change``; None: there are none; crossed: only by rounding."""
    exact = list(_between(a, b, change, change, shortest, longest))
    if exact[0] <= exact[1]:
        return exact[0], exact[1]
    rounding = SLACK * (1.0 + abs(change))
    low, high = _between(a, b, change - rounding, change + rounding, shortest, longest)
    return (1.0, 0.0) if low <= high else None


def _between(a: float, b: float, least: float, most: float, low: float, high: float) -> tuple[float, float]:
    """Durations T in [low, high] with [a T, b T] and [least, most] not apart."""
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
    """Where it is looked: the axes, where the goal is, and where it is for one who falls freely."""
    if push.axis is not None:
        return [push.axis, -push.axis]
    found = [*np.eye(3), *-np.eye(3)]
    asked = [away, *([away - v * longest - 0.5 * gravity * longest**2] if np.isfinite(longest) else [])]
    return found + [x / np.linalg.norm(x) for x in asked if np.linalg.norm(x) > 1e-9]


def _valued(problem: Problem, value: object) -> np.ndarray:
    """A number or array of the description with the parameters of the problem."""
    described = problem.described.description.parameters
    known = tuple(replace(p, value=float(x)) for p, x in zip(described, problem.parameters, strict=True))
    return at_defaults(value, known)  # pyright: ignore[reportArgumentType]


def outer_push(problem: Problem) -> Push | None:
    """The force of the inputs from outside; None where something else may push: reactions of the world, springs, dampers, own elements."""
    description = problem.described.description
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
    return _sum(problem, root.label, axis)


def _sum(problem: Problem, root: str, axis: np.ndarray | None) -> Push | None:
    fixed: list[tuple[np.ndarray, int]] = []
    turning: dict[str, list[tuple[np.ndarray, int]]] = {}
    for k, given in enumerate(problem.described.description.inputs.values()):
        if type(given) is JointForce:
            if given.body != root:
                continue
            if axis is None:
                return None
            fixed.append((float(_valued(problem, given.gear)) * axis, k))
        elif type(given) is Thruster:
            turning.setdefault(given.body, []).append((_valued(problem, unit_axis(given.axis, given.body)), k))
        elif type(given) is Wrench:
            if given.relative_to == WORLD:
                force = _valued(problem, given.force)
                if given.frame == "world":
                    fixed.append((force, k))
                else:
                    turning.setdefault(given.body, []).append((force, k))
        else:
            return None
    low, high = problem.bounds.u
    largest = float(
        sum(
            _largest(np.array([f for f, _ in own]), low[[k for _, k in own]], high[[k for _, k in own]])
            for own in turning.values()
        )
    )
    places = [k for _, k in fixed]
    return Push(largest, np.array([f for f, _ in fixed]).reshape(-1, 3), low[places], high[places], axis)


def _largest(forces: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Largest norm of a sum of forces (n, 3) per unit with units between low and high (n,), or a bound of it."""
    acts = np.any(forces != 0.0, axis=1)
    forces, low, high = forces[acts], low[acts], high[acts]
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        return np.inf
    if len(forces) > MOST_CORNERS:
        return float(np.linalg.norm(forces, axis=1) @ np.maximum(np.abs(low), np.abs(high)))
    corners: Sequence[tuple[float, ...]] = list(product(*zip(low, high, strict=True)))  # the norm is convex
    return float(np.max(np.linalg.norm(np.array(corners).reshape(-1, len(forces)) @ forces, axis=1), initial=0.0))
