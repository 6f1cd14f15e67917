"""Chains of growing length: program size, time to trace, to compile and to run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heavytop.compile import Cache, Kernel
from heavytop.system import Model
from heavytop_bench.forward import add_ratios, columns, measure
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer, divide
from heavytop_bench.report import BenchReport
from heavytop_bench.trees import Tree, chain

TITLE = "chains of n links: program, compilation and run time"
TARGETS = {"pin": 10.0}
"""Peers whose algorithm is linear in n, too; the others are listed only."""
EXPONENT = 1.15
COMPILE_LIMIT = 6.0
LONG, LONG_LIMIT = 400, 12.0
"""Links of a long chain, whose parts repeat, and seconds of its compilation."""
FIT_FROM = 10
"""Shortest chain that enters the fitted exponents."""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure all lengths and fit how the figures grow with n."""
    present, missing = divide(peers, "forward")
    report = BenchReport("scaling", TITLE, missing=missing)
    report.notes.append("seconds of trace and compile are CPU seconds, the best of three, without any cache.")
    report.notes.append("exponents: fitted to n >= 10. MuJoCo, whose algorithm is not linear in n, has no target here.")
    effort = replace(effort, batch=-(-effort.batch // 4))  # the states of long chains would not fit into the caches
    figures: dict[str, list[float]] = {"instructions": [], "trace": [], "compile": [], "run": []}
    for n in effort.lengths:
        tree = chain(n)
        model, kernel, seconds = _build(tree, repeats=3 if effort.seconds else 1)
        times = measure(tree, model, effort, present)
        instructions = kernel.stats().instructions
        for name, value in zip(figures, (instructions, *seconds, times.arrays), strict=True):
            figures[name].append(value)
        report.row(
            n=n,
            instructions=instructions,
            trace_s=figures["trace"][-1],
            compile_s=figures["compile"][-1],
            **columns(times),
        )
        add_ratios(report, tree.name, times, TARGETS)
    _fit(report, effort.lengths, figures)
    if effort.seconds:
        _, kernel, (trace, compilation) = _build(chain(LONG), repeats=1)
        report.row(n=LONG, instructions=kernel.stats().instructions, trace_s=trace, compile_s=compilation)
        report.limit(f"compile chain-{LONG}", compilation, LONG_LIMIT, "s")
    return report


def _build(tree: Tree, repeats: int) -> tuple[Model, Kernel, tuple[float, float]]:
    """A model and its kernel, with the least CPU seconds of tracing and of compiling."""
    trace = compilation = float("inf")
    for _ in range(repeats):
        model = tree.derive()
        start = time.process_time()
        traced = model.traced("acceleration")
        traced_at = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            kernel = Kernel(traced, cache=Cache(folder))
        trace, compilation = min(trace, traced_at - start), min(compilation, time.process_time() - traced_at)
    return model, kernel, (trace, compilation)


def _fit(report: BenchReport, lengths: tuple[int, ...], figures: dict[str, list[float]]) -> None:
    """Exponents of growth, least squares of the logarithms."""
    long = [k for k, n in enumerate(lengths) if n >= FIT_FROM]
    if len(long) < 2:
        long = list(range(len(lengths)))
    x = np.log([lengths[k] for k in long])
    for name, values in figures.items():
        slope = np.polyfit(x, np.log([max(values[k], 1e-9) for k in long]), 1)[0]
        report.limit(f"exponent of {name}", float(slope), EXPONENT, "")
    report.limit(f"compile chain-{lengths[-1]}", figures["compile"][-1], COMPILE_LIMIT, "s")
