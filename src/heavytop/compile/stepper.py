"""Run a schedule natively: many steps of many trajectories in one call."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.compile.backends.lanes import Lanes
from heavytop.compile.backends.step_loop import HEAD, driver_module, word_names
from heavytop.compile.jit import aligned, host
from heavytop.compile.loader import Code
from heavytop.compile.native_function import CALL_BUDGET, THREAD_BUDGET, NativeFunction
from heavytop.compile.rows import in_parallel, rows_of, thread_count
from heavytop.compile.schedule import STEP, TIME, Call, Item, Layout, Schedule
from heavytop.compile.signature import Shape
from heavytop.errors import ShapeError, unknown_name, wrong_shape
from heavytop.functions import BoundHere

_FLOAT = np.dtype(np.float64)
_PLACE = {name: HEAD.index(name) for name in HEAD}
_FIRST, _TIME = _PLACE["first"], _PLACE["start_time"]


@dataclass(frozen=True)
class Steps:
    """Result of a run of a stepper.

    Attributes
    ----------
    state : name -> final value (*batch, *shape); values held by slower calls are included, so a run can be continued.
    records : name -> (records, *batch, *shape).
    recorded : numbers of the recorded steps (records,).
    failed : (*batch,) number of the step after which the state was first not finite; -1 if it stayed finite.

    Examples
    --------
    >>> Steps({"x": np.zeros(2)}, {"x": np.zeros((3, 2))}, np.arange(3), np.array(-1)).records["x"].shape
    (3, 2)
    """

    state: dict[str, np.ndarray]
    records: dict[str, np.ndarray]
    recorded: np.ndarray
    failed: np.ndarray


@dataclass
class _Job:
    """The arrays of one run, flattened to (trajectories, size)."""

    batch: Shape
    first: int
    steps: int
    every: int
    start_time: float
    step_size: float
    state: dict[str, np.ndarray]
    constants: dict[str, tuple[np.ndarray, int]]
    tables: dict[str, tuple[np.ndarray, int, int]]
    hold: dict[str, int]
    records: dict[str, np.ndarray]
    failed: np.ndarray

    @property
    def count(self) -> int:
        return prod(self.batch)


class _SingleRun(threading.local):
    """Buffers of one trajectory with known addresses, one set per thread.

    A short run of one trajectory spends more time on its arrays than on its steps. Here they are allocated once for each thread; a run
    copies its state there, and only its results are new arrays.

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
            if table.flags.c_contiguous:
                address = _address(table)
            else:
                if (
                    not table[0].flags.c_contiguous
                ):  # samples may be in any order, also backwards; the numbers of a sample are neighbours
                    table = np.ascontiguousarray(table)
                address = table.__array_interface__["data"][0]
            kept.append(table)
            words[at], words[at + 2] = address, table.strides[0]
            words[at + 3], words[at + 4] = len(table), hold.get(name, 1)
        count = steps // every + 1 if every else 0
        records, at = {}, self._first_record
        for name, shape, size in self._records:
            array = records[name] = np.empty((count, *batch, *shape))
            words[at], words[at + 1], words[at + 2] = _address(array), size, size
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


class Stepper(NativeFunction[Schedule, Layout]):
    """A schedule as native code.

    Parameters
    ----------
    source : the calls of one step.
    lanes, threads, fingerprint, cache, chunk : as for :class:`.Kernel`; threads share the trajectories.

    Examples
    --------
    An explicit Euler step of a falling stone, twice:

    >>> from heavytop.compile import Call, Schedule, trace
    >>> fall = trace(lambda z, v, h: (z + h * v, v - 9.81 * h), {"z": (), "v": (), "h": ()}, name="fall")
    >>> step = Call("fall", ("z", "v", "h"), ("z", "v"))
    >>> schedule = Schedule({"fall": fall}, {"z": (), "v": (), "h": ()}, ("z", "v"), [step], constants=("h",))
    >>> Stepper(schedule).run({"z": 1.0, "v": 0.0}, {"h": 0.1}, steps=2).records["z"]
    array([1.    , 1.    , 0.9019])
    """

    kind = "stepper"

    @staticmethod
    def _module_text(source: Schedule, lanes: int, chunk: int | None) -> tuple[str, dict[str, Any]]:
        module = driver_module(source, Lanes(lanes), fma=host().fma, flush=host().x86, chunk=chunk)
        meta = {
            "layout": asdict(source.layout),
            "lanes": lanes,
            "tile": module.tile,
            "scratch": module.scratch,
            "instructions": module.operations,
        }
        return module.text, meta

    @staticmethod
    def _interface_of(source: Schedule) -> Layout:
        return source.layout

    @staticmethod
    def _stored_interface(meta: dict[str, Any]) -> Layout:
        return Layout.from_description(meta["layout"])

    def _adopt(self, interface: Layout, code: Code | None) -> None:
        super()._adopt(interface, code)
        self.layout = interface
        self._single: _SingleRun | None = None
        if code is not None:
            self._tile: int = code.meta["tile"] * self.lanes
            self._run = code.library.function("run")
            self._single = _SingleRun(interface, self._run, max(code.meta["scratch"], 1) * self.lanes)
            self._steps_per_call = CALL_BUDGET // (self._operations * self._tile) - 1

    @property
    def operations(self) -> int:
        """Operations of a step; 0 if it is interpreted."""
        return self._operations if self._code is not None else 0

    def run(
        self,
        state: Mapping[str, Array],
        constants: Mapping[str, Array] | None = None,
        tables: Mapping[str, Array] | None = None,
        *,
        steps: int,
        step_size: float = 1.0,
        start_time: float = 0.0,
        first: int = 0,
        record_every: int = 1,
        hold: Mapping[str, int] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Steps:
        """Do ``steps`` steps.

        Parameters
        ----------
        state : (*batch, *shape) for every state buffer (and for held ones when a run is continued).
        constants : (*batch, *shape) for every constant.
        tables : (samples, *batch, *shape) for every table; sample k // hold serves step k, the last one beyond the end.
        step_size, start_time : the buffer ``time`` is start_time + k step_size in step k.
        first : number of the first step.
        record_every : steps between records, the first of which is taken before the first step; 0 records nothing.
        hold : steps per sample of each table, 1 if not given.
        progress : called with the fraction done, from time to time, by the calling thread.
        """
        if (
            self._single is not None
            and progress is None
            and 0 <= steps <= self._steps_per_call
            and first >= 0 <= record_every
        ):
            done = self._single.run(
                state, constants or {}, tables or {}, hold or {}, first, steps, record_every, start_time, step_size
            )
            if done is not None:
                after, records, failed, count = done
                return Steps(after, records, np.arange(first, first + count * record_every, record_every or 1), failed)
        job = self._job(state, constants or {}, tables or {}, hold or {}, first, steps, record_every)
        job.start_time, job.step_size = float(start_time), float(step_size)
        if self._interpreted is not None:
            _interpret(self._interpreted, job)
        elif job.count:
            self._native(job, progress)
        shapes = self.layout.shapes
        recorded = np.arange(first, first + steps + 1, record_every) if record_every else np.zeros(0, dtype=int)
        return Steps(
            {name: flat.reshape(job.batch + shapes[name]) for name, flat in job.state.items()},
            {name: flat.reshape(len(recorded), *job.batch, *shapes[name]) for name, flat in job.records.items()},
            recorded,
            job.failed.reshape(job.batch),
        )

    def _job(
        self,
        state: Mapping[str, Array],
        constants: Mapping[str, Array],
        tables: Mapping[str, Array],
        hold: Mapping[str, int],
        first: int,
        steps: int,
        every: int,
    ) -> _Job:
        """Check names and shapes, find the batch, flatten."""
        layout = self.layout
        if steps < 0 or every < 0 or first < 0:
            raise ShapeError(f"steps, record_every and first must not be negative, got {steps}, {every} and {first}.")
        if wrong := {name: n for name, n in hold.items() if n < 1}:
            raise ShapeError(f"a sample must be held for at least one step, got hold={wrong}.")
        for kind, given, needed, allowed in (
            ("state", state, layout.state, layout.persistent),
            ("constant", constants, layout.constants, layout.constants),
            ("table", tables, layout.tables, layout.tables),
            ("table", hold, (), layout.tables),
        ):
            if wrong := [name for name in given if name not in allowed]:
                raise unknown_name(kind, wrong[0], allowed)
            if missing := [name for name in needed if name not in given]:
                shape = layout.shapes[missing[0]]
                raise ShapeError(f"the {kind} {missing[0]!r} of trailing shape {shape} is missing.")
        values = {name: np.asarray(a, dtype=float) for name, a in {**state, **constants, **tables}.items()}
        batch = self._batch(values)
        count, sizes = prod(batch), layout.sizes
        flat_state = {}
        for name in layout.persistent:
            flat_state[name] = np.zeros((count, sizes[name]))
            if name in state:
                flat_state[name].reshape(batch + layout.shapes[name])[...] = values[name]
        records = steps // every + 1 if every else 0
        return _Job(
            batch,
            first,
            steps,
            every,
            0.0,
            1.0,
            flat_state,
            {name: rows_of(values[name], layout.shapes[name], batch) for name in layout.constants},
            {name: _table(values[name], layout.shapes[name], batch) for name in layout.tables},
            {name: int(hold.get(name, 1)) for name in layout.tables},
            {name: np.empty((records, count, sizes[name])) for name in layout.record},
            np.full(count, -1, dtype=np.int64),
        )

    def _batch(self, values: Mapping[str, np.ndarray]) -> Shape:
        """The batch axes that all arrays broadcast to."""
        batches = set()
        for name, array in values.items():
            shape, lead = self.layout.shapes[name], int(name in self.layout.tables)
            if array.ndim < len(shape) + lead or array.shape[array.ndim - len(shape) :] != shape:
                raise wrong_shape(f"{name!r}", ("samples",) * lead + ("...", *shape), array.shape)
            if lead and array.shape[0] == 0:
                raise ShapeError(f"the table {name!r} has no samples.")
            batches.add(array.shape[lead : array.ndim - len(shape)])
        if len(batches) == 1:
            return batches.pop()
        try:
            return np.broadcast_shapes(*batches)
        except ValueError:
            raise ShapeError(f"batch axes do not broadcast: { {n: a.shape for n, a in values.items()} }.") from None

    def _words_of(self, job: _Job, scratch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The argument words in the order of :func:`.word_names`, and how each grows with the first trajectory."""
        start_time, step_size = struct.unpack("=2q", struct.pack("=2d", job.start_time, job.step_size))
        head = {
            "scratch": _address(scratch),
            "final": job.first + job.steps,
            # without records the next one is due after the end
            "first": job.first if job.every else job.first - 1,
            "every": job.every or job.steps + 2,
            "start_time": start_time,
            "step_size": step_size,
            "failed": _address(job.failed),
        }
        words = [head.get(name, 0) for name in HEAD]
        growth = [8 if name == "failed" else 0 for name in HEAD]
        rows = [(array, array.strides[0]) for array in job.state.values()]
        for array, stride in (*rows, *job.constants.values()):
            words += (_address(array), stride)
            growth += (stride, 0)
        for name, (array, sample, stride) in job.tables.items():
            words += (_address(array), stride, sample, array.shape[0], job.hold[name])
            growth += (stride, 0, 0, 0, 0)
        for array in job.records.values():
            words += (_address(array), array.strides[1], array.strides[0])
            growth += (array.strides[1], 0, 0)
        return np.array(words, dtype=np.int64), np.array(growth, dtype=np.int64)

    def _native(self, job: _Job, progress: Callable[[float], None] | None) -> None:
        """Blocks of trajectories, and of steps where even a tile of them takes long; the result does not depend on them."""
        code = self._code
        if code is None:
            return
        total = job.steps + 1
        rows_per_call = max(CALL_BUDGET // (self._operations * total) // self._tile, 1) * self._tile
        steps_per_call = max(CALL_BUDGET // (self._operations * rows_per_call), 1)
        main = threading.current_thread()

        def work(start: int, stop: int, cancelled: threading.Event) -> None:
            scratch = aligned(max(code.meta["scratch"], 1) * self.lanes)
            basis, growth = self._words_of(job, scratch)
            words = basis.copy()
            place_of_words = _address(words)
            for row in range(start, stop, rows_per_call):
                words[:] = basis + row * growth if row else basis
                words[_PLACE["count"]] = min(rows_per_call, stop - row)
                for step in range(0, total, steps_per_call):
                    if cancelled.is_set():
                        return
                    words[_PLACE["begin"]] = job.first + step
                    words[_PLACE["end"]] = job.first + min(step + steps_per_call, total)
                    self._run(place_of_words)
                    if progress is not None and threading.current_thread() is main:
                        done = (row - start) + rows_per_call * min(step + steps_per_call, total) / total
                        progress(min(1.0, done / (stop - start)))

        threads = min(thread_count(self.threads), 1 + job.count * total * self._operations // THREAD_BUDGET)
        in_parallel(job.count, self.lanes, threads, work)


class BoundSteps(BoundHere):
    """A stepper bound to fixed arrays: each call advances the states in place.

    Nothing is copied or allocated, so another program's loop can call it for every step. Constants and tables are read at every call.

    Parameters
    ----------
    stepper : the schedule as native code.
    state : name -> (count, *shape) for every persistent buffer.
    constants, tables : name -> (count, *shape), or (*shape) for all trajectories; a table has one sample, which is held.
    records : name -> (count, *shape) for recorded buffers: their values after the last step of a call. Without them nothing is recorded.
    step_size : increment of the buffer ``time`` per step.

    Rows are contiguous float64 with any stride between them, so they can be columns of a larger array. ``failed`` (count,) is -1, or the first
    step of the last call after which a state was not finite.

    Examples
    --------
    >>> from heavytop.compile import Call, Schedule, trace
    >>> fall = trace(lambda z, v, h: (z + h * v, v - 9.81 * h), {"z": (), "v": (), "h": ()}, name="fall")
    >>> step = Call("fall", ("z", "v", "h"), ("z", "v"))
    >>> schedule = Schedule({"fall": fall}, {"z": (), "v": (), "h": ()}, ("z", "v"), [step], constants=("h",))
    >>> z, v = np.ones(3), np.zeros(3)
    >>> advance = BoundSteps(Stepper(schedule), {"z": z, "v": v}, {"h": np.array(0.1)})
    >>> advance(2)
    >>> z
    array([0.9019, 0.9019, 0.9019])
    """

    def __init__(
        self,
        stepper: Stepper,
        state: Mapping[str, np.ndarray],
        constants: Mapping[str, np.ndarray] | None = None,
        tables: Mapping[str, np.ndarray] | None = None,
        records: Mapping[str, np.ndarray] | None = None,
        step_size: float = 1.0,
    ) -> None:
        layout = stepper.layout
        self._stepper, self._step_size = stepper, float(step_size)
        for kind, given, needed in (
            ("state", state, layout.persistent),
            ("constant", constants or {}, layout.constants),
            ("table", tables or {}, layout.tables),
            ("record", records or {}, layout.record if records else ()),
        ):
            if wrong := [name for name in given if name not in needed]:
                raise unknown_name(kind, wrong[0], needed)
            if missing := [name for name in needed if name not in given]:
                raise ShapeError(f"the {kind} {missing[0]!r} of trailing shape {layout.shapes[missing[0]]} is missing.")
        count = len(next(iter(state.values()))) if state else 0
        self._own = {name: self._rows(name, state[name], count) for name in layout.persistent}
        read = {**(constants or {}), **(tables or {})}
        self._shared = {name: self._rows(name, array, count, shared=True) for name, array in read.items()}
        self._records = {name: self._rows(name, array, count) for name, array in (records or {}).items()}
        self.failed = np.full(count, -1, dtype=np.int64)
        if stepper.native:
            self._basis, self._growth = self._words()
            self._scratch: dict[int, np.ndarray] = {}

    def _rows(self, name: str, array: np.ndarray, count: int, shared: bool = False) -> tuple[np.ndarray, int]:
        """The array and the distance of its rows in bytes; 0 if one row serves all."""
        shape = self._stepper.layout.shapes[name]
        common = shared and array.shape == shape
        if array.shape != (shape if common else (count, *shape)):
            raise wrong_shape(f"{name!r}", (count, *shape), array.shape)
        row = array if common or not count else array[0]
        if array.dtype != np.float64 or not (row.flags.c_contiguous or row.ndim == 0):
            raise ShapeError(f"{name!r} must be float64 with contiguous rows, got {array.dtype}.")
        if not shared and not array.flags.writeable:
            raise ShapeError(f"{name!r} must be writable, since the steps change it in place.")
        return array, 0 if common or not array.ndim else array.strides[0]

    def _words(self) -> tuple[np.ndarray, np.ndarray]:
        """The argument words in the order of :func:`.word_names`, and how each grows with the first trajectory."""
        layout = self._stepper.layout
        words = [0] * len(HEAD)
        growth = [8 if name == "failed" else 0 for name in HEAD]
        words[_PLACE["failed"]] = self.failed.ctypes.data
        words[_PLACE["step_size"]] = struct.unpack("=q", struct.pack("=d", self._step_size))[0]
        for name in (*layout.persistent, *layout.constants):
            array, stride = self._own[name] if name in self._own else self._shared[name]
            words += (array.ctypes.data, stride)
            growth += (stride, 0)
        for name in layout.tables:
            array, stride = self._shared[name]
            words += (array.ctypes.data, stride, 0, 1, 1)
            growth += (stride, 0, 0, 0, 0)
        for name in layout.record:
            array, stride = self._records.get(name, (np.zeros(0), 0))
            words += (array.ctypes.data if array.size else 0, stride, 0)
            growth += (stride, 0, 0)
        return np.array(words, dtype=np.int64), np.array(growth, dtype=np.int64)

    def __call__(self, steps: int = 1, start_time: float = 0.0) -> None:
        """Do ``steps`` steps, numbered from 0, from ``start_time`` on."""
        self.failed.fill(-1)
        count = len(self.failed)
        if not count or steps < 1:
            return
        code, stepper = self._stepper._code, self._stepper
        if code is None:
            self._interpret(steps, start_time)
            return
        recorded = bool(self._records)
        total = steps + recorded
        per_call = max(CALL_BUDGET // (stepper._operations * count), 1)
        basis = self._basis
        basis[_PLACE["final"]] = steps
        # the only record is taken in step ``final``: it is the first one after -1 at a distance of steps + 1, or later than the end
        basis[_FIRST], basis[_PLACE["every"]] = -1, steps + 1 + (not recorded)
        basis.view(np.float64)[_TIME] = start_time

        def work(start: int, stop: int, cancelled: threading.Event) -> None:
            scratch = self._scratch.get(start)
            if scratch is None:
                scratch = self._scratch[start] = aligned(max(code.meta["scratch"], 1) * stepper.lanes)
            words = basis + start * self._growth if start else basis.copy()
            words[_PLACE["scratch"]], words[_PLACE["count"]] = scratch.ctypes.data, stop - start
            for step in range(0, total, per_call):
                if cancelled.is_set():
                    return
                words[_PLACE["begin"]], words[_PLACE["end"]] = step, min(step + per_call, total)
                stepper._run(words.ctypes.data)

        threads = min(thread_count(stepper.threads), 1 + count * total * stepper._operations // THREAD_BUDGET)
        in_parallel(count, stepper.lanes, threads, work)

    def _interpret(self, steps: int, start_time: float) -> None:
        stepper, layout = self._stepper, self._stepper.layout
        arrays = {name: array for name, (array, _) in (self._own | self._shared).items()}
        tables = {name: arrays[name][None] for name in layout.tables}
        done = stepper.run(
            {name: arrays[name] for name in layout.persistent}, {name: arrays[name] for name in layout.constants}, tables,
            steps=steps, step_size=self._step_size, start_time=start_time, record_every=steps if self._records else 0,
        )  # fmt: skip
        for name, (array, _) in self._own.items():
            array[...] = done.state[name]
        for name, (array, _) in self._records.items():
            array[...] = done.records[name][-1]
        self.failed[...] = done.failed


def _address(array: np.ndarray) -> int:
    """Address of an array; zero if it is empty."""
    if not array.size:
        return 0
    buffer: Any = array
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))  # three times as fast as array.ctypes.data
    except (TypeError, ValueError):  # read only, or with gaps
        return array.ctypes.data


def _table(array: np.ndarray, shape: Shape, batch: Shape) -> tuple[np.ndarray, int, int]:
    """A table as (samples, rows, size) with the distances of samples and rows in bytes; zero if all share the rows."""
    samples, size = array.shape[0], prod(shape)
    own = array.shape[1 : array.ndim - len(shape)]
    if own == batch and prod(own) > 1 and array[0].flags.c_contiguous:  # samples in any order, also backwards
        flat = array.reshape(samples, prod(own), size)
        return flat, flat.strides[0], 8 * size
    if prod(own) == 1:
        flat = np.ascontiguousarray(array).reshape(samples, 1, size)
        return flat, flat.strides[0], 0
    lead = len(batch) - len(own)
    full = np.broadcast_to(array.reshape(samples, *(1,) * lead, *own, *shape), (samples, *batch, *shape))
    flat = np.ascontiguousarray(full).reshape(samples, prod(batch), size)
    return flat, flat.strides[0], flat.strides[1]


def _interpret(schedule: Schedule, job: _Job) -> None:
    """The same loop by CasADi's virtual machine, all trajectories at once."""
    layout = schedule.layout
    buffers: dict[str, np.ndarray] = dict(job.state)
    for name, (array, _) in job.constants.items():
        buffers[name] = np.broadcast_to(array, (job.count, array.shape[1]))

    def call(item: Call, k: int) -> None:
        if k % item.every:
            return
        traced = schedule.functions[item.function]
        shapes = zip(item.inputs, traced.inputs.values(), strict=True)
        arguments = [buffers[name].reshape(job.count, *shape) for name, shape in shapes]
        for name, result in zip(item.outputs, traced.interpret(*arguments), strict=True):
            buffers[name] = result.reshape(job.count, layout.size(name))

    def do(items: Sequence[Item], k: int) -> None:
        for item in items:
            if isinstance(item, Call):
                call(item, k)
                continue
            for _ in range(item.times):
                if item.done is not None and np.all(buffers[item.done]):
                    break
                do(item.body, k)

    for k in range(job.first, job.first + job.steps + 1):
        buffers[STEP] = np.full((job.count, 1), float(k))
        buffers[TIME] = np.full((job.count, 1), job.start_time + k * job.step_size)
        for name, (array, _, _) in job.tables.items():
            sample = array[min(k // job.hold[name], array.shape[0] - 1)]
            buffers[name] = np.broadcast_to(sample, (job.count, sample.shape[1]))
        do(schedule.sample, k)
        if job.every and (k - job.first) % job.every == 0:
            do(schedule.observe, 0)
            for name, record in job.records.items():
                record[(k - job.first) // job.every] = buffers[name]
        if k == job.first + job.steps:
            break
        do(schedule.advance, k)
        finite = np.all([np.isfinite(buffers[name]).all(axis=1) for name in layout.state], axis=0)
        job.failed[~finite & (job.failed < 0)] = k + 1
    for name in layout.persistent:
        job.state[name] = buffers[name]
