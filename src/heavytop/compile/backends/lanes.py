"""LLVM IR vocabulary for W lanes: types, constants and a small text writer.

Every value is a vector of W doubles, one per lane; a lane is one state or trajectory. No operation mixes
lanes, so a result does not depend on the neighbouring lanes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Lanes:
    """Type names and constants for ``count`` lanes."""

    count: int

    @cached_property
    def real(self) -> str:
        return "double" if self.count == 1 else f"<{self.count} x double>"

    @cached_property
    def bits(self) -> str:
        return "i1" if self.count == 1 else f"<{self.count} x i1>"

    @cached_property
    def ints(self) -> str:
        return "i64" if self.count == 1 else f"<{self.count} x i64>"

    @cached_property
    def suffix(self) -> str:
        return "f64" if self.count == 1 else f"v{self.count}f64"

    @cached_property
    def alignment(self) -> int:
        return 8 * self.count

    def constant(self, value: float) -> str:
        """The number in every lane, exactly (hexadecimal)."""
        word = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        return word if self.count == 1 else f"splat (double {word})"

    def integer(self, value: int) -> str:
        return str(value) if self.count == 1 else f"splat (i64 {value})"


@dataclass
class Writer:
    """Collects the lines of one LLVM function body and generates names for values and labels."""

    lines: list[str] = field(default_factory=list)
    locals: list[str] = field(default_factory=list)
    _counter: int = 0

    def fresh(self, prefix: str = "t") -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def let(self, expression: str) -> str:
        """Append ``%new = expression``; return ``%new``."""
        self._counter += 1
        name = f"%t{self._counter}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def integer(self, operation: str, a: str | int, b: str | int) -> str:
        """A 64-bit integer operation (``add``, ``sub``, ``mul``, ``sdiv``, ``srem``)."""
        return self.let(f"{operation} i64 {a}, {b}")

    def smaller(self, a: str | int, b: str | int) -> str:
        """The smaller of two 64-bit integers."""
        return self.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def test(self, relation: str, a: str | int, b: str | int) -> str:
        """Compare two 64-bit integers (``eq``, ``ne``, ``slt``, ``sge``); an i1 value."""
        return self.let(f"icmp {relation} i64 {a}, {b}")

    def local(self, kind: str) -> str:
        """A variable in memory, allocated once on entry."""
        name = "%" + self.fresh("m")
        self.locals.append(f"  {name} = alloca {kind}")
        return name

    def do(self, statement: str) -> None:
        self.lines.append("  " + statement)

    def label(self, name: str) -> None:
        self.do(f"br label %{name}")
        self.lines.append(f"{name}:")

    def start(self, name: str) -> None:
        """Open a block that is only reached by explicit branches."""
        self.lines.append(f"{name}:")

    def loop(self, first: str, step: str | int, unless: Callable[[str], str], body: Callable[[str], None]) -> None:
        """``for (i = first; !unless(i); i += step) body(i)`` with a 64-bit counter; ``unless`` returns an i1 value."""
        name = self.fresh("loop")
        counter = self.local("i64")
        self.do(f"store i64 {first}, ptr {counter}")
        self.label(f"{name}_test")
        index = self.let(f"load i64, ptr {counter}")
        self.do(f"br i1 {unless(index)}, label %{name}_end, label %{name}_body")
        self.start(f"{name}_body")
        body(index)
        self.do(f"store i64 {self.integer('add', index, step)}, ptr {counter}")
        self.do(f"br label %{name}_test")
        self.start(f"{name}_end")

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """``if (condition) body()``."""
        name = self.fresh("if")
        self.do(f"br i1 {condition}, label %{name}_then, label %{name}_end")
        self.start(f"{name}_then")
        body()
        self.label(f"{name}_end")

    def text(self) -> str:
        return "\n".join(self.locals + self.lines)


def any_lane(writer: Writer, lanes: Lanes, mask: str) -> str:
    """Whether a mask is set in any lane, as i1."""
    if lanes.count == 1:
        return mask
    word = writer.let(f"bitcast {lanes.bits} {mask} to i{lanes.count}")
    return writer.let(f"icmp ne i{lanes.count} {word}, 0")


# --- rows of arrays into lanes and back ------------------------------------------------------------------------------------


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
