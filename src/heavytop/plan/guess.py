"""First guesses: straight on the manifold from waypoint to waypoint, from a reference, a run or another plan, or random ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.control.references.reference import Reference
from heavytop.errors import PlanError, wrong_shape
from heavytop.ocp.charts import chart, place
from heavytop.ocp.inverse_inputs import needed_inputs
from heavytop.plan.constraints import Constraint, Rest
from heavytop.plan.problem import Phase, Problem
from heavytop.plan.scene import node_function
from heavytop.system.description.names import TIME

if TYPE_CHECKING:
    from heavytop.plan.result import Plan

PACE = 5.0
"""Acceleration (m/s^2, rad/s^2) with which a free duration is guessed."""


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

    Whoever starts or ends in motion coasts, and the straight way is added to that.
    """
    model, c = problem.model, problem.model.coordinates
    first, last = _end_velocities(problem)
    here = _beginning(problem)
    durations, q, done = [], [here[None]], 0
    for i, phase in enumerate(problem.phases):
        there = _waypoint(problem, i, here)
        fractions = np.linspace(0.0, 1.0, phase.steps + 1)[:, None]
        v = first + (done + phase.steps * fractions) / problem.steps * (last - first)
        time = _pace(phase, place(c, here, there), model._joint_velocity(here, v.mean(axis=0)))
        coasted = _coasted(model, here, v, time / phase.steps)
        there = _waypoint(problem, i, coasted[-1])
        q.append(chart(c, coasted, fractions * place(c, coasted[-1], there))[1:])
        durations.append(time)
        here, done = there, done + phase.steps
    path = np.concatenate(q)
    durations = _within_total(problem, np.array(durations))
    path = _on_time(problem, path, durations)
    if problem.goal is not None:
        path[-1] = problem.pinned(problem.goal, path[-1])
    u = np.broadcast_to(np.clip(problem.hover, *problem.bounds.u), (problem.steps + 1, model.nu)).copy()
    return _fixed_ends(problem, Guess(path, _velocities(problem, path, durations), u, durations))


def _on_time(problem: Problem, q: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """The configurations with the time at which they are passed."""
    if problem.clocked:
        q = problem.with_time(q[:, : problem.described.nq], _node_times(problem, durations))
    return q


def _end_velocities(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Velocities (nv,) at both ends as far as they are known: what is not known stays as it is at the other end."""
    rest = np.zeros(problem.model.nv)
    if any(isinstance(constraint, Rest) for constraint in problem.phases[-1].end):
        last: np.ndarray | None = rest
    else:
        last = None if problem.goal is None else problem.goal.v
    first = None if problem.start is None else problem.start.v
    if first is None:
        first = rest if last is None else last
    return first, first if last is None else last


def _pace(phase: Phase, way: np.ndarray, w: np.ndarray) -> float:
    """Duration (s) of a way in a chart, with joint velocities w on the mean."""
    free = 2.0 * np.sqrt(max(float(np.linalg.norm(way)), 0.1) / PACE)
    coasting = float(way @ w) / max(float(w @ w), 1e-12)
    return float(np.clip(coasting if coasting > 0.1 * free else free, phase.shortest, phase.longest))


def _coasted(model: Any, q: np.ndarray, v: np.ndarray, h: float) -> np.ndarray:
    """Where the velocities v (n + 1, nv) lead from q in steps of h: (n + 1, nq)."""
    if not v.any():
        return np.broadcast_to(q, (len(v), len(q)))
    nodes = [q]
    for here, there in pairwise(v):
        nodes.append(model.coordinates.project(model.integrate(nodes[-1], 0.5 * (here + there), h)))
    return np.array(nodes)


def _velocities(problem: Problem, q: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Velocities (N + 1, nv) that lead from node to node, within their bounds."""
    h = np.diff(_node_times(problem, durations))[:, None]
    between = problem.model.difference(q[:-1], q[1:]) / h
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
    parameters = dict(zip(model.parameter_names, problem.parameters, strict=True))
    if problem.goal is not None:
        near = problem.pinned(problem.goal, model.neutral())
    else:
        near = model.assemble(parameters=parameters)[0] if model.is_constrained else model.neutral()
    if problem.clocked:
        near[-1] = problem.start_time
    return nearest(problem, near, problem.begin)


def _waypoint(problem: Problem, index: int, near: np.ndarray) -> np.ndarray:
    """A configuration at the end of a phase that fulfils the constraints there as well as it can."""
    if index == len(problem.phases) - 1 and problem.goal is not None:
        return problem.pinned(problem.goal, near)
    return nearest(problem, near, problem.phases[index].end)


def nearest(problem: Problem, q: np.ndarray, constraints: tuple[Constraint, ...]) -> np.ndarray:
    """A configuration near q that fulfils the constraints: damped Gauss-Newton steps on their violation."""
    model = problem.model
    c, ne = model.coordinates, model.coordinates.nv
    functions = [node_function(model, "constraint", k.function, len(k.own), k.kind) for k in constraints]
    still = np.concatenate([np.zeros(ne + model.nv), problem.hover])
    turns = np.array([unit != "m/s" for unit in c.v_units])

    def missed(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much the values miss their bounds (m,), with their slopes (m, ne)."""
        rows, misses = [np.zeros((0, ne))], [np.zeros(0)]
        for constraint, function in zip(constraints, functions, strict=True):
            value, slope = function.first(still, q, problem.parameters, constraint.own)
            low, high = constraint.bounds(model)
            outside = (value < low) | (value > high)
            misses.append((np.clip(value, low, high) - value)[outside])
            slope = slope[outside, :ne].copy()
            if problem.clocked:
                slope[:, -1] = 0.0  # a configuration is looked for, not another time
            rows.append(slope)
        return np.concatenate(misses), np.concatenate(rows)

    miss, rows = missed(q)
    for _ in range(30):
        if not len(miss) or np.abs(miss).max() < 1e-9:
            break
        step = np.linalg.lstsq(rows, miss, rcond=1e-6)[0]
        if (turn := float(np.abs(step[turns]).max(initial=0.0))) > 10:
            step = step / turn  # near a singular configuration, such as a stretched arm
        there = c.project(chart(c, q, step))
        longest, next_miss, next_rows = float(np.abs(step).max(initial=0.0)), *missed(there)
        # a long way that leads nearer is gone at once: a place may be far away
        if longest > 10 and not np.linalg.norm(next_miss) < np.linalg.norm(miss):
            there = c.project(chart(c, q, step / longest))
            next_miss, next_rows = missed(there)
        q, miss, rows = there, next_miss, next_rows
    return q


def random(problem: Problem, rng: np.random.Generator) -> Guess:
    """The straight guess, bent: a smooth random detour of every coordinate, other durations and inputs."""
    guess = straight(problem)
    c, s = problem.model.coordinates, np.linspace(0.0, 1.0, problem.steps + 1)[:, None]
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
    u = np.clip(guess.u + 0.2 * spread * rng.standard_normal((len(s), problem.model.nu)), low, high)
    return Guess(_on_time(problem, bent, durations), guess.v, u, durations)


def from_plan(problem: Problem, plan: Plan) -> Guess:
    """The motion of another plan at the nodes of this problem; its durations, phase by phase where their number agrees."""
    ends = plan.phase_times
    if len(ends) != len(problem.phases):
        ends = np.linspace(0.0, plan.duration, len(problem.phases) + 1)[1:]
    durations = np.diff(np.r_[0.0, ends])
    times = _node_times(problem, durations)
    q, v, _ = plan.reference(times)
    inner = np.minimum(times, plan.duration * (1 - 1e-12))
    return _fixed_ends(problem, Guess(problem.with_time(q, times), v, plan.inputs(inner), durations))


def from_reference(problem: Problem, reference: Reference) -> Guess:
    """A reference at the nodes of the problem; inputs as it needs them."""
    duration = reference.horizon
    share = np.array([phase.steps for phase in problem.phases], dtype=float)
    durations = duration * share / share.sum()
    if not problem.free:
        durations = np.array([phase.shortest for phase in problem.phases])
    times = _node_times(problem, durations)
    q, v, a = reference(times)
    given: dict[str, Any] = dict(zip(problem.described.parameter_names, problem.parameters, strict=True))
    if problem.described.description.time is not None:
        given[TIME] = problem.start_time + times
    u = np.clip(needed_inputs(problem.described, q, v, a, given), *problem.bounds.u)
    return _fixed_ends(problem, Guess(problem.with_time(q, times), v, u, durations))


def from_run(problem: Problem, run: Any) -> Guess:
    """A simulated motion (a tracking flight, for example), sampled at the nodes of the problem."""
    share = np.array([phase.steps for phase in problem.phases], dtype=float)
    durations = float(run.t[-1] - run.t[0]) * share / share.sum()
    if not problem.free:
        durations = np.array([phase.shortest for phase in problem.phases])
    times = _node_times(problem, durations)
    k = np.clip(np.searchsorted(run.t, run.t[0] + times), 0, len(run.t) - 1)
    if run.q.ndim != 2:
        raise PlanError("a guess from a run needs a single trajectory, not a batch.")
    u = (
        np.broadcast_to(problem.hover, (len(k), problem.model.nu))
        if run.u is None
        else run.u[np.minimum(k, len(run.u) - 1)]
    )
    q = problem.with_time(run.q[k], times)
    return _fixed_ends(problem, Guess(q, run.v[k], np.clip(u, *problem.bounds.u), durations))


def _node_times(problem: Problem, durations: np.ndarray) -> np.ndarray:
    steps = np.concatenate([np.full(p.steps, d / p.steps) for p, d in zip(problem.phases, durations, strict=True)])
    return np.concatenate([[0.0], np.cumsum(steps)])


def _fixed_ends(problem: Problem, guess: Guess) -> Guess:
    for k, state in ((0, problem.start), (-1, problem.goal)):
        if state is not None:
            guess.q[k], guess.v[k] = problem.pinned(state, guess.q[k]), state.v
    return guess


def _checked(problem: Problem, given: Guess) -> Guess:
    """A guess of the user with the shapes of the problem, its ends set."""
    model, n = problem.described, problem.steps + 1
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
    return _fixed_ends(problem, Guess(q, parts["v"], parts["u"], parts["durations"]))


def as_guess(problem: Problem, given: Any) -> Guess:
    """The guess a user means."""
    from heavytop.plan.result import Plan

    if given is None or given == "straight":
        return straight(problem)
    if isinstance(given, Guess):
        return _checked(problem, given)
    of = getattr(given, "model", None)
    if of is not None and any(getattr(of, n, None) != getattr(problem.described, n) for n in ("nq", "nv", "nu")):
        raise PlanError(
            f"the guess is a motion of {getattr(of, 'name', of)!r}, which has other coordinates or inputs than {problem.described.name!r}."
        )
    if isinstance(given, Plan):
        return from_plan(problem, given)
    if isinstance(given, Reference):
        return from_reference(problem, given)
    if hasattr(given, "t") and hasattr(given, "q") and hasattr(given, "v"):
        return from_run(problem, given)
    raise PlanError(f"guess must be None, a Plan, a Reference, a Run or a Guess, got {type(given).__name__}.")
