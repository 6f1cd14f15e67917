"""The calls of a step by phase, and where their buffers lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heavytop.compile.schedule import STEP, TIME, Call, Layout, Schedule


@dataclass(frozen=True)
class Phases:
    """The calls of a step by phase; see :mod:`heavytop.compile.schedule`."""

    sample: tuple[Call, ...]
    observe: tuple[Call, ...]
    advance: tuple[Call, ...]

    @classmethod
    def cut(cls, calls: Sequence[Call], schedule: Schedule) -> Phases:
        """The phases of a schedule from its calls in order, some of which were changed."""
        first, second = len(schedule.sample), len(schedule.sample) + len(schedule.observe)
        return cls(tuple(calls[:first]), tuple(calls[first:second]), tuple(calls[second:]))

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls in the order of the step."""
        return (*self.sample, *self.observe, *self.advance)


_COPY = "\0copy"  # no name of a buffer ends so


def copy_of(name: str) -> str:
    """Name of the copy of a buffer."""
    return name + _COPY


def lasting_buffers(layout: Layout) -> tuple[str, ...]:
    """Buffers that are given or read from outside the calls of a step."""
    return (*layout.persistent, *layout.constants, *layout.tables, *layout.record)


def place_buffers(layout: Layout, calls: Sequence[Call]) -> tuple[dict[str, int], int]:
    """Places of the buffers (but for the clocks) in the area of a group, and its size, both counted in vectors.

    What lives only within a step shares its place with others before and after it: the area should fit into the cache. A call that
    overwrites what it reads works on a copy, whose name is :func:`copy_of` that of the buffer.
    """
    spans = {name: (-1, len(calls)) for name in lasting_buffers(layout)}
    for k, call in enumerate(calls):
        copies = [copy_of(name) for name in call.outputs if name in call.inputs]
        for name in (*call.inputs, *call.outputs, *copies):
            spans[name] = (min(spans.get(name, (k, k))[0], k), max(spans.get(name, (k, k))[1], k))
    offsets: dict[str, int] = {}
    end = 0
    for name, (first, last) in spans.items():
        if name in (TIME, STEP):
            continue
        size = layout.size(name.removesuffix(_COPY))
        others = (
            (o, layout.size(n.removesuffix(_COPY)))
            for n, o in offsets.items()
            if spans[n][1] >= first and spans[n][0] <= last
        )
        offset = 0
        for start, length in sorted(others):
            if start >= offset + size:
                break
            offset = max(offset, start + length)
        offsets[name] = offset
        end = max(end, offset + size)
    return offsets, end
