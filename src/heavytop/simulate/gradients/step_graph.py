"""The calls of a step that move the state, and the schedule that records what a derivative of the step needs.

The step is the one of the simulation (:func:`.step_schedule`): its derivative is that of the very formulas that ran. Time and size of a step are
samples of tables here, so that steps of chosen sizes (``rkmk45``) and steps that end at an event have the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

from heavytop._arrays import symbol
from heavytop.compile import TIME, Call, Repeat, Schedule, trace_of
from heavytop.simulate.step_assembly import Terminals

CLOCK = "clock"
"""Table of the times at the starts of the steps."""

LONG = 12
"""Instructions per result above which a function is long."""

Item = Call | Repeat


@dataclass(frozen=True, eq=False)
class StepGraph:
    """A step as calls on named buffers.

    Attributes
    ----------
    schedule : with time and step size as tables.
    terminals : names of the buffers.
    stationary : (function, input) whose derivative vanishes where an iteration has converged: Newton's method.
    keeps : whether results of long functions are recorded, so that the adjoint need not compute them again. For single trajectories: many of them
        would have to wait for the memory longer than for the computation.
    """

    schedule: Schedule
    terminals: Terminals
    stationary: frozenset[tuple[str, str]] = frozenset()
    keeps: bool = False

    @classmethod
    def of(cls, schedule: Schedule, stationary: Iterable[tuple[str, str]] = (), keeps: bool = False) -> StepGraph:
        """The graph of a step; with the clock and the step size as tables."""
        terminals = Terminals.of(schedule)
        timed = replace(
            schedule,
            buffers={**schedule.buffers, CLOCK: ()},
            advance=_renamed(schedule.advance),
            sample=_renamed(schedule.sample),
            observe=_renamed(schedule.observe),
            constants=tuple(name for name in schedule.constants if name != terminals.h),
            tables=(*schedule.tables, CLOCK, terminals.h),
        )
        return cls(timed, terminals, frozenset(stationary), keeps)

    @cached_property
    def rests(self) -> frozenset[str]:
        """Remainders of compensated sums: what rounding cuts off has no derivative."""
        return frozenset(self.terminals.rests)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The calls on which the followed state depends, in order; those of records that give inputs and velocities at the start first."""
        return _needed(self._all, {*self.followed, *self._shown})

    @cached_property
    def _all(self) -> tuple[Item, ...]:
        s = self.schedule
        shown = [c for c in s.observe if isinstance(c, Call) and {self.terminals.u, self.terminals.v} & set(c.outputs)]
        return (*s.sample, *_needed(s.observe, {name for c in shown for name in c.outputs}), *s.advance)

    @property
    def _shown(self) -> tuple[str, ...]:
        return self.terminals.u, self.terminals.v

    @cached_property
    def followed(self) -> tuple[str, ...]:
        """State buffers that the motion depends on, remainders of sums excluded."""
        at = self.terminals
        wanted = {name for name in (at.q, at.v, at.memory) if name is not None and name in self.schedule.state}
        while True:
            read = {name for call in calls(_needed(self._all, {*wanted, *self._shown})) for name in call.inputs}
            more = wanted | ({*self.schedule.state} & read) - self.rests
            if more == wanted:
                return tuple(name for name in self.schedule.state if name in wanted)
            wanted = more

    @cached_property
    def held(self) -> tuple[str, ...]:
        """Buffers that are written in some steps only."""
        return tuple(
            name
            for name in dict.fromkeys(name for c in calls(self.items) if c.every > 1 for name in c.outputs)
            if name not in self.schedule.state
        )

    @cached_property
    def period(self) -> int:
        """Steps after which the pattern of held calls repeats."""
        return lcm(*(c.every for c in calls(self.items) if not self.removes_rounding(c)), 1)

    def removes_rounding(self, call: Item) -> bool:
        """Whether a call projects q back onto its manifold every now and then: on tangents this is the identity."""
        return isinstance(call, Call) and call.every > 1 and call.outputs == (self.terminals.q,)

    @cached_property
    def recorded(self) -> tuple[str, ...]:
        """What a record of the step holds: followed state, held values, inputs, velocities, and the remainders to go on from."""
        at = self.terminals
        names = (*self.followed, *self.held, at.v, at.u, *(name for name in self.schedule.state if name in self.rests))
        return tuple(dict.fromkeys(names))

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Results of long functions that are recorded."""
        s = self.schedule
        plain = all(
            isinstance(c, Call) and (c.every == 1 or self.removes_rounding(c)) and c.when is None for c in s.advance
        )
        if not self.keeps or not plain:
            return ()
        written = [name for c in calls(s.advance) for name in c.outputs]
        names = []
        for c in calls(self.items):
            size = sum(self.size(name) for name in c.outputs)
            long = s.functions[c.function].instructions > LONG * size
            if c in s.advance and long and all(written.count(n) == 1 and n not in s.state for n in c.outputs):
                names += c.outputs
        return tuple(names)

    @cached_property
    def recording(self) -> Schedule:
        """The step with all of that in its records."""
        s = self.schedule
        if not self.kept:
            return replace(s, record=self.recorded)
        # everything is computed before the record is taken; then the state moves on
        after = {name: f"{name} next" for name in s.state}
        moved: dict[str, str] = {}
        body = []
        for c in calls(s.advance):
            inputs = tuple(moved.get(name, name) for name in c.inputs)
            moved |= {name: after[name] for name in c.outputs if name in after}
            body.append(replace(c, inputs=inputs, outputs=tuple(moved.get(name, name) for name in c.outputs)))
        sizes = [self.size(name) for name in moved]
        symbols = {f"x{k}": symbol(f"x{k}", n) for k, n in enumerate(sizes)}
        move = trace_of("move", symbols, {f"y{k}": x for k, x in enumerate(symbols.values())})
        return replace(
            s,
            functions={**s.functions, "move": move},
            buffers={**s.buffers, **{new: s.layout.shapes[old] for old, new in moved.items()}},
            sample=(*s.sample, *s.observe, *body),
            observe=(),
            advance=(Call("move", tuple(moved.values()), tuple(moved)),),
            record=(*self.recorded, *self.kept),
        )

    def size(self, name: str) -> int:
        """Number of scalars of a buffer."""
        return self.schedule.layout.sizes[name]


def calls(items: Sequence[Item]) -> list[Call]:
    """All calls, bodies of repetitions once."""
    return [c for item in items for c in ([item] if isinstance(item, Call) else calls(item.body))]


def _renamed(items: Sequence[Item]) -> tuple[Item, ...]:
    """The same calls with the clock from a table."""
    renamed: list[Item] = []
    for item in items:
        if isinstance(item, Repeat):
            renamed.append(replace(item, body=_renamed(item.body)))
        else:
            renamed.append(replace(item, inputs=tuple(CLOCK if name == TIME else name for name in item.inputs)))
    return tuple(renamed)


def _needed(items: Sequence[Item], wanted: Iterable[str]) -> tuple[Item, ...]:
    """The items that buffers depend on, in order."""
    needed, kept = set(wanted), []
    for item in reversed(items):
        inside = calls([item])
        if any(name in needed for call in inside for name in call.outputs):
            kept.append(item)
            needed |= {name for call in inside for name in call.inputs}
    return tuple(reversed(kept))
