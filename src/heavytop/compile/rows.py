"""Arrays as rows with a distance in bytes, of any alignment, and threads over rows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from math import prod

import numpy as np

from heavytop.compile.signature import Shape

_NEVER = threading.Event()  # never set: a single thread is interrupted directly


def rows_of(array: np.ndarray, shape: Shape, batch: Shape) -> tuple[np.ndarray, int]:
    """View ``array`` of shape ``(..., *shape)`` as rows for the broadcast batch, or copy it if necessary.

    Returns the array (rows, size), whose entries within a row are adjacent, and the distance of the rows in bytes:
    zero when one row serves the whole batch.
    """
    size = prod(shape)
    own = array.shape[: array.ndim - len(shape)]
    if prod(own) == 1:
        return np.ascontiguousarray(array).reshape(1, size), 0
    if own != batch:
        array = np.broadcast_to(array, batch + shape)
    flat = array.reshape(prod(batch), size)
    if size > 1 and flat.strides[1] != flat.itemsize:
        flat = np.ascontiguousarray(flat)
    return flat, flat.strides[0]


def thread_count(threads: int | None) -> int:
    """The number of threads; None means one per processor available to this process."""
    if threads is not None:
        return max(1, threads)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parallel(count: int, grain: int, threads: int, work: Callable[[int, int, threading.Event], None]) -> None:
    """Run ``work(start, stop, cancelled)`` over [0, count) on several threads.

    The pieces are contiguous and multiples of ``grain``. The calling thread does the first piece; if it is
    interrupted, the others are stopped by ``cancelled`` and joined. The first exception of any thread is raised.
    """
    pieces = -(-count // grain)
    threads = min(threads, pieces)
    if threads <= 1:
        work(0, count, _NEVER)
        return
    cancelled = threading.Event()
    bounds = [min(count, grain * (pieces * k // threads)) for k in range(threads + 1)]
    failures: list[BaseException] = []

    def guarded(start: int, stop: int) -> None:
        try:
            work(start, stop, cancelled)
        except BaseException as error:
            failures.append(error)
            cancelled.set()

    others = [threading.Thread(target=guarded, args=bounds[k : k + 2], daemon=True) for k in range(1, threads)]
    for thread in others:
        thread.start()
    try:
        work(bounds[0], bounds[1], cancelled)
    except BaseException:
        cancelled.set()
        raise
    finally:
        for thread in others:
            thread.join()
    if failures:
        raise failures[0]
