"""Laws that the equations of motion of any system obey, in any coordinates (features K91-K102)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import SYSTEMS, along, directions, flow, jacobian_bias, model_of, state_of, twist_rate

from heavytop.geometry import se3

every_system = pytest.mark.parametrize("name", SYSTEMS)


def close(actual, desired, tolerance):
    """Equal up to ``tolerance`` times the largest entry (at least one)."""
    assert_allclose(actual, desired, rtol=0, atol=tolerance * max(1.0, float(np.max(np.abs(desired), initial=0.0))))


def evaluate(model, name, *arguments):
    return model.traced(name).interpret(*arguments, model.parameter_vector())[0]


@every_system
def test_mass_matrix_is_symmetric_positive_definite_and_gives_the_kinetic_energy(name):
    model = model_of(name)
    q, v, _ = state_of(model, 1, (4,))
    M = model.mass_matrix(q)
    assert np.array_equal(M, np.swapaxes(M, -1, -2))
    assert np.all(np.linalg.eigvalsh(M)[..., 0] > 0)
    close(0.5 * np.vecdot(v, np.matvec(M, v)), model.kinetic_energy(q, v), 1e-12)
    close(model.energy(q, v), model.kinetic_energy(q, v) + model.potential_energy(q), 1e-13)


@every_system
def test_mass_rate_minus_twice_coriolis_is_skew_and_coriolis_gives_the_bias(name):
    model = model_of(name)
    q, v, _ = state_of(model, 2)
    C = model.coriolis_matrix(q, v)
    close(C @ v, model.bias(q, v), 1e-12)
    M_rate = along(lambda t: model.mass_matrix(flow(model, q, v, t)))
    N = M_rate - 2 * C
    scale = max(1.0, np.max(np.abs(M_rate)))
    assert np.max(np.abs(M_rate)) > 1e-2  # the law says something
    assert_allclose(N + N.T, 0, atol=1e-8 * scale)


@every_system
def test_power_balance(name):
    """d/dt(T + V) = v . (B u + f) - v . fD (eq. 3.43)."""
    model = model_of(name)
    q, v, u = state_of(model, 3)
    a = model.acceleration(q, v, u)
    energy_rate = along(lambda t: model.energy(flow(model, q, v, t), v + np.multiply.outer(t, a)), 5e-4)
    power = v @ (model.input_matrix(q) @ u + model.applied_force(q, v) - model.dissipation_force(q, v))
    assert abs(power) > 1e-3
    scale = np.abs(a) @ np.abs(model.mass_matrix(q)) @ np.abs(v)
    assert_allclose(energy_rate, power, rtol=0, atol=1e-8 * max(1.0, scale))


@every_system
def test_explicit_and_recursive_accelerations_agree(name):
    model = model_of(name)
    q, v, u = state_of(model, 4, (3,))
    explicit = evaluate(model, "explicit_acceleration", q, v, u)
    close(model.acceleration(q, v, u), explicit, 1e-11)
    if model.description.velocity is None:
        close(evaluate(model, "recursive_acceleration", q, v, u), explicit, 1e-11)


@every_system
def test_inverse_dynamics_of_the_acceleration_is_the_input(name):
    model = model_of(name)
    q, v, u = state_of(model, 5, (3,))
    a = model.acceleration(q, v, u)
    force = np.matvec(model.input_matrix(q), u)
    scale = np.max(np.abs(model.mass_matrix(q))) * np.max(np.abs(a))
    assert_allclose(model.inverse_dynamics(q, v, a), force, rtol=0, atol=1e-11 * max(1.0, scale))
    parts = np.matvec(model.mass_matrix(q), a) + model.bias(q, v) + model.dissipation_force(q, v)
    parts = parts + model.stiffness_force(q) + model.gravity_force(q) - model.applied_force(q, v)
    assert_allclose(parts, force, rtol=0, atol=1e-11 * max(1.0, scale))


@every_system
def test_forces_are_gradients_of_the_potential_energy(name):
    model = model_of(name)
    q, _, _ = state_of(model, 6)
    Q = np.broadcast_to(q, (model.nv, model.nq))
    slopes = along(lambda t: model.potential_energy(flow(model, Q, directions(model), t)))
    close(model.stiffness_force(q) + model.gravity_force(q), slopes, 1e-9)
    assert np.max(np.abs(slopes)) > 1e-2


@every_system
def test_jacobians_and_their_rates_are_derivatives_of_the_poses(name):
    """J v = vee(G^-1 G') (eqs 3.104-3.107, 3.123) and d/dt(J) v (eq. 3.124c), for every pair of frames in both directions."""
    model = model_of(name)
    q, v, _ = state_of(model, 7)
    frames = ["world", *model.body_names]
    for a, b in itertools.permutations(frames[:4], 2):
        G_rate = along(lambda t, a=a, b=b: model.pose(a, b, flow(model, q, v, t)))
        J = model.jacobian(a, b, q)
        close(J @ v, se3.vee(np.linalg.inv(model.pose(a, b, q)) @ G_rate), 1e-9)
    a, b = model.body_names[-1], model.body_names[0]
    for pair in ((a, b), (b, a), ("world", a)):
        J_rate = along(lambda t, pair=pair: model.jacobian(*pair, flow(model, q, v, t)))
        close(jacobian_bias(model, *pair)(q, v), J_rate @ v, 1e-8)


@every_system
def test_commutation_coefficients_are_brackets_of_the_kinematics(name):
    """gamma^k_ij A_k = d_i A_j - d_j A_i (eq. 2.19)."""
    model = model_of(name)
    q, _, _ = state_of(model, 8)
    Q = np.broadcast_to(q, (model.nv, model.nq))
    slopes = along(lambda t: model.kinematics_matrix(flow(model, Q, directions(model), t)))  # [i, alpha, j]
    bracket = np.einsum("iaj->aij", slopes) - np.einsum("jai->aij", slopes)
    gamma = model.commutation(q)
    close(np.einsum("kij,ak->aij", gamma, model.kinematics_matrix(q)), bracket, 1e-8)
    assert_allclose(gamma, -np.swapaxes(gamma, -1, -2), atol=1e-12)


@every_system
def test_connection_coefficients(name):
    """Metric (eq. 3.33a), torsion (3.33b), their solution (3.35), and the bias (3.112)."""
    model = model_of(name)
    q, v, _ = state_of(model, 9)
    M, gamma, Gamma = model.mass_matrix(q), model.commutation(q), model.connection(q)
    Q = np.broadcast_to(q, (model.nv, model.nq))
    dM = np.einsum("kij->ijk", along(lambda t: model.mass_matrix(flow(model, Q, directions(model), t))))  # d_k M_ij
    close(Gamma + np.einsum("jik->ijk", Gamma), dM, 1e-8)
    lowered = np.einsum("sij,sk->ijk", gamma, M)  # gamma^s_ij M_sk
    close(np.einsum("kji->ijk", Gamma) - np.einsum("kij->ijk", Gamma), lowered, 1e-10)
    solved = dM + np.einsum("ikj->ijk", dM) - np.einsum("jki->ijk", dM)
    solved = solved + lowered + np.einsum("ikj->ijk", lowered) - np.einsum("jki->ijk", lowered)
    close(Gamma, 0.5 * solved, 1e-8)
    close(np.einsum("ijk,j,k->i", Gamma, v, v), model.bias(q, v), 1e-11)
    close(np.einsum("ijk,k->ij", Gamma, v), model.coriolis_matrix(q, v), 1e-11)


@every_system
def test_poses_do_not_depend_on_the_path(name):
    model = model_of(name)
    q, _, _ = state_of(model, 10)
    frames = ["world", *model.body_names]
    for a, b, c in itertools.permutations(frames[-3:], 3):
        close(model.pose(a, b, q) @ model.pose(b, c, q), model.pose(a, c, q), 1e-13)
        carried = se3.Ad(model.pose(c, b, q)) @ model.jacobian(a, b, q) + model.jacobian(b, c, q)
        close(carried, model.jacobian(a, c, q), 1e-12)
    assert_allclose(model.pose("world", "world", q), np.eye(4))
    assert not np.any(model.jacobian(frames[1], frames[1], q))


@every_system
def test_kinematics_keeps_the_constraints(name):
    """Phi A = 0 and rank A = nv = nq - rank Phi."""
    model = model_of(name)
    q, v, _ = state_of(model, 11)
    A, Phi = model.kinematics_matrix(q), model.coordinates.constraint_jacobian(q)
    assert_allclose(A @ v, model.rate(q, v), atol=1e-12)
    assert_allclose(Phi @ A, 0, atol=1e-12)
    assert np.linalg.matrix_rank(A, rtol=1e-9) == model.nv
    assert model.nq - (np.linalg.matrix_rank(Phi, rtol=1e-9) if Phi.size else 0) == model.nv
    moved = model.integrate(q, v, 0.7)
    assert_allclose(model.constraints(moved), 0, atol=1e-9)
    if model.description.velocity is None:
        own = model.difference(q, model.integrate(q, 0.1 * v, 1.0))
        assert_allclose(np.matvec(model.coordinates.kinematics_matrix(q), own), 0.1 * A @ v, atol=0.1)


@every_system
def test_batches_equal_loops(name):
    """Leading axes of q, v, u and parameters broadcast."""
    model = model_of(name)
    q, v, u = state_of(model, 12, (2, 3))
    v, u = v[0], u[:, :1]
    values = {
        key: value * np.array([1.0, 1.1, 1.3]) for key, value in zip(model.parameter_names, (1.2, 3.0), strict=False)
    }
    a = model.acceleration(q, v, u, parameters=values)
    M = model.mass_matrix(q, parameters=values)
    G = model.pose("world", model.body_names[-1], q, parameters=values)
    assert a.shape == (2, 3, model.nv)
    assert M.shape == (2, 3, model.nv, model.nv)
    for i, j in itertools.product(range(2), range(3)):
        single = {key: float(value[j]) for key, value in values.items()}
        close(a[i, j], model.acceleration(q[i, j], v[j], u[i, 0], parameters=single), 1e-13)
        close(M[i, j], model.mass_matrix(q[i, j], parameters=single), 1e-14)
        close(G[i, j], model.pose("world", model.body_names[-1], q[i, j], parameters=single), 1e-14)
    assert not np.allclose(a, model.acceleration(q, v, u))  # the parameters matter


@every_system
def test_twist_rates_follow_the_body_twists(name):
    """The helper that other laws lean on: d/dt(J v) = J a + d/dt(J) v."""
    model = model_of(name)
    q, v, u = state_of(model, 13)
    a = model.acceleration(q, v, u)
    body = model.body_names[-1]

    def twists(t):
        return np.matvec(model.jacobian("world", body, flow(model, q, v, t)), v + np.multiply.outer(t, a))

    close(twist_rate(model, body, q, v, a), along(twists, 5e-4), 1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["tree-absolute-chain", "tree-custom", "tree-mixed"])
def test_native_code_computes_the_same(name):
    model = model_of(name)
    native = type(model)(model.description, native=True)
    q, v, u = state_of(model, 14, (5,))
    values = {model.parameter_names[0]: np.linspace(0.5, 1.5, 5)}
    close(native.acceleration(q, v, u, parameters=values), model.acceleration(q, v, u, parameters=values), 1e-12)
    close(native.mass_matrix(q, parameters=values), model.mass_matrix(q, parameters=values), 1e-13)
    close(native.energy(q, v), model.energy(q, v), 1e-13)
    close(native.jacobian("world", "sensor", q), model.jacobian("world", "sensor", q), 1e-13)
