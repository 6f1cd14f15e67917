"""Decision 7: a trajectory has the same bits alone, in any batch, at any place in it, on any number of threads."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import library

MOST = 11
"""Largest batch: more than two groups of lanes, and a part of one."""


@cache
def model(name: str) -> ht.Model:
    return library.load(name).derive()


def starts(name: str) -> tuple[np.ndarray, np.ndarray]:
    """States (MOST, n), those of mechanisms assembled."""
    m, rng = model(name), np.random.default_rng(11)
    if not m.is_constrained:
        return m.coordinates.random(rng, (MOST,)), rng.standard_normal((MOST, m.nv))
    pairs = [m.assemble(m.neutral(), 0.3 * rng.standard_normal(m.nv)) for _ in range(MOST)]
    return np.array([q for q, _ in pairs]), np.array([v for _, v in pairs])


def check(name: str, integrator: str, sizes: tuple[int, ...], **options: Any) -> None:
    q, v = starts(name)

    def run(at: Any, threads: int = 1) -> ht.Run:
        return ht.simulate(
            model(name), (q[at], v[at]), 0.05, 0.01, integrator, balance=False, threads=threads, **options
        )

    alone = [run(k) for k in range(max(sizes))]
    for size in sizes:
        for order in (np.arange(size), np.arange(size)[::-1]):
            for threads in (1, 2):
                batch = run(order, threads)
                for place, k in enumerate(order):
                    np.testing.assert_array_equal(batch.q[:, place], alone[k].q)
                    np.testing.assert_array_equal(batch.v[:, place], alone[k].v)
                    np.testing.assert_array_equal(batch.u[:, place], alone[k].u)


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
def test_the_tricopter_with_load_has_the_same_bits_alone_and_in_a_batch(integrator: str) -> None:
    check("tricopter-load", integrator, (2, 3))


@pytest.mark.parametrize(
    ("name", "integrator"),
    [("heavy-top", "rkmk4"), ("free-body", "energy_momentum"), ("double-pendulum", "projected_rk4")],
)
def test_trajectories_have_the_same_bits_alone_and_in_a_batch(name: str, integrator: str) -> None:
    check(name, integrator, (3, MOST))


@pytest.mark.parametrize("hold", ["zero-order", "continuous"])
def test_closed_loops_have_the_same_bits_alone_and_in_a_batch(hold: str) -> None:
    law = ht.Feedback(lambda t, q, v: ht.vector(1e-3 * (np.sin(t) - np.sin(q[0]) * v[1] - v[0])), ("t", "q", "v"))
    check("furuta", "rkmk4", (3,), control=law, hold=hold)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "tricopter-load",
        "chain:5",
        "furuta",
        "free-body",
        "rolling-disc",
        "four-bars:2",
        "governor",
        "andrews",
        "bricard",
    ],
)
@pytest.mark.parametrize(
    "integrator", ["rkmk4", "rkmk6", "rkmk8", "rkmk45", "projected_rk4", "energy_momentum", "variational"]
)
def test_every_integrator_has_the_same_bits_alone_and_in_a_batch(name: str, integrator: str) -> None:
    if integrator in ("energy_momentum", "variational") and (model(name).is_constrained or name == "tricopter-load"):
        pytest.skip("for free motions of moderate size")
    check(name, integrator, (2, 3, 4, 5, 8, MOST))
