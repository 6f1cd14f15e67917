"""The order of a program that is cut into parts: as few values as possible wait in memory.

A traced program lists a value where it is first needed. Recursions over a tree then keep the values of every body until the recursion returns, and
for a long chain these exceed the first level of the cache. Two other orders are built from the end of the program backwards, and the
one with the fewest waiting values is taken. Every instruction keeps its arguments, so the results are the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from heavytop.compile.program import LEAVES, Instruction, Op, Program


def reordered(program: Program, order: Sequence[int]) -> Program:
    """The program in another order, in which arguments precede their readers."""
    number = {k: i for i, k in enumerate(order)}
    code = []
    for op, args, value in (program.code[k] for k in order):
        code.append(Instruction(op, args if op is Op.INPUT else tuple([number[a] for a in args]), value))
    outputs = tuple(tuple([number[v] for v in values]) for values in program.outputs)
    return replace(program, code=tuple(code), outputs=outputs)


def waiting(program: Program, last: Sequence[int] | None = None) -> list[int]:
    """Number of values that wait for their last reader before each instruction; inputs and constants are loaded again where needed."""
    change = [0] * (len(program.code) + 1)
    for k, end in enumerate(program.last_use if last is None else last):
        if program.code[k].op not in LEAVES:
            change[k + 1] += 1
            change[end + 1] -= 1
    return list(accumulate(change))


def with_few_waiting(program: Program) -> Program:
    """The program in the order in which the fewest values wait on average.

    Choices keep their places: values computed only for one side of a choice must stay together (:mod:`heavytop.compile.passes.lazy_branches`).

    >>> code = [Instruction(Op.INPUT, (0, k)) for k in range(5)] + [Instruction(Op.SQRT, (k,)) for k in range(5)]
    >>> code += [Instruction(Op.MUL, (5 if k == 6 else k + 3, k)) for k in range(6, 10)]  # all roots first, then their product
    >>> program = Program("f", tuple(code), (5,), ((13,),))
    >>> max(waiting(program)), max(waiting(with_few_waiting(program)))
    (5, 2)
    """
    if any(instruction.op is Op.SELECT for instruction in program.code):
        return program
    height, depth = _heights(program), _depths(program)
    found = [
        program,
        reordered(program, _backwards(program, lambda k, _: (height[k], -k))),
        reordered(program, _backwards(program, lambda k, turn: (-turn, depth[k]))),
    ]
    return min(found, key=lambda p: sum(waiting(p)))


def _heights(program: Program) -> list[int]:
    """Longest path from each instruction to an output."""
    height = [0] * len(program.code)
    for k in range(len(program.code) - 1, -1, -1):
        op, args, _ = program.code[k]
        if op is not Op.INPUT:
            for a in args:
                height[a] = max(height[a], height[k] + 1)
    return height


def _depths(program: Program) -> list[int]:
    """Longest path from an input to each instruction."""
    depth = [0] * len(program.code)
    for k, (op, args, _) in enumerate(program.code):
        if op not in LEAVES:
            depth[k] = 1 + max([depth[a] for a in args])
    return depth


def _backwards(program: Program, rank: Callable[[int, int], tuple[int, int]]) -> list[int]:
    """An order built from its end: of the instructions whose readers are all placed, the one of least ``rank(instruction, turn it became free)``.

    A sine and the cosine of the same angle stay together, as they are computed together.
    """
    code = program.code
    angle = {i.args[0]: k for k, i in enumerate(code) if i.op is Op.COS}
    partner = {k: angle[i.args[0]] for k, i in enumerate(code) if i.op is Op.SIN and i.args[0] in angle}
    whole = {cos: sin for sin, cos in partner.items()}  # a pair is identified by its sine
    reads = [
        () if op in LEAVES else tuple({whole.get(a, a) for a in args if code[a].op not in LEAVES})
        for op, args, _ in code
    ]
    readers = [0] * len(code)
    for k, args in enumerate(reads):
        if k not in whole:
            for a in args:
                readers[a] += 1
    free = [(rank(k, 0), k) for k, n in enumerate(readers) if n == 0 and k not in whole and code[k].op not in LEAVES]
    heapq.heapify(free)
    order: list[int] = []
    while free:
        _, k = heapq.heappop(free)
        order += [partner[k], k] if k in partner else [k]
        for a in reads[k]:
            readers[a] -= 1
            if readers[a] == 0:
                heapq.heappush(free, (rank(a, len(order)), a))
    return _with_leaves(program, order[::-1])


def _with_leaves(program: Program, order: Sequence[int]) -> list[int]:
    """Inputs and constants before their first readers."""
    placed: set[int] = set()
    complete: list[int] = []
    for k in order:
        for a in program.code[k].args:
            if a not in placed and program.code[a].op in LEAVES:
                placed.add(a)
                complete.append(a)
        complete.append(k)
    rest = {v for values in program.outputs for v in values if program.code[v].op in LEAVES} - placed
    return complete + sorted(rest)


# --- loop rolling: repetitions in a long program ---------------------------------------------------------------------------

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
    computing = [k for k, instruction in enumerate(program.code) if instruction.op not in LEAVES]
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
