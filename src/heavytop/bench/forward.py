"""Forward dynamics of many states on one core: tricopter with load, Panda, a chain of 20."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop.bench.agreement import check
from heavytop.bench.measure import Effort, Work, best_times, without_call
from heavytop.bench.peers import MuJoCo, Pinocchio, missing
from heavytop.bench.report import Report
from heavytop.bench.states import States
from heavytop.bench.trees import Tree, chain, panda, tricopter_load
from heavytop.compile import Kernel, Packed
from heavytop.system import Model

TITLE = "forward dynamics in batch, one core, ns per state"
PEERS = ("pin", "mujoco")
CALLS = 20


@dataclass(frozen=True)
class Times:
    """Nanoseconds per state; None where a peer is missing."""

    arrays: float
    packed: float
    pin: float | None
    mujoco: float | None


def run(effort: Effort) -> Report:
    """Measure all systems."""
    report = Report("forward", TITLE, missing=missing(*PEERS), notes=list(NOTES))
    for tree, target in ((tricopter_load(), 18.0), (panda(), 18.0), (chain(20), 14.0)):
        model = tree.derive()
        times = measure(tree, model, effort, report)
        stats = model.compiled("acceleration").stats()
        report.row(system=tree.name, instructions=stats.instructions, lanes=stats.lanes, **columns(times))
        add_ratios(report, tree.name, times, target)
    return report


NOTES = (
    "arrays: the kernel called on NumPy arrays of states; packed: on its own buffers, without sorting states into lanes. "
    "Targets are held against 'arrays'.",
    "pin: abaInParallel on one thread over the same batch.",
    "mujoco: mj_forward called from Python, minus the time of a call that only scans the velocities.",
)


def columns(times: Times) -> dict[str, float]:
    """The times that exist, by column."""
    named = {"arrays_ns": times.arrays, "packed_ns": times.packed, "pin_ns": times.pin, "mujoco_ns": times.mujoco}
    return {name: value for name, value in named.items() if value is not None}


def add_ratios(report: Report, name: str, times: Times, target: float) -> None:
    """Ratios over each peer, against the arrays and, for information, the packed form."""
    for peer, value in (("pin", times.pin), ("mujoco", times.mujoco)):
        if value is not None:
            report.ratio(f"{name} arrays / {peer}", value / times.arrays, target)
            report.ratio(f"{name} packed / {peer}", value / times.packed)


def measure(tree: Tree, model: Model, effort: Effort, report: Report) -> Times:
    """Times of one system, after every peer was found to agree."""
    kernel = model.compiled("acceleration")
    states = States.random(tree, model, effort.batch)
    p = model.parameter_vector()
    ours = kernel(states.q, states.v, states.u, p)[0]
    candidates: dict[str, Work] = {"arrays": lambda: kernel(states.q, states.v, states.u, p)}
    packed = pack(kernel, states, p)
    candidates["packed"] = packed.run
    few = states.rows(8)
    if "pin" not in report.missing:
        pin = Pinocchio(tree)
        check(f"pin, {tree.name}", ours[:8], pin.accelerations(few))
        candidates["pin"] = pin.batch(states)
    if "mujoco" not in report.missing:
        mujoco = MuJoCo(tree)
        check(f"mujoco, {tree.name}", ours[:8], mujoco.accelerations(few))
        candidates["mujoco"], candidates["mujoco call"] = mujoco.single(states, CALLS)
    times, count = best_times(candidates, effort), len(states.q)
    check(f"packed, {tree.name}", packed.results()[0][:count], ours)
    return Times(
        times["arrays"] / count * 1e9,
        times["packed"] / packed_states(packed) * 1e9,
        times["pin"] / count * 1e9 if "pin" in times else None,
        without_call(times, "mujoco", "mujoco call", CALLS) * 1e9 if "mujoco" in times else None,
    )


def pack(kernel: Kernel, states: States, p: np.ndarray) -> Packed:
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
