"""LLVM IR that moves W rows of arrays into lanes and back."""

from __future__ import annotations

from heavytop.compile.backends.lanes import Lanes, Writer


def transpose(w: Writer, lanes: Lanes, rows: list[str]) -> list[str]:
    """Transpose W vectors of W lanes by exchanging, for each bit of the index, the off-diagonal halves."""
    t, count = lanes.real, lanes.count
    rows = list(rows)
    distance = 1
    while distance < count:
        for i in range(count):
            if i & distance:
                continue
            a, b = rows[i], rows[i | distance]
            low = [l if not l & distance else count + l - distance for l in range(count)]
            high = [l + distance if not l & distance else count + l for l in range(count)]
            for target, picks in ((i, low), (i | distance, high)):
                mask = ", ".join(f"i32 {p}" for p in picks)
                rows[target] = w.let(f"shufflevector {t} {a}, {t} {b}, <{count} x i32> <{mask}>")
        distance *= 2
    return rows


def gather(lanes: Lanes) -> str:
    """IR of ``@gather(buffer, size, row_0, ..., row_W-1)``: W rows of ``size`` doubles into ``buffer[size][W]``."""
    return _move(lanes, "gather", into_buffer=True)


def scatter(lanes: Lanes) -> str:
    """IR of ``@scatter(buffer, size, row_0, ..., row_W-1)``: the inverse of :func:`gather`."""
    return _move(lanes, "scatter", into_buffer=False)


def _move(lanes: Lanes, name: str, *, into_buffer: bool) -> str:
    """Rows have any alignment, the buffer is aligned. Blocks of W x W are transposed in registers."""
    count, t = lanes.count, lanes.real
    rows = [f"%row{l}" for l in range(count)]
    w = Writer()

    def at(base: str, index: str, kind: str = "double") -> str:
        return w.let(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def one_by_one(i: str) -> None:
        for l in range(count):
            place = at(at("%buffer", i, t), str(l))
            source, target = (at(rows[l], i), place) if into_buffer else (place, at(rows[l], i))
            w.do(f"store double {w.let(f'load double, ptr {source}, align 1')}, ptr {target}, align 1")

    def block(i: str) -> None:
        # the last block may overlap the one before it; then some numbers are written twice
        i = w.smaller(i, "%last")
        places = [at("%buffer", w.integer("add", i, k), t) for k in range(count)]
        sources, targets = ([at(r, i) for r in rows], places) if into_buffer else (places, [at(r, i) for r in rows])
        here, there = (1, lanes.alignment) if into_buffer else (lanes.alignment, 1)
        values = transpose(w, lanes, [w.let(f"load {t}, ptr {s}, align {here}") for s in sources])
        for value, target in zip(values, targets, strict=True):
            w.do(f"store {t} {value}, ptr {target}, align {there}")

    def done(i: str) -> str:
        return w.test("sge", i, "%size")

    if count > 1:
        w.do(f"%last = sub i64 %size, {count}")
        w.do("%short = icmp slt i64 %last, 0")
        w.do("br i1 %short, label %single, label %blocks")
        w.start("blocks")
        w.loop("0", count, done, block)
        w.do("ret void")
        w.start("single")
    w.loop("0", 1, done, one_by_one)
    w.do("ret void")
    parameters = ", ".join(["ptr noalias %buffer", "i64 %size", *(f"ptr {r}" for r in rows)])
    return f"define internal void @{name}({parameters}) nounwind noinline {{\n{w.text()}\n}}\n"
