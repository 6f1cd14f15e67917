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
