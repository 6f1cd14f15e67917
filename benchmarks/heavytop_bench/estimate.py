"""Estimators: time of a sample, consistency of filters over many runs, flights on estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from heavytop import library
from heavytop.compile import Bound, Kernel
from heavytop.control import (
    AccelerometerSensor,
    EncoderSensor,
    Estimator,
    GyroSensor,
    PoseSensor,
    Sensor,
    Sensors,
    estimator,
    flat_reference,
)
from heavytop.copters import RotorPlant, robust_controller
from heavytop.simulate import Run, simulate
from heavytop_bench import hummingbird, reality
from heavytop_bench.hummingbird import Course, courses, level_start
from heavytop_bench.measure import BenchEffort, best_times
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport

TITLE = "estimators: microseconds of a sample, NEES of many runs, flights on estimates"
RUNS, STARTS = 500, 200
ALONE, IN_BATCH = 3.0, 0.3
"""Largest time of an update, us."""
RMS = 0.03
"""Largest RMS distance (m) from a course that is flown on estimates."""
POSE_PERIODS = {100.0: 4, 200.0: 7}
"""Samples between poses for the rate of a controller in Hz: 25 and 29 Hz."""
SENSORS = Sensors(
    Sensor(0.005), Sensor(0.00524), Sensor(), Sensor(0.02), Sensor(0.2, 0.05), Sensor(5.0)
)  # position, attitude, velocity (not used), gyro, accelerometer, rotor speeds


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Times, then consistency, then flights."""
    report = BenchReport("estimate", TITLE)
    tiny = effort.seconds == 0
    for delay in (0.0,) if tiny else (0.0, 0.02):
        _times(report, effort, delay)
    for name in ("furuta",) if tiny else ("furuta", "panda", "quadcopter"):
        ratio = consistency(name, 20 if tiny else RUNS)
        report.row(filter=name, nees=ratio)
        report.limit(f"{name}: NEES away from its expectation", abs(ratio - 1.0), 0.5 if tiny else 0.1, "")
    for name in () if tiny else courses():
        _courses(report, name, 20)
    for kind in ("energy",) if tiny else ("energy", "robust"):
        share = recovered(kind, 2 if tiny else STARTS)
        report.row(filter=f"{kind} on estimates, {2 if tiny else STARTS} random starts", recovered=share)
        report.ratio(f"{kind} on estimates: share of starts that recovers", share, 1.0)
    report.notes.append(
        "times: bare native code, one filter with one lane, a batch of 500 with one thread. The quadcopter has 15 errors; with poses that are 20 ms "
        "late and 10 ms apart, two copies of 6. Flights: IMU at the rate of the controller, poses at 25 or 29 Hz with 5 mm and 5 mrad, rotor lag and "
        "drag, both known to the controllers."
    )
    return report


@lru_cache(maxsize=4)
def quadcopter(delay: float) -> Estimator:
    """IMU at 1 kHz with biases, poses at 100 Hz."""
    model = library.quadcopter().derive()
    imu = (
        GyroSensor("hull", noise=0.01, bias=0.02, walk=1e-3),
        AccelerometerSensor("hull", noise=0.1, bias=0.1, walk=1e-2),
    )
    camera = PoseSensor("hull", noise=(0.002,) * 3 + (0.004,) * 3, period=0.01, delay=delay)
    return estimator(model, [*imu, camera], 1e-3, inputs="imu")


def _times(report: BenchReport, effort: BenchEffort, delay: float) -> None:
    own, count = quadcopter(delay), 500
    z = np.tile(own.begin(own.model.neutral(), np.zeros(6), 0.05, 0.1), (count, 1))
    i, y = np.tile([0.1, 0.2, 0.3, 0.0, 0.0, 9.81], (count, 1)), np.tile(own.model.neutral(), (count, 1))
    f = own.functions
    works: dict[str, Any] = {}
    for name, traced, given in (
        ("predict", f.predict, (z, i)),
        ("update", f.updates["pose"], (z, y, np.ones(count))),
    ):
        single = Kernel(traced, lanes=1)
        results = [np.empty((1, *shape)) for shape in single.outputs.values()]
        works[f"{name} alone"] = Bound(single, [np.ascontiguousarray(x[:1]) for x in given], results)
        many = Kernel(traced, threads=1)
        works[f"{name} in a batch"] = Bound(
            many, list(given), [np.empty((count, *shape)) for shape in many.outputs.values()]
        )
    found = best_times(works, effort)
    micro = {name: 1e6 * seconds / (count if "batch" in name else 1) for name, seconds in found.items()}
    label = f"quadcopter, poses {1e3 * delay:g} ms late"
    report.row(filter=label, **{f"{name} us": value for name, value in micro.items()})
    report.limit(f"{label}: update alone", micro["update alone"], ALONE, "us")
    report.limit(f"{label}: update in a batch", micro["update in a batch"], IN_BATCH, "us")


def consistency(name: str, count: int) -> float:
    """Mean squared normalised error of ``count`` runs per its expectation."""
    rng = np.random.default_rng(0)
    if name == "quadcopter":
        own, every = quadcopter(0.02), 20
        t = 1e-3 * np.arange(1500)
        rates = np.stack([6 * np.sin(3 * t), 2 * np.cos(2 * t), 1 + 0 * t], axis=-1)
        force = np.stack([0.5 * np.sin(t), 0 * t, 9.81 + 3 * np.sin(5 * t)], axis=-1)
        u = np.concatenate([rates, force], axis=-1)
        start = own.begin(own.model.neutral(), np.zeros(6), 0.02, 0.2)
    else:
        model, every = library.load(name).derive(), 2
        step, noise, density, spread = {"furuta": (0.005, 4e-4, 0.3, 0.05), "panda": (0.002, 1e-4, 0.2, 0.01)}[name]
        own = estimator(model, [EncoderSensor(model.q_names, noise=noise)], step, disturbance=density)
        u = np.zeros((200, model.nu)) + 0.05 * np.sin(5 * step * np.arange(200))[:, None]
        start = own.begin(model.neutral(), np.zeros(model.nv), spread, 0.1)
    drawn = own.draw(np.tile(start, (count, 1)), u, rng)
    found = own.filter(start, drawn.inputs, drawn.readings, every)
    true = {sensor: b[::every] for sensor, b in drawn.biases.items()}
    nees = found.nees(drawn.q[::every], drawn.v[::every], true)
    return float(nees.mean() / found.expected_nees(with_biases=True))


# --- flights ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnEstimates:
    """RMS distances (m) from a course: mean and largest of several flights, and of the estimates from the truth."""

    rms: float
    worst: float
    estimate: float


@lru_cache(maxsize=4)
def hummingbird_filter(rate: float) -> Estimator:
    """IMU at the rate of the controller, poses at 25 to 29 Hz."""
    imu = GyroSensor("hull", noise=0.02, walk=1e-4), AccelerometerSensor("hull", noise=0.2, bias=0.05, walk=1e-2)
    camera = PoseSensor("hull", noise=(0.005,) * 3 + (0.00524,) * 3, period=POSE_PERIODS[rate] / rate)
    return estimator(hummingbird.vehicle(), [*imu, camera], 1 / rate, inputs="imu")


def controller(kind: str, rate: float, start: np.ndarray, members: int) -> Any:
    """On estimates and without a reference: the robust controller, or the energy law of ``bench fly`` that knows lag and drag, without observers."""
    craft = hummingbird.vehicle()
    given: dict[str, Any] = {} if kind == "robust" else {"law": hummingbird.law(), "observers": False}
    own = hummingbird_filter(rate)
    return robust_controller(craft, SENSORS, members=members, estimator=own, start=start, **given)


def track(course: Course, kind: str, count: int) -> OnEstimates:
    """Fly a course ``count`` times with different noise."""
    craft = hummingbird.vehicle()
    heading = (1.0, 0.0, 0.0) if course.side is None else None
    reference = flat_reference(craft.model, course.curve, course.side, heading, course.duration)
    q, v = level_start(reference)
    start = hummingbird_filter(course.rate).begin(q, v, 0.01, 0.05)
    flown = controller(kind, course.rate, start, count).with_reference(reference)
    run = _flight(flown, np.tile(q, (count, 1)), np.tile(v, (count, 1)), course.duration, course.rate)
    place = run.q[:-1, :, :3]
    off = np.linalg.norm(place - reference(run.t[:-1])[0][:, None, :3], axis=-1)
    missed = np.linalg.norm(run.channels["q_estimated"][:-1, :, :3] - place, axis=-1)
    rms = np.sqrt(np.mean(off**2, axis=0))
    return OnEstimates(float(rms.mean()), float(rms.max()), float(np.sqrt(np.mean(missed**2))))


def recovered(kind: str, count: int, rate: float = 200.0, seconds: float = 8.0) -> float:
    """Share of random starts (3 m, any attitude, 3 rad/s) from which a vehicle on estimates holds its place."""
    q, v = reality.starts(count, reality.SPREAD)
    start = hummingbird_filter(rate).begin(q, v, 0.01, 0.05)
    flown = controller(kind, rate, start, count).with_reference(hummingbird.vehicle().model.neutral())
    run = _flight(flown, q, v, seconds, rate)
    far = np.linalg.norm(np.nan_to_num(run.q[..., :3], nan=np.inf), axis=-1)
    return float(np.mean(far[run.t >= seconds - 1.0].max(axis=0) < reality.NEAR))


def _flight(flown: Any, q: np.ndarray, v: np.ndarray, seconds: float, rate: float) -> Run:
    """Flights with rotor lag and drag from hovering rotors."""
    craft = hummingbird.vehicle()
    truth = RotorPlant(craft)
    start = truth.start(q, v, np.full(4, craft.weight / 4))
    return simulate(
        truth, start, seconds, 1e-3, control=flown, control_step=1 / rate, balance=False, record_every=round(1000 / rate), progress=False
    )  # fmt: skip


def _courses(report: BenchReport, name: str, count: int) -> None:
    course = courses()[name]
    robust, energy = track(course, "robust", count), track(course, "energy", count)
    report.row(
        filter=f"on estimates: {name}",
        robust_rms=robust.rms,
        robust_worst=robust.worst,
        energy_rms=energy.rms,
        energy_worst=energy.worst,
        estimate_rms=robust.estimate,
    )
    for kind, worst in (("robust controller", robust.worst), ("energy law", energy.worst)):
        report.limit(f"{name}: RMS of the {kind} on estimates, worst of {count}", worst, RMS, "m")
