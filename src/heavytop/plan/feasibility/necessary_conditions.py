"""Necessary conditions checked before a solver starts: ends within bounds, distances within reach, constraints without contradiction."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from heavytop.coordinates import Pose
from heavytop.errors import PlanError
from heavytop.ocp import State, place
from heavytop.plan.constraints import Between, Constraint, Own, Point, Rest
from heavytop.plan.costs import OwnCost
from heavytop.plan.feasibility.momentum import check_momentum
from heavytop.plan.guess import Guess
from heavytop.plan.problem import Problem
from heavytop.plan.scene import node_function
from heavytop.system import WORLD

SAME = 1e-9
"""Difference of bounds, relative to their size, that counts as rounding."""
MET = 1e-7
"""Violation of a constraint at an end that counts as rounding."""
TURNING, RIGID = ("revolute", "spherical"), "fixed"
"""Kinds of joints that keep the distance of pivots."""


def check_ends(problem: Problem) -> None:
    """Check that start and goal lie within bounds and path constraints, and that limited speeds and forces allow to reach the goal."""
    first, last = problem.phases[0], problem.phases[-1]
    for what, state, near in (("start", problem.start, first.path), ("goal", problem.goal, (*last.path, *last.end))):
        if state is None:
            continue
        for name, value, a, b in zip(problem.model.v_names, state.v, *problem.bounds.v, strict=True):
            if not a <= value <= b:
                raise PlanError(f"the {what} has {name!r} = {value:g}, outside its limits [{a:g}, {b:g}].")
        for constraint in (*problem.path, *near):
            _check_state(problem, constraint, state, what)
    if problem.start is not None:
        _check_speeds(problem, problem.start)
        check_momentum(problem, *_span(problem))
    if problem.periodic and problem.goal is not None:
        raise PlanError("a periodic plan ends where it starts: omit the goal (goal=None).")


def _check_state(problem: Problem, constraint: Constraint, state: State, what: str) -> None:
    rates, bound = problem.rates, problem.bound_constraints[constraint]
    depends = np.any(bound.function.patterns[0], axis=0)
    if depends[rates.nx :].any() or (problem.timed and depends[rates.ne - 1] and np.isnan(state.q[-1])):
        return  # depends on inputs, or on the unknown time
    y = np.concatenate([np.zeros(rates.ne), state.v, problem.hover])
    (values,) = bound.function.traced_value.interpret(
        y, np.nan_to_num(state.q), problem.parameters, constraint.constants
    )
    worst = float(np.max(constraint.violation(values), initial=0.0))
    if worst > MET:
        raise PlanError(
            f"the {what} cannot be reached: it violates {constraint.label} by {worst:.3g}. Move the {what} or the constraint."
        )


def _span(problem: Problem) -> tuple[float, float]:
    """Shortest and longest duration of the whole motion, s."""
    low, high = (sum(ends) for ends in zip(*((p.shortest, p.longest) for p in problem.phases), strict=True))
    return (low, high) if problem.total is None else (max(low, problem.total[0]), min(high, problem.total[1]))


# --- speeds -------------------------------------------------------------------------------------------------------------------


def _check_speeds(problem: Problem, start: State) -> None:
    """Check that limited velocities allow to reach the goal, and the coordinates at the ends of phases, in the longest time until then."""
    model, c = problem.model, problem.model.coordinates
    if model.description.velocity is not None or model.description.basis is not None or problem.timed:
        return
    low, high = (side.copy() for side in problem.bounds.v)
    for constraint in problem.path:
        if isinstance(constraint, Between) and constraint.name in model.v_names:
            k = model.v_names.index(constraint.name)
            low[k], high[k] = max(low[k], constraint.lower), min(high[k], constraint.upper)
    longest = np.minimum(np.cumsum([phase.longest for phase in problem.phases]), _span(problem)[1])
    for i, (phase, time) in enumerate(zip(problem.phases, longest, strict=True)):
        if not np.isfinite(time):
            return
        last = i == len(problem.phases) - 1
        what = "the goal" if last else f"the end of phase {i + 1}"
        away = np.full((2, c.nv), [[-np.inf], [np.inf]])  # least and largest displacement in the chart of the start
        if last and problem.goal is not None:
            away[:] = place(c, start.q, problem.goal.q)
        for name, block in zip(c.names or (), c.blocks, strict=True):
            entries, names = c.v_slice(name), model.q_names[c.q_slice(name)]
            if isinstance(block, Pose):  # as fast as its velocities along three axes together, in any attitude
                entries = slice(entries.start, entries.start + 3)
                distance = float(np.linalg.norm(np.maximum(np.maximum(away[0, entries], -away[1, entries]), 0.0)))
                speed = float(np.linalg.norm(np.maximum(np.abs(low[entries]), np.abs(high[entries]))))
                if distance - speed * time > SAME:
                    raise PlanError(
                        f"{what} cannot be reached: {name!r} of {model.name!r} has to move by {distance:g} m, but within its velocity "
                        f"limits it can move at most {speed * time:g} m in {time:g} s. Allow more time or speed."
                    )
            elif block.nq == block.nv and np.array_equal(block.kinematics_matrix(block.neutral()), np.eye(block.nv)):
                for constraint in phase.end:
                    if isinstance(constraint, Between) and constraint.name in names:
                        k = names.index(constraint.name)
                        bounds = np.array([constraint.lower, constraint.upper])
                        away[:, entries.start + k] = bounds - start.q[c.q_slice(name)][k]
                far = np.maximum(away[0, entries] - high[entries] * time, low[entries] * time - away[1, entries])
                if np.any(far > SAME):
                    k = entries.start + int(np.argmax(far))
                    raise PlanError(
                        f"{what} cannot be reached: {model.v_names[k]!r} is limited, so that in {time:g} s the distance of "
                        f"{np.min(np.abs(away[:, k])):g} is {np.max(far):.3g} too far. Allow more time or speed."
                    )


# --- contradictions -----------------------------------------------------------------------------------------------------------


def check_meetings(problem: Problem) -> None:
    """Check that constraints that hold at the same moment do not contradict: at the start, at gates and ends of phases, at the goal."""
    moments = [("the start", problem.begin, problem.phases[0].path)]
    for i, phase in enumerate(problem.phases):
        last = i == len(problem.phases) - 1
        near = phase.path if last else (*phase.path, *problem.phases[i + 1].path)
        moments.append(("the goal" if last else f"the end of phase {i + 1}", phase.end, near))
        _check_names(problem, f"phase {i + 1}" if len(problem.phases) > 1 else "the way", (*problem.path, *phase.path))
    for what, constraints, path in moments:
        together = (*constraints, *problem.path, *path)
        _check_names(problem, what, together)
        for constraint in together:
            _check_arm(problem, what, constraint)
        for point in constraints:
            if isinstance(point, Point):
                _check_point(problem, what, point, together)


def _check_names(problem: Problem, what: str, constraints: tuple[Constraint, ...]) -> None:
    """Check that limits, rest and bounds by name leave a value of every coordinate, velocity and input."""
    model = problem.model
    sides: dict[str, list[tuple[float, float, str]]] = {}
    for names, (low, high) in ((model.v_names, problem.bounds.v), (model.u_names, problem.bounds.u)):
        for name, a, b in zip(names, low, high, strict=True):
            sides[name] = [(float(a), float(b), f"its limits [{a:g}, {b:g}]")]
    for constraint in constraints:
        if isinstance(constraint, Rest):
            for name in model.v_names:
                sides[name].append((0.0, 0.0, constraint.label))
        if isinstance(constraint, Between):
            sides.setdefault(constraint.name, []).append((constraint.lower, constraint.upper, constraint.label))
    for name, bounds in sides.items():
        low, high = max(bounds, key=lambda side: side[0]), min(bounds, key=lambda side: side[1])
        if low[0] - high[1] > SAME * (1.0 + abs(low[0])):
            raise PlanError(
                f"{what} of {model.name!r} contradicts itself: {name!r} must be at least {low[0]:g} ({low[2]}) and at most {high[1]:g} ({high[2]})."
            )


def _check_point(problem: Problem, what: str, point: Point, others: tuple[Constraint, ...]) -> None:
    """Check that a given point fulfils, within its radius, the other constraints of the same point of the same frame."""
    for other in others:
        same = getattr(other, "frame", None) == point.frame and getattr(other, "offset", None) == point.offset
        if other == point or not same:
            continue
        violation = other.violation_at(np.array(point.at)) - point.radius
        if violation > SAME:
            raise PlanError(
                f"{what} of {problem.model.name!r} contradicts itself: {point.label} violates {other.label} by {violation:.3g}. Move one of them."
            )


def _check_arm(problem: Problem, what: str, constraint: Constraint) -> None:
    """Check that the links of an arm are long enough for a constraint.

    A violation changes by at most the length of a motion: one of more than R at the pivot is a violation everywhere within R.
    """
    frame: Any = getattr(constraint, "frame", None)
    if frame is None or not np.isfinite(constraint.violation_at(np.zeros(3))):
        return
    found = reach(problem, frame, getattr(constraint, "offset", (0.0, 0.0, 0.0)))
    if found is None:
        return
    pivot, far = found
    violation = constraint.violation_at(pivot) - far
    if violation > SAME * (1.0 + far):
        raise PlanError(
            f"{what} of {problem.model.name!r} is unreachable: the links allow the point at most {far:.4g} m from the first joint, which violates "
            f"{constraint.label} by {violation:.3g} m. Move the constraint."
        )


def reach(problem: Problem, frame: str, offset: Any = (0.0, 0.0, 0.0)) -> tuple[np.ndarray, float] | None:
    """Pivot (3,) in the world around which a point of a frame moves, and its largest distance R (m); None if there is no bound.

    Hinges and ball joints keep the distances from pivot to pivot: a point behind such joints only stays within their sum R of the first pivot.
    """
    model = problem.model
    if model.description.time is not None:
        return None
    steps = {step.frame: step for step in model.description.graph.spanning_tree()}
    pivots, here = [], frame
    while here != WORLD:
        step = steps.get(here)
        if step is None or step.edge.joint.kind not in (*TURNING, RIGID):
            return None
        if step.edge.joint.kind != RIGID:
            pivots.insert(0, step.edge.b)
        here = step.parent
    q, parameters = model.neutral(), dict(zip(model.parameter_names, problem.parameters, strict=True))

    def position(name: str, point: Any = (0.0, 0.0, 0.0)) -> np.ndarray:
        G = np.eye(4) if name == WORLD else model.evaluate(f"pose:{WORLD}:{name}", q, parameters=parameters)
        return G[:3, 3] + G[:3, :3] @ np.asarray(point, dtype=float)

    chain = [*(position(name) for name in pivots), position(frame, offset)]
    return chain[0], float(sum(np.linalg.norm(b - a) for a, b in pairwise(chain)))


def check_numbers(problem: Problem, guess: Guess) -> None:
    """Check that user-defined costs and constraints are finite along the guess."""
    y = np.concatenate([np.zeros((len(guess.q), problem.rates.ne)), guess.v, guess.u], axis=1)
    functions = {c.label: problem.bound_constraints[c].function for c in problem.constraints if isinstance(c, Own)}
    for _, term in problem.cost.terms:
        if isinstance(term, OwnCost):
            functions["the cost OwnCost"] = node_function(
                problem.rates, "cost", lambda scene, term=term: np.reshape(term.integrand(scene), (1,))
            )
    for label, function in functions.items():
        (values,) = function.traced_value.interpret(y, guess.q, problem.parameters, np.zeros(0))
        wrong = np.nonzero(~np.isfinite(values).all(axis=-1))[0]
        if len(wrong):
            raise PlanError(
                f"{label} is {values[wrong[0]].tolist()} at node {wrong[0]} of the guess, q = {guess.q[wrong[0]].round(4).tolist()}. "
                "Functions of a plan must be finite along all motions."
            )
