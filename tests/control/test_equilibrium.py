"""Equilibria known by hand, their tangent spaces, and unbalanced forces."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import System
from heavytop.control import equilibrium
from heavytop.errors import ControlError, UnknownNameError
from heavytop.geometry import so3
from heavytop.system import Inertia, JointForce, Model, Prismatic, Revolute

ROD = Inertia(1.0, com=(0.5, 0.0, 0.0), moment_at_com=(0.01, 1 / 12, 1 / 12))


def rests(model: Model, found) -> None:
    a = model.acceleration(found.q, np.zeros(model.nv), found.u)
    np.testing.assert_allclose(a, 0.0, atol=1e-6)


def test_hover_from_a_tilted_guess() -> None:
    """A quadcopter rests level only: it is levelled, keeps its heading, and four directions of equilibria remain."""
    model = ht.library.quadcopter().derive(native=False)
    q = np.concatenate([[1.0, 2.0, 3.0], so3.exp([0.3, -0.2, 0.0]).T.ravel()])
    found = equilibrium(model, q)
    assert found.is_held
    rests(model, found)
    np.testing.assert_allclose(found.q[3:].reshape(3, 3).T[:, 2], [0, 0, 1], atol=1e-8)
    assert found.space.shape == (4, 10)
    np.testing.assert_allclose(found.space[:, 6:], 0.0, atol=1e-9)
    assert "4 directions" in found.report()


def test_four_bar_held_by_its_motor() -> None:
    """Virtual work: the torque is the derivative of the potential energy by the crank."""
    system = ht.library.four_bars(1)
    system.input("motor", JointForce("crank0"))
    model = system.derive(native=False)
    q, _ = model.assemble([1.2, 1.0, -1.0])
    found = equilibrium(model, q)
    assert found.is_held
    assert np.array_equal(found.q, q)  # an exact guess is unchanged
    rests(model, found)
    joint = model.coordinates.names[0]
    ends = [model.assemble(found.q + np.array([s, 0, 0]), fixed=(joint,))[0] for s in (1e-5, -1e-5)]
    energies = [model.potential_energy(end) for end in ends]
    assert found.q[0] == pytest.approx(q[0], abs=1e-3)
    assert found.u[0] == pytest.approx((energies[0] - energies[1]) / 2e-5, rel=1e-6)
    assert len(found.space) == 1


def test_springs_hold_without_inputs() -> None:
    """A rod on a torsional spring: k x = m g l cos(x) without input; the equilibrium is isolated."""
    system = System(name="sprung rod")
    system.body("rod", joint=Revolute("y"), inertia=ROD)
    system.potential(lambda q: 10.0 * q[0] ** 2)
    model = system.derive(native=False)
    found = equilibrium(model)
    assert found.is_held
    assert 20.0 * found.q[0] == pytest.approx(0.5 * 9.81 * np.cos(found.q[0]), rel=1e-7)
    assert found.space.shape == (0, 1)


def test_preference_between_configuration_and_inputs() -> None:
    system = System(name="driven rod")
    system.body("rod", joint=Revolute("y"), inertia=ROD)
    system.input("motor", JointForce("rod"))
    model = system.derive(native=False)
    stays = equilibrium(model, [0.8])
    assert stays.q[0] == pytest.approx(0.8, abs=1e-3)
    assert abs(stays.u[0]) == pytest.approx(0.5 * 9.81 * np.cos(stays.q[0]), rel=1e-6)
    moves = equilibrium(model, [0.8], prefer="inputs")
    assert abs(moves.u[0]) < 0.05
    assert abs(np.cos(moves.q[0])) < 0.01
    limited = equilibrium(model, [0.8], limits=(-1.0, 1.0))
    assert limited.is_held
    assert abs(limited.u[0]) <= 1.0
    assert np.cos(limited.q[0]) == pytest.approx(1.0 / (0.5 * 9.81), rel=0.05)
    stuck = equilibrium(model, [0.8], limits=(-1.0, 1.0), fixed=("rod",))
    assert not stuck.is_held
    assert stuck.at_limit == ("motor",)
    assert any("'rod.rate'" in reason and "limits" in reason for reason in stuck.reasons)


def test_unbalanced_forces_and_their_causes() -> None:
    model = ht.library.cart_pole().derive(native=False)
    tilted = equilibrium(model, [0.0, 0.5], fixed=("theta",))
    assert not tilted.is_held
    assert "'theta.rate'" in tilted.report()
    np.testing.assert_allclose(tilted.left[0], 0.0, atol=1e-9)
    upright = equilibrium(model, [0.3, 0.2])
    assert upright.is_held
    assert np.sin(upright.q[1]) == pytest.approx(0.0, abs=1e-8)
    assert len(upright.space) == 1  # any position of the cart


def test_a_slope_with_a_constant_wind() -> None:
    system = System(name="cart in wind")
    system.body("cart", joint=Prismatic("x"), inertia=Inertia(1.0))
    wind = system.parameter("wind", 2.0)
    system.force(lambda q, v: ht.vector(wind - 0.5 * v[0]))
    system.input("brake", JointForce("cart"))
    model = system.derive(native=False)
    assert equilibrium(model).u[0] == pytest.approx(-2.0)
    assert equilibrium(model, parameters={"wind": 5.0}).u[0] == pytest.approx(-5.0)


def test_bad_requests() -> None:
    model = ht.library.cart_pole().derive(native=False)
    with pytest.raises(ControlError, match="prefer"):
        equilibrium(model, prefer="speed")
    with pytest.raises(UnknownNameError, match="'wheel'"):
        equilibrium(model, fixed=("wheel",))
    driven = ht.library.rolling_ball(turntable=1.0, minimal=False).derive(native=False)
    with pytest.raises(ControlError, match="never at rest"):
        equilibrium(driven)


@pytest.mark.parametrize("limits", [None, (-20.0, 20.0)])
def test_an_exact_guess_is_unchanged(limits) -> None:
    """Inputs that hold the guess are found without moving it, although that would reduce the inputs."""
    system = System(name="arm")
    system.body("upper", joint=Revolute("y"), inertia=ROD)
    system.body("lower", parent="upper", at=(1, 0, 0), joint=Revolute("y"), inertia=ROD)
    for joint in ("upper", "lower"):
        system.input(joint, JointForce(joint))
    model, q = system.derive(native=False), np.array([0.3, -0.7])
    found = equilibrium(model, q, limits=limits)
    assert found.is_held
    assert np.array_equal(found.q, q)
    np.testing.assert_allclose(found.u, model.gravity_force(q), rtol=1e-9)


@pytest.mark.parametrize("name", ["pendulum", "cart-pole", "furuta", "double-pendulum"])
@pytest.mark.parametrize("turns", [0.5, -0.5, 1.5])
def test_an_equilibrium_up_to_rounding_is_held(name: str, turns: float) -> None:
    """No float is closer to a half turn than pi: the residual there is rounding."""
    model = ht.library.load(name).derive(native=False)
    q = np.zeros(model.nq)
    q[-1] = 2 * np.pi * turns
    found = ht.control.equilibrium(model, q)
    assert found.is_held
    np.testing.assert_allclose(found.q, q, atol=1e-14)


@pytest.mark.parametrize(("radius", "rest"), [(1e-3, 3.0), (0.1, 3.0), (1e-4, 3.0), (1e-4, 100.0)])
def test_small_bodies_slide_far(radius: float, rest: float) -> None:
    """Only turns are limited to small steps: the displacement by a spring is independent of the size of the body."""
    system = System(name="slider")
    system.body("slider", joint=Prismatic("x"), inertia=Inertia(1.0, moment_at_com=(radius**2,) * 3))
    system.joint_spring("slider", stiffness=5.0, rest=rest)
    found = equilibrium(system.derive(native=False), [0.0])
    assert found.is_held
    np.testing.assert_allclose(found.q, rest, atol=1e-6)
