"""Loop rolling: repetitions in a long program, as equal links of a chain do the same operations on other values.

A program that is cut where it repeats has many parts of the same text, apart from the places of their values and their constants, which
then come from a table (:func:`.llvm.emit`). Each text is compiled once. The cuts are only a proposal: parts whose texts differ
are compiled separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from heavytop.compile.program import Op, Program

ROLL_ABOVE = 40_000
"""Programs of more instructions are cut where they repeat; shorter ones are compiled in a few seconds anyway."""
WINDOW = 32
"""Consecutive operations that identify a place of a program."""


def repeating_bounds(program: Program, size: int) -> list[int] | None:
    """Cuts of a program into parts of about ``size`` instructions, many of them equal; None if it is short or does not repeat.

    >>> from heavytop.compile.program import Instruction
    >>> code = [Instruction(Op.INPUT, (0, 0)), Instruction(Op.INPUT, (0, 1))]
    >>> for k in range(2, 60_002):
    ...     code.append(Instruction(Op.MUL if k % 50 else Op.SIN, (k - 1, k - 2) if k % 50 else (k - 1,)))
    >>> bounds = repeating_bounds(Program("f", tuple(code), (2,), ((len(code) - 1,),)), 1000)
    >>> {b - a for a, b in pairwise(bounds[1:-1])}
    {1000}
    """
    if len(program.code) <= ROLL_ABOVE:
        return None
    computing = [k for k, instruction in enumerate(program.code) if instruction.op not in (Op.INPUT, Op.CONST)]
    shapes = _shapes(program, computing)
    cuts = _cuts(shapes, size)
    if cuts is None:
        return None
    # inputs and constants are placed where they are first needed; they are not part of any text
    return [0, *(computing[i] for i in cuts if 0 < i < len(computing)), len(program.code)]


def _shapes(program: Program, computing: Sequence[int]) -> list[int]:
    """The kind of each operation, without the origin of its values, as a number."""
    known: dict[tuple[object, ...], int] = {}
    code = program.code
    kinds = [1 if i.op is Op.INPUT else 2 if i.op is Op.CONST else 0 for i in code]
    found = []
    for k in computing:
        op, args, _ = code[k]
        shape = (op, *[kinds[a] for a in args])
        found.append(known.setdefault(shape, len(known)))
    return found


def _cuts(shapes: Sequence[int], size: int) -> list[int] | None:
    """Greedy from the start: at each place the stretch repeated most, else a part of the usual size."""
    following = _following(shapes)
    total, at, plain = len(shapes), 0, 0
    cuts: list[int] = []
    found = False
    while at < total:
        period = following.get(at)
        stop = at
        if period is not None and period <= 2 * size:
            while stop + period < total and shapes[stop] == shapes[stop + period]:
                stop += 1
        if period is None or stop - at < max(period, size // 4):
            at += 1
            continue
        length = period * max(round(size / period), 1)
        whole = (stop + period - at) // length
        if whole < 2:
            at += 1
            continue
        cuts += _equal_cuts(plain, at, size)
        cuts += [at + k * length for k in range(whole + 1)]
        at = plain = at + whole * length
        found = True
    return [*cuts, *_equal_cuts(plain, total, size)] if found else None


def _equal_cuts(start: int, stop: int, size: int) -> list[int]:
    """Cuts inside a stretch without repetitions."""
    parts = max(-(-(stop - start) // size), 1)
    return [start + (stop - start) * j // parts for j in range(1, parts)]


def _following(shapes: Sequence[int]) -> dict[int, int]:
    """Distance from each place to the next one where the same operations begin."""
    places: dict[tuple[int, ...], list[int]] = {}
    for i in range(len(shapes) - WINDOW):
        places.setdefault(tuple(shapes[i : i + WINDOW]), []).append(i)
    return {a: b - a for rows in places.values() for a, b in pairwise(rows)}
