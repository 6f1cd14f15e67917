"""``simulate`` and ``prepare``: a run as a value, with named fields, that sweeps share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from heavytop._arrays import Array, numbers
from heavytop._format import listed
from heavytop.compile import Traced, batch_lanes
from heavytop.coordinates import Coordinates
from heavytop.errors import ConfigurationError, ShapeError, SimulationError, wrong_shape
from heavytop.functions import Value, store
from heavytop.simulate.adaptive_step import ChosenSteps
from heavytop.simulate.controller import flat_gains
from heavytop.simulate.dynamics import Dynamics, ModelDynamics, as_dynamics
from heavytop.simulate.events import Event, as_events, trace_events
from heavytop.simulate.fixed_step import FixedStep
from heavytop.simulate.inputs import InputPlan, plan_inputs
from heavytop.simulate.integrators import Integrator, as_integrator
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.run import Run
from heavytop.simulate.run_builder import make_run
from heavytop.simulate.run_compilation import Native, native, step_key
from heavytop.simulate.user_dynamics import UserDynamics
from heavytop.system import CLOSED, TIME, with_time

if TYPE_CHECKING:
    from heavytop.simulate.gradients import Gradient

Inputs = Array | Sequence[float] | Callable[..., Any] | None

MOST_STEPS = 1e12
"""Steps of one run: at 10 ns a step nearly three hours."""
_FLOAT = np.dtype(np.float64)
_NOTHING = np.zeros(0)


class RunParts(NamedTuple):
    """The parts of a run that do not depend on its start.

    Attributes
    ----------
    integrator : the method. step, steps : size in s, number.
    plan : source of the inputs.
    events, traced : with those at which the equations end, and their values as a function; None if there are none.
    code : where the native step is kept; None if it has no key.
    breakpoints : times in s at which steps end.
    is_constrained : whether loops or constraints must hold at the start.
    monitored : whether the energy is monitored.
    native : the native code by lanes, balance and watch, as far as it was needed. derivatives : that of its derivatives.
    """

    integrator: Integrator
    step: float
    steps: int
    plan: InputPlan
    events: tuple[Event, ...]
    traced: Traced | None
    code: str | None
    is_constrained: bool
    monitored: bool
    breakpoints: tuple[float, ...]
    native: dict[tuple[int, bool, bool], Native]
    derivatives: dict[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class RunSpec(Value):
    """A run without its start: call it with one. Made by :func:`prepare`; the fields are the arguments of :func:`simulate`.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.prepare(ht.library.pendulum().derive(), until=1.0, step=0.01)
    >>> run
    RunSpec('pendulum': until 1 s, step 0.01 s)
    >>> [run(([angle], [0.0])).outcome.ok for angle in (0.5, 1.0)]
    [True, True]
    """

    model: Any
    until: float
    step: float
    integrator: Any = "rkmk4"
    control: Any = None
    reference: Any = None
    inputs: Any = None
    record_every: int = 1
    hold: str = "zero-order"
    control_step: float | None = None
    events: Any = None
    balance: bool | None = None
    start_time: float = 0.0
    raise_on_failure: bool = False
    threads: int | None = 1
    progress: bool | None = None
    breakpoints: Any = ()
    sensitivities: Any = ()

    def __repr__(self) -> str:
        return f"RunSpec({as_dynamics(self.model).name!r}: until {self.until:g} s, step {self.step:g} s)"

    def __call__(
        self,
        start: tuple[Any, Any],
        parameters: Mapping[str, Any] | None = None,
        inputs: Inputs = None,
        gains: Mapping[str, Any] | None = None,
    ) -> Run:
        """Simulate from a start, or a batch of them, as :func:`simulate` does.

        Parameters
        ----------
        start : (q0, v0) of shapes (..., nq) and (..., nv).
        parameters : name -> value or batch of values.
        inputs : instead of those that were given to :func:`prepare`.
        gains : name -> value or batch of values, instead of those of the law.
        """
        spec = self if inputs is None else replace(self, inputs=inputs)
        return spec._run(*spec.problem(start, parameters, gains))

    def gradient(
        self,
        loss: Any,
        start: tuple[Any, Any],
        parameters: Mapping[str, Any] | None = None,
        gains: Mapping[str, Any] | None = None,
        *,
        by: Sequence[str] | None = None,
        memory: float | None = None,
    ) -> Gradient:
        """As :func:`heavytop.gradient`, of this prepared run.

        Examples
        --------
        >>> import heavytop as ht
        >>> prepared = ht.prepare(ht.library.pendulum().derive(), until=0.5, step=0.01)
        >>> prepared.gradient(lambda t, q, v: q[0], ([1.0], [0.0]), by=("start",)).v.round(4)
        array([0.3245])
        """
        from heavytop.simulate.gradients import gradient_of

        return gradient_of(loss, self, start, parameters, gains, by=by, memory=memory)

    def ready(self, start: tuple[Any, Any], parameters: Mapping[str, Any] | None = None) -> Callable[[], Run]:
        """Check the start and prepare the run up to its first step; return a function that runs it.

        With many batches it is faster to prepare several before running them.

        Examples
        --------
        >>> import heavytop as ht
        >>> prepared = ht.prepare(ht.library.pendulum().derive(), until=1.0, step=0.01)
        >>> later = prepared.ready(([0.5], [0.0]))
        >>> later().q.shape
        (101, 1)
        """
        return partial(self._run, *self.problem(start, parameters))

    def parts(self, dynamics: Dynamics, subject: Any) -> RunParts:
        """The parts that do not depend on the start, from the store if an equal run was made before."""
        return store.get(self._lookup(dynamics), lambda: self._make_parts(dynamics, subject))

    def _lookup(self, dynamics: Dynamics) -> tuple[Any, ...] | None:
        """Where the parts are kept; None if one of them may change or has no key."""
        found = dynamics.key
        if found is None or (self.inputs is not None and not isinstance(self.inputs, np.ndarray)):
            return None
        named = [found, self.until, self.step, self.record_every, self.hold, self.control_step, self.start_time]
        named.append(tuple(np.ravel(self.breakpoints).tolist()) if np.size(self.breakpoints) else ())
        inputs = None if self.inputs is None else (self.inputs.shape, self.inputs.tobytes())
        for value in (self.integrator, self.control, self.reference, self.events):
            if value is not None and type(value) is not str:
                value = _key(value)
                if value is None:
                    return None
            named.append(value)
        return ("run", *named, inputs, self.threads)

    def _make_parts(self, dynamics: Dynamics, subject: Any) -> RunParts:
        integrator = as_integrator(self.integrator)
        if dynamics.contact_names and not integrator.unilateral:
            raise SimulationError(
                f"{dynamics.name!r} has rigid contacts ({listed(dynamics.contact_names)}), which {integrator.name} does not solve. Use "
                "integrator='moreau'."
            )
        duration = _duration(self.until, self.start_time, self.step)
        steps = _steps(duration, float(self.step))
        for what in ("record_every", "threads"):
            value = getattr(self, what)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise SimulationError(f"{what} must be 1, 2, ..., got {value!r}.")
        size = duration / steps if steps else float(self.step)
        plan = plan_inputs(
            dynamics,
            subject,
            inputs=self.inputs,
            control=self.control,
            reference=self.reference,
            hold=self.hold,
            control_step=self.control_step,
            step=size,
            steps=steps,
            given=float(self.step),
        )
        events = (*as_events(self.events), *dynamics.guards(size))
        traced = trace_events(events, dynamics) if events else None
        code = step_key(integrator, plan.control, traced)
        constrained = any(dynamics.kernel(name) is not None for name in ("relative_residuals", "residual"))
        monitored = dynamics.kernel("kept") is not None
        breakpoints = self._breakpoints(integrator, size, steps)
        return RunParts(
            integrator, size, steps, plan, events, traced, code, constrained, monitored, breakpoints, {}, {}
        )

    def _breakpoints(self, integrator: Integrator, step: float, steps: int) -> tuple[float, ...]:
        """The breakpoints within the run, in order; with a fixed step they must be at the ends of steps."""
        times = np.unique(numbers(self.breakpoints, "breakpoints").reshape(-1))
        if not np.isfinite(times).all():
            raise SimulationError(f"breakpoints must be finite times in s, got {self.breakpoints!r}.")
        start = float(self.start_time)
        times = times[(times > start) & (times < start + step * steps)]
        if not integrator.chooses_step and len(times):
            places = (times - start) / step
            off = np.abs(places - np.round(places)) > 1e-6
            if off.any():
                raise SimulationError(
                    f"the breakpoint {times[off][0]:g} s is not at the end of a step of {step:g} s. Give a step that divides the times of all "
                    "breakpoints, or use integrator='rkmk45', whose steps end there."
                )
            close = np.diff(np.round(places), prepend=0.0) < 2
            if close.any():
                raise SimulationError(
                    f"the breakpoint {times[close][0]:g} s is one step of {step:g} s after the start or the one before it: take a smaller step."
                )
        return tuple(times.tolist())

    def problem(
        self,
        start: tuple[Any, Any],
        parameters: Mapping[str, Any] | None = None,
        gains: Mapping[str, Any] | None = None,
        inputs: np.ndarray | None = None,
    ) -> tuple[RunProblem, RunParts, Any]:
        """Check the start: the run as the time loop takes it, its parts that do not depend on the start, and the model of the law.

        ``inputs`` are samples instead of those of the specification; its parts stay the same.
        """
        dynamics, subject = self.dynamics_and_subject()
        parts = self.parts(dynamics, subject)
        plan, start_time = parts.plan, float(self.start_time)
        if inputs is not None:
            plan = plan.with_samples(inputs, dynamics, parts.steps)
        q, v = _start(dynamics, start)
        p = dynamics.parameter_vector(parameters)
        if dynamics.has_time:
            p = _from_the_start(dynamics, p, parameters, start_time)
            _check_prescribed(dynamics, p, float(self.until), parts.steps)
        if parts.is_constrained:
            _check_constraints(dynamics, q, v, p, parts.step * parts.steps)
        if parts.integrator.unilateral:
            dynamics.check_gaps(q, p)
        law = plan.control.law
        memory = _NOTHING if law is None else law.initial_state()
        if law is None and gains:
            raise SimulationError("gains= belongs to a law in control= that has some.")
        flat = _NOTHING if law is None or not (law.gains or gains) else flat_gains(law.gains, gains, repr(law.law))
        batch = _batch(q, v, p, memory, plan.table, () if law is None else _signal_axes(plan, start_time), flat)
        balance = self.balance
        if balance is None:
            balance = not batch or parts.monitored or parts.integrator.chooses_step
        problem = RunProblem(
            dynamics,
            parts.integrator,
            plan,
            np.broadcast_to(q, (*batch, dynamics.nq)) if batch else q,
            np.broadcast_to(v, (*batch, dynamics.nv)) if batch else v,
            p,
            memory,
            batch,
            start_time,
            parts.step,
            parts.steps,
            int(self.record_every),
            parts.events,
            bool(balance),
            self.balance is not False,
            self.threads,
            self.progress,
            parts.breakpoints,
            flat,
        )
        return problem, parts, subject

    def dynamics_and_subject(self) -> tuple[Dynamics, Any]:
        """The dynamics that are simulated, and the model for which a law is traced."""
        dynamics = as_dynamics(self.model)
        return dynamics, dynamics.model if isinstance(dynamics, ModelDynamics) else self.model

    def _run(self, problem: RunProblem, parts: RunParts, subject: Any) -> Run:
        lanes = 1 if problem.count == 1 else batch_lanes()
        clock = time.perf_counter()
        code, made = parts.native.get((lanes, problem.balance, problem.watched)), False
        if code is None:
            code, made = native(problem, parts.traced, parts.code, lanes)
            parts.native[lanes, problem.balance, problem.watched] = code
        seconds = time.perf_counter() - clock if made else 0.0
        recording = (ChosenSteps if problem.integrator.chooses_step else FixedStep)(problem, code).run()
        recording.compile_seconds = seconds
        run = make_run(problem, recording, subject)
        if self.sensitivities:
            from heavytop.simulate.gradients.sensitivities import sensitivities_of

            run = replace(run, sensitivities=sensitivities_of(self, problem, parts, run, self.sensitivities))
        if self.raise_on_failure and not run.outcome.ok:
            raise SimulationError(str(run.outcome))
        return run


def _key(value: Any) -> str | tuple[Any, ...] | None:
    """The key of a law, a reference, an integrator or events."""
    if isinstance(value, Value):
        return value.key
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, type):
        return value.__module__, value.__qualname__
    if isinstance(value, list | tuple):
        keys = tuple(item if isinstance(item, int | float) else _key(item) for item in value)
        return None if None in keys else keys
    return None


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
    breakpoints: Any = (),
    gains: Mapping[str, Any] | None = None,
    sensitivities: Any = (),
) -> Run:
    """Simulate a motion; configurations stay on their manifold.

    Parameters
    ----------
    model : a derived model, a vehicle, or :class:`~heavytop.simulate.Dynamics`.
    start : (q0, v0) of shapes (..., nq) and (..., nv); leading axes are batch axes and broadcast.
    until : end time in s.
    step : step size in s; taken a little smaller if it does not divide the duration. With error control it is the distance
        of the records.
    integrator : name or object; see :mod:`heavytop.simulate.integrators`.
    control : a law (:mod:`heavytop.simulate.controller`).
    reference : motion that the law follows; given to ``law.with_reference``.
    inputs : instead of a law: constant (nu,), samples (samples, ..., nu) held in between, or a function
        ``fn(t, q, v) -> u`` that is called from Python at every sample.
    parameters : name -> value or batch of values.
    record_every : steps between records; start and end are always recorded.
    hold : "zero-order": the law is sampled every ``control_step`` (default: every step) and held; "continuous": it is
        evaluated in every stage.
    events : :class:`~heavytop.simulate.Event`, function of (t, q, v), or several.
    balance : whether to integrate and record the work of inputs, drivers and dissipation; None: for single trajectories, with ``rkmk45``, and
        where there are loops, constraints or drivers. Unless it is False, the balance of energy is monitored
        (:mod:`heavytop.simulate.energy_monitor`).
    start_time : time of the start in s.
    raise_on_failure : raise :class:`~heavytop.errors.SimulationError` when a trajectory diverges, instead of reporting it in
        the outcome.
    threads : threads over large batches; None: one per processor.
    progress : show a progress bar; None: on a terminal, after a second.
    breakpoints : times in s at which functions of the time jump or pulses begin and end: steps end there, and see one side each. With a fixed step
        they must be multiples of it.
    gains : name -> value or batch of values of gains of the law, instead of its own.
    sensitivities : any of "start", "parameters", "inputs", "gains": derivatives of all records with respect to them, in ``run.sensitivities``.

    Returns
    -------
    Run
        Arrays with time first, then batch axes; ``run.outcome`` reports how it ended.

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
    spec = RunSpec(
        model,
        until,
        step,
        integrator,
        control,
        reference,
        inputs,
        record_every,
        hold,
        control_step,
        events,
        balance,
        start_time,
        raise_on_failure,
        threads,
        progress,
        breakpoints,
        sensitivities,
    )
    return spec(start, parameters, gains=gains)


def prepare(
    model: Any,
    until: float,
    step: float,
    integrator: Any = "rkmk4",
    control: Any = None,
    reference: Any = None,
    inputs: Inputs = None,
    **options: Any,
) -> RunSpec:
    """Prepare a run and return it as a function of ``(start, parameters=None, inputs=None)``.

    Parameters
    ----------
    model, until, step, integrator, control, reference, inputs : as in :func:`simulate`.
    options : the other arguments of :func:`simulate`: record_every, hold, control_step, events, balance, start_time, raise_on_failure,
        threads, progress, breakpoints, sensitivities.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.prepare(ht.library.pendulum().derive(), until=1.0, step=0.01)
    >>> run(([0.1], [0.0])).q.shape
    (101, 1)
    """
    spec = RunSpec(model, until, step, integrator, control, reference, inputs, **options)
    spec.parts(*spec.dynamics_and_subject())
    return spec


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
    >>> import numpy as np
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
    if not isinstance(start, tuple | list) or len(start) != 2 or all(isinstance(x, int | float) for x in start):
        given = listed([type(x).__name__ for x in start]) if isinstance(start, tuple | list) else type(start).__name__
        raise SimulationError(
            f"start must be a pair (q0, v0) of arrays, such as ([0.1, 0.0], [0.0, 0.0]), got {given}."
        )
    q, v = start
    if not dynamics.is_on_manifold(q):
        q = dynamics.coordinates.check(q, f"start q of {dynamics.name!r}")
    nv = dynamics.nv
    if type(v) is list and len(v) == nv and all(type(x) is float for x in v):
        v = np.array(v)
    if type(v) is np.ndarray and v.dtype is _FLOAT and v.shape == (nv,) and isfinite(v.dot(v)):
        return q, v
    v = numbers(v, f"start v of {dynamics.name!r}")
    if v.ndim == 0 or v.shape[-1] != nv:
        hint = f"The velocity coordinates are {', '.join(dynamics.v_names)}."
        raise wrong_shape(f"start v of {dynamics.name!r}", ("...", nv), v.shape, hint)
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


def _check_prescribed(dynamics: Dynamics, p: np.ndarray, until: float, steps: int) -> None:
    """Frames that drivers move must not jump, from the time in ``p`` on."""
    from heavytop.system import PrescribedMotions

    if isinstance(dynamics, ModelDynamics):
        dynamics.model.functions.get(PrescribedMotions, lambda: PrescribedMotions(dynamics.model)).check(
            p, float(p.flat[-1]), until, steps
        )


def _check_constraints(dynamics: Dynamics, q: np.ndarray, v: np.ndarray, p: np.ndarray, duration: float) -> None:
    """Loops must be closed and velocities admissible at the start, relative to the sizes of their equations.

    A velocity may deviate by a fraction of its terms, or by an amount that opens no loop within the run.
    """
    kernel = dynamics.kernel("relative_residuals")
    if kernel is None:
        residual = dynamics.kernel("residual")
        if residual is not None:  # equations in the user's own units
            for what, miss in zip(STARTS, residual(q, v, p), strict=True):
                if not np.max(np.abs(miss), initial=0.0) < CLOSED:
                    _raise_inconsistent(dynamics, what, miss)
            dynamics.check_start(q, v, p)
        return
    position, velocity, terms = kernel(q, v, p)
    closed = np.max(np.abs(position), initial=0.0) <= CLOSED
    if not closed or not (np.abs(velocity) * duration <= CLOSED * (1.0 + terms * duration)).all():
        missed = dynamics.kernel("residual")
        values = (position, velocity) if missed is None else missed(q, v, p)
        _raise_inconsistent(dynamics, STARTS[bool(closed)], values[bool(closed)])
    dynamics.check_start(q, v, p)


STARTS = ("configuration q", "velocity v")


def _raise_inconsistent(dynamics: Dynamics, what: str, residual: np.ndarray) -> NoReturn:
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
    q: np.ndarray,
    v: np.ndarray,
    p: np.ndarray,
    memory: np.ndarray,
    table: np.ndarray,
    signal: tuple[int, ...],
    gains: np.ndarray,
) -> tuple[int, ...]:
    shapes = {
        "start q": q.shape[:-1],
        "start v": v.shape[:-1],
        "parameters": p.shape[:-1],
        "memory of the law": memory.shape[:-1],
        "inputs": table.shape[1:-1],
        "reference": signal,
        "gains": gains.shape[:-1],
    }
    if not any(shapes.values()):
        return ()
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        given = ", ".join(f"{what} {shape}" for what, shape in shapes.items() if shape)
        raise ShapeError(f"the batch axes do not broadcast: {given}.") from None
