"""A traced function as native code: arrays in, arrays out, with batch axes.

States are evaluated W at a time, even a single one, so a result never depends on the size of the batch, on the
place of the state in it or on the number of threads, to the last bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from math import prod
from sys import getrefcount
from typing import Any, TypeVar

import numpy as np

from heavytop._arrays import Array
from heavytop.compile.backends.fastcall import MOST_AXES, fast_call, is_supported
from heavytop.compile.backends.kernel_loops import kernel_module
from heavytop.compile.backends.lanes import Lanes
from heavytop.compile.jit import aligned, host
from heavytop.compile.loader import Code, is_cached
from heavytop.compile.native_function import CALL_BUDGET, THREAD_BUDGET, NativeFunction
from heavytop.compile.program import Program
from heavytop.compile.rows import in_parallel, rows_of, thread_count
from heavytop.compile.signature import Shape, Signature
from heavytop.compile.trace import Traced
from heavytop.errors import CompileError, ShapeError, wrong_shape
from heavytop.functions import BoundHere, store

_FLOAT = np.dtype(np.float64)
FAST_CALL_AFTER = 16
"""Calls with single states after which the call without Python code is made, which takes some native code."""
LARGE = 2**17
"""Results of more bytes are recycled."""
POOL_LIMIT = 2**26
"""Bytes of the buffer pool of a kernel."""


class BufferPool:
    """Memory of large results, used again once no one else refers to it.

    The operating system clears fresh pages, which takes longer than most kernels need to fill them.

    >>> pool = BufferPool()
    >>> address = pool.empty((1000, 100)).ctypes.data
    >>> pool.empty((100, 1000)).ctypes.data == address
    True
    """

    def __init__(self, limit: int = POOL_LIMIT) -> None:
        self.limit = limit
        self._arrays: list[np.ndarray] = []  # the one used last at the end
        self._lock = threading.Lock()

    def empty(self, shape: Shape) -> np.ndarray:
        """An uninitialised array of float64."""
        size = prod(shape)
        if not LARGE <= 8 * size <= self.limit:
            return np.empty(shape)
        with self._lock:
            for k in range(len(self._arrays)):
                # all views of an array refer to it: two references are the list's and the argument's
                if self._arrays[k].size == size and getrefcount(self._arrays[k]) == 2:
                    array = self._arrays.pop(k)
                    break
            else:
                array = np.empty(size)
            self._arrays.append(array)
            while sum(kept.nbytes for kept in self._arrays) > self.limit:
                del self._arrays[0]
        return array.reshape(shape)


class _Buffers(threading.local):
    """Scratch area and argument blocks, one set per thread."""

    def __init__(self, signature: Signature, scratch: int, lanes: int) -> None:
        arrays = len(signature.inputs) + len(signature.outputs)
        self.scratch = aligned(max(scratch, 1) * lanes)
        self.words = np.zeros(2 + 2 * arrays, dtype=np.int64)
        self.words[1] = self.scratch.ctypes.data
        self.address = self.words.ctypes.data
        # one state: own buffers, whose addresses are known beforehand
        shapes = [*signature.inputs.values(), *signature.outputs.values()]
        self.places = [aligned(max(prod(shape), 1))[: prod(shape)].reshape(shape) for shape in shapes]
        self.inputs = self.places[: len(signature.inputs)]
        self.outputs = self.places[len(signature.inputs) :]
        self.single = self.words.copy()
        self.single[0] = 1
        self.single[2::2] = [place.ctypes.data for place in self.places]
        self.single_address = self.single.ctypes.data


class Kernel(NativeFunction[Traced, Signature]):
    """Native code of a traced function.

    Parameters
    ----------
    source : the function.
    lanes : number of states evaluated together; None takes the best for the processor (4, or 8 with AVX-512). Results of
        kernels with different ``lanes`` may differ by rounding.
    threads : threads over large batches; None means one per processor.
    fingerprint : a text that determines the function; :meth:`from_cache` finds the code by it without tracing.
    cache : where object code is kept; None takes the default folder.
    chunk : instructions per native function; None decides by size.

    Where native code cannot be made the function is interpreted, after one :class:`NativeCodeWarning`.

    Examples
    --------
    >>> from heavytop.compile.trace import trace
    >>> norm = Kernel(trace(lambda x: np.sqrt(x[0] ** 2 + x[1] ** 2), {"x": (2,)}, name="norm"))
    >>> norm([3.0, 4.0])[0]
    array(5.)
    >>> norm([[3.0, 4.0], [6.0, 8.0]])[0]
    array([ 5., 10.])
    """

    kind = "kernel"

    @staticmethod
    def _module_text(source: Traced, lanes: int, chunk: int | None) -> tuple[str, dict[str, Any]]:
        program = Program.from_traced(source)
        module = kernel_module(program, Lanes(lanes), fma=host().fma, chunk=chunk)
        meta = {
            "signature": asdict(source.signature),
            "lanes": lanes,
            "scratch": module.scratch,
            "instructions": program.operations,
            "chunks": module.chunks,
        }
        return module.text, meta

    @staticmethod
    def _interface_of(source: Traced) -> Signature:
        return source.signature

    @staticmethod
    def _stored_interface(meta: dict[str, Any]) -> Signature:
        return Signature.from_description(meta["signature"])

    def _adopt(self, interface: Signature, code: Code | None) -> None:
        super()._adopt(interface, code)
        self.signature = interface
        if code is None:
            return
        self._shapes, self._results = list(interface.inputs.values()), list(interface.outputs.values())
        self._rows = code.library.function("rows")
        self._buffers = _Buffers(interface, code.meta["scratch"], self.lanes)
        self._fast_call: Callable[..., bool] | None = None
        self._singles = 0
        self._pool = BufferPool()

    def _interpreted_instructions(self) -> int:
        return self._interpreted.instructions if self._interpreted is not None else 0

    @property
    def inputs(self) -> dict[str, Shape]:
        """Trailing shape of each input."""
        return self.signature.inputs

    @property
    def outputs(self) -> dict[str, Shape]:
        """Trailing shape of each output."""
        return self.signature.outputs

    def __call__(self, *arguments: Array, out: Sequence[np.ndarray] | None = None) -> tuple[np.ndarray, ...]:
        """Evaluate; leading axes of the arguments are batch axes and broadcast.

        ``out``: an array for each result, contiguous float64 of the right shape; they are filled and returned.
        """
        if self._interpreted is not None:
            results = self._interpreted.interpret(*arguments)
            return results if out is None else self._into(out, results, [np.shape(result) for result in results])
        call = self._fast_call
        if call is not None:
            places = tuple([np.empty(shape) for shape in self._results]) if out is None else tuple(out)
            if call(*arguments, *places):
                return places
        if len(arguments) == len(self._shapes):
            buffers = self._buffers
            for place, shape, array in zip(buffers.inputs, self._shapes, arguments, strict=True):
                if type(array) is not np.ndarray or array.shape != shape or array.dtype is not _FLOAT:
                    break
                place[...] = array  # one state: into the buffer whose address is in the argument block
            else:
                self._singles += 1
                if self._singles == FAST_CALL_AFTER:
                    self._fast_call = self.fast_call()
                self._rows(buffers.single_address)
                if out is None:
                    return tuple([place.copy() for place in buffers.outputs])
                return self._into(out, buffers.outputs, self._results)
        arrays = self.signature.arrays(arguments)
        return self._many(arrays, self.signature.batch(arrays), out)

    def _into(
        self, out: Sequence[np.ndarray], results: Sequence[np.ndarray], shapes: Sequence[Shape]
    ) -> tuple[np.ndarray, ...]:
        """Copy results of these shapes to the arrays of the caller."""
        self._check_out(out, shapes)
        for place, result in zip(out, results, strict=True):
            place[...] = result
        return tuple(out)

    def _check_out(self, out: Sequence[np.ndarray], shapes: Sequence[Shape]) -> None:
        """``out`` must be C-contiguous float64 arrays of the right shapes."""
        if len(out) != len(shapes):
            raise ShapeError(f"{self.signature.name} has {len(shapes)} results, but out holds {len(out)} arrays.")
        for array, expected, label in zip(out, shapes, self.signature.outputs, strict=True):
            if type(array) is not np.ndarray or array.dtype != np.float64 or array.shape != expected:
                got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
                raise ShapeError(
                    f"out for {label} of {self.signature.name} must be an array float64 {expected}, got {got}."
                )
            if not (array.flags.c_contiguous and array.flags.writeable):
                raise ShapeError(
                    f"out for {label} of {self.signature.name} must be contiguous and writable; give np.empty({expected})."
                )

    def _many(
        self, arrays: Sequence[np.ndarray], batch: Shape, out: Sequence[np.ndarray] | None = None
    ) -> tuple[np.ndarray, ...]:
        count = prod(batch)
        sizes = self.signature.output_sizes
        if out is None:
            results = [self._pool.empty((count, size)) for size in sizes]
        else:
            self._check_out(out, [batch + shape for shape in self.signature.outputs.values()])
            results = [array.reshape(count, size) for array, size in zip(out, sizes, strict=True)]
            if any(np.may_share_memory(a, b) for a in arrays for b in results):
                arrays = [a.copy() for a in arrays]
        if count:
            sources = [rows_of(a, shape, batch) for a, shape in zip(arrays, self._shapes, strict=True)]
            sources += [(result, result.strides[0]) for result in results]
            self._run_rows(count, sources)
        return self.signature.shape_outputs(batch, results) if out is None else tuple(out)

    def _run_rows(self, count: int, sources: Sequence[tuple[np.ndarray, int]]) -> None:
        strides = np.array([stride for _, stride in sources], dtype=np.int64)
        # `ctypes.data` takes four times as long
        bases = np.array([array.__array_interface__["data"][0] for array, _ in sources], dtype=np.int64)
        per_call = max(CALL_BUDGET // self._operations // self.lanes, 1) * self.lanes

        def work(start: int, stop: int, cancelled: threading.Event) -> None:
            buffers = self._buffers
            words = buffers.words
            words[3::2] = strides
            for first in range(start, stop, per_call):
                if cancelled.is_set():
                    return
                words[0] = min(per_call, stop - first)
                words[2::2] = bases + first * strides
                self._rows(buffers.address)

        threads = min(thread_count(self.threads), 1 + count * self._operations // THREAD_BUDGET)
        in_parallel(count, self.lanes, threads, work)

    def packed(self, batches: int) -> Packed:
        """Own aligned arrays ``[batch][variable][lane]`` and the bare loop over them, without any copying."""
        if self._code is None:
            raise CompileError(f"{self.signature.name} is interpreted here; it has no packed form.")
        return Packed(self, batches)

    def fast_call(self, *bound: np.ndarray) -> Callable[..., bool] | None:
        """The kernel for single states with its last inputs bound, see :func:`.fast_call`; None if that is not possible."""
        shapes = list(self.signature.inputs.values())
        free, last = shapes[: len(shapes) - len(bound)], shapes[len(shapes) - len(bound) :]
        results = list(self.signature.outputs.values())
        if self._code is None or [value.shape for value in bound] != last or not is_supported():
            return None
        if max((len(shape) for shape in (*free, *results)), default=0) > MOST_AXES:
            return None
        scratch = self._code.meta["scratch"] * self.lanes
        return fast_call(self._code.library, scratch, free, bound, results)

    def address(self, entry: str = "f") -> int:
        """Address of a native entry: ``f`` (W states), ``rows`` or ``packed`` (see :func:`.kernel_module`)."""
        if self._code is None:
            raise CompileError(f"{self.signature.name} is interpreted here; it has no address.")
        return self._code.library.address(entry)


class Packed(BoundHere):
    """The low-level form of a kernel: ``inputs`` and ``outputs`` are arrays (batches, size, lanes); ``run()``
    evaluates all.

    >>> from heavytop.compile import trace
    >>> kernel = Kernel(trace(lambda x: x * x, {"x": (3,)}, name="square"), lanes=4)
    >>> packed = kernel.packed(batches=2)
    >>> packed.fill(np.ones((8, 3)))
    >>> packed.run()
    >>> packed.results()[0].shape
    (8, 3)
    """

    def __init__(self, kernel: Kernel, batches: int) -> None:
        signature, lanes = kernel.signature, kernel.lanes
        sizes = [*signature.input_sizes, *signature.output_sizes]
        arrays = [aligned(max(batches * size * lanes, 1))[: batches * size * lanes] for size in sizes]
        shaped = [a.reshape(batches, size, lanes) for a, size in zip(arrays, sizes, strict=True)]
        self.inputs, self.outputs = shaped[: len(signature.inputs)], shaped[len(signature.inputs) :]
        scratch = kernel._buffers.scratch.size
        self._scratch = aligned(scratch)
        self._words = np.zeros(2 + 2 * len(sizes), dtype=np.int64)
        self._words[:2] = batches, self._scratch.ctypes.data
        self._words[2::2] = [a.ctypes.data for a in arrays]
        self._words[3::2] = [size * lanes * 8 for size in sizes]
        self._address = self._words.ctypes.data
        self._kernel = kernel
        self._entry = kernel._code.library.function("packed") if kernel._code else None

    def fill(self, *arguments: Array) -> None:
        """Fill the inputs from arrays (batches * lanes, size) or one row for all."""
        for place, argument in zip(self.inputs, arguments, strict=True):
            size = place.shape[1]
            rows = np.asarray(argument, dtype=float).reshape(-1, size) if size else np.zeros((1, 0))
            full = np.broadcast_to(rows, (place.shape[0] * place.shape[2], place.shape[1]))
            place[...] = full.reshape(place.shape[0], place.shape[2], place.shape[1]).transpose(0, 2, 1)

    def run(self) -> None:
        """Evaluate all batches."""
        if self._entry is not None:
            self._entry(self._address)

    def results(self) -> tuple[np.ndarray, ...]:
        """The outputs as arrays (batches * lanes, size)."""
        return tuple(o.transpose(0, 2, 1).reshape(-1, o.shape[1]) for o in self.outputs)


class Bound(BoundHere):
    """``outputs = kernel(*inputs)`` for fixed arrays; a call evaluates the current content of the inputs.

    Parameters
    ----------
    kernel : the function.
    inputs : (count, *shape) rows, or one row (*shape) for all. outputs : (count, *shape). Rows are contiguous float64, with any distance, so that
        they can be parts of larger arrays. Inputs and outputs must not overlap.

    Examples
    --------
    >>> from heavytop.compile import trace
    >>> kernel = Kernel(trace(lambda x: x * x, {"x": (3,)}, name="square"))
    >>> x, y = np.ones((5, 3)), np.zeros((5, 3))
    >>> square = Bound(kernel, [x], [y])
    >>> x[1] = 2.0
    >>> square()
    >>> y[1]
    array([4., 4., 4.])
    """

    def __init__(self, kernel: Kernel, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        signature = kernel.signature
        shapes = [*signature.inputs.items(), *signature.outputs.items()]
        arrays = [*inputs, *outputs]
        if len(inputs) != len(signature.inputs) or len(outputs) != len(signature.outputs):
            raise ShapeError(
                f"{signature.name} has {len(signature.inputs)} inputs and {len(signature.outputs)} outputs, got {len(inputs)} and "
                f"{len(outputs)} arrays."
            )
        self._kernel, self._inputs, self._outputs = kernel, list(inputs), list(outputs)
        count = len(outputs[0])
        words = np.zeros(2 + 2 * len(arrays), dtype=np.int64)
        for k, (array, (label, shape)) in enumerate(zip(arrays, shapes, strict=True)):
            common = k < len(inputs) and array.shape == shape
            if array.shape != ((count, *shape) if not common else shape):
                raise wrong_shape(f"{label} of {signature.name}", (count, *shape), array.shape)
            row = array if common or not count else array[0]
            if array.dtype != np.float64 or not row.flags.c_contiguous:
                raise ShapeError(
                    f"{label} of {signature.name} must be float64 with contiguous rows, got {array.dtype}."
                )
            words[2 + 2 * k], words[3 + 2 * k] = array.ctypes.data, 0 if common or count < 2 else array.strides[0]
        self._native = kernel.native and count * max(kernel.stats().instructions, 1) <= CALL_BUDGET
        if self._native and kernel._code is not None:
            self._scratch = aligned(max(kernel._code.meta["scratch"], 1) * kernel.lanes)
            words[0], words[1] = count, self._scratch.ctypes.data
            self._words, self._address, self._rows = words, words.ctypes.data, kernel._rows

    def __call__(self) -> None:
        if self._native:
            self._rows(self._address)
            return
        for place, result in zip(self._outputs, self._kernel(*self._inputs), strict=True):
            place[...] = result


T = TypeVar("T")


class Functions:
    """One table of everything that is computed from a model; other layers add to it.

    Parameters
    ----------
    trace : name -> traced function, for the model's own catalogue.
    key : determines the equations of the model, so that equal models share native code, also on disk; None: only this model has it.

    Examples
    --------
    >>> from heavytop.compile import trace
    >>> functions = Functions(lambda name: trace(lambda x: x * x, {"x": ()}, name=name))
    >>> functions.kernel("square")(3.0)
    (array(9.),)
    >>> functions.get("table", dict) is functions.get("table", dict)
    True
    """

    def __init__(self, trace: Callable[[str], Traced | None], key: str | None = None) -> None:
        self.key = key
        self._trace = trace
        self._builders: dict[str, Callable[[], Traced | None]] = {}
        self._made: dict[Hashable, Any] = {}

    def add(self, name: str, build: Callable[[], Traced | None]) -> None:
        """Add a function: ``build()`` traces it when it is first needed, or returns None if the model has no such function."""
        self._builders.setdefault(name, build)

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """An object that another layer derives from the model: made once, released together with the model."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def traced(self, name: str) -> Traced | None:
        """The traced function of that name."""
        return self.get(("traced", name), self._builders.get(name, lambda: self._trace(name)))

    def kernel(self, name: str, lanes: int | None = None, threads: int | None = 1) -> Kernel | None:
        """The function of that name as native code."""
        return self.get((name, lanes, threads), lambda: self._kernel(name, lanes, threads))

    def in_cache(self, name: str) -> bool:
        """Whether native code of the function exists already."""
        return self.key is not None and is_cached(Kernel.kind, f"{self.key} {name}")

    def _kernel(self, name: str, lanes: int | None, threads: int | None) -> Kernel | None:
        if self.key is None:
            traced = self.traced(name)
            return None if traced is None else Kernel(traced, lanes, threads)
        text = f"{self.key} {name}"

        def build() -> Kernel | None:
            found = Kernel.from_cache(text, lanes, threads)
            if found is None and (traced := self.traced(name)) is not None:
                found = Kernel(traced, lanes, threads, fingerprint=text)
            return found

        return store.get(("kernel", text, lanes, threads), build)
