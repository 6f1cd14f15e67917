"""The calculus of sections 2.1 and 2.2 of the thesis: acceptance statements K10 to K28, with the errata."""

import numpy as np
import pytest
from heavytop_mechanics.calculus import (
    commutation_coefficients,
    connection_coefficients,
    constraint_derivatives,
    contains,
    critical_point,
    deviation,
    dimension,
    directional_derivatives,
    is_integrable,
    linear_coefficients,
    projectors,
    raise_first_index,
    riemannian_hessian,
    second_derivatives,
    taylor,
    velocity_deviation,
)
from scipy.integrate import solve_ivp

from heavytop._arrays import matrix, symbol, unflatten_columns, vector
from heavytop.coordinates import (
    Angle,
    Circle,
    EulerAngles,
    GeneralCoordinates,
    Pose,
    Product,
    Quaternion,
    Rotation,
    Vector,
)
from heavytop.errors import ConfigurationError, ModelError
from heavytop.geometry import linalg, se3, so3

RNG = np.random.default_rng(42)
EPS = np.array([[[(i - j) * (j - k) * (k - i) / 2 for k in range(3)] for j in range(3)] for i in range(3)])
# example 6: hull, load, three arms that tilt (cos, sin) and three propellers that turn
TRICOPTER = Product((Pose(), Rotation(), *[Circle()] * 3, *[Angle()] * 3))


def potential_on(attitude):
    """A potential of the attitude, -tr(P R) + a nonlinear term, that every attitude block can compute."""
    weight = np.array([[1.0, 0.3, -0.2], [0.1, 2.0, 0.4], [0.5, -0.3, 3.0]])

    def potential(q):
        R = attitude.rotation_matrix(q)
        return np.sum(weight * R) + R[0, 1] * R[2, 2] + R[1, 0] ** 2

    return potential


def rk4(coordinates, q, v_of_t, t, steps):
    """Integrate q' = A(q) v(t) by the classical Runge-Kutta scheme."""
    h = t / steps
    for k in range(steps):
        s = k * h
        k1 = coordinates.rate(q, v_of_t(s))
        k2 = coordinates.rate(q + h / 2 * k1, v_of_t(s + h / 2))
        k3 = coordinates.rate(q + h / 2 * k2, v_of_t(s + h / 2))
        k4 = coordinates.rate(q + h * k3, v_of_t(s + h))
        q = q + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return q


# --- K10 to K13: the manifold


def test_rotations_are_members_and_reflections_are_not():
    R = so3.random(RNG, (5,))
    q = Rotation().from_rotation_matrix(R)
    assert contains(Rotation(), q).all()
    reflection = Rotation().from_rotation_matrix(R @ np.diag([1.0, 1.0, -1.0]))
    assert not contains(Rotation(), reflection).any()
    # only the determinant distinguishes them
    assert np.abs(Rotation().constraints(reflection)[:, :6]).max() < 1e-14
    assert np.allclose(Rotation().constraints(reflection)[:, 6], -2)


@pytest.mark.parametrize(
    ("coordinates", "n"),
    [(Circle(), 1), (Rotation(), 3), (Pose(), 6), (TRICOPTER, 15), (Quaternion(), 3), (Vector(4), 4)],
)
def test_dimension_is_nq_minus_rank(coordinates, n):
    q = coordinates.random(RNG, (4,))
    assert dimension(coordinates, q).tolist() == [n] * 4
    assert coordinates.nv == n


def test_tricopter_has_30_coordinates_and_17_constraints():
    assert (TRICOPTER.nq, TRICOPTER.nv, len(TRICOPTER.constraint_names)) == (30, 15, 17)


@pytest.mark.parametrize("coordinates", [Circle(), Rotation(), Quaternion(), Pose("quaternion"), TRICOPTER])
def test_hidden_constraints_vanish_along_any_curve(coordinates):
    q = coordinates.random(RNG, (3,))
    v, a = RNG.standard_normal((2, 3, coordinates.nv))
    for part in constraint_derivatives(coordinates, q, v, a):
        assert part.shape == (3, len(coordinates.constraint_names))
        assert np.abs(part).max() < 1e-13


def test_hidden_constraints_are_time_derivatives_off_the_manifold():
    """Away from phi = 0 they do not vanish, and agree with differences in time."""
    c, h = Circle(), 1e-4
    sheared = GeneralCoordinates(
        lambda q: [[-2 * q[1]], [q[0] / 2]], lambda q: [q[0] ** 2 / 4 + q[1] ** 2 - 1], nq=2, nv=1, neutral=[2.0, 0.0]
    )
    q, v, a = np.array([1.1, 0.7]), np.array([0.9]), np.array([-0.4])
    phi = lambda t: c.constraints(rk4(sheared, q, lambda s: v + a * s, t, 4))  # noqa: E731

    class Mixed(Circle):  # the constraint of the circle along the curves of the ellipse
        def rate(self, q, v):
            return sheared.rate(q, v)

    value, first, second = constraint_derivatives(Mixed(), q, v, a)
    assert np.allclose(value, phi(0.0))
    assert np.allclose(first, (phi(h) - phi(-h)) / (2 * h), atol=1e-7)
    assert np.allclose(second, (phi(h) - 2 * phi(0.0) + phi(-h)) / h**2, atol=1e-6)
    assert abs(first[0]) > 0.1


def test_without_constraints_there_are_no_derivatives():
    assert [p.shape for p in constraint_derivatives(Vector(2), np.zeros(2), np.ones(2), np.ones(2))] == [(0,)] * 3


# --- K14, K15: examples 1 and 2


def test_circle_example():
    q = np.array([0.6, 0.8])
    assert np.array_equal(Circle().kinematics_matrix(q), [[-0.8], [0.6]])
    run = solve_ivp(lambda t, q: Circle().rate(q, np.array([1 + np.sin(t)])), (0, 10), q, rtol=1e-12, atol=1e-13)
    assert np.abs(Circle().constraints(run.y.T)).max() < 1e-10


def test_rotation_example_with_full_rank_also_at_45_degrees():
    special = Rotation().from_rotation_matrix(so3.rotation_about("z", np.pi / 4))
    q = np.concatenate([special[None], Rotation().random(RNG, (6,))])
    A, phi = Rotation().kinematics_matrix(q), Rotation().constraint_jacobian(q)
    assert np.abs(phi @ A).max() < 1e-14
    assert np.linalg.matrix_rank(phi, tol=1e-9).tolist() == [6] * 7
    omega = RNG.standard_normal((7, 3))
    rate = unflatten_columns(Rotation().rate(q, omega), 3)
    assert np.abs(rate - unflatten_columns(q, 3) @ so3.wed(omega)).max() < 1e-15


def test_the_printed_constraints_lose_rank_at_45_degrees():
    """Erratum 0.2: row norms mixed with column products have rank 5 there, hence n = 4 and an error."""

    def printed(q):
        R = unflatten_columns(q, 3)
        rows = [np.vecdot(R[i, :], R[i, :]) - 1 for i in range(3)]
        columns = [np.vecdot(R[:, i], R[:, j]) for i, j in ((1, 2), (0, 2), (0, 1))]
        return vector(*rows, *columns, np.vecdot(np.cross(R[:, 0], R[:, 1]), R[:, 2]) - 1)

    special = Rotation().from_rotation_matrix(so3.rotation_about("z", np.pi / 4))
    generic = Rotation().random(RNG, (3,))
    arguments = (Rotation().kinematics_matrix, printed)
    good = GeneralCoordinates(*arguments, nq=9, nv=3, neutral=generic[0], samples=generic)
    assert dimension(good, generic).tolist() == [3, 3, 3]
    assert dimension(good, special) == 4
    with pytest.raises(ModelError, match=r"dimension nq - rank dphi/dq = 9 - 5 = 4 \(eq. 2.2\), but nv = 3 at q"):
        GeneralCoordinates(*arguments, nq=9, nv=3, neutral=special, samples=special)


def test_rows_instead_of_columns_violate_the_constraints():
    """Erratum 0.3: x listed row by row does not fit the kinematics matrix (2.7)."""
    order = np.arange(9).reshape(3, 3).T.reshape(-1)

    def by_rows(q):
        A = Rotation().kinematics_matrix(q)
        return matrix([[A[int(i), j] for j in range(3)] for i in order])

    with pytest.raises(ModelError, match="violates the constraints: dphi/dq A must vanish"):
        GeneralCoordinates(by_rows, Rotation().constraints, nq=9, nv=3, neutral=Rotation().random(1))


# --- K18: projectors


@pytest.mark.parametrize("coordinates", [Circle(), Rotation(), Quaternion(), Pose(), Pose("quaternion"), TRICOPTER])
def test_projectors_and_identity(coordinates):
    q = coordinates.random(RNG, (3,))
    tangent, complement = projectors(coordinates, q)
    assert np.abs(tangent + complement - np.eye(coordinates.nq)).max() < 1e-12
    for p in (tangent, complement):
        assert np.abs(p @ p - p).max() < 1e-12
        assert np.abs(p - np.swapaxes(p, -1, -2)).max() < 1e-12
    phi, Y = coordinates.constraint_jacobian(q), coordinates.left_inverse(q)
    psi = linalg.pseudo_inverse(phi, 1e-12)
    assert np.abs(np.swapaxes(psi, -1, -2) @ coordinates.kinematics_matrix(q)).max() < 1e-12
    assert np.abs(phi @ np.swapaxes(Y, -1, -2)).max() < 1e-12  # erratum 0.4
    assert np.abs(Y @ psi).max() < 1e-12


# --- K19 to K22: derivatives of functions


def test_taylor_remainder_is_of_third_order():
    c, V = Rotation(), potential_on(Rotation())
    q, v, a = c.random(3), np.array([0.4, -0.7, 0.5]), np.array([0.3, 0.2, -0.6])
    value, first, second = taylor(c, V, q, v, a)
    times = np.array([0.4, 0.2, 0.1, 0.05])
    exact = np.array([V(rk4(c, q, lambda s: v + a * s, t, 200)) for t in times])
    remainder = np.abs(exact - (value + times * first + times**2 / 2 * second))
    slopes = np.diff(np.log(remainder)) / np.diff(np.log(times))
    assert np.all(np.abs(slopes - 3) < 0.35)
    assert abs(slopes[-1] - 3) < 0.15


@pytest.mark.parametrize("c", [Rotation(), Quaternion(), EulerAngles()])
def test_directional_derivative_is_the_rate_along_one_velocity(c):
    q, h, V = c.random(5), 1e-5, potential_on(c)
    slopes = [(V(c.retract(q, h * e)) - V(c.retract(q, -h * e))) / (2 * h) for e in np.eye(3)]
    assert np.abs(directional_derivatives(c, V, q) - slopes).max() < 1e-8


def test_derivatives_run_on_batches_and_symbols():
    c, V = Rotation(), potential_on(Rotation())
    q = c.random(5, (4,))
    batch = second_derivatives(c, V, q)
    assert batch.shape == (4, 3, 3)
    assert np.allclose(batch[2], second_derivatives(c, V, q[2]))
    s = symbol("q", 9)
    assert directional_derivatives(c, V, s).shape == (3,)
    assert second_derivatives(c, V, s).shape == (3, 3)
    assert np.array_equal(directional_derivatives(c, lambda q: 2.0, q[0]), np.zeros(3))
    assert np.array_equal(second_derivatives(c, lambda q: 2.0, q[0]), np.zeros((3, 3)))
    assert np.array_equal(second_derivatives(Vector(2), lambda q: q[0] + 3 * q[1], np.ones(2)), np.zeros((2, 2)))


def test_a_vector_function_is_rejected():
    with pytest.raises(ModelError, match=r"a scalar function of q is needed, got one of shape \(2,\)"):
        directional_derivatives(Circle(), lambda q: 2 * q, np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("diagonal", "kind"),
    [((1, 1, 1), "minimum"), ((-1, -1, 1), "saddle"), ((1, -1, -1), "maximum")],
)
def test_critical_points_of_a_navigation_function(diagonal, kind):
    """-tr(P R) with P = diag(1, 2, 3) is critical at diagonal rotations; its eigenvalues are sums of pairs (2.65)."""
    P = np.diag([1.0, 2.0, 3.0])
    q = Rotation().from_rotation_matrix(np.diag(np.array(diagonal, dtype=float)))
    point = critical_point(Rotation(), lambda q: -np.sum(P * unflatten_columns(q, 3)), q)
    signed = np.array([1.0, 2.0, 3.0]) * diagonal
    assert np.allclose(point.eigenvalues, np.sort(np.sum(signed) - signed))
    assert point.kind == kind
    H = second_derivatives(Rotation(), lambda q: -np.sum(P * unflatten_columns(q, 3)), q)
    assert np.abs(H - H.T).max() < 1e-14
    assert np.allclose(point.hessian, H)


def test_degenerate_and_saddle_with_zero():
    origin = np.zeros(2)
    assert critical_point(Vector(2), lambda q: q[0] ** 2, origin).kind == "degenerate"
    assert critical_point(Vector(2), lambda q: q[0] ** 2 - q[1] ** 2, origin).kind == "saddle"
    assert critical_point(Vector(2), lambda q: q[0] ** 4, origin).kind == "degenerate"
    assert critical_point(Vector(2), lambda q: q[0] ** 2 + 1e-8 * q[1] ** 2, origin).kind == "minimum"
    assert critical_point(Vector(2), lambda q: q[0] ** 2 + 1e-10 * q[1] ** 2, origin).kind == "degenerate"


def test_no_critical_point_says_so():
    with pytest.raises(ConfigurationError, match="q is not a critical point: its largest directional derivative is 1"):
        critical_point(Circle(), lambda q: q[1], np.array([1.0, 0.0]))


def metric_on_attitude(c):
    inertia = np.diag([1.0, 2.0, 2.5])

    def metric(q):
        R = c.rotation_matrix(q)
        return inertia + (0.1 * R[0, 0] + 0.2 * R[1, 2]) * np.eye(3)

    return metric


@pytest.mark.thorough
def test_riemannian_hessian_is_symmetric_and_the_derivative_along_geodesics():
    c = Rotation()
    V, M = potential_on(c), metric_on_attitude(c)
    q = c.random(8)
    connection = connection_coefficients(c, M, q)
    Gamma = raise_first_index(M(q), connection)
    H = riemannian_hessian(c, V, Gamma, q)
    assert np.abs(H - H.T).max() < 1e-13
    second, gradient = second_derivatives(c, V, q), directional_derivatives(c, V, q)
    printed = second - np.einsum("kij,k->ij", Gamma, gradient)
    assert np.abs(printed - printed.T).max() > 0.1  # erratum 0.5: the printed order is not symmetric

    def flow(t, state):
        x, v = state[:9], state[9:]
        G = raise_first_index(M(x), connection_coefficients(c, M, x))
        return np.concatenate([c.rate(x, v), -np.einsum("ijk,j,k->i", G, v, v)])

    v, h = np.array([0.5, -0.8, 0.3]), 1e-2
    values = []
    for t in (h, -h):
        values.append(V(solve_ivp(flow, (0, t), np.concatenate([q, v]), rtol=1e-11, atol=1e-12).y[:9, -1]))
    assert abs((values[0] - 2 * V(q) + values[1]) / h**2 - v @ H @ v) < 1e-3


# --- K23 to K25: commutation


@pytest.mark.parametrize("c", [Rotation(), Quaternion(), EulerAngles()])
def test_commutation_of_directional_derivatives(c):
    q = c.random(13)
    V, gamma = potential_on(c), commutation_coefficients(c, q)
    second, gradient = second_derivatives(c, V, q), directional_derivatives(c, V, q)
    assert np.abs(second - second.T - np.einsum("kij,k->ij", gamma, gradient)).max() < 1e-12
    assert np.abs(gamma + np.swapaxes(gamma, 1, 2)).max() < 1e-14


def test_commutation_does_not_depend_on_configuration_coordinates():
    R = so3.random(RNG, (6,))
    for c in (Rotation(), Quaternion(), EulerAngles()):
        assert np.abs(commutation_coefficients(c, c.from_rotation_matrix(R)) - EPS).max() < 1e-12
    G = se3.random(RNG, (4,))
    reference = commutation_coefficients(Pose(), Pose().from_pose(G))
    for c in (Pose("quaternion"), Pose("euler")):
        assert np.abs(commutation_coefficients(c, c.from_pose(G)) - reference).max() < 1e-12


def test_commutation_of_body_angular_velocity_is_the_cross_product():
    gamma = commutation_coefficients(Rotation(), Rotation().random(2))
    a, b = RNG.standard_normal((2, 3))
    assert np.allclose(np.einsum("kij,i,j->k", gamma, a, b), np.cross(a, b))
    assert np.allclose(np.einsum("kij,i->kj", gamma, a), so3.wed(a))  # erratum 0.8: k row, j column


def test_pose_commutation_is_the_printed_list():
    """Eq. 3.52, indices as printed: upper k, lower i j, counted from one; eq. 3.53."""
    plus = {1: [(2, 6), (5, 3)], 2: [(3, 4), (6, 1)], 3: [(1, 5), (4, 2)], 4: [(5, 6)], 5: [(6, 4)], 6: [(4, 5)]}
    expected = np.zeros((6, 6, 6))
    for k, pairs in plus.items():
        for i, j in pairs:
            expected[k - 1, i - 1, j - 1] = 1
            expected[k - 1, j - 1, i - 1] = -1
    gamma = commutation_coefficients(Pose(), Pose().random(4))
    assert np.abs(gamma - expected).max() < 1e-13
    xi = RNG.standard_normal(6)
    assert np.allclose(np.einsum("kij,j->ik", gamma, xi), -se3.ad(xi).T)


def test_pose_kinematics_matrix():
    q = Pose().random(RNG, (5,))
    A, phi = Pose().kinematics_matrix(q), Pose().constraint_jacobian(q)
    assert A.shape == (5, 12, 6)
    assert np.abs(phi @ A).max() < 1e-14
    assert np.linalg.matrix_rank(A).tolist() == [6] * 5
    G, xi = Pose().pose(q), RNG.standard_normal((5, 6))
    rate = Pose().rate(q, xi)
    assert np.abs(rate[:, 3:] - Rotation().from_rotation_matrix((G @ se3.wed(xi))[:, :3, :3])).max() < 1e-14
    assert np.abs(rate[:, :3] - (G @ se3.wed(xi))[:, :3, 3]).max() < 1e-14


@pytest.mark.parametrize(
    ("c", "integrable"),
    [(Vector(3), True), (EulerAngles("rates"), True), (Angle(), True), (Circle(), True), (Rotation(), False),
     (EulerAngles(), False), (Pose("quaternion", "mixed"), False)],
)  # fmt: skip
def test_integrability(c, integrable):
    assert is_integrable(c, c.random(RNG, (3,))) is integrable


def test_integrability_of_user_given_velocities():
    polar = GeneralCoordinates(
        lambda q: [[1.0, 0.0], [0.0, 1 / q[0]]], nq=2, nv=2, neutral=[2.0, 0.0], samples=[2.0, 0.0]
    )
    assert not is_integrable(polar, [2.0, 0.3])
    gamma = commutation_coefficients(polar, [2.0, 0.3])
    assert gamma[1, 0, 1] == pytest.approx(-0.5)  # d_r (1/r) r = -1/r


# --- connection


def test_connection_satisfies_its_defining_identities():
    c = Quaternion()
    M, q = metric_on_attitude(c), c.random(21, (2,))
    Gamma, gamma = connection_coefficients(c, M, q), c.commutation(q)
    assert Gamma.shape == (2, 3, 3, 3)
    for x, G, g in zip(q, Gamma, gamma, strict=True):
        h = 1e-5
        dM = np.stack([(M(c.retract(x, h * e)) - M(c.retract(x, -h * e))) / (2 * h) for e in np.eye(3)], axis=-1)
        assert np.abs(dM - (G + np.swapaxes(G, 0, 1))).max() < 1e-8  # (3.33a): d_k M_ij = Gamma_ijk + Gamma_jik
        lowered = np.einsum("sij,sk->ijk", g, M(x))
        assert np.abs(lowered - (np.einsum("kji->ijk", G) - np.einsum("kij->ijk", G))).max() < 1e-13  # (3.33b)
    assert len(connection_coefficients(c, M, symbol("q", 4))) == 3


def test_connection_of_a_rigid_body_gives_eulers_equation():
    theta = np.diag([1.0, 2.0, 3.5])
    Gamma = connection_coefficients(Rotation(), lambda q: theta, Rotation().neutral())
    omega = RNG.standard_normal(3)
    assert np.allclose(np.einsum("ijk,j,k->i", Gamma, omega, omega), np.cross(omega, theta @ omega))


def test_connection_of_rates_is_the_christoffel_symbols():
    """Polar coordinates: Gamma_rpp = -r, Gamma_prp = Gamma_ppr = r (eq. 3.36)."""
    Gamma = connection_coefficients(Vector(2), lambda q: [[1.0, 0.0], [0.0, q[0] ** 2]], np.array([1.5, 0.2]))
    expected = np.zeros((2, 2, 2))
    expected[0, 1, 1] = -1.5
    expected[1, 0, 1] = expected[1, 1, 0] = 1.5
    assert np.allclose(Gamma, expected)


def test_wrong_metric_shape_is_named():
    with pytest.raises(ValueError, match=r"the metric M\(q\) must have shape \(3, 3\), got \(2, 2\)"):
        connection_coefficients(Rotation(), lambda q: np.eye(2), Rotation().neutral())


# --- K26 to K28: linearisation about a trajectory


@pytest.mark.parametrize("c", [Rotation(), Quaternion(), Pose(), Circle()])
def test_deviation_is_exact_to_first_order(c):
    q, direction = c.random(2), RNG.standard_normal(c.nv)
    sizes = np.array([1e-1, 1e-2, 1e-3])
    errors = [np.abs(deviation(c, q, c.retract(q, s * direction)) - s * direction).max() for s in sizes]
    assert errors[-1] < 10 * sizes[-1] ** 2
    assert np.all(np.diff(np.log10(errors)) < -1.9)


def perturbed(c, q0, v, eps, s):
    """The reference curve q(t) displaced by s eps(t) in its own body coordinates."""

    def curve(t):
        steps = 40
        reference = rk4(c, q0, v, t, steps) if t else q0
        return c.retract(c.project(reference), s * eps(t))

    return curve


def velocity_of(c, curve, t, h=1e-4):
    x = [curve(t + k * h) for k in (-2, -1, 1, 2)]
    return c.left_inverse(curve(t)) @ ((x[0] - 8 * x[1] + 8 * x[2] - x[3]) / (12 * h))


@pytest.mark.parametrize("c", [Rotation(), Quaternion(), Pose("quaternion")])
def test_velocity_deviation(c):
    rng = np.random.default_rng(5)
    v0, v1, e0, e1 = rng.standard_normal((4, c.nv))
    q0, s, t = c.random(3), 1e-4, 0.3
    v = lambda t: v0 + v1 * t  # noqa: E731
    eps = lambda t: e0 + np.sin(2 * t) * e1  # noqa: E731
    exact = (velocity_of(c, perturbed(c, q0, v, eps, s), t) - velocity_of(c, perturbed(c, q0, v, eps, -s), t)) / (2 * s)
    q = perturbed(c, q0, v, eps, 0)(t)
    linear = velocity_deviation(c, q, v(t), eps(t), 2 * np.cos(2 * t) * e1)
    assert np.abs(exact - linear).max() < 1e-6
    assert np.abs(exact - (eps(t) + 2 * np.cos(2 * t) * e1)).max() > 0.1  # erratum 0.10: the printed line is wrong


@pytest.mark.thorough
def test_linear_coefficients_agree_with_a_perturbed_trajectory():
    """f(x, xi, xi') along a perturbed trajectory: bar f + F0 eps + F1 eps' + F2 eps'' (erratum 0.11)."""
    c, theta = Rotation(), np.diag([1.0, 2.0, 3.5])

    def f(q, v, a):
        R = c.rotation_matrix(q)
        return theta @ a + np.cross(v, theta @ v) + np.cross(np.array([0.2, -0.1, 0.3]), R[2, :]) + 0.3 * v

    rng = np.random.default_rng(17)
    v0, v1, e0, e1 = rng.standard_normal((4, 3))
    q0, t, s, h = c.random(3), 0.2, 2e-3, 4e-3
    v = lambda t: v0 + v1 * t  # noqa: E731
    eps = lambda t: e0 + np.sin(2 * t) * e1  # noqa: E731

    def f_along(s):
        curve = perturbed(c, q0, v, eps, s)
        w = [velocity_of(c, curve, t + k * h, h) for k in (-2, -1, 1, 2)]
        rate = (w[0] - 8 * w[1] + 8 * w[2] - w[3]) / (12 * h)
        return f(curve(t), velocity_of(c, curve, t, h), rate)

    value, F0, F1, F2 = linear_coefficients(c, f, perturbed(c, q0, v, eps, 0)(t), v(t), v1)
    linear = F0 @ eps(t) + F1 @ (2 * np.cos(2 * t) * e1) + F2 @ (-4 * np.sin(2 * t) * e1)
    f_m2, f_m1, f_p1, f_p2 = (f_along(k * s) for k in (-2, -1, 1, 2))
    assert np.abs((f_m2 - 8 * f_m1 + 8 * f_p1 - f_p2) / (12 * s) - linear).max() < 1e-6
    assert np.abs(f_along(0) - value).max() < 1e-7
    assert np.array_equal(F2, theta)


def test_linear_coefficients_include_the_rate_of_gamma():
    """Polar velocities (r', r phi') have gamma that depends on r: all terms of F0 matter."""
    polar = GeneralCoordinates(
        lambda q: [[1.0, 0.0], [0.0, 1 / q[0]]], nq=2, nv=2, neutral=[2.0, 0.0], samples=[2.0, 0.0]
    )

    def f(q, v, a):
        return vector(a[0] * v[1] + q[0] * q[1], a[1] + v[0] ** 2)

    q0, v0, v1 = np.array([1.3, 0.4]), np.array([0.7, -0.5]), np.array([0.2, 0.6])
    e0, e1, e2 = np.array([[0.3, -0.2], [0.5, 0.4], [-0.6, 0.1]])
    t, s, h = 0.0, 3e-4, 3e-3

    def curve(t, s):
        x = rk4(polar, q0, lambda r: v0 + v1 * r, t, 20) if t else q0
        return x + s * polar.kinematics_matrix(x) @ (e0 + e1 * t + e2 * t**2 / 2)

    def velocity(t, s):
        x = [curve(t + k * h, s) for k in (-2, -1, 1, 2)]
        return polar.left_inverse(curve(t, s)) @ ((x[0] - 8 * x[1] + 8 * x[2] - x[3]) / (12 * h))

    def f_along(s):
        w = [velocity(t + k * h, s) for k in (-2, -1, 1, 2)]
        return f(curve(t, s), velocity(t, s), (w[0] - 8 * w[1] + 8 * w[2] - w[3]) / (12 * h))

    _, F0, F1, F2 = linear_coefficients(polar, f, q0, v0, v1)
    assert np.abs((f_along(s) - f_along(-s)) / (2 * s) - (F0 @ e0 + F1 @ e1 + F2 @ e2)).max() < 1e-6


def test_linear_coefficients_give_the_eigenvalues_of_the_pendulum():
    def pendulum(q, v, a):  # on the circle, hanging down at (1, 0)
        return a + 0.1 * v + 9.81 * q[1]

    for c, s, expected in ((1.0, 0.0, 9.81), (-1.0, 0.0, -9.81)):
        _, F0, F1, F2 = linear_coefficients(Circle(), pendulum, np.array([c, s]), np.zeros(1), np.zeros(1))
        assert (F0[0, 0], F1[0, 0], F2[0, 0]) == pytest.approx((expected, 0.1, 1.0))
        roots = np.roots([1.0, F1[0, 0], F0[0, 0]])
        assert np.any(roots.real > 0) == (c < 0)
        exact = (-0.1 + np.array([1, -1]) * np.sqrt(0.01 - 4 * expected + 0j)) / 2
        assert np.allclose(np.sort_complex(roots), np.sort_complex(exact), rtol=1e-13)


def test_linear_coefficients_give_the_linearised_closed_loop():
    """The equation of motion with its law: held upright by u = -25 sin - 6 v the roots are those of x'' + 6.1 x' + (25 - 9.81) x."""

    def held(q, v, a):
        error = -q[1]  # sine of the angle from upright (-1, 0)
        return a + 0.1 * v + 9.81 * q[1] + 25.0 * error + 6.0 * v

    _, F0, F1, F2 = linear_coefficients(Circle(), held, np.array([-1.0, 0.0]), np.zeros(1), np.zeros(1))
    assert (F0[0, 0], F1[0, 0], F2[0, 0]) == pytest.approx((25.0 - 9.81, 6.1, 1.0))
    assert np.all(np.roots([F2[0, 0], F1[0, 0], F0[0, 0]]).real < 0)


def test_linear_coefficients_run_on_batches():
    c = Rotation()
    q, v, a = c.random(1, (4,)), RNG.standard_normal((4, 3)), RNG.standard_normal((4, 3))
    f = lambda q, v, a: np.cross(v, a) + q[:3]  # noqa: E731
    batch = linear_coefficients(c, f, q, v, a)
    assert batch.F0.shape == (4, 3, 3)
    assert np.allclose(batch.F0[3], linear_coefficients(c, f, q[3], v[3], a[3]).F0)
