"""A kernel as a built-in function of CPython: a call with suitable arrays of one state runs no Python code.

Python passes arguments as pointers to objects. The fields of a NumPy array have fixed offsets in its object (the header
``ndarraytypes.h`` that every extension is compiled against): data, number of axes, their lengths, type of entries, flags. A native function,
compiled once for all kernels, compares them with the requirements of a kernel and writes the addresses into its argument block. It returns False
if anything differs, and the caller takes the general path, which converts, broadcasts or raises an error. The offsets are tested before use.

Python's global lock is held during a call, so one argument block and one scratch area serve all threads; without that lock there is no fast call.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from heavytop.compile.backends.lanes import Writer
from heavytop.compile.jit import Library, aligned, compile_text
from heavytop.compile.signature import Shape

TYPE, DATA, AXES, LENGTHS, ENTRIES, FLAGS = 8, 16, 24, 32, 56, 64
"""Offsets in an array object in bytes: its class, data, number of axes (32 bits), their lengths, type of entries, flags (32 bits)."""
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
MOST_AXES = 5
_HEAD, _EACH = 8, 3 + MOST_AXES
_FASTCALL = 0x80


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Words(np.ndarray):
    """The data of a call; ``kept`` are the objects that must live as long as this one."""

    kept: tuple[Any, ...]


def fast_call(
    code: Library, scratch: int, inputs: Sequence[Shape], bound: Sequence[np.ndarray], outputs: Sequence[Shape]
) -> Callable[..., bool]:
    """A kernel for single states as a built-in function of its inputs and then its outputs.

    They must be contiguous arrays of float64 of exactly the right shapes; then the outputs are filled and the result is True. Otherwise nothing
    is done and the result is False.

    Parameters
    ----------
    code : with the kernel's loop ``rows``. scratch : doubles of its scratch area.
    inputs, outputs : shapes, without those of the last inputs, whose values are ``bound``.
    """
    count = len(inputs) + len(bound) + len(outputs)
    area = aligned(max(scratch, 1))
    fixed = [np.array(value, dtype=float, order="C") for value in bound]
    block = np.zeros(2 + 2 * count, dtype=np.int64)  # as kernels read it: count, scratch, (address, stride) ...
    block[:2] = 1, area.ctypes.data
    for k, value in enumerate(fixed, len(inputs)):
        block[2 + 2 * k] = value.ctypes.data
    given = [(shape, CONTIGUOUS | ALIGNED, k) for k, shape in enumerate(inputs)]
    places = enumerate(outputs, len(inputs) + len(bound))
    given += [(shape, CONTIGUOUS | ALIGNED | WRITEABLE, k) for k, shape in places]
    api: Any = ctypes.pythonapi
    words = np.zeros(_HEAD + _EACH * len(given), dtype=np.int64).view(_Words)
    words[:_HEAD] = (
        code.address("rows"),
        block.ctypes.data,
        ctypes.cast(api.Py_IncRef, ctypes.c_void_p).value,
        id(True),
        id(False),
        id(np.ndarray),
        id(np.dtype(np.float64)),
        len(given),
    )
    for k, (shape, flags, place) in enumerate(given):
        at = _HEAD + _EACH * k
        words[at : at + 3] = len(shape), flags, 2 + 2 * place
        words[at + 3 : at + 3 + len(shape)] = shape
    entry = _entry()
    method = _Method(b"fast", entry.address("fast"), _FASTCALL, None)
    words.kept = code, area, fixed, block, entry, method
    api.PyCFunction_NewEx.restype = ctypes.py_object
    api.PyCFunction_NewEx.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return api.PyCFunction_NewEx(ctypes.addressof(method), words, None)


@cache
def is_supported() -> bool:
    """Whether arrays and functions have the layout assumed by this module."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    fixed = np.arange(6.0)
    fixed.flags.writeable = False
    samples = [np.zeros((2, 3, 5))[:, ::2], np.zeros(4), fixed, np.zeros(()), np.zeros(3, dtype=np.float32)]
    return sys.getsizeof(samples[1]) >= FLAGS + 4 and all(_has_layout(array) for array in samples)


def _has_layout(array: np.ndarray) -> bool:
    def word(place: int) -> int:
        return ctypes.c_int64.from_address(id(array) + place).value

    def half(place: int) -> int:
        return ctypes.c_int32.from_address(id(array) + place).value

    flags = half(FLAGS)
    found = [bool(flags & bit) for bit in (CONTIGUOUS, ALIGNED, WRITEABLE)]
    if half(AXES) != array.ndim or found != [array.flags.c_contiguous, array.flags.aligned, array.flags.writeable]:
        return False
    lengths = tuple(ctypes.c_int64.from_address(word(LENGTHS) + 8 * k).value for k in range(array.ndim))
    return (word(TYPE), word(DATA), word(ENTRIES), lengths) == (
        id(np.ndarray),
        array.ctypes.data,
        id(array.dtype),
        array.shape,
    )


@cache
def _entry() -> Library:
    """The native function ``fast(self, args, count)``, a PyCFunctionFast whose ``self`` is a :class:`_Words`."""
    w = Writer()

    def field(kind: str, base: str, offset: int) -> str:
        return w.let(f"load {kind}, ptr {w.let(f'getelementptr i8, ptr {base}, i64 {offset}')}, align 4")

    def item(kind: str, base: str, index: str) -> str:
        return w.let(f"load {kind}, ptr {w.let(f'getelementptr {kind}, ptr {base}, i64 {index}')}")

    def require_equal(kind: str, a: str, b: str) -> None:
        following = w.fresh("equal")
        w.do(f"br i1 {w.let(f'icmp eq {kind} {a}, {b}')}, label %{following}, label %different")
        w.start(following)

    words = field("ptr", "%self", DATA)
    rows, block, increase, true, false, array_type, double = (field("ptr", words, 8 * k) for k in range(_HEAD - 1))
    count = field("i64", words, 8 * (_HEAD - 1))

    def check(k: str) -> None:
        array = item("ptr", "%args", k)
        at = w.integer("add", w.integer("mul", k, _EACH), _HEAD)
        wanted = w.let(f"getelementptr i64, ptr {words}, i64 {at}")
        axes, flags, place = (field("i64", wanted, 8 * n) for n in range(3))
        require_equal("ptr", field("ptr", array, TYPE), array_type)
        require_equal("ptr", field("ptr", array, ENTRIES), double)
        require_equal("i64", w.let(f"zext i32 {field('i32', array, AXES)} to i64"), axes)
        found = w.let(f"zext i32 {field('i32', array, FLAGS)} to i64")
        require_equal("i64", w.let(f"and i64 {found}, {flags}"), flags)
        lengths, wanted_lengths = field("ptr", array, LENGTHS), w.let(f"getelementptr i64, ptr {wanted}, i64 3")

        def check_length(j: str) -> None:
            require_equal("i64", item("i64", lengths, j), item("i64", wanted_lengths, j))

        w.loop("0", 1, lambda j: w.test("sge", j, axes), check_length)
        target = w.let(f"getelementptr i64, ptr {block}, i64 {place}")
        w.do(f"store ptr {field('ptr', array, DATA)}, ptr {target}")

    require_equal("i64", "%given", count)
    w.loop("0", 1, lambda k: w.test("sge", k, count), check)
    w.label("run")
    w.do(f"call void {rows}(ptr {block})")
    w.do("br label %end")
    w.start("different")
    w.label("end")
    w.do(f"%result = phi ptr [ {true}, %run ], [ {false}, %different ]")
    w.do(f"call void {increase}(ptr %result)")
    w.do("ret ptr %result")
    text = f"define ptr @fast(ptr %self, ptr %args, i64 %given) nounwind {{\n{w.text()}\n}}\n"
    return Library(compile_text(text).data, [])
