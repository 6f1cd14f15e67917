"""Program -> SymPy expressions: a plain conversion without simplification."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isinf
from typing import Any

from heavytop.compile.program import Op, Program
from heavytop.compile.trace import Traced


def sympy_expressions(traced: Traced, symbols: Sequence[Sequence[Any]] | None = None) -> dict[str, Any]:
    """The outputs of a traced function as SymPy arrays.

    Parameters
    ----------
    symbols : for every input the symbols of its scalars, row by row; ``name0, name1, ...`` if None.

    Returns
    -------
    name -> a SymPy expression for a scalar output, else a ``sympy.Array`` of the output's shape.

    Examples
    --------
    >>> from heavytop.compile.trace import trace
    >>> sympy_expressions(trace(lambda x: x[0] ** 2 + x[0] / 2, {"x": (1,)}, name="f"))
    {'out': x0**2 + x0/2}
    """
    import sympy

    signature = traced.signature
    if symbols is None:
        symbols = [
            [sympy.Symbol(f"{name}{i}" if shape else name, real=True) for i in range(size)]
            for (name, shape), size in zip(signature.inputs.items(), signature.input_sizes, strict=True)
        ]
    flat = convert(Program.from_traced(traced), symbols)
    return {
        name: sympy.Array(values, shape) if shape else values[0]
        for (name, shape), values in zip(signature.outputs.items(), flat, strict=True)
    }


def convert(program: Program, symbols: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The scalars of every output, given the symbols of every input."""
    values: list[Any] = []
    for op, args, value in program.code:
        if op is Op.CONST:
            values.append(number(value))
        elif op is Op.INPUT:
            values.append(symbols[args[0]][args[1]])
        else:
            values.append(_apply(op, [values[a] for a in args]))
    return [[as_number(values[v]) for v in output] for output in program.outputs]


def number(value: float) -> Any:
    """Whole numbers and simple dyadic fractions exactly, others as floats."""
    import sympy

    if not isfinite(value):
        return (sympy.oo if value > 0 else -sympy.oo) if isinf(value) else sympy.nan
    if float(value * 64).is_integer() and abs(value) < 2**40:
        return sympy.Rational(int(value * 64), 64)
    return sympy.Float(repr(value))


def as_number(value: Any) -> Any:
    """A truth value as 1 or 0."""
    import sympy

    return sympy.Piecewise((1, value), (0, True)) if _is_truth(value) else value


def _as_truth(value: Any) -> Any:
    import sympy

    return value if _is_truth(value) else sympy.Ne(value, 0)


def _is_truth(value: Any) -> bool:
    """Relations and logic; a plain symbol is a number here, though SymPy accepts it as either."""
    from sympy.core.relational import Relational
    from sympy.logic.boolalg import BooleanAtom, BooleanFunction

    return isinstance(value, (Relational, BooleanAtom, BooleanFunction))


def _apply(op: Op, args: list[Any]) -> Any:
    """One operation; comparisons and logic stay truth values until a number is needed."""
    import sympy

    if op in (Op.AND, Op.OR, Op.NOT):
        logic = {Op.AND: sympy.And, Op.OR: sympy.Or, Op.NOT: sympy.Not}[op]
        return logic(*(_as_truth(a) for a in args))
    if op is Op.SELECT:
        condition, then, otherwise = args
        return sympy.Piecewise((as_number(then), _as_truth(condition)), (as_number(otherwise), True))
    a = [as_number(x) for x in args]
    relations = {Op.LT: sympy.Lt, Op.LE: sympy.Le, Op.EQ: sympy.Eq, Op.NE: sympy.Ne}
    if op in relations:
        return relations[op](*a)
    special = {
        Op.ADD: lambda x, y: x + y,
        Op.SUB: lambda x, y: x - y,
        Op.MUL: lambda x, y: x * y,
        Op.DIV: lambda x, y: x / y,
        Op.NEG: lambda x: -x,
        Op.POW: lambda x, y: x**y,
        Op.EXPM1: lambda x: sympy.exp(x) - 1,
        Op.LOG1P: lambda x: sympy.log(x + 1),
        Op.HYPOT: lambda x, y: sympy.sqrt(x**2 + y**2),
        Op.FABS: sympy.Abs,
        Op.CEIL: sympy.ceiling,
        Op.FMIN: sympy.Min,
        Op.FMAX: sympy.Max,
        Op.FMOD: lambda x, y: sympy.sign(x) * sympy.Mod(sympy.Abs(x), sympy.Abs(y)),
        Op.REMAINDER: lambda x, y: x - y * sympy.floor(x / y + sympy.Rational(1, 2)),
        Op.COPYSIGN: lambda x, y: sympy.Piecewise((sympy.Abs(x), sympy.Ge(y, 0)), (-sympy.Abs(x), True)),
    }
    return special[op](*a) if op in special else getattr(sympy, str(op))(*a)
