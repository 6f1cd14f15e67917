"""Flights of the Hummingbird compared with RotorPy's: tracking, wrong parameters, recovery, loops, speed."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from heavytop.control import random_states, region_of_attraction
from heavytop.copters import tricopter
from heavytop_bench import conditions, hummingbird
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer, divide
from heavytop_bench.peers.base import Flights
from heavytop_bench.peers.rotorpy import STATED, STATED_BATCH, STATED_STEPS
from heavytop_bench.report import BenchReport

TITLE = "Hummingbird with rotor lag and drag: tracking in m, recovery in s, closed-loop steps per second"
ANGLES = (90.0, 150.0, 155.0, 160.0, 170.0, 179.0)
TILTING_STARTS = 2000
TILTING_TARGETS = {7.0: 0.95, 10.0: 1.0}
"""Largest thrust of a rotor (N) and share of the starts that must recover."""
SINGLE_STEPS = 1000
"""Of one call, on both sides."""
BATCH_TARGET, SINGLE_TARGET, ROLLOUT_TARGET = 1000.0, 300.0, 50.0


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """All flights; with a tiny effort only a few, and without RotorPy its stated figures."""
    flying, missing = divide(peers, "flights")
    rolling, also_missing = divide(peers, "rollout")
    report = BenchReport("fly", TITLE, missing=missing + also_missing)
    quick = effort.seconds == 0
    other = flying[0].flights() if flying and not quick else None
    names = list(hummingbird.courses())
    for name in names[:1] if quick else names:
        _track(report, name, other)
    _recover(report, ANGLES[-1:] if quick else ANGLES, other)
    _speed(report, effort, other)
    _rollouts(report, effort, rolling)
    _random_starts(report, 16 if quick else 1000)
    if not quick:
        tilting_starts(report, TILTING_STARTS)
    conditions.rows(report, quick)
    report.notes.append(
        "courses and recovery without the word robust: a bare law with poles 6/s and 18 rad/s, nominal: it knows neither drag nor rotor lag; "
        "sampled at 100 Hz (loops and recovery at 200 Hz) "
        "as RotorPy's. wrong: mass +10 %, moments of inertia -10 % in the plant. Flights start in place with the right velocity, level."
    )
    if other is None:
        report.notes.append("figures of RotorPy are those stated for version 3.0.0, not measured here.")
    return report


def _track(report: BenchReport, name: str, peer: Flights | None) -> None:
    course = hummingbird.courses()[name]
    rms, largest = hummingbird.track(course)
    off, off_largest = hummingbird.track(course, hummingbird.wrong())
    figures: dict[str, float | str] = {"rms": rms, "max": largest, "rms_wrong": off, "max_wrong": off_largest}
    if peer is not None:
        other, other_largest = peer.track(name)
        figures |= {"rotorpy_rms": other, "rotorpy_max": other_largest}
        wrong = peer.track(name, wrong=True)
        figures |= {"rotorpy_rms_wrong": wrong[0], "rotorpy_max_wrong": wrong[1]}
        report.ratio(f"{name}: RotorPy's RMS with wrong parameters / ours", wrong[0] / off, 1.0)
    else:
        other = STATED[name]
        figures |= {"rotorpy_rms": other}
    report.row(flight=name, **figures)
    report.ratio(f"{name}: RotorPy's RMS / ours", other / rms, 1.0)


def _recover(report: BenchReport, angles: tuple[float, ...], peer: Flights | None) -> None:
    ours = hummingbird.recovery(angles)
    for (axis, angle), (settled, drop) in ours.items():
        figures: dict[str, float | str] = {"settled_s": _time(settled), "drop_m": drop}
        if peer is not None and axis == "x":
            other = peer.recovery(angle, axis)
            figures |= {"rotorpy_settled_s": _time(other[0]), "rotorpy_drop_m": other[1]}
        report.row(flight=f"from {angle:g} degrees about {axis}", **figures)
    report.limit("longest recovery from 90 to 179 degrees", max(s for s, _ in ours.values()), 5.0, "s")


def _speed(report: BenchReport, effort: BenchEffort, peer: Flights | None) -> None:
    repeats = 2 if effort.seconds == 0 else 7
    single = hummingbird.steps_per_second(1, SINGLE_STEPS, repeats)
    many = hummingbird.steps_per_second(max(effort.batch, 8), 100, repeats)
    other = STATED_STEPS if peer is None else peer.steps_per_second(SINGLE_STEPS, repeats)
    report.row(
        flight="steps per second",
        single=single,
        batch=many,
        rotorpy_single=other,
        rotorpy_batch=STATED_BATCH,
    )
    report.ratio("steps per second, one vehicle, against RotorPy", single / other, SINGLE_TARGET)
    report.ratio("steps per second, batch, against RotorPy's closed loop", many / other, BATCH_TARGET)
    report.ratio(
        "steps per second, batch, against RotorPy's stated batched mode, one thread",
        many / STATED_BATCH,
        1.0,
    )


def _rollouts(report: BenchReport, effort: BenchEffort, peers: Sequence[Peer]) -> None:
    repeats = 2 if effort.seconds == 0 else 7
    hull = {
        kind: hummingbird.hull_steps_per_second(min(effort.batch, 256), 100, repeats, kind == "limited")
        for kind in ("not limited", "limited")
    }
    report.row(flight="steps per second, no lag, no drag", batch=hull["not limited"], batch_limited=hull["limited"])
    for peer in peers:
        rollout = hummingbird.rollout_steps_per_second(peer)
        report.row(flight=f"{peer.name} rollout, RK4, no controller", batch=rollout)
        ratio = hull["not limited"] / rollout
        report.ratio(f"batch with controller against the rollout of {peer.name} without", ratio, ROLLOUT_TARGET)
        report.ratio(f"the same with limits kept by a quadratic program ({peer.name})", hull["limited"] / rollout)


def _random_starts(report: BenchReport, count: int) -> None:
    recovered, seconds = hummingbird.random_starts(count)
    report.row(flight=f"{count} random starts with limits", recovered=recovered, cpu_s=seconds)
    report.limit("processor time of 30 s from 1000 random starts with limits", seconds * 1000 / count, 10.0, "s")


def tilting_starts(report: BenchReport, count: int) -> None:
    """Tricopters whose rotors have little thrust to spare, limits as discs: any attitude, 20 m, 5 m/s, 10 rad/s."""
    for thrust, share in TILTING_TARGETS.items():
        craft = tricopter(thrust=(0.0, thrust))
        start = random_states(craft.model, count, 0, distance=20.0, angle=np.pi, speed=5.0, rate=10.0)
        controller = craft.law().with_reference(craft.model.neutral())
        found = region_of_attraction(craft.model, controller, start, until=20.0, step=1e-2)
        name = f"tricopter, rotors of {thrust:g} N as discs, {count} random starts"
        report.row(flight=name, recovered=found.share, drop_m=float(found.drop.max()))
        report.ratio(f"{name}: share recovered", found.share, share)


def _time(seconds: float) -> float | str:
    return seconds if isfinite(seconds) else "never"
