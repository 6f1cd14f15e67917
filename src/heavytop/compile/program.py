"""A program: the straight-line list of scalar operations that every back end reads.

Static single assignment: instruction ``k`` defines value ``k`` and refers only to smaller
numbers. Inputs and constants are instructions too; outputs are lists of value numbers. Only
:func:`program_from_function` depends on CasADi, so back ends never see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from heavytop.errors import CompileError

if TYPE_CHECKING:
    import casadi

    from heavytop.compile.trace import Traced


class Op(StrEnum):
    """Scalar operations. Comparisons and logic return 0.0 or 1.0; any number but zero is true.

    >>> Op("mul") is Op.MUL
    True
    """

    INPUT, CONST = "input", "const"
    ADD, SUB, MUL, DIV, NEG, SQRT = "add", "sub", "mul", "div", "neg", "sqrt"
    SIN, COS, TAN, ASIN, ACOS, ATAN, ATAN2 = "sin", "cos", "tan", "asin", "acos", "atan", "atan2"
    SINH, COSH, TANH, ASINH, ACOSH, ATANH = "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"
    EXP, EXPM1, LOG, LOG1P, POW, HYPOT, ERF = "exp", "expm1", "log", "log1p", "pow", "hypot", "erf"
    FABS, SIGN, FLOOR, CEIL, COPYSIGN = "fabs", "sign", "floor", "ceil", "copysign"
    FMIN, FMAX, FMOD, REMAINDER = "fmin", "fmax", "fmod", "remainder"
    LT, LE, EQ, NE, AND, OR, NOT = "lt", "le", "eq", "ne", "and", "or", "not"
    SELECT = "select"  # SELECT(condition, then, otherwise)


LEAVES = (Op.INPUT, Op.CONST)
"""Instructions that compute nothing."""


class Instruction(NamedTuple):
    """One operation on earlier values.

    ``args`` are value numbers, except for ``INPUT``, where they are (which input, which of its scalars); ``value``
    is the number of a ``CONST``.

    >>> Instruction(Op.MUL, (0, 0))
    Instruction(op=<Op.MUL: 'mul'>, args=(0, 0), value=0.0)
    """

    op: Op
    args: tuple[int, ...]
    value: float = 0.0


@dataclass(frozen=True, eq=False)
class Program:
    """A straight-line program of scalar operations.

    Attributes
    ----------
    code : instruction k defines value k.
    outputs : for each output, the value numbers of its scalars.
    input_sizes : number of scalars of each input.

    Examples
    --------
    >>> from heavytop.compile.trace import trace
    >>> print(Program.from_traced(trace(lambda x: x[0] * x[1] + 1, {"x": (2,)}, name="f")))
    f(2) -> (1)
      v0 = input 0[0]
      v1 = input 0[1]
      v2 = mul v0 v1
      v3 = const 1.0
      v4 = add v2 v3
      output 0: v4
    """

    name: str
    code: tuple[Instruction, ...]
    input_sizes: tuple[int, ...]
    outputs: tuple[tuple[int, ...], ...]

    @classmethod
    def from_traced(cls, traced: Traced) -> Program:
        """The program of a traced function."""
        if traced.parts:
            main, aside = (cls.from_traced(part) for part in traced.parts)
            return _joined(main, aside)
        return program_from_function(traced.function, traced.name)

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """Number of scalars of each output."""
        return tuple(len(values) for values in self.outputs)

    @cached_property
    def operations(self) -> int:
        """Number of instructions that compute: neither input nor constant."""
        return sum(1 for instruction in self.code if instruction.op not in LEAVES)

    @cached_property
    def histogram(self) -> dict[str, int]:
        """Number of occurrences of each operation, the most frequent first."""
        return dict(Counter(str(instruction.op) for instruction in self.code).most_common())

    @cached_property
    def last_use(self) -> tuple[int, ...]:
        """For each value the last instruction that reads it, or its own number (outputs do not count)."""
        last = list(range(len(self.code)))
        for k, instruction in enumerate(self.code):
            if instruction.op is not Op.INPUT:
                for a in instruction.args:
                    last[a] = k
        return tuple(last)

    @cached_property
    def uses(self) -> Counter[int]:
        """Number of instructions that read each value."""
        return Counter(a for op, args, _ in self.code if op is not Op.INPUT for a in args)

    @cached_property
    def homes(self) -> dict[int, list[tuple[int, int]]]:
        """Places of each output value, as (output, scalar)."""
        homes: dict[int, list[tuple[int, int]]] = {}
        for i, values in enumerate(self.outputs):
            for j, value in enumerate(values):
                homes.setdefault(value, []).append((i, j))
        return homes

    def __str__(self) -> str:
        sizes = [", ".join(str(n) for n in group) for group in (self.input_sizes, self.output_sizes)]
        lines = [f"{self.name}({sizes[0]}) -> ({sizes[1]})"]
        for k, (op, args, value) in enumerate(self.code):
            if op is Op.CONST:
                lines.append(f"  v{k} = const {value!r}")
            elif op is Op.INPUT:
                lines.append(f"  v{k} = input {args[0]}[{args[1]}]")
            else:
                lines.append(f"  v{k} = {op} " + " ".join(f"v{a}" for a in args))
        lines += [f"  output {i}: " + " ".join(f"v{a}" for a in values) for i, values in enumerate(self.outputs)]
        return "\n".join(lines)


class _Builder:
    """Appends instructions, sharing equal ones."""

    def __init__(self) -> None:
        self.code: list[Instruction] = []
        self._known: dict[object, int] = {}

    def add(self, op: Op, args: tuple[int, ...], value: float = 0.0) -> int:
        # repr distinguishes -0.0 from 0.0 and takes NaN as equal to itself
        key = (op, args) if op is not Op.CONST else (op, repr(value))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.code)
            self.code.append(Instruction(op, args, value))
        return number

    def constant(self, value: float) -> int:
        return self.add(Op.CONST, (), value)


_SAME_NAME = tuple(op.name for op in Op if op not in (*LEAVES, Op.SELECT))


def program_from_function(function: casadi.Function, name: str) -> Program:
    """Read the instruction list of a CasADi function of dense columns.

    Raises
    ------
    CompileError : the function uses an operation without a native form; the message names it.
    """
    import casadi

    direct = {getattr(casadi, f"OP_{label}"): Op[label] for label in _SAME_NAME}
    direct[casadi.OP_CONSTPOW] = Op.POW
    builder = _Builder()
    slots: dict[int, int] = {}
    sizes = [function.size1_out(i) for i in range(function.n_out())]
    zero_filled: list[list[int | None]] = [[None] * n for n in sizes]
    output, constant, given = casadi.OP_OUTPUT, casadi.OP_CONST, casadi.OP_INPUT
    number_of, place_of, read_by, add = (
        function.instruction_id,
        function.instruction_output,
        function.instruction_input,
        builder.add,
    )
    for k in range(function.n_instructions()):
        op, out, args = number_of(k), place_of(k), read_by(k)
        known = direct.get(op)
        if known is not None:
            slots[out[0]] = add(known, tuple([slots[a] for a in args]))
            continue
        if op == output:
            zero_filled[out[0]][out[1]] = slots[args[0]]
            continue
        if op == constant:
            slots[out[0]] = builder.constant(function.instruction_constant(k))
            continue
        if op == given:
            slots[out[0]] = add(Op.INPUT, (args[0], args[1]))
            continue
        values = tuple([slots[a] for a in args])
        if op == casadi.OP_SQ:
            slots[out[0]] = builder.add(Op.MUL, (values[0], values[0]))
        elif op == casadi.OP_TWICE:
            slots[out[0]] = builder.add(Op.ADD, (values[0], values[0]))
        elif op == casadi.OP_INV:
            slots[out[0]] = builder.add(Op.DIV, (builder.constant(1.0), values[0]))
        elif op == casadi.OP_IF_ELSE_ZERO:
            slots[out[0]] = builder.add(Op.SELECT, (*values, builder.constant(0.0)))
        elif op in (casadi.OP_ASSIGN, casadi.OP_LIFT):
            slots[out[0]] = values[0]
        else:
            raise CompileError(
                f"{name} uses the operation {_operation_name(op)} without a native form; it can only be interpreted."
            )
    outputs = tuple(tuple(builder.constant(0.0) if v is None else v for v in values) for values in zero_filled)
    inputs = tuple(function.size1_in(i) for i in range(function.n_in()))
    return _tidy(_share_reciprocals(Program(name, tuple(builder.code), inputs, outputs)))


def _joined(main: Program, aside: Program) -> Program:
    """Both programs in one, with the code of ``main`` as it is.

    What ``aside`` has in common with it is read from there, but for products that are read once: a sum may absorb them (a fused multiply-add
    rounds once), and would not if they were read twice.
    """
    code = list(main.code)
    single = {k for k, i in enumerate(code) if i.op is Op.MUL and main.uses[k] == 1}
    known = {(i.op, i.args, repr(i.value)): k for k, i in enumerate(code) if k not in single}
    number: list[int] = []
    for op, args, value in aside.code:
        here = args if op is Op.INPUT else tuple([number[a] for a in args])
        key = (op, here, repr(value))
        if key not in known:
            known[key] = len(code)
            code.append(Instruction(op, here, value))
        number.append(known[key])
    outputs = tuple(tuple([number[v] for v in values]) for values in aside.outputs)
    return Program(main.name, tuple(code), main.input_sizes, main.outputs + outputs)


def _operation_name(number: int) -> str:
    import casadi

    names = (n for n in dir(casadi) if n.startswith("OP_") and getattr(casadi, n) == number)
    return next(names, f"number {number}")


def _share_reciprocals(program: Program) -> Program:
    """Divide once by a denominator that several quotients share, then multiply: a division costs as much as ten products.

    CasADi turns ``a * (1 / d)`` back into ``a / d``, so the formula cannot express this.
    """
    shared = {d for d, n in Counter(i.args[1] for i in program.code if i.op is Op.DIV).items() if n > 1}
    if not shared:
        return program
    code: list[Instruction] = []
    number: list[int] = []
    one: int | None = None
    reciprocals: dict[int, int] = {}

    def add(op: Op, args: tuple[int, ...], value: float = 0.0) -> int:
        code.append(Instruction(op, args, value))
        return len(code) - 1

    for op, args, value in program.code:
        if op is Op.CONST and value == 1.0:
            one = add(op, args, value) if one is None else one
            number.append(one)
        elif op is Op.INPUT or op is Op.CONST:
            number.append(add(op, args, value))
        elif op is Op.DIV and args[1] in shared:
            if args[1] not in reciprocals:
                one = add(Op.CONST, (), 1.0) if one is None else one
                reciprocals[args[1]] = add(Op.DIV, (one, number[args[1]]))
            reciprocal, top = reciprocals[args[1]], program.code[args[0]]
            unit = top.op is Op.CONST and top.value == 1.0
            number.append(reciprocal if unit else add(Op.MUL, (number[args[0]], reciprocal)))
        else:
            number.append(add(op, tuple([number[a] for a in args])))
    outputs = tuple(tuple([number[v] for v in values]) for values in program.outputs)
    return Program(program.name, tuple(code), program.input_sizes, outputs)


def _tidy(program: Program) -> Program:
    """Join ``c ? a : 0 + !c ? b : 0`` into one choice, put each cosine next to its sine, drop unused values."""
    code = _join_choices(program.code)
    partner = {i.args[0]: k for k, i in enumerate(code) if i.op is Op.COS}
    pairs = {k: partner[i.args[0]] for k, i in enumerate(code) if i.op is Op.SIN and i.args[0] in partner}
    pairs |= {cos: sin for sin, cos in pairs.items()}
    needed = _needed(code, (v for values in program.outputs for v in values))
    number: dict[int, int] = {}
    ordered: list[Instruction] = []

    def place(k: int) -> None:
        if k in number:
            return
        op, args, value = code[k]
        number[k] = len(ordered)
        ordered.append(Instruction(op, args if op is Op.INPUT else tuple([number[a] for a in args]), value))

    for k in range(len(code)):
        if needed[k]:
            place(k)
            if k in pairs and needed[pairs[k]]:
                place(pairs[k])
    outputs = tuple(tuple(number[v] for v in values) for values in program.outputs)
    return Program(program.name, tuple(ordered), program.input_sizes, outputs)


def _join_choices(code: tuple[Instruction, ...]) -> list[Instruction]:
    """CasADi writes a choice as ``(c ? a : 0) + (!c ? b : 0)``; both forms agree but for the sign of zero."""
    joined = list(code)

    def half(k: int) -> tuple[int, int] | None:
        op, args, _ = code[k]
        if op is Op.SELECT and code[args[2]].op is Op.CONST and code[args[2]].value == 0.0:
            return args[0], args[1]
        return None

    for k, (op, args, _) in enumerate(code):
        if op is not Op.ADD:
            continue
        first, second = half(args[0]), half(args[1])
        if first is None or second is None:
            continue
        for (c, a), (d, b) in ((first, second), (second, first)):
            if code[d].op is Op.NOT and code[d].args[0] == c:
                joined[k] = Instruction(Op.SELECT, (c, a, b))
                break
    return joined


def _needed(code: list[Instruction], outputs: Iterable[int]) -> list[bool]:
    needed = [False] * len(code)
    for v in outputs:
        needed[v] = True
    for k in range(len(code) - 1, -1, -1):
        if needed[k] and code[k].op is not Op.INPUT:
            for a in code[k].args:
                needed[a] = True
    return needed
