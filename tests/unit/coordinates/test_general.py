"""Coordinates from user-given functions: checks at construction, steps, differences, bad input."""

import math

import numpy as np
import pytest
from heavytop_mechanics.calculus import commutation_coefficients, contains

from heavytop._arrays import vector
from heavytop.compile import trace
from heavytop.coordinates import GeneralCoordinates, Quaternion, Rotation
from heavytop.errors import ConfigurationError, ModelError, ShapeError


def ellipse():
    return GeneralCoordinates(
        lambda q: [[-2 * q[1]], [q[0] / 2]],
        lambda q: [q[0] ** 2 / 4 + q[1] ** 2 - 1],
        nq=2,
        nv=1,
        q_names=("x", "y"),
        v_names=("rate",),
        neutral=[2.0, 0.0],
    )


def torus():
    """A torus of radii 2 and 1, with unit tangent vectors as velocities."""

    def A(q):
        x, y, z = q[0], q[1], q[2]
        r = np.sqrt(x * x + y * y)
        return [[-y, -z * x / r], [x, -z * y / r], [0.0, r - 2]]

    return GeneralCoordinates(
        A, lambda q: [(np.sqrt(q[0] ** 2 + q[1] ** 2) - 2) ** 2 + q[2] ** 2 - 1], nq=3, nv=2, neutral=[3.0, 0, 0]
    )


def rotation():
    """SO(3) as the user would write it, with the dependent determinant."""
    return GeneralCoordinates(
        Rotation().kinematics_matrix, Rotation().constraints, nq=9, nv=3, neutral=Rotation().neutral()
    )


EXAMPLES = {"ellipse": ellipse(), "torus": torus(), "rotation": rotation()}
every = pytest.mark.parametrize("c", EXAMPLES.values(), ids=EXAMPLES.keys())


@every
def test_points_and_neutral_are_on_the_manifold(c):
    assert contains(c, c.neutral())
    q = c.random(3, (5, 2))
    assert q.shape == (5, 2, c.nq)
    assert contains(c, q, 1e-10).all()
    assert contains(c, c.random(1), 1e-10)
    assert not c.is_group


@every
def test_left_inverse_and_constraint_jacobian(c):
    q = c.random(4, (6,))
    A = c.kinematics_matrix(q)
    assert np.abs(c.left_inverse(q) @ A - np.eye(c.nv)).max() < 1e-12
    assert np.abs(c.left_inverse(q) - np.linalg.pinv(A)).max() < 1e-11
    assert np.abs(c.constraint_jacobian(q) @ A).max() < 1e-9


@every
def test_retract_and_difference(c):
    q = c.random(5, (6,))
    delta = np.random.default_rng(0).uniform(-0.3, 0.3, (6, c.nv))
    moved = c.retract(q, delta)
    assert np.abs(c.constraints(moved)).max() < 1e-13
    assert np.abs(c.difference(q, moved) - delta).max() < 1e-9
    h = 1e-5
    for i, e in enumerate(np.eye(c.nv)):
        slope = (c.retract(q, h * e) - c.retract(q, -h * e)) / (2 * h)
        assert np.abs(slope - c.kinematics_matrix(q)[..., i]).max() < 1e-7


@every
def test_symbols_give_the_numbers(c):
    q, v = c.random(6, (3,)), 0.2 * np.ones((3, c.nv))
    (out,) = trace(c.retract, {"q": (c.nq,), "v": (c.nv,)})(q, v)
    assert np.abs(out - c.retract(q, v)).max() < 1e-12
    (out,) = trace(c.left_inverse, {"q": (c.nq,)})(q)
    assert np.abs(out - c.left_inverse(q)).max() < 1e-12


def test_general_rotation_equals_the_block():
    q = Rotation().random(1, (3,))
    assert np.abs(commutation_coefficients(EXAMPLES["rotation"], q) - Rotation().commutation(q)).max() < 1e-12
    near = Rotation().retract(q, 0.01 * np.ones(3))
    assert np.abs(EXAMPLES["rotation"].retract(q, 0.01 * np.ones(3)) - near).max() < 1e-4


def test_user_functions_may_return_arrays_or_lists():
    forms = (
        lambda q: [[-q[1]], [q[0]]],
        lambda q: np.reshape(vector(-q[1], q[0]), (2, 1)),
    )
    for A in forms:
        c = GeneralCoordinates(A, lambda q: vector(np.vecdot(q, q) - 1), nq=2, nv=1)
        assert np.allclose(c.kinematics_matrix(np.array([0.6, 0.8])), [[-0.8], [0.6]])


def test_without_constraints_every_point_is_a_configuration():
    c = GeneralCoordinates(lambda q: [[1.0, 0.0], [q[0], 1.0]], nq=2, nv=2)
    assert c.constraint_names == ()
    assert np.allclose(c.retract(np.array([1.0, 2.0]), np.array([0.5, 0.0])), [1.5, 2.5])
    assert np.array_equal(c.neutral(), [0, 0])
    assert c.random(0, (4,)).shape == (4, 2)


def test_violated_constraint_is_named_with_its_size():
    with pytest.raises(ModelError, match=r"'rate' changes 'norm' at the rate .* at q = \[") as error:
        GeneralCoordinates(
            lambda q: [[q[1]], [q[0]]],
            lambda q: [q[0] ** 2 + q[1] ** 2 - 1],
            nq=2,
            nv=1,
            v_names=("rate",),
            constraint_names=("norm",),
        )
    assert "dphi/dq A must vanish (eq. 2.4)" in str(error.value)


def test_rank_of_the_kinematics_matrix_is_checked():
    with pytest.raises(ModelError, match="nv = 2, got 1 at q = "):
        GeneralCoordinates(lambda q: [[1.0, 2.0], [q[0], 2 * q[0]]], nq=2, nv=2)


def test_dimension_is_checked():
    with pytest.raises(ModelError, match=r"dimension nq - rank dphi/dq = 4 - 0 = 4 \(eq. 2.2\), but nv = 3"):
        GeneralCoordinates(Quaternion().kinematics_matrix, nq=4, nv=3, neutral=[1.0, 0, 0, 0])


def test_wrong_shapes_are_named():
    with pytest.raises(ShapeError, match=r"kinematics_matrix\(q\) must have shape \(2, 2\), got \(2, 1\)"):
        GeneralCoordinates(lambda q: [[-q[1]], [q[0]]], nq=2, nv=2)
    with pytest.raises(ShapeError, match=r"constraints\(q\) must have shape \(m,\), got \(\)"):
        GeneralCoordinates(lambda q: [[-q[1]], [q[0]]], lambda q: q[0] ** 2 + q[1] ** 2 - 1, nq=2, nv=1)
    with pytest.raises(ModelError, match="2 distinct names"):
        GeneralCoordinates(lambda q: [[-q[1]], [q[0]]], nq=2, nv=1, q_names=("x", "x"))


def test_functions_that_fail_on_symbols_are_explained():
    good = lambda q: [[-q[1]], [q[0]]]  # noqa: E731
    with pytest.raises(ModelError, match="constraints turned a symbol into the number nan"):
        GeneralCoordinates(good, lambda q: [math.sin(q[0])], nq=2, nv=1)
    with pytest.raises(ModelError, match="kinematics_matrix fails on symbols"):
        GeneralCoordinates(lambda q: np.array([[-q[1]], [q[0]]]), nq=2, nv=1)
    with pytest.raises(ModelError, match="kinematics_matrix fails on symbols"):
        GeneralCoordinates(lambda q: good(q) if q[0] > 0 else good(-q), nq=2, nv=1)
    with pytest.raises(ModelError, match="kinematics_matrix fails on symbols"):
        GeneralCoordinates(lambda q: [[q[7]], [q[0]]], nq=2, nv=1)


def test_neutral_must_be_on_the_manifold():
    with pytest.raises(ConfigurationError, match=r"neutral is off its manifold: phi_1 = 3 \(tolerance 1e-06\)"):
        GeneralCoordinates(
            lambda q: [[-q[1]], [q[0]]], lambda q: [q[0] ** 2 + q[1] ** 2 - 1], nq=2, nv=1, neutral=[2, 0]
        )


def test_constraints_without_solution_are_reported():
    with pytest.raises(ConfigurationError, match="did not reach phi"):
        GeneralCoordinates(lambda q: [[-q[1]], [q[0]]], lambda q: [q[0] ** 2 + q[1] ** 2 + 1], nq=2, nv=1)


def test_infinite_kinematics_matrix_is_reported():
    with pytest.raises(ModelError, match=r"kinematics_matrix\(q\) is not finite at q = "):
        GeneralCoordinates(lambda q: [[1 / q[0]]], nq=1, nv=1)


def test_difference_of_distant_points_is_rejected():
    c = EXAMPLES["rotation"]
    q0 = Rotation().neutral()
    q1 = Rotation().retract(q0, np.array([0, 0, 3.0]))
    with pytest.raises(ConfigurationError, match="too far apart"):
        c.difference(q0, q1)


def test_no_tangent_inverse_without_group():
    with pytest.raises(ModelError, match="projected_rk4"):
        ellipse().tangent_inverse(np.zeros(1), np.ones(1))


def test_velocities_in_world_coordinates():
    """SO(3) with the world angular velocity: the commutation coefficients change sign."""
    c = GeneralCoordinates(
        lambda q: Rotation().kinematics_matrix(q) @ Rotation().rotation_matrix(q).T,
        Rotation().constraints,
        nq=9,
        nv=3,
        neutral=Rotation().neutral(),
    )
    q = Rotation().random(2)
    assert np.abs(commutation_coefficients(c, q) + Rotation().commutation(q)).max() < 1e-12


def test_too_few_velocities_contradict_the_dimension():
    with pytest.raises(ModelError, match=r"dimension nq - rank dphi/dq = 3 - 1 = 2 .* nv = 1"):
        GeneralCoordinates(
            lambda q: [[-q[1]], [q[0]], [0.0]], lambda q: [q[0] ** 2 + q[1] ** 2 + q[2] ** 2 - 1], nq=3, nv=1
        )
