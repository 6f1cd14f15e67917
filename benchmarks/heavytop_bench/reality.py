"""Flights of the Hummingbird and the racer under realistic conditions: one controller with one set of constants, compared with RotorPy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from heavytop._arrays import Array, vector
from heavytop.control import BaseController, OnPart, Sensed, Sensors, Windy, flat_reference
from heavytop.copters import Failover, RotorPlant, Vehicle, agile_law, hexacopter, robust_controller
from heavytop.copters.catalogue import load
from heavytop.copters.maneuvers import make
from heavytop.copters.rotor_failure import without_rotors
from heavytop.geometry import so3
from heavytop.simulate import Run, simulate
from heavytop_bench.geometric import GeometricLaw
from heavytop_bench.hummingbird import Course, level_start, vehicle

STEP, RATE = 5e-3, 200.0
SPREAD, FAR = (3.0, 2.0, 3.0), (20.0, 5.0, 10.0)
"""Radii of the balls of starting positions (m), velocities (m/s) and angular velocities (rad/s); attitudes are uniform."""
NEAR = 0.5
"""Distance (m) from the set point within which a flight stays during its last second if it is recovered."""
CONSTANTS = (
    "energy-based law whose poles follow from angular acceleration, lag and longest delay of the vehicle (docs/control/robust.md), 5/s and 16 rad/s "
    "here; observers, inverse of the lag, identification and governor from these poles and the spare thrust, nominal drag known"
)


@dataclass(frozen=True)
class Case:
    """Differences from the assumptions of the controller; factors are true over assumed, times in s; rotors that fail."""

    name: str
    mass: float = 1.0
    moment: float = 1.0
    delay: float = 0.0
    lag: float | None = None
    thrust: float = 1.0
    speed: float = 1.0
    drag: float = 1.0
    noise: float = 0.0
    wind: float = 0.0
    dead: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()
    half: tuple[int, ...] = ()


QUIET = (
    Case("nominal"),
    Case("delay 10 ms", delay=0.01),
    Case("delay 20 ms", delay=0.02),
    Case("delay 30 ms", delay=0.03),
    Case("lag 20 ms", lag=0.02),
    Case("lag 50 ms", lag=0.05),
    Case("lag 80 ms", lag=0.08),
    Case("mass +30 %, moments -30 %", 1.3, 0.7),
    Case("mass -30 %, moments +30 %", 0.7, 1.3),
    Case("mass +30 %, moments +30 %", 1.3, 1.3),
    Case("mass -30 %, moments -30 %", 0.7, 0.7),
    Case("thrust 70 %, speeds 87 %", thrust=0.7, speed=1300 / 1500),
)
ROUGH = (
    Case("gusts 6 +- 6 m/s", wind=1.0),
    Case("noise times 3", noise=3.0),
    Case("all combined", 1.1, 0.9, 0.01, 0.02, noise=1.0, wind=1.0),
    Case("all twice", 1.1, 0.9, 0.02, 0.03, noise=2.0, wind=1.0),
)
SLOW = (Case("50 Hz"),)
FAR_STARTS = (Case("far starts"), Case("far starts without drag", drag=0.0))
DEAD = (
    Case("dead rotor", dead=(0,)),
    Case("dead rotor, mass +30 %, moments -30 %", 1.3, 0.7, dead=(1,)),
    Case("dead rotor, mass -30 %, moments +30 %", 0.7, 1.3, dead=(2,)),
)
DEAD_ROUGH = (
    Case("dead rotor, noise times 3", noise=3.0, dead=(3,)),
    Case("dead rotor, gusts 6 +- 6 m/s", wind=1.0, dead=(0,)),
    Case("dead rotor, all combined", 1.1, 0.9, 0.01, 0.02, noise=1.0, wind=1.0, dead=(0,)),
)
FAILED = (
    Case("lost blade", lost=(0,)),
    Case("lost blade, mass +30 %, moments -30 %", 1.3, 0.7, lost=(1,)),
    Case("lost blade, mass -30 %, moments +30 %", 0.7, 1.3, lost=(2,)),
    Case("stuck motor", stuck=(0,)),
    Case("stuck motor, mass +10 %, moments -10 %", 1.1, 0.9, stuck=(2,)),
    Case("half thrust", half=(1,)),
)
FAILED_ROUGH = (
    Case("lost blade, noise", noise=1.0, lost=(3,)),
    Case("lost blade, gusts 6 +- 6 m/s", wind=1.0, lost=(0,)),
    Case("lost blade, all combined", 1.1, 0.9, 0.01, 0.02, noise=1.0, wind=1.0, lost=(0,)),
    Case("stuck motor, noise", noise=1.0, stuck=(1,)),
    Case("stuck motor, gusts 6 +- 6 m/s", wind=1.0, stuck=(1,)),
    Case("stuck motor, all combined", 1.1, 0.9, 0.01, 0.02, noise=1.0, wind=1.0, stuck=(0,)),
)


class Gusts:
    """Wind of 6 m/s along x with waves of up to 6 m/s, and less across, times a factor for each member."""

    def __init__(self, factors: np.ndarray) -> None:
        self.factors = factors

    def at(self, times: np.ndarray) -> np.ndarray:
        """Velocities (n, members, 3), m/s."""
        t = np.asarray(times, dtype=float)
        along = 6.0 + 4 * np.sin(1.7 * t) + 2 * np.sin(7 * t)
        wave = np.stack([along, 3 * np.sin(2.3 * t + 1), 2 * np.sin(3.1 * t)], axis=-1)
        return wave[:, None, :] * self.factors[:, None]


@dataclass(frozen=True)
class Recovered:
    """How the flights of a case went: share near the set point at the end, shares within 3 and 5 m all the time, largest distances and drop (m)."""

    name: str
    share: float
    within_3_m: float
    within_5_m: float
    median_end: float
    worst_end: float
    farthest: float
    drop: float


def starts(count: int, spread: tuple[float, float, float], seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Random states (q, v): uniform attitudes, balls of positions, velocities and angular velocities."""
    rng = np.random.default_rng(seed)
    R = so3.random(rng, (count,))

    def ball(radius: float) -> np.ndarray:
        x = rng.standard_normal((count, 3))
        return x / np.linalg.norm(x, axis=1, keepdims=True) * radius * rng.uniform(0, 1, (count, 1)) ** (1 / 3)

    place, speed, spin = (ball(radius) for radius in spread)
    return np.concatenate([place, R.swapaxes(1, 2).reshape(count, 9)], 1), np.concatenate([speed, spin], 1)


def level(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Hovering at the set point, tilted by about three degrees."""
    rng = np.random.default_rng(1)
    R = so3.exp(0.05 * np.concatenate([rng.standard_normal((count, 2)), np.zeros((count, 1))], axis=-1))
    return np.concatenate([np.zeros((count, 3)), R.swapaxes(1, 2).reshape(count, 9)], 1), np.zeros((count, 6))


@lru_cache(maxsize=4)
def plant(wind: bool, craft: str = "hummingbird") -> RotorPlant:
    """The vehicle whose parameters differ from flight to flight."""
    return RotorPlant(load(craft), uncertain=True, wind=wind)


def parameters(cases: Sequence[Case], count: int) -> dict[str, np.ndarray]:
    """Those of the plant, (cases x count,)."""
    own = vehicle().propulsion
    lag = 0.005 if own is None else own.time_constant
    values = {
        "mass_factor": [c.mass for c in cases],
        "moment_factor": [c.moment for c in cases],
        "thrust_factor": [c.thrust for c in cases],
        "drag_factor": [c.drag for c in cases],
        "speed_factor": [c.speed for c in cases],
        "lag": [lag if c.lag is None else c.lag for c in cases],
    }
    for k in range(4):
        values[f"rotor{k}_health"] = [0.0 if k in c.dead else 1.0 for c in cases]
        values[f"rotor{k}_thrust"] = [0.0 if k in c.lost else 0.5 if k in c.half else 1.0 for c in cases]
        values[f"rotor{k}_stuck"] = [1.0 if k in c.stuck else 0.0 for c in cases]
    return {name: np.repeat(np.asarray(column, dtype=float), count) for name, column in values.items()}


def sensors(cases: Sequence[Case], count: int) -> Sensors:
    """Sensors of the Hummingbird, noisier and later as the cases say; the delays differ from flight to flight."""
    noisy = any(c.noise for c in cases)
    own = (vehicle().sensors or Sensors()) if noisy else Sensors()
    delays = np.repeat([c.delay for c in cases], count)
    return own.late(delays) if np.any(delays) else own


class ScaledNoise(Sensed):
    """Sensors with an individual noise factor for each member."""

    def __init__(
        self, controller: Any, model: Any, sensors: Sensors, members: tuple[int, ...], factors: np.ndarray
    ) -> None:
        super().__init__(controller, model, sensors, members)
        self.factors = factors

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        """The noise times the factors."""
        return super().own_signal(times) * self.factors[:, None]


def controller(kind: str, cases: Sequence[Case], count: int, **options: Any) -> BaseController:
    """``ours``, ``survivor`` (ours that notices a dead rotor), or ``rotorpy``, behind the sensors of the cases; without a reference."""
    craft, seen = vehicle(), sensors(cases, count)
    noisy = any(c.noise for c in cases)
    members = (len(cases) * count,) if noisy else ()
    if kind == "rotorpy":
        seen = replace(seen, accelerometer=None, rotor_speeds=None)
        found: Any = Sensed(OnPart(GeometricLaw(craft), craft.model), craft.model, seen, members)
    else:
        law = agile_law(craft)
        heart = Failover(OnPart(law, craft.model), craft) if kind == "survivor" else options.pop("law", law)
        found = robust_controller(craft, seen, law=heart, members=members, **options)
    if noisy:
        factors = np.repeat([float(c.noise) for c in cases], count)
        found = ScaledNoise(found.controller, found.model, found.sensors, members, factors)
    return found


def recover(
    cases: Sequence[Case],
    count: int,
    kind: str = "ours",
    spread: tuple[float, float, float] | None = SPREAD,
    seconds: float = 8.0,
    rate: float = RATE,
    **options: Any,
) -> list[Recovered]:
    """Fly all cases from ``count`` random starts each, in one batch; ``spread`` None: from hovering."""
    windy = any(c.wind for c in cases)
    truth, craft = plant(windy), vehicle()
    q, v = level(count) if spread is None else starts(count, spread)
    q, v = np.tile(q, (len(cases), 1)), np.tile(v, (len(cases), 1))
    flown: Any = controller(kind, cases, count, **options).with_reference(craft.model.neutral())
    if windy:
        flown = Windy(flown, Gusts(np.repeat([c.wind for c in cases], count)))
    run = simulate(
        truth,
        truth.start(q, v, np.full(4, craft.mass * 9.81 / 4)),
        seconds,
        STEP,
        control=flown,
        control_step=1 / rate,
        parameters=parameters(cases, count),
        balance=False,
        record_every=10,
        progress=False,
    )
    return _judged(run, cases, count, q)


def _judged(run: Run, cases: Sequence[Case], count: int, start: np.ndarray) -> list[Recovered]:
    finite = np.asarray(np.isfinite(run.q).all(axis=-1))
    place = np.where(finite[..., None], run.q[..., :3], np.inf)
    distance = np.where(finite, np.linalg.norm(np.where(finite[..., None], run.q[..., :3], 0.0), axis=-1), np.inf)
    end = distance[run.t >= run.t[-1] - 1.0].max(axis=0)
    lowest = np.where(np.isfinite(place[..., 2]), place[..., 2], -np.inf).min(axis=0)
    drop = np.minimum(start[:, 2], 0.0) - lowest
    results = []
    for k, case in enumerate(cases):
        own = slice(k * count, (k + 1) * count)
        results.append(
            Recovered(
                case.name,
                float(np.mean(end[own] < NEAR)),
                float(np.mean(distance[:, own].max(axis=0) < 3.0)),
                float(np.mean(distance[:, own].max(axis=0) < 5.0)),
                float(np.median(end[own])),
                float(np.max(end[own])),
                float(np.max(distance[:, own])),
                float(np.max(drop[own])),
            )
        )
    return results


# --- courses ----------------------------------------------------------------------------------------------------------------

COURSE_CASES = (
    Case("nominal"),
    Case("wrong", 1.1, 0.9),
    Case("drag wrong", drag=1.3),
    Case("wrong, drag wrong", 1.1, 0.9, drag=1.3),
    Case("delay", delay=0.02),
    Case("wrong, delay", 1.1, 0.9, delay=0.02),
)


@dataclass(frozen=True)
class Tracked:
    """RMS distances (m) of a case along a course: from the level start, and after the first two seconds (loops: one)."""

    name: str
    rms: float
    late: float


def track(course: Course, kind: str = "ours", cases: Sequence[Case] = COURSE_CASES) -> list[Tracked]:
    """Fly a course in all cases in one batch."""
    craft, truth = vehicle(), plant(False)
    heading = (1.0, 0.0, 0.0) if course.side is None else None
    reference = flat_reference(craft.model, course.curve, course.side, heading, course.duration)
    q, v = level_start(reference)
    n = len(cases)
    run = simulate(
        truth,
        truth.start(np.tile(q, (n, 1)), np.tile(v, (n, 1)), np.full(4, craft.mass * 9.81 / 4)),
        course.duration,
        1e-3,
        control=controller(kind, cases, 1).with_reference(reference),
        control_step=1 / course.rate,
        parameters=parameters(cases, 1),
        balance=False,
        record_every=round(1000 / course.rate),
        progress=False,
    )
    off = np.linalg.norm(run.q[:-1, :, :3] - reference(run.t[:-1])[0][:, None, :3], axis=-1)
    off = np.where(np.isfinite(off), off, np.inf)
    late = run.t[:-1] >= (2.0 if course.duration > 5 else 1.0)
    return [Tracked(c.name, _rms(off[:, k]), _rms(off[late, k])) for k, c in enumerate(cases)]


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


# --- the racer --------------------------------------------------------------------------------------------------------------

RACE_SPEED, RACE_ACCELERATION = 13.0, 2 * 9.81
OVERDEMANDS = ((3.0, 1.0), (3.0, 1.5), (10.0, 0.7))
"""Radius (m) and frequency (Hz) of circles that no input can follow: 12, 27 and 20 g."""


def _begun(t: Array) -> Array:
    """Time that starts from rest, smoothly."""
    return t - 2.5 * np.tanh(t / 2.5)


def race_courses() -> dict[str, Course]:
    """A circle at 13 m/s and 2 g, and an eight with as much of both, from rest."""
    radius = RACE_SPEED**2 / RACE_ACCELERATION
    turn = RACE_SPEED / radius

    def circle(t: Array) -> Array:
        s = turn * _begun(t)
        return vector(radius * np.cos(s), radius * np.sin(s), 0.0 * t)

    def eight(t: Array) -> Array:
        s = 0.95 * _begun(t)
        return vector(9.5 * np.sin(s), 5.2 * np.sin(2 * s), 2.0 * np.cos(s) * np.sin(s))

    return {"racer, circle 13 m/s 2 g": Course(circle, 15.0, RATE), "racer, eight 13 m/s": Course(eight, 15.0, RATE)}


@lru_cache(maxsize=2)
def racer(dragging: bool) -> Vehicle:
    """The racer, with drag as it is assumed for such a frame: 0.3/s at the rotors when hovering, and 0.012 N/(m/s)^2."""
    craft = load("racer")
    own = craft.propulsion
    if not dragging or own is None:
        return craft
    hover = np.sqrt(craft.mass * 9.81 / 4 / own.thrust_coefficient)
    per_speed = 0.3 * craft.mass / (4 * hover)
    return replace(
        craft,
        propulsion=replace(own, rotor_drag=per_speed, inflow=per_speed, parasitic_drag=(0.012, 0.012, 0.02)),
        sensors=replace(vehicle().sensors or Sensors(), seed=5),
    )


def race(course: Course, knows_drag: bool, noise: float = 1.0, delay: float = 0.01) -> float:
    """RMS (m) of the racer along a course, with drag that the controller knows or not."""
    craft = racer(True)
    truth = RotorPlant(craft)
    seen = (craft.sensors or Sensors()).scaled(noise).late(delay)
    reference = flat_reference(craft.model, course.curve, course.side, (1.0, 0.0, 0.0), course.duration)
    q, v = level_start(reference)
    flown = robust_controller(craft, seen, drag=knows_drag).with_reference(reference)
    run = simulate(truth, truth.start(q, v), course.duration, STEP, control=flown, balance=False, progress=False)
    return _rms(np.linalg.norm(run.q[:, :3] - reference(run.t)[0][:, :3], axis=-1))


def overdemand(radius: float, frequency: float) -> tuple[Run, np.ndarray]:
    """Four seconds of a circle that no input can follow, then the set point; the run and the distance (m) from the reference at its records."""
    craft, truth, turn = vehicle(), plant(False), 2 * np.pi * frequency

    def curve(t: Array) -> Array:
        size = radius * 0.25 * (1 + np.tanh(4 * (t - 1.0))) * (1 - np.tanh(4 * (t - 5.0)))
        return vector(size * np.sin(turn * t), size * np.cos(turn * t), 0.0 * t)

    reference = flat_reference(craft.model, curve, None, (1.0, 0.0, 0.0), 12.0)
    flown = controller("ours", (Case("nominal"),), 1).with_reference(reference)
    start = truth.start(*level_start(reference), np.full(4, craft.mass * 9.81 / 4))
    run = simulate(
        truth, start, 12.0, STEP, control=flown, control_step=1 / RATE, balance=False, record_every=5, progress=False
    )
    return run, np.linalg.norm(run.q[:, :3] - reference(run.t)[0][:, :3], axis=-1)


def two_dead(count: int) -> tuple[Recovered, Recovered]:
    """Two opposite rotors dead, not announced: in still air, and in wind of 3 +- 3 m/s."""
    cases = Case("two opposite dead rotors", dead=(0, 2)), Case("the same in 3 +- 3 m/s", wind=0.5, dead=(0, 2))
    still, windy = recover(cases, count, "survivor", spread=None, seconds=20.0)
    return still, windy


def hexacopter_eight() -> float:
    """RMS (m) of a hexacopter that flies its figure eight with a failed rotor known to its law."""
    craft = hexacopter()
    course = make("eight", craft)
    truth = RotorPlant(craft, uncertain=True)
    flown = robust_controller(craft, Sensors(), law=without_rotors(craft, 0)).with_reference(course)
    run = simulate(
        truth,
        truth.start(*course.start),
        course.horizon,
        STEP,
        control=flown,
        parameters={"rotor0_health": 0.0},
        balance=False,
        progress=False,
    )
    return _rms(np.linalg.norm(run.q[:, :3] - course(run.t)[0][:, :3], axis=-1))
