"""The calls of a step by phase, and the places of their buffers in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from heavytop.compile.program import Op, Program
from heavytop.compile.schedule import STEP, TIME, Call, Item, Layout, Schedule, in_order


@dataclass(frozen=True)
class Phases:
    """The calls of a step by phase; see :mod:`heavytop.compile.schedule`."""

    sample: tuple[Item, ...]
    observe: tuple[Item, ...]
    advance: tuple[Item, ...]

    @classmethod
    def cut(cls, calls: Sequence[Call], schedule: Schedule) -> Phases:
        """The phases of a schedule from its (changed) calls in two rounds (:func:`.in_order`)."""
        rest = iter(calls)
        return cls(*(_with_calls(items, rest) for items in (schedule.sample, schedule.observe, schedule.advance)))

    @property
    def items(self) -> tuple[Item, ...]:
        """All calls and repetitions in the order of the step."""
        return (*self.sample, *self.observe, *self.advance)

    @property
    def calls(self) -> list[Call]:
        """All calls in the order of the step, repeated ones twice."""
        return in_order(self.items, 2)


def _with_calls(items: Sequence[Item], rest: Iterator[Call]) -> tuple[Item, ...]:
    """The items with their calls replaced by the next ones of two rounds."""
    result: list[Item] = []
    for item in items:
        if isinstance(item, Call):
            result.append(next(rest))
        else:
            first = _with_calls(item.body, rest)
            _with_calls(item.body, rest)  # the second round
            result.append(replace(item, body=first))
    return tuple(result)


_COPY = "\0copy"  # not the end of any name of a buffer


def copy_of(name: str) -> str:
    """Name of the copy of a buffer."""
    return name + _COPY


def lasting_buffers(layout: Layout) -> tuple[str, ...]:
    """Buffers that are read or written outside the calls of a step."""
    return (*layout.persistent, *layout.constants, *layout.tables, *layout.record)


def place_buffers(layout: Layout, calls: Sequence[Call]) -> tuple[dict[str, int], int]:
    """Places of the buffers (but for the clocks) in the area of a group, and its size, both counted in vectors.

    Buffers that live only within a step share places with earlier and later ones, since the area should fit into the cache. A call that
    overwrites one of its inputs works on a copy (:func:`copy_of`).
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


# --- copy propagation: an output equal to an input is replaced by it -------------------------------------------------------


def without_copies(
    programs: Mapping[str, Program], calls: Sequence[Call], lasting: Collection[str]
) -> tuple[dict[str, Program], list[Call]]:
    """Programs and calls in which copies of buffers are replaced by the originals; ``lasting`` buffers are kept."""
    programs, calls = dict(programs), list(calls)
    for name in programs:
        for output, source in reversed(_repeated(programs[name])):
            replaced = _replaced_everywhere(name, calls, output, source, lasting)
            if replaced is not None:
                programs[name], calls = _without_output(programs[name], output), replaced
    return programs, calls


def _replaced_everywhere(
    name: str, calls: list[Call], output: int, source: int, lasting: Collection[str]
) -> list[Call] | None:
    """The calls without an output of one function; None if one of its calls must keep it.

    One call at a time, as the source of one may be the output of another.
    """
    for k, call in enumerate(calls):
        if call.function == name:
            if not _replaceable(calls, k, output, source, lasting):
                return None
            calls = _replaced(calls, k, output, source)
    return calls


def _repeated(program: Program) -> list[tuple[int, int]]:
    """Outputs that are a whole input, with that input."""
    found = []
    for i, values in enumerate(program.outputs):
        entries = [program.code[v] for v in values]
        if values and all(e.op is Op.INPUT for e in entries):
            source = entries[0].args[0]
            if [e.args for e in entries] == [(source, j) for j in range(program.input_sizes[source])]:
                found.append((i, source))
    return found


def _replaceable(calls: Sequence[Call], k: int, output: int, source: int, lasting: Collection[str]) -> bool:
    """Whether the readers of an output of call ``k`` can read its input instead."""
    old, new = calls[k].outputs[output], calls[k].inputs[source]
    readers = [j for j, call in enumerate(calls) if old in call.inputs]
    writers = [j for j, call in enumerate(calls) if old in call.outputs]
    if old in lasting or writers != [k] or any(j <= k for j in readers):
        return False
    span = range(k, max(readers, default=k))  # the last reader may overwrite the input: it reads before it writes
    return all(new not in calls[j].outputs for j in span)


def _replaced(calls: Sequence[Call], k: int, output: int, source: int) -> list[Call]:
    old, new = calls[k].outputs[output], calls[k].inputs[source]
    renamed = [replace(call, inputs=tuple(new if name == old else name for name in call.inputs)) for call in calls]
    renamed[k] = replace(renamed[k], outputs=calls[k].outputs[:output] + calls[k].outputs[output + 1 :])
    return renamed


def _without_output(program: Program, output: int) -> Program:
    return replace(program, outputs=program.outputs[:output] + program.outputs[output + 1 :])
