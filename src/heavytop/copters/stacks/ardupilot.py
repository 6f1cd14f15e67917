"""ArduPilot: its simulation build (SITL) with the JSON interface, in lock-step by frame.

ArduPilot sends the pulses of its outputs to UDP port 9002 and waits for the state of the vehicle as one line of JSON: time, gyro and specific force
in body axes forward, right, down, position, velocity and attitude relative to north, east, down. Sticks go to its receiver port before the state, so
that they belong to the same sample. It sends a frame again when it has waited for a second. World axes: x north, y west, z up.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import degrees
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.copters.stacks.attitude import quaternion_wxyz
from heavytop.copters.stacks.pilot import ANGLE_LIMIT, YAW_RATE
from heavytop.copters.stacks.program import (
    PATIENCE,
    SLICE,
    STARTUP,
    FirmwareProgram,
    Patience,
    new_folder,
    program_file,
)
from heavytop.copters.stacks.stack import Desired, Measurements, StackError, Sticks

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

STATE_PORT, RECEIVER_PORT = 9002, 5501
INSTANCES, APART = 100, 10
"""ArduPilots that fly at the same time, and the distance of their ports."""
SPEEDUP = 100
"""Times real time up to which ArduPilot does not wait for the clock of the machine."""
SERVOS = struct.Struct("<HHI16H")
"""Magic number, frame rate, frame, pulses."""
MAGIC = 18458
RECEIVER = struct.Struct("<16H")
BOOT, ARMING, SPOOL = 12.0, 6.0, 2.0
"""Seconds of virtual time for the estimator, for the arming stick, and until the motors have spun up."""
FRAMES: dict[int, tuple[int, dict[int, tuple[float, ...]]]] = {
    4: (1, {1: (45.0, -135.0, -45.0, 135.0), 0: (90.0, -90.0, 0.0, 180.0)}),
    6: (2, {1: (90.0, -90.0, -30.0, 150.0, 30.0, -150.0), 0: (0.0, 180.0, -120.0, 60.0, -60.0, 120.0)}),
    8: (
        3,
        {
            1: (22.5, -157.5, 67.5, 157.5, -22.5, -112.5, -67.5, 112.5),
            0: (0.0, 180.0, 45.0, 135.0, -45.0, -135.0, -90.0, 90.0),
        },
    ),
}
"""Frame class by number of rotors; for the types x (1) and plus (0) the directions of motors 1, 2, ... from ahead to the right, degrees."""
SPINS = {4: (1, 1, -1, -1), 6: (-1, 1, -1, 1, 1, -1), 8: (-1, -1, 1, 1, 1, 1, -1, -1)}
"""Spins of motors 1, 2, ..., counter-clockwise positive, by number of rotors."""
SPREAD = 10.0


@dataclass(frozen=True)
class ArduPilot:
    """ArduPilot's copter in lock-step.

    Parameters
    ----------
    path : path of the program ``arducopter`` of a SITL build, which gets the first free ports, so that several fly at the same time;
        None: wait for one that was started by hand with ``--model JSON``.
    parameters : parameters of ArduPilot, name -> value; frame, angle limit and yaw rate are set from the vehicle and the pilot.
    period : sampling period, s.
    port, receiver_port : UDP ports of the simulator and of ArduPilot's receiver; with a ``path`` those of the first instance.

    Examples
    --------
    >>> ArduPilot(parameters={"ATC_RAT_RLL_P": 0.1}).period
    0.001
    """

    path: str | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    period: float = 1e-3
    port: int = STATE_PORT
    receiver_port: int = RECEIVER_PORT

    @property
    def name(self) -> str:
        return "ArduPilot"

    def settings(self, vehicle: Vehicle) -> dict[str, float]:
        """Parameters of ArduPilot: frame, stabilised flight, limits of the sticks, then those of the airframe's file and the user's."""
        kind, shape, _ = frame(vehicle)
        found: dict[str, float] = {
            "FRAME_CLASS": kind, "FRAME_TYPE": shape, "FLTMODE1": 0, "FLTMODE6": 0, "ARMING_CHECK": 0, "ARMING_RUDDER": 2,
            "ANGLE_MAX": round(100 * degrees(ANGLE_LIMIT)), "PILOT_Y_RATE": round(degrees(YAW_RATE)), "PILOT_Y_EXPO": 0, "DISARM_DELAY": 0,
            "FS_THR_ENABLE": 0, "SCHED_LOOP_RATE": 400, "MOT_THST_EXPO": 1.0, "MOT_SPIN_MIN": 0.05, "MOT_SPIN_ARM": 0.04, "MOT_SPIN_MAX": 1.0,
            "SIM_RATE_HZ": round(1.0 / self.period),
        }  # fmt: skip
        return {**found, **vehicle.firmware.get("ardupilot", {}), **self.parameters}  # pyright: ignore[reportReturnType]

    def start(self, vehicle: Vehicle, first: Measurements) -> ArduPilotLink:
        """Start ArduPilot and arm it by its rudder stick, with the vehicle at rest."""
        link = ArduPilotLink(self, vehicle)
        try:
            link.open(vehicle)
            link.arm(first)
        except BaseException:
            link.close()
            raise
        return link


def frame(vehicle: Vehicle) -> tuple[int, int, list[int]]:
    """Frame class and type of ArduPilot, and its motor (from 0 on) for each rotor of the vehicle.

    Raises
    ------
    StackError
        The rotors are not those of a frame of ArduPilot.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> frame(quadcopter())
    (1, 0, [2, 1, 3, 0])
    """
    rotors = vehicle.airframe.rotors
    bearings = [degrees(np.arctan2(-rotor.at[1], rotor.at[0])) for rotor in rotors]
    kind, shapes = FRAMES.get(len(rotors), (0, {}))
    for shape, places in shapes.items():
        order = [
            min(range(len(places)), key=lambda k: abs((places[k] - own + 180.0) % 360.0 - 180.0)) for own in bearings
        ]
        away = [abs((places[k] - own + 180.0) % 360.0 - 180.0) for k, own in zip(order, bearings, strict=True)]
        if len(set(order)) == len(rotors) and max(away) < SPREAD:
            if wrong := [k for k, motor in enumerate(order) if rotors[k].spin != SPINS[len(rotors)][motor]]:
                raise StackError(
                    f"ArduPilot's motors turn the other way than those of {vehicle.name!r} with the numbers {wrong}."
                )
            return kind, shape, order
    raise StackError(
        f"ArduPilot has frames x and plus with 4, 6 or 8 rotors; {vehicle.name!r} has {len(rotors)} at {np.round(bearings, 1).tolist()} degrees "
        "from ahead to the right."
    )


class ArduPilotLink:
    """Packets of a running ArduPilot."""

    def __init__(self, stack: ArduPilot, vehicle: Vehicle) -> None:
        self.stack, self.order, self.samples = stack, frame(vehicle)[2], 0
        self.commands = [0.0] * len(self.order)
        self.program: FirmwareProgram | None = None
        self.receiver_port, self.frame = stack.receiver_port, -1
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(SLICE)

    def open(self, vehicle: Vehicle) -> None:
        """Take the first free port, and start the program."""
        stack = self.stack
        if stack.path is None:
            self._bind(1)
            return
        program = program_file(stack.path, "Give that of arducopter, in build/sitl/bin of a build.")
        instance, folder = self._bind(INSTANCES), new_folder("ardupilot")
        defaults = folder / "vehicle.parm"
        defaults.write_text("".join(f"{name} {value:.9g}\n" for name, value in stack.settings(vehicle).items()))
        self.program = FirmwareProgram(
            [
                str(program), "--model", "JSON:127.0.0.1", "--speedup", str(SPEEDUP), "--defaults", str(defaults), f"-I{instance}",
                "--sim-port-out", str(stack.port + APART * instance), "--rc-in-port", str(self.receiver_port),
                "--serial0", "udpclient:127.0.0.1:14550", "-w",
            ],
            folder,
            {},
        )  # fmt: skip

    def _bind(self, instances: int) -> int:
        """The first instance whose port is free."""
        for instance in range(instances):
            with suppress(OSError):
                self.socket.bind(("127.0.0.1", self.stack.port + APART * instance))
                self.receiver_port = self.stack.receiver_port + APART * instance
                return instance
        raise StackError(
            f"the UDP port {self.stack.port} is in use, by another simulator or flight. End that, or choose another port: "
            "ArduPilot(port=..., receiver_port=...)."
        )

    def arm(self, first: Measurements) -> None:
        """Rest, hold the rudder to the right with low throttle, and wait for the motors."""
        for seconds, sticks in ((BOOT, Sticks()), (ARMING, Sticks(yaw=1.0)), (SPOOL, Sticks())):
            for _ in range(round(seconds / self.stack.period)):
                self.step(first, sticks)
        if max(self.commands) <= 0.0:
            raise self._failed(f"ArduPilot did not arm within {BOOT + ARMING + SPOOL:g} s of rest")

    def exchange(self, seen: Measurements, sticks: Sticks, desired: Desired) -> list[float]:
        """Commands (n,) from 0 to 1 of the vehicle's motors."""
        self.step(seen, sticks)
        return self.commands

    def step(self, seen: Measurements, sticks: Sticks) -> None:
        """One sample: pulses in, state and sticks out."""
        packet, sender = self._next()
        _, _, self.frame, *pulses = packet
        motors = [min(max((pulse - 1000.0) * 1e-3, 0.0), 1.0) for pulse in pulses]
        self.commands = [motors[k] for k in self.order]
        self.samples += 1
        self.socket.sendto(self._receiver(sticks), (sender[0], self.receiver_port))
        self.socket.sendto(self._state(seen), sender)

    def _next(self) -> tuple[tuple[int, ...], Any]:
        """The next frame and its sender. A frame that is repeated was answered: ArduPilot had waited for a second on a busy machine."""
        patience = Patience(self.program, PATIENCE if self.samples else STARTUP, "ArduPilot did not answer")
        while True:
            try:
                packet, sender = self.socket.recvfrom(256)
            except TimeoutError:
                patience.check()
                continue
            if len(packet) != SERVOS.size:
                raise self._failed(f"ArduPilot sent {len(packet)} bytes, not {SERVOS.size}: its outputs must be 16")
            frame = SERVOS.unpack(packet)
            if frame[0] != MAGIC:
                raise self._failed(f"the packet on port {self.socket.getsockname()[1]} is not ArduPilot's")
            if frame[2] != self.frame:
                return frame, sender

    def _state(self, seen: Measurements) -> bytes:
        (p, q, r), (fx, fy, fz) = seen.gyro, seen.specific_force
        (x, y, z), (u, v, w) = seen.position, seen.velocity
        qw, qx, qy, qz = quaternion_wxyz(seen.R)
        state: dict[str, Any] = {
            "timestamp": self.samples * self.stack.period,
            "imu": {"gyro": [p, -q, -r], "accel_body": [fx, -fy, -fz]},
            "position": [x, -y, -z],
            "quaternion": [qw, qx, -qy, -qz],
            "velocity": [u, -v, -w],
        }
        # ArduPilot's parser takes no space after a colon
        return f"\n{json.dumps(state, separators=(',', ':'))}\n".encode()

    def _receiver(self, sticks: Sticks) -> bytes:
        """Pulses: roll, pitch (back is high), throttle, yaw, mode."""
        pulses = [round(1500 + 500 * x) for x in (sticks.roll, -sticks.pitch, 2 * sticks.throttle - 1, sticks.yaw)]
        return RECEIVER.pack(*(min(max(pulse, 1000), 2000) for pulse in pulses), *[1000] * 12)

    def _failed(self, problem: str) -> StackError:
        return StackError(f"{problem}.") if self.program is None else self.program.failure(problem)

    @property
    def log(self) -> str:
        """The output of the program."""
        return "" if self.program is None else self.program.output

    def close(self) -> None:
        """End ArduPilot and close its port."""
        self.socket.close()
        if self.program is not None:
            self.program.close()
