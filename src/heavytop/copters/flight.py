"""Fly a vehicle through a maneuver and measure how well it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._format import Overview, Shown
from heavytop.control import BaseController, Margins, Reference, TiltLimits
from heavytop.copters.catalogue import load
from heavytop.copters.composition import LAW_NAMES, ROBUST, Composition, Conditions, as_law, has_sensors
from heavytop.copters.maneuvers import Maneuver, as_maneuver
from heavytop.copters.robust_controller import agile_law, robust_controller
from heavytop.copters.rotor_plant import RotorPlant
from heavytop.copters.stacks import Stack
from heavytop.copters.stacks.program import last_lines
from heavytop.copters.vehicle import COMMANDED, Vehicle
from heavytop.errors import HeavytopError
from heavytop.functions import Portable
from heavytop.geometry import se3, so3
from heavytop.plan import Plan
from heavytop.simulate import Ending, LiveRun, Outcome, Run

if TYPE_CHECKING:
    from heavytop.show import InlinePage

LOST = 5.0
"""Distance (m) from the reference at the end beyond which a flight has failed."""
FALL = 1.0
"""Speed (m/s) downwards of a lost vehicle from which on it falls."""
TUMBLE_TIME, TUMBLE_RATE = 0.5, 15.0
"""A vehicle tumbles if it turns faster than this rate (rad/s) relative to its reference, or is upside down, during this time (s) at the end."""


@dataclass(frozen=True, eq=False, repr=False)
class Flight(Shown, Portable):
    """A flight: vehicle, maneuver, law, conditions and the simulated run.

    Attributes
    ----------
    run : run of the plant; its first inputs are those of the vehicle.
    law : its name. limits : whether the inputs were limited. integral : whether the law had integral action.
    rotors : whether the plant had lagging rotor speeds and drag. period : sampling period of the controller, s.
    log : last lines of the output of the firmware that flew the vehicle.
    motor_failures : the motors (from 0 on) that gave no thrust from a time (s) of the flight on, in this order.

    Examples
    --------
    >>> from heavytop.copters import fly, maneuvers, quadcopter
    >>> craft = quadcopter()
    >>> flight = fly(craft, maneuvers.hover(craft, duration=0.2))
    >>> flight.run.outcome.ok
    True
    """

    vehicle: Vehicle
    maneuver: Maneuver
    run: Run
    law: str
    limits: bool
    integral: bool
    conditions: Conditions = field(default_factory=Conditions)
    rotors: bool = False
    period: float | None = None
    log: tuple[str, ...] = ()
    motor_failures: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, flown: Composition, run: Run) -> Flight:
        """The flight of a composition."""
        law = None if run.origin is None else run.origin.plan.control.law
        host = None if law is None else law.host
        logs = getattr(host, "logs", ())
        failed = tuple((k, t) for k, t in getattr(host, "motor_failures", ()) if t <= run.t[-1])
        return cls(
            flown.vehicle, flown.maneuver, run, flown.law_name, flown.limited, flown.integrating, flown.conditions, flown.rotors,
            flown.timing[1], tuple(line for text in logs for line in last_lines(text)), failed,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Flight({self.vehicle.name!r}: {self.maneuver.name}, {self.law} law, {self.outcome})"

    def _overview(self) -> Overview:
        figures = {name: f"{value:.4g}" for name, value in self.numbers().items()}
        ended = {"law": self.law, "outcome": str(self.outcome)}
        return Overview(f"Flight of {self.vehicle.name}: {self.maneuver.name}", tuple((ended | figures).items()))

    def show(self, path: str | Path | None = None, *, live: bool = False) -> Path | InlinePage:
        """Write a self-contained page with the flight in 3-D, or, without a ``path``, return it for display in a notebook.

        A ``live`` page flies itself, without Python: sliders for gains and wind, a hull that can be pulled. Gusts become steady wind; a law with
        sensors or delays flies as it is, without sliders for its gains.
        """
        from heavytop.show import InlinePage, flight_report, live_flight_report, write_page

        report = live_flight_report(self) if live else flight_report(self)
        return InlinePage(report) if path is None else write_page(report, path)

    def live(self) -> LiveRun:
        """The motion of the live page of this flight: in steady wind, with the numbers of its law; a law with sensors or delays flies as it is.

        >>> from heavytop.copters import fly, quadcopter
        >>> live = fly(quadcopter(), "step").live()
        >>> live.change("wind x", 2.0)
        >>> live.advance(0.5)
        >>> live.problem is None
        True
        """
        from heavytop.copters.live.tuned_run import tuned_run

        return LiveRun(tuned_run(self)[0])

    def save(self, path: str | Path, every: int = 1) -> None:
        """Write a table (``.csv``), or the run as netCDF (``.nc``).

        The table has the same columns with and without rotor dynamics: time, coordinates and velocities, forces of the rotors and their commands
        (``thrust0``, ``thrust0_command``), wind, errors; with rotor dynamics further ones of the rotors. ``every`` : records between rows.
        """
        from heavytop.io import save_flight

        save_flight(self, path, every)

    @property
    def t(self) -> np.ndarray:
        """(n,) s."""
        return self.run.t

    @cached_property
    def u(self) -> np.ndarray:
        """(n, nu) inputs of the vehicle, N; of a detailed plant, the forces of its propellers."""
        if self.vehicle.full is not None:
            return self.vehicle.full.forces(self.run.q, self.run.v)
        if self.rotors:
            return RotorPlant(self.vehicle).forces(self.run.q, self.run.v)
        return self.run.u[..., : self.vehicle.airframe.inputs]

    @cached_property
    def commands(self) -> np.ndarray:
        """(n, nu) inputs that the controller commands, N: of rotors before the lag of their motors."""
        return commands_of(self.vehicle, self.run)

    @property
    def lags(self) -> bool:
        """Whether the thrusts lag behind their commands."""
        return self.rotors or COMMANDED in self.run.channels

    @cached_property
    def desired(self) -> np.ndarray:
        """(n, nq) configuration of the reference."""
        return self.maneuver(self.t)[0]

    def pose(self, body: str = "hull", desired: bool = False) -> np.ndarray:
        """(n, 4, 4) pose of a body, or of the reference's."""
        if desired:
            return self.vehicle.model.pose("world", body, self.desired)
        return flown_poses(self.vehicle, self.run, body)

    @cached_property
    def position_error(self) -> np.ndarray:
        """(n,) distance of the hull from the reference, m; over the ground, from the reference not below standing."""
        return distance_between(self.pose(), desired_poses(self.vehicle, self.maneuver, self.run))

    @cached_property
    def attitude_error(self) -> np.ndarray:
        """(n,) angle between the attitudes of hull and reference, rad."""
        return angle_between(self.pose(), self.pose(desired=True))

    @cached_property
    def swing_error(self) -> np.ndarray | None:
        """(n,) angle between the load's axis and that of the reference, rad; None without a load."""
        load = self.vehicle.airframe.load
        if load is None:
            return None
        a, b = self.pose(load.body)[:, :3, 2], self.pose(load.body, desired=True)[:, :3, 2]
        return np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1))

    def joints(self, desired: bool = False) -> dict[str, np.ndarray]:
        """Coordinates (n,) of the limbs' joints by name, or those of the reference, rad or m."""
        first = self.vehicle.model.nq - len(self.vehicle.limbs)
        q = self.desired if desired else self.run.q
        return {limb.name: q[:, first + k] for k, limb in enumerate(self.vehicle.limbs)}

    @cached_property
    def thrusts(self) -> np.ndarray:
        """(n, rotors) thrusts, N."""
        return self.vehicle.airframe.thrusts(self.u)

    @cached_property
    def commanded_thrusts(self) -> np.ndarray:
        """(n, rotors) commanded thrusts, N."""
        return self.vehicle.airframe.thrusts(self.commands[..., : self.vehicle.airframe.inputs])

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome of the run, or ``lost`` if the vehicle tumbles or is far from its reference at the end.

        The message states the speed of a fall, the motors that failed, when, and the distance from the reference at the end.
        """
        end = self._ending()
        if not self.motor_failures:
            return end
        failed = ", ".join(f"motor {k} failed at t = {t:g} s" for k, t in self.motor_failures)
        far = float(self.position_error[-1])
        place = f"; {far:.3g} m from the reference at the end" if np.isfinite(far) else ""
        return replace(end, message=f"{end.message}; {failed}{place}")

    def _ending(self) -> Outcome:
        """The outcome without its causes."""
        end = self.run.outcome
        if not end.ok:
            return end
        late = self.t >= self.t[-1] - TUMBLE_TIME
        spin = np.linalg.norm(self.run.v[late, 3:6] - self.maneuver(self.t[late])[1][:, 3:6], axis=-1)
        time, far = float(self.t[-1]), float(self.position_error[-1])
        if np.min(spin) > TUMBLE_RATE or np.min(self.attitude_error[late]) > np.pi / 2:
            text = f"the vehicle tumbles: {np.min(spin):.3g} rad/s and {np.degrees(self.attitude_error[-1]):.0f} deg off at t = {time:g} s"
            return Outcome(Ending.lost, text + self._fall(), time)
        if far > LOST and far > self.position_error[0]:
            text = f"the vehicle is lost: {far:.3g} m from the reference at t = {time:g} s"
            return Outcome(Ending.lost, text + self._fall(), time)
        return end

    def _fall(self) -> str:
        """Height below the reference and speed of a vehicle that falls at the end, as text."""
        z, wanted = self.pose()[-2:, 2, 3], self.pose(desired=True)[-1, 2, 3]
        speed = -float(np.diff(z)[0] / np.diff(self.t[-2:])[0]) if len(z) > 1 else 0.0
        if speed < FALL:
            return ""
        below = wanted - z[-1]
        return f"; it falls at {speed:.3g} m/s" + (f", {below:.3g} m below the reference" if below > 0 else "")

    @cached_property
    def margins(self) -> Margins | None:
        """Margins at rest of the law without wrappers; of the robust law with the sample rate of the whole. None if it cannot be linearised, or is a
        program."""
        if self.law not in LAW_NAMES:
            return None
        law: Any = None
        if self.law == ROBUST:
            inner = agile_law(self.vehicle, limits=self.limits, period=self.period or 0.0)
            law = robust_controller(self.vehicle, law=inner, rotors=self.rotors)
        try:
            return (law or self.vehicle.law(self.law, self.limits)).margins()
        except HeavytopError:
            return None

    @property
    def real_time_factor(self) -> float:
        """Seconds of flight per second of computing."""
        return float(self.t[-1] - self.t[0]) / max(self.run.timing.wall_seconds, 1e-9)

    @property
    def saturated(self) -> float:
        """Share of the time with a command at a limit."""
        return float(np.mean(at_limits(self.vehicle, self.commands))) if self.limits or self.lags else 0.0

    @property
    def command_change(self) -> float:
        """Mean change of the command of a rotor from one sample to the next, N: its total variation per sample."""
        return float(change_per_sample(self.vehicle, self.run, self.commands, self.period))

    def numbers(self) -> dict[str, float]:
        """The figures of merit by name, in SI units and degrees."""
        angle = np.degrees(self.attitude_error)
        result = {
            "position error max [m]": float(self.position_error.max()),
            "position error rms [m]": rms(self.position_error),
            "position error end [m]": float(self.position_error[-1]),
            "attitude error max [deg]": float(angle.max()),
            "attitude error rms [deg]": rms(angle),
        }
        if self.swing_error is not None:
            swing = np.degrees(self.swing_error)
            result |= {"swing error max [deg]": float(swing.max()), "swing error end [deg]": float(swing[-1])}
        if self.vehicle.limbs:
            desired = self.joints(desired=True)
            off = np.stack([y - desired[name] for name, y in self.joints().items()])
            result |= {"joint error max [rad]": float(np.abs(off).max()), "joint error rms [rad]": rms(off)}
        result |= {
            "thrust least [N]": float(self.thrusts.min()),
            "thrust largest [N]": float(self.thrusts.max()),
            "command least [N]": float(self.commanded_thrusts.min()),
            "command largest [N]": float(self.commanded_thrusts.max()),
            "command change per sample [N]": self.command_change,
            "time at limits [%]": 100 * self.saturated,
        }
        for name, label in (("energy", "energy balance [J]"), ("phi", "drift off the manifold")):
            if name in self.run.invariants:
                result[label] = self.run.invariants[name].drift
        result["times real time"] = self.real_time_factor
        return result


def commands_of(vehicle: Vehicle, run: Run) -> np.ndarray:
    """(n, *batch, nu) inputs of the vehicle that its controller commands."""
    given = run.channels.get(COMMANDED)
    return run.u[..., : vehicle.model.nu] if given is None else given


def at_limits(vehicle: Vehicle, u: np.ndarray) -> np.ndarray:
    """Whether some of the inputs u (..., nu) is at a limit of the vehicle or beyond it (...)."""
    if vehicle.limits is None:
        return np.zeros(u.shape[:-1], dtype=bool)
    if isinstance(vehicle.limits, TiltLimits):
        return vehicle.limits.active(u)
    lower, upper = vehicle.limits.bounds(vehicle.model)
    slack = 1e-9 * np.maximum(1.0, np.abs(upper - lower))
    return np.any((u <= lower + slack) | (u >= upper - slack), axis=-1)


def change_per_sample(vehicle: Vehicle, run: Run, commands: np.ndarray, period: float | None = None) -> np.ndarray:
    """Total variation of the commands of the rotors per sample, their mean (*batch), N; NaN if a run does not record every sample.

    ``period`` : of the samples, s; None: the step.
    """
    step, every = run.settings.step, run.settings.record_every
    period = step if period is None else period
    if every * step > 1.001 * period:
        return np.full(commands.shape[1:-1], np.nan)
    u = commands[..., : vehicle.airframe.inputs]
    # a command is held for a sample: differences of records within it are zero
    recorded = np.sum(np.isfinite(u[..., 0]), axis=0) - 1
    samples = np.maximum(recorded * every * step / period, 1.0)
    return np.nansum(np.mean(np.abs(np.diff(u, axis=0)), axis=-1), axis=0) / samples


def rms(x: np.ndarray) -> float:
    """Root of the mean square.

    >>> rms(np.array([3.0, 4.0])).__round__(4)
    3.5355
    """
    return float(np.sqrt(np.mean(np.square(x))))


def flown_poses(vehicle: Vehicle, run: Run, body: str = "hull") -> np.ndarray:
    """(n, *batch, 4, 4) poses of a body in a run; NaN where the run has no finite configuration."""
    plant = vehicle.plant
    q = run.q[..., : plant.nq]
    gone = np.asarray(~np.isfinite(q).all(axis=-1))
    pose = plant.pose("world", body, np.where(gone[..., None], plant.neutral(), q))
    return np.where(gone[..., None, None], np.nan, pose)


def desired_poses(vehicle: Vehicle, maneuver: Maneuver, run: Run) -> np.ndarray:
    """(n, *ones, 4, 4) poses of the hull on the reference at the times of a run, with an axis of length one per batch axis.

    A reference over the ground that presses the vehicle on it is followed as well as possible where the vehicle stands, so the poses are not below.
    """
    pose = vehicle.model.pose("world", "hull", maneuver(run.t)[0])
    if maneuver.grounded:
        pose = pose.copy()
        pose[:, 2, 3] = np.maximum(pose[:, 2, 3], vehicle.standing_height)
    return pose.reshape(len(pose), *(1,) * len(run.batch), 4, 4)


def distance_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance (...) of the origins of pose a (..., 4, 4) and pose b, m."""
    return np.linalg.norm(a[..., :3, 3] - b[..., :3, 3], axis=-1)


def angle_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rotation angle (...) from pose a (..., 4, 4) to pose b, rad."""
    R = np.swapaxes(se3.rotation(a), -1, -2) @ se3.rotation(b)
    sine = 0.5 * np.linalg.norm(so3.vee2(R), axis=-1)
    cosine = 0.5 * (np.trace(R, axis1=-2, axis2=-1) - 1.0)
    return np.arctan2(sine, cosine)


def fly(
    vehicle: Vehicle | str | Path,
    maneuver: Maneuver | Reference | Plan | str = "looping",
    law: str | BaseController | Stack | Callable[[Vehicle], BaseController] = "energy",
    *,
    limits: bool = True,
    wind: Any = 0.0,
    noise: float | None = None,
    payload: float = 0.0,
    integral: bool | None = None,
    seed: int = 0,
    delay: float = 0.0,
    rotors: bool = False,
    start: Any = None,
    step: float = 1e-3,
    until: float | None = None,
    report: Callable[[str], None] | None = None,
) -> Flight:
    """Fly a maneuver.

    Parameters
    ----------
    vehicle : the vehicle, its name or its TOML file.
    maneuver : the desired motion: a maneuver or its name, or a reference or plan of ``vehicle.model``.
    law : "energy", "particle", "body", or "robust": the energy law with observers, prediction and governor, see :func:`.robust_controller`;
        noise and delay are then those of its sensors. Or your controller: a law, a wrapped one, a regulator or predictive control,
        firmware (:mod:`.stacks`), or a function that returns a controller for the vehicle. It has its own limits and integrals; one
        without a reference follows the maneuver.
    limits : whether inputs stay within the vehicle's limits; with ``rotors`` those of the propellers always act.
    wind, noise, payload, seed : disturbances, see :class:`.Conditions`. Sensors specified in a vehicle's description always act; ``noise``
        scales them (default 1). Otherwise ``noise`` (default 0) is that of motion capture.
    integral : integral action of the law; None: in wind or with a payload. The robust controller has observers instead.
    delay : age of the measurements, s, instead of the delays of the vehicle's own sensors; a multiple of the sample period (``step``; 5 ms for
        the robust controller).
    rotors : fly with rotor speeds (and tilts) that lag behind and with the drag of rotors and frame, which the law does not model; typical
        values for a vehicle without ``propulsion`` data.
    start : (q, v); default: the start of the maneuver.
    step : step of the integration and sampling period of the law, s. until : end, s.
    report : called with a text at the beginning of each stage.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> flight = fly(quadcopter(), "looping")
    >>> flight.position_error.max() < 0.01
    np.True_
    """
    report = report or (lambda _: None)
    vehicle = load(vehicle) if isinstance(vehicle, str | Path) else vehicle
    law = as_law(law, vehicle)
    if has_sensors(law):
        conditions = Conditions(wind, noise or 0.0, payload, seed, delay)
    else:
        conditions = Conditions.of(vehicle, wind, noise, payload, seed, delay)
    if isinstance(maneuver, str):
        report(f"planning {maneuver}")
    composition = Composition(
        vehicle, as_maneuver(maneuver, vehicle), law, conditions, limits, integral, rotors, step, until
    )
    report(f"deriving and compiling the {composition.law_name} law, and flying")
    return Flight.of(composition, composition.run(start))
