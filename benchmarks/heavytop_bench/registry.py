"""All benchmarks by name. A new one is a module with ``TITLE`` and ``run(effort, peers) -> Report``, named here.

One that takes minutes may have ``PARTS``; ``name:part`` runs ``run(effort, peers, (part,))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from heavytop.errors import unknown_name
from heavytop_bench.machine import describe, other_work
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport, whole

BENCHMARKS = {
    "forward": "heavytop_bench.forward",
    "robots": "heavytop_bench.robots",
    "inverse-kinematics": "heavytop_bench.inverse_kinematics",
    "single": "heavytop_bench.single",
    "scaling": "heavytop_bench.scaling",
    "derivatives": "heavytop_bench.derivatives",
    "gradients": "heavytop_bench.gradients",
    "threads": "heavytop_bench.threads",
    "ready": "heavytop_bench.ready",
    "calls": "heavytop_bench.calls",
    "free-body": "heavytop_bench.free_body",
    "simulate": "heavytop_bench.simulate",
    "sweep": "heavytop_bench.sweep",
    "fly": "heavytop_bench.fly",
    "env": "heavytop_bench.env",
    "plan": "heavytop_bench.plan",
    "laws": "heavytop_bench.laws",
    "live": "heavytop_bench.live",
    "estimate": "heavytop_bench.estimate",
    "contact": "heavytop_bench.contact",
}


def title(name: str) -> str:
    """The title of a benchmark."""
    return _module(name).TITLE


def parts(name: str) -> tuple[str, ...]:
    """Parts of a benchmark that can be run alone, as ``name:part``.

    >>> parts("plan")
    ('problems', 'speed', 'peers', 'tracked', 'predictive')
    """
    return getattr(_module(name), "PARTS", ())


def _module(name: str) -> Any:
    name, _, part = name.partition(":")
    if name not in BENCHMARKS:
        raise unknown_name("benchmark", name, BENCHMARKS)
    module = import_module(BENCHMARKS[name])
    if part and part not in getattr(module, "PARTS", ()):
        raise unknown_name(f"part of the benchmark {name!r}", part, getattr(module, "PARTS", ()))
    return module


def run(name: str, effort: BenchEffort | None = None, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Run one benchmark with the ``peers`` (default: the known ones) that support it.

    >>> run("forward", BenchEffort.tiny(), peers=()).rows[0]["system"]
    'tricopter-load'
    """
    busy = other_work()
    part = name.partition(":")[2]
    report = _module(name).run(effort or BenchEffort(), peers, *([(part,)] if part else []))
    if busy:
        report.notes.append(busy)
    return report


def run_all(
    names: Sequence[str] = (),
    effort: BenchEffort | None = None,
    on_report: Callable[[BenchReport], None] | None = None,
    peers: Sequence[Peer] | None = None,
) -> dict[str, Any]:
    """Run benchmarks (all without names) and return one JSON object; ``on_report`` is called with each finished report.

    >>> run_all(["forwrad"])
    Traceback (most recent call last):
    ...
    heavytop.errors.UnknownNameError: unknown benchmark 'forwrad'. Did you mean 'forward'? ...
    """
    for name in names:
        _module(name)
    machine, reports = describe(), {}
    for report in _reports(names or tuple(BENCHMARKS), effort, peers):
        reports[report.name] = report
        if on_report is not None:
            on_report(report)
    return whole(reports, machine)


def _reports(names: Sequence[str], effort: BenchEffort | None, peers: Sequence[Peer] | None) -> Iterator[BenchReport]:
    for name in names:
        yield run(name, effort, peers)
