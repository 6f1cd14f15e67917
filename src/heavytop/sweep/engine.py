"""How a sweep is worked off in this process, and what it came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from heavytop.errors import SweepError
from heavytop.sweep.cases import Output, reason
from heavytop.sweep.measure import FAILED
from heavytop.sweep.progress import Bar
from heavytop.sweep.study import Study

Region = Sequence[slice]
Keep = Callable[[int, Output], None]


@dataclass
class Tally:
    """What a sweep came to: points, failed ones, chunks given up, seconds of work in all processes."""

    points: int = 0
    failed: int = 0
    given_up: int = 0
    seconds: float = 0.0
    causes: dict[str, int] = field(default_factory=dict)


def points_of(region: Region) -> int:
    """Number of points of a region."""
    return prod(s.stop - s.start for s in region)


def in_process(study: Study, regions: dict[int, Region], keep: Keep, give_up: Keep, bar: Bar) -> Tally:
    """Chunk after chunk, here; while one is computed, the one before it is written."""
    tally, begun = Tally(), time.process_time()
    with _Behind() as behind:
        for index, region in regions.items():
            try:
                output, end = study.compute(region), keep
            except (KeyboardInterrupt, SweepError):
                raise
            except Exception as error:
                output, end = Output.failed(points_of(region), reason(error)), give_up
                tally.given_up += 1
            behind.call(end, index, output)
            tell(tally, bar, points_of(region), int(np.sum(output.outcome == FAILED)))
    tally.seconds = time.process_time() - begun
    return tally


class _Behind:
    """Calls in another thread, one at a time: a call waits for the one before it, and raises what that one raised.

    At the end, also at that by an error or Ctrl-C, the last call is waited for: what was computed is kept.
    """

    def __init__(self) -> None:
        self._thread, self._last = ThreadPoolExecutor(1, "sweep-writer"), None

    def __enter__(self) -> _Behind:
        return self

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Begin a call."""
        if self._last is not None:
            self._last.result()
        self._last = self._thread.submit(function, *arguments)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._thread.shutdown(wait=True)
        if self._last is not None and kind is None:
            self._last.result()


def tell(tally: Tally, bar: Bar, points: int, failed: int) -> None:
    """So many more points are done, and so many of them failed."""
    tally.points += points
    tally.failed += failed
    bar.add(points, failed)
