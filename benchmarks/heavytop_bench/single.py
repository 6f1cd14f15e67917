"""Forward dynamics of single states, without lanes, as in a single simulation."""

from __future__ import annotations

from collections.abc import Sequence

from heavytop_bench.agreement import check
from heavytop_bench.forward import pack, packed_states
from heavytop_bench.measure import BenchEffort, Work, best_times
from heavytop_bench.peers import Peer, divide
from heavytop_bench.peers.base import AGREE
from heavytop_bench.report import BenchReport
from heavytop_bench.states import States
from heavytop_bench.trees import chain, panda, tricopter_load

TITLE = "forward dynamics of one state at a time in a native loop, ns"
TARGET = 5.0


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure the same systems as ``forward``."""
    present, missing = divide(peers, "single")
    report = BenchReport("single", TITLE, missing=missing)
    report.notes.append("heavytop: one lane, a native loop over states.")
    report.notes.append(
        "pin: pin.aba called from Python, minus the same call on a model without bodies (python_call_ns)."
    )
    for tree in (tricopter_load(), panda(), chain(20)):
        model = tree.derive()
        kernel = model.compiled("acceleration", lanes=1)
        states = States.random(tree, model, effort.batch)
        packed = pack(kernel, states, model.parameter_vector())
        candidates: dict[str, Work] = {"heavytop": packed.run}
        trials = {peer.name: peer.single(tree, states) for peer in present}
        packed.run()
        for name, trial in trials.items():
            check(f"{name}, {tree.name}", packed.results()[0][:AGREE], *trial.results)
            candidates |= trial.candidates(name)
        times = best_times(candidates, effort)
        ours = times["heavytop"] / packed_states(packed)
        row: dict[str, float | int | str] = {"system": tree.name, "heavytop_ns": ours * 1e9}
        for name, trial in trials.items():
            theirs = trial.seconds(times, name)
            row[f"{name}_ns"] = theirs * 1e9
            if trial.idle is not None:
                row["python_call_ns"] = times[f"{name} call"] / trial.evaluations * 1e9
            report.ratio(f"{tree.name} / {name}", theirs / ours, TARGET)
        report.row(**row)
    return report
