"""PX4: its simulation build (SITL) by MAVLink, in lock-step at 250 Hz.

PX4 connects to the simulator's TCP port and takes its time from HIL_SENSOR: accelerometer, gyro, magnetometer and pressure in body axes forward,
right, down; HIL_GPS at 10 Hz and HIL_STATE_QUATERNION follow. It answers every HIL_SENSOR with HIL_ACTUATOR_CONTROLS. Commands and set points go
through its API link (UDP). World axes: x north, y west, z up.

The vehicle rests until the estimator is ready and PX4 is armed in offboard mode, and is released when its motors carry it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import degrees, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.copters.stacks.attitude import quaternion_wxyz
from heavytop.copters.stacks.earth import HOME, place_on_earth, pressure_at
from heavytop.copters.stacks.program import (
    PATIENCE,
    SLICE,
    STARTUP,
    FirmwareProgram,
    Patience,
    new_folder,
    program_file,
    tail,
)
from heavytop.copters.stacks.stack import Desired, Measurements, StackError, Sticks, Vector3

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

SIMULATOR_PORT, API_PORT, INSTANCES = 4560, 14540, 10
"""PX4's ports of its instance 0; instance k has the k-th ones after them, up to ten instances."""
FIELD = (0.2148, 0.0109, 0.4280)
"""Magnetic field there: north, east, down, gauss."""
IMU_FIELDS, MAGNETIC_FIELDS, PRESSURE_FIELDS = 0b111111, 0b111 << 6, 0b1101 << 9
GPS_EVERY, SLOW_EVERY, SET_POINT_EVERY = 25, 5, 5
"""Samples between GPS fixes, between magnetometer and pressure, and between set points."""
NOISE = {"accelerometer": 0.02, "gyro": 1e-3, "magnetometer": 2e-3, "pressure": 0.02}
"""Least noise (m/s^2, rad/s, gauss, hPa): PX4 takes sensors without any for stale."""
READY, TAKE_OFF = 60.0, 20.0
"""Seconds of virtual time within which the estimator must be ready, and the armed motors carry the vehicle."""
PAUSE = {False: 0.2, True: 1.0}
"""Seconds of real time to wait for the answer to a sample, before PX4 is ready and after; before its first answer it boots in real time."""
OFFBOARD = 6
ARMED = 128
"""Bit of the base mode in a heartbeat."""
POSITION_AND_HEADING = 0b100111000000
"""Type mask of set points with position, velocity and heading: accelerations and the rate of the heading are ignored."""


@dataclass(frozen=True)
class Px4:
    """PX4 in lock-step.

    Parameters
    ----------
    path : path of the program ``bin/px4`` of a SITL build, which becomes the first free of PX4's ten instances, so that several fly at the
        same time; None: wait for a PX4 that was started by hand and connects to ``port``.
    model : name of PX4's airframe (``PX4_SIM_MODEL``), which starts its simulator link.
    parameters : PX4 parameters, name -> value; those of the rotors
        (``CA_ROTOR...``) and of hovering are set from the vehicle.
    period : sampling period, s. port, api_port : TCP port of the simulator and UDP port of the API, without a ``path``.

    Examples
    --------
    >>> Px4(parameters={"MPC_XY_VEL_MAX": 5.0}).period
    0.004
    """

    path: str | None = None
    model: str = "none_iris"
    parameters: Mapping[str, float] = field(default_factory=dict)
    period: float = 4e-3
    port: int = SIMULATOR_PORT
    api_port: int = API_PORT

    @property
    def name(self) -> str:
        return "PX4"

    def settings(self, vehicle: Vehicle) -> dict[str, float]:
        """Parameters of PX4: geometry of the rotors, functions of the outputs, throttle of hovering, then the user's."""
        rotors = vehicle.airframe.rotors
        most = sum(float(rotor.thrust[1]) for rotor in rotors)
        found: dict[str, float] = {
            "CA_AIRFRAME": 0,
            "CA_ROTOR_COUNT": len(rotors),
            "MPC_THR_HOVER": round(sqrt(vehicle.weight / most), 3),
        }
        for k, rotor in enumerate(rotors):
            x, y, z = rotor.at
            found |= {f"CA_ROTOR{k}_PX": round(x, 4), f"CA_ROTOR{k}_PY": round(-y, 4), f"CA_ROTOR{k}_PZ": round(-z, 4)}
            found |= {f"CA_ROTOR{k}_KM": round(rotor.spin * max(abs(rotor.drag_ratio), 1e-3), 4)}
            found |= {f"PWM_MAIN_FUNC{k + 1}": 101 + k, f"HIL_ACT_FUNC{k + 1}": 101 + k}
        found |= {"COM_RC_IN_MODE": 4, "NAV_RCL_ACT": 0, "NAV_DLL_ACT": 0, "CBRK_SUPPLY_CHK": 894281}
        return {**found, **vehicle.firmware.get("px4", {}), **self.parameters}  # pyright: ignore[reportReturnType]

    def start(self, vehicle: Vehicle, first: Measurements) -> Px4Link:
        """Start PX4, wait for its estimator, arm it, and hold the vehicle until its motors carry it."""
        link = Px4Link(self, vehicle)
        try:
            link.open(vehicle)
            link.prepare(first)
        except BaseException:
            link.close()
            raise
        return link


def _dialect() -> Any:
    try:
        from pymavlink.dialects.v20 import common  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise StackError("PX4 needs the package pymavlink: pip install 'heavytop[stacks]'.") from error
    return common


class Px4Link:
    """MAVLink messages of a running PX4."""

    def __init__(self, stack: Px4, vehicle: Vehicle) -> None:
        self.dialect = _dialect()
        self.stack, self.weight = stack, vehicle.weight
        self.most = [float(rotor.thrust[1]) for rotor in vehicle.airframe.rotors]
        self.mav = self.dialect.MAVLink(None, srcSystem=1, srcComponent=200)
        self.commands = [0.0] * len(self.most)
        self.samples, self.missed, self.armed, self.ready = 0, 0, False, False
        self.texts: list[str] = []
        self.random = np.random.default_rng(0)
        self.answered, self.system = False, 1
        self.program: FirmwareProgram | None = None
        self.server: socket.socket | None = None
        self.connection: socket.socket | None = None
        self.api_address: Any = None
        self.api = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.api.setblocking(False)

    def open(self, vehicle: Vehicle) -> None:
        """Open the ports, start the program, and wait for its connection."""
        stack = self.stack
        if stack.path is None:
            self._listen_at(stack.port, stack.api_port, 1)
        else:
            file = program_file(stack.path, "Give that of px4, in build/px4_sitl_default/bin of a build.")
            instance = self._listen_at(SIMULATOR_PORT, API_PORT, INSTANCES)
            self.system = 1 + instance
            folder, scripts = new_folder("px4"), file.parent.parent / "etc"
            environment = {"PX4_SIM_MODEL": stack.model, "PX4_SIM_HOSTNAME": "127.0.0.1", "HEADLESS": "1"}
            environment |= {f"PX4_PARAM_{name}": f"{value:.9g}" for name, value in stack.settings(vehicle).items()}
            command = [str(file), "-d", "-i", str(instance), "-w", str(folder)]
            self.program = FirmwareProgram(
                [*command, str(scripts)] if scripts.is_dir() else command, folder, environment
            )
        self._connect()

    def _listen_at(self, port: int, api_port: int, instances: int) -> int:
        """The first instance whose ports are free."""
        for instance in range(instances):
            with suppress(OSError):
                server = socket.create_server(("127.0.0.1", port + instance))
                try:
                    self.api.bind(("127.0.0.1", api_port + instance))
                except OSError:
                    server.close()
                    raise
                self.server = server
                return instance
        if instances > 1:
            raise StackError(f"the ports of all {instances} instances of PX4 are in use ({port} or {api_port} and on).")
        raise StackError(
            f"the TCP port {port} or the UDP port {api_port} is in use, by another simulator or flight. End that, or choose other ports: "
            "Px4(port=..., api_port=...)."
        )

    def _connect(self) -> None:
        assert self.server is not None
        patience = Patience(self.program, STARTUP, f"PX4 did not connect to port {self.server.getsockname()[1]}")
        self.server.settimeout(SLICE)
        while self.connection is None:
            try:
                self.connection, _ = self.server.accept()
            except TimeoutError:
                patience.check()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _failed(self, problem: str) -> StackError:
        return StackError(f"{problem}. {tail(self.log)}")

    @property
    def log(self) -> str:
        """The last texts of the API link, and the output of the program."""
        return "\n".join([*self.texts[-4:], "" if self.program is None else self.program.output])

    # --- start ------------------------------------------------------------------------------------------------------------------

    def prepare(self, first: Measurements) -> None:
        """Rest until PX4 is ready, armed, in offboard mode, and lifts."""
        here = Desired(first.position, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0)
        period = self.stack.period
        self._until(first, here, READY, lambda: self.ready, "PX4's estimator was not ready within {:g} s of rest")
        for _ in range(round(1.0 / period)):  # set points must arrive before the mode
            self.step(first, here)
        above = here._replace(position=(first.position[0], first.position[1], first.position[2] + 0.5))

        def flying() -> bool:
            if self.samples % round(0.5 / period) == 0:
                self._command(self.dialect.MAV_CMD_DO_SET_MODE, 1.0, OFFBOARD)
                self._command(self.dialect.MAV_CMD_COMPONENT_ARM_DISARM, 1.0)
            lift = sum(most * c * c for most, c in zip(self.most, self.commands, strict=True))
            return self.armed and lift >= self.weight

        self._until(first, above, TAKE_OFF, flying, "PX4 did not arm and take off within {:g} s")

    def _until(self, first: Measurements, here: Desired, seconds: float, done: Any, problem: str) -> None:
        for _ in range(round(seconds / self.stack.period)):
            self.step(first, here)
            if done():
                return
        raise self._failed(problem.format(seconds))

    # --- samples ----------------------------------------------------------------------------------------------------------------

    def exchange(self, seen: Measurements, sticks: Sticks, desired: Desired) -> list[float]:
        """Commands (n,) from 0 to 1 of the motors."""
        self.step(seen, desired)
        return self.commands

    def step(self, seen: Measurements, desired: Desired) -> None:
        """One sample: sensors out, motors in."""
        k, self.samples = self.samples, self.samples + 1
        time = round((k + 1) * self.stack.period * 1e6)
        if k % SET_POINT_EVERY == 0:
            self._set_point(time, desired)
        messages = [self._sensor(time, seen, slow=k % SLOW_EVERY == 0)]
        if k % GPS_EVERY == 0:
            messages.append(self._gps(time, seen))
            messages.append(self._state(time, seen))
        assert self.connection is not None
        self.connection.settimeout(PATIENCE)
        try:
            self.connection.sendall(b"".join(message.pack(self.mav) for message in reversed(messages)))
            self._receive(time)
        except TimeoutError:
            raise self._failed(f"PX4 did not answer within {PATIENCE:g} s") from None
        except OSError as error:
            if self.program is not None:
                raise self.program.ended() from error
            raise self._failed(f"PX4 ended: {error}") from error
        self._listen()

    def _receive(self, time: int) -> None:
        """Wait for the actuators of this sample; a starting PX4 gives none, a running one omits some."""
        assert self.connection is not None
        wait = PAUSE[self.ready] if self.answered else self.stack.period
        self.connection.settimeout(wait)
        while True:
            try:
                data = self.connection.recv(4096)
            except TimeoutError:
                self.missed += 1
                if self.program is not None:
                    self.program.check()
                if self.missed * wait > PATIENCE and self.answered:
                    raise
                return
            if not data:
                raise ConnectionError("it closed the connection")
            for message in self.mav.parse_buffer(data) or []:
                if message.get_type() == "HIL_ACTUATOR_CONTROLS":
                    self.answered, self.missed, self.armed = True, 0, bool(message.mode & ARMED)
                    self.commands = [min(max(float(c), 0.0), 1.0) for c in message.controls[: len(self.most)]]
                    if message.time_usec >= time:
                        return

    def _sensor(self, time: int, seen: Measurements, slow: bool) -> Any:
        noise = self.random.standard_normal(10).tolist()
        a, g, m = NOISE["accelerometer"], NOISE["gyro"], NOISE["magnetometer"]
        (fx, fy, fz), (p, q, r), R = seen.specific_force, seen.gyro, seen.R
        north, east, down = FIELD
        field_in_world = (north, -east, -down)  # north, west, up
        mx, my, mz = (sum(R[j][i] * field_in_world[j] for j in range(3)) for i in range(3))
        altitude = HOME[2] + seen.position[2]
        pressure = 0.01 * pressure_at(altitude) + NOISE["pressure"] * noise[9]
        return self.dialect.MAVLink_hil_sensor_message(
            time, fx + a * noise[0], -fy + a * noise[1], -fz + a * noise[2], p + g * noise[3], -q + g * noise[4], -r + g * noise[5],
            mx + m * noise[6], -my + m * noise[7], -mz + m * noise[8], pressure, 0.0, altitude, 25.0,
            IMU_FIELDS | (MAGNETIC_FIELDS | PRESSURE_FIELDS if slow else 0),
        )  # fmt: skip

    def _place(self, seen: Measurements) -> tuple[int, int, int]:
        """Latitude and longitude in 1e-7 degrees, altitude in mm."""
        latitude, longitude, altitude = place_on_earth(seen.position)
        return round(latitude * 1e7), round(longitude * 1e7), round(altitude * 1e3)

    def _gps(self, time: int, seen: Measurements) -> Any:
        vn, ve, vd = _shorts(100.0, seen.velocity)
        course = round(100 * (degrees(np.arctan2(ve, vn)) % 360.0)) % 36000
        speed = round(sqrt(vn * vn + ve * ve))
        return self.dialect.MAVLink_hil_gps_message(time, 3, *self._place(seen), 30, 40, speed, vn, ve, vd, course, 12)

    def _state(self, time: int, seen: Measurements) -> Any:
        w, x, y, z = quaternion_wxyz(seen.R)
        p, q, r = seen.gyro
        v, f = _shorts(100.0, seen.velocity), _shorts(1000.0 / 9.80665, seen.specific_force)
        return self.dialect.MAVLink_hil_state_quaternion_message(
            time, [w, x, -y, -z], p, -q, -r, *self._place(seen), *v, 0, 0, *f
        )  # fmt: skip

    # --- commands -----------------------------------------------------------------------------------------------------------------

    def _set_point(self, time: int, desired: Desired) -> None:
        (x, y, z), (u, v, w) = desired.position, desired.velocity
        message = self.dialect.MAVLink_set_position_target_local_ned_message(
            (time // 1000) % 2**32, self.system, 1, self.dialect.MAV_FRAME_LOCAL_NED, POSITION_AND_HEADING, x, -y, -z, u, -v, -w, 0.0, 0.0, 0.0,
            (-desired.heading + pi) % (2 * pi) - pi, 0.0,
        )  # fmt: skip
        self._say(message)

    def _command(self, command: int, *parameters: float) -> None:
        values = [*parameters, *[0.0] * (7 - len(parameters))]
        self._say(self.dialect.MAVLink_command_long_message(self.system, 1, command, 0, *values))

    def _say(self, message: Any) -> None:
        if self.api_address is not None:
            with suppress(OSError):
                self.api.sendto(message.pack(self.mav), self.api_address)

    def _listen(self) -> None:
        """Texts and the position estimate of the API link."""
        while True:
            try:
                data, self.api_address = self.api.recvfrom(2048)
            except OSError:
                return
            for message in self.mav.parse_buffer(data) or []:
                kind = message.get_type()
                if kind == "STATUSTEXT":
                    self.texts.append(str(message.text))
                elif kind == "LOCAL_POSITION_NED":
                    self.ready = True

    def close(self) -> None:
        """End PX4 and close its ports."""
        for part in (self.connection, self.server, self.api):
            if part is not None:
                part.close()
        if self.program is not None:
            self.program.close()


def _shorts(scale: float, vector: Vector3) -> list[int]:
    """A vector in axes x, y to the left, z up as whole numbers of 16 bits in axes x, y to the right, z down."""
    x, y, z = vector
    return [min(max(round(scale * c), -32767), 32767) for c in (x, -y, -z)]
