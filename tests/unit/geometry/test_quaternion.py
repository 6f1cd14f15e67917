"""Quaternions: algebra, matrix maps, rotation with and without scaling, exp, log, rates."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from heavytop.errors import ShapeError
from heavytop.geometry import linalg, quaternion as quat, so3

components = st.floats(-3, 3, width=64)
quaternions = arrays(float, 4, elements=components).filter(lambda a: np.linalg.norm(a) > 0.1)
vectors = arrays(float, 3, elements=components)
laws = settings(max_examples=60, deadline=None)


def close(a, b, tolerance=1e-13):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@laws
@given(quaternions, quaternions, quaternions)
def test_algebra(a, b, c):
    close(quat.multiply(quat.multiply(a, b), c), quat.multiply(a, quat.multiply(b, c)), 1e-12)
    close(quat.conjugate(quat.multiply(a, b)), quat.multiply(quat.conjugate(b), quat.conjugate(a)))
    close(quat.multiply(a, quat.conjugate(a)), [quat.norm(a) ** 2, 0, 0, 0])
    close(quat.multiply(a, quat.inverse(a)), [1, 0, 0, 0])
    close(quat.norm(quat.multiply(a, b)), quat.norm(a) * quat.norm(b), 1e-12)
    close((a + quat.conjugate(a)) / 2, [quat.real(a), 0, 0, 0], 0)
    close((a - quat.conjugate(a)) / 2, [0, *quat.imaginary(a)], 0)


def test_hamilton_rules():
    one, i, j, k = np.eye(4)
    for a in (i, j, k):
        close(quat.multiply(a, a), -one, 0)
    close(quat.multiply(quat.multiply(i, j), k), -one, 0)


@laws
@given(quaternions, quaternions)
def test_matrix_maps(a, b):
    T = np.diag([1.0, -1, -1, -1])
    close(quat.left_matrix(quat.multiply(a, b)), quat.left_matrix(a) @ quat.left_matrix(b), 1e-12)
    close(quat.left_matrix(quat.conjugate(a)), quat.left_matrix(a).T, 0)
    close(quat.left_matrix(quat.inverse(a)), np.linalg.inv(quat.left_matrix(a)), 1e-12)
    close(quat.left_matrix(a) @ b, quat.multiply(a, b))
    close(quat.right_matrix(b) @ a, quat.multiply(a, b))
    close(quat.right_matrix(a), T @ quat.left_matrix(a).T @ T, 0)
    close(quat.conjugate(a), T @ a, 0)


@laws
@given(quaternions, vectors)
def test_rotation_with_scaling(a, x):
    s, R = quat.scale_rotation_from_quaternion(a)
    assert linalg.is_rotation(R, 1e-13)
    close(s, quat.norm(a) ** 2)
    image = quat.multiply(quat.multiply(a, [0.0, *x]), quat.conjugate(a))
    close(image, [0.0, *(s * R @ x)], 1e-12)
    close(quat.scaled_rotation(a), s * R, 1e-13)
    # the two quaternions of (s, R) are +-a
    back = quat.quaternion_from_scale_rotation(s, R)
    assert back[0] >= 0
    close(back * (1 if back @ a > 0 else -1), a, 1e-13)
    for sign in (1, -1):
        close(quat.scaled_rotation(sign * back), s * R, 1e-13)


@pytest.mark.parametrize("scale", [0.25, 1.0, 9.0])
def test_half_turns(scale):
    rng = np.random.default_rng(4)
    axes = np.concatenate([np.eye(3), -np.eye(3), rng.standard_normal((40, 3)), [[1, 1e-9, 0], [1e-9, 1, 1e-12]]])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    a = np.sqrt(scale) * np.concatenate([np.zeros((len(axes), 1)), axes], axis=1)
    s, R = quat.scale_rotation_from_quaternion(a)
    close(s, scale)
    back = quat.quaternion_from_scale_rotation(s, R)
    close(np.abs(np.vecdot(back, a)), scale, 1e-14 * scale)
    close(quat.scaled_rotation(back), scale * R, 1e-14 * scale)


def test_each_of_the_four_columns_is_chosen_and_the_seams_are_smooth():
    near = [
        [1, 1, 1, 1],
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [1, 0, 1, 0],
        [0, 1, 0, 1],
        [0, 1, 1, 1],
        [1, 0, 0, 0],
        [0, 0, 0, 1],
    ]
    rng = np.random.default_rng(0)
    for q in near:
        for e in (0.0, 1e-16, 1e-8, 0.2):
            p = quat.normalize(np.array(q, dtype=float) + e * rng.standard_normal((30, 4)))
            found = quat.quaternion_from_rotation(quat.rotation_from_quaternion(p))
            close(np.abs(np.vecdot(found, p)), 1.0, 1e-15)
            close(quat.rotation_from_quaternion(found), quat.rotation_from_quaternion(p), 3e-15)


@laws
@given(vectors)
def test_exp_and_log_agree_with_matrices(phi):
    q = quat.exp(phi)
    close(quat.norm(q), 1.0, 1e-15)
    close(quat.rotation_from_quaternion(q), so3.exp(phi), 2e-15)
    close(quat.log(q), so3.log(so3.exp(phi)), 1e-14 if np.linalg.norm(phi) < np.pi - 1e-3 else 10)
    close(quat.log(-q), quat.log(q), 0)
    if np.linalg.norm(phi) < np.pi:
        close(quat.log(q), phi, 2e-15)


@laws
@given(quaternions, vectors)
def test_rates(a, omega):
    q = quat.normalize(a)
    h = 1e-3
    path = [quat.multiply(q, quat.exp(t * omega)) for t in (-2 * h, -h, h, 2 * h)]
    rate = (path[0] - 8 * path[1] + 8 * path[2] - path[3]) / (12 * h)
    close(0.5 * quat.rate_matrix(q) @ omega, rate, 1e-10)
    close(quat.rate_matrix(a).T @ quat.rate_matrix(a), (a @ a) * np.eye(3))
    close(quat.rate_matrix(a).T @ a, np.zeros(3))
    close(quat.angular_velocity(a, 0.5 * quat.rate_matrix(a) @ omega), omega, 1e-12)


def test_errors():
    with pytest.raises(ShapeError, match=r"a quaternion \(w, x, y, z\) must have shape \(\.\.\., 4\), got \(3,\)"):
        quat.multiply([1, 2, 3], [1, 0, 0, 0])
