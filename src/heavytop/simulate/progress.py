"""A progress bar for long runs, only on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

DELAY = 1.0
"""Seconds before the bar appears."""


class Progress:
    """Shows the fraction done, once the run has lasted a second and the standard error is a terminal."""

    def __init__(self, title: str, enabled: bool | None = None) -> None:
        self.title = title
        self.enabled = enabled
        self._begin = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        return self

    def update(self, fraction: float) -> None:
        """Tell how much is done."""
        if self.enabled is False:
            return
        if self._bar is None:
            if time.perf_counter() - self._begin < DELAY:
                return
            if self.enabled is None:  # asked for only by runs that last
                self.enabled = sys.stderr.isatty()
            if not self.enabled:
                return
            self._bar = self._start()
        self._bar.update(self._task, completed=fraction)

    def _start(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        self._task = bar.add_task(self.title, total=1.0)
        return bar

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
