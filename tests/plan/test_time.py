"""Plans of systems with explicit time, and moving constraints."""

from __future__ import annotations

import numpy as np
import pytest
from plan.test_transcription import check_derivatives, program

import heavytop as ht
from heavytop.errors import ControlError
from heavytop.plan import Between, Effort, Jerk, Own, OwnCost, Rest, Time


@pytest.fixture(scope="module")
def shaken() -> ht.Model:
    """A pendulum with a motor on a pivot that is moved to and fro."""
    system = ht.System(name="shaken")
    pivot = (0.2 * np.sin(5 * system.time), 0, 0)
    system.body("bob", at=pivot, joint=ht.Revolute("y"), inertia=ht.Inertia(0.3, com=(0, 0, -0.5)))
    system.input("M", ht.JointForce("bob"))
    return system.derive()


@pytest.fixture(scope="module")
def sled() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="sled")
    system.body("x", joint=ht.Prismatic("x"), inertia=ht.Inertia(1e-3))
    system.body("sled", parent="x", joint=ht.Prismatic("y"), inertia=ht.Inertia(1.0))
    system.input("X", ht.JointForce("x"))
    system.input("Y", ht.JointForce("sled"))
    return system.derive()


@pytest.mark.parametrize(("duration", "begin"), [(2.0, 0.0), (2.0, 0.7), (None, 0.7)])
@pytest.mark.thorough
def test_moved_pivot(shaken: ht.Model, duration: float | None, begin: float) -> None:
    """The inputs lead to the goal in a simulation from the same time, and are those of the reference."""
    plan = ht.plan(shaken, [0], [np.pi], duration, limits=(-1, 1), steps=40, parameters={"time": begin})
    assert plan.accuracy < 1e-8
    run = plan.run()
    assert run.t[0] == begin
    assert run.t[-1] == pytest.approx(begin + plan.duration)
    np.testing.assert_allclose(run.q[-1], np.pi, atol=1e-5)
    found = plan.reference.feasibility(limits=(-1, 1))
    assert found.is_feasible()
    np.testing.assert_allclose(found.inputs, plan.inputs(found.times), atol=1e-9)


def test_the_start_time_matters(shaken: ht.Model) -> None:
    costs = [ht.plan(shaken, [0], [1.0], 1.0, steps=20, parameters={"time": t}).cost for t in (0.0, 0.7, 2 * np.pi / 5)]
    assert costs[1] != pytest.approx(costs[0], rel=0.05)
    assert costs[2] == pytest.approx(costs[0], rel=1e-8)  # a period later


@pytest.mark.thorough
def test_regulator_along_a_timed_plan(shaken: ht.Model) -> None:
    plan = ht.plan(shaken, [0], [np.pi], 2.0, limits=(-1, 1), steps=30, parameters={"time": 0.7})
    law = ht.control.lqr(shaken, plan.reference, inputs=plan.inputs)
    run = ht.simulate(shaken, ([0.1], [0.3]), until=2.7, step=1e-3, start_time=0.7, control=law)
    np.testing.assert_allclose(run.q[-1], np.pi, atol=1e-4)


def test_periodic_in_step_with_the_pivot(shaken: ht.Model) -> None:
    wall = Between("bob.angle", 0.3, 0.6)
    plan = ht.plan(shaken, [Rest()], None, 2 * np.pi / 5, periodic=True, steps=20, path=[wall])
    np.testing.assert_allclose(plan.q[-1], plan.q[0], atol=1e-8)
    np.testing.assert_allclose(plan.v[-1], plan.v[0], atol=1e-8)


@pytest.mark.thorough
def test_ball_that_crosses_the_way(sled: ht.Model) -> None:
    """A crossing ball makes the sled swerve; a ball that has passed costs nothing."""

    def ball(speed: float) -> Own:
        return Own(lambda q, t: (q[0] - 1) ** 2 + (q[1] - 0.5 + speed * t) ** 2, 0.16, np.inf, name="ball")

    options = {"limits": (-2, 2), "cost": Time() + 1e-3 * Effort(), "steps": 40}
    free, passed, crossed = (
        ht.plan(sled, [0, 0], [2, 0], path=path, **options) for path in ([], [ball(2.0)], [ball(0.5)])
    )
    assert passed.cost == pytest.approx(free.cost, rel=1e-6)
    assert crossed.cost > free.cost + 1e-5
    q = crossed.q
    away = (q[:, 0] - 1) ** 2 + (q[:, 1] - 0.5 + 0.5 * crossed.times) ** 2
    assert away.min() == pytest.approx(0.16, abs=1e-6)
    assert [item.label for item in crossed.active if len(item.times) < 5] == ["ball"]


@pytest.mark.thorough
def test_cost_that_depends_on_time(sled: ht.Model) -> None:
    """Force is expensive early, so it is applied late."""
    cost = OwnCost(lambda u, t: (1 + 9 * (1 - t)) * np.vecdot(u, u))
    late = ht.plan(sled, ([0, 0], [1, 0]), [Between("x.v_x", 0, 0)], 1.0, cost=cost, steps=20)
    early = np.abs(late.u[:10, 0]).sum()
    assert early < 0.5 * np.abs(late.u[10:20, 0]).sum()


def test_derivatives_by_the_time(shaken: ht.Model) -> None:
    wall = Own(lambda q, v, u, t: q[0] * np.cos(t) + u[0] * t, -9, 9)
    nlp, x = program(shaken, [0], [1.0], (0.5, 2.0), substeps=2, path=[wall], cost=Time() + 0.1 * Effort(), steps=5)
    check_derivatives(nlp, x)


@pytest.mark.parametrize("duration", [1.0, (0.9, 1.1)])
def test_jerk_of_a_moved_pendulum(shaken: ht.Model, duration) -> None:
    """The cost is the integral of the squared jerk of the bob, that of the pivot included, as accurate as the intervals are."""
    cost = Jerk("bob", (0, 0, -0.5))
    plan = ht.plan(shaken, [0], [1.0], duration, steps=10, cost=cost, parameters={"time": 0.7})
    step, (points, weights) = plan.duration / 10, np.polynomial.legendre.leggauss(12)
    at = step * (np.arange(10)[:, None] + 0.5 + 0.5 * points).ravel()

    def acceleration(t: np.ndarray) -> np.ndarray:
        q, v, a = (part[:, 0] for part in plan.reference(t))
        along, across = np.array([-np.cos(q), np.sin(q)]), np.array([np.sin(q), np.cos(q)])
        pivot = np.array([-5.0 * np.sin(5 * (0.7 + t)), 0 * t])
        return pivot + 0.5 * (a * along + v**2 * across)

    h = 1e-5
    jerk = (acceleration(at + h) - acceleration(at - h)) / (2 * h)
    integral = float(np.tile(0.5 * step * weights, 10) @ np.sum(jerk**2, axis=0))
    assert plan.cost == pytest.approx(integral, rel=1e-5)


@pytest.mark.thorough
def test_moving_velocity_constraint() -> None:
    """A carriage on a belt: its velocity constraint has a drift that depends on the time."""
    system = ht.System(gravity=(0, 0, 0), name="belt")
    system.body("x", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("y", parent="x", joint=ht.Prismatic("y"), inertia=ht.Inertia(1.0))
    system.input("F", ht.JointForce("x"))
    system.constrain(lambda q, v: v[1] - 0.3 * np.sin(system.time) - 0.5 * v[0], name="belt")
    model = system.derive()
    goal = [Between("x.x", 1.0, 1.0), Between("x.v_x", 0.0, 0.0)]
    plan = ht.plan(model, ([0, 0], [0, 0]), goal, 2.0, steps=20)
    run = plan.run()
    np.testing.assert_allclose(run.q[-1], plan.q[-1], atol=1e-5)
    np.testing.assert_allclose(plan.v[:, 1], 0.3 * np.sin(plan.times) + 0.5 * plan.v[:, 0], atol=1e-8)


def test_laws_reject_time(shaken: ht.Model) -> None:
    plan = ht.plan(shaken, [0], [1.0], 1.0, steps=10, tolerance=1e-4)
    with pytest.raises(ControlError, match="time-invariant"):
        ht.control.energy_law(shaken, shaken).with_reference(plan.reference)
