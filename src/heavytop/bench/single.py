"""Forward dynamics of one state after the other, without lanes: what a single simulation sees."""

from __future__ import annotations

from heavytop.bench.agreement import check
from heavytop.bench.forward import pack, packed_states
from heavytop.bench.measure import Effort, Work, best_times, without_call
from heavytop.bench.peers import Pinocchio, missing
from heavytop.bench.report import Report
from heavytop.bench.states import States
from heavytop.bench.trees import chain, panda, tricopter_load

TITLE = "forward dynamics of one state at a time in a native loop, ns"
TARGET = 5.0
CALLS = 50


def run(effort: Effort) -> Report:
    """Measure the same systems as ``forward``."""
    report = Report("single", TITLE, missing=missing("pin"))
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
        if not report.missing:
            pin, few = Pinocchio(tree), states.rows(8)
            packed.run()
            check(f"pin, {tree.name}", packed.results()[0][: len(few.q)], pin.accelerations(few))
            candidates["pin"], candidates["pin call"] = pin.single(states, "aba", CALLS)
        times = best_times(candidates, effort)
        ours = times["heavytop"] / packed_states(packed)
        row: dict[str, float | int | str] = {"system": tree.name, "heavytop_ns": ours * 1e9}
        if "pin" in times:
            theirs = without_call(times, "pin", "pin call", CALLS)
            row |= {"pin_ns": theirs * 1e9, "python_call_ns": times["pin call"] / CALLS * 1e9}
            report.ratio(f"{tree.name} / pin", theirs / ours, TARGET)
        report.row(**row)
    return report
