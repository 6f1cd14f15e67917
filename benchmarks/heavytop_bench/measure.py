"""Timing on a machine with other work: alternating short blocks, the best of many, on the clock of the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Work = Callable[[], object]


@dataclass(frozen=True)
class BenchEffort:
    """Effort of a benchmark.

    Attributes
    ----------
    seconds : wall time of one round-robin measurement.
    block : seconds of work between two readings of the clock.
    rounds : least number of rounds over all candidates.
    batch : states of a batch.
    lengths : numbers of links of the chains.
    progress : called with a line of text for each result of a benchmark that takes minutes.

    Examples
    --------
    >>> BenchEffort(seconds=1.0).batch == BenchEffort().batch
    True
    """

    seconds: float = 4.0
    block: float = 1e-3
    rounds: int = 20
    batch: int = 4096
    lengths: tuple[int, ...] = (5, 10, 20, 40, 80)
    progress: Callable[[str], None] = field(default=lambda text: None, compare=False)

    @classmethod
    def tiny(cls) -> BenchEffort:
        """The least effort that runs everything; the times are meaningless."""
        return cls(seconds=0.0, block=1e-5, rounds=1, batch=10, lengths=(5, 6))


def best_times(
    candidates: Mapping[str, Work], effort: BenchEffort, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Seconds per call of each candidate: the least over alternating blocks, so that disturbances affect all equally.

    The first call of a block is not timed: it warms the caches after the previous candidate.

    >>> ticks = iter(range(1000))
    >>> best_times({"one tick a call": lambda: None}, BenchEffort.tiny(), clock=lambda: next(ticks))
    {'one tick a call': 1.0}
    """
    repeats = {name: _repeats(work, effort.block, clock) for name, work in candidates.items()}
    best = dict.fromkeys(candidates, float("inf"))
    end, rounds = time.perf_counter() + effort.seconds, 0
    while rounds < effort.rounds or time.perf_counter() < end:
        rounds += 1
        for name, work in candidates.items():
            work()
            start = clock()
            for _ in range(repeats[name]):
                work()
            best[name] = min(best[name], (clock() - start) / repeats[name])
    return best


def _repeats(work: Work, block: float, clock: Callable[[], float]) -> int:
    work()
    count = 1
    while True:
        start = clock()
        for _ in range(count):
            work()
        spent = clock() - start
        if spent >= block / 2 or count >= 1_000_000:
            return max(1, round(count * block / spent)) if spent > 0 else count
        count *= 4
