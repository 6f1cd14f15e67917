"""Features S10 and S15 to S21: inertia, momentum and Newton-Euler with spatial vectors, recursive inverse dynamics."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import rigid_body, spatial_newton_euler as sne

import heavytop as ht
from heavytop._arrays import symbol
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3, spatial

RNG = np.random.default_rng(23)
MASSES, POINTS = RNG.uniform(0.3, 1.2, 5), RNG.standard_normal((5, 3))
MASS = MASSES.sum()
COM = MASSES @ POINTS / MASS
INERTIA = sne.spatial_inertia(MASS, COM, sne.rotational_inertia(MASSES, POINTS - COM))
V, A = RNG.standard_normal(6), RNG.standard_normal(6)
G = se3.exp(RNG.standard_normal(6))


def test_rolling_cylinder() -> None:
    """S10: the spatial acceleration is constant, its angular part zero, although every particle accelerates differently."""
    speed, radius, t = 1.4, 0.3, np.linspace(0, 2, 9)
    velocity, acceleration = sne.rolling_cylinder(speed, radius, t)
    h = 1e-5
    slope = (sne.rolling_cylinder(speed, radius, t + h)[0] - sne.rolling_cylinder(speed, radius, t - h)[0]) / (2 * h)
    np.testing.assert_allclose(acceleration, slope, atol=1e-9)
    np.testing.assert_allclose(acceleration, np.tile([0, 0, 0, 0, 0, speed**2 / radius], (9, 1)), rtol=1e-14)
    contact = np.stack([speed * t, 0 * t, 0 * t], axis=-1)
    centre = contact + np.array([0, 0, radius])
    np.testing.assert_allclose(spatial.point_velocity(velocity, contact), 0, atol=1e-14)  # no slip
    np.testing.assert_allclose(spatial.point_velocity(velocity, centre), np.tile([speed, 0, 0], (9, 1)), atol=1e-14)
    np.testing.assert_allclose(spatial.point_acceleration(velocity, acceleration, centre), 0, atol=1e-13)
    np.testing.assert_allclose(
        spatial.point_acceleration(velocity, acceleration, contact),
        np.tile([0, 0, speed**2 / radius], (9, 1)),
        atol=1e-13,
    )


def test_rolling_cylinder_without_radius() -> None:
    """It was NaN without a word."""
    for speed, radius in ((1.0, 0.0), (1.0, -1.0), (np.nan, 1.0), (np.ones(3), np.zeros(3))):
        with pytest.raises(ModelError, match="radius > 0"):
            sne.rolling_cylinder(speed, radius, np.linspace(0.0, 1.0, 3))


def test_rotational_inertia_and_parallel_axes() -> None:
    about_origin = sne.rotational_inertia(MASSES, POINTS)
    np.testing.assert_allclose(
        about_origin, sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(MASSES, POINTS, strict=True))
    )
    about_com = sne.rotational_inertia(MASSES, POINTS - COM)
    np.testing.assert_allclose(about_origin, about_com + MASS * so3.wed(COM) @ so3.wed(COM).T, atol=1e-12)
    np.testing.assert_allclose(INERTIA[:3, :3], about_origin, atol=1e-12)


def test_momentum_is_the_sum_over_particles_and_transforms_like_a_force() -> None:
    velocities = spatial.point_velocity(V, POINTS)
    linear = MASSES[:, None] * velocities
    total = np.concatenate([np.sum(np.cross(POINTS, linear), axis=0), np.sum(linear, axis=0)])
    h = sne.momentum(INERTIA, V)
    np.testing.assert_allclose(h, total, atol=1e-12)
    # seen from another frame
    X, Xf = spatial.motion_transform(G), spatial.force_transform(G)
    np.testing.assert_allclose(sne.momentum(sne.transform_inertia(G, INERTIA), X @ V), Xf @ h, atol=1e-11)
    # phi_O = phi_C + r x L
    at_com = np.concatenate(
        [sne.rotational_inertia(MASSES, POINTS - COM) @ V[:3], MASS * spatial.point_velocity(V, COM)]
    )
    np.testing.assert_allclose(h, spatial.shift_wrench(at_com, COM), atol=1e-12)


def test_inertia_in_any_frame() -> None:
    moved = sne.transform_inertia(G, INERTIA)
    np.testing.assert_allclose(moved, moved.T, atol=1e-11)
    assert np.min(np.linalg.eigvalsh(moved)) > 0
    X = spatial.motion_transform(G)
    assert sne.kinetic_energy(moved, X @ V) == pytest.approx(sne.kinetic_energy(INERTIA, V), rel=1e-12)
    centre = sne.spatial_inertia(MASS, np.zeros(3), sne.rotational_inertia(MASSES, POINTS - COM))
    np.testing.assert_allclose(sne.transform_inertia(se3.pose(np.eye(3), COM), centre), INERTIA, atol=1e-12)


def test_force_cross_product_and_transform_rate() -> None:
    """S18: crf = -crm^T, d/dt X* = [V x*] X*."""
    np.testing.assert_allclose(spatial.crf(V), -spatial.crm(V).T, atol=1e-15)
    h = 1e-6

    def at(t):
        return se3.exp(spatial.swap(V) * t) @ G  # moves with the world twist V

    slope = (spatial.force_transform(at(h)) - spatial.force_transform(at(-h))) / (2 * h)
    np.testing.assert_allclose(slope, spatial.crf(V) @ spatial.force_transform(G), atol=1e-7)


def test_derivative_of_momentum_in_a_moving_frame() -> None:
    """S19: the rate of the world coordinates of a force is X* (rate + V x* F)."""
    F, F_rate = RNG.standard_normal(6), RNG.standard_normal(6)
    h = 1e-6

    def world(t):
        g = G @ se3.exp(spatial.swap(V) * t)  # V in body coordinates
        return spatial.force_transform(g) @ (F + F_rate * t)

    slope = (world(h) - world(-h)) / (2 * h)
    expected = spatial.force_transform(G) @ spatial.force_derivative_in_frame(F_rate, V, F)
    np.testing.assert_allclose(slope, expected, atol=1e-7)


def test_newton_euler_is_covariant_and_classical_at_the_centre_of_mass() -> None:
    X, Xf = spatial.motion_transform(G), spatial.force_transform(G)
    moved = sne.newton_euler(sne.transform_inertia(G, INERTIA), X @ V, X @ A)
    here = sne.newton_euler(INERTIA, V, A)
    np.testing.assert_allclose(moved, Xf @ here, rtol=0, atol=1e-12 * np.max(np.abs(moved)))
    # the sum over particles
    accelerations = spatial.point_acceleration(V, A, POINTS)
    forces = MASSES[:, None] * accelerations
    np.testing.assert_allclose(
        here, np.concatenate([np.sum(np.cross(POINTS, forces), axis=0), forces.sum(axis=0)]), atol=1e-11
    )
    # at the centre of mass: the classical pair; off it the classical pair is wrong (erratum 3.4)
    theta = sne.rotational_inertia(MASSES, POINTS - COM)
    w, v = V[:3], V[3:]

    def classical(moment):
        return np.concatenate([moment @ A[:3] + np.cross(w, moment @ w), MASS * (A[3:] + np.cross(w, v))])

    at_com = sne.newton_euler(sne.spatial_inertia(MASS, np.zeros(3), theta), V, A)
    np.testing.assert_allclose(at_com, classical(theta), atol=1e-12)
    assert np.max(np.abs(here - classical(INERTIA[:3, :3]))) > 0.1
    np.testing.assert_allclose(sne.body_acceleration(INERTIA, V, here), A, atol=1e-12)


def test_conversion_to_linear_angular_ordering() -> None:
    """S21: P X P = Ad, P crm P = ad, and Newton-Euler is (3.95a)."""
    P = spatial.permutation()
    np.testing.assert_allclose(P @ spatial.motion_transform(G) @ P, se3.Ad(G), atol=1e-14)
    np.testing.assert_allclose(P @ spatial.crm(V) @ P, se3.ad(spatial.swap(V)), atol=1e-15)
    thesis = sne.from_linear_angular(INERTIA)
    np.testing.assert_allclose(thesis, se3.Vee(rigid_body.moments(MASSES, POINTS)), atol=1e-12)
    xi, rate = spatial.swap(V), spatial.swap(A)
    np.testing.assert_allclose(
        sne.body_wrench(thesis, xi, rate), rigid_body.inertia_force(thesis, xi, rate), atol=1e-12
    )


# --- recursive Newton-Euler -----------------------------------------------------------------------------------------------------


def robot(n=5):
    """A tree of revolute and prismatic joints with oblique axes, and the same as a System."""
    rng = np.random.default_rng(31)
    links, system = [], ht.System(gravity=(0.5, -0.3, -9.81))
    for i in range(n):
        parent = (-1, 0, 1, 1, 3)[i]
        axis = rng.standard_normal(3)
        at = se3.exp(0.6 * rng.standard_normal(6))
        m, com = rng.uniform(0.5, 2), 0.3 * rng.standard_normal(3)
        points = rng.standard_normal((6, 3))
        theta = 0.1 * sne.rotational_inertia(np.ones(6), points - points.mean(axis=0))
        revolute = i != 2
        screw = spatial.revolute_screw(axis, np.zeros(3)) if revolute else spatial.prismatic_screw(axis)
        links.append(sne.Link(screw, sne.spatial_inertia(m, com, theta), at, parent))
        joint = (ht.Revolute if revolute else ht.Prismatic)(axis)
        system.body(
            f"b{i}",
            parent="world" if parent < 0 else f"b{parent}",
            at=at,
            joint=joint,
            inertia=ht.Inertia(m, com, theta),
        )
    return links, system.derive()


def test_recursion_equals_the_system() -> None:
    links, model = robot()
    rng = np.random.default_rng(2)
    q, v, a = rng.standard_normal((3, 4, 5))
    gravity = (0.5, -0.3, -9.81)
    result = sne.inverse_dynamics(links, q, v, a, gravity)
    np.testing.assert_allclose(result.forces, model.inverse_dynamics(q, v, a), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(sne.mass_matrix(links, q), model.mass_matrix(q), atol=1e-12)
    torque = rng.standard_normal(5)
    forward = sne.acceleration(links, q, v, torque, gravity)
    back = sne.inverse_dynamics(links, q, v, forward, gravity).forces
    np.testing.assert_allclose(back, np.tile(torque, (4, 1)), atol=1e-10)


def test_reactions_do_no_work_and_external_wrenches_count() -> None:
    links, _ = robot()
    rng = np.random.default_rng(4)
    q, v, a = rng.standard_normal((3, 5))
    plain = sne.inverse_dynamics(links, q, v, a)
    for link, wrench, force in zip(links, plain.wrenches, plain.forces, strict=True):
        assert spatial.power(link.screw, wrench) == pytest.approx(force, abs=1e-12)
    push = rng.standard_normal(6)
    external = [None, None, None, None, push]
    loaded = sne.inverse_dynamics(links, q, v, a, external=external)
    assert loaded.forces[4] == pytest.approx(plain.forces[4] - np.asarray(links[4].screw) @ push, abs=1e-12)
    assert loaded.forces[2] == pytest.approx(plain.forces[2], abs=1e-12)  # another branch


def test_recursion_takes_symbols() -> None:
    links, _ = robot()
    q, v, a = symbol("q", 5), symbol("v", 5), symbol("a", 5)
    assert sne.inverse_dynamics(links, q, v, a, (0, 0, -9.81)).forces.shape == (5,)


def test_order_of_links_is_checked() -> None:
    with pytest.raises(ModelError, match="link 0 has parent 0: parents must come before"):
        sne.inverse_dynamics([sne.Link(np.eye(6)[0], np.eye(6), parent=0)], np.zeros(1), np.zeros(1), np.zeros(1))


def tree_of_any_joints():
    """Joints of six, three, two, two and one degree of freedom, and the same as a System with a wrench on two bodies."""
    rng = np.random.default_rng(12)
    joints = [
        ht.Free(),
        ht.Spherical(),
        ht.Universal(),
        ht.Cylindrical("y"),
        ht.Planar(),
        ht.Revolute((1.0, 2.0, 2.0)),
    ]
    links, system = [], ht.System(gravity=(0.5, -0.3, -9.81))
    for i, joint in enumerate(joints):
        parent, at = (-1, 0, 1, 0, 3, 4)[i], se3.exp(0.6 * rng.standard_normal(6))
        m, com = rng.uniform(0.5, 2), 0.3 * rng.standard_normal(3)
        points = rng.standard_normal((6, 3))
        theta = 0.1 * sne.rotational_inertia(np.ones(6), points - points.mean(axis=0))
        inertia = sne.spatial_inertia(m, com, theta)
        links.append(
            sne.Link(inertia=inertia, at=at, parent=parent, coordinates=joint.coordinates, placement=joint.pose)
        )
        carrier = "world" if parent < 0 else f"b{parent}"
        system.body(f"b{i}", parent=carrier, at=at, joint=joint, inertia=ht.Inertia(m, com, theta))
    for name, body in (("push", "b2"), ("pull", "b5")):
        for k in range(6):
            system.input(f"{name}{k}", ht.Wrench(body, force=np.eye(6)[k, :3], moment=np.eye(6)[k, 3:]))
    return links, system.derive()


@pytest.mark.thorough
def test_recursion_with_joints_of_any_degrees_of_freedom_and_external_wrenches() -> None:
    links, model = tree_of_any_joints()
    rng = np.random.default_rng(5)
    q, (v, a) = model.random(rng, (3,)), rng.standard_normal((2, 3, model.nv))
    push, pull = rng.standard_normal((2, 6))
    gravity, external = (0.5, -0.3, -9.81), [None, None, push, None, None, pull]
    u = np.concatenate([spatial.swap(push), spatial.swap(pull)])
    np.testing.assert_allclose(sne.mass_matrix(links, q), model.mass_matrix(q), atol=1e-12)
    needed = model.inverse_dynamics(q, v, a) - np.matvec(model.input_matrix(q), u)
    result = sne.inverse_dynamics(links, q, v, a, gravity, external)
    np.testing.assert_allclose(result.forces, needed, rtol=1e-11, atol=1e-11)
    forward = sne.acceleration(links, q, v, gravity=gravity, external=external)
    np.testing.assert_allclose(forward, model.acceleration(q, v, u), rtol=1e-9, atol=1e-9)
    symbolic = sne.inverse_dynamics(links, symbol("q", model.nq), symbol("v", model.nv), symbol("a", model.nv), gravity)
    assert symbolic.forces.shape == (model.nv,)


def test_links_say_what_they_need() -> None:
    with pytest.raises(ModelError, match="either a screw"):
        sne.Link(np.eye(6)[0], np.eye(6), coordinates=ht.Spherical().coordinates, placement=ht.Spherical().pose)
    with pytest.raises(ModelError, match="either a screw"):
        sne.Link(inertia=np.eye(6))
    with pytest.raises(ModelError, match="needs an inertia"):
        sne.Link(np.eye(6)[0])
    with pytest.raises(ModelError, match="one external wrench"):
        sne.inverse_dynamics([sne.Link(np.eye(6)[0], np.eye(6))], *np.zeros((3, 1)), external=[])
