"""Plans of systems with loops and of rolling ones with minimal velocities."""

from __future__ import annotations

import numpy as np
import pytest
from plan.test_transcription import program

import heavytop as ht
from heavytop.errors import PlanError
from heavytop.library import four_bars
from heavytop.plan import Between, InfeasibleError, Rest
from heavytop.plan.guess import straight
from heavytop.plan.infeasible import other_closure
from heavytop.plan.problem_builder import ProblemArguments, build_problem


@pytest.fixture(scope="module")
def linkage() -> ht.Model:
    system = four_bars(1)
    system.input("motor", ht.JointForce("crank0"))
    return system.derive()


@pytest.mark.thorough
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


@pytest.fixture(scope="module")
def four_bar() -> ht.Model:
    """A four-bar linkage with rods of equal length and a base whose length is a parameter."""
    system = ht.System(gravity=(0, -9.81, 0), name="four-bar")
    base = system.parameter("base", 1.3)
    rod = ht.Inertia(mass=1.0, com=(0.5, 0, 0), moment_at_com=(0, 1 / 12, 1 / 12))
    system.body("crank", joint=ht.Revolute("z"), inertia=rod)
    system.body("coupler", parent="crank", at=(1, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.body("rocker", at=(base, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.loop("coupler", "rocker", ht.Revolute("z"), at_a=(1, 0, 0), at_b=(1, 0, 0), name="pin")
    system.input("motor", ht.JointForce("crank"))
    return system.derive()


def _closed(model: ht.Model, crank: float, parameters=None, side: float = 1.0, rate: float = 0.0):
    guess = [crank, -side, side]
    q, _ = model.assemble(guess, np.zeros(3), fixed=("crank",), parameters=parameters)
    return model.assemble(q, [rate, 0, 0], fixed=("crank",), parameters=parameters)


@pytest.mark.parametrize("parameters", [None, {"base": 1.495}])
@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.thorough
def test_goals_of_all_coordinates_of_a_loop(four_bar: ht.Model, parameters, rate: float) -> None:
    """Start and goal fix three coordinates, the loop leaves one: dependent coordinates have no rows, and few iterations suffice."""
    start, goal = _closed(four_bar, 1.2, parameters), _closed(four_bar, 0.7, parameters, rate=rate)
    plan = ht.plan(
        four_bar, start, goal, 1.0, limits=(-50, 50), steps=20, parameters=parameters, guess="straight", iterations=50
    )
    assert plan.iterations < 20
    np.testing.assert_allclose(plan.v[-1], goal[1], atol=1e-7)
    run = plan.run()
    np.testing.assert_allclose(run.q[-1], goal[0], atol=1e-7)
    np.testing.assert_allclose(run.v[-1], goal[1], atol=1e-6)


@pytest.mark.thorough
def test_rest_of_a_loop(four_bar: ht.Model) -> None:
    """Rest at the end fixes all velocities, two of them dependent; the same motion as to a state."""
    start, goal = _closed(four_bar, 1.2), _closed(four_bar, 0.7)
    ends = (goal, [Between("crank.angle", 0.7, 0.7), Rest()])
    plans = [
        ht.plan(four_bar, start, end, 1.0, limits=(-50, 50), steps=20, guess="straight", iterations=50) for end in ends
    ]
    assert plans[1].cost == pytest.approx(plans[0].cost, rel=1e-6)
    np.testing.assert_allclose(plans[1].v[-1], 0.0, atol=1e-7)


@pytest.mark.parametrize("rest", [Rest(), Between("crank.rate", 0.0, 0.0)])
@pytest.mark.thorough
def test_starts_by_constraints_close_the_loop(four_bar: ht.Model, rest) -> None:
    """A start given by the crank only: the loop is closed there, and the motion is that from the state."""
    start, goal = _closed(four_bar, 1.2), _closed(four_bar, 0.7)
    state, found = (
        ht.plan(four_bar, begin, goal, 1.0, limits=(-50, 50), steps=20, guess="straight", iterations=50)
        for begin in (start, [Between("crank.angle", 1.2, 1.2), rest])
    )
    np.testing.assert_allclose(found.q[0], start[0], atol=1e-7)
    assert found.cost == pytest.approx(state.cost, rel=1e-6)


@pytest.mark.thorough
def test_periodic_motions_are_closed(linkage: ht.Model) -> None:
    """The loop stays closed, although the search begins in the flat, singular configuration."""
    plan = ht.plan(linkage, [Between("crank0.angle", 1.2, 1.2)], None, 1.0, periodic=True, steps=10, limits=(-60, 60))
    position, _ = linkage.constraint_residuals(plan.q, plan.v)
    assert np.abs(position).max() < 1e-7
    np.testing.assert_allclose(plan.q[-1], plan.q[0], atol=1e-7)
    np.testing.assert_allclose(plan.v[-1], plan.v[0], atol=1e-6)


@pytest.mark.thorough
def test_goals_of_a_loop_that_cannot_be_reached(four_bar: ht.Model) -> None:
    """A motor too weak, and another closure of the loop."""
    start, goal, other = (_closed(four_bar, crank, side=side) for crank, side in ((1.2, 1.0), (0.7, 1.0), (0.7, -1.0)))
    assert abs(other[0] - goal[0]).max() > 1.0
    options = {"steps": 20, "guess": "straight"}
    with pytest.raises(InfeasibleError, match="violates the goal"):
        ht.plan(four_bar, start, goal, 0.2, limits=(-5, 5), **options)
    with pytest.raises(InfeasibleError, match="violates the goal"):
        ht.plan(four_bar, start, other, 1.0, limits=(-50, 50), iterations=100, **options)


@pytest.mark.thorough
def test_ending_in_another_closure_is_found(four_bar: ht.Model) -> None:
    """A solution with the independent coordinates of the goal, but other dependent ones, is not a plan."""
    start, goal = _closed(four_bar, 1.2), _closed(four_bar, 0.7)
    nlp, x = program(four_bar, start, goal, 1.0, limits=(-50, 50))
    follows = np.nonzero(nlp.problem.follows)[0]
    assert len(follows) == 4  # two coordinates, two velocities
    x[-nlp.size :][follows] = 0.0
    assert other_closure(nlp, x, 1e-8) == []
    x[-nlp.size :][follows[0]] = 0.05
    ((label, t, amount),) = other_closure(nlp, x, 1e-8)
    assert (t, amount) == pytest.approx((1.0, 0.05))
    assert label.startswith("the goal (place along ")


@pytest.mark.thorough
def test_starts_by_constraints_are_closed_with_the_parameters_of_the_plan() -> None:
    """A loop that closes from the neutral configuration with one length, and with the other length elsewhere."""
    system = ht.System(gravity=(0, 0, 0), name="ladder")
    length = system.parameter("length", 1.0)
    system.body("foot", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("top", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.constrain(lambda q: (q[0] + 1.0) ** 2 + (q[1] + 1.0) ** 2 - 2 * length**2, name="ladder")
    system.input("push", ht.JointForce("foot"))
    model = system.derive()
    ends = [Between("foot.v_x", 0.0, 0.0)], [Between("foot.x", 0.1, 0.1)]
    problem = build_problem(ProblemArguments(model, *ends, 1.0, steps=6, parameters={"length": 1.2}))
    q = straight(problem).q[0]
    position, _ = model.constraint_residuals(q, np.zeros(2), {"length": 1.2})
    np.testing.assert_allclose(position, 0.0, atol=1e-9)


@pytest.mark.thorough
def test_car_changes_lanes_from_the_default_guess() -> None:
    """A car that starts in motion coasts in the guess; its speed is constant, as only the steering has an input."""
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


@pytest.mark.thorough
def test_regulator_on_a_loop(linkage: ht.Model) -> None:
    held, start = _pushed(linkage)
    law = ht.control.lqr(linkage, held)
    run = ht.simulate(linkage, (start, np.zeros(3)), until=5.0, step=0.01, control=law)
    np.testing.assert_allclose(run.q[-1], held, atol=1e-4)
    assert law.region([0.1], samples=3)[0] == 1.0


@pytest.mark.thorough
def test_predictive_control_on_a_loop(linkage: ht.Model) -> None:
    held, start = _pushed(linkage)
    ahead = ht.control.mpc(linkage, held, horizon=10, limits=(-60, 60))
    run = ht.simulate(linkage, (start, np.zeros(3)), until=5.0, step=0.01, inputs=ahead, control_step=ahead.step)
    np.testing.assert_allclose(run.q[-1], held, atol=1e-4)


def test_open_loops_are_rejected(linkage: ht.Model) -> None:
    with pytest.raises(PlanError, match="violates its loops"):
        ht.plan(linkage, [1.0, 0.5, 0.0], [0.8, 0.8, -0.8], 1.0)


@pytest.mark.thorough
@pytest.mark.parametrize("inputs", ["held", "linear"])
def test_references_between_nodes_close_the_loop(four_bar: ht.Model, inputs: str) -> None:
    """Also of a coarse plan, whose intervals leave the loop by more than the model tolerates; the velocity stays the rate of q."""
    start, goal = _closed(four_bar, 1.2), _closed(four_bar, 0.7)
    plan = ht.plan(four_bar, start, goal, 1.0, limits=(-50, 50), steps=20, inputs=inputs, tolerance=1e-4)
    t, h = np.linspace(0.0, 1.0, 38)[1:-1], 1e-6
    q, v, a = plan.reference(t)
    position, velocity = four_bar.constraint_residuals(q, v)
    assert np.abs(position).max() < 1e-12
    assert np.abs(velocity).max() < 1e-12
    np.testing.assert_allclose(four_bar.acceleration(q, v, plan.inputs(t)), a, atol=1e-9)
    np.testing.assert_allclose((plan.reference(t + h)[0] - plan.reference(t - h)[0]) / (2 * h), v, atol=2e-4)
