"""Estimators: exact for linear systems, consistent, invariant, without singular places, kept on loops, equal in batches and in C."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from processes import GUARD

import heavytop as ht
from heavytop.control import (
    AccelerometerSensor,
    AttitudeSensor,
    DirectionSensor,
    DistanceSensor,
    EncoderSensor,
    Estimated,
    Estimator,
    FunctionSensor,
    GyroSensor,
    HeightSensor,
    Instrumented,
    ModelSensor,
    PoseSensor,
    PositionSensor,
    Sensor,
    Sensors,
    VelocitySensor,
)
from heavytop.errors import ControlError, ShapeError, UnknownNameError
from heavytop.geometry import so3

H = 0.01
POSE_NOISE = (0.002,) * 3 + (0.004,) * 3


@cache
def cart() -> ht.Model:
    system = ht.System(name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    return system.derive()


@cache
def cart_filter(delay: float = 0.0) -> Estimator:
    place = EncoderSensor(cart().q_names, noise=0.05, period=0.02, delay=delay)
    speed = EncoderSensor(cart().v_names, name="speed", noise=0.2, bias=0.5, walk=0.1, rates=True)
    return ht.estimator(cart(), [place, speed], H, disturbance=0.7)


@cache
def quadcopter(delay: float = 0.0) -> Estimator:
    model = ht.library.quadcopter().derive()
    imu = (
        GyroSensor("hull", noise=0.01, bias=0.02, walk=1e-3),
        AccelerometerSensor("hull", noise=0.1, bias=0.1, walk=1e-2),
    )
    return ht.estimator(
        model, [*imu, PoseSensor("hull", noise=POSE_NOISE, period=0.01, delay=delay)], 2e-3, inputs="imu"
    )


def flips(count: int, period: float = 2e-3) -> np.ndarray:
    """Gyro and accelerometer (count, 6) of a body that turns about all axes."""
    t = period * np.arange(count)
    return np.stack(
        [6 * np.sin(3 * t), 2 * np.cos(2 * t), 1 + 0 * t, 0.5 * np.sin(t), 0 * t, 9.81 + 3 * np.sin(5 * t)], -1
    )


# --- linear systems: exact ----------------------------------------------------------------------------------------------------


def joint_gaussian(
    own: Estimator, readings: dict[str, np.ndarray], until: int, P0: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (n, 3) and covariance (n, 3, 3) of (x, v, bias) at all samples up to ``until`` by conditioning the joint distribution of the motion."""
    F = np.array([[1.0, H, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    G = np.array([[0.5 * H * H], [H], [0.0]])
    Q = G @ G.T * 0.7**2 / H + np.diag([0.0, 0.0, 0.1**2 * H])
    n = until + 1
    through = [np.linalg.matrix_power(F, k) for k in range(n)]
    S = np.zeros((3 * n, 3 * n))
    for i in range(n):
        for j in range(n):
            total = through[i] @ P0 @ through[j].T
            for k in range(min(i, j)):
                total = total + through[i - k - 1] @ Q @ through[j - k - 1].T
            S[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] = total
    rows, values, noise = [], [], []
    for name, slope, deviation in (("encoder", [1.0, 0.0, 0.0], 0.05), ("speed", [0.0, 1.0, 1.0], 0.2)):
        late = own.functions.steps_of(own.sensor(name))[1]
        for k in range(n):
            if np.isfinite(readings[name][k]).all():
                row = np.zeros(3 * n)
                row[3 * (k - late) : 3 * (k - late) + 3] = slope
                rows.append(row)
                values.append(readings[name][k, 0])
                noise.append(deviation**2)
    A = np.array(rows)
    K = S @ A.T @ np.linalg.inv(A @ S @ A.T + np.diag(noise))
    mean, P = (K @ np.array(values)).reshape(n, 3), (S - K @ A @ S).reshape(n, 3, n, 3)
    return mean, P[np.arange(n), :, np.arange(n)]


@pytest.mark.thorough
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_linear_system_has_the_exact_estimate(delay: float) -> None:
    own = cart_filter(delay)
    start = own.begin([0.0], [0.0], 0.3, 0.4)
    drawn = own.draw(start, np.zeros((40, 1)), seed=0)
    found = own.filter(start, np.zeros((40, 1)), drawn.readings)
    mean, P = joint_gaussian(own, drawn.readings, 39, np.diag([0.3, 0.4, 0.5]) ** 2)
    got = np.concatenate([found.q[-1], found.v[-1], found.b[-1]])
    assert np.abs(got - mean[-1]).max() < 1e-12
    assert np.abs(found.covariance[-1] - P[-1]).max() < 1e-12


def test_the_smoother_of_a_linear_system_is_exact_and_ends_at_the_filter() -> None:
    own = cart_filter()
    start, u = own.begin([0.0], [0.0], 0.3, 0.4), np.zeros((25, 1))
    drawn = own.draw(start, u, seed=1)
    filtered, smoothed = own.filter(start, u, drawn.readings), own.smooth(start, u, drawn.readings, 2)
    assert smoothed.change < 1e-12  # one iteration suffices
    assert np.abs(smoothed.q[-1] - filtered.q[-1]).max() < 1e-12
    mean, P = joint_gaussian(own, drawn.readings, 24, np.diag([0.3, 0.4, 0.5]) ** 2)
    assert np.abs(np.concatenate([smoothed.q, smoothed.v, smoothed.biases["speed"]], axis=1) - mean).max() < 1e-11
    assert np.abs(smoothed.covariance - P).max() < 1e-11
    window = own.moving_horizon(start, u, drawn.readings, window=5)
    assert np.abs(window.q - filtered.q).max() < 1e-11
    assert np.abs(window.covariance - filtered.covariance).max() < 1e-11


# --- slopes --------------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_slopes_of_steps_and_outputs_are_those_of_finite_differences() -> None:
    own, rng = quadcopter(), np.random.default_rng(3)
    x = own.process.start(own.model.random(rng), rng.standard_normal(6))
    b, i, eps = 0.1 * rng.standard_normal(6), rng.standard_normal(6), 1e-6
    x1, F, _ = own.functions.slopes_kernel(x, b, i, 0.0)
    y, slope, _ = own.functions.output_kernels["pose"](x, b, i, 0.0)
    for k in range(9):
        ends = [own.kernels["retract"](x, s * eps * np.eye(9)[k])[0] for s in (1, -1)]
        moved = [own.kernels["difference"](x1, own.functions.slopes_kernel(e, b, i, 0.0)[0])[0] for e in ends]
        assert np.abs((moved[0] - moved[1]) / (2 * eps) - F[:9, k]).max() < 1e-7
        seen = [own.sensor("pose").residual(own.functions.output_kernels["pose"](e, b, i, 0.0)[0], y) for e in ends]
        assert np.abs((seen[0] - seen[1]) / (2 * eps) - slope[:, k]).max() < 1e-7


@pytest.mark.thorough
def test_the_slopes_of_a_strapdown_step_do_not_depend_on_the_estimate() -> None:
    own, rng = quadcopter(), np.random.default_rng(4)
    x = own.process.start(own.model.random(rng, (2,)), rng.standard_normal((2, 6)))
    F = own.functions.slopes_kernel(x, np.zeros(6), rng.standard_normal(6), 0.0)[1]
    assert np.abs(F[0] - F[1]).max() < 1e-12


@pytest.mark.thorough
def test_a_predicted_state_is_that_of_the_stepper() -> None:
    model = ht.library.load("furuta").derive()
    own = ht.estimator(model, [EncoderSensor(model.q_names, noise=1e-3)], 0.005, disturbance=0.3)
    q, v, u = np.array([0.3, 2.0]), np.array([1.0, -2.0]), np.array([0.02])
    after = own.state(own.predict(own.begin(q, v), u))
    expected = ht.stepper(model, 0.005)(q, v, u)
    assert max(np.abs(a - b).max() for a, b in zip(after, expected, strict=True)) < 1e-14


def test_every_sensor_has_the_output_of_its_definition() -> None:
    model = ht.library.quadcopter().derive()
    rng = np.random.default_rng(5)
    q, v, u, at = model.random(rng), rng.standard_normal(6), rng.standard_normal(4), np.array([0.1, 0.2, -0.3])
    G, xi = model.pose("world", "hull", q), model.twist("world", "hull", q, v)
    R, r, omega = G[:3, :3], G[:3, 3] + G[:3, :3] @ at, xi[3:]
    speed = xi[:3] + np.cross(omega, at)
    step = 1e-5  # acceleration of the point by differences of its velocity along the motion
    a = model.acceleration(q, v, u)
    world = []
    for s in (1, -1):
        q1, v1 = model.integrate(q, v + 0.5 * s * step * a, s * step), v + s * step * a
        xi1 = model.twist("world", "hull", q1, v1)
        world.append(model.pose("world", "hull", q1)[:3, :3] @ (xi1[:3] + np.cross(xi1[3:], at)))
    felt = R.T @ ((world[0] - world[1]) / (2 * step) - np.array([0.0, 0.0, -9.81]))
    expected = [
        (GyroSensor("hull"), omega, 1e-14), (AccelerometerSensor("hull", at=at), felt, 1e-5), (PositionSensor("hull", at=at), r, 1e-14),
        (VelocitySensor("hull", at=at), R @ speed, 1e-14), (VelocitySensor("hull", at=at, body=True), speed, 1e-14),
        (HeightSensor("hull", at=at), r[2:], 1e-14), (DirectionSensor("hull", of=(0.3, 0.0, -0.5)), R.T @ [0.3, 0.0, -0.5], 1e-14),
        (DistanceSensor("hull", at=at, to=(1.0, 2.0, 3.0)), [np.linalg.norm(r - [1.0, 2.0, 3.0])], 1e-14),
        (AttitudeSensor("hull"), R.T.reshape(-1), 1e-14), (PoseSensor("hull", at=at), np.concatenate([r, R.T.reshape(-1)]), 1e-14),
        (EncoderSensor(("hull.omega_y",), rates=True), v[4:5], 0.0),
        (FunctionSensor(lambda t, q, v, u: 2 * u[:1] + q[:1] + t, 1), 2 * u[:1] + q[:1] + 0.5, 1e-14),
    ]  # fmt: skip
    for sensor, value, tolerance in expected:
        y = sensor.traced(model)(0.5, q, v, u, np.zeros(6), model.parameter_vector())[0]
        assert np.abs(y - value).max() <= tolerance, sensor.label
        e = 0.1 * rng.standard_normal(sensor.size)
        assert np.abs(sensor.residual(sensor.moved(y, e), y) - e).max() < 1e-12


# --- invariance, batches, singular places ------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_estimates_do_not_depend_on_the_frame_of_the_world() -> None:
    own = quadcopter()
    i = flips(60)
    start = own.begin(own.model.neutral(), np.zeros(6), 0.05, 0.1)
    drawn = own.draw(start, i, seed=2)
    found = own.filter(start, drawn.inputs, drawn.readings)
    R, r = so3.exp(np.array([0.0, 0.0, 2.0])), np.array([3.0, -4.0, 5.0])

    def moved(y: np.ndarray) -> np.ndarray:
        turned = np.einsum("ij,...kj->...ki", R, y[..., 3:].reshape(*y.shape[:-1], 3, 3))
        return np.concatenate([y[..., :3] @ R.T + r, turned.reshape(*y.shape[:-1], 9)], axis=-1)

    there = own.begin(moved(own.model.neutral()), np.zeros(6), 0.05, 0.1)
    other = own.filter(there, drawn.inputs, {"pose": moved(drawn.readings["pose"])})
    assert np.abs(other.q - moved(found.q)).max() < 1e-12
    assert np.abs(other.v - found.v).max() < 1e-12  # in body axes
    assert np.abs(other.covariance - found.covariance).max() < 1e-14


@pytest.mark.thorough
def test_a_batch_equals_single_filters_bit_by_bit() -> None:
    own = quadcopter(0.02)
    i = flips(30)
    start = np.broadcast_to(own.begin(own.model.neutral(), np.zeros(6), 0.05, 0.1), (3, own.memory_size))
    drawn = own.draw(start, i, seed=3)
    y = drawn.readings["pose"]
    y[10, 1] = np.nan  # one member has no reading
    whole = own.filter(start, drawn.inputs, {"pose": y})
    for k in range(3):
        alone = own.filter(start[k], drawn.inputs[:, k], {"pose": y[:, k]})
        assert np.array_equal(alone.last, whole.last[k])


class EulerFilter:
    """The textbook filter of roll, pitch and yaw by a gyro and measured angles, with slopes by differences."""

    def __init__(self, angles: np.ndarray, P: np.ndarray) -> None:
        self.x, self.P = angles, P

    @staticmethod
    def step(x: np.ndarray, gyro: np.ndarray, h: float) -> np.ndarray:
        return x + h * so3.roll_pitch_yaw_rates(x) @ gyro

    def predict(self, gyro: np.ndarray, h: float, noise: float) -> None:
        F = np.stack(
            [(self.step(self.x + e, gyro, h) - self.step(self.x - e, gyro, h)) / 2e-6 for e in 1e-6 * np.eye(3)], -1
        )
        G = h * so3.roll_pitch_yaw_rates(self.x)
        self.x, self.P = self.step(self.x, gyro, h), F @ self.P @ F.T + noise**2 * G @ G.T

    def update(self, R: np.ndarray, noise: float) -> None:
        r = (so3.to_roll_pitch_yaw(R) - self.x + np.pi) % (2 * np.pi) - np.pi
        K = self.P @ np.linalg.inv(self.P + noise**2 * np.eye(3))
        self.x, self.P = self.x + K @ r, (np.eye(3) - K) @ self.P


@pytest.mark.thorough
def test_flips_have_no_singular_place_and_an_euler_filter_fails_there() -> None:
    """Two turns about the lateral axis, upside down twice: pitch passes 90 degrees four times."""
    model = ht.library.quadcopter().derive()
    imu = GyroSensor("hull", noise=0.02), AccelerometerSensor("hull", noise=0.1)
    own = ht.estimator(
        model,
        [*imu, AttitudeSensor("hull", noise=0.01, period=0.05), PositionSensor("hull", period=0.05)],
        5e-3,
        inputs="imu",
    )
    i = np.tile([0.0, 2 * np.pi, 0.3, 0.0, 0.0, 9.81], (400, 1))
    start = own.begin(model.neutral(), np.zeros(6), 0.01, 0.01)
    drawn = own.draw(start, i, seed=4)
    found = own.filter(start, drawn.inputs, drawn.readings)
    R, R_true = (np.swapaxes(q[:, 3:].reshape(-1, 3, 3), 1, 2) for q in (found.q, drawn.q))
    assert so3.angle(np.swapaxes(R, 1, 2) @ R_true).max() < 0.05
    assert R_true[:, 2, 2].min() < -0.99
    euler, worst = EulerFilter(np.zeros(3), 1e-4 * np.eye(3)), 0.0
    for k in range(400):
        if np.isfinite(y := drawn.readings["attitude"][k]).all():
            euler.update(y.reshape(3, 3).T, 0.01)
        worst = max(worst, float(so3.angle(so3.from_roll_pitch_yaw(euler.x).T @ R_true[k])))
        euler.predict(drawn.inputs[k, :3], 5e-3, 0.02)
    assert not worst < 0.5


@pytest.mark.thorough
def test_a_start_upside_down_with_a_wrong_heading_converges() -> None:
    own = quadcopter()
    i = np.tile([0.5, 0.0, 0.0, 0.0, 0.0, 9.81], (200, 1))
    true = own.begin(
        own.model.coordinates.retract(own.model.neutral(), np.array([0, 0, 0, np.pi, 0, 0.0])), np.zeros(6), 1e-3, 1e-3
    )
    drawn = own.draw(true, i, seed=5)
    wrong = own.begin(
        own.model.coordinates.retract(own.model.neutral(), np.array([0, 0, 0, 0, 0, 2.0])), np.zeros(6), 2.0, 1.0
    )
    found = own.filter(wrong, drawn.inputs, drawn.readings)
    assert np.abs(found.q[-1] - drawn.q[-1]).max() < 0.03


# --- consistency ---------------------------------------------------------------------------------------------------------------


def test_a_furuta_pendulum_is_estimated_consistently() -> None:
    model = ht.library.load("furuta").derive()
    own = ht.estimator(model, [EncoderSensor(model.q_names, noise=1e-3)], 0.005, disturbance=0.3)
    start, u = own.begin(np.zeros(2), np.zeros(2), 0.05, 0.2), np.zeros((60, 1))
    drawn = own.draw(np.broadcast_to(start, (200, own.memory_size)), u, seed=6)
    found = own.filter(start, u, drawn.readings)
    assert 0.95 < found.nees(drawn.q, drawn.v)[5:].mean() / found.expected_nees() < 1.05
    assert 0.95 < np.nanmean(found.nis["encoder"]) / 2 < 1.05


@pytest.mark.thorough
def test_a_quadcopter_with_late_poses_is_estimated_consistently() -> None:
    own = quadcopter(0.02)
    i = flips(250)
    start = own.begin(own.model.neutral(), np.zeros(6), 0.02, 0.2)
    drawn = own.draw(np.broadcast_to(start, (300, own.memory_size)), i, seed=7)
    found = own.filter(start, drawn.inputs, drawn.readings, every=10)
    true = {name: b[::10] for name, b in drawn.biases.items()}
    nees = found.nees(drawn.q[::10], drawn.v[::10], true)
    assert found.expected_nees(with_biases=True) == 15
    assert 0.9 < nees[4:].mean() / 15 < 1.1
    assert 0.95 < np.nanmean(found.nis["pose"]) / 6 < 1.05


@pytest.mark.thorough
def test_a_loop_stays_closed_and_its_error_in_the_tangent_space() -> None:
    model = ht.library.load("four-bars:1").derive()
    own = ht.estimator(model, [EncoderSensor(model.q_names[:1], noise=1e-3)], 0.005, disturbance=0.5)
    q, v = model.assemble([1.5, 1.5, -1.5])
    start, u = own.begin(q, v, 0.02, 0.2), np.zeros((40, 0))
    drawn = own.draw(np.broadcast_to(start, (100, own.memory_size)), u, seed=8)
    found = own.filter(start, u, drawn.readings)
    assert max(np.abs(r).max() for r in model.constraint_residuals(found.q, found.v)) < 1e-12
    assert found.expected_nees() == 2
    assert 0.85 < found.nees(drawn.q, drawn.v)[5:].mean() / 2 < 1.15
    Phi = model.constraint_jacobian(found.q[-1])
    assert np.abs(Phi @ found.covariance[-1][:, :3, :3]).max() < 1e-12
    assert own.observability(q).complete


# --- readings ------------------------------------------------------------------------------------------------------------------


def test_outliers_are_gated_and_missing_readings_are_skipped() -> None:
    model = cart()
    own = ht.estimator(model, [EncoderSensor(model.q_names, noise=0.01, gate=0.999)], H, disturbance=0.1)
    start, u = own.begin([0.0], [0.0], 0.05, 0.05), np.zeros((100, 1))
    drawn = own.draw(start, u, seed=9)
    y = drawn.readings["encoder"].copy()
    y[50], y[60:70] = 3.0, np.nan
    found = own.filter(start, u, {"encoder": y})
    assert not found.used["encoder"][50]
    assert found.used["encoder"][[40, 49, 51]].all()
    assert not found.used["encoder"][60:70].any()
    assert np.isnan(found.nis["encoder"][65])
    assert np.abs(found.q - drawn.q).max() < 0.05
    open_gate = ht.estimator(model, [EncoderSensor(model.q_names, noise=0.01)], H, disturbance=0.1)
    assert np.abs(open_gate.filter(start, u, {"encoder": y}).q - drawn.q).max() > 0.3


def test_wrong_starts_of_a_filter_are_rejected() -> None:
    model = ht.library.load("furuta").derive()
    own = ht.estimator(model, [EncoderSensor(model.q_names, noise=1e-3)], 0.005, disturbance=0.3)
    rest = ([0.0, 0.0], [0.0, 0.0])
    with pytest.raises(ShapeError, match=r"configuration must have shape \(2,\)"):
        own.begin(*rest, configuration=(0.1, 0.1, 0.1))
    with pytest.raises(ControlError, match="standard deviations"):
        own.begin(*rest, velocity=-0.1)
    for wrong in (-np.eye(4), np.eye(4) + np.eye(4, k=1), np.full((4, 4), np.nan)):
        with pytest.raises(ControlError, match="negative eigenvalues"):
            own.begin(*rest, covariance=wrong)
    with pytest.raises(UnknownNameError, match="late sensor"):
        own.copy(own.begin(*rest), "encoder")


def test_wrong_arguments_are_rejected() -> None:
    model = cart()
    place = EncoderSensor(model.q_names, noise=0.01)
    with pytest.raises(ControlError, match="disturbance"):
        ht.estimator(model, [place], H)
    with pytest.raises(ControlError, match="different names"):
        ht.estimator(model, [place, place], H, disturbance=0.1)
    with pytest.raises(ControlError, match=r"'encoder'.*0\.015"):
        ht.estimator(model, [EncoderSensor(model.q_names, period=0.015)], H, disturbance=0.1)
    with pytest.raises(ControlError, match="positive"):
        EncoderSensor(model.q_names, noise=0.0)
    with pytest.raises(ControlError, match="GyroSensor"):
        ht.estimator(ht.library.quadcopter().derive(), [PoseSensor("hull")], H, inputs="imu")
    own = ht.estimator(model, [place], H, disturbance=0.1)
    with pytest.raises(UnknownNameError, match="encoder"):
        own.update(own.begin([0.0], [0.0]), "camera", [0.0])
    with pytest.raises(ShapeError, match="motor"):
        own.filter(own.begin([0.0], [0.0]), np.zeros((5, 2)), {})
    with pytest.raises(UnknownNameError, match="hull"):
        ht.estimator(ht.library.quadcopter().derive(), [PoseSensor("hul")], H, disturbance=0.1)
    with pytest.raises(UnknownNameError, match=r"cart\.x"):
        ht.estimator(model, [EncoderSensor(("cart.y",))], H, disturbance=0.1)


@pytest.mark.thorough
def test_the_unseen_directions_are_named() -> None:
    model = ht.library.quadcopter().derive()
    imu = GyroSensor("hull", noise=0.01), AccelerometerSensor("hull", noise=0.1)

    def unseen(*sensors: ModelSensor, **motion: np.ndarray) -> list[str]:
        return list(
            ht.estimator(model, [*imu, *sensors], 0.02, inputs="imu").observability(**motion, samples=50).unseen
        )

    heading = "heading: turn about the vertical"
    assert unseen(PositionSensor("hull")) == [heading]
    assert unseen(PositionSensor("hull"), DirectionSensor("hull", of=(0.5, 0.0, -0.8))) == []
    assert unseen(AttitudeSensor("hull"), HeightSensor("hull")) == [
        "position along x", "position along y", "velocity of hull along x", "velocity of hull along y",
    ]  # fmt: skip
    assert unseen(AttitudeSensor("hull"), VelocitySensor("hull")) == [f"position along {axis}" for axis in "xyz"]
    moving = np.tile([0.0, 0.0, 0.0, 2.0, 0.0, 9.81], (50, 1))
    assert unseen(PositionSensor("hull"), inputs=moving) == [
        "turn of hull about x with turn of hull about z"
    ]  # about the constant force
    moving[25:, 3] = -2.0
    assert unseen(PositionSensor("hull"), inputs=moving) == []


# --- loops of control, export -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_law_on_estimates_balances_a_pole_that_only_encoders_see() -> None:
    model = ht.library.cart_pole().derive()
    encoders = [EncoderSensor(model.q_names, noise=1e-3, delay=0.01)]
    own = ht.estimator(model, encoders, 0.01, disturbance=0.1)
    law = ht.control.lqr(model, model.neutral())
    inner = own.observer(law, own.begin([0.0, 0.0], [0.0, 0.0], 0.1, 0.1))
    q = np.array([[0.0, 0.05], [0.1, -0.05]])
    run = ht.simulate(model, (q, np.zeros((2, 2))), 4.0, 0.01, control=Instrumented(inner, model, encoders, members=2))
    assert np.abs(run.q[-50:]).max() < 0.02
    assert np.abs(run.channels["q_estimated"][50:-1] - run.q[50:-1]).max() < 0.01
    # the filter in the loop is the filter over arrays
    read = np.concatenate([np.full((1, 2, 2), np.nan), run.q[:-2]])
    later = own.filter(own.begin([0.0, 0.0], [0.0, 0.0], 0.1, 0.1), run.u[:-1], {"encoder": read})
    assert np.abs(later.q - run.channels["q_estimated"][:-1]).max() < 0.01


@pytest.mark.thorough
def test_sweeps_run_laws_on_estimates() -> None:
    model = ht.library.cart_pole().derive()
    encoders = [EncoderSensor(model.q_names, noise=1e-3)]
    own = ht.estimator(model, encoders, 0.01, disturbance=0.1)
    law, start = ht.control.lqr(model, model.neutral()), own.begin([0, 0], [0, 0], 0.1, 0.1)
    found = ht.sweep(
        model,
        over={"theta.angle": [-0.05, 0.05], "seed": [0, 1]},
        control=lambda seed: Instrumented(own.observer(law, start), model, encoders, seed=int(seed)),
        until=3.0,
        step=0.01,
        measure={"end": "theta.angle"},
    )
    ends = found.end.values
    assert np.abs(ends).max() < 0.02
    assert np.ptp(ends, axis=1).min() > 1e-6  # different noise


@pytest.mark.thorough
def test_a_vehicle_flies_on_estimates_from_its_sensors() -> None:
    from heavytop import control, copters

    quad = copters.quadcopter()
    sensors = Sensors(
        position=Sensor(0.005),
        attitude=Sensor(0.005),
        velocity=Sensor(0.05),
        gyro=Sensor(0.02),
        accelerometer=Sensor(0.2, 0.05),
        rotor_speeds=None,
    )
    own = ht.estimator(quad, sensors, 0.01, inputs="imu")
    assert [s.label for s in own.measured] == ["position", "attitude", "velocity"]
    start = own.begin(quad.model.neutral(), np.zeros(6), 0.02, 0.05)
    flown = control.Sensed(Estimated(control.OnPart(quad.law(), quad.model), own, start), quad.model, sensors)
    run = ht.simulate(
        quad.model, (quad.model.neutral(), np.zeros(6)), 3.0, 0.01, control=flown, reference=quad.model.neutral(), balance=False
    )  # fmt: skip
    assert np.linalg.norm(run.q[:, :3], axis=-1).max() < 0.03
    flight = copters.fly(quad, copters.maneuvers.hover(quad, duration=0.5), flown, step=0.01)
    assert flight.run.outcome.ok
    assert flight.position_error.max() < 0.05


needs_compiler = pytest.mark.skipif(shutil.which("make") is None or shutil.which("cc") is None, reason="needs make, cc")


@needs_compiler
def test_the_filter_in_c_equals_that_in_python(tmp_path: Path) -> None:
    own = cart_filter(0.05)
    own.export_c(tmp_path, own.begin([0.0], [0.0], 0.3, 0.4))
    text = (tmp_path / "estimator.h").read_text()
    assert all(f"{name}" in text for name in ("predict", "update_encoder", "update_speed", "copy_encoder", "state"))
    done = subprocess.run(["make", "-C", str(tmp_path), "test", "CC=cc"], capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
@needs_compiler
def test_the_filter_of_a_quadcopter_in_c_equals_that_in_python_to_1e_12(tmp_path: Path) -> None:
    own = quadcopter()
    own.export_c(tmp_path, own.begin(own.model.neutral(), np.zeros(6), 0.05, 0.1))
    assert "1e-12" in (tmp_path / "test_estimator.c").read_text()
    done = subprocess.run(["make", "-C", str(tmp_path), "test", "CC=cc"], capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_compiler
def test_law_and_filter_are_one_function_in_c(tmp_path: Path) -> None:
    from heavytop import control, copters

    quad = copters.quadcopter()
    sensors = Sensors(
        position=Sensor(0.005), attitude=Sensor(0.005), gyro=Sensor(0.02), accelerometer=Sensor(0.2), rotor_speeds=None
    )
    own = ht.estimator(quad, sensors, 0.01, inputs="imu")
    start = own.begin(quad.model.neutral(), np.zeros(6), 0.02, 0.05)
    inner = Estimated(control.OnPart(quad.law(limits=False), quad.model), own, start)
    control.export_controller(control.Sensed(inner, quad.model, sensors), tmp_path, 0.01)
    assert "accelerometer_2" in (tmp_path / "controller.h").read_text()
    done = subprocess.run(["make", "-C", str(tmp_path), "test", "CC=cc"], capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.embedded
def test_the_filter_fits_a_microcontroller(tmp_path: Path) -> None:
    own = quadcopter()
    start = own.begin(own.model.neutral(), np.zeros(6), 0.05, 0.1)
    own.export_c(tmp_path, start, precision="float", footprint=True)
    readme = (tmp_path / "README.md").read_text()
    print(next(line for line in readme.splitlines() if "stack" in line.lower()))
    assert "stack" in readme


def test_one_name_and_messages_of_sensors_and_inputs() -> None:
    model = cart()
    name = model.q_names[0]
    sensor = EncoderSensor(name, noise=0.1)
    assert sensor.coordinates == (name,)
    assert sensor.size == 1
    with pytest.raises(ControlError, match="must be a number, not negative"):
        EncoderSensor(name, noise=-1.0)
    found = ht.estimator(model, [sensor], 0.01, disturbance=0.3)
    start = found.begin(model.neutral(), np.zeros(model.nv))
    with pytest.raises(ShapeError, match=r"inputs must have shape \(6, "):
        found.filter(start, np.zeros((5, model.nu)), {"encoder": np.zeros((6, 1))})


def test_wrong_options_of_filters_are_named() -> None:
    model = ht.library.pendulum().derive()
    sensor = EncoderSensor(model.q_names, noise=0.01)
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ControlError, match=r"disturbance.*'pendulum'.*not negative, got"):
            ht.estimator(model, [sensor], H, disturbance=wrong)
    with pytest.raises(ShapeError, match=r"disturbance.*\(1,\), got \(2,\)"):
        ht.estimator(model, [sensor], H, disturbance=[0.1, 0.2])
    with pytest.raises(ControlError, match=r"sensors=.*got str: 'encoder'"):
        ht.estimator(model, ["encoder"], H, disturbance=0.1)  # pyright: ignore[reportArgumentType]
    own = ht.estimator(model, [sensor], H, disturbance=0.1)
    z, u, readings = own.begin([0.5], [0.0]), np.zeros((5, 1)), {"encoder": np.full((5, 1), 0.5)}
    for wrong in (0, -1, 1.5, np.nan):
        with pytest.raises(ControlError, match=r"every.*at least 1, got"):
            own.filter(z, u, readings, every=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ShapeError, match=r"start.*7.*got \(6,\)"):
        own.filter(z[:-1], u, readings)
    with pytest.raises(ControlError, match=r"v of 'pendulum' must be finite"):
        own.begin([0.5], [np.nan])
    for wrong in (0, -1):
        with pytest.raises(ControlError, match=r"samples.*at least 1, got"):
            own.observability([0.1], [0.0], samples=wrong)
