"""Ready-made problems from the default guess: optimum, defect, limits between the nodes."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.errors import ShapeError, UnknownNameError
from heavytop.geometry import se3
from heavytop.plan import problems

BEST = {
    "cart-pole": 0.53585,
    "furuta": 6.59556,
    "gates": 2.48907,
    "flip": 0.65949,
    "perch": 0.98279,
    "bicopter": 0.85989,
    "arm": 0.36253,
}
QUICK = ("cart-pole",)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in BEST])
def test_optimum_and_defect(name: str) -> None:
    plan = problems.load(name).plan()
    assert plan.cost == pytest.approx(BEST[name], rel=1e-3)
    assert plan.accuracy < 1e-8
    low, high = plan.problem.bounds.u
    assert np.all(plan.u >= low)
    assert np.all(plan.u <= high)
    assert plan.violation[1] < 1e-6


@pytest.mark.slow
def test_gates_are_passed_in_less_time_than_known() -> None:
    plan = problems.quadcopter_gates().plan()
    assert plan.duration < 2.606
    passed = plan.reference(plan.phase_times[:-1])[0][:, :3]
    np.testing.assert_allclose(passed, [(3, 2, 1), (6, -2, 2), (9, 0, 1)], atol=1e-6)


def test_a_flip_goes_once_around() -> None:
    """Turning back from upside down would be no flip."""
    plan = problems.quadcopter_flip(steps=40).plan(tolerance=1e-3)
    spin = plan.v[:, 3:]
    turned = np.linalg.norm((0.5 * (spin[1:] + spin[:-1]) * np.diff(plan.times)[:, None]).sum(axis=0))
    assert turned == pytest.approx(2 * np.pi, rel=0.02)


@pytest.mark.slow
def test_load_swings_within_its_cone() -> None:
    plan = problems.load_transport().plan()
    t = np.linspace(0, plan.duration, 400)
    q, v, _ = plan.reference(t)
    up = plan.model.pose("world", "load", q)[:, 2, 2]
    assert np.degrees(np.arccos(up.min())) < 31.0  # held at the nodes, a little more between them
    assert plan.accuracy < 1e-8
    assert np.abs(v[-1]).max() < 1e-6


@pytest.mark.slow
def test_momentum_of_the_free_arm_stays_zero() -> None:
    """The base turns about an axis that no joint has, and no outer force acts."""
    plan = problems.arm_reorientation().plan()
    run = plan.run()
    assert run.q[-1, 4] == pytest.approx(np.sin(np.radians(20)), abs=1e-5)
    assert np.abs(run.q[-1, 12:]).max() < 1e-5
    force = np.matvec(plan.model.mass_matrix(run.q), run.v)
    pose = plan.model.pose("world", "base", run.q)
    linear = np.matvec(se3.rotation(pose), force[:, :3])
    angular = np.matvec(se3.rotation(pose), force[:, 3:6]) + np.cross(
        se3.position(pose), linear
    )  # about the origin of the world
    assert np.abs(force[:, 6:]).max() > 0.1  # the joints do move
    np.testing.assert_allclose(linear, 0.0, atol=1e-10)
    np.testing.assert_allclose(angular, 0.0, atol=1e-10)


def test_unknown_problem_is_told() -> None:
    with pytest.raises(UnknownNameError, match="planning problem"):
        problems.load("gate")


def test_a_place_to_perch_has_three_coordinates() -> None:
    with pytest.raises(ShapeError, match="the place to perch"):
        problems.quadcopter_perch(at=0.26)
