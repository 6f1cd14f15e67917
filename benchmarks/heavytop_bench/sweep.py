"""Sweeps: overhead relative to the bare simulation, in one process and on local workers, and memory."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heavytop.control import energy_law
from heavytop.copters import quadcopter
from heavytop.copters.vehicle import add_rotors
from heavytop.simulate import simulate
from heavytop.sweep import Study, make_study, normal, run_study, take, uniform
from heavytop.sweep.model_cases import BATCH
from heavytop.system import Damping, Free, Inertia, Model, System
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport

TITLE = "closed-loop quadcopter runs of 200 steps with a store, seconds of all processors"
COUNT, STEP, STEPS = 1_000_000, 0.01, 200
ONE_PROCESS, TWO_WORKERS, SCALING = 1.03, 1.10, 1.8

NOTES = (
    "bare: heavytop.simulate in batches of the same size, starts and parameters made beforehand, nothing kept. Seconds are those of the "
    "processors, of the client and of its workers together, without starting them and compiling. As clocks drift, bare is measured before "
    "and after, and the mean taken.",
    "scaling: wall time with one worker over that with two; it means something on a quiet machine with two free cores only.",
    "memory: peak of the resident set since the process began.",
)


def plant() -> tuple[Model, Any]:
    """A quadcopter whose mass and drag are parameters, and its energy law at hover."""
    quad = quadcopter()
    system = System(name="quadcopter with parameters")
    mass, drag = system.parameter("mass", quad.mass), system.parameter("drag", 0.1)
    system.body("hull", joint=Free(), inertia=Inertia(mass, moment_at_com=(0.008, 0.008, 0.014)))
    system.damper("world", "hull", Damping(total=drag))
    add_rotors(system, quad.airframe.rotors)
    model = system.derive()
    return model, energy_law(model, quad.prototype, quad.limits).with_reference(model.neutral())


def start(tilt: np.ndarray, heading: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At the origin, tilted: turned by ``tilt`` about the axis (-sin(heading), cos(heading), 0)."""
    c, s, x, y = np.cos(tilt), np.sin(tilt), np.cos(heading), np.sin(heading)
    q = np.zeros((*tilt.shape, 12))
    versine = 1.0 - c
    columns = (
        c + versine * y * y,
        -versine * x * y,
        -s * x,
        -versine * x * y,
        c + versine * x * x,
        -s * y,
        s * x,
        s * y,
        c,
    )
    for k, entry in enumerate(columns, start=3):  # of the rotation matrix, one column after the other
        q[..., k] = entry
    return q, np.zeros(6)


def study_of(count: int) -> Study:
    """Random masses, drags and starts."""
    model, law = plant()
    over = {
        "mass": normal(0.9, 0.03),
        "drag": uniform(0.0, 0.2),
        "tilt": uniform(0.0, 1.5),
        "heading": uniform(0.0, 6.28),
    }
    measure = {"height": take("hull.z"), "x": take("hull.x"), "y": take("hull.y")}
    return make_study(model, over, count, measure=measure, control=law, start=start, until=STEP * STEPS, step=STEP)


def bare(study: Study, count: int) -> float:
    """Seconds of the simulations alone."""
    model, law = study.cases.subject, study.cases.options["control"]  # pyright: ignore
    spent = 0.0
    for k in range(0, count, BATCH):
        values = study.grid.values([slice(k, min(k + BATCH, count))])
        q, v = start(values["tilt"], values["heading"])
        parameters = {name: values[name] for name in ("mass", "drag")}
        begun = time.process_time()
        simulate(
            model,
            (q, v),
            STEP * STEPS,
            STEP,
            control=law,
            parameters=parameters,
            record_every=10**9,
            balance=False,
            progress=False,
        )
        spent += time.process_time() - begun
    return spent


def usage() -> tuple[float, float]:
    """Seconds of the processor and peak memory (MB) of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = used.ru_maxrss / 1024
    status = Path("/proc/self/status")
    if status.exists():  # the other figure begins with that of the process that started this one
        peak = next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return used.ru_utime + used.ru_stime, peak


def on_workers(study: Study, store: Path, workers: int, report: BenchReport) -> tuple[float, float]:
    """Seconds of all processors, and of the wall."""
    from heavytop.functions import pack
    from heavytop.sweep.cluster import connected, work

    with connected("local", workers) as (client, _):
        client.wait_for_workers(workers)
        region = tuple((0, min(n, 8)) for n in study.grid.shape)
        client.run(work, pack(study), 0, region, None)  # native code is there before the clock runs
        before, mine = client.run(usage), usage()[0]
        begun = time.perf_counter()
        run_study(study, store, client, progress=False)
        wall = time.perf_counter() - begun
        after = client.run(usage)
        spent = usage()[0] - mine + sum(after[w][0] - before[w][0] for w in after if w in before)
        peaks = [after[w][1] for w in after]
        report.row(
            what=f"{workers} worker{'s' * (workers > 1)}",
            cpu_s=spent,
            wall_s=wall,
            client_MB=usage()[1],
            worker_MB=max(peaks),
        )
    return spent, wall


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Bare, in one process, with one worker and with two. No peer takes part."""
    report = BenchReport("sweep", TITLE, notes=list(NOTES))
    count = 64 if effort.seconds == 0 else COUNT
    study = study_of(count)
    study.layout  # noqa: B018  # compiles
    before = bare(study, count)
    report.row(what="bare, before", cpu_s=before)
    with tempfile.TemporaryDirectory() as folder:
        run_study(study_of(8), Path(folder) / "first.zarr", progress=False)  # imports zarr and xarray
        begun, clock = time.process_time(), time.perf_counter()
        run_study(study, Path(folder) / "here.zarr", progress=False)
        here = time.process_time() - begun
        report.row(what="one process", cpu_s=here, wall_s=time.perf_counter() - clock, client_MB=usage()[1])
        after = bare(study, count)
        report.row(what="bare, after", cpu_s=after)
        report.limit("one process / bare", 2 * here / (before + after), ONE_PROCESS, "x")
        if effort.seconds == 0:  # starting workers takes longer than everything else
            return report
        _, slow = on_workers(study, Path(folder) / "one.zarr", 1, report)
        both, fast = on_workers(study, Path(folder) / "two.zarr", 2, report)
        last = bare(study, count)
        report.row(what="bare, at the end", cpu_s=last)
        report.limit("two workers / bare", 2 * both / (after + last), TWO_WORKERS, "x")
        report.ratio(f"two workers against one ({os.cpu_count()} cores)", slow / fast, SCALING)
    return report
