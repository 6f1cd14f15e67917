"""Kill -9 of whatever takes part in a sweep, at any moment: nothing is lost beyond the chunks in flight, and the store that is finished
afterwards equals the uninterrupted one, byte for byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from processes import GUARD, environment
from sweep import studies
from sweep.test_store import same_files

import heavytop as ht
from heavytop.sweep.store import DONE, Store

pytest.importorskip("zarr")
psutil = pytest.importorskip("psutil")
pytest.importorskip("distributed")
TESTS = Path(__file__).parents[1]
POINTS = 160
"""Values of the study that is killed; a chunk has four points."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the uninterrupted study."""
    path = tmp_path_factory.mktemp("whole") / "whole.zarr"
    ht.sweep.run_study(studies.squares(POINTS, 2), path)
    return path


def started(store: Path, client: str, **variables: str) -> subprocess.Popen[str]:
    """A program of a user that runs the study; its workers belong to its group of processes."""
    return subprocess.Popen(
        [sys.executable, "-c", "from sweep import studies; studies.main()", "many", str(store), client],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables) | {"PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], str(TESTS)])},
    )


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Processes of the workers that live now."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def marks_of(store: Path) -> dict[str, bytes]:
    """Done marks and the files of chunks, by name."""
    return {p.name: p.read_bytes() for p in (store / "done" / "c").glob("*")} if store.exists() else {}


@pytest.mark.parametrize("part", range(10))
def test_kills_on_a_cluster(part: int, whole: Path, tmp_path: Path, record, size) -> None:
    """Workers, client and all of them, one after the other, until so many are dead; marks never disappear."""
    if size(1, 0) == 0 and part:
        pytest.skip("one part in the slice")
    rng, count = random.Random(part), size(12, 3)
    kills, failures, stores = dict.fromkeys(("worker", "client", "all"), 0), [], 0
    while sum(kills.values()) < count:
        store = tmp_path / f"{stores}.zarr"
        stores += 1
        while True:
            before = marks_of(store)
            process = started(store, "local", SWEEP_PAUSE="0.02")
            finished = _kill_some(process, store, rng, kills, count)
            after = marks_of(store)
            if not before.items() <= after.items():
                failures.append(f"marks of {store.name} are gone: {sorted(before.keys() - after.keys())}")
            if finished:
                break
        if not same_files(store, whole):
            failures.append(f"{store.name} differs from the uninterrupted store")
    for kind, number in kills.items():
        if number:
            record(f"kill -9 in a sweep on a cluster: {kind}", number, failures)


def _kill_some(
    process: subprocess.Popen[str], store: Path, rng: random.Random, kills: dict[str, int], most: int
) -> bool:
    """Kill things while a study runs; whether it ended by itself."""
    while process.poll() is None:
        begun = time.monotonic()
        while process.poll() is None and len(workers_of(process)) < 2 and time.monotonic() < begun + 900:
            time.sleep(0.05)
        time.sleep(rng.expovariate(1 / 0.8))
        if process.poll() is not None or sum(kills.values()) >= most:
            continue
        kind = rng.choices(("worker", "client", "all"), (6, 2, 2))[0]
        workers = workers_of(process)
        victims = {"worker": rng.sample(workers, min(1, len(workers))), "client": [], "all": workers}[kind]
        if kind == "worker" and not victims:
            continue
        for pid in [*victims, *([] if kind == "worker" else [process.pid])]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        kills[kind] += 1
        if kind != "worker":
            process.wait()
            _gone(workers)
            return False
    assert process.stderr is not None
    assert process.returncode == 0, process.stderr.read()[-3000:]
    return True


def _gone(pids: list[int]) -> None:
    """Wait until workers whose client is dead have noticed it."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and any(psutil.pid_exists(pid) for pid in pids):
        time.sleep(0.1)
    assert not any(psutil.pid_exists(pid) for pid in pids), "workers outlive their client"


class Daemons:
    """A scheduler and two workers as the page of sweeps starts them by hand, on this machine only."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def _dask(self, name: str, *arguments: str) -> None:
        paths = os.pathsep.join([environment()["PYTHONPATH"], str(TESTS)])
        self.running[name] = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--no-dashboard", "--scheduler-file", str(self.file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(SWEEP_PAUSE="0.02") | {"PYTHONPATH": paths},
        )

    def start(self) -> None:
        """Start what does not run."""
        if "scheduler" not in self.running:
            self.file.unlink(missing_ok=True)
            self._dask("scheduler", "scheduler", "--host", "tcp://127.0.0.1", "--port", "0")
            while not self.file.exists():
                assert self.running["scheduler"].poll() is None
                time.sleep(0.05)
        for name in ("left", "right"):
            if name not in self.running or self.running[name].poll() is not None:
                place = ("--host", "127.0.0.1", "--nthreads", "1", "--local-directory", str(self.folder))
                self._dask(name, "worker", *place)

    def workers(self) -> list[int]:
        """Processes of the workers, below those that look after them."""
        return [pid for name, process in self.running.items() if name != "scheduler" for pid in workers_of(process)]

    def kill(self) -> int:
        """Kill all of it; how many processes these were."""
        pids = [*self.workers(), *(process.pid for process in self.running.values() if process.poll() is None)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self.running.values():
            process.wait()
        self.running.clear()
        return len(pids)


@pytest.mark.parametrize("part", range(4))
def test_kills_behind_a_scheduler(part: int, whole: Path, tmp_path: Path, record, size) -> None:
    """Workers, clients, and scheduler with everything, of a cluster that was started by hand."""
    if size(1, 0) == 0 and part:
        pytest.skip("one part in the slice")
    rng, count, daemons = random.Random(100 + part), size(12, 2), Daemons(tmp_path)
    kills, failures, stores = dict.fromkeys(("worker", "client", "all"), 0), [], 0
    try:
        while sum(kills.values()) < count:
            store = tmp_path / f"{stores}.zarr"
            stores += 1
            while True:
                daemons.start()
                before = marks_of(store)
                process = started(store, str(daemons.file))
                finished = _kill_behind(process, daemons, rng, kills, count)
                if not before.items() <= marks_of(store).items():
                    failures.append(f"marks of {store.name} are gone")
                if finished:
                    break
            if not same_files(store, whole):
                failures.append(f"{store.name} differs from the uninterrupted store")
    finally:
        daemons.kill()
    for kind, number in kills.items():
        if number:
            record(f"kill -9 in a sweep behind a scheduler: {kind}", number, failures)


def _kill_behind(
    process: subprocess.Popen[str], daemons: Daemons, rng: random.Random, kills: dict[str, int], most: int
) -> bool:
    """Kill things while a study runs; whether it ended by itself."""
    while process.poll() is None:
        begun = time.monotonic()
        while process.poll() is None and len(daemons.workers()) < 2 and time.monotonic() < begun + 900:
            time.sleep(0.05)
        time.sleep(rng.expovariate(1 / 2.0))
        if process.poll() is not None or sum(kills.values()) >= most:
            continue
        kind, workers = rng.choices(("worker", "client", "all"), (6, 3, 1))[0], daemons.workers()
        if kind == "worker":
            if not workers:
                continue
            try:
                os.kill(rng.choice(workers), signal.SIGKILL)
            except ProcessLookupError:
                continue
        elif kind == "client":
            process.kill()
        else:
            daemons.kill()
        kills[kind] += 1
        if kind != "worker":
            _, errors = process.communicate(timeout=GUARD)
            told = any(text in errors for text in ("run the same sweep again", "no scheduler answers"))
            assert kind == "client" or process.returncode == 0 or told, errors[-3000:]
            return process.returncode == 0
    assert process.stderr is not None
    assert process.returncode == 0, process.stderr.read()[-3000:]
    return True


KILLER = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
import heavytop as ht
from sweep import studies
from sweep.test_store import same_files
count, folder, whole = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
CHANGES = ("os.rename", "os.mkdir", "open", "os.remove", "os.rmdir", "os.link", "os.truncate")
rng, kills, stores, failures, events = np.random.default_rng(0), 0, 0, [], set()
def run(store):
    ht.sweep.run_study(studies.squares(20, 2), store, progress=False)
while kills < count:
    store = folder / f"{stores}.zarr"
    stores += 1
    while True:
        step = int(rng.integers(0, 400))
        child = os.fork()
        if child == 0:
            left = [step]
            def trip(event, arguments):
                if event in CHANGES and str(store.name) in str(arguments[0]):
                    left[0] -= 1
                    if left[0] < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(trip)
            try:
                run(store)
                os._exit(0)
            except BaseException as error:
                print(error, file=sys.stderr)
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        elif os.WEXITSTATUS(status):
            failures.append(f"the sweep failed after {kills} kills")
            break
        else:
            break
print(json.dumps([kills, stores, failures]))
"""


def test_kills_during_a_write(tmp_path: Path, record, size) -> None:
    """The process dies between any two changes of the store: when a file is made, filled, renamed, or the store itself appears."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    whole = tmp_path / "whole.zarr"
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(size(200, 8)), str(tmp_path), str(whole)],
        env=environment() | {"PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], str(TESTS)])},
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kills, stores, failures = json.loads(done.stdout.splitlines()[-1])
    ht.sweep.run_study(studies.squares(20, 2), whole)
    failures += [f"{k}.zarr differs" for k in range(stores) if not same_files(tmp_path / f"{k}.zarr", whole)]
    failures += [f"left behind: {p.name}" for p in tmp_path.glob(".whole*.part")]
    record("kill -9 while a store is written", kills, failures)


def test_workers_on_a_full_disk(whole: Path, tmp_path: Path, record) -> None:
    """The disk of the workers fills up: the client says so and ends; with more room the same command does the rest."""
    disk, store = tmp_path / "disk", tmp_path / "disk" / "full.zarr"
    disk.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this machine does not mount a small disk")
    failures, rooms = [], ("600k", "900k", "1200k")
    try:
        for k, room in enumerate(rooms):
            subprocess.run(["mount", "-o", f"remount,size={room}", str(disk)], check=True)
            process = started(store, "local")
            _, errors = process.communicate(timeout=GUARD)
            if process.returncode == 0 or "No space left on device" not in errors or "run the same sweep" not in errors:
                failures.append(f"with {room}: exit {process.returncode}, {errors[-300:]}")
            done = Store(store).marks() == DONE
            if not 0 < np.sum(done) < len(done) and k == len(rooms) - 1:
                failures.append(f"with {room}: {np.sum(done)} of {len(done)} chunks")
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        process = started(store, "local")
        _, errors = process.communicate(timeout=GUARD)
        if process.returncode or not same_files(store, whole):
            failures.append(f"with room again: exit {process.returncode}, {errors[-300:]}")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    record("a sweep on a full disk", len(rooms) + 1, failures)


def test_workers_that_are_stopped(whole: Path, tmp_path: Path, record, size) -> None:
    """A worker that hangs (SIGSTOP) is replaced, and what it did not finish is done elsewhere."""
    failures, tries = [], size(4, 1)
    rng = random.Random(2)
    for k in range(tries):
        store = tmp_path / f"{k}.zarr"
        process = started(store, "local", SWEEP_PAUSE="0.02", SWEEP_TIMEOUT="4")
        while process.poll() is None and len(marks_of(store)) < 3:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 1))
        os.kill(rng.choice(workers_of(process)), signal.SIGSTOP)
        _, errors = process.communicate(timeout=GUARD)
        if process.returncode or not same_files(store, whole):
            failures.append(f"try {k}: exit {process.returncode}, {errors[-300:]}")
    record("a worker that hangs", tries, failures)
