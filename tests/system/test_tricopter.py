"""The tricopter with suspended load against reference data from particles in 50 digits (features K90, K94-K103)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import along, directions, flow
from tricopter_load import (
    COORDINATE_ORDER,
    LOAD,
    NAMES,
    reference,
    relative_transform,
    states,
    to_quaternions,
    tricopter,
)

from heavytop._arrays import concatenate, part
from heavytop.geometry import se3, so3

SCRAMBLED = ("propeller3", "arm1", LOAD, "propeller1", "arm3", "hull", "propeller2", "arm2")


def relative_error(actual, desired):
    return np.max(np.abs(actual - desired)) / np.max(np.abs(desired))


def compare(model, q, v, T, state, tolerance=1e-12):
    """Every quantity of the model, in velocities v with xi = T v, against the stored one in xi."""
    M, c, D, a = state["M"], state["c"], state["D"], state["xi_dot_free_damped"]
    W = np.linalg.inv(T)
    assert relative_error(W.T @ model.mass_matrix(q) @ W, M) < tolerance
    assert relative_error(W.T @ model.damping_matrix(q) @ W, D) < tolerance
    assert relative_error(W.T @ model.stiffness_force(q), state["fK"]) < tolerance
    assert relative_error(W.T @ model.gravity_force(q), state["fG"]) < tolerance
    assert relative_error(model.kinetic_energy(q, v), state["T"]) < tolerance
    assert relative_error(model.potential_energy(q), state["V_gravity"] + state["V_springs"]) < tolerance
    rate = transform_rate(q, v, model) if not np.array_equal(T, np.eye(15)) else np.zeros((15, 15))
    # xi' = T v' + T' v, so the bias in v is c_v = T^T (c + M T' v)
    assert relative_error(W.T @ model.bias(q, v), c + M @ (rate @ v)) < tolerance
    assert relative_error(T @ model.acceleration(q, v) + rate @ v, a) < tolerance


def transform_rate(q, v, model):
    """T' for the relative load velocity: d/dt(R^T) = -wed(omega_rel) R^T."""
    R = model.pose("hull", LOAD, q)[:3, :3]
    rate = np.zeros((15, 15))
    rate[6:9, 3:6] = -so3.wed(v[6:9]) @ R.T
    return rate


@pytest.fixture(scope="module")
def absolute():
    """Native code, unlike the other variants."""
    return tricopter(load_velocity="absolute").derive()


def test_sizes_names_and_constraints(absolute):
    """30 coordinates, 17 constraints (two rotation matrices with determinant, three circles) of rank 15 (K90)."""
    assert (absolute.nq, absolute.nv, absolute.nu) == (30, 15, 0)
    assert absolute.q_names[:4] == ("hull.x", "hull.y", "hull.z", "hull.R_xx")
    assert absolute.v_names[-1] == "propeller3.rate"
    for state in states():
        assert_allclose(absolute.constraints(state["x"]), np.zeros(17), atol=1e-14)
        Phi, A = absolute.coordinates.constraint_jacobian(state["x"]), absolute.kinematics_matrix(state["x"])
        assert np.linalg.matrix_rank(Phi) == 15
        assert np.linalg.matrix_rank(A) == 15
        assert_allclose(Phi @ A, 0, atol=1e-14)


@pytest.mark.thorough
def test_absolute_load_velocity(absolute):
    for state in states():
        compare(absolute, state["x"], state["xi"], np.eye(15), state)


def test_inertia_parameters_from_particles(absolute):
    for body, stored in reference()["parameters"]["inertia"].items():
        inertia = absolute.description.inertias[NAMES[int(body)]]
        assert_allclose(inertia.mass, stored["total"], rtol=1e-14)
        assert_allclose(inertia.com, stored["center"], atol=1e-15)
        assert_allclose(inertia.moment_at_origin, stored["moment_about_frame_origin"], atol=1e-16)
        assert_allclose(inertia.moments, stored["prime_4x4"], atol=1e-16)


@pytest.mark.thorough
def test_relative_load_velocity():
    model = tricopter().derive(native=False)
    for state in states():
        T = relative_transform(state["x"])
        compare(model, state["x"], np.linalg.solve(T, state["xi"]), T, state)


@pytest.mark.thorough
def test_absolute_by_the_mapping_of_derive():
    model = tricopter().derive(velocity={LOAD: "absolute"}, native=False)
    for state in states():
        compare(model, state["x"], state["xi"], np.eye(15), state)


def test_absolute_by_a_function():
    """xi = velocity(q, v) as in eq. 3.109a: omega_load + R^T omega_hull."""

    def absolute_load(q, v):
        R = np.reshape(part(q, 12, 21), (3, 3))  # column by column: this is R^T
        return concatenate(v[:6], v[6:9] + np.matvec(R, v[3:6]), v[9:])

    model = tricopter().derive(velocity=absolute_load, native=False)
    for state in states():
        compare(model, state["x"], state["xi"], np.eye(15), state)
        assert_allclose(
            model.kinematics_matrix(state["x"]) @ state["xi"], model.rate(state["x"], state["xi"]), atol=1e-13
        )


@pytest.mark.thorough
@pytest.mark.parametrize("load_velocity", ["absolute", "relative"])
def test_quaternions(load_velocity):
    model = tricopter("quaternion", load_velocity).derive(native=False)
    assert (model.nq, model.nv) == (20, 15)
    for state in states():
        T = np.eye(15) if load_velocity == "absolute" else relative_transform(state["x"])
        compare(model, to_quaternions(state["x"]), np.linalg.solve(T, state["xi"]), T, state)


@pytest.mark.thorough
def test_scrambled_declaration():
    """Bodies in any order, children before their parents: the same numbers, sorted by joint."""
    model = tricopter(load_velocity="absolute", order=SCRAMBLED).derive(native=False)
    original = tricopter(load_velocity="absolute").derive(native=False).coordinates
    for state in states():
        q = np.concatenate([state["x"][original.q_slice(name)] for name in SCRAMBLED])
        indices = np.concatenate([np.arange(15)[original.v_slice(name)] for name in SCRAMBLED])
        v = state["xi"][indices]
        assert relative_error(model.mass_matrix(q), state["M"][np.ix_(indices, indices)]) < 1e-12
        assert relative_error(model.bias(q, v), state["c"][indices]) < 1e-12
        assert relative_error(model.acceleration(q, v), state["xi_dot_free_damped"][indices]) < 1e-12


@pytest.mark.thorough
def test_edges_against_the_tree():
    """Every transformation of the vehicle given from the outer to the inner body."""
    model = tricopter(order=COORDINATE_ORDER, against=COORDINATE_ORDER).derive(native=False)
    order = [edge.label for edge in model.description.joints]
    assert not any(step.forward for step in model.expressions.steps if step.edge.joint.coordinates.nq)
    original = tricopter().derive(native=False).coordinates
    assert order == list(COORDINATE_ORDER)
    assert model.nq == original.nq
    for state in states():
        T = relative_transform(state["x"])
        compare(model, state["x"], np.linalg.solve(T, state["xi"]), T, state)


def test_commutation_coefficients(absolute):
    stored = reference()["nonzero_commutation_coefficients_k_i_j_value_(i<j)_state0"]
    expected = np.zeros((15, 15, 15))
    for k, i, j, value in stored:
        expected[k - 1, i - 1, j - 1], expected[k - 1, j - 1, i - 1] = value, -value
    for state in states():
        assert_allclose(absolute.commutation(state["x"]), expected, atol=1e-14)


@pytest.mark.thorough
def test_connection_gives_the_bias(absolute):
    for state in states():
        xi = state["xi"]
        assert relative_error(np.einsum("ijk,j,k->i", absolute.connection(state["x"]), xi, xi), state["c"]) < 1e-12
        assert relative_error(absolute.coriolis_matrix(state["x"], xi) @ xi, state["c"]) < 1e-12


@pytest.mark.thorough
def test_connection_by_particles_by_the_formula_and_by_its_identities(absolute):
    """K61: Gamma_ijk = sum_p m_p (d_i r_p) . d_k (d_j r_p) (eq. 3.32), eq. 3.35, and the identities 3.33a, b, all to 1e-9."""
    q = np.asarray(states()[0]["x"])
    M, gamma, Gamma = absolute.mass_matrix(q), absolute.commutation(q), absolute.connection(q)
    Q, size = np.broadcast_to(q, (15, 30)), np.max(np.abs(Gamma))

    def slopes(function):
        """d_k of an array: (..., 15), by differences along all velocities."""
        return np.moveaxis(along(lambda t: function(flow(absolute, Q, directions(absolute), t))), 0, -1)

    by_particles = np.zeros((15, 15, 15))
    for body in absolute.body_names:
        masses, points = np.linalg.eigh(np.asarray(absolute.description.inertias[body].moments, dtype=float))

        def columns(x, body=body, points=points):
            """d_j r_p (..., 15, 4, particles), homogeneous."""
            G, J = absolute.pose("world", body, x), absolute.jacobian("world", body, x)
            return G[..., None, :, :] @ se3.wed(np.swapaxes(J, -1, -2)) @ points

        by_particles += np.einsum("p,iap,japk->ijk", masses, columns(q), slopes(columns))
    assert_allclose(Gamma, by_particles, atol=1e-9 * size)
    dM, lowered = slopes(absolute.mass_matrix), np.einsum("sij,sk->ijk", gamma, M)
    assert_allclose(dM, Gamma + np.swapaxes(Gamma, 0, 1), atol=1e-9 * size)  # eq. 3.33a
    assert_allclose(lowered, np.einsum("kji->ijk", Gamma) - np.einsum("kij->ijk", Gamma), atol=1e-9 * size)  # eq. 3.33b
    christoffel = [x + np.einsum("ikj->ijk", x) - np.einsum("jki->ijk", x) for x in (dM, lowered)]
    assert_allclose(Gamma, 0.5 * (christoffel[0] + christoffel[1]), atol=1e-9 * size)  # eq. 3.35


def test_energies_along_the_stored_trajectories(absolute):
    for trajectory in (reference()["trajectories"][kind] for kind in ("conservative", "damped")):
        x, xi = np.array(trajectory["x"]), np.array(trajectory["xi"])
        assert_allclose(absolute.kinetic_energy(x, xi), trajectory["T"], rtol=1e-12)
        assert_allclose(absolute.potential_energy(x), trajectory["V"], atol=1e-12 * 20)


@pytest.mark.thorough
def test_two_seconds_of_damped_motion(absolute):
    """The stored trajectory (80-bit arithmetic) by an explicit method of order 8 (K102)."""
    from scipy.integrate import solve_ivp

    trajectory = reference()["trajectories"]["damped"]

    def rate(_, y):
        q, v = y[:30], y[30:]
        return np.concatenate([absolute.evaluate("rate", q, v), absolute.evaluate("acceleration", q, v, np.zeros(0))])

    start = np.concatenate([trajectory["x"][0], trajectory["xi"][0]])
    solution = solve_ivp(rate, (0.0, 2.0), start, method="DOP853", rtol=1e-10, atol=1e-10, t_eval=trajectory["t"])
    assert_allclose(solution.y[:30].T, trajectory["x"], atol=1e-7)
    assert_allclose(solution.y[30:].T, trajectory["xi"], atol=1e-5)
