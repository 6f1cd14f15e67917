"""Features M1 to M21: the moving frame method."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import euler_lagrange, lagrangian, moving_frame, multipliers, rigid_body
from heavytop_mechanics.moving_frame_examples import ChaplyginSleigh, Pendulum, RotaryPendulum

import heavytop as ht
from heavytop import vector
from heavytop.coordinates import Vector
from heavytop.errors import ConfigurationError, ModelError, ShapeError
from heavytop.geometry import se3, so3


def without_tau_and_friction():
    return RotaryPendulum(B_r=0.0, B_p=0.0, tau=0.0)


# --- the pendulum (M1 to M4) ----------------------------------------------------------------------------------------------------


def test_pendulum_kinematics() -> None:
    p = Pendulum()
    theta, rate, second, h = 0.7, 1.3, -0.4, 1e-5

    def at(t):
        return p.position(theta + rate * t + 0.5 * second * t**2)

    e1, e2 = np.array([np.cos(theta), np.sin(theta)]), np.array([-np.sin(theta), np.cos(theta)])
    np.testing.assert_allclose(p.velocity(theta, rate), p.l * rate * e2, rtol=1e-14)
    np.testing.assert_allclose(p.acceleration(theta, rate, second), p.l * (second * e2 - rate**2 * e1), rtol=1e-14)
    np.testing.assert_allclose((at(h) - at(-h)) / (2 * h), p.velocity(theta, rate), atol=1e-9)


def test_pendulum_states_of_the_reference(golden) -> None:
    data = golden("b_simple_pendulum.json")
    p = Pendulum(**data["parameters"])
    motion = p.derive()
    for state in data["states"]:
        theta, rate = state["theta"], state["thetadot"]
        result = motion([theta], [rate])
        assert result.acceleration[0] == pytest.approx(state["thetaddot"], rel=1e-12, abs=1e-14)
        assert result.acceleration[0] == pytest.approx(-p.g / p.l * np.sin(theta), rel=1e-13)
        np.testing.assert_allclose(result.full, state["xddot"], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(result.ideal, state["F_c"], rtol=1e-12, atol=1e-12)
        # (23): the same force as the minimum norm solution; it does no work and is the tension
        A, b = p.constraint(theta, rate)
        force = moving_frame.minimum_norm_force(p.m * np.eye(2), np.array([p.m * p.g, 0.0]), A, b)
        np.testing.assert_allclose(force, state["F_c"], rtol=1e-12, atol=1e-12)
        assert abs(force @ p.velocity(theta, rate)) < 1e-12
        assert np.linalg.norm(force) == pytest.approx(abs(state["tension"]), rel=1e-12)
        assert abs((A @ motion.matrix([theta])).item()) < 1e-14


def test_pendulum_trajectory(golden, integrate, traced_rate) -> None:
    data = golden("b_simple_pendulum.json")
    table = np.array(data["trajectory_[t,theta,thetadot]"])
    motion = Pendulum(**data["parameters"]).derive()
    run = integrate(traced_rate(motion.state_rate, 2), table[0, 1:], table[:, 0])
    np.testing.assert_allclose(run, table[:, 1:], atol=1e-9)


# --- Euler's laws and block matrices (M5, M6) -----------------------------------------------------------------------------------


def test_eulers_laws_equal_the_body_equations() -> None:
    m, J = 2.0, np.diag([1.0, 1.5, 2.2])
    rng = np.random.default_rng(0)
    R = so3.random(rng)
    X_rate, force = rng.standard_normal(6), rng.standard_normal(6)
    M, D = moving_frame.block_mass([m], [J]), moving_frame.block_gyroscopic(X_rate)
    X_second = np.linalg.solve(M, force - D @ M @ X_rate)
    xi = np.concatenate([R.T @ X_rate[:3], X_rate[3:]])
    xi_rate = np.concatenate([R.T @ X_second[:3] - np.cross(xi[3:], xi[:3]), X_second[3:]])
    body = rigid_body.inertia_force(np.block([[m * np.eye(3), np.zeros((3, 3))], [np.zeros((3, 3)), J]]), xi, xi_rate)
    np.testing.assert_allclose(body, np.concatenate([R.T @ force[:3], force[3:]]), atol=1e-12)


def test_block_matrices_of_two_bodies() -> None:
    M = moving_frame.block_mass([1.0, 2.0], [[3.0, 4.0, 5.0], np.eye(3)])
    np.testing.assert_array_equal(np.diag(M), [1, 1, 1, 3, 4, 5, 2, 2, 2, 1, 1, 1])
    D = moving_frame.block_gyroscopic(np.arange(12.0))
    np.testing.assert_array_equal(D[3:6, 3:6], so3.wed(np.array([3.0, 4, 5])))
    np.testing.assert_array_equal(D[9:, 9:], so3.wed(np.array([9.0, 10, 11])))
    assert np.count_nonzero(D) == 12
    with pytest.raises(ModelError, match="as many masses as inertias"):
        moving_frame.block_mass([1.0], [])


# --- projection (M7 to M13) -----------------------------------------------------------------------------------------------------


def two_link(q):
    first = so3.rotation_about("y", q[0])
    second = first @ so3.rotation_about("x", q[1])
    elbow = first @ np.array([0.0, 0.0, -1.0])
    return [se3.pose(first, 0.5 * elbow), se3.pose(second, elbow + second @ np.array([0.0, 0.1, -0.4]))]


def arm():
    masses, inertias = [1.2, 0.7], [np.diag([0.3, 0.25, 0.1]), np.diag([0.2, 0.21, 0.15])]

    def forces(q, v):
        weight = [m * np.array([0.0, 0, -9.81]) for m in masses]
        return np.concatenate([weight[0], np.zeros(3), weight[1], np.zeros(3)])

    return masses, inertias, moving_frame.from_frames(Vector(2), two_link, masses, inertias, forces)


def test_constraint_matrix_against_differences() -> None:
    _, _, motion = arm()
    q, v, h = np.array([0.4, -0.9]), np.array([1.2, 0.7]), 1e-6
    rate = motion.full_velocity(q, v)
    for i in range(2):
        plus, minus = two_link(q + h * v)[i], two_link(q - h * v)[i]
        slope = (plus - minus) / (2 * h)
        np.testing.assert_allclose(rate[6 * i : 6 * i + 3], slope[:3, 3], atol=1e-9)
        np.testing.assert_allclose(
            so3.wed(rate[6 * i + 3 : 6 * i + 6]), two_link(q)[i][:3, :3].T @ slope[:3, :3], atol=1e-9
        )


def test_projected_equations_equal_lagrange() -> None:
    masses, inertias, motion = arm()

    def kinetic(q, v):
        rate = moving_frame.constraint_matrix(Vector(2), two_link)(q) @ v
        return 0.5 * np.vecdot(rate, moving_frame.block_mass(masses, inertias) @ rate)

    def potential(q):
        frames = two_link(q)
        return 9.81 * sum(m * se3.position(g)[2] for m, g in zip(masses, frames, strict=True))

    a = euler_lagrange.acceleration(Vector(2), lagrangian(kinetic, potential))
    q, v = np.array([0.4, -0.9]), np.array([1.2, 0.7])
    np.testing.assert_allclose(motion.acceleration(q, v), a(q, v), rtol=1e-12)


def test_square_root_and_projector() -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((6, 6))
    M, B = A @ A.T + np.eye(6), rng.standard_normal((6, 2))
    s = moving_frame.scaled(M, B)
    np.testing.assert_allclose(s.root @ s.root, M, atol=1e-12)
    np.testing.assert_allclose(s.root, s.root.T, atol=1e-13)
    np.testing.assert_allclose(s.root @ s.inverse_root, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(s.projector @ s.projector, s.projector, atol=1e-12)
    np.testing.assert_allclose(s.projector, s.projector.T, atol=1e-13)
    np.testing.assert_allclose(s.projector @ s.matrix, s.matrix, atol=1e-12)
    # erratum 4.3: the scaled form of (51) and the plain one agree, the printed mixture does not
    drift, force = rng.standard_normal(6), rng.standard_normal(6)
    plain = np.linalg.solve(B.T @ M @ B, B.T @ (force - M @ drift))
    b = s.matrix
    scaled = np.linalg.solve(b.T @ b, b.T @ (s.inverse_root @ force - s.root @ drift))
    printed = np.linalg.solve(b.T @ M @ b, b.T @ (force - M @ (s.root @ drift)))
    np.testing.assert_allclose(scaled, plain, atol=1e-12)
    assert np.max(np.abs(printed - plain)) > 1e-2


def test_ideal_and_nonideal_parts() -> None:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((6, 6))
    M, B = A @ A.T + np.eye(6), rng.standard_normal((6, 2))
    force, drift, work, v = (
        rng.standard_normal(6),
        rng.standard_normal(6),
        rng.standard_normal(6),
        rng.standard_normal(2),
    )
    ideal, nonideal = moving_frame.split_constraint_force(M, B, work)
    np.testing.assert_allclose(ideal + nonideal, work, atol=1e-13)
    np.testing.assert_allclose(B.T @ ideal, 0, atol=1e-12)
    np.testing.assert_allclose(nonideal, moving_frame.nonideal_force(M, B, work), atol=1e-12)
    plain, rough = moving_frame.five_steps(M, force, B, drift), moving_frame.five_steps(M, force, B, drift, work)
    change = np.linalg.solve(B.T @ M @ B, B.T @ nonideal)
    np.testing.assert_allclose(rough.acceleration - plain.acceleration, change, atol=1e-12)
    powers = moving_frame.total_power(rough, B, v)
    assert abs(powers[0]) < 1e-11
    assert powers[1] == pytest.approx((B @ v) @ work, rel=1e-11)
    np.testing.assert_allclose(M @ rough.full, force + rough.ideal + rough.nonideal, atol=1e-12)


def test_sleigh_with_a_runner_that_rubs() -> None:
    """M11: friction proportional to the side force cannot be ideal; here the runner rubs along its direction."""
    p = ChaplyginSleigh()

    def rub(q, v):
        return -0.7 * v[0] * vector(np.cos(q[2]), np.sin(q[2]), 0.0, 0.0, 0.0, 0.0)

    smooth, rough = p.derive(), p.derive(rub)
    q, v = np.array([0.1, 0.2, 0.7, -0.4]), np.array([1.2, 0.5, -0.8])
    a, b = smooth(q, v), rough(q, v)
    B = smooth.matrix(q)
    np.testing.assert_allclose(
        b.acceleration - a.acceleration, np.linalg.solve(a.mass, B.T @ np.asarray(rub(q, v))), atol=1e-12
    )
    assert moving_frame.total_power(b, B, v)[1] == pytest.approx(-0.7 * v[0] ** 2, rel=1e-12)


def test_udwadia_kalaba_on_rank_deficient_constraints() -> None:
    rng = np.random.default_rng(7)
    A = rng.standard_normal((5, 5))
    M, free = A @ A.T + np.eye(5), rng.standard_normal(5)
    rows = rng.standard_normal((2, 5))
    C, b = np.concatenate([rows, rows[:1] + rows[1:]]), np.array([0.3, -0.6, -0.3])
    a = multipliers.udwadia_kalaba(M, free, C, b)
    np.testing.assert_allclose(C @ a, b, atol=1e-12)
    np.testing.assert_allclose(a, multipliers.constrained(M, M @ free, C, b).acceleration, atol=1e-12)
    with pytest.raises(ModelError, match="positive definite"):
        multipliers.udwadia_kalaba(np.zeros((5, 5)), free, C, b)
    with pytest.raises(ConfigurationError, match="contradict each other there by"):
        multipliers.udwadia_kalaba(M, free, C, b + [0.0, 0.0, 1.0])


# --- sleigh (M14 to M16) --------------------------------------------------------------------------------------------------------


def test_sleigh_states_of_the_reference(golden) -> None:
    data = golden("b_chaplygin_sleigh.json")
    p = ChaplyginSleigh(**data["parameters"])
    motion = p.derive()
    for state in data["states"]:
        q = np.array([*state["x_c"], state["theta"], state["delta"]])
        v = np.array(state["qdot_[u,thetadot,deltadot]"])
        result = motion(q, v)
        np.testing.assert_allclose(result.mass, state["M_star"], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(result.right, state["rhs"], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(result.acceleration, state["qddot"], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(result.ideal, state["ideal_constraint_force_Qc(6)"], rtol=1e-12, atol=1e-11)
        full = motion.full_velocity(q, v)
        assert abs(p.side_slip(q, full)) < 1e-12


def test_sleigh_closed_form(golden) -> None:
    """Eqs 68, 69 (erratum 4.7) against the projection."""
    p = ChaplyginSleigh()
    q, (u, turn, rotor) = np.array([0.0, 0.0, 1.1, 0.6]), (0.4, 1.3, -2.0)
    s, c = np.sin(q[3]), np.cos(q[3])
    a, b, mr, mc = p.a, p.b, p.m_r, p.m_c
    M = np.array(
        [
            [mc + mr, -a * mr * s, -a * mr * s],
            [
                -a * mr * s,
                p.J_c + p.J_r + a**2 * mr + 2 * a * b * mr * c + b**2 * (mc + mr),
                p.J_r + a**2 * mr + a * b * mr * c,
            ],
            [-a * mr * s, p.J_r + a**2 * mr + a * b * mr * c, p.J_r + a**2 * mr],
        ]
    )
    both = rotor**2 + 2 * rotor * turn
    right = np.array(
        [
            a * mr * c * (both + turn**2) + b * (mc + mr) * turn**2,
            a * b * mr * s * both - a * mr * u * c * turn - b * (mc + mr) * u * turn,
            -a * b * mr * s * turn**2 - a * mr * u * c * turn - 2 * p.k1 * q[3] - 4 * p.k2 * q[3] ** 3,
        ]
    )
    result = p.derive()(q, np.array([u, turn, rotor]))
    np.testing.assert_allclose(result.mass, M, atol=1e-13)
    np.testing.assert_allclose(result.right, right, atol=1e-12)


def test_sleigh_trajectory(golden, integrate, traced_rate) -> None:
    data = golden("b_chaplygin_sleigh.json")
    p = ChaplyginSleigh(**data["parameters"])
    motion, stored = p.derive(), data["trajectory"]
    run = integrate(traced_rate(motion.state_rate, 7), np.array(stored["initial"]), np.array(stored["t"]))
    np.testing.assert_allclose(run, stored["state"], atol=1e-9)
    energy = [float(p.energy(z[:4], z[4:])) for z in run]
    np.testing.assert_allclose(energy, stored["energy"], rtol=1e-10)
    slip = [p.side_slip(z[:4], motion.full_velocity(z[:4], z[4:])) for z in run]
    assert np.max(np.abs(slip)) < 1e-12


# --- rotary pendulum (M17 to M19) -----------------------------------------------------------------------------------------------


def test_rotary_pendulum_states_of_the_reference(golden) -> None:
    data = golden("b_rotary_pendulum.json")
    motion = RotaryPendulum(**data["parameters"]).derive()
    for state in data["states"]:
        result = motion(np.array(state["q"]), np.array(state["qdot"]))
        np.testing.assert_allclose(result.mass, state["M_star"], rtol=1e-12)
        np.testing.assert_allclose(result.right, state["rhs_B^T(Q-M Bdot qdot)"], rtol=1e-11)
        np.testing.assert_allclose(result.acceleration, state["qddot"], rtol=1e-11)
        np.testing.assert_allclose(result.ideal, state["ideal_constraint_force_Qc(12)"], rtol=1e-10, atol=1e-13)


def test_rotary_pendulum_matrix_from_frames() -> None:
    """B of (80) to (86) agrees with the differentiated frames (erratum 4.8)."""
    p = RotaryPendulum()

    def frames(q):
        first = so3.rotation_about("z", q[0])
        second = first @ so3.rotation_about("x", q[1])
        arm = first @ np.array([1.0, 0.0, 0.0])
        return [
            se3.pose(first, 0.5 * p.L_r * arm),
            se3.pose(second, p.L_r * arm + second @ np.array([0.0, 0.0, 0.5 * p.L_p])),
        ]

    motion = moving_frame.from_frames(Vector(2), frames, [p.m_r, p.m_p], [p.Jr, p.Jp], p.forces)
    q, v = np.array([0.7, -1.9]), np.array([1.5, 2.5])
    np.testing.assert_allclose(motion.matrix(q), p.constraint_matrix(q), atol=1e-14)
    np.testing.assert_allclose(motion.acceleration(q, v), p.derive().acceleration(q, v), rtol=1e-12)


def test_rotary_pendulum_closed_form_has_the_missing_term() -> None:
    """Erratum 4.10: (90b) needs -(J_p2 - J_p3)/2 sin(2 alpha) theta'^2."""
    p = RotaryPendulum()
    q, v = np.array([0.3, 0.8]), np.array([4.0, -1.0])
    a = p.derive().acceleration(q, v)
    s2, l, m = np.sin(2 * q[1]), p.L_p, p.m_p
    printed = (
        -(l**2) * m * s2 / 8 * v[0] ** 2 - l * p.L_r * m * np.cos(q[1]) / 2 * a[0] + (p.Jp[0] + l**2 * m / 4) * a[1]
    )
    printed += p.B_p * v[1] - l * m * p.g / 2 * np.sin(q[1])
    missing = -(p.Jp[1] - p.Jp[2]) / 2 * s2 * v[0] ** 2
    assert abs(printed + missing) < 1e-14
    assert abs(missing) > 1e-3


@pytest.mark.parametrize("which", ["trajectory_damped_tau", "trajectory_conservative(B=0,tau=0)"])
def test_rotary_pendulum_trajectories(which, golden, integrate, traced_rate) -> None:
    data = golden("b_rotary_pendulum.json")
    p = RotaryPendulum(**data["parameters"]) if "damped" in which else without_tau_and_friction()
    motion, stored = p.derive(), data[which]
    start = np.concatenate([stored["q"][0], stored["qdot"][0]])
    run = integrate(traced_rate(motion.state_rate, 4), start, np.array(stored["t"]), 1e-13, 1e-14)
    np.testing.assert_allclose(run[:, :2], stored["q"], atol=1e-9)
    np.testing.assert_allclose(run[:, 2:], stored["qdot"], atol=1e-9)


def test_rotary_pendulum_upright_is_unstable_and_power_is_right(jacobian_by_differences) -> None:
    p = RotaryPendulum(tau=0.0)
    motion = p.derive()
    linear = jacobian_by_differences(motion.state_rate, np.zeros(4))
    assert np.max(np.linalg.eigvals(linear).real) > 5
    hanging = jacobian_by_differences(motion.state_rate, np.array([0, np.pi, 0, 0]))
    assert np.max(np.linalg.eigvals(hanging).real) < 1e-6

    # M19: dE/dt = tau theta' - B_r theta'^2 - B_p alpha'^2
    p = RotaryPendulum(tau=0.03)
    q, v = np.array([0.4, 2.0]), np.array([1.5, -2.5])
    a = p.derive().acceleration(q, v)
    h = 1e-5

    def energy(t):
        x, w = q + v * t + a * t**2 / 2, v + a * t
        return float(p.kinetic_energy(x, w) + p.potential_energy(x))

    rate = (energy(h) - energy(-h)) / (2 * h)
    assert rate == pytest.approx(p.tau * v[0] - p.B_r * v[0] ** 2 - p.B_p * v[1] ** 2, abs=1e-8)


# --- trees (M20, M21) -----------------------------------------------------------------------------------------------------------


def test_frame_connections_equal_the_frame_graph() -> None:
    system = ht.System()
    system.body("a", at=(0.1, 0.2, 0.3), joint=ht.Revolute("z"), inertia=ht.Inertia(1.0))
    system.body("b", parent="a", at=(1.0, 0, 0), joint=ht.Revolute("x"), inertia=ht.Inertia(1.0))
    system.body("c", parent="a", at=(0, 1.0, 0), joint=ht.Prismatic("y"), inertia=ht.Inertia(1.0))
    model = system.derive()
    q = np.array([0.4, -0.8, 0.6])
    turns = [so3.rotation_about("z", q[0]), so3.rotation_about("x", q[1]), np.eye(3)]
    places = [np.array([0.1, 0.2, 0.3]), np.array([1.0, 0, 0]), np.array([0, 1.0 + q[2], 0])]
    connections = [moving_frame.frame_connection(R, r) for R, r in zip(turns, places, strict=True)]
    frames = moving_frame.tree_frames([-1, 0, 0], connections)
    for name, frame in zip("abc", frames, strict=True):
        np.testing.assert_allclose(frame, model.pose("world", name, q), atol=1e-14)
    with pytest.raises(ModelError, match="frame 0 has parent 1"):
        moving_frame.tree_frames([1, -1], connections[:2])


def test_wrong_sizes_are_named() -> None:
    motion = moving_frame.MovingFrame
    with pytest.raises(ShapeError, match=r"constraint matrix B\(q\) must have shape \(2, 1\), got \(3, 1\)"):
        motion((1, 1), lambda q: np.eye(1), lambda q: np.ones((3, 1)), np.eye(2))
