"""Logs as arrays on an even grid of times: inputs and measured signals, and the windows in which they can be used."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop._format import listed
from heavytop.errors import IdentificationError, unknown_name
from heavytop.simulate import Dynamics, Run

EVEN = 0.02
"""Largest deviation of the time between samples from its median, relative."""


class LogWarning(UserWarning):
    """A log that contradicts itself or the model: units, frames, clocks, samples that are not numbers.

    Examples
    --------
    >>> issubclass(LogWarning, UserWarning)
    True
    """


@dataclass(frozen=True, eq=False)
class Trial:
    """One log: samples at even times.

    Attributes
    ----------
    name : for messages. step : s between samples. inputs : (n, nu). signals : name -> (n, m); NaN where not measured.
    """

    name: str
    step: float
    inputs: np.ndarray
    signals: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def usable(self) -> np.ndarray:
        """(n,) whether the inputs of a sample are numbers."""
        return np.all(np.isfinite(self.inputs), axis=1)


def trials_of(logs: Any, dynamics: Dynamics, inputs: Sequence[str], signals: Sequence[str]) -> list[Trial]:
    """Logs as trials of equal steps.

    Parameters
    ----------
    logs : one or several of: datasets of ``ht.load_log`` with one time, :class:`~heavytop.Run`, or dictionaries of arrays with "t" and "u".
    inputs : names of the signals that are the inputs of the model, in order. signals : those that are compared with outputs.
    """
    several = logs if isinstance(logs, list | tuple) else [logs]
    if not several:
        raise IdentificationError("logs= must hold at least one log.")
    made = [_trial(log, k, dynamics, inputs, signals) for k, log in enumerate(several)]
    step = made[0].step
    for trial in made[1:]:
        if abs(trial.step - step) > 1e-3 * step:
            raise IdentificationError(
                f"all logs must have one rate: {made[0].name} has {1 / step:.6g} Hz, {trial.name} {1 / trial.step:.6g} Hz. Load them with "
                "load_log(..., rate=...)."
            )
    return made


def _trial(log: Any, number: int, dynamics: Dynamics, inputs: Sequence[str], signals: Sequence[str]) -> Trial:
    if isinstance(log, Run):
        if log.q.ndim != 2:
            raise IdentificationError("a run in logs= must be a single trajectory, not a batch.")
        content: dict[str, Any] = {"t": log.t, "q": log.q, "v": log.v, "u": log.u}
        content |= {name: log[name] for name in (*log.q_names, *log.v_names)}
        name = f"log {number} ({log.name})"
    elif isinstance(log, Mapping) and not hasattr(log, "attrs"):
        content, name = dict(log), f"log {number}"
    else:
        content, name = _from_dataset(log, number)
    wanted = list(inputs) or (["u"] if "u" in content or not dynamics.nu else ["motors"])
    if dynamics.nu and not inputs and wanted[0] not in content:
        raise IdentificationError(
            f"{name} has no inputs: {dynamics.name!r} has inputs {listed(dynamics.u_names)}, expected as 'u' ({dynamics.nu} columns) or 'motors', "
            f"the log has {listed([str(key) for key in content])}. Give inputs=[...], the signals of the log that are the inputs, in order."
        )
    for signal in ("t", *wanted, *signals) if dynamics.nu else ("t", *signals):
        if signal not in content:
            raise unknown_name(f"signal of {name}", signal, [key for key in content if key != "t"])
    t = numbers(content["t"], f"'t' of {name}")
    step = _step(t, name)
    columns = [_column(content[s], len(t), s, name) for s in wanted] if dynamics.nu else []
    u = np.concatenate(columns, axis=1) if columns else np.zeros((len(t), 0))
    if u.shape[1] != dynamics.nu:
        raise IdentificationError(
            f"{name}: the inputs {listed(wanted)} have {u.shape[1]} columns, and {dynamics.name!r} has {dynamics.nu} inputs: "
            f"{listed(dynamics.u_names)}. Give inputs=[...], the signals of the log that are the inputs, in order."
        )
    measured = {s: _column(content[s], len(t), s, name) for s in signals}
    for signal, values in (("inputs", u), *measured.items()):
        bad = np.any(~np.isfinite(values), axis=1)
        if bad.all():
            raise IdentificationError(f"{name}: no sample of {signal!r} is a number.")
        if bad.any():
            warnings.warn(
                f"{name}: {bad.sum()} of {len(bad)} samples of {signal!r} are not numbers and are left out.",
                LogWarning,
                stacklevel=4,
            )
    if "attitude" in measured:
        measured["attitude"] = _unit(measured["attitude"], name)
    return Trial(name, step, u, measured)


def _unit(attitude: np.ndarray, name: str) -> np.ndarray:
    """Quaternions (n, 4) of length one; those of a log are rounded."""
    if attitude.shape[1] != 4:
        return attitude
    length = np.linalg.norm(attitude, axis=1, keepdims=True)
    wrong = np.abs(length - 1) > 0.1
    if wrong.any():
        k = int(np.argmax(wrong))
        raise IdentificationError(
            f"{name}: 'attitude' must be quaternions w, x, y, z of length 1, and that of sample {k} has the length {length[k, 0]:.4g}. Angles and "
            "other orders are given in the map of load_log; NaN marks samples that were not measured."
        )
    return attitude / length


def _from_dataset(log: Any, number: int) -> tuple[dict[str, Any], str]:
    if not hasattr(log, "data_vars"):
        raise IdentificationError(
            f"logs= takes datasets of ht.load_log, runs and dictionaries of arrays, got {type(log).__name__}."
            + (" Read a file with ht.load_log(path, map, rate=...)." if isinstance(log, str | Path) else "")
        )
    if "time" not in log.coords:
        raise IdentificationError(
            f"the signals of log {number} have different times ({listed([str(c) for c in log.coords if str(c).startswith('time')])}). Load it with "
            "load_log(..., rate=...), which brings them to one."
        )
    content: dict[str, Any] = {str(key): np.asarray(value.values) for key, value in log.data_vars.items()}
    for label, axis in (("q", "coordinate"), ("v", "velocity")):
        if label in content and axis in log.coords:
            names = [str(x) for x in log.coords[axis].values]
            content |= {name: content[label][:, k] for k, name in enumerate(names) if name not in content}
    content["t"] = np.asarray(log.coords["time"].values, dtype=float)
    source = str(log.attrs.get("source", "")).replace("\\", "/").rpartition("/")[2]
    return content, f"log {number}" + (f" ({source})" if source else "")


def _column(values: Any, n: int, signal: str, name: str) -> np.ndarray:
    array = numbers(values, f"{signal!r} of {name}")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != n:
        raise IdentificationError(
            f"{name}: {signal!r} must have shape ({n},) or ({n}, m), as there are {n} times, got {np.shape(values)}."
        )
    return array


def samples_of(duration: float, step: float, what: str) -> int:
    """Samples of a duration in s, at least one."""
    if not (np.isfinite(duration) and round(duration / step) >= 1):
        hint = " Are the times of the log in seconds?" if step >= 1 else ""
        raise IdentificationError(
            f"{what} must be finite and at least one sample of {step:g} s, got {duration} s.{hint}"
        )
    return round(duration / step)


def _step(t: np.ndarray, name: str) -> float:
    if t.ndim != 1 or len(t) < 3:
        raise IdentificationError(f"{name} has {np.size(t)} samples; an identification needs at least 3.")
    pace = np.diff(t)
    step = float(np.median(pace))
    if not np.isfinite(t).all() or step <= 0 or np.any(pace <= 0):
        raise IdentificationError(
            f"{name}: the time must increase from sample to sample, and it jumps back or is not a number near sample {int(np.argmin(pace)) + 1}."
        )
    drift = np.abs((t - t[0]) - step * np.arange(len(t)))
    if drift.max() > EVEN * step * max(1.0, 0.01 * len(t)):
        k = int(np.argmax(np.abs(pace - step)))
        raise IdentificationError(
            f"{name}: samples must be even in time; most are {step:.6g} s apart, those after t = {t[k]:.6g} s {pace[k]:.6g} s. Load it with "
            f"load_log(..., rate={1 / step:.4g}), which resamples it and marks gaps."
        )
    return float((t[-1] - t[0]) / (len(t) - 1))
