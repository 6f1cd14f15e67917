"""``identify``: parameters of any described system from logs of its motion."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import IdentificationError, SimulationError, wrong_shape
from heavytop.geometry import quaternion, so3
from heavytop.identify.contradictions import contradictions, in_degrees, unexplained
from heavytop.identify.fit import FitSettings, LeastSquares
from heavytop.identify.outputs import Outputs, free_body
from heavytop.identify.result import Identification
from heavytop.identify.shooting import SearchPoint, WindowShooting, cut
from heavytop.identify.starts import Starts
from heavytop.identify.trials import LogWarning, Trial, samples_of, trials_of
from heavytop.identify.unknowns import Unknowns
from heavytop.simulate import as_dynamics


def identify(
    model: Any,
    logs: Any,
    parameters: Sequence[Any],
    outputs: Sequence[Any],
    *,
    inputs: Sequence[str] = (),
    window: float | None = 0.5,
    step: float | None = None,
    huber: float | None = None,
    starts: Any = None,
    free_starts: bool = True,
    integrator: Any = "rkmk4",
    most_steps: int = 60,
) -> Identification:
    """Identify parameters of a system from logs of its motion.

    The motion is simulated in windows, all of them in one native batch, from unknown starts; outputs are compared with the measurements in minimal
    coordinates, and parameters, starts and noise levels follow from least squares with exact sensitivities (Gauss-Newton with damping).

    Parameters
    ----------
    model : a derived model, a vehicle, or :class:`~heavytop.simulate.Dynamics`.
    logs : one or several: datasets of ``ht.load_log``, runs, or dictionaries of arrays "t" (n,), "u" (n, nu) and signals (n, m). Samples must be
        evenly spaced in time; NaN marks values that were not measured.
    parameters : names of parameters of the model, :class:`UnknownParameter` (start, bounds, prior), :class:`BodyInertia`,
        :class:`Delay`, :class:`Lag`, :class:`Bias`.
    outputs : measured signals by name, or :class:`MeasuredOutput`.
    inputs : signals of the log that are the inputs of the model, in order; default: "u", or "motors". They are held between samples.
    window : length of the windows in s (prediction error over many samples); the last window of a log overlaps the one before, whose samples are
        not compared again. None: one window over each whole log (output error), searched from the
        result of short windows.
    step : step of the simulation in s; default: the time between samples, which it must divide.
    huber : multiple of the noise beyond which residuals count linearly, 1.5 for example; None: least squares.
    starts : one pair (q, v) of arrays (n, nq), (n, nv) for each log, near the motion; default: from the measurements.
    free_starts : whether the starts of the windows are also unknown; False: the motion is predicted from the measured ones, as a user of the
        model would do, and the parameters that predict best are found.
    integrator : as in ``simulate``. most_steps : largest number of steps of the search.

    Returns
    -------
    Identification
        Values with intervals, correlations, combinations that the logs do not determine, residuals, predictions of other logs.

    Raises
    ------
    IdentificationError
        A signal is missing, no window is free of gaps, or the search fails.

    Examples
    --------
    >>> import numpy as np
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> run = ht.simulate(model, ([1.0], [0.0]), until=4.0, step=0.01, parameters={"l": 1.3})
    >>> noisy = {"t": run.t, "u": run.u, "q": run.q + 0.001 * np.random.default_rng(0).standard_normal(run.q.shape)}
    >>> found = ht.identify(model, noisy, parameters=["l"], outputs=["q"], window=1.0)
    >>> low, high = found.intervals["l"]
    >>> bool(low < 1.3 < high), round(found.values["l"], 2)
    (True, 1.3)
    """
    if huber is not None and not 0 < huber < np.inf:
        raise IdentificationError(
            f"huber of identify() must be positive and finite, or None for least squares, got {huber!r}. Give 1.5 against outliers."
        )
    if most_steps < 1:
        raise IdentificationError(
            f"most_steps of identify() must be at least 1, got {most_steps!r}. The default is 60."
        )
    dynamics, body = as_dynamics(model), free_body(model)
    subject = getattr(dynamics, "model", model)
    observed = Outputs(outputs, dynamics, body)
    first = logs[0] if isinstance(logs, list | tuple) and logs else logs
    names = [*observed.signals, *_extra_signals(first, dynamics, body, observed.signals)]
    trials = trials_of(logs, dynamics, inputs, names)
    for item, size in zip(observed.items, observed.measured, strict=True):
        got = trials[0].signals[item.signal].shape[1]
        if got != size:
            raise IdentificationError(f"the signal {item.signal!r} of the log has {got} columns, its output {size}.")
    for trial in trials:
        for text in contradictions(trial):
            warnings.warn(text, LogWarning, stacklevel=2)
    values = dict(zip(dynamics.parameter_names, dynamics.parameter_vector().tolist(), strict=True))
    sizes = dict(zip(observed.signals, observed.sizes, strict=True))
    unknowns = Unknowns(parameters, values, sizes, len(trials), dynamics.u_names)
    settings = FitSettings(huber, most_steps, free_starts)
    noise = [item.noise for item, n in zip(observed.items, observed.sizes, strict=True) for _ in range(n)]
    parts = _parts(step, trials[0].step)
    given = () if starts is None else _given_starts(starts, trials, dynamics)
    source = None if starts is not None else Starts(dynamics, body, names)

    def search(length: int, z: np.ndarray) -> tuple[WindowShooting, Any]:
        windows = cut(trials, observed, length)
        shooting = WindowShooting(dynamics, subject, trials, observed, unknowns, windows, parts, integrator)
        q, v = np.empty((len(windows), dynamics.nq)), np.empty((len(windows), dynamics.nv))
        for k, trial in enumerate(trials):
            own = windows.log == k
            if not own.any():
                continue
            rows = windows.first[own]
            if source is None:
                q[own], v[own] = (x[rows] for x in given[k])
            else:
                q[own], v[own] = source.at(trial, rows, unknowns.parameters(z))
        try:
            point = shooting.closed(SearchPoint(z, q, v))
            return shooting, LeastSquares(shooting, noise, settings).run(point)
        except SimulationError as error:
            raise IdentificationError(
                f"the motion of {dynamics.name!r} cannot be simulated from the start of the search: {error} Give shorter windows, a smaller "
                "step=, or better initial values."
            ) from None

    shortest = min(len(t) for t in trials) - 1
    length = shortest if window is None else samples_of(window, trials[0].step, "window of identify()")
    z = unknowns.start
    if window is None:
        short = max(2, min(shortest // 4, round(0.5 / trials[0].step)))
        z = search(short, z)[1].point.z
    for trial in trials:
        if len(trial) <= length < max(map(len, trials)):
            text = f"{trial.name} has {len(trial)} samples, too few for a window of {length + 1}: it is not used. Give a shorter window=."
            warnings.warn(text, LogWarning, stacklevel=2)
    shooting, fit = search(length, z)
    compared = _compared(observed, shooting, fit)
    degrees = dict.fromkeys(("q", *dynamics.q_names, "position", "attitude"), 1)
    degrees |= dict.fromkeys(("v", *dynamics.v_names, "velocity", "gyro", "angular_velocity"), 0)
    own = {
        item.signal: degrees[item.signal] for item in observed.items if item.function is None and item.signal in degrees
    }
    for text in [*unexplained(compared, own, free_starts), *in_degrees(compared, ("q", *dynamics.q_names))]:
        warnings.warn(text, LogWarning, stacklevel=2)
    return Identification.of(model, shooting, fit, list(inputs), source)


def _compared(observed: Outputs, shooting: WindowShooting, fit: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Signal -> residuals and measured values, NaN where nothing was measured; for those with as many residuals as entries, and for attitudes,
    which are rotation vectors from the first sample of their window."""
    found, first, entry = {}, 0, 0
    windows = shooting.windows
    for item, size, measured in zip(observed.items, observed.sizes, observed.measured, strict=True):
        y = windows.y[..., entry : entry + measured]
        if item.signal == "attitude" and item.function is None:
            R = quaternion.rotation_from_quaternion(y)
            y = so3.log(np.swapaxes(R[:1], -1, -2) @ R)
        if size == y.shape[-1]:
            seen = windows.seen[..., first : first + size]
            parts = (fit.shot.residuals[..., first : first + size], y)
            found[item.signal] = tuple(np.where(seen, x, np.nan) for x in parts)
        first, entry = first + size, entry + measured
    return found


def _extra_signals(log: Any, dynamics: Any, body: Any, compared: Sequence[str]) -> list[str]:
    """Signals of the log that are not compared but give starts."""
    from heavytop.identify.starts import used_for_starts

    if hasattr(log, "data_vars"):
        available = [str(key) for key in log.data_vars]
    elif hasattr(log, "q_names"):
        available = ["q", "v"]
    else:
        available = list(log) if hasattr(log, "keys") else []
    return [name for name in used_for_starts(dynamics, body, available) if name not in compared]


def _given_starts(starts: Any, trials: Sequence[Trial], dynamics: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """The pairs (q, v) of ``starts=``, one for each log."""
    hint = "Give one pair (q, v) for each log, with a row for each of its samples."
    if not isinstance(starts, list | tuple) or len(starts) != len(trials):
        got = len(starts) if isinstance(starts, list | tuple) else type(starts).__name__
        raise IdentificationError(
            f"starts= of identify() must be a list of {len(trials)} pairs (q, v), got {got}. {hint}"
        )
    made = []
    for k, (pair, trial) in enumerate(zip(starts, trials, strict=True)):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise IdentificationError(
                f"starts[{k}] of identify() must be a pair (q, v), got {type(pair).__name__}. {hint}"
            )
        q, v = numbers(pair[0], f"q of starts[{k}]"), numbers(pair[1], f"v of starts[{k}]")
        for what, x, n in (("q", q, dynamics.nq), ("v", v, dynamics.nv)):
            if x.shape != (len(trial), n):
                raise wrong_shape(f"{what} of starts[{k}]", (len(trial), n), x.shape, hint)
        made.append((q, v))
    return made


def _parts(step: float | None, sample: float) -> int:
    if step is None:
        return 1
    parts = round(sample / step) if step > 0 else 0
    if parts < 1 or abs(parts * step - sample) > 1e-3 * sample:
        raise IdentificationError(f"step must divide the time {sample:g} s between samples, got {step!r}.")
    return parts
