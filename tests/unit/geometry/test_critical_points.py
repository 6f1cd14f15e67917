"""Critical points of -tr(P R): gradient, Hessian, all eight cases, every circle and sphere."""

import json
from pathlib import Path

import numpy as np
import pytest

from heavytop.errors import ModelError
from heavytop.geometry import critical_points, linalg, polar, so3

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "e_special_polar.json").read_text())[
    "critical_points_of_-tr(Sigma_bar R)"
]
RNG = np.random.default_rng(31)
CASES = {
    "distinct": (3.0, 2.0, 1.0),
    "lambda1=lambda2": (2.0, 2.0, 1.0),
    "lambda2=lambda3": (3.0, 1.0, 1.0),
    "triple": (1.0, 1.0, 1.0),
    "lambda1=0": (3.0, 1.0, -1.0),
    "lambda1=0, lambda2=lambda3": (2.0, 0.0, 0.0),
    "lambda1=lambda2=0": (1.0, 1.0, -1.0),
    "zero": (0.0, 0.0, 0.0),
}


def close(a, b, tolerance=1e-13):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def derivative(f, h=1e-3):
    return (f(-2 * h) - 8 * f(-h) + 8 * f(h) - f(2 * h)) / (12 * h)


def test_gradient_and_hessian():
    P, R = RNG.standard_normal((3, 3)), so3.random(RNG)
    gradient, hessian = critical_points.gradient(P, R), critical_points.hessian(P, R)
    for j, e in enumerate(np.eye(3)):
        close(derivative(lambda t, e=e: critical_points.value(P, R @ so3.exp(t * e))), gradient[j], 1e-11)
        close(
            derivative(lambda t, e=e: critical_points.gradient(P, R @ so3.exp(t * e))), hessian[j, :], 1e-11
        )  # d_j d_i V
    close(hessian, so3.Vee(P @ R), 1e-14)  # [d_j d_i V] = Vee(PR)^T, whose row is i
    assert np.abs(hessian - hessian.T).max() > 1e-2  # away from critical points it is not symmetric


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: g["case"])
def test_golden(golden):
    sigma, lam = np.array(golden["sigma_bar"], dtype=float), polar.lambda_from_sigma(golden["sigma_bar"])
    close(lam, golden["lambda"], 0)
    case = critical_points.classify(lam)
    assert golden["case"].split(", det")[0] == case
    for k in range(4):
        R = critical_points.member(f"R{k}")
        assert critical_points.critical_value(f"R{k}", lam) == pytest.approx(golden[f"V_R{k}"])
        assert critical_points.value(np.diag(sigma), R) == pytest.approx(golden[f"V_R{k}"])
        close(critical_points.critical_spectrum(f"R{k}", lam), golden[f"eigH_R{k}"], 1e-15)
        close(np.linalg.eigvalsh(critical_points.hessian(np.diag(sigma), R)), golden[f"eigH_R{k}"], 1e-14)
    strict = {c.kind: c.strict for c in critical_points.critical_sets(np.diag(sigma))}
    assert strict.get("minimum", False) is golden["minimum_strict"]
    assert strict.get("maximum", False) is golden["maximum_strict"]


@pytest.mark.parametrize("case", CASES)
def test_random_members_of_every_set(case):
    Y, X = so3.random(RNG, (2,))
    P = X @ np.diag(CASES[case]) @ Y.T
    lam = polar.lambda_from_sigma(CASES[case])
    assert critical_points.classify(lam) == case
    sets = critical_points.critical_sets(P)
    for critical in sets:
        R = critical.random(RNG, (200,))
        assert R.shape == (200, 3, 3)
        assert np.all(linalg.is_rotation(R, 1e-13))
        close(critical_points.gradient(P, R), np.zeros((200, 3)), 5e-14)
        close(critical_points.value(P, R), np.full(200, critical.value), 5e-14)
        H = critical_points.hessian(P, R)
        close(np.linalg.eigvalsh(0.5 * (H + np.swapaxes(H, 1, 2))), np.tile(critical.spectrum, (200, 1)), 1e-13)
        # the nature: compare with neighbours and with everything
        near = critical_points.value(P, R @ so3.exp(1e-2 * RNG.standard_normal((200, 3)))) - critical.value
        anywhere = critical_points.value(P, so3.random(RNG, (2000,))) - critical.value
        if critical.kind == "minimum":
            assert near.min() > -1e-13
            assert anywhere.min() > -1e-13
        elif critical.kind == "maximum":
            assert near.max() < 1e-13
            assert anywhere.max() < 1e-13
        elif critical.kind == "saddle":
            assert near.min() < -1e-8
            assert near.max() > 1e-8
        else:
            close(anywhere, np.zeros(2000))
        # as many zero eigenvalues as dimensions: the sets are complete, nothing critical is left out nearby
        assert np.sum(np.abs(critical.spectrum) < 1e-12) == critical.dimension
        if critical.dimension:
            assert np.ptp(R, axis=0).max() > 0.5  # the members differ
            assert not critical.strict


@pytest.mark.parametrize("case", CASES)
def test_no_other_critical_points(case):
    """Newton's method from random starts ends on a listed value."""
    P = np.diag(CASES[case])
    values = [c.value for c in critical_points.critical_sets(P)]
    R = so3.random(RNG, (300,))
    for _ in range(60):
        step = np.matvec(linalg.pseudo_inverse(critical_points.hessian(P, R), 1e-6), critical_points.gradient(P, R))
        length = np.linalg.norm(step, axis=-1, keepdims=True)
        R = R @ so3.exp(-step / np.maximum(1.0, length))
    done = np.linalg.norm(critical_points.gradient(P, R), axis=-1) < 1e-10
    assert done.mean() > 0.8
    gap = np.abs(critical_points.value(P, R[done])[:, None] - np.array(values)).min(axis=1)
    assert gap.max() < 1e-8


def test_included_points():
    """The circles and spheres pass through the isolated points they merge (text below eqs 2.67e-i)."""
    m = critical_points.member
    for label, parameter, point in (
        ("R4", [-1, 0], "R1"),
        ("R4", [1, 0], "R2"),
        ("R5", [1, 0], "R2"),
        ("R5", [-1, 0], "R3"),
        ("R6", [1, 0, 0], "R1"),
        ("R6", [0, 1, 0], "R2"),
        ("R6", [0, 0, 1], "R3"),
        ("R7", [1, 0], "R0"),
        ("R7", [-1, 0], "R1"),
        ("R8", [1, 0, 0], "R0"),
        ("R8", [0, 1, 0], "R1"),
        ("R8", [0, 0, 1], "R2"),
    ):
        close(m(label, np.array(parameter, dtype=float)), m(point), 0)


def test_near_equality_is_decided_by_the_tolerance():
    assert critical_points.classify([3.0, 3.0 + 1e-12, 4.0]) == "lambda1=lambda2"
    assert critical_points.classify([3.0, 3.0 + 1e-6, 4.0]) == "distinct"
    assert critical_points.classify([3.0, 3.0 + 1e-6, 4.0], tolerance=1e-5) == "lambda1=lambda2"
    assert critical_points.classify([1e-12, 1.0, 4.0]) == "lambda1=0"


def test_unknown_set():
    with pytest.raises(ModelError, match="'R0' to 'R8' or 'SO\\(3\\)', got 'R9'"):
        critical_points.member("R9")
