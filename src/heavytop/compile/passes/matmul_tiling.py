"""Matrix products in blocks: a value in a register serves several sums.

A program lists a matrix product one entry after the other, each a sum of products, so every factor is loaded again for every entry. Here the
sums of 4 x 4 entries that share their factors advance together: eight loads serve sixteen products. The order of the terms within a sum stays,
and so does its value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from heavytop.compile.passes.ordering import reordered
from heavytop.compile.program import Instruction, Op, Program

SIDE = 4
"""Sums in a row and in a column of a block: 16 of them and 8 factors fit into 32 registers."""
LEAST = 6
"""Least number of terms of a sum in a block."""
SHARE = 0.2
"""Least share of instructions in blocks for which a program is reordered."""

Chain = list[int]
"""Instructions of a sum in order, each product before its addition."""


def in_blocks(program: Program) -> Program:
    """The program with its sums of products in blocks if they are a large part of it, else unchanged.

    >>> from heavytop.compile.trace import trace
    >>> program = Program.from_traced(trace(lambda x: x * x, {"x": (3,)}, name="square"))
    >>> in_blocks(program) is program
    True
    """
    blocks = _blocks(program)
    if sum(len(chain) for block in blocks for chain in block) < SHARE * len(program.code):
        return program
    order = _order(program.code, blocks)
    return program if order is None else reordered(program, order)


def _chains(program: Program) -> dict[int, Chain]:
    """Sums of products whose parts nothing else reads, by their last instruction."""
    code, homes, uses = program.code, program.homes, program.uses
    found: dict[int, Chain] = {}
    for k, (op, args, _) in enumerate(code):
        if op not in (Op.ADD, Op.SUB):
            continue
        for product, so_far in (args[::-1], args):
            if code[product].op is not Op.MUL or uses[product] > 1 or product in homes:
                continue
            before = found.pop(so_far) if so_far in found and uses[so_far] == 1 and so_far not in homes else []
            first = not before and code[so_far].op is Op.MUL and uses[so_far] == 1 and so_far not in homes
            found[k] = [*before, *([so_far] if first else []), product, k]
            break
    return {k: chain for k, chain in found.items() if len(chain) >= 2 * LEAST - 1}


def _blocks(program: Program) -> list[list[Chain]]:
    """Chains that share their factors, in rectangles."""
    code = program.code
    sums: dict[tuple[int, ...], dict[tuple[int, ...], Chain]] = defaultdict(dict)
    for chain in _chains(program).values():
        products = [code[k].args for k in chain if code[k].op is Op.MUL]
        sums[tuple([args[0] for args in products])][tuple([args[1] for args in products])] = chain
    blocks = []
    rows = list(sums.values())
    while rows:
        together = [rows.pop(0)]
        common = set(together[0])
        for row in rows[: 4 * SIDE]:
            if len(together) < SIDE and len(common & row.keys()) >= SIDE:
                together.append(row)
                common &= row.keys()
        if len(together) == 1:
            continue
        columns = [column for column in together[0] if column in common]
        for first in range(0, len(columns), SIDE):
            block = [row[column] for row in together for column in columns[first : first + SIDE]]
            members = {k for chain in block for k in chain}
            if not any(a in members for chain in block for k in chain if code[k].op is Op.MUL for a in code[k].args):
                blocks.append(block)  # else a sum is a factor of another one
        rest = [{c: chain for c, chain in row.items() if c not in common} for row in together]
        taken = {id(row) for row in together}
        rows = [row for row in (*rest, *(row for row in rows if id(row) not in taken)) if len(row) >= SIDE]
    return blocks


def _order(code: Sequence[Instruction], blocks: Sequence[Sequence[Chain]]) -> list[int] | None:
    """All instructions, each block in one piece where it is first needed; None if two blocks depend on each other."""
    block_of = {k: b for b, block in enumerate(blocks) for chain in block for k in chain}
    order: list[int] = []
    placed = [False] * len(code)
    opened: set[int] = set()

    def members(k: int) -> list[int]:
        """An instruction, or its whole block: the n-th term of every sum, then the next."""
        if k not in block_of:
            return [k]
        chains = blocks[block_of[k]]
        longest = max(len(chain) for chain in chains)
        steps = [range(3), *(range(n, n + 2) for n in range(3, longest, 2))]
        return [chain[n] for step in steps for chain in chains for n in step if n < len(chain)]

    for start in range(len(code)):
        stack = [start]
        while stack:
            k = stack[-1]
            if placed[k]:
                stack.pop()
                continue
            group = members(k)
            own = set(group)
            waiting = [
                a for m in group if code[m].op is not Op.INPUT for a in code[m].args if not placed[a] and a not in own
            ]
            if not waiting:
                order += group
                for m in group:
                    placed[m] = True
                stack.pop()
                continue
            if k in block_of:
                if block_of[k] in opened:
                    return None
                opened.add(block_of[k])
            stack += waiting[::-1]
    return order
