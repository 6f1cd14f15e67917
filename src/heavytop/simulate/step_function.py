"""One step of a model as a function, for time loops of other programs: planners, filters, learners."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, prod
from typing import Any

import numpy as np

from heavytop._arrays import Array, numbers
from heavytop.compile import BoundSteps, batch_lanes
from heavytop.errors import ShapeError, SimulationError, wrong_shape
from heavytop.functions import BoundHere
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.energy_monitor import beginning
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.run_compilation import Native, native
from heavytop.simulate.spec import RunParts, RunSpec
from heavytop.system import with_time

Out = tuple[np.ndarray, np.ndarray]


def stepper(
    model: Any,
    step: float,
    control: Any = None,
    *,
    substeps: int = 1,
    integrator: Any = "rkmk4",
    reference: Any = None,
    threads: int | None = None,
) -> StepFunction:
    """Make a native step function of a model, called with arrays: ``q, v = step(q, v, u)``.

    Parameters
    ----------
    model : a derived model, a vehicle, or :class:`~heavytop.simulate.Dynamics`.
    step : duration of a call in s; inputs and laws are held for it.
    control : a law instead of inputs. reference : motion that it follows.
    substeps : steps of the integrator in a call.
    integrator : name or object with a fixed step that starts from q and v.
    threads : threads over large batches; None: one per processor.

    Returns
    -------
    StepFunction
        Call it, or bind it to arrays that it moves on in place.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.cart_pole().derive()
    >>> step = ht.stepper(model, 0.01)
    >>> q, v, u = np.tile([0.0, 0.1], (1000, 1)), np.zeros((1000, 2)), np.zeros((1000, 1))
    >>> for _ in range(3):
    ...     q, v = step(q, v, u)
    ...
    >>> q.shape, bool((q[:, 1] > 0.1).all())
    ((1000, 2), True)
    """
    if not isinstance(substeps, int | np.integer) or substeps < 1:
        raise SimulationError(f"substeps must be 1, 2, ..., got {substeps!r}.")
    if not isinstance(step, int | float | np.integer | np.floating) or not (isfinite(step) and step > 0):
        raise SimulationError(f"step must be a positive number of seconds, got {step!r}.")
    held = None if control is None or substeps == 1 else step
    spec = RunSpec(
        model, step, step / substeps, integrator, control, reference, control_step=held, balance=False, threads=threads
    )
    return StepFunction(spec)


class StepFunction(BoundHere):
    """One step of a model over a batch. Made by :func:`stepper`.

    Examples
    --------
    >>> import heavytop as ht
    >>> step = ht.stepper(ht.library.pendulum().derive(), 0.01)
    >>> step
    StepFunction('pendulum': 0.01 s, rkmk4)
    >>> q, v = step([0.5], [0.0])
    >>> q.shape
    (1,)
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._dynamics, subject = spec.dynamics_and_subject()
        self._parts = parts = spec.parts(self._dynamics, subject)
        self._check(parts)
        self._law = law = parts.plan.control.law
        self.memory_size = 0 if law is None else law.state_size
        """Numbers of the memory of the law."""

    def _check(self, parts: RunParts) -> None:
        name, law = self._dynamics.name, parts.plan.control.law
        if parts.integrator.chooses_step:
            raise SimulationError(
                f"{parts.integrator.name} chooses its steps, so {name!r} has no single one: use integrator='rkmk4', 'rkmk6' or 'rkmk8'."
            )
        if law is not None and law.host is not None:
            raise SimulationError(f"{law.law!r} is computed in Python at every sample: use ht.simulate.")
        if parts.events:
            raise SimulationError(f"the equations of {name!r} end at events, which ht.simulate locates.")

    @property
    def dynamics(self) -> Dynamics:
        """The dynamics that are stepped."""
        return self._dynamics

    def __repr__(self) -> str:
        return f"StepFunction({self._dynamics.name!r}: {float(self._spec.until):g} s, {self._parts.integrator.name})"

    def native(self, lanes: int) -> Native:
        """The native code of the step for ``lanes`` trajectories at a time."""
        parts, d = self._parts, self._dynamics
        problem = RunProblem(
            d, parts.integrator, parts.plan, np.zeros(d.nq), np.zeros(d.nv), np.zeros(0), np.zeros(0), (), 0.0, parts.step,
            parts.steps, 1, (), False, False, self._spec.threads, None,
        )  # fmt: skip
        code, _ = native(problem, None, parts.code, lanes)
        if code.terminals.own:
            raise SimulationError(
                f"{parts.integrator.name} carries {', '.join(code.terminals.own)} from step to step in addition to q and v: use integrator='rkmk4'."
            )
        return code

    def initial_memory(self, batch: tuple[int, ...] = ()) -> np.ndarray:
        """The first memory (*batch, memory_size) of the law."""
        first = np.zeros(0) if self._law is None else self._law.initial_state()
        return np.broadcast_to(first, (*batch, self.memory_size)).copy()

    def __call__(
        self,
        q: Array,
        v: Array,
        u: Array = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        memory: Array = None,
        time: float = 0.0,
        out: Out | None = None,
    ) -> tuple[np.ndarray, ...]:
        """The state one step later.

        Parameters
        ----------
        q, v : (..., nq) and (..., nv); leading axes are batch axes and broadcast.
        u : (..., nu), zero if not given; for a law with a signal its sample (..., m), by default that of its reference.
        parameters : name -> value or batch of values.
        memory : (..., memory_size) of a law with memory; the new one is then the third result.
        time : time at the start of the step, for systems, laws and references that depend on it.
        out : arrays (q, v) for the results, which may be the given ones.

        Raises
        ------
        SimulationError
            A state is not finite after the step.
        """
        d = self._dynamics
        q = d.coordinates.check(q, f"q of {d.name!r}")
        v, u = self._sized(v, d.nv, "v"), None if u is None else self._sized(u, self._command_size, "u")
        p = d.parameter_vector(parameters)
        z = self.initial_memory() if memory is None else self._sized(memory, self.memory_size, "memory")
        if self.memory_size and memory is None:
            raise SimulationError(
                "the law has a memory: give memory=step.initial_memory(batch) first, then the third result of each call."
            )
        given = [q, v, p, z] if u is None else [q, v, p, z, u]
        try:
            batch = np.broadcast_shapes(*(array.shape[:-1] for array in given))
        except ValueError:
            shapes = ", ".join(str(array.shape) for array in given)
            raise ShapeError(f"the batch axes of q, v, parameters, memory and u do not broadcast: {shapes}.") from None
        new = self._places(out, batch)
        for place, array in zip(new, (q, v), strict=True):
            if place is not array:
                place[...] = array
        memory = np.broadcast_to(z, (*batch, self.memory_size)).copy()
        rows = [array.reshape(prod(batch), array.shape[-1]) for array in (*new, memory)]
        command, p = None if u is None else _rows_or_shared(u, batch), _rows_or_shared(p, batch)
        bound = BoundStep(self, rows[0], rows[1], command, p, rows[2], 1 if not batch else batch_lanes())
        bound(time)
        if (bound.failed >= 0).any():
            row = int(np.argmax(bound.failed >= 0))
            where = f" of trajectory {tuple(int(i) for i in np.unravel_index(row, batch))}" if batch else ""
            raise SimulationError(
                f"the state{where} of {d.name!r} is not finite after a step of {float(self._spec.until):g} s: take a smaller step or more substeps."
            )
        return (*new, memory) if self.memory_size else new

    def bind(
        self,
        q: np.ndarray,
        v: np.ndarray,
        u: np.ndarray | None = None,
        parameters: Mapping[str, Any] | None = None,
        memory: np.ndarray | None = None,
    ) -> BoundStep:
        """The step on fixed arrays, which each call moves on in place: no checks, no copies, no new memory.

        Parameters
        ----------
        q, v : (n, nq) and (n, nv), float64 with contiguous rows; changed by every call.
        u : (n, nu) or (nu,), read at every call. parameters : name -> value or (n,) values.
        memory : (n, memory_size) of the law; a new one if not given.

        Examples
        --------
        >>> import heavytop as ht
        >>> q, v, u = np.zeros((100, 2)), np.zeros((100, 2)), np.ones((100, 1))
        >>> advance = ht.stepper(ht.library.cart_pole().derive(), 0.01).bind(q, v, u)
        >>> advance()
        >>> bool((v[:, 0] > 0).all()), bool((advance.failed < 0).all())
        (True, True)
        """
        d = self._dynamics
        for array, size, what in ((q, d.nq, "q"), (v, d.nv, "v")):
            if not isinstance(array, np.ndarray) or array.shape != (len(q), size):
                raise wrong_shape(f"{what} of {d.name!r}", ("n", size), np.shape(array))
        d.coordinates.check(q, f"q of {d.name!r}")
        size = self._command_size
        if u is not None and np.shape(u) not in ((size,), (len(q), size)):
            raise wrong_shape(f"u of {d.name!r}", (len(q), size), np.shape(u))
        p = d.parameter_vector(parameters)
        if memory is None:
            memory = self.initial_memory((len(q),))
        return BoundStep(self, q, v, u, p, memory, batch_lanes())

    @property
    def _command_size(self) -> int:
        return self._law.signal_size if self._law is not None else self._dynamics.nu

    def _sized(self, value: Array, size: int, what: str) -> np.ndarray:
        array = numbers(value, f"{what} of {self._dynamics.name!r}")
        if array.ndim == 0 or array.shape[-1] != size:
            names = (
                {"v": self._dynamics.v_names, "u": self._dynamics.u_names}.get(what, ()) if self._law is None else ()
            )
            hint = f"Its entries are {', '.join(names)}." if names else ""
            raise wrong_shape(f"{what} of {self._dynamics.name!r}", ("...", size), array.shape, hint)
        return array

    def _places(self, out: Out | None, batch: tuple[int, ...]) -> Out:
        sizes = (self._dynamics.nq, self._dynamics.nv)
        if out is None:
            return np.empty((*batch, sizes[0])), np.empty((*batch, sizes[1]))
        for array, size in zip(out, sizes, strict=True):
            good = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == (*batch, size)
            if not good or not (array.flags.c_contiguous and array.flags.writeable):
                raise ShapeError(
                    f"out must hold contiguous, writable float64 arrays {(*batch, sizes[0])} and {(*batch, sizes[1])}, got "
                    f"{getattr(array, 'dtype', type(array).__name__)} {np.shape(array)}."
                )
        return out


class BoundStep(BoundHere):
    """A step on fixed arrays. Made by :meth:`StepFunction.bind`.

    Attributes
    ----------
    q, v, u, memory : the arrays. failed : (n,) -1, or the substep of the last call after which the state was first not finite.

    Examples
    --------
    >>> import heavytop as ht
    >>> q, v = np.full((3, 1), 0.5), np.zeros((3, 1))
    >>> swing = ht.stepper(ht.library.pendulum().derive(), 0.01).bind(q, v)
    >>> swing()
    >>> bool((q < 0.5).all())
    True
    """

    def __init__(
        self,
        function: StepFunction,
        q: np.ndarray,
        v: np.ndarray,
        u: np.ndarray | None,
        p: np.ndarray,
        memory: np.ndarray,
        lanes: int,
    ) -> None:
        self._function, self._p = function, p
        self._code = code = function.native(lanes)
        at, layout = code.terminals, code.stepper.layout
        count, parts = len(q), function._parts
        self.q, self.v, self.memory = q, v, memory
        self._own_signal = u is None and bool(at.signals)
        if u is None:
            u = np.zeros((count, function._command_size))
        self.u = u
        self._extra = {
            name: np.zeros((count, *layout.shapes[name]))
            for name in layout.persistent
            if name not in (at.q, at.v, at.memory)
        }
        state = {at.q: q, at.v: v, **self._extra} | ({at.memory: memory} if at.memory is not None else {})
        command = [name for _, name in at.signals] if function._law is not None else [at.u]
        self._steps = BoundSteps(
            code.stepper,
            state,
            {at.p: p, at.h: np.asarray(parts.step)},
            {name: u for name in command if name in layout.tables},
            step_size=parts.step,
        )
        self.failed = self._steps.failed

    def __call__(self, time: float = 0.0) -> None:
        """Move q, v and the memory on by one step that starts at ``time``."""
        function, at = self._function, self._code.terminals
        for array in self._extra.values():
            array.fill(0.0)
        if at.watch is not None:
            p = self._p if not function.dynamics.has_time else with_time(self._p, time)
            self._extra[at.watch][...] = beginning(function.dynamics, self.q, self.v, p)
        if self._own_signal and function._law is not None:
            self.u[...] = function._law.signal(np.array([float(time)]))[0]
        self._steps(function._parts.steps, float(time))


def _rows_or_shared(array: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """One row for all trajectories (n,), or one for each (count, n)."""
    if prod(array.shape[:-1]) == 1:
        return np.ascontiguousarray(array).reshape(array.shape[-1])
    full = np.broadcast_to(array, (*batch, array.shape[-1]))
    return np.ascontiguousarray(full).reshape(prod(batch), array.shape[-1])
