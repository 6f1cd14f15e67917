"""The tape of a step: random small programs give the same numbers as a plain interpreter, on any number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from heavytop.compile import Call, Schedule, Stepper, Traced, trace
from heavytop.compile.schedule import Item, in_order
from heavytop.errors import SimulationError
from heavytop.simulate.tape import Slot, Slots, Tape, TapeValue

SIZE, LASTING, STEPS = 2, 3, 3
ONE = trace(lambda x: {"y": 0.5 - 0.75 * x[::-1]}, {"x": (SIZE,)}, name="one")
TWO = trace(lambda x, y: {"s": 0.5 * x + 0.25 * y, "d": x - 0.5 * y}, {"x": (SIZE,), "y": (SIZE,)}, name="two")
FUNCTIONS = {"one": ONE, "two": TWO}


# --- programs: lines on registers and on buffers that last from step to step ----------------------------------------------------


@dataclass(frozen=True)
class Formula:
    """target = 1/2 a - 1/4 b + constant."""

    target: int
    a: int
    b: int
    constant: float


@dataclass(frozen=True)
class Read:
    """target = what a lasting buffer holds now."""

    target: int
    source: int


@dataclass(frozen=True)
class Write:
    """Lasting buffers = registers, all at the same time."""

    targets: tuple[int, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Apply:
    """A function of its own in every n-th step, its results held in between; to registers, or to lasting buffers."""

    function: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    lasting: bool
    every: int


@dataclass(frozen=True)
class Cut:
    """An end of a section."""


@dataclass(frozen=True)
class Repeat:
    """A body on ``carried`` registers, several times; ``results`` of a round are the next ``carried`` and what is wanted of the last."""

    times: int
    start: tuple[int, ...]
    carried: tuple[int, ...]
    body: tuple[Any, ...]
    results: tuple[int, ...]
    targets: tuple[int, ...]


Program = Sequence[Any]


@dataclass
class Writer:
    """Writes random programs. A register that is only another name for a lasting buffer is not used after that was written."""

    rng: np.random.Generator
    count: int = 0
    names_of: dict[int, int] = field(default_factory=dict)

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def pick(self, known: list[int], n: int = 1) -> tuple[int, ...]:
        return tuple(int(k) for k in self.rng.choice(known, n))

    def program(self, known: list[int], lines: int, depth: int = 0) -> list[Any]:
        written = [self.line(known, depth) for _ in range(lines)]
        return [line for line in written if line is not None]

    def line(self, known: list[int], depth: int) -> Any:
        kind = self.rng.choice(["formula", "formula", "read", "apply", "apply", "cut", "repeat", "write", "apply into"])
        if kind == "read" or not known:
            line = Read(self.new(), int(self.rng.integers(LASTING)))
            self.names_of[line.target] = line.source
            known.append(line.target)
        elif kind == "formula":
            line = Formula(self.new(), *self.pick(known, 2), float(self.rng.integers(4)) / 8)
            known.append(line.target)
        elif kind == "cut":
            line = Cut()
        elif kind == "repeat":
            return self.repeat(known, depth) if depth < 2 else None
        elif depth and kind in ("write", "apply into"):
            return None  # lasting buffers are written once the rounds are over
        elif kind == "write":
            n = int(self.rng.integers(1, LASTING + 1))
            targets = tuple(int(k) for k in self.rng.permutation(LASTING)[:n])
            line = Write(targets, self.pick(known, n))
            self.forget(known, targets)
        else:
            into, name = kind == "apply into", str(self.rng.choice(list(FUNCTIONS)))
            function = FUNCTIONS[name]
            n = len(function.outputs)
            targets = (
                tuple(int(k) for k in self.rng.permutation(LASTING)[:n])
                if into
                else tuple(self.new() for _ in range(n))
            )
            # in a loop it is one call, so nothing is held from another round
            every = int(self.rng.choice([1, 1, 2])) if not depth else 1
            line = Apply(name, self.pick(known, len(function.inputs)), targets, into, every)
            self.forget(known, targets) if into else known.extend(targets)
        return line

    def forget(self, known: list[int], written: tuple[int, ...]) -> None:
        known[:] = [k for k in known if self.names_of.get(k) not in written]

    def repeat(self, known: list[int], depth: int) -> Repeat:
        n, extra = int(self.rng.integers(1, 3)), int(self.rng.integers(2))
        carried = tuple(self.new() for _ in range(n))
        inside = [*known, *carried]
        body = self.program(inside, int(self.rng.integers(1, 5)), depth + 1)
        line = Repeat(
            int(self.rng.integers(1, 4)),
            self.pick(known, n),
            carried,
            tuple(body),
            self.pick(inside[-5:], n + extra),
            tuple(self.new() for _ in range(n + extra)),
        )
        known.extend(line.targets)
        return line


# --- the plain interpreter ------------------------------------------------------------------------------------------------------


def interpret(program: Program, lasting: list[np.ndarray], k: int, held: dict[Any, Any], r: dict[int, Any]) -> None:
    """Line by line on numbers; ``k`` is the number of the step."""
    for line in program:
        if isinstance(line, Formula):
            r[line.target] = 0.5 * r[line.a] - 0.25 * r[line.b] + line.constant
        elif isinstance(line, Read):
            r[line.target] = lasting[line.source]
        elif isinstance(line, Write):
            for target, value in zip(line.targets, [r[s] for s in line.sources], strict=True):
                lasting[target] = value
        elif isinstance(line, Apply):
            if k % line.every == 0:
                held[line] = FUNCTIONS[line.function].interpret(*(r[s] for s in line.sources))
                for target, value in zip(line.targets, held[line], strict=True):
                    if line.lasting:
                        lasting[target] = value
            if not line.lasting:
                r.update(zip(line.targets, held[line], strict=True))
        elif isinstance(line, Repeat):
            values = [r[s] for s in line.start]
            for _ in range(line.times):
                r.update(zip(line.carried, values, strict=False))
                interpret(line.body, lasting, k, held, r)
                values = [r[s] for s in line.results]
            r.update(zip(line.targets, values, strict=True))


# --- the same through the tape --------------------------------------------------------------------------------------------------


def write_down(program: Program, tape: Tape, lasting: Sequence[Slot], r: dict[int, TapeValue]) -> None:
    def keep(targets: Sequence[int], arrays: Sequence[Any]) -> None:
        r.update({k: tape.value(x, "register") for k, x in zip(targets, arrays, strict=True)})

    for line in program:
        if isinstance(line, Formula):
            keep([line.target], [0.5 * r[line.a].get() - 0.25 * r[line.b].get() + line.constant])
        elif isinstance(line, Read):
            keep([line.target], [tape.slots.read(lasting[line.source])])
        elif isinstance(line, Write):
            tape.write([lasting[k] for k in line.targets], [r[s] for s in line.sources])
        elif isinstance(line, Apply):
            outputs = [lasting[k] for k in line.targets] if line.lasting else None
            results = tape.call(FUNCTIONS[line.function], [r[s] for s in line.sources], outputs, line.every)
            if not line.lasting:
                keep(line.targets, results)
        elif isinstance(line, Cut):
            tape.cut()
        elif isinstance(line, Repeat):

            def body(*arrays: Any, line: Repeat = line) -> list[Any]:
                keep(line.carried, arrays)
                write_down(line.body, tape, lasting, r)
                return [r[s].get() for s in line.results]

            start = [r[s].get() for s in line.start]
            keep(line.targets, tape.repeat(line.times, body, start, ["carried"] * len(start)))


def recorded(program: Program) -> tuple[Slots, list[str], list[Item]]:
    slots = Slots()
    lasting = [slots.make("lasting", (SIZE,)) for _ in range(LASTING)]
    tape = Tape(slots)
    write_down(program, tape, lasting, {})
    calls = tape.calls()
    return slots, [slots.name(slot) for slot in lasting], calls


def run_calls(slots: Slots, calls: Sequence[Item], buffers: dict[str, np.ndarray], k: int) -> None:
    for call in calls:
        if not isinstance(call, Call):
            run_calls(slots, call.body * call.times, buffers, k)
        elif k % call.every == 0:
            results = slots.functions[call.function].interpret(*(buffers[name] for name in call.inputs))
            buffers.update(zip(call.outputs, results, strict=True))


START = [np.array([0.5, -1.0]), np.array([2.0, 0.25]), np.array([-0.125, 1.5])]


def expected(program: Program) -> list[np.ndarray]:
    lasting, held = list(START), {}
    for k in range(STEPS):
        interpret(program, lasting, k, held, {})
    return lasting


def check(program: Program) -> list[Item]:
    slots, names, calls = recorded(program)
    buffers = dict(zip(names, START, strict=True))
    for k in range(STEPS):
        run_calls(slots, calls, buffers, k)
    for name, value in zip(names, expected(program), strict=True):
        assert_allclose(buffers[name], value, rtol=0, atol=1e-12, err_msg=str(program))
    return calls


def random_program(seed: int, lines: int = 12) -> list[Any]:
    """A program that ends by writing something to every lasting buffer."""
    writer, known = Writer(np.random.default_rng(seed)), []
    body = writer.program(known, lines)
    last = Read(writer.new(), 0)
    sources = writer.pick([*known, last.target], LASTING)
    return [*body, last, Write(tuple(range(LASTING)), sources)]


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_equal_the_plain_interpreter(seed: int) -> None:
    for k in range(14):
        check(random_program(100 * seed + k))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_many_random_programs_equal_the_plain_interpreter(seed: int) -> None:
    for k in range(50):
        check(random_program(100 * seed + k, 20))


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 11])
def test_random_programs_run_natively(seed: int) -> None:
    program = random_program(seed, 8)
    slots, names, calls = recorded(program)
    schedule = Schedule(slots.functions, slots.shapes, tuple(names), calls)
    end = Stepper(schedule).run(dict(zip(names, START, strict=True)), steps=STEPS).state
    for name, value in zip(names, expected(program), strict=True):
        assert_allclose(end[name], value, rtol=0, atol=1e-12)


# --- in-place writes ------------------------------------------------------------------------------------------------------------


def copies(calls: Sequence[Item]) -> int:
    """Calls that are not of functions of their own."""
    return sum(call.function.startswith("formulas") for call in in_order(calls))


def apply(function: str, sources: tuple[int, ...], *targets: int, every: int = 1) -> Apply:
    return Apply(function, sources, targets, False, every)


def test_what_is_only_copied_is_computed_in_its_place() -> None:
    calls = check([Read(0, 0), apply("one", (0,), 1), Write((0,), (1,))])
    (call,) = in_order(calls)
    assert call.inputs == call.outputs


def test_both_results_of_a_call_are_computed_in_their_places() -> None:
    assert copies(check([Read(0, 0), Read(1, 1), apply("two", (0, 1), 2, 3), Write((1, 0), (2, 3))])) == 0


def test_an_iteration_without_formulas_copies_only_its_start() -> None:
    body = (apply("one", (1,), 2),)
    assert copies(check([Read(0, 0), Repeat(3, (0,), (1,), body, (2,), (3,)), Write((0,), (3,))])) == 2


@pytest.mark.parametrize(
    "program",
    [
        pytest.param([Read(0, 0), apply("one", (0,), 1), Write((0, 1), (1, 1))], id="two places"),
        pytest.param(
            [Read(0, 0), apply("one", (0,), 1), Write((0,), (1,)), Formula(2, 1, 1, 0.5), Write((0,), (2,)), Write((1,), (1,))],
            id="read again later",
        ),
        pytest.param(
            [Read(0, 0), apply("one", (0,), 1), Formula(2, 0, 1, 0.0), Cut(), Write((1,), (2,)), Write((0,), (1,))],
            id="the old value is still read",
        ),
        pytest.param([Read(0, 0), Read(1, 1), apply("one", (0,), 2), Write((0, 1), (2, 0))], id="old value is moved on"),
        pytest.param(
            [Read(0, 0), apply("one", (0,), 1), Formula(2, 1, 1, 0.5), Write((0,), (2,)), Write((0,), (1,))],
            id="the place is written in between",
        ),
        pytest.param([Read(0, 0), Read(1, 1), Write((0, 1), (1, 0))], id="exchange"),
        pytest.param(
            [Read(0, 1), Formula(1, 0, 0, 1.0), Write((0,), (1,)), Read(2, 0), Write((2,), (2,))], id="lasting to lasting"
        ),
        pytest.param(
            [Read(0, 0), Formula(1, 0, 0, 1.0), Formula(2, 0, 1, 0.5), Write((0,), (1,)), Cut(), Write((0,), (2,))],
            id="its maker writes the place too",
        ),
        pytest.param(
            [Read(0, 0), apply("one", (0,), 1, every=2), Formula(2, 0, 0, 1.0), Write((0,), (2,)), Write((1,), (1,)),
             Read(3, 1), Formula(4, 3, 3, 0.25), Write((1,), (4,))],
            id="held results",
        ),
        pytest.param(
            [Read(0, 0), Repeat(2, (0,), (1,), (Read(6, 1), Formula(3, 1, 6, 0.5), apply("one", (1,), 2)), (3, 2), (4, 5)),
             Write((0, 1), (4, 5))],
            id="made in a loop",
        ),
        pytest.param(
            [Read(0, 0), apply("one", (0,), 1), Repeat(2, (0,), (2,), (Formula(3, 2, 1, 0.5),), (3,), (4,)),
             Write((0, 1), (1, 4))],
            id="read by a loop",
        ),
        pytest.param(
            [Read(0, 0), Repeat(3, (0,), (1,), (Formula(2, 1, 1, 0.5),), (2, 1), (3, 4)), Write((0, 1), (3, 4))],
            id="what the last round began with",
        ),
    ],
)  # fmt: skip
def test_what_is_needed_elsewhere_stays_where_it_is(program: Program) -> None:
    check(program)


# --- what a tape refuses --------------------------------------------------------------------------------------------------------


def test_a_body_must_return_what_it_takes() -> None:
    slots = Slots()
    x, tape = slots.make("x", (SIZE,)), Tape(slots)
    with pytest.raises(SimulationError, match="must return 2 arrays, got 1"):
        tape.repeat(2, lambda a, b: [a + b], [slots.read(x), slots.read(x)], ["a", "b"])


def test_a_body_must_keep_shapes() -> None:
    slots = Slots()
    x, tape = slots.make("x", (SIZE,)), Tape(slots)
    with pytest.raises(SimulationError, match=r"a has shape \(2,\), but the step gives it shape \(\)"):
        tape.repeat(2, lambda a: [a[0]], [slots.read(x)], ["a"])


def test_a_call_needs_all_inputs() -> None:
    slots = Slots()
    x, tape = slots.make("x", (SIZE,)), Tape(slots)
    function: Traced = TWO
    with pytest.raises(ValueError, match="zip"):
        tape.call(function, [slots.read(x)])
