"""Flight stacks: the protocol with a stack in Python, and real firmware (marker ``stacks``)."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import processes
import pytest
from scipy.spatial.transform import Rotation

import heavytop as ht
from heavytop import copters
from heavytop.copters import Rotor, fly, maneuvers, multicopter, quadcopter, stacks
from heavytop.copters.propulsion import typical_propulsion
from heavytop.errors import ControlError, FileFormatError, ModelError, SimulationError, UnknownNameError
from heavytop.geometry import so3
from heavytop.show import flight_report
from heavytop.simulate import Ending


@dataclass(frozen=True)
class Steady:
    """A stack whose motors turn at one speed and that keeps what it sees."""

    command: float
    fails_at: float = np.inf
    seen: list[stacks.Measurements] = field(default_factory=list, hash=False)
    name: str = "Steady"
    period: float = 2e-3

    def start(self, vehicle, first):
        return self

    def exchange(self, seen, sticks, desired):
        self.seen.append(seen)
        if seen.t > self.fails_at:
            raise stacks.StackError("Steady crashed (signal 11). Its last lines: boom")
        return [self.command] * 4

    def close(self) -> None:
        """Nothing to end."""


def digest(flight: copters.Flight) -> str:
    return hashlib.sha256(flight.run.q.tobytes() + flight.run.u.tobytes()).hexdigest()


@pytest.fixture(scope="module")
def craft():
    return quadcopter()


def hovering(craft) -> float:
    return float(np.sqrt(craft.weight / sum(rotor.thrust[1] for rotor in craft.airframe.rotors)))


@pytest.mark.thorough
def test_a_stack_flies_and_feels_one_g(craft) -> None:
    stack = Steady(hovering(craft))
    flight = fly(craft, "hover", stack, until=0.2)
    assert flight.outcome.ok
    assert flight.law == "Steady"
    assert flight.position_error.max() < 1e-9
    np.testing.assert_allclose(
        [seen.specific_force for seen in stack.seen], [[0.0, 0.0, 9.81]] * len(stack.seen), atol=1e-9
    )
    assert flight.run.channels["sticks"].shape == (len(flight.t), 4)
    with pytest.raises(SimulationError, match="Steady is a program"):
        flight.show(live=True)


def test_specific_force_vanishes_in_free_fall_of_a_tumbling_vehicle(craft) -> None:
    stack = Steady(0.0)
    start = craft.model.neutral(), np.array([0.3, -0.2, 0.5, 2.0, -3.0, 1.0])
    fly(craft, "hover", stack, start=start, until=0.1)
    later = stack.seen[1:]
    assert np.max(np.abs([seen.specific_force for seen in later])) < 1e-7
    np.testing.assert_allclose(later[0].gyro, (2.0, -3.0, 1.0), atol=0.05)
    R = np.array(later[-1].R)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)


def test_a_stack_that_fails_ends_the_flight_with_its_last_lines(craft) -> None:
    flight = fly(craft, "hover", Steady(hovering(craft), fails_at=0.05), until=0.2)
    assert flight.outcome.ending is Ending.controller_failed
    assert "boom" in flight.outcome.message
    assert flight.t[-1] < 0.06
    with pytest.raises(SimulationError, match="boom"):  # at its first sample, so that nothing was flown
        fly(craft, "hover", Steady(0.5, fails_at=-1.0), until=0.2).show()


def test_motors_that_fail_give_no_thrust(craft) -> None:
    controller = stacks.StackController(craft, Steady(hovering(craft)), failures={2: 0.05})
    flight = fly(craft, "hover", controller, until=0.1)
    late = flight.t > 0.052
    assert np.all(flight.u[late, 2] == 0.0)
    assert np.all(flight.u[late, 1] > 1.0)
    assert flight.outcome.ending is Ending.finished
    off = f"{flight.position_error[-1]:.3g} m from the reference"
    for text in (str(flight.outcome), " ".join(flight_report(flight).notes)):
        assert "motor 2 failed at t = 0.05 s" in text
        assert off in text
    later = stacks.StackController(craft, Steady(hovering(craft)), failures={3: 0.4, 2: 0.05})
    fallen = fly(craft, "hover", later, until=1.5)
    assert fallen.outcome.ending is Ending.lost
    assert "motor 2 failed at t = 0.05 s, motor 3 failed at t = 0.4 s" in fallen.outcome.message
    unharmed = stacks.StackController(craft, Steady(hovering(craft)), failures={2: 1.0})
    assert "motor" not in fly(craft, "hover", unharmed, until=0.1).outcome.message
    with pytest.raises(ControlError, match="4 motors"):
        stacks.StackController(craft, Steady(0.5), failures={4: 1.0})


@pytest.mark.thorough
def test_imu_errors_are_those_described(craft) -> None:
    stack = Steady(hovering(craft))
    imu = stacks.Imu(gyro_noise=0.02, accelerometer_bias=0.5, delay=3, seed=4)
    fly(craft, "hover", stacks.StackController(craft, stack, imu=imu), until=2.0)
    gyro = np.array([seen.gyro for seen in stack.seen])
    assert 0.018 < gyro.std() < 0.022
    force = np.array([seen.specific_force for seen in stack.seen])
    assert np.ptp(force, axis=0).max() < 1e-7  # a bias is constant
    assert 0.1 < np.abs(force[-1] - (0, 0, 9.81)).max() < 2.0
    again = Steady(hovering(craft))
    fly(craft, "hover", stacks.StackController(craft, again, imu=imu), until=2.0)
    assert [seen.gyro for seen in again.seen] == [seen.gyro for seen in stack.seen]


def test_vehicles_that_a_stack_cannot_command_raise(craft) -> None:
    with pytest.raises(ControlError, match="tilting"):
        fly(copters.tricopter(), "hover", Steady(0.5))
    with pytest.raises(UnknownNameError, match="betaflight"):
        stacks.stack("betaflght")


def test_mixer_of_betaflight_has_its_signs() -> None:
    """Roll to the right speeds the left motors up, nose down the rear ones, yaw to the right those that turn counter-clockwise."""
    craft = quadcopter()
    for (roll, pitch, yaw), rotor in zip(stacks.betaflight.mixer(craft), craft.airframe.rotors, strict=True):
        assert np.sign(roll) == np.sign(np.round(rotor.at[1], 9))
        assert np.sign(pitch) == -np.sign(np.round(rotor.at[0], 9))
        assert np.sign(yaw) == rotor.spin


def tailed_tricopter() -> copters.Vehicle:
    """Two fixed rotors in front; the third one, behind, tilts by a servo."""
    a, common = np.pi / 3, {"thrust": (0.0, 9.0)}
    rotors = [
        Rotor((0.25 * np.cos(a), 0.25 * np.sin(a), 0.0), drag_ratio=0.018, **common),
        Rotor((-0.25, 0.0, 0.0), drag_ratio=-0.018, tilt=(0.0, 1.0, 0.0), tilt_range=(-0.6, 0.5), **common),
        Rotor((0.25 * np.cos(a), -0.25 * np.sin(a), 0.0), drag_ratio=0.018, **common),
    ]
    return multicopter(rotors, 1.2, (0.013, 0.013, 0.024), name="tailed tricopter")


@dataclass(frozen=True)
class Tilted(Steady):
    """Three motors at one speed, and a servo at one deflection."""

    deflection: float = 0.5
    servos: bool = True

    def exchange(self, seen, sticks, desired):
        return [self.command] * 3 + [self.deflection]


@pytest.mark.thorough
@pytest.mark.parametrize(("deflection", "angle"), [(0.5, 0.25), (-0.5, -0.3)])
def test_servos_tilt_rotors_by_their_share_of_the_range(deflection: float, angle: float) -> None:
    craft = tailed_tricopter()
    flight = fly(craft, "hover", Tilted(0.8, deflection=deflection), until=0.02)
    np.testing.assert_allclose(craft.airframe.tilts(flight.u)[-1], (0.0, angle, 0.0), atol=1e-12)
    np.testing.assert_allclose(craft.airframe.thrusts(flight.u)[-1], 3 * [0.64 * 9.0], rtol=1e-12)
    slow = [rotor if rotor.tilt is None else replace(rotor, tilt_rate=2.0) for rotor in craft.airframe.rotors]
    slow = multicopter(slow, 1.2, (0.013, 0.013, 0.024), name="slow")
    flight = fly(slow, "hover", Tilted(0.8, deflection=deflection), until=0.02)
    changes = np.diff(slow.airframe.tilts(flight.u)[:, 1])
    assert np.abs(changes).max() == pytest.approx(2.0 * 2e-3)  # the largest change of the tilt in a sample
    dead = fly(craft, "hover", stacks.StackController(craft, Tilted(0.8), failures={1: 0.0, 2: 0.01}), until=0.02)
    np.testing.assert_allclose(craft.airframe.thrusts(dead.u)[-1], (0.64 * 9.0, 0.0, 0.0), rtol=1e-12)


def test_servos_need_a_range() -> None:
    with pytest.raises(ControlError, match="tilt_range"):
        fly(copters.tricopter(thrust=(0.0, 9.0)), "hover", Tilted(0.5))


@pytest.mark.parametrize("craft", [tailed_tricopter(), copters.tricopter(thrust=(0.0, 9.0), tilt=(-0.6, 0.6))])
def test_servo_of_betaflight_does_the_yaw(craft: copters.Vehicle) -> None:
    lines = stacks.Betaflight(settings={"p_yaw": 90}).lines(craft)
    assert lines[0] == "mixer CUSTOMTRI"
    assert [line.split()[-1] for line in lines if line.startswith("mmix ") and line != "mmix reset"] == 3 * ["0.000"]
    assert "smix 0 5 2 -100 0 0 100 0" in lines
    assert [line for line in lines if "p_yaw" in line][-1] == "set p_yaw = 90"  # yours come last

    class Program:
        """Three motors, then the servo: to the right by 0.4 of its range."""

        def receive(self):
            return [struct.pack("<Hxx16f", 3, 1500.0, 1600.0, 1700.0, 1700.0, *12 * [0.0])]

        def send(self, receiver, state):
            """Nothing to keep."""

    signs = stacks.betaflight.rudders(craft)
    link = stacks.betaflight.BetaflightLink(Program(), 1.25e-4, 3, signs)  # pyright: ignore[reportArgumentType]
    level = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    seen = stacks.Measurements(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81), level, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    link.step(seen, stacks.Sticks(), armed=True)
    motors, deflections = link.commands[:3], iter(link.commands[3:])
    np.testing.assert_allclose(motors, (0.5, 0.6, 0.7), rtol=1e-6)
    moment = 0.0  # about z, of unit thrusts: axis cos - tilt sin at p
    for rotor in craft.airframe.rotors:
        if rotor.tilt is not None:
            deflection = next(deflections)
            assert abs(deflection) == pytest.approx(0.4)
            moment += np.cross(rotor.at, -np.sin(0.6 * deflection) * rotor.tilt)[2]
    assert moment < -0.05


def test_a_servo_without_moment_about_z_raises() -> None:
    centre = Rotor((0.0, 0.0, 0.1), thrust=(0.0, 9.0), tilt="x", tilt_range=(-0.6, 0.6))
    craft = multicopter([*quadcopter().airframe.rotors, centre], 1.2, (0.013, 0.013, 0.024), name="centred")
    with pytest.raises(stacks.StackError, match="rotor 4"):
        stacks.betaflight.rudders(craft)


def test_betaflight_gets_place_velocity_and_pressure() -> None:
    """Longitude, latitude, altitude; east, north, up; the pressure of that altitude. World axes are north, west, up."""
    sent: list[tuple[float, ...]] = []

    class Program:
        def receive(self):
            return []

        def send(self, receiver, state):
            sent.append(stacks.betaflight.STATE.unpack(state))

    level = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    seen = stacks.Measurements(0.0, (0.1, 0.2, 0.3), (0.0, 0.0, 9.81), level, (111.0, -50.0, 12.0), (1.0, 2.0, 3.0))
    link = stacks.betaflight.BetaflightLink(Program(), 1.25e-4, 4)  # pyright: ignore[reportArgumentType]
    link.step(seen, stacks.Sticks(), armed=False)
    longitude, latitude, altitude, east, north, up, pressure = sent[0][11:]
    assert (latitude - 47.397742) * 111_319.5 == pytest.approx(111.0, rel=1e-4)
    assert (longitude - 8.545594) * 111_319.5 * np.cos(np.radians(47.397742)) == pytest.approx(50.0, rel=1e-4)
    assert (altitude, east, north, up) == (500.0, -2.0, 1.0, 3.0)
    assert pressure == pytest.approx(95461, abs=20)  # ICAO standard atmosphere


def test_settings_of_firmware_come_from_the_airframe_file(tmp_path: Path) -> None:
    text = (Path(copters.__file__).parent / "catalogue" / "hummingbird.toml").read_text()
    file = tmp_path / "own.toml"
    file.write_text(text + "\n[firmware.betaflight]\np_roll = 61\n")
    assert "set p_roll = 61" in stacks.Betaflight().lines(copters.load(str(file)))
    file.write_text(text + "\n[firmware.betaflght]\np_roll = 61\n")
    with pytest.raises(FileFormatError, match="betaflght"):
        copters.load(str(file))


# --- doubles of the protocols of other stacks ---------------------------------------------------------------------------------


def _free_port(kind: int) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Px4Double(threading.Thread):
    """Answers every HIL_SENSOR as PX4 does: nothing while it starts, then idle, and the throttle of hovering after it was armed in offboard mode."""

    def __init__(self, port: int, api_port: int, hover: float, dies_after: int = 10**9) -> None:
        super().__init__(daemon=True)
        self.port, self.api_port, self.hover, self.dies_after = port, api_port, hover, dies_after
        self.sensors: list = []
        self.fixes: list = []
        self.wishes: list = []

    def run(self) -> None:
        common = pytest.importorskip("pymavlink.dialects.v20.common")
        mav = common.MAVLink(None, srcSystem=1, srcComponent=1)
        link = None
        while link is None:  # the simulator is not there yet
            with contextlib.suppress(ConnectionRefusedError):
                link = socket.create_connection(("127.0.0.1", self.port))
        api = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        api.setblocking(False)
        armed = offboard = False
        while data := link.recv(4096):
            for message in mav.parse_buffer(data) or []:
                if message.get_type() == "HIL_GPS":
                    self.fixes.append(message)
                if message.get_type() != "HIL_SENSOR":
                    continue
                self.sensors.append(message)
                k = len(self.sensors)
                if k > self.dies_after:
                    return
                if k < 3:
                    continue
                if k % 50 == 0:
                    place = common.MAVLink_local_position_ned_message(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
                    api.sendto(place.pack(mav), ("127.0.0.1", self.api_port))
                try:
                    while True:
                        for wish in mav.parse_buffer(api.recv(2048)) or []:
                            self.wishes.append(wish)
                            if wish.get_type() == "COMMAND_LONG" and wish.command == common.MAV_CMD_DO_SET_MODE:
                                offboard = wish.param2 == 6
                            if (
                                wish.get_type() == "COMMAND_LONG"
                                and wish.command == common.MAV_CMD_COMPONENT_ARM_DISARM
                            ):
                                armed = offboard and wish.param1 == 1
                except BlockingIOError:
                    pass
                controls = [1.0001 * self.hover if armed else 0.0] * 4 + [0.0] * 12
                answer = common.MAVLink_hil_actuator_controls_message(message.time_usec, controls, 128 * armed, 1)
                link.sendall(answer.pack(mav))


@pytest.mark.stacks
def test_px4_protocol_arms_takes_off_and_gets_consistent_sensors(craft) -> None:
    port, api_port = _free_port(socket.SOCK_STREAM), _free_port(socket.SOCK_DGRAM)
    double = Px4Double(port, api_port, hovering(craft))
    stack = stacks.Px4(port=port, api_port=api_port)
    controller = stacks.StackController(craft, stack)
    double.start()
    start = craft.model.integrate(craft.model.neutral(), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.5]), 1.0), np.zeros(6)
    flight = fly(craft, "hover", controller, start=start, until=0.4)
    assert flight.outcome.ok, flight.outcome
    assert np.abs(flight.run.v).max() < 0.01
    first, R = (
        double.sensors[5],
        so3.exp(np.array([0.0, 0.0, -0.5])),
    )  # axes forward, right, down: a turn to the left is negative
    noise = 6 * 0.02
    np.testing.assert_allclose((first.xacc, first.yacc, first.zacc), (0.0, 0.0, -9.81), atol=noise)
    field = np.mean([(m.xmag, m.ymag, m.zmag) for m in double.sensors], axis=0)
    np.testing.assert_allclose(R @ field, stacks.px4.FIELD, atol=1e-3)
    assert abs(first.abs_pressure - 955.9) < 0.5  # 488 m above the sea
    times = [m.time_usec for m in double.sensors]
    assert set(np.diff(times)) == {4000}
    assert double.fixes[0].lat == round(47.397742e7)
    assert double.fixes[0].fix_type == 3
    kinds = {wish.get_type() for wish in double.wishes}
    assert kinds >= {"SET_POSITION_TARGET_LOCAL_NED", "COMMAND_LONG"}


@pytest.mark.stacks
def test_px4_that_ends_is_an_outcome(craft) -> None:
    port, api_port = _free_port(socket.SOCK_STREAM), _free_port(socket.SOCK_DGRAM)
    Px4Double(port, api_port, hovering(craft), dies_after=400).start()
    flight = fly(craft, "hover", stacks.Px4(port=port, api_port=api_port), until=0.4)
    assert flight.outcome.ending is Ending.controller_failed
    assert "PX4" in flight.outcome.message


class Px4Replay(threading.Thread):
    """Answers every HIL_SENSOR by the bytes of an exchange, whatever it says, and keeps the bytes of the simulator by their sample."""

    def __init__(self, port: int, api_port: int, exchange: dict) -> None:
        super().__init__(daemon=True)
        self.port, self.api_port, self.exchange = port, api_port, exchange
        self.received: dict[int, dict[str, list[bytes]]] = {}

    def run(self) -> None:
        answers = {entry["sample"]: entry for entry in self.exchange["px4"]}
        link = None
        while link is None:  # the simulator is not there yet
            with contextlib.suppress(ConnectionRefusedError):
                link = socket.create_connection(("127.0.0.1", self.port))
        api = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        api.setblocking(False)
        data, frames, k = b"", [], 0
        while more := link.recv(4096):
            data += more
            while len(data) > 1 and len(data) >= 12 + data[1]:
                frame, data = data[: 12 + data[1]], data[12 + data[1] :]
                frames.append(frame)
                if int.from_bytes(frame[7:10], "little") != 107:  # HIL_SENSOR ends a sample
                    continue
                said, k = [], k + 1
                with contextlib.suppress(BlockingIOError):
                    while True:
                        said.append(api.recv(2048))
                self.received[k], frames = {"simulator": frames, "api": said}, []
                if k in answers:
                    for text in answers[k]["api"]:
                        api.sendto(bytes.fromhex(text), ("127.0.0.1", self.api_port))
                    link.sendall(b"".join(map(bytes.fromhex, answers[k]["simulator"])))


@pytest.mark.stacks
def test_px4_exchange_agrees_with_the_definition_of_its_messages(craft) -> None:
    """Both sides of an exchange that was written without heavytop (scripts/px4_exchange.py): PX4's bytes are replayed, heavytop's compared."""
    common = pytest.importorskip("pymavlink.dialects.v20.common")
    golden = Path(__file__).parents[1] / "golden" / "px4_exchange.json.gz"
    exchange = json.loads(gzip.decompress(golden.read_bytes()))
    port, api_port = _free_port(socket.SOCK_STREAM), _free_port(socket.SOCK_DGRAM)
    replay = Px4Replay(port, api_port, exchange)
    replay.start()
    flip = np.diag([1.0, -1.0, -1.0])  # north, east, down and forward, right, down
    level = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    rest = stacks.Measurements(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81), level, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    turned = flip @ Rotation.from_euler("ZYX", (30.0, -5.0, 10.0), degrees=True).as_matrix() @ flip
    moved = rest._replace(
        gyro=(0.1, 0.2, -0.3), specific_force=(0.5, 0.4, 9.7), R=tuple(map(tuple, turned.tolist())),
        position=(3.0, 4.0, 2.5), velocity=(1.5, 0.5, 0.25),
    )  # fmt: skip
    goal = stacks.Desired((1.0, 2.0, 3.0), (0.5, 0.25, 0.0), (0.0, 0.0, 0.0), -np.radians(30.0))
    link = stacks.Px4(port=port, api_port=api_port).start(craft, rest)
    assert max(replay.received) == exchange["released"]
    for k in range(1, 25):
        lift, turn = 0.62, 0.01 * k
        commands = link.exchange(moved, stacks.Sticks(), goal)
        np.testing.assert_allclose(commands, [lift + turn, lift - turn, lift + turn, lift - turn], atol=1e-7)
    link.close()
    decoder = common.MAVLink(None)
    noisy = {"xacc": 0.02, "yacc": 0.02, "zacc": 0.02, "xgyro": 1e-3, "ygyro": 1e-3, "zgyro": 1e-3} | {
        "xmag": 2e-3, "ymag": 2e-3, "zmag": 2e-3, "abs_pressure": 0.02,
    }  # fmt: skip
    compared = set()
    for sample, links in exchange["simulator"].items():
        for name, frames in links.items():
            ours = [decoder.decode(bytearray(frame)) for frame in replay.received[int(sample)][name]]
            theirs = [decoder.decode(bytearray.fromhex(text)) for text in frames]
            assert [m.get_type() for m in ours] == [m.get_type() for m in theirs], (sample, name)
            for got, wanted in zip(ours, theirs, strict=True):
                kind = wanted.get_type()
                compared.add(kind)
                for part in wanted.fieldnames:
                    tolerance = (
                        6 * noisy.get(part, 0.0) if kind == "HIL_SENSOR" else 1.0 if part in ("lat", "lon") else 0.0
                    )
                    given, said = getattr(got, part), getattr(wanted, part)
                    np.testing.assert_allclose(
                        given, said, rtol=3e-7, atol=tolerance + 1e-7, err_msg=f"{sample} {kind}.{part}"
                    )
    assert compared >= {
        "HIL_SENSOR",
        "HIL_GPS",
        "HIL_STATE_QUATERNION",
        "SET_POSITION_TARGET_LOCAL_NED",
        "COMMAND_LONG",
    }


class ArduPilotDouble(threading.Thread):
    """Sends pulses, reads the state as ArduPilot does, and arms by its rudder."""

    def __init__(self, port: int, receiver: socket.socket, hover: float) -> None:
        super().__init__(daemon=True)
        self.port, self.receiver, self.hover, self.states = port, receiver, hover, []

    def run(self) -> None:
        link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        link.settimeout(0.2)
        held, armed, pulse, unanswered = 0, False, 1000, 0
        for k in range(10**6):
            link.sendto(struct.pack("<HHI16H", 18458, 1000, k, *[pulse] * 4, *[0] * 12), ("127.0.0.1", self.port))
            try:
                self.states.append(json.loads(link.recv(2048)))
                _, _, throttle, yaw, *_ = struct.unpack("<16H", self.receiver.recv(64))
            except (TimeoutError, ConnectionRefusedError):  # ArduPilot sends again until the simulator is there
                unanswered += 1
                time.sleep(0.05)
                if unanswered > 100:
                    return
                continue
            held = held + 1 if yaw > 1900 and throttle < 1100 else 0
            armed = armed or held > 2000
            pulse = round(1000 + 1000 * self.hover) if armed else 1000


@pytest.mark.stacks
def test_ardupilot_protocol_arms_and_gets_the_state(craft) -> None:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.settimeout(2.0)
    port = _free_port(socket.SOCK_DGRAM)
    double = ArduPilotDouble(port, receiver, hovering(craft))
    double.start()
    stack = stacks.ArduPilot(port=port, receiver_port=receiver.getsockname()[1])
    flight = fly(craft, "hover", stack, until=0.2)
    assert flight.outcome.ok, flight.outcome
    assert np.abs(flight.run.v).max() < 0.02
    state = double.states[0]
    np.testing.assert_allclose(state["imu"]["accel_body"], (0.0, 0.0, -9.81), atol=1e-9)
    np.testing.assert_allclose(state["quaternion"], (1.0, 0.0, 0.0, 0.0), atol=1e-12)
    assert double.states[9]["timestamp"] == pytest.approx(0.01)


def test_frames_of_ardupilot_check_places_and_spins(craft) -> None:
    assert stacks.ardupilot.frame(craft) == (1, 0, [2, 1, 3, 0])
    reversed_spins = [replace(rotor, drag_ratio=-rotor.drag_ratio) for rotor in craft.airframe.rotors]
    with pytest.raises(stacks.StackError, match="turn the other way"):
        stacks.ardupilot.frame(multicopter(reversed_spins, 0.9, (0.008, 0.008, 0.014), name="reversed"))


# --- doubles of the programs themselves ----------------------------------------------------------------------------------------

DOUBLES = Path(__file__).parents[1] / "doubles"


def program(folder: Path, text: str, name: str = "program") -> str:
    """An executable script."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def double(folder: Path, name: str) -> str:
    """The double of a program where a build has the program, with the scripts that PX4 starts with."""
    scripts = folder / "build" / "etc" / "init.d-posix"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / "rcS").touch()
    return program(folder / "build" / "bin", f'exec "{sys.executable}" "{DOUBLES / name}.py" "$@"', name)


STARTED = {"px4": stacks.Px4, "arducopter": stacks.ArduPilot}


def started(folder: Path, name: str) -> stacks.Stack:
    if name == "px4":
        pytest.importorskip("pymavlink")
    return STARTED[name](path=double(folder, name))


@pytest.mark.stacks
@pytest.mark.parametrize("name", STARTED)
def test_flights_of_programs_run_side_by_side(craft, tmp_path: Path, name: str) -> None:
    """Each has its own ports, also where those of the first instance are taken by another simulator."""
    stack = started(tmp_path, name)
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM if name == "px4" else socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):  # perhaps it is in use anyway
        taken.bind(("127.0.0.1", 4560 if name == "px4" else 9002))
    flights: list[copters.Flight] = []
    threads = [threading.Thread(target=lambda: flights.append(fly(craft, "hover", stack, until=0.2))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken.close()
    assert [flight.outcome.ok for flight in flights] == [True, True], flights
    assert all(flight.position_error.max() < 0.05 for flight in flights)
    names = {next(line for line in flight.log if "instance" in line) for flight in flights}
    assert len(names) == 2


@pytest.mark.stacks
@pytest.mark.parametrize("name", STARTED)
@pytest.mark.parametrize(("mood", "said"), [("refuses", "did not arm"), ("crashes", "signal 6")])
def test_programs_that_refuse_or_crash_end_the_flight(craft, tmp_path, monkeypatch, name, mood, said) -> None:
    monkeypatch.setenv("DOUBLE", mood)
    flight = fly(craft, "hover", started(tmp_path, name), until=0.4)
    assert flight.outcome.ending is Ending.controller_failed
    assert said in flight.outcome.message
    reasons = {
        "refuses": ("Gyros not healthy", "ekf2 missing data"),
        "crashes": ("Internal error", "segmentation fault"),
    }
    assert any(reason in flight.outcome.message for reason in reasons[mood])


@pytest.mark.stacks
def test_frames_that_ardupilot_repeats_are_answered_once(craft, tmp_path: Path, monkeypatch) -> None:
    """A frame comes again when the machine was busy for a second; the double fails if its time does not go on by one sample per frame."""
    calm = fly(craft, "hover", started(tmp_path, "arducopter"), until=0.2)
    monkeypatch.setenv("DOUBLE", "impatient")
    flight = fly(craft, "hover", started(tmp_path, "arducopter"), until=0.2)
    assert flight.outcome.ok, flight.outcome
    assert digest(flight) == digest(calm)


@pytest.mark.stacks
@pytest.mark.parametrize("make", [stacks.Betaflight, stacks.Px4, stacks.ArduPilot])
def test_programs_that_do_not_start_are_outcomes(craft, tmp_path: Path, monkeypatch, make) -> None:
    if make is stacks.Px4:
        pytest.importorskip("pymavlink")
    monkeypatch.setattr(stacks.program.Patience, "check", quickly(stacks.program.Patience.check))
    silent = program(tmp_path, "echo nothing to do; exec sleep 1000", "silent")
    plain = tmp_path / "plain"
    plain.write_text("no program")
    cases = {
        str(tmp_path / "absent"): "there is no program",
        str(tmp_path): "there is no program",
        str(plain): "not executable",
        program(
            tmp_path, "echo no such airframe; exit 3", "short"
        ): "short ended with code 3. Its last lines: no such airframe",
        silent: "within 0.5 s. Its last lines: nothing to do",
    }
    for path, said in cases.items():
        flight = fly(craft, "hover", make(path=path), until=0.1)
        assert flight.outcome.ending is Ending.controller_failed
        assert said in flight.outcome.message, flight.outcome.message
    assert not [name for name in running() if "silent" in name or "sleep" in name]


def quickly(check):
    """The check of a patience that ends after half a second."""

    def checked(patience) -> None:
        patience.seconds = 0.5
        check(patience)

    return checked


def running() -> list[str]:
    """Command lines of the processes that this one has started."""
    listed = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    return listed.stdout.splitlines()


@pytest.mark.stacks
@pytest.mark.parametrize("make", [stacks.Px4, stacks.ArduPilot])
def test_ports_in_use_are_outcomes(craft, make) -> None:
    if make is stacks.Px4:
        pytest.importorskip("pymavlink")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        stack = make(api_port=port, port=_free_port(socket.SOCK_STREAM)) if make is stacks.Px4 else make(port=port)
        flight = fly(craft, "hover", stack, until=0.1)
    assert flight.outcome.ending is Ending.controller_failed
    assert f"the UDP port {port} is in use" in flight.outcome.message.replace("or the", "the")


ENDLESS = """
import sys
from heavytop.copters import fly, quadcopter, stacks

def pilot(seen, desired):
    print("flying", flush=True)
    return stacks.Sticks(throttle=0.5)

craft = quadcopter()
stack = stacks.stack(sys.argv[1], sys.argv[2] or None)
fly(craft, "hover", stacks.StackController(craft, stack, pilot=pilot), until=20.0)
"""


@pytest.mark.stacks
@pytest.mark.parametrize("name", ["betaflight", "px4", "ardupilot"])
def test_no_program_outlives_its_simulation(tmp_path: Path, name: str) -> None:
    """After SIGKILL of the simulation its firmware is gone too."""
    if name == "px4":
        pytest.importorskip("pymavlink")
    path = "" if name == "betaflight" else double(tmp_path, {"px4": "px4", "ardupilot": "arducopter"}[name])
    process = processes.start(ENDLESS, name, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "flying\n"
    (child,) = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    process.kill()
    process.communicate()
    begin = time.monotonic()
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() - begin < processes.GUARD
        time.sleep(0.05)


# --- real programs ----------------------------------------------------------------------------------------------------------


@pytest.mark.stacks
def test_betaflight_hovers_and_repeats_bit_by_bit(craft) -> None:
    craft = replace(craft, battery=copters.Battery(cells=4, capacity=1.8, resistance=0.02))
    flights = [fly(craft, "hover", stacks.Betaflight(), rotors=True, until=2.0) for _ in range(3)]
    assert flights[0].outcome.ok
    assert flights[0].position_error.max() < 0.3
    assert len(set(map(digest, flights))) == 1
    report = flight_report(flights[0])
    assert {"Sticks", "Battery"} <= {panel.title for panel in report.panels}
    (log,) = (table for table in report.tables if table.title == "Last lines of Betaflight")
    assert any("5761" in line for _, line in log.rows)  # the port of its command line


@pytest.mark.stacks
def test_betaflight_follows_a_doublet_of_roll_rate(craft) -> None:
    def pilot(seen, desired):
        roll = 0.2 if 0.5 < seen.t < 0.9 else -0.2 if 0.9 < seen.t < 1.3 else 0.0
        return stacks.Sticks(roll=roll, throttle=hovering(craft), level=False)

    controller = stacks.StackController(craft, stacks.Betaflight(), pilot=pilot)
    flight = fly(craft, "hover", controller, rotors=True, until=1.7)
    rate = np.degrees(flight.run.v[:, 3])
    for when, wanted in ((0.88, 0.2 * 670.0), (1.28, -0.2 * 670.0), (1.68, 0.0)):
        got = rate[np.argmin(np.abs(flight.t - when))]
        assert abs(got - wanted) < 20.0, (when, got, wanted)


@pytest.mark.stacks
@pytest.mark.parametrize("name", ["hexacopter", "octocopter", "crazyflie", "hummingbird", "racer"])
def test_betaflight_flies_other_airframes(name: str) -> None:
    flight = fly(copters.load(name), "hover", stacks.Betaflight(), rotors=True, until=2.0)
    assert flight.outcome.ok
    assert flight.position_error.max() < 0.3


@pytest.mark.stacks
def test_betaflight_flies_tricopters_by_their_servos() -> None:
    """The servo balances the torques of the propellers: sin(angle) = (0.018 F1 - 0.018 F2 + 0.018 F3) / (0.25 F2), equal thrusts."""
    craft = tailed_tricopter()
    flight = fly(craft, "hover", stacks.Betaflight(), rotors=True, until=3.0)
    assert flight.outcome.ok
    assert flight.position_error.max() < 0.3
    tilt = craft.airframe.tilts(flight.u)[flight.t > 2.5, 1].mean()
    assert tilt == pytest.approx(-np.arcsin(0.018 / 0.25), abs=np.radians(0.5))
    assert np.abs(flight.run.v[flight.t > 2.5, 5]).max() < 0.05
    full = copters.tricopter(thrust=(0.0, 9.0), tilt=(-0.6, 0.6))
    flight = fly(full, "hover", stacks.Betaflight(), rotors=True, until=2.0)
    assert flight.outcome.ok
    assert flight.position_error.max() < 0.3


@pytest.mark.stacks
def test_betaflight_carries_a_load() -> None:
    craft = copters.quadcopter_with_load(load_mass=0.2, cable=1.0)
    flight = fly(craft, "hover", stacks.Betaflight(), rotors=True, until=4.0)
    assert flight.outcome.ok
    assert flight.position_error.max() < 0.3


@pytest.mark.stacks
def test_betaflight_rejects_unknown_settings(craft) -> None:
    flight = fly(craft, "hover", stacks.Betaflight(settings={"no_such_setting": 3}), until=0.5)
    assert flight.outcome.ending is Ending.controller_failed
    assert "no_such_setting" in flight.outcome.message


@pytest.mark.stacks
def test_betaflight_that_is_not_armed_is_an_outcome(craft) -> None:
    never = stacks.Betaflight(commands=("aux 0 0 0 900 910 0 0",))
    flight = fly(craft, "hover", never, until=0.1)
    assert flight.outcome.ending is Ending.controller_failed
    assert "did not arm within 6 s of rest. Its last lines: bind port 5761" in flight.outcome.message


@pytest.mark.stacks
def test_betaflight_flies_from_a_cache_whose_path_has_spaces(craft, tmp_path: Path, monkeypatch) -> None:
    built, cache = stacks.betaflight.executable(), tmp_path / "a cache: mine"
    monkeypatch.setenv("HEAVYTOP_CACHE", str(cache))
    flight = fly(craft, "hover", stacks.Betaflight(path=str(built)), until=0.1)
    assert flight.outcome.ok, flight.outcome
    assert list(cache.glob("stacks/eeprom-*.bin"))


def test_betaflight_without_a_compiler_names_it(tmp_path: Path, monkeypatch) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("Betaflight flies on Linux only")
    monkeypatch.setenv("HEAVYTOP_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stacks.found()["Betaflight"] == "needs gcc and make"
    with pytest.raises(stacks.StackError, match="needs gcc"):
        stacks.betaflight.executable()


@pytest.mark.stacks
def test_a_killed_firmware_is_an_outcome(craft) -> None:
    def pilot(seen, desired):
        if seen.t > 0.1:
            children = subprocess.run(
                ["pgrep", "-P", str(os.getpid()), "betaflight"], capture_output=True, text=True, check=False
            )
            for child in children.stdout.split():
                os.kill(int(child), signal.SIGSEGV)
        return stacks.Sticks(throttle=hovering(craft))

    flight = fly(craft, "hover", stacks.StackController(craft, stacks.Betaflight(), pilot=pilot), until=0.5)
    assert flight.outcome.ending is Ending.controller_failed
    assert "signal 11" in flight.outcome.message


def own_quadcopter(mass: float, arm: float, moment: tuple[float, float, float], ratio: float, front: float):
    """Four rotors, those in front at an angle (degrees) from ahead; their thrust is ``ratio`` times the weight."""
    angles = np.radians([front, 180 - front, 180 + front, -front])
    thrust = (0.0, ratio * mass * 9.81 / 4)
    rotors = [
        Rotor((arm * np.cos(a), arm * np.sin(a), 0.0), drag_ratio=spin * 0.015, thrust=thrust)
        for a, spin in zip(angles, (1, -1, 1, -1), strict=True)
    ]
    return multicopter(rotors, mass, moment, name=f"own quadcopter of {mass} kg")


@pytest.mark.stacks
@pytest.mark.parametrize(
    "craft",
    [
        *("quadcopter", "quadcopter-with-load", "hummingbird", "racer", "crazyflie"),
        own_quadcopter(2.4, 0.30, (0.03, 0.03, 0.055), 2.2, 45.0),
        own_quadcopter(0.12, 0.07, (1.1e-4, 1.3e-4, 2.2e-4), 3.5, 50.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("below", [False, True])
def test_raptor_recovers_vehicles_it_has_never_seen(craft: str | copters.Vehicle, below: bool) -> None:
    """From 2 m away, 60 degrees tilted; from below a weak vehicle (crazyflie) falls unless the goal is brought nearer."""
    pytest.importorskip("foundation_policy")
    craft = copters.load(craft) if isinstance(craft, str) else craft
    hover = maneuvers.hover(craft, duration=8.0)
    q = hover.start[0].copy()
    q[:3] += (-1.2, 1.0, -1.25) if below else (1.2, -1.0, 1.25)  # 2 m
    q[3:12] = so3.exp(np.radians(60.0) * np.array([-1.0, 0.0, 0.0] if below else [0.6, -0.8, 0.0])).T.reshape(-1)
    flight = fly(craft, hover, stacks.Raptor(), rotors=True, start=(q, np.zeros_like(hover.start[1])))
    assert flight.position_error[flight.t > 7.0].max() < 0.05


@dataclass(frozen=True)
class Mistaken:
    """RAPTOR in a vehicle whose rotors turn the other way than it was described."""

    described: copters.Vehicle
    name: str = "RAPTOR, mistaken"
    period: float = 0.01

    def start(self, vehicle, first):
        return stacks.Raptor().start(self.described, first)


def test_one_flipped_spin_is_found_before_a_flight(craft) -> None:
    rotors = list(craft.airframe.rotors)
    rotors[1] = replace(rotors[1], drag_ratio=-rotors[1].drag_ratio)
    with pytest.raises(ModelError, match="rotor 2"):
        multicopter(rotors, 0.9, (0.008, 0.008, 0.014), name="flipped")


@pytest.mark.stacks
def test_raptor_notices_flipped_spins(craft) -> None:
    pytest.importorskip("foundation_policy")
    rotors = [replace(rotor, drag_ratio=-rotor.drag_ratio) for rotor in craft.airframe.rotors]
    real = multicopter(rotors, 0.9, (0.008, 0.008, 0.014), name="flipped")
    start = real.model.integrate(real.model.neutral(), np.array([1.0, 1.0, 1.0, 0.5, 0.0, 0.3]), 1.0), np.zeros(6)
    flown = {
        stack.name: fly(real, "hover", stack, rotors=True, start=start, until=6.0)
        for stack in (stacks.Raptor(), Mistaken(craft))
    }
    assert flown["RAPTOR"].position_error[-1] < 0.06
    assert flown["RAPTOR, mistaken"].position_error[-1] > 1.0


@pytest.mark.stacks
def test_raptor_needs_alternating_spins(craft) -> None:
    pytest.importorskip("foundation_policy")
    flight = fly(copters.hexacopter(), "hover", stacks.Raptor(), rotors=True, until=3.0)
    assert flight.outcome.ending is Ending.controller_failed
    assert "6 rotors" in flight.outcome.message


@pytest.mark.stacks
def test_betaflight_flies_a_y6_while_its_arm_works() -> None:
    rotors = [
        Rotor((0.3 * np.cos(a), 0.3 * np.sin(a), z), drag_ratio=spin * 0.02, thrust=(0.0, 9.0))
        for a in (np.pi / 3, np.pi, -np.pi / 3)
        for z, spin in ((0.04, 1), (-0.04, -1))
    ]
    arm = [copters.Limb("upper", 0.15, tip=(0, 0, -0.25), at=(0, 0, -0.05), force=4.0, path=lambda t: 0.6 * np.sin(t))]
    craft = multicopter(rotors, 1.8, (0.03, 0.03, 0.05), name="Y6 with arm", limbs=arm)
    flight = fly(craft, "hover", stacks.Betaflight(), until=3.0)
    assert flight.outcome.ok
    assert flight.position_error.max() < 0.3
    assert flight.numbers()["joint error max [rad]"] < 0.05


@pytest.mark.stacks
@pytest.mark.parametrize("craft", [quadcopter(), tailed_tricopter()], ids=["quadcopter", "tricopter"])
def test_betaflight_takes_off_from_the_ground_and_hovers_at_the_given_height(craft) -> None:
    """The set point of the pilot ends 1.3 m above the standing vehicle; from a second after the ascent on it is within 0.3 m, here 0.15 m of it."""
    wanted: list[stacks.Desired] = []
    pilot = stacks.PositionPilot(craft)

    def watched(seen, desired):
        wanted.append(desired)
        return pilot(seen, desired)

    start = craft.standing_height
    controller = stacks.StackController(craft, stacks.Betaflight(), pilot=watched)
    up = fly(craft, maneuvers.takeoff(craft, height=1.3, settle=3.0), controller)
    assert up.outcome.ok
    assert up.run.q[0, 2] == pytest.approx(start, abs=1e-6)
    assert wanted[-1].position == pytest.approx((0.0, 0.0, start + 1.3), abs=1e-9)
    hovering = up.t > 4.5
    assert np.abs(up.run.q[hovering, 2] - (start + 1.3)).max() < 0.15
    assert up.position_error[hovering].max() < 0.3


@pytest.mark.stacks
def test_betaflight_lands(craft) -> None:
    down = fly(craft, "landing", stacks.Betaflight())
    assert down.outcome.ok
    assert np.abs(down.run.v[-1]).max() < 1e-3
    assert down.run.contacts["skids"].force[-1, 2] > 0.3 * craft.weight


@pytest.mark.thorough
def test_specific_force_on_the_ground_is_one_g(craft) -> None:
    stack = Steady(0.0)
    flight = fly(craft, "takeoff", stack, until=2.0)
    assert flight.outcome.ok
    np.testing.assert_allclose([seen.specific_force for seen in stack.seen[-50:]], [[0.0, 0.0, 9.81]] * 50, atol=1e-9)


@pytest.mark.slow
def test_ten_minutes_on_the_ground(craft) -> None:
    """Specific force of 1 g, no rotation and no drift in any of 150,000 samples."""

    @dataclass(frozen=True)
    class Resting:
        worst: list[float] = field(default_factory=lambda: [0.0, 0.0], hash=False)
        name: str = "Resting"
        period: float = 4e-3

        def start(self, vehicle, first):
            return self

        def exchange(self, seen, sticks, desired):
            if seen.t > 1.0:  # the legs have settled
                errors = [abs(a - b) for a, b in zip(seen.specific_force, (0.0, 0.0, 9.81), strict=True)]
                self.worst[:] = max(self.worst[0], *errors), max(self.worst[1], *map(abs, seen.gyro))
            return [0.0] * 4

        def close(self) -> None:
            """Nothing to end."""

    stack = Resting()
    flight = fly(craft, "takeoff", stack, until=600.0)
    assert flight.outcome.ok
    assert stack.worst[0] < 1e-9
    assert stack.worst[1] < 1e-12
    settled = int(np.searchsorted(flight.t, 1.0))
    assert np.abs(flight.run.q[-1] - flight.run.q[settled]).max() < 1e-12


@pytest.mark.thorough
def test_the_voltage_sags_with_the_current_and_the_thrust_with_the_voltage(craft) -> None:
    pack = copters.Battery(cells=3, capacity=0.01, resistance=0.1, efficiency=0.5)
    vehicle, command = replace(craft, battery=pack), hovering(craft)
    flight = fly(vehicle, "hover", Steady(command), until=0.5)
    volts, amperes, charge = flight.run.channels["battery"].T
    E = np.array([pack.open_circuit(x) for x in charge])
    np.testing.assert_allclose(volts[1:], E[1:] - 0.1 * amperes[1:], rtol=1e-3)  # sagging
    share = flight.u[1:, 0] / flight.u[0, 0] * (volts[0] / volts[1:]) ** 2
    np.testing.assert_allclose(share, 1.0, rtol=1e-9)  # thrust as the square of the voltage
    power = 4 * typical_propulsion(craft).torque_coefficient * (command * 1000.0 * volts / 12.6) ** 3
    np.testing.assert_allclose(volts[20:] * amperes[20:] * 0.5, power[20:], rtol=1e-2)
    used = np.cumsum(amperes[1:] * np.diff(flight.t)) / (3600 * 0.01)
    assert 1.0 - charge[-1] == pytest.approx(used[-1], rel=0.02)  # a pack of 36 As
    assert flight.run.q[-1, 2] < flight.run.q[0, 2] - 0.05  # less thrust than without a battery, so it falls
    empty = fly(replace(craft, battery=replace(pack, capacity=1e-4)), "hover", Steady(command), until=0.5)
    assert empty.u[-1].max() == 0.0


def test_batteries_of_files(tmp_path: Path) -> None:
    for name, minutes in (("crazyflie", (5, 12)), ("hummingbird", (15, 25)), ("racer", (5, 12))):
        craft = copters.load(name)
        pack = craft.battery
        assert pack is not None
        speed = np.sqrt(craft.weight / 4 / craft.propulsion.thrust_coefficient)
        _, current = pack.loaded(0.8, 4 * craft.propulsion.torque_coefficient * speed**3)
        assert minutes[0] < 60 * pack.capacity / current < minutes[1]  # known flight times
    text = Path(copters.__file__).with_name("catalogue").joinpath("racer.toml").read_text(encoding="utf-8")
    file = tmp_path / "own.toml"
    file.write_text(text.replace("cells = 4", "cells = 0"))
    with pytest.raises(FileFormatError, match="cells"):
        copters.load(str(file))


SWEEP = """
import sys
import heavytop as ht
from heavytop.copters import quadcopter, stacks

over = {"mass": ht.uniform(0.8, 1.1), "lag": ht.uniform(0.01, 0.05), "wind": ht.uniform(0.5, 3.0)}
ht.sweep(quadcopter(), over=over, draws=3, maneuver="hover", law=stacks.Betaflight(), until=0.3, store=sys.argv[1], progress=False)
"""


@pytest.mark.stacks
def test_a_killed_sweep_of_firmware_flights_resumes(tmp_path: Path) -> None:
    """Flights with drawn mass, lag and wind: after a kill only those that are missing are flown, and the results are those of a whole sweep."""
    whole, killed = tmp_path / "whole.zarr", tmp_path / "killed.zarr"
    assert processes.finish(SWEEP, str(whole)).returncode == 0
    process = processes.start(SWEEP, str(killed))
    chunks = killed / "done" / "c"
    while process.poll() is None and not list(chunks.glob("*")):
        time.sleep(0.02)
    process.kill()
    process.communicate()
    before = {file: file.stat().st_mtime_ns for file in chunks.glob("*")}
    assert 1 <= len(before) < 3
    resumed = processes.finish(SWEEP, str(killed))
    assert resumed.returncode == 0, resumed.stderr
    assert {file: file.stat().st_mtime_ns for file in before} == before
    results = [ht.sweep.open_result(store).data for store in (whole, killed)]
    assert np.array_equal(results[0]["position_error"], results[1]["position_error"])
    assert results[0]["recovered"].values.all()
    assert len(set(results[0]["position_error"].values.tolist())) == 3


@pytest.mark.stacks
def test_betaflight_answers_every_packet_under_load(craft) -> None:
    """100 of 100 packets with ten busy processes next to it: lock-step waits, it does not drop."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(10)]
    try:
        level = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
        rest = stacks.Measurements(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81), level, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        here = stacks.Desired((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0)
        link = stacks.Betaflight().start(craft, rest)
        answers, receive = [], link.program.receive
        link.program.receive = lambda: answers.append(receive()) or answers[-1]  # pyright: ignore[reportAttributeAccessIssue]
        for _ in range(100):
            link.exchange(rest, stacks.Sticks(throttle=0.5), here)
        link.close()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    motors = [stacks.betaflight.MOTORS_OUT.unpack(packet) for packets in answers for packet in packets if packet]
    assert len(motors) == 100
    assert all(min(pulses[1:5]) > 1055.0 for pulses in motors[-10:])
