"""``simulate``: from a model and a start to a :class:`~heavytop.simulate.run.Run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import Any

import numpy as np

from heavytop._arrays import Array, numbers
from heavytop.coordinates import Coordinates
from heavytop.errors import ConfigurationError, ShapeError, SimulationError, wrong_shape
from heavytop.simulate.adaptive import ChosenSteps
from heavytop.simulate.dynamics import Dynamics, ModelDynamics, UserDynamics, as_dynamics
from heavytop.simulate.engine import FixedStep
from heavytop.simulate.events import as_events
from heavytop.simulate.inputs import InputPlan, plan_inputs
from heavytop.simulate.integrators import as_integrator
from heavytop.simulate.native import native
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.result import make_run
from heavytop.simulate.run import Run
from heavytop.system.names import TIME

Inputs = Array | Sequence[float] | Callable[..., Any] | None

MOST_STEPS = 1e12
"""Steps of one run: at 10 ns a step nearly three hours."""


def simulate(
    model: Any,
    start: tuple[Any, Any],
    until: float,
    step: float,
    integrator: Any = "rkmk4",
    control: Any = None,
    reference: Any = None,
    inputs: Inputs = None,
    parameters: Mapping[str, Any] | None = None,
    record_every: int = 1,
    *,
    hold: str = "zero-order",
    control_step: float | None = None,
    events: Any = None,
    balance: bool | None = None,
    start_time: float = 0.0,
    raise_on_failure: bool = False,
    threads: int | None = 1,
    progress: bool | None = None,
) -> Run:
    """Simulate on the manifold.

    Parameters
    ----------
    model : a derived model, a vehicle, or :class:`~heavytop.simulate.Dynamics`.
    start : (q0, v0) of shapes (..., nq) and (..., nv); leading axes are batch axes and broadcast.
    until : end time in s.
    step : step size in s; taken a little smaller if it does not divide the duration. With error control it is the distance
        of the records.
    integrator : name or object; see :mod:`heavytop.simulate.integrators`.
    control : a law (:mod:`heavytop.simulate.controller`).
    reference : what the law shall follow; handed to ``law.with_reference``.
    inputs : instead of a law: constant (nu,), samples (samples, ..., nu) held in between, or a function
        ``fn(t, q, v) -> u`` that is called from Python at every sample.
    parameters : name -> value or batch of values.
    record_every : steps between records; start and end are always recorded.
    hold : "zero-order": the law is sampled every ``control_step`` (default: every step) and held; "continuous": it is
        evaluated in every stage.
    events : :class:`~heavytop.simulate.Event`, function of (t, q, v), or several.
    balance : whether to integrate the work of inputs, drivers and dissipation along; None: for single trajectories, and where there are loops
        or constraints, whose energy is watched (see :mod:`heavytop.simulate.watch`).
    start_time : time of the start in s.
    raise_on_failure : raise :class:`~heavytop.errors.SimulationError` when a trajectory diverges, instead of telling so in
        the outcome.
    threads : threads over large batches; None: one per processor.
    progress : show a progress bar; None: on a terminal, after a second.

    Returns
    -------
    Run
        Arrays with time first, then batch axes; ``run.outcome`` tells how it ended.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="pendulum")
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> run = ht.simulate(system.derive(), ([0.1], [0.0]), until=1.0, step=0.01)
    >>> print(run.outcome)
    finished: reached t = 1 s
    >>> run.q.shape
    (101, 1)
    """
    dynamics = as_dynamics(model)
    subject = dynamics.model if isinstance(dynamics, ModelDynamics) else model  # a vehicle is not what a law looks at
    method = as_integrator(integrator)
    duration = _duration(until, start_time, step)
    steps = _steps(duration, float(step))
    if not isinstance(record_every, int | np.integer) or record_every < 1:
        raise SimulationError(f"record_every must be 1, 2, ..., got {record_every!r}.")
    if threads is not None and (not isinstance(threads, int | np.integer) or threads < 1):
        raise SimulationError(f"threads must be None (one per processor) or 1, 2, ..., got {threads!r}.")
    size = duration / steps if steps else float(step)
    plan = plan_inputs(
        dynamics,
        subject,
        inputs=inputs,
        control=control,
        reference=reference,
        hold=hold,
        control_step=control_step,
        step=size,
        steps=steps,
    )
    q, v = _start(dynamics, start)
    if dynamics.has_time and TIME in (parameters or {}):
        raise SimulationError(
            f"{TIME!r} is no parameter of a run of {dynamics.name!r}: it goes from start_time to until."
        )
    p = dynamics.at_times(dynamics.parameter_vector(parameters), float(start_time))
    _check_constraints(dynamics, q, v, p)
    memory = plan.control.law.initial_state() if plan.control.law is not None else np.zeros(0)
    batch = _batch(q, v, p, memory, plan.table, _signal_axes(plan, float(start_time)))
    problem = RunProblem(
        dynamics=dynamics,
        integrator=method,
        plan=plan,
        q=np.broadcast_to(q, (*batch, dynamics.nq)) if batch else q,
        v=np.broadcast_to(v, (*batch, dynamics.nv)) if batch else v,
        p=p,
        memory=memory,
        batch=batch,
        start_time=float(start_time),
        step=size,
        steps=steps,
        record_every=int(record_every),
        events=(*as_events(events), *dynamics._raw_guards(size)),
        balance=(not batch or dynamics.kernel("kept") is not None) if balance is None else bool(balance),
        threads=threads,
        progress=progress,
    )
    clock = time.perf_counter()
    code = native(problem)
    compile_seconds = time.perf_counter() - clock
    recording = (ChosenSteps if method.chooses_step else FixedStep)(problem, code).run()
    recording.compile_seconds = compile_seconds
    run = make_run(problem, recording, subject)
    if raise_on_failure and not run.outcome.ok:
        raise SimulationError(str(run.outcome))
    return run


def simulate_dynamics(
    coordinates: Coordinates,
    acceleration: Callable[..., Any],
    start: tuple[Any, Any],
    until: float,
    step: float,
    *,
    kinetic: Callable[..., Array] | None = None,
    potential: Callable[..., Array] | None = None,
    name: str = "dynamics",
    **options: Any,
) -> Run:
    """Simulate any coordinates with an acceleration given by a function ``fn(q, v) -> v'`` in NumPy notation.

    ``kinetic(q, v)`` and ``potential(q)`` give the energies, ``options`` go to :func:`simulate`. For inputs, parameters and
    forces that do work build a :class:`~heavytop.simulate.UserDynamics` and simulate it.

    Examples
    --------
    >>> import heavytop as ht
    >>> fall = lambda q, v: np.array([0.0, 0.0, -9.81])
    >>> run = simulate_dynamics(ht.coordinates.Vector(3), fall, (np.zeros(3), np.zeros(3)), until=1.0, step=0.1)
    >>> float(run.q[-1, 2].round(6))
    -4.905
    """
    dynamics = UserDynamics(coordinates, acceleration, kinetic=kinetic, potential=potential, name=name)
    return simulate(dynamics, start, until, step, **options)


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
    q = dynamics.coordinates._raw_check(start[0], f"start q of {dynamics.name!r}")
    v = numbers(start[1], f"start v of {dynamics.name!r}")
    if v.ndim == 0 or v.shape[-1] != dynamics.nv:
        hint = f"The velocity coordinates are {', '.join(dynamics.v_names)}."
        raise wrong_shape(f"start v of {dynamics.name!r}", ("...", dynamics.nv), v.shape, hint)
    if not np.isfinite(v).all():
        raise ShapeError(f"start v of {dynamics.name!r} must be finite.")
    return q, v


def _check_constraints(dynamics: Dynamics, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> None:
    """Loops must be closed and velocities admissible at the start."""
    kernel = dynamics._raw_kernel("residual")
    if kernel is None:
        return
    modelled = isinstance(dynamics, ModelDynamics)
    for what, residual in zip(("configuration q", "velocity v"), kernel(q, v, p), strict=True):
        worst = float(np.max(np.abs(residual), initial=0.0))
        if not worst < 1e-6:
            raise ConfigurationError(
                f"the start {what} of {dynamics.name!r} violates its constraints by {worst:.3g}. "
                + ("model.assemble(q, v) gives a consistent start near a guess." if modelled else "Start on them.")
            )
    dynamics.check_start(q, v, p)


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
