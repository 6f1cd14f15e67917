"""Logs that contradict themselves are named: units, axes, clocks."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import IdentificationError
from heavytop.identify import LogWarning


@pytest.fixture(scope="module")
def tumbling() -> tuple[ht.Model, dict[str, np.ndarray]]:
    model = ht.library.quadcopter().derive()
    rng = np.random.default_rng(0)
    u = 2.2 + 0.1 * np.sin(np.arange(200)[:, None] * [0.11, 0.13, 0.17, 0.19] + rng.uniform(0, 6, 4))
    run = ht.simulate(model, (model.neutral(), [0.3, 0.2, 0.1, 0.5, -0.4, 0.6]), 4.0, 0.02, inputs=u)
    R = np.swapaxes(run.q[:, 3:].reshape(-1, 3, 3), -1, -2)
    log = {
        "t": run.t,
        "u": np.concatenate([u, u[-1:]]),
        "position": run.q[:, :3],
        "attitude": ht.geometry.quaternion_from_rotation(R),
        "velocity": np.matvec(R, run.v[:, :3]),
        "gyro": run.v[:, 3:],
    }
    return model, log


def messages(model: ht.Model, log: dict[str, np.ndarray]) -> str:
    with pytest.warns(LogWarning) as caught:
        ht.identify(model, log, ["m", "J_1", "J_2"], ["position", "attitude", "velocity", "gyro"], window=0.5)
    return " | ".join(str(w.message) for w in caught)


@pytest.mark.thorough
def test_consistent_log_has_no_warnings(tumbling, recwarn) -> None:
    model, log = tumbling
    found = ht.identify(model, log, ["m", "J_1", "J_2"], ["position", "attitude", "velocity", "gyro"], window=0.5)
    assert [w for w in recwarn.list if issubclass(w.category, LogWarning)] == []
    assert found.values["J_1"] == pytest.approx(model.parameters["J_1"], rel=1e-3)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda log: {"gyro": np.degrees(log["gyro"])}, "degrees"),
        (lambda log: {"gyro": log["gyro"] * [1, -1, -1]}, "FRD"),
        (lambda log: {"velocity": 1e3 * log["velocity"]}, "millimetres"),
        (lambda log: {"velocity": log["velocity"] * [1, 1, -1]}, "opposite"),
        (lambda log: {"gyro": np.roll(log["gyro"], 12, axis=0)}, "clock of 'gyro'"),
        (lambda log: {"gyro": log["gyro"][:, [2, 1, 0]]}, "'attitude' along x: check frames, the order"),
    ],
    ids=["degrees", "FRD", "mm", "down", "clock", "columns"],
)
def test_contradiction_is_named(tumbling, change, text) -> None:
    model, log = tumbling
    assert text in messages(model, log | change(log))


def test_flipped_attitude_is_named_by_the_residuals(tumbling) -> None:
    model, log = tumbling
    conjugate = log["attitude"] * [1.0, -1.0, -1.0, -1.0]
    assert "'attitude'" in messages(model, log | {"attitude": conjugate})


def test_accelerometer_in_g(tumbling) -> None:
    model, log = tumbling
    force = np.full((len(log["t"]), 3), [0.0, 0.0, 1.0])
    with pytest.warns(LogWarning, match="units of g"):
        ht.identify(model, log | {"accelerometer": force}, ["m"], ["position", "attitude", "accelerometer"], window=0.5)


def pendulum_log(count: int, scale: float = 1.0) -> tuple[ht.Model, dict[str, np.ndarray]]:
    model = ht.library.pendulum().derive()
    run = ht.simulate(model, ([1.0], [0.0]), until=2.0, step=0.01)
    q = scale * (run.q + 0.001 * np.random.default_rng(0).standard_normal(run.q.shape))
    return model, {"t": run.t[:count], "u": np.zeros((count, 1)), "q": q[:count]}


@pytest.mark.thorough
def test_angle_in_degrees_is_named() -> None:
    model, log = pendulum_log(201, scale=180 / np.pi)
    with pytest.warns(LogWarning, match="'q' reaches 57.*degrees"):
        ht.identify(model, log, ["l"], ["q"], window=1.0)


@pytest.mark.parametrize("count", [101, 102, 150, 200])
def test_windows_cover_the_whole_log_once(count) -> None:
    model, log = pendulum_log(count)
    found = ht.identify(model, log, ["l"], ["q"], window=1.0)
    assert np.isfinite(found.residuals["q"]).sum() == count
    low, high = found.intervals["l"]
    assert low < model.parameters["l"] < high


def test_end_of_a_log_narrows_the_interval() -> None:
    widths = []
    for count in (101, 200):
        model, log = pendulum_log(count)
        low, high = ht.identify(model, log, ["l"], ["q"], window=1.0).intervals["l"]
        widths.append(high - low)
    assert widths[1] < 0.75 * widths[0]


def test_log_shorter_than_a_window_is_named() -> None:
    model, log = pendulum_log(201)
    with pytest.warns(LogWarning, match="log 1 has 50 samples"):
        ht.identify(model, [log, pendulum_log(50)[1]], ["l"], ["q"], window=1.0)


N = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])  # ENU <-> NED
D = np.diag([1.0, -1.0, -1.0])  # FLU <-> FRD


@pytest.mark.parametrize(
    "change",
    [
        lambda log, R: {"position": log["position"] * [1, 1, -1]},
        lambda log, R: {"position": log["position"] @ N},
        lambda log, R: {"position": 1e3 * log["position"]},
        lambda log, R: {"attitude": ht.geometry.quaternion_from_rotation(R @ D)},
        lambda log, R: {"attitude": np.roll(log["attitude"], -1, axis=1)},
        lambda log, R: {"position": log["position"] @ N, "attitude": ht.geometry.quaternion_from_rotation(N @ R @ D)},
        lambda log, R: {"u": log["u"][:, [1, 0, 3, 2]]},
    ],
    ids=["z down", "NED", "mm", "FRD", "xyzw", "all NED and FRD", "motors"],
)
def test_flipped_frames_are_named_by_the_residuals_of_poses_alone(tumbling, change) -> None:
    model, log = tumbling
    poses = {name: log[name] for name in ("t", "u", "position", "attitude")}
    noise = 1e-3 * np.random.default_rng(1).standard_normal(log["position"].shape)
    R = ht.geometry.quaternion.rotation_from_quaternion(log["attitude"])
    wrong = poses | change(log, R)
    with pytest.warns(LogWarning, match=r"does not explain '(position|attitude)\[\d\]' better than a straight line"):
        ht.identify(
            model, wrong | {"position": wrong["position"] + noise}, ["m", "J_1", "J_2"], ["position", "attitude"]
        )


@pytest.mark.parametrize("noise", [0.0, 1e-3, 3e-2])
def test_right_frames_have_no_warnings(tumbling, noise, recwarn) -> None:
    model, log = tumbling
    poses = {name: log[name] for name in ("t", "u", "position", "attitude")}
    poses["position"] = poses["position"] + noise * np.random.default_rng(1).standard_normal(log["position"].shape)
    ht.identify(model, poses, ["m", "J_1", "J_2"], ["position", "attitude"])
    assert [w for w in recwarn.list if issubclass(w.category, LogWarning)] == []


def test_velocities_predicted_from_measured_starts_in_a_wrong_frame(tumbling) -> None:
    model, log = tumbling
    wrong = log | {name: log[name] * [1, 1, -1] for name in ("position", "velocity")}
    with pytest.warns(LogWarning, match=r"'velocity\[2\]' better than a constant"):
        ht.identify(model, wrong, ["m"], ["position", "attitude", "velocity", "gyro"], free_starts=False)


def test_attitudes_of_a_log_are_rounded_not_scaled(tumbling, recwarn) -> None:
    model, log = tumbling
    found = ht.identify(model, log | {"attitude": log["attitude"].round(3)}, ["m"], ["position", "attitude"])
    assert found.values["m"] == pytest.approx(model.parameters["m"], rel=1e-2)
    with pytest.raises(IdentificationError, match=r"'attitude'.*length 1.*sample 0 has the length 2"):
        ht.identify(model, log | {"attitude": 2 * log["attitude"]}, ["m"], ["position", "attitude"])


def test_times_in_milliseconds_are_named() -> None:
    model, log = pendulum_log(201)
    with pytest.raises(IdentificationError, match=r"window.*10 s.*seconds"):
        ht.identify(model, log | {"t": 1000 * log["t"]}, ["l"], ["q"], window=1.0)
