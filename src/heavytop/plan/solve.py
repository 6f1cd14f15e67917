"""Solve, re-centre the charts, measure the defect against a fine simulation, refine, until the plan meets the tolerance."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from heavytop.errors import PlanError
from heavytop.ocp import ChartRates, Transcription, chart, intervals, is_turn, place
from heavytop.ocp.solvers import Solution, Solver, SolveRequest, Status
from heavytop.plan.active import active
from heavytop.plan.guess import Guess, from_plan, random, straight
from heavytop.plan.infeasible import InfeasibleError, explain, least_violation, other_closure, singular
from heavytop.plan.node_functions import NodeFunctions
from heavytop.plan.problem import Problem
from heavytop.plan.result import Attempt, GuessCosts, Plan
from heavytop.plan.rollouts import Rollouts
from heavytop.plan.violations import between_nodes
from heavytop.simulate import BUTCHER6, COOPER_VERNER8, RADAU5, RADAU9, RK4, Tableau

Method = tuple[Tableau, int]
METHODS: tuple[Method, ...] = (
    (RK4, 1), (BUTCHER6, 1), (RK4, 2), (COOPER_VERNER8, 1), (RK4, 3), (BUTCHER6, 2), (RK4, 4), (BUTCHER6, 3),
    (COOPER_VERNER8, 2), (COOPER_VERNER8, 3), (COOPER_VERNER8, 4),
)  # fmt: skip
"""Ways to integrate an interval, from cheap to accurate (stages times steps)."""
FINE = (COOPER_VERNER8, 6)
"""Reference integration of intervals."""
COLLOCATION: tuple[Method, ...] = ((RADAU5, 1), (RADAU9, 1), (RADAU9, 2), (RADAU9, 4))
FINE_COLLOCATION = (RADAU9, 8)
"""The same for stiff motions."""
STIFF = 2.0
"""Decay (1/s) times length of an interval (s) beyond which explicit steps are hardly stable."""
TRIED = 200
"""Largest number of iterations of a collocation that was chosen for apparent stiffness."""
MARGIN = 0.5
"""A method is taken if its defect on the last solution is below this part of the tolerance."""
MOST_REFINED = 2000
"""Largest number of intervals of a refined plan."""
COARSE = 0.2
"""Defect (m, rad, and their rates) beyond which a solution is not a motion: it exploits the errors of the integration."""
ACCURATE: Method = (COOPER_VERNER8, 2)
"""Integration after that, again from the guess."""
RESTARTS = 3
"""Largest number of such restarts; after the first one intervals are halved."""
SHORTEST = 1e-9
"""Least duration (s) of a motion."""
LARGE_TURN = 2.0
"""Rotation (rad) in a chart beyond which it is re-centred."""

FURTHER = 8
"""Random guesses after the straight one in problems with many optima."""
FURTHER_ITERATIONS = 400
"""Largest number of iterations from each of them: bounds the time by a multiple of that of an iteration."""
EQUAL = 1e-4
"""Relative difference of costs below which two optima count as equal."""
QUARTER_TURN = 0.5 * np.pi
ENOUGH, RETRIES, HOPELESS = 3, 8, 4
"""Plans from simulated motions after a straight guess without success; largest number of motions; number after which one must have reached
the goal."""
REACHING = 100
"""Largest number of iterations from a simulated motion to one that fulfils all constraints."""
NARROWER = 0.15
"""Part of the ranges of coordinates in a simulated motion that its plans do not use, at either end."""
STRAIGHT_SHARE = 3
"""Largest number of iterations of all solutions from a straight guess, in units of that of one solution."""


@dataclass(frozen=True, eq=False)
class SolveOptions:
    """Solver with the largest defect of an interval, the largest number of iterations and the callback of every iteration.

    With ``rescue`` a solution without success is repeated from the motion of least violation. ``ration`` : largest number of iterations of all
    solutions, without those of the diagnosis. ``within`` : lower and upper bounds (ne,) of coordinates in the chart around the start, for guesses
    that fulfil the constraints.
    """

    solver: Solver
    tolerance: float = 1e-8
    iterations: int = 1000
    callback: Callable[[int, float, float], None] | None = None
    rescue: bool = True
    ration: int | None = None
    within: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(eq=False)
class Rationed:
    """A solver whose solutions share a number of iterations; a solution has at least one."""

    solver: Solver
    left: int

    @property
    def name(self) -> str:
        """Name of the solver."""
        return self.solver.name

    def solve(self, request: SolveRequest) -> Solution:
        """Solve with at most the iterations that are left."""
        solution = self.solver.solve(replace(request, iterations=max(1, min(request.iterations, self.left))))
        self.left -= solution.iterations
        return solution


NEARBY = "within the range of a simulated motion; the cost falls further outside"
"""Addition to the message of a plan that is no optimum."""


def first_variables(program: Transcription, guess: Guess) -> np.ndarray:
    """The variables of a guess with its configurations as centres."""
    layout, Y = program.layout, np.zeros((program.count + 1, program.size))
    Y[:, layout.v], Y[:, layout.u] = guess.v, guess.u
    if layout.linear:
        Y[:-1, layout.c] = np.diff(guess.u, axis=0)
    if layout.free:
        Y[:-1, layout.tau] = guess.durations[program.problem.phase_of_interval]
        Y[-1, layout.tau] = 1.0
    return np.clip(Y.ravel(), program.lower, program.upper)


@np.errstate(over="ignore", invalid="ignore")  # of diverging iterates; solvers reject values that are not finite
def solve(problem: Problem, guess: Guess, options: SolveOptions) -> Plan:
    """The plan from a guess; a PlanError names constraints that cannot be met."""
    functions = NodeFunctions(problem)
    method = (COLLOCATION if _is_stiff(functions, guess) else METHODS)[0]
    attempts: list[Attempt] = []
    warm: Solution | None = None
    rescued, collocated, explicit = False, False, None
    begin, restarts = (functions, guess), 0
    rationed = None if options.ration is None else Rationed(options.solver, options.ration)
    limited = options if rationed is None else replace(options, solver=rationed)
    while True:
        most = options.iterations if explicit is None else min(options.iterations, TRIED)
        program, solution = _solve_centred(functions, guess, method, replace(limited, iterations=most), warm)
        failed = solution.status in (Status.INFEASIBLE, Status.FAILED, Status.LIMIT)
        spent = failed and rationed is not None and rationed.left <= 0
        guess = motion_of(program, solution.x)
        methods = METHODS if method in METHODS else COLLOCATION
        defects = _defects(functions, guess, methods)
        defect = defects[method]
        coarse = methods is METHODS and solution.status is not Status.STOPPED and defect > COARSE
        if coarse and not spent and (restarts == 0 or (min(defects.values()) > COARSE and not failed)):
            attempts.append(_attempt(program, method, solution, defect))
            restarts += 1
            if restarts == RESTARTS:
                raise singular(program, solution, defect)
            functions, guess = begin if restarts == 1 else _finer(*begin, METHODS)
            method, warm = ACCURATE, None
            continue
        if failed:
            if explicit is not None and not spent:  # not stiff after all
                if 2 * program.count > MOST_REFINED:
                    raise _inaccurate(program, attempts[-1].defect, options.tolerance)
                functions, guess, method, warm, explicit = *_finer(*explicit, METHODS), METHODS[0], None, None
                continue
            if not options.rescue:
                raise explain(program, solution, [])
            nearest, violations = least_violation(program, solution.x, options.solver, options.iterations)
            if violations or rescued or spent or nearest.status not in (Status.SOLVED, Status.ACCEPTABLE):
                raise explain(program, solution, violations)
            # a motion within all constraints exists: start from it
            guess, warm, rescued = motion_of(program, nearest.x), None, True
            continue
        attempts.append(_attempt(program, method, solution, defect))
        if defect <= options.tolerance or solution.status is Status.STOPPED:
            if violations := other_closure(program, solution.x, defect):
                raise explain(program, solution, violations)
            return _plan(functions, program, solution, guess, method, tuple(attempts))
        better = [m for m in methods[methods.index(method) + 1 :] if defects[m] <= MARGIN * options.tolerance]
        if better:
            method, warm = better[0], solution
        elif methods is METHODS and not collocated and _is_stiff(functions, guess):
            # the guess was not stiff, but the motion is
            method, warm, collocated, explicit = COLLOCATION[0], None, True, (functions, guess)
        elif 2 * program.count <= MOST_REFINED and not _stagnates(attempts):
            functions, guess, warm, explicit = *_finer(functions, guess, methods), None, None
        else:
            raise _inaccurate(program, defect, options.tolerance)


def _attempt(program: Transcription, method: Method, solution: Solution, defect: float) -> Attempt:
    tableau, substeps = method
    times = solution.seconds, solution.callback_seconds
    return Attempt(tableau.order, substeps, program.count, solution.iterations, *times, defect)


def _stagnates(attempts: list[Attempt]) -> bool:
    """Whether halving the intervals did not halve the defect twice in a row: the motion passes a singularity."""
    halved = [a.steps < b.steps and 2 * b.defect > a.defect for a, b in pairwise(attempts)]
    return len(halved) > 1 and all(halved[-2:])


def _inaccurate(program: Transcription, defect: float, tolerance: float) -> PlanError:
    return PlanError(
        f"the plan of {program.problem.model.name!r} does not become accurate: with {program.count} steps an interval still differs from a "
        f"fine simulation by {defect:.2g} (tolerance {tolerance:g}). Smooth its forces, use method='collocation' if it is "
        "stiff, or allow a larger tolerance=."
    )


def _solve_centred(
    functions: NodeFunctions, guess: Guess, method: Method, options: SolveOptions, warm: Solution | None
) -> tuple[Transcription, Solution]:
    """Solve in charts around the guess; if the solution has rotated far from the centres, again around itself."""
    turns = is_turn(functions.rates.coordinates)
    for repeat in range(4):
        program = functions.transcription(guess.q, *method)
        _confine(program, options.within)
        x = first_variables(program, guess)
        request = SolveRequest(
            program, x, iterations=options.iterations, warm=warm, callback=options.callback, feasible=options.within is not None
        )  # fmt: skip
        solution = options.solver.solve(request)
        turned = np.abs(program.nodes(solution.x)[:, : len(turns)][:, turns])
        if solution.status in (Status.SOLVED, Status.ACCEPTABLE, Status.STOPPED):
            return program, solution
        if repeat == 3 or np.max(turned, initial=0.0) < LARGE_TURN:
            return program, solution
        guess, warm = motion_of(program, solution.x), None
    raise AssertionError("the loop returns")


def _confine(program: Transcription, within: tuple[np.ndarray, np.ndarray] | None) -> None:
    """Bound the coordinates of the inner nodes."""
    if within is not None:
        there = _from_start(program.rates, program.centres)[1:-1]
        for side, bound in zip((program.lower, program.upper), within, strict=True):
            program.nodes(side)[1:-1, program.layout.e] = bound - there


def _from_start(rates: ChartRates, q: np.ndarray) -> np.ndarray:
    """Coordinates (N + 1, ne) of configurations in the chart around the first one."""
    return place(rates.coordinates, np.broadcast_to(q[0], q.shape), q)


def motion_of(program: Transcription, x: np.ndarray) -> Guess:
    """The motion of variables; its configurations are the centres of the next charts."""
    layout, Y = program.layout, program.nodes(x)
    q = program.rates.coordinates.project(program.configurations(x))
    for k, state in ((0, program.problem.start), (-1, program.problem.goal)):
        if state is not None:
            q[k] = program.problem.pinned(state, q[k])
    u = Y[:, layout.u].copy()
    if not layout.linear:
        u[-1] = u[-2]
    lengths = program.lengths(x)
    durations = np.bincount(program.problem.phase_of_interval, weights=lengths)
    return Guess(q, Y[:, layout.v].copy(), u, durations)


def _fine(methods: tuple[Method, ...]) -> Method:
    return FINE if methods is METHODS else FINE_COLLOCATION


def _is_stiff(functions: NodeFunctions, guess: Guess) -> bool:
    """Whether to collocate the intervals of a motion: parts of it decay within them."""
    if functions.problem.method != "auto":
        return functions.problem.method == "collocation"
    program = functions.transcription(guess.q)
    rates, layout = program.rates, program.layout
    x = first_variables(program, guess)
    y = program.nodes(x)[:-1]
    z = np.concatenate([np.zeros((len(y), rates.ne)), y[:, layout.v], y[:, layout.u]], axis=1)
    _, slope = rates.rho.first(z, guess.q[:-1], functions.problem.parameters)
    slope = slope[:, :, : rates.nx]
    if not np.all(np.isfinite(slope)):
        return False
    decay = -np.linalg.eigvals(slope).real.min(axis=1)
    return bool(np.max(decay * program.lengths(x)) > STIFF)


def _defects(functions: NodeFunctions, guess: Guess, methods: tuple[Method, ...]) -> dict[Method, float]:
    """Largest difference of the intervals from a fine simulation, by integration method."""
    program = functions.transcription(guess.q)
    y = program.nodes(first_variables(program, guess))[:-1].copy()
    y[:, program.layout.e] = 0.0
    p, rates = functions.problem.parameters, program.rates
    ends = {}
    for tableau, substeps in (*methods, _fine(methods)):
        steps = intervals(rates, program.layout, tableau, substeps)
        with np.errstate(over="ignore", invalid="ignore"):
            ends[tableau, substeps] = steps.run(y, program.weights, guess.q[:-1], p).ends
    fine = ends.pop(_fine(methods))
    return {method: float(np.nan_to_num(np.max(np.abs(end - fine)), nan=np.inf)) for method, end in ends.items()}


def _finer(functions: NodeFunctions, guess: Guess, methods: tuple[Method, ...]) -> tuple[NodeFunctions, Guess]:
    """Twice as many intervals, and the motion on them."""
    problem = functions.problem
    program = functions.transcription(guess.q)
    layout, y = program.layout, program.nodes(first_variables(program, guess))[:-1].copy()
    y[:, layout.e] = 0.0
    halves = intervals(program.rates, layout, *_fine(methods))
    if layout.linear:
        y[:, layout.c] *= 0.5
    ends = halves.run(y, 0.5 * program.weights, guess.q[:-1], problem.parameters).ends
    middle_u = guess.u[:-1] + 0.5 * np.diff(guess.u, axis=0) if layout.linear else guess.u[:-1]
    coordinates = functions.rates.coordinates
    middle_q = coordinates.project(chart(coordinates, guess.q[:-1], ends[:, layout.e]))

    def between(nodes: np.ndarray, middles: np.ndarray) -> np.ndarray:
        out = np.empty((2 * len(middles) + 1, nodes.shape[1]))
        out[::2], out[1::2] = nodes, middles
        return out

    finer = replace(problem, phases=tuple(replace(phase, steps=2 * phase.steps) for phase in problem.phases))
    q, v = between(guess.q, middle_q), between(guess.v, ends[:, layout.v])
    return NodeFunctions(finer), Guess(q, v, between(guess.u, middle_u), guess.durations)


def _plan(
    functions: NodeFunctions,
    program: Transcription,
    solution: Solution,
    guess: Guess,
    method: Method,
    attempts: tuple[Attempt, ...],
) -> Plan:
    times = np.concatenate([[0.0], np.cumsum(program.lengths(solution.x))])
    if not times[-1] > SHORTEST:
        raise PlanError(
            f"the best motion of {functions.problem.model.name!r} takes no time: the start is at the goal. Give a shortest "
            "duration (duration=(1.0, 5.0)) or another goal."
        )
    plan = Plan(
        functions.problem,
        times,
        guess.q[:, : functions.problem.model.nq],
        guess.v,
        guess.u,
        solution.cost,
        sum(a.iterations for a in attempts),
        attempts[-1].defect,
        tuple(active(program, solution, times)),
        _multipliers(program, solution),
        attempts,
        solution.status is not Status.STOPPED,
        solution.message,
        *method,
        solution=solution,
    )
    return replace(plan, violation=between_nodes(plan))


def _multipliers(program: Transcription, solution: Solution) -> dict[str, np.ndarray]:
    """Multipliers by group: dynamics (N, nx), constraints (nodes, m) and bounds (N + 1, ny)."""
    lam, n = solution.lam, program.rates.nx
    found: dict[str, np.ndarray] = {"dynamics": lam[: program.count * n].reshape(program.count, n)}
    for i, block in enumerate(program.constraints):
        start = program.offsets[f"block{i}"]
        found[block.labels[0]] = lam[start : start + block.rows].reshape(block.lower.shape)
    found["bounds"] = program.nodes(solution.upper_lam - solution.lower_lam)
    return found


def best_of(problem: Problem, first: list[Guess], count: int, seed: int, options: SolveOptions) -> Plan:
    """The plan of least cost from the first guesses and ``count`` random ones.

    Guess i depends on the seed and i only, so that more guesses never make the result worse.
    """
    options = replace(options, callback=None)
    trials = [*first, *(random(problem, np.random.default_rng([seed, i])) for i in range(count))]
    costs = _costs(problem, trials, replace(options, tolerance=np.inf))
    ranked = [k for k in np.argsort(costs, kind="stable") if np.isfinite(costs[k])]
    if not ranked:
        return solve(problem, trials[0], options)  # raises the reason
    error: InfeasibleError | None = None
    for k in ranked:
        try:
            return replace(solve(problem, trials[k], options), starts=GuessCosts(tuple(costs.tolist()), int(k)))
        except InfeasibleError as caught:
            error = caught
    raise error if error is not None else AssertionError("no guess was tried")


def retried(problem: Problem, failure: InfeasibleError, seed: int, options: SolveOptions) -> Plan:
    """The plan of least cost from simulated motions after a straight guess failed; the error states what was tried."""
    functions, most = NodeFunctions(problem), min(options.iterations, FURTHER_ITERATIONS)
    method = (COLLOCATION if _is_stiff(functions, straight(problem)) else METHODS)[0]
    short = replace(options, callback=None, tolerance=COARSE, iterations=most, ration=most, rescue=False)
    rollouts, tried, reached = Rollouts(problem, *method), 0, 0
    found: dict[int, tuple[Plan, tuple[np.ndarray, np.ndarray]]] = {}
    while tried < (RETRIES if reached else HOPELESS) and len(found) < ENOUGH:
        guess = rollouts.guess(np.random.default_rng([seed, tried]))
        ranges, tried = _ranges(problem, guess), tried + 1
        within = replace(short, within=ranges)
        try:
            guess = _reached(functions, guess, method, within)
            reached += 1
            plan = solve(problem, guess, within)
        except PlanError:
            continue
        found[tried] = plan, ranges
        if not plan.converged:  # stopped by the user
            break
    costs = tuple(found[k][0].cost if k in found else np.inf for k in range(tried + 1))
    for k in sorted(found, key=lambda k: costs[k]):
        try:
            plan = _released(problem, found[k][0], found[k][1], options)
        except PlanError:
            continue
        return replace(plan, starts=GuessCosts(costs, k))
    raise InfeasibleError(
        f"{failure} Tried: the straight guess and {tried} simulated motions with at most {most} iterations each.",
        failure.violations,
    )


def _ranges(problem: Problem, guess: Guess) -> tuple[np.ndarray, np.ndarray]:
    """Ranges (ne,) of the coordinates on which accelerations depend, a little narrower than those of a motion; rotations are not bounded.

    The equations may be singular elsewhere, where wheels are steered by 90 degrees for example: then a cost may have no least value.
    """
    rates = problem.rates
    e = _from_start(rates, guess.q)
    low, high = e.min(axis=0), e.max(axis=0)
    matters = rates.rho.patterns[0][rates.ne :, : rates.ne].any(axis=0) & ~is_turn(rates.coordinates)
    if problem.timed:
        matters[-1] = False
    less = NARROWER * (high - low)
    low, high = np.minimum(low + less, e[[0, -1]].min(axis=0)), np.maximum(high - less, e[[0, -1]].max(axis=0))
    return np.where(matters, low, -np.inf), np.where(matters, high, np.inf)


def _reached(functions: NodeFunctions, guess: Guess, method: Method, options: SolveOptions) -> Guess:
    """The motion of least violation from a guess; a PlanError if it does not fulfil all constraints."""
    program = functions.transcription(guess.q, *method)
    _confine(program, options.within)
    nearest, violations = least_violation(program, first_variables(program, guess), options.solver, REACHING)
    if violations or nearest.status not in (Status.SOLVED, Status.ACCEPTABLE):
        raise explain(program, nearest, violations)
    return motion_of(program, nearest.x)


def _released(problem: Problem, first: Plan, within: tuple[np.ndarray, np.ndarray], options: SolveOptions) -> Plan:
    """The plan without bounds of ranges if it is found from the first one, otherwise the one within them."""
    guess, most = from_plan(problem, first), min(options.iterations, FURTHER_ITERATIONS)
    try:
        free = solve(problem, guess, replace(options, iterations=most, ration=most, rescue=False))
        if free.cost <= (1 + EQUAL) * first.cost or not free.converged:
            return free
    except PlanError:
        pass
    plan = solve(problem, guess, replace(options, within=within))
    e = _from_start(problem.rates, problem.with_time(plan.q, plan.times))
    held = np.any((e <= within[0] + EQUAL) | (e >= within[1] - EQUAL))
    return replace(plan, message=f"{plan.message} {NEARBY}") if held else plan


def is_swing_up(problem: Problem) -> bool:
    """Whether a joint without input turns by more than a quarter turn in a given time: such problems have many optima."""
    model, start, goal = problem.model, problem.start, problem.goal
    if problem.free or start is None or goal is None or model.is_constrained or model.coordinates.nv != model.nv:
        return False
    parameters = dict(zip(model.parameter_names, problem.parameters.tolist(), strict=True))
    begin, end = start.q[: model.nq], goal.q[: model.nq]
    undriven = ~np.any(model.evaluate("input_matrix", begin, parameters=parameters), axis=1)
    turns = np.array([unit == "rad/s" for unit in model.v_units])
    return bool(np.any(np.abs(place(model.coordinates, begin, end))[undriven & turns] > QUARTER_TURN))


def further_starts(problem: Problem, first: Plan, seed: int, options: SolveOptions) -> Plan:
    """The plan of least cost among the first one and those from a few random guesses, each with few iterations.

    The guesses are smooth: without noise of the inputs more of them lead to a plan, in a third of the iterations.
    """
    short = replace(options, tolerance=np.inf, iterations=min(options.iterations, FURTHER_ITERATIONS), rescue=False)
    costs, trials = [first.cost], {}
    for i in range(FURTHER):
        costs.append(np.inf)
        try:
            trial = solve(problem, random(problem, np.random.default_rng([seed, i]), noise=0.0), short)
        except PlanError:
            continue
        if not trial.converged:  # stopped by the user
            break
        costs[-1], trials[i + 1] = trial.cost, trial
    best = first, 0
    for k in sorted(trials, key=lambda k: costs[k]):
        if not costs[k] < (1 - EQUAL) * first.cost:
            break
        try:
            plan = solve(problem, from_plan(problem, trials[k]), options)
        except PlanError:
            continue
        if plan.converged and plan.cost < first.cost:
            best = plan, k
            break
    return replace(best[0], starts=GuessCosts(tuple(costs), best[1]))


def _costs(problem: Problem, trials: list[Guess], options: SolveOptions) -> np.ndarray:
    """Cost from every guess on the coarsest integration; infinite without a plan."""

    def cost(guess: Guess) -> float:
        try:
            return solve(problem, guess, options).cost
        except InfeasibleError:
            return np.inf

    workers = min(len(trials), os.cpu_count() or 1)
    if workers < 2 or not sys.platform.startswith("linux"):
        return np.array([cost(guess) for guess in trials])
    costs = [cost(trials[0])]  # compiles the functions of the others
    context: Any = multiprocessing.get_context("fork")
    rest = trials[1:]
    shares = [list(range(w, len(rest), workers)) for w in range(workers)]
    pipes = []
    for share in shares:
        receive, send = context.Pipe(duplex=False)
        work = context.Process(
            target=lambda s=share, pipe=send: pipe.send([(i, cost(rest[i])) for i in s]), daemon=True
        )
        work.start()
        send.close()
        pipes.append((receive, work))
    found = np.full(len(rest), np.inf)
    for receive, work in pipes:
        try:
            for i, value in receive.recv():
                found[i] = value
        except EOFError:
            pass  # a process that died: its guesses count as failed
        work.join()
    return np.concatenate([costs, found])
