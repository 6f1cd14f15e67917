"""Choices with an expensive side, which is computed only if a lane needs it.

A program computes both sides of every choice, ``c ? a : b``. That is cheap for a few products, but not for a sine next to a power
series that serves all angles below one radian. The values that only such a side reads become a block that is skipped if no
lane needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from heavytop.compile.backends.vector_math import LIBM
from heavytop.compile.program import LEAVES, Op, Program

WORTH = 30
"""Least cost of a side, in products, for which a branch pays."""
MOST = 6_000
"""Largest program (instructions) that stays in one piece because most of it is usually skipped."""
_DEAR = {Op.DIV: 6, Op.SQRT: 9, Op.SIN: 20, Op.COS: 20, **dict.fromkeys(LIBM, 40)}


@dataclass(frozen=True)
class LazySide:
    """One side of all choices with the same condition.

    Attributes
    ----------
    choices : these choices; the side is computed before the first of them, ``at``.
    condition : the value that decides.
    when : truth value of the condition for which the side is chosen.
    nodes : values that only these choices read, in order.
    results : nodes that the choices read directly.
    """

    choices: tuple[int, ...]
    condition: int
    when: bool
    nodes: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def at(self) -> int:
        """The first of the choices."""
        return self.choices[0]


def usual_size(program: Program) -> int:
    """Instructions that are usually computed: without those of sides worth a branch."""
    total = len(program.code)
    if total > MOST:
        return total
    return total - sum(len(side.nodes) for side in lazy_sides(program, 0, total, program.homes.keys()))


def lazy_sides(program: Program, start: int, stop: int, kept: Collection[int]) -> list[LazySide]:
    """The sides worth a branch among the instructions ``start`` to ``stop - 1``; the values ``kept`` are always needed."""
    choices: dict[tuple[int, bool], list[int]] = {}
    for k in range(start, stop):
        if program.code[k].op is Op.SELECT:
            for when in (True, False):
                choices.setdefault((program.code[k].args[0], when), []).append(k)
    if not choices:
        return []
    readers = _readers(program)
    found = [_side(program, readers, group, when, start, kept) for (_, when), group in choices.items()]
    costs = [sum(_DEAR.get(program.code[k].op, 1) for k in side.nodes) for side in found]
    sides: list[LazySide] = []
    for cost, side in sorted(zip(costs, found, strict=True), key=lambda item: -item[0]):
        if cost >= WORTH and all(_independent(program, side, other) for other in sides):
            sides.append(side)
    return sides


def _independent(program: Program, a: LazySide, b: LazySide) -> bool:
    """Whether two sides share nothing and neither reads values or choices of the other, so that their order does not matter."""
    if not set(a.nodes).isdisjoint(b.nodes):
        return False
    for side, other in ((a, b), (b, a)):
        made = {*other.nodes, *other.choices}
        if made & {side.condition, *(arg for k in side.nodes for arg in program.code[k].args)}:
            return False
        if made & {*side.choices}:
            return False
    return True


def _readers(program: Program) -> list[list[int]]:
    """For each value the instructions that read it."""
    readers: list[list[int]] = [[] for _ in program.code]
    for k, (op, args, _) in enumerate(program.code):
        if op is not Op.INPUT:
            for a in args:
                readers[a].append(k)
    return readers


def _side(
    program: Program, readers: Sequence[list[int]], choices: list[int], when: bool, start: int, kept: Collection[int]
) -> LazySide:
    """All values that only one side of the choices reads and that can be computed just before the first choice."""
    code, first, group = program.code, choices[0], frozenset(choices)
    condition, place = code[first].args[0], 1 if when else 2

    def belongs(k: int, nodes: set[int]) -> bool:
        if code[k].op in LEAVES or k in kept or k == condition:
            return False
        return all(
            r in nodes or (r in group and code[r].args[place] == k and code[r].args[3 - place] != k) for r in readers[k]
        )

    excluded: set[int] = set()
    while True:
        nodes: set[int] = set()
        seen = set(excluded)
        waiting = [-code[k].args[place] for k in choices]  # from the last one down: readers come before what they read
        heapify(waiting)
        while waiting:
            k = -heappop(waiting)
            if k >= start and k not in seen:
                seen.add(k)
                if belongs(k, nodes):
                    nodes.add(k)
                    for a in code[k].args:
                        heappush(waiting, -a)
        # a value after the first choice must read neither that choice nor values computed later
        late = {
            k
            for k in nodes
            if k > first and any(a >= first and a not in nodes and code[a].op not in LEAVES for a in code[k].args)
        }
        if not late:
            break
        excluded |= late
    results = tuple(sorted({code[k].args[place] for k in choices} & nodes))
    return LazySide(tuple(choices), condition, when, tuple(sorted(nodes)), results)
