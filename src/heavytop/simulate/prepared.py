"""Prepared runs: all that does not depend on the start is settled once and found again.

``simulate(model, start, ...)`` and ``prepare(model, ...)(start)`` take the same way. What was settled is kept with the model, by everything
that was asked for. A law, events and an integrator count by their content (:mod:`heavytop._likeness`): one that has changed since is settled
anew, so a prepared run never tells of something that is no longer there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from typing import Any, NoReturn

import numpy as np

from heavytop._arrays import Array, is_finite, numbers
from heavytop._likeness import Same, likeness
from heavytop._pickling import Portable
from heavytop.compile import Traced
from heavytop.compile.jit import batch_lanes
from heavytop.errors import ConfigurationError, ShapeError, SimulationError, wrong_shape
from heavytop.simulate.adaptive_step import ChosenSteps
from heavytop.simulate.dynamics import Dynamics, ModelDynamics, as_dynamics
from heavytop.simulate.events import Event, as_events, trace_events
from heavytop.simulate.fixed_step import FixedStep
from heavytop.simulate.inputs import InputPlan, plan_inputs
from heavytop.simulate.integrators import as_integrator
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.run import Run
from heavytop.simulate.run_builder import make_run
from heavytop.simulate.run_compilation import Native, native
from heavytop.system.constraints.scaling import CLOSED
from heavytop.system.description.names import TIME
from heavytop.system.dynamics.rheonomic import with_time

Inputs = Array | Sequence[float] | Callable[..., Any] | None

MOST_STEPS = 1e12
"""Steps of one run: at 10 ns a step nearly three hours."""
_FLOAT = np.dtype(np.float64)


@dataclass(eq=False)
class Settled:
    """What of a run does not depend on its start.

    Attributes
    ----------
    step, steps : size in s, number.
    plan : how inputs come about; None where the user gives them, who may change them.
    events, traced : with those at which the equations end, and their values as a function; None if there are none.
    natives : native code by what the start decides: lanes and whether work is integrated along.
    """

    step: float
    steps: int
    plan: InputPlan | None
    events: tuple[Event, ...]
    traced: Traced | None
    natives: dict[tuple[int, bool], Native] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class PreparedRun(Portable):
    """A run without its start: call it with one. Made by :func:`prepare`.

    A call gives what :func:`simulate` gives with the same arguments at that moment: a law or events that were changed after the preparation
    are prepared anew.

    Attributes
    ----------
    model : what is simulated. inputs : samples or a function of the user, or None.
    asked : until, step, record_every, hold, control_step, balance, start_time, threads, progress.
    who : integrator, control, reference, events.
    raises : whether a trajectory that diverges raises.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.prepare(ht.library.pendulum().derive(), until=1.0, step=0.01)
    >>> run
    PreparedRun('pendulum': until 1 s, step 0.01 s)
    >>> [run(([angle], [0.0])).outcome.ok for angle in (0.5, 1.0)]
    [True, True]
    """

    model: Any
    asked: tuple[Any, ...]
    who: tuple[Any, ...]
    inputs: Any
    raises: bool

    def __repr__(self) -> str:
        until, step = self.asked[:2]
        return f"PreparedRun({as_dynamics(self.model).name!r}: until {until:g} s, step {step:g} s)"

    def __call__(self, start: tuple[Any, Any], parameters: Mapping[str, Any] | None = None) -> Run:
        """Simulate from a start, or a batch of them, as :func:`simulate` does.

        Parameters
        ----------
        start : (q0, v0) of shapes (..., nq) and (..., nv).
        parameters : name -> value or batch of values.
        """
        return self._run(*self._ready(start, parameters))

    def ready(self, start: tuple[Any, Any], parameters: Mapping[str, Any] | None = None) -> Callable[[], Run]:
        """All of a call up to the first step: the start is checked now, and what comes back runs when it is called.

        Whoever has many batches makes some of them ready one after the other, which is quicker than between long runs.

        Examples
        --------
        >>> import heavytop as ht
        >>> prepared = ht.prepare(ht.library.pendulum().derive(), until=1.0, step=0.01)
        >>> later = prepared.ready(([0.5], [0.0]))
        >>> later().q.shape
        (101, 1)
        """
        return partial(self._run, *self._ready(start, parameters))

    def _ready(self, start: tuple[Any, Any], parameters: Mapping[str, Any] | None) -> tuple[RunProblem, Settled, Any]:
        dynamics = as_dynamics(self.model)
        # a vehicle is not what a law looks at
        subject = dynamics.model if isinstance(dynamics, ModelDynamics) else self.model
        settled = self._settled(dynamics, subject)
        _, _, record_every, _, _, balance, start_time, threads, progress = self.asked
        plan, start_time = settled.plan, float(start_time)
        if plan is None:
            plan = self._plan(dynamics, subject, settled.step, settled.steps)
        q, v = _start(dynamics, start)
        p = dynamics.parameter_vector(parameters)
        if dynamics.has_time:
            p = _from_the_start(dynamics, p, parameters, start_time)
            _check_given(dynamics, p, float(self.asked[0]), settled.steps)
        _check_constraints(dynamics, q, v, p, settled.step * settled.steps)
        law = plan.control.law
        memory = _NOTHING if law is None else law.initial_state()
        batch = _batch(q, v, p, memory, plan.table, () if law is None else _signal_axes(plan, start_time))
        if balance is None:
            balance = not batch or dynamics.kernel("kept") is not None
        problem = RunProblem(
            dynamics,
            as_integrator(self.who[0]),
            plan,
            np.broadcast_to(q, (*batch, dynamics.nq)) if batch else q,
            np.broadcast_to(v, (*batch, dynamics.nv)) if batch else v,
            p,
            memory,
            batch,
            start_time,
            settled.step,
            settled.steps,
            int(record_every),
            settled.events,
            bool(balance),
            threads,
            progress,
        )
        return problem, settled, subject

    def _run(self, problem: RunProblem, settled: Settled, subject: Any) -> Run:
        lanes = 1 if problem.count == 1 else batch_lanes()
        code, seconds = settled.natives.get((lanes, problem.balance)), 0.0
        if code is None:
            clock = time.perf_counter()
            code = settled.natives[lanes, problem.balance] = native(problem, settled.traced, lanes)
            seconds = time.perf_counter() - clock
        recording = (ChosenSteps if problem.integrator.chooses_step else FixedStep)(problem, code).run()
        recording.compile_seconds = seconds
        run = make_run(problem, recording, subject)
        if self.raises and not run.outcome.ok:
            raise SimulationError(str(run.outcome))
        return run

    def _settled(self, dynamics: Dynamics, subject: Any) -> Settled:
        """What is known of such a run, or finds it out."""
        integrator, control, reference, events = self.who
        what: Any = integrator
        if control is not None or reference is not None or events is not None or type(integrator) is not str:
            # equal laws and references may change apart from here on
            what = Same(control), None if isinstance(reference, np.ndarray | list | tuple) else Same(reference)
            what = *what, likeness(*self.who)
        key = (*self.asked, *map(type, self.asked), self.inputs is None, what)
        try:
            hash(key)
        except TypeError:  # an argument that cannot be a key is one that cannot be right
            return self._settle(dynamics, subject)
        return dynamics.prepared.recall(key, lambda: self._settle(dynamics, subject))

    def _settle(self, dynamics: Dynamics, subject: Any) -> Settled:
        until, step, record_every, _, _, _, start_time, threads, _ = self.asked
        as_integrator(self.who[0])
        duration = _duration(until, start_time, step)
        steps = _steps(duration, float(step))
        if not isinstance(record_every, int | np.integer) or record_every < 1:
            raise SimulationError(f"record_every must be 1, 2, ..., got {record_every!r}.")
        if threads is not None and (not isinstance(threads, int | np.integer) or threads < 1):
            raise SimulationError(f"threads must be None (one per processor) or 1, 2, ..., got {threads!r}.")
        size = duration / steps if steps else float(step)
        plan = self._plan(dynamics, subject, size, steps)
        events = (*as_events(self.who[3]), *dynamics.guards(size))
        traced = trace_events(events, dynamics) if events else None
        return Settled(size, steps, plan if self.inputs is None else None, events, traced)

    def _plan(self, dynamics: Dynamics, subject: Any, size: float, steps: int) -> InputPlan:
        _, control, reference, _ = self.who
        return plan_inputs(
            dynamics,
            subject,
            inputs=self.inputs,
            control=control,
            reference=reference,
            hold=self.asked[3],
            control_step=self.asked[4],
            step=size,
            steps=steps,
            given=float(self.asked[1]),
        )


_NOTHING = np.zeros(0)


def prepare(
    model: Any,
    until: float,
    step: float,
    integrator: Any = "rkmk4",
    control: Any = None,
    reference: Any = None,
    inputs: Inputs = None,
    *,
    record_every: int = 1,
    hold: str = "zero-order",
    control_step: float | None = None,
    events: Any = None,
    balance: bool | None = None,
    start_time: float = 0.0,
    raise_on_failure: bool = False,
    threads: int | None = 1,
    progress: bool | None = None,
) -> PreparedRun:
    """A run with everything but its start: checked now, and ready to be called with many starts.

    Parameters
    ----------
    model, until, step, integrator, control, reference, inputs, record_every, hold, control_step, events, balance, start_time,
    raise_on_failure, threads, progress : as in :func:`simulate`.

    Returns
    -------
    PreparedRun
        A function of ``(start, parameters=None)``.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.prepare(ht.library.pendulum().derive(), until=1.0, step=0.01)
    >>> run(([0.1], [0.0])).q.shape
    (101, 1)
    """
    asked = (until, step, record_every, hold, control_step, balance, start_time, threads, progress)
    run = PreparedRun(model, asked, (integrator, control, reference, events), inputs, raise_on_failure)
    dynamics = as_dynamics(model)
    run._settled(dynamics, dynamics.model if isinstance(dynamics, ModelDynamics) else model)
    return run


def _duration(until: float, start_time: float, step: float) -> float:
    for what, value in (("until", until), ("start_time", start_time), ("step", step)):
        if not isinstance(value, int | float | np.integer | np.floating) or not abs(value) < inf:
            raise SimulationError(f"{what} must be a finite number of seconds, got {value!r}.")
    if not step > 0:
        raise SimulationError(f"step must be positive, got {step!r} s.")
    if until < start_time:
        raise SimulationError(f"until = {until:g} s lies before start_time = {start_time:g} s.")
    return float(until) - float(start_time)


def _steps(duration: float, step: float) -> int:
    ratio = duration / step
    if ratio > MOST_STEPS:
        raise SimulationError(
            f"{duration:g} s in steps of {step:g} s are {ratio:.3g} steps, more than the {MOST_STEPS:.0e} that one run takes. "
            "Take a larger step or simulate in parts (run.final is a start)."
        )
    whole = abs(ratio - round(ratio)) < 1e-6 * max(ratio, 1.0)
    return max(round(ratio), 1) if whole and duration > 0 else ceil(ratio)


def _start(dynamics: Dynamics, start: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check q0 and v0."""
    if not isinstance(start, tuple | list) or len(start) != 2:
        raise SimulationError("start must be a pair (q0, v0).")
    q, v = start
    if not (isinstance(dynamics, ModelDynamics) and dynamics.model._is_on_manifold(q)):
        q = dynamics.coordinates.check(q, f"start q of {dynamics.name!r}")
    if type(v) is np.ndarray and v.dtype is _FLOAT and v.shape == (dynamics.nv,) and is_finite(v):
        return q, v
    v = numbers(v, f"start v of {dynamics.name!r}")
    if v.ndim == 0 or v.shape[-1] != dynamics.nv:
        hint = f"The velocity coordinates are {', '.join(dynamics.v_names)}."
        raise wrong_shape(f"start v of {dynamics.name!r}", ("...", dynamics.nv), v.shape, hint)
    if not np.isfinite(v).all():
        raise ShapeError(f"start v of {dynamics.name!r} must be finite.")
    return q, v


def _from_the_start(
    dynamics: Dynamics, p: np.ndarray, parameters: Mapping[str, Any] | None, start_time: float
) -> np.ndarray:
    """The parameters with the time of the start."""
    if TIME in (parameters or {}):
        raise SimulationError(
            f"{TIME!r} is not a parameter of a run of {dynamics.name!r}: it goes from start_time to until."
        )
    return with_time(p, start_time)


def _check_given(dynamics: Dynamics, p: np.ndarray, until: float, steps: int) -> None:
    """Frames that drivers move must not jump, from the time in ``p`` on."""
    from heavytop.system.constraints.prescribed_motion import GivenMotions

    if isinstance(dynamics, ModelDynamics):
        dynamics.model.companion(GivenMotions).check(p, float(p.flat[-1]), until, steps)


def _check_constraints(dynamics: Dynamics, q: np.ndarray, v: np.ndarray, p: np.ndarray, duration: float) -> None:
    """Loops must be closed and velocities admissible at the start, beside the sizes of their equations.

    A velocity may miss by a share of its own terms, or by what opens no loop within the run.
    """
    kernel = dynamics.kernel("misses")
    if kernel is None:
        residual = dynamics.kernel("residual")
        if residual is not None:  # equations in units of the user
            for what, miss in zip(STARTS, residual(q, v, p), strict=True):
                if not np.max(np.abs(miss), initial=0.0) < CLOSED:
                    _refuse_start(dynamics, what, miss)
            dynamics.check_start(q, v, p)
        return
    position, velocity, terms = kernel(q, v, p)
    closed = np.max(np.abs(position), initial=0.0) <= CLOSED
    if not closed or not (np.abs(velocity) * duration <= CLOSED * (1.0 + terms * duration)).all():
        missed = dynamics.kernel("residual")
        values = (position, velocity) if missed is None else missed(q, v, p)
        _refuse_start(dynamics, STARTS[bool(closed)], values[bool(closed)])
    dynamics.check_start(q, v, p)


STARTS = ("configuration q", "velocity v")


def _refuse_start(dynamics: Dynamics, what: str, residual: np.ndarray) -> NoReturn:
    worst = float(np.max(np.abs(residual), initial=0.0))
    raise ConfigurationError(
        f"the start {what} of {dynamics.name!r} violates its constraints by {worst:.3g}. "
        + (
            "model.assemble(q, v) gives a consistent start near a guess."
            if isinstance(dynamics, ModelDynamics)
            else "Start on them."
        )
    )


def _signal_axes(plan: InputPlan, start_time: float) -> tuple[int, ...]:
    """Batch axes of the reference."""
    law = plan.control.law
    if law is None or "signal" not in law.takes:
        return ()
    return law.signal(np.array([start_time])).shape[1:-1]


def _batch(
    q: np.ndarray, v: np.ndarray, p: np.ndarray, memory: np.ndarray, table: np.ndarray, signal: tuple[int, ...]
) -> tuple[int, ...]:
    shapes = {
        "start q": q.shape[:-1],
        "start v": v.shape[:-1],
        "parameters": p.shape[:-1],
        "memory of the law": memory.shape[:-1],
        "inputs": table.shape[1:-1],
        "reference": signal,
    }
    if not any(shapes.values()):
        return ()
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        given = ", ".join(f"{what} {shape}" for what, shape in shapes.items() if shape)
        raise ShapeError(f"the batch axes do not broadcast: {given}.") from None
