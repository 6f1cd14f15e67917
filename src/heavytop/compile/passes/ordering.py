"""The order of a program that is cut into parts: as few values as possible wait in memory.

A traced program lists a value where it is first needed. Recursions over a tree then keep the values of every body until the recursion returns, and
for a long chain these exceed the first level of the cache. Two other orders are built from the end of the program backwards, and the
one with the fewest waiting values is taken. Every instruction keeps its arguments, so the results are the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from heavytop.compile.program import Instruction, Op, Program

_LEAVES = (Op.INPUT, Op.CONST)


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
        if program.code[k].op not in _LEAVES:
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
        if op not in _LEAVES:
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
        () if op in _LEAVES else tuple({whole.get(a, a) for a in args if code[a].op not in _LEAVES})
        for op, args, _ in code
    ]
    readers = [0] * len(code)
    for k, args in enumerate(reads):
        if k not in whole:
            for a in args:
                readers[a] += 1
    free = [(rank(k, 0), k) for k, n in enumerate(readers) if n == 0 and k not in whole and code[k].op not in _LEAVES]
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
            if a not in placed and program.code[a].op in _LEAVES:
                placed.add(a)
                complete.append(a)
        complete.append(k)
    rest = {v for values in program.outputs for v in values if program.code[v].op in _LEAVES} - placed
    return complete + sorted(rest)
