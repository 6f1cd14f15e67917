"""Coefficient functions against 80 digits, on both sides of every limit, with their derivatives."""

import mpmath as mp
import numpy as np
import pytest

from heavytop.compile import trace
from heavytop.geometry import series

mp.mp.dps = 80


def angle(z):
    return mp.sqrt(z) if z > mp.mpf(10) ** -30 else mp.mpf(10) ** -15


def versine(z):
    t = angle(z)
    return 2 * mp.sin(t / 2) ** 2 / t**2


def cubic(z):
    t = angle(z)
    return (t - mp.sin(t)) / t**3


def cotangent(z):
    t = angle(z)
    return (1 - t / 2 * mp.cot(t / 2)) / t**2


def sine(z):
    return mp.sin(angle(z)) / angle(z)


REFERENCE = {
    "half_sine": (lambda z: series.half_angle(z)[0], lambda z: mp.sin(angle(z) / 2) / (angle(z) / 2)),
    "half_cosine": (lambda z: series.half_angle(z)[1], lambda z: mp.cos(angle(z) / 2)),
    "sine": (lambda z: series.sine_versine(z)[0], sine),
    "versine": (lambda z: series.sine_versine(z)[1], versine),
    "cubic": (series.cubic, cubic),
    "cotangent": (series.cotangent, cotangent),
    "versine_slope": (series.versine_slope, lambda z: (sine(z) - 2 * versine(z)) / angle(z) ** 2),
    "cubic_slope": (series.cubic_slope, lambda z: (versine(z) - 3 * cubic(z)) / angle(z) ** 2),
    "cotangent_slope": (
        series.cotangent_slope,
        lambda z: (1 / (2 * versine(z)) + angle(z) / 2 * mp.cot(angle(z) / 2) - 2) / angle(z) ** 4,
    ),
}
LIMITS = (1.0, 4.0, 12.0)
AROUND = [x for limit in LIMITS for x in (np.nextafter(limit, 0), limit, np.nextafter(limit, 99), limit * (1 - 3e-16))]
GRID = [0.0, 1e-300, *np.geomspace(1e-24, 1e-2, 23), *np.linspace(0.02, 38.4, 160), *AROUND]


@pytest.mark.parametrize("name", REFERENCE)
def test_values(name):
    function, reference = REFERENCE[name]
    z = np.array(GRID)
    exact = [reference(mp.mpf(x)) for x in z]
    # sine and half cosine cross zero, where only an absolute error means something; the pole and the zero of the half
    # sine at a full turn multiply the rounding of the angle by 1 / (1 - theta / 2 pi)
    scale = np.array([1.0 if name in ("sine", "half_cosine") else abs(float(e)) for e in exact])
    error = np.array([abs(float(mp.mpf(float(f)) - e)) for f, e in zip(function(z), exact, strict=True)])
    amplification = 1.0 / (1.0 - np.sqrt(z) / (2 * np.pi))
    assert np.all(error <= 6e-16 * amplification * scale + 2e-16 * scale)


@pytest.mark.parametrize("name", REFERENCE)
def test_derivatives_exist_and_are_accurate_on_both_sides_of_the_limits(name):
    import casadi

    function, reference = REFERENCE[name]
    z = casadi.SX.sym("z")
    f = trace(function, {"z": ()}).function
    first = casadi.Function("d", [z], [casadi.jacobian(f(z), z)])
    second = casadi.Function("dd", [z], [casadi.hessian(f(z), z)[0]])
    for x in (0.0, 1e-300, 1e-20, 1e-6, 0.3, *AROUND, 20.0, 30.0):
        base = max(mp.mpf(x), mp.mpf(10) ** -12)
        exact = mp.diff(reference, base, h=mp.mpf(10) ** -20)
        exact2 = mp.diff(reference, base, 2, h=mp.mpf(10) ** -16)
        assert float(first(x)) == pytest.approx(float(exact), rel=1e-11), x
        assert float(second(x)) == pytest.approx(float(exact2), rel=1e-9), x


def test_large_arguments_neither_overflow_nor_warn():
    z = np.array([1e4, 1e150])
    with np.errstate(all="raise"):
        for function, _ in REFERENCE.values():
            assert np.all(np.isfinite(function(z)))


@pytest.mark.parametrize(
    "angle", [0.0, 1e-160, 1e-9, 0.1, 0.2 - 1e-16, 0.2, 0.2 + 1e-16, 0.7, 1.2, np.pi / 2 - 1e-9, np.pi / 2]
)
def test_arctangent(angle):
    y, w = np.sin(angle) ** 2, np.cos(angle)
    exact = mp.atan2(mp.sqrt(mp.mpf(y)), mp.mpf(w)) / mp.sqrt(mp.mpf(y)) if y > 0 else 1
    assert float(series.arctangent(y, w)) == pytest.approx(float(exact), rel=5e-16)
