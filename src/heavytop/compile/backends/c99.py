"""Program -> C99: plain functions on arrays, without memory allocation or global data.

Values live in local variables that are reused as soon as a value is dead, so the stack is bounded by the largest
number of values alive at once, whatever the length of the program and the optimisation of the compiler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from heavytop._format import safe_names
from heavytop.compile.program import LEAVES, Op, Program
from heavytop.compile.signature import Signature

Precision = Literal["double", "float"]

_INFIX = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/"}
_RELATION = {Op.LT: "<", Op.LE: "<=", Op.EQ: "==", Op.NE: "!="}


def literal(value: float, precision: Precision = "double") -> str:
    """A C literal of exactly this number (in the precision).

    >>> literal(0.1), literal(3.0), literal(0.1, "float")
    ('0.1', '3.0', '0.1f')
    """
    with np.errstate(over="ignore"):
        number = float(np.float32(value)) if precision == "float" else float(value)
    if math.isnan(number):
        return "NAN" if precision == "float" else "((double)NAN)"
    if math.isinf(number):
        text = "INFINITY" if precision == "float" else "((double)INFINITY)"
        return text if number > 0 else f"(-{text})"
    text = str(np.float32(value)) if precision == "float" else repr(number)
    return text + ("f" if precision == "float" else "")


@dataclass(frozen=True)
class CSlots:
    """Local variables: ``slot[k]`` of every computed value, and their number."""

    slot: dict[int, int]
    count: int


def allocate(program: Program) -> CSlots:
    """Give each value a local variable; the variable of a value that dies in an instruction can take its result."""
    slot: dict[int, int] = {}
    free: list[int] = []
    count = 0
    last = program.last_use
    for k, (op, args, _) in enumerate(program.code):
        if op in LEAVES:
            continue
        free += sorted((slot[a] for a in set(args) if a in slot and last[a] == k), reverse=True)
        if free:
            slot[k] = free.pop()
        else:
            slot[k], count = count, count + 1
        if last[k] == k:  # an output that nothing reads
            free.append(slot[k])
    return CSlots(slot, count)


def parameter_names(name: str, signature: Signature) -> list[str]:
    """C names of the inputs and outputs of a function."""
    return safe_names([*signature.inputs, *signature.outputs], "c", taken=[name])


def prototype(name: str, signature: Signature, precision: Precision = "double") -> str:
    """The C declaration ``void name(const double q[7], ..., double a[6])``."""
    labels = parameter_names(name, signature)
    sizes = [*signature.input_sizes, *signature.output_sizes]
    parts = []
    for k, (label, size) in enumerate(zip(labels, sizes, strict=True)):
        constant = "const " if k < len(signature.inputs) else ""
        parts.append(f"{constant}{precision} {label}[{max(size, 1)}]")
    return f"void {name}({', '.join(parts) or 'void'})"


def c_function(program: Program, signature: Signature, name: str, precision: Precision = "double") -> str:
    """The C definition of a program."""
    return _Printer(program, signature, name, precision).text()


class _Printer:
    def __init__(self, program: Program, signature: Signature, name: str, precision: Precision) -> None:
        self.program, self.signature, self.name = program, signature, name
        self.precision: Precision = precision
        labels = parameter_names(name, signature)
        self.inputs, self.outputs = labels[: len(signature.inputs)], labels[len(signature.inputs) :]
        self.slots = allocate(program)
        self.suffix = "f" if precision == "float" else ""
        self.zero, self.one = literal(0.0, precision), literal(1.0, precision)

    def text(self) -> str:
        lines = [prototype(self.name, self.signature, self.precision), "{"]
        for first in range(0, self.slots.count, 16):
            names = ", ".join(f"w{i}" for i in range(first, min(first + 16, self.slots.count)))
            lines.append(f"    {self.precision} {names};")
        homes = {value: [f"{self.outputs[i]}[{j}]" for i, j in places] for value, places in self.program.homes.items()}
        lines += self._unused()
        for k, instruction in enumerate(self.program.code):
            if k in self.slots.slot:
                lines.append(f"    w{self.slots.slot[k]} = {self._expression(k)};")
            if instruction.op in LEAVES:
                continue
            lines += [f"    {home} = w{self.slots.slot[k]};" for home in homes.get(k, ())]
        for k, places in homes.items():
            if self.program.code[k].op in LEAVES:
                lines += [f"    {place} = {self._operand(k)};" for place in places]
        return "\n".join([*lines, "}", ""])

    def _unused(self) -> list[str]:
        read = {instruction.args[0] for instruction in self.program.code if instruction.op is Op.INPUT}
        names = [label for i, label in enumerate(self.inputs) if i not in read]
        names += [label for label, values in zip(self.outputs, self.program.outputs, strict=True) if not values]
        return [f"    (void){name};" for name in names]

    def _operand(self, k: int) -> str:
        op, args, value = self.program.code[k]
        if op is Op.CONST:
            text = literal(value, self.precision)
            return f"({text})" if text.startswith("-") else text
        return f"{self.inputs[args[0]]}[{args[1]}]" if op is Op.INPUT else f"w{self.slots.slot[k]}"

    def _expression(self, k: int) -> str:
        op, args, _ = self.program.code[k]
        a = [self._operand(j) for j in args]
        zero, one = self.zero, self.one

        def truth(condition: str) -> str:
            return f"({condition}) ? {one} : {zero}"

        if op in _INFIX:
            return f"{a[0]} {_INFIX[op]} {a[1]}"
        if op is Op.NEG:
            return f"-{a[0]}"
        if op in _RELATION:
            return truth(f"{a[0]} {_RELATION[op]} {a[1]}")
        if op is Op.AND:
            return truth(f"{a[0]} != {zero} && {a[1]} != {zero}")
        if op is Op.OR:
            return truth(f"{a[0]} != {zero} || {a[1]} != {zero}")
        if op is Op.NOT:
            return truth(f"{a[0]} == {zero}")
        if op is Op.SELECT:
            return f"({a[0]} != {zero}) ? {a[1]} : {a[2]}"
        if op is Op.SIGN:  # a zero loses its sign, NaN stays
            return f"({a[0]} > {zero}) ? {one} : (({a[0]} < {zero}) ? -{one} : {a[0]} + {zero})"
        if op in (Op.FMIN, Op.FMAX):  # NaN in either gives NaN
            return f"({a[0]} != {a[0]} || {a[0]} {'<' if op is Op.FMIN else '>'} {a[1]}) ? {a[0]} : {a[1]}"
        return f"{op}{self.suffix}({', '.join(a)})"
