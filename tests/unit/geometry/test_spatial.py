"""Spatial vectors: accelerations of points, transforms, cross products, wrenches, ordering."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from heavytop.geometry import se3, so3, spatial

sixes = arrays(float, 6, elements=st.floats(-2, 2, width=64))
threes = arrays(float, 3, elements=st.floats(-2, 2, width=64))
laws = settings(max_examples=50, deadline=None)


def derivative(f, t=0.0, h=2e-3):
    return (f(t - 2 * h) - 8 * f(t - h) + 8 * f(t + h) - f(t + 2 * h)) / (12 * h)


def close(a, b, tolerance=1e-13):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def motion(seed=0):
    """A smooth rigid motion and its exact body twist: G = exp(a sin t) exp(b t)."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 6))

    def pose(t):
        return se3.exp(a * np.sin(t)) @ se3.exp(b * t)

    def twist(t):
        return se3.Ad_inverse(se3.exp(b * t)) @ a * np.cos(t) + b

    return pose, twist


def world_twist(pose, twist):
    return lambda t: spatial.twist_of_motion(pose(t), twist(t))


@pytest.mark.parametrize("t", [0.0, 0.7])
def test_twist_holds_the_velocity_of_the_particle_at_the_origin(t):
    pose, twist = motion()
    V = world_twist(pose, twist)(t)
    particle = se3.transform(se3.inverse(pose(t)), np.zeros(3))  # body coordinates of the particle now at the origin
    close(V[3:], derivative(lambda s: se3.transform(pose(s), particle), t), 1e-9)
    close(so3.wed(V[:3]), derivative(lambda s: pose(s)[:3, :3], t) @ pose(t)[:3, :3].T, 1e-9)


@pytest.mark.parametrize("t", [0.0, 0.7])
def test_spatial_and_conventional_acceleration(t):
    pose, twist = motion(1)
    V = world_twist(pose, twist)
    A = derivative(V, t)
    for y in ([0.0, 0, 0], [0.3, -1, 2], se3.transform(se3.inverse(pose(t)), np.zeros(3))):
        r = se3.transform(pose(t), y)
        velocity = derivative(lambda s, y=y: se3.transform(pose(s), y), t)
        acceleration = derivative(
            lambda s, y=y: spatial.point_velocity(V(s), se3.transform(pose(s), y)), t
        )  # exact velocity along the path
        close(spatial.point_velocity(V(t), r), velocity, 1e-8)
        close(spatial.point_acceleration(V(t), A, r), acceleration, 1e-8)
        close(spatial.acceleration_from_point(V(t), r, acceleration, A[:3]), A, 1e-8)
    # for the particle at the origin: v_o' = r'' - omega x r'
    close(spatial.point_acceleration(V(t), A, np.zeros(3)) - np.cross(V(t)[:3], V(t)[3:]), A[3:], 1e-12)


def test_velocities_and_accelerations_add_in_common_coordinates():
    (first, first_twist), (second, second_twist) = motion(2), motion(3)

    def total(t):
        G = second(t)
        return spatial.twist_of_motion(first(t) @ G, se3.Ad_inverse(G) @ first_twist(t) + second_twist(t))

    def parts(t):
        relative = spatial.motion_transform(first(t)) @ spatial.twist_of_motion(second(t), second_twist(t))
        return world_twist(first, first_twist)(t), relative

    close(total(0.4), sum(parts(0.4)), 1e-12)
    close(derivative(total, 0.4), derivative(lambda t: parts(t)[0], 0.4) + derivative(lambda t: parts(t)[1], 0.4), 1e-9)


@laws
@given(sixes, sixes, sixes)
def test_transforms(x, y, V):
    A, B = se3.exp(x), se3.exp(y)
    X = spatial.motion_transform
    close(X(A @ B), X(A) @ X(B), 1e-12)
    close(X(A) @ spatial.motion_transform_inverse(A), np.eye(6), 1e-13)
    close(spatial.force_transform(A), np.linalg.inv(X(A)).T, 1e-12)
    close(spatial.force_transform(A) @ spatial.force_transform_inverse(A), np.eye(6), 1e-13)
    close(spatial.crm(X(A) @ V), X(A) @ spatial.crm(V) @ spatial.motion_transform_inverse(A), 2e-13)  # erratum 3.1


def test_transform_of_the_cross_product_to_fourteen_digits():
    """[X V x] = X [V x] X^-1 for twists of unit size."""
    for x, V in np.random.default_rng(8).uniform(-0.4, 0.4, (100, 2, 6)):
        X, inverse = spatial.motion_transform(se3.exp(x)), spatial.motion_transform_inverse(se3.exp(x))
        close(spatial.crm(X @ V), X @ spatial.crm(V) @ inverse, 1e-14)


def test_the_printed_transform_of_the_cross_product_is_wrong():
    G, V = se3.exp([1, 2, 3, 0.1, 0.2, 0.3]), np.arange(6.0)
    X = spatial.motion_transform(G)
    assert np.abs(spatial.crm(X @ V) - X @ spatial.crm(V) @ X.T).max() > 1


@laws
@given(sixes, sixes, sixes)
def test_cross_products(V, W, F):
    close(spatial.crm(V) @ W, spatial.cross_motion(V, W))
    close(spatial.crf(V) @ F, spatial.cross_force(V, F))
    close(spatial.crf(V), -spatial.crm(V).T, 0)
    close(spatial.cross_motion(V, W), -spatial.cross_motion(W, V))


def test_rates_of_the_transforms():
    pose, twist = motion(4)
    t = 0.3
    V = world_twist(pose, twist)(t)
    close(
        derivative(lambda s: spatial.motion_transform(pose(s)), t),
        spatial.crm(V) @ spatial.motion_transform(pose(t)),
        1e-8,
    )
    close(
        derivative(lambda s: spatial.force_transform(pose(s)), t),
        spatial.crf(V) @ spatial.force_transform(pose(t)),
        1e-8,
    )


def test_derivatives_in_a_moving_frame():
    pose, twist = motion(5)  # the frame
    body, body_twist = motion(6)
    t = 0.2
    absolute = world_twist(body, body_twist)

    def seen(s):
        return spatial.motion_transform_inverse(pose(s)) @ absolute(s)

    frame = spatial.swap(twist(t))
    A = spatial.derivative_in_frame(derivative(seen, t), frame, seen(t))
    close(A, spatial.motion_transform_inverse(pose(t)) @ derivative(absolute, t), 1e-8)
    # in the body's own frame the apparent derivative is the whole one
    own = spatial.swap(body_twist(t))
    rate = derivative(lambda s: spatial.swap(body_twist(s)), t)
    close(spatial.derivative_in_frame(rate, own, own), rate, 1e-13)
    close(spatial.motion_transform(body(t)) @ rate, derivative(absolute, t), 1e-8)

    def force(s):
        return np.array([1.0, s, s * s, np.sin(s), -2, 0.5 * s])

    rate = derivative(lambda s: spatial.force_transform_inverse(pose(s)) @ force(s), t)
    seen_force = spatial.force_transform_inverse(pose(t)) @ force(t)
    F = spatial.force_derivative_in_frame(rate, frame, seen_force)
    close(F, spatial.force_transform_inverse(pose(t)) @ derivative(force, t), 1e-8)


@laws
@given(threes, sixes, sixes)
def test_wrenches(r, V, F):
    rng = np.random.default_rng(0)
    points, forces = rng.standard_normal((2, 6, 3))
    total = spatial.wrench_of_force(forces, points).sum(axis=0)
    close(total, [*np.cross(points, forces).sum(axis=0), *forces.sum(axis=0)])
    # about the point A = -r the points are r further away
    close(spatial.shift_wrench(total, r), spatial.wrench_of_force(forces, points + r).sum(axis=0), 1e-12)
    close(spatial.power(spatial.shift_twist(V, r), spatial.shift_wrench(F, r)), V @ F, 1e-12)
    G = se3.exp(V)
    close(spatial.shift_wrench(F, r), spatial.force_transform(se3.pose(np.eye(3), r)) @ F)
    close(spatial.shift_twist(V, r), spatial.motion_transform(se3.pose(np.eye(3), r)) @ V)
    close(spatial.power(spatial.motion_transform(G) @ V, spatial.force_transform(G) @ F), spatial.power(V, F), 1e-11)
    # power of the forces on the particles of a body
    close(spatial.power(V, total), np.sum(forces * spatial.point_velocity(V, points)), 1e-12)


def test_joint_forces():
    axis, point = np.array([0.0, 0.6, 0.8]), np.array([0.3, 0.2, -0.1])
    hinge, slider = spatial.revolute_screw(axis, point), spatial.prismatic_screw(axis)
    close(spatial.point_velocity(hinge, point + 2.0 * axis), np.zeros(3), 1e-15)
    rng = np.random.default_rng(1)
    force, lever = rng.standard_normal((2, 3))
    F = spatial.wrench_of_force(force, point + lever)
    assert spatial.power(hinge, F) == pytest.approx(axis @ np.cross(lever, force))
    assert spatial.power(slider, F) == pytest.approx(axis @ force)
    # reactions do no work: any force through the hinge axis, any couple across it; any couple on a slider
    reaction = spatial.wrench_of_force(force, point + 1.3 * axis) + np.array([*np.cross(axis, lever), 0, 0, 0])
    assert spatial.power(hinge, reaction) == pytest.approx(0.0, abs=1e-14)
    assert spatial.power(slider, [*lever, *np.cross(axis, force)]) == pytest.approx(0.0, abs=1e-14)


@laws
@given(sixes, sixes)
def test_the_other_ordering(x, V):
    G, P = se3.exp(x), spatial.permutation()
    close(P @ V, spatial.swap(V), 0)
    close(P @ P, np.eye(6), 0)
    close(spatial.swap_matrix(spatial.motion_transform(G)), se3.Ad(G), 0)
    close(P @ spatial.crm(V) @ P, se3.ad(spatial.swap(V)), 0)
    close(spatial.swap_matrix(spatial.crm(V)), se3.ad(spatial.swap(V)), 0)
    close(spatial.swap(spatial.swap(V)), V, 0)
