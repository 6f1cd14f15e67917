"""One rigid body against sums over its particles (features K67-K75, K80, K81, K85-K87)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import along, flow, random_pose

import heavytop as ht
from heavytop.geometry import se3, so3

GRAVITY = np.array([0.3, -0.2, -9.8])
GOLDEN = Path(__file__).parents[1] / "golden"


class Particles:
    """A body of particles with springs and fluid drag, and the model of it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.masses, self.positions = rng.uniform(0.1, 0.5, 7), rng.standard_normal((7, 3))
        self.drags, self.drag_positions = rng.uniform(0.1, 0.5, 6), rng.standard_normal((6, 3))
        self.springs = rng.uniform(1, 5, 6), rng.standard_normal((6, 3)), rng.standard_normal((6, 3))
        self.inertia = ht.Inertia.from_particles(self.masses, self.positions)
        system = ht.System(gravity=GRAVITY, name="body")
        system.body("body", joint=ht.Free(), inertia=self.inertia)
        system.damper("world", "body", ht.Damping.from_particles(self.drags, self.drag_positions))
        system.spring("world", "body", ht.Stiffness.from_springs(*self.springs))
        self.model = system.derive(native=False)
        self.q = ht.coordinates.Pose().from_pose(random_pose(rng))
        self.v, self.a = rng.standard_normal(6), rng.standard_normal(6)

    def points(self, q, positions):
        """World positions (..., n, 3)."""
        return se3.transform(self.model.pose("world", "body", q)[..., None, :, :], positions)

    def velocities(self, positions):
        """World velocities R (v + omega x h) (eq. 3.49)."""
        R = self.model.pose("world", "body", self.q)[:3, :3]
        return (self.v[:3] + np.cross(self.v[3:], positions)) @ R.T

    def accelerations(self, a, positions):
        """World accelerations (eq. 3.50)."""
        R = self.model.pose("world", "body", self.q)[:3, :3]
        v, w = self.v[:3], self.v[3:]
        arm = np.cross(w, v + np.cross(w, positions))
        return (a[:3] + np.cross(a[3:], positions) + arm) @ R.T


@pytest.fixture(scope="module")
def body():
    return Particles()


def test_distances_between_particles_stay(body):
    moved = body.model.integrate(body.q, body.v, 1.7)
    points, origin = body.points(moved, body.positions), body.positions
    distance = lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1)  # noqa: E731
    assert_allclose(distance(points), distance(origin), atol=1e-13)
    assert np.max(np.abs(points - origin)) > 0.5


def test_particle_velocities_and_accelerations(body):
    model, q, v, a = body.model, body.q, body.v, body.a
    rate = along(lambda t: body.points(flow(model, q, v, t), body.positions))
    assert_allclose(body.velocities(body.positions), rate, atol=1e-10)

    def velocities(times):
        G = model.pose("world", "body", flow(model, q, v, times))
        V = v + np.multiply.outer(times, a)
        return (V[:, None, :3] + np.cross(V[:, None, 3:], body.positions)) @ np.swapaxes(G[:, :3, :3], -1, -2)

    assert_allclose(body.accelerations(a, body.positions), along(velocities), atol=1e-9)


def test_kinematics_matrix(body):
    """The 12x6 matrix of eq. 3.51: r' = R v, R' = R wed(omega), column by column."""
    A, R = body.model.kinematics_matrix(body.q), body.model.pose("world", "body", body.q)[:3, :3]
    rate = A @ body.v
    assert A.shape == (12, 6)
    assert_allclose(rate[:3], R @ body.v[:3], atol=1e-14)
    assert_allclose(rate[3:].reshape(3, 3).T, R @ so3.wed(body.v[3:]), atol=1e-14)
    assert_allclose(body.model.coordinates.constraint_jacobian(body.q) @ A, 0, atol=1e-14)
    assert np.linalg.matrix_rank(A) == 6


def test_commutation_coefficients(body):
    """[gamma^k_ij xi^j]_ik = -ad(xi)^T with row i and column k (eqs 3.52, 3.53)."""
    gamma = body.model.commutation(body.q)
    assert_allclose(np.einsum("kij,j->ik", gamma, body.v), -se3.ad(body.v).T, atol=1e-14)
    assert np.count_nonzero(np.abs(gamma) > 1e-14) == 18


def test_kinetic_energy_and_inertia_matrix(body):
    energy = 0.5 * np.sum(body.masses * np.sum(body.velocities(body.positions) ** 2, axis=1))
    assert_allclose(body.model.kinetic_energy(body.q, body.v), energy, rtol=1e-13)
    M = sum(
        m * np.block([[np.eye(3), so3.wed(h).T], [so3.wed(h), so3.wed(h) @ so3.wed(h).T]])
        for m, h in zip(body.masses, body.positions, strict=True)
    )
    assert_allclose(body.model.mass_matrix(body.q), M, atol=1e-13)
    assert_allclose(body.inertia.matrix, M, atol=1e-13)


def test_inertia_force_is_the_slope_of_the_acceleration_energy(body):
    """M a + c = dS/da with S = 1/2 sum m |r''|^2 from particles (eqs 3.55-3.57, 3.114)."""
    model, q, v, a = body.model, body.q, body.v, body.a

    def energy(a):
        return 0.5 * np.sum(body.masses * np.sum(body.accelerations(a, body.positions) ** 2, axis=1))

    slope = [(energy(a + e) - energy(a - e)) / 2 for e in np.eye(6)]  # exact: S is quadratic
    assert_allclose(model.mass_matrix(q) @ a + model.bias(q, v), slope, atol=1e-12)


def test_newton_and_euler_at_the_centre_of_mass():
    """c = (m omega x v, omega x Theta omega) when the origin is the centre of mass."""
    system = ht.System(gravity=(0, 0, 0))
    moment = so3.random(np.random.default_rng(1))
    moment = moment @ np.diag([1.0, 1.5, 2.0]) @ moment.T
    system.body("body", joint=ht.Free("quaternion"), inertia=ht.Inertia(2.0, moment_at_com=moment))
    model = system.derive(native=False)
    v, w = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    bias = model.bias(model.random(1), [*v, *w])
    assert_allclose(bias, [*(2.0 * np.cross(w, v)), *np.cross(w, moment @ w)], atol=1e-13)


def test_connection_list(body):
    """All entries of eq. 3.61, their skew partners (3.60), and no others."""
    Gamma = body.model.connection(body.q)
    m, (sx, sy, sz), Theta = body.inertia.mass, body.inertia.com, body.inertia.moment_at_origin
    P = 0.5 * np.trace(Theta) * np.eye(3) - Theta
    printed = (
        (m, "324 135 216"),
        (m * sx, "254 364 515 616"),
        (m * sy, "424 145 365 626"),
        (m * sz, "434 535 146 256"),
        (P[0, 0], "654"),
        (P[1, 1], "465"),
        (P[2, 2], "546"),
        (P[0, 1], "464 655"),
        (P[0, 2], "544 656"),
        (P[1, 2], "545 466"),
    )
    expected = np.zeros((6, 6, 6))
    for value, entries in printed:
        for entry in entries.split():
            i, j, k = (int(c) - 1 for c in entry)
            expected[i, j, k], expected[j, i, k] = value, -value
    assert np.count_nonzero(expected) == 48
    assert_allclose(Gamma, expected, atol=1e-13)


def test_gravity(body):
    model, q = body.model, body.q
    energy = -np.sum(body.masses[:, None] * body.points(q, body.positions) * GRAVITY)
    springs = 0.5 * np.sum(body.springs[0] * np.sum((body.points(q, body.springs[1]) - body.springs[2]) ** 2, axis=1))
    assert_allclose(model.potential_energy(q), energy + springs, rtol=1e-12)
    R = model.pose("world", "body", q)[:3, :3]
    force = -body.inertia.mass * R.T @ GRAVITY
    assert_allclose(model.gravity_force(q), [*force, *np.cross(body.inertia.com, force)], atol=1e-12)


def test_springs(body):
    """f^K from the individual springs (eq. 3.67)."""
    k, points, anchors = body.springs
    R = body.model.pose("world", "body", body.q)[:3, :3]
    pull = k[:, None] * (body.points(body.q, points) - anchors) @ R
    expected = [*pull.sum(axis=0), *np.cross(points, pull).sum(axis=0)]
    assert_allclose(body.model.stiffness_force(body.q), expected, atol=1e-12)


def test_drag_in_a_fluid_at_rest(body):
    """f^D from the individual drags (eqs 3.78, 3.79)."""
    R = body.model.pose("world", "body", body.q)[:3, :3]
    drag = body.drags[:, None] * body.velocities(body.drag_positions) @ R
    expected = [*drag.sum(axis=0), *np.cross(body.drag_positions, drag).sum(axis=0)]
    assert_allclose(body.model.dissipation_force(body.q, body.v), expected, atol=1e-12)


def test_drag_in_a_moving_fluid_vanishes_when_both_move_alike():
    """A fluid fixed to another body (eq. 3.78): drag of the relative velocity, zero for a common rigid motion."""
    rng = np.random.default_rng(3)
    drags, positions = rng.uniform(0.1, 1, 5), rng.standard_normal((5, 3))
    system = ht.System()
    for name in ("tank", "body"):
        system.body(name, joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.damper("tank", "body", ht.Damping.from_particles(drags, positions))
    model = system.derive(native=False)
    q = model.random(rng)
    tank, body = model.pose("world", "tank", q), model.pose("world", "body", q)
    twist = rng.standard_normal(6)  # of a common rigid motion, in world axes
    together = np.concatenate([se3.Ad_inverse(tank) @ twist, se3.Ad_inverse(body) @ twist])
    assert_allclose(model.dissipation_force(q, together), 0, atol=1e-12)
    v = rng.standard_normal(12)
    relative = v[6:] - se3.Ad(se3.inverse(body) @ tank) @ v[:6]
    flow_past = relative[:3] + np.cross(relative[3:], positions)
    power = np.sum(drags * np.sum(flow_past**2, axis=1))
    assert_allclose(v @ model.dissipation_force(q, v), power, rtol=1e-12)


@pytest.mark.parametrize("kind", ["inertia", "damping", "stiffness"])
def test_moments_as_4x4_matrices(kind):
    """X' = sum w [h; 1][h; 1]^T, its 6x6 form, shift, union and inverse map (eqs 3.94)."""
    cls = {"inertia": ht.Inertia, "damping": ht.Damping, "stiffness": ht.Stiffness}[kind]
    rng = np.random.default_rng(2)
    w, h = rng.uniform(0.1, 1, 6), rng.standard_normal((6, 3))
    extended = np.column_stack([h, np.ones(6)])
    moments = cls.from_particles(w, h)
    assert_allclose(moments.moments, (w[:, None] * extended).T @ extended, atol=1e-13)
    assert_allclose(cls.from_moments(moments.moments).moment_at_center, moments.moment_at_center, atol=1e-13)
    G = random_pose(rng)
    assert_allclose(moments.shifted(G).moments, cls.from_particles(w, se3.transform(G, h)).moments, atol=1e-13)
    union = cls.from_particles(w[:2], h[:2]) + cls.from_particles(w[2:], h[2:])
    assert_allclose(union.moments, moments.moments, atol=1e-13)
    xi = rng.standard_normal(6)
    assert_allclose(xi @ moments.matrix @ xi, np.trace(se3.wed(xi) @ moments.moments @ se3.wed(xi).T), rtol=1e-12)


def test_unions_of_one_kind_only():
    with pytest.raises(TypeError):
        ht.Inertia(1.0) + ht.Damping(1.0)


def test_heavy_top_accelerations():
    """A spherical joint with the centre of mass at distance one (golden data of the heavy top), along the reference motion."""
    data = json.loads((GOLDEN / "f_heavy_top.json").read_text())
    p = data["parameters"]
    system = ht.System(gravity=p["gravity"])
    system.body("top", joint=ht.Spherical(), inertia=ht.Inertia(p["m"], p["X"], p["J_com"]))
    model = system.derive(native=False)
    R, Omega = np.array(data["R"]), np.array(data["Omega"])
    q = np.swapaxes(R, -1, -2).reshape(-1, 9)
    J = np.array(p["J_about_fixed_point"])
    torque = np.cross(p["X"], p["m"] * np.array(p["gravity"]) @ R)
    expected = (torque - np.cross(Omega, J * Omega)) / J
    assert_allclose(model.acceleration(q, Omega), expected, rtol=1e-12, atol=1e-9)
    energy = data["verification"]["energy"]
    # the potential energy of the data counts from the origin as well
    assert_allclose(model.energy(q, Omega), np.broadcast_to(energy[0], len(q)), rtol=1e-12)


def test_free_rotation_keeps_the_momentum_of_the_reference_motion():
    """Golden data of the unstable free rotation: energy and momentum at every stored state, and Euler's equations."""
    data = json.loads((GOLDEN / "a_unstable_rotation.json").read_text())
    J = np.array(data["parameters"]["J"])
    system = ht.System(gravity=(0, 0, 0))
    system.body("body", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=J))
    model = system.derive(native=False)
    Omega, R = np.array(data["Omega"]), np.array(data["R"])
    q = np.concatenate([np.zeros((len(R), 3)), np.swapaxes(R, -1, -2).reshape(-1, 9)], axis=1)
    v = np.concatenate([np.zeros_like(Omega), Omega], axis=1)
    assert_allclose(2 * model.kinetic_energy(q, v), data["invariants"]["twice_kinetic_energy"], rtol=1e-11)
    assert_allclose(np.linalg.norm(J * Omega, axis=1), data["invariants"]["angular_momentum_norm"], rtol=1e-11)
    assert_allclose(model.acceleration(q, v)[:, 3:], np.cross(J * Omega, Omega) / J, atol=1e-10)
