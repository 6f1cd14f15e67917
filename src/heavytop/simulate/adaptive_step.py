"""The time loop with error control: attempts in native blocks, records and events from dense output."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from heavytop._arrays import split
from heavytop._progress import Progress
from heavytop.errors import SimulationError
from heavytop.simulate.controller import CODE, HEAD, STATUS, hosted
from heavytop.simulate.events import POINTS, EventLog, Reached, crossings
from heavytop.simulate.inputs import call_back
from heavytop.simulate.integrators.error_control import ErrorControlled
from heavytop.simulate.invariants import turns
from heavytop.simulate.recording import RecordGrid, Recording, Records, RunProblem, check_room
from heavytop.simulate.run_compilation import Native
from heavytop.system import OPEN

FEWEST, MOST = 16, 1024
"""Attempts per native call."""
SETTLED = 8
"""Times the attempts so far that the next native call may do: by then the step size shows how many are left."""
BLOCK_BYTES = 64e6
PIECE = 1 << 20
"""Records whose times are computed at once."""
OBSERVED = 1 << 16
"""Records of single trajectories at which laws and channels are evaluated at once."""
MOST_PARTS = 1 << 16
"""Pieces of an attempt in which events are looked for."""
SMALLEST = 1e-14
"""Step relative to the duration below which the solution counts as lost."""
DATED = 65
"""Places in a step, and then between two of them, at which the time of a jump is searched for."""
NEARBY = 1e-6
"""Distance within which a rejected step without input from the law counts as the place where the step size vanished."""


class ChosenSteps:
    """One run whose steps are chosen by the method: segments between input samples, blocks of attempts inside."""

    def __init__(self, problem: RunProblem, code: Native) -> None:
        if not isinstance(problem.integrator, ErrorControlled):
            raise SimulationError(f"{problem.integrator!r} chooses its steps, so it must be an ErrorControlled.")
        self.problem, self.code, self.stepper, self.at = problem, code, code.stepper, code.terminals
        self.method, self.own = problem.integrator, code.terminals.own
        self.count, n = problem.count, len(problem.grid)
        shapes = self.stepper.layout.shapes
        first = code.start(problem)
        if problem.batch:
            self.state = {
                name: np.broadcast_to(array, (*problem.batch, *shapes[name])).reshape(self.count, *shapes[name]).copy()
                for name, array in first.items()
            }
        else:
            self.state = {name: array[None].copy() for name, array in first.items()}
        self.p, self.memory = problem.rows(problem.p), problem.rows(problem.memory).copy()
        continuous = problem.plan.control.kind == "continuous"
        memory = problem.memory.shape[-1] if continuous and self.at.memory is not None else 0
        work = shapes[self.at.work][0] if self.at.work is not None else 0
        self.sizes = (problem.v.shape[-1], memory, work)
        law = problem.plan.control.law
        if law is not None:
            law.need_no_contacts("an integrator with error control")
        outputs = 0 if law is None else sum(prod(shape) for shape in law.traced.outputs.values())
        check_room(problem, lambda: problem.q.shape[-1] + sum(self.sizes) + problem.dynamics.nu + outputs)
        self.grid = _times(problem.grid)
        self.end = self.grid[-1]
        self.q = _unfilled(n, (self.count, problem.q.shape[-1]))
        self.flats = _unfilled(n, (self.count, sum(self.sizes)))
        self.u = _unfilled(n, (self.count, problem.dynamics.nu))
        if n:
            flat_names = [
                name for name in (self.at.v, self.at.memory if memory else None, self.at.work) if name is not None
            ]
            self.q[0] = self.state[self.at.q]
            self.flats[0] = np.concatenate([self.state[name] for name in flat_names], axis=-1)
        self.failed = np.full(self.count, np.nan)
        self.events = EventLog(problem.events, problem.batch)
        self.event_values = np.full((self.count, len(problem.events)), np.nan)
        self.channels: dict[str, np.ndarray] = {}
        self.held: dict[str, np.ndarray] = {}
        self.memories: np.ndarray | None = None
        self.law = law.kernel if law is not None else None
        self.hosted = None if law is None else hosted(law, self.count)
        self.attempts = self.observed = 0
        self.most = self.method.most(problem)
        self.turns = 0.0
        self._pace: np.ndarray | None = None
        self.law_failures: np.ndarray | None = None

    @property
    def t(self) -> np.ndarray:
        """(trajectories,) time that each has reached."""
        return self.state[self.own["t"]]

    def run(self) -> Recording:
        """Integrate to the end, to the last event, to the limit of attempts, or to Ctrl-C."""
        problem = self.problem
        begin = time.perf_counter()
        interrupted = limited = False
        with Progress(f"simulate {problem.dynamics.name}", problem.progress) as bar:
            try:
                for start, end in self._segments():
                    limited = self._segment(start, end, self._sample(start), bar)
                    if limited or np.all(self._over()):
                        break
            except KeyboardInterrupt:
                interrupted = True
        if problem.plan.control.kind == "sampled" and not (interrupted or limited):
            self._note_inputs(self.end, self.end, self._sample(self.end))
        reached = float(np.min(self.t, where=~self._over(), initial=self.end))
        n = int(self.grid.searchsorted(reached + 1e-12 * max(abs(reached), 1.0), side="right"))
        self._observe(n)
        times, records = self.grid[:n], self._records()
        if not problem.batch and reached > times[-1]:  # stopped between two records: keep the last state
            self.grid[n] = reached
            times = self.grid[: n + 1]
            parts = [self.state[name] for name in (self.at.v, self.at.memory, self.at.work) if name in self.state]
            records = records.with_last(self._moment(self.state[self.at.q][0], np.concatenate(parts, axis=-1)[0]), n)
        else:
            records = records.each(lambda array: array[:n])
        batch = problem.batch
        self.events.forget_after(reached)
        return Recording(
            times,
            records.each(lambda array: array.reshape(len(array), *batch, *array.shape[2:]) if batch else array),
            self.failed.reshape(batch),
            self.events,
            None if self.at.watch is None else self.state[self.at.watch].reshape(*batch, -1),
            None if self.law_failures is None else self.law_failures.reshape(*batch, -1),
            self._ledger(),
            reached,
            interrupted,
            limited,
            wall_seconds=time.perf_counter() - begin,
            steps=self.attempts,
            turns=self.turns,
        )

    def _ledger(self) -> np.ndarray | None:
        """Energy exchanged and lost up to where each trajectory is."""
        batch = self.problem.batch
        state = {name: array.reshape((*batch, *array.shape[1:])) for name, array in self.state.items()}
        return self.code.entered(self.problem, state, self.t.reshape(batch))

    def _records(self) -> Records:
        """All records (n, trajectories, ...); without the second axis if there is no batch."""
        v, memory, work = self._parts(self.flats)
        memory = self.memories if memory is None else memory
        records = Records(self.q, v, self.u, work, memory, None, self.channels)
        return records if self.problem.batch else records.each(lambda array: array[:, 0])

    def _parts(self, flats: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """v, memory and work of flat parts (..., sum of sizes)."""
        v, memory, work = split(flats, self.sizes)
        return v, memory if self.sizes[1] else None, work if self.sizes[2] else None

    def _moment(self, q: np.ndarray, flats: np.ndarray) -> Records:
        """A state alone."""
        v, memory, work = self._parts(flats)
        return Records(q, v, work=work, memory=memory)

    def _over(self) -> np.ndarray:
        return np.isfinite(self.failed) | np.isfinite(self.events.stopped)

    # --- inputs -----------------------------------------------------------------------------------------------------------

    def _segments(self) -> Iterable[tuple[float, float]]:
        """Intervals of constant input; one if the input does not change from outside."""
        plan = self.problem.plan
        if not self.problem.steps:
            return []
        changing = plan.callback is not None or plan.control.kind == "sampled" or plan.table.shape[0] > 1
        if not changing:
            return [(self.problem.start_time, self.end)]
        knots = self.problem.start_time + self.problem.step * np.arange(0, self.problem.steps, plan.every)
        return ((float(a), float(b)) for a, b in zip(knots, np.append(knots[1:], self.end), strict=True))

    def _sample(self, t: float) -> np.ndarray | None:
        """The input (count, nu) held from ``t`` on; None if the law is continuous."""
        problem, plan = self.problem, self.problem.plan
        if plan.control.kind == "continuous":
            return None
        q, v = self.state[self.at.q], self.state[self.at.v]
        if plan.callback is not None:
            q, v = (x.reshape(*problem.batch, x.shape[-1]) for x in (q, v))
            u = call_back(plan.callback, t, q, v, problem.dynamics.nu)[0]
        elif plan.control.kind == "sampled":
            outputs = self._law_outputs(np.full(self.count, t), q, v, self.memory)
            law = plan.control.law
            self._note_law_failures(outputs, q)
            self.held = {name: outputs[name] for name in law.channels} if law is not None else {}
            if "z_next" in outputs:
                self._note_memory(t)
                self.memory = outputs["z_next"]
            return outputs["u"]
        else:
            number = round((t - problem.start_time) / problem.step) // plan.every
            u = plan.table[min(number, plan.table.shape[0] - 1)]
        return problem.rows(u)

    def _law_outputs(self, t: np.ndarray, q: np.ndarray, v: np.ndarray, z: np.ndarray) -> dict[str, np.ndarray]:
        law = self.problem.plan.control.law
        if law is None or self.law is None:
            return {}
        sources: dict[str, Any] = {"t": t, "q": q, "v": v, "p": self.problem.dynamics.at_times(self.p, t), "z": z}
        sources["gains"] = self.problem.rows(self.problem.gains)
        if "signal" in law.takes:
            sample = law.signal(t[:1])[0] if len(t) else np.zeros(law.signal_size)
            sources["signal"] = self.problem.rows(sample)
            if self.hosted is not None:
                sources["signal"] = sources["signal"].copy()
                sources["signal"][..., : self.hosted.size] = self.hosted.answers(sources)
        return dict(zip(law.traced.outputs, self.law(*(sources[name] for name in law.takes)), strict=True))

    def _note_law_failures(self, outputs: Mapping[str, np.ndarray], q: np.ndarray) -> None:
        """Keep what a sampled law says of itself: its input is no number there, and no attempt will succeed."""
        status = outputs.get(STATUS)
        if status is None:
            return
        if self.law_failures is None:
            self.law_failures = np.zeros((self.count, HEAD + q.shape[-1]))
        fresh = (status > 0) & (self.law_failures[:, CODE] == 0) & ~self._over()
        self.law_failures[fresh, CODE], self.law_failures[fresh, HEAD:] = status[fresh], q[fresh]

    def _note_last_failure(self, fresh: np.ndarray) -> None:
        """Keep what a continuous law says of itself where the steps died out."""
        if self.at.law_failure is None:
            return
        failure, q = self.state[self.at.law_failure], self.state[self.at.q]
        if self.law_failures is None:
            self.law_failures = np.zeros_like(failure)
        here = np.abs(failure[:, HEAD:] - q).max(axis=-1, initial=0.0) <= NEARBY * (
            1 + np.abs(q).max(axis=-1, initial=0.0)
        )
        self.law_failures[fresh & here] = failure[fresh & here]

    def _note_memory(self, t: float) -> None:
        """The memory that a sample at ``t`` starts from, for the records until the next one."""
        if self.memories is None:
            self.memories = _unfilled(len(self.grid), self.memory.shape)
        first, after = self._between(t, t + self.problem.step * self.problem.plan.every)
        self.memories[first:after] = self.memory

    def _note_inputs(self, start: float, end: float, u: np.ndarray | None) -> None:
        """Write the input, and what else the law gave with it, to the records between two samples."""
        if u is None or not (u.shape[-1] or self.held):
            return
        first, after = self._between(start, end)
        self.u[first:after] = u
        for name, values in self.held.items():
            if name not in self.channels:
                self.channels[name] = _unfilled(len(self.grid), values.shape)
            self.channels[name][first:after] = values

    def _between(self, start: float, end: float) -> tuple[int, int]:
        """First record from ``start`` on, and first one behind ``end``."""
        slack = 1e-12 * max(abs(start), abs(end), 1.0)
        return int(np.searchsorted(self.grid, start - slack)), int(np.searchsorted(self.grid, end + slack, "right"))

    def _observe(self, n: int) -> None:
        """Inputs of a continuous law and channels of the dynamics at the first ``n`` records, those that are not there yet."""
        if n == self.observed:
            return
        problem, law, here = self.problem, self.problem.plan.control.law, slice(self.observed, n)
        q, (v, memory, _) = self.q[here], self._parts(self.flats[here])
        times = self.grid[here, None]
        p = problem.dynamics.at_times(self.p, times)
        found: dict[str, np.ndarray] = {}
        if problem.plan.control.kind == "continuous" and law is not None and self.law is not None:
            sources: dict[str, Any] = {"t": np.broadcast_to(times, q.shape[:2]), "q": q, "v": v, "p": p}
            sources["z"] = self.memory if memory is None else memory
            sources["gains"] = problem.rows(problem.gains)
            outputs = dict(zip(law.traced.outputs, self.law(*(sources[k] for k in law.takes)), strict=True))
            self.u[here] = outputs["u"]
            found |= {name: outputs[name] for name in law.channels}
        motion = problem.dynamics.kernel("motion")
        if motion is not None and len(motion.outputs) > 2:
            values = motion(q, v, self.u[here], p)
            found |= dict(zip(list(motion.outputs)[2:], values[2:], strict=True))
        for name, values in found.items():
            if name not in self.channels:
                self.channels[name] = _unfilled(len(self.grid), values.shape[1:])
            self.channels[name][here] = values
        self.observed = n

    # --- attempts ---------------------------------------------------------------------------------------------------------

    def _segment(self, start: float, end: float, u: np.ndarray | None, bar: Progress) -> bool:
        """Integrate all trajectories from ``start`` to ``end`` with a constant input; whether the limit of attempts was reached."""
        for stop in (b for b in self.problem.breakpoints if start < b <= end):
            if self._unbroken(start, stop - self.problem.one_sided, u, bar):
                return True
            start = stop + self.problem.one_sided
            on = ~self._over()
            self.t[on] = start
            next_h = self.state[self.own["next_h"]]
            next_h[on] = np.minimum(next_h[on], self.method.first(self.problem))
        return self._unbroken(start, end, u, bar)

    def _unbroken(self, start: float, end: float, u: np.ndarray | None, bar: Progress) -> bool:
        problem, method, given = self.problem, self.method, self.at.given
        duration = max(self.end - problem.start_time, 1e-300)
        constants = {self.at.p: self.p, given["tolerance"]: method.tolerance(problem)}
        if self.at.gains is not None:
            constants[self.at.gains] = problem.rows(problem.gains)
        tables = {} if u is None else {self.at.u: u[None]}
        while True:
            active = ~self._over() & (self.t < end)
            running = self.t[active]
            reached = float(running.min()) if len(running) else end
            self._note_inputs(start, reached, u)
            start = reached
            # not left to the end, where Ctrl-C would wait for it; the record at ``reached`` may still get another input
            if (before := self._between(reached, reached)[0]) - self.observed > OBSERVED / max(self.count, 1):
                self._observe(before)
            if not len(running):
                return False
            if self.attempts >= self.most:
                return True
            # trajectories that are over stay where they are: their end is their own time
            ends = np.where(active, end, self.t)
            attempts = self._attempts(active, end)
            result = self.stepper.run(self.state, {**constants, given["t_end"]: ends}, tables, steps=attempts)
            # before the state moves on: an interrupt here loses the block, not the order
            self._keep(result.records, result.state[self.own["t"]])
            self._pace = (result.state[self.own["t"]] - self.t) / attempts
            self.state = result.state
            self.attempts += attempts
            self._note_lost(active, SMALLEST * duration, result.records)
            bar.update(float(self.t.min() - problem.start_time) / duration)

    def _note_lost(self, active: np.ndarray, smallest: float, raw: dict[str, np.ndarray]) -> None:
        """Trajectories whose steps have died out, that are not finite, or that the watch has ended."""
        next_h, q = self.state[self.own["next_h"]], self.state[self.at.q]
        watched = None if self.at.watch is None else self.state[self.at.watch]
        if (next_h >= smallest).all() and np.isfinite(q).all() and (watched is None or np.isfinite(watched).all()):
            return
        lost = active & ((next_h < smallest) | ~np.isfinite(q).all(axis=-1))
        if watched is not None:
            lost |= active & ~np.isfinite(watched).all(axis=-1)
        fresh = lost & ~np.isfinite(self.failed)
        self.failed[fresh] = self.t[fresh]
        for lane in np.flatnonzero(fresh):
            self._date(int(lane), raw)
        self._note_last_failure(fresh)

    def _date(self, lane: int, raw: dict[str, np.ndarray]) -> None:
        """Where loops are open within the last accepted step, the trajectory ends there and not at the end of the step."""
        dynamics, data = self.problem.dynamics, {label: raw[self.own[label]][1:] for label in self.method.records}
        kernel, rows = dynamics.kernel("kept"), np.flatnonzero(data["attempt"][:, lane, 1] > 0)
        if kernel is None or not len(rows):
            return
        dense = _Dense(self, data, rows[-1:], np.array([lane]))
        begin, size = data["attempt"][rows[-1], lane, :2]

        def closed(x: np.ndarray) -> np.ndarray:
            q, flats = dense.at(np.zeros(len(x), dtype=int), x)
            p = dynamics.at_times(np.broadcast_to(self.p[lane], (len(x), self.p.shape[-1])), begin + x * size)
            _, _, miss, _, _, branches, *_ = kernel(q, self._parts(flats)[0], p)
            open_by = np.max(np.abs(miss), axis=-1, initial=0.0)
            return (open_by <= OPEN) & (np.min(branches, axis=-1, initial=1.0) >= 0.0)

        x = np.linspace(0.0, 1.0, DATED)
        first = int(np.argmin(closed(x)))
        if first == 0:  # closed in the whole step
            return
        x = np.linspace(x[first - 1], x[first], DATED)
        self.failed[lane] = begin + size * x[max(int(np.argmin(closed(x))), 1)]

    def _attempts(self, active: np.ndarray, end: float) -> int:
        """Attempts of the next block: about as many as the slowest trajectory needs, growing as the step size settles."""
        per_attempt = 8 * self.count * self.stepper.layout.record_size
        sizes = np.maximum(self.state[self.own["next_h"]][active], 1e-300)
        left = end - self.t[active]
        needed = 1.1 * (left / sizes).max()
        if (
            self._pace is not None and (pace := self._pace[active]).min() > 0
        ):  # the step at hand may be a long one or a short one
            needed = 1.1 * (left / pace).max()
        room = max(int(BLOCK_BYTES / per_attempt), 1)
        limit = max(self.most - self.attempts, 1)
        return int(min(max(needed, FEWEST), FEWEST + SETTLED * self.attempts, MOST, room, limit))

    def _keep(self, raw: dict[str, np.ndarray], after: np.ndarray) -> None:
        """Records on the grid and events from the accepted attempts of a block that led to the times ``after``."""
        slack = 1e-13 * max(abs(self.end), 1.0)
        if self.code.events is None:
            passed = self.grid.searchsorted((self.t.min() + slack, after.max() + slack), side="right")
            if passed[0] == passed[1]:
                return  # no record is due
        data = {
            label: raw[self.own[label]][1:] for label in self.method.records
        }  # a record describes the attempt before it
        tried = data["attempt"]
        row, lane = np.nonzero((tried[..., 1] > 0) & ~self._over())
        begin, size = tried[row, lane, 0], tried[row, lane, 1]
        dense = _Dense(self, data, row, lane)
        if len(row):
            c = self.problem.dynamics.coordinates
            moved = data["dense_theta"][row, lane, :, 0]
            self.turns = max(self.turns, turns(c.v_names, c.v_units, moved))
        if self.code.events is not None and len(row):
            self._find_events(dense, begin, size)
        low = self.grid.searchsorted(begin + slack, side="right")
        high = self.grid.searchsorted(begin + size + slack, side="right")
        counts = high - low
        which = np.repeat(np.arange(len(row)), counts)
        if not len(which):
            return
        # records low .. high - 1 of each attempt, one after the other
        place = np.arange(len(which)) + (low - np.cumsum(counts) + counts)[which]
        fraction = ((self.grid[place] - begin[which]) / size[which]).clip(0.0, 1.0)
        self.q[place, lane[which]], self.flats[place, lane[which]] = dense.at(which, fraction)

    def _find_events(self, dense: _Dense, begin: np.ndarray, size: np.ndarray) -> None:
        """In pieces of the attempts: a quarter of one is not longer than the distance of the records."""
        kernel, problem = self.code.events, self.problem
        if kernel is None:
            return
        parts = np.clip(np.ceil(size / (4 * problem.step * problem.record_every)), 1, MOST_PARTS).astype(int)
        attempt = np.repeat(np.arange(len(size)), parts)
        first = (np.arange(len(attempt)) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[attempt]
        width, rows = 1.0 / parts[attempt], dense.lane[attempt]

        def reach(piece: np.ndarray, x: np.ndarray) -> Reached:
            here, fraction = attempt[piece], first[piece] + x * width[piece]
            q, flats = dense.at(here, fraction)
            v, memory, work = self._parts(flats)
            return Reached(kernel(begin[here] + fraction * size[here], q, v)[0], q, v, work, memory)

        everything = np.arange(len(attempt))
        values = np.stack([reach(everything, np.full(len(attempt), x)).values for x in POINTS], axis=1)
        # a piece begins with the value that the one before ended with: projections and rounding leave no gap for a crossing
        order = np.argsort(rows, kind="stable")
        follows = rows[order][1:] == rows[order][:-1]
        values[order[1:][follows], 0] = values[order[:-1][follows], -1]
        known = np.concatenate([[True], ~follows]) & np.isfinite(self.event_values[rows[order]]).all(axis=-1)
        values[order[known], 0] = self.event_values[rows[order[known]]]
        self.event_values[rows[order]] = values[order, -1]
        found = crossings(values, problem.events, lambda piece, x: reach(piece, x).values)
        start, length = begin[attempt] + first * size[attempt], width * size[attempt]
        if len(found.step):
            self.events.search(
                found,
                rows[found.step],
                start[found.step],
                length[found.step],
                lambda times: reach(found.step, times / length[found.step]),
                lambda k: Records(np.zeros(0), np.zeros(0)),
            )
        for x in (0, -1):
            self.events.check_numbers(values[:, x], start + POINTS[x] * length, rows, np.ones(len(rows), dtype=bool))


def _times(grid: RecordGrid) -> np.ndarray:
    """Times of all records: one array, in pieces, between which Ctrl-C is heard."""
    times = np.empty(len(grid))
    for first in range(0, len(grid), PIECE):
        after = min(first + PIECE, len(grid))
        times[first:after] = grid.times(first, after)
    return times


def _unfilled(n: int, shape: tuple[int, ...]) -> np.ndarray:
    """Records (n, *shape) to be filled as they come; the first one is NaN until then."""
    array = np.empty((n, *shape))
    array[0] = np.nan
    return array


class _Dense:
    """States within the accepted attempts ``row`` of trajectories ``lane``."""

    def __init__(self, run: ChosenSteps, data: dict[str, np.ndarray], row: np.ndarray, lane: np.ndarray) -> None:
        if run.code.dense is None:
            raise SimulationError("there is no dense output of a fixed step.")
        self.kernel, self.data, self.row, self.lane = run.code.dense, data, row, lane

    def at(self, which: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q and the flat parts at fractions ``x`` (m,) of some of the attempts (m,)."""
        place = self.row[which], self.lane[which]
        q, flats = self.kernel(*(self.data[f"dense_{name}"][place] for name in ("q", "theta", "flats")), x)
        return q, flats
