"""The vehicles: input matrices, hover, coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.control import Prototype, Reference
from heavytop.copters import bicopter, quadcopter, tilting_thrusts
from heavytop.errors import ControlError, ModelError
from heavytop.simulate import simulate


@pytest.mark.parametrize(
    ("name", "rank"), [("quadcopter", 4), ("tricopter", 6), ("bicopter", 4), ("tricopter_with_load", 6)]
)
def test_rank_and_hover(lab, name: str, rank: int) -> None:
    model = lab.vehicle(name).model
    q = model.neutral()
    B = model.input_matrix(q)
    assert np.linalg.matrix_rank(B) == rank == model.nu
    u, *_ = np.linalg.lstsq(B, model.inverse_dynamics(q, np.zeros(model.nv), np.zeros(model.nv)), rcond=None)
    assert np.max(np.abs(model.acceleration(q, np.zeros(model.nv), u))) < 1e-9


def test_quadcopter_columns() -> None:
    B = quadcopter().model.input_matrix(quadcopter().model.neutral())
    np.testing.assert_allclose(B[2], 1.0)
    np.testing.assert_allclose(
        B[3:].T, [(0, -0.2, 0.016), (0.2, 0, -0.016), (0, 0.2, 0.016), (-0.2, 0, -0.016)], atol=1e-15
    )
    weak = quadcopter(thrust_gain=0.9).model
    np.testing.assert_allclose(weak.input_matrix(weak.neutral()), 0.9 * B, atol=1e-15)


def test_condition_of_the_tricopter(lab) -> None:
    model = lab.vehicle("tricopter").model
    assert np.linalg.cond(model.input_matrix(model.neutral())) == pytest.approx(5.66, abs=5e-3)


def test_thrust_and_tilt_are_those_of_the_thesis() -> None:
    """f = F (-t sin th + e_z cos th)."""
    F, th = np.array([3.0, 4.0, 5.0]), np.array([0.3, -2.0, 3.0])
    u = np.stack([-F * np.sin(th), F * np.cos(th)], axis=1).ravel()
    thrust, tilt = tilting_thrusts(u)
    np.testing.assert_allclose(thrust, F)
    np.testing.assert_allclose(tilt, th)


def test_bicopter_has_no_lateral_force_without_roll_moment(lab) -> None:
    model = lab.vehicle("bicopter").model
    B = model.input_matrix(model.neutral())
    lateral, roll = B[1], B[3]
    height = 0.25 / np.tan(np.deg2rad(15.0)) + 0.10
    np.testing.assert_allclose(roll[1] - roll[3], -height * (lateral[1] - lateral[3]))  # acts at the effective height
    assert bicopter(attitude="quaternion").model.nq == 7


def test_vehicles_are_simulated_and_laws_are_not(lab) -> None:
    craft, law = lab.vehicle("quadcopter"), lab.law("quadcopter", "Ed")
    q, v = craft.model.neutral(), np.zeros(6)
    run = simulate(craft, (q, v), 0.1, 0.01, control=law, reference=q)
    np.testing.assert_allclose(run.q[-1], q, atol=1e-12)
    assert run.model is craft.model
    for wrong in (law, law.with_reference(q)):
        with pytest.raises(
            ModelError, match=r"or Dynamics, got \w+. A law controls a model: simulate\(model, .*control=law"
        ):
            simulate(wrong, (q, v), 0.1, 0.01)
    with pytest.raises(ModelError, match="got Reference"):
        simulate(Reference.set_point(craft.model, q), (q, v), 0.1, 0.01)
    with pytest.raises(ModelError, match=r"got System. Call .derive\(\) first"):
        simulate(craft.describe(), (q, v), 0.1, 0.01)


def test_load_prototype_numbers(lab) -> None:
    p = lab.vehicle("tricopter_with_load").prototype
    assert p.damping["world", "hull"].total == pytest.approx(6.36722, abs=6e-6)
    assert p.stiffness["world", "hull"].total == pytest.approx(3.67339, abs=6e-6)
    assert p.inertia["load"].moment_at_origin[0, 0] == pytest.approx(0.11858, abs=6e-6)
    assert p.damping["world", "load"].moment_at_origin[0, 0] == pytest.approx(3.15233, abs=6e-6)
    assert p.stiffness["world", "load"].moment_at_origin[0, 0] == pytest.approx(10.72188, abs=6e-6)
    poles = (-1.5, -1.5, -3.2 + 2.4j, -3.2 - 2.4j)
    with pytest.raises(ControlError, match="anchor"):
        Prototype.hanging_load(poles, 0.5, anchor="world")
    with pytest.raises(ControlError, match="stiffness.* -"):
        Prototype.hanging_load((-0.5, -0.5, -0.6, -0.6), 0.5)
