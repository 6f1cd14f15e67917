"""LLVM IR of the elementary functions on W lanes: sine and cosine in registers, the others by the C library lane by lane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heavytop.compile.backends.lanes import Lanes, Writer, any_lane
from heavytop.compile.program import Op

SINCOS_LIMIT = 1e9
"""Largest argument of the sine and cosine in registers; larger ones are reduced by the C library."""

_UNARY = "tan asin acos atan sinh cosh tanh asinh acosh atanh exp expm1 log log1p erf"
LIBM = dict.fromkeys(map(Op, _UNARY.split()), 1) | dict.fromkeys((Op.ATAN2, Op.POW, Op.HYPOT, Op.FMOD, Op.REMAINDER), 2)
"""Operations of the C library, lane by lane, with their number of arguments."""


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
    """IR of three functions: ``{sine, cosine} @sincos(x)`` without branches for moderate arguments, ``@large(x)``,
    the mask of lanes with larger arguments, and ``@reduced(x)``, which brings those into range.

    With k = round(2 x / pi), ``x - k HALF_PI_HIGH`` is exact in a fused multiply-add (both are multiples of 2**-53
    and the result is below one), and the second part adds one rounding: the reduced argument is accurate to 2**-54 up
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

    result = _pair(w, t, choose(cosine, s, quadrant), choose(s, cosine, next_quadrant))
    w.do(f"ret {{{t}, {t}}} {result}")
    main = f"define internal {{{t}, {t}}} @sincos({t} %x) nounwind alwaysinline {{\n{w.text()}\n}}\n"
    return main + _large(lanes) + _reduced(lanes)


def _pair(w: Writer, t: str, first: str, second: str) -> str:
    half = w.let(f"insertvalue {{{t}, {t}}} poison, {t} {first}, 0")
    return w.let(f"insertvalue {{{t}, {t}}} {half}, {t} {second}, 1")


def _large(lanes: Lanes) -> str:
    t = lanes.real
    w = Writer()
    size = w.let(f"call {t} @llvm.fabs.{lanes.suffix}({t} %x)")
    w.do(f"ret {lanes.bits} {w.let(f'fcmp ogt {t} {size}, {lanes.constant(SINCOS_LIMIT)}')}")
    return f"define internal {lanes.bits} @large({t} %x) nounwind alwaysinline {{\n{w.text()}\n}}\n"


def _reduced(lanes: Lanes) -> str:
    """The angle within a turn, by the C library, in the lanes with a large argument; the others keep theirs."""
    t = lanes.real
    w = Writer()
    s, c = (w.let(f"call {t} @{libm_name(name)}({t} %x)") for name in ("sin", "cos"))
    angle = w.let(f"call {t} @{libm_name('atan2')}({t} {s}, {t} {c})")
    mask = w.let(f"call {lanes.bits} @large({t} %x)")
    w.do(f"ret {t} {w.let(f'select {lanes.bits} {mask}, {t} {angle}, {t} %x')}")
    return f"define internal {t} @reduced({t} %x) nounwind noinline cold {{\n{w.text()}\n}}\n"


def sincos_plain(lanes: Lanes) -> str:
    """The same interface without fused multiply-add: the C library in every lane, for arguments of any size."""
    t, bits = lanes.real, lanes.bits
    w = Writer()
    parts = [w.let(f"call {t} @{libm_name(name)}({t} %x)") for name in ("sin", "cos")]
    w.do(f"ret {{{t}, {t}}} {_pair(w, t, *parts)}")
    none = "false" if lanes.count == 1 else "zeroinitializer"
    return (
        f"define internal {{{t}, {t}}} @sincos({t} %x) nounwind alwaysinline {{\n{w.text()}\n}}\n"
        f"define internal {bits} @large({t} %x) nounwind alwaysinline {{\n  ret {bits} {none}\n}}\n"
        f"define internal {t} @reduced({t} %x) nounwind alwaysinline {{\n  ret {t} %x\n}}\n"
    )


def some_large(w: Writer, lanes: Lanes, angles: Sequence[str]) -> str:
    """Whether any lane of any angle is too large for :func:`sincos`, as i1."""
    masks = [w.let(f"call {lanes.bits} @large({lanes.real} {x})") for x in angles]
    some = masks[0]
    for mask in masks[1:]:
        some = w.let(f"or {lanes.bits} {some}, {mask}")
    return any_lane(w, lanes, some)


def reduce_angle(w: Writer, lanes: Lanes, x: str) -> str:
    """The argument of :func:`sincos` brought into range; ends the current block."""
    t = lanes.real
    here, rare, usual = w.fresh("here"), w.fresh("rare"), w.fresh("usual")
    some = some_large(w, lanes, [x])
    w.label(here)
    w.do(f"br i1 {some}, label %{rare}, label %{usual}, !prof !0")
    w.start(rare)
    reduced = w.let(f"call {t} @reduced({t} {x})")
    w.label(usual)
    return w.let(f"phi {t} [ {x}, %{here} ], [ {reduced}, %{rare} ]")


BRANCH_WEIGHTS = '!0 = !{!"branch_weights", i32 1, i32 1000000}\n'
"""Metadata that :func:`reduce_angle` refers to."""
