"""Gradients at random and at special states are finite: rest, identity, half turns, tiny and large velocities, no thrust."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht


def special_states(model: ht.Model, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random states, a fifth each at the neutral configuration, turned from it by special angles, and at rest."""
    c, kind = model.coordinates, rng.integers(0, 5, count)[:, None]
    neutral = np.broadcast_to(model.neutral(), (count, model.nq))
    turns = np.zeros((count, c.nv))
    turns[np.arange(count), rng.integers(0, c.nv, count)] = np.pi * rng.choice([1, 0.5, 2, 1e-8, 1e-160], count)
    turned, q = np.asarray(c.retract(neutral, turns)), model.random(rng, (count,))
    v = rng.standard_normal((count, model.nv)) * rng.choice([0, 1e-160, 1e-12, 1e-6, 1, 30], (count, 1))
    return np.where(kind == 0, neutral, np.where(kind == 1, turned, q)), np.where(kind == 2, 0.0, v)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "integrator"),
    [
        ("quadcopter", "rkmk4"),
        ("quadcopter", "projected_rk4"),
        ("heavy-top", "rkmk4"),
        ("heavy-top", "variational"),
        ("pendulum", "energy_momentum"),
        ("furuta", "rkmk4"),
        ("panda", "rkmk4"),
    ],
)
def test_gradients_are_finite(name: str, integrator: str) -> None:
    model, rng = ht.library.load(name).derive(), np.random.default_rng(5)
    start = special_states(model, 4096, rng)
    inputs = rng.standard_normal((1, 4096, model.nu)) * rng.choice([0, 0, 1, 10], (1, 4096, 1))
    loss = ht.Loss(
        end=lambda t, q, v: np.sqrt(np.vecdot(v, v)) + q[0], running=lambda t, q, v, u: np.sqrt(np.vecdot(v, v))
    )
    found = ht.gradient(loss, model, start, 0.002, 0.001, integrator=integrator, inputs=inputs)
    parts = [found.q, found.v, found.inputs, *found.parameters.values()]
    assert all(np.isfinite(x).all() for x in parts if x is not None)
