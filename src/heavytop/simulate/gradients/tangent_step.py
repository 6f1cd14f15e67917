"""The tangent of a step: state and one direction, moved together.

Directions are trajectories of a batch: the tangent matrix of a run in n directions is one native run of n of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from heavytop._arrays import from_sx, symbol, to_sx
from heavytop.compile import Call, Repeat, Schedule, Traced, tangent, trace_of
from heavytop.simulate.gradients.step_graph import Item, StepGraph, calls

ROUNDS = 60
"""Rounds of a linear iteration, at most."""
SOLVED = 1e-15
"""Relative change at which a linear iteration has converged."""


def dot(name: str) -> str:
    """The buffer with the direction of another one."""
    return f"dot {name}"


def tangent_schedule(graph: StepGraph, roots: Iterable[str]) -> Schedule:
    """The step with a direction: its buffers :func:`dot` of the followed state, and of the constants and tables among ``roots``, are given.

    Records have the directions of q, v and u.
    """
    return _Tangent(graph, roots).schedule()


class _Tangent:
    def __init__(self, graph: StepGraph, roots: Iterable[str]) -> None:
        self.graph, self.roots = graph, tuple(roots)
        s = graph.schedule
        self.functions: dict[str, Traced] = dict(s.functions)
        self.buffers = {name: shape for name, shape in s.layout.shapes.items() if name in s.buffers}
        self.moving = {*graph.followed, *self.roots, *graph.held}
        self.made: dict[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...]]] = {}

    def schedule(self) -> Schedule:
        graph, s = self.graph, self.graph.schedule
        for name in self.moving:
            self._room(name)
        kept = {id(item) for item in graph.items}
        sample = self._items([item for item in s.sample if id(item) in kept])
        inner = [item for item in s.observe if id(item) in kept]
        observe = self._items(inner)
        advance = self._items([item for item in s.advance if id(item) in kept or self._keeps_rests(item)])
        at = graph.terminals
        written = {name for call in calls((*sample, *observe, *advance)) for name in call.outputs}
        read = {name for call in calls((*sample, *observe, *advance)) for name in call.inputs}
        state = [name for name in s.state if name in (*graph.followed, *graph.rests)]
        given = [name for name in (*s.constants, *s.tables) if name in self.roots and dot(name) in read]
        record = [dot(name) for name in dict.fromkeys((*graph.followed, at.v, at.u)) if self._recordable(name, written)]
        return Schedule(
            self.functions,
            self.buffers,
            (*state, *(dot(name) for name in graph.followed)),
            advance,
            sample,
            observe,
            constants=(*s.constants, *(dot(name) for name in given if name in s.constants)),
            tables=(*s.tables, *(dot(name) for name in given if name in s.tables)),
            record=tuple(record),
        )

    def _recordable(self, name: str, written: set[str]) -> bool:
        graph, s = self.graph, self.graph.schedule
        if name in graph.followed:
            return True
        early = {c for call in calls((*s.sample, *s.observe)) for c in call.outputs}
        return name in early and dot(name) in written

    def _keeps_rests(self, item: Item) -> bool:
        return isinstance(item, Call) and bool(set(item.outputs) & self.graph.rests)

    def _room(self, name: str) -> str:
        self.buffers[dot(name)] = self.graph.schedule.layout.shapes[name]
        return dot(name)

    def _items(self, items: Sequence[Item]) -> list[Item]:
        result: list[Item] = []
        for item in items:
            result += [self._call(item)] if isinstance(item, Call) else self._repeat(item)
        return result

    def _call(self, call: Call, still: Iterable[str] = ()) -> Call:
        """The call with directions; inputs ``still`` do not move."""
        traced = self.graph.schedule.functions[call.function]
        active = tuple(
            k
            for k, name in enumerate(call.inputs)
            if name in self.moving
            and name not in still
            and name not in self.graph.rests
            and (traced.name, list(traced.inputs)[k]) not in self.graph.stationary
        )
        key = call.function, active
        if key not in self.made:
            along, moved = tangent(traced, active)
            label = f"tangent {len(self.made)} {call.function}"
            self.made[key] = label, moved
            if moved:
                self.functions[label] = along
        label, moved = self.made[key]
        fixed = [name for j, name in enumerate(call.outputs) if j not in moved]
        if call.every == 1 and call.when is None:
            self.moving -= {name for name in fixed if name not in self.graph.followed}
        if not moved:
            return call
        directions = [call.outputs[j] for j in moved]
        self.moving |= set(directions)
        inputs = (*call.inputs, *(dot(call.inputs[k]) for k in active))
        return replace(
            call, function=label, inputs=inputs, outputs=(*call.outputs, *(self._room(name) for name in directions))
        )

    def _repeat(self, item: Repeat) -> list[Item]:
        """The repetition itself, then its linearisation where it has converged, repeated until the directions have too.

        ``x = g(x, p)`` has the direction ``x' = g_x x' + g_p p'``, whatever the start of the iteration was.
        """
        carried = carried_by(item)
        result: list[Item] = [item]
        for name in carried:
            self._room(name)
        zero = self._zeros([dot(name) for name in carried])
        if zero is not None:
            result.append(zero)
        body = list(item.body)
        open_ = None
        if item.done is not None:  # a body that has ended leaves everything as it is
            open_ = f"{item.done} open"
            self.buffers[open_] = ()
            result.append(self._zeros([open_]))  # pyright: ignore[reportArgumentType]
            body = [_reading(c, item.done, open_) for c in body]
        self.moving |= set(carried)
        flag = f"{carried[0]} linear"
        self.buffers[flag] = ()
        before = [f"{dot(name)} before" for name in carried]
        for name, old in zip(carried, before, strict=True):
            self.buffers[old] = self.graph.schedule.layout.shapes[name]
        inner: list[Item] = [self._copy([dot(name) for name in carried], before)]
        for call in body:
            if isinstance(call, Repeat):
                inner += self._repeat(call)
            else:
                inner.append(self._call(call))
        sizes = [self.graph.size(name) for name in carried]
        self.functions[f"converged {sizes}"] = converged(sizes)
        inner.append(Call(f"converged {sizes}", (*before, *(dot(name) for name in carried)), (flag,)))
        result += [self._zeros([flag]), Repeat(tuple(inner), ROUNDS, flag)]  # pyright: ignore[reportArgumentType]
        return result

    def _zeros(self, names: Sequence[str]) -> Call | None:
        if not names:
            return None
        sizes = [int(np.prod(self.buffers[name])) for name in names]
        label = f"zeros {sizes}"
        self.functions.setdefault(label, zeros(sizes))
        return Call(label, (), tuple(names))

    def _copy(self, sources: Sequence[str], targets: Sequence[str]) -> Call:
        sizes = [int(np.prod(self.buffers[name])) for name in sources]
        label = f"copy {sizes}"
        self.functions.setdefault(label, copies(sizes))
        return Call(label, tuple(sources), tuple(targets))


def carried_by(item: Repeat) -> list[str]:
    """Buffers that a round of a repetition leaves for the next one, its flag excluded."""
    seen: set[str] = set()
    early: dict[str, None] = {}
    for call in calls(item.body):
        early |= dict.fromkeys(name for name in call.inputs if name not in seen)
        seen |= set(call.outputs)
    return [name for name in early if name in seen and name != item.done]


def _reading(item: Item, name: str, other: str) -> Item:
    """The same calls, reading one buffer instead of another."""
    if isinstance(item, Repeat):
        return replace(item, body=tuple(_reading(c, name, other) for c in item.body))
    return replace(item, inputs=tuple(other if x == name else x for x in item.inputs))


def zeros(sizes: Sequence[int]) -> Traced:
    """A function of nothing that returns zeros."""
    return trace_of("zeros", {}, {f"y{k}": np.zeros(n) for k, n in enumerate(sizes)})


def copies(sizes: Sequence[int]) -> Traced:
    """Copies of all inputs."""
    symbols = {f"x{k}": symbol(f"x{k}", n) for k, n in enumerate(sizes)}
    return trace_of("copies", symbols, {f"y{k}": s for k, s in enumerate(symbols.values())})


def converged(sizes: Sequence[int]) -> Traced:
    """(old values..., new values...) -> 1 where none changed by more than a share of all of them."""
    import casadi

    old = {f"x{k}": symbol(f"x{k}", n) for k, n in enumerate(sizes)}
    new = {f"y{k}": symbol(f"y{k}", n) for k, n in enumerate(sizes)}
    change, size = casadi.SX(0.0), casadi.SX(0.0)
    for a, b in zip(old.values(), new.values(), strict=True):
        change += casadi.sumsqr(to_sx(b) - to_sx(a))
        size += casadi.sumsqr(to_sx(b))
    return trace_of("converged", old | new, {"done": from_sx(change <= SOLVED * SOLVED * size, ())})
