"""Estimates of real flights: nano quadcopters with IMU at 100 Hz and motion capture reduced to 10 Hz, compared with the filter on board."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.control import AccelerometerSensor, Estimator, GyroSensor, PoseSensor
from heavytop.geometry import quaternion, so3

DATA = Path(__file__).parents[3] / "shared" / "data" / "nanobench"
LOG = {
    "time": {"column": "t"},
    "signals": {
        "position": {"columns": ["px", "py", "pz"], "unit": "m"},
        "attitude": {"columns": ["qx", "qy", "qz", "qw"], "order": "xyzw"},
        "velocity": {"columns": ["vx", "vy", "vz"], "unit": "m/s"},
        "gyro": {"columns": ["imu_gyro_x", "imu_gyro_y", "imu_gyro_z"], "unit": "rad/s"},
        "accelerometer": {"columns": ["imu_acc_x", "imu_acc_y", "imu_acc_z"], "unit": "g"},
        "motors": {"columns": [f"motor_motor_m{k}" for k in (1, 2, 3, 4)], "scale": 1 / 65535},
        "estimated_position": {"columns": [f"est_stateEstimate_{axis}" for axis in "xyz"], "unit": "m"},
        "estimated_attitude": {"columns": [f"att_stateEstimate_q{axis}" for axis in "xyzw"], "order": "xyzw"},
    },
}
EVERY, SETTLED = 10, 200


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


@cache
def unit() -> Estimator:
    imu = (
        GyroSensor("hull", noise=0.2, bias=0.05, walk=5e-3),
        AccelerometerSensor("hull", noise=2.0, bias=0.5, walk=5e-2),
    )
    camera = PoseSensor("hull", noise=(0.003,) * 3 + (0.01,) * 3)
    return ht.estimator(ht.library.quadcopter().derive(), [*imu, camera], 0.01, inputs="imu")


@pytest.mark.thorough
@pytest.mark.skipif(not DATA.is_dir(), reason="the flights of NanoBench are not here")
@pytest.mark.parametrize("flight", ["B10_lissajous_fast_rep1", "B9_trefoil_slow_rep1"])
def test_errors_are_smaller_than_those_of_the_filter_on_board(flight: str) -> None:
    """At the samples whose poses the filter does not use."""
    own = unit()
    data = ht.load_log(DATA / f"{flight}.csv.gz", LOG)
    flying = np.flatnonzero(data.motors.values.max(axis=1) > 0.1)
    data = data.isel(time=slice(int(flying[0]), int(flying[-1])))
    R = quaternion.rotation_from_quaternion(data.attitude.values)
    poses = np.concatenate([data.position.values, np.swapaxes(R, 1, 2).reshape(-1, 9)], axis=1)
    readings = np.full_like(poses, np.nan)
    readings[::EVERY] = poses[::EVERY]
    units = np.concatenate([data.gyro.values, data.accelerometer.values], axis=1)
    units[:-1] = 0.5 * (units[:-1] + units[1:])  # means over the samples
    start = own.begin(poses[0], np.concatenate([R[0].T @ data.velocity.values[0], np.zeros(3)]), 0.02, 0.1)
    found = own.filter(start, units, {"pose": readings})
    judged = (np.arange(len(poses)) % EVERY != 0) & (np.arange(len(poses)) >= SETTLED)

    def errors(place: np.ndarray, turned: np.ndarray) -> tuple[float, float]:
        away = np.linalg.norm(place - poses[:, :3], axis=1)
        return rms(away[judged]), rms(so3.angle(np.swapaxes(turned, 1, 2) @ R)[judged])

    ours = errors(found.q[:, :3], np.swapaxes(found.q[:, 3:].reshape(-1, 3, 3), 1, 2))
    board = errors(data.estimated_position.values, quaternion.rotation_from_quaternion(data.estimated_attitude.values))
    assert ours[0] < 0.5 * board[0]
    assert ours[1] < 0.7 * board[1]
    assert ours[0] < 0.003
