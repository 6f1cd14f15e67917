"""The progress bar of simulations, plans and sweeps: on standard error, only on a terminal, only for work that lasts."""

from __future__ import annotations

import sys
import time
from typing import Any

DELAY = 1.0
"""Seconds before the bar appears."""


class Progress:
    """A bar with a title, an optional text and the time left.

    Parameters
    ----------
    enabled : None: if standard error is a terminal.
    total, completed : amount of work, and the part of it that is done at the start.
    """

    def __init__(self, title: str, enabled: bool | None = None, total: float = 1.0, completed: float = 0.0) -> None:
        self.title, self.enabled, self.total, self.completed = title, enabled, total, completed
        self._begin = time.perf_counter()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def update(self, completed: float, text: str = "") -> None:
        """Show the completed part of the total."""
        if self.enabled is False:
            return
        if self._bar is None:
            if time.perf_counter() - self._begin < DELAY:
                return
            if self.enabled is None:
                self.enabled = sys.stderr.isatty()
            if not self.enabled:
                return
            self._bar = self._started()
        self._bar.update(self._bar.task_ids[0], completed=completed, text=text)

    def _started(self) -> Any:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress as RichProgress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        texts = TextColumn("{task.description}"), TextColumn("{task.fields[text]}")
        columns = (texts[0], BarColumn(), TaskProgressColumn(), texts[1], TimeRemainingColumn())
        bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        bar.add_task(self.title, total=self.total, completed=self.completed, text="")  # pyright: ignore
        return bar

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
