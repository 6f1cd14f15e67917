"""Uses of gradients: tuned gains, samples of inputs improved by single shooting, shares that recover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import SimulationError, UnknownNameError


def cart() -> ht.Model:
    system = ht.System(name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    return system.derive()


def feedback() -> ht.Feedback:
    return ht.Feedback(
        lambda q, v, gains: -gains["k"] * q - gains["d"] * v, ("q", "v", "gains"), gains={"k": 1.0, "d": 0.5}
    )


@pytest.mark.thorough
def test_tuned_gains_are_those_of_the_regulator() -> None:
    """For a linear plant and a long quadratic loss the best static gains are those of Riccati's equation of the sampled loop."""
    from scipy.linalg import solve_discrete_are

    h, Q, R = 0.05, np.eye(2), np.array([[0.5]])
    loss = ht.Loss(running=lambda t, q, v, u: q[0] ** 2 + v[0] ** 2 + 0.5 * u[0] ** 2)
    starts = np.array([[1.0], [0.0], [1.0]]), np.array([[0.0], [1.0], [-1.0]])
    found = ht.tune(feedback(), loss, cart(), over=starts, until=15.0, step=h)
    A, B = np.array([[1, h], [0, 1]]), np.array([[h * h / 2], [h]])
    # the trapezoidal rule, with the input held in between
    cost = h / 2 * (Q + A.T @ Q @ A), h * R + h / 2 * B.T @ Q @ B, h / 2 * A.T @ Q @ B
    P = solve_discrete_are(A, B, cost[0], cost[1], s=cost[2])
    K = np.linalg.solve(cost[1] + B.T @ P @ B, B.T @ P @ A + cost[2].T)[0]
    np.testing.assert_allclose([found.gains["k"], found.gains["d"]], K, rtol=1e-4)
    assert found.history[-1] < found.start


@pytest.mark.thorough
def test_bounds_and_chosen_gains() -> None:
    loss = ht.Loss(running=lambda t, q, v, u: q[0] ** 2)
    found = ht.tune(
        feedback(),
        loss,
        cart(),
        over=(np.ones((2, 1)), np.zeros(1)),
        until=2.0,
        step=0.02,
        gains=("k",),
        bounds={"k": (None, 1.5)},
    )
    assert found.gains["k"] == pytest.approx(1.5)
    assert found.gains["d"] == 0.5


def test_tuning_mistakes_are_named() -> None:
    model: Any = cart()
    start = np.ones((2, 1)), np.zeros(1)
    with pytest.raises(SimulationError, match="no gains"):
        ht.tune(ht.Feedback(lambda v: -v, ("v",)), lambda t, q, v: q[0], model, start, 1.0, 0.1)
    with pytest.raises(UnknownNameError, match="'kk'"):
        ht.tune(feedback(), lambda t, q, v: q[0], model, start, 1.0, 0.1, gains=("kk",))


@pytest.mark.thorough
def test_single_shooting_reaches_its_target() -> None:
    """A double integrator: Newton's method on the sensitivities solves the linear problem in one step."""
    model = cart()
    inputs = np.zeros((20, 1))
    options: dict[str, Any] = {"until": 1.0, "step": 0.05, "balance": False}
    run = ht.simulate(model, ([0.0], [0.0]), inputs=inputs, sensitivities="inputs", **options)
    S = run.sensitivities.inputs[-1].reshape(2, 20)
    inputs = np.linalg.lstsq(S, np.array([1.0, 0.0]) - np.concatenate([run.q[-1], run.v[-1]]), rcond=None)[0][:, None]
    end = ht.simulate(model, ([0.0], [0.0]), inputs=inputs, **options).final
    np.testing.assert_allclose([*end[0], *end[1]], [1.0, 0.0], atol=1e-12)
