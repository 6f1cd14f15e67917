"""Trace a function written in NumPy notation into a CasADi function of flat vectors.

A :class:`Traced` function has named inputs and outputs of fixed trailing shape. Each is one dense column,
row by row (C order), which is also the layout of every back end. It can be interpreted here (CasADi's
virtual machine), inspected, or handed to a back end of :mod:`heavytop.compile`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, as_array, from_sx, is_symbolic, shape, symbol, to_sx
from heavytop._format import safe_name
from heavytop.compile.signature import Shape, Signature
from heavytop.errors import HeavytopError, ModelError
from heavytop.functions import Value

if TYPE_CHECKING:
    import casadi

NOT_MATH = (
    "Write it with NumPy (np.sin, np.where) and ht.vector(a, b) for np.array([a, b]), not with math.sin, float() or if."
)


@dataclass(frozen=True, eq=False)
class Traced(Value):
    """A traced function: the expression graph with the names and shapes of its inputs and outputs.

    Attributes
    ----------
    function : casadi.Function with one dense column per input and output, after common-subexpression elimination.
    inputs, outputs : name -> trailing shape.
    parts : two functions of the same inputs, if the outputs are those of both (:func:`with_aside`); empty otherwise.

    Examples
    --------
    >>> square = trace(lambda x: x * x, {"x": (3,)}, name="square")
    >>> square.inputs, square.outputs
    ({'x': (3,)}, {'out': (3,)})
    >>> square(np.arange(3.0))
    (array([0., 1., 4.]),)
    """

    name: str
    function: casadi.Function
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    parts: tuple[Traced, ...] = ()

    @cached_property
    def signature(self) -> Signature:
        """Names and shapes without the expression graph."""
        return Signature(self.name, self.inputs, self.outputs)

    @property
    def input_sizes(self) -> tuple[int, ...]:
        """Number of scalars of each input."""
        return self.signature.input_sizes

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """Number of scalars of each output."""
        return self.signature.output_sizes

    @property
    def instructions(self) -> int:
        """Number of scalar instructions, inputs and outputs included."""
        return self.function.n_instructions()

    def interpret(self, *arguments: Array) -> tuple[np.ndarray, ...]:
        """Evaluate with CasADi's virtual machine: no compilation, about a hundred times slower than native code."""
        batch, flat = self.signature.flat_inputs(arguments)
        count = prod(batch)
        if count == 0:
            return self.signature.shape_outputs(batch, [np.zeros((0, size)) for size in self.output_sizes])
        function = self.function if count == 1 else self.function.map(count)
        results = function.call([a.T for a in flat])
        return self.signature.shape_outputs(batch, [result.full().T for result in results])

    def expressions(self, *arguments: Array) -> tuple[Array, ...]:
        """Insert symbolic arguments; the outputs as symbolic arrays."""
        results = self.function.call([to_sx(a) for a in arguments])
        return tuple(from_sx(sx, own) for sx, own in zip(results, self.outputs.values(), strict=True))

    def __call__(self, *arguments: Array) -> tuple[Array, ...]:
        """Evaluate on numbers (interpreted) or insert symbols."""
        if is_symbolic(*arguments):
            return self.expressions(*arguments)
        return self.interpret(*arguments)


def on_symbols(function: Callable[..., Any], what: str, kind: type[HeavytopError] = ModelError) -> Callable[..., Any]:
    """A user-defined function whose failure on symbols is re-raised as a HeavytopError that names ``what`` the function is.

    >>> from heavytop._arrays import symbol
    >>> guarded = on_symbols(np.sort, "the potential")
    >>> try:
    ...     guarded(symbol("x", 1))
    ... except ModelError as error:
    ...     print(str(error)[:40])
    ...
    the function given as the potential fail
    """
    return _OnSymbols(function, what, kind)


class _OnSymbols:
    """A function and its role in messages; can be pickled if the function can."""

    def __init__(self, function: Callable[..., Any], what: str, kind: type[HeavytopError]) -> None:
        update_wrapper(self, function)
        self.function, self.what, self.kind = function, what, kind

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.function(*arguments)
        except HeavytopError:
            raise
        except (TypeError, LookupError, RuntimeError, ValueError, AttributeError) as error:
            if mismatch := self._argument_mismatch(len(arguments)):
                raise self.kind(mismatch) from error
            reason = str(error).rpartition(": ")[2] or type(error).__name__
            text = f"the function given as {self.what} fails on symbols ({reason.rstrip('.')}). {NOT_MATH}"
            raise self.kind(text) from error

    def _argument_mismatch(self, count: int) -> str:
        """The message for a function that does not take ``count`` arguments; empty if it does."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # some built-in functions have no signature
            return ""
        try:
            signature.bind(*[None] * count)
        except TypeError:
            return f"the function given as {self.what} is called with {count} argument{'' if count == 1 else 's'}, but takes {signature}."
        return ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _OnSymbols, (self.function, self.what, self.kind)


def trace(
    function: Callable[..., Array | tuple[Array, ...] | Mapping[str, Array]],
    inputs: Mapping[str, Shape],
    name: str | None = None,
) -> Traced:
    """Run ``function`` once on symbols of the given shapes and record its computation.

    Parameters
    ----------
    function : called with one symbolic array per input, in order; returns an array, a tuple of arrays, or a mapping
        from output names to arrays.
    inputs : name -> trailing shape, for example ``{"q": (7,), "R": (3, 3)}``.

    Examples
    --------
    >>> double = trace(lambda x: 2 * x, {"x": (3,)}, name="double")
    >>> double([1.0, 2.0, 3.0])[0]
    array([2., 4., 6.])
    """
    symbols = {label: symbol(label, max(prod(size), 0)) for label, size in inputs.items()}
    shaped = [np.reshape(s, inputs[label]) if inputs[label] != s.shape else s for label, s in symbols.items()]
    result = function(*shaped)
    if isinstance(result, Mapping):
        outputs = {label: as_array(value) for label, value in result.items()}
    elif isinstance(result, tuple):
        outputs = {f"out{i}": as_array(value) for i, value in enumerate(result)}
    else:
        outputs = {"out": as_array(result)}
    label = name or getattr(function, "__name__", "traced").replace("<lambda>", "traced")
    function = make_function(label, symbols, outputs)
    if holds_nan(function):
        raise ModelError(f"{label} turned a symbol into the number nan. {NOT_MATH}")
    return Traced(label, function, dict(inputs), {k: tuple(v.shape) for k, v in outputs.items()})


def trace_of(name: str, symbols: Mapping[str, Array], outputs: Mapping[str, Array]) -> Traced:
    """The traced function from flat symbols to expressions of them.

    >>> from heavytop._arrays import symbol
    >>> x = symbol("x", 3)
    >>> trace_of("double", {"x": x}, {"y": 2 * x})(np.arange(3.0))
    (array([0., 2., 4.]),)
    """
    function = make_function(name, symbols, outputs)
    return Traced(name, function, {k: shape(s) for k, s in symbols.items()}, {k: shape(v) for k, v in outputs.items()})


def with_aside(main: Traced, aside: Traced) -> Traced:
    """A function with the outputs of both: those of ``main`` bit by bit, and those of ``aside`` from what main computes where this is possible.

    >>> from heavytop._arrays import symbol
    >>> x = symbol("x", 2)
    >>> main, aside = trace_of("f", {"x": x}, {"y": np.sin(x)}), trace_of("g", {"x": x}, {"z": 2 * np.sin(x)})
    >>> list(with_aside(main, aside).outputs)
    ['y', 'z']
    """
    symbols = {name: symbol(name, prod(size)) for name, size in main.inputs.items()}
    outputs = {
        name: value
        for part in (main, aside)
        for name, value in zip(part.outputs, part.expressions(*symbols.values()), strict=True)
    }
    whole = trace_of(main.name, symbols, outputs)
    return Traced(main.name, whole.function, dict(main.inputs), main.outputs | aside.outputs, (main, aside))


def make_function(name: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> casadi.Function:
    """The CasADi function from flat symbols to flat expressions, with common subexpressions shared.

    >>> from heavytop._arrays import symbol
    >>> x = symbol("x", 3)
    >>> make_function("double", {"x": x}, {"y": 2 * x})
    Function(f_double:(i0[3])->(o0[3]) SXFunction)
    """
    import casadi

    expressions = casadi.cse([to_sx(value) for value in outputs.values()]) if outputs else []
    safe = re.sub("_+", "_", safe_name(name, "c")).strip("_") or "traced"  # CasADi takes no two underscores in a row
    return casadi.Function(f"f_{safe}", [to_sx(s) for s in inputs.values()], expressions)


def holds_nan(function: casadi.Function) -> bool:
    """Whether a program has the constant nan, the result of math functions on symbols (float(symbol) is nan)."""
    import casadi

    constants = (k for k in range(function.n_instructions()) if function.instruction_id(k) == casadi.OP_CONST)
    return any(np.isnan(function.instruction_constant(k)) for k in constants)
