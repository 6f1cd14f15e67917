"""One trajectory at a time: its state, its constants and the argument words have buffers with known addresses.

A short run of one trajectory spends more time on its arrays than on its steps. Here they are allocated once for each thread; a run
copies its state there, and only its results are new arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heavytop.compile.backends.step_loop import HEAD, word_names
from heavytop.compile.jit import address, aligned
from heavytop.compile.schedule import Layout
from heavytop.compile.signature import Shape

_FLOAT = np.dtype(np.float64)
_PLACE = {name: HEAD.index(name) for name in HEAD}
_FIRST, _TIME = _PLACE["first"], _PLACE["start_time"]


class SingleRun(threading.local):
    """Buffers of one trajectory, one set per thread.

    Parameters
    ----------
    run : the native loop, a function of the address of its argument words.
    scratch : doubles of the scratch area.
    """

    def __init__(self, layout: Layout, run: Callable[[int], Any], scratch: int) -> None:
        names = word_names(layout)
        self._run, self._layout = run, layout
        self._scratch = aligned(scratch)
        lasting = (*layout.persistent, *layout.constants)
        values = aligned(max(sum(layout.size(name) for name in lasting), 1))
        self._failed = np.zeros(1, dtype=np.int64)
        self._words = words = np.zeros(len(names), dtype=np.int64)
        self._numbers = words.view(np.float64)
        self._address = words.ctypes.data
        words[_PLACE["count"]], words[_PLACE["scratch"]] = 1, self._scratch.ctypes.data
        words[_PLACE["failed"]] = self._failed.ctypes.data
        self._state, self._constants = frozenset(layout.state), frozenset(layout.constants)
        self._table_names = frozenset(layout.tables)
        self._places: dict[str, tuple[np.ndarray, Shape, Shape]] = {}
        begin = 0
        for name in lasting:
            size, shape = layout.size(name), layout.shapes[name]
            place = values[begin : begin + size].reshape(shape)
            self._places[name] = place, shape, (1, *shape)
            at = names.index(f"{name}.base")
            words[at], words[at + 1] = values.ctypes.data + 8 * begin, 8 * size
            begin += size
        self._records = [(name, layout.shapes[name], 8 * layout.size(name)) for name in layout.record]
        self._tables = [(name, layout.shapes[name], names.index(f"{name}.base")) for name in layout.tables]
        self._first_record = names.index(f"{layout.record[0]}.record.base") if layout.record else len(names)

    def run(
        self,
        state: Mapping[str, np.ndarray],
        constants: Mapping[str, np.ndarray],
        tables: Mapping[str, np.ndarray],
        hold: Mapping[str, int],
        first: int,
        steps: int,
        every: int,
        start_time: float,
        step_size: float,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray, int] | None:
        """New state, records, number of the failed step (shaped like the batch) and number of records; None if these are not arrays of one run."""
        layout, places, words = self._layout, self._places, self._words
        if not self._state <= state.keys() or constants.keys() != self._constants or tables.keys() != self._table_names:
            return None
        if hold and (min(hold.values()) < 1 or not hold.keys() <= self._table_names):
            return None
        batch: Shape = ()
        for given in (state, constants):
            for name, array in given.items():
                found = places.get(name)
                if found is None or type(array) is not np.ndarray or array.dtype is not _FLOAT:
                    return None
                place, shape, alone = found
                if array.shape != shape:
                    if array.shape != alone:
                        return None
                    batch = (1,)
                place[...] = array
        for name in layout.held:
            if name not in state:
                places[name][0][...] = 0.0
        kept = []
        for name, shape, at in self._tables:
            table = tables.get(name)
            if type(table) is not np.ndarray or table.dtype is not _FLOAT or not len(table):
                return None
            own = table.shape[1:]
            if own != shape:
                if own != (1, *shape):
                    return None
                batch = (1,)
            table = np.ascontiguousarray(table)
            kept.append(table)
            words[at], words[at + 2] = address(table), table.strides[0]
            words[at + 3], words[at + 4] = len(table), hold.get(name, 1)
        count = steps // every + 1 if every else 0
        records, at = {}, self._first_record
        for name, shape, size in self._records:
            array = records[name] = np.empty((count, *batch, *shape))
            words[at], words[at + 1], words[at + 2] = address(array), size, size
            at += 3
        # first, begin, end, final, every: as in HEAD; without records the next one is due after the end
        words[_FIRST:_TIME] = (
            first if every else first - 1,
            first,
            first + steps + 1,
            first + steps,
            every or steps + 2,
        )
        self._numbers[_TIME], self._numbers[_TIME + 1] = start_time, step_size
        self._failed[0] = -1
        self._run(self._address)
        if batch:
            after = {name: places[name][0][None].copy() for name in layout.persistent}
        else:
            after = {name: places[name][0].copy() for name in layout.persistent}
        return after, records, self._failed.reshape(batch).copy(), count
