"""Forward dynamics of many states on one core: tricopter with load, Panda, a chain of 20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Floats
from heavytop.compile import Kernel, Packed
from heavytop.system import Model
from heavytop_bench.agreement import check
from heavytop_bench.measure import BenchEffort, Work, best_times
from heavytop_bench.peers import Peer, divide
from heavytop_bench.peers.base import AGREE
from heavytop_bench.report import BenchReport
from heavytop_bench.states import States
from heavytop_bench.trees import Tree, chain, panda, tricopter_load

TITLE = "forward dynamics in batch, one core, ns per state"


@dataclass(frozen=True)
class Times:
    """Nanoseconds per state, ours in two forms and those of the peers by name."""

    arrays: float
    packed: float
    peers: dict[str, float]


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure all systems."""
    present, missing = divide(peers, "forward")
    report = BenchReport("forward", TITLE, missing=missing, notes=list(NOTES))
    for tree, target in ((tricopter_load(), 20.0), (panda(), 20.0), (chain(20), 20.0)):
        model = tree.derive()
        times = measure(tree, model, effort, present)
        stats = model.compiled("acceleration").stats()
        report.row(system=tree.name, instructions=stats.instructions, lanes=stats.lanes, **columns(times))
        add_ratios(report, tree.name, times, dict.fromkeys(times.peers, target))
    return report


NOTES = (
    "arrays: the kernel called on NumPy arrays of states; packed: on its own buffers, without sorting states into lanes. "
    "Targets are held against 'arrays'.",
    "pin: abaInParallel on one thread over the same batch.",
    "mujoco: mj_forward called from Python, minus the time of a call that only scans the velocities.",
)


def columns(times: Times) -> dict[str, float]:
    """The times by column."""
    return {"arrays_ns": times.arrays, "packed_ns": times.packed, **{f"{n}_ns": t for n, t in times.peers.items()}}


def add_ratios(report: BenchReport, name: str, times: Times, targets: dict[str, float]) -> None:
    """Ratios over each peer with a target, against the arrays and, for information, the packed form."""
    for peer, target in targets.items():
        if peer in times.peers:
            report.ratio(f"{name} arrays / {peer}", times.peers[peer] / times.arrays, target)
            report.ratio(f"{name} packed / {peer}", times.peers[peer] / times.packed)


def measure(tree: Tree, model: Model, effort: BenchEffort, peers: Sequence[Peer]) -> Times:
    """Times of one system, after every peer was found to agree."""
    kernel = model.compiled("acceleration")
    states = States.random(tree, model, effort.batch)
    p = model.parameter_vector()
    ours = kernel(states.q, states.v, states.u, p)[0]
    packed = pack(kernel, states, p)
    candidates: dict[str, Work] = {
        "arrays": lambda: kernel(states.q, states.v, states.u, p),
        "packed": packed.run,
    }
    trials = {peer.name: peer.forward(tree, states) for peer in peers}
    for name, trial in trials.items():
        check(f"{name}, {tree.name}", ours[:AGREE], *trial.results)
        candidates |= trial.candidates(name)
    times, count = best_times(candidates, effort), len(states.q)
    check(f"packed, {tree.name}", packed.results()[0][:count], ours)
    return Times(
        times["arrays"] / count * 1e9,
        times["packed"] / packed_states(packed) * 1e9,
        {name: trial.seconds(times, name) * 1e9 for name, trial in trials.items()},
    )


def pack(kernel: Kernel, states: States, p: Floats) -> Packed:
    """The packed form of a kernel, filled with the states (the last one repeated to fill the lanes)."""
    count = len(states.q)
    batches = -(-count // kernel.lanes)
    index = np.minimum(np.arange(batches * kernel.lanes), count - 1)
    packed = kernel.packed(batches)
    packed.fill(states.q[index], states.v[index], states.u[index], p)
    return packed


def packed_states(packed: Packed) -> int:
    """Number of states of a packed batch."""
    return packed.inputs[0].shape[0] * packed.inputs[0].shape[2]
