"""The adjoint of a step: from weights ("bars") of the state after it to weights of the state before it, and of all it read.

A schedule whose step number j is the adjoint of step M - j of the run. It computes the values of the step again from the recorded state and goes
through its calls in reverse order. Bars belong to buffers: a call takes the bars of what it wrote and adds to those of what it read.

An iteration ``x = g(x, p)`` that has converged is linearised there: its bar solves ``b = bar + g_x^T b`` (Christianson 1994), and ``g_p^T b``
is passed on. For Newton's method ``g_x`` vanishes, and b is the bar itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from heavytop._arrays import symbol
from heavytop.compile import Call, Repeat, Schedule, Shape, Traced, adjoint, reached_outputs, trace_of
from heavytop.errors import SimulationError
from heavytop.simulate.gradients.step_graph import Item, StepGraph, calls
from heavytop.simulate.gradients.tangent_step import ROUNDS, carried_by, converged, copies, zeros


def bar(name: str) -> str:
    """The buffer with the weights of another one."""
    return f"bar {name}"


def seed(name: str) -> str:
    """The table with weights that enter at a record."""
    return f"seed {name}"


def adjoint_schedule(graph: StepGraph, roots: Iterable[str]) -> Schedule:
    """The adjoint of a step.

    State: bars of the followed state, of held values, and of ``roots`` (constants: summed over the steps; tables: of the step before). Tables: the
    recorded state and the tables of the step in reverse order, and seeds of q, v and u, which are added at the start of each step.
    """
    return _Adjoint(graph, roots).schedule()


@dataclass
class _Entry:
    """One call on values: the function, where its inputs are, and the buffers that its inputs and outputs stand for."""

    function: str
    traced: Traced
    values: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    every: int = 1
    when: int | None = None


@dataclass
class _Loop:
    """A repetition where it has converged: its body once more, and the buffers that a round leaves for the next one."""

    carried: list[str]
    body: list[_Entry]


class _Adjoint:
    def __init__(self, graph: StepGraph, roots: Iterable[str]) -> None:
        self.graph, self.roots = graph, tuple(roots)
        self.shapes, self.kept = graph.schedule.layout.shapes, frozenset(graph.kept)
        self.functions: dict[str, Traced] = {}
        self.buffers: dict[str, Shape] = {}
        self.forward: list[Item] = []
        self.now: dict[str, str] = {}
        self.count = 0
        self.entries: list[_Entry | _Loop] = []
        self.lasting = {*graph.followed, *graph.held, *self.roots}
        self.reach: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}

    # --- values --------------------------------------------------------------------------------------------------------------

    def _take(self, items: Sequence[Item]) -> None:
        for item in items:
            if self.graph.removes_rounding(item):
                continue
            if isinstance(item, Repeat):
                self._loop(item)
            else:
                self.entries.append(self._value(item, self.forward))

    def _value(self, call: Call, into: list[Item]) -> _Entry:
        """Compute a call on versions of its buffers."""
        traced = self.graph.schedule.functions[call.function]
        values = tuple(self.now.get(name, name) for name in call.inputs)
        entry = _Entry(call.function, traced, values, call.inputs, call.outputs, call.every, call.when)
        if call.every > 1 or set(call.outputs) <= self.kept:  # recorded
            return entry
        if call.when is not None:
            outputs = tuple(self.now[name] for name in call.outputs)
        else:
            outputs = tuple(self._version(name) for name in call.outputs)
        self.functions[call.function] = traced
        into.append(Call(call.function, values, outputs, 1, call.when))
        return entry

    def _version(self, name: str) -> str:
        self.count += 1
        self.now[name] = f"{name} #{self.count}"
        self.buffers[self.now[name]] = self.shapes[name]
        return self.now[name]

    def _loop(self, item: Repeat) -> None:
        if any(isinstance(c, Repeat) for c in item.body):
            raise SimulationError("nested repetitions within a step cannot be differentiated.")
        body = calls(item.body)
        carried = carried_by(item)
        written = {name for call in body for name in call.outputs}
        for name in written:
            if name not in self.now:
                self._version(name)
        for call in body:
            self.functions[call.function] = self.graph.schedule.functions[call.function]
        place = dict(self.now)
        primal = tuple(
            replace(c, inputs=tuple(place.get(n, n) for n in c.inputs), outputs=tuple(place[n] for n in c.outputs))
            for c in body
        )
        self.forward.append(Repeat(primal, item.times, None if item.done is None else place[item.done]))
        if item.done is not None:  # a body that has ended leaves everything as it is
            self._version(item.done)
            self.forward.append(self._zeros([self.now[item.done]]))
        entries = [self._value(call, self.forward) for call in body]
        self.now |= {name: place[name] for name in written}
        self.entries.append(_Loop(carried, entries))

    # --- bars ----------------------------------------------------------------------------------------------------------------

    def schedule(self) -> Schedule:
        graph, s, at = self.graph, self.graph.schedule, self.graph.terminals
        kept = {id(item) for item in graph.items}
        self._take([item for item in (*s.sample, *s.observe) if id(item) in kept])
        shown = len(self.entries)
        self._take([item for item in s.advance if id(item) in kept])
        moving, live = self._activity(), set(self.lasting)
        tabled = tuple(bar(name) for name in self.roots if name in s.tables)
        for name in (*graph.followed, *graph.held, *self.roots):
            self.buffers[bar(name)] = self.shapes[name]
        back: list[Item] = [self._zeros(tabled)] if tabled else []
        self._reverse(back, self.entries[shown:], moving, live)
        early = {name for c in calls((*s.sample, *s.observe)) for name in c.outputs}
        self._add_seeds(back, [name for name in (at.u, at.v) if name in early], live)
        self._reverse(back, self.entries[:shown], moving, live)
        self._add_seeds(back, [name for name in (at.q, at.v, at.u) if name in self.lasting and name not in early], live)
        items = (*self._pruned(back), *back)
        state = tuple(bar(name) for name in dict.fromkeys((*graph.followed, *graph.held, *self.roots)))
        used = {name for c in calls(items) for name in (*c.inputs, *c.outputs)}
        constants = tuple(name for name in (*s.constants, *sorted(graph.rests)) if name in used)
        seeds = (seed(at.q), seed(at.v), seed(at.u))
        tables = dict.fromkeys((*graph.followed, *graph.held, *s.tables, *graph.kept, at.v, *seeds))
        tables = tuple(name for name in tables if name in used)
        for name in (*constants, *tables):
            self.buffers[name] = self.shapes[name.removeprefix("seed ")]
        buffers = {name: shape for name, shape in self.buffers.items() if name in used or name in state}
        return Schedule(
            self.functions, buffers, state, items, constants=constants, tables=tables, record=tabled or state[:1]
        )

    def _reverse(
        self, into: list[Item], entries: Sequence[_Entry | _Loop], moving: dict[int, tuple[int, ...]], live: set[str]
    ) -> None:
        """The adjoints of some calls, the last one first; ``live`` has the buffers whose bars hold something."""
        for entry in reversed(entries):
            if isinstance(entry, _Loop):
                self._reverse_loop(into, entry, moving, live)
            else:
                self._reverse_call(into, entry, moving[id(entry)], live)

    def _pruned(self, backward: Sequence[Item]) -> list[Item]:
        """The calls of the forward part whose values are read."""
        needed = {name for c in calls(backward) for name in c.inputs}
        kept: list[Item] = []
        for item in reversed(self.forward):
            inside = calls([item])
            if any(name in needed for c in inside for name in c.outputs):
                kept.append(item)
                needed |= {name for c in inside for name in c.inputs}
        return kept[::-1]

    def _activity(self) -> dict[int, tuple[int, ...]]:
        """For each call the inputs that move with the state or the roots."""
        moving = {*self.graph.followed, *self.roots, *self.graph.held}
        found: dict[int, tuple[int, ...]] = {}

        def visit(entry: _Entry) -> None:
            active = self._active(entry, moving)
            found[id(entry)] = active
            moved = {entry.outputs[j] for j in self._reached(entry, active)}
            if entry.every == 1 and entry.when is None:
                moving.difference_update(set(entry.outputs) - moved - {*self.graph.followed})
            moving.update(moved)

        for entry in self.entries:
            if isinstance(entry, _Loop):
                moving.update(entry.carried)
                for _ in range(2):
                    for inner in entry.body:
                        visit(inner)
            else:
                visit(entry)
        return found

    def _active(self, entry: _Entry, moving: set[str]) -> tuple[int, ...]:
        labels = list(entry.traced.inputs)
        return tuple(
            k
            for k, name in enumerate(entry.inputs)
            if name in moving
            and name not in self.graph.rests
            and (entry.traced.name, labels[k]) not in self.graph.stationary
        )

    def _reached(self, entry: _Entry, active: tuple[int, ...]) -> tuple[int, ...]:
        key = entry.function, active
        if key not in self.reach:
            self.reach[key] = reached_outputs(entry.traced, active) if active else ()
        return self.reach[key]

    def _reverse_call(
        self, into: list[Item], entry: _Entry, active: tuple[int, ...], live: set[str], prefix: str = ""
    ) -> None:
        """The adjoint of a call; bars of an inner iteration have a prefix, and none of them lasts."""
        lasting: set[str] = set() if prefix else self.lasting
        reached = self._reached(entry, active)
        outputs = tuple(j for j, name in enumerate(entry.outputs) if name in live and j in reached)
        consumed = {name for name in entry.outputs if name in live}
        sometimes = entry.every > 1 or entry.when is not None
        targets = tuple(k for k in active if set(self._reached(entry, (k,))) & set(outputs))
        if not targets:
            if not sometimes:
                self._end(into, consumed, live, lasting, prefix)
            return
        names = [entry.inputs[k] for k in targets]
        if len(set(names)) < len(names):
            raise SimulationError(f"{entry.traced.name!r} reads the same buffer twice; its adjoint is not known here.")
        replaced = consumed & set(names)  # written and read: the new bar takes the place of the old one
        added = tuple(k for k in targets if (entry.inputs[k] in live or sometimes) and entry.inputs[k] not in replaced)
        for name in (*names, *(entry.outputs[j] for j in outputs)):
            self.buffers[prefix + bar(name)] = self.shapes[name]
        blank = [prefix + bar(entry.inputs[k]) for k in added if entry.inputs[k] not in live]
        if blank:
            into.append(self._zeros(blank))
        key = f"adjoint {entry.function} {outputs} {targets} {added}"
        if key not in self.functions:
            self.functions[key] = adjoint(entry.traced, targets, outputs, added)[0]
        bars = [prefix + bar(entry.outputs[j]) for j in outputs]
        sums = [prefix + bar(entry.inputs[k]) for k in added]
        results = tuple(prefix + bar(name) for name in names)
        into.append(Call(key, (*entry.values, *bars, *sums), results, entry.every, entry.when))
        if entry.when is None:
            self._end(into, consumed - replaced, live, lasting if entry.every == 1 else consumed, prefix, entry.every)
        live |= set(names)

    def _end(
        self, into: list[Item], names: set[str], live: set[str], lasting: set[str], prefix: str, every: int = 1
    ) -> None:
        """Bars of buffers end where these are written; those that last are zero before."""
        if ended := sorted(names & lasting):
            into.append(replace(self._zeros([prefix + bar(name) for name in ended]), every=every))
        live -= names - lasting

    def _add_seeds(self, into: list[Item], names: Sequence[str], live: set[str]) -> None:
        """Add the weights of a record."""
        for name in names:
            if not self.graph.size(name):
                continue
            self.buffers[bar(name)] = self.buffers[seed(name)] = self.shapes[name]
            into.append(
                self._sum(bar(name), seed(name), bar(name)) if name in live else self._copy(seed(name), bar(name))
            )
            live.add(name)

    # --- iterations ----------------------------------------------------------------------------------------------------------

    def _reverse_loop(self, into: list[Item], loop: _Loop, moving: dict[int, tuple[int, ...]], live: set[str]) -> None:
        written = {name for entry in loop.body for name in entry.outputs}
        if not written & live:
            return
        carried = [name for name in loop.carried if name in live]
        own, back = self._within(loop, loop.carried)
        if carried and back & set(carried):
            self._solve(into, loop, own, carried, live)
        read = (entry.inputs[k] for entry in loop.body for k in moving[id(entry)])
        others, _ = self._within(loop, [name for name in read if name not in written])
        for entry in reversed(loop.body):
            self._reverse_call(into, entry, others[id(entry)], live)
        live -= set(loop.carried)

    def _within(self, loop: _Loop, sources: Sequence[str]) -> tuple[dict[int, tuple[int, ...]], set[str]]:
        """For each call of the body the inputs that move with some sources, within one round; and all that moves after it."""
        moving, found = set(sources), {}
        for entry in loop.body:
            found[id(entry)] = self._active(entry, moving)
            moved = {entry.outputs[j] for j in self._reached(entry, found[id(entry)])}
            moving = (moving - set(entry.outputs)) | moved
        return found, moving

    def _solve(
        self, into: list[Item], loop: _Loop, own: dict[int, tuple[int, ...]], carried: list[str], live: set[str]
    ) -> None:
        """Solve b = bar + g_x^T b for the bars of what the iteration carries."""
        round_, given, last = "round ", "given ", "last "
        known = {name for entry in loop.body for name in entry.outputs if name in live}
        for name in known:
            for prefix in (round_, given, last):
                self.buffers[prefix + bar(name)] = self.shapes[name]
            self.buffers[bar(name)] = self.shapes[name]
        body: list[Item] = [self._copy(bar(name), last + bar(name)) for name in carried]
        body += [self._copy(bar(name), round_ + bar(name)) for name in sorted(known)]
        inside = set(known)
        for entry in reversed(loop.body):
            self._reverse_call(body, entry, own[id(entry)], inside, round_)
        body += [self._sum(given + bar(n), round_ + bar(n), bar(n)) for n in carried if n in inside]
        sizes = [prod(self.shapes[name]) for name in carried]
        label, flag = f"converged {sizes}", f"linear {carried[0]}"
        self.functions[label] = converged(sizes)
        self.buffers[flag] = ()
        body.append(Call(label, (*(last + bar(n) for n in carried), *(bar(n) for n in carried)), (flag,)))
        into += [self._copy(bar(name), given + bar(name)) for name in carried]
        into += [self._zeros([flag]), Repeat(tuple(body), ROUNDS, flag)]

    # --- small calls -----------------------------------------------------------------------------------------------------------

    def _zeros(self, names: Sequence[str]) -> Call:
        sizes = [prod(self.buffers[name]) for name in names]
        self.functions.setdefault(f"zeros {sizes}", zeros(sizes))
        return Call(f"zeros {sizes}", (), tuple(names))

    def _copy(self, source: str, target: str) -> Call:
        sizes = [prod(self.buffers[source])]
        self.functions.setdefault(f"copies {sizes}", copies(sizes))
        return Call(f"copies {sizes}", (source,), (target,))

    def _sum(self, a: str, b: str, target: str) -> Call:
        n = prod(self.buffers[a])
        if f"sum {n}" not in self.functions:
            x, y = symbol("x", n), symbol("y", n)
            self.functions[f"sum {n}"] = trace_of("sum", {"x": x, "y": y}, {"z": x + y})
        return Call(f"sum {n}", (a, b), (target,))
