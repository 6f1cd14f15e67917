"""Displacements: group laws, vee and wedge family, Ad and ad, exp, log, tangent operators."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import solve_ivp

from heavytop.errors import ShapeError
from heavytop.geometry import linalg, se3, so3

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "d_se3.json").read_text())["samples"]
twists = arrays(float, 6, elements=st.floats(-3, 3, width=64))
matrices = arrays(float, (4, 4), elements=st.floats(-3, 3, width=64))
laws = settings(max_examples=60, deadline=None)


def derivative(f, t=0.0, h=1e-3):
    return (f(t - 2 * h) - 8 * f(t - h) + 8 * f(t + h) - f(t + 2 * h)) / (12 * h)


def close(a, b, tolerance=1e-13):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


# poses


@laws
@given(twists, twists, twists)
def test_group_axioms(x, y, z):
    A, B, C = se3.exp(x), se3.exp(y), se3.exp(z)
    assert linalg.is_pose(A @ B, 1e-13)
    close((A @ B) @ C, A @ (B @ C), 1e-13)
    close(A @ se3.inverse(A), np.eye(4), 1e-14)
    close(se3.inverse(A @ B), se3.inverse(B) @ se3.inverse(A), 1e-13)


def test_pose_parts_and_points():
    rng = np.random.default_rng(0)
    R, r, points = so3.random(rng, (5,)), rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    G = se3.pose(R, r)
    close(se3.rotation(G), R, 0)
    close(se3.position(G), r, 0)
    close(G[:, 3], np.tile([0.0, 0, 0, 1], (5, 1)), 0)
    close(se3.transform(G, points), [a + B @ y for a, B, y in zip(r, R, points, strict=True)])
    close(se3.transform(G[0], points), points @ R[0].T + r[0])
    close(se3.transform(se3.inverse(G), se3.transform(G, points)), points)


# the vee and wedge family


@laws
@given(twists, twists, matrices)
def test_defining_trace_identities(x, y, A):
    close(se3.vee(se3.wed(x)), x, 0)
    close(np.trace(A @ se3.wed(x).T), x @ se3.vee2(A), 1e-12)  # eq. 3.83
    close(np.trace(se3.wed(x) @ A @ se3.wed(y).T), y @ se3.Vee(A) @ x, 1e-11)  # eq. 3.85
    close(se3.vee2(se3.wed(x) @ A), se3.Vee(A) @ x, 1e-12)  # eq. 3.87
    close(se3.Wed(se3.Vee(A)), A, 1e-14)


def test_moments_of_particles_become_inertia():
    rng = np.random.default_rng(2)
    mass, r = rng.uniform(0.1, 1, 7), rng.standard_normal((7, 3))
    h = np.concatenate([r, np.ones((7, 1))], axis=1)
    M = se3.Vee((h.T * mass) @ h)
    J = np.concatenate([np.tile(np.eye(3), (7, 1, 1)), -so3.wed(r)], axis=2)  # particle velocity v + w x r
    close(M, np.einsum("p,pki,pkj->ij", mass, J, J))


# Ad and ad


@laws
@given(twists, twists, twists)
def test_adjoint_rules(x, y, g):
    A, B = se3.exp(x), se3.exp(y)
    close(se3.Ad(A @ B), se3.Ad(A) @ se3.Ad(B), 1e-12)
    close(se3.Ad(A) @ se3.Ad_inverse(A), np.eye(6), 1e-13)
    close(se3.Ad_inverse(A), se3.Ad(se3.inverse(A)), 1e-13)
    close(se3.wed(se3.Ad(A) @ g), A @ se3.wed(g) @ se3.inverse(A), 1e-12)
    close(se3.ad(x) @ y, -se3.ad(y) @ x, 1e-13)
    close(se3.ad(x) @ x, np.zeros(6), 1e-13)
    close(se3.wed(se3.ad(x) @ y), se3.wed(x) @ se3.wed(y) - se3.wed(y) @ se3.wed(x), 1e-13)
    close(se3.Ad(np.eye(4)), np.eye(6), 0)


@laws
@given(twists, twists)
@pytest.mark.thorough
def test_rate_of_the_adjoint(x, xi):
    G = se3.exp(x)
    rate = derivative(lambda t: se3.Ad(G @ se3.exp(t * xi)))
    close(rate, se3.Ad(G) @ se3.ad(xi), 1e-8)  # eq. 3.90
    close(derivative(lambda t: G @ se3.exp(t * xi)), G @ se3.wed(xi), 1e-9)  # eq. 3.82


# exp, log, tangent


@pytest.mark.parametrize("sample", GOLDEN, ids=lambda s: s["label"])
def test_golden(sample):
    xi = np.array(sample["xi_[v,omega]"])
    close(se3.exp(xi), sample["exp_SE3"], 2e-15)
    close(se3.Ad(se3.exp(xi)), sample["Ad_exp"], 2e-15)
    close(se3.tangent(xi), sample["T_SE3=dexp(-xi)"], 2e-15)
    close(se3.tangent(-xi), sample["dexp(xi)"], 2e-15)
    for ours, golden in (
        (se3.tangent_inverse(xi), "T_SE3_inv=dexpinv(-xi)"),
        (se3.tangent_inverse(-xi), "dexpinv(xi)"),
    ):
        close(ours, sample[golden], 1e-12 * max(1.0, np.abs(sample[golden]).max()))
    if sample["log_of_exp_equals_xi"] and sample["angle"] < np.pi - 1e-12:
        close(se3.log(np.array(sample["exp_SE3"])), xi, 2e-15)
    close(se3.exp(se3.log(np.array(sample["exp_SE3"]))), sample["exp_SE3"], 3e-15)


@laws
@given(twists)
def test_log_inverts_exp(xi):
    G = se3.exp(xi)
    close(se3.exp(se3.log(G)), G, 2e-14)
    if np.linalg.norm(xi[3:]) < np.pi - 1e-6:
        close(se3.log(G), xi, 2e-14)


def test_log_near_a_half_turn_loses_little():
    rng = np.random.default_rng(5)
    for gap in (1e-3, 1e-6, 1e-9):
        axis = rng.standard_normal(3)
        xi = np.concatenate([rng.standard_normal(3), (np.pi - gap) * axis / np.linalg.norm(axis)])
        close(se3.log(se3.exp(xi)), xi, 1e-14)


@laws
@given(twists, twists)
def test_tangent_is_the_derivative_of_exp(xi, rate):
    G = se3.exp(xi)
    left = se3.inverse(G) @ derivative(lambda t: se3.exp(xi + t * rate))
    close(se3.vee(left), se3.tangent(xi) @ rate, 1e-9)
    close(se3.tangent(xi) @ se3.tangent_inverse(xi), np.eye(6), 1e-10)
    close(se3.Ad(G) @ se3.tangent(xi), se3.tangent(-xi), 1e-13)


@pytest.mark.parametrize("limit", [1.0, 2.0, np.sqrt(12.0)])
def test_tangents_on_both_sides_of_the_series_limits(limit):
    v, axis = np.array([0.3, -1.2, 0.7]), np.array([0.48, -0.6, 0.64])
    below, above = (np.concatenate([v, limit * (1 + e) * axis]) for e in (-4e-16, 4e-16))
    for function in (se3.exp, se3.tangent, se3.tangent_inverse):
        close(function(below), function(above), 8e-15)


def test_incremental_motion_vector():
    """exp(n(t)) with n' = T^-1(n) v(t) solves H' = H wed(v) for a twist that changes its direction (002 eqs 11, 12)."""

    def twist(t):
        return np.array([np.cos(t), t, -0.5, np.sin(2 * t), 0.4, 1 - t])

    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
    n = solve_ivp(lambda t, n: se3.tangent_inverse(n) @ twist(t), (0, 1.5), np.zeros(6), **options).y[:, -1]
    H = solve_ivp(lambda t, H: (H.reshape(4, 4) @ se3.wed(twist(t))).ravel(), (0, 1.5), np.eye(4).ravel(), **options)
    close(se3.exp(n), H.y[:, -1].reshape(4, 4), 1e-11)


# Cayley map


@laws
@given(twists, twists)
def test_cayley(xi, rate):
    half = se3.wed(xi) / 2
    G = se3.cayley(xi)
    close(G, np.linalg.solve(np.eye(4) - half, np.eye(4) + half), 1e-13)
    twist = se3.vee(se3.inverse(G) @ derivative(lambda t: se3.cayley(xi + t * rate)))
    close(se3.cayley_tangent_inverse(xi) @ twist, rate, 1e-8)


def test_random_and_errors():
    assert np.all(linalg.is_pose(se3.random(np.random.default_rng(0), (3, 2)), 1e-14))
    with pytest.raises(ShapeError, match=r"a twist \(linear, angular\) must have shape \(\.\.\., 6\), got \(5,\)"):
        se3.exp(np.zeros(5))
    with pytest.raises(ShapeError, match=r"a pose must have shape \(\.\.\., 4, 4\), got \(3, 3\)"):
        se3.Ad(np.eye(3))
