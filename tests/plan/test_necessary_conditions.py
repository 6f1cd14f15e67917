"""Necessary conditions: contradicting bounds, positions beyond the links and distances beyond the speed are rejected before a solver starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from plan.test_momentum import STARTED, Never

import heavytop as ht
from heavytop.errors import PlanError
from heavytop.plan import (
    AtPose,
    Between,
    Gate,
    HalfSpace,
    InfeasibleError,
    KeepIn,
    KeepOut,
    KeepOutBox,
    Phase,
    Point,
    Rest,
)
from heavytop.plan.guess import nearest
from heavytop.plan.necessary_conditions import reach
from heavytop.plan.problem import Problem
from heavytop.plan.problem_builder import ProblemArguments, build_problem

FAR = (0.0, 0.0, 2.0)
POSE = np.eye(4)
POSE[:3, 3] = FAR


@pytest.fixture(scope="module")
def arm() -> ht.Model:
    """Two links of 0.5 and 0.4 m on a post of 0.2 m."""
    system = ht.System(name="arm")
    link = ht.Inertia(1.0, com=(0, 0, 0.25), moment_at_com=(0.1, 0.1, 0.1))
    system.body("upper", joint=ht.Revolute("y"), at=(0, 0, 0.2), inertia=link)
    system.body("lower", parent="upper", at=(0, 0, 0.5), joint=ht.Revolute("y"), inertia=link)
    system.frame("tip", "lower", at=(0, 0, 0.4))
    for name in ("upper", "lower"):
        system.input(f"M_{name}", ht.JointForce(name))
    return system.derive()


GOALS = [
    (Point("tip", FAR), "0.9 m from the first joint, .* by 0.9 m"),
    (Point("tip", FAR, radius=0.1), "by 0.8 m"),
    (AtPose("tip", POSE), "pose of 'tip' by 0.9 m"),
    (KeepIn("tip", (3, -1, -1), (4, 1, 1)), "by 2.1 m"),
    (HalfSpace("tip", (0, 0, 1), 1.5), "by 0.4 m"),
    (KeepOut("tip", (0, 0, 0.2), 1.0), "by 0.1 m"),
    (KeepOutBox("tip", (-2, -2, -2), (2, 2, 2.2)), "by 1.1 m"),
    ([Between("upper.angle", 2, 2), Between("upper.angle", -1, 1)], "at least 2 .* and at most 1 "),
    ([Rest(), Between("upper.rate", 1, 1)], "at least 1 .* and at most 0 .rest."),
    ([Point("tip", (0.5, 0, 0.5), radius=0.1), Point("tip", (-0.5, 0, 0.5), radius=0.1)], "by 0.8"),
]


@pytest.mark.parametrize(("goal", "text"), GOALS)
@pytest.mark.parametrize("guess", [None, "straight"])
def test_goals(arm: ht.Model, goal: Any, text: str, guess: Any) -> None:
    with pytest.raises(PlanError, match=text):
        ht.plan(arm, [0.0, 0.0], goal, 2.0, solver=Never(), guess=guess)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": [Gate("tip", FAR, radius=0.2)]}, "the end of phase 1 .* by 0.7 m"),
        ({"path": [KeepOut("tip", (0.5, 0, 0.5), 0.2), Gate("tip", (0.5, 0, 0.5), radius=0.05)]}, "by 0.15"),
        ({"path": [Between("M_upper", 20, 30)], "limits": {"M_upper": (-10, 10)}}, "the way .* 'M_upper' must be at least 20"),
        ({"path": [Between("upper.rate", -0.1, 0.1)]}, "in 2 s the distance of 1 is 0.8 too far"),
    ],
)  # fmt: skip
def test_ways(arm: ht.Model, options: dict[str, Any], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        ht.plan(arm, [0.0, 0.0], [1.0, 0.0], 2.0, solver=Never(), **options)


def test_goals_by_name_that_are_too_far_for_the_speed(arm: ht.Model) -> None:
    limits = {"upper.rate": (-1.0, 1.0)}
    with pytest.raises(PlanError, match=r"the goal cannot be reached: .* in 0.5 s the distance of 1 is 0.5 too far"):
        ht.plan(arm, [0.0, 0.0], [Between("upper.angle", 1, 2)], 0.5, limits=limits, solver=Never())
    phases = [Phase(0.1, 0.5, 5, end=(Between("upper.angle", -2, -1),)), Phase(0.1, 9.0, 5)]
    with pytest.raises(PlanError, match=r"the end of phase 1 cannot be reached: .* in 0.5 s the distance of 1 is 0.5"):
        ht.plan(arm, [0.0, 0.0], [0.0, 0.0], phases=phases, limits=limits, solver=Never())


def test_conditions_of_the_next_phase_hold_where_it_begins(arm: ht.Model) -> None:
    """The node between two phases belongs to both."""
    phases = [
        Phase(1.0, 1.0, 5, end=(Between("upper.angle", 1, 1),)),
        Phase(1.0, 1.0, 5, path=(Between("upper.angle", -0.5, 0.5),)),
    ]
    with pytest.raises(PlanError, match="the end of phase 1 .* at least 1 .* at most 0.5"):
        ht.plan(arm, [0.0, 0.0], [0.0, 0.0], phases=phases, solver=Never())


def problem(model: ht.Model, start: Any, goal: Any, **options: Any) -> Problem:
    return build_problem(ProblemArguments(model, start, goal, 1.0, **options))


def test_reach_is_the_largest_distance(arm: ht.Model) -> None:
    """No configuration goes beyond it, and the stretched arm comes there."""
    made = problem(arm, [0.0, 0.0], [1.0, 0.0])
    found = reach(made, "tip", (0.0, 0.1, 0.0))
    assert found is not None
    pivot, far = found
    np.testing.assert_allclose(pivot, [0, 0, 0.2])
    q = np.random.default_rng(0).uniform(-np.pi, np.pi, (500, 2))
    q[0] = 0.0
    G = arm.pose("world", "tip", q)
    away = np.linalg.norm(G[:, :3, 3] + G[:, :3, :3] @ [0.0, 0.1, 0.0] - pivot, axis=1)
    assert away.max() <= far + 1e-12
    straight = reach(made, "tip")
    assert straight is not None
    assert straight[1] == pytest.approx(0.9)


@pytest.mark.thorough
def test_reach_depends_on_parameters_and_ignores_sliders() -> None:
    system = ht.System(name="arm")
    length = system.parameter("length", 0.5)
    system.body("upper", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, 0.25)))
    system.body(
        "lower", parent="upper", at=(0, 0, length), joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, 0.25))
    )
    system.body("slider", parent="lower", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.input("M", ht.JointForce("upper"))
    arm = system.derive()
    made = problem(arm, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], parameters={"length": 2.0})
    found = reach(made, "lower")
    assert found is not None
    assert found[1] == pytest.approx(2.0)
    assert reach(made, "slider") is None


def test_distant_positions_are_found() -> None:
    """A free vehicle may be anywhere: 500 m are found in a few steps."""
    quad = ht.library.quadcopter().derive()
    far = Point("hull", (500.0, -300.0, 20.0))
    made = problem(quad, quad.neutral(), [far, Rest()])
    found = nearest(made, quad.neutral(), (far,))
    np.testing.assert_allclose(found[:3], [500.0, -300.0, 20.0], atol=1e-9)


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


def test_a_motion_without_duration_is_rejected(cart: ht.Model) -> None:
    with pytest.raises(PlanError, match="takes no time"):
        ht.plan(cart, [0.0, 0.0], [0.0, 0.0], steps=10)


def test_phases_that_take_no_time_have_inputs(cart: ht.Model) -> None:
    """Intervals without length do not divide by zero."""
    plan = ht.plan(cart, [0.0, 0.0], [0.5, 0.0], 1.0, steps=10, inputs="linear", tolerance=1e-2)
    times = plan.times.copy()
    times[-2:] = times[-3]
    still = replace(plan, times=times)
    assert np.all(np.isfinite(still.inputs([0.3, times[-1]])))
    assert np.all(np.isfinite(still.reference(times[-1])[0]))
    assert np.all(np.isfinite(still.run(20).q))


def test_distances_of_other_systems_are_rejected(cart: ht.Model) -> None:
    plan = ht.plan(cart, [0.0, 0.0], [0.1, 0.0], 1.0, steps=10, tolerance=1e-2)
    furuta = ht.library.furuta().derive()
    with pytest.raises(
        PlanError, match="other coordinates .theta.angle, alpha.angle. than the plan of 'cart and pole'"
    ):
        plan.distance(ht.simulate(furuta, ([0.0, 0.0], [0.0, 0.0]), 0.1, 1e-2))


@pytest.fixture(scope="module")
def ball() -> ht.Model:
    """A ball that can be pushed along all axes."""
    system = ht.System(gravity=(0, 0, 0), name="ball")
    parent = "world"
    for axis in "xyz":
        system.body(axis, parent=parent, joint=ht.Prismatic(axis), inertia=ht.Inertia(1.0))
        system.input(f"F{axis}", ht.JointForce(axis))
        parent = axis
    return system.derive()


@pytest.mark.parametrize(
    ("path", "goal", "text"),
    [
        ([Gate("z", (1, 0, 0)), KeepOut("z", (1, 0, 0.1), 0.5)], None, "phase 1 .* by 0.4"),
        ([Gate("z", (1, 0, 5)), KeepIn("z", (-9,) * 3, (9, 9, 2))], None, "by 3"),
        ([Gate("z", (1, 0, 5)), HalfSpace("z", (0, 0, -1), -4.0)], None, "by 1"),
        ([], [Point("z", (1, 0, 0)), Point("z", (3, 0, 0))], "the goal .* by 2"),
    ],
)
def test_points_that_contradict_constraints(ball: ht.Model, path, goal, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        ht.plan(ball, [0, 0, 0], [2, 0, 0] if goal is None else goal, path=path, solver=Never())


def test_a_free_body_that_is_too_slow() -> None:
    model = ht.library.quadcopter().derive()
    start, goal = model.neutral(), model.neutral().copy()
    goal[:3] = 3.0, 0.0, 4.0
    limits = {**dict.fromkeys(model.u_names, (0.0, 7.0)), **dict.fromkeys(model.v_names[:3], (-1.0, 2.0))}
    with pytest.raises(PlanError, match="has to move by 5 m, .* at most 3.4641 m in 1 s"):
        ht.plan(model, start, goal, 1.0, limits=limits, solver=Never())
    with STARTED:  # 6.9 m in 2 s
        ht.plan(model, start, goal, 2.0, limits=limits, solver=Never())


@pytest.mark.thorough
def test_the_solver_finds_unreachable_points(arm: ht.Model) -> None:
    """A point off the plane of the arm, within the length of its links: the closest motion violates it by its distance from the plane."""
    with pytest.raises(InfeasibleError) as caught:
        ht.plan(arm, [np.pi, 0.0], [Point("tip", (0.4, 0.3, 0.2)), Rest()], 2.0, steps=10, guess="straight")
    (label, _, amount) = caught.value.violations[0]
    assert label.startswith("point of 'tip'")
    assert amount == pytest.approx(0.3, abs=1e-4)
