"""Features U8 to U18: the free body in unified velocities."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import gibbs_appell, rigid_body, spatial_newton_euler as sne, unified

from heavytop._arrays import symbol
from heavytop.coordinates import UnifiedPose
from heavytop.errors import ModelError, ShapeError
from heavytop.geometry import se3, so3

RNG = np.random.default_rng(51)
MASSES = RNG.uniform(0.3, 1.5, 7)
POINTS = RNG.standard_normal((7, 3))
POINTS = POINTS - MASSES @ POINTS / MASSES.sum()
MASS, J = MASSES.sum(), sne.rotational_inertia(MASSES, POINTS)
W, W_RATE = RNG.standard_normal(6), RNG.standard_normal(6)

SETS = {
    "hexahedral": UnifiedPose("hexahedral"),
    "box": UnifiedPose.hexahedral((0.5, 2.0, 1.3)),
    "tetrahedral": UnifiedPose("tetrahedral"),
    "random tetrahedron": UnifiedPose.tetrahedral(RNG.standard_normal((4, 3))),
    "six points": UnifiedPose(points=RNG.standard_normal((6, 3)), directions=RNG.standard_normal((6, 3))),
}
each = pytest.mark.parametrize("pose", SETS.values(), ids=SETS.keys())


@each
def test_interpolation_reproduces_the_six_speeds(pose) -> None:
    """U8, U10, U11: b_i . v(y_i) = w_i, N = [I, -wed(y)] D^-1."""
    speeds = [b @ unified.point_velocity(pose, y, W) for y, b in zip(pose.points, pose.directions, strict=True)]
    np.testing.assert_allclose(speeds, W, atol=1e-10)
    y = np.array([0.3, -0.7, 1.1])
    N = np.concatenate([np.eye(3), -so3.wed(y)], axis=1) @ np.linalg.inv(pose.matrix)
    np.testing.assert_allclose(pose.interpolation_matrix(y), N, atol=1e-10)


def test_printed_interpolation_matrix() -> None:
    """Eq. 27 for any lengths, determinant and orthogonality (U9, erratum 2.9)."""
    l1, l2, l3 = 0.5, 2.0, 1.3
    y1, y2, y3 = y = np.array([0.3, -0.7, 1.1])
    printed = np.array(
        [
            [1 - y2 / l2, -1 - y2 / l2, 0, 0, y3 / l1, y3 / l1],
            [y1 / l2, y1 / l2, 1 - y3 / l3, -1 - y3 / l3, 0, 0],
            [0, 0, y2 / l3, y2 / l3, 1 - y1 / l1, -1 - y1 / l1],
        ]
    ) / np.sqrt(2)
    np.testing.assert_allclose(SETS["box"].interpolation_matrix(y), printed, atol=1e-14)
    D = SETS["hexahedral"].matrix
    np.testing.assert_allclose(D @ D.T, np.eye(6), atol=1e-15)
    assert np.linalg.det(D) == pytest.approx(-1, abs=1e-14)
    with pytest.raises(ModelError, match="must be regular"):
        UnifiedPose(points=np.zeros((6, 3)), directions=np.tile(np.eye(3), (2, 1)))


@each
def test_accelerations_of_points(pose) -> None:
    """U12: E' = wed(Omega); v' = N w' + P w against differences of the motion."""
    xi, xi_rate = pose.body_velocity(W), pose.body_velocity(W_RATE)
    np.testing.assert_allclose(unified.basis_rate(pose, W), so3.wed(xi[3:]), atol=1e-10)
    y, h = np.array([0.3, -0.7, 1.1]), 1e-4

    def world(t):
        return se3.transform(se3.exp(xi * t + 0.5 * xi_rate * t**2), y)

    acceleration = (world(h) - 2 * world(0.0) + world(-h)) / h**2
    size = 1 + np.max(np.abs(acceleration))
    np.testing.assert_allclose(unified.point_acceleration(pose, y, W, W_RATE) / size, acceleration / size, atol=1e-5)
    exact = rigid_body.point_acceleration(np.eye(3), xi, xi_rate, y)
    np.testing.assert_allclose(unified.point_acceleration(pose, y, W, W_RATE), exact, rtol=1e-9)


@each
def test_gibbs_appell_integrals_and_closed_forms(pose) -> None:
    """U13, U15: sums over the body against (56); Gamma as a matrix differs, its force does not (erratum 2.10)."""
    M = unified.mass_matrix(pose, MASSES, POINTS)
    size = np.max(np.abs(M))
    np.testing.assert_allclose(unified.closed_mass_matrix(pose, MASS, J) / size, M / size, atol=1e-11)
    Gamma = unified.gamma_matrix(pose, MASSES, POINTS, W)
    closed = unified.closed_gamma_matrix(pose, MASS, J, W)
    force = Gamma @ W
    np.testing.assert_allclose(closed @ W, force, rtol=1e-9, atol=1e-9 * np.max(np.abs(force)))
    assert np.max(np.abs(closed - Gamma)) > 1e-3 * np.max(np.abs(Gamma))
    # dG/dw' by differentiation
    f = gibbs_appell.inertia_force(pose, lambda q, w, a: unified.gibbs_function(pose, MASSES, POINTS, w, a))
    expected = M @ W_RATE + force
    np.testing.assert_allclose(f(pose.neutral(), W, W_RATE), expected, rtol=1e-9, atol=1e-9 * np.max(np.abs(expected)))


def test_printed_mass_matrix_and_quadratic_force() -> None:
    """Eqs 60, 61 (erratum 2.12): hexahedral, unit lengths, principal moments."""
    pose, m, (j1, j2, j3) = SETS["hexahedral"], 1.7, (2.0, 2.6, 3.1)
    blocks = [np.array([[m + j, j - m], [j - m, m + j]]) / 2 for j in (j3, j1, j2)]
    printed = np.zeros((6, 6))
    for i, b in enumerate(blocks):
        printed[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = b
    moment = np.diag([j1, j2, j3])
    np.testing.assert_allclose(unified.closed_mass_matrix(pose, m, moment), printed, atol=1e-14)
    closed = unified.closed_gamma_matrix(pose, m, moment, W) @ W
    np.testing.assert_allclose(unified.hexahedral_force(m, (j1, j2, j3), W), closed, atol=1e-13)
    batch = unified.hexahedral_force(m, (j1, j2, j3), np.stack([W, 2 * W]))
    np.testing.assert_allclose(batch[1], 4 * closed, atol=1e-12)


@each
def test_forces_and_newton_euler(pose) -> None:
    """U14, U16: virtual power; D^T takes the equations to Newton-Euler."""
    y, f = np.array([0.3, -0.7, 1.1]), np.array([1.0, -2.0, 0.5])
    Q = unified.generalised_force(pose, y, f)
    power = f @ unified.point_velocity(pose, y, W)
    assert np.vecdot(Q, W) == pytest.approx(power, rel=1e-10)
    wrench = unified.wrench(pose, Q)
    np.testing.assert_allclose(wrench, np.concatenate([f, np.cross(y, f)]), atol=1e-9)
    np.testing.assert_allclose(unified.force_of_wrench(pose, wrench), Q, rtol=1e-9, atol=1e-9 * np.max(np.abs(Q)))
    xi = pose.body_velocity(W)
    rate = pose.body_velocity(unified.acceleration(pose, MASS, J, W, Q))
    v, w = xi[:3], xi[3:]
    scale = 1 + np.max(np.abs(rate))
    np.testing.assert_allclose((MASS * (rate[:3] + np.cross(w, v)) - f) / scale, 0, atol=1e-8)
    np.testing.assert_allclose((J @ rate[3:] + np.cross(w, J @ w) - np.cross(y, f)) / scale, 0, atol=1e-8)


@each
def test_motion_vector(pose) -> None:
    """U17, U18: round trip of the Lie algebra; T^-1 D^-1 written out."""
    np.testing.assert_allclose(pose.unified_velocity(se3.vee(pose.lie_algebra(W))), W, atol=1e-10)
    n = np.array([0.4, -0.2, 0.9, 0.7, -1.1, 0.5])
    operator = unified.motion_vector_operator(pose, n)
    np.testing.assert_allclose(
        operator, se3.tangent_inverse(n) @ pose.inverse_matrix, atol=1e-11 * np.max(np.abs(operator))
    )
    np.testing.assert_allclose(unified.motion_vector_rate(pose, n, W), operator @ W, rtol=1e-9)


def test_equations_take_symbols() -> None:
    w = symbol("w", 6)
    assert unified.acceleration(SETS["box"], MASS, J, w).shape == (6,)
    with pytest.raises(ShapeError, match="points of particles"):
        unified.mass_matrix(SETS["box"], [1.0], [[0.0, 0.0]])
