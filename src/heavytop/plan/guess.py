"""First guesses: straight on the manifold from waypoint to waypoint, from a reference, a run or another plan, or random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.control.charts import chart, place
from heavytop.control.reference import Reference
from heavytop.errors import PlanError
from heavytop.plan.constraints import Constraint
from heavytop.plan.problem import Problem
from heavytop.plan.scene import node_function

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
    """From the start through all gates to the goal, each way straight in the chart of its beginning, at rest, inputs in balance."""
    c, ways = problem.model.coordinates, waypoints(problem)
    durations, q = [], [ways[0][None]]
    for phase, here, there in zip(problem.phases, ways[:-1], ways[1:], strict=True):
        e = place(c, here, there)
        guess = 2.0 * np.sqrt(max(float(np.linalg.norm(e)), 0.1) / PACE)
        durations.append(float(np.clip(guess, phase.shortest, phase.longest)))
        fractions = np.linspace(0.0, 1.0, phase.steps + 1)[1:, None]
        q.append(chart(c, np.broadcast_to(here, (phase.steps, len(here))), fractions * e))
    durations = _within_total(problem, np.array(durations))
    path = np.concatenate(q)
    if problem.goal is not None:
        path[-1] = problem.goal.q
    zero = np.zeros((problem.steps + 1, problem.model.nv))
    u = np.broadcast_to(np.clip(problem.hover, *problem.bounds.u), (problem.steps + 1, problem.model.nu)).copy()
    return Guess(path, np.clip(zero, *problem.bounds.v), u, durations)


def _within_total(problem: Problem, durations: np.ndarray) -> np.ndarray:
    if problem.total is None:
        return durations
    total = durations.sum()
    return durations * (np.clip(total, *problem.total) / total)


def waypoints(problem: Problem) -> list[np.ndarray]:
    """A configuration at the start and at the end of every phase that fulfils the constraints there as well as it can."""
    model = problem.model
    if problem.start is not None:
        ways = [problem.start.q]
    else:
        near = model.assemble()[0] if model.is_constrained else model.neutral()
        if problem.goal is not None:
            near = problem.goal.q
        ways = [_nearest(problem, near, problem.begin)]
    for i, phase in enumerate(problem.phases):
        if i == len(problem.phases) - 1 and problem.goal is not None:
            ways.append(problem.goal.q)
        else:
            ways.append(_nearest(problem, ways[-1], phase.end))
    return ways


def _nearest(problem: Problem, q: np.ndarray, constraints: tuple[Constraint, ...]) -> np.ndarray:
    """A configuration near q that fulfils the constraints: damped Gauss-Newton steps on their violation."""
    model = problem.model
    c, ne = model.coordinates, model.coordinates.nv
    functions = [node_function(model, "constraint", k.function, len(k.own), k.kind) for k in constraints]
    still = np.concatenate([np.zeros(ne + model.nv), problem.hover])
    for _ in range(30):
        rows, misses = [], []
        for constraint, function in zip(constraints, functions, strict=True):
            value, slope = function.first(still, q, problem.parameters, constraint.own)
            low, high = constraint.bounds(model)
            outside = (value < low) | (value > high)
            misses.append((np.clip(value, low, high) - value)[outside])
            rows.append(slope[outside, :ne])
        miss = np.concatenate(misses) if misses else np.zeros(0)
        if not len(miss) or np.abs(miss).max() < 1e-9:
            break
        step = np.linalg.lstsq(np.concatenate(rows), miss, rcond=1e-6)[0]
        longest = float(np.abs(step).max(initial=0.0))
        q = c.project(chart(c, q, step * min(1.0, 1.0 / max(longest, 1e-12)) if longest > 10 else step))
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
    q = np.where(free[:, None], c.project(chart(c, guess.q, detour)), guess.q)
    factor = np.exp(rng.uniform(-0.5, 0.7, len(guess.durations)))
    spans = np.array([(phase.shortest, phase.longest) for phase in problem.phases])
    durations = _within_total(problem, np.clip(guess.durations * factor, spans[:, 0], spans[:, 1]))
    low, high = problem.bounds.u
    spread = np.where(np.isfinite(high - low), high - low, 0.0)
    u = np.clip(guess.u + 0.2 * spread * rng.standard_normal((len(s), problem.model.nu)), low, high)
    return Guess(q, guess.v, u, durations)


def from_plan(problem: Problem, plan: Plan) -> Guess:
    """The motion of another plan at the nodes of this problem; its durations, phase by phase where their number agrees."""
    ends = plan.phase_times
    if len(ends) != len(problem.phases):
        ends = np.linspace(0.0, plan.duration, len(problem.phases) + 1)[1:]
    durations = np.diff(np.r_[0.0, ends])
    times = _node_times(problem, durations)
    q, v, _ = plan.reference(times)
    inner = np.minimum(times, plan.duration * (1 - 1e-12))
    return _fixed_ends(problem, Guess(q, v, plan.inputs(inner), durations))


def from_reference(problem: Problem, reference: Reference) -> Guess:
    """A reference at the nodes of the problem; inputs as it needs them."""
    duration = reference.horizon
    share = np.array([phase.steps for phase in problem.phases], dtype=float)
    durations = duration * share / share.sum()
    if not problem.free:
        durations = np.array([phase.shortest for phase in problem.phases])
    times = _node_times(problem, durations)
    q, v, a = reference(times)
    model = problem.model
    force = model.inverse_dynamics(q, v, a)
    u = np.clip(np.matvec(np.linalg.pinv(model.input_matrix(q)), force), *problem.bounds.u)
    return _fixed_ends(problem, Guess(q, v, u, durations))


def from_run(problem: Problem, run: Any) -> Guess:
    """A simulated motion (a tracking flight, for example), sampled at the nodes of the problem."""
    share = np.array([phase.steps for phase in problem.phases], dtype=float)
    durations = float(run.t[-1]) * share / share.sum()
    if not problem.free:
        durations = np.array([phase.shortest for phase in problem.phases])
    k = np.clip(np.searchsorted(run.t, _node_times(problem, durations)), 0, len(run.t) - 1)
    if run.q.ndim != 2:
        raise PlanError("a guess from a run needs a single trajectory, not a batch.")
    u = (
        np.broadcast_to(problem.hover, (len(k), problem.model.nu))
        if run.u is None
        else run.u[np.minimum(k, len(run.u) - 1)]
    )
    return _fixed_ends(problem, Guess(run.q[k], run.v[k], np.clip(u, *problem.bounds.u), durations))


def _node_times(problem: Problem, durations: np.ndarray) -> np.ndarray:
    steps = np.concatenate([np.full(p.steps, d / p.steps) for p, d in zip(problem.phases, durations, strict=True)])
    return np.concatenate([[0.0], np.cumsum(steps)])


def _fixed_ends(problem: Problem, guess: Guess) -> Guess:
    for k, state in ((0, problem.start), (-1, problem.goal)):
        if state is not None:
            guess.q[k], guess.v[k] = state.q, state.v
    return guess


def as_guess(problem: Problem, given: Any) -> Guess:
    """The guess a user means."""
    from heavytop.plan.result import Plan

    if given is None or given == "straight":
        return straight(problem)
    if isinstance(given, Guess):
        return given
    if isinstance(given, Plan):
        return from_plan(problem, given)
    if isinstance(given, Reference):
        return from_reference(problem, given)
    if hasattr(given, "t") and hasattr(given, "q") and hasattr(given, "v"):
        return from_run(problem, given)
    raise PlanError(f"guess must be None, a Plan, a Reference, a Run or a Guess, got {type(given).__name__}.")
