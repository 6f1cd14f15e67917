"""From a traced program to short SymPy expressions.

The program is evaluated on polynomials (:mod:`heavytop.equations.polynomial`), which are simplified at each step. An entry with a
short polynomial is written out; a longer one uses named subexpressions ``x0, x1, ...``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from heavytop.compile import Instruction, Op, Program, convert
from heavytop.equations import polynomial
from heavytop.equations.polynomial import ONE, Poly, Ring
from heavytop.equations.short_form import Collector

LONGEST = 400
"""Largest number of terms of a polynomial without named subexpressions."""
WORK = 60_000
"""Limit of products of terms for that; large systems exceed it and use named subexpressions."""
SHORT = 24
"""Largest number of terms of an entry without named subexpressions."""
NAMED_ABOVE = 8
"""Number of terms above which a subexpression is named."""


class TooLong(Exception):
    """A polynomial grew beyond its limit."""


@dataclass
class ProgramEvaluator:
    """Evaluates a program on polynomials, on demand; ``inputs`` has a polynomial for each scalar of each input."""

    program: Program
    inputs: Sequence[Sequence[Poly]]
    ring: Ring
    collector: Collector
    values: dict[int, Poly | None] = field(default_factory=dict)

    def value(self, number: int) -> Poly | None:
        """The polynomial of one value, or None if it is too long."""
        stack = [number]
        while stack:
            k = stack[-1]
            if k in self.values:
                stack.pop()
                continue
            op, args, _ = self.program.code[k]
            missing = [] if op is Op.INPUT else [a for a in args if a not in self.values]
            if missing:
                stack.extend(missing)
                continue
            try:
                self.values[k] = self.compute(k)
            except TooLong:
                self.values[k] = None
            stack.pop()
        return self.values[number]

    def compute(self, k: int) -> Poly:
        """The polynomial of instruction ``k`` from those of its arguments."""
        op, args, number = self.program.code[k]
        if op is Op.INPUT:
            return self.inputs[args[0]][args[1]]
        if op is Op.CONST:
            return polynomial.constant(number)
        operands = [self.values[a] for a in args]
        if any(operand is None for operand in operands):
            raise TooLong
        return self.operate(op, [operand for operand in operands if operand is not None])

    def operate(self, op: Op, x: list[Poly]) -> Poly:
        if op is Op.ADD:
            return self.sum(x[0], x[1], 1.0)
        if op is Op.SUB:
            return self.sum(x[0], x[1], -1.0)
        if op is Op.MUL:
            return self.product(x[0], x[1])
        if op is Op.NEG:
            return polynomial.scaled(x[0], -1.0)
        if op is Op.DIV:
            return self.product(x[0], self.reciprocal(x[1]))
        if op is Op.POW and set(x[1]) <= {ONE} and x[1].get(ONE, 0.0) in (1.0, 2.0, 3.0, 4.0):
            power = x[0]
            for _ in range(int(x[1][ONE]) - 1):
                power = self.product(power, x[0])
            return power
        if op in (Op.SIN, Op.COS):
            angle = self.ring.angle_of(self.ring.reduce(x[0]))
            if angle is not None:
                generator, sign = self.ring.sine(op.value, angle)
                return {((generator, 1),): sign}
        return self.function(op, x)

    def sum(self, a: Poly, b: Poly, factor: float) -> Poly:
        """a + factor b, simplified."""
        self.spend(len(a) + len(b))
        return self.fit(self.ring.reduce(polynomial.add(a, b, factor), 60))

    def product(self, a: Poly, b: Poly) -> Poly:
        """a b, expanded and simplified."""
        self.spend(len(a) * len(b))
        return self.fit(self.ring.reduce(polynomial.multiply(a, b), 60))

    def fit(self, poly: Poly) -> Poly:
        if len(poly) > LONGEST:
            raise TooLong
        return poly

    work: int = 0

    def spend(self, work: int) -> None:
        """Count work; raise TooLong beyond the limit."""
        self.work += work
        if self.work > WORK:
            raise TooLong

    def reciprocal(self, poly: Poly) -> Poly:
        """1 / poly: a monomial, or a new generator."""
        poly = self.ring.reduce(poly)
        if len(poly) == 1:
            ((mono, k),) = poly.items()
            return {polynomial.inverse(mono): 1.0 / k}
        return self.ring.variable(1 / self.collector.expression(poly), self.ring.level(poly))

    def function(self, op: Op, x: list[Poly]) -> Poly:
        """Any other operation: a new generator."""
        arguments = [self.collector.expression(self.ring.reduce(poly)) for poly in x]
        expression = apply(op, arguments)
        if expression.is_Number:
            return polynomial.constant(float(expression))
        return self.ring.variable(expression, max(self.ring.level(poly) for poly in x))


class NamingEvaluator(ProgramEvaluator):
    """An evaluator that names long subexpressions instead of failing."""

    def __init__(
        self, program: Program, inputs: Sequence[Sequence[Poly]], ring: Ring, collector: Collector, names: Names
    ):
        super().__init__(program, inputs, ring, collector)
        self.names = names
        self.uses = Counter(a for op, args, _ in program.code if op is not Op.INPUT for a in args)

    def compute(self, k: int) -> Poly:
        poly = super().compute(k)
        return self.names.name(poly) if self.uses[k] > 1 and len(poly) > 3 else poly

    def sum(self, a: Poly, b: Poly, factor: float) -> Poly:
        total = self.ring.reduce(polynomial.add(a, b, factor), 60)
        if len(total) <= NAMED_ABOVE:
            return total
        longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
        named = self.names.name(longer)
        return polynomial.add(named, shorter, factor) if longer is a else polynomial.add(shorter, named, factor)

    def product(self, a: Poly, b: Poly) -> Poly:
        for _ in range(2):
            if len(a) * len(b) > NAMED_ABOVE:
                a, b = (self.names.name(a), b) if len(a) >= len(b) else (a, self.names.name(b))
        return self.ring.reduce(polynomial.multiply(a, b), 60)


class Names:
    """Named subexpressions: symbol and polynomial, each defined by earlier ones."""

    def __init__(self, ring: Ring, collector: Collector, prefix: str) -> None:
        self.ring, self.collector, self.prefix = ring, collector, prefix
        self.polynomials: list[tuple[Any, Poly]] = []
        self._known: dict[frozenset[tuple[Any, float]], Poly] = {}

    def name(self, poly: Poly) -> Poly:
        """A polynomial of one term, a symbol defined as ``poly``."""
        poly = polynomial.without_dust(poly)
        if len(poly) <= 1:
            return poly
        import sympy

        key = frozenset(poly.items())
        if key not in self._known:
            symbol = sympy.Symbol(f"{self.prefix}{len(self.polynomials)}")
            self.polynomials.append((symbol, poly))
            variable = self.ring.variable(symbol, self.ring.level(poly))
            self._known[key] = variable
            self._known[frozenset(polynomial.scaled(poly, -1.0).items())] = polynomial.scaled(variable, -1.0)
        return self._known[key]

    def definitions(self, outputs: list[list[Any]]) -> list[tuple[Any, Any]]:
        """Symbol and expression of those that the outputs use, directly or indirectly."""
        used = set().union(*(expression.free_symbols for output in outputs for expression in output))
        kept = []
        for symbol, poly in reversed(self.polynomials):
            if symbol in used:
                expression = self.collector.plain(poly)
                used |= expression.free_symbols
                kept.append((symbol, expression))
        return kept[::-1]


@dataclass(frozen=True)
class Readable:
    """Expressions of a program: ``outputs[i]`` lists the scalars of output i; ``definitions`` names their subexpressions."""

    outputs: list[list[Any]]
    definitions: list[tuple[Any, Any]]

    def complete(self) -> list[list[Any]]:
        """The outputs with every name replaced by its definition."""
        meaning: dict[Any, Any] = {}
        for symbol, expression in self.definitions:
            meaning[symbol] = expression.xreplace(meaning)
        return [[expression.xreplace(meaning) for expression in output] for output in self.outputs]


def readable(
    program: Program,
    inputs: Sequence[Sequence[tuple[Any, int]]],
    constraints: Program | None = None,
    rotations: Sequence[Sequence[int]] = (),
) -> Readable:
    """Short SymPy expressions of the outputs of ``program``.

    Parameters
    ----------
    inputs : SymPy symbol and level of each scalar of each input.
    constraints : a program of the first input whose outputs are zero; they are used to simplify and are appended as the last output.
    rotations : indices of the nine entries, column by column, of each rotation matrix in the first input.
    """
    ring = Ring()
    collector = Collector(ring)
    variables = [[ring.variable(symbol, level) for symbol, level in group] for group in inputs]
    zeros = []
    if constraints is not None:
        values = ProgramEvaluator(constraints, variables[:1], ring, collector)
        zeros = [poly for output in constraints.outputs for number in output if (poly := values.value(number))]
        for poly in zeros:
            ring.relate(poly.items())
    for entries in rotations:
        relate_rotation(ring, [variables[0][k] for k in entries])
    taken = {str(symbol) for group in inputs for symbol, _ in group}
    prefix = next(
        p for p in ("x", "z", "tmp") if not any(name[: len(p)] == p and name[len(p) :].isdigit() for name in taken)
    )
    names = Names(ring, collector, prefix)
    compact = ProgramEvaluator(program, variables, ring, collector)
    naming = NamingEvaluator(program, variables, ring, collector, names)
    shown: dict[int, Any] = {}

    def expression(number: int) -> Any:
        if number not in shown:
            poly = compact.value(number)
            if poly is not None:
                poly = ring.reduce(poly, LONGEST)
            if poly is None or len(poly) > SHORT:
                shown[number] = collector.expression(polynomial.without_dust(naming.value(number) or {}))
            else:
                shown[number] = collector.shortest(polynomial.without_dust(poly))
        return shown[number]

    outputs = [[expression(number) for number in output] for output in program.outputs]
    if constraints is not None:
        outputs.append([collector.expression(poly) for poly in zeros])
    return Readable(outputs, names.definitions(outputs))


def relate_rotation(ring: Ring, entries: Sequence[Poly]) -> None:
    """Declare R R^T = I and that each entry of R is its cofactor; ``entries`` lists R column by column."""
    R = [[entries[3 * col + row] for col in range(3)] for row in range(3)]
    for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)):
        total = polynomial.constant(-1.0 if i == j else 0.0)
        for k in range(3):
            total = polynomial.add(total, polynomial.multiply(R[i][k], R[j][k]))
        ring.relate(total.items())
    for i in range(3):
        for j in range(3):
            (a, b), (c, d) = ((i + 1) % 3, (i + 2) % 3), ((j + 1) % 3, (j + 2) % 3)
            minor = polynomial.add(polynomial.multiply(R[a][c], R[b][d]), polynomial.multiply(R[a][d], R[b][c]), -1.0)
            ring.relate(polynomial.add(minor, R[i][j], -1.0).items())


def apply(op: Op, arguments: Sequence[Any]) -> Any:
    """One operation on SymPy expressions."""
    n = len(arguments)
    code = (*(Instruction(Op.INPUT, (0, i)) for i in range(n)), Instruction(op, tuple(range(n))))
    return convert(Program(op.value, code, (n,), ((n,),)), [list(arguments)])[0][0]
