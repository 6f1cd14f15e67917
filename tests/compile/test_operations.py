"""Every operation against NumPy, also at zero, infinity and NaN, for one lane and for the lanes of this machine."""

import casadi
import mpmath
import numpy as np
import pytest
from hypothesis import given, seed, settings, strategies as st

from heavytop._arrays import from_sx, to_sx
from heavytop.compile import Kernel, Op, Program, trace
from heavytop.compile.backends.vector_math import SINCOS_LIMIT

SPECIAL = np.array(
    [-np.inf, -1e300, -7.3, -2.5, -1.0, -0.5, -1e-300, -0.0, 0.0, 1e-300, 0.3, 1.0, 2.5, 9.0, 1e300, np.inf, np.nan]
)

try:
    from scipy.special import erf
except ImportError:
    erf = None

UNARY = {
    "NEG": np.negative,
    "SQ": np.square,
    "TWICE": lambda x: 2 * x,
    "INV": lambda x: 1 / x,
    "SQRT": np.sqrt,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "TANH": np.tanh,
    "ASINH": np.arcsinh,
    "ACOSH": np.arccosh,
    "ATANH": np.arctanh,
    "EXP": np.exp,
    "EXPM1": np.expm1,
    "LOG": np.log,
    "LOG1P": np.log1p,
    "ERF": erf,
    "FABS": np.fabs,
    "SIGN": np.sign,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "NOT": lambda x: (x == 0).astype(float),
}
BINARY = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "POW": np.power,
    "ATAN2": np.arctan2,
    "HYPOT": np.hypot,
    "FMIN": np.minimum,
    "FMAX": np.maximum,
    "FMOD": np.fmod,
    "COPYSIGN": np.copysign,
    "LT": lambda a, b: (a < b).astype(float),
    "LE": lambda a, b: (a <= b).astype(float),
    "EQ": lambda a, b: (a == b).astype(float),
    "NE": lambda a, b: (a != b).astype(float),
    "AND": lambda a, b: ((a != 0) & (b != 0)).astype(float),
    "OR": lambda a, b: ((a != 0) | (b != 0)).astype(float),
    "IF_ELSE_ZERO": lambda a, b: np.where(a != 0, b, 0.0),
}


def unary(name):
    number = getattr(casadi, f"OP_{name}")
    return trace(lambda x: from_sx(casadi.SX.unary(number, to_sx(x)), ()), {"x": ()}, name=name.lower())


def binary(name):
    number = getattr(casadi, f"OP_{name}")
    return trace(lambda x, y: from_sx(casadi.SX.binary(number, to_sx(x), to_sx(y)), ()), {"x": (), "y": ()}, name=name)


@pytest.mark.parametrize("lanes", [1, None])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, lanes):
    x = np.concatenate([SPECIAL, np.random.default_rng(1).normal(size=100) * 3])
    with np.errstate(all="ignore"):
        expected = UNARY[name](x)
    np.testing.assert_allclose(Kernel(unary(name), lanes)(x)[0], expected, rtol=4e-16, atol=2.3e-16)


@pytest.mark.parametrize("lanes", [1, None])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, lanes):
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    with np.errstate(all="ignore"):
        expected = BINARY[name](x, y)
    kernel = Kernel(binary(name), lanes)
    assert kernel.native
    np.testing.assert_allclose(kernel(x, y)[0], expected, rtol=4e-16)


def test_constant_power_and_choice():
    f = trace(lambda x: np.where(x > 0, x**2.5, -(x**3)), {"x": ()}, name="f")
    x = np.array([-2.0, 0.0, 3.0])
    np.testing.assert_allclose(Kernel(f)(x)[0], [8.0, 0.0, 3.0**2.5], rtol=1e-15)
    assert "select" in Program.from_traced(f).histogram


def test_choice_keeps_nan_out():
    f = trace(lambda x: np.where(x > 0, np.sqrt(x), 0.5), {"x": ()}, name="f")
    np.testing.assert_array_equal(Kernel(f)([-1.0, 4.0])[0], [0.5, 2.0])


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e5, 1e7, 0.99 * SINCOS_LIMIT])
@pytest.mark.parametrize("lanes", [1, None])
def test_sincos_accuracy(scale, lanes):
    rng = np.random.default_rng(0)
    near = np.round(rng.uniform(-scale, scale, 400) / (np.pi / 4)) * (np.pi / 4)
    x = np.concatenate([rng.uniform(-scale, scale, 1500), near, np.nextafter(near, np.inf), near + 1e-9])
    s, c = Kernel(trace(lambda x: (np.sin(x), np.cos(x)), {"x": ()}, name="sc"), lanes)(x)
    with mpmath.workdps(40):
        error_s = max(
            abs(float(mpmath.sin(mpmath.mpf(float(a))) - mpmath.mpf(float(b)))) for a, b in zip(x, s, strict=True)
        )
        error_c = max(
            abs(float(mpmath.cos(mpmath.mpf(float(a))) - mpmath.mpf(float(b)))) for a, b in zip(x, c, strict=True)
        )
    assert max(error_s, error_c) <= 2.2e-16


def test_sincos_beyond_the_limit():
    x = np.array([1.01 * SINCOS_LIMIT, 1e15, -1e22, 1e300, 0.5, np.inf, -np.inf, np.nan])
    with np.errstate(invalid="ignore"):
        expected = np.sin(x), np.cos(x)
    s, c = Kernel(trace(lambda x: (np.sin(x), np.cos(x)), {"x": ()}, name="sc"))(x)
    np.testing.assert_allclose(s, expected[0], rtol=0, atol=4e-16)
    np.testing.assert_allclose(c, expected[1], rtol=0, atol=4e-16)


def test_sincos_of_computed_angles():
    """Angles that are no inputs take a branch of their own."""
    f = trace(lambda x: np.sin(x * x) + np.cos(3 * x) * np.sin(x), {"x": ()}, name="f")
    x = np.array([0.3, 1e6, 1e12, -4.0, np.nan, 2.0, 5e9])
    np.testing.assert_allclose(Kernel(f)(x)[0], np.sin(x * x) + np.cos(3 * x) * np.sin(x), rtol=0, atol=1e-15)
    np.testing.assert_allclose(Kernel(f, chunk=2)(x)[0], Kernel(f)(x)[0], rtol=0, atol=1e-15)


def test_sincos_without_fused_multiply_add(monkeypatch):
    """A processor without the instruction gets the C library, also for large arguments."""
    from heavytop.compile import jit

    monkeypatch.setattr(jit.Machine, "fma", False)
    x = np.array([0.3, 1e6, 1e12, -4.0, np.nan])
    s, c = Kernel(trace(lambda x: (np.sin(x), np.cos(x)), {"x": ()}, name="sc"))(x)
    np.testing.assert_allclose(s, np.sin(x), rtol=0, atol=1.2e-16)
    np.testing.assert_allclose(c, np.cos(x), rtol=0, atol=1.2e-16)


def test_large_neighbour_does_not_change_a_lane():
    """A lane that takes the slow path must leave the others at the bits of the fast one."""
    kernel = Kernel(trace(lambda x: (np.sin(x), np.cos(x)), {"x": ()}, name="sc"))
    x = np.random.default_rng(3).normal(size=64) * 50
    alone = kernel(x)
    mixed = x.copy()
    mixed[::3] = 1e20
    together = kernel(mixed)
    keep = np.arange(64) % 3 != 0
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a[keep], b[keep])


def test_sine_and_cosine_are_neighbours():
    program = Program.from_traced(trace(lambda x: np.sin(x) * np.exp(x) + np.cos(x), {"x": ()}, name="f"))
    ops = [i.op for i in program.code]
    assert abs(ops.index(Op.SIN) - ops.index(Op.COS)) == 1


def test_inputs_constants_and_unused_inputs_as_outputs():
    f = trace(lambda x, y: (x, np.array([1.5, 0.0]), y[0]), {"x": (3,), "y": (2,)})
    out = Kernel(f)([1.0, 2, 3], [[4.0, 5], [6, 7]])
    np.testing.assert_array_equal(out[0], [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(out[1], [[1.5, 0]] * 2)
    np.testing.assert_array_equal(out[2], [4, 6])


SAFE_UNARY = [
    np.negative,
    np.sin,
    np.cos,
    np.tanh,
    np.arctan,
    np.fabs,
    lambda a: np.sqrt(a * a + 1),
    lambda a: 1 / (a * a + 1),
]
SAFE_BINARY = [np.add, np.subtract, np.multiply, np.fmin, np.fmax, np.arctan2, lambda a, b: np.where(a < b, a, 2 * b)]


@seed(20)
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 14), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=40),
    st.integers(1, 9),
)
@pytest.mark.thorough
def test_random_graphs(steps, chunk):
    """A random expression graph: NumPy itself, the interpreter, native code whole and in chunks agree."""

    def function(x):
        values = [x[i] for i in range(3)] if hasattr(x, "to_casadi") else list(np.moveaxis(x, -1, 0))
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            new = SAFE_UNARY[kind](a) if kind < 8 else SAFE_BINARY[kind - 8](a, b)
            values.append(new / (1 + np.fabs(new) * 0.01))
        return np.stack(values[-3:], axis=-1)

    f = trace(function, {"x": (3,)}, name="graph")
    x = np.random.default_rng(len(steps)).normal(size=(6, 3))
    expected = function(x)
    whole = Kernel(f)(x)[0]
    np.testing.assert_allclose(whole, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(f(x)[0], whole, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(Kernel(f, chunk=chunk)(x)[0], whole, rtol=1e-9, atol=1e-9)
