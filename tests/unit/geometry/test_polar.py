"""Special polar decomposition, Wahba's problem, closest rotation, navigation function."""

import json
from pathlib import Path

import numpy as np
import pytest

from heavytop.errors import ShapeError
from heavytop.geometry import critical_points, linalg, polar, so3

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "e_special_polar.json").read_text())
RNG = np.random.default_rng(21)


def close(a, b, tolerance=1e-13):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda c: c["label"])
def test_golden(case):
    M = np.array(case["M"])
    result = polar.special_polar(M)
    assert linalg.is_rotation(result.R)
    assert linalg.is_positive_semidefinite(result.K)
    close(result.R @ so3.Wed(result.K), M, 1e-14)
    assert bool(result.rotation_unique) is case["R_unique"]
    assert bool(result.stiffness_unique) is case["K_unique"]
    if case["R_unique"]:
        close(result.R, case["R"], 1e-14)
    if case["K_unique"]:
        close(result.K, case["K"], 2e-14)
    close(result.eigenvalues, case["lambda_sorted"], 1e-14)
    close(polar.proper_svd(M).sigma, case["signed_singular_values"], 2e-15)
    assert np.trace(M.T @ result.R) == pytest.approx(case["max_tr(M^T R)"], abs=1e-14)


def test_a_second_stiffness_where_the_thesis_claims_uniqueness():
    """Erratum 0.20: two factorizations of diag(1, 1, -1)."""
    M = np.diag([1.0, 1.0, -1.0])
    for R, K in ((np.eye(3), np.diag([0.0, 0, 2])), (np.diag([-1.0, 1, -1]), np.diag([2.0, 0, 0]))):
        close(R @ so3.Wed(K), M, 0)
    assert not polar.special_polar(M).stiffness_unique


def test_batches():
    M = RNG.standard_normal((4, 50, 3, 3))
    result = polar.special_polar(M)
    close(result.R @ so3.Wed(result.K), M, 1e-13)
    assert np.all(linalg.is_rotation(result.R))
    assert np.all(linalg.is_positive_semidefinite(result.K))
    assert result.rotation_unique.shape == (4, 50)
    one = polar.special_polar(M[2, 7])
    close(one.R, result.R[2, 7], 1e-14)
    close(result.K, so3.Vee(np.swapaxes(M, -1, -2) @ result.R), 1e-13)  # eq. 2.68 with P = M^T


def test_proper_svd():
    P = np.random.default_rng(21).standard_normal((200, 3, 3))
    X, sigma, Y = polar.proper_svd(P)
    assert np.all(linalg.is_rotation(X))
    assert np.all(linalg.is_rotation(Y))
    close(X @ (sigma[:, :, None] * np.swapaxes(Y, 1, 2)), P, 1e-14)
    assert np.any(sigma[:, 2] < 0)
    close(np.sign(sigma[:, 2]), np.sign(np.linalg.det(P)), 0)
    assert np.all((sigma[:, 0] >= sigma[:, 1]) & (sigma[:, 1] >= np.abs(sigma[:, 2])))
    R = so3.random(RNG, (200,))
    transformed = -np.einsum("ni,nii->n", sigma, np.swapaxes(Y, 1, 2) @ R @ X)
    close(transformed, critical_points.value(P, R), 1e-13)  # eq. 2.63


def test_lambda_and_sigma_are_a_bijection():
    sigma = polar.proper_svd(RNG.standard_normal((300, 3, 3))).sigma
    lam = polar.lambda_from_sigma(sigma)
    close(polar.sigma_from_lambda(lam), sigma, 1e-15)
    assert np.all((lam[:, 2] >= lam[:, 1]) & (lam[:, 1] >= lam[:, 0]) & (lam[:, 0] >= 0))
    close(np.diagonal(so3.Vee(np.stack([np.diag(s) for s in sigma])), axis1=1, axis2=2), lam, 0)


def test_minimum_in_original_coordinates():
    P = RNG.standard_normal((3, 3))
    X, sigma, Y = polar.proper_svd(P)
    result = polar.special_polar(P.T)
    close(result.R, Y @ X.T, 1e-14)
    close(result.K, X @ np.diag(polar.lambda_from_sigma(sigma)) @ X.T, 1e-14)
    close(result.K, critical_points.hessian(P, result.R), 1e-14)


def test_wahba_golden():
    golden = GOLDEN["wahba"]
    u, v = np.array(golden["u"]), np.array(golden["v"])
    result = polar.wahba(u, v)
    close(result.R, golden["R_opt"], 1e-14)
    assert result.cost == pytest.approx(golden["min_cost"], rel=1e-12)
    close(result.hessian, 2 * np.array(golden["P_transposed_special_polar_K"]), 1e-13)
    assert result.unique


def test_wahba_recovers_exact_data_and_beats_perturbations():
    R = so3.random(RNG, (5,))
    v, weights = RNG.standard_normal((5, 4, 3)), RNG.uniform(0.2, 2, (5, 4))
    exact = polar.wahba(v @ np.swapaxes(R, 1, 2), v, weights)
    close(exact.R, R, 1e-14)
    close(exact.cost, np.zeros(5), 1e-25)
    u = v @ np.swapaxes(R, 1, 2) + 0.3 * RNG.standard_normal((5, 4, 3))
    result = polar.wahba(u, v, weights)

    def cost(R):
        return np.sum(weights[:, :, None] * (u - v @ np.swapaxes(R, 1, 2)) ** 2, axis=(1, 2))

    close(cost(result.R), result.cost, 1e-13)
    for size in (1e-3, 0.1, 3.0):
        step = size * RNG.standard_normal((5, 3))
        assert np.all(cost(result.R @ so3.exp(step)) > result.cost)
    # second order: the Hessian predicts the rise of the cost
    step = 1e-4 * RNG.standard_normal((5, 3))
    rise = cost(result.R @ so3.exp(step)) - result.cost
    np.testing.assert_allclose(rise, 0.5 * np.einsum("ni,nij,nj->n", step, result.hessian, step), rtol=1e-2)


def test_wahba_with_one_direction_is_not_unique():
    assert not polar.wahba([[0.0, 0, 1]], [[1.0, 0, 0]]).unique


@pytest.mark.parametrize("weighted", [False, True])
def test_closest_rotation_equals_brute_force(weighted):
    factor = RNG.standard_normal((3, 3))
    K = factor @ factor.T + 0.2 * np.eye(3) if weighted else np.eye(3)
    Q = RNG.standard_normal((3, 3))
    R = polar.closest_rotation(Q, K if weighted else None)
    best = linalg.distance(Q, R, K)
    assert best <= linalg.distance(Q, so3.random(RNG, (20000,)), K).min() + 1e-12
    for size in (1e-4, 1e-2):
        assert np.all(linalg.distance(Q, R @ so3.exp(size * RNG.standard_normal((100, 3))), K) >= best)
    close(R, polar.special_polar((Q.T @ K).T).R, 1e-14)
    noisy = so3.exp([1.0, 2, 3]) + 1e-9 * factor
    close(polar.closest_rotation(noisy), noisy, 1e-8)


def test_navigation_function():
    factor = RNG.standard_normal((3, 3))
    K, reference = factor @ factor.T + 0.1 * np.eye(3), so3.random(RNG)
    assert polar.navigation_function(reference, reference, K) == pytest.approx(0.0, abs=1e-14)
    assert np.all(polar.navigation_function(so3.random(RNG, (1000,)), reference, K) > 0)
    close(critical_points.gradient(K @ reference.T, reference), np.zeros(3), 1e-14)


def test_errors():
    with pytest.raises(ShapeError, match=r"a matrix to decompose must have shape \(\.\.\., 3, 3\), got \(2, 2\)"):
        polar.special_polar(np.eye(2))
    with pytest.raises(ShapeError, match="must be finite"):
        polar.special_polar(np.full((3, 3), np.nan))
    with pytest.raises(ShapeError, match=r"both need the same n"):
        polar.wahba(np.zeros((4, 3)), np.zeros((5, 3)))
