"""Single blocks: values, names, bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

from heavytop.coordinates import (
    Angle,
    Circle,
    Coordinates,
    EulerAngles,
    Pose,
    Product,
    Quaternion,
    Rotation,
    Vector,
)
from heavytop.errors import ConfigurationError, ModelError, ShapeError, UnknownNameError
from heavytop.geometry import se3, so3

RNG = np.random.default_rng(3)


def test_names():
    assert Rotation().q_names[:4] == ("R_xx", "R_yx", "R_zx", "R_xy")
    assert Pose("quaternion").q_names == ("x", "y", "z", "q_w", "q_x", "q_y", "q_z")
    assert Pose().v_names == ("v_x", "v_y", "v_z", "omega_x", "omega_y", "omega_z")
    assert Vector(2, ("a", "b")).v_names == ("v_a", "v_b")
    assert Vector(4).q_names == ("x1", "x2", "x3", "x4")
    assert (Circle().q_names, Angle().q_names) == (("c", "s"), ("angle",))


def test_blocks_are_values():
    assert Pose("quaternion") == Pose("quaternion") != Pose()
    assert hash(Vector(3)) == hash(Vector(3, ("x", "y", "z")))
    assert Product((Angle(), Circle())) == Product([Angle(), Circle()])
    with pytest.raises(AttributeError):
        Pose().attitude = "euler"


def test_angle_counts_turns_and_circle_does_not():
    assert Angle().difference(np.array([0.0]), np.array([7.0])) == pytest.approx(7.0)
    q = Circle().retract(Circle().neutral(), np.array([7.0]))
    assert Circle().difference(Circle().neutral(), q) == pytest.approx(7.0 - 2 * np.pi)


@pytest.mark.parametrize("attitude", ["matrix", "quaternion", "euler"])
@pytest.mark.parametrize("velocity", ["body", "mixed"])
def test_every_pose_moves_alike(attitude, velocity):
    """The same displacement of the same pose, whatever the coordinates; body velocities displace by exp on SE(3)."""
    G, delta = se3.random(RNG, (6,)), 0.4 * RNG.standard_normal((6, 6))
    c = Pose(attitude, velocity)
    q = c.from_pose(G)
    assert np.abs(c.pose(q) - G).max() < 1e-14
    moved = c.pose(c.retract(q, delta))
    if velocity == "body":
        expected = G @ se3.exp(delta)
        assert (
            np.abs(c.tangent_inverse(delta, delta[::-1]) - np.matvec(se3.tangent_inverse(delta), delta[::-1])).max()
            < 1e-14
        )
    else:
        expected = se3.pose(G[:, :3, :3] @ so3.exp(delta[:, 3:]), G[:, :3, 3] + delta[:, :3])
    assert np.abs(moved - expected).max() < 1e-13


def test_tangent_inverse_beyond_a_half_turn_and_near_zero():
    for size in (0.0, 1e-9, 1e-3, 1.9, 2.1, 3.2, 3.6, 6.0):
        delta = np.concatenate([RNG.standard_normal(3), size * so3.unit_axis(RNG.standard_normal(3))])
        v = RNG.standard_normal(6)
        back = np.matvec(se3.tangent(delta), Pose().tangent_inverse(delta, v))
        assert np.abs(back - v).max() < 1e-11
        assert np.abs(so3.tangent(delta[3:]) @ Rotation().tangent_inverse(delta[3:], v[3:]) - v[3:]).max() < 1e-12


def test_displacement_and_tangent_operator_agree_with_60_digits():
    """Golden samples of exp and of the inverse tangent operator of SE(3), small and large angles."""
    golden = json.loads((Path(__file__).parents[2] / "golden" / "d_se3.json").read_text(encoding="utf-8"))
    pose, origin = Pose("quaternion"), Pose("quaternion").neutral()
    for sample in golden["samples"]:
        xi = np.array(sample["xi_[v,omega]"])
        assert np.abs(pose.pose(pose.retract(origin, xi)) - sample["exp_SE3"]).max() < 1e-13, sample["label"]
        inverse = np.array(sample["T_SE3_inv=dexpinv(-xi)"])
        columns = pose.tangent_inverse(xi, np.eye(6)).T
        assert np.abs(columns - inverse).max() < 1e-12 * np.abs(inverse).max(), sample["label"]


def test_quaternion_difference_takes_the_short_way():
    q = Quaternion().random(1)
    delta = np.array([0.3, -0.2, 0.1])
    assert np.allclose(Quaternion().difference(-q, Quaternion().retract(q, delta)), delta)


def test_euler_angles_are_singular_at_pitch_90_degrees():
    q = np.array([0.2, np.pi / 2, 0.1])
    assert np.abs(EulerAngles().kinematics_matrix(q)).max() > 1e15
    assert np.abs(Rotation().kinematics_matrix(Rotation().from_rotation_matrix(so3.from_roll_pitch_yaw(q)))).max() <= 1
    assert np.array_equal(EulerAngles("rates").kinematics_matrix(q), np.eye(3))


def test_projection_finds_the_nearest_rotation():
    """Newton's iteration gives the polar factor: the rotation that the singular value decomposition gives."""
    M = so3.random(RNG, (10,)) + 0.1 * RNG.standard_normal((10, 3, 3))
    U, _, Vt = np.linalg.svd(M)
    projected = Rotation().rotation_matrix(Rotation().project(Rotation().from_rotation_matrix(M)))
    assert np.abs(projected - U @ Vt).max() < 1e-13


def test_product_gives_parts_by_name():
    c = Product((Pose("quaternion"), Angle(), Rotation()), names=("hull", "arm", "load"))
    assert (c.q_slice("load"), c.v_slice("arm")) == (slice(8, 17), slice(6, 7))
    assert [p.shape for p in c.split_q(c.random(0, (2,)))] == [(2, 7), (2, 1), (2, 9)]
    assert c.q_names[6:9] == ("hull.q_z", "arm.angle", "load.R_xx")
    with pytest.raises(UnknownNameError, match="'lod'.*'load'"):
        c.q_slice("lod")


def test_empty_product():
    c = Product(())
    assert (c.nq, c.nv, c.is_group) == (0, 0, True)
    q = c.random(0, (3,))
    assert q.shape == (3, 0)
    assert c.neutral().shape == (0,)
    assert c.kinematics_matrix(np.zeros(0)).shape == (0, 0)


# --- bad input


def test_wrong_length_lists_the_coordinates():
    with pytest.raises(
        ShapeError, match=r"start must have shape \(..., 4\), got \(3,\). The coordinates are w, x, y, z."
    ):
        Quaternion().check(np.zeros(3), "start")
    with pytest.raises(ShapeError):
        Quaternion().check(1.0)


def test_nan_is_named():
    q = np.tile(Pose("quaternion").neutral(), (3, 1))
    q[1, 4] = np.nan
    with pytest.raises(ConfigurationError, match=r"q must be finite, got q_x = nan at index \(1,\)"):
        Pose("quaternion").check(q)


def test_violated_constraint_is_named_with_size_and_remedy():
    q = Rotation().random(1, (4,))
    q[2] *= 1.01
    with pytest.raises(ConfigurationError, match=r"off its manifold at index \(2,\): det R - 1 = 0.0303.*project\(q\)"):
        Rotation().check(q)
    with pytest.raises(ConfigurationError, match=r"w\^2 \+ x\^2 \+ y\^2 \+ z\^2 - 1 = 3 \(tolerance 1e-06\)"):
        Quaternion().check([2.0, 0, 0, 0])


def test_tolerance_has_two_sides():
    assert np.array_equal(Circle().check([1 + 4e-7, 0.0]), [1 + 4e-7, 0.0])
    with pytest.raises(ConfigurationError):
        Circle().check([1 + 6e-7, 0.0])
    Circle().check([1.01, 0.0], tolerance=0.1)


def test_reflection_is_rejected_with_its_reason():
    mirrored = np.diag([1.0, 1.0, -1.0])
    with pytest.raises(ConfigurationError, match=r"det R - 1 = -2.*reflection"):
        Rotation().check(Rotation().from_rotation_matrix(mirrored))
    with pytest.raises(ConfigurationError, match="reflection"):
        Pose().check(np.concatenate([np.zeros(3), np.diag([1.0, 1.0, -1.0]).reshape(-1)]))


def test_product_names_the_block():
    c = Product((Pose("quaternion"), Circle()), names=("hull", "wheel"))
    q = c.neutral()
    q[7] = 1.1
    with pytest.raises(ConfigurationError, match=r"start of 'wheel' is off its manifold: c\^2 \+ s\^2 - 1 = 0.21"):
        c.check(q, "start")
    with pytest.raises(ShapeError, match=r"must have shape \(..., 9\), got \(8,\)"):
        c.check(q[:8])
    assert np.array_equal(c.check(c.neutral()), c.neutral())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Vector(-1), "Vector.*got -1"),
        (lambda: Vector(2, ("a", "a")), "needs 2 distinct names"),
        (lambda: Pose("matrx"), "'matrx'.*'matrix'"),
        (lambda: Pose(velocity="boddy"), "'boddy'.*'body'"),
        (lambda: EulerAngles("world"), "must be 'body' or 'rates', got 'world'"),
        (lambda: Product((Angle(), Angle()), names=("a", "a")), "needs as many distinct names"),
    ],
)
def test_bad_construction(make, text):
    with pytest.raises(ModelError, match=text):
        make()


def test_the_interface_is_abstract():
    with pytest.raises(TypeError):
        Coordinates()
