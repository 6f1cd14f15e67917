"""Initial guesses: straight on the manifold from waypoint to waypoint, from a reference, a run or another plan, or random."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.control import Reference
from heavytop.errors import PlanError, wrong_shape
from heavytop.ocp import chart, needed_inputs, place
from heavytop.plan.constraints import Constraint, Rest
from heavytop.plan.problem import Phase, Problem
from heavytop.system import TIME

if TYPE_CHECKING:
    from heavytop.plan.result import Plan

PACE = 5.0
"""Acceleration (m/s^2, rad/s^2) from which a free duration is guessed."""


@dataclass(eq=False)
class Guess:
    """A motion at the nodes of a problem: q (N + 1, nq), v (N + 1, nv), u (N + 1, nu) and durations of the phases (s).

    >>> Guess(np.zeros((5, 2)), np.zeros((5, 2)), np.zeros((5, 1)), np.ones(4)).q.shape
    (5, 2)
    """

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    durations: np.ndarray


def straight(problem: Problem) -> Guess:
    """From the start through all gates to the goal, each way straight in the chart of its beginning, inputs in balance.

    Velocities at the ends add a coasting motion to the straight way.
    """
    c = problem.rates.coordinates
    first, last = _end_velocities(problem)
    here = _beginning(problem)
    durations, q, done = [], [here[None]], 0
    for i, phase in enumerate(problem.phases):
        there = _waypoint(problem, i, here)
        fractions = np.linspace(0.0, 1.0, phase.steps + 1)[:, None]
        v = first + (done + phase.steps * fractions) / problem.steps * (last - first)
        time = _pace(phase, place(c, here, there), _joint_velocity(problem, here, v.mean(axis=0)))
        coasted = _coasted(problem, here, v, time / phase.steps)
        there = _waypoint(problem, i, coasted[-1])
        q.append(chart(c, coasted, fractions * place(c, coasted[-1], there))[1:])
        durations.append(time)
        here, done = there, done + phase.steps
    path = np.concatenate(q)
    durations = _within_total(problem, np.array(durations))
    path = _on_time(problem, path, durations)
    if problem.goal is not None:
        path[-1] = problem.pinned(problem.goal, path[-1])
    u = np.broadcast_to(np.clip(problem.hover, *problem.bounds.u), (problem.steps + 1, problem.model.nu)).copy()
    return fixed_ends(problem, Guess(path, _velocities(problem, path, durations), u, durations))


def _on_time(problem: Problem, q: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Replace the time in configurations by that of their nodes."""
    if problem.timed:
        q = problem.with_time(q[:, : problem.model.nq], _node_times(problem, durations))
    return q


def _end_velocities(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Velocities (nv,) at both ends; an unknown one is that of the other end."""
    rest = np.zeros(problem.model.nv)
    if any(isinstance(constraint, Rest) for constraint in problem.phases[-1].end):
        last: np.ndarray | None = rest
    else:
        last = None if problem.goal is None else problem.goal.v
    first = None if problem.start is None else problem.start.v
    if first is None:
        first = rest if last is None else last
    return first, first if last is None else last


def _joint_velocity(problem: Problem, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Joint velocities (ne,), with the rate 1 of the time."""
    w = problem.model.evaluate("joint_velocity", q[: problem.model.nq], v)
    return np.append(w, 1.0) if problem.timed else w


def _pace(phase: Phase, way: np.ndarray, w: np.ndarray) -> float:
    """Duration (s) of a way in a chart with mean joint velocities w."""
    free = 2.0 * np.sqrt(max(float(np.linalg.norm(way)), 0.1) / PACE)
    coasting = float(way @ w) / max(float(w @ w), 1e-12)
    return float(np.clip(coasting if coasting > 0.1 * free else free, phase.shortest, phase.longest))


def _coasted(problem: Problem, q: np.ndarray, v: np.ndarray, h: float) -> np.ndarray:
    """Configurations (n + 1, nq) after steps of h from q with the velocities v (n + 1, nv)."""
    if not v.any():
        return np.broadcast_to(q, (len(v), len(q)))
    c, nodes = problem.rates.coordinates, [q]
    for here, there in pairwise(v):
        w = _joint_velocity(problem, nodes[-1], 0.5 * (here + there))
        nodes.append(c.project(c.integrate(nodes[-1], w, h)))
    return np.array(nodes)


def _velocities(problem: Problem, q: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Velocities (N + 1, nv) that lead from node to node, within their bounds."""
    h, nq = np.diff(_node_times(problem, durations))[:, None], problem.model.nq
    between = problem.model.difference(q[:-1, :nq], q[1:, :nq]) / h
    v = np.zeros((len(q), problem.model.nv))
    v[1:-1] = 0.5 * (between[1:] + between[:-1])
    if problem.start is None:
        v[0] = between[0]
    if problem.goal is None and not any(isinstance(constraint, Rest) for constraint in problem.phases[-1].end):
        v[-1] = between[-1]
    return np.clip(v, *problem.bounds.v)


def _within_total(problem: Problem, durations: np.ndarray) -> np.ndarray:
    if problem.total is None:
        return durations
    total = durations.sum()
    return durations * (np.clip(total, *problem.total) / total)


def _beginning(problem: Problem) -> np.ndarray:
    """The configuration of the start, or one that fulfils the constraints there."""
    if problem.start is not None:
        return problem.start.q
    model = problem.model
    if problem.goal is not None:
        near = problem.pinned(problem.goal, problem.rates.coordinates.neutral())
    else:
        parameters = dict(zip(model.parameter_names, problem.parameters, strict=True))
        q = model.assemble(parameters=parameters)[0] if model.is_constrained else model.neutral()
        near = np.append(q, 0.0) if problem.timed else q
    if problem.timed:
        near[-1] = problem.start_time
    return nearest(problem, near, problem.begin)


def _waypoint(problem: Problem, index: int, near: np.ndarray) -> np.ndarray:
    """A configuration at the end of a phase that fulfils the constraints there as well as possible."""
    if index == len(problem.phases) - 1 and problem.goal is not None:
        return problem.pinned(problem.goal, near)
    return nearest(problem, near, problem.phases[index].end)


def nearest(problem: Problem, q: np.ndarray, constraints: tuple[Constraint, ...]) -> np.ndarray:
    """A configuration near q that fulfils constraints of the problem: damped Gauss-Newton steps on their violation."""
    c, ne = problem.rates.coordinates, problem.rates.ne
    bound = [problem.bound_constraints[constraint] for constraint in constraints]
    still = np.concatenate([np.zeros(problem.rates.nx), problem.hover])
    turns = np.array([unit != "m/s" for unit in c.v_units])

    def violated(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Violations (m,) of bounds, with their slopes (m, ne)."""
        rows, violations = [np.zeros((0, ne))], [np.zeros(0)]
        for one in bound:
            value, slope = one.function.first(still, q, problem.parameters, one.constraint.constants)
            outside = (value < one.lower) | (value > one.upper)
            violations.append((np.clip(value, one.lower, one.upper) - value)[outside])
            slope = slope[outside, :ne].copy()
            if problem.timed:
                slope[:, -1] = 0.0  # the time is given
            rows.append(slope)
        return np.concatenate(violations), np.concatenate(rows)

    violation, rows = violated(q)
    for _ in range(30):
        if not len(violation) or np.abs(violation).max() < 1e-9:
            break
        step = np.linalg.lstsq(rows, violation, rcond=1e-6)[0]
        if (turn := float(np.abs(step[turns]).max(initial=0.0))) > 10:
            step = step / turn  # near a singular configuration, such as a stretched arm
        there = c.project(chart(c, q, step))
        longest, next_violation, next_rows = float(np.abs(step).max(initial=0.0)), *violated(there)
        # a long step is taken if it reduces the violation: the goal may be far away
        if longest > 10 and not np.linalg.norm(next_violation) < np.linalg.norm(violation):
            there = c.project(chart(c, q, step / longest))
            next_violation, next_rows = violated(there)
        q, violation, rows = there, next_violation, next_rows
    return q


def random(problem: Problem, rng: np.random.Generator, noise: float = 0.2) -> Guess:
    """The straight guess, bent: a smooth random detour of every coordinate, other durations and inputs.

    ``noise`` is the standard deviation of the inputs, as a share of their range.
    """
    guess = straight(problem)
    c, s = problem.rates.coordinates, np.linspace(0.0, 1.0, problem.steps + 1)[:, None]
    detour = sum(
        np.sin(np.pi * k * s) * rng.standard_normal(c.nv) / k for k in (1, 2, 3)
    ) * rng.uniform(0.2, 1.5)  # fmt: skip
    free = np.zeros(len(s), dtype=bool)
    free[1:-1] = True
    bent = np.where(free[:, None], c.project(chart(c, guess.q, detour)), guess.q)
    factor = np.exp(rng.uniform(-0.5, 0.7, len(guess.durations)))
    spans = np.array([(phase.shortest, phase.longest) for phase in problem.phases])
    durations = _within_total(problem, np.clip(guess.durations * factor, spans[:, 0], spans[:, 1]))
    low, high = problem.bounds.u
    spread = np.where(np.isfinite(high - low), high - low, 0.0)
    u = np.clip(guess.u + noise * spread * rng.standard_normal((len(s), problem.model.nu)), low, high)
    return Guess(_on_time(problem, bent, durations), guess.v, u, durations)


def from_plan(problem: Problem, plan: Plan) -> Guess:
    """The motion of another plan at the nodes of this problem; its durations, phase by phase if their number agrees."""
    ends = plan.phase_times
    if len(ends) != len(problem.phases):
        ends = np.linspace(0.0, plan.duration, len(problem.phases) + 1)[1:]
    durations = np.diff(np.r_[0.0, ends])
    times = _node_times(problem, durations)
    q, v, _ = plan.reference(times)
    inner = np.minimum(times, plan.duration * (1 - 1e-12))
    return fixed_ends(problem, Guess(problem.with_time(q, times), v, plan.inputs(inner), durations))


def from_reference(problem: Problem, reference: Reference) -> Guess:
    """A reference at the nodes of the problem, with the inputs it requires."""
    durations = _durations(problem, reference.horizon)
    times = _node_times(problem, durations)
    q, v, a = reference(times)
    given: dict[str, Any] = dict(zip(problem.model.parameter_names, problem.parameters, strict=True))
    if problem.model.description.time is not None:
        given[TIME] = problem.start_time + times
    u = np.clip(needed_inputs(problem.model, q, v, a, given), *problem.bounds.u)
    return fixed_ends(problem, Guess(problem.with_time(q, times), v, u, durations))


def from_run(problem: Problem, run: Any) -> Guess:
    """A simulated motion (a tracking flight, for example), sampled at the nodes of the problem."""
    if run.q.ndim != 2:
        raise PlanError("a guess from a run needs a single trajectory, not a batch.")
    durations = _durations(problem, float(run.t[-1] - run.t[0]))
    times = _node_times(problem, durations)
    k = np.clip(np.searchsorted(run.t, run.t[0] + times), 0, len(run.t) - 1)
    hover = np.broadcast_to(problem.hover, (len(k), problem.model.nu))
    u = np.clip(hover if run.u is None else run.u[np.minimum(k, len(run.u) - 1)], *problem.bounds.u)
    return fixed_ends(problem, Guess(problem.with_time(run.q[k], times), run.v[k], u, durations))


def _durations(problem: Problem, total: float) -> np.ndarray:
    """Durations of the phases: shares of a total by their steps, unless they are fixed."""
    if not problem.free:
        return np.array([phase.shortest for phase in problem.phases])
    share = np.array([phase.steps for phase in problem.phases], dtype=float)
    return total * share / share.sum()


def _node_times(problem: Problem, durations: np.ndarray) -> np.ndarray:
    steps = np.concatenate([np.full(p.steps, d / p.steps) for p, d in zip(problem.phases, durations, strict=True)])
    return np.concatenate([[0.0], np.cumsum(steps)])


def fixed_ends(problem: Problem, guess: Guess) -> Guess:
    """The guess with start and goal at its ends."""
    for k, state in ((0, problem.start), (-1, problem.goal)):
        if state is not None:
            guess.q[k], guess.v[k] = problem.pinned(state, guess.q[k]), state.v
    return guess


def _checked(problem: Problem, given: Guess) -> Guess:
    """A user-defined guess with the shapes of the problem, its ends set."""
    model, n = problem.model, problem.steps + 1
    shapes = {"q": (n, model.nq), "v": (n, model.nv), "u": (n, model.nu), "durations": (len(problem.phases),)}
    parts = {name: np.array(getattr(given, name), dtype=float) for name in shapes}
    for name, shape in shapes.items():
        if parts[name].shape != shape:
            raise wrong_shape(f"{name} of the guess", shape, parts[name].shape, f"There are {n} nodes.")
        if not np.all(np.isfinite(parts[name])):
            raise PlanError(f"{name} of the guess must be finite.")
    if np.any(parts["durations"] <= 0):
        raise PlanError(f"durations of the guess must be positive, got {parts['durations'].tolist()} s.")
    q = problem.with_time(parts["q"], _node_times(problem, parts["durations"]))
    return fixed_ends(problem, Guess(q, parts["v"], parts["u"], parts["durations"]))


def as_guess(problem: Problem, given: Any) -> Guess:
    """The guess from the argument ``guess`` of a plan."""
    from heavytop.plan.result import Plan

    if given is None or given == "straight":
        return straight(problem)
    if isinstance(given, Guess):
        return _checked(problem, given)
    model, other = problem.model, getattr(given, "model", None)
    if other is not None and any(getattr(other, n, None) != getattr(model, n) for n in ("nq", "nv", "nu")):
        raise PlanError(
            f"the guess is a motion of {getattr(other, 'name', other)!r}, which has other coordinates or inputs than {model.name!r}."
        )
    if isinstance(given, Plan):
        return from_plan(problem, given)
    if isinstance(given, Reference):
        return from_reference(problem, given)
    if hasattr(given, "t") and hasattr(given, "q") and hasattr(given, "v"):
        return from_run(problem, given)
    raise PlanError(f"guess must be None, a Plan, a Reference, a Run or a Guess, got {type(given).__name__}.")
