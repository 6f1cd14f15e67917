"""Copy propagation: an output equal to an input is replaced by it.

For example, the motion function of a system returns the velocities of its joints, which for most systems are its velocity coordinates.
Such an output needs neither instructions nor memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from heavytop.compile.program import Op, Program
from heavytop.compile.schedule import Call


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
