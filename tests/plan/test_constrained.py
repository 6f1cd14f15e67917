"""Plans of systems with loops and of rolling ones with minimal velocities."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import PlanError
from heavytop.library.mechanisms import four_bars
from heavytop.plan import Between


@pytest.fixture(scope="module")
def linkage() -> ht.Model:
    system = four_bars(1)
    system.input("motor", ht.JointForce("crank0"))
    return system.derive()


def test_four_bar_linkage(linkage: ht.Model) -> None:
    """The loop stays closed; a goal of all coordinates and one of the crank alone are the same."""
    start, _ = linkage.assemble(np.array([np.pi / 2, np.pi / 2, -np.pi / 2]), np.zeros(3))
    goal, _ = linkage.assemble(np.array([0.8, 0.8, -0.8]), np.zeros(3))
    crank = [Between("crank0.angle", float(goal[0]), float(goal[0])), Between("crank0.rate", 0.0, 0.0)]
    plans = [ht.plan(linkage, start, end, 1.5, limits=(-60, 60), steps=20) for end in (goal, crank)]
    assert plans[0].cost == pytest.approx(plans[1].cost, rel=1e-6)
    for plan in plans:
        np.testing.assert_allclose(plan.q[-1], goal, atol=1e-7)
        position, velocity = linkage.constraint_residuals(plan.q, plan.v)
        assert np.abs(position).max() < 1e-7
        assert np.abs(velocity).max() < 1e-7


def test_open_loops_are_refused(linkage: ht.Model) -> None:
    with pytest.raises(PlanError, match="violates its loops"):
        ht.plan(linkage, [1.0, 0.5, 0.0], [0.8, 0.8, -0.8], 1.0)
