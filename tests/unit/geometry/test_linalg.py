"""Pseudo-inverse, matrix sets, weighted inner product, singular values."""

import numpy as np
import pytest

from heavytop.geometry import linalg, se3, so3

RNG = np.random.default_rng(11)
SHAPES = [(3, 3), (5, 2), (2, 5), (4, 4), (1, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [0, 1, None])
def test_penrose_conditions(shape, rank):
    rng = np.random.default_rng(11)  # an own one: a badly conditioned draw would miss 1e-12 by its rounding
    S = rng.standard_normal((6, *shape))
    if rank is not None:
        S = rng.standard_normal((6, shape[0], rank)) @ rng.standard_normal((6, rank, shape[1]))
    inverse = linalg.pseudo_inverse(S)
    assert inverse.shape == (6, shape[1], shape[0])
    assert linalg.penrose_residual(S, inverse).max() < 1e-12
    assert linalg.penrose_residual(S, inverse + 1e-3).max() > 1e-4


def test_closed_forms():
    tall = RNG.standard_normal((6, 3))
    np.testing.assert_allclose(linalg.left_inverse(tall), linalg.pseudo_inverse(tall), atol=1e-13)
    np.testing.assert_allclose(linalg.right_inverse(tall.T), linalg.pseudo_inverse(tall.T), atol=1e-13)
    square = RNG.standard_normal((3, 3))
    np.testing.assert_allclose(linalg.pseudo_inverse(square), np.linalg.inv(square), atol=1e-12)


def test_tolerance_decides_the_rank():
    S = np.diag([1.0, 1e-8])
    np.testing.assert_allclose(linalg.pseudo_inverse(S), np.diag([1.0, 1e8]))
    np.testing.assert_allclose(linalg.pseudo_inverse(S, tolerance=1e-6), np.diag([1.0, 0.0]))


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(shape):
    M = RNG.standard_normal(shape)
    X, sigma, Y = linalg.singular_values(M)
    assert sigma.shape == (min(shape),)
    assert np.all(np.diff(sigma) <= 0)
    assert sigma[-1] >= 0
    assert linalg.is_orthogonal(X)
    assert linalg.is_orthogonal(Y)
    middle = np.zeros(shape)
    np.fill_diagonal(middle, sigma)
    np.testing.assert_allclose(X @ middle @ Y.T, M, atol=1e-14)
    np.testing.assert_allclose(X.T @ M @ M.T @ X, middle @ middle.T, atol=1e-13)


def test_matrix_sets():
    symmetric = np.array([[2.0, 1.0], [1.0, -3.0]])
    skewed = np.array([[2.0, 1.0 + 1e-6], [1.0, -3.0]])
    assert linalg.is_symmetric(symmetric)
    assert not linalg.is_symmetric(skewed)
    assert linalg.is_symmetric(skewed, tolerance=1e-5)
    assert not linalg.is_positive_semidefinite(symmetric)
    assert linalg.is_positive_semidefinite(np.diag([1.0, 0.0]))
    assert not linalg.is_positive_definite(np.diag([1.0, 0.0]))
    assert linalg.is_positive_definite(np.diag([1.0, 1e-6]))
    assert not linalg.is_positive_definite([[1.0, 0.1], [0.0, 1.0]])  # not symmetric
    assert linalg.is_unit([0.6, 0.8])
    assert linalg.is_unit([0.6, 0.0, 0.8])
    assert not linalg.is_unit([0.6, 0.81])
    reflection = np.diag([1.0, 1.0, -1.0])
    assert linalg.is_orthogonal(reflection)
    assert not linalg.is_rotation(reflection)
    assert linalg.is_rotation(so3.exp([1, 2, 3]))
    assert not linalg.is_rotation(1.001 * np.eye(3))
    assert linalg.is_rotation([[0.0, -1.0], [1.0, 0.0]])
    G = se3.random(RNG, (4,))
    G[1, 3, 0] = 1e-3
    G[2, 0, 0] += 1e-3
    G[3, 0, 3] = np.nan
    assert linalg.is_pose(G).tolist() == [True, False, False, False]


def test_weighted_inner_product():
    A, B, C = RNG.standard_normal((3, 5, 4, 3))
    factor = RNG.standard_normal((4, 4))
    K = factor @ factor.T + np.eye(4)
    expected = [np.trace(a.T @ K @ b) for a, b in zip(A, B, strict=True)]
    np.testing.assert_allclose(linalg.inner(A, B, K), expected)
    np.testing.assert_allclose(linalg.inner(A, B, K), linalg.inner(B, A, K))
    np.testing.assert_allclose(linalg.norm(A), np.linalg.norm(A, axis=(1, 2)))
    np.testing.assert_allclose(linalg.inner(A, B, np.eye(4)), linalg.inner(A, B))
    assert np.all(linalg.norm(A, K) > 0)
    assert np.all(linalg.distance(A, C, K) <= linalg.distance(A, B, K) + linalg.distance(B, C, K))
    np.testing.assert_allclose(linalg.distance(A, A, K), 0)
    a, b = RNG.standard_normal((2, 4, 1))
    assert linalg.inner(a, b) == pytest.approx((a.T @ b).item())
