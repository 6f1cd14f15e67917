"""LLVM IR text -> object code -> functions in memory, through llvmlite."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import mmap
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from heavytop.compile.rows import thread_count
from heavytop.errors import CompileError


@dataclass(frozen=True)
class Machine:
    """The processor that native code is made for."""

    cpu: str
    features: str
    triple: str
    llvm: str

    @property
    def fma(self) -> bool:
        """Whether a fused multiply-add instruction exists."""
        return "+fma" in self.features.split(",") or self.triple.startswith(("aarch64", "arm64"))

    @property
    def x86(self) -> bool:
        """Whether this is a 64-bit processor of the x86 family."""
        return self.triple.startswith("x86_64")

    @property
    def lanes(self) -> int:
        """Number of states evaluated together: 8 with AVX-512, else 4."""
        return 8 if "+avx512f" in self.features.split(",") else 4

    @property
    def label(self) -> str:
        """One line; machines with different labels must not exchange code."""
        return f"{self.triple} {self.cpu} {self.features} LLVM {self.llvm}"


def _binding() -> Any:
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise CompileError(f"llvmlite cannot be imported ({error}); install it to get native code.") from None
    return llvm


@cache
def host() -> Machine:
    """The machine this process runs on.

    Raises
    ------
    CompileError : llvmlite is missing, or native code does not support this machine.
    """
    bits = 64 if sys.maxsize > 2**32 else 32
    if bits == 32 or sys.byteorder != "little":
        raise CompileError(
            f"native code needs a 64-bit little-endian machine; this is {bits}-bit {sys.byteorder}-endian."
        )
    llvm = _binding()
    try:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    except RuntimeError as error:
        raise CompileError(f"llvmlite has no code generator for this processor ({error}).") from None
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # not known on every operating system
        features = ""
    triple = llvm.get_process_triple()
    if sys.platform == "win32":  # the in-memory linker reads ELF objects only
        triple += "-elf"
    return Machine(llvm.get_host_cpu_name(), features, triple, ".".join(str(n) for n in llvm.llvm_version_info))


_THREAD = threading.local()


def _target_machine(machine: Machine, opt: int) -> Any:
    """The code generator of a machine, one for each thread, as compiling changes it."""
    made = _THREAD.__dict__.setdefault("machines", {})
    if (machine, opt) not in made:
        made[machine, opt] = _new_target_machine(machine, opt)
    return made[machine, opt]


def _new_target_machine(machine: Machine, opt: int) -> Any:
    llvm = _binding()
    options: dict[str, Any] = {"jit": True}
    if machine.triple != host().triple:  # host() initialises LLVM for this processor
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        # code at a fixed place in the memory of a page, code that a linker may move elsewhere
        options = {"reloc": "static" if machine.triple.startswith("wasm") else "pic"}
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(cpu=machine.cpu, features=machine.features, opt=opt, **options)


LONG_TEXT = 5_000_000
"""Characters of IR (about fifty thousand instructions) above which code generation is lighter."""


@dataclass(frozen=True)
class ObjectCode:
    """Machine code before loading and its compile time; ``sizes`` of the consecutive objects in ``data``."""

    data: bytes
    seconds: float
    sizes: tuple[int, ...]


def compile_text(text: str, machine: Machine | None = None) -> ObjectCode:
    """Compile LLVM IR into one object for a machine, by default this one.

    Light optimisation of the IR (O1), full code generation (O2). Code of one lane is searched for operations that can be done side by side; elsewhere
    the lanes are vectors already. Long text is mostly straight-line code, for which lighter code generation (O1) gives the same speed.
    """
    start = time.perf_counter()
    data = _object(text, machine or host(), 1 if len(text) > LONG_TEXT else 2, straight=False)
    return ObjectCode(data, time.perf_counter() - start, (len(data),))


def compile_side_by_side(text: str) -> ObjectCode:
    """Compile LLVM IR for this machine, the parts of a long program in separate modules (:func:`.cut_module`), one thread per processor.

    Parts are straight-line code, for which most of LLVM's passes have nothing to do if the lanes are vectors.
    """
    start = time.perf_counter()
    machine, modules = host(), cut_module(text)
    level = 1 if len(text) > LONG_TEXT else 2
    work = [(own, k > 0) for k, own in enumerate(modules)]
    threads = min(thread_count(None), len(work))
    if threads == 1:
        objects = [_object(own, machine, level, straight) for own, straight in work]
    else:
        with ThreadPoolExecutor(threads) as pool:
            objects = list(pool.map(lambda item: _object(item[0], machine, level, item[1]), work))
    sizes = tuple(len(data) for data in objects)
    return ObjectCode(b"".join(objects), time.perf_counter() - start, sizes)


def _object(text: str, machine: Machine, level: int, straight: bool) -> bytes:
    """One object; ``straight``: the text is straight-line code only."""
    llvm = _binding()
    backend = _target_machine(machine, level)
    scalar = " x double>" not in text
    # an own context, since LLVM never frees types and constants of the global one. Closed explicitly, module first: the garbage collector does
    # not keep this order.
    context = llvm.create_context()
    module = None
    try:
        target = f'target triple = "{machine.triple}"\n'
        if machine.triple != host().triple:  # else LLVM assumes the sizes of this machine
            target += f'target datalayout = "{backend.target_data}"\n'
        module = llvm.parse_assembly(target + text, context)
        module.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=1)
        tuning.slp_vectorization = scalar
        tuning.loop_vectorization = False
        with llvm.create_pass_builder(backend, tuning) as builder, _passes(builder, straight and not scalar) as passes:
            _unlocked("LLVMPY_RunNewModulePassManager")(passes, module, builder)
            _release(passes)
            return _emitted(backend, module)
    except RuntimeError as error:
        raise CompileError(f"LLVM rejects the generated code: {error}") from None
    finally:
        if module is not None:
            module.close()
        context.close()


def _passes(builder: Any, straight: bool) -> Any:
    """Optimisations of the IR: all of O1, or those that straight-line code needs."""
    if not straight:
        return builder.getModulePassManager()
    passes = _binding().create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


def _emitted(backend: Any, module: Any) -> bytes:
    """Object code of a module: ``TargetMachine.emit_object`` without the lock, see :func:`_unlocked`."""
    from llvmlite.binding import ffi

    with ffi.OutputString() as complaint:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(backend, module, 1, complaint)
        if not buffer:
            raise RuntimeError(str(complaint))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _unlocked(name: str) -> Any:
    """A function of LLVM that several threads may call at the same time, each with its own context and target machine.

    llvmlite holds one lock during every call, and no public function releases it; if the private ``_cfn`` is missing, the lock remains.
    """
    from llvmlite.binding import ffi

    locked = getattr(ffi.lib, name)
    return getattr(locked, "_cfn", locked)


def _release(passes: Any) -> None:
    """Free a pass manager: up to llvmlite 0.50 its own ``_dispose`` is hidden by an empty one, which leaks 75 kB each time."""
    from llvmlite.binding import ffi, newpassmanagers

    base = getattr(newpassmanagers, "NewPassManager", None)
    if base is not None and type(passes)._dispose is ffi.ObjectRef._dispose:
        base._dispose(passes)


@cache
def executable_memory() -> bool:
    """Whether this process may make memory executable; LLVM aborts the process if not."""
    if sys.platform == "win32":
        return True
    size = mmap.PAGESIZE
    area = mmap.mmap(-1, size)
    try:
        address = ctypes.addressof(ctypes.c_char.from_buffer(area))
        libc = ctypes.CDLL(None, use_errno=True)
        change = libc.mprotect
        change.argtypes, change.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
        allowed = change(address, size, mmap.PROT_READ | mmap.PROT_EXEC) == 0
        if allowed:
            change(address, size, mmap.PROT_READ | mmap.PROT_WRITE)
        return allowed
    finally:
        with contextlib.suppress(BufferError):  # the exported pointer keeps one page alive until it is collected
            area.close()


_ALWAYS = ("memcpy", "memset", "floor", "ceil", "fmin", "fmax")
"""Functions to which LLVM may insert calls."""


@cache
def _c_library() -> Any:
    if sys.platform == "win32":
        return ctypes.CDLL("ucrtbase")
    name = ctypes.util.find_library("m")
    return ctypes.CDLL(name or None)


@cache
def _provide(symbol: str) -> None:
    """Register the address of a C library function with LLVM."""
    llvm = _binding()
    if llvm.address_of_symbol(symbol) is None:
        function = getattr(_c_library(), symbol, None) or getattr(ctypes.CDLL(None), symbol, None)
        if function is None:
            raise CompileError(f"the C library has no function {symbol!r}.")
        llvm.add_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)


def external_functions(text: str) -> list[str]:
    """Names of the functions that IR text declares, without LLVM's intrinsics."""
    return [
        name for name in re.findall(r"^declare [^@]*@([\w.]+)\(", text, re.MULTILINE) if not name.startswith("llvm.")
    ]


class Library:
    """Functions loaded into memory for the life of this object; ``sizes`` of the consecutive objects in ``data``, None for one object."""

    def __init__(self, data: bytes, externals: list[str], sizes: Sequence[int] | None = None) -> None:
        if not executable_memory():
            raise CompileError("this process may not make memory executable (operating system policy).")
        llvm = _binding()
        host()
        for symbol in (*externals, *_ALWAYS):
            _provide(symbol)
        try:
            self._backing = llvm.parse_assembly("")
            self._engine = llvm.create_mcjit_compiler(self._backing, _engine_machine())
            for part in objects(data, sizes):
                self._engine.add_object_file(llvm.ObjectFileRef.from_data(part))
            self._engine.finalize_object()
        except RuntimeError as error:
            raise CompileError(f"LLVM cannot load the object code: {error}") from None

    def address(self, name: str) -> int:
        """Address of an exported function."""
        address = self._engine.get_function_address(name) if _is_symbol(name) else 0
        if not address:
            raise CompileError(f"the object code has no function {name!r}.")
        return address

    def function(self, name: str) -> Any:
        """The function ``void name(void *args)``; Python's lock is released while it runs."""
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.address(name))


def _is_symbol(name: str) -> bool:
    """Whether a text can be the name of a function: LLVM aborts the process on an empty name.

    >>> _is_symbol("rows"), _is_symbol(""), _is_symbol("\\x01f"), _is_symbol("\u00e9")
    (True, False, False, False)
    """
    return name.isascii() and name.isprintable() and bool(name)


def objects(data: bytes, sizes: Sequence[int] | None) -> list[bytes]:
    """The consecutive objects in ``data``.

    >>> objects(b"abcde", (2, 3)), objects(b"abcde", None)
    ([b'ab', b'cde'], [b'abcde'])
    """
    ends = list(accumulate(sizes or (len(data),)))
    return [data[end - size : end] for end, size in zip(ends, sizes or (len(data),), strict=True)]


def _engine_machine() -> Any:
    """A new target machine for every engine, which takes ownership of it."""
    machine = host()
    target = _binding().Target.from_triple(machine.triple)
    return target.create_target_machine(cpu=machine.cpu, features=machine.features, opt=2, jit=True)


def aligned(words: int) -> np.ndarray:
    """``words`` zeroed doubles whose address is a multiple of 64 bytes."""
    raw = np.zeros(words + 8)
    skip = (-raw.ctypes.data % 64) // 8
    return raw[skip : skip + words]


def batch_lanes() -> int:
    """States that this machine evaluates together; 1 without native code."""
    try:
        return host().lanes if native_allowed() else 1
    except CompileError:
        return 1


def native_allowed() -> bool:
    """False if the environment variable HEAVYTOP_NATIVE is 0: then everything is interpreted."""
    return os.environ.get("HEAVYTOP_NATIVE", "1") != "0"


# --- long modules, cut into several that are compiled in parallel ----------------------------------------------------------

SHARE = 150_000
"""Characters of a module of parts, about fifteen hundred instructions."""
_PART = re.compile(r"define internal (void @(\w+_(?:part|text)\d+)\(.*) \{")
_NAME = re.compile(r"@([\w.]+)\(")


def cut_module(text: str, share: int = SHARE) -> tuple[str, ...]:
    """IR text, or if its parts are long enough: everything but the parts, which are declared there, then the parts.

    >>> part = "define internal void @f_part{0}(ptr %x) nounwind {{\\n  store i8 {0}, ptr %x\\n  ret void\\n}}\\n"
    >>> text = part.format(0) + part.format(1) + "define void @f(ptr %x) {\\n  call void @f_part1(ptr %x)\\n  ret void\\n}\\n"
    >>> main, *parts = cut_module(text, share=60)
    >>> len(parts), main.splitlines()[:2]
    (2, ['declare void @f_part0(ptr %x) nounwind', 'declare void @f_part1(ptr %x) nounwind'])
    >>> cut_module(text) == (text,)
    True
    """
    functions, rest = _functions(text)
    heads, bodies = [], []
    helpers: dict[str, str] = {}
    for function in functions:
        if found := _PART.match(function):
            heads.append(f"declare {found[1]}\n")
            bodies.append(function.replace("define internal ", "define ", 1))
        elif found := _NAME.search(function):
            helpers[found[1]] = function
    if sum(map(len, bodies)) < 2 * share:
        return (text,)
    known = "".join(line for line in rest.splitlines(keepends=True) if line.startswith(("declare", "!")))
    groups: list[str] = []
    for body in bodies:
        if groups and len(groups[-1]) + len(body) // 2 <= share:
            groups[-1] += body
        else:
            groups.append(body)
    main = "".join([*heads, rest, *helpers.values()])
    return main, *(group + _called(group, helpers) + known for group in groups)


def _functions(text: str) -> tuple[list[str], str]:
    """The definitions of functions, and everything else."""
    found, rest, at = [], [], 0
    for match in re.finditer(r"^define .*?^\}\n", text, re.MULTILINE | re.DOTALL):
        rest.append(text[at : match.start()])
        found.append(match[0])
        at = match.end()
    return found, "".join([*rest, text[at:]])


def _called(text: str, helpers: dict[str, str]) -> str:
    """The helpers that a text calls, directly or indirectly; they are internal, so every module can have a copy."""
    needed: dict[str, str] = {}
    new: Sequence[str] = [text]
    while new:
        names = {name for body in new for name in _NAME.findall(body)} & (helpers.keys() - needed.keys())
        new = [helpers[name] for name in sorted(names)]
        needed |= {name: helpers[name] for name in sorted(names)}
    return "".join(needed.values())
