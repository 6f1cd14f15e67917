"""Multicopters from logs: synthetic flights with known coefficients, files, the command line; real flights of a nano quadcopter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app
from heavytop.compile import Kernel
from heavytop.copters import CommandPlant, catalogue, load
from heavytop.errors import FileFormatError, IdentificationError
from heavytop.geometry import quaternion, so3
from heavytop.identify import LogWarning, airborne, identify_copter

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "nanobench"
SIGNALS = {
    "position": {"columns": ["x", "y", "z"], "unit": "m"},
    "velocity": {"columns": ["vx", "vy", "vz"], "unit": "m/s"},
    "attitude": {"columns": ["qw", "qx", "qy", "qz"]},
    "angular_velocity": {"columns": ["p", "q", "r"], "unit": "rad/s"},
    "motors": {"columns": ["m1", "m2", "m3", "m4"]},
}
MAP = {"time": {"column": "t"}, "signals": SIGNALS}
NANOBENCH = """
[time]
column = "t"
[signals]
position = { columns = ["px", "py", "pz"], unit = "m" }
velocity = { columns = ["vx", "vy", "vz"], unit = "m/s" }
attitude = { columns = ["qx", "qy", "qz", "qw"], order = "xyzw" }
angular_velocity = { columns = ["wx_vicon", "wy_vicon", "wz_vicon"], unit = "rad/s" }
motors = { columns = ["motor_motor_m1", "motor_motor_m2", "motor_motor_m3", "motor_motor_m4"], scale = 1.5259021896696422e-05 }
battery = { columns = "pwr_pm_vbat", unit = "V" }
"""


def write_flight(path: Path, seconds: float = 6.0, seed: int = 0) -> dict[str, float]:
    """A flight of a plant with motor commands along random wiggles, held upright by a simple law; returns the true parameters."""
    plant = CommandPlant(load("crazyflie"), trim=False)
    truth = {
        "moment_x": 2.4e-5,
        "moment_y": 2.0e-5,
        "thrust": 0.13,
        "command_exponent": 1.7,
        "drag_x": 0.01,
        "drag_y": 0.012,
    }
    truth |= {"damping_x": 2e-5, "damping_y": 2e-5, "damping_z": 1e-5}
    p = plant.parameter_vector() * 1.0
    for name, value in truth.items():
        p[plant.parameter_names.index(name)] = value
    step, rng = 0.01, np.random.default_rng(seed)
    mix = np.array([[1, -1, -1, -1], [1, -1, 1, 1], [1, 1, 1, -1], [1, 1, -1, 1]])
    wishes = rng.uniform(0, 2 * np.pi, (3, 3))
    q, v = plant.vehicle.model.neutral(), np.zeros(6)
    run_one = ht.prepare(plant, until=step, step=step, inputs=np.zeros((1, 4)), balance=False)
    lag, motors = 0.04, np.full(4, 0.69)
    rows, parameters = [], dict(zip(plant.parameter_names, p.tolist(), strict=True))
    for k in range(round(seconds / step)):
        R = q[3:].reshape(3, 3).T
        wiggle = 0.5 * np.sin(2 * np.pi * np.array([0.4, 0.9, 1.7]) * k * step + wishes).sum(axis=1)
        lean = np.clip(-0.25 * q[:3] - 0.25 * R @ v[:3] + 0.2 * wiggle, -0.3, 0.3)
        error = np.cross(R[:, 2], np.array([lean[0], lean[1], 1.0]))
        turn = 1.5 * R.T @ error - 0.1 * v[3:]
        turn[2] = -0.02 * v[5] + 0.03 * wiggle[2]
        command = np.clip(mix @ np.array([0.69 + 0.3 * lean[2], *(0.06 * turn)]), 0.2, 1.0)
        rows.append([k * step, *q[:3], *(R @ v[:3]), *ht.geometry.quaternion_from_rotation(R), *v[3:], *command])
        a = np.exp(-step / lag)
        mean = command + (motors - command) * (1 - a) * lag / step
        motors = command + a * (motors - command)
        end = run_one((q, v), parameters, inputs=mean[None])
        q, v = end.q[-1], end.v[-1]
    table = np.array(rows)
    noise = np.concatenate([[0], np.full(3, 2e-4), np.full(3, 2e-3), np.zeros(4), np.full(3, 5e-3), np.zeros(4)])
    table += noise * rng.standard_normal(table.shape)
    np.savetxt(path, table, delimiter=",", header="t,x,y,z,vx,vy,vz,qw,qx,qy,qz,p,q,r,m1,m2,m3,m4", comments="")
    return truth | {"lag": lag}


@pytest.fixture(scope="module")
def flight(tmp_path_factory) -> tuple[Path, dict[str, float]]:
    path = tmp_path_factory.mktemp("flight") / "flight.csv"
    return path, write_flight(path)


@pytest.mark.thorough
def test_coefficients_of_a_flight(flight) -> None:
    path, truth = flight
    log = ht.load_log(path, MAP)
    found = identify_copter(load("crazyflie"), log, horizon=0.3)
    for name, share in (
        ("moment_x", 0.1),
        ("moment_y", 0.1),
        ("thrust", 0.05),
        ("lag", 0.15),
        ("drag_x", 0.2),
        ("drag_y", 0.2),
    ):
        assert found.values[name] == pytest.approx(truth[name], rel=share), name
    simple = identify_copter(load("crazyflie"), log, model="quadratic", horizon=0.3)
    ours, theirs = (x.predict(log, 0.3).mean() for x in (found, simple))
    assert all(ours[signal] < theirs[signal] for signal in ours)


@pytest.mark.thorough
def test_a_prediction_does_not_know_the_motion_that_follows(flight) -> None:
    """Attitudes measured after its start change what a prediction is compared with, not the prediction."""
    log = ht.load_log(flight[0], MAP)
    found = identify_copter(load("crazyflie"), log, model="trim", horizon=0.3)
    first = int(np.flatnonzero(np.isfinite(airborne(log)["position"].values[:, 0]))[0])
    begin = int(np.flatnonzero(log["time"].values == airborne(log)["time"].values[first])[0])
    turned = log["attitude"].values.copy()
    turned[begin + 1 :] = quaternion.multiply(turned[begin + 1 :], quaternion.exp(np.array([0.4, -0.3, 0.0])))
    other = log.assign(attitude=(log["attitude"].dims, turned))
    a, b = (found.predict(x, 0.3, every=100.0).errors for x in (log, other))
    assert a["position"].shape[1] == 1
    assert np.array_equal(a["position"], b["position"])
    assert np.abs(a["attitude"] - b["attitude"]).max() > 0.3


@pytest.mark.thorough
def test_command_line_writes_an_airframe_that_flies(flight, tmp_path: Path) -> None:
    path, truth = flight
    first = tmp_path / "first.toml"
    first.write_text((catalogue.FOLDER / "crazyflie.toml").read_text(encoding="utf-8"), encoding="utf-8")
    columns = ", ".join(f"{name} = {{ columns = {spec['columns']} }}" for name, spec in SIGNALS.items())
    map_file = tmp_path / "map.toml"
    map_file.write_text('time = { column = "t" }\nsignals = { ' + columns.replace("'", '"') + " }\n", encoding="utf-8")
    fitted, page = tmp_path / "fitted.toml", tmp_path / "fit.html"
    arguments = ["identify", str(path), str(first), "--map", str(map_file), "--check", str(path), "--horizon", "0.3"]
    result = CliRunner().invoke(app, [*arguments, "--save", str(fitted), "--out", str(page)])
    assert result.exit_code == 0, result.output
    assert "prediction of" in result.output
    vehicle = load(fitted)
    assert np.diag(ht.control.Hull.of(vehicle.model).moment)[0] == pytest.approx(truth["moment_x"], rel=0.15)
    assert "95 % interval" in page.read_text(encoding="utf-8")
    wrong = CliRunner().invoke(app, ["identify", str(first)])
    assert wrong.exit_code != 0


def test_a_log_without_a_flight_is_rejected() -> None:
    import xarray

    n = 500
    position, motors = np.zeros((n, 3)), np.full((n, 4), 0.8)
    motors[:50] = 0.0
    log = xarray.Dataset(
        {"position": (("time", "axis"), position), "motors": (("time", "rotor"), motors)}, {"time": 0.01 * np.arange(n)}
    )
    with pytest.raises(IdentificationError, match=r"no flight.*units of 'position'"):
        airborne(log)


def test_a_flight_below_the_ground_names_the_frame() -> None:
    height = np.interp(np.arange(600), [0, 100, 200, 500, 550], [0.0, 0.0, 1.0, 1.0, 0.0])
    log = flown(height, np.array([1.0, 0.0, 0.0, 0.0]))
    assert airborne(log).sizes["time"] > 300
    down = log.assign(position=log["position"] * [1.0, 1.0, -1.0])
    with pytest.raises(IdentificationError, match=r"no flight.*z axis points down.*NED"):
        airborne(down)
    with pytest.warns(LogWarning, match="NED"):
        airborne(down.isel(time=slice(210, 490)))


def test_files_need_their_kind_of_model(tmp_path: Path) -> None:
    model = ht.library.pendulum().derive()
    run = ht.simulate(model, ([1.0], [0.0]), until=1.0, step=0.02, parameters={"l": 1.1})
    found = ht.identify(model, run, ["l"], ["q"], window=0.5)
    with pytest.raises(FileFormatError, match="urdf"):
        found.save(tmp_path / "x.toml")
    with pytest.raises(FileFormatError, match=r"\.toml"):
        found.save(tmp_path / "x.csv")


def constant_rate(log, samples: int, every: int) -> dict[str, float]:
    p, v, w = (log[name].values for name in ("position", "velocity", "angular_velocity"))
    R = quaternion.rotation_from_quaternion(log["attitude"].values)
    t, k = samples * 0.01, np.arange(0, len(p) - samples, every)
    turned = R[k] @ so3.exp(t * w[k])
    errors = {
        "position": p[k] + t * v[k] - p[k + samples],
        "velocity": v[k] - v[k + samples],
        "attitude": so3.log(np.swapaxes(R[k + samples], -1, -2) @ turned),
        "angular_velocity": w[k] - w[k + samples],
    }
    return {name: float(np.linalg.norm(e, axis=1).mean()) for name, e in errors.items()}


def test_rotors_that_speed_up_turn_the_body() -> None:
    """d/dt (J omega + h) = -omega x (J omega + h), with the momentum h of four rotors that turn against their torques."""
    vehicle = load("crazyflie")
    plain, plant = CommandPlant(vehicle, trim=False), CommandPlant(vehicle, trim=False, spin=True)
    assert plant.u_names == (*plain.u_names, "given0", "given1", "given2", "given3")
    q, v = vehicle.model.neutral(), np.array([0.0, 0.0, 0.0, 2.0, -1.0, 0.5])
    lagging, given = np.array([0.5, 0.6, 0.55, 0.7]), np.array([0.6, 0.5, 0.75, 0.9])
    lag, momentum = 0.04, 2e-6
    signs = np.sign([rotor.drag_ratio for rotor in vehicle.airframe.rotors])
    h, h_dot = (-np.array([0, 0, momentum * (signs @ c)]) for c in (lagging, (given - lagging) / lag))
    known = dict(zip(plant.parameter_names, plant.parameter_vector().tolist(), strict=True))
    J = np.array([known[f"moment_{axis}"] for axis in "xyz"])
    expected = (-h_dot - np.cross(v[3:], h)) / J
    p = plant.parameter_vector({"spin_torque": momentum / lag, "spin_momentum": momentum})
    a = Kernel(plant.motion())(q, v, np.concatenate([lagging, given]), p)[1]
    b = Kernel(plain.motion())(q, v, lagging, plain.parameter_vector())[1]
    assert np.allclose((a - b)[3:], expected, rtol=1e-9)
    assert np.array_equal(a[:3], b[:3])


def test_a_trim_removes_mean_moments_and_forces() -> None:
    """Constant commands that are too weak and unequal, and axes that lean: with the trim they carry the vehicle."""
    vehicle = load("crazyflie")
    plant = CommandPlant(vehicle)
    R = so3.exp(np.array([0.03, -0.05, 0.4]))
    q = np.concatenate([np.zeros(3), R.T.reshape(-1)])
    commands = np.array([0.4, 0.45, 0.42, 0.5])
    u = np.concatenate([commands, R[2, :2], commands])
    a = Kernel(plant.motion())(q, np.zeros(6), u, plant.parameter_vector({"lift": 1.0}))[1]
    assert np.allclose(a[[0, 1, 3, 4, 5]], 0.0, atol=1e-12)
    assert a[2] == pytest.approx(9.81 * (1 - R[2, 2]), rel=1e-3)
    falling = Kernel(plant.motion())(q, np.zeros(6), u, plant.parameter_vector({"lift": 0.0}))[1]
    assert falling[2] < -0.5


def flown(height: np.ndarray, attitude: np.ndarray):
    import xarray

    n = len(height)
    position = np.stack([0 * height, 0 * height, height], axis=-1)
    motors = np.where(height > 0, 0.5, 0.0)[:, None].repeat(4, axis=1)
    names = {"position": ("time", "axis"), "motors": ("time", "rotor"), "attitude": ("time", "quaternion")}
    values = {"position": position, "motors": motors, "attitude": np.broadcast_to(attitude, (n, 4))}
    return xarray.Dataset({name: (names[name], values[name]) for name in names}, {"time": 0.01 * np.arange(n)})


def test_low_and_several_flights_of_a_log_are_kept() -> None:
    """Two hops of 10 cm; a log that begins and ends in the air is not cut; the vertical is first that on the ground."""
    hop = np.interp(np.arange(500), [0, 100, 110, 390, 400], [0.0, 0.0, 0.1, 0.1, 0.0])
    attitude = quaternion.quaternion_from_rotation(so3.exp(np.array([0.02, -0.03, 0.0])))
    log = airborne(flown(np.concatenate([hop, hop]), attitude))
    known = np.isfinite(log["position"].values[:, 2])
    assert 2 * 190 < known.sum() < 2 * 200
    assert not known[200:290].any()
    assert np.isfinite(log["motors"].values).all()
    assert np.allclose(log["lean"].values, quaternion.rotation_from_quaternion(attitude)[2, :2], atol=1e-12)
    assert airborne(flown(np.full(300, 0.5), attitude)).sizes["time"] == 300
    with pytest.raises(KeyError, match="motors"):
        airborne(log.drop_vars("motors"))
    with pytest.raises(IdentificationError, match=r"'motors' .* 0 to 1, got 500"):
        airborne(log.assign(motors=1000 * log["motors"]))
    with pytest.raises(IdentificationError, match="two samples"):
        airborne(log.isel(time=slice(0, 1)))


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the flights of NanoBench are not here")
def test_real_flights_are_predicted_better_than_by_quadratic_rotors(tmp_path: Path) -> None:
    """Six of the nine flights train, the others are predicted over 0.5 s; B6 hops a few centimetres high with an empty battery."""
    (tmp_path / "map.toml").write_text(NANOBENCH, encoding="utf-8")
    held = ("B2_circle", "B5_helix", "B9_trefoil_medium")
    logs = {f.name: ht.load_log(f, tmp_path / "map.toml", rate=100) for f in sorted(DATA.glob("*.csv.gz"))}
    train = [log for name, log in logs.items() if not name.startswith(held)]
    ours = identify_copter(load("crazyflie"), train, model="trim")
    theirs = identify_copter(load("crazyflie"), train, model="quadratic")
    tested = [airborne(log) for name, log in logs.items() if name.startswith(held)]
    a, b = (x.predict(tested, 0.5, 0.1).mean() for x in (ours, theirs))
    c = [constant_rate(log, 50, 10) for log in tested]
    for signal, value in a.items():
        assert value < b[signal]
        assert value < np.mean([x[signal] for x in c])
    assert a["attitude"] < 0.6 * b["attitude"]
