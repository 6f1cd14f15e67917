"""Which products become part of a fused multiply-add.

The choice is made here, once for a program, and not left to LLVM, which chooses differently for scalars and for vectors: a state
evaluated alone has the same bits as the same state in a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from heavytop.compile.program import Op, Program


def count_uses(program: Program) -> Counter[int]:
    """How often each value is read by an instruction."""
    return Counter(a for op, args, _ in program.code if op is not Op.INPUT for a in args)


def fused_products(
    program: Program,
    uses: Mapping[int, int],
    start: int,
    stop: int,
    kept: Collection[int],
    sides: Sequence[Collection[int]],
) -> dict[int, int]:
    """Sum or difference -> the product it absorbs, among the instructions ``start`` to ``stop - 1``.

    A product is absorbed if nothing else reads it: it is neither ``kept`` nor read twice, and belongs to the same block (one of the
    ``sides`` that are computed only where needed, or none of them). Of two products the first is taken.
    """
    block = {k: n for n, nodes in enumerate(sides) for k in nodes}
    found: dict[int, int] = {}
    for k in range(start, stop):
        if program.code[k].op not in (Op.ADD, Op.SUB):
            continue
        for m in program.code[k].args:
            alone = uses[m] == 1 and m not in kept and m >= start and block.get(m) == block.get(k)
            if alone and program.code[m].op is Op.MUL:
                found[k] = m
                break
    return found
