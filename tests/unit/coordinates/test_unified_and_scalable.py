"""Unified velocities (doc 002, U8-U11, U17) and the scalable body (doc 001, Q6-Q8, Q16)."""

import numpy as np
import pytest
from heavytop_mechanics import ScalablePose

from heavytop.coordinates import LinearVelocities, Pose, Quaternion, UnifiedPose, Vector
from heavytop.errors import ConfigurationError, ModelError, ShapeError, UnknownNameError
from heavytop.geometry import quaternion, se3, so3

RNG = np.random.default_rng(11)
ROOT = 1 / np.sqrt(2)


def general_set(seed=0):
    rng = np.random.default_rng(seed)
    return UnifiedPose(points=rng.standard_normal((6, 3)), directions=rng.standard_normal((6, 3)))


# --- unified velocities


@pytest.mark.parametrize(
    "c", [general_set(), UnifiedPose("hexahedral"), UnifiedPose("tetrahedral"), UnifiedPose.hexahedral((0.5, 2, 3))]
)
def test_velocities_are_point_speeds_along_directions(c):
    """w_i = b_i . v(y_i) (eq. 18), v(y) = U + Omega x y, and N(y) w interpolates the field (eqs 26-31)."""
    xi = RNG.standard_normal((5, 6))
    w = c.unified_velocity(xi)
    speeds = np.einsum("ik,bik->bi", c.directions, xi[:, None, :3] + np.cross(xi[:, None, 3:], c.points))
    assert np.abs(w - speeds).max() < 1e-13
    assert np.abs(c.body_velocity(w) - xi).max() < 1e-12
    y = RNG.standard_normal((5, 3))
    field = np.matvec(c.interpolation_matrix(y), w)
    assert np.abs(field - (xi[:, :3] + np.cross(xi[:, 3:], y))).max() < 1e-11
    for i in range(6):
        assert np.abs(c.directions[i] @ c.interpolation_matrix(c.points[i]) - np.eye(6)[i]).max() < 1e-12


def test_hexahedral_matrix_is_the_printed_one():
    """Eq. 54 with erratum 2.9; orthogonal with determinant -1 for unit lengths."""
    D = UnifiedPose("hexahedral").matrix
    expected = ROOT * np.array(
        [
            [1, 0, 0, 0, 0, 1],
            [-1, 0, 0, 0, 0, 1],
            [0, 1, 0, 1, 0, 0],
            [0, -1, 0, 1, 0, 0],
            [0, 0, 1, 0, 1, 0],
            [0, 0, -1, 0, 1, 0],
        ]
    )
    assert np.abs(D - expected).max() < 1e-15
    assert np.linalg.det(D) == pytest.approx(-1)
    assert np.abs(D @ D.T - np.eye(6)).max() < 1e-15
    printed = expected.copy()
    printed[4, 2] *= -1
    assert abs(np.linalg.det(printed)) < 1e-15


def test_hexahedral_interpolation_is_eq_27_for_any_lengths():
    l1, l2, l3 = lengths = (0.7, 1.3, 2.1)
    y1, y2, y3 = y = np.array([0.3, -0.8, 0.5])
    N = ROOT * np.array(
        [
            [1 - y2 / l2, -1 - y2 / l2, 0, 0, y3 / l1, y3 / l1],
            [y1 / l2, y1 / l2, 1 - y3 / l3, -1 - y3 / l3, 0, 0],
            [0, 0, y2 / l3, y2 / l3, 1 - y1 / l1, -1 - y1 / l1],
        ]
    )
    c = UnifiedPose.hexahedral(lengths)
    assert np.abs(c.interpolation_matrix(y) - N).max() < 1e-14
    assert np.abs(c.inverse_matrix - c.matrix.T).max() > 0.1  # erratum 2.11: no orthogonal D here


def test_regular_tetrahedron():
    D = UnifiedPose("tetrahedral").matrix
    assert np.abs(D @ D.T - 2 * np.eye(6)).max() < 1e-14
    assert np.linalg.det(D) == pytest.approx(-8)


def test_any_tetrahedron_with_volume_will_do():
    corners = RNG.standard_normal((4, 3))
    c = UnifiedPose.tetrahedral(corners)
    xi = RNG.standard_normal(6)
    assert np.allclose(c.body_velocity(c.unified_velocity(xi)), xi)
    flat = corners * [1, 1, 0]
    with pytest.raises(ModelError, match="rank"):
        UnifiedPose.tetrahedral(flat)
    with pytest.raises(ModelError, match="vertices of the tetrahedron"):
        UnifiedPose.tetrahedral(corners[[0, 0, 1, 2]])


def test_lie_algebra_element():
    """Eq. 70 for unit lengths, and the round trip."""
    w = RNG.standard_normal(6)
    W = UnifiedPose("hexahedral").lie_algebra(w)
    a, b, c = ROOT * (w[0] + w[1]), ROOT * (w[2] + w[3]), ROOT * (w[4] + w[5])
    u = ROOT * (w[::2] - w[1::2])
    assert np.abs(W - np.array([[0, -a, c, u[0]], [a, 0, -b, u[1]], [-c, b, 0, u[2]], [0, 0, 0, 0]])).max() < 1e-15
    c = general_set()
    assert np.allclose(c.unified_velocity(se3.vee(c.lie_algebra(w))), w)


def test_unified_pose_moves_like_a_pose():
    for attitude in ("matrix", "quaternion"):
        c, pose = UnifiedPose.hexahedral((1, 2, 3), attitude=attitude), Pose(attitude)
        q, xi = pose.random(1), RNG.standard_normal(6)
        assert np.abs(c.retract(q, c.unified_velocity(xi)) - pose.retract(q, xi)).max() < 1e-14
        assert np.abs(c.pose(q) - pose.pose(q)).max() == 0
        assert np.abs(c.from_pose(pose.pose(q)) - pose.from_pose(pose.pose(q))).max() == 0


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: UnifiedPose("cubic"), UnknownNameError, "unknown kind of unified velocities 'cubic'"),
        (lambda: UnifiedPose(), ModelError, "need a kind"),
        (lambda: UnifiedPose("hexahedral", points=np.zeros((6, 3))), ModelError, "not both"),
        (lambda: UnifiedPose(points=np.ones((6, 3)), directions=np.eye(6)), ShapeError, r"must have shape \(6, 3\)"),
        (lambda: UnifiedPose(points=np.zeros((6, 3)), directions=np.ones((6, 3))), ModelError, "rank 1 of 6"),
        (lambda: UnifiedPose(points=np.full((6, 3), np.nan), directions=np.ones((6, 3))), ModelError, "regular"),
        (lambda: LinearVelocities(Vector(2), np.eye(3)), ShapeError, r"must have shape \(2, 2\), got \(3, 3\)"),
        (lambda: LinearVelocities(Vector(2), np.eye(2), ("a",)), ModelError, "2 velocity names are needed"),
    ],
)
def test_bad_unified_velocities(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_directions_at_one_point_are_rejected():
    """Six directions at one point do not see the rotation."""
    with pytest.raises(ModelError, match="rank 3 of 6"):
        UnifiedPose(points=np.ones((6, 3)), directions=RNG.standard_normal((6, 3)))


# --- scalable body


def test_point_positions():
    """Eqs 32 and 34 agree: xi = s R y + r = Im(A (0, y) A*) + r."""
    c = ScalablePose()
    q, y = c.random(1, (5,)), RNG.standard_normal((5, 3))
    s, R = c.scale_and_rotation(q)
    A = q[:, 3:]
    product = quaternion.multiply(quaternion.multiply(A, np.c_[np.zeros(5), y]), quaternion.conjugate(A))
    assert np.abs(c.position(q, y) - (s[:, None] * np.matvec(R, y) + q[:, :3])).max() < 1e-14
    assert np.abs(c.position(q, y) - (product[:, 1:] + q[:, :3])).max() < 1e-14


def curve(t):
    """A smooth motion of the scalable body that is not special in any way."""
    return np.array([np.sin(t), t**2, 1 - t, 1.2 + 0.3 * np.sin(t), 0.2 + 0.5 * t, -0.4 * np.cos(2 * t), 0.3 * t**2])


def test_velocities_mean_what_the_paper_says():
    """u = Q q': v = r', nu = s', omega = s R^T Omega with wed(Omega) = R' R^T (eqs 44-49)."""
    c, t, h = ScalablePose(), 0.4, 1e-5
    q, rate = curve(t), (curve(t + h) - curve(t - h)) / (2 * h)
    u = c.left_inverse(q) @ rate
    (s1, R1), (s0, R0), (s, R) = (c.scale_and_rotation(curve(x)) for x in (t + h, t - h, t))
    Omega = so3.vee((R1 - R0) / (2 * h) @ R.T)
    assert np.abs(u[:3] - rate[:3]).max() == 0
    assert u[3] == pytest.approx((s1 - s0) / (2 * h), abs=1e-8)
    assert np.abs(u[4:] - s * R.T @ Omega).max() < 1e-8
    assert np.abs(c.rate(q, u) - rate).max() < 1e-14


def test_velocity_field():
    """xi' = (I, R y, -R wed(y)) u (eqs 39-43)."""
    c, t, h = ScalablePose(), 0.4, 1e-5
    y = np.array([0.3, -0.7, 1.1])
    u = c.left_inverse(curve(t)) @ ((curve(t + h) - curve(t - h)) / (2 * h))
    difference = (c.position(curve(t + h), y) - c.position(curve(t - h), y)) / (2 * h)
    assert np.abs(c.point_jacobian(curve(t), y) @ u - difference).max() < 1e-8
    assert c.point_jacobian(c.random(0, (4,)), y).shape == (4, 3, 7)


def test_inverse_and_identities():
    """Eqs 85, 89, 90: Q^-1, Q^-T Q'^T and Q' q."""
    c, t, h = ScalablePose(), 0.4, 1e-5
    q, rate = curve(t), (curve(t + h) - curve(t - h)) / (2 * h)
    Q = c.left_inverse(q)
    assert np.abs(Q @ c.kinematics_matrix(q) - np.eye(7)).max() < 1e-15
    Q_rate = (c.left_inverse(curve(t + h)) - c.left_inverse(curve(t - h))) / (2 * h)
    u = Q @ rate
    nu, omega = u[3], u[4:]
    expected = np.zeros((7, 7))
    expected[3, 3], expected[3, 4:], expected[4:, 3] = nu, -omega, omega
    expected[4:, 4:] = nu * np.eye(3) + so3.wed(omega)
    s = c.scale_and_rotation(q)[0]
    assert np.abs(c.kinematics_matrix(q).T @ Q_rate.T - expected / (2 * s)).max() < 1e-8
    assert np.abs(Q_rate @ q - np.concatenate([np.zeros(3), [nu], -omega])).max() < 1e-8


def test_without_scaling_velocity_the_scale_stays():
    c = ScalablePose()
    q, delta = c.random(2), np.array([0.1, 0.2, 0.3, 0.0, 1.0, -2.0, 3.0])
    assert c.scale_and_rotation(c.retract(q, delta))[0] == pytest.approx(c.scale_and_rotation(q)[0], rel=1e-15)
    shrunk = c.retract(q, np.array([0, 0, 0, -20.0, 0, 0, 0]))
    assert c.scale_and_rotation(shrunk)[0] > 0


def test_on_the_unit_sphere_it_is_the_rigid_body():
    c = ScalablePose()
    q = Pose("quaternion", "mixed").random(3)
    v = RNG.standard_normal(6)
    u = np.concatenate([v[:3], [0.0], v[3:]])
    assert np.abs(c.rate(q, u) - Pose("quaternion", "mixed").rate(q, v)).max() < 1e-15
    assert np.abs(c.retract(q, u) - Pose("quaternion", "mixed").retract(q, v)).max() < 1e-14
    assert np.abs(c.kinematics_matrix(q)[3:, 4:] - Quaternion().kinematics_matrix(q[3:])).max() < 1e-15


def test_vanishing_quaternion_is_rejected():
    with pytest.raises(ConfigurationError, match=r"\|A\|\^2 = 0"):
        ScalablePose().check(np.zeros(7))
    with pytest.raises(ModelError, match="is not a Lie group"):
        ScalablePose().tangent_inverse(np.zeros(7), np.zeros(7))
    with pytest.raises(ModelError, match="bracket"):
        ScalablePose().tangent_inverse_truncated(np.zeros(7), np.zeros(7))
