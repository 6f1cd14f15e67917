"""Friction that depends on the reaction: analytic motions, hand-written equations, energy balance, and Painleve's paradox as an outcome."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, ModelError
from heavytop.simulate import Ending

MU, R = 0.3, 0.5


def _three_ways(system: ht.System) -> None:
    """A point that moves along x, y and z."""
    system.body("x", joint=ht.Prismatic("x"))
    system.body("y", parent="x", joint=ht.Prismatic("y"))
    system.body("bead", parent="y", joint=ht.Prismatic("z"), inertia=ht.Inertia(0.2, moment_at_com=(1, 1, 1)))


def bead(gravity: float = 9.81) -> ht.Model:
    """A bead on a horizontal ring: one equation for the radius, one for the height, both lengths."""
    system = ht.System(gravity=(0, 0, -gravity), name="bead")
    _three_ways(system)
    ring = lambda q: ht.vector(np.sqrt(q[0] ** 2 + q[1] ** 2) - R, q[2])  # noqa: E731
    system.constrain(ring, friction=lambda q, v: -MU * v / np.sqrt(np.vecdot(v, v) + 1e-16), name="ring")
    return system.derive()


@pytest.mark.thorough
def test_a_bead_on_a_ring_slows_down_by_the_formula() -> None:
    """Without weight N = m v^2 / R, so v' = -mu v^2 / R: v = v0 / (1 + mu v0 t / R)."""
    model = bead(0.0)
    run = ht.simulate(model, ([R, 0, 0], [0, 2.0, 0]), until=3.0, step=1e-3, record_every=100)
    speed = np.linalg.norm(run.v, axis=-1)
    np.testing.assert_allclose(speed, 2.0 / (1 + MU * 2.0 * run.t / R), rtol=1e-9)
    assert run.work is not None
    np.testing.assert_allclose(run.work[:, 1], run.energy[0] - run.energy, atol=1e-10)


@pytest.mark.thorough
def test_both_equations_press() -> None:
    """With weight N = m sqrt((v^2/R)^2 + g^2)."""
    model, v = bead(), 1.7
    a = model.acceleration([R, 0, 0], [0, v, 0])
    np.testing.assert_allclose(a, [-(v**2) / R, -MU * np.hypot(v**2 / R, 9.81), 0], rtol=1e-12, atol=1e-12)
    force = model.constraint_forces([R, 0, 0], [0, v, 0])["ring"]
    np.testing.assert_allclose(force, 0.2 * np.array([-(v**2) / R, 0, 9.81]), atol=1e-12)
    run = ht.simulate(model, ([R, 0, 0], [0, v, 0]), until=0.3, step=1e-3)
    assert run.invariants["energy"].relative < 1e-9


def pinned_pendulum(mu: float, radius: float) -> ht.Model:
    """A rod on a pin that is a loop: its friction moment is mu r |F|."""
    system = ht.System(gravity=(0, -9.81, 0), name="pinned rod")
    rod = ht.Inertia(2.0, com=(0.5, 0, 0), moment_at_com=(0.01, 0.1, 0.1))
    system.body("rod", joint=ht.Planar(), inertia=rod)
    rub = lambda twist: ht.vector(0, 0, 0, 0, 0, -mu * radius * np.tanh(twist[5] / 1e-3))  # noqa: E731
    system.loop("world", "rod", ht.Revolute("z"), name="pin", friction=rub)
    return system.derive()


def test_pin_friction_agrees_with_equations_by_hand() -> None:
    """m l^2 + I times the angular acceleration is the weight's moment minus mu r |F|, F from Newton's law of the centre of mass."""
    mu, radius, m, l, inertia, g = 0.4, 0.2, 2.0, 0.5, 0.1, 9.81
    model = pinned_pendulum(mu, radius)
    for angle, w in ((0.3, 2.0), (-1.2, -3.0), (2.5, 0.7)):
        q, v = np.array([0, 0, angle]), np.array([0, 0, w])
        alpha = model.acceleration(q, v)[2]
        along = np.array([np.cos(angle), np.sin(angle)])
        across = np.array([-np.sin(angle), np.cos(angle)])
        force = m * l * (alpha * across - w**2 * along) + m * np.array([0, g])
        moment = -m * g * l * np.cos(angle) - mu * radius * np.linalg.norm(force) * np.sign(w)
        assert alpha == pytest.approx(moment / (m * l**2 + inertia), rel=1e-10)
        np.testing.assert_allclose(
            np.linalg.norm(model.constraint_forces(q, v)["pin"][:3]), np.linalg.norm(force), rtol=1e-10
        )


@pytest.mark.thorough
def test_the_balance_of_energy_holds_with_several_frictions() -> None:
    """A slider-crank whose pin and whose guide rub: two reactions that depend on each other."""
    system = ht.System(gravity=(0, -9.81, 0), name="rough slider-crank")
    rod = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(1e-3, 1 / 12, 1 / 12))
    system.body("crank", joint=ht.Revolute("z"), inertia=rod)
    system.body("rod", parent="crank", at=(1, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.body("slider", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    rub = lambda t: ht.vector(0, 0, 0, 0, 0, -0.02 * np.tanh(t[5] / 1e-2))  # noqa: E731
    system.loop("slider", "rod", ht.Revolute("z"), at_b=(1.7, 0, 0), name="pin", friction=rub)
    drag = lambda q, v: ht.vector(0, 0, -0.3 * np.tanh(v[2] / 1e-2), 0, 0)  # noqa: E731
    system.constrain(lambda q: q[3:4], name="guide", friction=drag)
    system.constrain(lambda q: q[4:5], name="upright")
    model = system.derive()
    q, v = model.assemble([0.5, -0.8, 2.5, 0, 0], [4.0, 0, 0, 0, 0], fixed=("crank",))
    run = ht.simulate(model, (q, v), until=1.0, step=2.5e-4, record_every=50)
    assert run.outcome.ok, run.outcome
    assert run.work is not None
    assert run.work[-1, 1] > 0.1
    assert run.invariants["energy"].relative < 1e-6
    # the sizes solve their equations: the friction that follows from the reactions is the one that acts
    a = model.acceleration(q, v)
    Phi, M = model.constraint_jacobian(q), model.mass_matrix(q)
    lam = model.evaluate("multipliers", q, v, np.zeros(0))
    pin = np.linalg.norm(model.constraint_forces(q, v)["pin"][:3])
    rubbing = M @ a + model.bias(q, v) + model.gravity_force(q) - Phi.T @ lam
    guide, w = abs(lam[5]), v[0] + v[1] - v[4]
    assert rubbing[2] == pytest.approx(-0.3 * np.tanh(v[2] / 1e-2) * guide, rel=1e-9)
    assert guide > 1.0
    assert np.vecdot(rubbing, v) == pytest.approx(-0.02 * np.tanh(w / 1e-2) * w * pin + rubbing[2] * v[2], rel=1e-9)


def painleve_rod(mu: float) -> ht.Model:
    """A rod (2 m, 1 kg) whose end slides along a rough slot: the example of Painleve."""
    system = ht.System(gravity=(0, -9.81, 0), name="rod in a slot")
    rod = ht.Inertia(1.0, com=(1.0, 0, 0), moment_at_com=(0.01, 1 / 3, 1 / 3))
    system.body("rod", joint=ht.Planar(), inertia=rod)
    drag = lambda q, v: ht.vector(-mu * np.tanh(v[0] / 1e-3), 0, 0)  # noqa: E731
    system.constrain(lambda q: q[1:2], name="slot", friction=drag)
    return system.derive()


def test_painleves_threshold_of_a_slender_rod_is_four_thirds() -> None:
    """S = 1 + 3 cos^2 against mu 3 sin cos: the gain reaches 1 first at tan(angle) = 2, for mu = 4/3."""
    angle = np.arctan(2.0)
    q, v = np.array([0, 0, angle]), np.array([1.0, 0, 0])
    gain = painleve_rod(4 / 3).evaluate("friction_gain", q, v)[0]
    assert gain == pytest.approx(1.0, abs=1e-9)
    for angle in (0.4, 1.0, 2.0):
        s, c = np.sin(angle), np.cos(angle)
        got = painleve_rod(0.7).evaluate("friction_gain", [0, 0, angle], v)[0]
        assert got == pytest.approx(abs(0.7 * 3 * s * c) / (1 + 3 * c * c), rel=1e-9)


@pytest.mark.thorough
def test_the_paradox_is_an_outcome_not_a_nan() -> None:
    model = painleve_rod(2.0)
    low, v = np.array([0.0, 0.0, 0.3]), np.array([3.0, 0.0, 2.5])
    assert model.evaluate("friction_gain", low, v)[0] < 1
    for starts in ((low, v), (np.stack([low, low]), np.stack([v, 0.9 * v]))):
        run = ht.simulate(model, starts, until=2.0, step=1e-4, record_every=100, progress=False)
        assert run.outcome.ending is Ending.ill_posed, run.outcome
        assert "Painleve" in str(run.outcome)
        assert "compliant" in str(run.outcome)
        assert np.all(np.isfinite(run.q[0]))
    assert np.isfinite(ht.simulate(model, (low, v), until=2.0, step=1e-4).v).all()
    inside = np.array([0.0, 0.0, np.arctan(2.0)])
    with pytest.raises(ConfigurationError, match="Painleve"):
        model.acceleration(inside, v)
    with pytest.raises(ConfigurationError, match="Painleve"):
        ht.simulate(model, (inside, v), until=1.0, step=1e-3)


def test_where_friction_by_reactions_is_not_possible() -> None:
    with pytest.raises(ModelError, match="cannot be linearised"):
        bead().linearize([R, 0, 0])
    system = ht.System(gravity=(0, 0, 0), name="skate")
    system.body("skate", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.2)))
    blade = lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2])  # noqa: E731
    system.constrain(blade, friction=lambda q, v: -0.1 * v, name="blade")
    assert system.derive().acceleration([0, 0, 0], [1.0, 0, 2.0])[0] == pytest.approx(-0.2)  # N = m v w
    system.basis(lambda q, w: ht.vector(w[0] * np.cos(q[2]), w[0] * np.sin(q[2]), w[1]), ("u", "w"))
    with pytest.raises(ModelError, match="Omit the basis"):
        system.derive()
    wrong = ht.System(name="wrong")
    _three_ways(wrong)
    wrong.constrain(lambda q: q[2:3], friction=lambda q, v: v[:2], name="plane")
    with pytest.raises(ModelError, match="must return 3 numbers"):
        wrong.derive()


@pytest.mark.thorough
def test_energy_momentum_feels_the_friction_too() -> None:
    """Second order, relative to a fourth-order run; the energy balance holds for any friction, so the motion is compared."""
    model, start = painleve_rod(0.4), ([0.0, 0.0, 0.3], [3.0, 0.0, 1.0])
    exact = ht.simulate(model, start, until=0.1, step=1e-4, record_every=1000)
    errors = []
    for step in (1e-3, 5e-4):
        run = ht.simulate(model, start, until=0.1, step=step, integrator="energy_momentum", record_every=1000)
        errors.append(np.max(np.abs(run.v[-1] - exact.v[-1])))
        assert run.work[-1, 1] == pytest.approx(exact.work[-1, 1], rel=1e-3)
    assert errors[1] < 1e-5
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.25)


@pytest.mark.parametrize("integrator", ["rkmk4", "energy_momentum"])
@pytest.mark.thorough
def test_friction_on_a_support_that_moves(integrator: str) -> None:
    """A rod on a rough belt that runs and rises: the work of the friction and that of the lift are both in the balance, and no alarm is given."""
    system = ht.System(gravity=(0, -9.81, 0), name="rod on a belt")
    rod = ht.Inertia(1.0, com=(0.3, 0, 0), moment_at_com=(0.01, 0.1, 0.1))
    system.body("rod", joint=ht.Planar(), inertia=rod)
    drag = lambda q, v: ht.vector(-0.4 * np.tanh((v[0] - 1.0) / 1e-2), 0, 0)  # noqa: E731
    system.constrain(lambda q, v: v[1:2] - 0.5, name="belt", friction=drag)
    run = ht.simulate(system.derive(), ([0, 0, 0.3], [0.2, 0.5, 1.0]), until=0.3, step=5e-4, integrator=integrator)
    assert run.outcome.ok, run.outcome
    assert run.work is not None
    given, lost, driven = run.work[-1]
    assert given == 0.0
    assert driven > 0.5  # the lift carries the weight
    assert abs(lost) > 0.01
    rise = run.energy[-1] - run.energy[0]
    assert rise == pytest.approx(driven - lost, rel=1e-6)
