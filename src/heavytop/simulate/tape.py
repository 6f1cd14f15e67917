"""Slots, the buffers of a step, and the tape on which a step is written down.

Formulas are computed on symbols as they are met. Where a separate function is called (the motion, a law), its inputs have to lie
in slots: the tape ends a section there and makes one traced function of everything the section computed that is needed later. So code that
writes a step writes formulas; slots, functions and their order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, is_symbolic, shape, symbol, to_sx
from heavytop.compile import Call, Repeat, Shape, Traced, trace_of
from heavytop.errors import SimulationError


@dataclass(frozen=True, eq=False)
class Slot:
    """A buffer of the step: one array per trajectory. Two slots are equal if they are the same.

    Attributes
    ----------
    role : what it holds, for people.
    shape : shape of the array.
    """

    role: str
    shape: Shape


class Slots:
    """All slots and functions of a step, and the names that the native code knows them by: the one place that makes names."""

    def __init__(self) -> None:
        self._names: dict[Slot, str] = {}
        self._symbols: dict[Slot, Array] = {}
        self._owners: dict[int, Slot] = {}
        self._objects: dict[int, Slot] = {}
        self._functions: dict[Traced, str] = {}

    def make(self, role: str, shape: Shape = (), name: str | None = None) -> Slot:
        """A new slot; ``name`` is for those that the native loop fills by itself, such as its clock."""
        slot = Slot(role, tuple(shape))
        self._names[slot] = f"{role} {len(self._names)}" if name is None else name
        flat = symbol(self._names[slot], prod(slot.shape)) if slot.shape else symbol(self._names[slot])
        self._symbols[slot] = flat
        self._objects[id(flat)] = slot  # even if it has no entries
        for element in to_sx(flat).elements():
            self._owners[_identity(element)] = slot
        return slot

    def name(self, slot: Slot) -> str:
        """The name of a slot in the native code."""
        return self._names[slot]

    def names(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """The names of several slots."""
        return tuple(self._names[slot] for slot in slots)

    def read(self, slot: Slot) -> Array:
        """The symbols of what a slot holds."""
        flat = self._symbols[slot]
        return flat if shape(flat) == slot.shape else np.reshape(flat, slot.shape)

    def flat(self, slot: Slot) -> Array:
        """The symbols of a slot, listed row by row."""
        return self._symbols[slot]

    def read_by(self, expressions: Sequence[Array]) -> list[Slot]:
        """The slots that expressions depend on, in the order in which they were made."""
        import casadi

        columns = [to_sx(e) for e in expressions if is_symbolic(e)]
        found = (
            {self._owners.get(s.element_hash()) for s in casadi.symvar(casadi.vertcat(*columns))} if columns else set()
        )
        if None in found:
            raise SimulationError(
                "a step computes with a symbol that is not a value of this step. Use the values it was given."
            )
        return [slot for slot in self._names if slot in found]

    def slot_of(self, expression: Array) -> Slot | None:
        """The slot that holds exactly this expression, if there is one."""
        if not is_symbolic(expression):
            return None
        if id(expression) in self._objects:
            return self._objects[id(expression)]
        elements = to_sx(expression).elements()
        owner = self._owners.get(_identity(elements[0])) if elements else None
        if owner is None or shape(expression) != owner.shape:
            return None
        own = to_sx(self._symbols[owner]).elements()
        same = len(own) == len(elements) and all(
            _identity(a) == _identity(b) for a, b in zip(own, elements, strict=True)
        )
        return owner if same else None

    def function(self, traced: Traced) -> str:
        """The name of a function in the native code; equal functions are those that are the same object."""
        if traced not in self._functions:
            self._functions[traced] = f"{traced.name} {len(self._functions)}"
        return self._functions[traced]

    @property
    def shapes(self) -> dict[str, Shape]:
        """Name -> shape of every slot."""
        return {name: slot.shape for slot, name in self._names.items()}

    @property
    def functions(self) -> dict[str, Traced]:
        """Name -> function, of all that were called."""
        return {name: traced for traced, name in self._functions.items()}


@dataclass(eq=False)
class _Section:
    """Formulas between two calls: slot -> expression, and slot -> rank in the order in which the expressions were made."""

    outputs: dict[Slot, Array] = field(default_factory=dict)
    ranks: dict[Slot, int] = field(default_factory=dict)

    def add(self, slot: Slot, expression: Array, rank: int) -> None:
        self.outputs[slot], self.ranks[slot] = expression, rank


@dataclass(eq=False)
class _Evaluation:
    """One call of a function."""

    function: Traced
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    every: int = 1
    when: int | None = None


@dataclass(eq=False)
class _Loop:
    """Entries that are repeated, a number of times or until ``done`` is not zero."""

    body: list[_Entry]
    times: int
    done: Slot | None = None


_Entry = _Section | _Evaluation | _Loop


class TapeValue:
    """Something that was computed: an expression where it was made, the contents of a slot in every later section."""

    def __init__(self, tape: Tape, expression: Array, role: str) -> None:
        self._tape, self._section, self._role, self._rank = tape, tape.section, role, tape.next_rank()
        self.expression = expression if is_symbolic(expression) else as_array(expression)
        self._slot = tape.slots.slot_of(self.expression)

    def get(self) -> Array:
        """The symbols to compute with here and now."""
        if self._tape.section is self._section:
            return self.expression
        return self._tape.slots.read(self.slot)

    @property
    def slot(self) -> Slot:
        """The slot of this value; the section that computed it writes it there."""
        if self._slot is None:
            self._slot = self._tape.temporary(self._role, shape(self.expression))
            self._section.add(self._slot, self.expression, self._rank)
        return self._slot


class Tape:
    """The calls of one phase of a step, in order."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.section = _Section()
        self._entries: list[_Entry] = [self.section]
        self._rank = 0
        self._temporary: set[Slot] = set()
        self._moved: dict[Slot, Slot] = {}

    def temporary(self, role: str, shape: Shape) -> Slot:
        """A new slot that only this tape reads."""
        slot = self.slots.make(role, shape)
        self._temporary.add(slot)
        return slot

    def next_rank(self) -> int:
        """Numbers in rising order."""
        self._rank += 1
        return self._rank

    def value(self, expression: Array, role: str) -> TapeValue:
        """Something that is computed here and may be read later."""
        return TapeValue(self, expression, role)

    def cut(self) -> None:
        """End the section: the code that follows is a separate function."""
        self.section = _Section()
        self._entries.append(self.section)

    def call(
        self,
        function: Traced,
        inputs: Sequence[Slot | TapeValue | Array],
        outputs: Sequence[Slot] | None = None,
        every: int = 1,
        when: int | None = None,
    ) -> tuple[Array, ...]:
        """Call a separate function; its inputs are put into slots first. Returns what it computes.

        ``outputs`` are the slots it writes, new ones if not given; ``every`` and ``when`` as in :class:`.Call`.
        """
        names = tuple(function.inputs)
        sources = tuple(self._in_slot(x, role) for x, role in zip(inputs, names, strict=True))
        if outputs is None:
            outputs = [self.temporary(name, tuple(size)) for name, size in function.outputs.items()]
        self._entries.append(_Evaluation(function, sources, tuple(outputs), every, when))
        self.cut()
        return tuple(self.slots.read(slot) for slot in outputs)

    def _in_slot(self, x: Slot | TapeValue | Array, role: str) -> Slot:
        if isinstance(x, Slot):
            return x
        return x.slot if isinstance(x, TapeValue) else self.value(x, role).slot

    def repeat(
        self,
        times: int,
        body: Callable[..., Sequence[Array]],
        start: Sequence[Array],
        roles: Sequence[str],
        *,
        ends: bool = False,
    ) -> tuple[Array, ...]:
        """Apply ``body`` to ``start`` several times; returns its last results.

        The body is written down once and is a loop of the native program. It returns as many arrays as it takes, and then what else is
        wanted of the last round. If it ``ends`` by itself, its first output is a stop flag: the rounds end when it is not zero,
        and until the neighbours of a trajectory are done, the body must leave everything as it is.
        """
        carried = [self.slots.make(role, shape(as_array(x))) for role, x in zip(roles, start, strict=True)]
        self.write(carried, [self.value(x, role) for x, role in zip(start, roles, strict=True)])
        outer, self._entries = self._entries, []
        self.cut()
        results = list(body(*(self.slots.read(slot) for slot in carried)))
        if len(results) < len(carried):
            raise SimulationError(f"the body of a repetition must return {len(carried)} arrays, got {len(results)}.")
        values = [self.value(x, role) for x, role in zip(results, roles, strict=False)]
        last = [self._kept(x) for x in results[len(carried) :]]
        self.write(carried, values)
        inner, self._entries = self._entries, outer
        self._entries.append(_Loop(inner, times, carried[0] if ends else None))
        self.cut()
        return tuple(self.slots.read(slot) for slot in (*carried, *last))

    def _kept(self, x: Array) -> Slot:
        """A slot that goes on holding what is computed here, whatever else is written."""
        slot = self.value(x, "last").slot
        if slot in self._temporary:
            return slot
        copy = self.temporary("last", slot.shape)
        self.section.add(copy, x, self.next_rank())
        return copy

    def write(self, targets: Sequence[Slot], values: Sequence[TapeValue]) -> None:
        """Write values to slots at the end of the tape, all at the same time.

        Where possible, a value is computed in its new place and not copied.
        """
        for target, value in zip(targets, values, strict=True):
            if shape(value.expression) != target.shape:
                raise SimulationError(
                    f"{target.role} has shape {target.shape}, but the step gives it shape {shape(value.expression)}."
                )
            if self.slots.slot_of(value.expression) is not target:
                self.section.add(target, value.get(), self.next_rank())
        self.cut()

    # --- from entries to calls --------------------------------------------------------------------------------------------

    def calls(self) -> list[Call | Repeat]:
        """Everything as calls of functions on named buffers, and repetitions of them."""
        self._write_in_place(self._entries)
        return self._calls(self._entries)

    def _calls(self, entries: Sequence[_Entry]) -> list[Call | Repeat]:
        result: list[Call | Repeat] = []
        for entry in entries:
            if isinstance(entry, _Loop):
                done = None if entry.done is None else self.slots.name(entry.done)
                result.append(Repeat(tuple(self._calls(entry.body)), entry.times, done))
            elif isinstance(entry, _Evaluation):
                result.append(self._call(entry))
            elif entry.outputs:
                result.append(self._call(self._formulas(entry)))
        return result

    def _call(self, entry: _Evaluation) -> Call:
        inputs = self.slots.names([self._moved.get(slot, slot) for slot in entry.inputs])
        outputs = self.slots.names([self._moved.get(slot, slot) for slot in entry.outputs])
        return Call(self.slots.function(entry.function), inputs, outputs, entry.every, entry.when)

    def _formulas(self, section: _Section) -> _Evaluation:
        """The formulas of a section as a function."""
        inputs = self.slots.read_by(list(section.outputs.values()))
        written = sorted(section.outputs, key=lambda slot: section.ranks[slot])
        symbols = {self.slots.name(slot): self.slots.flat(slot) for slot in inputs}
        outputs = {self.slots.name(slot): section.outputs[slot] for slot in written}
        return _Evaluation(trace_of("formulas", symbols, outputs), tuple(inputs), tuple(written))

    def _write_in_place(self, entries: list[_Entry]) -> None:
        """Where a value is only copied to another slot, let those who compute and read it use that slot at once."""
        for k, entry in enumerate(entries):
            if isinstance(entry, _Loop):
                self._write_in_place(entry.body)
            elif isinstance(entry, _Section):
                for target, expression in list(entry.outputs.items()):
                    source = self.slots.slot_of(expression)
                    if source is not None and self._may_move(entries[:k], entry, source, target):
                        self._moved[source] = target
                        del entry.outputs[target]

    def _may_move(self, before: Sequence[_Entry], section: _Section, source: Slot, target: Slot) -> bool:
        """Whether ``source`` is made before a section, read by nothing else behind it, while nothing needs ``target``."""
        makers = [k for k, entry in enumerate(before) if source in self._writes(entry)]
        if source not in self._temporary or source in self._moved or len(makers) != 1:
            return False
        maker = before[makers[0]]
        if isinstance(maker, _Loop) or target in self._writes(maker):
            return False
        between = before[makers[0] + 1 :]
        others = [e for slot, e in section.outputs.items() if slot is not target]
        inside = sum(source in self._reads(entry) for entry in between) + 1
        everywhere = sum(source in self._reads(entry) for entry in _flat(self._entries))
        maker = before[makers[0]]
        written = sum(source in self._writes(entry) for entry in _flat(self._entries))
        return (
            not any(isinstance(entry, _Loop) for entry in between)
            and inside == everywhere
            and written == 1
            and source not in self.slots.read_by(others)
            and target not in self.slots.read_by(others)
            and not any(target in (*self._reads(entry), *self._writes(entry)) for entry in between)
            and not (isinstance(maker, _Evaluation) and maker.every != 1)
        )

    def _reads(self, entry: _Entry) -> list[Slot]:
        if isinstance(entry, _Loop):
            return [slot for inner in entry.body for slot in self._reads(inner)]
        found = entry.inputs if isinstance(entry, _Evaluation) else self.slots.read_by(list(entry.outputs.values()))
        return [self._moved.get(slot, slot) for slot in found]

    def _writes(self, entry: _Entry) -> list[Slot]:
        if isinstance(entry, _Loop):
            return [slot for inner in entry.body for slot in self._writes(inner)]
        return [self._moved.get(slot, slot) for slot in entry.outputs]


def _flat(entries: Sequence[_Entry]) -> list[_Entry]:
    """Entries without loops, the bodies of loops once."""
    return [e for entry in entries for e in (_flat(entry.body) if isinstance(entry, _Loop) else [entry])]


def _identity(element: Any) -> int:
    """Identity of a CasADi symbol, also among symbols of the same name."""
    return element.element_hash()
