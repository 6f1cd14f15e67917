"""Uses of gradients: tuned gains, samples of inputs improved by single shooting, shares that recover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extrapolation import slope

import heavytop as ht
from heavytop import control
from heavytop.errors import ControlError, SimulationError, UnknownNameError


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


@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("energy", "body", "particle", "integral")),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("se3", "limited", "tilting")),
    ],
)
def test_numbers_of_a_prototype_are_gains(kind: str) -> None:
    """The same inputs as those of the law itself; derivatives by desired inertia, damping and stiffness against differences."""
    craft = ht.copters.tricopter(thrust=(0.0, 7.0)) if kind == "tilting" else ht.copters.quadcopter()
    model, prototype, rng = craft.model, craft.prototype, np.random.default_rng(0)
    law = {
        "energy": lambda: control.energy_law(model, prototype),
        "body": lambda: control.body_law(model, prototype),
        "particle": lambda: control.particle_law(model, prototype),
        "se3": lambda: control.energy_law(model, prototype, transport="se3"),
        "limited": lambda: control.energy_law(model, prototype, limits=craft.limits),
        "integral": lambda: control.energy_law(model, prototype, integral=control.Integral("hull", gain=0.5)),
        "tilting": lambda: control.energy_law(model, prototype, limits=craft.limits),
    }[kind]()
    tuned = control.tunable(law)
    size = 0.1 if kind == "tilting" else 0.3
    start = (
        np.asarray(model.coordinates.retract(model.neutral(), size * rng.standard_normal(6))),
        size * rng.standard_normal(6),
    )
    np.testing.assert_allclose(tuned(*start, model.neutral()), law(*start, model.neutral()), rtol=1e-11, atol=1e-11)
    loss = ht.Loss(end=lambda t, q, v: q[0] + v[1], running=lambda t, q, v, u: np.vecdot(v, v) + 0.1 * np.vecdot(u, u))
    options = {"until": 0.2, "step": 0.005, "control": tuned, "reference": model.neutral()}
    found = ht.gradient(loss, model, start, **options)
    for name in ("inertia world hull S00", "damping world hull total", "stiffness world hull S11"):
        value = tuned.tunable_gains[name]
        expected = slope(
            lambda e, name=name, value=value: (
                ht.gradient(loss, model, start, gains={name: value * (1 + e)}, by=(), **options).value
            ),
            1e-2,
        )
        assert found.gains[name] * value == pytest.approx(expected, rel=1e-8)


@pytest.mark.thorough
def test_a_prototype_is_tuned() -> None:
    """A sluggish prototype of a cart with a pole becomes better, over several starts."""
    model = ht.library.cart_pole().derive()
    law = control.tunable(control.energy_law(model, control.Prototype.for_model(model, poles=[-1, -1.2, -1.5, -2])))
    loss = ht.Loss(running=lambda t, q, v, u: 10 * np.vecdot(q, q) + np.vecdot(v, v) + 0.001 * np.vecdot(u, u))
    starts = np.array([[0.2, 0.1], [-0.3, 0.05]]), np.zeros((2, 2))
    found = ht.tune(law, loss, model, over=starts, until=4.0, step=0.02, reference=model.neutral(), iterations=8)
    assert found.value < 0.8 * found.start
    with pytest.raises(ControlError, match="gains"):
        control.tunable(ht.Feedback(lambda v: -v, ("v",)))  # pyright: ignore[reportArgumentType]


@pytest.mark.thorough
@pytest.mark.parametrize(("integrator", "step", "size"), [("ros2", 5e-4, 1e-6), ("projected_rk4", 2e-4, 1e-6)])
def test_bouncing_and_sliding(integrator: str, step: float, size: float) -> None:
    """Through impacts of a spinning ball on compliant ground, by start, stiffness and friction; rigid contact has no derivative."""
    system = ht.System(name="ball")
    system.ground()
    stiffness, friction = system.parameter("stiffness", 2e4), system.parameter("friction", 0.4)
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(0.5, moment_at_com=(2e-3, 2e-3, 2e-3)))
    system.contact("ball", "ground", ht.Sphere(0.1), stiffness=stiffness, friction=friction, restitution=(0.7, 1.0))
    model, rng = system.derive(), np.random.default_rng(0)
    q, v = model.neutral(), np.array([1.0, 0.2, 0.0, 0.5, 3.0, 1.0])
    q[2] = 0.25
    loss = ht.Loss(end=lambda t, q, v: q[0] + q[2] + 0.1 * v[2], running=lambda t, q, v, u: np.vecdot(v, v))
    d_q, d_v, d_k, d_mu = rng.standard_normal(6), rng.standard_normal(6), 1e4, 0.3
    found = ht.gradient(loss, model, (q, v), 0.6, step, integrator)
    along = found.q @ d_q + found.v @ d_v + found.parameters["stiffness"] * d_k + found.parameters["friction"] * d_mu

    def value(e: float) -> np.ndarray:
        start = np.asarray(model.coordinates.retract(q, e * d_q)), v + e * d_v
        changed = {"stiffness": 2e4 + e * d_k, "friction": 0.4 + e * d_mu}
        return ht.gradient(loss, model, start, 0.6, step, integrator, parameters=changed, by=()).value

    assert along == pytest.approx(
        slope(value, size), rel=2e-8
    )  # differences between kinks: of small size, so of few digits


@pytest.mark.thorough
def test_rigid_contact_has_no_derivative() -> None:
    model = ht.library.bouncing_ball().derive()
    start = ht.library.start("bouncing-ball", model)
    assert start is not None
    with pytest.raises(SimulationError, match="stiffness"):
        ht.gradient(lambda t, q, v: q[2], model, start, 0.1, 1e-3, "moreau")
    with pytest.raises(SimulationError, match="ros2"):
        ht.simulate(model, start, 0.1, 1e-3, "moreau", sensitivities="start")
