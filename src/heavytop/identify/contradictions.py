"""Signals of a log that contradict each other: units, axes and clocks, found without a model of the vehicle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from heavytop.geometry import quaternion, so3
from heavytop.identify.trials import Trial
from heavytop.system import GRAVITY

FACTORS = {
    1e3: "a thousand times too large: millimetres?",
    1e-3: "a thousand times too small: kilometres, or metres taken as millimetres?",
    1e2: "a hundred times too large: centimetres?",
    1e-2: "a hundred times too small: metres taken as centimetres?",
    180 / np.pi: "57.3 times too large: degrees?",
    np.pi / 180: "57.3 times too small: radians taken as degrees?",
    3.6: "3.6 times too large: km/h?",
}
NEAR = 0.2
"""Largest relative deviation from a factor."""
ALIKE = 0.5
"""Least correlation from which conclusions are drawn."""
UNLIKE = 0.1
"""Residual relative to the variation of a signal beyond which it is not explained."""
LATE = 3
"""Samples by which two clocks may differ."""


def contradictions(trial: Trial) -> list[str]:
    """Texts on signals that contradict each other."""
    found: list[str] = []
    s = trial.signals
    if {"position", "velocity"} <= s.keys():
        rate = _slope(s["position"], trial.step)
        found += _compared(rate, s["velocity"], "velocity", "the slope of 'position'")
    if "attitude" in s:
        turning = _turning(s["attitude"], trial.step)
        for name in ("gyro", "angular_velocity"):
            if name in s:
                found += _compared(turning, s[name], name, "the turning of 'attitude'")
                found += _late(turning, s[name], name, trial.step)
    if "accelerometer" in s:
        found += _gravity(s["accelerometer"])
    return [f"{trial.name}: {text}" for text in found]


def _slope(x: np.ndarray, step: float) -> np.ndarray:
    return np.gradient(x, step, axis=0)


def _rows(x: np.ndarray) -> np.ndarray:
    """(n,) rows without NaN."""
    return np.all(np.isfinite(x), axis=1)


def _turning(attitude: np.ndarray, step: float) -> np.ndarray:
    """Angular velocity (n, 3) in body axes, from differences over two samples."""
    known = _rows(attitude)
    R = quaternion.rotation_from_quaternion(np.where(known[:, None], attitude, [1.0, 0.0, 0.0, 0.0]))
    w = np.full((len(R), 3), np.nan)
    w[1:-1] = so3.log(np.swapaxes(R[:-2], -1, -2) @ R[2:]) / (2 * step)
    w[1:-1][~(known[:-2] & known[2:])] = np.nan
    return w


def _compared(expected: np.ndarray, measured: np.ndarray, name: str, with_: str) -> list[str]:
    """Factors and signs between two signals (n, 3) that should be equal."""
    good = _rows(expected) & _rows(measured)
    x, y = expected[good], measured[good]
    if len(x) < 20:
        return []
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    sizes = np.sqrt((x * x).mean(axis=0)), np.sqrt((y * y).mean(axis=0))
    if sizes[0].max() <= 0 or sizes[1].max() <= 0:
        return []
    correlation = (x * y).mean(axis=0) / np.maximum(sizes[0] * sizes[1], 1e-300)
    strong = sizes[0] > 0.2 * sizes[0].max()
    flipped = [axis for axis, c, s in zip("xyz", correlation, strong, strict=True) if s and c < -ALIKE]
    found = []
    if flipped:
        found.append(
            f"{name!r} has the sign of its {' and '.join(flipped)} axis opposite to {with_}: is its frame FRD or NED? (frame = ... in the map)"
        )
    alike = strong & (np.abs(correlation) > ALIKE)
    if alike.any():
        factor = float(np.median(sizes[1][alike] / sizes[0][alike]))
        for known, text in FACTORS.items():
            if abs(factor / known - 1) < NEAR:
                found.append(f"{name!r} is {factor:.3g} times {with_}: {text} (unit = ... in the map)")
    elif strong.any() and np.abs(correlation[strong]).max() < 0.2:
        found.append(
            f"{name!r} has nothing in common with {with_} (correlation {np.abs(correlation[strong]).max():.2f}): check frames and columns"
        )
    return found


def _late(expected: np.ndarray, measured: np.ndarray, name: str, step: float) -> list[str]:
    """A constant offset of two clocks, where it is clear."""
    good = _rows(expected) & _rows(measured)
    x, y = np.where(good[:, None], expected, 0.0), np.where(good[:, None], measured, 0.0)
    axis = int(np.argmax(x.std(axis=0)))
    a, b = x[:, axis], y[:, axis]
    reach = min(100, len(a) // 4)
    if a.std() <= 0 or b.std() <= 0 or reach < LATE:
        return []
    values = {
        k: float(np.corrcoef(a[reach:-reach], np.roll(b, -k)[reach:-reach])[0, 1]) for k in range(-reach, reach + 1)
    }
    best = max(values, key=lambda k: values[k])
    if abs(best) > LATE and values[best] > 0.6 and values[best] > values[0] + 0.2:
        return [
            f"the clock of {name!r} is {best * step:+.3g} s behind that of 'attitude': shift it, or estimate a Delay"
        ]
    return []


def _gravity(force: np.ndarray) -> list[str]:
    size = float(np.nanmedian(np.linalg.norm(force, axis=1)))
    if abs(size - 1.0) < NEAR:
        return [f"'accelerometer' has the median size {size:.3g}: in units of g? (unit = \"g\" in the map)"]
    upright = float(np.nanmedian(force[:, 2]))
    if abs(size / GRAVITY - 1) < 0.3 and upright < -0.8 * GRAVITY:
        return ["'accelerometer' points down at rest: is its frame FRD? (frame = \"FRD\" in the map)"]
    return []


def unexplained(signals: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """Signals whose residuals (n, w, m) exceed the variation of the measurement (n, w, m) within its windows: name -> (residual, measured)."""
    found = []
    for name, (residual, measured) in signals.items():
        if residual.shape != measured.shape:
            continue
        moved = measured - np.nanmean(measured, axis=0)
        spread, left = np.sqrt(np.nanmean(moved**2)), np.sqrt(np.nanmean(residual**2))
        if spread > 0 and left > 1.5 * spread:
            found.append(
                f"the model explains {name!r} worse than a constant (residual {left:.3g}, variation {spread:.3g}): check units, frames, the order of "
                "columns and the inputs"
            )
    return found


def in_degrees(signals: Mapping[str, tuple[np.ndarray, np.ndarray]], coordinates: Sequence[str]) -> list[str]:
    """Coordinates that exceed a turn and that the model does not explain: name -> (residual, measured) as of :func:`unexplained`."""
    found = []
    for name, (residual, measured) in signals.items():
        if name not in coordinates or residual.shape != measured.shape:
            continue
        moved = measured - np.nanmean(measured, axis=0)
        spread, left = np.sqrt(np.nanmean(moved**2)), np.sqrt(np.nanmean(residual**2))
        largest = float(np.nanmax(np.abs(measured)))
        if largest > 2 * np.pi and left > UNLIKE * spread:
            found.append(
                f"{name!r} reaches {largest:.3g}, more than a turn if it is an angle in rad, and the model does not explain it (residual {left:.3g}, "
                f"variation {spread:.3g}): is it in degrees?"
            )
    return found
