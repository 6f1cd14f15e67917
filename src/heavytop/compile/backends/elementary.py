"""LLVM IR of the elementary functions without a C library and without fused multiply-add, on W lanes.

For targets that have neither (WebAssembly). Coefficients are those of the power series, argument reductions use constants in two or three parts that
are computed here from exact fractions. Errors are below two units in the last place, those of ``erf`` below four (tests compare with 40 digits).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import factorial, ldexp
from struct import pack, unpack

from heavytop.compile.backends.lanes import Lanes, Writer
from heavytop.compile.backends.vector_math import COS_POLYNOMIAL, LIBM, SIN_POLYNOMIAL, libm_name, reduce_angle
from heavytop.compile.program import Op

LARGEST_ANGLE = 2.0**20
"""Angle above which the reduction takes all digits of 1/(2 pi)."""
PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
LN2 = Fraction("0.69314718055994530941723212145817656807550013436025525412068000949339362196969472")
MAGIC = 1.5 * 2.0**52
"""Adding it rounds to an integer, which is in the low bits of the sum."""


def rounded(value: Fraction, bits: int) -> float:
    """The number of ``bits`` binary digits nearest to a positive fraction."""
    exponent = 0
    while value >= 2 ** (exponent + 1):
        exponent += 1
    while value < Fraction(2) ** exponent:
        exponent -= 1
    return ldexp(round(value / Fraction(2) ** (exponent + 1 - bits)), exponent + 1 - bits)


def in_parts(value: Fraction, *bits: int) -> list[float]:
    """Split a fraction into numbers of ``bits`` binary digits each; the last one, of 53 digits, is the remainder."""
    parts = []
    for size in (*bits, 53):
        sign = 1 if value >= 0 else -1
        parts.append(sign * rounded(abs(value), size) if value else 0.0)
        value -= Fraction(parts[-1])
    return parts


# --- expressions ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Operand:
    """A value of a function body: its operators append instructions. ``kind`` is "real", "int" (64 bits) or "bit"."""

    w: Writer
    lanes: Lanes
    name: str
    kind: str = "real"

    @property
    def type(self) -> str:
        return {"real": self.lanes.real, "int": self.lanes.ints, "bit": self.lanes.bits}[self.kind]

    def let(self, expression: str, kind: str | None = None) -> Operand:
        return Operand(self.w, self.lanes, self.w.let(expression), kind or self.kind)

    def text(self, other: Operand | float) -> str:
        """The operand of an instruction."""
        if isinstance(other, Operand):
            return other.name
        return self.lanes.constant(float(other)) if self.kind == "real" else self.lanes.integer(int(other))

    def _op(self, real: str, integer: str, other: Operand | float, swapped: bool = False) -> Operand:
        a, b = self.name, self.text(other)
        a, b = (b, a) if swapped else (a, b)
        return self.let(f"{real if self.kind == 'real' else integer} {self.type} {a}, {b}")

    def __add__(self, other: Operand | float) -> Operand:
        return self._op("fadd", "add", other)

    def __sub__(self, other: Operand | float) -> Operand:
        return self._op("fsub", "sub", other)

    def __mul__(self, other: Operand | float) -> Operand:
        return self._op("fmul", "mul", other)

    def __truediv__(self, other: Operand | float) -> Operand:
        return self._op("fdiv", "sdiv", other)

    def __radd__(self, other: float) -> Operand:
        return self._op("fadd", "add", other, True)

    def __rsub__(self, other: float) -> Operand:
        return self._op("fsub", "sub", other, True)

    def __rmul__(self, other: float) -> Operand:
        return self._op("fmul", "mul", other, True)

    def __rtruediv__(self, other: float) -> Operand:
        return self._op("fdiv", "sdiv", other, True)

    def __neg__(self) -> Operand:
        return self.let(f"fneg {self.type} {self.name}")

    def __and__(self, other: Operand | int) -> Operand:
        return self._op("", "and", other)

    def __or__(self, other: Operand) -> Operand:
        return self._op("", "or", other)

    def __xor__(self, other: Operand) -> Operand:
        return self._op("", "xor", other)

    def __lshift__(self, other: int) -> Operand:
        return self._op("", "shl", other)

    def __rshift__(self, other: int) -> Operand:
        return self._op("", "ashr", other)

    def test(self, relation: str, other: Operand | float) -> Operand:
        """A comparison: ``olt``, ``oeq``, ``une``, ... of reals, ``eq``, ``slt``, ... of integers."""
        word = "fcmp" if self.kind == "real" else "icmp"
        return self.let(f"{word} {relation} {self.type} {self.name}, {self.text(other)}", "bit")

    def __lt__(self, other: Operand | float) -> Operand:
        return self.test("olt", other)

    def __gt__(self, other: Operand | float) -> Operand:
        return self.test("ogt", other)

    def __ge__(self, other: Operand | float) -> Operand:
        return self.test("oge", other)

    def equals(self, other: Operand | float) -> Operand:
        return self.test("oeq", other)

    def __invert__(self) -> Operand:
        """The opposite of a bit."""
        return self.let(f"xor {self.type} {self.name}, {'true' if self.lanes.count == 1 else 'splat (i1 true)'}")

    @property
    def is_nan(self) -> Operand:
        return self.test("uno", 0.0)

    def call(self, name: str, *others: Operand | float) -> Operand:
        """An intrinsic function of reals."""
        arguments = ", ".join(f"{self.type} {self.text(x)}" for x in (self, *others))
        return self.let(f"call {self.type} @llvm.{name}.{self.lanes.suffix}({arguments})")

    def own(self, name: str, *others: Operand) -> Operand:
        """Another function of this module."""
        arguments = ", ".join(f"{self.type} {x.name}" for x in (self, *others))
        return self.let(f"call {self.type} @{libm_name(name)}({arguments})")

    @property
    def size(self) -> Operand:
        return self.call("fabs")

    @property
    def root(self) -> Operand:
        return self.call("sqrt")

    @property
    def bits(self) -> Operand:
        return self.let(f"bitcast {self.lanes.real} {self.name} to {self.lanes.ints}", "int")

    @property
    def real(self) -> Operand:
        return self.let(f"bitcast {self.lanes.ints} {self.name} to {self.lanes.real}", "real")

    def constant(self, value: float) -> Operand:
        return Operand(self.w, self.lanes, self.lanes.constant(value))


def choose(condition: Operand, a: Operand | float, b: Operand | float) -> Operand:
    """``a`` where the condition holds, else ``b``."""
    like = a if isinstance(a, Operand) else b
    if not isinstance(like, Operand):
        like = condition.constant(0.0)
    return like.let(f"select {condition.type} {condition.name}, {like.type} {like.text(a)}, {like.type} {like.text(b)}")


def polynomial(x: Operand, coefficients: Sequence[float]) -> Operand:
    """Horner's scheme, highest power first."""
    total: Operand | float = coefficients[0]
    for a in coefficients[1:]:
        total = x * total + a
    return total if isinstance(total, Operand) else x.constant(total)


def as_real(k: Operand) -> Operand:
    """A small integer as a real, exactly."""
    return (k + _word(MAGIC)).real - MAGIC


def _word(value: float) -> int:
    return unpack("<q", pack("<d", value))[0]


def power_of_two(k: Operand) -> Operand:
    """2^k for an integer of normal range."""
    return ((k + 1023) << 52).real


# --- sums of two numbers --------------------------------------------------------------------------------------------------------

Double = tuple[Operand, Operand]
"""A sum high + low, the low part below half a unit of the high one (Dekker)."""


def two_sum(a: Operand, b: Operand) -> Double:
    """a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_sum(a: Operand, b: Operand) -> Double:
    """a + b exactly where |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Operand, b: Operand) -> Double:
    """a b exactly, by halves of 26 digits (Dekker, Veltkamp)."""

    def halves(x: Operand) -> Double:
        c = x * 134217729.0
        high = c - (c - x)
        return high, x - high

    p = a * b
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def product(a: Double, b: Double) -> Double:
    p, e = two_product(a[0], b[0])
    return fast_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


def total(a: Double, b: Double) -> Double:
    s, e = two_sum(a[0], b[0])
    return fast_sum(s, e + (a[1] + b[1]))


# --- exponentials and logarithms ------------------------------------------------------------------------------------------------

_SERIES_OF_EXP = [1.0 / factorial(n) for n in range(14, 1, -1)]
_LN2_HIGH, _LN2_LOW = in_parts(LN2, 32)


def _exp_parts(x: Operand, more: Operand | None = None) -> tuple[Operand, Operand]:
    """k and t with exp(x + more) = 2^k (1 + t); x of moderate size."""
    k = (x * float(1 / LN2) + MAGIC).bits - _word(MAGIC)
    n = as_real(k)
    high = x - n * _LN2_HIGH
    low = n * _LN2_LOW if more is None else n * _LN2_LOW - more
    r = high - low
    rest = (high - r) - low
    return k, r + (r * r * polynomial(r, _SERIES_OF_EXP) + rest)


def _scaled(y: Operand, k: Operand) -> Operand:
    """y 2^k, also where 2^k alone overflows or is subnormal."""
    half = k >> 1
    return y * power_of_two(half) * power_of_two(k - half)


def _clipped(x: Operand, least: float, most: float) -> Operand:
    return choose(x < least, least, choose(x > most, most, x))


def _exp(x: Operand, more: Operand | None = None) -> Operand:
    k, t = _exp_parts(_clipped(x, -760.0, 720.0), more)
    return choose(x.is_nan, x, _scaled(t + 1.0, k))


def _expm1(x: Operand) -> Operand:
    k, t = _exp_parts(_clipped(x, -60.0, 720.0))
    small = k.test("eq", 0)
    # 2^k - 1 + 2^k t, for 2^k up to 2^60; beyond, 1 does not count
    limited = choose(k.test("sgt", 60), _zero(k), k)
    factor = power_of_two(limited)
    middle = (factor - 1.0) + factor * t
    y = choose(small, t, choose(k.test("sgt", 60), _scaled(t + 1.0, k), middle))
    return choose(x.is_nan, x, choose(x.equals(0.0), x, y))


def _zero(k: Operand) -> Operand:
    return k - k


def _mantissa(x: Operand) -> tuple[Operand, Operand]:
    """m in [sqrt(1/2), sqrt(2)) and the real k of a positive x = m 2^k."""
    small = x < 2.0**-1022
    i = choose(small, x * 2.0**54, x).bits
    k = (i - _word(0.5**0.5)) >> 52
    return (i - (k << 52)).real, as_real(k) - choose(small, 54.0, 0.0)


_SERIES_OF_LOG = [2.0 / (2 * n + 1) for n in range(12, 0, -1)]


def _log_of(f: Operand, k: Operand, more: Operand | None = None) -> Operand:
    """log(2^k (1 + f)) + more: with s = f / (2 + f), log(1 + f) = 2 artanh(s) = f - f^2/2 + s (f^2/2 + R(s^2))."""
    s = f / (f + 2.0)
    z = s * s
    R = z * polynomial(z, _SERIES_OF_LOG)
    half = f * f * 0.5
    low = k * _LN2_LOW if more is None else k * _LN2_LOW + more
    return k * _LN2_HIGH - ((half - (s * (half + R) + low)) - f)


def _log(x: Operand) -> Operand:
    m, k = _mantissa(x)
    y = _log_of(m - 1.0, k)
    y = choose(x.equals(0.0), float("-inf"), choose(x < 0.0, float("nan"), y))
    return choose(x.equals(float("inf")) | x.is_nan, x, y)


def _log1p(x: Operand) -> Operand:
    u = x + 1.0
    m, k = _mantissa(u)
    near = x.size < 0.29
    lost = choose(x > 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    y = _log_of(choose(near, x, m - 1.0), choose(near, 0.0, k), choose(near, 0.0, lost))
    y = choose(x.equals(-1.0), float("-inf"), choose(x < -1.0, float("nan"), y))
    return choose(x.equals(float("inf")) | x.is_nan | x.equals(0.0), x, y)


_LN2_PARTS = in_parts(LN2, 42)
_FIRST_OF_LOG = [tuple(in_parts(Fraction(1, n), 53)) for n in (7, 5, 3)]


def _pow(x: Operand, y: Operand) -> Operand:
    """exp(y log x) with the logarithm to about twenty digits."""
    size = x.size
    m, k = _mantissa(size)
    f = m - 1.0
    d, d_low = two_sum(f.constant(2.0), f)
    s = f / d
    p, e = two_product(s, d)
    s2 = fast_sum(s, (((f - p) - e) - s * d_low) / d)
    z = product(s2, s2)
    tail = polynomial(z[0], [1.0 / (2 * n + 1) for n in range(14, 3, -1)])
    series = two_sum(z[0] * tail, f.constant(0.0))
    for a, b in _FIRST_OF_LOG:
        series = total((f.constant(a), f.constant(b)), series)
        series = product(series, z)
    series = total((f.constant(1.0), f.constant(0.0)), series)
    logarithm = product((s2[0] + s2[0], s2[1] + s2[1]), series)
    logarithm = total((k * _LN2_PARTS[0], k * _LN2_PARTS[1]), logarithm)
    # beyond this exponent every base but one is 0 or infinite
    t, t_low = product((_clipped(y, -(2.0**65), 2.0**65), y.constant(0.0)), logarithm)
    value = _exp(t, choose(t.size > 800.0, 0.0, t_low))
    infinite = float("inf")
    value = choose(size.equals(0.0), choose(y < 0.0, infinite, 0.0), value)
    value = choose(size.equals(infinite), choose(y < 0.0, 0.0, infinite), value)
    whole = y.call("floor").equals(y)
    half = y * 0.5
    odd_power = whole & half.call("floor").test("une", half)
    negative = x.bits.test("slt", 0)
    value = choose(negative & odd_power, -value, value)
    value = choose((x < 0.0) & ~whole & (size < infinite), float("nan"), value)
    value = choose(x.is_nan | y.is_nan, x + y, value)
    return choose(y.equals(0.0) | x.equals(1.0), 1.0, value)


# --- circular functions ---------------------------------------------------------------------------------------------------------

_HALF_PI = in_parts(PI / 2, 33, 33)


def _sine_and_cosine(x: Operand) -> tuple[Operand, Operand, Operand]:
    """Sine and cosine of the angle less k quarter turns, and the integer k; the reduced angle has a low part."""
    shifted = x * float(2 / PI) + MAGIC
    k, n = shifted.bits, shifted - MAGIC
    first, second, third = _HALF_PI
    a = x - n * first  # exact, as the next product
    b = n * second
    high = a - b
    low = ((a - high) - b) - n * third
    y = high + low
    rest = (high - y) + low
    z = y * y
    half = z * 0.5
    sine = y + (y * z * polynomial(z, SIN_POLYNOMIAL) + rest * (1.0 - half))
    w = 1.0 - half
    cosine = w + (((1.0 - w) - half) + (z * z * polynomial(z, COS_POLYNOMIAL) - y * rest))
    return sine, cosine, k


def _turned(sine: Operand, cosine: Operand, k: Operand) -> tuple[Operand, Operand]:
    """Sine and cosine of the whole angle."""
    exchanged = (k & 1).test("ne", 0)
    s, c = choose(exchanged, cosine, sine), choose(exchanged, sine, cosine)
    return (s.bits ^ ((k & 2) << 62)).real, (c.bits ^ (((k + 1) & 2) << 62)).real


def _tan(x: Operand) -> Operand:
    moderate = Operand(x.w, x.lanes, reduce_angle(x.w, x.lanes, x.name))
    s, c = _turned(*_sine_and_cosine(moderate))
    return choose(x.equals(0.0), x, s / c)


_SERIES_OF_ATAN = [(-1.0) ** n / (2 * n + 1) for n in range(8, 0, -1)]


def arctangent(x: Fraction) -> Fraction:
    """atan of a fraction below one to 80 digits, by Euler's series."""
    step = x * x / (1 + x * x)
    term = total_ = x / (1 + x * x)
    n = 1
    while term > Fraction(1, 10**80):
        term = Fraction(round(term * step * 2 * n / (2 * n + 1) * 10**90), 10**90)
        total_ += term
        n += 1
    return total_


def _atan_to_one(num: Operand, den: Operand) -> Double:
    """atan(num / den) as a sum, for 0 <= num <= den: with c = j/8 nearest to the quotient, atan(c) + atan((num - c den) / (den + c num))."""
    j = (num / den * 8.0 + MAGIC) - MAGIC
    c = j * 0.125
    p, e = two_product(c, den)
    t = ((num - p) - e) / (den + c * num)
    z = t * t
    small = t + t * z * polynomial(z, _SERIES_OF_ATAN)
    high, low = num.constant(0.0), num.constant(0.0)
    for n in range(1, 9):
        a, b = in_parts(arctangent(Fraction(n, 8)), 53)
        here = j.equals(float(n))
        high, low = choose(here, a, high), choose(here, b, low)
    return high, small + low


def _atan2(y: Operand, x: Operand) -> Operand:
    a, b = y.size, x.size
    infinite = float("inf")
    both = a.equals(infinite) & b.equals(infinite)
    a, b = choose(both, 1.0, a), choose(both, 1.0, b)
    steep = a > b
    num, den = choose(steep, b, a), choose(steep, a, b)
    # subnormal and huge pairs are scaled, so that the products are exact enough
    tiny, huge = den < 2.0**-900, den > 2.0**900
    factor = choose(tiny, 2.0**120, choose(huge, 2.0**-120, 1.0))
    num, den = num * factor, den * factor
    flat = den.equals(0.0) | den.equals(infinite) | (num / den < 2.0**-60)
    high, low = _atan_to_one(choose(flat, 0.0, num), choose(flat, 1.0, den))
    quotient = choose(den.equals(0.0), 0.0, choose(den.equals(infinite), 0.0, num / den))
    low = choose(flat, quotient, low)
    behind = x.bits.test("slt", 0)
    (half, half_low), (pi, pi_low) = in_parts(PI / 2, 53), in_parts(PI, 53)
    # steep: pi/2 - (high + low); behind: pi minus that
    base = choose(steep, half, choose(behind, pi, 0.0))
    base_low = choose(steep, half_low, choose(behind, pi_low, 0.0))
    against = steep ^ behind
    sign = choose(against, -1.0, 1.0)
    whole, rest = two_sum(base, sign * high)
    value = whole + (rest + (base_low + sign * low))
    value = choose(x.is_nan | y.is_nan, x + y, value)
    return value.call("copysign", y)


# --- the others -----------------------------------------------------------------------------------------------------------------


def _half_exp(x: Operand) -> Operand:
    """exp(x) / 2, also where exp(x) overflows."""
    k, t = _exp_parts(_clipped(x, -760.0, 720.0))
    return choose(x.is_nan, x, _scaled(t + 1.0, k - 1))


def _sinh(x: Operand) -> Operand:
    a = x.size
    e = choose(a > 40.0, 40.0, a).own("expm1")
    y = choose(a > 40.0, _half_exp(a), (e + e / (e + 1.0)) * 0.5)
    return choose(x.equals(0.0) | x.is_nan, x, y.call("copysign", x))


def _cosh(x: Operand) -> Operand:
    half = _half_exp(x.size)
    return half + 0.25 / half


def _tanh(x: Operand) -> Operand:
    e = (choose(x.size > 30.0, 30.0, x.size) * 2.0).own("expm1")
    return choose(x.equals(0.0) | x.is_nan, x, (e / (e + 2.0)).call("copysign", x))


def _asinh(x: Operand) -> Operand:
    a = x.size
    large = a > 2.0**500
    b = choose(large, 1.0, a)
    y = choose(large, a.own("log") + float(LN2), (b + b * b / (1.0 + (b * b + 1.0).root)).own("log1p"))
    return choose(x.equals(0.0), x, y.call("copysign", x))


def _acosh(x: Operand) -> Operand:
    large = x > 2.0**500
    t = choose(large, 0.0, x - 1.0)
    return choose(large, x.own("log") + float(LN2), (t + (t * 2.0 + t * t).root).own("log1p"))


def _atanh(x: Operand) -> Operand:
    a = x.size
    y = ((a + a) / (1.0 - a)).own("log1p") * 0.5
    return choose(x.equals(0.0), x, y.call("copysign", x))


def _hypot(x: Operand, y: Operand) -> Operand:
    a, b = x.size, y.size
    large, small = choose(a > b, a, b), choose(a > b, b, a)
    factor = choose(large > 2.0**500, 2.0**-600, choose(large < 2.0**-500, 2.0**600, 1.0))
    back = choose(large > 2.0**500, 2.0**600, choose(large < 2.0**-500, 2.0**-600, 1.0))
    p, q = large * factor, small * factor
    (square, e), (other, o) = two_product(p, p), two_product(q, q)
    s, r = two_sum(square, other)
    root = (s + (r + (e + o))).root
    infinite = float("inf")
    value = choose(large.equals(0.0), 0.0, root * back)
    value = choose(x.is_nan | y.is_nan, x + y, value)
    return choose(a.equals(infinite) | b.equals(infinite), infinite, value)


def _erf(x: Operand) -> Operand:
    """Up to two: 2 / sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (2n+1)!!, whose terms have one sign; beyond: 1 - erfc by its continued fraction.

    erfc(x) sqrt(pi) exp(x^2) = 1 / (x + 1/2 / (x + 1 / (x + 3/2 / (x + ...))))
    """
    a = choose(x.size > 6.0, 6.0, x.size)
    near, far = choose(a < 2.0, a, 2.0), choose(a < 2.0, 2.0, a)
    z, e = two_product(a, a)
    front = (-z).own("exp")
    front = (front - front * e) * float.fromhex("0x1.20dd750429b6dp+0")  # 2 / sqrt(pi)
    series = near * polynomial(near * near, [1.0 / factors for factors in _double_factorials(60)])
    fraction = far
    for k in range(48, 0, -1):
        fraction = far + (0.5 * k) / fraction
    y = choose(a < 2.0, front * series, 1.0 - 0.5 * front / fraction)
    return choose(x.is_nan, x, y.call("copysign", x))


def _double_factorials(count: int) -> list[float]:
    """(2n+1)!! / 2^n, the largest first."""
    values, value = [], Fraction(1)
    for n in range(count):
        values.append(float(value))
        value *= Fraction(2 * n + 3, 2)
    return values[::-1]


_FUNCTIONS: dict[Op, Callable[..., Operand]] = {
    Op.TAN: _tan,
    Op.ASIN: lambda x: x.own("atan2", ((1.0 - x) * (x + 1.0)).root),
    Op.ACOS: lambda x: ((1.0 - x) * (x + 1.0)).root.own("atan2", x),
    Op.ATAN: lambda x: x.own("atan2", x.constant(1.0)),
    Op.ATAN2: _atan2,
    Op.SINH: _sinh,
    Op.COSH: _cosh,
    Op.TANH: _tanh,
    Op.ASINH: _asinh,
    Op.ACOSH: _acosh,
    Op.ATANH: _atanh,
    Op.EXP: _exp,
    Op.EXPM1: _expm1,
    Op.LOG: _log,
    Op.LOG1P: _log1p,
    Op.POW: _pow,
    Op.HYPOT: _hypot,
    Op.ERF: _erf,
}
_CALLS: dict[Op, tuple[Op, ...]] = {
    Op.ASIN: (Op.ATAN2,),
    Op.ACOS: (Op.ATAN2,),
    Op.ATAN: (Op.ATAN2,),
    Op.SINH: (Op.EXPM1,),
    Op.TANH: (Op.EXPM1,),
    Op.ASINH: (Op.LOG1P, Op.LOG),
    Op.ACOSH: (Op.LOG1P, Op.LOG),
    Op.ATANH: (Op.LOG1P,),
    Op.ERF: (Op.EXP,),
}


def elementary_functions(used: Collection[Op], lanes: Lanes) -> str:
    """IR of all elementary functions that these operations need, by the names that programs call."""
    wanted = {op for op in used if op in LIBM}
    wanted |= {other for op in wanted for other in _CALLS.get(op, ())}
    text = "".join(_function(op, lanes) for op in LIBM if op in wanted and op in _FUNCTIONS)
    text += "".join(_each_lane(str(op), lanes, _remainders(op)) for op in (Op.FMOD, Op.REMAINDER) if op in wanted)
    return text + (_angles(lanes) if {*used} & {Op.SIN, Op.COS, Op.TAN} else "")


def _function(op: Op, lanes: Lanes) -> str:
    w = Writer()
    names = [f"%x{i}" for i in range(LIBM[op])]
    result = _FUNCTIONS[op](*(Operand(w, lanes, name) for name in names))
    w.do(f"ret {lanes.real} {result.name}")
    head = ", ".join(f"{lanes.real} {name}" for name in names)
    return f"define internal {lanes.real} @{libm_name(op)}({head}) nounwind noinline memory(none) {{\n{w.text()}\n}}\n"


def _angles(lanes: Lanes) -> str:
    """IR of ``@sincos``, ``@large`` and ``@reduced`` with the meaning of :func:`.vector_math.sincos`."""
    t = lanes.real
    w = Writer()
    s, c = _turned(*_sine_and_cosine(Operand(w, lanes, "%x")))
    half = w.let(f"insertvalue {{{t}, {t}}} poison, {t} {s.name}, 0")
    w.do(f"ret {{{t}, {t}}} {w.let(f'insertvalue {{{t}, {t}}} {half}, {t} {c.name}, 1')}")
    text = f"define internal {{{t}, {t}}} @sincos({t} %x) nounwind alwaysinline {{\n{w.text()}\n}}\n"
    w = Writer()
    w.do(f"ret {lanes.bits} {(Operand(w, lanes, '%x').size > LARGEST_ANGLE).name}")
    text += f"define internal {lanes.bits} @large({t} %x) nounwind alwaysinline {{\n{w.text()}\n}}\n"
    w = Writer()
    x = Operand(w, lanes, "%x")
    y = choose(x.size > LARGEST_ANGLE, x.own("within_a_turn"), x)
    w.do(f"ret {t} {y.name}")
    text += f"define internal {t} @reduced({t} %x) nounwind noinline cold {{\n{w.text()}\n}}\n"
    return text + _each_lane("within_a_turn", lanes, _within_a_turn())


def _each_lane(name: str, lanes: Lanes, body: str) -> str:
    """IR of a scalar function ``@one_name`` and of its form for all lanes."""
    arity = body.partition(")")[0].count("double %x")
    w = Writer()
    arguments = [f"%x{i}" for i in range(arity)]
    result = "poison"
    for lane in range(lanes.count):
        parts = arguments
        if lanes.count > 1:
            parts = [w.let(f"extractelement {lanes.real} {a}, i32 {lane}") for a in arguments]
        y = w.let(f"call double @one_{name}({', '.join('double ' + p for p in parts)})")
        result = y if lanes.count == 1 else w.let(f"insertelement {lanes.real} {result}, double {y}, i32 {lane}")
    w.do(f"ret {lanes.real} {result}")
    head = ", ".join(f"{lanes.real} {a}" for a in arguments)
    return f"{body}define internal {lanes.real} @{libm_name(name)}({head}) nounwind noinline {{\n{w.text()}\n}}\n"


def _turns(words: int) -> list[int]:
    """The first binary digits of 1 / (2 pi) in words of 32, by Machin's formula for pi."""
    bits = 32 * words + 64

    def inverse_arctangent(n: int) -> int:
        term = total_ = (1 << bits) // n
        k = 3
        while term:
            term //= -n * n
            total_ += term // k
            k += 2
        return total_

    pi = 4 * (4 * inverse_arctangent(5) - inverse_arctangent(239))
    digits = (1 << (2 * bits)) // (2 * pi) >> 64
    return [(digits >> (32 * (words - 1 - i))) & 0xFFFFFFFF for i in range(words)]


WORDS = 40
"""Words of 1 / (2 pi): the largest angle has an exponent of 971, and five words follow."""


def _within_a_turn() -> str:
    """IR of ``double @one_within_a_turn(x)``: the angle less whole turns, for large x (Payne and Hanek).

    x = m 2^e. In the product with 1 / (2 pi) = sum of w_i 2^(-32 (i + 1)) all whole turns are left out: integers overflow by whole turns.
    """
    w, one = Writer(), Lanes(1)
    x = Operand(w, one, "%x0")
    word = x.size.bits
    exponent = (word >> 52) - 1075
    mantissa = (word & ((1 << 52) - 1)) + (1 << 52)
    first = exponent.let(f"call i64 @llvm.smax.i64(i64 {(exponent >> 5).name}, i64 0)")
    fraction: Operand = _zero(word)
    for i in range(6):
        index = first + i
        place = w.let(f"getelementptr i32, ptr @turns, i64 {index.name}")
        digit = word.let(f"zext i32 {w.let(f'load i32, ptr {place}')} to i64")
        for part, weight in ((mantissa & ((1 << 27) - 1), 0), (mantissa >> 27, 27)):
            piece = part * digit
            shift = exponent - index * 32 + (32 + weight)  # of a number whose unit is a turn 2^-64
            left = word.let(f"call i64 @llvm.smin.i64(i64 {shift.name}, i64 63)")
            left = word.let(f"call i64 @llvm.smax.i64(i64 {left.name}, i64 0)")
            right = word.let(f"call i64 @llvm.smax.i64(i64 {(_zero(shift) - shift).name}, i64 0)")
            right = word.let(f"call i64 @llvm.smin.i64(i64 {right.name}, i64 63)")
            moved = word.let(f"shl i64 {piece.name}, {left.name}")
            moved = choose(shift.test("sgt", 63), _zero(word), moved)
            shrunk = word.let(f"lshr i64 {piece.name}, {right.name}")
            fraction = fraction + choose(shift.test("slt", 0), shrunk, moved)
    turn = x.let(f"sitofp i64 {fraction.name} to double") * (float(2 * PI) * 2.0**-64)
    y = choose(x < 0.0, -turn, turn)
    y = choose(x.size < float("inf"), y, float("nan"))
    w.do(f"ret double {y.name}")
    digits = ", ".join(f"i32 {digit}" for digit in _turns(WORDS))
    table = f"@turns = internal constant [{WORDS} x i32] [{digits}]\n"
    return f"define internal double @one_within_a_turn(double %x0) nounwind noinline {{\n{w.text()}\n}}\n{table}"


def _remainders(op: Op) -> str:
    """IR of ``double @one_fmod(x, y)`` or ``@one_remainder(x, y)``: exact, by subtracting y times powers of two."""
    w, one = Writer(), Lanes(1)
    x, y = Operand(w, one, "%x0"), Operand(w, one, "%x1")
    nearest = op is Op.REMAINDER
    a, b = x.size, y.size
    rest, step = w.local("double"), w.local("double")
    step_start = b
    valid = (a < float("inf")) & (b > 0.0)
    w.do(f"store double {choose(valid, a, 0.0).name}, ptr {rest}")
    w.do(f"store double {choose(valid & (b < float('inf')), step_start, 1.0).name}, ptr {step}")

    def load(place: str) -> Operand:
        return Operand(w, one, w.let(f"load double, ptr {place}"))

    def grow(_: str) -> None:
        t = load(step)
        w.do(f"store double {(t + t).name}, ptr {step}")

    def reached(_: str) -> str:
        t = load(step)
        return (t + t).test("ugt", load(rest)).name

    w.loop("0", 1, reached, grow)

    def below(_: str) -> str:
        return load(step).test("ult", choose((b > 0.0) & (b < float("inf")), b, float("inf"))).name

    def shrink(_: str) -> None:
        t, r = load(step), load(rest)
        w.do(f"store double {choose(r >= t, r - t, r).name}, ptr {rest}")
        # the parity of the quotient is that of its last subtraction
        if nearest:
            w.do(f"store double {choose(r >= t, 1.0, 0.0).name}, ptr {parity}")
        w.do(f"store double {(t * 0.5).name}, ptr {step}")

    parity = w.local("double") if nearest else ""
    if nearest:
        w.do(f"store double {one.constant(0.0)}, ptr {parity}")
    w.loop("0", 1, below, shrink)
    r = load(rest)
    if nearest:
        # compare r with b - r, which is exact where it matters
        other = b - r
        odd = load(parity) > 0.0
        up = (r > other) | (r.equals(other) & odd)
        r = choose(up & (b < float("inf")), r - b, r)
    negative = x.bits.test("slt", 0)
    r = choose(negative, -r, r)
    r = choose(valid, r, float("nan"))
    r = choose(x.is_nan | y.is_nan, x + y, r)
    w.do(f"ret double {r.name}")
    return f"define internal double @one_{op}(double %x0, double %x1) nounwind noinline {{\n{w.text()}\n}}\n"
