"""Poles at hover and flights to a set point, against an independent computation."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.control import ClosedLoop, Prototype, Reference, energy_law, hover, linearize
from heavytop.copters import tilting_thrusts, tricopter_with_load
from heavytop.geometry import so3

TILTED = np.deg2rad(179.0)


def sorted_poles(values) -> np.ndarray:
    return np.sort_complex(np.round(np.asarray(values, dtype=complex), 6))


@pytest.mark.parametrize("kind", ["P", "B", "E", "Ed"])
def test_hover_poles_of_the_quadcopter(lab, kind: str) -> None:
    linear = hover(lab.law("quadcopter", kind))
    expected = [-2.0] * 6 + [-6.4 + 4.8j, -6.4 - 4.8j] * 2 + [-2.7 + 1.3076697j, -2.7 - 1.3076697j]
    # poles of multiplicity six are only determined to the sixth root of the rounding: compare the polynomials
    np.testing.assert_allclose(np.poly(linear.A), np.real(np.poly(expected)), rtol=1e-6)
    assert linear.is_stable(1.9)
    assert "zeta =  0.9000" in linear.report()


def test_hover_poles_of_the_bicopter(lab) -> None:
    linear = hover(lab.law("bicopter", "Ed"))
    expected = [-2.0] * 4 + [-6.4 + 4.8j, -6.4 - 4.8j] * 2 + [-2.7 + 1.3076697j, -2.7 - 1.3076697j, -3.72665, -1.07335]
    np.testing.assert_allclose(np.poly(linear.A), np.real(np.poly(expected)), rtol=1e-5)


def test_hover_poles_with_load(lab) -> None:
    poles = hover(lab.law("tricopter_with_load", "P")).poles
    lateral = [-1.37, -1.69, -2.97 + 2.42j, -2.97 - 2.42j, -6.32, -10.3] * 2
    expected = sorted_poles([*lateral, -8, -8, -3.56, -0.689, 0, 0])
    np.testing.assert_allclose(sorted_poles(poles), expected, atol=6e-3)


def test_prototype_anchored_at_the_joint_has_the_design_poles_exactly() -> None:
    craft = tricopter_with_load()
    prototype = Prototype.hanging_load((-1.5, -1.5, -3.2 + 2.4j, -3.2 - 2.4j), 0.077 / 0.15, anchor="load")
    law = energy_law(craft.model, prototype)
    expected = [-1.5, -1.5, -3.2 + 2.4j, -3.2 - 2.4j] * 2 + [-8] * 6 + [-3.556, -0.689, 0, 0]
    np.testing.assert_allclose(sorted_poles(hover(law).poles), sorted_poles(expected), atol=1e-3)


def test_undesired_equilibria_are_unstable(lab) -> None:
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    controller = law.with_reference(model.neutral())
    yaw = lab.configuration(R=so3.exp([0, 0, np.pi]))
    unstable = linearize(model, controller, yaw).poles
    assert np.sum(unstable.real > 1e-6) == 1
    assert np.max(unstable.real) == pytest.approx(1.34, abs=6e-3)
    height = 2 * float(law.prototype.stiffness["world", "hull"].center[2])
    inverted = lab.configuration((0, 0, height), so3.exp([np.pi, 0, 0]))
    assert np.max(np.abs(model.acceleration(inverted, np.zeros(6), law(inverted, np.zeros(6), model.neutral())))) < 1e-9
    poles = np.sort(linearize(model, controller, inverted).poles.real)
    np.testing.assert_allclose(poles[-2:], (6.75, 6.87), atol=6e-3)
    assert abs(poles[-3]) < 1e-6


def test_set_points_of_the_quadcopter(lab) -> None:
    model, over = lab.vehicle("quadcopter").model, so3.exp([TILTED, 0, 0])
    starts = [((5, 0, 0), None), ((0, 0, 5), None), ((0, 0, 0), over), ((5, 0, 0), over)]
    q = np.stack([lab.configuration(r, R) for r, R in starts])
    flight = ClosedLoop(model, lab.law("quadcopter", "Ed").with_reference(model.neutral())).fly((q, np.zeros(6)), 8.0)
    expected = [
        (3.435, (0.5610, 0.0, 0.0499)),
        (3.320, (0.0, 0.0, 0.4579)),
        (3.295, (0.0, 0.1180, -0.3054)),
        (3.738, (0.6865, 0.0010, -0.1525)),
    ]
    for k, (time, place) in enumerate(expected):
        assert lab.settle(flight, k) == pytest.approx(time, abs=1.1e-3)
        np.testing.assert_allclose(flight.q[2000, k, :3], place, atol=6e-5)
    assert flight.q[:, 2, 2].min() == pytest.approx(-0.539, abs=6e-4)
    tilt = np.rad2deg(np.arccos(flight.q[:, 0, 11]))
    assert tilt.max() == pytest.approx(47.0, abs=0.06)


def test_set_point_of_the_tricopter(lab) -> None:
    model = lab.vehicle("tricopter").model
    q = lab.configuration((5, 0, 0), so3.exp([TILTED, 0, 0]))[None]
    flight = ClosedLoop(model, lab.law("tricopter", "Ed").with_reference(model.neutral())).fly((q, np.zeros(6)), 4.0)
    angle = np.rad2deg(so3.angle(flight.q[:, 0, 3:].reshape(-1, 3, 3)))
    assert lab.settle(flight, 0) == pytest.approx(2.213, abs=1.1e-3)
    assert flight.t[np.nonzero(angle > 1.0)[0][-1] + 1] == pytest.approx(1.849, abs=1.1e-3)
    np.testing.assert_allclose(flight.q[1000, 0, :3], (0.995741, 0, 0), atol=6e-7)
    assert tilting_thrusts(flight.u)[0].max() == pytest.approx(31.6, abs=0.06)


def test_set_points_of_the_bicopter(lab) -> None:
    model = lab.vehicle("bicopter").model
    starts = [((5, 0, 0), (0, 0, 0)), ((0, 5, 0), (0, 0, 0)), ((0, 0, 0), (TILTED, 0, 0)), ((5, 0, 0), (0, TILTED, 0))]
    q = np.stack([lab.configuration(r, so3.exp(w)) for r, w in starts])
    flight = ClosedLoop(model, lab.law("bicopter", "Ed").with_reference(model.neutral())).fly((q, np.zeros(6)), 8.0)
    for k, time in enumerate((3.628, 3.613, 3.737, 3.543)):
        assert lab.settle(flight, k) == pytest.approx(time, abs=1.1e-3)
    assert flight.q[:, 2, 2].min() == pytest.approx(-0.531, abs=6e-4)


LOAD = {1: (2.9324, 17.185, 18.854), 2: (1.4046, 5.676, 6.526), 4: (0.1921, 0.794, 1.047), 6: (0.0366, 0.0712, 0.0956)}


@pytest.mark.parametrize("frame", ["relative", pytest.param("absolute", marks=pytest.mark.thorough)])
def test_set_point_with_load(lab, frame: str) -> None:
    craft = tricopter_with_load(load_velocity=frame)
    model = craft.model
    R1, R2 = so3.exp([0.5, 0.3, 1.0]), so3.exp([0.9, -0.4, 0.0])
    q = np.concatenate([[3.0, -2.0, 1.0], R1.T.ravel(), (R1.T @ R2).T.ravel()])
    law = lab.LAWS["P"](model, craft.prototype)
    flight = ClosedLoop(model, law.with_reference(model.neutral())).fly((q, np.zeros(9)), 12.0, step=5e-3)
    for time, (distance, attitude, swing) in LOAD.items():
        x = flight.q[round(time / 5e-3)]
        hull = x[3:12].reshape(3, 3).T
        load = hull @ x[12:].reshape(3, 3).T
        assert np.linalg.norm(x[:3]) == pytest.approx(distance, abs=6e-5)
        assert np.rad2deg(so3.angle(hull)) == pytest.approx(attitude, abs=6e-4)
        assert np.rad2deg(np.arccos(load[2, 2])) == pytest.approx(swing, abs=6e-4)
    assert np.linalg.norm(flight.q[-1, :3]) == pytest.approx(0.0006, abs=6e-5)


def test_set_point_anywhere(lab) -> None:
    """Laws are invariant under motions of the world about the vertical."""
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    G = (np.array([3.0, -2.0, 1.0]), so3.exp([0, 0, 0.7]))
    q, v = model.random(4), np.random.default_rng(5).standard_normal(6)
    R = q[3:].reshape(3, 3).T
    moved = lab.configuration(G[0] + G[1] @ q[:3], G[1] @ R)
    there = Reference.set_point(model, lab.configuration(*G))(0.0)
    np.testing.assert_allclose(law(moved, v, *there), law(q, v, model.neutral()), rtol=1e-9)
