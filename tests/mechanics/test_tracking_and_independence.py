"""Features K9 (as a principle), K103, and the traps of naive coordinates (erratum 0.2)."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import QuasiCoordinates, euler_lagrange, gauss, hamilton, levi_civita

import heavytop as ht
from heavytop import matrix
from heavytop.coordinates import Circle, LinearVelocities, Product, Quaternion, Rotation
from heavytop.errors import ModelError
from heavytop.geometry import so3

RNG = np.random.default_rng(61)


def random_mass(n):
    A = RNG.standard_normal((n, n))
    return A @ A.T + np.eye(n)


def test_fully_actuated_system_follows_the_prototype_exactly() -> None:
    M, B, force, desired = random_mass(4), RNG.standard_normal((4, 4)), RNG.standard_normal(4), RNG.standard_normal(4)
    result = gauss.closest_realizable(M, force, B, desired)
    np.testing.assert_allclose(result.acceleration, desired, atol=1e-11)
    np.testing.assert_allclose(M @ desired, force + B @ result.inputs, atol=1e-11)


def test_underactuated_residual_is_orthogonal_and_coordinates_do_not_matter() -> None:
    M, B, force, desired = random_mass(4), RNG.standard_normal((4, 2)), RNG.standard_normal(4), RNG.standard_normal(4)
    result = gauss.closest_realizable(M, force, B, desired)
    np.testing.assert_allclose(M @ result.acceleration, force + B @ result.inputs, atol=1e-11)
    np.testing.assert_allclose(np.linalg.solve(M, B).T @ M @ result.residual, 0, atol=1e-11)
    for u in RNG.standard_normal((20, 2)):
        a = np.linalg.solve(M, force + B @ (result.inputs + 0.1 * u))
        assert gauss.gaussian_constraint(M, desired, a) > gauss.gaussian_constraint(M, desired, result.acceleration)
    # other velocity coordinates w = T v: covectors with T^-T, vectors with T
    T = RNG.standard_normal((4, 4)) + 3 * np.eye(4)
    inverse = np.linalg.inv(T)
    other = gauss.closest_realizable(inverse.T @ M @ inverse, inverse.T @ force, inverse.T @ B, T @ desired)
    np.testing.assert_allclose(other.inputs, result.inputs, atol=1e-10)
    np.testing.assert_allclose(inverse @ other.acceleration, result.acceleration, atol=1e-10)
    # the plain least squares of accelerations would depend on them
    naive = np.linalg.lstsq(np.linalg.solve(M, B), desired - np.linalg.solve(M, force), rcond=None)[0]
    naive_other = np.linalg.lstsq(T @ np.linalg.solve(M, B), T @ (desired - np.linalg.solve(M, force)), rcond=None)[0]
    assert np.max(np.abs(naive - naive_other)) > 1e-3


# --- K103 -----------------------------------------------------------------------------------------------------------------------


def top_energies(attitude):
    theta = np.array([1.0, 1.4, 2.0])

    def lagrangian(q, w):
        R = attitude.rotation_matrix(q)
        return 0.5 * np.vecdot(w, theta * w) - 9.81 * (0.3 * R[2, 2] + 0.1 * R[2, 0])

    return lagrangian


def test_same_motion_in_other_coordinates(integrate, traced_rate) -> None:
    """A heavy top in matrices, quaternions and sheared velocities: one motion."""
    t, R0, omega = np.linspace(0, 2, 5), so3.exp(np.array([0.3, 0.8, -0.2])), np.array([1.0, -0.5, 3.0])
    shear = np.array([[1.0, 0.4, 0.0], [0.0, 1.0, -0.3], [0.2, 0.0, 1.5]])
    attitudes = []
    for base in (Rotation(), Quaternion()):
        for c in (base, LinearVelocities(base, shear)):
            D = np.eye(3) if c is base else shear
            inner = top_energies(base)
            a = euler_lagrange.acceleration(c, lambda q, w, D=D, inner=inner: inner(q, np.linalg.inv(D) @ w))
            n = c.nq
            rate = traced_rate(
                lambda z, t, c=c, a=a, n=n: np.concatenate([c.rate(z[:n], z[n:]), a(z[:n], z[n:], t)]), n + 3
            )
            run = integrate(rate, np.concatenate([base.from_rotation_matrix(R0), D @ omega]), t)
            attitudes.append(base.rotation_matrix(run[:, :n]))
    for other in attitudes[1:]:
        np.testing.assert_allclose(other, attitudes[0], atol=1e-9)


def test_load_with_relative_and_absolute_velocity(integrate) -> None:
    """K103: the trajectory does not depend on which angular velocity of the load is a coordinate."""
    runs = []
    for velocity in ("relative", "absolute"):
        system = ht.System(gravity=(0, 0, -9.81))
        system.body("hull", joint=ht.Free("quaternion"), inertia=ht.Inertia(1.0, (0.01, 0, 0.02), (0.02, 0.03, 0.04)))
        system.body(
            "load",
            parent="hull",
            at=(0, 0, -0.1),
            joint=ht.Spherical("quaternion", velocity=velocity),
            inertia=ht.Inertia(0.4, (0, 0.02, -0.3), (0.01, 0.012, 0.004)),
        )
        model = system.derive()
        q = np.concatenate(
            [np.zeros(3), [1.0, 0, 0, 0], Quaternion().from_rotation_matrix(so3.exp(np.array([0.5, 0.2, 0.1])))]
        )
        hull, load = np.array([0.1, 0.2, 0.3, 0.5, -0.4, 0.9]), np.array([0.3, -0.6, 0.8])
        R = Quaternion().rotation_matrix(q[7:])
        v = np.concatenate([hull, load if velocity == "relative" else load + R.T @ hull[3:]])

        def rate(_, z, model=model):
            x = np.concatenate([z[:3], z[3:7] / np.linalg.norm(z[3:7]), z[7:11] / np.linalg.norm(z[7:11])])
            return np.concatenate([model.rate(x, z[11:]), model.acceleration(x, z[11:])])

        runs.append(integrate(rate, np.concatenate([q, v]), np.linspace(0, 0.5, 3), 1e-10, 1e-11))
    np.testing.assert_allclose(runs[0][:, :11], runs[1][:, :11], atol=1e-8)


# --- traps ----------------------------------------------------------------------------------------------------------------------


def test_mixed_row_and_column_constraints_lose_rank() -> None:
    """Erratum 0.2: at Rz(45 deg) the printed constraints of SO(3) allow a fourth, false degree of freedom; ours do not."""

    def printed(q):
        x, y, z = q[:3], q[3:6], q[6:]
        rows = [x[i] ** 2 + y[i] ** 2 + z[i] ** 2 - 1 for i in range(3)]  # row norms
        return np.array([*rows, x @ y, y @ z, z @ x])  # column products

    def rank(function, q):
        h = 1e-6
        J = np.stack([(function(q + h * e) - function(q - h * e)) / (2 * h) for e in np.eye(9)], axis=-1)
        return np.linalg.matrix_rank(J, tol=1e-6)

    diagonal = Rotation().from_rotation_matrix(so3.rotation_about("z", np.pi / 4))
    generic = Rotation().random(1)
    assert rank(printed, generic) == 6
    assert rank(printed, diagonal) == 5
    assert rank(Rotation().constraints, diagonal) == 6
    assert np.linalg.matrix_rank(Rotation().constraint_jacobian(diagonal)) == 6


def test_nonholonomic_velocities_refuse_commutation_coefficients() -> None:
    """Euler-Lagrange on the constrained velocities of a skate would be wrong, so it raises."""

    def skate(q):
        return matrix([[np.cos(q[2]), 0.0], [np.sin(q[2]), 0.0], [0.0, 1.0]])

    c = QuasiCoordinates(("x", "y", "heading"), ("speed", "turn"), skate, complete=False)
    kinetic = lambda q, v: 0.5 * np.vecdot(v, v)  # noqa: E731
    for formalism in (euler_lagrange.acceleration, hamilton.flow):
        with pytest.raises(ModelError, match=r"leaves out motions .* Gibbs-Appell"):
            formalism(c, kinetic)
    with pytest.raises(ModelError, match="leaves out motions"):
        levi_civita.acceleration(c, lambda q: np.eye(2))
    with pytest.raises(ModelError, match="has no manifold"):
        c.random()


def test_quasi_coordinates_reproduce_known_blocks() -> None:
    base = Product((Circle(), Rotation()), names=("wheel", "body"))
    copy = QuasiCoordinates(base.q_names, base.v_names, base.kinematics_matrix)
    q = base.random(3, (4,))
    np.testing.assert_allclose(copy.commutation(q), base.commutation(q), atol=1e-12)
    v = RNG.standard_normal((4, 4))
    np.testing.assert_allclose(copy.rate(q, v), base.rate(q, v), atol=1e-13)
    near = copy.retract(q, 1e-4 * v)
    np.testing.assert_allclose(copy.difference(q, near), 1e-4 * v, atol=1e-13)
