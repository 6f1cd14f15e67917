"""Derivatives of traced functions that are finite: tangents (forward mode) and adjoints (reverse mode), operation by operation.

Both walk the program of a function with the same table of derivatives. Where an operation has no finite derivative, the table has a stated one,
so that nothing is ever NaN because of a derivative:

=========================== =============================================================================================================
operation                   derivative that is taken
=========================== =============================================================================================================
``sqrt``, ``hypot`` at 0    0: a norm at rest, the middle of its one-sided slopes
``abs`` at 0                0
``arcsin``, ``arccos`` at 1 0; likewise ``arccosh`` at 1
``arctan2`` at (0, 0)       0
quotient by 0, ``log`` at 0 0; the value itself is not finite there
``minimum``, ``maximum``    that of the first argument where both are equal: a limited quantity at its limit follows as within the limits
``where``                   that of the chosen branch alone: a selection, never a product with zero
``sign``, comparisons       0
=========================== =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import pi, sqrt
from typing import Any

from heavytop._arrays import from_sx
from heavytop.compile.program import LEAVES, Op, Program
from heavytop.compile.signature import Shape
from heavytop.compile.trace import Traced, make_function

FLAT = frozenset(
    {Op.SIGN, Op.FLOOR, Op.CEIL, Op.LT, Op.LE, Op.EQ, Op.NE, Op.AND, Op.OR, Op.NOT, *LEAVES},
)
"""Operations whose derivative is zero."""

Scalar = Any
"""A number of CasADi."""


def tangent(traced: Traced, inputs: Sequence[int]) -> tuple[Traced, tuple[int, ...]]:
    """The function with its derivative along a direction of some of its inputs, and which outputs the derivative moves.

    The result takes all inputs, then the directions of ``inputs`` in order; it returns all outputs, then the directions of the moved ones.

    Examples
    --------
    >>> import numpy as np
    >>> from heavytop.compile import trace
    >>> root = trace(lambda x: np.sqrt(x), {"x": (2,)}, name="root")
    >>> along, moved = tangent(root, (0,))
    >>> along(np.array([4.0, 0.0]), np.array([1.0, 1.0]))
    (array([2., 0.]), array([0.25, 0.  ]))
    """
    walk = _Walk(traced, inputs)
    directions = {k: _column(f"d{k}", traced.input_sizes[k]) for k in inputs}
    dots: list[Scalar | None] = []
    for number, (op, args, _) in enumerate(walk.program.code):
        if op is Op.INPUT:
            dots.append(directions[args[0]][args[1]] if args[0] in directions else None)
        elif not walk.moves[number]:
            dots.append(None)
        elif op is Op.SELECT:
            dots.append(walk.chosen(args, [dots[a] for a in args[1:]]))
        else:
            slopes = walk.slopes(number)
            terms = [s(d) for s, a in zip(slopes, args, strict=True) if (d := dots[a]) is not None and s is not None]
            dots.append(sum(terms[1:], terms[0]) if terms else None)
    moved = walk.moved_outputs()
    outputs = {f"o{j}": walk.output(j) for j in range(len(walk.program.outputs))}
    outputs |= {f"e{j}": _joined([dots[v] for v in walk.program.outputs[j]]) for j in moved}
    symbols = walk.symbols | {f"d{k}": d for k, d in directions.items()}
    return _traced(f"tangent {traced.name}", symbols, outputs, _shapes(traced)), moved


def adjoint(
    traced: Traced, inputs: Sequence[int], outputs: Sequence[int], added: Sequence[int] = ()
) -> tuple[Traced, tuple[int, ...]]:
    """The transposed derivative, and which of the ``inputs`` it reaches.

    The result takes all inputs, then weights ("bars") of the chosen ``outputs``, then values of the inputs ``added``; it returns, for each reached
    input, the derivative of the weighted sum of outputs by it, plus the value where one is added.

    Examples
    --------
    >>> import numpy as np
    >>> from heavytop.compile import trace
    >>> product = trace(lambda x, y: x * y, {"x": (), "y": ()}, name="product")
    >>> back, reached = adjoint(product, (0, 1), (0,))
    >>> [float(bar) for bar in back(2.0, 3.0, 1.0)], reached
    ([3.0, 2.0], (0, 1))
    """
    walk = _Walk(traced, inputs)
    weights = {j: _column(f"b{j}", traced.output_sizes[j]) for j in outputs}
    bars: dict[int, Scalar] = {}

    def add(number: int, term: Scalar) -> None:
        bars[number] = bars[number] + term if number in bars else term

    for j in outputs:
        for value, weight in zip(walk.program.outputs[j], weights[j], strict=True):
            if walk.moves[value]:
                add(value, weight)
    gathered: dict[int, list[Scalar | None]] = {k: [None] * traced.input_sizes[k] for k in inputs}
    for number in range(len(walk.program.code) - 1, -1, -1):
        op, args, _ = walk.program.code[number]
        if number not in bars:
            continue
        bar = bars.pop(number)
        if op is Op.INPUT:
            gathered[args[0]][args[1]] = bar
        elif op is Op.SELECT:
            for argument, part in zip(args[1:], walk.parted(args, bar), strict=True):
                if walk.moves[argument]:
                    add(argument, part)
        else:
            for argument, slope in zip(args, walk.slopes(number), strict=True):
                if slope is not None and walk.moves[argument]:
                    add(argument, slope(bar))
    reached = tuple(k for k in inputs if any(bar is not None for bar in gathered[k]))
    given = {k: _column(f"a{k}", traced.input_sizes[k]) for k in added if k in reached}
    results = {}
    for k in reached:
        column = _joined(gathered[k])
        results[f"g{k}"] = _sum(column, given[k]) if k in given else column
    symbols = walk.symbols | {f"b{j}": w for j, w in weights.items()} | {f"a{k}": a for k, a in given.items()}
    return _traced(f"adjoint {traced.name}", symbols, results, _shapes(traced)), reached


def reached_outputs(traced: Traced, inputs: Sequence[int]) -> tuple[int, ...]:
    """Which outputs have a derivative with respect to some of the inputs.

    >>> from heavytop.compile import trace
    >>> reached_outputs(trace(lambda x, y: (2 * x, x > y), {"x": (), "y": ()}, name="f"), (0, 1))
    (0,)
    """
    return _Walk(traced, inputs, values=False).moved_outputs()


class _Walk:
    """The values of a program as expressions, and which of them move with some of the inputs."""

    def __init__(self, traced: Traced, inputs: Sequence[int], values: bool = True) -> None:
        self.program = Program.from_traced(traced)
        self.chooses = any(op is Op.SELECT for op, _, _ in self.program.code)
        self.moves: list[bool] = []
        chosen = set(inputs)
        for op, args, _ in self.program.code:
            if op is Op.INPUT:
                self.moves.append(args[0] in chosen)
            elif op is Op.SELECT:
                self.moves.append(any(self.moves[a] for a in args[1:]))
            else:
                self.moves.append(op not in FLAT and any(self.moves[a] for a in args))
        self.symbols = {f"i{k}": _column(f"i{k}", n) for k, n in enumerate(traced.input_sizes)} if values else {}
        self.values: list[Scalar] = []
        if values:
            columns = list(self.symbols.values())
            for op, args, constant in self.program.code:
                if op is Op.INPUT:
                    self.values.append(columns[args[0]][args[1]])
                elif op is Op.CONST:
                    self.values.append(_number(constant))
                else:
                    self.values.append(_apply(op, [self.values[a] for a in args]))

    def moved_outputs(self) -> tuple[int, ...]:
        """Numbers of the outputs that move."""
        return tuple(j for j, out in enumerate(self.program.outputs) if any(self.moves[v] for v in out))

    def output(self, j: int) -> list[Scalar]:
        """The values of an output."""
        return [self.values[v] for v in self.program.outputs[j]]

    def chosen(self, args: Sequence[int], dots: Sequence[Scalar | None]) -> Scalar:
        """The direction of a selection: that of the chosen branch."""
        import casadi

        condition = self.values[args[0]]
        one, other = dots
        if one is None:
            return _guarded(casadi.logic_not(condition), other)
        if other is None:
            return _guarded(condition, one)
        return _guarded(condition, one) + _guarded(casadi.logic_not(condition), other)

    def parted(self, args: Sequence[int], bar: Scalar) -> tuple[Scalar, Scalar]:
        """The weights of both branches of a selection."""
        import casadi

        condition = self.values[args[0]]
        return _guarded(condition, bar), _guarded(casadi.logic_not(condition), bar)

    def slopes(self, number: int) -> list[Callable[[Scalar], Scalar] | None]:
        """For each argument of an operation the product with its derivative; None where that is zero."""
        op, args, _ = self.program.code[number]
        x, f = [self.values[a] for a in args], self.values[number]
        rule = _guarded_quotient if op is Op.DIV and self.chooses else _RULES.get(op)
        return [None] * len(args) if rule is None else rule(f, *x)


def _guarded(condition: Scalar, value: Scalar) -> Scalar:
    """The value where the condition holds, else zero."""
    import casadi

    return casadi.SX.binary(casadi.OP_IF_ELSE_ZERO, condition, value)


def _times(factor: Scalar) -> Callable[[Scalar], Scalar]:
    return lambda d: d * factor


def _same(d: Scalar) -> Scalar:
    return d


def _negative(d: Scalar) -> Scalar:
    return -d


def _quotient(f: Scalar, x: Scalar, y: Scalar) -> list[Any]:
    return [lambda d: d / y, None if y.is_constant() else lambda d: -(d * f) / y]


def _guarded_quotient(f: Scalar, x: Scalar, y: Scalar) -> list[Any]:
    """In a program with choices: the branch that is not chosen may divide by zero."""
    if y.is_constant():
        return _quotient(f, x, y)
    there = y != 0
    return [lambda d: _guarded(there, d / y), lambda d: _guarded(there, -(d * f) / y)]


def _power(f: Scalar, x: Scalar, y: Scalar) -> list[Any]:
    import casadi

    if y.is_constant() and float(y) >= 1:
        return [_times(y * x ** (y - 1)), None]
    return [_times(_guarded(x != 0, y * f / x)), _times(_guarded(x > 0, f * casadi.log(_guarded(x > 0, x) + (x <= 0))))]


def _inverse_root(s: Scalar) -> Scalar:
    """1 / sqrt(s), zero where s is not positive."""
    import casadi

    return _guarded(s > 0, 1 / casadi.sqrt(s))


def _direction(f: Scalar, y: Scalar, x: Scalar) -> list[Any]:
    n = x * x + y * y
    return [_times(_guarded(n > 0, x / n)), _times(_guarded(n > 0, -y / n))]


def _remainder(f: Scalar, x: Scalar, y: Scalar) -> list[Any]:
    return [_same, _times(_guarded(y != 0, (f - x) / y))]


def _rules() -> dict[Op, Callable[..., list[Any]]]:
    """Derivatives of an operation with value f by its arguments."""

    def ca() -> Any:
        import casadi

        return casadi

    return {
        Op.ADD: lambda f, x, y: [_same, _same],
        Op.SUB: lambda f, x, y: [_same, _negative],
        Op.MUL: lambda f, x, y: [_times(y), _times(x)],
        Op.DIV: _quotient,
        Op.NEG: lambda f, x: [_negative],
        Op.SQRT: lambda f, x: [_times(_guarded(f != 0, 0.5 / f))],
        Op.SIN: lambda f, x: [_times(ca().cos(x))],
        Op.COS: lambda f, x: [_times(-ca().sin(x))],
        Op.TAN: lambda f, x: [_times(1 + f * f)],
        Op.ASIN: lambda f, x: [_times(_inverse_root(1 - x * x))],
        Op.ACOS: lambda f, x: [_times(-_inverse_root(1 - x * x))],
        Op.ATAN: lambda f, x: [_times(1 / (1 + x * x))],
        Op.ATAN2: _direction,
        Op.SINH: lambda f, x: [_times(ca().cosh(x))],
        Op.COSH: lambda f, x: [_times(ca().sinh(x))],
        Op.TANH: lambda f, x: [_times(1 - f * f)],
        Op.ASINH: lambda f, x: [_times(1 / ca().sqrt(1 + x * x))],
        Op.ACOSH: lambda f, x: [_times(_inverse_root(x * x - 1))],
        Op.ATANH: lambda f, x: [_times(_guarded(x * x != 1, 1 / (1 - x * x)))],
        Op.EXP: lambda f, x: [_times(f)],
        Op.EXPM1: lambda f, x: [_times(f + 1)],
        Op.LOG: lambda f, x: [_times(_guarded(x != 0, 1 / x))],
        Op.LOG1P: lambda f, x: [_times(_guarded(x != -1, 1 / (1 + x)))],
        Op.POW: _power,
        Op.HYPOT: lambda f, x, y: [_times(_guarded(f != 0, x / f)), _times(_guarded(f != 0, y / f))],
        Op.ERF: lambda f, x: [_times(2 / sqrt(pi) * ca().exp(-x * x))],
        Op.FABS: lambda f, x: [_times(ca().sign(x))],
        Op.COPYSIGN: lambda f, x, y: [_times(ca().sign(x) * ca().copysign(1, y)), None],
        Op.FMIN: lambda f, x, y: [lambda d: _guarded(x <= y, d), lambda d: _guarded(x > y, d)],
        Op.FMAX: lambda f, x, y: [lambda d: _guarded(x >= y, d), lambda d: _guarded(x < y, d)],
        Op.FMOD: _remainder,
        Op.REMAINDER: _remainder,
    }


_RULES = _rules()


def _apply(op: Op, x: Sequence[Scalar]) -> Scalar:
    """An operation on expressions."""
    import casadi

    if op is Op.SELECT:
        if x[2].is_zero():
            return _guarded(x[0], x[1])
        return _guarded(x[0], x[1]) + _guarded(casadi.logic_not(x[0]), x[2])
    number = getattr(casadi, f"OP_{op.name}")
    return casadi.SX.unary(number, x[0]) if len(x) == 1 else casadi.SX.binary(number, x[0], x[1])


def _column(name: str, size: int) -> list[Scalar]:
    import casadi

    return casadi.SX.sym(name, size).elements()


def _number(value: float) -> Scalar:
    import casadi

    return casadi.SX(value)


def _sum(a: Sequence[Scalar], b: Sequence[Scalar]) -> list[Scalar]:
    return [x + y for x, y in zip(a, b, strict=True)]


def _joined(entries: Sequence[Scalar | None]) -> list[Scalar]:
    return [_number(0.0) if e is None else e for e in entries]


def _traced(
    name: str, symbols: dict[str, list[Scalar]], outputs: dict[str, list[Scalar]], shapes: Mapping[str, Shape]
) -> Traced:
    def array(entries: list[Scalar]) -> Any:
        import casadi

        return from_sx(casadi.vertcat(*entries) if entries else casadi.SX(0, 1), (len(entries),))

    function = make_function(name, {k: array(s) for k, s in symbols.items()}, {k: array(o) for k, o in outputs.items()})
    return Traced(name, function, {k: shapes[k] for k in symbols}, {k: shapes[k] for k in outputs})


def _shapes(traced: Traced) -> dict[str, Shape]:
    """Shapes of values (i, o), directions (d, e), weights (b), sums (a) and results (g) of the inputs and outputs of a function."""
    inputs, outputs = list(traced.inputs.values()), list(traced.outputs.values())
    found = {f"{letter}{k}": shape for letter in "idag" for k, shape in enumerate(inputs)}
    return found | {f"{letter}{k}": shape for letter in "oeb" for k, shape in enumerate(outputs)}
