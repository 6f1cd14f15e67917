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


def test_car_changes_lanes_from_the_default_guess() -> None:
    """A car that starts in motion coasts in the guess; speed is kept, as only the steering has an input."""
    car = ht.library.car().derive()
    names = ("chassis.angle.angle", "front.angle", "steer_rate")
    goal = [Between("chassis.position.y", 3.5, 3.5), *(Between(name, 0.0, 0.0) for name in names)]
    plan = ht.plan(car, ([0, 0, 0, 0], [10.0, 0]), goal, 4.0, limits=(-20, 20), steps=20)
    assert plan.iterations < 20
    assert plan.cost == pytest.approx(0.17, rel=0.1)
    assert plan.q[-1, 0] == pytest.approx(40.0, abs=0.5)
    np.testing.assert_allclose(plan.v[:, 0], 10.0, atol=0.05)


def _pushed(linkage: ht.Model) -> tuple[np.ndarray, np.ndarray]:
    """A configuration to hold, against gravity and with the help of the reactions of the loop, and a start near it."""
    held, _ = linkage.assemble(np.array([1.1, 1.1, -1.1]), np.zeros(3))
    return held, linkage.assemble(held + np.array([0.1, 0.1, -0.1]), np.zeros(3))[0]


def test_regulator_on_a_loop(linkage: ht.Model) -> None:
    held, start = _pushed(linkage)
    law = ht.control.lqr(linkage, held)
    run = ht.simulate(linkage, (start, np.zeros(3)), until=5.0, step=0.01, control=law)
    np.testing.assert_allclose(run.q[-1], held, atol=1e-4)
    assert law.region([0.1], samples=3)[0] == 1.0


@pytest.mark.slow
def test_predictive_control_on_a_loop(linkage: ht.Model) -> None:
    held, start = _pushed(linkage)
    ahead = ht.control.mpc(linkage, held, horizon=10, limits=(-60, 60))
    run = ht.simulate(linkage, (start, np.zeros(3)), until=5.0, step=0.01, inputs=ahead, control_step=ahead.step)
    np.testing.assert_allclose(run.q[-1], held, atol=1e-4)


def test_open_loops_are_refused(linkage: ht.Model) -> None:
    with pytest.raises(PlanError, match="violates its loops"):
        ht.plan(linkage, [1.0, 0.5, 0.0], [0.8, 0.8, -0.8], 1.0)
