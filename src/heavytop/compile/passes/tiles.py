"""Tiles: several groups of W states that a long program handles part by part.

A processor keeps only about four thousand decoded instructions. A longer program would be decoded again for every W states, which
costs a third of the time; so it is cut into parts, and each part handles a tile of several groups of W states before the next part.
Between the parts the values still needed wait in the scratch area of their group.

With eight lanes or more an instruction takes longer than its decoding, and a waiting value fills a whole cache line: there a
program stays in one piece until compiling it takes too long, and then its parts handle one group at a time. With one lane there is
no tile, and LLVM finds more instructions to do side by side in one piece.
"""

from __future__ import annotations

from collections.abc import Callable

from heavytop.compile.backends.lanes import Lanes, Writer
from heavytop.compile.backends.llvm import Emitted
from heavytop.compile.passes.lazy_branches import usual_size
from heavytop.compile.program import Program

TILE_ABOVE = 1_600
"""Programs of more instructions are cut into parts, each of which handles a tile before the next; so are steps."""
WIDE = 8
"""Number of lanes above which decoding takes no time."""
WIDE_ABOVE = 16_000
"""Programs of more instructions are cut even with one lane or many: the compile time of one piece grows faster than its length."""
PART = 1_000
"""Instructions of a part."""
TILE = 12
"""Most groups of W states in a tile."""
TILE_BYTES = 2**19
"""Memory of a tile; it should fit into the second level of the cache."""


def part_size(program: Program, lanes: Lanes) -> int:
    """Instructions of the parts into which a program is cut; usually skipped ones do not count, as they must stay in one part."""
    limit = TILE_ABOVE if 1 < lanes.count < WIDE else WIDE_ABOVE
    return PART if usual_size(program) > limit else max(len(program.code), 1)


def group_size(vectors: int) -> int:
    """Vectors from one group of a tile to the next: an odd number avoids conflicts in the cache."""
    return vectors | 1


def tile_size(group: int, lanes: Lanes) -> int:
    """Number of groups in a tile; ``group`` is their size in vectors."""
    if lanes.count >= WIDE:
        return 1
    return min(max(TILE_BYTES // (8 * lanes.count * group), 4), TILE)


def groups_left(w: Writer, count: str, first: str, tile: int, lanes: Lanes) -> str:
    """Groups of the tile that begins with state ``first`` of ``count``."""
    left = w.integer("sub", count, first)
    return w.smaller(w.integer("sdiv", w.integer("add", left, lanes.count - 1), lanes.count), tile)


def evaluate_tile(w: Writer, emitted: Emitted, inputs: int, groups: str, places: Callable[[str], list[str]]) -> None:
    """Call a function for the first ``groups`` groups of a tile, part by part if it has parts.

    ``places`` gives the arguments of a group as ``ptr name``, the first ``inputs`` of which are read only.
    """

    def every(body: Callable[[str], None]) -> None:
        w.loop("0", 1, lambda j: w.test("sge", j, groups), body)

    def whole(j: str) -> None:
        w.do(f"call void @{emitted.name}({', '.join(places(j))})")

    def in_parts() -> None:
        emitted.call_parts(w, lambda part: every(lambda j: part(", ".join(places(j)))))

    if emitted.chunks == 1:
        every(whole)
    elif not emitted.guarded:
        in_parts()
    else:
        flag = w.local("i1")
        w.do(f"store i1 false, ptr {flag}")

        def check(j: str) -> None:
            large = w.let(f"call i1 @{emitted.name}_large({', '.join(places(j)[:inputs])})")
            before = w.let(f"load i1, ptr {flag}")
            w.do(f"store i1 {w.let(f'or i1 {before}, {large}')}, ptr {flag}")

        every(check)
        some = w.let(f"load i1, ptr {flag}")
        w.when(some, lambda: every(whole))
        w.when(w.let(f"xor i1 {some}, true"), in_parts)
