"""Each function on numbers, on batches and on symbols; derivatives at the delicate points."""

import numpy as np
import pytest

from heavytop.compile import trace
from heavytop.geometry import critical_points, linalg, polar, quaternion as quat, se3, so3, spatial

RNG = np.random.default_rng(41)
BATCH = (2, 3)
SAMPLES = {
    "vector": lambda: RNG.standard_normal((*BATCH, 3)),
    "twist": lambda: RNG.standard_normal((*BATCH, 6)),
    "rotation": lambda: so3.random(RNG, BATCH),
    "pose": lambda: se3.random(RNG, BATCH),
    "quaternion": lambda: RNG.standard_normal((*BATCH, 4)),
    "unit": lambda: quat.normalize(RNG.standard_normal((*BATCH, 4))),
    "matrix3": lambda: RNG.standard_normal((*BATCH, 3, 3)),
    "matrix4": lambda: RNG.standard_normal((*BATCH, 4, 4)),
    "matrix6": lambda: RNG.standard_normal((*BATCH, 6, 6)),
    "tall": lambda: RNG.standard_normal((*BATCH, 5, 2)),
    "scalar": lambda: RNG.uniform(0.1, 2.0, BATCH),
}


def rotation_about_tilted_axis(angle):
    return so3.rotation_about([1.0, 2.0, -2.0], angle)


def rotation_about_z(angle):
    return so3.rotation_about("z", angle)


FUNCTIONS = [
    *((f, "vector") for f in (so3.wed, so3.exp, so3.tangent, so3.tangent_inverse, so3.cayley, so3.cayley_tangent)),
    *((f, "vector") for f in (so3.cayley_tangent_inverse, so3.from_roll_pitch_yaw, so3.roll_pitch_yaw_rates, quat.exp)),
    *((f, "vector") for f in (so3.unit_axis, spatial.prismatic_screw)),
    *((f, "rotation") for f in (so3.log, so3.angle, so3.inverse, so3.cayley_inverse, so3.to_roll_pitch_yaw)),
    (quat.quaternion_from_rotation, "rotation"),
    *((f, "matrix3") for f in (so3.vee, so3.vee2, so3.Vee, so3.Wed, so3.trace)),
    *((f, "twist") for f in (se3.wed, se3.ad, se3.exp, se3.tangent, se3.tangent_inverse, se3.cayley)),
    *((f, "twist") for f in (se3.cayley_tangent_inverse, spatial.crm, spatial.crf, spatial.swap)),
    *((f, "pose") for f in (se3.rotation, se3.position, se3.inverse, se3.Ad, se3.Ad_inverse, se3.log)),
    *((f, "pose") for f in (spatial.motion_transform, spatial.motion_transform_inverse, spatial.force_transform)),
    (spatial.force_transform_inverse, "pose"),
    *((f, "matrix4") for f in (se3.vee, se3.vee2, se3.Vee)),
    *((f, "matrix6") for f in (se3.Wed, spatial.swap_matrix)),
    *((f, "quaternion") for f in (quat.conjugate, quat.norm, quat.normalize, quat.inverse, quat.left_matrix)),
    *(
        (f, "quaternion")
        for f in (quat.right_matrix, quat.rate_matrix, quat.scaled_rotation, quat.real, quat.imaginary)
    ),
    (quat.scale_rotation_from_quaternion, "quaternion"),
    *((f, "unit") for f in (quat.rotation_from_quaternion, quat.log)),
    *((f, "quaternion", "quaternion") for f in (quat.multiply, quat.angular_velocity)),
    (quat.quaternion_from_scale_rotation, "scalar", "rotation"),
    (rotation_about_tilted_axis, "scalar"),
    (rotation_about_z, "scalar"),
    (so3.rotation_from_circle, "vector", "scalar", "scalar"),
    (se3.pose, "rotation", "vector"),
    (se3.transform, "pose", "vector"),
    (spatial.twist_of_motion, "pose", "twist"),
    *((f, "twist", "vector") for f in (spatial.point_velocity, spatial.shift_twist, spatial.shift_wrench)),
    (spatial.point_acceleration, "twist", "twist", "vector"),
    (spatial.acceleration_from_point, "twist", "vector", "vector", "vector"),
    *((f, "twist", "twist") for f in (spatial.cross_motion, spatial.cross_force, spatial.power)),
    *((f, "twist", "twist", "twist") for f in (spatial.derivative_in_frame, spatial.force_derivative_in_frame)),
    (spatial.wrench_of_force, "vector", "vector"),
    (spatial.revolute_screw, "vector", "vector"),
    *((f, "matrix3", "rotation") for f in (critical_points.value, critical_points.gradient, critical_points.hessian)),
    (polar.navigation_function, "rotation", "rotation", "matrix3"),
    (linalg.inner, "matrix3", "matrix3", "matrix3"),
    (linalg.left_inverse, "tall"),
]


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize(
    ("function", "kinds"), [(f, k) for f, *k in FUNCTIONS], ids=[f.__qualname__ for f, *_ in FUNCTIONS]
)
def test_symbols_batches_and_single_numbers_agree(function, kinds):
    arguments = [SAMPLES[kind]() for kind in kinds]
    shapes = [a.shape[len(BATCH) :] for a in arguments]
    traced = trace(function, {f"x{i}": shape for i, shape in enumerate(shapes)})
    batched = as_tuple(function(*arguments))
    for got, expected in zip(traced.interpret(*arguments), batched, strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-14, atol=2e-15)
    for index in np.ndindex(BATCH):
        single = as_tuple(function(*(a[index] for a in arguments)))
        for one, many in zip(single, batched, strict=True):
            np.testing.assert_allclose(one, many[index], rtol=1e-14, atol=1e-15)
    # one argument without batch axes broadcasts against the others
    mixed = as_tuple(function(arguments[0][0, 0], *arguments[1:]))
    reference = as_tuple(function(np.broadcast_to(arguments[0][0, 0], arguments[0].shape), *arguments[1:]))
    for a, b in zip(mixed, reference, strict=True):
        np.testing.assert_allclose(np.broadcast_to(a, b.shape), b, rtol=1e-14, atol=1e-15)


def jacobian(function, point):
    import casadi

    traced = trace(function, {"x": point.shape})
    x = casadi.SX.sym("x", point.size)
    (y,) = traced.function.call([x])
    return casadi.Function("J", [x], [casadi.jacobian(y, x)])(point.ravel()).full()


AT_ZERO = [
    *((f, 3) for f in (so3.exp, so3.tangent, so3.tangent_inverse, so3.cayley, quat.exp)),
    *((f, 6) for f in (se3.exp, se3.tangent, se3.tangent_inverse, se3.cayley)),
]


@pytest.mark.parametrize(("function", "size"), AT_ZERO, ids=[f"{f.__module__[-3:]}.{f.__name__}" for f, _ in AT_ZERO])
@pytest.mark.parametrize(
    "scale", [0.0, 1e-200, 1e-9, 0.9999999999999999, 1.0000000000000002, 2.0, 3.4641016151377544, 6.0]
)
def test_derivatives_equal_finite_differences_everywhere(function, size, scale):
    direction = np.linspace(-0.5, 0.7, size)
    direction[-3:] = [0.48, -0.6, 0.64]
    x = scale * direction
    J = jacobian(function, x)
    assert np.all(np.isfinite(J))
    h = 2e-3
    for j, e in enumerate(np.eye(size)):
        f = [function(x + k * h * e).ravel() for k in (-2, -1, 1, 2)]
        numeric = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        np.testing.assert_allclose(J[:, j], numeric, rtol=2e-6, atol=1e-9)


HALF_TURNS = [
    np.diag([1.0, -1, -1]),
    np.diag([-1.0, 1, -1]),
    np.diag([-1.0, -1, 1]),
    so3.exp(np.pi * np.array([0.6, 0, 0.8])),
]


@pytest.mark.parametrize("R", [np.eye(3), so3.exp([1e-9, 0, 0]), so3.exp([0.4, 0, 0]), so3.exp([0, 2, 2]), *HALF_TURNS])
def test_derivative_of_log_is_the_inverse_tangent(R):
    J = jacobian(so3.log, R)
    assert np.all(np.isfinite(J))
    along = np.stack([(R @ so3.wed(e)).ravel() for e in np.eye(3)], axis=1)
    np.testing.assert_allclose(J @ along, so3.tangent_inverse(so3.log(R)), atol=1e-12)


@pytest.mark.parametrize("w", [1.0, -1.0, 0.0])
def test_derivative_of_the_quaternion_logarithm_is_finite(w):
    q = np.array([w, 0.0, 0.0, np.sqrt(1 - w * w)])
    J = jacobian(quat.log, q)
    assert np.all(np.isfinite(J))
    np.testing.assert_allclose(J @ (0.5 * quat.rate_matrix(q)), so3.tangent_inverse(quat.log(q)), atol=1e-14)


def test_derivative_of_the_angle_at_the_identity_is_finite():
    assert np.all(np.isfinite(jacobian(so3.angle, np.eye(3))))


def test_rotation_about_a_coordinate_axis_traces_to_cosine_and_sine_only():
    assert trace(rotation_about_z, {"angle": ()}).function.n_instructions() <= 1 + 9 + 9
    assert trace(so3.exp, {"phi": (3,)}).instructions < 110


def test_many_symbolic_points():
    G, points = se3.random(RNG), RNG.standard_normal((4, 3))
    traced = trace(se3.transform, {"G": (4, 4), "points": (4, 3)})
    np.testing.assert_allclose(traced.interpret(G, points)[0], se3.transform(G, points), atol=1e-14)


def test_lists_of_symbols_are_taken():
    traced = trace(lambda a, b: so3.wed([a, b, 0.0]), {"a": (), "b": ()})
    np.testing.assert_array_equal(traced.interpret(1.0, 2.0)[0], so3.wed([1.0, 2.0, 0.0]))
