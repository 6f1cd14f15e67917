"""A run that can be differentiated: its steps, their records, and both directions of the chain rule through all of them.

``Rollout(spec, by).run(start)`` gives a :class:`Path`. :meth:`Path.pull` takes weights of the records to weights of everything the run started
from (reverse mode, one native run of the adjoint step), :meth:`Path.push` takes directions of the start to directions of the records (forward
mode, one native run with the directions as a batch).

Only the state at some steps is kept if all records would take too much memory; the records in between are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, isqrt
from typing import Any

import numpy as np

from heavytop._arrays import Array, transpose
from heavytop.compile import Kernel, Schedule, Stepper, Traced, adjoint, batch_lanes, tangent, trace
from heavytop.coordinates import Coordinates
from heavytop.errors import SimulationError, unknown_name
from heavytop.functions import is_local, store
from heavytop.simulate.energy_monitor import beginning
from heavytop.simulate.gradients.adjoint_step import adjoint_schedule, bar, seed
from heavytop.simulate.gradients.frozen_steps import StepPlan, frozen_steps
from heavytop.simulate.gradients.step_graph import CLOCK, StepGraph
from heavytop.simulate.gradients.tangent_step import dot, tangent_schedule
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.plant import Control
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.run_compilation import step_key
from heavytop.simulate.spec import RunParts, RunSpec
from heavytop.simulate.step_assembly import step_schedule

ROOTS = ("start", "parameters", "inputs", "gains", "reference")
"""Quantities that a run can be differentiated by."""
ROOM = 64e6
"""Bytes of records that are kept; above, the square root of the steps is."""

LOCATED = 3
"""Newton steps towards the time of an event, from its time on the interpolant."""

Weights = Mapping[str, np.ndarray]
"""Weights of the records of a range of steps: "q", "v", "u" -> (steps, rows, n)."""


@dataclass(frozen=True, eq=False)
class StepCode:
    """Native code of a step, of its adjoint and of its tangent.

    Attributes
    ----------
    record : the step, with all that its derivatives need in its records.
    graph : its calls.
    """

    record: Stepper
    graph: StepGraph
    mark: str | None
    lanes: int
    threads: int | None

    def adjoint(self, roots: tuple[str, ...]) -> Stepper:
        """The adjoint by some roots."""
        return self._made("adjoint", roots, adjoint_schedule, self.lanes)

    def tangent(self, roots: tuple[str, ...]) -> Stepper:
        """The tangent by some roots, many directions together."""
        return self._made("tangent", roots, tangent_schedule, batch_lanes())

    def _made(self, kind: str, roots: tuple[str, ...], make: Callable[..., Schedule], lanes: int) -> Stepper:
        def build() -> Stepper:
            if self.mark is None:
                return Stepper(make(self.graph, roots), lanes, self.threads)
            return Stepper.cached(
                f"{self.mark} {kind} {' '.join(roots)}", lambda: make(self.graph, roots), lanes, self.threads
            )

        found = None if self.mark is None else (kind, self.mark, roots, lanes, self.threads)
        return store.get(found, build) if found is not None else self._own(kind, roots, build)

    def _own(self, kind: str, roots: tuple[str, ...], build: Callable[[], Stepper]) -> Stepper:
        made: dict[Any, Stepper] = self.__dict__.setdefault("_steppers", {})
        if (kind, roots) not in made:
            made[kind, roots] = build()
        return made[kind, roots]


def step_code(problem: RunProblem, integrator: Integrator, control: Control, lanes: int) -> StepCode:
    """The code of the steps of a run, found or made."""
    dynamics = problem.dynamics
    step = step_key(integrator, control, None)
    mark = None
    if not (step is None or is_local(step) or dynamics.equations_key is None):
        mark = f"{dynamics.equations_key} {step} derivative {lanes == 1}"

    def make() -> StepCode:
        schedule = step_schedule(dynamics, control, integrator, balance=False, watched=False)
        graph = StepGraph.of(schedule, integrator.stationary, keeps=lanes == 1)
        args = (lanes, problem.threads)
        if mark is None:
            record = Stepper(graph.recording, *args)
        else:
            record = Stepper.cached(mark, lambda: graph.recording, *args)
        return StepCode(record, graph, mark, *args)

    where = None if step is None or dynamics.key is None else ("derivative", dynamics.key, step, lanes, problem.threads)
    return store.get(where, make)


def cotangent(coordinates: Coordinates) -> Kernel:
    """(q, weights in the space of q) -> their part along the manifold, ``A (A^T A)^-1 w``, and weights ``w = A^T weights`` of velocities."""

    def make() -> Kernel:
        def parts(q: Array, weights: Array) -> dict[str, Array]:
            w = np.matvec(transpose(coordinates.kinematics_matrix(q)), weights)
            return {"q": np.matvec(transpose(coordinates.left_inverse(q)), w), "w": w}

        return Kernel(trace(parts, {"q": (coordinates.nq,), "weights": (coordinates.nq,)}, name="cotangent"))

    return store.get(None if coordinates.key is None else ("cotangent", coordinates.key), make)


class Rollout:
    """A run as a function that can be differentiated.

    Parameters
    ----------
    spec : the run without its start. by : any of :data:`ROOTS`.
    memory : bytes for records; None: all of them up to 64 MB, else those of the square root of the steps.
    """

    def __init__(self, spec: RunSpec, by: Sequence[str], memory: float | None = None) -> None:
        for name in by:
            if name not in ROOTS:
                raise unknown_name("quantity to differentiate by", name, ROOTS)
        self.spec, self.by, self.memory = spec, tuple(by), memory

    def run(
        self,
        start: tuple[Any, Any],
        parameters: Mapping[str, Any] | None = None,
        gains: Mapping[str, Any] | None = None,
        inputs: np.ndarray | None = None,
    ) -> Path:
        """Simulate from a start; raises a SimulationError if what drives the run has no derivative, or if a trajectory diverges."""
        problem, parts, _ = self.spec.problem(start, parameters, gains, inputs)
        return self.path(problem, parts)

    def path(self, problem: RunProblem, parts: RunParts) -> Path:
        """The run of a problem."""
        self._check(problem)
        plan = frozen_steps(self.spec, problem, parts)
        control = problem.plan.control
        if control.kind == "sampled":
            control = replace(control, every=control.every * plan.parts)
        lanes = 1 if problem.count == 1 else batch_lanes()
        place = (lanes, plan.parts)
        if place not in parts.derivatives:
            parts.derivatives[place] = step_code(problem, plan.integrator, control, lanes)
        code = parts.derivatives[place]
        path = Path(self, problem, plan, code)
        if plan.stopped is not None and problem.integrator.chooses_step:
            for _ in range(LOCATED):  # events were located on the interpolant: now on the steps themselves
                _, slope, _, g = path.event_rates()
                path = Path(self, problem, path.plan.moved(-g / slope), code)
        return path

    def _check(self, problem: RunProblem) -> None:
        if problem.plan.calls_python:
            raise SimulationError(
                "inputs that are computed in Python at every sample have no derivative here. Give samples of the inputs, or a law in NumPy "
                "notation (ht.Feedback)."
            )
        if self.by and problem.integrator.unilateral:
            raise SimulationError(
                f"{problem.integrator.name} has no derivative: impacts, sticking and sliding change with the motion. Give the contact a stiffness, "
                "system.contact(..., stiffness=, restitution=(e, speed)), and use integrator='ros2'."
            )
        law = problem.plan.control.law
        if "gains" in self.by and (law is None or not law.gains):
            raise SimulationError(
                "a gradient with respect to gains needs a law in control= with gains, for example "
                "ht.Feedback(function, ('q', 'v', 'gains'), gains={...})."
            )
        if "inputs" in self.by and problem.plan.control.kind != "table":
            raise SimulationError(
                "a gradient with respect to inputs needs sampled inputs (inputs=); here a law computes them."
            )
        if "reference" in self.by and (law is None or "signal" not in law.takes):
            raise SimulationError(
                "a gradient with respect to the reference needs a law that takes samples of its reference ('signal'); a reference in terms of the "
                "time is part of the law."
            )


@dataclass(frozen=True, eq=False)
class Bars:
    """Weights of everything a run started from; the leading axis is the trajectory.

    Attributes
    ----------
    q : (rows, nq), in the space of q, along the manifold. w : (rows, nw), of displacements of the start, ``q o exp(w)``. v : (rows, nv).
    p, gains, memory : (rows, n) of parameters, gains and memory of the law.
    u : (samples, rows, nu) of the inputs. signals : stage time -> (steps, rows, m) of the samples of the reference.
    """

    q: np.ndarray
    w: np.ndarray
    v: np.ndarray
    p: np.ndarray | None = None
    gains: np.ndarray | None = None
    memory: np.ndarray | None = None
    u: np.ndarray | None = None
    signals: Mapping[float, np.ndarray] | None = None


@dataclass(frozen=True)
class Segment:
    """Records of the steps ``first`` to ``after``, that of ``after`` included: name of a buffer -> (n + 1, rows, size)."""

    first: int
    after: int
    records: Mapping[str, np.ndarray]


class Path:
    """A run with what is needed to differentiate it. Arrays have one row for each trajectory."""

    def __init__(self, rollout: Rollout, problem: RunProblem, plan: StepPlan, code: StepCode) -> None:
        self.rollout, self.problem, self.plan, self.code = rollout, problem, plan, code
        self.at, self.graph = code.graph.terminals, code.graph
        self.count, self.steps = problem.count, plan.steps
        self.by = rollout.by
        at = self.at
        self.constants = {at.p: problem.rows(problem.p)}
        if at.gains is not None:
            self.constants[at.gains] = problem.rows(problem.gains)
        self.tables, self.hold = self._tables()
        self._segments = self._cut(rollout.memory)
        self._checkpoints: list[dict[str, np.ndarray]] = []
        self._kept: Segment | None = None
        self.final = self._forward()

    # --- forward -------------------------------------------------------------------------------------------------------------

    def _tables(self) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        problem, at, plan = self.problem, self.at, self.plan
        tables: dict[str, np.ndarray] = {CLOCK: plan.clock, at.h: plan.sizes}
        hold: dict[str, int] = {}
        law = problem.plan.control.law
        for c, name in at.signals:
            if law is None:
                continue
            tables[name] = self._rows(plan.signal(law, c))
        if problem.plan.control.kind == "table":
            tables[at.u] = self._rows(problem.plan.table)
            hold[at.u] = problem.plan.every * plan.parts
        return tables, hold

    def _rows(self, table: np.ndarray) -> np.ndarray:
        """Samples (n, *batch, m) with one row for each trajectory, or (n, m) if all share them."""
        if table.ndim == 2:
            return table
        n, m = table.shape[0], table.shape[-1]
        return np.broadcast_to(
            table.reshape(n, *(1,) * (len(self.problem.batch) + 2 - table.ndim), *table.shape[1:]),
            (n, *self.problem.batch, m),
        ).reshape(n, self.count, m)

    def _cut(self, memory: float | None) -> list[tuple[int, int]]:
        """Ranges of steps between kept states."""
        n = self.steps
        layout = self.code.record.layout
        step = 8.0 * self.count * (layout.record_size + sum(layout.sizes[name] for name in layout.persistent))
        if n * step <= (ROOM if memory is None else memory) or n < 4:
            return [(0, n)]
        length = isqrt(n - 1) + 1
        if memory is not None:
            least = (length + ceil(n / length)) * step
            if memory < least:
                raise SimulationError(
                    f"memory must be at least {least:.3g} bytes: records of {length} steps and {ceil(n / length)} states between them, "
                    f"{step / self.count:.0f} bytes each of {self.count} trajectories; got {memory:.3g}."
                )
            # longest segments that fit, so that states are computed again as few times as before but in longer runs
            while (2 * length + ceil(n / (2 * length))) * step <= memory:
                length *= 2
        length = -(-length // self.plan.parts) * self.plan.parts
        return [(a, min(a + length, n)) for a in range(0, n, length)]

    def _start(self) -> dict[str, np.ndarray]:
        problem, at, layout = self.problem, self.at, self.code.record.layout
        own = {at.own[name]: np.asarray(value) for name, value in self.plan.integrator.start(problem).items()}
        if at.watch is not None:
            own[at.watch] = beginning(problem.dynamics, problem.q, problem.v, problem.p)
        known = {at.q: problem.rows(problem.q), at.v: problem.rows(problem.v), **own}
        if at.memory is not None:
            known[at.memory] = problem.rows(problem.memory)
        state = {}
        for name in layout.state:
            value = known.get(name, np.zeros(layout.shapes[name]))
            spread = (*problem.batch, *layout.shapes[name]) if name in own else (self.count, *layout.shapes[name])
            state[name] = np.broadcast_to(value, spread).reshape(self.count, *layout.shapes[name]).copy()
        return state

    def _forward(self) -> dict[str, np.ndarray]:
        """Do all steps; returns the state at the end."""
        state = self._start()
        single = len(self._segments) == 1
        for a, b in self._segments:
            self._checkpoints.append(state)
            result = self._steps(state, a, b, record=single)
            self._raise_failures(result)
            state = result.state
            if single:
                self._kept = Segment(a, b, result.records)
        return state

    def _steps(self, state: dict[str, np.ndarray], a: int, b: int, record: bool) -> Any:
        return self.code.record.run(
            state,
            self.constants,
            self.tables,
            steps=b - a,
            first=a,
            record_every=1 if record else 0,
            hold=self.hold,
        )

    def _raise_failures(self, result: Any) -> None:
        at = self.at
        bad = result.failed >= 0
        unsolved = at.own.get("unsolved")
        if unsolved in result.state:
            bad = bad | (result.state[unsolved] > 0)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            index = tuple(int(i) for i in np.unravel_index(row, self.problem.batch)) if self.problem.batch else ()
            where = f" of trajectory {index}" if index else ""
            when = self.plan.time_of(int(result.failed[row]), row) if result.failed[row] >= 0 else None
            place = "" if when is None else f" at t = {when:.6g} s"
            raise SimulationError(
                f"the motion{where} of {self.problem.dynamics.name!r} is not finite or not solved{place}, so it has no derivative. Simulate it "
                "to see the cause: ht.simulate(...).outcome."
            )

    def segment(self, k: int) -> Segment:
        """The records of a range of steps, computed again if they were not kept."""
        if self._kept is not None:
            return self._kept
        a, b = self._segments[k]
        return Segment(a, b, self._steps(self._checkpoints[k], a, b, record=True).records)

    def segments(self) -> Iterator[Segment]:
        """All records, in order."""
        return (self.segment(k) for k in range(len(self._segments)))

    def shown(self, segment: Segment) -> dict[str, np.ndarray]:
        """q, v and u of the records of a segment that are records of the run: (n, rows, size)."""
        at, parts = self.at, self.plan.parts
        return {x: segment.records[name][::parts] for x, name in (("q", at.q), ("v", at.v), ("u", at.u))}

    @cached_property
    def records(self) -> dict[str, np.ndarray]:
        """q, v and u at all records of the run: (records, rows, size)."""
        parts = [self.shown(s) for s in self.segments()]
        return {x: np.concatenate([*(p[x][:-1] for p in parts[:-1]), parts[-1][x]]) for x in "qvu"}

    @property
    def end(self) -> dict[str, np.ndarray]:
        """q and v at the end: (rows, size)."""
        at, readout = self.at, self._readout
        q = self.final[at.q]
        if readout is None:
            return {"q": q, "v": self.final[at.v]}
        return {"q": q, "v": Kernel(readout)(*self._readout_arguments())[0]}

    # --- maps at both ends ---------------------------------------------------------------------------------------------------

    @property
    def _readout(self) -> Traced | None:
        return self.plan.integrator.readout(self.problem.dynamics)

    def _readout_arguments(self) -> list[np.ndarray]:
        at = self.at
        known = {"q": self.final[at.q], "p": self.constants[at.p]}
        known |= {name: self.final[buffer] for name, buffer in at.own.items() if buffer in self.final}
        return [known[name] for name in self._readout.inputs] if self._readout is not None else []

    def _roots(self) -> tuple[str, ...]:
        at = self.at
        roots = []
        if "parameters" in self.by:
            roots.append(at.p)
        if "gains" in self.by and at.gains is not None:
            roots.append(at.gains)
        if "inputs" in self.by:
            roots.append(at.u)
        if "reference" in self.by:
            roots += [name for _, name in at.signals]
        return tuple(name for name in roots if self.graph.size(name))

    # --- reverse mode --------------------------------------------------------------------------------------------------------

    def pull(
        self,
        end: Weights,
        between: Callable[[Segment], Weights] | None = None,
        last: Callable[[Weights], Weights] | None = None,
    ) -> Bars:
        """Weights of the start, parameters, ... from weights of the records.

        Parameters
        ----------
        end : weights "q" (rows, nq) and "v" (rows, nv) of the state at the end of the last step.
        between : weights "q", "v", "u" (steps + 1, rows, n) of all records of a segment; None: there are none.
        last : change of all weights of the end, before they enter.
        """
        _at, graph, roots = self.at, self.graph, self._roots()
        stepper = self.code.adjoint(roots)
        layout = stepper.layout
        state = {name: np.zeros((self.count, *layout.shapes[name])) for name in layout.state}
        tabled = [name for name in roots if name in graph.schedule.tables]
        found: dict[str, list[np.ndarray]] = {name: [] for name in tabled}
        for k in range(len(self._segments) - 1, -1, -1):
            segment = self.segment(k)
            weights = {} if between is None else between(segment)
            after = {x: w[-1] for x, w in weights.items() if x != "u"}
            if k == len(self._segments) - 1:
                after = {x: np.asarray(w, dtype=float) + after.get(x, 0.0) for x, w in end.items()}
                after = after if last is None else last(after)
            self._enter(state, after, segment)
            weights = {x: w[:-1] for x, w in weights.items()}
            state, records = self._back(stepper, segment, state, weights, bool(tabled))
            for name in tabled:
                found[name].append(records[bar(name)][1:][::-1])
        tables = {name: np.concatenate(parts[::-1]) for name, parts in found.items()}
        return self._bars(state, tables)

    def _enter(self, state: dict[str, np.ndarray], weights: Weights, segment: Segment) -> None:
        """Enter weights of the state at the end of a segment."""
        at, readout = self.at, self._readout
        if "q" in weights:
            state[bar(at.q)] += weights["q"]
        if "v" not in weights:
            return
        if readout is None:
            state[bar(at.v)] += weights["v"]
            return
        names = list(readout.inputs)
        back, reached = adjoint(readout, range(len(names)), (0,))
        known = {"q": at.q, "p": at.p, **at.own}
        values = [self.constants[at.p] if name == "p" else segment.records[known[name]][-1] for name in names]
        for k, value in zip(reached, Kernel(back)(*values, weights["v"]), strict=True):
            if bar(known[names[k]]) in state:
                state[bar(known[names[k]])] += value

    def _back(
        self, stepper: Stepper, segment: Segment, state: dict[str, np.ndarray], weights: Weights, record: bool
    ) -> tuple[dict[str, np.ndarray], Mapping[str, np.ndarray]]:
        at, layout, period = self.at, stepper.layout, self.graph.period
        a, b = segment.first, segment.after
        # step j of the adjoint is step M - j of the run, with M a multiple of the period: held calls are in the same steps
        first = -(b - 1) % period
        given = {seed(at.q): weights.get("q"), seed(at.v): weights.get("v"), seed(at.u): weights.get("u")}
        tables: dict[str, np.ndarray] = {}
        for name in layout.tables:
            if name in given:
                value = given[name]
                table = np.zeros((1, *layout.shapes[name])) if value is None else value[::-1]
            elif name in segment.records:
                table = segment.records[name][: b - a][::-1]
            else:
                table = self._between(name, a, b)
            if first and len(table) > 1:
                table = np.concatenate([np.broadcast_to(table[:1], (first, *table.shape[1:])), table])
            tables[name] = table
        constants = {name: self.constants.get(name, np.zeros(layout.shapes[name])) for name in layout.constants}
        done = stepper.run(state, constants, tables, steps=b - a, first=first, record_every=1 if record else 0)
        return done.state, done.records

    def _between(self, name: str, a: int, b: int) -> np.ndarray:
        """Samples of a table at the steps b - 1, ..., a; one if it is constant."""
        table, hold = self.tables[name], self.hold.get(name, 1)
        if len(table) == 1:
            return table
        if hold == 1 and len(table) >= b:
            return table[a:b][::-1]
        return table[np.minimum(np.arange(b - 1, a - 1, -1) // hold, len(table) - 1)]

    def _bars(self, state: dict[str, np.ndarray], tables: dict[str, np.ndarray]) -> Bars:
        problem, at = self.problem, self.at
        coordinates = problem.dynamics.coordinates
        q_bar = state[bar(at.q)]
        v_bar = state.get(bar(at.v), np.zeros((self.count, problem.dynamics.nv)))
        p_bar = state.get(bar(at.p))
        initial = self.plan.integrator.initial(problem.dynamics)
        if initial is not None:
            outputs = [name for name in initial.outputs if bar(at.own.get(name, "")) in state]
            chosen = tuple(k for k, name in enumerate(initial.outputs) if name in outputs)
            back, reached = adjoint(initial, range(3), chosen)
            q0, v0, p0 = problem.rows(problem.q), problem.rows(problem.v), self.constants[at.p]
            own = [state[bar(at.own[name])] for name in outputs]
            labels = list(initial.inputs)
            for k, value in zip(reached, Kernel(back)(q0, v0, p0, *own), strict=True):
                if labels[k] == "q":
                    q_bar = q_bar + value
                elif labels[k] == "v":
                    v_bar = v_bar + value
                elif p_bar is not None:
                    p_bar = p_bar + value
        q_bar, w_bar = cotangent(coordinates)(problem.rows(problem.q), q_bar)
        u_bar = self._per_sample(tables[at.u], at.u) if at.u in tables else None
        signals = {c: tables[name] for c, name in at.signals if name in tables}
        memory = None if at.memory is None else state.get(bar(at.memory))
        gains = None if at.gains is None else state.get(bar(at.gains))
        return Bars(q_bar, w_bar, v_bar, p_bar, gains, memory, u_bar, signals)

    def _per_sample(self, bars: np.ndarray, name: str) -> np.ndarray:
        """Weights (steps, rows, n) of the steps as those of the samples that are held over them."""
        samples, hold = len(self.tables[name]), self.hold.get(name, 1)
        if samples == 1:
            return bars.sum(axis=0, keepdims=True)
        if hold > 1:
            bars = np.add.reduceat(bars, np.arange(0, len(bars), hold), axis=0)
        if len(bars) < samples:  # a sample at the very end moves nothing
            bars = np.concatenate([bars, np.zeros((samples - len(bars), *bars.shape[1:]))])
        return bars

    def event_rates(self) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """At the events that ended trajectories: rate x' of the end by the size of the last step, g_x x' + g_t, g_x and g."""
        problem, plan, stopped = self.problem, self.plan, self.plan.stopped
        if stopped is None or plan.events is None:
            raise SimulationError("no event ended the run.")
        sizes = np.broadcast_to(plan.sizes, (self.steps, self.count))
        last = self.steps - 1 - np.argmax(sizes[::-1] > 0, axis=0)
        h_dot = np.zeros((self.steps, 1, self.count))
        h_dot[last, 0, np.arange(self.count)] = np.isfinite(stopped)
        moved = self.push(Directions(1, h=h_dot))
        rate, end = {x: moved[x][-1, 0] for x in "qv"}, self.end
        times = np.broadcast_to(plan.clock[-1], (self.count,))
        values = Kernel(plan.events)(times, end["q"], end["v"])[0]
        terminal = np.array([event.terminal for event in problem.events])
        which = np.argmin(np.where(terminal, np.abs(values), np.inf), axis=-1)
        back, reached = adjoint(plan.events, range(3), (0,))
        slopes = dict(zip(reached, Kernel(back)(times, end["q"], end["v"], np.eye(len(terminal))[which]), strict=True))
        zero = (np.zeros(self.count), np.zeros_like(end["q"]), np.zeros_like(end["v"]))
        g_t, g_q, g_v = (slopes.get(k, zero[k]) for k in range(3))
        slope = g_t + (g_q * rate["q"]).sum(-1) + (g_v * rate["v"]).sum(-1)
        return rate, slope, {"q": g_q, "v": g_v}, values[np.arange(self.count), which]

    # --- forward mode --------------------------------------------------------------------------------------------------------

    def push(self, directions: Directions) -> dict[str, np.ndarray]:
        """Directions of the records: "q" (records, n, rows, nq), "v" (records, n, rows, nv) for n directions.

        One native run with the directions as a batch.
        """
        at, problem = self.at, self.problem
        given = {at.p: directions.p, at.gains: directions.gains, at.u: directions.u, at.h: directions.h}
        roots = tuple(name for name, value in given.items() if name is not None and value is not None)
        stepper = self.code.tangent(roots)
        layout, n = stepper.layout, directions.count
        state = {name: array for name, array in self._checkpoints[0].items() if name in layout.state}
        coordinates = problem.dynamics.coordinates
        q0, v0, p0 = problem.rows(problem.q), problem.rows(problem.v), self.constants[at.p]
        moved = {name: np.zeros((n, self.count, *layout.shapes[name])) for name in layout.state if name not in state}
        w = np.zeros((n, self.count, coordinates.nv)) if directions.w is None else directions.w
        v_dot = np.zeros((n, self.count, problem.dynamics.nv)) if directions.v is None else directions.v
        moved[dot(at.q)] += coordinates.rate(np.broadcast_to(q0, (n, *q0.shape)), w)
        if dot(at.v) in moved:
            moved[dot(at.v)] += v_dot
        if directions.memory is not None and at.memory is not None:
            moved[dot(at.memory)] += directions.memory
        initial = self.plan.integrator.initial(problem.dynamics)
        if initial is not None:
            along, outs = tangent(initial, range(3))
            p_dot = np.zeros((n, self.count, p0.shape[-1])) if directions.p is None else directions.p
            values = Kernel(along)(q0, v0, p0, moved[dot(at.q)], v_dot, p_dot)[len(initial.outputs) :]
            for j, value in zip(outs, values, strict=True):
                name = dot(at.own[list(initial.outputs)[j]])
                if name in moved:
                    moved[name] += value
        tables = {name: self.tables[name] for name in layout.tables if name in self.tables}
        tables |= {dot(name): given[name] for name in roots if dot(name) in layout.tables}
        constants = {name: self.constants[name] for name in self.constants if name in layout.constants}
        constants |= {dot(name): given[name] for name in roots if dot(name) in layout.constants}
        hold = self.hold | {dot(name): h for name, h in self.hold.items()}
        done = stepper.run(
            state | moved,
            constants,
            tables,
            steps=self.steps,
            record_every=self.plan.parts,
            hold={name: h for name, h in hold.items() if name in layout.tables},
        )
        return {x: done.records[dot(name)] for x, name in (("q", at.q), ("v", at.v)) if dot(name) in done.records}


@dataclass(frozen=True, eq=False)
class Directions:
    """n directions of everything a run starts from; None: they do not move it.

    Attributes
    ----------
    w, v, p, gains, memory : (n, rows, size). u : (samples, n, rows, nu). h : (steps or 1, n, rows), of the step sizes.
    """

    count: int
    w: np.ndarray | None = None
    v: np.ndarray | None = None
    p: np.ndarray | None = None
    gains: np.ndarray | None = None
    memory: np.ndarray | None = None
    u: np.ndarray | None = None
    h: np.ndarray | None = None
