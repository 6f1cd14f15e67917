"""Ready-made problems from the default guess: optimum, defect, limits between the nodes."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.errors import ShapeError, UnknownNameError
from heavytop.geometry import se3
from heavytop.plan import Effort, Fatrop, problems

QUICK = ("cart-pole",)


def slow_but(names) -> list:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


def test_every_problem_has_a_best_known_cost() -> None:
    assert problems.BEST_KNOWN.keys() == problems.PROBLEMS.keys()


@pytest.mark.parametrize("name", slow_but(("cart-pole", "furuta", "bicopter")))
@pytest.mark.thorough
def test_another_solver_finds_the_best_known_cost(name: str) -> None:
    plan = problems.load(name).plan(solver=Fatrop())
    assert plan.cost == pytest.approx(problems.BEST_KNOWN[name], rel=2e-6)


@pytest.mark.parametrize(
    ("task", "hover"),
    [
        (problems.quadcopter_gates, [0.9 * 9.81 / 4] * 4),
        (problems.load_transport, [0.0, 1.3 * 9.81 / 3] * 3),
        (problems.bicopter_transfer, [0.0, 9.81 / 2 / np.cos(np.radians(15.0))] * 2),
    ],
)
def test_effort_counts_from_hovering(task, hover) -> None:
    """Inputs in balance follow from the model; here by hand from its mass and its rotors."""
    (effort,) = (term for _, term in task().options["cost"].terms if isinstance(term, Effort))
    np.testing.assert_allclose(effort.about, hover, atol=1e-12)


def test_a_perch_belongs_to_a_model() -> None:
    model = problems.bicopter().derive()
    with pytest.raises(UnknownNameError, match="'wing'"):
        problems.perch(model, "wing", (0, 0, 0))
    assert [item.label for item in problems.perch(model, "hull", (1, 0, 0))] == ["point of 'hull' at (1, 0, 0)", "rest"]


@pytest.mark.parametrize("name", slow_but(name for name in problems.BEST_KNOWN if name != "load"))
def test_optimum_and_defect(name: str) -> None:
    plan = problems.load(name).plan()
    assert plan.cost == pytest.approx(problems.BEST_KNOWN[name], rel=1e-3)
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


@pytest.mark.thorough
def test_a_flip_goes_once_around() -> None:
    """Rolling back from upside down is not a flip."""
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
    """The base turns about an axis without joint, and no external force acts."""
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


def test_unknown_problem() -> None:
    with pytest.raises(UnknownNameError, match="planning problem"):
        problems.load("gate")


def test_a_position_to_perch_has_three_coordinates() -> None:
    with pytest.raises(ShapeError, match="perch"):
        problems.quadcopter_perch(at=0.26)
