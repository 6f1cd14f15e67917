"""Traced functions and steps -> WebAssembly modules for browsers: no linker, no C library, nothing imported.

The text is that of the native code (:mod:`heavytop.compile.backends.llvm`, :mod:`heavytop.compile.backends.step_loop`) and goes through the same
passes; only the elementary functions are own code (:mod:`heavytop.compile.backends.elementary`), and products are not fused with sums, for which
WebAssembly has no instruction. Two lanes need 128-bit vectors, which all browsers of today have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heavytop.compile.backends.lanes import Lanes
from heavytop.compile.backends.llvm import emit, support
from heavytop.compile.backends.step_loop import driver_module, word_names
from heavytop.compile.backends.wasm_object import module_from_object
from heavytop.compile.jit import Machine, compile_text, host
from heavytop.compile.passes.tiles import part_size
from heavytop.compile.program import Program
from heavytop.compile.schedule import Layout, Schedule
from heavytop.compile.trace import Traced
from heavytop.errors import CompileError

FEATURES = "+bulk-memory,+bulk-memory-opt,+mutable-globals,+nontrapping-fptoint,+sign-ext"
LANES = (1, 2)


@dataclass(frozen=True)
class WasmModule:
    """A module of code.

    Attributes
    ----------
    data : its bytes.
    free : first address of its memory that it does not use itself.
    scratch : bytes of the scratch area that its functions need, aligned to 16.
    lanes : trajectories that are stepped together.
    """

    data: bytes
    free: int
    scratch: int
    lanes: int = 1


def wasm_functions(functions: Mapping[str, Traced]) -> WasmModule:
    """A module that exports traced functions as ``name(inputs..., outputs..., scratch)``; every argument is the address of doubles.

    Examples
    --------
    >>> from heavytop.compile import trace
    >>> square = trace(lambda x: x * x, {"x": (3,)}, name="square")
    >>> wasm_functions({"square": square}).data[:4]
    b'\\x00asm'
    """
    one = Lanes(1)
    programs = {name: Program.from_traced(traced) for name, traced in functions.items()}
    emitted = [emit(program, name, one, part_size(program, one), fma=False) for name, program in programs.items()]
    text = support(list(programs.values()), one, fma=False, libm=False) + "".join(e.text for e in emitted)
    return _compiled(text, max((e.scratch for e in emitted), default=0), 1)


def wasm_step(schedule: Schedule, lanes: int = 1) -> WasmModule:
    """A module that exports the loop over the steps of a schedule as ``run(args)``; see :func:`.word_names` for its argument words (64 bits each).

    Raises
    ------
    CompileError : a number of lanes that WebAssembly does not have.
    """
    if lanes not in LANES:
        raise CompileError(f"WebAssembly has 1 or 2 lanes of 64-bit numbers, got {lanes}.")
    module = driver_module(schedule, Lanes(lanes), fma=False, flush=False, libm=False)
    return _compiled(module.text, module.scratch, lanes)


def step_words(layout: Layout) -> dict[str, Any]:
    """The interface of a step as plain data: names of the argument words, and sizes of all buffers."""
    return {
        "words": word_names(layout),
        "sizes": {name: layout.size(name) for name in layout.shapes},
        "state": list(layout.state),
        "held": list(layout.held),
        "constants": list(layout.constants),
        "tables": list(layout.tables),
        "record": list(layout.record),
    }


def _compiled(text: str, scratch: int, lanes: int) -> WasmModule:
    features = FEATURES + (",+simd128" if lanes > 1 else "")
    machine = Machine("generic", features, "wasm32-unknown-unknown", host().llvm)
    data, free = module_from_object(compile_text(text, machine).data)
    return WasmModule(data, free, 8 * lanes * max(scratch, 1), lanes)
