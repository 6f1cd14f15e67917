"""The time loop with a fixed step: blocks of native steps, between which Python may look, stop and feed inputs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from heavytop._progress import Progress
from heavytop.compile import Steps
from heavytop.errors import SimulationError
from heavytop.simulate.controller import hosted
from heavytop.simulate.events import POINTS, EventLog, Reached, crossings
from heavytop.simulate.inputs import call_back
from heavytop.simulate.recording import Recording, Records, RunProblem, check_room
from heavytop.simulate.run_compilation import Native

BLOCK_SECONDS = 0.2
BLOCK_BYTES = 64e6
FIRST_OPERATIONS = 4e9
"""Lane operations of the first block, at most: about a second."""


class FixedStep:
    """One run with a fixed step."""

    def __init__(self, problem: RunProblem, code: Native) -> None:
        self.problem, self.code, self.stepper, self.at = problem, code, code.stepper, code.terminals
        layout = code.stepper.layout
        check_room(problem, lambda: layout.record_size)
        self.grid = problem.grid
        self.records: Records | None = None
        self.t: np.ndarray | None = None
        """Times of the records, when they come in several blocks: written with them, so that nothing long is left to do after Ctrl-C."""
        self.failed = np.full(problem.batch, np.nan) if problem.batch else np.array(np.nan)
        self.events = EventLog(problem.events, problem.batch) if problem.events else None
        self._last: tuple[int, Records | None] = 0, None
        """Steps done and the records of the last block, in one: Ctrl-C may come between any two assignments."""
        self.constants = {self.at.p: problem.p, self.at.h: np.asarray(problem.step)}
        if self.at.gains is not None:
            self.constants[self.at.gains] = problem.gains
        law = problem.plan.control.law
        self.hosted = None if law is None else hosted(law, problem.count)
        self.tables = self._tables()
        self.breaks = [round((b - problem.start_time) / problem.step) for b in problem.breakpoints]
        self.hold = {self.at.u: problem.plan.every} if problem.plan.control.kind == "table" else {}

    def _tables(self) -> dict[str, np.ndarray]:
        """Samples of inputs and of the reference at every stage time."""
        problem = self.problem
        tables: dict[str, np.ndarray] = {}
        law = problem.plan.control.law
        if law is not None and self.at.signals:
            instants = problem.start_time + problem.step * np.arange(problem.steps + 1)
            tables |= {name: law.signal(instants + c * problem.step) for c, name in self.at.signals}
            if self.hosted is not None:  # answers of each trajectory are written into it
                tables = {name: _each_trajectory(table, problem.batch) for name, table in tables.items()}
        if problem.plan.control.kind == "table":
            tables[self.at.u] = problem.plan.table
        return tables

    def run(self) -> Recording:
        """All steps, in blocks; Ctrl-C ends it with what is there."""
        problem = self.problem
        state = self.code.start(problem)
        begin = time.perf_counter()
        done, block, interrupted = 0, self._first_block(), False
        bar: Progress | None = None
        with ExitStack() as stack:
            try:
                while done < problem.steps or problem.steps == 0:
                    length = self._length(block, done)
                    clock = time.perf_counter()
                    result = self._block(state, done, length)
                    state = self._keep(result, done, length)
                    done += length
                    if done >= problem.steps or self._over():
                        break
                    if bar is None:
                        bar = stack.enter_context(Progress(f"simulate {problem.dynamics.name}", problem.progress))
                    bar.update(done / problem.steps)
                    block = self._next_block(block, time.perf_counter() - clock)
            except KeyboardInterrupt:
                interrupted = True
        times, records = self._until(done)
        return Recording(
            times,
            records,
            self.failed,
            self.events,
            None if self.at.watch is None else state[self.at.watch],
            None if self.at.law_failure is None else state[self.at.law_failure],
            self.code.entered(problem, state, problem.start_time + problem.step * done),
            problem.start_time + problem.step * done,
            interrupted,
            wall_seconds=time.perf_counter() - begin,
            steps=done,
        )

    @property
    def _latest(self) -> Records | None:
        """The last records so far."""
        _, records = self._last
        return None if records is None else records.each(lambda array: array[-1])

    def _over(self) -> bool:
        """Whether all trajectories have ended."""
        ended = np.isfinite(self.failed.reshape(-1))
        return bool((ended if self.events is None else ended | np.isfinite(self.events.stopped)).all())

    def _until(self, done: int) -> tuple[np.ndarray, Records]:
        """Times and records of what was computed, with the last state even if it was not due."""
        records = self._room()  # also if interrupted before the first block
        times, n = self.t, self.grid.until(done)
        if times is None:  # all in one block
            return self.grid.times(0, n), records if done == self.grid.steps else records.each(lambda array: array[:n])
        # views, since a copy may not fit into the memory; the last state takes the place of the next record, which was not reached
        if (
            done % self.grid.every
            and done < self.grid.steps
            and self._last[0] == done
            and (latest := self._latest) is not None
        ):
            times[n] = self.grid.start_time + self.grid.step * done
            return times[: n + 1], records.with_last(latest, n)
        return times[:n], records.each(lambda array: array[:n])

    # --- blocks -----------------------------------------------------------------------------------------------------------

    def _first_block(self) -> int:
        problem = self.problem
        if problem.plan.calls_python:
            return problem.plan.every
        first = min(1024, self.limit)
        if problem.count > 1:  # many steps of many trajectories would keep Ctrl-C waiting
            first = min(first, int(FIRST_OPERATIONS / max(self.stepper.operations * problem.count, 1)))
        return max(first, 1)

    @cached_property
    def limit(self) -> int:
        """Steps per block that the memory of its records allows."""
        every = 1 if self.problem.events else self.problem.record_every
        per_record = 8 * self.stepper.layout.record_size * max(self.problem.count, 1)
        return max(int(BLOCK_BYTES / max(per_record, 1)), 1) * every

    def _length(self, block: int, done: int) -> int:
        """Steps of the next block: whole record intervals, or a part of one that does not reach beyond its end."""
        every, remaining = self.problem.record_every, self.problem.steps - done
        if self.breaks:  # a block ends at a breakpoint and after the step that begins there
            block = min([block, *(n - done for k in (0, *self.breaks) for n in (k, k + 1) if n > done)])
        if self.problem.plan.calls_python or self.problem.events:
            return min(block, remaining)
        if done % every or block < every or remaining < every:
            return min(block, remaining, every - done % every)
        return min(block, remaining) // every * every

    def _next_block(self, block: int, seconds: float) -> int:
        if self.problem.plan.calls_python:
            return block
        factor = min(max(BLOCK_SECONDS / max(seconds, 1e-6), 0.25), 8.0)
        return int(min(max(block * factor, 1), self.limit))

    def _block(self, state: dict[str, np.ndarray], first: int, length: int) -> Steps:
        """``length`` native steps; records of each step if there are events, of the wanted ones otherwise."""
        problem = self.problem
        if problem.plan.callback is not None:
            now = problem.start_time + problem.step * first
            self.tables[self.at.u] = call_back(problem.plan.callback, now, *self._visible(state), problem.dynamics.nu)
        self._ask(state, first, length)
        every = problem.record_every if length % problem.record_every == 0 else length
        if problem.events or problem.plan.calls_python:
            every = 1
        begin = problem.start_time
        if self.breaks:
            begin += problem.one_sided if first in self.breaks else -problem.one_sided if first else 0.0
        return self.stepper.run(
            state,
            self.constants,
            self.tables,
            steps=length,
            step_size=problem.step,
            start_time=begin,
            first=first,
            record_every=every,
            hold=self.hold,
        )

    def _ask(self, state: dict[str, np.ndarray], first: int, length: int) -> None:
        """Write the answers of hosts into the signal of the next steps."""
        if self.hosted is None:
            return
        problem = self.problem
        now = problem.start_time + problem.step * first
        q, v = self._visible(state)
        p = problem.dynamics.at_times(problem.p, np.asarray(now))
        z = problem.memory if self.at.memory is None else state[self.at.memory]
        for _, name in self.at.signals:
            table = self.tables[name]
            given = {
                "t": np.asarray(now),
                "q": q,
                "v": v,
                "p": p,
                "z": z,
                "signal": table[first],
                "gains": problem.gains,
            }
            table[first : first + length + 1, ..., : self.hosted.size] = self.hosted.answers(given)

    def _visible(self, state: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """q and v of a state; where v is not carried it comes from the last record."""
        if self.at.v in state:
            q, v = state[self.at.q], state[self.at.v]
            batch = self.problem.batch
            if not batch:
                return q, v
            return np.broadcast_to(q, (*batch, q.shape[-1])), np.broadcast_to(v, (*batch, v.shape[-1]))
        if (latest := self._latest) is not None:
            return latest.q, latest.v
        return self.problem.q, self.problem.v

    def _keep(self, result: Steps, first: int, length: int) -> dict[str, np.ndarray]:
        """Copy the wanted records, note failures and events; return the state to go on from."""
        problem = self.problem
        records = Records.of(result, self.at)
        if first == 0 and len(result.recorded) == len(self.grid) and length == problem.steps:  # all in one block
            self.records = records
        else:
            self._copy(records, result.recorded)
        self._last = first + length, records
        failed = result.failed >= 0
        if failed if failed.ndim == 0 else failed.any():
            fresh = failed & ~np.isfinite(self.failed)
            self.failed[fresh] = problem.start_time + problem.step * result.failed[fresh]
        if problem.events:
            self._find_events(result, first)
        return result.state

    def _copy(self, records: Records, numbers: np.ndarray) -> None:
        """Copy those records of a block, taken at the starts of steps ``numbers``, that are wanted."""
        room, every = self._room(), self.grid.every
        wanted: Any = slice(None)
        if every > 1:
            wanted = np.flatnonzero((numbers % every == 0) | (numbers == self.grid.steps))
            numbers = numbers[wanted]
        if not len(numbers):
            return
        first, last = self.grid.places(numbers[[0, -1]]).tolist()
        for target, source in room.pairs(records):
            if source is not None:
                target[first : last + 1] = source[wanted]
        if self.t is not None:
            self.t[first : last + 1] = self.grid.times(first, last + 1)

    def _room(self) -> Records:
        """Records of the whole run, when they come in several blocks."""
        if self.records is None:
            problem, layout, n = self.problem, self.stepper.layout, len(self.grid)
            # not filled: the memory is taken record by record, as they come, and not at once before the first step
            empty = {name: np.empty((n, *problem.batch, *layout.shapes[name])) for name in layout.record}
            for array in empty.values():
                array[0] = np.nan
            self.t = np.empty(n)
            self.t[0] = problem.start_time
            self.records = Records.of(Steps({}, empty, np.zeros(0, dtype=int), self.failed), self.at)
            self.records.q[0], self.records.v[0] = problem.q, problem.v
        return self.records

    # --- events -----------------------------------------------------------------------------------------------------------

    def _find_events(self, result: Steps, first: int) -> None:
        problem, log, name = self.problem, self.events, self.at.events
        if name is None or log is None or len(result.recorded) < 2:
            return
        values, q, v = (self._rows(result, label) for label in (name, self.at.q, self.at.v))
        n, h = len(values) - 1, problem.step
        t = problem.start_time + h * (first + np.arange(n + 1))
        samples = np.stack([values[:-1], *self._within(t, q, v), values[1:]], axis=2)
        # (step, trajectory) of each pair of neighbouring records
        step, row = (index.reshape(-1) for index in np.indices((n, problem.count)))

        def repeated(which: np.ndarray) -> _RepeatedSteps:
            return _RepeatedSteps(self, result, step[which], row[which])

        samples = samples.reshape(len(step), *samples.shape[2:])
        samples[np.isfinite(log.stopped[row])] = np.nan  # over
        found = crossings(samples, problem.events, lambda which, x: repeated(which).reach(x * h).values)
        if len(found.step):
            records = Records.of(result, self.at).each(
                lambda a: a.reshape(n + 1, problem.count, *a.shape[1 + len(problem.batch) :])
            )
            steps, rows = step[found.step], row[found.step]
            log.search(
                found,
                rows,
                t[steps],
                np.full(len(steps), h),
                repeated(found.step).reach,
                lambda k: records.each(lambda array: array[steps[k], rows[k]]),
            )
        valid = (np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)).reshape(-1)
        step, row = (index.reshape(-1) for index in np.indices((n + 1, problem.count)))
        valid &= ~(t[step] >= self.failed.reshape(-1)[row])
        log.check_numbers(values.reshape(len(valid), values.shape[-1]), t[step], row, valid)

    def _within(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
        """Values (steps, trajectories, events) of event functions at the inner points of each step, from interpolated states.

        q on the manifold from both ends with their velocities, v by cubics through neighbouring steps.
        """
        problem, code, h, n = self.problem, self.code, self.problem.step, len(t) - 1
        if code.between is None or code.events is None:
            raise SimulationError("there are no events to interpolate.")
        map_ = problem.dynamics.kernel("joint_velocity")
        p = problem.dynamics.at_times(problem.rows(problem.p), t[:, None])
        w = v if map_ is None else map_(q, v, p)[0]
        nodes = np.arange(min(n + 1, 4))
        base = np.clip(np.arange(n) - 1, 0, n + 1 - len(nodes))
        neighbours = v[base[:, None] + nodes]
        values = []
        for x in POINTS[1:-1]:
            place = (np.arange(n) - base + x)[:, None]
            weights = np.stack(
                [np.prod((place - np.delete(nodes, j)) / (j - np.delete(nodes, j)), axis=-1) for j in nodes], axis=-1
            )
            q_x = code.between(q[:-1], w[:-1], q[1:], w[1:], h, x)[0]
            v_x = np.einsum("sj,sj...->s...", weights, neighbours)
            values.append(code.events(np.broadcast_to((t[:-1] + x * h)[:, None], q_x.shape[:2]), q_x, v_x)[0])
        return values

    def _rows(self, result: Steps, name: str) -> np.ndarray:
        """Records (n, trajectories, ...) of a block."""
        return result.records[name].reshape(len(result.recorded), self.problem.count, *self.stepper.layout.shapes[name])


class _RepeatedSteps:
    """Steps of a block done again with other step sizes.

    Parameters
    ----------
    steps, rows : (m,) which steps of the block, of which trajectories.
    """

    def __init__(self, run: FixedStep, result: Steps, steps: np.ndarray, rows: np.ndarray) -> None:
        problem, layout = run.problem, run.stepper.layout
        self.run, self.rows, self.numbers = run, rows, result.recorded[steps]
        held = [name for name in layout.held if name in result.records]
        self.state = {name: run._rows(result, name)[steps, rows] for name in (*layout.state, *held)}
        self.p = problem.rows(problem.p)[rows]
        self.begin = problem.start_time + problem.step * self.numbers
        # one native call can treat: equal times if the law sees the time, else equal phases of sampling
        control = problem.plan.control
        timed = problem.dynamics.has_time or (control.law is not None and "t" in control.law.takes)
        key = self.numbers if timed else self.numbers % control.every == 0
        self.groups = [np.flatnonzero(key == value) for value in np.unique(key)]

    def reach(self, times: np.ndarray) -> Reached:
        """What is reached ``times`` (m,) after the begin of the steps."""
        at, problem = self.run.at, self.run.problem
        flat_memory = at.memory if problem.plan.control.kind == "continuous" else None
        wanted = [at.q, at.v, *(name for name in (at.work, flat_memory) if name is not None)]
        shapes = self.run.stepper.layout.shapes
        ends = {name: np.zeros((len(times), *shapes[name])) for name in wanted}
        for group in self.groups:
            records = self._partial(group, times[group])
            for name in wanted:
                ends[name][group] = records[name][1]
        kernel = self.run.code.events
        if kernel is None:
            raise SimulationError("there are no events to locate.")
        values = kernel(self.begin + times, ends[at.q], ends[at.v])[0]
        work, memory = (None if name is None else ends[name] for name in (at.work, flat_memory))
        return Reached(values, ends[at.q], ends[at.v], work, memory)

    def _partial(self, group: np.ndarray, h: np.ndarray) -> dict[str, np.ndarray]:
        """Records before and after steps of sizes ``h`` of some of the steps."""
        run, problem, at = self.run, self.run.problem, self.run.at
        control = problem.plan.control
        rows, numbers, begin = self.rows[group], self.numbers[group], self.begin[group]
        tables = {}
        for c, name in at.signals:
            if run.hosted is not None:
                table = run.tables[name]
                tables[name] = np.concatenate(
                    [_row_of(table[k][None], problem.batch, row) for k, row in zip(numbers, rows, strict=True)], axis=1
                )
            elif control.law is not None:
                samples = [control.law.signal(begin[j : j + 1] + c * h[j]) for j in range(len(h))]
                tables[name] = np.concatenate(
                    [_row_of(sample, problem.batch, rows[j]) for j, sample in enumerate(samples)], axis=1
                )
        if at.u in run.tables:
            table = run.tables[at.u]
            chosen = np.minimum(numbers // problem.plan.every, table.shape[0] - 1)
            tables[at.u] = np.concatenate(
                [_row_of(table[k][None], problem.batch, row) for k, row in zip(chosen, rows, strict=True)], axis=1
            )
        number = int(numbers[0])
        constants = {at.p: self.p[group], at.h: h}
        if at.gains is not None:
            constants[at.gains] = problem.rows(problem.gains)[rows]
        return run.stepper.run(
            {name: array[group] for name, array in self.state.items()},
            constants,
            tables,
            steps=1,
            step_size=problem.step,
            start_time=begin[0] - number * problem.step,
            first=number,
            record_every=1,
        ).records


def _each_trajectory(table: np.ndarray, batch: Sequence[int]) -> np.ndarray:
    """Samples (n, *axes, m) as an array (n, *batch, m) of our own."""
    missing = len(batch) - (table.ndim - 2)
    spread = table.reshape(len(table), *(1,) * missing, *table.shape[1:])
    return np.broadcast_to(spread, (len(table), *batch, table.shape[-1])).copy()


def _row_of(sample: np.ndarray, batch: Sequence[int], row: int) -> np.ndarray:
    """One trajectory (1, 1, n) of a sample (1, *batch, n)."""
    size = sample.shape[-1]
    if sample.ndim == 2:
        return sample.reshape(1, 1, size)
    return np.broadcast_to(sample, (1, *batch, size)).reshape(1, prod(batch), size)[:, row : row + 1]
