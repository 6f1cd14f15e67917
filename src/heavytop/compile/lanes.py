"""LLVM IR vocabulary for W lanes: types, constants, a small text writer, and the library functions kernels call.

Every value is a vector of W doubles, one per lane; a lane is one state or trajectory. No operation ever mixes
lanes, so a result does not depend on what the neighbouring lanes hold.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

SINCOS_LIMIT = 1e9
"""Largest argument of the in-kernel sine and cosine; beyond it the C library is called for the lanes concerned."""


@dataclass(frozen=True)
class Lanes:
    """Type names and constants for ``count`` lanes."""

    count: int

    @property
    def real(self) -> str:
        return "double" if self.count == 1 else f"<{self.count} x double>"

    @property
    def bits(self) -> str:
        return "i1" if self.count == 1 else f"<{self.count} x i1>"

    @property
    def ints(self) -> str:
        return "i64" if self.count == 1 else f"<{self.count} x i64>"

    @property
    def suffix(self) -> str:
        return "f64" if self.count == 1 else f"v{self.count}f64"

    @property
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
    """Collects the lines of one LLVM function body and invents names for values and labels."""

    lines: list[str] = field(default_factory=list)
    locals: list[str] = field(default_factory=list)
    _counter: int = 0

    def fresh(self, prefix: str = "t") -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def let(self, expression: str) -> str:
        """Append ``%new = expression``; return ``%new``."""
        name = "%" + self.fresh()
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


def libm_name(name: str) -> str:
    """Name of the lane-wise form of a C library function."""
    return f"each_{name}"


def each_lane(name: str, arity: int, lanes: Lanes) -> str:
    """IR that calls the C library function ``name`` lane by lane."""
    declaration = f"declare double @{name}({', '.join(['double'] * arity)}) nounwind willreturn memory(none)\n"
    arguments = [f"%x{i}" for i in range(arity)]
    w = Writer()
    result = "poison"
    if lanes.count == 1:
        result = w.let(f"call double @{name}({', '.join('double ' + a for a in arguments)})")
    else:
        for lane in range(lanes.count):
            parts = [w.let(f"extractelement {lanes.real} {a}, i32 {lane}") for a in arguments]
            y = w.let(f"call double @{name}({', '.join('double ' + p for p in parts)})")
            result = w.let(f"insertelement {lanes.real} {result}, double {y}, i32 {lane}")
    w.do(f"ret {lanes.real} {result}")
    parameters = ", ".join(f"{lanes.real} {a}" for a in arguments)
    head = f"define internal {lanes.real} @{libm_name(name)}({parameters}) nounwind noinline memory(none) {{"
    return f"{declaration}{head}\n{w.text()}\n}}\n"


# pi/2 = HALF_PI_HIGH + HALF_PI_LOW to 107 bits
HALF_PI_HIGH = float.fromhex("0x1.921fb54442d18p+0")
HALF_PI_LOW = float.fromhex("0x1.1a62633145c07p-54")
# (sin y - y) / y^3 and (cos y - 1 + y^2/2) / y^4 as polynomials of y^2 on |y| <= pi/4 (minimax, highest power first)
SIN_POLYNOMIAL = (
    1.58962301576546568060e-10,
    -2.50507477628578072866e-8,
    2.75573136213857245213e-6,
    -1.98412698295895385996e-4,
    8.33333333332211858878e-3,
    -1.66666666666666307295e-1,
)
COS_POLYNOMIAL = (
    -1.13585365213876817300e-11,
    2.08757008419747316778e-9,
    -2.75573141792967388112e-7,
    2.48015872888517045348e-5,
    -1.38888888888730564116e-3,
    4.16666666666665929218e-2,
)


def sincos(lanes: Lanes) -> str:
    """IR of ``{sine, cosine} @sincos(x)``.

    With k = round(2 x / pi), ``x - k HALF_PI_HIGH`` is exact in a fused multiply-add (both are multiples of 2**-53
    and the result is below one), and the second part adds one rounding: the reduced argument is good to 2**-54 up
    to :data:`SINCOS_LIMIT`. NaN and infinity give NaN. Needs a processor with fused multiply-add; see
    :func:`sincos_plain`.
    """
    t, c = lanes.real, lanes.constant
    w = Writer()

    def fma(a: str, b: str, d: str) -> str:
        return w.let(f"call {t} @llvm.fma.{lanes.suffix}({t} {a}, {t} {b}, {t} {d})")

    def mul(a: str, b: str) -> str:
        return w.let(f"fmul {t} {a}, {b}")

    def polynomial(coefficients: Iterable[float], z: str) -> str:
        first, *rest = (c(a) for a in coefficients)
        for a in rest:
            first = fma(first, z, a)
        return first

    # adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits
    magic = c(6755399441055744.0)
    shifted = fma("%x", c(0.63661977236758134308), magic)
    quadrant = w.let(f"bitcast {t} {shifted} to {lanes.ints}")
    k = w.let(f"fsub {t} {shifted}, {magic}")
    y = fma(k, c(-HALF_PI_LOW), fma(k, c(-HALF_PI_HIGH), "%x"))
    z = mul(y, y)
    s = fma(mul(y, z), polynomial(SIN_POLYNOMIAL, z), y)
    cosine = fma(mul(z, z), polynomial(COS_POLYNOMIAL, z), fma(z, c(-0.5), c(1.0)))
    # odd quadrant: exchange; sign of sine is bit 1 of k, of cosine bit 1 of k + 1
    i, n = lanes.ints, lanes.integer
    odd = w.let(f"icmp ne {i} {w.let(f'and {i} {quadrant}, {n(1)}')}, {n(0)}")
    next_quadrant = w.let(f"add {i} {quadrant}, {n(1)}")

    def choose(when_odd: str, when_even: str, sign_source: str) -> str:
        value = w.let(f"select {lanes.bits} {odd}, {t} {when_odd}, {t} {when_even}")
        sign = w.let(f"shl {i} {w.let(f'and {i} {sign_source}, {n(2)}')}, {n(62)}")
        word = w.let(f"xor {i} {w.let(f'bitcast {t} {value} to {i}')}, {sign}")
        return w.let(f"bitcast {i} {word} to {t}")

    fast = _pair(w, t, choose(cosine, s, quadrant), choose(s, cosine, next_quadrant))
    size = w.let(f"call {t} @llvm.fabs.{lanes.suffix}({t} %x)")
    large = w.let(f"fcmp ogt {t} {size}, {c(SINCOS_LIMIT)}")
    w.do(f"br i1 {any_lane(w, lanes, large)}, label %rare, label %usual, !prof !0")
    w.start("rare")
    rare = w.let(f"call {{{t}, {t}}} @sincos_large({t} %x, {{{t}, {t}}} {fast}, {lanes.bits} {large})")
    w.do(f"ret {{{t}, {t}}} {rare}")
    w.start("usual")
    w.do(f"ret {{{t}, {t}}} {fast}")
    head = f"define internal {{{t}, {t}}} @sincos({t} %x) nounwind alwaysinline {{"
    return f'{head}\n{w.text()}\n}}\n{_sincos_large(lanes)}!0 = !{{!"branch_weights", i32 1, i32 1000000}}\n'


def _pair(w: Writer, t: str, first: str, second: str) -> str:
    half = w.let(f"insertvalue {{{t}, {t}}} poison, {t} {first}, 0")
    return w.let(f"insertvalue {{{t}, {t}}} {half}, {t} {second}, 1")


def _sincos_large(lanes: Lanes) -> str:
    """The C library's values in the lanes of ``%large``, the given ones in all others."""
    t = lanes.real
    w = Writer()
    parts = []
    for k, name in enumerate(("sin", "cos")):
        given = w.let(f"extractvalue {{{t}, {t}}} %fast, {k}")
        exact = w.let(f"call {t} @{libm_name(name)}({t} %x)")
        parts.append(w.let(f"select {lanes.bits} %large, {t} {exact}, {t} {given}"))
    w.do(f"ret {{{t}, {t}}} {_pair(w, t, *parts)}")
    parameters = f"{t} %x, {{{t}, {t}}} %fast, {lanes.bits} %large"
    return f"define internal {{{t}, {t}}} @sincos_large({parameters}) nounwind noinline cold {{\n{w.text()}\n}}\n"


def sincos_plain(lanes: Lanes) -> str:
    """The same interface on a processor without fused multiply-add: the C library in every lane."""
    t = lanes.real
    w = Writer()
    parts = [w.let(f"call {t} @{libm_name(name)}({t} %x)") for name in ("sin", "cos")]
    w.do(f"ret {{{t}, {t}}} {_pair(w, t, *parts)}")
    return f"define internal {{{t}, {t}}} @sincos({t} %x) nounwind alwaysinline {{\n{w.text()}\n}}\n"


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
    """Rows belong to the user (any alignment); the buffer is ours (aligned). Blocks of W x W are transposed in
    registers."""
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
        # the last block overlaps the one before it, which writes the same numbers twice
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
