"""Features Q6 to Q21: the scalable body and the rigid body as its constrained case."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import ScalablePose, euler_lagrange, minimal, scalable_body as sb
from heavytop_mechanics.bodies import unified_body

from heavytop._arrays import symbol
from heavytop.coordinates import Rotation, UnifiedPose
from heavytop.errors import ModelError
from heavytop.geometry import quaternion

RNG = np.random.default_rng(41)
MASSES = RNG.uniform(0.3, 1.5, 6)
POINTS = RNG.standard_normal((6, 3))
POINTS = POINTS - MASSES @ POINTS / MASSES.sum()
THETA = sb.wedge_inertia(MASSES, POINTS)
M = sb.mass_matrix(MASSES.sum(), THETA)
C = ScalablePose()
Q0, U0 = C.random(RNG), RNG.standard_normal(7)


def test_velocities_are_scale_rate_and_turned_angular_velocity() -> None:
    """Q6 to Q8: nu = s', omega = s R^T Omega, velocity field (40)."""
    h = 1e-6
    qd = C.rate(Q0, U0)
    (s1, R1), (s0, R0) = C.scale_and_rotation(Q0 + h * qd), C.scale_and_rotation(Q0 - h * qd)
    s, R = C.scale_and_rotation(Q0)
    assert (s1 - s0) / (2 * h) == pytest.approx(U0[3], rel=1e-8)
    Omega = (R1 - R0) / (2 * h) @ R.T
    np.testing.assert_allclose(s * R.T @ np.array([Omega[2, 1], Omega[0, 2], Omega[1, 0]]), U0[4:], atol=1e-7)
    slope = (C.position(Q0 + h * qd, POINTS[0]) - C.position(Q0 - h * qd, POINTS[0])) / (2 * h)
    np.testing.assert_allclose(C.point_jacobian(Q0, POINTS[0]) @ U0, slope, atol=1e-7)


def test_mass_matrix() -> None:
    """Q10: constant, diag(m I, tr/2, Theta), from the particles and positive definite."""
    assert np.sum(MASSES * np.vecdot(POINTS, POINTS)) == pytest.approx(0.5 * np.trace(THETA), rel=1e-13)
    jacobians = np.stack([C.point_jacobian(Q0, y) for y in POINTS])
    np.testing.assert_allclose(np.einsum("p,pxi,pxj->ij", MASSES, jacobians, jacobians), M, atol=1e-12)
    assert np.min(np.linalg.eigvalsh(M)) > 0
    with pytest.raises(ModelError, match="scaling motion must be positive, got 0"):
        sb.mass_matrix(1.0, THETA, 0.0)


def test_kinetic_energy_in_both_forms(jacobian_by_differences) -> None:
    """Q11: quadratic in q' and in q; partial derivatives (68)."""
    qd = RNG.standard_normal(7)
    assert sb.kinetic_energy_in_q(M, Q0, qd) == pytest.approx(sb.kinetic_energy(M, Q0, qd), rel=1e-13)
    by_rate, by_q = sb.energy_gradients(M, Q0, qd)
    np.testing.assert_allclose(by_rate, jacobian_by_differences(lambda x: sb.kinetic_energy(M, Q0, x), qd), atol=1e-6)
    np.testing.assert_allclose(by_q, jacobian_by_differences(lambda x: sb.kinetic_energy(M, x, qd), Q0), atol=1e-6)


def test_loads_have_the_virtual_power_of_the_forces() -> None:
    """Q13."""
    forces = RNG.standard_normal((6, 3))
    _, R = C.scale_and_rotation(Q0)
    loads = sb.loads(R, POINTS, forces)
    power = sum(f @ C.point_jacobian(Q0, y) @ U0 for f, y in zip(forces, POINTS, strict=True))
    assert loads.vector @ U0 == pytest.approx(power, rel=1e-12)
    qd = C.rate(Q0, U0)
    assert sb.coordinate_force(Q0, loads) @ qd == pytest.approx(power, rel=1e-12)


def test_virtual_work_of_the_particles_vanishes() -> None:
    """Q9: d'Alembert for the cloud, with the acceleration of (93)."""
    forces = RNG.standard_normal((6, 3))
    _, R = C.scale_and_rotation(Q0)
    a = sb.acceleration(M, Q0, U0, sb.loads(R, POINTS, forces))
    np.testing.assert_allclose(sb.virtual_work_residual(MASSES, POINTS, Q0, U0, a, forces), 0, atol=1e-12)
    assert np.max(np.abs(sb.virtual_work_residual(MASSES, POINTS, Q0, U0, a + 0.1, forces))) > 0.1


def test_quaternion_coordinates_and_velocities_agree() -> None:
    """Q12, Q16: (70) is (93); identities (89) and (90)."""
    qd = C.rate(Q0, U0)
    Q, Qd = sb.rate_matrix(Q0), sb.rate_matrix_rate(qd)
    loads = sb.Loads(RNG.standard_normal(3), 0.4, RNG.standard_normal(3))
    qdd = sb.coordinate_acceleration(M, Q0, qd, loads)
    np.testing.assert_allclose(Q @ qdd + Qd @ qd, sb.acceleration(M, Q0, U0, loads), atol=1e-12)
    np.testing.assert_allclose(Q @ C.kinematics_matrix(Q0), np.eye(7), atol=1e-13)
    np.testing.assert_allclose((Qd @ Q0)[3:], U0[3:] * [1, -1, -1, -1], atol=1e-13)  # eq. 90
    s = Q0[3:] @ Q0[3:]
    expected = np.zeros((7, 7))
    expected[3:, 3:] = quaternion.left_matrix(U0[3:]) / (2 * s)
    np.testing.assert_allclose(np.linalg.inv(Q).T @ Qd.T, expected, atol=1e-13)  # eq. 89
    # Euler-Lagrange knows nothing of quaternions and finds the same
    automatic = euler_lagrange.acceleration(C, lambda q, u: 0.5 * np.vecdot(u, M @ u), force=lambda q, u: loads.vector)
    np.testing.assert_allclose(automatic(Q0, U0), sb.acceleration(M, Q0, U0, loads), atol=1e-12)


def unit(q):
    return np.concatenate([q[:3], q[3:] / np.linalg.norm(q[3:])])


def test_constraint_force_and_saddle_point() -> None:
    """Q14, Q15, Q19: f_g = 2 psi(A) lambda, lambda of (82) is that of (96)."""
    q, u = unit(Q0), U0 * [1, 1, 1, 0, 1, 1, 1]
    loads = sb.Loads(RNG.standard_normal(3), 0.7, RNG.standard_normal(3))
    assert sb.constraint(q) == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(sb.constraint_gradient(q)[3:], 2 * q[3:])
    scaling_row = np.array([0, 0, 0, 1.0, 0, 0, 0])
    np.testing.assert_allclose(sb.rate_matrix(q).T @ scaling_row, sb.constraint_gradient(q), atol=1e-14)
    qd = C.rate(q, u)
    saddle = sb.rigid_coordinate_acceleration(M, q, qd, loads)
    rigid = sb.rigid_acceleration(M, q, u, loads)
    lam = sb.scaling_force(THETA, u[4:], 0.7)
    assert saddle.multiplier == pytest.approx(lam, rel=1e-12)
    assert rigid.multiplier == pytest.approx(lam, rel=1e-12)
    Q, Qd = sb.rate_matrix(q), sb.rate_matrix_rate(qd)
    np.testing.assert_allclose(Q @ saddle.acceleration + Qd @ qd, rigid.acceleration, atol=1e-11)
    assert sb.scaling_force(THETA, u[4:]) < 0
    # Q18: Newton-Euler
    np.testing.assert_allclose(rigid.acceleration[:3], loads.force / MASSES.sum(), rtol=1e-13)
    np.testing.assert_allclose(rigid.acceleration[4:], minimal.euler_rotation(THETA, u[4:], loads.moment), atol=1e-12)


def test_any_scaling_mass_gives_the_same_rigid_motion() -> None:
    """Q21."""
    q, u = unit(Q0), U0 * [1, 1, 1, 0, 1, 1, 1]
    qd = C.rate(q, u)
    reference = sb.rigid_coordinate_acceleration(M, q, qd)
    for scaling in (0.01, 1.0, 50.0):
        other = sb.mass_matrix(MASSES.sum(), THETA, scaling)
        result = sb.rigid_coordinate_acceleration(other, q, qd)
        np.testing.assert_allclose(result.acceleration, reference.acceleration, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(
            sb.rigid_acceleration(other, q, u).acceleration, sb.rigid_acceleration(M, q, u).acceleration
        )
        free = sb.acceleration(other, q, u)
        np.testing.assert_allclose(free[4:], sb.acceleration(M, q, u)[4:], rtol=1e-13)
        assert free[3] == pytest.approx(u[4:] @ THETA @ u[4:] / scaling, rel=1e-12)  # only the scaling row changes


@pytest.mark.parametrize("which", ["free_rigid", "free_scalable", "loaded_rigid", "loaded_scalable"])
def test_trajectories_of_the_reference(which, golden, integrate, traced_rate) -> None:
    """Q15, Q17, Q19, Q20: 10 s, rigid and scalable, free and loaded."""
    data = golden("h_scalable_body.json")
    p, stored = data["parameters"], data["trajectories"][which]
    theta = np.array(p["Theta"])
    mass = sb.mass_matrix(p["m"], theta)
    loads = sb.NO_LOADS
    if "loaded" in which:
        given = p["loads"]["loaded"]
        loads = sb.Loads(np.array(given["F(inertial)"]), given["S_C"], np.array(given["M_C(reference configuration)"]))

    def rate(z, t):
        q, u = z[:7], z[7:]
        a = (
            sb.rigid_acceleration(mass, q, u, loads).acceleration
            if "rigid" in which
            else sb.acceleration(mass, q, u, loads)
        )
        return np.concatenate([C.rate(q, u), a])

    start = np.concatenate([p["r0"], stored["A_quaternion"][0], p["v0"], [p["nu0"]], p["omega0"]])
    run = integrate(traced_rate(rate, 14), start, np.array(stored["t"]))
    scale = np.max(np.abs(stored["r"]))
    np.testing.assert_allclose(run[:, :3], stored["r"], atol=1e-10 * scale + 1e-10)
    np.testing.assert_allclose(run[:, 3:7], stored["A_quaternion"], atol=1e-9)
    np.testing.assert_allclose(run[:, 10], stored["nu"], atol=1e-9)
    np.testing.assert_allclose(run[:, 11:], stored["omega"], atol=1e-9)
    q, u = run[:, :7], run[:, 7:]
    if "rigid" in which:
        lam = sb.rigid_acceleration(mass, q, u, loads).multiplier
        np.testing.assert_allclose(lam, stored["lambda"], atol=1e-8)
    if "free" in which:
        kinetic = 0.5 * np.vecdot(u, np.matvec(mass, u))
        np.testing.assert_allclose(kinetic, stored["T_kinetic"], rtol=1e-10)
        momentum = sb.angular_momentum(theta, q, u)
        np.testing.assert_allclose(momentum, stored["angular_momentum_inertial_about_COM"], atol=1e-9)
    if which == "free_scalable":
        s = sb.free_scale(theta, 1.0, p["nu0"], p["omega0"], stored["t"])
        np.testing.assert_allclose(s, stored["scale_s=|A|^2"], rtol=1e-12)
        square = C.scale_and_rotation(q)[0] ** 2  # s^2 is a parabola in t: third differences vanish, second ones do not
        np.testing.assert_allclose(np.diff(square, 3), 0, atol=1e-9 * square.max())
        assert np.min(np.diff(square, 2)) > 1e-2


def test_rigid_attitude_is_that_of_eulers_equations(integrate, traced_rate) -> None:
    """Q18 against K7."""
    omega = np.array([0.4, -1.0, 0.8])
    t = np.linspace(0, 2, 5)
    mass = sb.mass_matrix(1.0, THETA)

    def quaternions(z, t):
        return np.concatenate([C.rate(z[:7], z[7:]), sb.rigid_acceleration(mass, z[:7], z[7:]).acceleration])

    def matrices(z, t):
        return np.concatenate([Rotation().rate(z[:9], z[9:]), minimal.euler_rotation(THETA, z[9:])])

    one = integrate(traced_rate(quaternions, 14), np.concatenate([C.neutral(), np.zeros(4), omega]), t)
    two = integrate(traced_rate(matrices, 12), np.concatenate([Rotation().neutral(), omega]), t)
    np.testing.assert_allclose(
        quaternion.rotation_from_quaternion(one[:, 3:7]), Rotation().rotation_matrix(two[:, :9]), atol=1e-10
    )


def test_equations_take_symbols_and_batches() -> None:
    q, u = symbol("q", 7), symbol("u", 7)
    assert sb.acceleration(M, q, u).shape == (7,)
    assert sb.rigid_coordinate_acceleration(M, q, u).acceleration.shape == (7,)
    qs, us = C.random(1, (3,)), np.ones((3, 7))
    np.testing.assert_allclose(
        sb.coordinate_acceleration(M, qs, us)[1], sb.coordinate_acceleration(M, qs[1], us[1]), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("mass", "theta", "message"),
    [
        (-1.0, np.eye(3), "positive mass"),
        (1.0, [1.0, 1.0, 50.0], "sum of the other two"),
        (np.nan, np.eye(3), "finite"),
    ],
)
def test_impossible_bodies_are_refused(mass, theta, message) -> None:
    with pytest.raises(ModelError, match=message):
        sb.mass_matrix(mass, theta)
    with pytest.raises(ModelError, match=message):
        unified_body(UnifiedPose("hexahedral"), mass, theta)
