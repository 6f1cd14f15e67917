"""Memory of large results, used again once nobody holds it.

A fresh array of several megabytes is given page by page by the operating system, which clears each of them first: that takes longer than most
kernels need to fill it. So a kernel keeps the memory of results that were let go, up to a limit, and gives it to the next ones of that size.
"""

from __future__ import annotations

from math import prod
from threading import RLock
from typing import Any
from weakref import ref

import numpy as np

LARGE = 2**17
"""Bytes from which on an array takes pages of its own."""
LIMIT = 2**26
"""Bytes that a kernel keeps at most."""


class Stock:
    """Arrays that are not filled, as ``np.empty`` gives them.

    Examples
    --------
    >>> stock = Stock()
    >>> first = stock.empty((1000, 100))
    >>> where = first.ctypes.data
    >>> del first
    >>> stock.empty((100, 1000)).ctypes.data == where
    True
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._free: dict[int, list[np.ndarray]] = {}  # by size, the one used last at the end
        self._lock = RLock()  # collecting garbage inside may bring back another one

    @property
    def held(self) -> int:
        """Bytes that wait to be used again."""
        return sum(8 * size * len(arrays) for size, arrays in self._free.items())

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of float64 whose entries are not set."""
        size = prod(shape)
        if 8 * size < LARGE or 8 * size > self.limit:
            return np.empty(shape)
        with self._lock:
            waiting = self._free.get(size)
            memory = waiting.pop() if waiting else None
        return np.asarray(_Lease(_aligned(size) if memory is None else memory, shape, ref(self)))

    def take_back(self, memory: np.ndarray) -> None:
        """Keep the memory of an array that nobody holds any more, and forget what was not used for longest."""
        with self._lock:
            waiting = self._free.pop(memory.size, [])
            self._free[memory.size] = [*waiting, memory]
            while self.held > self.limit:
                oldest = next(iter(self._free))
                self._free[oldest].pop()
                if not self._free[oldest]:
                    del self._free[oldest]


def _aligned(size: int) -> np.ndarray:
    """Doubles that are not set, from the beginning of a line of the cache on: whole vectors are stored without crossing one."""
    raw = np.empty(size + 7)
    skip = -raw.ctypes.data % 64 // 8
    return raw[skip : skip + size]


class _Lease:
    """Memory in use: the base of the array that lies there, and of all its views."""

    __slots__ = ("__array_interface__", "_memory", "_stock")

    def __init__(self, memory: np.ndarray, shape: tuple[int, ...], stock: ref[Stock]) -> None:
        self._memory, self._stock = memory, stock
        data: dict[str, Any] = {"shape": shape, "typestr": memory.dtype.str, "version": 3}
        self.__array_interface__ = data | {"data": (memory.ctypes.data, False)}

    def __del__(self) -> None:
        stock = self._stock()
        if stock is not None:
            stock.take_back(self._memory)
