"""The loops over states around a function: rows of the caller's arrays, or packed buffers; in tiles if the function is long."""

from __future__ import annotations

from dataclasses import dataclass

from heavytop.compile.backends.lanes import Lanes, Writer, gather, scatter
from heavytop.compile.backends.llvm import Emitted, emit, lane_rows, load_words, row_addresses, support
from heavytop.compile.passes.tiles import evaluate_tile, group_size, groups_left, part_size, tile_size
from heavytop.compile.program import Program


@dataclass(frozen=True)
class KernelText:
    """IR of a kernel module and the size of its scratch area, counted in vectors of W doubles.

    The scratch area holds, for every group of W states of a tile, first the inputs and outputs, then the scratch of the program.
    """

    text: str
    scratch: int
    chunks: int


def kernel_module(program: Program, lanes: Lanes, *, fma: bool, chunk: int | None = None) -> KernelText:
    """A module with ``f`` and its two loops over states.

    ``rows(args)``: arrays of the caller, one state per row. ``args`` is an array of 64-bit words: number of states,
    scratch, then for every input and output its address and the distance of its rows in bytes (zero: the same row
    for all). ``packed(args)``: arrays ``[batch][variable][lane]``, aligned. ``args``: number of batches, scratch,
    then addresses and distances of the batches in bytes.
    """
    emitted = emit(program, "f", lanes, chunk or part_size(program, lanes), fma=fma)
    loops = _Loops(program, lanes, emitted)
    parts = [
        support([program], lanes, fma=fma),
        gather(lanes),
        scatter(lanes),
        emitted.text,
        loops.rows(),
        loops.packed(),
    ]
    return KernelText("".join(parts), loops.tile * loops.group, emitted.chunks)


class _Loops:
    """Writes the two loops."""

    def __init__(self, program: Program, lanes: Lanes, emitted: Emitted) -> None:
        self.lanes, self.emitted = lanes, emitted
        self.inputs = len(program.input_sizes)
        self.sizes = [*program.input_sizes, *program.output_sizes]
        self.own = sum(self.sizes)
        self.group = group_size(self.own + emitted.scratch)
        self.tile = tile_size(self.group, lanes) if emitted.chunks > 1 else 1

    def _scratch(self, w: Writer, scratch: str, group: str, offset: int) -> str:
        """Address of a vector in the scratch area of a group of the tile."""
        area = w.let(f"getelementptr {self.lanes.real}, ptr {scratch}, i64 {w.integer('mul', group, self.group)}")
        return w.let(f"getelementptr {self.lanes.real}, ptr {area}, i64 {offset}")

    def rows(self) -> str:
        """IR of ``rows``."""
        w, lanes = Writer(), self.lanes
        words = load_words(w, 2 + 2 * len(self.sizes), [1, *range(2, 2 + 2 * len(self.sizes), 2)])
        count, scratch = words[:2]
        last = w.integer("sub", count, 1)
        offsets = [sum(self.sizes[:i]) for i in range(len(self.sizes) + 1)]
        per_tile = self.tile * lanes.count

        def places(j: str) -> list[str]:
            return [f"ptr {self._scratch(w, scratch, j, offset)}" for offset in offsets]

        def move(function: str, i: int, first: str, j: str) -> None:
            rows = lane_rows(w, lanes, w.integer("add", first, w.integer("mul", j, lanes.count)), last)
            base, stride = words[2 + 2 * i : 4 + 2 * i]
            buffer = self._scratch(w, scratch, j, offsets[i])
            w.do(f"call void @{function}(ptr {buffer}, i64 {self.sizes[i]}, {row_addresses(w, base, stride, rows)})")

        def tile(first: str) -> None:
            groups = groups_left(w, count, first, self.tile, lanes)
            at_start = w.test("eq", first, 0)

            def fetch(j: str) -> None:
                for i in range(self.inputs):
                    # a row shared by all states is fetched once
                    needed = w.let(f"or i1 {at_start}, {w.test('ne', words[3 + 2 * i], 0)}")
                    w.when(needed, lambda i=i: move("gather", i, first, j))

            def deliver(j: str) -> None:
                for i in range(self.inputs, len(self.sizes)):
                    move("scatter", i, first, j)

            w.loop("0", 1, lambda j: w.test("sge", j, groups), fetch)
            evaluate_tile(w, self.emitted, self.inputs, groups, places)
            w.loop("0", 1, lambda j: w.test("sge", j, groups), deliver)

        w.loop("0", per_tile, lambda i: w.test("sge", i, count), tile)
        w.do("ret void")
        return f"define void @rows(ptr %args) nounwind {{\n{w.text()}\n}}\n"

    def packed(self) -> str:
        """IR of ``packed``."""
        w = Writer()
        arrays = len(self.sizes)
        words = load_words(w, 2 + 2 * arrays, [1, *range(2, 2 + 2 * arrays, 2)])
        count, scratch = words[:2]

        def tile(first: str) -> None:
            groups = w.smaller(w.integer("sub", count, first), self.tile)

            def places(j: str) -> list[str]:
                batch = w.integer("add", first, j)
                given = [row_addresses(w, words[2 + 2 * i], words[3 + 2 * i], [batch]) for i in range(arrays)]
                return [*given, f"ptr {self._scratch(w, scratch, j, self.own)}"]

            evaluate_tile(w, self.emitted, self.inputs, groups, places)

        w.loop("0", self.tile, lambda i: w.test("sge", i, count), tile)
        w.do("ret void")
        return f"define void @packed(ptr %args) nounwind {{\n{w.text()}\n}}\n"
