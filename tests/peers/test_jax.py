"""Functions of a model as JAX functions: the same numbers, gradients that are finite, batches by vmap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.compile import numpy_source

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.peers


@pytest.fixture(scope="module", autouse=True)
def _double() -> Any:
    jax.config.update("jax_enable_x64", True)


def function(model: ht.Model, name: str) -> Any:
    names: dict[str, Any] = {}
    exec(numpy_source(model.traced(name), name, library="jax"), names)
    return names[name]


@pytest.mark.parametrize("name", ["quadcopter", "furuta", "chain:5"])
def test_the_same_accelerations_and_derivatives(name: str) -> None:
    model = ht.library.load(name).derive()
    rng = np.random.default_rng(0)
    q, v, u = model.random(rng, (4,)), rng.standard_normal((4, model.nv)), rng.standard_normal((4, model.nu))
    p = model.parameter_vector()
    acceleration = function(model, "acceleration")
    given = {"q": q, "v": v, "u": u, "p": np.tile(p, (4, 1))}
    inputs = [given[label] for label in model.traced("acceleration").inputs]
    expected = model.acceleration(q, v, u)
    assert np.allclose(jax.jit(acceleration)(*inputs)[0], expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(jax.vmap(acceleration)(*inputs)[0], expected, rtol=1e-12, atol=1e-12)
    slope = jax.vmap(jax.jacfwd(lambda *x: acceleration(*x)[0], argnums=1))(*inputs)
    assert np.allclose(slope, model.acceleration_derivatives(q, v, u)[2], rtol=1e-10, atol=1e-10)


def test_gradients_at_rest_are_finite() -> None:
    """At the neutral attitude and at zero velocity, where logarithms and norms have their removable singularities."""
    model = ht.library.load("quadcopter").derive()
    energy = function(model, "energy")
    labels = model.traced("energy").inputs
    values = {"q": model.neutral(), "v": np.zeros(model.nv), "p": model.parameter_vector()}
    slopes = jax.grad(lambda *x: energy(*x)[0], argnums=tuple(range(len(labels))))(*(values[n] for n in labels))
    assert all(np.isfinite(slope).all() for slope in slopes)
