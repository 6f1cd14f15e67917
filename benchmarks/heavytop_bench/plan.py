"""Plans and predictive control: against the same programs in CasADi's virtual machine, against the best known optima, and tracked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from heavytop import control, library
from heavytop.ocp.solvers import Solution, SolveRequest
from heavytop.plan import Ipopt, Nlpsol, Plan, problems
from heavytop.plan.problems import Task
from heavytop.simulate import simulate
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer
from heavytop_bench.plan_peers import compare
from heavytop_bench.plan_tracking import follow
from heavytop_bench.report import BenchReport

TITLE = "optimal motions from the default guess, against CasADi's virtual machine; predictive control of a quadcopter (takes minutes)"
PARTS = ("problems", "speed", "peers", "tracked", "predictive")
BASELINES = {"gates": 3.5, "load": 5.0}
"""Least ratio of times; the load is compared with 30 steps."""
STARTS = 5
"""Starts of the comparison with the baseline: the default guess, and others that differ from it by rounding. The way of a solver to a flat
optimum depends on the last bits: the load takes 70 to 190 iterations on either side."""
SHOWN = 100
"""Random starts between two lines of progress."""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None, parts: Sequence[str] = PARTS) -> BenchReport:
    """All problems; with a tiny effort only the smallest, coarsely."""
    report = BenchReport("plan", TITLE)
    quick, plans = effort.seconds == 0, {}
    if "problems" in parts:
        for name in ("cart-pole",) if quick else problems.PROBLEMS:
            plans[name] = _plan(report, problems.load(name), quick, effort.progress)
    if "speed" in parts and not quick:
        for name, target in BASELINES.items():
            _speed(report, name, target, effort.progress)
    if "peers" in parts:
        compare(report, peers, effort)
    if "tracked" in parts and not quick:
        follow(report, plans, effort.progress)
    if "predictive" in parts:
        _predict(report, 1 if quick else 1000, 0.5 if quick else 8.0, effort.progress)
    report.notes.append(
        "times of plans are processor time of a second solution, as the first one compiles; those of predictive control are of all samples, on the "
        "wall."
    )
    return report


def _plan(report: BenchReport, task: Task, quick: bool, progress: Callable[[str], None]) -> Plan:
    task.plan(tolerance=1e-4 if quick else 1e-8)
    begin = time.process_time()
    plan = task.plan(tolerance=1e-4 if quick else 1e-8)
    seconds = time.process_time() - begin
    report.row(
        problem=f"{task.name}: {task.text}", duration_s=plan.duration, cost=plan.cost, iterations=plan.iterations,
        cpu_s=seconds, defect=plan.accuracy,
    )  # fmt: skip
    progress(
        f"plan, {task.name}: cost {plan.cost:.6g}, {plan.iterations} iterations, {seconds:.3g} s, defect {plan.accuracy:.1e}"
    )
    if quick:
        return plan
    report.limit(f"{task.name}: defect against a fine simulation", plan.accuracy, 1e-8, "")
    if task.name in problems.BEST_KNOWN:
        report.limit(
            f"{task.name}: cost over the best known", plan.cost / problems.BEST_KNOWN[task.name] - 1.0, 1e-3, ""
        )
    if task.name == "gates":
        report.limit("gates: duration", plan.duration, 2.606, "s")
    return plan


class _Recorder(Ipopt):
    """Stores the last program with its starting point."""

    def solve(self, request: SolveRequest) -> Solution:
        self.program, self.x = request.program, request.x.copy()
        return super().solve(request)


def _speed(report: BenchReport, name: str, target: float, progress: Callable[[str], None]) -> None:
    """Solutions of the same program from the same starts: ours, and those of CasADi."""
    task, recorder = problems.load_transport(steps=30) if name == "load" else problems.load(name), _Recorder()
    task.plan(solver=recorder, tolerance=1e9)
    program, rng = recorder.program, np.random.default_rng(0)
    noise = [0.0 * recorder.x, *(1e-9 * rng.standard_normal(len(recorder.x)) for _ in range(STARTS - 1))]
    starts = [np.clip(recorder.x + off, program.lower, program.upper) for off in noise]
    sides: dict[str, Callable[[], Callable[[np.ndarray], Solution]]] = {
        "ours": lambda: lambda x: Ipopt().solve(SolveRequest(program, x)),
        "nlpsol, expanded": lambda: Nlpsol(expand=True).prepared(SolveRequest(program, recorder.x)),
    }
    if name == "gates":  # the other one takes minutes to build for the load, and is slower there too
        sides["nlpsol"] = lambda: Nlpsol().prepared(SolveRequest(program, recorder.x))
    taken: dict[str, float] = {}
    for label, prepare in sides.items():
        solve = prepare()
        found = [solve(x) for x in (starts[:1] if label == "nlpsol" else starts)]
        iterations = float(np.mean([solution.iterations for solution in found]))
        taken[label] = float(np.mean([solution.cpu_seconds for solution in found]))
        cost = float(np.median([solution.cost for solution in found]))
        report.row(
            problem=f"{task.name}, a solution by {label} (mean of {len(found)})", cost=cost, iterations=iterations,
            cpu_s=taken[label], ms_per_iteration=1e3 * taken[label] / iterations,
        )  # fmt: skip
        progress(f"plan, {name} by {label}: cost {cost:.6g}, {taken[label]:.3g} s, {iterations:.4g} iterations")
    report.ratio(f"{name}: baseline / ours", min(v for k, v in taken.items() if k != "ours") / taken["ours"], target)
    note = (
        "baseline: the same variables, charts, steps, rows, starts and tolerance in casadi.nlpsol with IPOPT, functions and derivatives in "
        "CasADi's virtual machine, as they are (gates only) and expanded to scalar operations (which takes long to build and is not counted); the "
        f"faster one counts. {STARTS} starts that differ by rounding, as iterations to a flat optimum depend on the last bits."
    )
    if note not in report.notes:
        report.notes.append(note)


def _predict(report: BenchReport, starts: int, until: float, progress: Callable[[str], None]) -> None:
    """The quadcopter from 115 degrees, then from random starts."""
    model = library.quadcopter().derive()
    ahead = control.mpc(model, limits=(0.0, 4 * problems.hover_input(model)))
    start = model.integrate(model.neutral(), np.array([1.0, 0.0, 0.0, 2.0, 0.0, 0.0]), 1.0)
    fly = lambda q, v: simulate(  # noqa: E731
        model, (q, v), until, 0.01, inputs=ahead, control_step=ahead.step, record_every=10**6, progress=False
    )
    run = fly(start, np.zeros(6))
    off = float(np.abs(model.difference(model.neutral(), run.q[-1])).max())
    taken = 1e3 * np.array(ahead.seconds)
    rng, recovered = np.random.default_rng(0), 0
    for done in range(1, starts + 1):
        ahead.reset()
        q, v = model.random(rng), rng.standard_normal(6) * [2, 2, 2, 3, 3, 3]
        q[:3] = rng.uniform(-2, 2, 3)
        last = fly(q, v)
        recovered += bool(np.abs(model.difference(model.neutral(), last.q[-1])).max() < 1e-5)
        taken = np.concatenate([taken, 1e3 * np.array(ahead.seconds)])
        if done % SHOWN == 0:
            progress(
                f"plan, predictive control: {recovered} of {done} random starts recovered, median {np.median(taken):.3g} ms"
            )
    report.row(
        problem="mpc of a quadcopter, 20 moves", median_ms=float(np.median(taken)), p999_ms=float(np.quantile(taken, 0.999)),
        recovered=f"{recovered} of {starts}", off=off,
    )  # fmt: skip
    if until >= 8.0:
        report.limit("mpc: median of a sample", float(np.median(taken)), 0.5, "ms")
        report.limit("mpc: 99.9 % of the samples", float(np.quantile(taken, 0.999)), 1.0, "ms")
        report.limit("mpc: deviation after 8 s from 115 degrees", off, 1e-5, "")
        report.ratio("mpc: part of random starts recovered", recovered / starts, 1.0)
