"""Memory of large results is used again, and only when no one refers to it."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from heavytop.compile import Kernel, trace
from heavytop.compile.kernel import LARGE, BufferPool

ROWS = LARGE // 8


def double() -> Kernel:
    return Kernel(trace(lambda x: 2 * x, {"x": (1,)}, name="double"))


def test_results_that_are_held_never_change() -> None:
    kernel, results = double(), []
    for k in range(6):
        results.append(kernel(np.full((ROWS, 1), float(k)))[0])
    for k, result in enumerate(results):
        assert np.all(result == 2.0 * k)
        assert result.flags.writeable
        assert result.flags.c_contiguous


def test_a_view_holds_the_memory() -> None:
    kernel = double()
    view = kernel(np.full((ROWS, 1), 1.0))[0][5:9].T
    gc.collect()
    for k in range(3):
        kernel(np.full((ROWS, 1), 3.0 + k))
    assert np.all(view == 2.0)


def test_released_memory_is_used_again() -> None:
    kernel = double()
    places = [kernel(np.ones((ROWS, 1)))[0].ctypes.data for _ in range(4)]
    assert len(set(places)) == 1


def test_a_pool_is_bounded_and_drops_the_oldest() -> None:
    pool = BufferPool(limit=3 * LARGE)
    for extra in range(10):
        first, second = pool.empty((ROWS + extra,)), pool.empty((ROWS + extra,))
        assert first.ctypes.data != second.ctypes.data
        del first, second
        assert sum(array.nbytes for array in pool._arrays) <= pool.limit
    assert pool.empty((10 * ROWS,)).base is None
    assert pool.empty((3,)).base is None


def test_an_array_outlives_its_kernel() -> None:
    kernel = double()
    result = kernel(np.ones((ROWS, 1)))[0]
    del kernel
    gc.collect()
    assert np.all(result == 2.0)
    del result


def test_several_threads() -> None:
    kernel = double()

    def work(k: int) -> bool:
        return all(bool(np.all(kernel(np.full((ROWS, 1), float(k + j)))[0] == 2.0 * (k + j))) for j in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))
