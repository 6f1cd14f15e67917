"""Ctrl-C in real processes: what was computed is kept, and little is done after the signal, counted by the time of the processor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from processes import environment, finish

if sys.platform != "linux":
    pytest.skip("reads the time of other processes from /proc", allow_module_level=True)

TICKS = os.sysconf("SC_CLK_TCK")
AFTER = 1.0
"""Seconds of the processor (of all threads) that may pass between the signal and the end."""

RECORDING = """
import json, signal, sys, time
import numpy as np
import heavytop as ht
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells switch it off for programs in the background
kind = sys.argv[1]
system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
model = system.derive()
rows = {"single": (), "batch": (64,), "threads": (64,), "rarely": (), "adaptive": ()}[kind]
start = np.full((*rows, 1), 0.3) + 0.01 * np.arange(np.prod(rows, dtype=int)).reshape(*rows, 1), np.zeros((*rows, 1))
options = {"threads": 2 if kind == "threads" else 1, "record_every": 999_983 if kind == "rarely" else 1}
if kind == "adaptive":
    options = {"integrator": "rkmk45"}
steps = {"single": 10**8, "rarely": 10**10, "adaptive": 10**7}.get(kind, 10**6)
ht.simulate(model, start, 5e-3, 1e-3, **options)
print("begin", flush=True)
try:
    run = ht.simulate(model, start, 1e-3 * steps, 1e-3, **options)
except KeyboardInterrupt:  # before the first step there is nothing to keep
    print(json.dumps([time.process_time(), "early", []]), flush=True)
    sys.exit()
used = time.process_time()
failures = []
if run.outcome.ok:
    print(json.dumps([0.0, "late", []]), flush=True)
    sys.exit()
if run.outcome.ending.value != "interrupted":
    failures.append(f"{kind}: {run.outcome}")
if not (np.all(np.isfinite(run.q)) and len(run.t) == len(run.q)):
    failures.append(f"{kind}: records are missing")
done = len(run.t) - 1 if kind != "rarely" else round(run.t[-1] / 1e-3)
if done and kind != "adaptive":  # the last record, from a run of that length
    again = ht.simulate(model, start, 1e-3 * done, 1e-3, record_every=done)
    if again.q[-1].tobytes() != run.q[-1].tobytes() or again.v[-1].tobytes() != run.v[-1].tobytes():
        failures.append(f"{kind}: the state after {done} steps is another one")
print(json.dumps([used, "kept", failures]), flush=True)
"""


def processor_time(pid: int) -> float:
    """Seconds that a process has run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def interrupt(process: subprocess.Popen[str], after: float) -> float:
    """Send Ctrl-C when the process has run so long from now on; how long it had run when the signal came."""
    begun = processor_time(process.pid)
    while process.poll() is None and processor_time(process.pid) < begun + after:
        time.sleep(0.01)
    if process.poll() is not None:  # it was quicker
        return float("inf")
    os.kill(process.pid, signal.SIGSTOP)  # while this process waits for the processor, the other one must not go on
    used = processor_time(process.pid)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGCONT)
    return used


@pytest.mark.parametrize("kind", ["single", "batch", "threads", "rarely", "adaptive"])
def test_recordings(kind: str, record, size) -> None:
    rng, failures, tries = np.random.default_rng(5), [], size(8, 1)
    wait, kept = 0.5, 0
    while kept < tries and len(failures) < tries:
        process = subprocess.Popen(
            [sys.executable, "-c", RECORDING, kind],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n", process.communicate()[1][-2000:]
        sent = interrupt(process, wait * rng.uniform(0.3, 1.0))
        out, errors = process.communicate()
        if process.returncode or not out:
            failures.append(f"{kind}: exit {process.returncode}: {errors[-500:]}")
            continue
        used, when, found = json.loads(out)
        failures += found
        kept += when == "kept"
        wait *= {"early": 1.3, "kept": 1.0, "late": 0.7}[when]
        if used - sent > AFTER:
            failures.append(f"{kind}: {used - sent:.1f} s of work after the signal")
    record("Ctrl-C during a recording", tries, failures)


STUDY = """
system = "double-pendulum"
draws = 20000
[options]
until = 2.0
step = 0.001
[over]
"theta_1.angle" = { uniform = [-3.0, 3.0] }
"""
SHELL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from heavytop.cli import app
sys.argv = ["heavytop", *sys.argv[1:]]
app()
"""


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_a_sweep_in_the_shell(workers: tuple[str, ...], tmp_path: Path, record) -> None:
    """Exit code 130, a word how to go on, chunks kept; the same command does the rest, and the store is that of one go."""
    pytest.importorskip("zarr")
    pytest.importorskip("distributed")
    from sweep.test_store import same_files

    study, store, whole = tmp_path / "study.toml", tmp_path / "cut.zarr", tmp_path / "whole.zarr"
    study.write_text(STUDY)
    command = ["sweep", str(study), "--chunk", "500"]
    process = subprocess.Popen(
        [sys.executable, "-c", SHELL, *command, "--store", str(store), *workers],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while process.poll() is None and len(list((store / "done" / "c").glob("*"))) < 3:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate()
    failures = []
    if process.returncode != 130 or "Run the same command again" not in out or "Traceback" in out:
        failures.append(f"exit {process.returncode}: {out[-1000:]}")
    kept = len(list((store / "done" / "c").glob("*")))
    if not 3 <= kept < 40:
        failures.append(f"{kept} chunks kept")
    for place, more in ((store, workers), (whole, ())):
        done = finish(SHELL, *command, "--store", str(place), *more, processor=3000)
        if done.returncode:
            failures.append(f"exit {done.returncode}: {done.stderr[-500:]}")
    if not same_files(store, whole):
        failures.append("the finished store differs from that of one go")
    record("Ctrl-C during a sweep", 1, failures)
