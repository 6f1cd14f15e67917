"""Chunks of a sweep computed in this process, and the count of its points."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from heavytop._progress import Progress
from heavytop.errors import SweepError
from heavytop.sweep.cases import Output, reason
from heavytop.sweep.grid import Chunks
from heavytop.sweep.measure import FAILED
from heavytop.sweep.study import Study

Keep = Callable[[int, Output, bool], None]
"""Keeps the output of a chunk, by its index; the last argument: whether the chunk was given up."""


class Tally:
    """Completed and failed points of a sweep, shown as a bar."""

    def __init__(self, points: int, done: int = 0, progress: bool | None = None) -> None:
        self.points, self.done, self.failed = points, done, 0
        self._begin, self._first = time.perf_counter(), done
        self._bar = Progress("sweep", progress, points, done)

    def __enter__(self) -> Tally:
        return self

    def add(self, points: int, failed: int) -> None:
        """Count points of a chunk that is done."""
        self.done += points
        self.failed += failed
        rate = (self.done - self._first) / max(time.perf_counter() - self._begin, 1e-9)
        failures = f", {self.failed:,} failed" if self.failed else ""
        shown = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
        self._bar.update(self.done, f"{self.done:,} of {self.points:,} points, {shown} per second{failures}")

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)


def in_process(study: Study, chunks: Chunks, indices: Iterable[int], keep: Keep, tally: Tally) -> None:
    """Compute chunk after chunk; while one is computed, the previous one is written."""
    with _Writer() as writer:
        for index in indices:
            given_up = False
            try:
                output = study.compute(chunks.region(index))
            except SweepError:
                raise
            except Exception as error:
                output, given_up = Output.failed(chunks.points(index), reason(error)), True
            writer.call(keep, index, output, given_up)
            tally.add(chunks.points(index), int(np.sum(output.outcome == FAILED)))


class _Writer:
    """Calls in another thread, one at a time: a call waits for the previous one and raises its error.

    On exit, also by an error or Ctrl-C, the last call is completed: computed chunks are kept.
    """

    def __init__(self) -> None:
        self._thread, self._last = ThreadPoolExecutor(1, "sweep-writer"), None

    def __enter__(self) -> _Writer:
        return self

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._last is not None:
            self._last.result()
        self._last = self._thread.submit(function, *arguments)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._thread.shutdown(wait=True)
        if self._last is not None and kind is None:
            self._last.result()
