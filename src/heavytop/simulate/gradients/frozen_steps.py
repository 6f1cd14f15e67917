"""The steps that a run does, as numbers: times and sizes, whether they were fixed, chosen by error control, or cut at an event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._progress import Progress
from heavytop.compile import Traced, batch_lanes
from heavytop.simulate.adaptive_step import ChosenSteps
from heavytop.simulate.controller import BoundLaw
from heavytop.simulate.fixed_step import FixedStep
from heavytop.simulate.integrators import Integrator
from heavytop.simulate.integrators.rkmk import MuntheKaas
from heavytop.simulate.integrators.tableaus import DORMAND_PRINCE5
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.run_compilation import Native, native


class AcceptedStep(MuntheKaas):
    """A step of ``rkmk45`` whose size is given: an accepted attempt."""

    name = "rkmk45 step"
    order = 5
    project_every = 0
    tableau = DORMAND_PRINCE5


@dataclass(frozen=True, eq=False)
class StepPlan:
    """Steps of a run.

    Attributes
    ----------
    integrator : integrator of a step of given size. steps : number of them. parts : steps between two records.
    clock : (steps + 1,) or (steps + 1, rows): times at the starts of the steps, and of the end.
    sizes : (1,) or (steps, rows): sizes of the steps.
    stopped : (rows,) time of the event that ended a trajectory; NaN where there was none. None: there are no events.
    events : (t, q, v) -> their values.
    """

    integrator: Integrator
    steps: int
    parts: int
    clock: np.ndarray
    sizes: np.ndarray
    stopped: np.ndarray | None = None
    events: Traced | None = None

    def time_of(self, k: int, row: int) -> float:
        """Time at the start of step ``k`` of a trajectory."""
        return float(self.clock[k] if self.clock.ndim == 1 else self.clock[k, row])

    def moved(self, delay: np.ndarray) -> StepPlan:
        """The steps with the events that end trajectories later by ``delay`` (rows,)."""
        if self.stopped is None:
            return self
        delay = np.where(np.isfinite(self.stopped), delay, 0.0)
        last = self.steps - 1 - np.argmax(self.sizes[::-1] > 0, axis=0)
        rows = np.arange(len(delay))
        sizes, clock = self.sizes.copy(), self.clock.copy()
        sizes[last, rows] += delay
        clock[np.arange(self.steps + 1)[:, None] > last] += np.broadcast_to(delay, clock.shape)[
            np.arange(self.steps + 1)[:, None] > last
        ]
        return replace(self, sizes=sizes, clock=clock, stopped=self.stopped + delay)

    @property
    def times(self) -> np.ndarray:
        """Times of the records: (records,) or (records, rows)."""
        return self.clock[:: self.parts]

    def signal(self, law: BoundLaw, c: float) -> np.ndarray:
        """Samples of the reference at a fraction ``c`` of each step."""
        sizes = self.sizes if len(self.sizes) == 1 else np.concatenate([self.sizes, self.sizes[-1:]])
        times = self.clock + c * sizes
        if times.ndim == 1:
            return law.signal(times)
        columns = [law.signal(times[:, row]) for row in range(times.shape[1])]
        return np.stack([x if x.ndim == 2 else x[:, row] for row, x in enumerate(columns)], axis=1)


def frozen_steps(spec: Any, problem: RunProblem, parts: Any) -> StepPlan:
    """The steps of a run; with error control they are chosen here, so that they end at the records."""
    if problem.integrator.chooses_step:
        plan = _accepted(problem, parts)
    else:
        clock = problem.start_time + problem.step * np.arange(problem.steps + 1)
        if problem.breakpoints:  # a step that begins at a jump sees its later side, the others the earlier one
            breaks = np.round((np.array(problem.breakpoints) - problem.start_time) / problem.step).astype(int)
            sides = np.full(problem.steps + 1, -problem.one_sided)
            sides[0], sides[breaks] = 0.0, problem.one_sided
            clock = clock + sides
        plan = StepPlan(problem.integrator, problem.steps, 1, clock, np.array([problem.step]))
    return plan if parts.traced is None else _stopped(problem, parts, plan)


def _stopped(problem: RunProblem, parts: Any, plan: StepPlan) -> StepPlan:
    """The steps up to the events that end trajectories: the last one is shortened, those behind it have no size."""
    recording = (ChosenSteps if problem.integrator.chooses_step else FixedStep)(problem, _native(problem, parts)).run()
    stopped = np.full(problem.count, np.nan) if recording.events is None else recording.events.stopped
    if not np.isfinite(stopped).any():
        return plan
    shape = (plan.steps, problem.count)
    clock = np.broadcast_to(plan.clock if plan.clock.ndim == 2 else plan.clock[:, None], (shape[0] + 1, shape[1]))
    ends = np.where(np.isfinite(stopped), stopped, np.inf)
    sizes = np.broadcast_to(plan.sizes if plan.sizes.ndim == 2 else plan.sizes[:, None], shape)
    sizes = np.clip(ends - clock[:-1], 0.0, sizes)
    return replace(plan, clock=np.minimum(clock, ends), sizes=sizes, stopped=stopped, events=parts.traced)


def _accepted(problem: RunProblem, parts: Any) -> StepPlan:
    """Accepted steps of every trajectory, with as many steps of size zero as make their numbers between records equal."""
    run = _Choosing(problem, _native(problem, parts))
    run.run()
    rows, intervals = problem.count, problem.steps
    most = max((len(steps) for steps in run.found.values()), default=1)
    sizes = np.zeros((intervals, most, rows))
    ends = problem.start_time + problem.step * np.arange(1, intervals + 1)
    begins = np.repeat(ends[:, None, None], most, axis=1).repeat(rows, axis=2)
    for (interval, row), steps in run.found.items():
        for k, (begin, size) in enumerate(steps):
            begins[interval, k, row], sizes[interval, k, row] = begin, size
    clock = np.concatenate([begins.reshape(-1, rows), np.full((1, rows), ends[-1])])
    return StepPlan(AcceptedStep(), intervals * most, most, clock, sizes.reshape(-1, rows))


def _native(problem: RunProblem, parts: Any) -> Native:
    return native(problem, parts.traced, parts.code, 1 if problem.count == 1 else batch_lanes())[0]


class _Choosing(ChosenSteps):
    """The time loop with error control, with steps that end at all records; keeps the accepted steps alone."""

    def __init__(self, problem: RunProblem, code: Any) -> None:
        super().__init__(problem, code)
        self.found: dict[tuple[int, int], list[tuple[float, float]]] = {}
        self._interval = 0
        self._held_input: np.ndarray | None = None

    def _segments(self) -> Iterable[tuple[float, float]]:
        start, step = self.problem.start_time, self.problem.step
        for k in range(self.problem.steps):
            self._interval = k
            yield start + step * k, start + step * (k + 1)

    def _sample(self, t: float) -> np.ndarray | None:
        if self._interval % self.problem.plan.every == 0 or self._held_input is None:
            self._held_input = super()._sample(t)
        return self._held_input

    def _segment(self, start: float, end: float, u: np.ndarray | None, bar: Progress) -> bool:
        return self._unbroken(start, end, u, bar)

    def _observe(self, n: int) -> None:
        """Nothing is recorded."""

    def _keep(self, raw: dict[str, np.ndarray], after: np.ndarray) -> None:
        tried = raw[self.own["attempt"]][1:]
        for row, lane in zip(*np.nonzero(tried[..., 1] > 0), strict=True):
            begin, size = tried[row, lane, 0], tried[row, lane, 1]
            self.found.setdefault((self._interval, int(lane)), []).append((float(begin), float(size)))
