"""The time loop with a fixed step: blocks of native steps, between which Python may look, stop and feed inputs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from heavytop.compile import Call, Kernel, Schedule, Stepper, Steps
from heavytop.compile.jit import batch_lanes
from heavytop.errors import SimulationError
from heavytop.simulate.assembly import CHANNEL, Method, Plant, schedule
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.events import Event, Occurrence, crossings, locate, trace_events
from heavytop.simulate.inputs import InputPlan, call_back
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.progress import Progress
from heavytop.simulate.protocol import content

BLOCK_SECONDS = 0.2
BLOCK_BYTES = 64e6


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that defines a run.

    Attributes
    ----------
    q, v, p : (*batch, n) start and parameters.
    step, steps : size in s, number.
    """

    dynamics: Dynamics
    integrator: Any
    plan: InputPlan
    q: np.ndarray
    v: np.ndarray
    p: np.ndarray
    batch: tuple[int, ...]
    start_time: float
    step: float
    steps: int
    record_every: int
    events: tuple[Event, ...]
    balance: bool
    threads: int | None
    progress: bool | None

    @property
    def count(self) -> int:
        """Number of trajectories."""
        return prod(self.batch)


@dataclass
class Recording:
    """What the time loop leaves behind.

    Attributes
    ----------
    t : (n,) times of the records.
    records : name -> (n, *batch, ...).
    failed : (*batch,) time at which a trajectory was first not finite; NaN where it stayed finite.
    stopped : (*batch,) time of the terminal event; NaN where there was none.
    occurrences : all events in order of time.
    at_events : trajectory -> what else was recorded at its terminal event, by the name of the record.
    reached : time up to which the run got.
    """

    t: np.ndarray
    records: dict[str, np.ndarray]
    failed: np.ndarray
    stopped: np.ndarray
    occurrences: list[Occurrence] = field(default_factory=list)
    reached: float = 0.0
    at_events: dict[tuple[int, ...], dict[str, np.ndarray]] = field(default_factory=dict)
    interrupted: bool = False
    limited: bool = False
    compile_seconds: float = 0.0
    wall_seconds: float = 0.0
    steps: int = 0


@dataclass(frozen=True, eq=False)
class Compiled:
    """A stepper with what is needed to feed it."""

    stepper: Stepper
    nodes: dict[float, str]


def compile_problem(problem: Problem) -> Compiled:
    """The native code of a fixed-step run, from memory, from disk, or made now."""
    law = problem.plan.control.law
    lanes = 1 if problem.count == 1 else batch_lanes()
    integrator: Integrator = problem.integrator
    # the text of an integrator of the user does not tell what its code does
    own = type(integrator).__module__.partition(".")[0] == "heavytop"
    options = (
        f"{integrator.fingerprint} {problem.plan.control.kind} {problem.plan.control.every} balance={problem.balance}"
    )
    if law is not None:
        options += f" law {law.fingerprint}"
    if problem.events:
        options += f" events {content(trace_events(problem.events, problem.dynamics))}"
    key = (options, lanes, problem.threads, None if own else integrator)
    mark = f"{problem.dynamics.fingerprint} {options}" if own and problem.dynamics.fingerprint is not None else None
    stepper = problem.dynamics.steppers.recall(key, lambda: _stepper(problem, mark, lanes))
    tables = [name for name in stepper.layout.tables if name.startswith("signal@")]
    return Compiled(stepper, {float(name.removeprefix("signal@")): name for name in tables})


def _stepper(problem: Problem, mark: str | None, lanes: int) -> Stepper:
    if mark is None:
        return Stepper(_schedule(problem), lanes, problem.threads)
    return Stepper.cached(mark, lambda: _schedule(problem), lanes, problem.threads)


def _schedule(problem: Problem) -> Schedule:
    """The step of a problem; with events every state buffer is recorded, so that a step can be repeated."""
    plant = Plant(problem.dynamics, problem.plan.control, problem.balance)
    method = problem.integrator.build(plant)
    if problem.events:
        plant.functions["events"] = trace_events(problem.events, problem.dynamics)
        plant.buffers["events"] = (len(problem.events),)
        observe = (*method.observe, Call("events", ("time", "q", "v"), ("events",)))
        record = tuple(dict.fromkeys((*method.record, *method.state, "events")))
        method = Method(method.advance, observe, method.state, method.carries_v, record)
    return schedule(plant, method)


MOST_ENTRIES = 4e9
"""Numbers in a record: 32 GB."""


class FixedStep:
    """One run with a fixed step."""

    def __init__(self, problem: Problem, compiled: Compiled) -> None:
        self.problem, self.stepper, self.nodes = problem, compiled.stepper, compiled.nodes
        every = problem.record_every
        entries = (
            (problem.steps / every + 2) * max(problem.count, 1) * (self.problem.q.shape[-1] + self.problem.v.shape[-1])
        )
        if entries > MOST_ENTRIES:
            raise SimulationError(
                f"the record would hold about {entries:.2g} numbers ({8 * entries / 1e9:.3g} GB): {problem.steps:,} steps, "
                f"{problem.count:,} trajectories. Raise record_every (now {every}), or run fewer trajectories at once."
            )
        numbers = np.arange(0, problem.steps + 1, every)
        self.numbers = numbers if numbers[-1] == problem.steps else np.append(numbers, problem.steps)
        hidden = ("events",)
        self.names = [n for n in self.stepper.layout.record if n not in hidden]
        self.records: dict[str, np.ndarray] = {}
        self.failed = np.full(problem.batch, np.nan)
        self.stopped = np.full(problem.batch, np.nan)
        self.occurrences: list[Occurrence] = []
        self.at_events: dict[tuple[int, ...], dict[str, np.ndarray]] = {}
        self._latest: dict[str, np.ndarray] = {}
        self.event_kernel = Kernel(trace_events(problem.events, problem.dynamics)) if problem.events else _no_kernel
        self.constants = {"p": problem.p, "h": np.asarray(problem.step)}
        self.tables = self._tables()
        self.hold = {"u": problem.plan.every} if problem.plan.control.kind == "table" else {}

    def _tables(self) -> dict[str, np.ndarray]:
        """Samples of inputs and of the reference at every stage time."""
        problem = self.problem
        tables: dict[str, np.ndarray] = {}
        law = problem.plan.control.law
        if law is not None and self.nodes:
            instants = problem.start_time + problem.step * np.arange(problem.steps + 1)
            for node, name in self.nodes.items():
                tables[name] = law.signal(instants + node * problem.step)
        if problem.plan.control.kind == "table":
            tables["u"] = problem.plan.table
        return tables

    def run(self, state: dict[str, np.ndarray]) -> Recording:
        """All steps, in blocks; Ctrl-C ends it with what is there."""
        problem = self.problem
        begin = time.perf_counter()
        done, block, interrupted = 0, self._first_block(), False
        with Progress(f"simulate {problem.dynamics.name}", problem.progress) as bar:
            try:
                while done < problem.steps or problem.steps == 0:
                    length = self._length(block, done)
                    clock = time.perf_counter()
                    result = self._block(state, done, length)
                    state = self._keep(result, done, length)
                    done += length
                    bar.update(done / max(problem.steps, 1))
                    if done >= problem.steps or (np.isfinite(self.failed) | np.isfinite(self.stopped)).all():
                        break
                    block = self._next_block(block, time.perf_counter() - clock)
            except KeyboardInterrupt:
                interrupted = True
        numbers, records = self._until(done)
        return Recording(
            problem.start_time + problem.step * numbers,
            records,
            self.failed,
            self.stopped,
            sorted(self.occurrences, key=lambda o: o.time),
            problem.start_time + problem.step * done,
            self.at_events,
            interrupted,
            wall_seconds=time.perf_counter() - begin,
            steps=done,
        )

    def _until(self, done: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Numbers and records of what was computed, with the last state even if it was not due."""
        self._make_room()  # interrupted before the first block
        if done == self.problem.steps:
            return self.numbers, self.records
        kept = self.numbers <= done
        numbers, records = self.numbers[kept], {name: array[kept] for name, array in self.records.items()}
        if done and done not in numbers:
            numbers = np.append(numbers, done)
            records = {name: np.concatenate([array, self._latest[name][None]]) for name, array in records.items()}
        return numbers, records

    # --- blocks -----------------------------------------------------------------------------------------------------------

    def _first_block(self) -> int:
        problem = self.problem
        if problem.plan.callback is not None:
            return problem.plan.every
        return min(1024, self.limit)

    @cached_property
    def limit(self) -> int:
        """Steps per block that the memory of its records allows."""
        sizes = [self.stepper.layout.size(name) for name in self.stepper.layout.record]
        every = 1 if self.problem.events else self.problem.record_every
        per_record = 8 * sum(sizes) * max(self.problem.count, 1)
        return max(int(BLOCK_BYTES / max(per_record, 1)), 1) * every

    def _length(self, block: int, done: int) -> int:
        """Steps of the next block: whole record intervals, or a part of one that does not reach beyond its end."""
        every, remaining = self.problem.record_every, self.problem.steps - done
        if self.problem.plan.callback is not None or self.problem.events:
            return min(block, remaining)
        if done % every or block < every or remaining < every:
            return min(block, remaining, every - done % every)
        return min(block, remaining) // every * every

    def _next_block(self, block: int, seconds: float) -> int:
        if self.problem.plan.callback is not None:
            return block
        factor = min(max(BLOCK_SECONDS / max(seconds, 1e-6), 0.25), 8.0)
        return int(min(max(block * factor, 1), self.limit))

    def _block(self, state: dict[str, np.ndarray], first: int, length: int) -> Steps:
        """``length`` native steps; records of each step if there are events, of the wanted ones otherwise."""
        problem = self.problem
        if problem.plan.callback is not None:
            now = problem.start_time + problem.step * first
            shown = self._visible(state)
            u = call_back(problem.plan.callback, now, shown["q"], shown["v"], problem.dynamics.nu)
            self.tables["u"] = u
        every = problem.record_every if length % problem.record_every == 0 else length
        if problem.events or problem.plan.callback is not None:
            every = 1
        return self.stepper.run(
            state,
            self.constants,
            self.tables,
            steps=length,
            step_size=problem.step,
            start_time=problem.start_time,
            first=first,
            record_every=every,
            hold=self.hold,
        )

    def _visible(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """q and v of a state; where v is not carried it comes from the last record."""
        if "v" in state:
            return {
                name: np.broadcast_to(state[name], (*self.problem.batch, state[name].shape[-1])) for name in ("q", "v")
            }
        return self._latest or {"q": self.problem.q, "v": self.problem.v}

    def _keep(self, result: Steps, first: int, length: int) -> dict[str, np.ndarray]:
        """Copy the wanted records, note failures and events; return the state to go on from."""
        problem = self.problem
        if first == 0 and len(result.recorded) == len(self.numbers) and length == problem.steps:  # all in one block
            self.records = {name: result.records[name] for name in self.names}
        else:
            self._make_room()
            places = np.searchsorted(self.numbers, result.recorded)
            wanted = self.numbers[places] == result.recorded
            for name in self.names:
                self.records[name][places[wanted]] = result.records[name][wanted]
        self._latest = {name: result.records[name][-1] for name in self.names}
        failed = result.failed >= 0
        if failed.any():
            fresh = failed & ~np.isfinite(self.failed)
            self.failed[fresh] = problem.start_time + problem.step * result.failed[fresh]
        if problem.events:
            self._find_events(result, first)
        return result.state

    def _make_room(self) -> None:
        """Records of the whole run, when they come in several blocks."""
        if not self.records:
            problem, shapes, n = self.problem, self.stepper.layout.shapes, len(self.numbers)
            self.records = {name: np.full((n, *problem.batch, *shapes[name]), np.nan) for name in self.names}
            self.records["q"][0], self.records["v"][0] = problem.q, problem.v

    # --- events -----------------------------------------------------------------------------------------------------------

    def _find_events(self, result: Steps, first: int) -> None:
        problem = self.problem
        count, n = problem.count, len(problem.events)
        values = result.records["events"].reshape(len(result.recorded), count, n)
        found = crossings(values, problem.events)
        stopped = self.stopped.reshape(-1)
        found = found[~np.isfinite(stopped[found[:, 1]])]
        if not len(found):
            return
        steps, rows, which = found.T
        times, state = self._locate(result, steps, rows, which, values)
        now = problem.start_time + problem.step * (first + steps) + times
        for k in np.argsort(now, kind="stable"):
            row = rows[k]
            if np.isfinite(stopped[row]) and now[k] > stopped[row]:
                continue
            event = problem.events[which[k]]
            index = tuple(int(i) for i in np.unravel_index(row, problem.batch)) if problem.batch else ()
            self.occurrences.append(
                Occurrence(event.name, float(now[k]), index, state["q"][k], state["v"][k], event.terminal)
            )
            if event.terminal:
                stopped[row] = now[k]
                held = {name: self._records_of(result, name)[steps[k], row] for name in self.names}
                self.at_events[index] = held | {name: state[name][k] for name in ("work",) if name in state}
        self.stopped = stopped.reshape(problem.batch)

    def _records_of(self, result: Steps, name: str) -> np.ndarray:
        """Records (n, trajectories, ...) of a block."""
        return result.records[name].reshape(len(result.recorded), self.problem.count, *self.stepper.layout.shapes[name])

    def _locate(
        self, result: Steps, steps: np.ndarray, rows: np.ndarray, which: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Time after the step and state of each crossing, by repeating the step with other step sizes."""
        problem, layout = self.problem, self.stepper.layout
        m = np.arange(len(steps))
        numbers = result.recorded[steps]
        held = [name for name in layout.held if name in result.records]
        state = {name: self._records_of(result, name)[steps, rows] for name in (*layout.state, *held)}
        p = np.broadcast_to(problem.p, (*problem.batch, problem.p.shape[-1]))
        p = p.reshape(problem.count, problem.p.shape[-1])[rows]
        starts = problem.start_time + problem.step * numbers
        groups = self._groups(numbers)
        last: dict[str, np.ndarray] = {}

        def evaluate(duration: np.ndarray) -> np.ndarray:
            for at in groups:
                part = self._partial_steps(
                    {n: a[at] for n, a in state.items()}, p[at], numbers[at], starts[at], duration[at], rows[at]
                )
                for name, array in part.items():
                    last.setdefault(name, np.zeros((len(steps), *array.shape[1:])))[at] = array
            return last["events"][m, which]

        tolerance = np.array([problem.events[w].tolerance for w in which])
        times = locate(evaluate, values[steps, rows, which], values[steps + 1, rows, which], tolerance, problem.step)
        evaluate(times)
        return times, last

    def _groups(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Crossings that one native call can treat: equal times if the law sees the time, else equal phases of sampling."""
        control = self.problem.plan.control
        timed = control.law is not None and "t" in control.law.takes
        key = numbers if timed else numbers % control.every == 0
        return [np.flatnonzero(key == value) for value in np.unique(key)]

    def _partial_steps(
        self,
        state: dict[str, np.ndarray],
        p: np.ndarray,
        numbers: np.ndarray,
        start: np.ndarray,
        h: np.ndarray,
        rows: np.ndarray,
    ) -> dict[str, np.ndarray]:
        """The end of steps of sizes ``h`` (m,) from the given states."""
        problem = self.problem
        control = problem.plan.control
        tables = {}
        for node, name in self.nodes.items():
            if control.law is not None:
                samples = [control.law.signal(start[j : j + 1] + node * h[j]) for j in range(len(h))]
                tables[name] = np.concatenate(
                    [_row_of(sample, problem.batch, rows[j]) for j, sample in enumerate(samples)], axis=1
                )
        if "u" in self.tables:
            table = self.tables["u"]
            chosen = np.minimum(numbers // problem.plan.every, table.shape[0] - 1)
            tables["u"] = np.concatenate(
                [_row_of(table[k][None], problem.batch, row) for k, row in zip(chosen, rows, strict=True)], axis=1
            )
        number = int(numbers[0])
        result = self.stepper.run(
            state,
            {"p": p, "h": h},
            tables,
            steps=1,
            step_size=problem.step,
            start_time=start[0] - number * problem.step,
            first=number,
            record_every=1,
        )
        ends = {name: result.records[name][1] for name in ("q", "v", "work") if name in result.records}
        return ends | {"events": self.event_kernel(start + h, ends["q"], ends["v"])[0]}


def _row_of(sample: np.ndarray, batch: Sequence[int], row: int) -> np.ndarray:
    """One trajectory (1, 1, n) of a sample (1, *batch, n)."""
    size = sample.shape[-1]
    if sample.ndim == 2:
        return sample.reshape(1, 1, size)
    return np.broadcast_to(sample, (1, *batch, size)).reshape(1, prod(batch), size)[:, row : row + 1]


def _no_kernel(*_: Any) -> Any:
    raise SimulationError("there are no events to locate.")


def channel_names(records: dict[str, np.ndarray]) -> dict[str, str]:
    """Recorded buffers of the user's channels -> their names."""
    return {name: name.removeprefix(CHANNEL) for name in records if name.startswith(CHANNEL)}
