"""Flight controllers that run as programs of their own: the protocol of a stack, and the controller that connects one to a vehicle.

At every sample the stack gets the measurements of the vehicle and the sticks of a pilot and returns one command per motor and servo. Time is
that of the simulation: the vehicle waits for the commands, the program for the measurements, so that flights are equal bit by bit on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import cos, sin
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeGuard

import numpy as np

from heavytop._arrays import Array, Numbers, concatenate, flatten_columns, part, symbol, vector
from heavytop.compile import Traced, trace_of
from heavytop.control import BaseController, Sensors
from heavytop.copters.battery import BatteryState
from heavytop.errors import ControlError, SimulationError
from heavytop.functions import instance_key
from heavytop.geometry import se3
from heavytop.simulate import SEEN, STATUS

if TYPE_CHECKING:
    from heavytop.control import Reference
    from heavytop.copters.airframe import Rotor
    from heavytop.copters.vehicle import Vehicle

Vector3 = tuple[float, float, float]
STICKS = "sticks"
"""Channel of a run: roll, pitch, yaw, throttle."""
BATTERY = "battery"
"""Channel of a run: voltage (V), current (A), charge (0 to 1), of a vehicle with a battery."""


class Measurements(NamedTuple):
    """The measurements of one sample. Body axes: x forward, y left, z up. World axes: z up.

    Attributes
    ----------
    t : time since the vehicle was released, s; negative while the stack starts.
    gyro : angular velocity in body axes, rad/s. specific_force : in body axes, mean over the sample, m/s^2; at rest 1 g upwards.
    R : rotation matrix from body to world axes, by rows. position : m. velocity : m/s. In world axes.

    Examples
    --------
    >>> level = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    >>> Measurements(0.0, (0.0, 0.0, 0.1), (0.0, 0.0, 9.81), level, (0.0, 0.0, 2.0), (0.0, 0.0, 0.0)).gyro[2]
    0.1
    """

    t: float
    gyro: Vector3
    specific_force: Vector3
    R: tuple[Vector3, Vector3, Vector3]
    position: Vector3
    velocity: Vector3


class Sticks(NamedTuple):
    """Commands of a pilot.

    Attributes
    ----------
    roll, pitch, yaw : -1 to 1: right, nose down, nose right. throttle : 0 to 1.
    level : whether roll and pitch command angles, not rates.

    Examples
    --------
    >>> Sticks(throttle=0.4).level
    True
    """

    roll: float = 0.0
    pitch: float = 0.0
    yaw: float = 0.0
    throttle: float = 0.0
    level: bool = True


class Desired(NamedTuple):
    """Motion of the reference: position (m), velocity (m/s), acceleration (m/s^2) in world axes, heading (rad).

    >>> Desired((0.0, 0.0, 2.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0).position[2]
    2.0
    """

    position: Vector3
    velocity: Vector3
    acceleration: Vector3
    heading: float


Pilot = Callable[[Measurements, Desired], Sticks]
"""From the measurements and the desired motion to the sticks."""


class StackError(SimulationError):
    """A stack could not be built or started, ended, did not answer or did not arm; the message has its last lines."""


class Link(Protocol):
    """A running stack. It may have a ``log``, the output of its program, for the page of the flight.

    >>> hasattr(Link, "exchange"), hasattr(Link, "close")
    (True, True)
    """

    def exchange(self, seen: Measurements, sticks: Sticks, desired: Desired) -> list[float]:
        """Commands (n,) from 0 to 1 of the motors for the measurements, sticks and set point of a sample; raises a StackError if there are none.

        A stack with ``servos`` appends the deflections from -1 to 1 of the tilting rotors, in their order: shares of the largest tilt of that sign.
        """
        ...

    def close(self) -> None:
        """End the program."""
        ...


class Stack(Protocol):
    """A kind of flight controller; an immutable value.

    Attributes
    ----------
    name : name of the stack. period : its sampling period, s. A stack that commands tilting rotors also has ``servos = True``.

    Examples
    --------
    >>> from heavytop.copters import stacks
    >>> stack: Stack = stacks.Raptor()
    >>> stack.name, stack.period
    ('RAPTOR', 0.01)
    """

    @property
    def name(self) -> str: ...

    @property
    def period(self) -> float: ...

    def start(self, vehicle: Vehicle, first: Measurements) -> Link:
        """Start the program for a vehicle that rests in its first state, until it is ready to fly."""
        ...


def is_stack(value: Any) -> TypeGuard[Stack]:
    """Whether a value is a kind of flight controller (:class:`Stack`)."""
    return all(hasattr(value, name) for name in ("name", "period", "start"))


@dataclass(frozen=True)
class Imu:
    """Sensor errors of an inertial measurement unit.

    Parameters
    ----------
    gyro_noise, accelerometer_noise : standard deviations of each sample, rad/s and m/s^2.
    gyro_bias, accelerometer_bias : standard deviations of the biases, constant during a flight.
    scale : standard deviation of the scale factors' relative errors.
    delay : delay of the measurements in whole samples. seed : seed of the random errors.

    Examples
    --------
    >>> Imu(gyro_noise=0.01, delay=4).delay
    4
    """

    gyro_noise: float = 0.0
    accelerometer_noise: float = 0.0
    gyro_bias: float = 0.0
    accelerometer_bias: float = 0.0
    scale: float = 0.0
    delay: int = 0
    seed: int = 0

    @classmethod
    def of(cls, sensors: Sensors | None, period: float, seed: int = 0) -> Imu:
        """The gyro and the accelerometer of a vehicle's sensors; perfect without them."""
        if sensors is None:
            return cls(seed=seed)
        gyro, force = sensors.gyro, sensors.accelerometer
        late = round(float(np.max(gyro.delay)) / period)
        size = (0.0, 0.0) if force is None else (force.noise, force.bias)
        return cls(gyro.noise, size[0], gyro.bias, size[1], 0.0, late, seed)


class StackController(BaseController):
    """A vehicle flown by a stack. Made by ``fly(vehicle, maneuver, stack)``, or directly.

    Parameters
    ----------
    vehicle : with one motor per rotor, and a servo per tilting one if the stack commands servos. stack : the flight controller.
    pilot : sticks from measurements and desired motion; None: :class:`.PositionPilot`, which follows the reference.
    imu : errors of the inertial sensors. failures : time (s) from which on a motor gives no thrust, by its number.

    Examples
    --------
    >>> from heavytop.copters import quadcopter, stacks
    >>> StackController(quadcopter(), stacks.Betaflight(), failures={1: 3.0})
    StackController('quadcopter', Betaflight)
    """

    def __init__(
        self,
        vehicle: Vehicle,
        stack: Stack,
        pilot: Pilot | None = None,
        imu: Imu | None = None,
        failures: Mapping[int, float] | None = None,
        reference: Reference | None = None,
    ) -> None:
        for rotor in vehicle.airframe.rotors:
            if rotor.tilt is not None and not getattr(stack, "servos", False):
                raise ControlError(
                    f"{vehicle.name!r} has tilting rotors; {stack.name} commands one motor per rotor. Fly a vehicle with fixed rotors, or a "
                    "stack with servos."
                )
            if rotor.tilt is not None and not -np.inf < rotor.tilt_range[0] < 0 < rotor.tilt_range[1] < np.inf:
                raise ControlError(
                    f"a servo tilts from its least to its largest angle: every tilting rotor of {vehicle.name!r} needs finite ones around 0, got "
                    f"tilt_range = {rotor.tilt_range}. Give the rotor tilt_range=(-0.6, 0.6), for example."
                )
            if not np.isfinite(rotor.thrust[1]) or rotor.thrust[0] < 0:
                raise ControlError(
                    f"a stack commands motors from 0 to 100 %: every rotor of {vehicle.name!r} needs a largest thrust and one direction, got "
                    f"thrust = {rotor.thrust}."
                )
        if wrong := [k for k in failures or {} if not 0 <= k < len(vehicle.airframe.rotors)]:
            raise ControlError(
                f"{vehicle.name!r} has {len(vehicle.airframe.rotors)} motors, from 0 on; got the failure of {wrong[0]}."
            )
        self.vehicle, self.stack, self.pilot, self.imu = vehicle, stack, pilot, imu or Imu()
        self.failures, self.reference = dict(failures or {}), reference
        self._reports: list[str] = []
        self.logs: list[str] = []

    def __repr__(self) -> str:
        return f"StackController({self.vehicle.name!r}, {self.stack.name})"

    @property
    def sample_time(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.stack.period

    @property
    def needs_reference(self) -> bool:
        return self.reference is None

    def with_reference(self, reference: Any, knows_parameters: bool = False, sample_time: float | None = None) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The same stack on another reference."""
        return type(self)(self.vehicle, self.stack, self.pilot, self.imu, self.failures, reference)

    def sensed(self, conditions: Any) -> Self:
        """The stack with the inertial sensors of its vehicle in the conditions of a flight: noise, delay and seed."""
        if self.imu != Imu():
            return self
        sensors = conditions.sensors
        sensors = None if sensors is None else conditions.sensors_in_flight(sensors)
        imu = Imu.of(sensors, self.stack.period, conditions.seed)
        if sensors is None and conditions.delay:
            imu = replace(imu, delay=conditions.delay_samples(self.stack.period))
        return type(self)(self.vehicle, self.stack, self.pilot, imu, self.failures, self.reference)

    def _make_key(self) -> str | None:
        return instance_key()  # a program has a memory

    # --- as a host of the simulation ------------------------------------------------------------------------------------------

    @property
    def host(self) -> StackController:
        return self

    @property
    def causes(self) -> tuple[str, ...]:
        """Reports of the stacks that failed."""
        return tuple(self._reports)

    @property
    def motor_failures(self) -> tuple[tuple[int, float], ...]:
        """Motors that fail, with their times (s), the first one first."""
        return tuple(sorted(self.failures.items(), key=lambda item: (item[1], item[0])))

    @property
    def kind(self) -> str:
        """Name of the stack, for reports."""
        return self.stack.name

    @property
    def answer_size(self) -> int:
        """Inputs of the vehicle, the status, the sticks (roll, pitch, yaw, throttle), and voltage, current and charge of a battery."""
        return self.vehicle.model.nu + 5 + (0 if self.vehicle.battery is None else 3)

    @property
    def signal_size(self) -> int:
        """Answers, then the desired motion: position, velocity, acceleration, heading of the hull, angles and rates of the limbs."""
        return self.answer_size + 10 + 2 * len(self.vehicle.limbs)

    def signal(self, times: Numbers) -> np.ndarray:
        """Zeros for the answers, and the desired motion."""
        times = np.atleast_1d(np.asarray(times, dtype=float))
        table = np.zeros((len(times), self.signal_size))
        reference = self.reference
        assert reference is not None
        model, limbs = reference.model, len(self.vehicle.limbs)
        q, v, _ = reference(times - reference.start_time)
        pose = model.pose("world", "hull", q)
        J = model.jacobian("world", "hull", q)
        R, twist = pose[:, :3, :3], np.matvec(J, v)
        velocity = np.matvec(R, twist[:, :3])
        rate = np.gradient(velocity, times, axis=0) if len(times) > 2 else 0 * velocity
        heading = np.unwrap(np.arctan2(R[:, 1, 0], R[:, 0, 0]))[:, None]
        joints = q[:, model.nq - limbs :], v[:, model.nv - limbs :]
        table[:, self.answer_size :] = np.concatenate([pose[:, :3, 3], velocity, rate, heading, *joints], axis=1)
        return table

    def composed(self, model: Any) -> Traced:
        """The stack in native code: its commands pass through, pose and velocity of the hull and the desired motion go to the program."""
        own = self.vehicle.model
        joint = own.description.joints[0].joint
        s = {
            "t": symbol("t"),
            "q": symbol("q", model.nq),
            "v": symbol("v", model.nv),
            "signal": symbol("signal", self.signal_size),
        }
        place = part(s["q"], 0, joint.coordinates.nq)
        pose = joint.pose(place)
        twist = np.matvec(joint.jacobian(place), part(s["v"], 0, joint.coordinates.nv))
        R = se3.rotation(pose)
        first = self.answer_size
        seen_q = concatenate(se3.position(pose), flatten_columns(R.T), part(s["signal"], first, first + 10))
        seen_v = concatenate(np.matvec(R, part(twist, 0, 3)), part(twist, 3, 6))
        u, status = part(s["signal"], 0, own.nu), s["signal"][own.nu]
        if self.vehicle.limbs:
            u = concatenate(part(u, 0, own.nu - len(self.vehicle.limbs)), self._motors(s))
        further = model.nu - own.nu
        outputs: dict[str, Array] = {"u": concatenate(u, np.zeros(further)) if further else u}
        outputs |= {STATUS: status, STICKS: part(s["signal"], own.nu + 1, own.nu + 5)}
        if self.vehicle.battery is not None:
            outputs[BATTERY] = part(s["signal"], own.nu + 5, own.nu + 8)
        outputs |= dict(zip(SEEN, (s["t"], seen_q, seen_v), strict=True))
        return trace_of("stack", s, outputs)

    def _motors(self, s: Mapping[str, Array]) -> Array:
        """Motors of the limbs, which a flight stack does not know: each joint follows its path, M_jj (w^2 e + 2 z w e') + fG_j, within its limit."""
        own, limbs, first = self.vehicle.model, self.vehicle.limbs, self.answer_size + 10
        n = len(limbs)
        inertia = np.diag(own.mass_matrix(own.neutral()))[-n:]
        (weight,) = own.traced("gravity_force").expressions(part(s["q"], 0, own.nq), own.parameter_vector())
        torques = []
        for k, limb in enumerate(limbs):
            error = s["signal"][first + k] - s["q"][own.nq - n + k]
            slower = s["signal"][first + n + k] - s["v"][own.nv - n + k]
            w = limb.control_frequency
            wanted = inertia[k] * (w * w * error + 2 * limb.damping * w * slower) + weight[own.nv - n + k]
            torques.append(np.minimum(np.maximum(wanted, -limb.force), limb.force))
        return vector(*torques)

    def sessions(self, count: int) -> list[Callable[[float, np.ndarray, np.ndarray], np.ndarray]]:
        """``count`` programs, started with the first sample of their trajectory."""
        self._reports.clear()
        self.logs.clear()
        return [StackFlight(self, self._reports, replace(self.imu, seed=self.imu.seed + k)) for k in range(count)]


BLOCK = 4096
"""Samples whose noise is drawn at the same time."""


class Motor:
    """A motor, and the servo of a tilting rotor: largest thrust (N), range of the tilt (rad) and its largest change in a sample."""

    def __init__(self, rotor: Rotor, period: float) -> None:
        self.most, self.tilts = float(rotor.thrust[1]), rotor.tilt is not None
        self.range, self.change = rotor.tilt_range, rotor.tilt_rate * period
        self.angle = 0.0

    def tilted(self, deflection: float) -> float:
        """The tilt (rad) after a sample at a deflection from -1 to 1."""
        low, high = self.range
        wanted = deflection * (high if deflection > 0 else -low)
        self.angle = min(max(wanted, self.angle - self.change), self.angle + self.change)
        return self.angle


class StackFlight:
    """One flight of a stack: measurements, sticks, commands."""

    def __init__(self, controller: StackController, reports: list[str], imu: Imu) -> None:
        from heavytop.copters.stacks.pilot import PositionPilot

        vehicle = controller.vehicle
        self.controller, self.reports, self.imu = controller, reports, imu
        self.pilot = controller.pilot or PositionPilot(vehicle)
        self.period = controller.stack.period
        self.motors = [Motor(rotor, self.period) for rotor in vehicle.airframe.rotors]
        self.battery = None if vehicle.battery is None else BatteryState(vehicle.battery, vehicle, self.period)
        self.inputs = vehicle.model.nu
        self.gravity = tuple(float(x) for x in vehicle.model.description.gravity)
        self.link: Link | None = None
        self.last: list[float] | None = None
        self.status = 0
        self.samples = 0
        self.answer = np.zeros(controller.answer_size)
        self.late: list[tuple[Vector3, Vector3]] = []
        random = np.random.default_rng(imu.seed)
        self.random = random
        self.bias = (imu.gyro_bias * random.standard_normal(3), imu.accelerometer_bias * random.standard_normal(3))
        self.scale = 1.0 + imu.scale * random.standard_normal((2, 3))
        self.perfect = not (
            imu.gyro_noise or imu.accelerometer_noise or imu.gyro_bias or imu.accelerometer_bias or imu.scale
        )
        self.noise = np.zeros((0, 2, 3))

    def __call__(self, t: float, seen_q: np.ndarray, seen_v: np.ndarray) -> np.ndarray:
        """Inputs and status of a sample."""
        if self.status:
            return self.answer
        x, y, z, a, b, c, d, e, f, g, h, i, *desired = seen_q.tolist()
        vx, vy, vz, *omega = seen_v.tolist()
        R = ((a, b, c), (d, e, f), (g, h, i))
        before = self.last or [vx, vy, vz]
        self.last = [vx, vy, vz]
        # mean specific force over the sample, R^T (dv/dt - g), from the change of the velocity: all forces are in it
        fx, fy, fz = (
            (now - old) / self.period - own for now, old, own in zip(self.last, before, self.gravity, strict=True)
        )
        force = (a * fx + d * fy + g * fz, b * fx + e * fy + h * fz, c * fx + f * fy + i * fz)
        gyro, force = self._sensed((omega[0], omega[1], omega[2]), force)
        seen = Measurements(t, gyro, force, R, (x, y, z), (vx, vy, vz))
        wanted = Desired(tuple(desired[0:3]), tuple(desired[3:6]), tuple(desired[6:9]), desired[9])  # pyright: ignore[reportArgumentType]
        try:
            if self.link is None:
                self.link = self.controller.stack.start(
                    self.controller.vehicle, seen._replace(velocity=(0.0, 0.0, 0.0))
                )
            sticks = self.pilot(seen, wanted)
            commands = self.link.exchange(seen, sticks, wanted)
        except StackError as error:
            self.reports.append(str(error))
            self.status = len(self.reports)
            self.answer[self.inputs] = self.status
            self.close()
            return self.answer
        count, failures = len(self.motors), self.controller.failures
        share = 1.0 if self.battery is None else self.battery.supply(commands[:count])
        servos, place = iter(commands[count:]), 0
        for k, (command, motor) in enumerate(zip(commands, self.motors, strict=False)):
            speed = 0.0 if k in failures and t >= failures[k] else share * command
            thrust = (
                motor.most * speed * speed
            )  # the speed of a rotor follows its command and the voltage, the thrust its square
            if motor.tilts:
                angle = motor.tilted(next(servos))
                self.answer[place : place + 2] = (-thrust * sin(angle), thrust * cos(angle))
                place += 2
            else:
                self.answer[place] = thrust
                place += 1
        self.answer[self.inputs + 1 : self.inputs + 5] = sticks[:4]
        if self.battery is not None:
            self.answer[self.inputs + 5 :] = (self.battery.voltage, self.battery.current, self.battery.charge)
        return self.answer

    def _sensed(self, gyro: Vector3, force: Vector3) -> tuple[Vector3, Vector3]:
        if not self.perfect:
            k = self.samples % BLOCK
            if k == 0:
                self.noise = self.random.standard_normal((BLOCK, 2, 3))
            imu, noise = self.imu, self.noise[k]
            gyro = tuple((self.scale[0] * gyro + self.bias[0] + imu.gyro_noise * noise[0]).tolist())
            force = tuple((self.scale[1] * force + self.bias[1] + imu.accelerometer_noise * noise[1]).tolist())
        self.samples += 1
        if not self.imu.delay:
            return gyro, force
        self.late.append((gyro, force))
        return self.late.pop(0) if len(self.late) > self.imu.delay else self.late[0]

    def close(self) -> None:
        """End the program."""
        if self.link is not None:
            self.controller.logs.append(getattr(self.link, "log", ""))
            self.link.close()
            self.link = None

    def __del__(self) -> None:
        self.close()
