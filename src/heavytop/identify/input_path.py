"""The path from logged inputs to those of the model: a delay and lags of first order, with exact derivatives.

Logged inputs are held from sample to sample. The model gets their means over its steps, after the delay and through the lags

    y' = (u - y) / T,    y over a step of size h from held u:  y+ = u + a (y - u),  mean = u + (y - u) (1 - a) T / h,  a = exp(-h / T).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop.identify.trials import Trial
from heavytop.identify.unknowns import Unknowns


@dataclass(frozen=True, eq=False)
class InputPath:
    """Inputs of the model on the grid of its steps.

    Attributes
    ----------
    u : (n * parts, nu) means over the steps. slopes : index of the unknown -> (n * parts, nu).
    """

    u: np.ndarray
    slopes: dict[int, np.ndarray]


def input_path(trial: Trial, unknowns: Unknowns, z: np.ndarray, names: tuple[str, ...], parts: int) -> InputPath:
    """The inputs of a whole log; ``parts`` steps per sample."""
    raw = np.where(np.isfinite(trial.inputs), trial.inputs, 0.0)
    raw = raw[np.maximum.accumulate(np.where(trial.usable, np.arange(len(raw)), 0))]  # a gap holds the last value
    h = trial.step / parts
    held = np.repeat(raw, parts, axis=0)
    slopes: dict[int, np.ndarray] = {}
    u = held
    for k in unknowns.indices("delay"):
        u, slopes[k] = _delayed(raw, float(z[k]), trial.step, parts)
    for k in unknowns.indices("lag"):
        entry = unknowns.entries[k]
        chosen = np.array([not entry.inputs or name in entry.inputs for name in names])
        slope = np.zeros_like(u)
        mean, slope[:, chosen] = _lagged(u[:, chosen], float(z[k]), h)
        for other, value in slopes.items():
            value = value.copy()
            value[:, chosen] = _lagged(value[:, chosen], float(z[k]), h)[0]
            slopes[other] = value
        u = u.copy()
        u[:, chosen] = mean
        slopes[k] = slope
    return InputPath(u, slopes)


def _delayed(raw: np.ndarray, delay: float, step: float, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Means over the steps of inputs that are held and arrive late, and their derivative with respect to the delay."""
    n = len(raw)
    grid = np.arange(n + 1) * step
    integral = np.concatenate([np.zeros((1, raw.shape[1])), np.cumsum(raw, axis=0) * step])
    edges = np.arange(n * parts + 1) * (step / parts) - delay

    def at(t: np.ndarray) -> np.ndarray:
        inside = np.stack([np.interp(t, grid, column) for column in integral.T], axis=-1)
        return inside + np.minimum(t, 0.0)[:, None] * raw[0] + np.maximum(t - grid[-1], 0.0)[:, None] * raw[-1]

    place = np.clip(np.floor(edges / step + 1e-9).astype(int), 0, n - 1)
    h = step / parts
    return np.diff(at(edges), axis=0) / h, -np.diff(raw[place], axis=0) / h


def _lagged(u: np.ndarray, lag: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Means over the steps of a lag of first order that starts at rest, and their derivative with respect to its time constant."""
    from scipy.signal import lfilter

    a = np.exp(-h / lag)
    a_slope = a * h / lag**2
    if not u.shape[1]:
        return u, u
    y = lfilter([0.0, 1.0 - a], [1.0, -a], u, axis=0, zi=u[:1] * 1.0)[0]
    gap = y - u
    z = lfilter([0.0, 1.0], [1.0, -a], a_slope * gap, axis=0)
    share = (1.0 - a) * lag / h
    share_slope = (1.0 - a) / h - a_slope * lag / h
    return u + gap * share, z * share + gap * share_slope
