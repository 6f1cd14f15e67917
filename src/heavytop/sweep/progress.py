"""How far a sweep is: a bar with rate and time left on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any


class Bar:
    """Points done of all, how many a second, the time left, and how many failed."""

    def __init__(self, points: int, done: int, enabled: bool | None = None) -> None:
        self.points, self.done, self.failed = points, done, 0
        self.enabled = sys.stderr.isatty() if enabled is None else enabled
        self._begun, self._first = time.perf_counter(), done
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        if self.enabled:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("sweep"), BarColumn(), TextColumn("{task.fields[text]}"), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("sweep", total=self.points, completed=self.done, text=self.text())
        return self

    def text(self) -> str:
        """Points and rate in words."""
        rate = (self.done - self._first) / max(time.perf_counter() - self._begun, 1e-9)
        failed = f", {self.failed:,} failed" if self.failed else ""
        told = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
        return f"{self.done:,} of {self.points:,} points, {told} a second{failed}"

    def add(self, points: int, failed: int = 0) -> None:
        """So many more are done."""
        self.done += points
        self.failed += failed
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, text=self.text())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
