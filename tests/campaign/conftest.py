"""The campaign of faults: how much of it runs, and the table of tries and failures that it prints.

``pytest -m campaign`` runs all of it, in one to two hours on two cores (``-n 2``); with ``HEAVYTOP_CAMPAIGN=slice`` in the environment a
slice of about four minutes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

import pytest

SLICE = os.environ.get("HEAVYTOP_CAMPAIGN") == "slice"
Record = Callable[[str, int, Sequence[str]], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "campaign" in item.path.parts:
            item.add_marker(pytest.mark.campaign)


@pytest.fixture
def size() -> Callable[[int, int], int]:
    """``size(full, slice)``: how many tries this time."""
    return lambda full, part: part if SLICE else full


def processor() -> float:
    """Seconds of the processor that this process and the ended ones that it started have taken."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Record:
    """``record(row, tries, failures)``: a row of the table; the test fails if there are failures."""
    begun = processor()

    def note(row: str, tries: int, failures: Sequence[str]) -> None:
        nonlocal begun
        begun, before = processor(), begun
        record_property("campaign", json.dumps([row, tries, len(failures), begun - before]))
        assert tries > 0
        assert not failures, f"{len(failures)} of {tries}, for example:\n" + "\n".join(failures[:10])

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows: dict[str, list[float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key == "campaign" and getattr(report, "when", "") == "call":
                    row, *numbers = json.loads(str(value))
                    rows[row] = [a + b for a, b in zip(rows.get(row, [0, 0, 0.0]), numbers, strict=True)]
    if rows:
        terminalreporter.section("campaign")
        terminalreporter.write_line("| what | tries | failures | processor, s |")
        terminalreporter.write_line("| --- | ---: | ---: | ---: |")
        for row, (tries, failures, seconds) in sorted(rows.items()):
            terminalreporter.write_line(f"| {row} | {tries:,} | {failures:,} | {seconds:,.0f} |")
