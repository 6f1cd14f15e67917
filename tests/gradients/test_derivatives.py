"""Derivatives of traced functions: right where they exist, finite everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from extrapolation import slope

import heavytop as ht
from heavytop.compile import adjoint, tangent, trace

SMOOTH = {
    "sqrt": (np.sqrt, 0.7),
    "reciprocal": (lambda x: 1 / (x - 3), 0.7),
    "sin": (np.sin, 0.7),
    "cos": (np.cos, 0.7),
    "tan": (np.tan, 0.7),
    "arcsin": (np.arcsin, 0.7),
    "arccos": (np.arccos, 0.7),
    "arctan": (np.arctan, 0.7),
    "arctan2": (lambda x: np.arctan2(x, 0.3 - x), 0.7),
    "sinh": (np.sinh, 0.7),
    "cosh": (np.cosh, 0.7),
    "tanh": (np.tanh, 0.7),
    "arcsinh": (np.arcsinh, 0.7),
    "arccosh": (np.arccosh, 1.7),
    "arctanh": (np.arctanh, 0.7),
    "exp": (np.exp, 0.7),
    "log": (np.log, 0.7),
    "power": (lambda x: x**2.5, 0.7),
    "small power": (lambda x: x**0.3, 0.7),
    "variable power": (lambda x: x**x, 0.7),
    "hypot": (lambda x: np.hypot(x, 2 * x + 1), 0.7),
    "abs": (np.abs, -0.7),
    "minimum": (lambda x: np.minimum(x * x, 1.0), 0.7),
    "maximum": (lambda x: np.maximum(1.0, x * x), 0.7),
    "where": (lambda x: np.where(x > 0, x**3, np.sqrt(x)), 0.7),
    "copysign": (lambda x: np.copysign(x * x, x - 5), 0.7),
    "remainder": (lambda x: np.fmod(5 * x, 2.0), 0.7),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_every_operation_against_differences(name: str) -> None:
    function, x = SMOOTH[name]
    traced = trace(lambda x: function(x), {"x": ()}, name="f")
    along, _ = tangent(traced, (0,))
    back, _ = adjoint(traced, (0,), (0,))
    expected = slope(lambda e: traced(np.asarray(x + e))[0])
    np.testing.assert_allclose(along(x, 1.0)[1], expected, rtol=1e-9)
    np.testing.assert_allclose(back(x, 1.0)[0], expected, rtol=1e-9)


SINGULAR = {
    "norm at rest": (lambda x: np.sqrt(np.vecdot(x, x)), np.zeros(3)),
    "direction of nothing": (lambda x: np.arctan2(x[0], x[1]), np.zeros(3)),
    "angle of parallel vectors": (lambda x: np.arccos(x[0]), np.array([1.0, 0, 0])),
    "hypot at rest": (lambda x: np.hypot(x[0], x[1]), np.zeros(3)),
    "root of a power": (lambda x: np.vecdot(x, x) ** 0.5, np.zeros(3)),
    "branch not taken": (
        lambda x: np.where(x[0] > 0, np.sqrt(x[0]) + np.log(x[0]) + x[1] / x[0], x[0]),
        np.zeros(3),
    ),
    "sine over its argument": (
        lambda x: np.where(np.vecdot(x, x) > 0, np.sin(np.sqrt(np.vecdot(x, x))) / np.sqrt(np.vecdot(x, x)), 1.0),
        np.zeros(3),
    ),
    "absolute value": (lambda x: np.abs(x[0]), np.zeros(3)),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_finite_where_formulas_divide_by_zero(name: str) -> None:
    function, x = SINGULAR[name]
    traced = trace(lambda x: function(x), {"x": (3,)}, name="f")
    along, _ = tangent(traced, (0,))
    back, _ = adjoint(traced, (0,), (0,))
    assert np.isfinite(along(x, np.ones(3))[1]).all()
    assert np.isfinite(back(x, 1.0)[0]).all()


def test_limits_follow_the_inside_at_the_limit() -> None:
    clipped = trace(lambda x: np.minimum(np.maximum(x, -1.0), 1.0), {"x": ()}, name="clip")
    back, _ = adjoint(clipped, (0,), (0,))
    assert [float(back(x, 1.0)[0]) for x in (-1.5, -1.0, 0.0, 1.0, 1.5)] == [0, 1, 1, 1, 0]


def test_adjoint_adds_to_what_is_there() -> None:
    traced = trace(lambda x, y: x * y, {"x": (), "y": ()}, name="product")
    back, reached = adjoint(traced, (0, 1), (0,), added=(1,))
    assert reached == (0, 1)
    assert [float(g) for g in back(2.0, 3.0, 1.0, 10.0)] == [3.0, 12.0]


@pytest.mark.parametrize("kind", ["rotation matrix", "quaternion"])
def test_attitudes_at_identity_and_half_turns(kind: str) -> None:
    coordinates = ht.coordinates.Rotation() if kind == "rotation matrix" else ht.coordinates.Quaternion()
    shapes = {"q": (coordinates.nq,), "d": (3,)}
    functions = {
        "retract": trace(lambda q, d: coordinates.retract(q, d), shapes, name="retract"),
        "difference": trace(
            lambda q, d: coordinates.difference(q, coordinates.retract(q, d)), shapes, name="difference"
        ),
        "tangent_inverse": trace(lambda q, d: coordinates.tangent_inverse(d, d + 1.0), shapes, name="tangent_inverse"),
    }
    q = coordinates.neutral()
    for traced in functions.values():
        back, _ = adjoint(traced, (0, 1), (0,))
        along, _ = tangent(traced, (0, 1))
        for axis in (np.zeros(3), np.array([np.pi, 0, 0]), np.full(3, np.pi / np.sqrt(3)), np.array([0, 2 * np.pi, 0])):
            for scale in (0.0, 1e-300, 1e-160, 1e-8, 1.0):
                assert all(np.isfinite(g).all() for g in back(q, scale * axis, np.ones(traced.output_sizes[0])))
                assert np.isfinite(along(q, scale * axis, np.ones(coordinates.nq), np.ones(3))[1]).all()
