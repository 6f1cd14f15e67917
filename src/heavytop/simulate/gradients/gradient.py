"""``ht.gradient``: a scalar loss of a motion and its gradient, in reverse mode through the very steps that ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop._format import Brief
from heavytop.compile import Kernel, Traced, adjoint, on_symbols, trace
from heavytop.errors import SimulationError
from heavytop.functions import Value, store
from heavytop.simulate.controller import split_gains
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.gradients.rollout import Bars, Path, Rollout, Segment, Weights
from heavytop.simulate.spec import RunSpec, prepare

EndLoss = Callable[[Array, Array, Array], Array]
RunningLoss = Callable[[Array, Array, Array, Array], Array]


@dataclass(frozen=True, eq=False, repr=False)
class Loss(Brief, Value):
    """A loss of a motion: a function of its end plus an integral along it.

    Parameters
    ----------
    end : ``fn(t, q, v)`` at the end of the run (or at the event that ended it), in NumPy notation; None: zero.
    running : ``fn(t, q, v, u)``, integrated over the steps by the trapezoidal rule, with the input u at the start of a step held in it (also of a
        continuous law: terms in u are then of first order); None: zero.

    Examples
    --------
    >>> Loss(end=lambda t, q, v: q[0] ** 2).running is None
    True
    """

    end: EndLoss | None = None
    running: RunningLoss | None = None

    def __post_init__(self) -> None:
        if self.end is None and self.running is None:
            raise SimulationError("a Loss needs end=, a function of (t, q, v), or running=, one of (t, q, v, u).")

    def _traced(self, which: str, dynamics: Dynamics) -> Traced | None:
        function = getattr(self, which)
        if function is None:
            return None
        shapes: dict[str, tuple[int, ...]] = {"t": (), "q": (dynamics.nq,), "v": (dynamics.nv,)}
        if which == "running":
            shapes["u"] = (dynamics.nu,)

        def value(*arguments: Array) -> dict[str, Array]:
            result = on_symbols(function, f"{which} loss", SimulationError)(*arguments)
            if (size := getattr(result, "shape", ())) not in ((), (1,)):
                raise SimulationError(f"the {which} loss must be one number, got shape {size}.")
            return {"loss": np.reshape(result + 0 * arguments[0], ())}

        return trace(value, shapes, name=f"{which}_loss")


def as_loss(loss: Any) -> Loss:
    """A loss from itself, or from a function of (t, q, v) at the end."""
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return Loss(end=loss)
    raise SimulationError(
        f"loss must be a function of (t, q, v) at the end of the motion, or ht.Loss(end=..., running=...), got {loss!r}."
    )


@dataclass(frozen=True, eq=False, repr=False)
class Gradient(Brief):
    """The value of a loss and its gradient.

    Attributes
    ----------
    value : (*batch,).
    q, v : (*batch, nw), (*batch, nv): by the start. ``q`` is by displacements of the start configuration in velocity coordinates,
        ``model.coordinates.retract(q0, delta)``: as many as there are degrees of freedom, whatever the length of q0.
    parameters : name -> (*batch,).
    inputs : (samples, *batch, nu), by each sample of the inputs; (nu,) if they are constant and there is no batch.
    gains : name -> (*batch, *shape), by the gains of the law.
    reference : stage time -> (steps, *batch, m), by the samples of the reference at this fraction of each step.
    end : (q, v) at the end, (*batch, nq), (*batch, nv).

    Examples
    --------
    >>> Gradient(np.array(1.0), np.zeros(6), np.zeros(6)).q.shape
    (6,)
    """

    value: np.ndarray
    q: np.ndarray
    v: np.ndarray
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: np.ndarray | None = None
    gains: dict[str, np.ndarray] = field(default_factory=dict)
    reference: dict[float, np.ndarray] = field(default_factory=dict)
    end: tuple[np.ndarray, np.ndarray] = field(default=(np.zeros(0), np.zeros(0)))


def gradient(
    loss: Any,
    model: Any,
    start: tuple[Any, Any],
    until: float,
    step: float,
    integrator: Any = "rkmk4",
    control: Any = None,
    reference: Any = None,
    inputs: Any = None,
    parameters: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    *,
    by: Sequence[str] | None = None,
    memory: float | None = None,
    **options: Any,
) -> Gradient:
    """Compute the loss of a motion and its exact gradient with respect to the initial state, parameters, inputs and gains.

    The run is that of :func:`heavytop.simulate` with the same arguments, and the gradient that of its steps (a discrete adjoint). Steps that
    ``rkmk45`` accepted are taken as given, and end at the records here. Where a limit is active, the derivative is the one-sided one.

    Parameters
    ----------
    loss : ``fn(t, q, v)`` at the end, or :class:`Loss`.
    model, start, until, step, integrator, control, reference, inputs, parameters, gains, options : as in :func:`heavytop.simulate`. Batches of
        starts, parameters, inputs and gains give a loss and a gradient for each trajectory.
    by : any of "start", "parameters", "inputs", "gains", "reference"; None: all except the reference; empty: the value alone.
    memory : bytes for the states of the steps; None: 64 MB, or the states of the square root of the steps if that is more.

    Raises
    ------
    SimulationError
        A trajectory is not finite, or inputs are computed in Python at every sample.

    Examples
    --------
    How far a pendulum swings depends on its start: an exact 2 x 1 gradient.

    >>> import heavytop as ht
    >>> found = ht.gradient(lambda t, q, v: q[0], ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.5, step=0.01)
    >>> float(found.value.round(4)), found.q.round(4), found.v.round(4)
    (-0.0727, array([0.145]), array([0.3245]))
    """
    spec = prepare(model, until, step, integrator, control, reference, inputs, **options)
    return gradient_of(loss, spec, start, parameters, gains, by=by, memory=memory)


def gradient_of(
    loss: Any,
    spec: RunSpec,
    start: tuple[Any, Any],
    parameters: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    *,
    by: Sequence[str] | None = None,
    memory: float | None = None,
) -> Gradient:
    """As :func:`gradient`, of a prepared run: nothing is checked or compiled again."""
    problem, parts, _ = spec.problem(start, parameters, gains)
    if by is None:
        law = problem.plan.control.law
        by = ["start", "parameters"]
        by += ["inputs"] if problem.plan.control.kind == "table" and problem.dynamics.nu else []
        by += ["gains"] if law is not None and law.gains else []
    path = Rollout(spec, by, memory).path(problem, parts)
    return _Evaluation(as_loss(loss), path).gradient()


class _Evaluation:
    """A loss along a path."""

    def __init__(self, loss: Loss, path: Path) -> None:
        self.loss, self.path = loss, path
        dynamics = path.problem.dynamics

        def kernels() -> dict[str, tuple[Kernel, Kernel, tuple[int, ...]]]:
            found = {}
            for which in ("end", "running"):
                traced = loss._traced(which, dynamics)
                if traced is not None:
                    back, reached = adjoint(traced, range(len(traced.inputs)), (0,))
                    found[which] = Kernel(traced), Kernel(back), reached
            return found

        key = None if loss.key is None or dynamics.key is None else ("loss", loss.key, dynamics.key)
        self.kernels = store.get(key, kernels)
        self.times = np.broadcast_to(
            path.plan.times if path.plan.times.ndim == 2 else path.plan.times[:, None],
            (len(path.plan.times), path.count),
        )
        self.running = np.zeros(path.count)

    def gradient(self) -> Gradient:
        path, count = self.path, self.path.count
        end = path.end
        if not path.by:
            return self._value_alone(end)
        value, weights = np.zeros(count), {"q": np.zeros_like(end["q"]), "v": np.zeros_like(end["v"])}
        by_time = np.zeros(count)
        if "end" in self.kernels:
            kernel, back, reached = self.kernels["end"]
            arguments = (self.times[-1], end["q"], end["v"])
            value = value + kernel(*arguments)[0]
            slopes = dict(zip(reached, back(*arguments, np.ones(count)), strict=True))
            weights = {x: weights[x] + slopes.get(k, 0.0) for k, x in ((1, "q"), (2, "v"))}
            by_time = by_time + slopes.get(0, 0.0)
        between = None
        if "running" in self.kernels:
            between = self._between
            more, width = self._last_interval(end)
            weights, by_time = {x: weights[x] + more[x] for x in weights}, by_time + width
        bars = path.pull(weights, between, lambda last: self._at_event(last, by_time))
        return self._result(value + self.running, bars, end)

    def _value_alone(self, end: Mapping[str, np.ndarray]) -> Gradient:
        value, count = np.zeros(self.path.count), self.path.count
        if "end" in self.kernels:
            value = value + self.kernels["end"][0](self.times[-1], end["q"], end["v"])[0]
        if "running" in self.kernels:
            for segment in self.path.segments():
                self._between(segment)
        zero = np.zeros(self.path.problem.rows(self.path.problem.v).shape)
        nothing = Bars(end["q"], np.zeros((count, self.path.problem.dynamics.coordinates.nv)), zero)
        return self._result(value + self.running, nothing, end)

    @cached_property
    def _ending(self) -> np.ndarray:
        """(rows,) number of the interval in which an event ended a trajectory; -1 where none did."""
        stopped = self.path.plan.stopped
        if stopped is None:
            return np.full(self.path.count, -1)
        moves = np.diff(self.times, axis=0) > 0
        return np.where(np.isfinite(stopped), len(moves) - 1 - np.argmax(moves[::-1], axis=0), -1)

    def _last_interval(self, end: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Of the interval that an event cut short: weights of its right end, the end of the motion, and of the time of the event."""
        path, rows = self.path, np.flatnonzero(self._ending >= 0)
        weights, by_time = {x: np.zeros_like(end[x]) for x in "qv"}, np.zeros(path.count)
        if len(rows):
            k = self._ending[rows]
            q, v, u = (path.records[x][k, rows] for x in "qvu")
            kernel, back, reached = self.kernels["running"]
            last = (self.times[-1, rows], end["q"][rows], end["v"][rows], u)
            half = 0.5 * (self.times[k + 1, rows] - self.times[k, rows])
            slopes = dict(zip(reached, back(*last, half), strict=True))
            for number, x in ((1, "q"), (2, "v")):
                weights[x][rows] = slopes.get(number, 0.0)
            by_time[rows] = 0.5 * (kernel(self.times[k, rows], q, v, u)[0] + kernel(*last)[0]) + slopes.get(0, 0.0)
        return weights, by_time

    def _slopes(
        self, t: np.ndarray, q: np.ndarray, v: np.ndarray, u: np.ndarray, weight: np.ndarray
    ) -> dict[str, np.ndarray]:
        _, back, reached = self.kernels["running"]
        t, weight = np.broadcast_to(t, q.shape[:-1]), np.broadcast_to(weight, q.shape[:-1])
        found = dict(zip(reached, back(t, q, v, u, weight), strict=True))
        return {
            x: found[k] if k in found else np.zeros_like(array)
            for k, (x, array) in enumerate((("q", q), ("v", v), ("u", u)), start=1)
        }

    def _between(self, segment: Segment) -> Weights:
        """Weights of the records of a segment in the integral over it; its value is added up on the way."""
        path, parts = self.path, self.path.plan.parts
        shown = path.shown(segment)
        first, m = segment.first // parts, (segment.after - segment.first) // parts
        q, v, u = shown["q"], shown["v"], shown["u"][:m]
        times, kernel = self.times[first : first + m + 1], self.kernels["running"][0]
        half = 0.5 * np.diff(times, axis=0)
        # an interval seen from its left end, and from its right end with the input of the left one
        left = self._slopes(times[:-1], q[:-1], v[:-1], u, half)
        right = self._slopes(times[1:], q[1:], v[1:], u, half)
        values = kernel(times[:-1], q[:-1], v[:-1], u)[0] + kernel(times[1:], q[1:], v[1:], u)[0]
        self.running += (half * values).sum(axis=0)
        weights = {x: np.zeros((m * parts + 1, *shown[x].shape[1:])) for x in "qvu"}
        for x in "qvu":
            weights[x][:-1:parts] += left[x]
        weights["u"][:-1:parts] += right["u"]
        cut = (
            self._ending == np.arange(first, first + m)[:, None]
        )  # the right end of such an interval is the end of the motion
        for x in "qv":
            weights[x][parts::parts] += np.where(cut[..., None], 0.0, right[x])
        return weights

    def _at_event(self, weights: Weights, by_time: np.ndarray) -> Weights:
        """Weights of the end with the time of the event that ended a trajectory as a function of it.

        With the rate x' of the last step by its size, the event g(t, x) = 0 and weights b: b - g_x (b x' + L_t) / (g_x x' + g_t).
        """
        path = self.path
        stopped = path.plan.stopped
        if stopped is None or not np.isfinite(stopped).any():
            return weights
        rows = np.flatnonzero(np.isfinite(stopped))
        rate, slope, bars, _ = path.event_rates()
        gain = (weights["q"][rows] * rate["q"][rows]).sum(-1) + (weights["v"][rows] * rate["v"][rows]).sum(-1)
        factor = (gain + by_time[rows]) / slope[rows]
        return {x: _changed(weights[x], rows, -factor[:, None] * bars[x][rows]) for x in "qv"}

    def _result(self, value: np.ndarray, bars: Bars, end: Mapping[str, np.ndarray]) -> Gradient:
        problem, batch, by = self.path.problem, self.path.problem.batch, self.path.by

        def shaped(array: np.ndarray) -> np.ndarray:
            return array.reshape((*batch, *array.shape[1:]))

        def tabled(array: np.ndarray) -> np.ndarray:
            return array.reshape(len(array), *batch, *array.shape[2:])

        names = problem.dynamics.parameter_names
        parameters, gains = {}, {}
        if "parameters" in by:
            p = np.zeros((self.path.count, len(names))) if bars.p is None else bars.p
            parameters = {name: shaped(p[:, i]) for i, name in enumerate(names)}
        law = problem.plan.control.law
        if "gains" in by and bars.gains is not None and law is not None:
            gains = split_gains(law.gains, shaped(bars.gains))
        inputs = None if bars.u is None or "inputs" not in by else tabled(bars.u)
        return Gradient(
            shaped(value),
            shaped(bars.w),
            shaped(bars.v),
            parameters,
            inputs,
            gains,
            {c: tabled(x) for c, x in (bars.signals or {}).items()} if "reference" in by else {},
            (shaped(end["q"]), shaped(end["v"])),
        )


def _changed(array: np.ndarray, rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The array with something added in some rows."""
    result = array.copy()
    result[rows] += more
    return result
