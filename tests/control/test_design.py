"""Prototypes of any model from requested poles; poles of laws and warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import heavytop as ht
from heavytop import System, copters
from heavytop.control import (
    Design,
    Prototype,
    Reference,
    UnstableWarning,
    Weights,
    energy_law,
    hover,
    linearize,
    particle_law,
    poles_of,
)
from heavytop.control.linear.linearised_loop import LinearisedLoop
from heavytop.control.linear.prototype_design import _Base, _Problem
from heavytop.errors import ControlError, ShapeError
from heavytop.system import (
    Damping,
    Free,
    Inertia,
    JointForce,
    Model,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Stiffness,
    Thruster,
    Wrench,
)

LATERAL = [-2.0, -2.0, -6.4 + 4.8j, -6.4 - 4.8j]


def satellite() -> System:
    """A hull with three reaction wheels; the total momentum is constant."""
    system = System(gravity=(0.0, 0.0, 0.0), name="satellite")
    system.body("hull", joint=Spherical(), inertia=Inertia(20.0, moment_at_com=(2.0, 2.5, 3.0)))
    for k, axis in enumerate("xyz"):
        moment = np.full(3, 0.006)
        moment[k] = 0.01
        system.body(f"wheel_{axis}", parent="hull", joint=Revolute(axis), inertia=Inertia(1.0, moment_at_com=moment))
        system.input(axis, JointForce(f"wheel_{axis}"))
    return system


def quadcopter_with_arm() -> System:
    """A quadcopter with two links that hang down, each with a motor."""
    system = System(name="quadcopter with arm")
    system.body("hull", joint=Free(), inertia=Inertia(0.9, moment_at_com=(0.008, 0.008, 0.014)))
    for k in range(4):
        at = (0.2 * np.cos(k * np.pi / 2), 0.2 * np.sin(k * np.pi / 2), 0.0)
        system.input(f"rotor{k}", Thruster("hull", at=at, drag_ratio=0.016 * (-1) ** k))
    link = Inertia(0.1, com=(0, 0, -0.1), moment_at_com=(4e-4, 4e-4, 5e-5))
    system.body("upper", parent="hull", at=(0, 0, -0.05), joint=Revolute("y"), inertia=link)
    system.body("lower", parent="upper", at=(0, 0, -0.2), joint=Revolute("y"), inertia=link)
    for name in ("upper", "lower"):
        system.input(f"{name}_motor", JointForce(name))
    return system


def made(model: Model, poles, **options) -> Prototype:
    return Prototype.for_model(model, poles=poles, quiet=True, **options)


def check(model: Model, prototype: Prototype, q=None) -> None:
    """All poles within 1 % by exact linearisation of the law, and every distribution positive."""
    design = prototype.design
    assert isinstance(design, Design)
    assert design.is_met, design.report()
    parts = (prototype.inertia, prototype.damping, prototype.stiffness)
    assert all(np.linalg.eigvalsh(moments.matrix)[0] > 0 for part in parts for moments in part.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnstableWarning)
        law = energy_law(model, prototype, at=q)
    exact = np.poly(hover(law, design.q).poles)
    wanted = np.poly(np.concatenate([design.requested, design.fixed]))
    np.testing.assert_allclose(exact, wanted, rtol=5e-3, atol=1e-6 * np.max(np.abs(wanted)))
    np.testing.assert_allclose(np.poly(law.poles()), exact, rtol=1e-5, atol=1e-6 * np.max(np.abs(exact)))


@pytest.mark.parametrize("name", ["cart_pole", "furuta"])
@pytest.mark.thorough
def test_upright_pendulums(name: str) -> None:
    model = getattr(ht.library, name)().derive(native=False)
    check(model, made(model, [-2.0, -3.0, -4 + 2j, -4 - 2j]))


@pytest.mark.thorough
def test_satellite_with_wheels() -> None:
    model = satellite().derive(native=False)
    prototype = made(model, [*poles_of(0.5, 0.8), *poles_of(0.6, 0.8), *poles_of(0.7, 0.8)], bodies=("hull",))
    assert prototype.design is not None
    assert len(prototype.design.fixed) == 6
    np.testing.assert_allclose(prototype.design.fixed, 0.0, atol=1e-3)
    assert prototype.design.is_met


@pytest.mark.thorough
def test_bicopter() -> None:
    """Different levers in both lateral directions."""
    model = copters.bicopter().model
    check(model, made(model, [*LATERAL, *LATERAL, *poles_of(3.0, 0.9), *poles_of(2.0, 1.2)]))


@pytest.mark.slow
def test_quadcopter_with_arm() -> None:
    model = quadcopter_with_arm().derive(native=False)
    arm = [*poles_of(8.0, 0.8), *poles_of(10.0, 0.8)]
    check(model, made(model, [*LATERAL, *LATERAL, *poles_of(2.0, 1.0), *poles_of(3.0, 0.9), *arm]))


@pytest.mark.thorough
def test_weights_give_the_poles_of_the_regulator() -> None:
    model = ht.library.cart_pole().derive(native=False)
    prototype = Prototype.for_model(model, weights=Weights(), quiet=True)
    assert prototype.design is not None
    assert prototype.design.is_met
    A, B = model.linearize(model.neutral())
    regulator = ht.control.lqr(model, model.neutral(), step=1e-4)
    expected = np.linalg.eigvals(A - B @ regulator.gains[0])
    np.testing.assert_allclose(np.poly(prototype.design.achieved), np.poly(expected), rtol=2e-3)


@pytest.mark.thorough
def test_a_loop_gets_its_poles() -> None:
    system = ht.library.four_bars(1)
    system.input("motor", JointForce("crank0"))
    model = system.derive(native=False)
    q, _ = model.assemble([1.2, 1.0, -1.0])
    check(model, made(model, [-3.0, -4.0], q=q), q)


def test_wrong_requests_are_rejected() -> None:
    model = satellite().derive(native=False)
    with pytest.raises(ControlError, match=r"6 poles.*6 further.*got 12"):
        made(model, [-1.0] * 12)
    with pytest.raises(ControlError, match="weights="):
        Prototype.for_model(model)
    with pytest.raises(ControlError, match="negative"):
        made(model, 1.0)
    with pytest.raises(ControlError, match="conjugate"):
        made(model, [-1 + 1j, -1, -1, -1, -1, -1])
    with pytest.raises(ControlError, match="not in balance"):
        made(ht.library.cart_pole().derive(native=False), -1.0, q=[0.4, 0.3])


def test_missed_poles() -> None:
    design = Design(np.array([-1.0 + 0j, -2.0]), np.array([-1.001 + 0j, -2.2]), np.array([0j]), np.zeros(1))
    assert design.missed.tolist() == [False, True]
    assert "missed" in design.report().splitlines()[1]


def driven_car(minimal: bool = True) -> Model:
    """A car with a drive at its rear axle."""
    system = ht.library.car(minimal=minimal)
    system.input("drive", Wrench("chassis", force=(1.0, 0.0, 0.0)))
    return system.derive(native=False)


AT_SPEED = [-1.0, -1.2, -2.5, -3 + 1j, -3 - 1j, -3.5]


@pytest.mark.parametrize("minimal", [True, False])
@pytest.mark.thorough
def test_a_car_at_speed(minimal: bool) -> None:
    """Along straight driving the law has the requested poles, by exact linearisation about a moving reference."""
    model, q = driven_car(minimal), np.zeros(4)
    v = np.array([10.0, 0.0] if minimal else [10.0, 0.0, 0.0, 0.0])
    prototype = made(model, AT_SPEED, q=q, v=v)
    assert prototype.design is not None
    assert prototype.design.is_met
    np.testing.assert_array_equal(prototype.design.v, v)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnstableWarning)
        law = particle_law(model, prototype, at=(q, v))
    moving = Reference.from_function(model, lambda t: ht.vector(10.0 * t, 0.0, 0.0, 0.0))
    exact = linearize(model, law.with_reference(moving), q, v).poles
    np.testing.assert_allclose(np.poly(exact), np.poly(AT_SPEED), rtol=1e-3)
    np.testing.assert_allclose(law.poles(), exact, atol=1e-6)
    # unstable backwards
    with pytest.warns(UnstableWarning, match="unstable poles"):
        particle_law(model, prototype, at=(q, -v))


@pytest.mark.thorough
def test_motions_that_are_not_steady_are_rejected() -> None:
    model, rest = driven_car(), np.zeros(4)
    with pytest.raises(ShapeError, match=r"'car'.*\(2,\).*\(3,\)"):
        made(model, -3.0, q=rest, v=[10.0, 0.0, 0.0])
    with pytest.raises(ControlError, match="finite"):
        made(model, -3.0, q=rest, v=[np.nan, 0.0])
    with pytest.raises(ControlError, match="not a relative equilibrium"):
        made(model, AT_SPEED, q=[0.0, 0.0, 0.0, 0.2], v=[5.0, 0.0])
    with pytest.raises(ControlError, match=r"constraints of 'car' by 1\."):
        made(driven_car(False), -3.0, q=rest, v=[10.0, 1.0, 0.0, 0.0])
    cart_pole = ht.library.cart_pole().derive(native=False)
    with pytest.raises(ControlError, match="velocity of 'cart and pole'"):
        made(cart_pole, -3.0, q=[0.0, 0.5], v=[1.0, 1.0])


@pytest.mark.thorough
def test_poles_of_higher_multiplicity() -> None:
    """Twelve equal poles, which the formulas of a hovering vehicle allow."""
    model = ht.library.quadcopter().derive(native=False)
    assert made(model, -3.0).design.is_met


@pytest.mark.parametrize("moves", [False, True])
def test_derivatives_of_the_design(moves: bool) -> None:
    model = driven_car() if moves else ht.library.furuta().derive(native=False)
    loop = LinearisedLoop.at(model, None, [10.0, 0.0] if moves else None)
    bodies, rng = tuple(model.description.inertias), np.random.default_rng(0)
    requested = np.array(AT_SPEED if moves else [-3, -4, -5 + 2j, -5 - 2j])
    problem = _Problem(loop, bodies, _Base.of(model, bodies, 4.0), {}, requested)
    x, step = 0.3 * rng.standard_normal(60), 1e-6
    for direction in rng.standard_normal((3, 60)):
        ends = [problem.residual(x + s * step * direction, x, False, 0.1) for s in (1, -1)]
        slope = problem.jacobian(x, x, False, 0.1) @ direction
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), atol=1e-5 * np.max(np.abs(slope)))


def test_an_unstable_law_warns_with_its_poles() -> None:
    """A plausible guess for the cart-pole."""
    model = ht.library.cart_pole().derive(native=False)
    guess = {name: Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)) for name in model.body_names}
    damping = {name: Damping(2.0, moment_at_center=(0.2, 0.2, 0.2)) for name in model.body_names}
    stiffness = {name: Stiffness(1.0, moment_at_center=(0.1, 0.1, 0.1)) for name in model.body_names}
    with pytest.warns(UnstableWarning, match=r"unstable poles [0-9.]+ 1/s.*for_model"):
        law = energy_law(model, Prototype(guess, damping, stiffness))
    assert np.max(law.poles().real) > 0.1
    np.testing.assert_allclose(law.poles(), hover(law).poles, atol=1e-6)


def test_zero_poles_moved_by_rounding_give_no_warning() -> None:
    """One motor on a body that slides freely: most poles are zero."""
    system = System(gravity=(0.0, 0.0, 0.0), name="sled")
    system.body("sled", joint=Planar(), inertia=Inertia(1.0, (0.3, 0.1, 0.0), (0.1, 0.1, 0.2)))
    system.body(
        "arm", parent="sled", at=(1.0, 0, 0), joint=Revolute("z"), inertia=Inertia(0.5, (0.2, 0, 0), (0.1,) * 3)
    )
    system.input("motor", JointForce("arm"))
    parts = [
        {n: k(f, (0.4, 0.1, 0), (f,) * 3) for n in ("sled", "arm")}
        for k, f in ((Inertia, 1), (Damping, 5), (Stiffness, 9))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnstableWarning)
        law = energy_law(system.derive(native=False), Prototype(*parts))
    assert np.sum(np.abs(law.poles()) < 1e-3) == 6


def test_a_stable_law_at_another_configuration_gives_no_warning() -> None:
    system = System(name="slope")
    system.body("cart", joint=Prismatic("x"), inertia=Inertia(1.0))
    system.input("force", JointForce("cart"))
    prototype = Prototype({"cart": Inertia(1.0)}, {"cart": Damping(3.0)}, {"cart": Stiffness(2.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law = energy_law(system.derive(native=False), prototype, at=[2.0])
    np.testing.assert_allclose(law.poles(), [-1.0, -2.0], atol=1e-8)
