"""Flights of the Hummingbird with rotor lag and drag, the controller nominal: heavytop's side of the comparison with RotorPy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from time import process_time
from typing import Any

import numpy as np

from heavytop._arrays import Array, vector
from heavytop.control import (
    Curve,
    Prototype,
    Reference,
    circle,
    energy_law,
    flat_reference,
    minimum_snap,
    pose_coordinates,
    random_states,
    region_of_attraction,
)
from heavytop.copters import RotorPlant, Vehicle, agile_prototype, multicopter, quadcopter
from heavytop.copters.catalogue import load
from heavytop.copters.rotor_plant import OnRotors
from heavytop.geometry import se3, so3
from heavytop.ocp import Limits
from heavytop.simulate import Run, simulate
from heavytop_bench.peers.base import Peer

STEP = 1e-3
WAYPOINTS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=float)
LOOP_RADIUS, LOOP_RATE = 1.5, 2 * np.pi / 1.5


@lru_cache(maxsize=1)
def vehicle() -> Vehicle:
    """The nominal Hummingbird."""
    return load("hummingbird")


def wrong(factor_mass: float = 1.1, factor_moment: float = 0.9) -> Vehicle:
    """The Hummingbird that flies while the controller believes in the nominal one."""
    v = vehicle()
    inertia = v.model.description.inertias["hull"]
    moment = factor_moment * np.diag(np.asarray(inertia.moment_at_com))
    return multicopter(
        v.airframe.rotors, factor_mass * float(inertia.mass), moment, name=v.name, propulsion=v.propulsion
    )


def prototype(position: float = 6.0, attitude: float = 18.0, damping: float = 1.0) -> Prototype:
    """Double pole of the position at -6/s, attitude at 18 rad/s, critically damped."""
    return agile_prototype(position, attitude, damping)


@lru_cache(maxsize=1)
def law() -> Any:
    """One law for all flights."""
    v = vehicle()
    limits = v.limits
    bounds = None if limits is None else Limits(limits.lower, limits.upper, torque_priority=1e4)
    return energy_law(v.model, prototype(), bounds)


@dataclass(frozen=True, eq=False)
class Course:
    """A trajectory of the comparison: curve, duration (s), rate of the controller (Hz), side vector or None."""

    curve: Curve
    duration: float = 10.0
    rate: float = 100.0
    side: tuple[float, float, float] | None = None


def lissajous(t: Array) -> Array:
    """sin 2t, sin t, at half a metre."""
    return vector(np.sin(2 * t), np.sin(t), 0.5 + 0.0 * t)


def vertical_loop(direction: Any) -> Curve:
    """A vertical circle through the origin at constant speed."""
    e = np.asarray(direction, dtype=float)
    up = np.array([0.0, 0.0, 1.0])
    return lambda t: LOOP_RADIUS * np.sin(LOOP_RATE * t) * e + LOOP_RADIUS * (1 - np.cos(LOOP_RATE * t)) * up


def courses() -> dict[str, Course]:
    """RotorPy's own trajectories."""
    legs = np.linalg.norm(np.diff(WAYPOINTS, axis=0), axis=1)
    times = np.concatenate([[0.0], np.cumsum(legs)])
    return {
        "circle 1 m 0.2 Hz": Course(circle(1.0, 2 * np.pi * 0.2)),
        "circle 1.5 m 0.5 Hz": Course(circle(1.5, 2 * np.pi * 0.5)),
        "lissajous": Course(lissajous),
        "minimum snap": Course(minimum_snap(WAYPOINTS, times)),
        "3 loops y-z": Course(vertical_loop((0, 1, 0)), 4.5, 200.0),
        "3 loops x-z": Course(vertical_loop((1, 0, 0)), 4.5, 200.0, (0.0, 1.0, 0.0)),
    }


def track(course: Course, plant: Vehicle | None = None, drag: bool = True) -> tuple[float, float]:
    """RMS and largest distance (m) of a flight that starts in place with the right velocity, level, as in RotorPy's."""
    v = vehicle()
    heading = (1.0, 0.0, 0.0) if course.side is None else None
    reference = flat_reference(v.model, course.curve, course.side, heading, course.duration)
    run = fly(reference, level_start(reference), course, plant, drag)
    every = round(1 / (course.rate * STEP))
    seen, wanted = run.q[::every, :3], reference(run.t[::every])[0][:, :3]
    error = np.linalg.norm(seen - wanted, axis=-1)[:-1]
    return float(np.sqrt(np.mean(error**2))), float(error.max())


def level_start(reference: Reference) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity of the reference at the start, attitude level, not turning."""
    model = vehicle().model
    q, v, _ = reference(0.0)
    rotation = se3.rotation(model.pose("world", "hull", q))
    start = model.neutral().copy()
    start[:3] = q[:3]
    return start, np.concatenate([rotation @ v[:3], np.zeros(3)])


def fly(reference: Any, start: Any, course: Course, plant: Vehicle | None = None, drag: bool = True) -> Run:
    """Simulate the closed loop."""
    truth = RotorPlant(plant or vehicle(), drag=drag)
    q, v = start
    hover = np.full(4, vehicle().mass * 9.81 / 4)
    return simulate(
        truth,
        truth.start(q, v, hover),
        course.duration,
        STEP,
        control=OnRotors(law().with_reference(reference), vehicle()),
        control_step=1 / course.rate,
        balance=False,
        progress=False,
    )


def recovery(
    angles: Any, axes: Any = ("x", "y"), duration: float = 5.0
) -> dict[tuple[str, float], tuple[float, float]]:
    """Settling time within 5 cm and 5 degrees (s, inf if never) and loss of height (m) from rest at the angles (degrees)."""
    v = vehicle()
    cases = [(axis, float(angle)) for axis in axes for angle in angles]
    turned = [so3.exp(np.radians(angle) * so3.unit_axis(axis)) for axis, angle in cases]
    q = np.array([pose_coordinates(v.model, se3.pose(R, np.zeros(3))) for R in turned])
    course = replace(next(iter(courses().values())), duration=duration, rate=200.0)
    run = fly(v.model.neutral(), (q, np.zeros((len(q), 6))), course)
    distance = np.linalg.norm(run.q[..., :3], axis=-1)
    tilt = np.degrees(np.arccos(np.clip(v.model.pose("world", "hull", run.q[..., : v.model.nq])[..., 2, 2], -1, 1)))
    outside = (distance > 0.05) | (tilt > 5.0)
    result = {}
    for k, case in enumerate(cases):
        last = np.flatnonzero(outside[:, k])
        settled = 0.0 if not len(last) else float("inf") if last[-1] == len(run.t) - 1 else float(run.t[last[-1] + 1])
        result[case] = (settled, float(-run.q[:, k, 2].min()))
    return result


def steps_per_second(batch: int, steps: int, repeats: int) -> float:
    """Closed-loop steps of 10 ms (controller, rotors, drag, one RK4 step each) per second of processor time: complete calls, best of several.

    From starts 0.1 m around a set point, which is held.
    """
    v = vehicle()
    truth = RotorPlant(v)
    rng = np.random.default_rng(0)
    q = np.broadcast_to(v.model.neutral(), (batch, v.model.nq)).copy()
    q[:, :3] += 0.1 * rng.standard_normal((batch, 3))
    start = truth.start(q if batch > 1 else q[0], np.zeros((batch, 6)) if batch > 1 else np.zeros(6))
    controller = OnRotors(law().with_reference(v.model.neutral()), v)
    best = np.inf
    for _ in range(repeats):
        clock = process_time()
        simulate(
            truth,
            start,
            0.01 * steps,
            0.01,
            control=controller,
            balance=False,
            record_every=steps,
            threads=1,
            progress=False,
        )
        best = min(best, process_time() - clock)
    return batch * steps / best


def hull_steps_per_second(batch: int, steps: int, repeats: int, limited: bool) -> float:
    """The same without rotor lag and drag, like MuJoCo's model of the vehicle, but with the controller."""
    v = vehicle()
    q = np.broadcast_to(v.model.neutral(), (batch, v.model.nq)).copy()
    q[:, :3] += 0.1 * np.random.default_rng(0).standard_normal((batch, 3))
    chosen = law() if limited else energy_law(v.model, prototype())
    best = np.inf
    for _ in range(repeats):
        clock = process_time()
        simulate(
            v.model,
            (q, np.zeros((batch, 6))),
            0.01 * steps,
            0.01,
            control=chosen,
            reference=v.model.neutral(),
            balance=False,
            record_every=steps,
            threads=1,
            progress=False,
        )
        best = min(best, process_time() - clock)
    return batch * steps / best


def random_starts(count: int) -> tuple[float, float]:
    """Share that recovers of ``count`` starts within 20 m at any attitude, thrusts limited, and processor seconds of their 30 s."""
    craft = quadcopter()
    limits = Limits(0.0, 6.0, torque_priority=100.0)
    controller = energy_law(craft.model, craft.prototype, limits).with_reference(craft.model.neutral())
    few, many = (random_states(craft.model, n, 1, distance=20.0) for n in (8, count))
    region_of_attraction(craft.model, controller, few, until=0.1, step=5e-3)  # compiles
    clock = process_time()
    result = region_of_attraction(craft.model, controller, many, until=30.0, step=5e-3)
    return result.share, process_time() - clock


def rollout_steps_per_second(peer: Peer, batch: int = 64, steps: int = 100, repeats: int = 8) -> float:
    """RK4 steps of 10 ms of a peer with constant thrusts, no controller, per second of processor time on one thread, best of several."""
    craft = vehicle()
    q = np.broadcast_to(craft.model.neutral(), (batch, craft.model.nq))
    thrusts = np.full((batch, 4), craft.mass * 9.81 / 4)
    trial = peer.rollout(craft, q, np.zeros((batch, 6)), thrusts, 0.01, steps)
    best = np.inf
    for _ in range(repeats):
        clock = process_time()
        trial.work()
        best = min(best, process_time() - clock)
    return trial.evaluations / best
