"""Killed, hanging and full: marked chunks are complete, and the resumed store equals the uninterrupted one, byte for byte."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from processes import GUARD
from sweep import studies
from sweep.test_store import same_files

import heavytop as ht
from heavytop.errors import SweepError
from heavytop.sweep import DONE, GIVEN_UP, Store
from heavytop.sweep.store import StoreFull

pytest.importorskip("zarr")
pytest.importorskip("distributed")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the uninterrupted study."""
    path = tmp_path_factory.mktemp("squares") / "squares.zarr"
    ht.sweep.run_study(studies.squares(), path)
    return path


def started(store: Path, client: str, **environment: str) -> subprocess.Popen[str]:
    """A process of our own that runs the study."""
    paths = os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE.parent)])
    return subprocess.Popen(
        [sys.executable, "-c", "from sweep import studies; studies.main()", "squares", str(store), client],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=HERE.parent,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("workers"), process.communicate()[1]
    return [int(pid) for pid in line.split()[1:]]


def until_done(store: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until some chunks are done."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and process.poll() is None:
        if store.exists() and len(list((store / "done" / "c").glob("*"))) >= count:
            return
        time.sleep(0.02)
    if process.poll() is None:
        process.kill()
    pytest.fail(f"not {count} chunks: {process.communicate()[1][-2000:]}")


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=GUARD)
    assert process.returncode == 0, errors[-3000:]


@pytest.mark.slow
def test_a_killed_worker_costs_nothing(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "squares.zarr"
    process = started(store, "given", SWEEP_PAUSE="0.05")
    victim = workers_of(process)[0]
    until_done(store, 3, process)
    os.kill(victim, signal.SIGKILL)
    finish(process)
    assert same_files(store, whole)


@pytest.mark.slow
@pytest.mark.parametrize("everyone", [False, True])
def test_a_killed_client_costs_the_chunks_in_flight(whole: Path, tmp_path: Path, everyone: bool) -> None:
    store = tmp_path / "squares.zarr"
    process = started(store, "given", SWEEP_PAUSE="0.05")
    workers = workers_of(process)
    until_done(store, 3, process)
    for pid in [process.pid, *(workers if everyone else [])]:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    before = Store(store).marks()
    assert 3 <= np.sum(before == DONE) < len(before)
    finish(started(store, "given"))
    assert same_files(store, whole)


@pytest.mark.slow
def test_a_worker_that_hangs_is_restarted(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "squares.zarr"
    process = started(store, "given", SWEEP_HANG=str(tmp_path / "hung"), SWEEP_TIMEOUT="5")
    workers_of(process)
    finish(process)
    assert (tmp_path / "hung").exists()
    assert same_files(store, whole)


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_restarted(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "squares.zarr"
    process = started(
        store, "given", SWEEP_PAUSE="0.05", SWEEP_TIMEOUT="30"
    )  # so long that no other worker is restarted
    victim = workers_of(process)[1]
    until_done(store, 2, process)
    os.kill(victim, signal.SIGSTOP)
    finish(process)
    assert same_files(store, whole)


def test_a_full_disk_is_reported_and_survived(whole: Path, tmp_path: Path) -> None:
    disk, store = tmp_path / "disk", tmp_path / "disk" / "squares.zarr"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], check=False).returncode
    ):
        pytest.skip("no right to mount a small file system")
    try:
        with pytest.raises(StoreFull, match=r"No space left on device.*run the same sweep again"):
            ht.sweep.run_study(studies.squares(), store)
        done = int(np.sum(Store(store).marks() == DONE))
        assert 0 < done < len(Store(store).marks())
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        ht.sweep.run_study(studies.squares(), store)
        assert same_files(store, whole)
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def test_a_write_that_fails_leaves_no_mark(whole: Path, tmp_path: Path) -> None:
    """Files that may not grow stand for a full disk where nothing can be mounted."""
    store = tmp_path / "squares.zarr"
    study = studies.squares()
    Store(store).create(study)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(StoreFull, match="cannot write"):
            ht.sweep.run_study(study, store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert np.sum(Store(store).marks() == DONE) == 0
    ht.sweep.run_study(study, store)
    assert same_files(store, whole)


def run_and_exit(store: Path) -> None:
    """In a forked process: the study, then the end."""
    try:
        ht.sweep.run_study(studies.squares(), store, progress=False)
        os._exit(0)
    except BaseException:
        os._exit(1)


@pytest.mark.slow
def test_a_hundred_random_kills(tmp_path: Path) -> None:
    """Processes are killed at any moment of a sweep, also while they write."""
    program = f"from pathlib import Path; from sweep import test_faults; test_faults.hundred(Path({str(tmp_path)!r}))"
    paths = os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE.parent)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kills, stores = (int(word) for word in done.stdout.split())
    assert kills >= 100
    whole = tmp_path / "whole.zarr"
    ht.sweep.run_study(studies.squares(), whole)
    for k in range(stores):
        assert same_files(tmp_path / f"{k}.zarr", whole)


def hundred(folder: Path) -> None:
    """Kill a hundred processes; this one never opens a store itself, so that it can be forked."""
    rng, kills, stores = random.Random(0), 0, 0
    longest = 0.4
    while kills < 100:
        store = folder / f"{stores}.zarr"
        stores += 1
        while True:
            begun = time.monotonic()
            child = os.fork()
            if child == 0:
                run_and_exit(store)
            time.sleep(rng.uniform(0.0, longest))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                kills += 1
            elif os.WEXITSTATUS(status) == 0:
                break
            else:
                raise RuntimeError("a sweep failed")
            longest = min(longest * 1.05, 5.0) if time.monotonic() - begun >= 0.9 * longest else longest
    print(kills, stores)


@pytest.mark.slow
def test_results_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    """One process, one worker, two workers: the same bytes; without a store: the same dataset."""
    stores = []
    for client, workers in ((None, None), ("local", 1), ("local", 2)):
        stores.append(tmp_path / f"{workers}.zarr")
        ht.sweep.run_study(studies.pendulums(), stores[-1], client, workers=workers)
    assert all(same_files(stores[0], other) for other in stores[1:])
    here = ht.sweep.run_study(studies.pendulums()).data
    there = ht.sweep.run_study(studies.pendulums(), None, "local", workers=2).data
    assert here.identical(there)


@pytest.mark.slow
def test_chunks_that_fail_everywhere_are_recorded(tmp_path: Path) -> None:
    def deadly(x: float) -> dict[str, float]:
        from distributed import get_worker

        try:
            get_worker()
        except ValueError:
            return {"y": x}
        if x == 5:
            os._exit(11)  # takes its worker with it
        return {"y": x}

    result = ht.sweep(
        deadly, over={"x": np.arange(8.0)}, store=tmp_path / "d.zarr", client="local", workers=2, chunk=1, retries=1
    )
    assert result.outcomes() == {"finished": 7, "failed": 1}
    assert "given up after 2 attempts" in next(iter(result.causes()))
    assert np.sum(Store(tmp_path / "d.zarr").marks() == GIVEN_UP) == 1
    shutil.rmtree(tmp_path / "d.zarr")


@pytest.mark.slow
def test_a_study_that_workers_cannot_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is only here: no chunk could ever be done, so none is recorded as failed."""
    module = ModuleType("only_here")
    exec("def point(x):\n    return {'y': x}\n", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(SweepError, match="cannot be read by .*only_here"):
        ht.sweep(module.point, {"x": np.arange(8.0)}, store=tmp_path / "s.zarr", client="local", workers=2, chunk=2)
    assert np.all(Store(tmp_path / "s.zarr").marks() == 0)
