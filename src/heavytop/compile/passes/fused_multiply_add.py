"""Which products become part of a fused multiply-add.

The choice is made here, once for a program, and not left to LLVM, which chooses differently for scalars and for vectors: a state
evaluated alone has the same bits as the same state in a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from heavytop.compile.program import Op, Program


def count_uses(program: Program) -> Counter[int]:
    """How often each value is read by an instruction."""
    return Counter(a for op, args, _ in program.code if op is not Op.INPUT for a in args)


def fused_products(program: Program) -> dict[int, int]:
    """Sum or difference -> the product it absorbs.

    A product is absorbed if nothing else reads it and it is no output. Of two products the first is taken. Neither the order of the instructions
    nor the cuts of a long program matter: the bits are the same for every number of lanes.
    """
    uses, homes, code = count_uses(program), program.homes, program.code
    found: dict[int, int] = {}
    for k, (op, args, _) in enumerate(code):
        if op is Op.ADD or op is Op.SUB:
            for m in args:
                if code[m].op is Op.MUL and uses[m] == 1 and m not in homes:
                    found[k] = m
                    break
    return found


def last_readers(program: Program, fused: Mapping[int, int]) -> list[int]:
    """:attr:`.Program.last_use`, where the sum that absorbs a product reads its factors."""
    last = list(program.last_use)
    for k, product in fused.items():
        for a in program.code[product].args:
            last[a] = max(last[a], k)
    return last
