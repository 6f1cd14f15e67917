"""Overhead of calls from Python: short runs and single states, called repeatedly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop.simulate import RKMK45, prepare, simulate
from heavytop_bench.agreement import check
from heavytop_bench.free_body import UNSTABLE, model_of
from heavytop_bench.hummingbird import hull_steps_per_second
from heavytop_bench.measure import BenchEffort, Work, best_times
from heavytop_bench.peers import Peer, divide
from heavytop_bench.peers.base import AGREE
from heavytop_bench.report import BenchReport
from heavytop_bench.states import States
from heavytop_bench.trees import tricopter_load

TITLE = "calls from Python: runs beyond their loop, single states, the law with limits"
STEPS = 4096
TIGHT, LOOSE = 1e-12, 1e-6
TARGETS = {"simulate": 80.0, "prepared": 80.0, "rkmk45": 400.0, "acceleration": 12.0, "function": 4.0, "out": 4.0}
"""Microseconds."""
STATES_TARGET = 3.0
LIMITED_TARGET = 120.0
"""Nanoseconds."""

NOTES = (
    "simulate, prepared: a run of one step of a free body, less that step, whose time is the difference to a run of many steps.",
    "rkmk45: a complete call less its attempts, whose time is measured in the same way by a run with a tight tolerance; the rest is Python.",
    "acceleration, function, out: one state of the tricopter with load in a Python loop; a peer is charged with its function and its call.",
    "law with limits: RKMK4 steps of 10 ms of a quadcopter with its law in every step, near hover, in a batch on one thread.",
)


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Runs, single states, and the law."""
    present, missing = divide(peers, "single")
    report = BenchReport("calls", TITLE, missing=missing, notes=list(NOTES))
    runs(report, effort)
    states(report, effort, present)
    tiny = effort.seconds == 0
    batch, steps, repeats = (8, 2, 1) if tiny else (min(effort.batch, 1024), 100, 12)
    free, limited = (1e9 / hull_steps_per_second(batch, steps, repeats, limit) for limit in (False, True))
    report.row(call="law in a batch, a step", ns=free)
    report.row(call="law with limits in a batch, a step", ns=limited)
    report.limit("quadcopter with limits in a batch, a step", limited, LIMITED_TARGET, "ns")
    return report


def runs(report: BenchReport, effort: BenchEffort) -> None:
    """Runs of a free body, called again."""
    model = model_of(UNSTABLE)
    start = model.neutral(), np.concatenate([np.zeros(3), UNSTABLE.omega])
    many = 16 if effort.seconds == 0 else STEPS

    def fixed(steps: int) -> Work:
        return lambda: simulate(model, start, steps * 1e-3, 1e-3, record_every=steps)

    ready = prepare(model, 1e-3, 1e-3)
    loose, tight = (RKMK45(rtol=tolerance, atol=100 * tolerance) for tolerance in (LOOSE, TIGHT))

    def chosen(method: RKMK45) -> Work:
        return lambda: simulate(model, start, 1.0, 1.0, method)

    short: dict[str, Work] = {"simulate": fixed(1), "prepared": lambda: ready(start)}
    # long runs separately: they would fill the caches
    groups = (short, {"rkmk45": chosen(loose)}, {"many": fixed(many), "tight": chosen(tight)})
    attempts = [simulate(model, start, 1.0, 1.0, method).timing.steps for method in (loose, tight)]
    times = {name: seconds for works in groups for name, seconds in best_times(works, effort).items()}
    a_step = (times["many"] - times["simulate"]) / (many - 1)
    an_attempt = (times["tight"] - times["rkmk45"]) / (attempts[1] - attempts[0])
    figures = {name: times[name] - a_step for name in ("simulate", "prepared")}
    figures["rkmk45"] = times["rkmk45"] - attempts[0] * an_attempt
    for name, seconds in figures.items():
        report.row(call=name, us=seconds * 1e6)
        report.limit(f"{name} beyond its loop", seconds * 1e6, TARGETS[name], "us")


def states(report: BenchReport, effort: BenchEffort, present: Sequence[Peer]) -> None:
    """One state after the other, from Python."""
    tree = tricopter_load()
    model = tree.derive()
    sample = States.random(tree, model, AGREE)
    q, v, u = (np.ascontiguousarray(array[0]) for array in (sample.q, sample.v, sample.u))
    function, place = model.function("acceleration"), np.empty(model.nv)
    works: dict[str, Work] = {
        "acceleration": lambda: model.acceleration(q, v, u),
        "function": lambda: function(q, v, u),
        "out": lambda: function(q, v, u, out=place),
    }
    trials = {peer.name: peer.single(tree, sample) for peer in present}
    for name, trial in trials.items():
        check(f"{name}, {tree.name}", model.acceleration(sample.q, sample.v, sample.u), *trial.results)
        works[name] = trial.work
    times = best_times(works, effort)
    for name in ("acceleration", "function", "out"):
        report.row(call=f"{name} of one state", us=times[name] * 1e6)
        report.limit(f"{name} of one state", times[name] * 1e6, TARGETS[name], "us")
    for name, trial in trials.items():
        theirs = times[name] / trial.evaluations
        report.row(call=f"{name} of one state", us=theirs * 1e6)
        report.ratio(f"a call for one state / {name} with its call", theirs / times["function"], STATES_TARGET)
