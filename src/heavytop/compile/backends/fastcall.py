"""A kernel as a function of CPython itself: a call with the right arrays of one state runs no Python code at all.

Python hands over its arguments as pointers to objects. What a NumPy array is made of stands at fixed places of its object (the header
``ndarraytypes.h`` that every extension is compiled against): data, number of axes, their lengths, type of entries, flags. A native function,
compiled once for all kernels, compares them with what a kernel needs and writes the addresses into its argument block. It returns False
where anything differs, and the caller goes the way that converts, broadcasts or explains. The places are tried out before they are relied
upon.

Python's lock is held during a call, so one argument block and one scratch area serve all threads; without a lock there is no quick way.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from heavytop.compile.jit import Library, aligned, compile_text
from heavytop.compile.signature import Shape

TYPE, DATA, AXES, LENGTHS, ENTRIES, FLAGS = 8, 16, 24, 32, 56, 64
"""Places in an array object in bytes: its class, data, number of axes (32 bits), their lengths, type of entries, flags (32 bits)."""
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
    """What a call needs to know, and in ``kept`` all that must live as long as someone may call."""

    kept: tuple[Any, ...]


def fast_call(
    code: Library,
    scratch: int,
    inputs: Sequence[Shape],
    bound: Sequence[np.ndarray],
    outputs: Sequence[Shape],
) -> Callable[..., bool]:
    """A kernel for single states as a built-in function of its inputs and then its outputs.

    They must be arrays of float64, contiguous and of exactly the right shapes; then the outputs are filled and the result is True. Else nothing
    is done and it is False.

    Parameters
    ----------
    code : with the kernel's loop ``rows``. scratch : doubles of its scratch area.
    inputs, outputs : shapes, without those of the last inputs, which are ``bound``.
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
        len(given),
        id(np.ndarray),
        id(np.dtype(np.float64)),
        ctypes.cast(api.Py_IncRef, ctypes.c_void_p).value,
        id(True),
        id(False),
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
    """Whether arrays and functions are laid out here as this module takes for granted."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    fixed = np.arange(6.0)
    fixed.flags.writeable = False
    samples = [np.zeros((2, 3, 5))[:, ::2], np.zeros(4), fixed, np.zeros(()), np.zeros(3, dtype=np.float32)]
    return sys.getsizeof(samples[1]) >= FLAGS + 4 and all(_as_expected(array) for array in samples)


def _as_expected(array: np.ndarray) -> bool:
    def word(place: int) -> int:
        return ctypes.c_int64.from_address(id(array) + place).value

    def half(place: int) -> int:
        return ctypes.c_int32.from_address(id(array) + place).value

    flags = half(FLAGS)
    told = [bool(flags & bit) for bit in (CONTIGUOUS, ALIGNED, WRITEABLE)]
    if half(AXES) != array.ndim or told != [array.flags.c_contiguous, array.flags.aligned, array.flags.writeable]:
        return False
    lengths = tuple(ctypes.c_int64.from_address(word(LENGTHS) + 8 * k).value for k in range(array.ndim))
    seen = word(TYPE), word(DATA), word(ENTRIES), lengths
    return seen == (id(np.ndarray), array.ctypes.data, id(array.dtype), array.shape)


@cache
def _entry() -> Library:
    return Library(compile_text(_TEXT).data, [])


def _field(kind: str, name: str, base: str, place: str) -> str:
    return (
        f"  %{name}.at = getelementptr i8, ptr {base}, i64 {place}\n  %{name} = load {kind}, ptr %{name}.at, align 4\n"
    )


_TEXT = (
    "define ptr @fast(ptr %self, ptr %args, i64 %given) nounwind {\n"
    + _field("ptr", "words", "%self", str(DATA))
    + "".join(
        _field(kind, name, "%words", str(8 * k))
        for k, (name, kind) in enumerate(
            {
                "rows": "ptr",
                "block": "ptr",
                "count": "i64",
                "class": "ptr",
                "double": "ptr",
                "increase": "ptr",
                "true": "ptr",
                "false": "ptr",
            }.items()
        )
    )
    + """  %all = icmp eq i64 %given, %count
  br i1 %all, label %arrays, label %slow
arrays:
  %k = phi i64 [ 0, %0 ], [ %k.next, %good ]
  %finished = icmp eq i64 %k, %count
  br i1 %finished, label %run, label %look
look:
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %object.at
"""
    + f"  %from = mul i64 %k, {8 * _EACH}\n"
    + f"  %from.head = add i64 %from, {8 * _HEAD}\n"
    + "  %wanted = getelementptr i8, ptr %words, i64 %from.head\n"
    + _field("ptr", "kind", "%object", str(TYPE))
    + """  %array = icmp eq ptr %kind, %class
  br i1 %array, label %inside, label %slow
inside:
"""
    + _field("ptr", "data", "%object", str(DATA))
    + _field("i32", "axes", "%object", str(AXES))
    + _field("ptr", "lengths", "%object", str(LENGTHS))
    + _field("ptr", "entries", "%object", str(ENTRIES))
    + _field("i32", "flags", "%object", str(FLAGS))
    + _field("i64", "axes.wanted", "%wanted", "0")
    + _field("i64", "flags.wanted", "%wanted", "8")
    + _field("i64", "place", "%wanted", "16")
    + """  %real = icmp eq ptr %entries, %double
  %flags.wide = zext i32 %flags to i64
  %flags.there = and i64 %flags.wide, %flags.wanted
  %flagged = icmp eq i64 %flags.there, %flags.wanted
  %axes.wide = zext i32 %axes to i64
  %shaped = icmp eq i64 %axes.wide, %axes.wanted
  %some = and i1 %real, %flagged
  %fits = and i1 %some, %shaped
  br i1 %fits, label %axis, label %slow
axis:
  %j = phi i64 [ 0, %inside ], [ %j.next, %next ]
  %through = icmp eq i64 %j, %axes.wide
  br i1 %through, label %good, label %compare
compare:
  %length.at = getelementptr i64, ptr %lengths, i64 %j
  %length = load i64, ptr %length.at
  %j.place = add i64 %j, 3
  %length.wanted.at = getelementptr i64, ptr %wanted, i64 %j.place
  %length.wanted = load i64, ptr %length.wanted.at
  %equal = icmp eq i64 %length, %length.wanted
  br i1 %equal, label %next, label %slow
next:
  %j.next = add i64 %j, 1
  br label %axis
good:
  %target = getelementptr i64, ptr %block, i64 %place
  store ptr %data, ptr %target
  %k.next = add i64 %k, 1
  br label %arrays
run:
  call void %rows(ptr %block)
  br label %end
slow:
  br label %end
end:
  %result = phi ptr [ %true, %run ], [ %false, %slow ]
  call void %increase(ptr %result)
  ret ptr %result
}
"""
)
