"""Connections to Dask clusters: local workers that are replaced when they die, or a cluster that the user started."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heavytop.errors import SweepError
from heavytop.sweep.cluster import NoWorkersWarning

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
