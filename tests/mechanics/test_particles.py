"""Features K49 to K66: particle systems, the principles, potentials, dissipation, energy balances."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import (
    Drag,
    ParticleSpring,
    ParticleSystem,
    balance,
    euler_lagrange,
    gauss,
    gibbs_appell,
    lagrange_dalembert,
    levi_civita,
    multipliers,
    particles,
    rayleigh,
)
from heavytop_mechanics.calculus import dimension

from heavytop import vector
from heavytop.coordinates import Angle, Circle, Pose, Vector
from heavytop.errors import ConfigurationError, ModelError, ShapeError
from heavytop.geometry import se3

GRAVITY = np.array([0.2, -0.1, -9.81])


def moving_pendulum() -> ParticleSystem:
    """A pendulum on a support that moves, in wind, on a spring that moves: everything depends on time."""

    def support(t):
        return vector(0.3 * np.sin(2 * t), 0.0, 0.1 * t)

    return ParticleSystem(
        Circle(),
        [1.5],
        lambda q, t: [support(t) + vector(0.7 * q[1], 0.2 * q[0], -0.7 * q[0])],
        gravity=GRAVITY,
        springs=(ParticleSpring(5.0, 0, lambda t: vector(np.cos(t), 0.0, 0.0)),),
        drags=(Drag(0.4, 0, lambda t: vector(0.0, t, 0.5)),),
        force=lambda q, v, t: [vector(np.sin(t), v[0], 0.3)],
    )


def rigid() -> ParticleSystem:
    """Four particles, rigidly connected, with springs to the ground, a spring between two of them and friction."""
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.1], [0.2, 0.9, 0.0], [0.3, 0.2, 0.8]])
    return ParticleSystem(
        Pose(),
        [1.0, 0.7, 0.4, 0.9],
        lambda q: se3.transform(Pose().pose(q), points),
        gravity=GRAVITY,
        springs=(
            ParticleSpring(3.0, 0, (0.1, 0.2, 0.3)),
            ParticleSpring(2.0, 2, (0.0, 0.0, 1.0)),
            ParticleSpring(4.0, 1, 3),
        ),
        drags=(Drag(0.3, 1), Drag(0.2, 3)),
    )


# --- K49, K50: one particle -----------------------------------------------------------------------------------------------------


def test_free_particle_is_a_damped_oscillator(integrate) -> None:
    m, d, k = 2.0, 0.6, 5.0
    anchor, wind = np.array([0.3, -0.2, 1.0]), np.array([0.5, 0.0, -0.4])
    s = ParticleSystem(Vector(3), [m], lambda q: [q], GRAVITY, [ParticleSpring(k, 0, anchor)], [Drag(d, 0, wind)])
    t = np.linspace(0, 5, 11)
    r0, v0 = np.array([1.0, 0.0, 0.0]), np.array([0.0, 2.0, -1.0])
    run = integrate(lambda t, z: np.concatenate([z[3:], s.acceleration(z[:3], z[3:], t)]), np.concatenate([r0, v0]), t)
    rest = anchor + (m * GRAVITY + d * wind) / k
    decay, frequency = d / (2 * m), np.sqrt(k / m - (d / (2 * m)) ** 2)
    amplitude = r0 - rest
    envelope = np.exp(-decay * t)[:, None]
    phase = frequency * t[:, None]
    exact = rest + envelope * (amplitude * np.cos(phase) + (v0 + decay * amplitude) / frequency * np.sin(phase))
    np.testing.assert_allclose(run[:, :3], exact, atol=1e-10)


def test_tracking_force_gives_the_desired_error_dynamics() -> None:
    """Errata 0.21, 0.22: e = r - r_R and no second gravity term."""
    m, plant, desired = 1.7, (0.4, 3.0), (5.0, 9.0)
    anchor, wind = np.array([0.3, 0.1, 0.0]), np.array([0.0, 0.6, 0.0])
    rng = np.random.default_rng(1)
    r, v, r_ref, v_ref, a_ref = rng.standard_normal((5, 3))
    force = particles.tracking_force(m, GRAVITY, plant, desired, (r, v), (r_ref, v_ref, a_ref), anchor, wind)
    s = ParticleSystem(
        Vector(3),
        [m],
        lambda q: [q],
        GRAVITY,
        [ParticleSpring(plant[1], 0, anchor)],
        [Drag(plant[0], 0, wind)],
        lambda q, v: [force + 0 * q],
    )
    a = s.acceleration(r, v)
    np.testing.assert_allclose(m * (a - a_ref) + desired[0] * (v - v_ref) + desired[1] * (r - r_ref), 0, atol=1e-12)


# --- K51 to K55: constraints and principles -------------------------------------------------------------------------------------


def tetrahedron(r):
    p = np.reshape(r, (4, 3))
    pairs = [(i, j) for i in range(4) for j in range(i)]
    return vector(*(np.vecdot(p[i, :] - p[j, :], p[i, :] - p[j, :]) - 1.0 for i, j in pairs))


def test_tetrahedron_of_particles_has_six_degrees_of_freedom(jacobian_by_differences) -> None:
    corners = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(8)
    r = corners.reshape(12)
    np.testing.assert_allclose(tetrahedron(r), 0, atol=1e-15)
    phi = jacobian_by_differences(tetrahedron, r)
    assert 12 - np.linalg.matrix_rank(phi, tol=1e-6) == 6
    assert int(dimension(Pose(), Pose().neutral())) == 6


def test_multiplier_is_the_tension_of_the_rod() -> None:
    m, l = 1.3, 0.8
    theta, rate = 0.7, 1.9
    r = l * np.array([np.cos(theta), np.sin(theta)])
    v = l * rate * np.array([-np.sin(theta), np.cos(theta)])
    pendulum = multipliers.release(
        Vector(2), lambda q, v: 0.5 * m * np.vecdot(v, v) + m * 9.81 * q[0], lambda q: np.sqrt(np.vecdot(q, q)) - l
    )
    result = pendulum(r, v)
    tension = m * (l * rate**2 + 9.81 * np.cos(theta))
    assert result.multipliers[0] == pytest.approx(-tension, rel=1e-13)
    np.testing.assert_allclose(result.force, -tension * r / l, rtol=1e-13)
    np.testing.assert_allclose(result.acceleration @ [-np.sin(theta), np.cos(theta)], -9.81 * np.sin(theta), rtol=1e-13)


def test_dependent_constraints_share_the_force() -> None:
    one = multipliers.constrained(np.eye(2), [0.0, -9.81], [[0.0, 1.0]], [0.0])
    two = multipliers.constrained(np.eye(2), [0.0, -9.81], [[0.0, 1.0], [0.0, 1.0]], [0.0, 0.0])
    np.testing.assert_allclose(two.acceleration, one.acceleration, atol=1e-14)
    np.testing.assert_allclose(two.multipliers, [4.905, 4.905], rtol=1e-13)
    with pytest.raises(ConfigurationError, match="contradict each other"):
        multipliers.constrained(np.eye(2), [0.0, -9.81], [[0.0, 1.0], [0.0, 1.0]], [0.0, 1.0])


def test_virtual_power_of_the_lost_forces_vanishes() -> None:
    s, rng = rigid(), np.random.default_rng(2)
    q, v = s.coordinates.random(rng), rng.standard_normal(6)
    a = s.acceleration(q, v)
    h = rng.standard_normal((30, 6))
    power = lagrange_dalembert.virtual_power(s)
    np.testing.assert_allclose(power(q, v, a, h), 0, atol=1e-12)
    assert np.max(np.abs(power(q, v, a + 0.1, h))) > 0.1


def test_gauss_minimum() -> None:
    """K54: the minimiser is M^-1 b, and every other acceleration has a larger constraint."""
    s, rng = rigid(), np.random.default_rng(3)
    q, v = s.coordinates.random(rng), rng.standard_normal(6)
    best = gauss.particle_acceleration(s, q, v)
    np.testing.assert_allclose(best, s.acceleration(q, v), atol=1e-11)
    weights = np.diag(np.repeat(s.masses, 3))
    free = (s.applied_forces(q, v) / s.masses[:, None]).reshape(12)

    def constraint(a):
        return gauss.gaussian_constraint(weights, s.acceleration_of_particles(q, v, a).reshape(12), free)

    least = constraint(best)
    for change in rng.standard_normal((20, 6)):
        assert constraint(best + 1e-3 * change) > least


def test_gauss_takes_one_sided_constraints() -> None:
    """A body on a table: the acceleration downwards is blocked, upwards it is free."""
    table = {"matrix": [[0.0, 1.0]], "right": None, "lower": [0.0], "upper": [np.inf]}
    np.testing.assert_allclose(gauss.quadratic_program(np.eye(2), [1.0, -9.81], **table), [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(gauss.quadratic_program(np.eye(2), [1.0, 2.0], **table), [1.0, 2.0], atol=1e-12)
    with pytest.raises(ConfigurationError, match="contradict"):
        gauss.quadratic_program(np.eye(2), [0.0, 0.0], [[1.0, 0.0], [1.0, 0.0]], [0.0, 1.0])


# --- K56, K57: kinematics with explicit time ------------------------------------------------------------------------------------


def test_velocities_and_accelerations_against_differences() -> None:
    s = moving_pendulum()
    c = s.coordinates
    q, v, a, t, h = c.random(4), np.array([1.3]), np.array([-0.8]), 0.6, 1e-5

    def at(dt):
        return s.position(c.retract(q, v * dt + 0.5 * a * dt**2), t + dt)

    velocity = (at(h) - at(-h)) / (2 * h)
    acceleration = (at(h) - 2 * at(0.0) + at(-h)) / h**2
    np.testing.assert_allclose(s.velocity_of_particles(q, v, t), velocity, atol=1e-9)
    np.testing.assert_allclose(s.acceleration_of_particles(q, v, a, t), acceleration, atol=1e-4)


def test_differential_identities(jacobian_by_differences) -> None:
    """(3.16): d_i r = dr'/dv = dr''/da; (3.17): d_i r' - d/dt d_i r = gamma^k_ij d_k r v^j; (3.19): dc/dr d_i r = 0."""
    s = rigid()
    c, n = s.coordinates, 12
    rng = np.random.default_rng(6)
    q, v, a = c.random(rng), rng.standard_normal(6), rng.standard_normal(6)
    J = s.jacobian(q)
    by_v = jacobian_by_differences(lambda w: s.velocity_of_particles(q, w).reshape(n), v)
    by_a = jacobian_by_differences(lambda w: s.acceleration_of_particles(q, v, w).reshape(n), a)
    np.testing.assert_allclose(by_v, J, atol=1e-8)
    np.testing.assert_allclose(by_a, J, atol=1e-8)
    h = 1e-6

    def moved(direction):
        return c.retract(q, direction)

    J_rate = (s.jacobian(moved(h * v)) - s.jacobian(moved(-h * v))) / (2 * h)
    basis = np.eye(6)
    slopes = np.stack(
        [
            (s.velocity_of_particles(moved(h * e), v) - s.velocity_of_particles(moved(-h * e), v)).reshape(n) / (2 * h)
            for e in basis
        ],
        axis=-1,
    )
    gamma = np.asarray(c.commutation(q))  # [k, i, j]
    np.testing.assert_allclose(slopes - J_rate, np.einsum("kij,pk,j->pi", gamma, J, v), atol=1e-7)

    def distances(r):
        p = r.reshape(4, 3)
        return np.array([np.sum((p[i] - p[j]) ** 2) for i in range(4) for j in range(i)])

    phi = jacobian_by_differences(distances, s.position(q).reshape(n))
    np.testing.assert_allclose(phi @ J, 0, atol=1e-8)


# --- K58 to K61: inertia --------------------------------------------------------------------------------------------------------


def test_mass_matrix_is_symmetric_positive_definite() -> None:
    s = rigid()
    M = s.mass_matrix(s.coordinates.random(1, (10,)))
    np.testing.assert_allclose(M, np.swapaxes(M, -1, -2), atol=1e-14)
    assert np.min(np.linalg.eigvalsh(M)) > 0


def test_three_forms_of_the_inertia_force() -> None:
    """K59, K60: dS/da, Euler-Lagrange of T and the sum over particles, for M(q) and gamma != 0."""
    for s in (rigid(), moving_pendulum(), _mixed()):
        c = s.coordinates
        rng = np.random.default_rng(9)
        q, v, a, t = c.random(rng), rng.standard_normal(c.nv), rng.standard_normal(c.nv), 0.4
        reference = s.inertia_force(q, v, a, t)
        np.testing.assert_allclose(
            gibbs_appell.inertia_force(c, s.acceleration_energy)(q, v, a, t), reference, atol=1e-12
        )
        np.testing.assert_allclose(euler_lagrange.residual(c, s.kinetic_energy)(q, v, a, t), reference, atol=1e-12)
        if s.positions.__code__.co_argcount == 1:
            c_force = levi_civita.bias(c, s.mass_matrix)(q, v)
            np.testing.assert_allclose(s.mass_matrix(q) @ a + c_force, reference, atol=1e-12)


def _mixed() -> ParticleSystem:
    """Inertial linear velocity and body angular velocity off the centre of mass: M depends on q and gamma is not zero."""
    pose = Pose("quaternion", "mixed")
    points = np.array([[1.0, 0.0, 0.1], [0.2, 0.9, 0.0], [0.3, 0.2, 0.8]])
    return ParticleSystem(pose, [0.7, 0.4, 0.9], lambda q: se3.transform(pose.pose(q), points))


def test_connection_coefficients() -> None:
    """K61: particle definition (3.32), formula (3.35), identities (3.33a, b)."""
    s = _mixed()
    c = s.coordinates
    q = c.random(11)
    n = c.nv
    direct = s.connection(q).reshape(n, n, n)
    np.testing.assert_allclose(direct, levi_civita.connection(c, s.mass_matrix, q), atol=1e-12)
    gamma, M = np.asarray(c.commutation(q)), s.mass_matrix(q)
    h = 1e-6
    slopes = np.stack(
        [(s.mass_matrix(c.retract(q, h * e)) - s.mass_matrix(c.retract(q, -h * e))) / (2 * h) for e in np.eye(n)],
        axis=-1,
    )
    np.testing.assert_allclose(slopes, direct + np.swapaxes(direct, 0, 1), atol=1e-9)
    lowered = np.einsum("sij,sk->ijk", gamma, M)
    np.testing.assert_allclose(lowered, np.einsum("kji->ijk", direct) - np.einsum("kij->ijk", direct), atol=1e-12)


def test_christoffel_symbols_for_minimal_coordinates(jacobian_by_differences) -> None:
    s = ParticleSystem(
        Vector(2), [1.0, 2.0], lambda q: [vector(np.cos(q[0]), np.sin(q[0]), 0), vector(q[1] ** 2, q[1], q[0] * q[1])]
    )
    q = np.array([0.4, 0.9])
    slopes = jacobian_by_differences(s.mass_matrix, q)  # [i, j, k]
    christoffel = 0.5 * (slopes + np.einsum("ikj->ijk", slopes) - np.einsum("jki->ijk", slopes))
    np.testing.assert_allclose(levi_civita.connection(Vector(2), s.mass_matrix, q), christoffel, atol=1e-8)


# --- K62 to K64: forces ---------------------------------------------------------------------------------------------------------


def test_potential_forces_against_differences() -> None:
    s = rigid()
    c = s.coordinates
    q, h = c.random(12), 1e-6
    slope = np.array(
        [
            (s.potential_energy(c.retract(q, h * e)) - s.potential_energy(c.retract(q, -h * e))) / (2 * h)
            for e in np.eye(6)
        ]
    )
    np.testing.assert_allclose(s.potential_force(q), slope, atol=1e-7)
    conservative = ParticleSystem(c, s.masses, s.positions, s.gravity, s.springs)
    projected = conservative.jacobian(q).T @ conservative.applied_forces(q, np.zeros(6)).reshape(12)
    np.testing.assert_allclose(s.potential_force(q), -projected, atol=1e-12)
    springs_only = ParticleSystem(c, s.masses, s.positions, springs=s.springs)
    assert np.min(springs_only.potential_energy(c.random(0, (50,)))) >= 0


def test_dissipation_force_and_power(jacobian_by_differences) -> None:
    s = rigid()
    rng = np.random.default_rng(13)
    q, v = s.coordinates.random(rng), rng.standard_normal(6)
    force = s.dissipation_force(q, v)
    np.testing.assert_allclose(force, jacobian_by_differences(lambda w: s.dissipation(q, w), v), atol=1e-8)
    np.testing.assert_allclose(rayleigh.dissipation_force(s.coordinates, s.dissipation)(q, v), force, rtol=1e-14)
    assert force @ v == pytest.approx(2 * float(s.dissipation(q, v)), rel=1e-13)
    windy = moving_pendulum()
    q, v, t = windy.coordinates.random(rng), np.array([0.7]), 0.9
    slip = windy.velocity_of_particles(q, v, t)[0] - np.array([0.0, t, 0.5])
    np.testing.assert_allclose(windy.dissipation_force(q, v, t), windy.jacobian(q, t).T @ (0.4 * slip), atol=1e-13)


# --- K65, K66: balances ---------------------------------------------------------------------------------------------------------


def run_of(s: ParticleSystem, t, integrate, v):
    c = s.coordinates
    n = c.nq
    z = np.concatenate([c.random(21), v])
    return integrate(lambda t, z: np.concatenate([c.rate(z[:n], z[n:]), s.acceleration(z[:n], z[n:], t)]), z, t)


def integral(rate, t):
    """Simpson's rule at every second time."""
    return np.concatenate([[0.0], np.cumsum((rate[:-2:2] + 4 * rate[1:-1:2] + rate[2::2]) * (t[1] - t[0]) / 3)])


def test_energy_balance_of_a_skleronomic_system(integrate) -> None:
    s, t = rigid(), np.linspace(0, 1, 201)
    run = run_of(s, t, integrate, np.array([0.3, 0.1, -0.2, 1.0, -0.5, 0.4]))
    q, v = run[:, :12], run[:, 12:]
    energy = s.kinetic_energy(q, v) + s.potential_energy(q)
    power = balance.power(s.coordinates, s.generalised_force, s.dissipation)(q, v)
    assert np.ptp(energy) > 0.01
    np.testing.assert_allclose(energy[::2] - energy[0], integral(power, t), atol=1e-8)
    a = s.acceleration(q, v)
    np.testing.assert_allclose(balance.energy_rate(s)(q, v, a), power, atol=1e-10)
    np.testing.assert_allclose(balance.hamiltonian(s)(q, v), energy, rtol=1e-13)  # H = T + V without explicit time


def test_energy_balance_of_a_rheonomic_system(integrate) -> None:
    s, t = moving_pendulum(), np.linspace(0, 1, 401)
    run = run_of(s, t, integrate, np.array([2.0]))
    q, v = run[:, :2], run[:, 2:]
    a = s.acceleration(q, v, t)
    energy = s.kinetic_energy(q, v, t) + s.potential_energy(q, t)
    np.testing.assert_allclose(energy[::2] - energy[0], integral(balance.energy_rate(s)(q, v, a, t), t), atol=1e-8)
    kinetic = s.kinetic_energy(q, v, t)
    np.testing.assert_allclose(kinetic[::2] - kinetic[0], integral(balance.kinetic_rate(s)(q, v, a, t), t), atol=1e-8)
    potential = s.potential_energy(q, t)
    np.testing.assert_allclose(
        potential[::2] - potential[0], integral(balance.potential_rate(s)(q, v, t), t), atol=1e-8
    )
    # forces alone do not explain it: the support does work
    forces = balance.power(s.coordinates, s.generalised_force, s.dissipation)(q, v, t)
    assert np.max(np.abs(energy[::2] - energy[0] - integral(forces, t))) > 0.1
    H = balance.hamiltonian(s)(q, v, t)
    assert np.max(np.abs(H - energy)) > 0.1
    rate = balance.hamiltonian_rate(s.coordinates, s.lagrangian, s.generalised_force, s.dissipation)(q, v, t)
    np.testing.assert_allclose(H[::2] - H[0], integral(rate, t), atol=1e-8)


# --- messages -------------------------------------------------------------------------------------------------------------------


def test_messages() -> None:
    with pytest.raises(ModelError, match=r"finite and not negative, got \[-1.0\]"):
        ParticleSystem(Angle(), [-1.0], lambda q: [q])
    with pytest.raises(ShapeError, match=r"masses of a particle system must have shape \(n,\)"):
        ParticleSystem(Angle(), 1.0, lambda q: [q])
    with pytest.raises(ModelError, match="names particle 3, but the particles are 0 to 0"):
        ParticleSystem(Angle(), [1.0], lambda q: [q], springs=[ParticleSpring(1.0, 3, 0)])
    with pytest.raises(ShapeError, match=r"positions of particles must have shape \(1, 3\), got \(1, 1\)"):
        ParticleSystem(Angle(), [1.0], lambda q: [q]).position(np.zeros(1))
    with pytest.raises(ModelError, match="every particle needs a positive one"):
        gauss.particle_acceleration(ParticleSystem(Vector(3), [0.0], lambda q: [q]), np.zeros(3), np.zeros(3))
    with pytest.raises(ConfigurationError, match="the mass matrix of particles is singular"):
        ParticleSystem(Vector(3), [0.0], lambda q: [q]).acceleration(np.zeros(3), np.zeros(3))
    with pytest.raises(ModelError, match="constraints of positions, of velocities, or both"):
        multipliers.Constraints(Vector(2))
