"""Logs: every format gives the same labelled dataset, faults of files are reported, runs written as MCAP are read by other readers."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import FileFormatError
from heavytop.geometry import quaternion, so3
from heavytop.log import plot_log

DATA = Path(os.environ.get("HEAVYTOP_DATA", Path(__file__).parents[3] / "shared" / "data"))
NANOBENCH = """
[time]
column = "t"
[signals]
position = { columns = ["px", "py", "pz"], unit = "m" }
attitude = { columns = ["qx", "qy", "qz", "qw"], order = "xyzw" }
velocity = { columns = ["vx", "vy", "vz"], unit = "m/s" }
angular_velocity = { columns = ["wx_vicon", "wy_vicon", "wz_vicon"], unit = "rad/s" }
gyro = { columns = ["imu_gyro_x", "imu_gyro_y", "imu_gyro_z"], unit = "rad/s" }
accelerometer = { columns = ["imu_acc_x", "imu_acc_y", "imu_acc_z"], unit = "g" }
motors = { columns = ["motor_motor_m1", "motor_motor_m2", "motor_motor_m3", "motor_motor_m4"], scale = 1.5259021896696422e-05 }
setpoint_position = { columns = ["sp_ctrltarget_x", "sp_ctrltarget_y", "sp_ctrltarget_z"], unit = "m" }
setpoint_yaw = { columns = ["sp_ctrltarget_yaw"], unit = "deg" }
estimated_position = { columns = ["est_stateEstimate_x", "est_stateEstimate_y", "est_stateEstimate_z"], unit = "m" }
estimated_attitude = { columns = ["att_stateEstimate_qx", "att_stateEstimate_qy", "att_stateEstimate_qz", "att_stateEstimate_qw"], order = "xyzw" }
voltage = { columns = ["pwr_pm_vbat"], unit = "V" }
"""


@pytest.mark.thorough
@pytest.mark.skipif(not (DATA / "nanobench").is_dir(), reason="the flights of NanoBench are not here")
def test_nine_real_flights(tmp_path: Path) -> None:
    """A map of 15 lines; the gyro agrees with the turning of the attitudes, which another instrument measured."""
    (tmp_path / "map.toml").write_text(NANOBENCH)
    flights = sorted((DATA / "nanobench").glob("*.csv.gz"))
    assert len(flights) == 9
    agreement = []
    for flight in flights:
        data = ht.load_log(flight, tmp_path / "map.toml")
        assert np.abs(np.linalg.norm(data.attitude, axis=1) - 1.0).max() < 1e-12
        assert np.median(np.diff(data.time)) == pytest.approx(0.01, rel=1e-4)
        assert 2.5 < float(data.voltage.min()) <= float(data.voltage.max()) < 4.4
        assert np.linalg.norm(data.accelerometer, axis=1).mean() == pytest.approx(9.81, rel=0.05)
        assert 0.0 <= float(data.motors.min()) <= float(data.motors.max()) <= 1.0
        assert "gaps" not in data.attrs["report"]
        R = quaternion.rotation_from_quaternion(data.attitude.values)
        turned = so3.log(np.swapaxes(R[:-1], -1, -2) @ R[1:]) / np.diff(data.time)[:, None]
        smooth = [[np.convolve(w, np.ones(25), "same") for w in x.T] for x in (turned, data.gyro.values[1:])]
        agreement.append([np.corrcoef(a, b)[0, 1] for a, b in zip(*smooth, strict=True)])
    assert np.median(agreement, axis=0).min() > 0.85  # in the axes of the body, with the right signs


# --- plain text -----------------------------------------------------------------------------------------------------------------


def write(path: Path, columns: dict[str, list[float]]) -> Path:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows)]) + "\n")
    return path


SIMPLE = {"time": {"column": "t", "unit": "ms"}, "signals": {"gyro": {"columns": ["a", "b", "c"], "unit": "deg/s"}}}


def test_numbers_are_read_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(200, 3)) * 10.0 ** rng.integers(-12, 12, (200, 3))).T.tolist()
    columns = {"t": np.arange(0.0, 200.0).tolist(), "a": values[0], "b": values[1], "c": values[2]}
    plain = SIMPLE | {"signals": {"raw": {"columns": ["a", "b", "c"]}}}
    data = ht.load_log(write(tmp_path / "a.csv", columns), plain)
    assert (data.raw.values == np.transpose(values)).all()
    assert data.time.values[-1] == pytest.approx(0.199)


@pytest.mark.parametrize(
    ("columns", "log_map", "text"),
    [
        ({"t": [0.0, 1.0], "a": [0.0, 0.0], "b": [0.0, 0.0]}, SIMPLE, "'c'"),
        ({"t": [0.0, 1.0], "a": [0.0, 0.0], "b": [0.0, float("nan")], "c": [0.0, 0.0]}, SIMPLE, "'b'"),
        ({"t": [0.0, 2.0, 1.0], "a": [0.0] * 3, "b": [0.0] * 3, "c": [0.0] * 3}, SIMPLE, "goes back"),
        ({"s": [0.0, 1.0], "a": [0.0] * 2, "b": [0.0] * 2, "c": [0.0] * 2}, SIMPLE, "column of the time"),
        ({"t": [0.0, 1.0], "a": [0.0] * 2, "b": [0.0] * 2, "c": [0.0] * 2}, None, "map="),
    ],
)
def test_faulty_tables(tmp_path: Path, columns: dict, log_map: dict, text: str) -> None:
    with pytest.raises(FileFormatError, match=text):
        ht.load_log(write(tmp_path / "a.csv", columns), log_map)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"columns": ["a", "b", "c"], "unit": "furlong"}, "furlong"),
        ({"columns": ["a", "b"], "frame": "NED"}, "3 columns"),
        ({"colums": ["a"]}, "columns"),
        ({"columns": []}, "list of column names"),
        ({"columns": ["a"], "scale": "x"}, "finite number"),
    ],
)
def test_faulty_maps(tmp_path: Path, change: dict, text: str) -> None:
    file = write(tmp_path / "a.csv", {"t": [0.0], "a": [0.0], "b": [0.0], "c": [0.0]})
    with pytest.raises(FileFormatError, match=text):
        ht.load_log(file, SIMPLE | {"signals": {"gyro": change}})


def test_gaps_jumps_and_nan_as_the_map_allows(tmp_path: Path) -> None:
    t = [*range(0, 100, 10), 95, *range(500, 600, 10)]
    columns = {
        "t": [float(x) for x in t],
        "a": [float(x) for x in range(len(t))],
        "b": [0.0] * len(t),
        "c": [0.0] * len(t),
    }
    columns["b"][3] = float("nan")
    allowed = {"time": {"column": "t", "unit": "ms", "nan": "drop", "jumps": "drop"}, "signals": SIMPLE["signals"]}
    t[10] = 85
    columns["t"][10] = 85.0
    data = ht.load_log(write(tmp_path / "a.csv", columns), allowed, rate=100.0)
    report = data.attrs["report"]
    assert "1 gaps" in report
    assert "goes back" in report
    assert "not numbers" in report
    assert np.isnan(data.gyro.values[15:45]).all()
    assert np.isfinite(data.gyro.values[:9]).all()


def test_a_clock_that_jumps_ahead_of_the_log_is_named(tmp_path: Path) -> None:
    """Resampling would make a million rows without a measurement."""
    t = 0.01 * np.arange(200) + np.where(np.arange(200) < 120, 0.0, 1e4)
    file = write(tmp_path / "a.csv", {"t": (1e3 * t).tolist()} | {c: [0.0] * 200 for c in "abc"})
    with pytest.raises(FileFormatError, match=r"200 samples of 'gyro', 0\.01 s apart.* jumps from 1\.19 s by 10000"):
        ht.load_log(file, SIMPLE, rate=100.0)
    assert len(ht.load_log(file, SIMPLE).gyro) == 200
    seconds = SIMPLE | {"time": {"column": "t", "unit": "s"}}  # the column is in milliseconds
    steady = write(tmp_path / "b.csv", {"t": np.arange(0.0, 2000.0, 10.0).tolist()} | {c: [0.0] * 200 for c in "abc"})
    with pytest.raises(FileFormatError, match=r"10 s apart.*unit of the time"):
        ht.load_log(steady, seconds, rate=100.0)


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="no file"):
        ht.load_log(tmp_path / "nothing.csv", SIMPLE)
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(FileFormatError, match="empty"):
        ht.load_log(tmp_path / "empty.csv", SIMPLE)
    (tmp_path / "noise.csv").write_bytes(bytes(range(256)))
    with pytest.raises(FileFormatError):
        ht.load_log(tmp_path / "noise.csv", SIMPLE)
    (tmp_path / "bare.csv").write_text("1,2,3\n4,5,6\n")
    with pytest.raises(FileFormatError, match="does not name columns"):
        ht.load_log(tmp_path / "bare.csv", SIMPLE)


def test_attitudes_between_samples_turn_at_a_constant_rate(tmp_path: Path) -> None:
    """Resampling a steady spin about a slanted axis, whose quaternions change sign on the way."""
    t = np.arange(0.0, 4.0, 0.05)
    rate = np.array([1.0, -2.0, 2.0])
    quats = quaternion.exp(t[:, None] * rate) * np.where(np.arange(len(t)) % 3 == 0, -1.0, 1.0)[:, None]
    columns = {"t": t.tolist()} | {k: quats[:, i].tolist() for i, k in enumerate("wxyz")}
    log_map = {"time": {"column": "t"}, "signals": {"attitude": {"columns": list("wxyz")}}}
    data = ht.load_log(write(tmp_path / "a.csv", columns), log_map, rate=170.0)
    R = quaternion.rotation_from_quaternion(data.attitude.values)
    assert np.allclose(R, so3.exp(data.time.values[:, None] * rate), atol=1e-9)


def test_signals_of_a_table_with_clocks_and_gaps_apart(tmp_path: Path) -> None:
    """A camera 50 ms late next to a gyro, and a NaN in one of two signals: each has its times; with a rate they agree again."""
    t = 0.01 * np.arange(300)
    columns = {"t": t.tolist(), "a": np.sin(3 * t).tolist(), "x": np.sin(3 * (t - 0.05)).tolist()}
    columns["a"][7] = float("nan")
    signals = {"rate": {"columns": "a"}, "place": {"columns": "x", "unit": "m", "late": 0.05}}
    log_map = {"time": {"column": "t", "nan": "drop"}, "signals": signals}
    file = write(tmp_path / "a.csv", columns)
    data = ht.load_log(file, log_map)
    assert data.rate.dims == ("time_rate",)
    assert len(data.rate) == 299
    assert float(data.time_place[0]) == pytest.approx(-0.05)
    assert "0.05 s earlier" in data.attrs["report"]
    together = ht.load_log(file, log_map, rate=100.0)
    assert np.abs(together.rate - together.place).max() < 1e-3
    with pytest.raises(FileFormatError, match="late of place must be a finite number"):
        ht.load_log(file, {"time": {"column": "t"}, "signals": {"place": signals["place"] | {"late": "1"}}})


# --- netCDF ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_netcdf_of_another_program(tmp_path: Path, engine: str) -> None:
    """Two axes of time, labels, units, a mask; without a map names are kept, with one columns become signals."""
    import xarray

    rng = np.random.default_rng(0)
    place, angle = rng.standard_normal((50, 3)), rng.standard_normal(400)
    angle[9] = np.nan
    times = {"camera": ("camera", 20.0 * np.arange(50), {"units": "milliseconds since 2020-01-01"})}
    times |= {"bus": ("bus", 0.0025 * np.arange(400), {"units": "s"})}
    made = {"place": (("camera", "axis"), place, {"units": "mm"}), "angle": ("bus", angle, {"units": "deg"})}
    dataset = xarray.Dataset(made, {**times, "axis": ["x", "y", "z"]})
    dataset.to_netcdf(tmp_path / "a.nc", engine=engine)
    data = ht.load_log(tmp_path / "a.nc")
    assert np.allclose(data.place, 1e-3 * place, rtol=1e-15)
    assert list(data.axis.values) == ["x", "y", "z"]
    assert np.allclose(data.angle, np.radians(angle), rtol=1e-15, equal_nan=True)
    assert float(data.time_camera[-1]) == pytest.approx(0.98)
    assert ht.load_log(tmp_path / "a.nc", rate=50.0).sizes["time"] == 50
    columns = {"columns": [f"place[{axis}]" for axis in "xyz"], "topic": "camera"}
    mapped = ht.load_log(tmp_path / "a.nc", {"signals": {"position": columns}})
    assert np.array_equal(mapped.position, data.place)
    with pytest.raises(FileFormatError, match=r"unknown topic ''.*'camera'"):
        ht.load_log(tmp_path / "a.nc", {"signals": {"position": {"columns": columns["columns"]}}})
    dataset.drop_vars(["camera", "bus"]).to_netcdf(tmp_path / "b.nc", engine=engine)
    with pytest.raises(FileFormatError, match=r"no variable .* times .* columns are: .*angle"):
        ht.load_log(tmp_path / "b.nc")
    (tmp_path / "c.nc").write_bytes((tmp_path / "a.nc").read_bytes()[:200])
    with pytest.raises(FileFormatError, match="not a readable netCDF"):
        ht.load_log(tmp_path / "c.nc")


def test_saved_logs_and_runs_are_read_from_netcdf(tmp_path: Path) -> None:
    model = ht.library.pendulum().derive()
    run = ht.simulate(model, ([1.0], [0.0]), until=1.0, step=0.01)
    run.save(tmp_path / "run.nc")
    data = ht.load_log(tmp_path / "run.nc")
    assert np.array_equal(data.q.sel(coordinate="theta.angle"), run["theta.angle"])
    data.to_netcdf(tmp_path / "log.nc", engine="h5netcdf")
    again = ht.load_log(tmp_path / "log.nc")
    assert np.array_equal(again.q, run.q)
    assert list(again.coordinate.values) == list(run.q_names)


def test_a_figure_has_every_signal_and_breaks_in_gaps(tmp_path: Path) -> None:
    t = np.concatenate([0.01 * np.arange(50), 2.0 + 0.01 * np.arange(50)])
    file = write(tmp_path / "a.csv", {"t": t.tolist(), "a": t.tolist(), "x": t.tolist(), "y": t.tolist()})
    signals = {"enc": {"columns": "a", "unit": "deg"}, "speeds": {"columns": ["x", "y"], "unit": "rpm"}}
    data = ht.load_log(file, {"time": {"column": "t"}, "signals": signals})
    figure = plot_log(data, tmp_path / "log.png")
    assert (tmp_path / "log.png").read_bytes()[1:4] == b"PNG"
    assert [(a.get_title(), a.get_ylabel(), len(a.lines)) for a in figure.axes] == [
        ("enc", "enc in rad", 1),
        ("speeds", "in rad/s", 2),
    ]
    assert all(np.isnan(line.get_ydata()).sum() == 1 for a in figure.axes for line in a.lines)
    with pytest.raises(FileFormatError, match="no signals over a time"):
        plot_log(data.drop_dims("time"))


def test_an_angular_velocity_in_world_axes_is_rotated_to_the_body(tmp_path: Path) -> None:
    """A body that turns about its own slanted axis, and the same rate in the world."""
    t = np.arange(0.0, 3.0, 0.02)
    first, own = so3.exp(np.array([0.5, -1.0, 0.3])), np.array([1.0, -2.0, 0.5])
    R = first @ so3.exp(t[:, None] * own)
    quats = quaternion.quaternion_from_rotation(R)
    columns = {"t": t.tolist()} | {k: quats[:, i].tolist() for i, k in enumerate("wxyz")}
    columns |= {name: np.full(len(t), x).tolist() for name, x in zip("abc", first @ own, strict=True)}
    signals = {"attitude": {"columns": list("wxyz")}, "angular_velocity": {"columns": list("abc"), "frame": "world"}}
    data = ht.load_log(write(tmp_path / "a.csv", columns), {"time": {"column": "t"}, "signals": signals})
    assert np.allclose(data.angular_velocity, own, atol=1e-12)


# --- flight stacks and robots -----------------------------------------------------------------------------------------------------


def test_betaflight_blackbox(tmp_path: Path) -> None:
    names = [
        "loopIteration",
        "time (us)",
        *(f"gyroADC[{k}] (deg/s)" for k in range(3)),
        *(f"accSmooth[{k}]" for k in range(3)),
    ]
    names += [*(f"motor[{k}]" for k in range(4)), "flags"]
    text = [
        '"Product","Blackbox flight data recorder"',
        '"acc_1G",2048',
        ",".join(f'"{name}"' for name in names),
        "0, 1000, 180, 0, 0, 0, 0, 2048, 100, 200, 300, 400, ARM|ANGLE",
        "1, 2000, 0, 90, 0, 2048, 0, 0, 100, 200, 300, 400, ARM|ANGLE",
    ]
    (tmp_path / "btfl.csv").write_text("\n".join(text))
    data = ht.load_log(tmp_path / "btfl.csv")
    assert data.attrs["format"] == "betaflight"
    assert data.gyro.values[:, :2].tolist() == pytest.approx(np.array([[np.pi, 0.0], [0.0, np.pi / 2]]))
    assert data.accelerometer.values[0, 2] == pytest.approx(9.80665)
    assert data.time.values[1] == pytest.approx(1e-3)
    assert "flags" not in data


def ulog(path: Path, topics: dict[str, tuple[list[tuple[str, str]], list[tuple]]]) -> Path:
    """A ULog file (docs.px4.io, "ULog File Format") with these topics: (type, name) of the fields, and rows."""
    codes = {"uint64_t": "Q", "float": "f"}

    def message(kind: bytes, content: bytes) -> bytes:
        return struct.pack("<Hc", len(content), kind) + content

    data = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 0)
    for name, (fields, _) in topics.items():
        data += message(b"F", f"{name}:{''.join(f'{k} {n};' for k, n in fields)}".encode())
    for k, name in enumerate(topics):
        data += message(b"A", struct.pack("<BH", 0, k) + name.encode())
    for k, (fields, rows) in enumerate(topics.values()):
        form = "<"
        for kind, _ in fields:
            form += codes[kind] if "[" not in kind else kind[6:-1] + "f"
        for row in rows:
            data += message(b"D", struct.pack("<H", k) + struct.pack(form, *row))
    path.write_bytes(data)
    return path


def test_ulog_from_north_east_down(tmp_path: Path) -> None:
    """PX4 flies north, nose to the east, rolled to the right: in east-north-up the nose points along x and the right side down."""
    pytest.importorskip("pyulog")
    roll = 0.3
    q_ned = quaternion.multiply(
        quaternion.exp(np.array([0.0, 0.0, np.pi / 2])), quaternion.exp(np.array([roll, 0.0, 0.0]))
    )
    topics = {
        "vehicle_attitude": ([("uint64_t", "timestamp"), ("float[4]", "q")], [(1000 * k, *q_ned) for k in range(3)]),
        "vehicle_local_position": (
            [
                ("uint64_t", "timestamp"),
                ("float", "x"),
                ("float", "y"),
                ("float", "z"),
                ("float", "vx"),
                ("float", "vy"),
                ("float", "vz"),
            ],
            [(2000, 1.0, 2.0, -3.0, 4.0, 0.0, -1.0)],
        ),
        "sensor_combined": (
            [("uint64_t", "timestamp"), ("float[3]", "gyro_rad"), ("float[3]", "accelerometer_m_s2")],
            [(500, 0.1, 0.2, 0.3, 0.0, 0.0, -9.5)],
        ),
    }
    data = ht.load_log(ulog(tmp_path / "flight.ulg", topics))
    R = quaternion.rotation_from_quaternion(data.attitude.values[0])
    assert np.allclose(R[:, 0], [1.0, 0.0, 0.0], atol=1e-6)
    left = R[:, 1]
    assert left[2] == pytest.approx(np.sin(roll), abs=1e-6)
    assert data.position.values[0].tolist() == pytest.approx([2.0, 1.0, 3.0])
    assert data.velocity.values[0].tolist() == pytest.approx([0.0, 4.0, 1.0])
    assert data.gyro.values[0].tolist() == pytest.approx([0.1, -0.2, -0.3])
    assert data.accelerometer.values[0, 2] == pytest.approx(9.5)
    assert data.attitude.dims[0] == "time_vehicle_attitude"
    assert "not in the log" in data.attrs["report"]
    (tmp_path / "broken.ulg").write_bytes(b"ULog\x01\x12\x35\x01" + bytes(4))
    with pytest.raises(FileFormatError):
        ht.load_log(tmp_path / "broken.ulg")


@pytest.mark.parametrize("version", [1, 2])
def test_ros_bags(tmp_path: Path, version: int) -> None:
    pytest.importorskip("rosbags")
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import Writer as Writer2
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS1_NOETIC if version == 1 else Stores.ROS2_HUMBLE)
    kinds = types.types
    Imu, Header, Time = (
        kinds[f"{p}/msg/{n}"]
        for p, n in (("sensor_msgs", "Imu"), ("std_msgs", "Header"), ("builtin_interfaces", "Time"))
    )
    Vector, Quaternion = kinds["geometry_msgs/msg/Vector3"], kinds["geometry_msgs/msg/Quaternion"]
    path = tmp_path / ("a.bag" if version == 1 else "bag")
    with Writer1(path) if version == 1 else Writer2(path, version=8) as writer:
        connection = writer.add_connection("/imu", "sensor_msgs/msg/Imu", typestore=types)
        for k in range(4):
            header = (
                Header(seq=k, stamp=Time(sec=1, nanosec=k), frame_id="imu")
                if version == 1
                else Header(stamp=Time(sec=1, nanosec=k), frame_id="imu")
            )
            message = Imu(
                header,
                Quaternion(0.0, 0.0, 0.0, 1.0),
                np.zeros(9),
                Vector(0.1 * k, 0.0, 0.0),
                np.zeros(9),
                Vector(0.0, 0.0, 9.81),
                np.zeros(9),
            )
            data = (
                types.serialize_ros1(message, "sensor_msgs/msg/Imu")
                if version == 1
                else types.serialize_cdr(message, "sensor_msgs/msg/Imu")
            )
            writer.write(connection, 10**18 + 1000 * k, data)
    data = ht.load_log(path)
    assert data.gyro.values[:, 0] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert data.accelerometer.values[:, 2] == pytest.approx([9.81] * 4)
    assert data.time.values == pytest.approx([0.0, 1e-6, 2e-6, 3e-6], abs=1e-12)
    assert data.imu_attitude.values[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_mcap_of_another_program(tmp_path: Path) -> None:
    """JSON messages; the map names a topic and columns within them."""
    pytest.importorskip("mcap")
    import json

    from mcap.writer import Writer

    with open(tmp_path / "a.mcap", "wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("state", "jsonschema", b'{"type": "object"}')
        channel = writer.register_channel("/state", "json", schema)
        for k in range(5):
            content = {"pose": {"p": [k, 2 * k, -k]}, "mode": "hover"}
            writer.add_message(channel, log_time=10**9 + 10**7 * k, data=json.dumps(content).encode(), publish_time=0)
        writer.finish()
    signals = {"position": {"topic": "/state", "columns": ["pose.p[0]", "pose.p[1]", "pose.p[2]"], "unit": "cm"}}
    data = ht.load_log(tmp_path / "a.mcap", {"signals": signals})
    assert data.position.values[4].tolist() == pytest.approx([0.04, 0.08, -0.04])
    assert data.time.values == pytest.approx(0.01 * np.arange(5))
    with pytest.raises(FileFormatError, match="none of the signals"):
        ht.load_log(tmp_path / "a.mcap")


# --- runs as MCAP -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run() -> ht.Run:
    model = ht.library.quadcopter().derive()
    rng = np.random.default_rng(3)
    return ht.simulate(
        model, (model.random(rng), rng.normal(size=6)), until=1.0, step=0.005, inputs=[2.0, 2.1, 2.2, 2.3]
    )


def test_run_is_read_back_exactly(run: ht.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run.mcap")
    data = ht.load_log(tmp_path / "run.mcap")
    assert (data.time.values == run.t).all()
    for part in "qvu":
        assert (data[part].values == getattr(run, part)).all()
        assert data[part].attrs["units"] == list(getattr(run, f"{part}_units"))
    assert data.q.coordinate.values.tolist() == list(run.q_names)
    assert (data.energy.sel(energy_kind="kinetic").values == run.kinetic_energy).all()


def test_other_readers_decode_a_run(run: ht.Run, tmp_path: Path) -> None:
    """The reader of the MCAP project, with its checks, decodes times, poses and plots by the schemas in the file."""
    pytest.importorskip("mcap_ros2")
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory

    run.save(tmp_path / "run.mcap")
    with open(tmp_path / "run.mcap", "rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == len(run) * len(summary.channels)
        k = 0
        for schema, _, message, tf in reader.iter_decoded_messages(topics=["/tf"]):
            assert schema is not None
            assert schema.name == "foxglove_msgs/msg/FrameTransforms"
            (transform,) = tf.transforms
            assert (transform.parent_frame_id, transform.child_frame_id) == ("world", "hull")
            assert message.log_time == round(run.t[k] * 1e9)
            r = transform.rotation
            R = quaternion.rotation_from_quaternion(np.array([r.w, r.x, r.y, r.z]))
            assert np.allclose(R, run.model.pose("world", "hull", run.q[k])[:3, :3], atol=1e-14)
            p = transform.translation
            assert [p.x, p.y, p.z] == run.model.pose("world", "hull", run.q[k])[:3, 3].tolist()
            k += 1
        assert k == len(run)
        poses = [m for _, _, _, m in reader.iter_decoded_messages(topics=["/pose/hull"])]
        assert poses[-1].pose.position.x == run.q[-1, 0]
        inputs = [m.f_2 for _, _, _, m in reader.iter_decoded_messages(topics=["/u"])]
        assert inputs == run["F_2"].tolist()


def test_damaged_and_impossible_mcap_files(run: ht.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run.mcap")
    content = (tmp_path / "run.mcap").read_bytes()
    rng = np.random.default_rng(0)
    for size in rng.integers(9, len(content) // 2, 20):
        (tmp_path / "cut.mcap").write_bytes(content[:size])
        with pytest.raises(FileFormatError):
            ht.load_log(tmp_path / "cut.mcap")
    changed = bytearray(content)
    changed[len(content) // 2] ^= 0xFF
    (tmp_path / "changed.mcap").write_bytes(changed)
    with pytest.raises(FileFormatError, match="checksum"):
        ht.load_log(tmp_path / "changed.mcap")
    model = ht.library.pendulum().derive()
    batch = ht.simulate(model, (np.zeros((2, 1)), [0.0]), until=0.1, step=0.01)
    with pytest.raises(FileFormatError, match="one trajectory"):
        batch.save(tmp_path / "batch.mcap")
