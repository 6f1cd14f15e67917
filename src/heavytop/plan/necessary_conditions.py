"""Necessary conditions checked before a solver starts: ends within bounds, distances within reach, constraints without contradiction."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from heavytop.coordinates import Pose
from heavytop.errors import PlanError
from heavytop.geometry import se3
from heavytop.ocp import State, place
from heavytop.plan.constraints import Between, Constraint, Own, Point, Rest
from heavytop.plan.costs import OwnCost
from heavytop.plan.guess import Guess
from heavytop.plan.problem import Problem
from heavytop.plan.scene import node_function
from heavytop.system import WORLD, JointForce, Thruster, Wrench, at_defaults, unit_axis

SAME = 1e-9
"""Difference of bounds, relative to their size, that counts as rounding."""
MET = 1e-7
"""Violation of a constraint at an end that counts as rounding."""
TURNING, RIGID = ("revolute", "spherical"), "fixed"
"""Kinds of joints that keep the distance of pivots."""
SLACK = 1e-6
"""Part of a distance or velocity that counts as rounding."""
MOST_CORNERS = 12
"""Largest number of inputs in one frame for which the largest force is searched in all corners of their limits."""


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


# --- momentum of the whole system -------------------------------------------------------------------------------------------
# Inner forces do not move the centre of mass: m r'' = m g + F with the external force F of the inputs. Limited inputs bound F in any attitude, so
# that along a direction n the acceleration lies in an interval [A, B]. A point that starts with the velocity v_0 and ends after T with v_1 moves at
# most, first with B, then with A,
#
#     d(T) = v_0 T + B t_1^2 / 2 + B t_1 t_2 + A t_2^2 / 2,    t_1 = (v_1 - v_0 - A T) / (B - A),    t_2 = T - t_1.
#
# Only goals that are impossible for every allowed duration are rejected; the condition is necessary, not sufficient.


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
