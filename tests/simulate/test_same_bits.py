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
    bent = m.integrate(m.neutral(), 0.3 * np.ones(m.nv), 1.0)  # branches meet where all bars lie on a line
    pairs = [m.assemble(bent, 0.3 * rng.standard_normal(m.nv)) for _ in range(MOST)]
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
                    same_records(batch, place, alone[k])


def same_records(batch: ht.Run, place: int, alone: ht.Run) -> None:
    """Equal to the last bit; a run that fails ends there alone, and is not finite any more in a batch."""
    n = len(alone.t)
    np.testing.assert_array_equal(batch.q[:n, place], alone.q)
    np.testing.assert_array_equal(batch.v[:n, place], alone.v)
    np.testing.assert_array_equal(batch.u[:n, place], alone.u)
    if n < len(batch.t):
        assert not alone.outcome.ok
        rest = np.concatenate([batch.q[n:, place], batch.v[n:, place]], axis=-1)
        assert not np.isfinite(rest).all(axis=-1).any()


@pytest.mark.thorough
@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
def test_the_tricopter_with_load_has_the_same_bits_alone_and_in_a_batch(integrator: str) -> None:
    check("tricopter-load", integrator, (2, 3))


@pytest.mark.thorough
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


@pytest.mark.parametrize(
    "integrator",
    ["rkmk4", *(pytest.param(x, marks=pytest.mark.slow) for x in ("rkmk8", "rkmk45", "projected_rk4", "variational"))],
)
@pytest.mark.thorough
def test_the_balance_does_not_change_the_motion(integrator: str) -> None:
    """Without it batches agree with single runs nevertheless."""
    system = ht.System(name="driven")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    top = ht.Inertia(1.0, com=(0.1, 0, -0.5), moment_at_com=(1, 2, 3))
    system.body("top", parent="rod", joint=ht.Spherical(), inertia=top)
    system.input("motor", ht.JointForce("rod"))
    system.joint_damper("rod", damping=0.3)
    driven = system.derive()
    q, v = driven.random(np.random.default_rng(0), (2,)), np.linspace(-1, 1, driven.nv)
    batch = ht.simulate(driven, (q, v), 0.1, 0.01, integrator, inputs=[0.5], balance=False)
    alone = ht.simulate(driven, (q[1], v), 0.1, 0.01, integrator, inputs=[0.5])
    assert batch.work is None
    assert alone.work is not None
    same_records(batch, 1, alone)


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
    m = model(name)
    bound = m.is_constrained or m.coordinates.nv != m.nv
    if integrator in ("energy_momentum", "variational") and (bound or name == "tricopter-load"):
        pytest.skip("for free motions of moderate size")
    check(name, integrator, (2, 3, 4, 5, 8, MOST))
