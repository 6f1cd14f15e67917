"""How a sweep is worked off: in this process, or by the workers of a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._travel import pack, unpack
from heavytop.errors import SweepError
from heavytop.sweep.bar import Bar
from heavytop.sweep.cases import Output, reason
from heavytop.sweep.measure import FAILED
from heavytop.sweep.store import Store
from heavytop.sweep.study import Study

AHEAD = 3
"""Chunks per thread of the cluster that are handed out: one in work, one being written, one waiting. More would only fill memory."""
PATIENCE, LEAST_PATIENCE = 20.0, 60.0
"""A worker is taken for hanging after so many times the slowest chunk so far, and so many seconds."""
POLL = 1.0
REPLACED_AFTER = 5.0
"""Seconds after which a dead worker that Dask has not restarted is replaced."""
STARTS = 5
"""How often workers on this machine are started before it is given up."""
CALM = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1},
}
"""Settings of Dask for workers on this machine: by default every process looks at itself a hundred times a second and hands memory back
that it needs again at once, which costs some percent of a processor each."""

Region = Sequence[slice]
Keep = Callable[[int, Output], None]


@dataclass
class Tally:
    """What a sweep came to: points, failed ones, chunks given up, seconds of work in all processes."""

    points: int = 0
    failed: int = 0
    given_up: int = 0
    seconds: float = 0.0
    causes: dict[str, int] = field(default_factory=dict)


def _count(region: Region) -> int:
    return prod(s.stop - s.start for s in region)


def in_process(study: Study, regions: dict[int, Region], keep: Keep, give_up: Keep, bar: Bar) -> Tally:
    """Chunk after chunk, here; while one is computed, the one before it is written."""
    tally, begun = Tally(), time.process_time()
    with _Behind() as behind:
        for index, region in regions.items():
            try:
                output, end = study.compute(region), keep
            except (KeyboardInterrupt, SweepError):
                raise
            except Exception as error:
                output, end = Output.failed(_count(region), reason(error)), give_up
                tally.given_up += 1
            behind.call(end, index, output)
            _tell(tally, bar, _count(region), int(np.sum(output.outcome == FAILED)))
    tally.seconds = time.process_time() - begun
    return tally


class _Behind:
    """Calls in another thread, one at a time: a call waits for the one before it, and raises what that one raised.

    At the end, also at that by an error or Ctrl-C, the last call is waited for: what was computed is kept.
    """

    def __init__(self) -> None:
        self._thread, self._last = ThreadPoolExecutor(1, "sweep-writer"), None

    def __enter__(self) -> _Behind:
        return self

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Begin a call."""
        if self._last is not None:
            self._last.result()
        self._last = self._thread.submit(function, *arguments)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._thread.shutdown(wait=True)
        if self._last is not None and kind is None:
            self._last.result()


def _tell(tally: Tally, bar: Bar, points: int, failed: int) -> None:
    tally.points += points
    tally.failed += failed
    bar.add(points, failed)


# --- on workers -----------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _study(recipe: bytes) -> Study:
    return unpack(recipe)


@lru_cache(maxsize=2)
def _store(path: str) -> Store:
    return Store(path)


def work(
    recipe: bytes, index: int, region: tuple[tuple[int, int], ...], path: str | None
) -> tuple[Output | None, int, float]:
    """One chunk, on a worker: its output (or None if it went to the store), how many points failed, seconds of the processor."""
    begun = time.process_time()
    study = _study(recipe)
    output = study.compute([slice(*bounds) for bounds in region])
    failed = int(np.sum(output.outcome == FAILED))
    if path is None:
        return output, failed, time.process_time() - begun
    _let_next_begin()
    _store(path).write(index, output, study)
    return None, failed, time.process_time() - begun


def _let_next_begin() -> None:
    """The worker computes the next chunk while this thread waits for the disk."""
    from distributed import secede

    secede()


@dataclass
class _Flying:
    """A chunk that was handed out."""

    index: int
    attempts: int
    since: float


class Cluster:
    """Hands chunks to a Dask cluster, few at a time, and again where they fail."""

    def __init__(
        self,
        client: Any,
        study: Study,
        path: Path | None,
        retries: int,
        timeout: float | None,
        bar: Bar,
        keep: Keep,
        give_up: Keep,
        revive: Callable[[], None] | None = None,
    ) -> None:
        self.client, self.study, self.path, self.retries, self.timeout = client, study, path, retries, timeout
        self.bar, self.keep, self.give_up, self.revive = bar, keep, give_up, revive
        self.recipe = pack(study)
        self.flying: dict[Any, _Flying] = {}
        self.waiting: list[tuple[int, int]] = []
        self.tally, self.slowest = Tally(), 0.0

    def run(self, regions: dict[int, Region]) -> Tally:
        """Until every chunk is done or given up."""
        from distributed import wait

        todo = iter(regions)
        try:
            while True:
                self._hand_out(todo, regions)
                if not self.flying:
                    return self.tally
                try:
                    waited: Any = wait(list(self.flying), timeout=POLL, return_when="FIRST_COMPLETED")
                    done = waited.done
                except TimeoutError:
                    done = set()
                for future in done:
                    self._take(future, regions)
                self._look_after(regions)
                if self.revive is not None:
                    self.revive()
        finally:
            self.client.cancel(list(self.flying), force=True)

    def _hand_out(self, todo: Iterator[int], regions: dict[int, Region]) -> None:
        threads = sum(self.client.nthreads().values())
        while len(self.flying) < max(AHEAD * threads, 2):
            index, attempts = self.waiting.pop() if self.waiting else (next(todo, None), 0)
            if index is None:
                return
            bounds = tuple((s.start, s.stop) for s in regions[index])
            path, key = None if self.path is None else str(self.path), f"sweep-{index}-{attempts}-{id(self)}"
            future = self.client.submit(work, self.recipe, index, bounds, path, pure=False, key=key)
            self.flying[future] = _Flying(index, attempts, time.monotonic())

    def _take(self, future: Any, regions: dict[int, Region]) -> None:
        """A chunk came back: done, to be tried again, or given up."""
        flying = self.flying.pop(future)
        if future.status == "finished":
            output, failed, seconds = future.result()
            if output is not None:
                self.keep(flying.index, output)
            self.tally.seconds += seconds
            self.slowest = max(self.slowest, seconds)
            _tell(self.tally, self.bar, _count(regions[flying.index]), failed)
            return
        error = future.exception() if future.status == "error" else RuntimeError("the chunk was lost with its worker")
        if isinstance(error, SweepError):
            raise error
        self._again(flying, regions, reason(error))

    def _again(self, flying: _Flying, regions: dict[int, Region], cause: str) -> None:
        if flying.attempts < self.retries:
            self.waiting.append((flying.index, flying.attempts + 1))
            return
        points = _count(regions[flying.index])
        self.give_up(flying.index, Output.failed(points, f"given up after {flying.attempts + 1} attempts: {cause}"))
        self.tally.given_up += 1
        _tell(self.tally, self.bar, points, points)

    def _look_after(self, regions: dict[int, Region]) -> None:
        """Restart workers that are silent for too long."""
        limit = self.timeout
        if limit is None:
            if not self.slowest:
                return
            limit = max(LEAST_PATIENCE, PATIENCE * self.slowest)
        now = time.monotonic()
        # a chunk may wait for the one before it; a chunk that no worker has yet waits for a worker
        late = {f.key: f for f, flying in self.flying.items() if now - flying.since > limit + self.slowest}
        if not late:
            return
        hanging = {
            worker: keys for worker, keys in self.client.processing().items() if any(key in late for key in keys)
        }
        working = {key for keys in hanging.values() for key in keys}
        for key, future in late.items():
            if key not in working:
                self.flying[future].since = now
                continue
            flying = self.flying.pop(future)
            self.client.cancel([future], force=True)
            self._again(flying, regions, f"no answer for {limit:g} s")
        if hanging:
            try:
                self.client.restart_workers(list(hanging), timeout=30, raise_for_error=False)
            except Exception:  # workers that no nanny looks after are left to those who started them
                return


@dataclass(frozen=True)
class Connection:
    """A Dask client and, where the workers are ours, what replaces those that are gone for good."""

    client: Any
    revive: Callable[[], None] | None = None


@contextmanager
def connected(client: Any, workers: int | None) -> Iterator[Connection]:
    """A connection from what a user gives: "local", an address, a scheduler file or a client."""
    try:
        from distributed import Client
    except ImportError:
        raise SweepError("a sweep on a cluster needs Dask: pip install 'heavytop[cluster]'.") from None
    if isinstance(client, Client):
        yield Connection(client)
        return
    if not isinstance(client, str | Path):
        raise SweepError(
            f"client must be None, 'local', an address, a scheduler file or a dask Client, got {client!r}."
        )
    if client == "local":
        from dask import config

        with config.set(CALM), _local_cluster(workers) as cluster, Client(cluster) as made:
            yield Connection(made, _Nurse(cluster))
        return
    try:
        made = Client(scheduler_file=str(client)) if Path(client).is_file() else Client(str(client), timeout=30)
    except (OSError, ValueError) as error:
        raise SweepError(f"no scheduler answers at {str(client)!r}: {error}.") from error
    with made:
        yield Connection(made)


def _local_cluster(workers: int | None) -> Any:
    """Workers on this machine; a worker that dies while it starts takes the start of all with it, so it is tried again."""
    import logging

    from distributed import LocalCluster

    options: Any = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",  # any free port; none is not an option of Dask
        "silence_logs": logging.CRITICAL,
    }
    for left in reversed(range(STARTS)):
        try:
            return LocalCluster(n_workers=workers, **options)
        except RuntimeError as error:
            if not left:
                raise SweepError(f"the workers cannot be started: {error.__cause__ or error}.") from error
    raise AssertionError


class _Nurse:
    """Replaces workers of a local cluster that are gone for good.

    Dask restarts a worker that dies, but not one that dies while it starts: then its nanny gives up, or takes it for running.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster, self._wanted = cluster, len(cluster.worker_spec)
        self._dead_since: dict[Any, float] = {}

    def __call__(self) -> None:
        if len(self._cluster.scheduler_info["workers"]) < self._wanted:
            self._cluster.loop.add_callback(self._replace)
        else:
            self._dead_since.clear()

    def _replace(self) -> None:
        now, nannies = time.monotonic(), dict(self._cluster.workers)
        dead = {name for name, nanny in nannies.items() if not nanny.is_alive()}
        self._dead_since = {name: self._dead_since.get(name, now) for name in dead}
        closed = {name for name in dead if nannies[name].status.name in ("closed", "failed")}
        late = {name for name, since in self._dead_since.items() if now - since > REPLACED_AFTER}
        for name in closed | late:
            del self._cluster.workers[name], self._dead_since[name]
            if name not in closed:
                self._cluster.loop.add_callback(nannies[name].close)
        self._cluster.scale(self._wanted)
