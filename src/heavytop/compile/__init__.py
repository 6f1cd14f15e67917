"""From a traced function to native code, C, NumPy source and SymPy.

``trace`` records a function; ``Kernel`` runs it as native code over batches.
"""

from heavytop.compile.backends.c_export import Footprint as Footprint
from heavytop.compile.backends.c_export import export_c as export_c
from heavytop.compile.backends.numpy_source import numpy_function as numpy_function
from heavytop.compile.backends.numpy_source import numpy_source as numpy_source
from heavytop.compile.backends.sympy_expr import sympy_expressions as sympy_expressions
from heavytop.compile.bound_kernel import Bound as Bound
from heavytop.compile.cache import Cache as Cache
from heavytop.compile.cache import CacheWarning as CacheWarning
from heavytop.compile.cache import cache_folder as cache_folder
from heavytop.compile.kernel import Kernel as Kernel
from heavytop.compile.kernel import Packed as Packed
from heavytop.compile.loader import NativeCodeWarning as NativeCodeWarning
from heavytop.compile.native_function import KernelStats as KernelStats
from heavytop.compile.program import Instruction as Instruction
from heavytop.compile.program import Op as Op
from heavytop.compile.program import Program as Program
from heavytop.compile.registry import Functions as Functions
from heavytop.compile.schedule import Call as Call
from heavytop.compile.schedule import Repeat as Repeat
from heavytop.compile.schedule import Schedule as Schedule
from heavytop.compile.signature import Shape as Shape
from heavytop.compile.signature import Signature as Signature
from heavytop.compile.stepper import Stepper as Stepper
from heavytop.compile.stepper import Steps as Steps
from heavytop.compile.trace import Traced as Traced
from heavytop.compile.trace import make_function as make_function
from heavytop.compile.trace import on_symbols as on_symbols
from heavytop.compile.trace import trace as trace
from heavytop.compile.trace import trace_of as trace_of
