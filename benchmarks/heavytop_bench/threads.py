"""Two threads over a large batch."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np

from heavytop_bench.agreement import check
from heavytop_bench.measure import BenchEffort, best_times
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport
from heavytop_bench.states import States
from heavytop_bench.trees import tricopter_load

TITLE = "a large batch on one and on two threads, time per state"
TARGET = 1.8
BATCHES = 32
"""Length of the batch relative to that of the other benchmarks."""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure the tricopter with load; no peer takes part."""
    report = BenchReport("threads", TITLE)
    tree = tricopter_load()
    model = tree.derive()
    states, p = States.random(tree, model, effort.batch * BATCHES), model.parameter_vector()
    kernels = {f"{n} thread{'s' * (n > 1)}": model.compiled("acceleration", threads=n) for n in (1, 2)}
    calls = {name: lambda k=kernel: k(states.q, states.v, states.u, p) for name, kernel in kernels.items()}
    one, two = (np.asarray(call()[0]) for call in calls.values())
    check("two threads", two, one)
    before = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    times = best_times(calls, effort, clock=time.perf_counter)
    work = best_times(calls, effort)
    for name, seconds in times.items():
        per_state = 1e9 / len(states.q)
        report.row(threads=name, states=len(states.q), wall_ns=seconds * per_state, cpu_ns=work[name] * per_state)
    report.ratio("two threads / one", times["1 thread"] / times["2 threads"], TARGET)
    if before is not None:
        busy = "; other programs are running, so the ratio is unreliable" if before > 0.7 else ""
        report.notes.append(f"wall time; load average {before:.2f} on {os.cpu_count()} cores when it began{busy}.")
    return report
