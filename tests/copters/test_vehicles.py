"""Models and laws of vehicles: airframes, redundant rotors, loads."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.control import hover
from heavytop.copters import (
    Rotor,
    bicopter,
    hexacopter,
    multicopter,
    octocopter,
    quadcopter,
    quadcopter_with_load,
    ring,
    tilting_thrusts,
    tricopter,
    tricopter_with_load_full,
)
from heavytop.copters.loads import slung_prototype
from heavytop.copters.vehicle import wrench_matrix
from heavytop.errors import ControlError, ModelError, ShapeError, UnknownNameError


@pytest.mark.parametrize("make", [quadcopter, tricopter, bicopter, hexacopter, octocopter])
def test_input_matrix_is_that_of_the_rotors(make) -> None:
    vehicle = make()
    q = vehicle.model.random(np.random.default_rng(0))
    np.testing.assert_allclose(vehicle.model.input_matrix(q), wrench_matrix(vehicle.airframe.rotors), atol=1e-12)


def test_full_actuation_is_recognised() -> None:
    assert tricopter().fully_actuated
    assert not quadcopter().fully_actuated
    assert not bicopter().fully_actuated
    # six fixed rotors that point in different directions are fully actuated too
    tilted = [
        Rotor(
            r.at,
            axis=(0.5 * np.sin(k * np.pi) + 0.4 * (-1) ** k * -r.at[1], 0.4 * (-1) ** k * r.at[0], 1.0),
            drag_ratio=r.drag_ratio,
        )
        for k, r in enumerate(ring(6, 1.0, drag_ratio=0.02))
    ]
    assert multicopter(tilted, 1.0, (0.02, 0.02, 0.03)).fully_actuated


def test_thrusts_and_tilts_of_tilting_rotors() -> None:
    u = np.random.default_rng(1).standard_normal((5, 6))
    shape = tricopter().airframe
    thrusts, tilts = tilting_thrusts(u)
    np.testing.assert_allclose(shape.thrusts(u), thrusts)
    np.testing.assert_allclose(shape.tilts(u), tilts)


@pytest.mark.parametrize("make", [hexacopter, octocopter])
def test_redundant_rotors_make_the_wrench_with_the_least_thrusts(make) -> None:
    vehicle = make()
    law = vehicle.law(limits=False)
    rng = np.random.default_rng(2)
    q, v = vehicle.model.random(rng), rng.standard_normal(6)
    q_R = vehicle.model.random(rng)
    u = law(q, v, q_R)
    W = wrench_matrix(vehicle.airframe.rotors)
    np.testing.assert_allclose(u, np.linalg.pinv(W) @ (W @ u), rtol=1e-9, atol=1e-9 * np.abs(u).max())
    # the acceleration is that of the law for independent inputs
    w = law.inner(q, v, q_R)
    np.testing.assert_allclose(
        vehicle.model.acceleration(q, v, u), vehicle.virtual.acceleration(q, v, w), rtol=1e-9, atol=1e-7
    )


@pytest.mark.thorough
def test_redundant_law_keeps_the_limits_and_gives_up_thrust_before_torque() -> None:
    vehicle = octocopter()
    law = vehicle.law()
    q = vehicle.model.neutral()
    far = q.copy()
    far[2] = 1000.0
    u = law(q, np.zeros(6), far)
    assert np.all(u <= 8.0 + 1e-9)
    assert np.all(u >= 7.9)
    np.testing.assert_allclose((wrench_matrix(vehicle.airframe.rotors) @ u)[3:], 0.0, atol=1e-6)


def test_impossible_rotors_raise() -> None:
    with pytest.raises(ModelError, match="cannot lift it"):
        multicopter([Rotor((1, 0, 0), axis="x"), Rotor((0, 1, 0), axis="y")], 1.0, (1, 1, 1))
    with pytest.raises(ModelError, match="perpendicular"):
        Rotor((0, 0, 0), tilt="z")
    with pytest.raises(ShapeError, match="position 'at' of a rotor"):
        Rotor((0, 0))
    with pytest.raises(UnknownNameError, match="unknown law 'enrgy'. Did you mean 'energy'"):
        quadcopter().law("enrgy")


def test_quadcopter_with_load_has_the_requested_poles() -> None:
    poles = (-1.2, -1.4, -1.8 + 0.87j, -1.8 - 0.87j, -4.5 + 2.2j, -4.5 - 2.2j)
    found = hover(quadcopter_with_load(poles=poles).law(limits=False)).poles
    for pole in poles:
        assert np.sum(np.abs(found - pole) < 1e-6) == 2  # along x and along y
    with pytest.raises(ControlError, match="damping of the swing would be"):
        slung_prototype(0.6, 0.47, (-2.0, -2.0, -3.2 + 2.4j, -3.2 - 2.4j, -8.0 + 6.0j, -8.0 - 6.0j))


@pytest.mark.thorough
def test_eight_bodies_weigh_and_move_like_the_reduced_vehicle() -> None:
    craft = tricopter_with_load_full()
    full, reduced = craft.full.model, craft.model
    assert sum(float(i.mass) for i in full.description.inertias.values()) == pytest.approx(craft.mass)
    q, v = craft.full.start(reduced.neutral(), np.zeros(reduced.nv))
    # with arms held and propellers not turning, the first nine accelerations per force agree: compare the mass matrices
    locked = full.mass_matrix(q)[:9, :9]
    np.testing.assert_allclose(locked, reduced.mass_matrix(reduced.neutral()), atol=1e-12)
    forces = craft.full.forces(q, v)
    np.testing.assert_allclose(forces[1::2].sum(), craft.mass * 9.81, rtol=1e-9)
