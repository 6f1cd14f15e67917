"""Two threads over a large batch."""

from __future__ import annotations

import os
import time

import numpy as np

from heavytop.bench.agreement import check
from heavytop.bench.measure import Effort, best_times
from heavytop.bench.report import Report
from heavytop.bench.states import States
from heavytop.bench.trees import tricopter_load

TITLE = "a large batch on one and on two threads, wall time per state"
TARGET = 1.8
BATCHES = 32
"""The batch is so many times longer than that of the other benchmarks."""


def run(effort: Effort) -> Report:
    """Measure the tricopter with load."""
    report = Report("threads", TITLE)
    tree = tricopter_load()
    model = tree.derive()
    states, p = States.random(tree, model, effort.batch * BATCHES), model.parameter_vector()
    kernels = {f"{n} thread{'s' * (n > 1)}": model.compiled("acceleration", threads=n) for n in (1, 2)}
    calls = {name: lambda k=kernel: k(states.q, states.v, states.u, p) for name, kernel in kernels.items()}
    one, two = (np.asarray(call()[0]) for call in calls.values())
    check("two threads", two, one)
    before = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    times = best_times(calls, effort, clock=time.perf_counter)
    for name, seconds in times.items():
        report.row(threads=name, states=len(states.q), wall_ns=seconds / len(states.q) * 1e9)
    report.ratio("two threads / one", times["1 thread"] / times["2 threads"], TARGET)
    if before is not None:
        report.notes.append(
            f"wall time: it depends on what else runs; load average {before:.2f} on {os.cpu_count()} cores when it began."
        )
    return report
