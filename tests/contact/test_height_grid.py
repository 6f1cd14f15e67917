"""Heights on a grid: the smooth surface through the points, and a ball that rolls on it."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError

BOWL, BALL = 1.0, 0.05


def bowl(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return BOWL - np.sqrt(BOWL**2 - x * x - y * y)


def grid(n: int) -> ht.HeightGrid:
    x, y = np.meshgrid(np.linspace(-0.4, 0.4, n), np.linspace(-0.3, 0.3, n), indexing="ij")
    return ht.HeightGrid(bowl(x, y), x=(-0.4, 0.4), y=(-0.3, 0.3))


def test_the_surface_passes_through_its_points_with_order_4_between() -> None:
    coarse, fine = grid(9), grid(17)
    assert np.allclose([coarse(x, 0.3) for x in np.linspace(-0.4, 0.4, 9)], coarse.z[:, -1], atol=1e-15)
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-0.1, 0.1, (2, 200))  # away from the edges, whose curvature is zero
    errors = [np.max(np.abs(surface(x, y) - bowl(x, y))) for surface in (coarse, fine)]
    assert errors[1] < 1e-6
    assert errors[0] > 8 * errors[1]
    assert coarse(2.0, 0.0) == coarse(0.4, 0.0)


def test_grids_that_make_no_surface_raise_errors() -> None:
    with pytest.raises(ModelError, match=r"\(3, 5\)"):
        ht.HeightGrid(np.zeros((3, 5)), (0, 1), (0, 1))
    with pytest.raises(ModelError, match="ascending"):
        ht.HeightGrid(np.zeros((4, 4)), (1, 0), (0, 1))
    with pytest.raises(ModelError, match="x must be the first and last position"):
        ht.HeightGrid(np.zeros((4, 4)), 1.0, (0, 1))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="2500"):
        ht.HeightGrid(np.zeros((60, 60)), (0, 1), (0, 1))


@pytest.mark.thorough
def test_a_ball_rolls_in_a_bowl_given_on_a_grid_as_in_the_function() -> None:
    """The swing of 0.1 rad for 3 s: 1e-5 m, and the balance of energy closes."""
    ends = []
    for height in (bowl, grid(17)):
        system = ht.System(name="bowl")
        inertia = ht.Inertia(0.1, moment_at_com=np.full(3, 0.4 * 0.1 * BALL**2))
        system.body("ball", joint=ht.Free(velocity="mixed"), inertia=inertia)
        system.ground(height=height, friction=0.8)
        system.contact("ball", "ground", ht.Sphere(BALL))
        model = system.derive()
        q, v = model.neutral(), np.zeros(6)
        q[0], q[2] = (BOWL - BALL) * np.sin(0.1), BOWL - (BOWL - BALL) * np.cos(0.1)
        run = ht.simulate(model, (q, v), 3.0, 1e-3, "moreau")
        assert run.outcome.ok
        assert run.invariants["energy"].relative < 1e-12
        ends.append(run.q[-1, :3])
    assert np.max(np.abs(ends[0] - ends[1])) < 2e-5
