"""Steps of many trajectories: the cost of a Lie-group step relative to its evaluations and to MuJoCo's rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heavytop.copters import quadcopter
from heavytop.simulate import simulate
from heavytop.system import Model
from heavytop_bench.agreement import check
from heavytop_bench.measure import BenchEffort, Work, best_times
from heavytop_bench.peers import Peer, divide
from heavytop_bench.report import BenchReport, Ratio
from heavytop_bench.trees import tricopter_load

TITLE = "RKMK4 steps of many trajectories, one core, ns per step of one trajectory"
STEP = 1e-3
STEPS = 500
TRAJECTORIES = 128
WITHIN, AHEAD = 1.4, 50.0

NOTES = (
    f"step: heavytop.simulate of {TRAJECTORIES} trajectories over {STEPS} steps on one thread, complete call, records at the ends only.",
    "packed, arrays: forward dynamics of one state in a batch as in the benchmark 'forward'. The limit is held against packed.",
    "mujoco: rollout of the same quadcopter with the same thrusts and RK4, states of all steps recorded as rollout always does, "
    "one thread; its ends agree with ours.",
)


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure the tricopter with load against its forward dynamics, the quadcopter against MuJoCo."""
    present, missing = divide(peers, "rollout")
    report = BenchReport("simulate", TITLE, missing=missing, notes=list(NOTES))
    effort = replace(
        effort, seconds=3 * effort.seconds
    )  # a run takes longer than an evaluation, so it is disturbed more often
    tricopter(report, effort)
    quad(report, effort, present)
    return report


def size(effort: BenchEffort) -> tuple[int, int]:
    """Trajectories and steps."""
    return (8, 10) if effort.seconds == 0 else (TRAJECTORIES, STEPS)


def steps_of(model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray, steps: int) -> Any:
    """The run of all trajectories."""
    return simulate(
        model, (q, v), steps * STEP, STEP, "rkmk4", inputs=u[None], record_every=steps, threads=1, progress=False
    )


def tricopter(report: BenchReport, effort: BenchEffort) -> None:
    """A step against four evaluations of the forward dynamics, both per trajectory."""
    model, (count, steps) = tricopter_load().derive(), size(effort)
    rng = np.random.default_rng(0)
    q, v = model.random(rng, (count,)), 0.1 * rng.standard_normal((count, model.nv))
    u = 0.1 * rng.standard_normal((count, model.nu))
    kernel = model.compiled("acceleration")
    rows = np.arange(8 * -(-count // kernel.lanes) * kernel.lanes) % count
    packed = kernel.packed(len(rows) // kernel.lanes)
    packed.fill(q[rows], v[rows], u[rows], model.parameter_vector())
    arguments = q[rows], v[rows], u[rows], model.parameter_vector()
    works: dict[str, Work] = {
        "step": lambda: steps_of(model, q, v, u, steps),
        "packed": packed.run,
        "arrays": lambda: kernel(*arguments),
    }
    times = best_times(works, effort)
    step, forward, arrays = times["step"] / (count * steps), times["packed"] / len(rows), times["arrays"] / len(rows)
    report.row(system="tricopter-load", step_ns=step * 1e9, packed_ns=forward * 1e9, arrays_ns=arrays * 1e9)
    report.limit("tricopter-load: step / 4 evaluations", step / (4 * forward), WITHIN, "x")
    report.ratios.append(Ratio("tricopter-load: step / 4 evaluations on arrays", step / (4 * arrays), at_least=False))


def quad(report: BenchReport, effort: BenchEffort, peers: Sequence[Peer]) -> None:
    """A step against one of each peer, the same vehicle with the same constant thrusts."""
    craft, (count, steps) = quadcopter(), size(effort)
    rng = np.random.default_rng(1)
    q, v = craft.model.random(rng, (count,)), rng.standard_normal((count, 6))
    u = rng.uniform(1.5, 3.0, (count, 4))
    works: dict[str, Work] = {"step": lambda: steps_of(craft.model, q, v, u, steps)}
    trials = {peer.name: peer.rollout(craft, q, v, u, STEP, steps) for peer in peers}
    end = steps_of(craft.model, q, v, u, steps)
    for name, trial in trials.items():
        check(f"{name}, positions of the quadcopter", end.q[-1, :, :3], *trial.results)
        works |= trial.candidates(name)
    times = best_times(works, effort)
    ours = times["step"] / (count * steps)
    theirs = {name: trial.seconds(times, name) for name, trial in trials.items()}
    report.row(system="quadcopter", step_ns=ours * 1e9, **{f"{name}_ns": t * 1e9 for name, t in theirs.items()})
    for name, seconds in theirs.items():
        report.ratio(f"quadcopter: step / {name} rollout RK4", seconds / ours, AHEAD)
