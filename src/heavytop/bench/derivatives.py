"""Derivatives of the forward dynamics of the Panda by configuration, velocity and torque."""

from __future__ import annotations

from heavytop.bench.agreement import check
from heavytop.bench.forward import pack, packed_states
from heavytop.bench.measure import Effort, Work, best_times, without_call
from heavytop.bench.peers import Pinocchio, missing
from heavytop.bench.report import Report
from heavytop.bench.states import States
from heavytop.bench.trees import panda

TITLE = "derivatives of the forward dynamics of a seven-joint arm in batch, ns per state"
TARGET = 5.0
CALLS = 20


def run(effort: Effort) -> Report:
    """Measure ``acceleration_derivatives`` against ``computeABADerivatives``."""
    report = Report("derivatives", TITLE, missing=missing("pin"))
    tree = panda()
    model = tree.derive()
    kernel = model.compiled("acceleration_derivatives")
    states, p = States.random(tree, model, effort.batch), model.parameter_vector()
    packed = pack(kernel, states, p)
    candidates: dict[str, Work] = {"arrays": lambda: kernel(states.q, states.v, states.u, p), "packed": packed.run}
    if not report.missing:
        pin, few = Pinocchio(tree), states.rows(8)
        results = kernel(few.q, few.v, few.u, p)[1:]
        for name, ours, theirs in zip(("by q", "by v", "by u"), results, pin.derivatives(few), strict=True):
            check(f"pin, derivative {name}", ours, theirs)
        candidates["pin"], candidates["pin call"] = pin.single(states, "computeABADerivatives", CALLS)
    times = best_times(candidates, effort)
    arrays, bare = times["arrays"] / len(states.q), times["packed"] / packed_states(packed)
    row: dict[str, float | int | str] = {
        "system": tree.name,
        "instructions": kernel.stats().instructions,
        "arrays_ns": arrays * 1e9,
        "packed_ns": bare * 1e9,
    }
    if "pin" in times:
        theirs = without_call(times, "pin", "pin call", CALLS)
        row["pin_ns"] = theirs * 1e9
        report.ratio("panda arrays / pin", theirs / arrays, TARGET)
        report.ratio("panda packed / pin", theirs / bare)
        report.notes.append(
            "pin: computeABADerivatives called from Python, minus the same call on a model without bodies."
        )
    report.row(**row)
    return report
