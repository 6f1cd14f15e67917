"""Laws that every coordinate block obeys: group displacements, kinematics, projection, symbols, batches."""

import numpy as np
import pytest
from heavytop_mechanics import ScalablePose
from heavytop_mechanics.calculus import commutation_coefficients

from heavytop._arrays import symbol
from heavytop.compile import trace
from heavytop.coordinates import (
    Angle,
    Circle,
    EulerAngles,
    LinearVelocities,
    Pose,
    Product,
    Quaternion,
    Rotation,
    UnifiedPose,
    Vector,
)

MIXER = np.eye(6) + 0.2 * np.random.default_rng(8).standard_normal((6, 6))

BLOCKS = {
    "vector": Vector(3),
    "vector5": Vector(5),
    "angle": Angle(),
    "circle": Circle(),
    "rotation": Rotation(),
    "quaternion": Quaternion(),
    "euler": EulerAngles(),
    "euler rates": EulerAngles("rates"),
    "pose": Pose(),
    "pose quaternion": Pose("quaternion"),
    "pose euler": Pose("euler"),
    "pose mixed": Pose("matrix", "mixed"),
    "pose quaternion mixed": Pose("quaternion", "mixed"),
    "hexahedral": UnifiedPose.hexahedral((0.5, 2.0, 1.5)),
    "tetrahedral": UnifiedPose("tetrahedral", attitude="quaternion"),
    "linear": LinearVelocities(Pose("quaternion", "mixed"), MIXER),
    "scalable": ScalablePose(),
    "product": Product((Pose("quaternion"), Angle(), Circle(), Rotation()), names=("hull", "arm", "wheel", "load")),
    "product with scalable": Product((Vector(0), ScalablePose(), Vector(2))),
}
GROUPS = {name: b for name, b in BLOCKS.items() if b.is_group}

every = pytest.mark.parametrize("c", BLOCKS.values(), ids=BLOCKS.keys())
groups = pytest.mark.parametrize("c", GROUPS.values(), ids=GROUPS.keys())


def points(c, count=20, seed=1):
    """Random configurations; Euler angles stay away from their singularity."""
    q = c.random(np.random.default_rng(seed), (count,))
    for k, name in enumerate(c.q_names):
        if name == "pitch":
            q[:, k] *= 0.6
    return q


def velocities(c, count=20, size=0.6, seed=2):
    """Velocities of length ``size`` or less."""
    return size * np.random.default_rng(seed).uniform(-1, 1, (count, c.nv)) / np.sqrt(c.nv)


@every
def test_sizes_and_names(c):
    q = points(c)
    assert q.shape == (20, c.nq)
    assert len(set(c.q_names)) == c.nq
    assert len(set(c.v_names)) == c.nv
    assert c.constraints(q).shape == (20, len(c.constraint_names))
    assert c.neutral().shape == (c.nq,)
    c.check(c.neutral())
    c.check(q)


@every
def test_random_is_reproducible_and_spread(c):
    assert np.array_equal(c.random(5, (3,)), c.random(np.random.default_rng(5), (3,)))
    assert c.nq == 0 or np.ptp(c.random(5, (50,)), axis=0).min() > 0.5


@every
def test_kinematics_is_tangent_and_left_inverse_is_the_pseudoinverse(c):
    q = points(c)
    A, Y = c.kinematics_matrix(q), c.left_inverse(q)
    assert np.abs(Y @ A - np.eye(c.nv)).max() < 1e-12
    assert np.abs(c.constraint_jacobian(q) @ A).max(initial=0) < 1e-12
    assert np.linalg.matrix_rank(A).tolist() == [c.nv] * len(q)
    assert np.abs(Y - np.linalg.pinv(A)).max() < 1e-11 * np.abs(Y).max()


@every
def test_rate_is_kinematics_times_velocity(c):
    q, v = points(c), velocities(c)
    assert np.abs(c.rate(q, v) - np.matvec(c.kinematics_matrix(q), v)).max() < 1e-13


@every
def test_dimension_is_coordinates_minus_rank_of_constraints(c):
    q = points(c)
    rank = np.linalg.matrix_rank(c.constraint_jacobian(q), tol=1e-9) if c.constraint_names else 0
    assert np.all(c.nq - rank == c.nv)


@every
def test_retract_stays_on_the_manifold_for_large_steps(c):
    q = c.retract(points(c), velocities(c, size=20.0))
    assert np.abs(c.constraints(q)).max(initial=0) < 1e-12
    assert np.all(np.isfinite(q))


@every
def test_kinematics_matrix_is_the_derivative_of_retract(c):
    q, h = points(c), 1e-5
    for i, e in enumerate(np.eye(c.nv)):
        slope = (c.retract(q, h * e) - c.retract(q, -h * e)) / (2 * h)
        assert np.abs(slope - c.kinematics_matrix(q)[..., i]).max() < 1e-8


@every
def test_difference_inverts_retract(c):
    q, v = points(c), velocities(c, size=1.5)
    assert np.abs(c.difference(q, c.retract(q, v)) - v).max() < 1e-11
    assert np.abs(c.difference(q, q)).max() < 1e-12
    other = points(c, seed=3)
    assert np.abs(c.difference(c.retract(q, c.difference(q, other)), other)).max() < 1e-11


@groups
def test_displacements_along_one_direction_add(c):
    q, v = points(c), velocities(c)
    twice = c.integrate(c.integrate(q, v, 0.3), v, 0.5)
    assert np.abs(twice - c.integrate(q, v, 0.8)).max() < 1e-12


@groups
def test_displacement_is_left_invariant(c):
    """The difference of two displaced points does not depend on where the displacement starts."""
    a, b = velocities(c, seed=4), velocities(c, seed=5)
    p, q = points(c, seed=6), points(c, seed=7)
    apart = [c.difference(c.retract(x, a), c.retract(x, b)) for x in (p, q)]
    assert np.abs(apart[0] - apart[1]).max() < 1e-11


@groups
def test_tangent_inverse_moves_with_the_given_velocity(c):
    """d/dt retract(q, delta(t)) = A v when delta' = tangent_inverse(delta, v)."""
    q, delta, v = points(c), velocities(c, size=1.0), velocities(c, seed=9)
    h = 1e-5
    slope = c.tangent_inverse(delta, v)
    moved = (c.retract(q, delta + h * slope) - c.retract(q, delta - h * slope)) / (2 * h)
    expected = c.rate(c.retract(q, delta), v)
    assert np.abs(moved - expected).max() < 2e-8 * max(1, np.abs(expected).max())
    assert np.abs(c.tangent_inverse(0 * delta, v) - v).max() < 1e-14


@groups
def test_bracket_is_the_contraction_of_commutation_coefficients(c):
    a, b = velocities(c, seed=20), velocities(c, seed=21)
    expected = np.einsum("kij,...i,...j->...k", c.commutation(c.neutral()), a, b)
    assert np.abs(c.bracket(a, b) - expected).max() < 1e-14
    assert np.abs(c.bracket(a, b) + c.bracket(b, a)).max() < 1e-14


@groups
def test_truncated_tangent_inverse_is_exact_to_fourth_order(c):
    delta, v = velocities(c, size=1.0), velocities(c, seed=9)
    errors = [
        np.abs(c.tangent_inverse_truncated(s * delta, v) - c.tangent_inverse(s * delta, v)).max() for s in (1, 0.5)
    ]
    assert errors[0] <= np.abs(v).max() / 100
    assert errors[0] < 1e-14 or 14 < errors[0] / errors[1] < 18


@every
def test_project_removes_drift_and_keeps_good_points(c):
    q = points(c)
    assert np.abs(c.project(q) - q).max() < 1e-14
    moved = q + 0.05 * np.random.default_rng(3).standard_normal(q.shape)
    back = c.project(moved)
    assert np.abs(c.constraints(back)).max(initial=0) < 1e-13
    assert np.linalg.norm(back - moved, axis=-1).max() <= 1.5 * np.linalg.norm(q - moved, axis=-1).max()


@every
def test_closed_form_of_commutation_equals_differentiation(c):
    q = points(c, 4)
    assert np.abs(c.commutation(q) - commutation_coefficients(c, q)).max() < 1e-11
    assert c.commutation(q).shape == (4, c.nv, c.nv, c.nv)


@every
def test_symbols_give_the_numbers(c):
    q, v, w = points(c, 5), velocities(c, 5), velocities(c, 5, seed=11)
    dt = np.full(5, 0.1)
    operations = {
        "kinematics_matrix": ((q,), c.kinematics_matrix),
        "left_inverse": ((q,), c.left_inverse),
        "rate": ((q, v), c.rate),
        "retract": ((q, v), c.retract),
        "project": ((q + 0.01,), c.project),
        "integrate": ((q, v), lambda x, y: c.integrate(x, y, 0.1)),
        "difference": ((q, c.retract(q, v)), c.difference),
    }
    if c.constraint_names:
        operations["constraints"] = ((q,), c.constraints)
        operations["constraint_jacobian"] = ((q,), c.constraint_jacobian)
    if c.is_group:
        operations["tangent_inverse"] = ((v, w), c.tangent_inverse)
        operations["tangent_inverse_truncated"] = ((v, w), c.tangent_inverse_truncated)
    for name, (arguments, f) in operations.items():
        traced = trace(f, {f"x{k}": a.shape[1:] for k, a in enumerate(arguments)}, name=name)
        (out,) = traced(*arguments)
        expected = f(*arguments)
        assert out.shape == expected.shape, name
        assert np.abs(out - expected).max(initial=0) < 1e-12, name
    assert np.array_equal(c.integrate(q, v, dt), c.integrate(q, v, 0.1))


@every
def test_symbolic_commutation_reads_like_the_numbers(c):
    q = symbol("q", c.nq)
    gamma = c.commutation(q)
    assert len(gamma) == c.nv
    assert all(g.shape == (c.nv, c.nv) for g in gamma)


@every
def test_batches_broadcast(c):
    q, v = points(c, 6).reshape(2, 3, -1), velocities(c, 3)
    for f in (c.rate, c.retract):
        out = f(q, v)
        assert out.shape == (2, 3, c.nq)
        assert np.allclose(out[1, 2], f(q[1, 2], v[2]), atol=1e-14)
    single = q[0, 0]
    assert c.retract(single, v).shape == (3, c.nq)
    assert c.rate(single, v).shape == (3, c.nq)
    assert c.difference(single, q).shape == (2, 3, c.nv)
    assert c.kinematics_matrix(q).shape == (2, 3, c.nq, c.nv)
    assert c.left_inverse(q).shape == (2, 3, c.nv, c.nq)
    assert c.constraint_jacobian(q).shape == (2, 3, len(c.constraint_names), c.nq)
    assert c.project(q).shape == q.shape
    if c.is_group:
        assert c.tangent_inverse(v, v[0]).shape == (3, c.nv)
    assert c.random(0, (2, 3)).shape == (2, 3, c.nq)
