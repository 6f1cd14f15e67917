"""Plans of small systems: they reach their goals, within limits, as a simulation confirms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import PlanError
from heavytop.plan import (
    Distance,
    Effort,
    Fatrop,
    InfeasibleError,
    Ipopt,
    Jerk,
    KeepIn,
    Nlpsol,
    Own,
    OwnCost,
    Phase,
    Plan,
    Point,
    Rest,
    Time,
)


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


@pytest.fixture(scope="module")
def swing_up(cart: ht.Model) -> Plan:
    return ht.plan(cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), cost=0.01 * Effort(), steps=40)


def slider(mass: float = 2.0, damping: float = 0.0) -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="slider")
    system.body("sled", joint=ht.Prismatic("x", damping=damping), inertia=ht.Inertia(mass))
    system.input("F", ht.JointForce("sled"))
    return system.derive()


@pytest.fixture(scope="module")
def sled() -> ht.Model:
    return slider()


@pytest.mark.thorough
def test_bang_bang_is_found(sled: ht.Model) -> None:
    """Least time over the distance d with |F| <= F_max: t = 2 sqrt(d m / F_max)."""
    plan = ht.plan(sled, [0.0], [3.0], limits=(-4.0, 4.0), cost=Time(), steps=20)
    assert plan.duration == pytest.approx(2 * np.sqrt(3.0 * 2.0 / 4.0), rel=1e-6)
    np.testing.assert_allclose(np.abs(plan.u[:-1]), 4.0, rtol=1e-4)
    assert {a.label for a in plan.active} == {"lower limit -4 of 'F'", "upper limit 4 of 'F'"}
    assert plan.converged


def test_least_effort_is_the_cubic(sled: ht.Model) -> None:
    """min int F^2: x is a cubic in time, F = 6 m d (1 - 2 t / T) / T^2, cost 12 m^2 d^2 / T^3; inputs linear in time are exact."""
    plan = ht.plan(sled, [0.0], [1.5], 2.0, steps=10, inputs="linear")
    assert plan.cost == pytest.approx(12 * 2.0**2 * 1.5**2 / 8.0, rel=1e-7)
    t = np.linspace(0, 2.0, 9)
    np.testing.assert_allclose(plan.inputs(t)[:, 0], 6 * 2.0 * 1.5 * (1 - t) / 4.0, atol=1e-5)
    np.testing.assert_allclose(plan.reference(t)[0][:, 0], 1.5 * (3 * (t / 2) ** 2 - 2 * (t / 2) ** 3), atol=1e-6)


def test_multipliers_are_sensitivities(sled: ht.Model) -> None:
    """The multiplier of a limit is the slope of the optimal cost by the limit."""
    plans = [ht.plan(sled, [0.0], [3.0], limits=(-f, f), cost=Time(), steps=20) for f in (3.99, 4.0, 4.01)]
    slope = (plans[2].duration - plans[0].duration) / 0.02
    assert -sum(a.multipliers.sum() for a in plans[1].active) == pytest.approx(slope, rel=1e-3)


def test_bounded_rates_of_inputs(sled: ht.Model) -> None:
    """With |F'| <= r the switch takes 2 F_max / r = 0.4 s; half the way is t^2 + 0.4 t + 2/75 = 0.5 before and in the switch."""
    free = ht.plan(sled, [0.0], [1.0], limits=(-4, 4), rates=20.0, cost=Time(), steps=24)
    assert np.abs(np.diff(free.u, axis=0) / np.diff(free.times)[:, None]).max() < 20.0 * (1 + 1e-6)
    exact = 2 * (-0.2 + np.sqrt(0.04 + 0.5 - 2 / 75)) + 0.4
    assert exact * (1 - 1e-9) < free.duration < exact * 1.002
    fixed = ht.plan(sled, [0.0], [1.0], free.duration * 1.02, limits=(-4, 4), rates=20.0, steps=24)
    assert np.abs(np.diff(fixed.u, axis=0)).max() <= 20.0 * np.diff(fixed.times)[0] * (1 + 1e-6)


@pytest.mark.thorough
def test_swing_up_is_feasible(cart: ht.Model, swing_up: Plan) -> None:
    """A simulation with the planned inputs ends where the plan says."""
    assert swing_up.accuracy < 1e-8
    step = swing_up.duration / 40 / 50
    u = np.repeat(swing_up.u[:-1], 50, axis=0)
    run = ht.simulate(cart, ([0, np.pi], [0, 0]), swing_up.duration, step, inputs=u, integrator="rkmk8")
    np.testing.assert_allclose(run.q[::50], swing_up.q, atol=1e-6)
    np.testing.assert_allclose(run.q[-1], 0.0, atol=1e-6)
    assert np.abs(swing_up.u).max() <= 20.0


def test_reference_is_feasible_between_the_nodes(swing_up: Plan) -> None:
    t = np.linspace(0.0, swing_up.duration, 173)[:-1]
    _, v, a = swing_up.reference(t)
    h = 1e-6
    ahead, behind = swing_up.reference(t + h), swing_up.reference(np.maximum(t - h, 0))
    inner = slice(1, None)
    np.testing.assert_allclose(((ahead[0] - behind[0]) / (2 * h))[inner], v[inner], atol=1e-4)
    feasibility = swing_up.reference.feasibility(limits=(-20.001, 20.001))
    assert feasibility.largest_residual < 1e-8
    assert not feasibility.outside
    end = swing_up.reference(swing_up.duration + 1.0)
    np.testing.assert_allclose(end[0], 0.0, atol=1e-7)
    assert np.all(end[2] == 0.0)
    assert a.shape == (172, 2)


@pytest.mark.thorough
def test_solvers_agree(cart: ht.Model, swing_up: Plan) -> None:
    other = ht.plan(
        cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), cost=0.01 * Effort(), steps=40, solver=Nlpsol(), tolerance=1.0
    )
    first = ht.plan(cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), cost=0.01 * Effort(), steps=40, tolerance=1.0)
    assert other.cost == pytest.approx(first.cost, rel=1e-6)
    assert other.iterations == first.iterations


@pytest.mark.thorough
def test_fatrop_solves_stage_by_stage(cart: ht.Model, sled: ht.Model, swing_up: Plan) -> None:
    """The same optimum with the same multipliers: phases of their own durations, inputs linear in time with bounded rates, path constraints."""
    phases = [Phase(0.1, 5.0, 6, end=(Point("sled", (1, 0, 0)),)), Phase(0.1, 5.0, 6)]
    options = {"limits": (-4, 4), "rates": 20.0, "cost": Time() + 1e-3 * Effort(), "phases": phases, "tolerance": 1.0}
    ours, other = (ht.plan(sled, [0.0], [0.0], solver=solver, **options) for solver in (Ipopt(), Fatrop()))
    assert other.cost == pytest.approx(ours.cost, rel=1e-5)
    np.testing.assert_allclose(other.multipliers["dynamics"], ours.multipliers["dynamics"], atol=1e-3)
    far = 0.9 * float(swing_up.q[:, 0].max())
    options = {"limits": {"F": (-20, 20), "x.x": (-5.0, far)}, "steps": 30, "tolerance": 1.0}
    ours, other = (ht.plan(cart, [0, np.pi], [0, 0], 2.0, solver=s, **options) for s in (Ipopt(), Fatrop()))
    assert other.cost == pytest.approx(ours.cost, rel=1e-5)
    assert f"'x.x' in [-5, {far:g}]" in [a.label for a in other.active]
    with pytest.raises(PlanError, match="ties its ends together"):
        ht.plan(sled, [Point("sled", (0.5, 0, 0))], None, 1.0, periodic=True, steps=8, solver=Fatrop())


@pytest.mark.thorough
def test_reserve_keeps_inputs_back() -> None:
    """Limits are drawn towards balance: m g on a lift, so that [0, 30] N becomes [0.2 m g, 30 - 0.2 (30 - m g)]."""
    system = ht.System(name="lift")
    system.body("cage", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    system.input("F", ht.JointForce("cage"))
    lift, weight = system.derive(), 2.0 * 9.81
    plan = ht.plan(lift, [0.0], [3.0], limits=(0.0, 30.0), cost=Time(), steps=20, reserve=0.2)
    assert plan.u[:-1].min() == pytest.approx(0.2 * weight, rel=1e-4)
    assert plan.u[:-1].max() == pytest.approx(30.0 - 0.2 * (30.0 - weight), rel=1e-4)
    with pytest.raises(PlanError, match="at least 0 and below 1"):
        ht.plan(lift, [0.0], [3.0], limits=(0.0, 30.0), reserve=1.0)


def test_another_plan_is_a_warm_start(cart: ht.Model, swing_up: Plan) -> None:
    again = ht.plan(
        cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), cost=0.01 * Effort(), steps=40, guess=swing_up, tolerance=1.0
    )
    assert again.cost == pytest.approx(swing_up.cost, rel=1e-3)
    assert again.attempts[0].iterations <= swing_up.attempts[0].iterations


@pytest.mark.thorough
def test_goals_and_constraints_of_points(cart: ht.Model) -> None:
    plan = ht.plan(
        cart,
        [0.0, 0.0],
        [Point("cart", (1.0, 0.0, 0.0)), Rest()],
        2.0,
        limits={"F": (-10, 10), "theta.rate": (-2.0, 2.0), "x.x": (-0.5, 1.2)},
        path=[KeepIn("cart", (-np.inf,) * 3, (1.05, np.inf, np.inf))],
        steps=20,
        tolerance=1e-3,
    )
    assert plan.q[-1, 0] == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(plan.v[-1], 0.0, atol=1e-6)
    assert np.abs(plan.v[:, 1]).max() <= 2.0 + 1e-7


@pytest.mark.thorough
def test_phases_and_own_cost(sled: ht.Model) -> None:
    """Out to 1 in the first phase, back in the second, each in its own time."""
    phases = [Phase(0.5, 5.0, 8, end=(Point("sled", (1, 0, 0)),)), Phase(0.5, 5.0, 8)]
    plan = ht.plan(
        sled, [0.0], [0.0], phases=phases, limits=(-4, 4), cost=Time() + OwnCost(lambda q, v, u: 1e-6 * u[0] ** 2)
    )
    assert plan.q[8, 0] == pytest.approx(1.0, abs=1e-7)
    assert plan.phase_times[0] == pytest.approx(plan.duration / 2, rel=1e-2)


def test_least_jerk_is_the_quintic(sled: ht.Model) -> None:
    """min int jerk^2 with free accelerations at the ends: x = (5 s^2 - 5 s^4 + 2 s^5) / 2 with s = t / T, cost 120 / T^5."""
    plan = ht.plan(sled, [0.0], [1.0], 2.0, cost=Jerk("sled"), steps=40, limits=None, tolerance=1e-6)
    assert plan.linear
    s = np.linspace(0, 1, 11)
    np.testing.assert_allclose(plan.reference(2.0 * s)[0][:, 0], (5 * s**2 - 5 * s**4 + 2 * s**5) / 2, atol=1e-4)
    assert plan.cost == pytest.approx(120 / 2.0**5, rel=2e-3)


def test_distance_from_a_reference(sled: ht.Model) -> None:
    """With inputs that cost next to nothing the plan follows the reference."""
    wanted = ht.control.Reference.from_function(sled, lambda t: ht.vector(np.sin(2 * t)))
    start = [wanted(0.0)[0], wanted(0.0)[1]]
    cost = 1e-6 * Effort() + Distance(wanted, speeds=1.0)
    plan = ht.plan(sled, tuple(start), [Own(lambda q, v, u: q[0], -9, 9)], 2.0, cost=cost, steps=40, tolerance=1e-6)
    np.testing.assert_allclose(plan.q, wanted(plan.times)[0], atol=5e-3)
    with pytest.raises(PlanError, match="fixed duration"):
        ht.plan(sled, [0.0], [1.0], None, cost=Time() + Distance(wanted))


def test_periodic_motion(sled: ht.Model) -> None:
    """The cheapest periodic motion through x = 0.5 is to rest there."""
    plan = ht.plan(sled, [Point("sled", (0.5, 0, 0))], None, 1.0, periodic=True, steps=8, tolerance=1e-3)
    assert plan.cost < 1e-8
    np.testing.assert_allclose(plan.q, 0.5, atol=1e-4)


def test_several_guesses_keep_the_best(sled: ht.Model) -> None:
    one = ht.plan(sled, [0.0], [1.0], 1.0, steps=6)
    several = ht.plan(sled, [0.0], [1.0], 1.0, steps=6, guesses=3)
    assert several.cost <= one.cost * (1 + 1e-9)


@pytest.mark.thorough
def test_infeasible_problems_name_the_violation() -> None:
    """In T = 1 s from rest to rest |F| <= 4 N moves 2 kg by F T^2 / 4 m = 0.5 m. With friction the bound of the momentum does not apply."""
    sled = slider(damping=1e-9)
    with pytest.raises(
        InfeasibleError, match=r"violates the goal \(place along 'sled.v_x'\) at t = 1 s by 2.5\."
    ) as caught:
        ht.plan(sled, [0.0], [3.0], 1.0, limits=(-4.0, 4.0), steps=10)
    ((label, t, amount),) = caught.value.violations
    assert label == "the goal (place along 'sled.v_x')"
    assert (t, amount) == pytest.approx((1.0, 2.5), abs=1e-5)
    assert str(caught.value).endswith(
        "Tried: the straight guess and 4 simulated motions with at most 400 iterations each."
    )
    halves = [Phase(0.5, 0.5, 6, end=(Point("sled", (1, 0, 0)),)), Phase(0.5, 0.5, 6)]
    with pytest.raises(
        InfeasibleError, match=r"violates point of 'sled' at \(1, 0, 0\) at t = 0.5 s by 0.875"
    ) as caught:
        ht.plan(sled, [0.0], [0.0], phases=halves, limits=(-4.0, 4.0), guess="straight")


def test_interrupt_returns_the_best_motion(cart: ht.Model) -> None:
    class Impatient(Ipopt):
        def solve(self, request):
            def callback(iteration, cost, violation):
                if iteration == 8:
                    raise KeyboardInterrupt

            return super().solve(replace(request, callback=callback))

    plan = ht.plan(cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), steps=40, solver=Impatient())
    assert not plan.converged
    assert plan.message == "stopped by the user"
    assert plan.iterations == 8
