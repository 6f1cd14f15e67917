"""Fastest motions of joints against ruckig: the same durations, for one and for several coordinates, from and to any states."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import control

ruckig = pytest.importorskip("ruckig")

pytestmark = pytest.mark.peers


def robot(count: int) -> ht.Model:
    system = ht.System(name="robot")
    for k in range(count):
        system.body(f"j{k}", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    return system.derive(native=False)


@pytest.mark.parametrize("moving", [False, True], ids=["rest", "moving"])
def test_durations_are_those_of_ruckig(moving) -> None:
    rng, ratios = np.random.default_rng(int(moving)), []
    models = {n: robot(n) for n in range(1, 8)}
    for _ in range(250):
        n = int(rng.integers(1, 8))
        v, a, j = rng.uniform(0.5, 3, n), rng.uniform(1, 8, n), rng.uniform(5, 60, n)
        points = rng.uniform(-2, 2, (2, n))
        speeds = rng.uniform(-0.95, 0.95, (2, n)) * v * moving
        names = [f"j{k}" for k in range(n)]
        limits = control.MotionLimits(*(dict(zip(names, x.tolist(), strict=True)) for x in (v, a, j)))
        own = control.joint_reference(models[n], points, limits, velocities=speeds)
        given = ruckig.InputParameter(n)
        given.current_position, given.target_position = points.tolist()
        given.current_velocity, given.target_velocity = speeds.tolist()
        given.max_velocity, given.max_acceleration, given.max_jerk = v.tolist(), a.tolist(), j.tolist()
        peer = ruckig.Trajectory(n)
        assert ruckig.Ruckig(n).calculate(given, peer) in (ruckig.Result.Working, ruckig.Result.Finished)
        ratios.append(own.duration / peer.duration)
        t = np.linspace(0.0, own.duration, 301)
        q, w, b = own(t)
        np.testing.assert_allclose(q[[0, -1]], points, atol=1e-8)
        assert np.all(np.abs(w) <= v * (1 + 1e-9))
        assert np.all(np.abs(b) <= a * (1 + 1e-9))
    assert np.max(ratios) < 1.01
    assert np.min(ratios) > 1 - 1e-6  # a shorter one would break a limit


def test_scales_of_many_orders_of_magnitude() -> None:
    rng, model = np.random.default_rng(7), robot(1)
    for _ in range(300):
        v, a, j = 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-2, 4)
        start, distance = rng.uniform(-3, 3), 10 ** rng.uniform(-5, 3) * rng.choice([-1, 1])
        speeds = rng.uniform(-0.99, 0.99, 2) * v * rng.integers(0, 2, 2)
        own = control.joint_reference(
            model, [[start], [start + distance]], control.MotionLimits(v, a, j), velocities=speeds[:, None]
        )
        given = ruckig.InputParameter(1)
        given.current_position, given.target_position = [start], [start + distance]
        given.current_velocity, given.target_velocity = [speeds[0]], [speeds[1]]
        given.max_velocity, given.max_acceleration, given.max_jerk = [v], [a], [j]
        peer = ruckig.Trajectory(1)
        ruckig.Ruckig(1).calculate(given, peer)
        assert own.duration == pytest.approx(peer.duration, rel=1e-6)
