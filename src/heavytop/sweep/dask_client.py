"""Connections to Dask clusters: workers on this machine that are replaced when they die, or a cluster that someone started."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heavytop.errors import SweepError
from heavytop.sweep.cluster import NoWorkersWarning

REPLACED_AFTER = 5.0
"""Seconds after which a dead worker that Dask has not restarted is replaced."""
STARTS = 5
"""How often each worker on this machine is started without any of them beginning to work before it is given up."""
LONGEST_START = 60.0
"""Seconds after which a sweep begins with the workers that are there; without any it ends after so many for each of the starts."""
STARTING = 0.1
"""Seconds between looks at workers that start."""
CALM = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1},
}
"""Settings of Dask for workers on this machine: by default every process looks at itself a hundred times a second and hands memory back
that it needs again at once, which costs some percent of a processor each."""


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
            nurse = _Nurse(cluster)
            nurse.wait()
            yield Connection(made, nurse)
        return
    try:
        made = Client(scheduler_file=str(client)) if Path(client).is_file() else Client(str(client), timeout=30)
    except (OSError, ValueError) as error:
        raise SweepError(f"no scheduler answers at {str(client)!r}: {error}.") from error
    with made:
        yield Connection(made)


def _local_cluster(workers: int | None) -> Any:
    """A cluster on this machine whose workers start by and by: one that dies while it starts must not take the others with it."""
    import logging

    from dask.system import CPU_COUNT
    from distributed import LocalCluster

    count = workers or CPU_COUNT
    cluster = LocalCluster(
        n_workers=0,
        threads_per_worker=1,
        processes=True,
        memory_limit=1.0 / count,  # as a share
        dashboard_address=":0",  # any free port; none is not an option of Dask
        silence_logs=logging.CRITICAL,  # pyright: ignore
    )
    cluster.scale(count)
    return cluster


class _Nurse:
    """Replaces workers of a local cluster that are gone for good.

    Dask restarts a worker that dies, but not one that dies while it starts: then its nanny gives up, or takes it for running.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster, self._wanted = cluster, len(cluster.worker_spec)
        self._dead_since: dict[Any, float] = {}
        self._in_vain = 0

    def __call__(self) -> None:
        joined = len(self._cluster.scheduler_info["workers"])
        self._in_vain = 0 if joined else self._in_vain
        if self._in_vain > STARTS * self._wanted:
            raise SweepError(
                f"the workers cannot be started: {self._in_vain} of them died before they began to work. Programs that use client='local' "
                "do so under if __name__ == '__main__':."
            )
        if joined < self._wanted:
            self._cluster.loop.add_callback(self._replace)
        else:
            self._dead_since.clear()

    def wait(self) -> None:
        """Until all workers are there, as a cluster that is closed while they start leaves some behind; but not for ever."""
        begun = time.monotonic()
        while (joined := len(self._cluster.scheduler_info["workers"])) < self._wanted:
            waited = time.monotonic() - begun
            if joined and waited > LONGEST_START:
                warnings.warn(
                    f"{joined} of {self._wanted} workers have started within {LONGEST_START:g} s: the sweep begins with these, the others "
                    "may join later.",
                    NoWorkersWarning,
                    stacklevel=2,
                )
                return
            if waited > STARTS * LONGEST_START:
                raise SweepError(
                    f"the workers cannot be started: none of {self._wanted} began to work within {waited:.0f} s."
                )
            self()
            time.sleep(STARTING)

    def _replace(self) -> None:
        now, nannies = time.monotonic(), dict(self._cluster.workers)
        dead = {name for name, nanny in nannies.items() if not nanny.is_alive()}
        self._dead_since = {name: self._dead_since.get(name, now) for name in dead}
        closed = {name for name in dead if nannies[name].status.name in ("closed", "failed")}
        late = {name for name, since in self._dead_since.items() if now - since > REPLACED_AFTER}
        for name in closed | late:
            del self._cluster.workers[name], self._dead_since[name]
            self._in_vain += 1
            if name not in closed:
                self._cluster.loop.add_callback(nannies[name].close)
        self._cluster.scale(self._wanted)
