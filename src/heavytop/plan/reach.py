"""What cannot be reached, found before a solver starts: ends outside of bounds, distances too far, constraints that exclude each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop.control.charts import place
from heavytop.coordinates import Pose
from heavytop.errors import PlanError
from heavytop.plan.constraints import Constraint, Own, Point
from heavytop.plan.costs import OwnCost
from heavytop.plan.guess import Guess, nearest
from heavytop.plan.momentum import check_momentum
from heavytop.plan.problem import Problem, State
from heavytop.plan.scene import node_function

STARTS, MISSED = 12, 1e-4
"""Configurations from which a goal is looked for, and the miss that counts."""


def check_ends(problem: Problem) -> None:
    """Start and goal must lie within bounds and path constraints; with bounded speeds or forces the goal must be near enough."""
    model = problem.model
    for what, state, near in (
        ("start", problem.start, problem.phases[0].path),
        ("goal", problem.goal, (*problem.phases[-1].path, *problem.phases[-1].end)),
    ):
        if state is None:
            continue
        low, high = problem.bounds.v
        for name, value, a, b in zip(model.v_names, state.v, low, high, strict=True):
            if not a <= value <= b:
                raise PlanError(f"the {what} has {name!r} = {value:g}, outside its limits [{a:g}, {b:g}].")
        for constraint in (*problem.path, *near):
            _check_state(problem, constraint, state, what)
    if problem.start is not None and problem.goal is not None:
        _check_reach(problem, problem.start, problem.goal)
        check_momentum(problem, *_span(problem))
    if problem.periodic and problem.goal is not None:
        raise PlanError("a periodic plan ends where it starts: omit the goal (goal=None).")


def _check_state(problem: Problem, constraint: Constraint, state: State, what: str) -> None:
    model = problem.model
    function = node_function(model, "constraint", constraint.function, len(constraint.own), constraint.kind)
    first, _ = function.patterns
    nx = model.coordinates.nv + model.nv
    if first[:, nx:].any():
        return  # depends on inputs
    y = np.concatenate([np.zeros(model.coordinates.nv), state.v, problem.hover])
    if problem.clocked and first[:, model.coordinates.nv - 1].any() and np.isnan(state.q[-1]):
        return  # depends on when it is
    q = np.nan_to_num(state.q)
    (values,) = function.traced_value.interpret(y, q, problem.parameters, constraint.own)
    worst = float(np.max(constraint.violation(model, values), initial=0.0))
    if worst > 1e-7:
        raise PlanError(
            f"the {what} cannot be reached: there {constraint.label} is violated by {worst:.3g}. Move the {what} or the constraint."
        )


def _span(problem: Problem) -> tuple[float, float]:
    """Shortest and longest duration of the whole motion, s."""
    low, high = (sum(ends) for ends in zip(*((p.shortest, p.longest) for p in problem.phases), strict=True))
    return (low, high) if problem.total is None else (max(low, problem.total[0]), min(high, problem.total[1]))


def _check_reach(problem: Problem, start: State, goal: State) -> None:
    model = problem.model
    low, high = problem.bounds.v
    own = model.description.velocity is None and model.description.basis is None
    if not own or problem.clocked or model.coordinates.nv != model.nv:
        return
    away = place(model.coordinates, start.q, goal.q)
    _, total = _span(problem)
    if not np.isfinite(total):
        return
    for name, block in zip(model.coordinates.names or (), model.coordinates.blocks, strict=True):
        if isinstance(block, Pose):
            part = model.coordinates.v_slice(name)
            _check_travel(model, name, away[part][:3], low[part][:3], high[part][:3], total)
            continue
        if block.nq != block.nv or not np.array_equal(block.kinematics_matrix(block.neutral()), np.eye(block.nv)):
            continue  # only coordinates whose rates are the velocities
        part = model.coordinates.v_slice(name)
        far = np.maximum(away[part] - high[part] * total, low[part] * total - away[part])
        if np.any(far > 1e-9):
            k = int(np.argmax(far))
            raise PlanError(
                f"the goal cannot be reached: {model.v_names[part.start + k]!r} is limited, so that in {total:g} s the "
                f"distance of {abs(away[part][k]):g} is {far[k]:.3g} too far. Allow more time or speed."
            )


def _check_travel(model: Any, name: str, away: np.ndarray, low: np.ndarray, high: np.ndarray, total: float) -> None:
    """A free body is as fast as its velocities along three axes together allow, wherever the axes point."""
    distance, speed = float(np.linalg.norm(away)), float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))
    if distance - speed * total > 1e-9:
        raise PlanError(
            f"the goal cannot be reached: {name!r} of {model.name!r} has to move by {distance:g} m, and with its limited velocities it comes "
            f"{speed * total:g} m far in {total:g} s. Allow more time or speed."
        )


def check_meetings(problem: Problem, guessed: bool = False) -> None:
    """Whatever must hold at one moment must leave a configuration: at the start, at gates and ends of phases, at the goal.

    Where the user gives a guess, none is looked for.
    """
    moments = [("the start", problem.begin, problem.phases[0].path, problem.start)]
    for i, phase in enumerate(problem.phases):
        last = i == len(problem.phases) - 1
        name = "the goal" if last else f"the end of phase {i + 1}"
        moments.append((name, phase.end, phase.path, problem.goal if last else None))
    for what, own, path, state in moments:
        for point in own:
            if isinstance(point, Point) and point.radius == 0:
                _check_place(problem, what, point, (*own, *problem.path, *path))
        if state is None and own and not guessed:
            _check_equations(problem, what, own)


def _check_place(problem: Problem, what: str, point: Point, others: tuple[Constraint, ...]) -> None:
    """A point that is given must lie where the same point of the same frame may be."""
    at = np.array(point.at)
    for other in others:
        same = getattr(other, "frame", None) == point.frame and getattr(other, "offset", None) == point.offset
        if other is point or not same:
            continue
        missed = other.missed_by(at)
        if missed > 1e-9:
            raise PlanError(
                f"{what} of {problem.model.name!r} contradicts itself: {point.label} misses {other.label} by {missed:.3g}. Move one of them."
            )


def _check_equations(problem: Problem, what: str, constraints: tuple[Constraint, ...]) -> None:
    """Equations between the coordinates must have a solution, looked for from many configurations."""
    model, described = problem.model, problem.described
    if model.is_constrained:
        return  # few configurations near a random one are closed
    ne, kept = model.coordinates.nv, []
    for constraint in constraints:
        low, high = constraint.bounds(model)
        function = node_function(model, "constraint", constraint.function, len(constraint.own), constraint.kind)
        depends = function.patterns[0]
        timed = problem.clocked and depends[:, ne - 1].any()
        if np.array_equal(low, high) and depends[:, :ne].any() and not depends[:, ne:].any() and not timed:
            kept.append((constraint, function))
    if not kept:
        return
    rng, least = np.random.default_rng(0), ("", np.inf)
    begin = described.neutral() if problem.start is None else problem.start.q[: described.nq]
    still = np.concatenate([np.zeros(ne + model.nv), problem.hover])
    for k in range(STARTS):
        q = begin if k == 0 else described.random(rng)
        q = nearest(problem, problem.with_time(q[None], np.zeros(1))[0], tuple(c for c, _ in kept))
        missed = []
        for constraint, function in kept:
            (values,) = function.value(still, q, problem.parameters, constraint.own)
            missed.append((constraint.label, float(np.max(constraint.violation(model, values)))))
        worst = max(missed, key=lambda item: item[1])
        if worst[1] <= MISSED:
            return
        least = min(least, worst, key=lambda item: item[1])
    raise PlanError(
        f"{what} of {model.name!r}: no configuration was found from {STARTS} starts, the nearest one misses {least[0]} by {least[1]:.3g}. "
        "If there is one, give a motion through it as a guess (guess=...)."
    )


def check_numbers(problem: Problem, guess: Guess) -> None:
    """Costs and constraints must be numbers along the guess."""
    model, terms = problem.model, [term for _, term in problem.cost.terms if isinstance(term, OwnCost)]
    y = np.concatenate([np.zeros((len(guess.q), model.coordinates.nv)), guess.v, guess.u], axis=1)
    own = {id(c): (c.label, c.function) for c in (*problem.begin, *problem.path) if isinstance(c, Own)}
    own |= {
        id(c): (c.label, c.function)
        for phase in problem.phases
        for c in (*phase.path, *phase.end)
        if isinstance(c, Own)
    }
    own |= {id(term): ("the cost of OwnCost", term.as_constraint) for term in terms}
    for label, function in own.values():
        (values,) = node_function(model, "constraint", function, 0, None).traced_value.interpret(
            y, guess.q, problem.parameters, np.zeros(0)
        )
        wrong = np.nonzero(~np.isfinite(values).all(axis=-1))[0]
        if len(wrong):
            raise PlanError(
                f"{label} is {values[wrong[0]].tolist()} at node {wrong[0]} of the guess, q = {guess.q[wrong[0]].round(4).tolist()}. "
                "Functions of a plan must be finite wherever it may go."
            )
