"""Derivatives of the forward dynamics by configuration, velocity and torque: the Panda compared with peers, and a chain of 20."""

from __future__ import annotations

from collections.abc import Sequence

from heavytop_bench.agreement import check
from heavytop_bench.forward import pack, packed_states
from heavytop_bench.measure import BenchEffort, Work, best_times
from heavytop_bench.peers import Peer, divide
from heavytop_bench.peers.base import AGREE
from heavytop_bench.report import BenchReport
from heavytop_bench.states import States
from heavytop_bench.trees import chain, panda

TITLE = "derivatives of the forward dynamics of a seven-joint arm in batch, ns per state"
TARGET = 12.0
CHAIN, CHAIN_TARGET = 20, 5.7
"""Links, and microseconds a state: half of the time of version 0.1.0."""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure ``acceleration_derivatives`` against ``computeABADerivatives``."""
    present, missing = divide(peers, "derivatives")
    report = BenchReport("derivatives", TITLE, missing=missing)
    tree = panda()
    model = tree.derive()
    kernel = model.compiled("acceleration_derivatives")
    states, p = States.random(tree, model, effort.batch), model.parameter_vector()
    packed = pack(kernel, states, p)
    candidates: dict[str, Work] = {"arrays": lambda: kernel(states.q, states.v, states.u, p), "packed": packed.run}
    trials, few = {peer.name: peer.derivatives(tree, states) for peer in present}, states.rows(AGREE)
    results = kernel(few.q, few.v, few.u, p)[1:]
    for name, trial in trials.items():
        for by, ours, theirs in zip(("q", "v", "u"), results, trial.results, strict=True):
            check(f"{name}, derivative by {by}", ours, theirs)
        candidates |= trial.candidates(name)
    times = best_times(candidates, effort)
    arrays, bare = times["arrays"] / len(states.q), times["packed"] / packed_states(packed)
    row: dict[str, float | int | str] = {
        "system": tree.name,
        "instructions": kernel.stats().instructions,
        "arrays_ns": arrays * 1e9,
        "packed_ns": bare * 1e9,
    }
    for name, trial in trials.items():
        theirs = trial.seconds(times, name)
        row[f"{name}_ns"] = theirs * 1e9
        report.ratio(f"panda arrays / {name}", theirs / arrays, TARGET)
        report.ratio(f"panda packed / {name}", theirs / bare)
    if "pin" in trials:
        report.notes.append(
            "pin: computeABADerivatives called from Python, minus the same call on a model without bodies."
        )
    report.row(**row)
    _chain(report, effort)
    return report


def _chain(report: BenchReport, effort: BenchEffort) -> None:
    """A chain, whose matrices are large."""
    tree = chain(3 if effort.seconds == 0 else CHAIN)
    model = tree.derive()
    kernel = model.compiled("acceleration_derivatives")
    states, p = States.random(tree, model, effort.batch), model.parameter_vector()
    packed = pack(kernel, states, p)
    works: dict[str, Work] = {"arrays": lambda: kernel(states.q, states.v, states.u, p), "packed": packed.run}
    times = best_times(works, effort)
    arrays = times["arrays"] / len(states.q)
    report.row(
        system=tree.name,
        instructions=kernel.stats().instructions,
        arrays_ns=arrays * 1e9,
        packed_ns=times["packed"] / packed_states(packed) * 1e9,
    )
    report.limit(f"{tree.name}, a state", arrays * 1e6, CHAIN_TARGET, "us")
