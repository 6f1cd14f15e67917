"""Regulators with full weights and ignored deviations; linearised loops: loci, steps, pictures, python-control."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.control import FeedbackLoop
from heavytop.control.linear.lqr import deviation_names
from heavytop.copters import quadcopter
from heavytop.errors import ControlError, HeavytopError, UnknownNameError


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


Q = np.diag([10.0, 20.0, 1.0, 1.0])
Q[0, 3] = Q[3, 0] = 0.5
N = np.array([[0.0], [0.0], [0.0], [0.1]])


def segway() -> ht.Model:
    """A cart on a wheel whose angle nothing depends on, with a pole."""
    system = ht.System(gravity=(0, 0, -9.81), name="segway")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("pole", parent="cart", joint=ht.Revolute("y"), inertia=ht.Inertia(0.3, com=(0, 0, 0.5)))
    system.body(
        "flywheel", parent="cart", joint=ht.Revolute("y"), inertia=ht.Inertia(0.1, moment_at_com=(1e-3, 2e-3, 1e-3))
    )
    system.input("drive", ht.JointForce("cart"))
    return system.derive()


@pytest.mark.thorough
def test_cross_terms_are_those_of_the_riccati_equation(cart: ht.Model) -> None:
    """The continuous equation A'P + PA - (PB + N) R^-1 (B'P + N') + Q = 0, in the limit of short steps."""
    from scipy.linalg import solve_continuous_are

    A, B = cart.linearize([0, 0], [0, 0], [0.0])
    P = solve_continuous_are(A, B, Q, np.array([[0.2]]), s=N)
    law = control.lqr(cart, [0, 0], Q=Q, R=[[0.2]], N=N, step=1e-5)
    np.testing.assert_allclose(law.gains[0], (B.T @ P + N.T) / 0.2, rtol=2e-4)
    np.testing.assert_allclose(law.cost_to_go[0], P, rtol=1e-3)


def test_weights_by_names_are_the_matrices(cart: ht.Model) -> None:
    named = control.lqr(
        cart,
        [0, 0],
        Q={"x.x": 10, "theta.angle": 20, "x.v_x": 1, "theta.rate": 1, ("x.x", "theta.rate"): 0.5},
        R={"F": 0.2},
        N={("theta.rate", "F"): 0.1},
    )
    np.testing.assert_array_equal(named.gains, control.lqr(cart, [0, 0], Q=Q, R=[[0.2]], N=N).gains)
    with pytest.raises(UnknownNameError, match=r"theta\.angel"):
        control.lqr(cart, [0, 0], Q={"theta.angel": 1.0})
    with pytest.raises(ControlError, match="pairs"):
        control.lqr(cart, [0, 0], N={"F": 1.0})
    with pytest.raises(ControlError, match="negative"):
        control.lqr(cart, [0, 0], Q=Q, R=[[0.2]], N=10 * N)
    assert deviation_names(quadcopter().model)[3:7] == ("hull.turn_x", "hull.turn_y", "hull.turn_z", "hull.v_x")


@pytest.mark.thorough
def test_cross_terms_along_a_motion_lower_the_cost(cart: ht.Model) -> None:
    """The cost-to-go with cross terms is that of the recursion itself, computed with them."""
    plan = ht.plan(  # pyright: ignore[reportCallIssue]
        cart, start=[0, np.pi], goal=[0, 0], duration=2.0, limits=(-20, 20), steps=24, tolerance=1e-4
    )
    law = control.lqr(cart, plan.reference, inputs=plan.inputs, Q=Q, R=[[0.2]], N=N, step=0.02)
    from heavytop.control.linear.lqr import linearized_steps

    h = 2.0 / 100
    A, B = linearized_steps(cart, plan.reference, law.times[:-1], h, plan.inputs)
    P = law.cost_to_go[1]
    S = h * np.array([[0.2]]) + B[0].T @ P @ B[0]
    K = np.linalg.solve(S, B[0].T @ P @ A[0] + h * N.T)
    np.testing.assert_allclose(law.gains[0], K, rtol=1e-6, atol=1e-9)


@pytest.mark.thorough
def test_deviations_that_no_input_reaches_are_named_and_can_be_ignored() -> None:
    model = segway()
    with pytest.raises(ControlError, match=r"no input reaches 'flywheel\.angle', 'flywheel\.rate'.*ignore="):
        control.lqr(model, np.zeros(3))
    law = control.lqr(model, np.zeros(3), ignore=["flywheel"])
    assert not np.any(law.gains[0][:, [2, 5]])
    run = ht.simulate(model, ([0.2, 0.1, 3.0], [0, 0, 5.0]), until=8.0, step=0.01, control=law)
    assert np.abs(run.q[-1, :2]).max() < 1e-2
    assert law.region([0.05], samples=5)[0] == 1.0
    with pytest.raises(UnknownNameError, match="wheels"):
        control.lqr(model, np.zeros(3), ignore=["wheels"])
    with pytest.raises(ControlError, match=r"'pole\.angle' cannot be ignored"):
        control.lqr(model, np.zeros(3), ignore=["pole.angle", "flywheel"])


def test_the_locus_meets_the_margins(cart: ht.Model) -> None:
    """The single loop crosses the unit circle with the phase margin, and is at -1 for the largest gain of the margins."""
    law = control.lqr(cart, [0, 0])
    loop, margins = law.loop(), law.margins()
    w = np.linspace(0.9, 1.1, 2001) * margins.crossover
    locus = loop.locus(w)[:, 0]
    k = int(np.argmin(np.abs(np.abs(locus) - 1)))
    assert np.angle(-locus[k]) % (2 * np.pi) == pytest.approx(margins.phase, rel=0.02)
    np.testing.assert_allclose(np.sort_complex(loop.poles()), np.sort_complex(law.poles()), rtol=1e-6)
    # return difference of an optimal regulator: |1 + L| >= 1, nearly so with steps of 10 ms
    assert np.abs(1 + loop.locus()).min() > 0.9


@pytest.mark.thorough
def test_each_input_is_cut_alone() -> None:
    craft = quadcopter()
    loop = craft.law(limits=False).loop()
    assert loop.B.shape == (12, 4)
    s = 7.0j
    L = loop.K @ np.linalg.solve(s * np.eye(12) - loop.A, loop.B)
    # det(1 + L) = (1 + L_i) det(1 + L without i)
    rest = np.delete(np.delete(L, 1, 0), 1, 1)
    cut = np.linalg.det(np.eye(4) + L) / np.linalg.det(np.eye(3) + rest) - 1
    assert loop.locus([7.0])[0, 1] == pytest.approx(cut, rel=1e-8)
    with_states = craft.law(limits=False, integral=control.Integral("hull", gain=1.0)).loop()
    assert with_states.states[-1] == "z3"


def test_a_step_of_the_set_point_is_reached(cart: ht.Model) -> None:
    law = control.lqr(cart, [0, 0])
    loop = law.loop()
    t, x, u = loop.step_response("x.x")
    assert x[-1, 0] == pytest.approx(1.0, abs=0.02)
    assert x[:, 0].min() < 0  # the cart starts the wrong way
    # the same in the nonlinear simulation of a small step
    run = ht.simulate(
        cart, ([-1e-4, 0], [0, 0]), until=float(t[-1]), step=float(t[-1]) / 400, control=law, hold="continuous"
    )
    there = np.interp(run.t, t, x[:, 0])
    np.testing.assert_allclose(run.q[:, 0] * 1e4 + 1, there, atol=2e-3)
    assert u[0, 0] == pytest.approx(law.gains[0][0, 0])
    with pytest.raises(UnknownNameError):
        loop.step_response("x.y")


@pytest.mark.thorough
def test_pictures_are_written(cart: ht.Model, tmp_path: Path) -> None:
    loop = control.lqr(cart, [0, 0]).loop()
    for name, draw in (("bode", loop.bode), ("nyquist", loop.nyquist)):
        figure: Any = draw(tmp_path / f"{name}.png")
        assert figure.axes[0].get_legend().get_texts()[0].get_text() == "F"
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
    steps = loop.step()
    assert [axis.get_ylabel() for axis in steps.axes] == ["in SI units", "F in SI units"] * 2
    assert len(control.lqr(cart, [0, 0], ignore=["x.x"]).loop().step().axes) == 2  # no step of an ignored place
    with pytest.raises(HeavytopError):
        loop.bode(tmp_path / "bode.docx")


@pytest.mark.peers
def test_the_loop_in_python_control(cart: ht.Model) -> None:
    pytest.importorskip("control.statesp")  # tests/control is no such package
    ct = importlib.import_module("control")
    loop = control.lqr(cart, [0, 0], Q=Q, R=[[0.2]], N=N, step=1e-4).loop()
    system = loop.to_control()
    assert system.state_labels == ["x_x", "theta_angle", "x_v_x", "theta_rate"]
    K, _, poles = ct.lqr(*cart.linearize([0, 0], [0, 0], [0.0]), Q, [[0.2]], N)
    np.testing.assert_allclose(loop.K, K, rtol=2e-3)
    np.testing.assert_allclose(np.sort(np.real(loop.poles())), np.sort(np.real(poles)), rtol=2e-3)
    w = np.geomspace(0.1, 100.0, 20)
    np.testing.assert_allclose(system(1j * w), loop.locus(w)[:, 0], rtol=1e-8)


def test_a_loop_shows_its_sizes() -> None:
    assert (
        repr(FeedbackLoop(np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((1, 2)), ("a", "b"), ("u",), "x"))
        == "FeedbackLoop('x': 2 states, 1 input)"
    )


def test_margins_of_loops_with_fast_poles_and_with_modes_that_ring() -> None:
    """The delay margin is the delay at which the loop of the same gain is neutral, by the delay's own rational approximation."""

    def growth(loop: control.FeedbackLoop, delay: float, count: int = 60) -> float:
        """Largest growth rate of the loop with a delay, as ``count`` equal lags in a row."""
        n, size = len(loop.A), len(loop.A) + count
        whole = np.zeros((size, size))
        whole[:n, :n], whole[:n, -1:] = loop.A, -loop.B
        whole[n, :n], rate = loop.K[0], count / delay
        whole[n] *= rate
        for k in range(n, size):
            whole[k, k] = -rate
            if k > n:
                whole[k, k - 1] = rate
        return float(np.max(np.real(np.linalg.eigvals(whole))))

    arm = ht.System(gravity=(0, 0, -9.81), name="rotary pendulum with a fast pole")
    arm.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(0.2, com=(0.1, 0, 0), moment_at_com=(1e-4, 8e-4, 8e-4)))
    rod = ht.Inertia(0.1, com=(0, 0, 0.12), moment_at_com=(5e-4, 5e-4, 1e-5))
    arm.body("rod", parent="arm", at=(0.2, 0, 0), joint=ht.Revolute("x"), inertia=rod)
    arm.input("motor", ht.JointForce("arm"))
    crane = ht.System(gravity=(0, 0, -9.81), name="crane with two hooks")
    crane.body("trolley", joint=ht.Prismatic("x"), inertia=ht.Inertia(50.0))
    crane.body("hook", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(5.0, com=(0, 0, -3)))
    crane.body("load", parent="hook", at=(0, 0, -3), joint=ht.Revolute("y"), inertia=ht.Inertia(20.0, com=(0, 0, -1.5)))
    crane.input("drive", ht.JointForce("trolley"))
    for system, step, weights in ((arm, 1e-5, [10, 20, 1, 9]), (crane, 1e-3, [10, 10, 10, 1, 1, 1])):
        model = system.derive()
        law = control.lqr(model, model.neutral(), Q=np.diag(np.array(weights, dtype=float)), step=step)
        found = law.margins().delay
        assert found < 0.5
        assert growth(law.loop(), 0.9 * found) < 0 < growth(law.loop(), 1.1 * found)


def test_directions_of_several_deviations_that_no_input_reaches() -> None:
    """Wheels turn a satellite, but not its angular momentum: no deviation is beyond reach alone."""
    satellite = ht.System(gravity=(0, 0, 0), name="satellite")
    satellite.body("hull", joint=ht.Revolute("z"), inertia=ht.Inertia(10.0, moment_at_com=(1.0, 1.4, 0.8)))
    wheel = ht.Inertia(0.5, moment_at_com=(0.006, 0.006, 0.01))
    satellite.body("wheel", parent="hull", joint=ht.Revolute("z"), inertia=wheel)
    satellite.input("motor", ht.JointForce("wheel"))
    model = satellite.derive()
    with pytest.raises(
        ControlError, match=r"no input reaches some combinations of 'hull\.angle', 'wheel\.angle', 'hull\.rate', 'wheel"
    ):
        control.lqr(model, np.zeros(2))
    assert np.sum(np.real(control.lqr(model, np.zeros(2), ignore=["wheel"]).poles()) < -0.1) == 2
    with pytest.raises(ControlError, match=r"all deviations of 'satellite' are ignored"):
        control.lqr(model, np.zeros(2), ignore=["hull", "wheel"])


def test_controllers_without_a_loop_state_where_it_is(cart: ht.Model) -> None:
    late = control.Delayed(control.lqr(cart, [0, 0]), samples=1, start=([0, 0], [0, 0]))
    with pytest.raises(ControlError, match=r"Delayed has no loop: take the law inside: controller\.law\.loop\(\)"):
        late.loop()
    assert late.law.loop().states == ("x.x", "theta.angle", "x.v_x", "theta.rate")
    with pytest.raises(ControlError, match=r"has no loop: .* control\.lqr\(model, reference\)\.loop\(\)"):
        control.mpc(cart, [0, 0], limits=(-5, 5)).loop()
