"""Poses as goals; flights, coarser plans and references as guesses; progress on a terminal."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop._progress import Progress
from heavytop.geometry import so3
from heavytop.plan import AtPose, Effort, HalfSpace, Point, Rest


@pytest.fixture(scope="module")
def quad() -> ht.Model:
    return ht.library.quadcopter().derive()


HOVER = 0.9 * 9.81 / 4


@pytest.mark.thorough
def test_a_stretched_arm_is_guessed_without_many_turns() -> None:
    """Near the stretched arm the Gauss-Newton steps are long; steps of angles are bounded."""
    system = ht.System(name="arm")
    link = ht.Inertia(1.0, com=(0, 0, 0.5), moment_at_com=(0.01, 0.01, 0.01))
    system.body("upper", joint=ht.Revolute("y"), at=(0, 0, 1), inertia=link)
    system.body("lower", parent="upper", joint=ht.Revolute("y"), at=(0, 0, 1), inertia=link)
    system.frame("tip", "lower", at=(0, 0, 1))
    for name in ("upper", "lower"):
        system.input(f"{name}-motor", ht.JointForce(name))
    model = system.derive()
    plan = ht.plan(model, [0.0, 0.5], Point("tip", (1.9999999, 0, 1)), 1.0)
    assert np.abs(plan.q).max() < 15.0
    np.testing.assert_allclose(model.pose("world", "tip", plan.q[-1])[:3, 3], (2, 0, 1), atol=1e-6)


@pytest.mark.thorough
def test_references_between_nodes_are_on_the_manifold(quad: ht.Model) -> None:
    """A coarse plan of a quadcopter that turns: rotations to rounding, accepted by the model, velocities are the rates."""
    goal = quad.neutral()
    goal[:3] = (2.0, 1.0, 0.5)
    plan = ht.plan(
        quad, quad.neutral(), goal, 1.5, limits=(0.0, 3 * HOVER), steps=10, tolerance=1e-3, cost=Effort(about=HOVER)
    )
    t, h = np.linspace(0.0, 1.5, 38)[1:-1], 1e-6
    q, v, a = plan.reference(t)
    assert np.abs(quad.constraints(q)).max() < 1e-12
    np.testing.assert_allclose(quad.acceleration(q, v, plan.inputs(t)), a, atol=1e-9)
    rate = (plan.reference(t + h)[0] - plan.reference(t - h)[0]) / (2 * h)
    np.testing.assert_allclose(rate, quad.rate(q, v), atol=1e-3)


@pytest.mark.thorough
def test_a_pose_of_a_frame_as_goal(quad: ht.Model) -> None:
    G = np.eye(4)
    G[:3, :3], G[:3, 3] = so3.exp(np.array([0.0, 0.0, 1.2])), (1.0, 0.5, 0.3)
    plan = ht.plan(quad, quad.neutral(), [AtPose("hull", G), Rest()], 2.5, limits=(0.0, 2 * HOVER), steps=20, tolerance=1e-4,
                   cost=Effort(about=HOVER))  # fmt: skip
    assert np.allclose(quad.pose("world", "hull", plan.q[-1]), G, atol=1e-6)
    assert np.abs(plan.v[-1]).max() < 1e-6


@pytest.mark.thorough
def test_a_half_space_is_kept(quad: ht.Model) -> None:
    goal = quad.neutral().copy()
    goal[0] = 2.0
    options = {"limits": (0.0, 2 * HOVER), "steps": 20, "tolerance": 1e-3, "cost": Effort(about=HOVER)}
    free = ht.plan(quad, quad.neutral(), goal, 1.2, **options)
    high = float(free.q[:, 2].max())
    assert high > 0.005  # it climbs on the way
    held = ht.plan(quad, quad.neutral(), goal, 1.2, path=[HalfSpace("hull", (0, 0, -1), -0.2 * high)], **options)
    assert held.q[:, 2].max() <= 0.2 * high + 1e-6
    assert held.cost > free.cost
    assert any("beyond the plane" in item.label for item in held.active)


@pytest.mark.thorough
def test_a_tracking_flight_and_a_coarser_plan_are_guesses() -> None:
    cart = ht.library.cart_pole().derive()
    options = {"limits": (-20, 20), "cost": 0.01 * Effort(), "tolerance": 1e-4}
    plan = lambda steps, guess=None: ht.plan(cart, [0, np.pi], [0, 0], 2.0, steps=steps, guess=guess, **options)  # noqa: E731
    coarse = plan(20)
    finer = plan(40, coarse)
    law = coarse.regulator()
    run = ht.simulate(cart, (coarse.q[0], coarse.v[0]), until=2.0, step=1e-2, control=law)
    flown = plan(40, run)
    alone = plan(40)
    assert finer.cost == pytest.approx(alone.cost, rel=1e-4)
    assert flown.cost == pytest.approx(alone.cost, rel=1e-4)
    assert finer.attempts[0].iterations < alone.attempts[0].iterations


@pytest.mark.thorough
def test_progress_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(Progress, "update", lambda self, share: seen.append(share))
    cart = ht.library.cart_pole().derive()
    ht.plan(cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), steps=20, tolerance=1e-3, progress=True)
    assert len(seen) > 5
    assert all(0 <= a < 1 for a in seen)


@pytest.mark.thorough
def test_swing_ups_are_started_several_times() -> None:
    """The straight guess of an acrobot ends in a poor optimum; the default call finds one below a third of its cost and reports the starts."""
    system = ht.System(gravity=(0, 0, -9.81), name="acrobot")
    rod = ht.Inertia(1.0, com=(0, 0, 0.5), moment_at_com=(1 / 12, 1 / 12, 0.001))
    system.body("upper", joint=ht.Revolute("y"), inertia=rod)
    system.body("lower", parent="upper", at=(0, 0, 1), joint=ht.Revolute("y"), inertia=rod)
    system.input("elbow", ht.JointForce("lower"))
    model = system.derive()
    task = (model, [np.pi, 0], [0, 0], 4.0)
    one, several = (
        ht.plan(*task, limits=(-20, 20), cost=0.01 * Effort(), tolerance=1e-4, guesses=guesses) for guesses in (0, None)
    )
    assert one.starts is None
    assert several.cost < one.cost / 3
    assert several.starts is not None
    assert several.starts.costs[0] == one.cost
    assert len(several.starts.costs) == 9
    assert np.argmin(several.starts.costs) == several.starts.best > 0
    assert f"best of 9 starts: number {several.starts.best + 1}" in several.report()
    short = ht.plan(model, [0.3, 0], [0, 0], 2.0, limits=(-20, 20), steps=20, tolerance=1e-3)  # not a swing-up
    assert short.starts is None
