"""Charts, rates and steps: laws of charts, derivatives against finite differences, order of convergence."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop._arrays import symbol
from heavytop.ocp import ChartRates, Derivatives, NodeLayout, Shooting, chart, chart_rate, is_turn, place, residual
from heavytop.simulate import BUTCHER6, COOPER_VERNER8, RK4


def arm() -> ht.Model:
    """A free hull with a joint of each kind: pose, quaternion, circle, angle."""
    system = ht.System(gravity=(0, 0, -9.81), name="arm")
    inertia = ht.Inertia(1.0, com=(0.1, 0, 0.2), moment_at_com=(0.1, 0.2, 0.15))
    system.body("hull", joint=ht.Free(), inertia=inertia)
    system.body("ball", parent="hull", at=(0, 0, 0.3), joint=ht.Spherical(), inertia=inertia)
    system.body("wheel", parent="ball", at=(0, 0.2, 0), joint=ht.Revolute("y", coordinates="circle"), inertia=inertia)
    system.body("rod", parent="wheel", at=(0, 0.2, 0), joint=ht.Prismatic("z"), inertia=inertia)
    system.input("push", ht.JointForce("rod"))
    system.input("lift", ht.Thruster("hull"))
    return system.derive()


@pytest.fixture(scope="module")
def model() -> ht.Model:
    return arm()


@pytest.fixture(scope="module")
def small() -> ht.Model:
    """An attitude, a circle and a slide: curved charts in few instructions."""
    system = ht.System(gravity=(0, 0, -9.81), name="small")
    inertia = ht.Inertia(1.0, com=(0.1, 0, 0.2), moment_at_com=(0.1, 0.2, 0.15))
    system.body("ball", joint=ht.Spherical(), inertia=inertia)
    system.body("wheel", parent="ball", at=(0, 0.2, 0), joint=ht.Revolute("y", coordinates="circle"), inertia=inertia)
    system.input("turn", ht.JointForce("wheel"))
    system.input("lift", ht.Thruster("ball"))
    return system.derive()


def test_chart_and_place_are_inverse(model: ht.Model) -> None:
    c, rng = model.coordinates, np.random.default_rng(0)
    q, e = model.random(rng, (20,)), 0.5 * rng.standard_normal((20, model.nv))
    moved = chart(c, q, e)
    np.testing.assert_allclose(place(c, q, moved), e, atol=1e-12)
    np.testing.assert_allclose(c.check(moved), moved)


def test_miss_is_the_place_to_third_order(model: ht.Model) -> None:
    c, rng = model.coordinates, np.random.default_rng(1)
    q, e = model.random(rng), rng.standard_normal(model.nv)
    errors = [np.abs(residual(c, q, chart(c, q, h * e)) - h * e).max() for h in (0.1, 0.05)]
    assert errors[0] > 1e-9  # otherwise the ratio says nothing
    assert 7.0 < errors[0] / errors[1] < 9.0


def test_chart_rate_moves_as_the_velocity_says(model: ht.Model) -> None:
    c, rng, h = model.coordinates, np.random.default_rng(2), 1e-6
    q, e, w = model.random(rng), 0.7 * rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    rate = chart_rate(c, q, e, w)
    ahead, behind = chart(c, q, e + h * rate), chart(c, q, e - h * rate)
    np.testing.assert_allclose((ahead - behind) / (2 * h), c.rate(chart(c, q, e), w), atol=1e-8)


def test_turns_are_attitudes(model: ht.Model) -> None:
    assert is_turn(model.coordinates).tolist() == [False] * 3 + [True] * 3 + [True] * 3 + [False] * 2


def own_cost(rates: ChartRates, rated: bool = False) -> Derivatives:
    """A cost per time of state and inputs; of the rates of the inputs as well."""

    def build():
        y = symbol("y", rates.nx + (2 if rated else 1) * rates.nu)
        if rated:
            first, second = y[rates.nx + rates.nu], y[rates.nx + rates.nu + 1]
            value = 0.1 * np.cos(y[0]) * first * second**2 + y[rates.nx] * first + np.vecdot(y, y)
            return np.reshape(value, (1,)), y, rates.symbols()
        return np.reshape(np.vecdot(y, y) + np.sin(y[0]) * y[rates.nx], (1,)), y, rates.symbols()

    return Derivatives("own", build)


@pytest.mark.parametrize(("linear", "rated"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("free", [False, True])
def test_derivatives_of_steps(small: ht.Model, linear: bool, rated: bool, free: bool) -> None:
    rates, rng, count = ChartRates.of(small), np.random.default_rng(3), 3
    layout = NodeLayout(rates.ne, rates.nv, rates.nu, linear, free)
    shooting = Shooting(rates, layout, BUTCHER6 if linear else RK4, 2, own_cost(rates, rated))
    y = 0.3 * rng.standard_normal((count, layout.size))
    weights = rng.uniform(0.05, 0.1, count)
    if free:
        y[:, layout.tau] = 1.3
    q, p, lam = small.random(rng, (count,)), rates.parameters(), rng.standard_normal((count, rates.nx))

    def value(y):
        run = shooting.run(y, weights, q, p)
        return np.vecdot(lam, run.ends) + 0.7 * run.costs

    def gradient(y):
        run = shooting.run(y, weights, q, p, slopes=True)
        return np.matvec(np.swapaxes(run.slopes, 1, 2), lam) + 0.7 * run.cost_slopes

    run = shooting.run(y, weights, q, p, slopes=True)
    hessian = shooting.hessians(run, lam, 0.7)
    h = 1e-5
    tolerance = 1e-9 * np.abs(hessian).max() if rated else 1e-7  # rates of inputs are large
    for j in range(layout.size):
        step = np.zeros(layout.size)
        step[j] = h
        np.testing.assert_allclose((value(y + step) - value(y - step)) / (2 * h), gradient(y)[:, j], atol=tolerance)
        np.testing.assert_allclose(
            (gradient(y + step) - gradient(y - step)) / (2 * h), hessian[:, :, j], atol=tolerance
        )


@pytest.mark.thorough
def test_steps_are_those_of_the_simulation(small: ht.Model) -> None:
    """Around its own state a step is one of a Munthe-Kaas method: both converge to the same motion."""
    rates, rng = ChartRates.of(small), np.random.default_rng(4)
    layout = NodeLayout(rates.ne, rates.nv, rates.nu)
    q, v, u = small.random(rng), 0.5 * rng.standard_normal(small.nv), np.array([1.0, 5.0])
    run = ht.simulate(small, (q, v), until=0.2, step=0.001, inputs=u, integrator="rkmk8")
    for tableau, order in ((RK4, 4), (BUTCHER6, 6), (COOPER_VERNER8, 8)):
        errors = []
        for substeps in (2, 4):
            y = np.concatenate([np.zeros(rates.ne), v, u])[None]
            end = (
                Shooting(rates, layout, tableau, substeps).run(y, np.array([0.2]), q[None], rates.parameters()).ends[0]
            )
            away = place(small.coordinates, run.q[-1], chart(small.coordinates, q, end[: rates.ne]))
            errors.append(np.abs(np.concatenate([away, end[rates.ne :] - run.v[-1]])).max())
        assert errors[1] < 1e-10 or errors[0] / errors[1] > 0.6 * 2**order


def test_a_model_without_inputs_is_refused() -> None:
    with pytest.raises(ht.errors.ControlError, match="no inputs"):
        ChartRates.of(ht.library.double_pendulum().derive())
