"""Features K1 to K7: Lagrange in minimal coordinates, computed torque, Euler angles and their singularity."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import euler_lagrange, minimal
from heavytop_mechanics.minimal import MinimalModel

from heavytop import vector
from heavytop.coordinates import EulerAngles, Rotation
from heavytop.errors import ConfigurationError, ModelError
from heavytop.geometry import so3

M, L, G = 1.3, 0.8, 9.81
THETA = np.array([1.0, 2.0, 2.5])


def pendulum() -> MinimalModel:
    return MinimalModel(1, lambda q, v: 0.5 * M * L**2 * v[0] ** 2, lambda q: -M * G * L * np.cos(q[0]))


def double_pendulum() -> MinimalModel:
    def kinetic(q, v):
        c = np.cos(q[0] - q[1])
        return 0.5 * (2.0 * v[0] ** 2 + v[1] ** 2 + 2 * c * v[0] * v[1])

    return MinimalModel(2, kinetic, lambda q: -G * (2 * np.cos(q[0]) + np.cos(q[1])))


def test_pendulum_matrices_and_euler_lagrange_residual() -> None:
    q, v = np.array([[0.4], [1.9], [-2.5]]), np.array([[1.0], [-3.0], [0.2]])
    model = pendulum()
    np.testing.assert_allclose(model.mass_matrix(q), np.full((3, 1, 1), M * L**2), rtol=1e-15)
    np.testing.assert_allclose(model.bias(q, v)[:, 0], M * G * L * np.sin(q[:, 0]), rtol=1e-14)
    # the acceleration solves (1.2) written with finite differences of L along the motion
    a = model.acceleration(q, v, u=np.array([0.7]))
    step = 1e-4

    def momentum(t):
        return M * L**2 * (v + a * t)

    residual = (momentum(step) - momentum(-step)) / (2 * step) + M * G * L * np.sin(q) - 0.7
    assert np.max(np.abs(residual)) < 1e-9


def test_state_space_form_conserves_energy_and_runs_backwards(integrate, traced_rate) -> None:
    model = double_pendulum()
    t = np.linspace(0, 10, 21)
    start = np.array([1.2, -0.4, 0.3, 0.8])
    rate = traced_rate(lambda z, t: model.state_rate(z), 4)
    run = integrate(rate, start, t)

    def energy(z):
        q, v = z[:, :2], z[:, 2:]
        kinetic = 0.5 * np.vecdot(v, np.matvec(model.mass_matrix(q), v))
        return kinetic - G * (2 * np.cos(q[:, 0]) + np.cos(q[:, 1]))

    assert np.ptp(energy(run)) < 1e-9
    back = integrate(rate, run[4] * [1, 1, -1, -1], t[:5])
    np.testing.assert_allclose(back[-1] * [1, 1, -1, -1], start, atol=1e-8)


def test_computed_torque_gives_the_error_dynamics(integrate, traced_rate) -> None:
    model = double_pendulum()
    damping, stiffness = np.diag([4.0, 5.0]), np.array([[9.0, 1.0], [1.0, 8.0]])

    def reference(t):
        return vector(np.sin(t), 0.5 * t), vector(np.cos(t), 0.5), vector(-np.sin(t), 0.0)

    def rate(z, t):
        u = model.computed_torque((z[:2], z[2:]), reference(t), stiffness=stiffness, damping=damping)
        return model.state_rate(z, u)

    t = np.linspace(0, 4, 9)
    run = integrate(traced_rate(rate, 4), np.array([0.5, -0.3, 0.0, 0.0]), t)
    error = np.concatenate(
        [run[:, :2] - np.stack([reference(x)[0] for x in t]), run[:, 2:] - np.stack([reference(x)[1] for x in t])],
        axis=1,
    )
    linear = np.block([[np.zeros((2, 2)), np.eye(2)], [-stiffness, -damping]])
    exact = integrate(lambda _, e: linear @ e, error[0], t)
    np.testing.assert_allclose(error, exact, atol=1e-8)


def test_computed_torque_refuses_singular_inputs_and_masses() -> None:
    reference = (np.zeros(2), np.zeros(2), np.zeros(2))
    blind = MinimalModel(2, lambda q, v: 0.5 * np.vecdot(v, v), None, lambda q: np.array([[1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(ConfigurationError, match=r"input matrix B\(q\) is singular"):
        blind.computed_torque((np.zeros(2), np.zeros(2)), reference, stiffness=np.eye(2), damping=np.eye(2))
    massless = MinimalModel(2, lambda q, v: 0.5 * v[0] ** 2)
    with pytest.raises(ConfigurationError, match=r"mass matrix M\(q\) is singular"):
        massless.computed_torque((np.zeros(2), np.zeros(2)), reference, stiffness=np.eye(2), damping=np.eye(2))
    short = MinimalModel(2, lambda q, v: 0.5 * np.vecdot(v, v), None, lambda q: np.array([[1.0], [0.0]]))
    with pytest.raises(ModelError, match=r"as many inputs as coordinates \(2\), got 1"):
        short.computed_torque((np.zeros(2), np.zeros(2)), reference, stiffness=np.eye(2), damping=np.eye(2))


def test_roll_pitch_yaw_and_its_rate_matrix(jacobian_by_differences) -> None:
    angles = np.array([0.4, -1.1, 2.3])
    roll, pitch, yaw = (so3.rotation_about(axis, a) for axis, a in zip("xyz", angles, strict=True))
    np.testing.assert_allclose(so3.from_roll_pitch_yaw(angles), yaw @ pitch @ roll, atol=1e-15)
    Y = so3.roll_pitch_yaw_rates(angles)
    assert np.linalg.det(Y) == pytest.approx(np.cos(angles[1]), abs=1e-15)
    rates = np.array([0.7, -0.2, 1.5])
    slope = jacobian_by_differences(lambda t: so3.from_roll_pitch_yaw(angles + t[0] * rates), np.zeros(1))[..., 0]
    np.testing.assert_allclose(so3.wed(Y @ rates), so3.from_roll_pitch_yaw(angles).T @ slope, atol=1e-8)


def test_euler_angle_body_matches_the_document() -> None:
    x, y, z = THETA
    body = minimal.euler_angle_body(THETA)
    q, v = np.array([0.5, 0.7, -0.3]), np.array([1.3, -0.8, 0.6])
    (ca, cb, _), (sa, sb, _) = np.cos(q), np.sin(q)
    M_paper = np.array(
        [
            [x, 0, -x * sb],
            [0, y * ca**2 + z * sa**2, (y - z) * ca * sa * cb],
            [-x * sb, (y - z) * ca * sa * cb, x * sb**2 + (y * sa**2 + z * ca**2) * cb**2],
        ]
    )
    np.testing.assert_allclose(body.mass_matrix(q), M_paper, atol=1e-15)
    assert np.linalg.det(body.mass_matrix(q)) == pytest.approx(x * y * z * cb**2, rel=1e-13)

    # the displayed terms of b (eq. 1.7): coefficients of products of rates
    def coefficient(i, j, row):
        e = np.eye(3)
        if i == j:
            return body.bias(q, e[i])[row]
        return body.bias(q, e[i] + e[j])[row] - body.bias(q, e[i])[row] - body.bias(q, e[j])[row]

    assert coefficient(1, 1, 0) == pytest.approx((y - z) * ca * sa, abs=1e-14)
    assert coefficient(0, 1, 1) == pytest.approx(2 * (z - y) * sa * ca, abs=1e-14)
    assert coefficient(0, 1, 2) == pytest.approx((2 * (y - z) * ca**2 - x - y + z) * cb, abs=1e-14)

    # Y^T (Theta w' + w x Theta w) = M q'' + b
    a = np.array([0.2, 0.9, -0.4])
    Y = so3.roll_pitch_yaw_rates(q)
    step = 1e-6
    Y_rate = (so3.roll_pitch_yaw_rates(q + step * v) - so3.roll_pitch_yaw_rates(q - step * v)) / (2 * step)
    w, w_rate = Y @ v, Y @ a + Y_rate @ v
    euler = Y.T @ (THETA * w_rate + np.cross(w, THETA * w))
    np.testing.assert_allclose(body.mass_matrix(q) @ a + body.bias(q, v), euler, atol=1e-8)


def test_euler_rotation_equations_follow_the_reference(golden, integrate, traced_rate) -> None:
    data = golden("a_unstable_rotation.json")
    J = np.array(data["parameters"]["J"])

    def rate(z, t):
        return np.concatenate([Rotation().rate(z[:9], z[9:]), minimal.euler_rotation(J, z[9:])])

    run = integrate(
        traced_rate(rate, 12),
        np.concatenate([np.eye(3).reshape(9), data["parameters"]["Omega0"]]),
        np.array(data["t"]),
        1e-13,
        1e-15,
    )
    # the orbit is next to a separatrix: see "conditioning" in the file
    np.testing.assert_allclose(run[:3, 9:], np.array(data["Omega"])[:3], atol=1e-9)
    np.testing.assert_allclose(run[:, 9:], data["Omega"], atol=1e-4)
    np.testing.assert_allclose(np.swapaxes(run[:3, :9].reshape(3, 3, 3), 1, 2), np.array(data["R"])[:3], atol=1e-10)


def test_both_models_agree_away_from_the_singularity_and_only_one_passes_it(integrate) -> None:
    """A torque about the body's y axis pitches it through 90 degrees; roll and yaw rates make the crossing generic."""
    body = minimal.euler_angle_body(THETA)
    torque = np.array([0.0, 0.3, 0.0])
    t = np.linspace(0, 1.0, 11)
    angles, omega = np.array([0.1, 1.2, 0.2]), np.array([0.05, 0.6, -0.1])
    rates = np.linalg.solve(so3.roll_pitch_yaw_rates(angles), omega)

    def on_so3(_, z):
        return np.concatenate([Rotation().rate(z[:9], z[9:]), minimal.euler_rotation(THETA, z[9:], torque)])

    start = np.concatenate([Rotation().from_rotation_matrix(so3.from_roll_pitch_yaw(angles)), omega])
    run = integrate(on_so3, start, t)
    pitch = so3.to_roll_pitch_yaw(Rotation().rotation_matrix(run[:, :9]))[:, 1]
    assert pitch.argmax() not in (0, len(t) - 1)  # it went up and came down on the other side
    assert pitch.max() > 1.45

    early = t[:4]
    euler = integrate(lambda _, z: body.state_rate(z, torque), np.concatenate([angles, rates]), early)
    np.testing.assert_allclose(
        so3.from_roll_pitch_yaw(euler[:, :3]), Rotation().rotation_matrix(run[:4, :9]), atol=1e-9
    )

    # at the singularity the Euler-angle model has no answer, the other has
    up = np.array([0.3, np.pi / 2, 0.1])
    with pytest.raises(ConfigurationError, match="Euler angles at a pitch"):
        body.acceleration(up, np.array([0.1, 0.2, 0.3]), torque)
    upright = np.concatenate([Rotation().from_rotation_matrix(so3.from_roll_pitch_yaw(up)), omega])
    through = integrate(on_so3, upright, t)  # starts exactly there
    assert np.max(np.abs(Rotation().constraints(through[:, :9]))) < 1e-10


def test_the_singularity_is_one_of_coordinates_not_of_the_formalism() -> None:
    """Near 90 degrees of pitch the same Lagrangian in Euler-angle rates loses all digits, in rotation matrices none."""
    energy = {
        "rates": lambda q, v: (
            0.5 * np.vecdot(so3.roll_pitch_yaw_rates(q) @ v, THETA * (so3.roll_pitch_yaw_rates(q) @ v))
        ),
        "matrix": lambda q, w: 0.5 * np.vecdot(w, THETA * w),
    }
    omega = np.array([0.4, -0.9, 1.3])
    exact = minimal.euler_rotation(THETA, omega)
    errors = {}
    for gap in (1e-1, 1e-5):
        angles = np.array([0.3, np.pi / 2 - gap, 0.8])
        Y = so3.roll_pitch_yaw_rates(angles)
        rates = np.linalg.solve(Y, omega)
        a = euler_lagrange.acceleration(EulerAngles("rates"), energy["rates"])(angles, rates)
        c, s = np.cos(angles), np.sin(angles)
        Y_rate = np.array(
            [
                [0, 0, -c[1] * rates[1]],
                [0, -s[0] * rates[0], -s[1] * s[0] * rates[1] + c[1] * c[0] * rates[0]],
                [0, -c[0] * rates[0], -s[1] * c[0] * rates[1] - c[1] * s[0] * rates[0]],
            ]
        )
        errors[gap] = np.max(np.abs(Y @ a + Y_rate @ rates - exact))
        R = Rotation().from_rotation_matrix(so3.from_roll_pitch_yaw(angles))
        good = euler_lagrange.acceleration(Rotation(), energy["matrix"])(R, omega)
        np.testing.assert_allclose(good, exact, rtol=1e-14)
    assert errors[1e-1] < 1e-12
    assert errors[1e-5] > 1e-8


def test_a_matrix_that_vanishes_as_a_whole_is_singular() -> None:
    """A 1 x 1 matrix always has condition number 1: only its norm around q shows the singularity."""
    shrinking = minimal.MinimalModel(1, lambda q, qd: 0.5 * np.cos(q[0]) ** 2 * qd[0] ** 2)
    with pytest.raises(ConfigurationError, match="mass matrix"):
        shrinking.acceleration([np.pi / 2], [0.1], [1.0])
    assert np.isfinite(shrinking.acceleration([np.pi / 2 - 1e-3], [0.1], [1.0]))
    blind = minimal.MinimalModel(1, lambda q, qd: 0.5 * qd[0] ** 2, None, lambda q: [[np.cos(q[0])]])
    rest = ([0.0], [0.0], [0.0])
    with pytest.raises(ConfigurationError, match="input matrix"):
        blind.computed_torque(([np.pi / 2], [0.0]), rest, stiffness=np.eye(1), damping=np.eye(1))
    tiny = minimal.MinimalModel(1, lambda q, qd: 0.5e-30 * qd[0] ** 2)  # small everywhere is not singular
    assert tiny.acceleration([1.0], [0.0], [1e-30]) == pytest.approx([1.0])


def test_singular_members_of_a_batch_are_found() -> None:
    shrinking = minimal.MinimalModel(1, lambda q, qd: 0.5 * np.cos(q[0]) ** 2 * qd[0] ** 2)
    q = np.array([[0.0], [np.pi / 2], [1.0]])
    with pytest.raises(ConfigurationError, match="singular"):
        shrinking.acceleration(q, np.zeros((3, 1)))
