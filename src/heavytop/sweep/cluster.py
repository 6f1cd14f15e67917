"""A sweep on the workers of a Dask cluster: a few chunks at a time, retried on another worker if they fail.

The cluster is one that the user started, or local workers, which are replaced when they die.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from heavytop.errors import RecipeError, SweepError
from heavytop.functions import pack, unpack
from heavytop.sweep.cases import Output, reason
from heavytop.sweep.engine import Keep, Tally
from heavytop.sweep.grid import Chunks
from heavytop.sweep.measure import FAILED
from heavytop.sweep.store import Store
from heavytop.sweep.study import Study

AHEAD = 3
"""Chunks per thread of the cluster that are submitted: one computed, one written, one waiting. More would only fill memory."""
PATIENCE, LEAST_PATIENCE = 20.0, 60.0
"""A worker hangs if it is silent for this multiple of the slowest chunk so far, and for this many seconds."""
POLL = 1.0
WITHOUT_WORKERS = 20.0
"""Seconds without a worker before a warning."""


class NoWorkersWarning(UserWarning):
    """No worker, or not every one, has joined the scheduler: the sweep waits, or starts with those that have joined.

    Examples
    --------
    >>> issubclass(NoWorkersWarning, UserWarning)
    True
    """


# --- on workers -----------------------------------------------------------------------------------------------------------------------


class ChunkFailed(Exception):
    """A chunk failed on a worker: the cause, the address, and whether the worker could not even read the study."""

    def __init__(self, cause: str, worker: str, unread: bool) -> None:
        super().__init__(cause, worker, unread)
        self.cause, self.worker, self.unread = cause, worker, unread


@lru_cache(maxsize=2)
def _study(recipe: bytes) -> Study:
    return unpack(recipe)


@lru_cache(maxsize=2)
def _store(path: str) -> Store:
    return Store(path)


def work(
    recipe: bytes, index: int, region: tuple[tuple[int, int], ...], path: str | None
) -> tuple[Output | None, int, float]:
    """Compute one chunk on a worker.

    Returns its output (None if it went to the store), the number of failed points and the seconds it took.
    """
    from distributed import get_worker, secede

    begin = time.monotonic()
    try:
        study = _study(recipe)
        output = study.compute([slice(*bounds) for bounds in region])
        failed = int(np.sum(output.outcome == FAILED))
        if path is not None:
            secede()  # the worker computes the next chunk while this thread waits for the disk
            _store(path).write(index, output, study)
    except SweepError:
        raise  # the study is wrong, or the store cannot be written: no worker can help
    except Exception as error:
        unread = isinstance(error, RecipeError | ImportError)
        raise ChunkFailed(reason(error), str(get_worker().address), unread) from None
    return output if path is None else None, failed, time.monotonic() - begin


# --- on the client --------------------------------------------------------------------------------------------------------------------


@dataclass
class _Task:
    """A chunk to compute, its earlier attempts, the workers on which it failed, and when it was submitted."""

    index: int
    attempts: int = 0
    failed_on: frozenset[str] = frozenset()
    since: float = 0.0


class Cluster:
    """Submits chunks to a Dask cluster, a few at a time, and again if they fail."""

    def __init__(
        self,
        client: Any,
        study: Study,
        chunks: Chunks,
        path: Path | None,
        retries: int,
        timeout: float | None,
        keep: Keep,
        tally: Tally,
        revive: Callable[[], None] | None = None,
    ) -> None:
        self.client, self.chunks, self.path, self.retries, self.timeout = client, chunks, path, retries, timeout
        self.keep, self.tally, self.revive = keep, tally, revive
        self.recipe = pack(study)
        self.name, self.submitted = uuid4().hex, 0  # keys that are unique on a shared scheduler
        self.running: dict[Any, _Task] = {}
        self.waiting: list[_Task] = []
        self.suspects: list[_Task] = []
        self.alone = False
        self.slowest = 0.0
        self.idle_since: float | None = None

    def run(self, indices: Iterable[int]) -> None:
        """Compute chunks until every one is done or given up."""
        try:
            self._run(iter(indices))
        except (OSError, asyncio.CancelledError, futures.CancelledError) as error:  # two classes, Dask raises both
            safe = (
                "" if self.path is None else " Chunks marked as done are safe; run the same sweep again for the rest."
            )
            raise SweepError(f"the scheduler does not answer any more: {reason(error)}.{safe}") from error
        finally:
            if self.client.status == "running":
                self.client.cancel(list(self.running), force=True)

    def _run(self, indices: Iterator[int]) -> None:
        from distributed import wait

        while True:
            self._submit(indices)
            if not self.running:
                return
            try:
                done = wait(list(self.running), timeout=POLL, return_when="FIRST_COMPLETED").done  # pyright: ignore
            except TimeoutError:
                done = set()
            if self.client.status in ("closed", "closing"):
                raise OSError("the connection is closed")
            for future in done:
                self._collect(future)
            self._restart_hanging()
            if self.revive is not None:
                self.revive()

    def _submit(self, indices: Iterator[int]) -> None:
        threads = self.client.nthreads()
        if self.revive is None:
            self._warn_without_workers(bool(threads))
        most = max(AHEAD * sum(threads.values()), 2)
        while len(self.running) < (1 if self.suspects or self.alone else most):
            self.alone = bool(self.suspects)  # a chunk that may kill its worker runs alone, or others would die with it
            again = self.suspects or self.waiting
            task = again.pop() if again else next((_Task(index) for index in indices), None)
            if task is None:
                return
            others = [worker for worker in threads if worker not in task.failed_on] if task.failed_on else []
            self.submitted += 1
            future = self.client.submit(
                work,
                self.recipe,
                task.index,
                tuple((s.start, s.stop) for s in self.chunks.region(task.index)),
                None if self.path is None else str(self.path),
                pure=False,
                key=f"sweep-{task.index}-{task.attempts}-{self.name}-{self.submitted}",
                workers=others or None,
                allow_other_workers=bool(others),
            )
            task.since = time.monotonic()
            self.running[future] = task

    def _warn_without_workers(self, joined: bool) -> None:
        """Warn once if there are no workers; those of a queue may join late."""
        now = time.monotonic()
        self.idle_since = None if joined else now if self.idle_since is None else self.idle_since
        if self.idle_since is not None and now - self.idle_since > WITHOUT_WORKERS:
            self.idle_since = float("inf")
            warnings.warn(
                f"no worker has joined the scheduler {self.client.scheduler.address} for {WITHOUT_WORKERS:g} s: the sweep waits for one.",
                NoWorkersWarning,
                stacklevel=4,
            )

    def _collect(self, future: Any) -> None:
        """A chunk was returned: keep it, try it again or give it up."""
        task = self.running.pop(future)
        if future.status == "finished":
            output, failed, seconds = future.result()
            if output is not None:
                self.keep(task.index, output, False)
            self.slowest = max(self.slowest, seconds)
            self.tally.add(self.chunks.points(task.index), failed)
            return
        error = future.exception() if future.status == "error" else RuntimeError("the chunk was lost with its worker")
        if isinstance(error, SweepError):
            raise error
        cause, unread = reason(error), isinstance(error, ImportError)  # heavytop itself is not installed there
        if isinstance(error, ChunkFailed):
            cause, unread = error.cause, error.unread
            task.failed_on |= {error.worker}
        killed = type(error).__name__ == "KilledWorker"
        self._retry(task, cause, unread, self.suspects if killed else self.waiting)

    def _retry(self, task: _Task, cause: str, unread: bool, queue: list[_Task]) -> None:
        task.attempts += 1
        if task.attempts <= self.retries:
            queue.append(task)
            return
        if unread:  # every chunk would fail
            where = ", ".join(sorted(task.failed_on)) or "the workers"
            raise SweepError(f"the study cannot be read by {where}: {cause}")
        points = self.chunks.points(task.index)
        self.keep(task.index, Output.failed(points, f"given up after {task.attempts} attempts: {cause}"), True)
        self.tally.add(points, points)

    def _restart_hanging(self) -> None:
        """Restart workers that are silent for too long."""
        limit = self.timeout
        if limit is None:
            if not self.slowest:
                return
            limit = max(LEAST_PATIENCE, PATIENCE * self.slowest)
        now = time.monotonic()
        # a chunk may wait for earlier ones of its worker; a chunk that no worker has yet waits for a worker
        bound = limit + (AHEAD - 1) * self.slowest
        late = {future.key: future for future, task in self.running.items() if now - task.since > bound}
        if not late:
            return
        hanging = {w: keys for w, keys in self.client.processing().items() if any(key in late for key in keys)}
        assigned = {key for keys in hanging.values() for key in keys}
        # the first chunk of a worker hangs; later ones only wait behind it and are not counted as attempts
        blocking = {next(key for key in late if key in keys) for keys in hanging.values()}
        for key, future in late.items():
            if key not in assigned:
                self.running[future].since = now
                continue
            task = self.running.pop(future)
            self.client.cancel([future], force=True)
            if key in blocking:
                self._retry(task, f"no answer for {limit:g} s", False, self.waiting)
            else:
                self.waiting.append(task)
        if hanging:
            with suppress(Exception):  # workers without a nanny are left to those who started them
                self.client.restart_workers(list(hanging), timeout=30, raise_for_error=False)


# --- connections ----------------------------------------------------------------------------------------------------------------------

REPLACED_AFTER = 5.0
"""Seconds after which a dead worker that Dask has not restarted is replaced."""
STARTS = 5
"""Failed starts per worker before the sweep is given up, if no worker has joined."""
LONGEST_START = 60.0
"""Seconds after which a sweep starts with the workers that have joined; without any it ends after STARTS times as long."""
CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1},
}
"""Dask settings for local workers: by default every process profiles itself a hundred times per second and returns memory
that it needs again immediately, which costs some percent of a processor each."""


@contextmanager
def connected(client: Any, workers: int | None) -> Iterator[tuple[Any, Callable[[], None] | None]]:
    """Connect to "local", an address, a scheduler file or a client.

    Yields the client and, for local workers, a function that replaces dead ones.
    """
    try:
        from dask import config
        from distributed import Client
    except ImportError:
        raise SweepError("a sweep on a cluster needs Dask: pip install 'heavytop[cluster]'.") from None
    if isinstance(client, Client):
        yield client, None
    elif client == "local":
        with config.set(CONFIG), _local_cluster(workers) as cluster, Client(cluster) as made:
            local = _LocalWorkers(cluster)
            local.wait()
            yield made, local.replace_dead
    elif isinstance(client, str | Path):
        try:
            made = Client(scheduler_file=str(client)) if Path(client).is_file() else Client(str(client), timeout=30)
        except (OSError, ValueError) as error:
            raise SweepError(f"no scheduler answers at {str(client)!r}: {error}.") from error
        with made:
            yield made, None
    else:
        raise SweepError(
            f"client must be None, 'local', an address, a scheduler file or a dask Client, got {client!r}."
        )


def _local_cluster(workers: int | None) -> Any:
    """A local cluster whose workers start after it: one that dies while it starts must not end the sweep."""
    import logging

    from dask.system import CPU_COUNT
    from distributed import LocalCluster

    count = workers or CPU_COUNT
    cluster = LocalCluster(
        n_workers=0,
        threads_per_worker=1,
        processes=True,
        memory_limit=1.0 / count,  # as a share
        dashboard_address=":0",  # any free port; Dask has no option for none
        silence_logs=logging.CRITICAL,  # pyright: ignore
    )
    cluster.scale(count)
    return cluster


class _LocalWorkers:
    """Workers of a local cluster.

    The nannies of Dask restart a worker that dies, but not one that dies while it starts; such workers are replaced here.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster, self._count = cluster, len(cluster.worker_spec)
        self._dead_since: dict[Any, float] = {}
        self._failed_starts = 0

    @property
    def joined(self) -> int:
        """Number of workers that have joined the scheduler."""
        return len(self._cluster.scheduler_info["workers"])

    def wait(self, pause: float = 0.1) -> None:
        """Wait until all workers have joined, as closing a cluster while they start leaves processes behind; but not for ever."""
        begin = time.monotonic()
        while (joined := self.joined) < self._count:
            waited = time.monotonic() - begin
            if joined and waited > LONGEST_START:
                warnings.warn(
                    f"{joined} of {self._count} workers have started within {LONGEST_START:g} s: the sweep starts with these, the others "
                    "may join later.",
                    NoWorkersWarning,
                    stacklevel=2,
                )
                return
            if waited > STARTS * LONGEST_START:
                raise SweepError(f"the workers cannot be started: none of {self._count} joined within {waited:.0f} s.")
            self.replace_dead()
            time.sleep(pause)

    def replace_dead(self) -> None:
        """Start new workers for those that Dask does not restart."""
        joined = self.joined
        self._failed_starts = 0 if joined else self._failed_starts
        if self._failed_starts > STARTS * self._count:
            raise SweepError(
                f"the workers cannot be started: {self._failed_starts} of them died before they joined. Programs that use client='local' "
                "must do so under if __name__ == '__main__':."
            )
        if joined < self._count:
            self._cluster.loop.add_callback(self._replace)

    def _replace(self) -> None:
        now = time.monotonic()
        dead = {name: nanny for name, nanny in self._cluster.workers.items() if not nanny.is_alive()}
        self._dead_since = {name: self._dead_since.get(name, now) for name in dead}
        for name, nanny in dead.items():
            closed = nanny.status.name in ("closed", "failed")
            if closed or now - self._dead_since[name] > REPLACED_AFTER:
                del self._cluster.workers[name], self._dead_since[name]
                self._failed_starts += 1
                if not closed:
                    self._cluster.loop.add_callback(nanny.close)
        self._cluster.scale(self._count)
