"""What cannot be reached, found before a solver starts: ends outside of bounds, distances too far, constraints that exclude each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop.coordinates import Pose
from heavytop.errors import PlanError
from heavytop.ocp.charts import place
from heavytop.ocp.problem import State
from heavytop.plan.constraints import Between, Constraint, Own, Point, Rest
from heavytop.plan.costs import OwnCost
from heavytop.plan.feasibility.kinematic_reach import out_of_reach
from heavytop.plan.feasibility.momentum import check_momentum
from heavytop.plan.guess import Guess, nearest
from heavytop.plan.problem import Problem
from heavytop.plan.scene import node_function

SAME = 1e-9
"""Difference of bounds, relative to their size, that counts as rounding."""
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
    if problem.start is not None:
        _check_reach(problem, problem.start)
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


def _check_reach(problem: Problem, start: State) -> None:
    """With limited velocities a goal, or what is asked for at the end of a phase, must be near enough for the longest time until then."""
    model = problem.model
    own = model.description.velocity is None and model.description.basis is None
    if not own or problem.clocked or model.coordinates.nv != model.nv:
        return
    longest = np.minimum(np.cumsum([phase.longest for phase in problem.phases]), _span(problem)[1])
    for i, (phase, time) in enumerate(zip(problem.phases, longest, strict=True)):
        if not np.isfinite(time):
            return
        last = i == len(problem.phases) - 1
        goal = problem.goal if last else None
        what = "the goal" if last else f"the end of phase {i + 1}"
        for name, block in zip(model.coordinates.names or (), model.coordinates.blocks, strict=True):
            _check_block(problem, start, goal, phase.end, (name, block), float(time), what)


def _check_block(
    problem: Problem, start: State, goal: State | None, end: tuple[Constraint, ...], own: tuple[str, Any], time: float, what: str
) -> None:  # fmt: skip
    """The same for the coordinates of one block."""
    model, (name, block) = problem.model, own
    c = model.coordinates
    part, places = c.v_slice(name), c.q_slice(name)
    low, high = (side[part].copy() for side in problem.bounds.v)
    for constraint in problem.path:
        if isinstance(constraint, Between) and constraint.name in model.v_names[part]:
            k = model.v_names[part].index(constraint.name)
            low[k], high[k] = max(low[k], constraint.lower), min(high[k], constraint.upper)
    if isinstance(block, Pose):
        if goal is not None:
            _check_travel(model, name, place(c, start.q, goal.q)[part][:3], low[:3], high[:3], time, what)
        return
    if block.nq != block.nv or not np.array_equal(block.kinematics_matrix(block.neutral()), np.eye(block.nv)):
        return  # only coordinates whose rates are the velocities
    away = np.full((2, block.nv), [[-np.inf], [np.inf]])  # least and most that it has to move
    if goal is not None:
        away[:] = place(c, start.q, goal.q)[part]
    for constraint in end:
        names = model.q_names[places]
        if isinstance(constraint, Between) and constraint.name in names:
            k = names.index(constraint.name)
            away[:, k] = np.array([constraint.lower, constraint.upper]) - start.q[places][k]
    far = np.maximum(away[0] - high * time, low * time - away[1])
    if np.any(far > 1e-9):
        k = int(np.argmax(far))
        distance = min(abs(away[0, k]), abs(away[1, k]))
        raise PlanError(
            f"{what} cannot be reached: {model.v_names[part.start + k]!r} is limited, so that in {time:g} s the "
            f"distance of {distance:g} is {far[k]:.3g} too far. Allow more time or speed."
        )


def _check_travel(
    model: Any, name: str, away: np.ndarray, low: np.ndarray, high: np.ndarray, total: float, what: str
) -> None:
    """A free body is as fast as its velocities along three axes together allow, wherever the axes point."""
    distance, speed = float(np.linalg.norm(away)), float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))
    if distance - speed * total > 1e-9:
        raise PlanError(
            f"{what} cannot be reached: {name!r} of {model.name!r} has to move by {distance:g} m, and with its limited velocities it comes "
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
        near = phase.path if last else (*phase.path, *problem.phases[i + 1].path)
        moments.append((name, phase.end, near, problem.goal if last else None))
        _check_names(problem, f"phase {i + 1}" if len(problem.phases) > 1 else "the way", (*problem.path, *phase.path))
    for what, own, path, state in moments:
        every = (*own, *problem.path, *path)
        _check_names(problem, what, every)
        for constraint in every:
            _check_arm(problem, what, constraint)
        for point in own:
            if isinstance(point, Point):
                _check_place(problem, what, point, every)
        if state is None and own and not guessed:
            _check_equations(problem, what, own)


def _check_names(problem: Problem, what: str, constraints: tuple[Constraint, ...]) -> None:
    """What is said of one coordinate, velocity or input by its name, by limits and at rest must leave a value."""
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
            own = (float(constraint.lower), float(constraint.upper), constraint.label)
            sides.setdefault(constraint.name, []).append(own)
    for name, all_of_it in sides.items():
        low, high = max(all_of_it, key=lambda side: side[0]), min(all_of_it, key=lambda side: side[1])
        if low[0] - high[1] > SAME * (1.0 + abs(low[0])):
            raise PlanError(
                f"{what} of {model.name!r} contradicts itself: {name!r} must be at least {low[0]:g} ({low[2]}) and at most {high[1]:g} ({high[2]})."
            )


def _check_arm(problem: Problem, what: str, constraint: Constraint) -> None:
    """A point at the end of hinges comes as far as its links are long."""
    found = out_of_reach(problem, constraint)
    if found is not None:
        raise PlanError(
            f"{what} of {problem.model.name!r} is out of reach: its links let the point come {found[0]:.4g} m far from its first joint, which misses "
            f"{constraint.label} by {found[1]:.3g} m. Move the constraint."
        )


def _check_place(problem: Problem, what: str, point: Point, others: tuple[Constraint, ...]) -> None:
    """A point that is given, with all that is as near as it may be, must lie where the same point of the same frame may be."""
    at = np.array(point.at)
    for other in others:
        same = getattr(other, "frame", None) == point.frame and getattr(other, "offset", None) == point.offset
        if other is point or not same:
            continue
        missed = other.missed_by(at) - point.radius
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
