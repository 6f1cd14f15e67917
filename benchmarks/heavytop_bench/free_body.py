"""The free rigid body near its unstable axis (document 002, section 6): error against processor time, ours and other engines'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import unflatten_columns
from heavytop.geometry.quaternion import rotation_from_quaternion
from heavytop.simulate import RKMK45, simulate
from heavytop.system import Free, Inertia, Model, System
from heavytop_bench.measure import BenchEffort, Work, best_times
from heavytop_bench.peers import FreeBodyMethod, Peer, divide
from heavytop_bench.peers.base import FreeBody, FreeState
from heavytop_bench.report import BenchReport

TITLE = "free rigid body near its unstable axis: error after 1 s against processor time"
UNSTABLE = FreeBody(np.array([5.2988, 1.1775, 4.3568]), np.array([0.01, 0.0, 100.0]))
# Taylor series with 40 digits; two step sizes agree to 8e-27
OMEGA_END = np.array([5.862162832632921, 6.769011439155637, -99.72873950308943])
QUATERNION_END = np.array([0.010936517138009114, -0.8510168134644344, -0.5238482790145479, -0.035124868216502764])
TUMBLING = FreeBody(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 0.1]))

OURS = ("rkmk4", "rkmk6", "rkmk8", "energy_momentum", "variational")
ALONE = ", aba alone"
COMPILED = "exudyn"
"""A peer whose run is one call of compiled code, like heavytop's: complete calls are compared too."""
STEPS = tuple(round(2 ** (k / 2)) for k in range(13, 25))
SHORT = 3e-3
TOLERANCES = tuple(10.0**-k for k in range(4, 13))
LEVELS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)

NOTES = (
    "Omega error: |Omega - reference| / 100 rad/s; R error: Frobenius norm of R - reference. Rounding alone gives about 1e-8 to 5e-8.",
    "cpu: the complete call; loop: its steps times the time per step, which is the difference of the longest run and one of a single "
    "step, so the cost of starting a run is omitted for every engine.",
    "heavytop: a call of heavytop.simulate on a free body with six degrees of freedom, one trajectory, one lane.",
    "exudyn: SolveDynamic, explicit Lie-group integration; mujoco: mj_step of all steps in one call; building the models is not timed.",
    "pin RK4: classical RK4 in a Python loop with pin.aba and pin.integrate, whose error in R is of order 2. "
    f"'pin RK4{ALONE}': the same errors, charged only with four evaluations of aba inside the engine and nothing else.",
    "A ratio is the time of the cheapest run of the peer that reaches an accuracy over that of our cheapest run that does; "
    "targets refer to loops, and to complete calls of Exudyn, each of which is one call of compiled code like heavytop's.",
)


@dataclass(frozen=True)
class AccuracyPoint:
    """One run: its errors, and its processor time in seconds, in total and without the cost of starting a run."""

    method: str
    steps: int
    omega: float
    attitude: float
    seconds: float
    loop: float

    def error(self, with_attitude: bool) -> float:
        """The error in Omega alone, or the larger one of Omega and R."""
        return max(self.omega, self.attitude) if with_attitude else self.omega


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Sweep over step sizes, then the long runs."""
    present, missing = divide(peers, "free_body")
    methods = [method for peer in present for method in peer.free_body()]
    report = BenchReport("free-body", TITLE, missing=missing, notes=list(NOTES))
    tiny = effort.seconds == 0
    points = sweep(methods, effort, (128, 256) if tiny else STEPS, (1e-6,) if tiny else TOLERANCES)
    for p in points:
        report.row(
            table="sweep",
            method=p.method,
            steps=p.steps,
            omega_error=p.omega,
            R_error=p.attitude,
            cpu_ms=p.seconds * 1e3,
            loop_ms=p.loop * 1e3,
            loop_us_per_step=p.loop / p.steps * 1e6,
        )
    compare(report, points)
    long_runs(report, "100 s at 1 ms", UNSTABLE, 1e-3, 100 if tiny else 100_000, [m for m in methods if m.is_rival])
    long_runs(report, "tumbling, 10 s at 10 ms", TUMBLING, 1e-2, 100 if tiny else 1000, methods)
    return report


def model_of(body: FreeBody) -> Model:
    """The body on a free joint, without gravity."""
    system = System(gravity=(0.0, 0.0, 0.0), name="free body")
    system.body("body", joint=Free(), inertia=Inertia(1.0, moment_at_com=tuple(body.moment)))
    return system.derive()


def our_run(model: Model, body: FreeBody, h: float, steps: int, integrator: Any) -> Callable[[], FreeState]:
    """A call of ``simulate`` that returns the end; error-controlled methods choose their own steps up to there."""
    start = model.neutral(), np.concatenate([np.zeros(3), body.omega])
    step = steps * h if isinstance(integrator, RKMK45) else h

    def call() -> FreeState:
        result = simulate(
            model, start, steps * h, step, integrator, record_every=steps, balance=False, progress=False, threads=1
        )
        return result.v[-1, -3:], unflatten_columns(result.q[-1, -9:], 3)

    return call


def sweep(
    methods: Iterable[FreeBodyMethod], effort: BenchEffort, counts: Iterable[int], tolerances: Iterable[float]
) -> list[AccuracyPoint]:
    """Errors and times of all methods over numbers of steps in one second, or over tolerances."""
    body, model = UNSTABLE, model_of(UNSTABLE)
    rivals = [method for method in methods if method.is_rival]
    runs: dict[tuple[str, int], Callable[[], FreeState]] = {}
    for n in (1, *counts):
        for name in OURS:
            runs[name, n] = our_run(model, body, 1 / n, n, name)
        for method in rivals:
            if method.most_steps is None or n <= method.most_steps:
                runs[method.name, n] = method.make(body, 1 / n, n)
    for tolerance in tolerances:
        integrator = RKMK45(rtol=tolerance, atol=100 * tolerance)
        name = f"rkmk45, {tolerance:.0e}"
        runs[name, 1] = our_run(model, body, 1e-9, 1, integrator)
        runs[name, adaptive_steps(model, body, integrator)] = our_run(model, body, 1.0, 1, integrator)
    reference = OMEGA_END, rotation_from_quaternion(QUATERNION_END / np.linalg.norm(QUATERNION_END))
    errors = {key: errors_of(call(), reference) for key, call in runs.items()}
    works: dict[str, Work] = {f"{name} {n}": call for (name, n), call in runs.items()}
    alone = {method.name: method.evaluations(body) for method in rivals if method.evaluations is not None}
    for name, trial in alone.items():
        works |= trial.candidates(f"{name}{ALONE}")
    times = best_times(works, replace(effort, rounds=min(effort.rounds, 7)))
    short = {name: work for name, work in works.items() if times[name] < SHORT}  # a disturbance weighs more in these
    again = best_times(short, replace(effort, rounds=2 * effort.rounds))
    times |= {name: min(times[name], t) for name, t in again.items()}
    per_step = step_times({key: times[f"{key[0]} {key[1]}"] for key in runs})
    points = [
        AccuracyPoint(name, n, *errors[name, n], times[f"{name} {n}"], n * per_step[name.partition(",")[0]])
        for name, n in runs
        if n > 1
    ]
    for name, trial in alone.items():
        seconds = 4 * trial.seconds(times, f"{name}{ALONE}")
        for p in [p for p in points if p.method == name]:
            points.append(replace(p, method=f"{name}{ALONE}", seconds=p.steps * seconds, loop=p.steps * seconds))
    return sorted(points, key=lambda p: p.method)


def step_times(times: dict[tuple[str, int], float]) -> dict[str, float]:
    """Seconds per step of each method from (name, steps) -> seconds: the longest run less that of one step.

    Tolerances after a comma belong to one method. For runs too short for a significant difference the total time counts.

    >>> step_times({("a", 1): 3.0, ("a", 11): 8.0, ("a", 5): 0.0})
    {'a': 0.5}
    """
    result = {}
    for method in dict.fromkeys(name.partition(",")[0] for name, _ in times):
        own = {n: t for (name, n), t in times.items() if name.partition(",")[0] == method}
        most = max(own)
        result[method] = (own[most] - own[1]) / (most - 1) if own[most] > own[1] else own[most] / most
    return result


def adaptive_steps(model: Model, body: FreeBody, integrator: RKMK45) -> int:
    """Attempts of the error-controlled method."""
    start = model.neutral(), np.concatenate([np.zeros(3), body.omega])
    return max(simulate(model, start, 1.0, 1.0, integrator, balance=False, progress=False).timing.steps, 1)


def errors_of(state: FreeState, reference: FreeState) -> tuple[float, float]:
    """Errors of the angular velocity (relative to 100 rad/s) and of the rotation matrix; infinite if not finite."""
    omega = float(np.linalg.norm(state[0] - reference[0])) / 100
    attitude = float(np.linalg.norm(state[1] - reference[1]))
    return (omega, attitude) if np.isfinite(omega + attitude) else (1e300, 1e300)


def cheapest(
    points: Iterable[AccuracyPoint], level: float, with_attitude: bool, kind: str = "loop"
) -> AccuracyPoint | None:
    """The run of least time (``loop``, or ``seconds`` in total) whose error is at most ``level``."""
    good = [p for p in points if p.error(with_attitude) <= level]
    return min(good, key=lambda p: getattr(p, kind)) if good else None


def compare(report: BenchReport, points: list[AccuracyPoint]) -> None:
    """At every accuracy our cheapest run and that of every peer."""
    rivals = list(dict.fromkeys(p.method for p in points if p.method.partition(",")[0] not in (*OURS, "rkmk45")))
    methods = {"ours": [p for p in points if p.method not in rivals]}
    methods |= {name: [p for p in points if p.method == name] for name in rivals}
    for with_attitude in (True, False):
        for level in LEVELS:
            accuracy = f"{'Omega and R' if with_attitude else 'Omega'} {level:.0e}"
            best = {name: cheapest(own, level, with_attitude) for name, own in methods.items()}
            for p in best.values():
                if p is not None:
                    figures = {"cpu_ms": p.seconds * 1e3, "loop_ms": p.loop * 1e3}
                    report.row(table="cheapest", accuracy=accuracy, method=p.method, steps=p.steps, **figures)
            for name in rivals:
                whole = 1.0 if name.startswith(COMPILED) else None
                for kind, label, target in (("loop", "", 1.0), ("seconds", ", whole call", whole)):
                    mine = cheapest(methods["ours"], level, with_attitude, kind)
                    theirs = cheapest(methods[name], level, with_attitude, kind)
                    if mine is not None and theirs is not None:
                        ratio = getattr(theirs, kind) / getattr(mine, kind)
                        report.ratio(f"{accuracy}{label}: ours / {name}", ratio, target)
    report.notes += unreached(points, rivals)


def unreached(points: list[AccuracyPoint], rivals: list[str]) -> list[str]:
    """Which accuracies a peer does not reach with any of the step sizes."""
    notes = []
    for name in rivals:
        own = [p for p in points if p.method == name]
        levels = [f"{level:.0e}" for level in LEVELS if cheapest(own, level, with_attitude=True) is None]
        if levels:
            most = max(p.steps for p in own)
            notes.append(f"{name} does not reach {', '.join(levels)} in Omega and R with up to {most} steps.")
    return notes


def long_runs(
    report: BenchReport, title: str, body: FreeBody, h: float, steps: int, methods: Iterable[FreeBodyMethod]
) -> None:
    """Final errors of energy, angular momentum and orthogonality; none of these runs is timed."""
    model = model_of(body)
    runs = {name: our_run(model, body, h, steps, name) for name in OURS}
    runs |= {method.name: method.make(body, h, steps) for method in methods}
    energy, momentum = body.energy(body.start), body.momentum(body.start)
    for name, call in runs.items():
        end = call()
        change = body.momentum(end) - momentum
        report.row(
            table=title,
            method=name,
            steps=steps,
            energy_change=body.energy(end) / energy - 1,
            momentum_change=float(np.linalg.norm(change) / np.linalg.norm(momentum)),
            orthogonality=float(np.linalg.norm(end[1].T @ end[1] - np.eye(3))),
        )
