"""Features K29 to K34, K55: action, first variation, Euler-Lagrange, Legendre, Hamilton, quadratic Lagrangians."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import QuasiCoordinates, action, balance, euler_lagrange, hamilton, lagrangian

from heavytop import matrix, vector
from heavytop._arrays import symbol
from heavytop.coordinates import Angle, Circle, Pose, Rotation, Vector
from heavytop.errors import ConfigurationError, ModelError

THETA = np.array([[1.0, 0.1, 0.0], [0.1, 2.0, 0.2], [0.0, 0.2, 2.6]])
ARM = np.array([0.1, -0.3, 0.5])


def top(q, w):
    """A heavy top on SO(3)."""
    R = Rotation().rotation_matrix(q)
    return 0.5 * np.vecdot(w, THETA @ w) + np.vecdot(np.array([0.3, 0.0, -9.81]), R @ ARM)


def drag(q, w):
    return -0.2 * w


def solution(coordinates, L, q, v, t, integrate, **loads):
    """States (m, nq + nv) at the times ``t`` from the state (q, v)."""
    a = euler_lagrange.acceleration(coordinates, L, **loads)
    n = coordinates.nq
    return integrate(
        lambda t, z: np.concatenate([coordinates.rate(z[:n], z[n:]), a(z[:n], z[n:], t)]), np.concatenate([q, v]), t
    )


# --- K29, K55: action -----------------------------------------------------------------------------------------------------------


def motion_with(force, integrate):
    nodes = action.gauss_nodes(0.0, 1.0, intervals=12)
    t = np.concatenate([[0.0], nodes.t])
    run = solution(Rotation(), top, Rotation().random(2), np.array([1.0, -0.5, 2.0]), t, integrate, force=force)[1:]
    return nodes, run[:, :9], run[:, 9:]


def bump(t):
    """Variations that vanish at both ends, and their rates."""
    s, c = np.sin(np.pi * t), np.cos(np.pi * t)
    h = np.stack([s, s * np.sin(3 * t), s * t], axis=-1)
    rate = np.stack([np.pi * c, np.pi * c * np.sin(3 * t) + 3 * s * np.cos(3 * t), np.pi * c * t + s], axis=-1)
    return h, rate


@pytest.mark.parametrize("force", [None, drag], ids=["conservative", "with force"])
def test_first_variation_vanishes_on_motions(force, integrate) -> None:
    nodes, q, v = motion_with(force, integrate)
    h, h_rate = bump(nodes.t)
    assert abs(action.first_variation(Rotation(), top, nodes, q, v, h, h_rate, force)) < 1e-9
    wrong = action.first_variation(Rotation(), top, nodes, q, v + np.array([0.1, 0, 0]), h, h_rate, force)
    assert abs(wrong) > 1e-2


def test_sign_of_the_virtual_work(integrate) -> None:
    """Erratum 0.23: with the printed sign the forced motion is not stationary."""
    nodes, q, v = motion_with(drag, integrate)
    h, h_rate = bump(nodes.t)
    printed = action.first_variation(Rotation(), top, nodes, q, v, h, h_rate, lambda q, v: -drag(q, v))
    assert abs(printed) > 1e-2


def test_first_variation_is_the_derivative_of_the_action(integrate) -> None:
    """On any curve, not only on motions: (2.29) against differences of (2.28), and the form (2.30)."""
    c, nodes = Rotation(), action.gauss_nodes(0.0, 1.0, intervals=12)
    a = np.stack([np.cos(nodes.t), 0 * nodes.t, -nodes.t], axis=-1)
    v = np.stack([np.sin(nodes.t), 1 + 0 * nodes.t, 0.4 - 0.5 * nodes.t**2], axis=-1)
    t = np.concatenate([[0.0], nodes.t])
    curve = integrate(lambda t, q: c.rate(q, np.array([np.sin(t), 1.0, 0.4 - 0.5 * t**2])), c.random(1), t)[1:]
    h, h_rate = bump(nodes.t)
    eps = 1e-4
    values = [action.action(c, top, nodes, *action.varied_curve(c, curve, v, h, h_rate, s * eps)) for s in (1, -1)]
    by_differences = (values[0] - values[1]) / (2 * eps)
    variation = action.first_variation(c, top, nodes, curve, v, h, h_rate)
    assert abs(variation) > 0.1
    assert by_differences == pytest.approx(variation, rel=1e-6)
    assert action.euler_lagrange_variation(c, top, nodes, curve, v, a, h) == pytest.approx(variation, rel=1e-9)


def test_discrete_action_is_stationary_on_motions(integrate) -> None:
    """The gradient by an inner point falls like h^2 per unit action, for the true motion only."""
    c, sizes = Circle(), []
    L = lambda q, v: 0.5 * v[0] ** 2 + 9.81 * q[0]  # noqa: E731
    for steps in (20, 40):
        t = np.linspace(0, 1, steps + 1)
        q = solution(c, L, np.array([np.cos(1.0), np.sin(1.0)]), np.array([0.5]), t, integrate)[:, :2]
        moved = np.stack([q, q])
        k = steps // 2
        for side, delta in enumerate((1e-4, -1e-4)):
            moved[side, k] = c.retract(q[k], np.array([delta]))
        plus, minus = action.discrete_action(c, L, t, moved)
        sizes.append(abs(plus - minus) / 2e-4 * steps)
    assert sizes[0] < 0.05
    assert sizes[0] / sizes[1] == pytest.approx(4, rel=0.1)
    bent = np.stack([np.cos(np.linspace(1, 1.4, 21)), np.sin(np.linspace(1, 1.4, 21))], axis=-1)
    up = bent.copy()
    up[10] = c.retract(bent[10], np.array([1e-4]))
    t = np.linspace(0, 1, 21)
    assert abs(action.discrete_action(c, L, t, up) - action.discrete_action(c, L, t, bent)) / 1e-4 * 20 > 5


# --- K30: Euler-Lagrange --------------------------------------------------------------------------------------------------------


def test_classical_form_for_minimal_coordinates(jacobian_by_differences) -> None:
    def L(q, v, t):
        return 0.5 * (1 + q[0] ** 2) * v[1] ** 2 + 0.5 * v[0] ** 2 + np.sin(t) * v[0] * q[1] - q[0] * q[1]

    q, v, a, t = np.array([0.4, -0.7]), np.array([1.1, 0.6]), np.array([-0.5, 0.9]), 0.3
    residual = euler_lagrange.residual(Vector(2), L)(q, v, a, t)

    def momentum(s):
        return jacobian_by_differences(lambda w: L(q + v * s + a * s**2 / 2, w, t + s), v + a * s, 1e-5)

    rate = (momentum(1e-4) - momentum(-1e-4)) / 2e-4
    np.testing.assert_allclose(residual, rate - jacobian_by_differences(lambda x: L(x, v, t), q), atol=1e-5)


def test_example_4_gives_eulers_equations() -> None:
    w, a = np.array([0.4, -1.0, 0.7]), np.array([0.1, 0.2, -0.3])
    L = lambda q, w: 0.5 * np.vecdot(w, THETA @ w)  # noqa: E731
    left = euler_lagrange.residual(Rotation(), L)(Rotation().random(3), w, a)
    np.testing.assert_allclose(left, THETA @ a + np.cross(w, THETA @ w), atol=1e-14)


def test_residual_takes_batches_and_symbols() -> None:
    residual = euler_lagrange.residual(Rotation(), top)
    q, v = Rotation().random(0, (5,)), np.ones((5, 3))
    many = residual(q, v, np.zeros(3))
    assert many.shape == (5, 3)
    np.testing.assert_allclose(residual(q[2], v[2], np.zeros(3)), many[2], rtol=1e-14)
    assert residual(symbol("q", 9), symbol("v", 3), np.zeros(3)).shape == (3,)


# --- K31 to K33: Legendre and Hamilton ------------------------------------------------------------------------------------------


def relativistic(q, v):
    """No quadratic form: the momentum is not linear in the velocity."""
    return -np.sqrt(1 - np.vecdot(v, v)) - 0.3 * q[0] * q[1]


@pytest.mark.parametrize(("coordinates", "L", "size"), [(Rotation(), top, 3.0), (Vector(2), relativistic, 0.5)])
def test_momentum_and_velocity_are_inverse(coordinates, L, size) -> None:
    transform = hamilton.Legendre(coordinates, L)
    rng = np.random.default_rng(4)
    q = coordinates.random(rng, (20,))
    v = size * rng.uniform(-1, 1, (20, coordinates.nv))
    p = transform.momentum(q, v)
    np.testing.assert_allclose(hamilton.momentum(coordinates, L)(q, v), p, rtol=1e-14)
    np.testing.assert_allclose(transform.velocity(q, p), v, atol=1e-12)
    np.testing.assert_allclose(transform(q, p), hamilton.energy_of(coordinates, L)(q, v), rtol=1e-12)


def test_legendre_transformation_is_an_involution() -> None:
    c = Pose()
    mass = np.diag([2.0, 2.0, 2.0, 0.4, 0.5, 0.7]) + 0.05

    def L(q, v, t):
        return 0.5 * np.vecdot(v, mass @ v) + np.sin(t) * np.vecdot(q[:6], v) - q[2]

    twice = hamilton.Legendre(c, hamilton.Legendre(c, L))
    q, v = c.random(1), np.array([0.3, 0.1, -0.4, 1.0, 2.0, -0.5])
    assert twice(q, v, 0.7) == pytest.approx(L(q, v, 0.7), rel=1e-13)


def test_legendre_says_what_it_cannot_do() -> None:
    with pytest.raises(ModelError, match="linear in the velocity"):
        hamilton.Legendre(Vector(2), relativistic)(symbol("q", 2), symbol("p", 2))
    with pytest.raises(ConfigurationError, match="singular"):
        hamilton.Legendre(Vector(2), lambda q, v: v[0] ** 2)(np.zeros(2), np.ones(2))


def test_hamilton_follows_lagrange(integrate) -> None:
    c, t = Rotation(), np.linspace(0, 2, 9)
    q0, v0 = c.random(8), np.array([0.5, -1.0, 2.0])
    dissipation = lambda q, w: 0.05 * np.vecdot(w, w)  # noqa: E731
    lagrange = solution(c, top, q0, v0, t, integrate, dissipation=dissipation)
    flow = hamilton.flow(c, top, dissipation=dissipation)
    start = np.concatenate([q0, flow.transform.momentum(q0, v0)])
    run = integrate(lambda t, z: np.concatenate(flow(z[:9], z[9:], t)), start, t)
    np.testing.assert_allclose(run[:, :9], lagrange[:, :9], atol=1e-9)
    np.testing.assert_allclose(flow.transform.velocity(run[:, :9], run[:, 9:]), lagrange[:, 9:], atol=1e-9)
    # the same from the symbolic Hamiltonian
    H = hamilton.Legendre(c, top)
    symbolic = hamilton.equations(c, lambda q, p: H(q, p), force=lambda q, v: -0.1 * v)
    for got, want in zip(symbolic(run[3, :9], run[3, 9:]), flow(run[3, :9], run[3, 9:]), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_hamiltonian_balance(integrate) -> None:
    """dH/dt = -dL/dt, and constant when L does not depend on time (eqs 2.38, 2.39)."""
    c, t = Rotation(), np.linspace(0, 3, 31)
    q0, v0 = c.random(5), np.array([0.5, -1.0, 2.0])
    run = solution(c, top, q0, v0, t, integrate)
    H = hamilton.energy_of(c, top)(run[:, :9], run[:, 9:])
    assert np.ptp(H) < 1e-9

    def driven(q, w, t):
        return top(q, w) + np.sin(2 * t) * q[0] + 0.3 * np.cos(t) * w[1]

    fine = np.linspace(0, 1, 201)
    run = solution(c, driven, q0, v0, fine, integrate)
    H = hamilton.energy_of(c, driven)(run[:, :9], run[:, 9:], fine)
    rate = balance.hamiltonian_rate(c, driven)(run[:, :9], run[:, 9:], fine)
    assert np.ptp(H) > 1e-2
    # Simpson's rule over pairs of intervals
    work = np.cumsum((rate[:-2:2] + 4 * rate[1:-1:2] + rate[2::2]) * (fine[1] - fine[0]) / 3)
    np.testing.assert_allclose(H[2::2] - H[0], work, atol=1e-8)


# --- K34: example 5 -------------------------------------------------------------------------------------------------------------


def example_5():
    """Two degrees of freedom with gamma != 0, everything dependent on q and t."""

    def kinematics(q):
        return matrix([[1.0, 0.3 * q[1]], [0.2 * q[0], 1 + q[0] ** 2]])

    c = QuasiCoordinates(("x", "y"), ("a", "b"), kinematics)

    def metric(q, t):
        return matrix([[2 + q[0] ** 2, 0.3 * np.sin(t)], [0.3 * np.sin(t), 1 + 0.5 * np.cos(q[1])]])

    def linear(q, t):
        return vector(q[1] * t, np.sin(q[0]) + t**2)

    def rest(q, t):
        return -(q[0] ** 2) * q[1] + np.cos(t) * q[1]

    return c, metric, linear, rest


def test_example_5_lagrange_and_hamilton() -> None:
    c, metric, linear, rest = example_5()
    L = euler_lagrange.quadratic_lagrangian(metric, linear, rest)
    rng = np.random.default_rng(0)
    q, v, t = rng.standard_normal((10, 2)), rng.standard_normal((10, 2)), rng.uniform(0, 2, 10)
    assert np.max(np.abs(c.commutation(q))) > 0.1
    automatic = euler_lagrange.acceleration(c, L)(q, v, t)
    written = euler_lagrange.quadratic_acceleration(c, metric, linear, rest)(q, v, t)
    np.testing.assert_allclose(written, automatic, rtol=1e-12, atol=1e-12)

    flow = hamilton.flow(c, L)
    p = flow.transform.momentum(q, v, t)
    H = hamilton.Legendre(c, L)
    canonical = hamilton.equations(c, lambda q, p, t: H(q, p, t))
    closed = hamilton.quadratic_equations(c, metric, linear, rest)
    for got, want in zip(closed(q, p, t), canonical(q, p, t), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    for got, want in zip(flow(q, p, t), canonical(q, p, t), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    # (2.45): H in velocities has no linear term
    M = np.stack([np.asarray(metric(x, s)) for x, s in zip(q, t, strict=True)])
    c_value = np.array([rest(x, s) for x, s in zip(q, t, strict=True)])
    expected = 0.5 * np.vecdot(v, np.matvec(M, v)) - c_value
    np.testing.assert_allclose(hamilton.energy_of(c, L)(q, v, t), expected, rtol=1e-12)


def test_printed_signs_of_example_5_would_fail() -> None:
    """Errata 0.13 and 0.14: the terms in question are large here."""
    c, metric, linear, rest = example_5()
    q, v, t = np.array([0.7, -0.4]), np.array([1.0, 0.5]), 0.6
    with_rest = euler_lagrange.quadratic_acceleration(c, metric, linear, rest)(q, v, t)
    opposite = euler_lagrange.quadratic_acceleration(c, metric, linear, lambda q, t: -rest(q, t))(q, v, t)
    assert np.max(np.abs(with_rest - opposite)) > 0.1


# --- messages -------------------------------------------------------------------------------------------------------------------


def test_functions_with_wrong_arguments_are_named() -> None:
    with pytest.raises(
        ModelError, match=r"a Lagrangian must be a function of 2 arguments, or 3 with the time .* requires 1"
    ):
        euler_lagrange.acceleration(Angle(), lambda q: q[0])
    with pytest.raises(ModelError, match=r"a Lagrangian must be a scalar, got an array of shape \(2,\)"):
        euler_lagrange.acceleration(Vector(2), lambda q, v: v)
    with pytest.raises(ModelError, match=r"generalised force must be a vector of 1 entries, got shape \(2,\)"):
        euler_lagrange.acceleration(Angle(), lambda q, v: v[0] ** 2, force=lambda q, v: np.zeros(2))


def test_default_arguments_are_no_time() -> None:
    pull = euler_lagrange.acceleration(Angle(), lambda q, v, k=3.0: 0.5 * v[0] ** 2 - k * q[0])
    np.testing.assert_allclose(pull([0.0], [0.0], 10.0), [-3.0])


def test_lagrangian_joins_energies() -> None:
    L = lagrangian(lambda q, v, t: t * v[0] ** 2, lambda q: q[0])
    assert L(np.array([2.0]), np.array([3.0]), 0.5) == pytest.approx(2.5)


def test_legendre_of_a_function_that_is_not_quadratic_is_an_involution() -> None:
    """Also with batch axes; the intermediate transforms agree with the first one (K31)."""
    c = Vector(2)
    L = lambda q, v: np.cosh(v[0]) + 0.5 * (1 + q[0] ** 2) * v[1] ** 2 + 0.3 * v[0] * v[1]  # noqa: E731
    transforms = [hamilton.Legendre(c, L)]
    for _ in range(2):
        transforms.append(hamilton.Legendre(c, transforms[-1]))
    q, v = np.random.default_rng(3).standard_normal((2, 5, 2))
    direct = hamilton.Evaluator(lambda q, v, t: L(q, v), {"q": (2,), "v": (2,), "t": ()})(q, v)
    np.testing.assert_allclose(transforms[1](q, v), direct, rtol=1e-12)
    p = transforms[0].momentum(q, v)
    np.testing.assert_allclose(transforms[2](q[0], p[0]), transforms[0](q[0], p[0]), rtol=1e-12)
    np.testing.assert_allclose(transforms[1].momentum(q, p), v, rtol=1e-9)  # dH/dp = v
    with pytest.raises(ModelError, match="linear in the velocity"):
        transforms[1](symbol("q", 2), symbol("v", 2))
