"""Workers that never join and chunks that hang, with a fake scheduler: no process is started."""

from __future__ import annotations

import asyncio
import time
import warnings
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sweep import studies

from heavytop.errors import SweepError
from heavytop.sweep import NoWorkersWarning, cluster
from heavytop.sweep.engine import Tally


class PlayedCluster:
    """Some of the wanted workers have joined, all processes are alive, and nothing ever changes."""

    def __init__(self, wanted: int, joined: int) -> None:
        nanny = SimpleNamespace(is_alive=lambda: True, status=SimpleNamespace(name="running"))
        self.worker_spec = self.workers = dict.fromkeys(range(wanted), nanny)
        self.scheduler_info = {"workers": dict.fromkeys(range(joined))}
        self.loop = SimpleNamespace(add_callback=self._call)
        self.looks = 0

    def _call(self, function: Any) -> None:
        self.looks += 1
        if self.looks > 1000:
            raise RecursionError("waits for ever")
        function()

    def scale(self, count: int) -> None:
        assert count == len(self.worker_spec)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LONGEST_START", 0.01)


@pytest.mark.usefixtures("quick")
def test_a_sweep_begins_with_the_workers_that_are_there() -> None:
    played = PlayedCluster(4, 3)
    with pytest.warns(NoWorkersWarning, match=r"3 of 4 workers"):
        cluster._LocalWorkers(played).wait(0.001)
    assert played.looks


@pytest.mark.usefixtures("quick")
def test_without_any_worker_the_wait_ends() -> None:
    with pytest.raises(SweepError, match="none of 4"):
        cluster._LocalWorkers(PlayedCluster(4, 0)).wait(0.001)


def test_no_warning_if_all_workers_have_joined() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cluster._LocalWorkers(PlayedCluster(2, 2)).wait()


class PlayedClient:
    """Workers "a" and "b" that never finish anything: chunks 0, 2, 4 are with the one, 1, 3 with the other, 5 with none."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.restarted: list[str] = []

    def nthreads(self) -> dict[str, int]:
        return {"a": 1, "b": 1}

    def submit(self, *_: Any, key: str, **__: Any) -> Any:
        self.keys.append(key)
        return type("Future", (), {"key": key})()

    def processing(self) -> dict[str, list[str]]:
        return {"a": self.keys[4::-2], "b": self.keys[3::-2]}

    def cancel(self, *_: Any, **__: Any) -> None: ...

    def restart_workers(self, workers: list[str], **_: Any) -> None:
        self.restarted += workers


def test_chunks_behind_a_hanging_one_are_not_counted_as_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    study, client = studies.squares(), PlayedClient()
    kept: list[int] = []
    made = cluster.Cluster(
        client, study, study.chunks, Path("none"), 1, 5.0, lambda k, *_: kept.append(k), Tally(10, 0, False)
    )
    made._submit(iter(range(6)))
    assert [task.index for task in made.running.values()] == list(range(6))
    later = time.monotonic() + 6.0
    monkeypatch.setattr(cluster.time, "monotonic", lambda: later)
    made._restart_hanging()
    assert client.restarted == ["a", "b"]
    assert sorted((task.index, task.attempts) for task in made.waiting) == [(0, 1), (1, 1), (2, 0), (3, 0), (4, 0)]
    assert [task.index for task in made.running.values()] == [5]
    assert not kept


@pytest.mark.parametrize("kind", ["asyncio", "futures", "connection"])
def test_a_lost_scheduler_is_reported_with_what_to_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask raises one of two classes called CancelledError."""
    errors = {"asyncio": asyncio.CancelledError, "futures": futures.CancelledError, "connection": ConnectionError}

    def run(self: cluster.Cluster, indices: Any) -> None:
        raise errors[kind]("gone")

    monkeypatch.setattr(cluster.Cluster, "_run", run)
    played = object.__new__(cluster.Cluster)
    played.client, played.running, played.path = SimpleNamespace(status="closed"), {}, Path("study.zarr")
    with pytest.raises(SweepError, match="run the same sweep again"):
        played.run([])
