"""Rows of ``bench fly``: one robust controller under all conditions, compared with RotorPy's law in the same plants."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from heavytop_bench import failures, fleet, reality
from heavytop_bench.hummingbird import courses
from heavytop_bench.reality import Case, Recovered
from heavytop_bench.report import BenchReport

COUNT, FAR_COUNT = 200, 500
LATE_TARGET, LATE_DRAG_TARGET = 5e-3, 10e-3
"""RMS (m) after the start, with nominal drag and with drag that is 30 % wrong."""
START_TARGETS = {"circle 1.5 m 0.5 Hz": (0.035, 0.040)}
OTHER_TARGETS = (0.008, 0.015)
"""RMS (m) from the level start, without delay and with 20 ms."""
SPECIFIED = (
    Case("delay 10 ms, specified 20", delay=0.01),
    Case("delay 20 ms, specified 20", delay=0.02),
    Case("delay 30 ms, specified 20", delay=0.03),
)
UNTOLD = tuple(case for case in reality.QUIET if "delay" in case.name or "lag" in case.name)


def rows(report: BenchReport, quick: bool) -> None:
    """All of them; quickly: two flights each of a few."""
    count, far = (2, 2) if quick else (COUNT, FAR_COUNT)
    report.notes.append(
        f"robust: ONE controller with one set of constants in all rows of recovery, courses, racer and dead rotors: {reality.CONSTANTS}. "
        f"recovered: within {reality.NEAR:g} m of the set point during the last second of 8 s, {count} starts from a ball of 3 m, any attitude, "
        "3 rad/s, 200 Hz. RotorPy: its SE(3) controller with its gains as a native law in the same plants behind the same sensors (equal to "
        "RotorPy's own to rounding, see the tests); it takes the state as it comes. Delay and lag are identified unless the row says otherwise."
    )
    groups: list[tuple[Sequence[Case], dict[str, Any]]] = [(reality.QUIET[:2] if quick else reality.QUIET, {})]
    if not quick:
        groups += [(reality.ROUGH, {}), (reality.SLOW, {"rate": 50.0})]
    for cases, options in groups:
        ours = reality.recover(cases, count, **options)
        theirs = reality.recover(cases, count, "rotorpy", **options)
        _compared(report, ours, theirs)
    if quick:
        return
    _far(report, far)
    _courses(report)
    for name, course in reality.race_courses().items():
        known, unknown = reality.race(course, True), reality.race(course, False)
        report.row(flight=name, rms_drag_known=known, rms_drag_unknown=unknown)
        report.limit(f"{name}: RMS with known drag, noise, 10 ms", known, 0.015, "m")
        report.limit(f"{name}: RMS with unknown drag, noise, 10 ms", unknown, 0.040, "m")
    for radius, frequency in reality.OVERDEMANDS:
        run, off = reality.overdemand(radius, frequency)
        name = f"circle of {radius:g} m at {frequency:g} Hz for 4 s, beyond the rotors"
        report.row(flight=name, max=float(off.max()), drop_m=float(-run.q[:, 2].min()), median_end_m=float(off[-1]))
        report.limit(f"{name}: distance at the end", float(off[-1]), reality.NEAR, "m")
    _known_and_unknown_delays(report, count)
    _dead(report, count)
    failures.rows(report, count)
    fleet.rows(report, count, far)


def _figures(found: Recovered, prefix: str = "") -> dict[str, float | str]:
    end = found.median_end if isfinite(found.median_end) else "lost"
    return {f"{prefix}recovered": found.share, f"{prefix}median_end_m": end, f"{prefix}drop_m": _finite(found.drop)}


def _finite(value: float) -> float | str:
    return value if isfinite(value) else "lost"


def _compared(report: BenchReport, ours: Sequence[Recovered], theirs: Sequence[Recovered]) -> None:
    for own, other in zip(ours, theirs, strict=True):
        report.row(flight=own.name, **_figures(own), **_figures(other, "rotorpy_"))
        report.ratio(f"{own.name}: share recovered", own.share, 1.0)
        report.ratio(f"{own.name}: share recovered less RotorPy's", own.share - other.share, 0.0)


def _far(report: BenchReport, count: int) -> None:
    ours = reality.recover(reality.FAR_STARTS, count, spread=reality.FAR, seconds=20.0)
    theirs = reality.recover(reality.FAR_STARTS, count, "rotorpy", spread=reality.FAR, seconds=20.0)
    _compared(report, ours, theirs)
    report.limit(f"worst drop of {count} far starts (20 m, 5 m/s, 10 rad/s)", max(r.drop for r in ours), 5.0, "m")


def _courses(report: BenchReport) -> None:
    for name, course in courses().items():
        ours = {r.name: r for r in reality.track(course)}
        theirs = {r.name: r for r in reality.track(course, "rotorpy")}
        for case, own in ours.items():
            other = theirs[case]
            report.row(
                flight=f"robust, {name}, {case}",
                rms=own.rms,
                rms_late=own.late,
                rotorpy_rms=_finite(other.rms),
                rotorpy_rms_late=_finite(other.late),
            )
        late = max(ours[case].late for case in ("nominal", "wrong"))
        rough = max(ours[case].late for case in ("drag wrong", "wrong, drag wrong"))
        start, delayed = START_TARGETS.get(name, OTHER_TARGETS)
        report.limit(f"robust, {name}: RMS after the start, nominal and wrong", late, LATE_TARGET, "m")
        report.limit(f"robust, {name}: the same with drag 30 % wrong", rough, LATE_DRAG_TARGET, "m")
        report.limit(
            f"robust, {name}: RMS from the level start", max(ours["nominal"].rms, ours["wrong"].rms), start, "m"
        )
        report.limit(
            f"robust, {name}: RMS with delay 20 ms", max(ours["delay"].rms, ours["wrong, delay"].rms), delayed, "m"
        )


def _known_and_unknown_delays(report: BenchReport, count: int) -> None:
    """Delays specified to the controller, and unknown ones."""
    for found in reality.recover(SPECIFIED, count, delay=0.02):
        report.row(flight=f"{found.name}, not identified", **_figures(found))
    for found in reality.recover(UNTOLD, count, identify=False):
        report.row(flight=f"{found.name}, neither specified nor identified", **_figures(found))


def _dead(report: BenchReport, count: int) -> None:
    for cases in (reality.DEAD, reality.DEAD_ROUGH):
        for found in reality.recover(cases, count, "survivor", spread=None, seconds=20.0):
            report.row(flight=found.name, within_3_m=found.within_3_m, farthest_m=found.farthest, **_figures(found))
            report.ratio(f"{found.name}: share within 3 m for 20 s", found.within_3_m, 1.0)
    for cases in (reality.FAILED, reality.FAILED_ROUGH):
        for found in reality.recover(cases, count, "survivor", spread=None, seconds=20.0):
            report.row(flight=found.name, within_5_m=found.within_5_m, farthest_m=found.farthest, **_figures(found))
            report.ratio(f"{found.name}: share within 5 m for 20 s", found.within_5_m, 0.95)
    back = reality.recover(
        (Case("dead rotor from any attitude", dead=(0,)),), count, "survivor", spread=reality.SPREAD, seconds=20.0
    )[0]
    report.row(flight=back.name, **_figures(back))
    report.ratio(f"{back.name}: share that recovers", back.share, 1.0)
    still, windy = reality.two_dead(count)
    report.row(flight=still.name, within_3_m=still.within_3_m, farthest_m=still.farthest, **_figures(still))
    report.row(flight=windy.name, within_3_m=windy.within_3_m, farthest_m=_finite(windy.farthest), **_figures(windy))
    report.ratio(f"{still.name}: share within 3 m for 20 s", still.within_3_m, 1.0)
    report.ratio(f"{windy.name}: share within 5 m for 20 s", windy.within_5_m, 0.95)
    hexacopter = reality.hexacopter_eight()
    report.row(flight="hexacopter with a dead rotor, eight", rms=hexacopter)
    report.limit("hexacopter with a dead rotor, eight: RMS", hexacopter, 0.1, "m")
