"""Many processes, threads, fork and spawn, leaks, long runs."""

from __future__ import annotations

import json
import os
import sys

import pytest
from processes import GUARD, done, finish, start

COMPILE = """
import numpy as np
from heavytop.compile import Kernel, trace
kernel = Kernel(trace(lambda x: np.sin(x) + x[0] * 3.5, {"x": (3,)}, name="tiny"), fingerprint="tiny")
print(kernel(np.arange(3.0))[0].tobytes().hex())
"""


def test_processes(tmp_path, record, size) -> None:
    count = size(50, 4)
    cache = str(tmp_path / "cache")
    results, failures = set(), []
    for first in range(0, count, 10):
        running = [start(COMPILE, HEAVYTOP_CACHE=cache) for _ in range(min(10, count - first))]
        for process in running:
            out, err = process.communicate(timeout=GUARD)
            results.add(out)
            if process.returncode:
                failures.append(err[-300:])
    if len(results) != 1:
        failures.append(f"{len(results)} different results")
    record("processes that compile at once", count, failures)


TOGETHER = """
import json, multiprocessing, sys, threading
import numpy as np
import heavytop as ht
def job(angle):
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    return ht.simulate(system.derive(), ([angle], [0.0]), 1.0, 0.01).q[-1, 0]
def main(count):
    angles = np.linspace(0.1, 1.0, count)
    expected = [job(a) for a in angles]
    failures = []
    got = [None] * count
    def work(k):
        got[k] = job(angles[k])
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    if got != expected:
        failures.append(f"threads: {got}")
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            if pool.map(job, angles) != expected:
                failures.append(method)
    print(json.dumps(failures))
if __name__ == "__main__":
    main(int(sys.argv[1]))
"""


def test_threads_fork_and_spawn(tmp_path, record, size) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    count = size(16, 3)
    script = tmp_path / "together.py"
    script.write_text(TOGETHER)
    ended = done([sys.executable, str(script), str(count)], processor=600)
    assert ended.returncode == 0, ended.stderr[-2000:]
    record("runs in threads, fork and spawn", 3 * count, json.loads(ended.stdout.splitlines()[-1]))


LEAKS = """
import gc, json, os, sys, tempfile
from pathlib import Path
import numpy as np
import heavytop as ht
from heavytop.compile import Cache, Kernel, trace
count = int(sys.argv[1])
def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
model = system.derive()
folder = Path(tempfile.mkdtemp())
cache = Cache(folder / "cache")
def load(k):
    kernel = Kernel(trace(lambda x: np.sin(x) * 2.0, {"x": (3,)}, name="f"), cache=cache)
    kernel(np.ones(3))
def simulate(k):
    ht.simulate(model, ([0.1 + 1e-3 * k], [0.0]), 0.1, 0.01)
def save(k):
    run.save(folder / "run.nc")
    ht.Run.load(folder / "run.nc")
run = ht.simulate(model, ([0.1], [0.0]), 1.0, 0.01)
failures = []
for name, work, allowed in (("load code", load, 12e3), ("simulate", simulate, 3e3), ("save and load", save, 8e3)):
    for k in range(30):
        work(k)
    before = resident()
    for k in range(count):
        work(k)
    growth = (resident() - before) / count
    if growth > allowed:
        failures.append(f"{name}: {growth:.0f} bytes each")
    print(name, growth, file=sys.stderr)
print(json.dumps(failures))
"""


def test_leaks(record, size) -> None:
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("memory is read from /proc")
    count = size(1000, 150)
    ended = finish(LEAKS, str(count), processor=1200)
    assert ended.returncode == 0, ended.stderr[-2000:]
    record("repetitions without growth of memory", 3 * count, json.loads(ended.stdout.splitlines()[-1]))


STEPS = """
import json, sys, resource
import numpy as np
import heavytop as ht
total = float(sys.argv[1])
system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
rows = 512
steps = int(np.ceil(total / rows))
angles = np.linspace(0.1, 2.0, rows)[:, None]
run = ht.simulate(system.derive(), (angles, np.zeros((rows, 1))), steps * 1e-3, 1e-3, record_every=max(steps // 4, 1), threads=None)
drift = np.max(np.abs(run.energy[-1] - run.energy[0]))
failures = [] if run.outcome.ok and drift < 1e-6 and np.all(np.isfinite(run.q)) else [f"{run.outcome}, drift {drift}"]
if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 2e6:
    failures.append("memory grew")
print(json.dumps([run.timing.steps * rows, failures]))
"""


def test_steps(record, size) -> None:
    ended = finish(STEPS, str(size(10**9, 10**6)), processor=3000)
    assert ended.returncode == 0, ended.stderr[-2000:]
    tries, failures = json.loads(ended.stdout.splitlines()[-1])
    record("steps in one run", tries, failures)
