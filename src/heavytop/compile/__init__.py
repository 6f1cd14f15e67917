"""From a traced function to native code, C, NumPy source and SymPy.

``trace`` records a function; ``Kernel`` runs it as native code over batches.
"""

from heavytop.compile.backends.c99 import Precision, c_function, literal
from heavytop.compile.backends.c_export import (
    MARK,
    Footprint as Footprint,
    c_texts,
    check_replaceable,
    export_c as export_c,
)
from heavytop.compile.backends.c_schedule import ScheduleText, c_schedule
from heavytop.compile.backends.numpy_source import numpy_function as numpy_function, numpy_source as numpy_source
from heavytop.compile.backends.sympy_expr import convert, sympy_expressions as sympy_expressions
from heavytop.compile.backends.wasm import WasmModule, step_words, wasm_functions, wasm_step
from heavytop.compile.cache import Cache as Cache, CacheWarning as CacheWarning, cache_folder as cache_folder
from heavytop.compile.derivatives import adjoint, reached_outputs, tangent
from heavytop.compile.jit import batch_lanes, executable_memory, host, native_allowed
from heavytop.compile.kernel import Bound as Bound, Functions as Functions, Kernel as Kernel, Packed as Packed
from heavytop.compile.loader import NativeCodeWarning as NativeCodeWarning
from heavytop.compile.native_function import KernelStats as KernelStats
from heavytop.compile.program import Instruction as Instruction, Op as Op, Program as Program
from heavytop.compile.schedule import TIME, Call as Call, Repeat as Repeat, Schedule as Schedule
from heavytop.compile.signature import Shape as Shape, Signature as Signature
from heavytop.compile.stepper import BoundSteps as BoundSteps, Stepper as Stepper, Steps as Steps
from heavytop.compile.trace import (
    NOT_MATH,
    Traced as Traced,
    holds_nan,
    make_function as make_function,
    on_symbols as on_symbols,
    trace as trace,
    trace_of as trace_of,
    with_aside as with_aside,
)
