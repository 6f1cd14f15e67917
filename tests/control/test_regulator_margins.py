"""Poles, margins and single inputs of regulators, predictive controllers and wrapped laws."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.errors import ControlError, ShapeError
from heavytop.plan import problems


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


@pytest.fixture(scope="module")
def upright(cart: ht.Model) -> control.LinearQuadratic:
    return control.lqr(cart, [0.0, 0.0], limits=(-20, 20))


def test_a_regulator_called_by_hand_and_in_a_simulation(cart: ht.Model, upright: control.LinearQuadratic) -> None:
    run = ht.simulate(cart, ([0.3, 0.4], [0, 0]), until=1.0, step=0.01, control=upright)
    by_hand = upright(run.t[:-1], run.q[:-1], run.v[:-1])
    assert np.allclose(by_hand, run.u[: len(by_hand)], rtol=1e-12, atol=1e-12)
    assert upright(0.0, [0.0, 3.0], [0.0, 0.0]) == pytest.approx([20.0])  # within the limits


def test_a_regulator_along_a_motion_called_by_hand() -> None:
    plan = problems.swing_up_cart_pole(steps=30).plan(tolerance=1e-3)
    law = plan.regulator()
    t = np.linspace(0.0, plan.duration, 7)
    q, v, _ = plan.reference(t)
    assert np.allclose(law(t, q, v), plan.inputs(t), atol=1e-9)
    assert law(t[3], q[3] + [0.01, 0.0], v[3]).shape == (1,)


def test_wrong_states_are_rejected(upright: control.LinearQuadratic) -> None:
    with pytest.raises(ShapeError, match="v of 'cart and pole'"):
        upright(0.0, [0.0, 0.0], [0.0])
    with pytest.raises(ShapeError, match="q of 'cart and pole'"):
        upright(0.0, [0.0], [0.0, 0.0])
    with pytest.raises(ControlError, match="finite"):
        upright(np.nan, [0.0, 0.0], [0.0, 0.0])


def test_poles_of_a_regulator_are_those_of_its_gain(cart: ht.Model, upright: control.LinearQuadratic) -> None:
    A, B = cart.linearize([0.0, 0.0])
    expected = np.linalg.eigvals(A - B @ upright.gains[0])
    assert np.allclose(np.sort_complex(upright.poles()), np.sort_complex(expected), rtol=1e-9)
    assert np.max(upright.poles().real) < 0


def test_poles_with_parameters(cart: ht.Model) -> None:
    heavy = control.lqr(cart, [0.0, 0.0], parameters={"m_p": 0.5})
    A, B = cart.linearize([0.0, 0.0], parameters={"m_p": 0.5})
    expected = np.linalg.eigvals(A - B @ heavy.gains[0])
    assert np.allclose(np.sort_complex(heavy.poles()), np.sort_complex(expected), rtol=1e-9)


def test_margins_of_a_regulator_at_the_edge_of_stability(cart: ht.Model, upright: control.LinearQuadratic) -> None:
    margins = upright.margins()
    assert margins.stable
    A, B = cart.linearize([0.0, 0.0])
    growth = lambda gain: np.linalg.eigvals(A - gain * B @ upright.gains[0]).real.max()  # noqa: E731
    low, _ = margins.gain
    assert growth(0.98 * low) > 0 > growth(1.02 * low)
    assert np.degrees(margins.phase) > 55  # at least 60 degrees for the continuous regulator


@pytest.mark.thorough
def test_along_a_motion_there_are_margins_but_no_poles() -> None:
    plan = problems.swing_up_cart_pole(steps=30).plan(tolerance=1e-3)
    law = plan.regulator()
    assert isinstance(law.margins(), control.Margins)
    with pytest.raises(ControlError, match=r"no poles.*law\.region"):
        law.poles()
    with pytest.raises(ControlError, match="own reference"):
        control.margins(law, plan.q[0])


@pytest.mark.parametrize("what", ["margins", "poles"])
def test_predictive_control_has_no_margins_and_poles(cart: ht.Model, what: str) -> None:
    ahead = control.mpc(cart, [0.0, 0.0], horizon=5, limits=(-20, 20))
    with pytest.raises(ControlError, match=rf"has no {what}.*control\.lqr\(model, reference\)\.{what}\(\)"):
        getattr(ahead, what)()
    late = control.Delayed(ahead, samples=1, start=(np.zeros(2), np.zeros(2)))
    with pytest.raises(ControlError, match=f"has no {what}"):
        getattr(late, what)()


@pytest.mark.parametrize("what", ["margins", "poles"])
def test_wrappers_name_the_inner_law(what: str) -> None:
    craft = ht.copters.quadcopter()
    law = craft.law(limits=False).with_reference(craft.model.neutral())
    with pytest.raises(ControlError, match=rf"controller\.law\.{what}\(\)"):
        getattr(law, what)()


@pytest.mark.thorough
def test_a_design_prints_nothing_by_default(cart: ht.Model, capsys: pytest.CaptureFixture[str]) -> None:
    made = control.Prototype.for_model(cart, poles=[-2, -2.5, -3 + 1j, -3 - 1j])
    assert capsys.readouterr().out == ""
    assert made.design is not None
    assert "-2.0000" in made.design.report()


@pytest.mark.thorough
def test_observers_of_a_vehicle_whose_masses_are_parameters() -> None:
    from heavytop.control import Hull

    model = ht.library.quadcopter().derive()
    hull = Hull.of(model)
    assert hull.mass == pytest.approx(0.9)
    assert np.allclose(hull.moment, np.diag([0.008, 0.008, 0.014]))
    assert np.allclose(hull.gravity, [0, 0, -9.81])
    law = control.energy_law(model, ht.copters.agile_prototype(2.0, 10.0), control.Limits(0.0, 6.0))
    robust = control.robust(law).with_reference(model.neutral())
    start = model.neutral()
    start[:3] = 0.5, 0.0, 0.2
    heavier = {"m": 1.1 * 0.9}
    run = ht.simulate(model, (start, np.zeros(6)), until=8.0, step=5e-3, control=robust, parameters=heavier)
    plain = ht.simulate(
        model,
        (start, np.zeros(6)),
        until=8.0,
        step=5e-3,
        control=law.with_reference(model.neutral()),
        parameters=heavier,
    )
    assert np.linalg.norm(run.q[-1, :3]) < 0.02  # by the observer
    assert np.linalg.norm(plain.q[-1, :3]) > 0.1
