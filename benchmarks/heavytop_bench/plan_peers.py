"""The same optimal motions by other planners: cost, where a fine simulation with their inputs arrives, and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heavytop import library
from heavytop._arrays import Floats
from heavytop.ocp import needed_inputs
from heavytop.ocp.solvers import Solution, SolveRequest
from heavytop.plan import Effort, Ipopt, plan
from heavytop.simulate import simulate
from heavytop.system import Model
from heavytop_bench.agreement import DisagreementError, check
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer, divide
from heavytop_bench.peers.base import AGREE, MotionCase, MotionFound
from heavytop_bench.report import BenchReport

REPEATS = 5
STEPS = 60
ARRIVED = 1e-2
"""Distance from the goal (m, rad) up to which a motion counts."""
NOTE = (
    "peers: least effort from rest to rest in a fixed time, {steps} held inputs. Ours meets the goal as a constraint, crocoddyl by a cost at the end "
    "that is raised in three steps. Cost and arrival of both are those of a fine simulation with their inputs. Times are the best of {repeats}, of "
    "the solver alone: ours with one RK4 step per input like crocoddyl; `plan` is the complete call, refined to 1e-8."
)


def cases() -> tuple[MotionCase, ...]:
    """A cart with a pole, a quadcopter without and with active limits, an arm of seven joints."""
    cart, quad, arm = (library.load(name).derive() for name in ("cart-pole", "quadcopter", "panda"))
    place = lambda *r: np.concatenate([r, quad.neutral()[3:]])  # noqa: E731
    begin = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
    end = begin + [0.6, 0.4, -0.3, 0.5, 0.3, 0.4, -0.6]
    torque = np.array([87.0] * 4 + [12.0] * 3)
    hover, upright = _balance(quad, quad.neutral()), (np.array([0.0, np.pi]), np.zeros(2))
    return (
        MotionCase("cart-pole swing-up", cart, *upright, 2.0, STEPS, 0.01, np.zeros(1), np.full(1, -20.0), np.full(1, 20.0)),
        MotionCase("quadcopter transfer", quad, place(0, 0, 0), place(2, 1, 0.5), 1.5, STEPS, 1.0, hover, 0 * hover, 2 * hover),
        MotionCase(
            "quadcopter transfer at its limits", quad, place(0, 0, 0), place(2, 1, 0.5), 1.0, STEPS, 1.0, hover, 0 * hover, 2 * hover
        ),
        MotionCase("panda", arm, begin, end, 0.6, STEPS, 1.0, _balance(arm, begin), -torque, torque),
    )  # fmt: skip


def _balance(model: Model, q: Floats) -> Floats:
    return needed_inputs(model, q, np.zeros(model.nv), np.zeros(model.nv))


class _Recorder(Ipopt):
    """Stores the last program with its starting point."""

    def solve(self, request: SolveRequest) -> Solution:
        self.program, self.x = request.program, request.x.copy()
        return super().solve(request)


def compare(report: BenchReport, peers: Sequence[Peer] | None, effort: BenchEffort) -> None:
    """Rows for all cases, ours and those of the planners that are installed and agree about the accelerations."""
    present, missing = divide(peers, "motion")
    report.missing += missing
    quick = effort.seconds == 0
    if missing:
        report.notes.append(f"{', '.join(missing)}: pip install 'heavytop[planners]', in a separate environment.")
    if not present:
        return
    known = cases()
    for case in known[:1] if quick else known:
        _compare(report, case, present, 1 if quick else REPEATS, effort.progress)
    report.notes.append(NOTE.format(steps=STEPS, repeats=REPEATS))


def _compare(
    report: BenchReport, case: MotionCase, present: Sequence[Peer], repeats: int, progress: Callable[[str], None]
) -> None:
    recorder = _Recorder()
    options: dict[str, Any] = {
        "limits": (case.low, case.high), "steps": case.steps, "cost": case.weight * Effort(about=case.about), "progress": False,
    }  # fmt: skip
    ask = lambda **more: plan(case.model, case.start, case.goal, case.duration, **options, **more)  # noqa: E731
    coarse = ask(solver=recorder, tolerance=1e9)
    program, x = recorder.program, recorder.x
    taken, solution = _best(lambda: Ipopt().solve(SolveRequest(program, x)), repeats)
    ours = MotionFound(coarse.u[: case.steps], solution.iterations, "ours")
    cost = _row(report, case, ours, taken, progress)
    whole, fine = _best(lambda: ask(tolerance=1e-8), repeats)
    _row(report, case, MotionFound(fine.u[: case.steps], fine.iterations, "ours, plan to 1e-8"), whole, progress)
    for peer in present:
        try:
            trials = peer.motion(case)
            _agree(f"{peer.name}, {case.name}", case, trials[0].accelerations)
        except DisagreementError as error:
            report.notes.append(
                f"{error} Crocoddyl 3.2.1 is built for pin 4.0; with another version it computes other accelerations."
            )
            continue
        found = [_best(trial.solve, repeats) for trial in trials]
        good = [pair for pair in found if arrival(case, pair[1].u) < ARRIVED] or found
        least = min(case.effort(pair[1].u) for pair in good)
        seconds, best = min(
            (pair for pair in good if case.effort(pair[1].u) <= least * 1.001), key=lambda pair: pair[0]
        )
        how = f"{peer.name}, {best.how}" + ("" if trials[0].is_native else ", inputs in Python")
        theirs = _row(report, case, MotionFound(best.u, best.iterations, how), seconds, progress)
        if trials[0].is_native:
            report.ratio(f"{case.name}: {peer.name} / ours", seconds / taken)
            report.ratio(f"{case.name}: {peer.name} / our whole plan", seconds / whole)
        report.ratio(f"{case.name}: cost, {peer.name} / ours", theirs / cost)


def _best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Least processor time (s), and the result."""
    result, least = work(), np.inf
    for _ in range(repeats):
        begin = time.process_time()
        result = work()
        least = min(least, time.process_time() - begin)
    return least, result


def _row(
    report: BenchReport, case: MotionCase, found: MotionFound, seconds: float, progress: Callable[[str], None]
) -> float:
    cost, off = case.effort(found.u), arrival(case, found.u)
    report.row(
        problem=f"{case.name}, {found.how}", cost=cost, arrives_off=off, iterations=found.iterations, cpu_ms=1e3 * seconds
    )  # fmt: skip
    progress(
        f"plan, {case.name}, {found.how}: cost {cost:.6g}, arrives {off:.1e} off, {found.iterations} iterations, {1e3 * seconds:.3g} ms"
    )
    return cost


def arrival(case: MotionCase, u: Floats) -> float:
    """Largest difference from the goal, at rest, of a fine simulation with held inputs u (steps, nu)."""
    h, model = case.duration / case.steps, case.model
    held = lambda t, q, v: u[min(int(t / h + 1e-6), case.steps - 1)]  # noqa: E731
    run = simulate(
        model, (case.start, np.zeros(model.nv)), case.duration, h / 10, inputs=held, control_step=h, record_every=10**9, progress=False
    )  # fmt: skip
    return float(max(np.abs(model.difference(case.goal, run.q[-1])).max(), np.abs(run.v[-1]).max()))


def _agree(what: str, case: MotionCase, accelerations: Callable[[Floats, Floats, Floats], Floats]) -> None:
    model, rng = case.model, np.random.default_rng(0)
    q, v = model.random(rng, (AGREE,)), rng.standard_normal((AGREE, model.nv))
    u = case.about + rng.standard_normal((AGREE, model.nu))
    check(what, model.acceleration(q, v, u), accelerations(q, v, u))
