"""A sweep on the workers of a Dask cluster: few chunks at a time, again and elsewhere where they fail."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from heavytop._pickling import pack, unpack
from heavytop.errors import RecipeError, SweepError
from heavytop.sweep.cases import Output, reason
from heavytop.sweep.engine import Keep, Region, Tally, points_of, tell
from heavytop.sweep.measure import FAILED
from heavytop.sweep.progress import Bar
from heavytop.sweep.store import Store
from heavytop.sweep.study import Study

AHEAD = 3
"""Chunks per thread of the cluster that are handed out: one in work, one being written, one waiting. More would only fill memory."""
PATIENCE, LEAST_PATIENCE = 20.0, 60.0
"""A worker is taken for hanging after so many times the slowest chunk so far, and so many seconds."""
POLL = 1.0
WITHOUT_WORKERS = 20.0
"""Seconds without a worker after which the user is told that the sweep waits for one."""


class NoWorkersWarning(UserWarning):
    """No worker, or not every one, has joined the scheduler: the sweep waits, or begins with those that are there.

    Examples
    --------
    >>> issubclass(NoWorkersWarning, UserWarning)
    True
    """


# --- on workers -----------------------------------------------------------------------------------------------------------------------


class ChunkFailed(Exception):
    """A chunk failed on a worker: why, where, and whether the worker could not even read the study."""

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
) -> tuple[Output | None, int, float, float]:
    """One chunk, on a worker.

    Returns its output (or None if it went to the store), how many points failed, seconds of the processor and of the clock.
    """
    begun, clock = time.process_time(), time.monotonic()
    try:
        study = _study(recipe)
        output = study.compute([slice(*bounds) for bounds in region])
        failed = int(np.sum(output.outcome == FAILED))
        if path is not None:
            _let_next_begin()
            _store(path).write(index, output, study)
    except SweepError:
        raise  # the study is wrong, or the store cannot be written: no worker can help
    except Exception as error:
        raise ChunkFailed(reason(error), _address(), isinstance(error, RecipeError | ImportError)) from None
    return output if path is None else None, failed, time.process_time() - begun, time.monotonic() - clock


def _let_next_begin() -> None:
    """The worker computes the next chunk while this thread waits for the disk."""
    from distributed import secede

    secede()


def _address() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # no worker
        return ""


# --- on the client --------------------------------------------------------------------------------------------------------------------


@dataclass
class _Flying:
    """A chunk that was handed out, and the workers on which it failed."""

    index: int
    attempts: int
    failed_on: frozenset[str]
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
        self.recipe, self.name = (
            pack(study),
            uuid4().hex,
        )  # others may use the scheduler: no key of theirs is one of ours
        self.flying: dict[Any, _Flying] = {}
        self.waiting: list[tuple[int, int, frozenset[str]]] = []
        self.suspects: list[tuple[int, int, frozenset[str]]] = []
        self.alone = False
        self.tally, self.slowest, self.handed = Tally(), 0.0, 0
        self.idle_since: float | None = None

    def run(self, regions: dict[int, Region]) -> Tally:
        """Until every chunk is done or given up."""
        try:
            return self._run(regions)
        except (OSError, asyncio.CancelledError, futures.CancelledError) as error:  # two classes, Dask raises both
            safe = (
                ""
                if self.path is None
                else " What was marked as done is safe; run the same sweep again to do the rest."
            )
            raise SweepError(f"the scheduler does not answer any more: {reason(error)}.{safe}") from error
        finally:
            if self.client.status == "running":
                self.client.cancel(list(self.flying), force=True)

    def _run(self, regions: dict[int, Region]) -> Tally:
        from distributed import wait

        todo = iter(regions)
        while True:
            self._hand_out(todo, regions)
            if not self.flying:
                return self.tally
            try:
                waited: Any = wait(list(self.flying), timeout=POLL, return_when="FIRST_COMPLETED")
                done = waited.done
            except TimeoutError:
                done = set()
            if self.client.status in ("closed", "closing"):
                raise OSError("the connection is closed")
            for future in done:
                self._take(future, regions)
            self._look_after(regions)
            if self.revive is not None:
                self.revive()

    def _hand_out(self, todo: Iterator[int], regions: dict[int, Region]) -> None:
        threads = self.client.nthreads()
        if self.revive is None:
            self._tell_if_no_workers(bool(threads))
        most = max(AHEAD * sum(threads.values()), 2)
        while len(self.flying) < (1 if self.suspects or self.alone else most):
            self.alone = bool(self.suspects)  # whoever may kill its worker runs alone, or others would die with it
            again = self.suspects or self.waiting
            index, attempts, failed_on = again.pop() if again else (next(todo, None), 0, frozenset())
            if index is None:
                return
            bounds = tuple((s.start, s.stop) for s in regions[index])
            others = [worker for worker in threads if worker not in failed_on] if failed_on else []
            self.handed += 1
            future = self.client.submit(
                work,
                self.recipe,
                index,
                bounds,
                None if self.path is None else str(self.path),
                pure=False,
                key=f"sweep-{index}-{attempts}-{self.name}-{self.handed}",
                workers=others or None,
                allow_other_workers=bool(others),
            )
            self.flying[future] = _Flying(index, attempts, failed_on, time.monotonic())

    def _tell_if_no_workers(self, joined: bool) -> None:
        """Say once that there are no workers; those of a queue may come late."""
        now = time.monotonic()
        self.idle_since = None if joined else now if self.idle_since is None else self.idle_since
        if self.idle_since is not None and now - self.idle_since > WITHOUT_WORKERS:
            self.idle_since = float("inf")
            warnings.warn(
                f"no worker has joined the scheduler {self.client.scheduler.address} for {WITHOUT_WORKERS:g} s: the sweep waits for one.",
                NoWorkersWarning,
                stacklevel=4,
            )

    def _take(self, future: Any, regions: dict[int, Region]) -> None:
        """A chunk came back: done, to be tried again, or given up."""
        flying = self.flying.pop(future)
        if future.status == "finished":
            output, failed, seconds, clock = future.result()
            if output is not None:
                self.keep(flying.index, output)
            self.tally.seconds += seconds
            self.slowest = max(self.slowest, clock)
            tell(self.tally, self.bar, points_of(regions[flying.index]), failed)
            return
        error = future.exception() if future.status == "error" else RuntimeError("the chunk was lost with its worker")
        if isinstance(error, SweepError):
            raise error
        unread = isinstance(error, ImportError)  # heavytop itself is not there
        cause = reason(error)
        if isinstance(error, ChunkFailed):
            cause, unread = error.cause, error.unread
            flying.failed_on |= {error.worker}
        killed = type(error).__name__ == "KilledWorker"
        self._again(flying, regions, cause, unread, self.suspects if killed else self.waiting)

    def _again(
        self,
        flying: _Flying,
        regions: dict[int, Region],
        cause: str,
        unread: bool = False,
        line: list[tuple[int, int, frozenset[str]]] | None = None,
    ) -> None:
        if flying.attempts < self.retries:
            (self.waiting if line is None else line).append((flying.index, flying.attempts + 1, flying.failed_on))
            return
        if unread:  # so it would be with every chunk
            where = ", ".join(sorted(flying.failed_on)) or "the workers"
            raise SweepError(f"the study cannot be read by {where}: {cause}")
        points = points_of(regions[flying.index])
        self.give_up(flying.index, Output.failed(points, f"given up after {flying.attempts + 1} attempts: {cause}"))
        self.tally.given_up += 1
        tell(self.tally, self.bar, points, points)

    def _look_after(self, regions: dict[int, Region]) -> None:
        """Restart workers that are silent for too long."""
        limit = self.timeout
        if limit is None:
            if not self.slowest:
                return
            limit = max(LEAST_PATIENCE, PATIENCE * self.slowest)
        now = time.monotonic()
        # a chunk may wait for those that its worker got before; a chunk that no worker has yet waits for a worker
        bound = limit + (AHEAD - 1) * self.slowest
        late = {f.key: f for f, flying in self.flying.items() if now - flying.since > bound}
        if not late:
            return
        hanging = {
            worker: keys for worker, keys in self.client.processing().items() if any(key in late for key in keys)
        }
        working = {key for keys in hanging.values() for key in keys}
        # what a worker got first hangs; what it got later only waited behind, and is not to blame
        guilty = {next(key for key in late if key in keys) for keys in hanging.values()}
        for key, future in late.items():
            if key not in working:
                self.flying[future].since = now
                continue
            flying = self.flying.pop(future)
            self.client.cancel([future], force=True)
            if key in guilty:
                self._again(flying, regions, f"no answer for {limit:g} s")
            else:
                self.waiting.append((flying.index, flying.attempts, flying.failed_on))
        if hanging:
            try:
                self.client.restart_workers(list(hanging), timeout=30, raise_for_error=False)
            except Exception:  # workers that no nanny looks after are left to those who started them
                return
