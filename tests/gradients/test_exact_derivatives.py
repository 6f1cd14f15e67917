"""Gradients over 1,000 steps against derivatives without truncation error: complex steps, and differences of 40 digits (mpmath).

The oracle integrates ``q' = A(q) v``, ``v' = a`` by Runge and Kutta's classical method on its own kind of numbers. With angles as coordinates that
is the very step of ``rkmk4``; on rotation matrices both differ by their truncation error, far below the tolerance at these step sizes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.compile import numpy_source, trace

STEPS = 1000
SYSTEMS = {
    "double-pendulum": 5e-4,
    "cart-pole": 1e-3,
    "furuta": 5e-4,
    "heavy-top": 5e-4,
    "quadcopter": 1e-3,
    "panda": 2e-4,
}
"""Size of a step in s."""


def rates(model: ht.Model, kind: type, namespace: dict[str, Any]) -> Any:
    """(q, v, u, p) -> (q', v') on arrays of numbers of a kind."""
    motion = model.traced("motion")

    def both(q: Any, v: Any, u: Any, p: Any) -> dict[str, Any]:
        w, a = motion.expressions(q, v, u, p)[:2]
        return {"q": model.coordinates.rate(q, w), "v": a}

    sizes = {"q": (model.nq,), "v": (model.nv,), "u": (model.nu,), "p": (len(model.parameter_names),)}
    source = numpy_source(trace(both, sizes, name="rates"), "rates", "numpy").replace("import numpy as np", "")
    source = source.replace("dtype=float", f"dtype={kind.__name__}")
    lines = [f"{x[:-1]}, dtype={kind.__name__})" if "np.empty(" in x else x for x in source.splitlines()]
    exec("\n".join(lines), namespace)
    return namespace["rates"]


def end(function: Any, q: Any, v: Any, inputs: Any, p: Any, h: Any, sixth: Any) -> tuple[Any, Any]:
    """The state after steps with the samples (n, ..., nu) of the inputs."""
    for u in inputs:
        k1 = function(q, v, u, p)
        k2 = function(q + h / 2 * k1[0], v + h / 2 * k1[1], u, p)
        k3 = function(q + h / 2 * k2[0], v + h / 2 * k2[1], u, p)
        k4 = function(q + h * k3[0], v + h * k3[1], u, p)
        q, v = (x + h * (a + 2 * b + 2 * c + d) * sixth for x, a, b, c, d in zip((q, v), k1, k2, k3, k4, strict=True))
    return q, v


def case(name: str) -> tuple[Any, ...]:
    """Model, start, samples of inputs, weights of the end, and the gradient of the weighted end."""
    model, rng = ht.library.load(name).derive(), np.random.default_rng(8)
    q = np.asarray(model.coordinates.retract(model.neutral(), 0.5 * rng.standard_normal(model.coordinates.nv)))
    v = 0.5 * rng.standard_normal(model.nv)
    inputs = rng.standard_normal((STEPS, model.nu)) + (2.2 if name == "quadcopter" else 0.0)
    weights = rng.standard_normal(model.nq), rng.standard_normal(model.nv)
    loss = ht.Loss(end=lambda t, q, v: np.vecdot(q, weights[0]) + np.vecdot(v, weights[1]))
    h = SYSTEMS[name]
    given = inputs if model.nu else None
    return model, q, v, inputs, weights, ht.gradient(loss, model, (q, v), STEPS * h, h, inputs=given)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SYSTEMS)
def test_complex_step(name: str) -> None:
    """By every direction of the start, every parameter, and a direction of all samples of the inputs."""
    model, q, v, inputs, weights, found = case(name)
    c, p, rng = model.coordinates, model.parameter_vector(), np.random.default_rng(9)
    d_u = rng.standard_normal(inputs.shape)
    n, k, m = c.nv, model.nv, len(p)
    count, e = n + k + m + 1, 1e-100j
    pick = np.eye(count)
    q_c = q + e * np.matvec(c.kinematics_matrix(q), pick[:, :n])
    v_c, p_c = v + e * pick[:, n : n + k], p + e * pick[:, n + k : n + k + m]
    u_c = inputs[:, None] + e * pick[:, -1:] * d_u[:, None]
    q_n, v_n = end(rates(model, complex, {"np": np}), q_c, v_c, u_c, p_c, SYSTEMS[name], 1 / 6)
    expected = (q_n @ weights[0] + v_n @ weights[1]).imag / 1e-100
    parameters = [found.parameters[label] for label in model.parameter_names]
    along = (found.inputs * d_u).sum() if model.nu else 0.0
    mine = np.array([*found.q, *found.v, *parameters, along])
    assert np.abs(mine - expected).max() < 1e-9 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cart-pole", "heavy-top"])
def test_forty_digits(name: str) -> None:
    """Along one direction of start, parameters and inputs."""
    import mpmath

    model, q, v, inputs, weights, found = case(name)
    c, p, rng = model.coordinates, model.parameter_vector(), np.random.default_rng(10)
    d_q, d_v, d_p = (rng.standard_normal(size) for size in (c.nv, model.nv, len(p)))
    d_u = rng.standard_normal(inputs.shape)

    functions = {label: np.frompyfunc(getattr(mpmath, label), 1, 1) for label in ("sin", "cos", "sqrt")}
    numpy = SimpleNamespace(asarray=np.asarray, empty=np.empty, broadcast_shapes=np.broadcast_shapes, **functions)
    with mpmath.workdps(40):
        exact = np.frompyfunc(mpmath.mpf, 1, 1)
        function = rates(model, object, {"np": numpy})
        e, move = mpmath.mpf(10) ** -13, np.matvec(c.kinematics_matrix(q), d_q)

        def value(e: Any) -> Any:
            start = exact(q) + e * exact(move), exact(v) + e * exact(d_v)
            u = exact(inputs) + e * exact(d_u) if model.nu else inputs.astype(object)
            q_n, v_n = end(function, *start, u, exact(p) + e * exact(d_p), mpmath.mpf(SYSTEMS[name]), mpmath.mpf(1) / 6)
            return (q_n * weights[0]).sum() + (v_n * weights[1]).sum()

        expected = float((value(e) - value(-e)) / (2 * e))
    along = found.q @ d_q + found.v @ d_v
    along += sum(found.parameters[label] * d for label, d in zip(model.parameter_names, d_p, strict=True))
    along += (found.inputs * d_u).sum() if model.nu else 0.0
    assert along == pytest.approx(expected, rel=1e-9)
