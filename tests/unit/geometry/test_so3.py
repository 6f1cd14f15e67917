"""Rotations: the vee and wedge family, exp, log, tangent operators, Cayley map, roll-pitch-yaw."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from heavytop.errors import ModelError, ShapeError
from heavytop.geometry import linalg, so3

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "d_se3.json").read_text())["samples"]
vectors = arrays(float, 3, elements=st.floats(-4, 4, width=64))
matrices = arrays(float, (3, 3), elements=st.floats(-4, 4, width=64))
laws = settings(max_examples=60, deadline=None)


def derivative(f, t=0.0, h=5e-4):
    """Five-point stencil, error about 1e-12 for smooth functions of unit scale."""
    return (f(t - 2 * h) - 8 * f(t - h) + 8 * f(t + h) - f(t + 2 * h)) / (12 * h)


def close(a, b, tolerance=1e-13):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


# the vee and wedge family


@laws
@given(vectors, vectors)
def test_wed_is_the_cross_product_and_vee_its_inverse(a, b):
    close(so3.wed(a) @ b, np.cross(a, b))
    close(so3.vee(so3.wed(a)), a, 0)
    close(so3.vee2(so3.wed(a)), 2 * a, 0)


@laws
@given(vectors, vectors, matrices)
def test_defining_trace_identities(w, e, M):
    close(np.trace(M @ so3.wed(w).T), w @ so3.vee2(M), 1e-12)  # eq. 2.52
    close(np.trace(so3.wed(w) @ M @ so3.wed(e).T), e @ so3.Vee(M) @ w, 1e-11)  # eq. 2.54
    close(so3.Wed(so3.Vee(M)), M)
    close(so3.Vee(so3.Wed(M)), M)


@laws
@given(vectors, vectors, vectors, matrices)
def test_identities_2_57(a, b, c, M):
    wed = so3.wed
    close(wed(a).T, -wed(a), 0)
    close(wed(a) @ b, so3.vee2(np.outer(b, a)))
    close(wed(a) @ wed(b), np.outer(b, a) - (b @ a) * np.eye(3))
    close(wed(a) @ wed(b), -so3.Vee(np.outer(b, a)))
    close(wed(a) @ wed(b) @ c + wed(b) @ wed(c) @ a + wed(c) @ wed(a) @ b, np.zeros(3), 2e-13)
    close(so3.vee2(wed(b) @ M), so3.Vee(M) @ b, 1e-13)


def test_identities_2_57_to_thirteen_digits():
    """The same on random vectors of unit size: errors below 1e-13 in every line."""
    rng = np.random.default_rng(57)
    wed = so3.wed
    for a, b, c in rng.uniform(-1, 1, (50, 3, 3)):
        close(wed(a).T, -wed(a))
        close(wed(a) @ b, so3.vee2(np.outer(b, a)))
        close(wed(a) @ wed(b), np.outer(b, a) - (b @ a) * np.eye(3))
        close(wed(a) @ wed(b) @ c + wed(b) @ wed(c) @ a + wed(c) @ wed(a) @ b, np.zeros(3))
        M = rng.uniform(-1, 1, (3, 3))
        close(so3.vee2(wed(b) @ M), so3.Vee(M) @ b)


@laws
@given(vectors, vectors, vectors)
def test_cross_product_in_rotating_frames(phi, a, b):
    R = so3.exp(phi)
    close(so3.wed(R @ a), R @ so3.wed(a) @ R.T)
    close(so3.wed(np.cross(a, b)), so3.wed(a) @ so3.wed(b) - so3.wed(b) @ so3.wed(a))


# exp, log, tangent


@pytest.mark.parametrize("sample", GOLDEN, ids=lambda s: s["label"])
def test_golden(sample):
    phi = np.array(sample["xi_[v,omega]"][3:])
    close(so3.exp(phi), np.array(sample["exp_SE3"])[:3, :3], 1e-15)
    close(so3.tangent(phi), sample["T_SO3=dexp(-omega)"], 1e-15)
    close(so3.tangent_inverse(phi), sample["T_SO3_inv"], 1e-12)
    close(so3.tangent(phi) @ so3.tangent_inverse(phi), np.eye(3), 1e-12)


@laws
@given(vectors)
def test_exp_is_a_rotation_and_log_its_inverse(phi):
    R = so3.exp(phi)
    assert linalg.is_rotation(R, 1e-14)
    close(so3.exp(so3.log(R)), R, 2e-15)
    close(so3.exp(-phi), R.T, 1e-15)
    if np.linalg.norm(phi) < np.pi - 1e-6:
        close(so3.log(R), phi, 4e-15)


@pytest.mark.parametrize("gap", [1.0, 1e-2, 1e-5, 1e-8, 1e-11, 1e-14, 3e-16, 0.0])
def test_log_keeps_full_accuracy_up_to_a_half_turn(gap):
    rng = np.random.default_rng(1)
    for axis in [*np.eye(3), *(v / np.linalg.norm(v) for v in rng.standard_normal((20, 3)))]:
        phi = (np.pi - gap) * axis
        found = so3.log(so3.exp(phi))
        error = np.abs(found - phi).max()
        if gap < 1e-12:  # the two solutions at a half turn are equally good
            error = min(error, np.abs(found + phi).max())
        assert error < 3e-15
        assert so3.angle(so3.exp(phi)) == pytest.approx(np.pi - gap, abs=1e-15)


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-170, 1e-9, 1e-4])
def test_small_rotations_keep_relative_accuracy(scale):
    phi = scale * np.array([0.3, -0.5, 0.8])
    close(so3.log(so3.exp(phi)), phi, 4e-16 * scale)


@laws
@given(vectors, vectors)
def test_tangent_is_the_derivative_of_exp(phi, rate):
    W = so3.exp(phi).T @ derivative(lambda t: so3.exp(phi + t * rate))
    close(so3.vee(W), so3.tangent(phi) @ rate, 1e-8)
    world = derivative(lambda t: so3.exp(phi + t * rate)) @ so3.exp(phi).T
    close(so3.vee(world), so3.tangent(-phi) @ rate, 1e-8)
    close(so3.exp(phi) @ so3.tangent(phi), so3.tangent(-phi), 1e-14)


def test_inverse_tangent_holds_beyond_a_full_turn():
    for angle in (6.5, 9.0, 11.0):
        phi = angle * np.array([0.6, 0.0, 0.8])
        close(so3.tangent(phi) @ so3.tangent_inverse(phi), np.eye(3), 1e-12)


# Cayley map


@laws
@given(vectors, vectors)
def test_cayley(phi, rate):
    half = so3.wed(phi) / 2
    R = so3.cayley(phi)
    close(R, np.linalg.solve(np.eye(3) - half, np.eye(3) + half), 1e-14)
    close(so3.cayley_inverse(R), phi, 1e-12)
    close(so3.vee(R.T @ derivative(lambda t: so3.cayley(phi + t * rate))), so3.cayley_tangent(phi) @ rate, 1e-8)
    close(so3.cayley_tangent_inverse(phi) @ so3.cayley_tangent(phi), np.eye(3), 1e-14)


def test_cayley_agrees_with_exp_to_second_order():
    direction = np.array([0.2, -0.4, 0.7])
    error = [np.abs(so3.cayley(h * direction) - so3.exp(h * direction)).max() for h in (1e-1, 5e-2)]
    assert error[0] / error[1] == pytest.approx(8.0, rel=0.02)


# about an axis, roll-pitch-yaw


@laws
@given(st.floats(-7, 7), vectors.filter(lambda v: np.linalg.norm(v) > 1e-3))
def test_rotation_about_an_axis(angle, axis):
    unit = axis / np.linalg.norm(axis)
    close(so3.rotation_about(axis, angle), so3.exp(angle * unit), 2e-15)
    close(so3.rotation_from_circle(axis, np.cos(angle), np.sin(angle)) @ unit, unit, 1e-15)


def test_rotation_about_coordinate_axes_is_exact():
    c, s = np.cos(0.3), np.sin(0.3)
    close(so3.rotation_about("x", 0.3), [[1, 0, 0], [0, c, -s], [0, s, c]], 0)
    close(so3.rotation_about("y", 0.3), [[c, 0, s], [0, 1, 0], [-s, 0, c]], 0)
    close(so3.rotation_about((0, 0, 5), 0.3), [[c, -s, 0], [s, c, 0], [0, 0, 1]], 0)


@laws
@given(vectors)
def test_roll_pitch_yaw(angles):
    R = so3.from_roll_pitch_yaw(angles)
    product = (so3.rotation_about(axis, angle) for axis, angle in zip("zyx", angles[::-1], strict=True))
    close(R, next(product) @ next(product) @ next(product), 1e-15)
    assert np.linalg.det(R) == pytest.approx(1.0, abs=1e-14)
    close(so3.from_roll_pitch_yaw(so3.to_roll_pitch_yaw(R)), R, 1e-14)


@laws
@given(vectors, vectors)
def test_roll_pitch_yaw_rates(angles, rates):
    Y = so3.roll_pitch_yaw_rates(angles)
    R = so3.from_roll_pitch_yaw(angles)
    W = R.T @ derivative(lambda t: so3.from_roll_pitch_yaw(angles + t * rates))
    close(so3.wed(Y @ rates), W, 1e-8)
    assert np.linalg.det(Y) == pytest.approx(np.cos(angles[1]), abs=1e-14)


# random rotations, angle


def test_random_rotations_are_uniform():
    R = so3.random(np.random.default_rng(3), (20000,))
    assert np.all(linalg.is_rotation(R, 1e-14))
    # uniform on SO(3): every entry has mean 0 and variance 1/3, and the trace has mean 0 and variance 1
    assert np.abs(R.mean(axis=0)).max() < 0.015
    assert np.abs(R.var(axis=0) - 1 / 3).max() < 0.01
    assert np.trace(R, axis1=1, axis2=2).var() == pytest.approx(1.0, abs=0.03)


def test_angle_of_the_identity_and_of_half_turns():
    assert so3.angle(np.eye(3)) == 0.0
    close(so3.angle(np.stack([np.diag([1.0, -1, -1]), np.diag([-1.0, 1, -1]), np.diag([-1.0, -1, 1])])), [np.pi] * 3, 0)


# errors


def test_errors_say_what_to_do():
    with pytest.raises(ShapeError, match=r"a rotation vector must have shape \(\.\.\., 3\), got \(4,\)\."):
        so3.exp([1, 2, 3, 4])
    with pytest.raises(ShapeError, match=r"a rotation matrix must have shape \(\.\.\., 3, 3\), got \(3,\)"):
        so3.log([1, 2, 3])
    with pytest.raises(ModelError, match="must be finite and not zero"):
        so3.rotation_about([0, 0, 0], 1.0)
    with pytest.raises(ModelError, match="'x', 'y' or 'z', got 'w'"):
        so3.rotation_about("w", 1.0)
