"""One step of a simulation: calls of traced functions on named buffers.

A step has three phases. ``sample`` runs first (references, control laws; a call may run only every n-th step and
its outputs are held in between), ``observe`` runs only where a record is taken, ``advance`` computes the next
state. Each phase is a list of calls in order, for example Runge and Kutta's scheme with stages ``f``::

    advance = (Call("f", ("x", "u"), ("k1",)), Call("half", ("x", "k1", "h"), ("x2",)), Call("f", ("x2", "u"),
    ("k2",)), ...)

A :class:`Repeat` among them is a loop of the native program; its body is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from heavytop.compile.signature import Shape
from heavytop.compile.trace import Traced
from heavytop.errors import ModelError, unknown_name

TIME, STEP = "time", "step"
"""Buffers that always exist: the time of the step and its number, as scalars."""


@dataclass(frozen=True)
class Call:
    """One call: a function by name, the buffers it reads and writes, and the steps (every n-th) in which it runs.

    ``when`` is the index of a scalar among the inputs: if it is zero in all lanes, the call is skipped. Such a call writes only buffers that it
    reads, and leaves them unchanged in lanes where the scalar is zero, so that skipping it makes no difference.

    Examples
    --------
    >>> Call("rate", ("q", "v"), ("w",), every=4).every
    4
    """

    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    every: int = 1
    when: int | None = None


@dataclass(frozen=True)
class Repeat:
    """Calls that run ``times`` times in a row, or as long as the scalar buffer ``done`` is zero; with ``times`` 1, a condition.

    Trajectories that are stepped together leave the loop together. The body must not change a trajectory whose ``done`` is not zero, so that
    results do not depend on the other trajectories.

    >>> Repeat((Call("improve", ("x",), ("x", "good")),), 20, "good").times
    20
    """

    body: tuple[Call | Repeat, ...]
    times: int
    done: str | None = None


Item = Call | Repeat


def in_order(items: Sequence[Item], rounds: int = 1) -> list[Call]:
    """All calls in order, the bodies of repetitions ``rounds`` times.

    Two rounds show everything that one round leaves for the next, which determines the lifetimes of buffers.
    """
    calls: list[Call] = []
    for item in items:
        calls += [item] if isinstance(item, Call) else in_order(item.body, rounds) * rounds
    return calls


def flags(items: Sequence[Item]) -> list[str]:
    """The buffers that end repetitions."""
    found: list[str] = []
    for item in items:
        if isinstance(item, Repeat):
            found += [*flags(item.body), *([] if item.done is None else [item.done])]
    return found


@dataclass(frozen=True)
class Layout:
    """Names and shapes a step works with, without the functions.

    Attributes
    ----------
    shapes : trailing shape of every buffer.
    state : buffers carried from step to step.
    held : outputs of calls that do not run in every step; they persist like state.
    constants : one value per trajectory (parameters).
    tables : one value per sample, held until the next one (inputs).
    record : recorded buffers.
    notes : plain data of the maker of the schedule, kept with the native code.
    """

    shapes: dict[str, Shape]
    state: tuple[str, ...]
    held: tuple[str, ...]
    constants: tuple[str, ...]
    tables: tuple[str, ...]
    record: tuple[str, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def persistent(self) -> tuple[str, ...]:
        """Buffers that persist between native calls."""
        return self.state + self.held

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of scalars of every buffer."""
        return {name: prod(shape) for name, shape in self.shapes.items()}

    @cached_property
    def record_size(self) -> int:
        """Number of scalars of a record."""
        return sum(self.sizes[name] for name in self.record)

    def size(self, name: str) -> int:
        """Number of scalars of a buffer."""
        return self.sizes[name]

    @classmethod
    def from_description(cls, data: dict[str, Any]) -> Layout:
        """Inverse of ``dataclasses.asdict``, also of the lists that JSON makes of tuples."""
        groups = (tuple(data[key]) for key in ("state", "held", "constants", "tables", "record"))
        return cls({name: tuple(shape) for name, shape in data["shapes"].items()}, *groups, notes=data["notes"])


@dataclass(frozen=True, eq=False)
class Schedule:
    """The calls of one step and their buffers; checked when constructed.

    Parameters
    ----------
    functions : the traced functions by the names that calls use.
    buffers : trailing shape (or length) of every buffer. ``"time"`` and ``"step"`` exist always.
    state : buffers carried from step to step; they must be given at the start.
    advance, sample, observe : the calls of the three phases.
    constants : buffers given once per trajectory.
    tables : buffers given per sample and held in between.
    record : buffers to record; the state if empty.
    notes : plain data (JSON) kept with the native code in the cache.

    Examples
    --------
    >>> from heavytop.compile import trace
    >>> fall = trace(lambda z, v, h: (z + h * v, v - 9.81 * h), {"z": (), "v": (), "h": ()}, name="fall")
    >>> step = Call("fall", ("z", "v", "h"), ("z", "v"))
    >>> Schedule({"fall": fall}, {"z": (), "v": (), "h": ()}, ("z", "v"), [step], constants=("h",)).state
    ('z', 'v')
    """

    functions: Mapping[str, Traced]
    buffers: Mapping[str, int | Shape]
    state: Sequence[str]
    advance: Sequence[Item]
    sample: Sequence[Item] = ()
    observe: Sequence[Item] = ()
    constants: Sequence[str] = ()
    tables: Sequence[str] = ()
    record: Sequence[str] = field(default=())
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = set(self.state) | set(self.constants) | set(self.tables) | {TIME, STEP}
        for name in (*self.state, *self.constants, *self.tables, *self.record):
            self._shape(name)
        fixed = {*self.constants, *self.tables, TIME, STEP}
        for call in in_order(self.sample):
            self._check(call, known, fixed)
            known |= set(call.outputs)
        seen = set(known)
        for call in in_order(self.observe):
            if call.every != 1:
                raise ModelError(
                    f"the call of {call.function!r} in observe runs with every record, got every={call.every}."
                )
            self._check(call, seen, fixed | set(self.state))
            seen |= set(call.outputs)
        if late := [name for name in self.layout.record if name not in seen]:
            raise ModelError(
                f"{late[0]!r} cannot be recorded: no call of sample or observe writes it before the record is taken."
            )
        for call in in_order(self.advance):
            self._check(call, known, fixed)
            known |= set(call.outputs)
        for name in flags((*self.sample, *self.observe, *self.advance)):
            if self._shape(name) != ():
                raise ModelError(
                    f"the buffer {name!r} that ends a repetition must be one number, got shape {self._shape(name)}."
                )

    def _shape(self, name: str) -> Shape:
        if name in (TIME, STEP):
            return ()
        if name not in self.buffers:
            raise unknown_name("buffer", name, [*self.buffers, TIME, STEP])
        shape = self.buffers[name]
        return (shape,) if isinstance(shape, int) else tuple(shape)

    def _check(self, call: Call, known: set[str], fixed: set[str]) -> None:
        if call.function not in self.functions:
            raise unknown_name("function", call.function, self.functions)
        traced = self.functions[call.function]
        for kind, names, sizes in (
            ("inputs", call.inputs, traced.input_sizes),
            ("outputs", call.outputs, traced.output_sizes),
        ):
            got = tuple(prod(self._shape(name)) for name in names)
            if got != sizes:
                raise ModelError(
                    f"the {kind} {names} of the call of {call.function!r} have {got} scalars; the function has {sizes}."
                )
        for name in call.inputs:
            if name not in known:
                raise ModelError(
                    f"{call.function!r} reads the buffer {name!r} before anything writes it; "
                    "write it earlier in the step, or declare it as state, constant or table."
                )
        for name in call.outputs:
            if name in fixed:
                raise ModelError(f"{call.function!r} writes the buffer {name!r}, which is an input of this phase.")
        if call.when is not None and not set(call.outputs) <= set(call.inputs):
            raise ModelError(
                f"the call of {call.function!r} may be skipped, so it must read the buffers that it writes: {call.outputs}."
            )
        if len(set(call.outputs)) != len(call.outputs):
            raise ModelError(f"the call of {call.function!r} writes a buffer twice: {call.outputs}.")

    @property
    def items(self) -> tuple[Item, ...]:
        """All calls and repetitions in the order of the step."""
        return (*self.sample, *self.observe, *self.advance)

    @cached_property
    def layout(self) -> Layout:
        """Names and shapes without the functions."""
        names = dict.fromkeys([*self.buffers, TIME, STEP])
        held = [
            name
            for call in in_order((*self.sample, *self.advance))
            if call.every > 1
            for name in call.outputs
            if name not in self.state
        ]
        return Layout(
            {name: self._shape(name) for name in names},
            tuple(self.state),
            tuple(dict.fromkeys(held)),
            tuple(self.constants),
            tuple(self.tables),
            tuple(self.record or self.state),
            dict(self.notes),
        )
