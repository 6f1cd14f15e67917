"""The time loop with error control: attempts in native blocks, records and events from dense output."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from heavytop.compile import Kernel, Stepper
from heavytop.simulate.assembly import CHANNEL
from heavytop.simulate.engine import Problem, Recording
from heavytop.simulate.events import Occurrence, crossings, locate, trace_events
from heavytop.simulate.inputs import call_back
from heavytop.simulate.integrators.rkmk45 import RKMK45, dense_curve
from heavytop.simulate.progress import Progress

FEWEST, MOST = 16, 1024
"""Attempts per native call."""
BLOCK_BYTES = 64e6
SMALLEST = 1e-14
"""Step relative to the duration below which the solution counts as lost."""


class AdaptiveRun:
    """One run of RKMK45: segments between input samples, blocks of attempts inside."""

    def __init__(self, problem: Problem, method: RKMK45, stepper: Stepper, memory: np.ndarray) -> None:
        self.problem, self.method, self.stepper = problem, method, stepper
        layout = stepper.layout
        self.count = problem.count
        numbers = np.unique(np.append(np.arange(0, problem.steps + 1, problem.record_every), problem.steps))
        self.grid = problem.start_time + problem.step * numbers
        self.end = self.grid[-1]
        self.flats = [
            name for name in layout.state if f"dense_{name}" in layout.state and name not in ("q", "t", "theta")
        ]
        first = method.first_step or 0.01 * problem.step
        self.state = {
            "q": problem.q.reshape(self.count, problem.q.shape[-1]).copy(),
            "v": problem.v.reshape(self.count, problem.v.shape[-1]).copy(),
            "t": np.full(self.count, problem.start_time),
            "next_h": np.full(self.count, min(first, method.max_step)),
        }
        shape = (*problem.batch, problem.p.shape[-1])
        self.p = np.broadcast_to(problem.p, shape).reshape(self.count, problem.p.shape[-1])
        if "z" in self.flats:
            self.state["z"] = np.broadcast_to(memory, (*problem.batch, memory.shape[-1])).reshape(self.count, -1)
        self.memory = (
            np.broadcast_to(memory, (*problem.batch, memory.shape[-1])).reshape(self.count, memory.shape[-1]).copy()
        )
        for name in layout.state:
            if name not in self.state:
                self.state[name] = np.zeros((self.count, *layout.shapes[name]))
        self.records = {
            name: np.full((len(self.grid), self.count, layout.size(name)), np.nan) for name in ("q", *self.flats)
        }
        self.u = np.full((len(self.grid), self.count, problem.dynamics.nu), np.nan)
        for name in self.records:
            self.records[name][0] = self.state[name]
        self.failed = np.full(self.count, np.nan)
        self.stopped = np.full(self.count, np.nan)
        self.occurrences: list[Occurrence] = []
        self.at_events: dict[tuple[int, ...], dict[str, np.ndarray]] = {}
        self.channels: dict[str, np.ndarray] = {}
        self.held: dict[str, np.ndarray] = {}
        self.events = Kernel(trace_events(problem.events, problem.dynamics)) if problem.events else None
        law = problem.plan.control.law
        self.law = law.kernel if law is not None else None
        self.attempts = 0

    def run(self) -> Recording:
        """Integrate to the end, to the last event, to the limit of attempts, or to Ctrl-C."""
        problem = self.problem
        begin = time.perf_counter()
        interrupted = limited = False
        with Progress(f"simulate {problem.dynamics.name}", problem.progress) as bar:
            try:
                for start, end in self._segments():
                    u = self._sample(start)
                    limited = self._segment(end, u, bar)
                    self._note_inputs(start, end, u)
                    if limited or np.all(self._over()):
                        break
            except KeyboardInterrupt:
                interrupted = True
        if problem.plan.control.kind == "sampled" and not (interrupted or limited):
            self._note_inputs(self.end, self.end, self._sample(self.end))
        self._observe()
        reached = float(np.min(self.state["t"], where=~self._over(), initial=self.end))
        kept = self.grid <= reached + 1e-12 * max(abs(reached), 1.0)
        batch, n = problem.batch, int(np.count_nonzero(kept))
        records = {name: array[kept].reshape(n, *batch, array.shape[-1]) for name, array in self.records.items()}
        records["u"] = self.u[kept].reshape(n, *batch, self.u.shape[-1])
        records |= {CHANNEL + c: a[kept].reshape(n, *batch, *a.shape[2:]) for c, a in self.channels.items()}
        times = self.grid[kept]
        if not batch and reached > times[-1]:  # stopped between two records: keep the last state
            times = np.append(times, reached)
            last = {name: self.state[name].reshape(1, -1) for name in ("q", *self.flats)}
            records = {name: np.concatenate([a, last.get(name, a[-1:])]) for name, a in records.items()}
        return Recording(
            times,
            records,
            self.failed.reshape(batch),
            self.stopped.reshape(batch),
            sorted((o for o in self.occurrences if o.time <= reached or o.terminal), key=lambda o: o.time),
            reached,
            self.at_events,
            interrupted,
            limited,
            wall_seconds=time.perf_counter() - begin,
            steps=self.attempts,
        )

    def _over(self) -> np.ndarray:
        return np.isfinite(self.failed) | np.isfinite(self.stopped)

    def _segments(self) -> list[tuple[float, float]]:
        """Intervals of constant input; one if the input does not change from outside."""
        plan = self.problem.plan
        if not self.problem.steps:
            return []
        changing = plan.callback is not None or plan.control.kind == "sampled" or plan.table.shape[0] > 1
        if not changing:
            return [(self.problem.start_time, self.end)]
        knots = self.problem.start_time + self.problem.step * np.arange(0, self.problem.steps, plan.every)
        return list(zip(knots, [*knots[1:], self.end], strict=True))

    def _sample(self, t: float) -> np.ndarray | None:
        """The input (count, nu) held from ``t`` on; None if the law is continuous."""
        problem, plan = self.problem, self.problem.plan
        if plan.control.kind == "continuous":
            return None
        if plan.callback is not None:
            q, v = (self.state[n].reshape(*problem.batch, self.state[n].shape[-1]) for n in ("q", "v"))
            u = call_back(plan.callback, t, q, v, problem.dynamics.nu)[0]
        elif plan.control.kind == "sampled":
            outputs = self._law_outputs(np.full(self.count, t), self.state["q"], self.state["v"], self.memory)
            law = plan.control.law
            self.held = {name: outputs[name] for name in law.channels} if law is not None else {}
            if "z_next" in outputs:
                self.held["z"], self.memory = self.memory, outputs["z_next"]
            return outputs["u"]
        else:
            number = round((t - problem.start_time) / problem.step) // plan.every
            u = plan.table[min(number, plan.table.shape[0] - 1)]
        return np.broadcast_to(u, (*problem.batch, u.shape[-1])).reshape(self.count, u.shape[-1])

    def _law_outputs(self, t: np.ndarray, q: np.ndarray, v: np.ndarray, z: np.ndarray) -> dict[str, np.ndarray]:
        law = self.problem.plan.control.law
        if law is None or self.law is None:
            return {}
        sources: dict[str, Any] = {"t": t, "q": q, "v": v, "p": self.p, "z": z}
        if "signal" in law.takes:
            sample = law.signal(t[:1])[0] if len(t) else np.zeros(law.signal_size)
            full = np.broadcast_to(sample, (*self.problem.batch, law.signal_size))
            sources["signal"] = full.reshape(self.count, law.signal_size)
        return dict(zip(law.traced.outputs, self.law(*(sources[name] for name in law.takes)), strict=True))

    # --- attempts ---------------------------------------------------------------------------------------------------------

    def _segment(self, end: float, u: np.ndarray | None, bar: Progress) -> bool:
        """Integrate all trajectories to ``end``; whether the limit of attempts was reached."""
        problem, method = self.problem, self.method
        largest = min(method.max_step, 1e300)
        constants = {"p": self.p, "tolerance": np.array([method.rtol, method.atol, largest])}
        tables = {} if u is None else {"u": u[None]}
        while True:
            active = ~self._over() & (self.state["t"] < end)
            if not np.any(active):
                return False
            if self.attempts >= method.max_steps:
                return True
            # trajectories that are over stay where they are: their end is their own time
            ends = np.where(active, end, self.state["t"])
            attempts = self._attempts(active, end)
            result = self.stepper.run(self.state, {**constants, "t_end": ends}, tables, steps=attempts)
            self._keep(
                result.records
            )  # before the state moves on: whoever interrupts here loses the block, not the order
            self.state = result.state
            self.attempts += attempts
            lost = active & (self.state["next_h"] < SMALLEST * max(self.end - problem.start_time, 1e-300))
            lost |= active & ~np.isfinite(self.state["q"]).all(axis=-1)
            self.failed[lost & ~np.isfinite(self.failed)] = self.state["t"][lost & ~np.isfinite(self.failed)]
            bar.update(float(np.min(self.state["t"]) - problem.start_time) / max(self.end - problem.start_time, 1e-300))

    def _attempts(self, active: np.ndarray, end: float) -> int:
        """Attempts of the next block: about as many as the slowest trajectory needs, growing as the step size settles."""
        layout = self.stepper.layout
        per_attempt = 8 * self.count * sum(layout.size(name) for name in layout.record)
        needed = 1.1 * np.max((end - self.state["t"][active]) / np.maximum(self.state["next_h"][active], 1e-300))
        room = max(int(BLOCK_BYTES / per_attempt), 1)
        limit = max(self.method.max_steps - self.attempts, 1)
        return int(min(np.clip(needed, FEWEST, FEWEST + self.attempts), MOST, room, limit))

    def _keep(self, raw: dict[str, np.ndarray]) -> None:
        """Records on the grid and events from the accepted attempts of a block."""
        data = {name: array[1:] for name, array in raw.items()}  # the record after an attempt tells about it
        begin, size = data["dense_t"][..., 0], data["dense_t"][..., 1]
        accepted = (size > 0) & ~self._over()
        if self.events is not None:
            self._find_events(data, begin, size, accepted)
        row, lane = np.nonzero(accepted)
        t0, h = begin[row, lane], size[row, lane]
        slack = 1e-13 * max(abs(self.end), 1.0)
        low = np.searchsorted(self.grid, t0 + slack, side="right")
        high = np.searchsorted(self.grid, t0 + h + slack, side="right")
        times = np.repeat(np.arange(len(row)), high - low)
        if not len(times):
            return
        place = np.concatenate([np.arange(a, b) for a, b in zip(low, high, strict=True) if b > a])
        fraction = np.clip((self.grid[place] - t0[times]) / h[times], 0.0, 1.0)
        state = self._dense(data, row[times], lane[times], fraction)
        for name, values in state.items():
            self.records[name][place, lane[times]] = values

    def _dense(
        self, data: dict[str, np.ndarray], row: np.ndarray, lane: np.ndarray, x: np.ndarray
    ) -> dict[str, np.ndarray]:
        """State at fractions ``x`` (m,) of the attempts ``row`` of trajectories ``lane``."""
        theta = dense_curve(data["dense_theta"][row, lane], x)
        state = {"q": self.problem.dynamics.coordinates.retract(data["dense_q"][row, lane], theta)}
        for name in self.flats:
            columns = data[f"dense_{name}"][row, lane]
            state[name] = columns[..., 0] + dense_curve(columns[..., 1:], x)
        return state

    def _find_events(
        self, data: dict[str, np.ndarray], begin: np.ndarray, size: np.ndarray, accepted: np.ndarray
    ) -> None:
        problem = self.problem
        row, lane = np.nonzero(accepted)
        if not len(row) or self.events is None:
            return
        kernel = self.events
        t0, h = begin[row, lane], size[row, lane]

        def values(x: np.ndarray, pick: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
            state = self._dense(data, row[pick], lane[pick], x)
            return kernel(t0[pick] + x * h[pick], state["q"], state["v"])[0], state

        everything = np.arange(len(row))
        before, _ = values(np.zeros(len(row)), everything)
        after, _ = values(np.ones(len(row)), everything)
        found = crossings(np.stack([before, after]), problem.events)
        if not len(found):
            return
        pick, which = found[:, 1], found[:, 2]
        m = np.arange(len(pick))
        tolerance = np.array([problem.events[w].tolerance for w in which]) / h[pick]
        fractions = locate(
            lambda x: values(x, pick)[0][m, which], before[pick, which], after[pick, which], tolerance, 1.0
        )
        _, state = values(fractions, pick)
        now = t0[pick] + fractions * h[pick]
        for k in np.argsort(now, kind="stable"):
            trajectory = lane[pick[k]]
            if now[k] > self.stopped[trajectory]:
                continue
            event = problem.events[which[k]]
            index = tuple(int(i) for i in np.unravel_index(trajectory, problem.batch)) if problem.batch else ()
            self.occurrences.append(
                Occurrence(event.name, float(now[k]), index, state["q"][k], state["v"][k], event.terminal)
            )
            if event.terminal:
                self.stopped[trajectory] = now[k]
                self.at_events[index] = {name: state[name][k] for name in self.flats}

    # --- inputs of the records --------------------------------------------------------------------------------------------

    def _note_inputs(self, start: float, end: float, u: np.ndarray | None) -> None:
        """Write the input, and what else the law gave with it, to the records between two samples."""
        if u is None:
            return
        slack = 1e-12 * max(abs(end), 1.0)
        between = (self.grid >= start - slack) & (self.grid <= end + slack)
        self.u[between] = u
        for name, values in self.held.items():
            if name not in self.channels:
                self.channels[name] = np.full((len(self.grid), *values.shape), np.nan)
            self.channels[name][between] = values

    def _observe(self) -> None:
        """Inputs of a continuous law and channels of the dynamics at the recorded states."""
        problem, law = self.problem, self.problem.plan.control.law
        q, v = self.records["q"], self.records["v"]
        if problem.plan.control.kind == "continuous" and law is not None and self.law is not None:
            t = np.broadcast_to(self.grid[:, None], q.shape[:2])
            sources: dict[str, Any] = {"t": t, "q": q, "v": v, "p": self.p, "z": self.records.get("z", self.memory)}
            outputs = dict(zip(law.traced.outputs, self.law(*(sources[n] for n in law.takes)), strict=True))
            self.u = outputs["u"]
            self.channels |= {name: outputs[name] for name in law.channels}
        motion = problem.dynamics.kernel("motion")
        if motion is not None and len(motion.outputs) > 2:
            values = motion(q, v, self.u, self.p)
            self.channels |= dict(zip(list(motion.outputs)[2:], values[2:], strict=True))
