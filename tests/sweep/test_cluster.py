"""Workers that do not come and chunks that hang, with a scheduler that is only played: no process is started."""

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
from heavytop.sweep import dask_client as connection
from heavytop.sweep.progress import Bar


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
    monkeypatch.setattr(connection, "LONGEST_START", 0.01)
    monkeypatch.setattr(connection, "STARTING", 0.001)


@pytest.mark.usefixtures("quick")
def test_a_sweep_begins_with_the_workers_that_are_there() -> None:
    played = PlayedCluster(4, 3)
    with pytest.warns(
        NoWorkersWarning, match=r"3 of 4 workers have started within 0.01 s: the sweep begins with these"
    ):
        connection._Nurse(played).wait()
    assert played.looks


@pytest.mark.usefixtures("quick")
def test_without_any_worker_the_wait_ends() -> None:
    with pytest.raises(SweepError, match="the workers cannot be started: none of 4 began to work"):
        connection._Nurse(PlayedCluster(4, 0)).wait()


def test_all_workers_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connection._Nurse(PlayedCluster(2, 2)).wait()


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


def test_what_waits_behind_a_hanging_chunk_is_not_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    study, client = studies.squares(), PlayedClient()
    given_up: list[int] = []
    regions = {k: study.chunks.region(k) for k in range(6)}
    made = cluster.Cluster(
        client, study, Path("none"), 1, 5.0, Bar(10, 0, False), lambda *_: None, lambda k, _: given_up.append(k)
    )
    made._hand_out(iter(regions), regions)
    assert [f.index for f in made.flying.values()] == list(range(6))
    later = time.monotonic() + 6.0
    monkeypatch.setattr(cluster.time, "monotonic", lambda: later)
    made._look_after(regions)
    assert client.restarted == ["a", "b"]
    assert sorted((index, attempts) for index, attempts, _ in made.waiting) == [(0, 1), (1, 1), (2, 0), (3, 0), (4, 0)]
    assert [f.index for f in made.flying.values()] == [5]
    assert not given_up


@pytest.mark.parametrize("kind", ["asyncio", "futures", "connection"])
def test_a_scheduler_that_is_gone_is_told_with_what_to_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask tells it by one of two classes called CancelledError, as the moment has it."""
    errors = {"asyncio": asyncio.CancelledError, "futures": futures.CancelledError, "connection": ConnectionError}

    def run(self: cluster.Cluster, regions: Any) -> None:
        raise errors[kind]("gone")

    monkeypatch.setattr(cluster.Cluster, "_run", run)
    played = object.__new__(cluster.Cluster)
    played.client, played.flying, played.path = SimpleNamespace(status="closed"), {}, Path("study.zarr")
    with pytest.raises(SweepError, match="run the same sweep again to do the rest"):
        played.run({})
