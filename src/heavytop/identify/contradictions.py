"""Signals of a log that contradict each other: units, axes and clocks, found without a model of the vehicle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
UNRELATED = 0.3
"""Correlation below which two axes have nothing in common."""
FEW = 10
"""Samples of a mean."""
UNLIKE = 0.1
"""Residual relative to the variation of a signal beyond which it is not explained."""
NO_BETTER = 0.9
"""Residual of a model relative to that of a motion without forces from which the model explains nothing."""
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
        found += _unlike(x, y, name, with_)
    elif strong.any() and np.abs(correlation[strong]).max() < 0.2:
        found.append(
            f"{name!r} has nothing in common with {with_} (correlation {np.abs(correlation[strong]).max():.2f}): check frames and columns"
        )
    return found


def _unlike(x: np.ndarray, y: np.ndarray, name: str, with_: str) -> list[str]:
    """Axes along which x (n, 3) moves and y does not move alike, in means over a few samples, which differences of noise do not survive."""
    a, b = (np.stack([np.convolve(column, np.ones(FEW) / FEW, "valid") for column in z.T]) for z in (x, y))
    sizes, still = a.std(axis=1), b.std(axis=1) <= 0
    moves = sizes > 0.2 * sizes.max()
    other = [k for k in np.flatnonzero(moves) if still[k] or abs(np.corrcoef(a[k], b[k])[0, 1]) < UNRELATED]
    if not other:
        return []
    return [
        f"{name!r} has nothing in common with {with_} along {' and '.join('xyz'[k] for k in other)}: check frames, the order of columns and that of "
        "quaternions"
    ]


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
        return [f"the clock of {name!r} is {best * step:+.3g} s behind that of 'attitude' (late = ... in the map)"]
    return []


def _gravity(force: np.ndarray) -> list[str]:
    size = float(np.nanmedian(np.linalg.norm(force, axis=1)))
    if abs(size - 1.0) < NEAR:
        return [f"'accelerometer' has the median size {size:.3g}: in units of g? (unit = \"g\" in the map)"]
    upright = float(np.nanmedian(force[:, 2]))
    if abs(size / GRAVITY - 1) < 0.3 and upright < -0.8 * GRAVITY:
        return ["'accelerometer' points down at rest: is its frame FRD? (frame = \"FRD\" in the map)"]
    return []


def unexplained(
    signals: Mapping[str, tuple[np.ndarray, np.ndarray]], degrees: Mapping[str, int], free_starts: bool
) -> list[str]:
    """Signals that the model explains no better than a motion without forces: name -> residual and measurement (n, w, m), NaN where not measured.

    Parameters
    ----------
    degrees : name -> 1 for configurations, which move along a line without forces, 0 for velocities, which then are constant. The others are
        compared with a constant. free_starts : whether lines and constants are fitted in each window, like the starts; else velocities keep their
        first value, and configurations are not compared.
    """
    found = []
    for name, (residual, measured) in signals.items():
        if residual.shape != measured.shape:
            continue
        n, degree = len(measured), degrees.get(name)
        left = _size(residual)
        if degree is None or n < 8:
            spread = _size(measured - np.nanmean(measured, axis=0))
            if free_starts and spread.max() > 0 and np.linalg.norm(left) > 1.5 * np.linalg.norm(spread):
                found.append(_worse(name, "a constant", np.linalg.norm(left), np.linalg.norm(spread)))
            continue
        if not free_starts and degree:
            continue
        free = _bend(measured, degree) if free_starts else measured - measured[0]
        spread = _size(free)
        # noise from third differences, (1, 3, 3, 1)^2 = 20
        noise = 1.4826 * np.nanmedian(np.abs(np.diff(measured, 3, axis=0)), axis=(0, 1)) / np.sqrt(20.0)
        bad = (left > NO_BETTER * spread) & (spread > 3 * noise) & (spread > 0.3 * spread.max()) & np.isfinite(noise)
        if bad.any():
            k = int(np.argmax(np.where(bad, left / np.where(spread > 0, spread, 1.0), 0.0)))
            channel = f"{name}[{k}]" if measured.shape[-1] > 1 else name
            found.append(_worse(channel, "a straight line" if degree else "a constant", left[k], spread[k]))
    return found


def _worse(name: str, than: str, left: Any, spread: Any) -> str:
    return (
        f"the model does not explain {name!r} better than {than} (residual {left:.3g}, variation {spread:.3g}): check units, frames (z up or down, "
        "body axes, order of quaternions), the order of columns and the inputs"
    )


def _size(x: np.ndarray) -> np.ndarray:
    """(m,) root mean square over samples and windows (n, w, m)."""
    return np.sqrt(np.nanmean(x**2, axis=(0, 1)))


def _bend(y: np.ndarray, degree: int) -> np.ndarray:
    """Samples (n, w, m) without the polynomial in time that fits them best in each window."""
    t = np.linspace(-1.0, 1.0, len(y))[:, None, None]
    seen = np.isfinite(y)
    count = np.maximum(seen.sum(axis=0), 1)
    y = y - np.nansum(y, axis=0) / count
    if degree:
        s = np.where(seen, t, 0.0)
        s = np.where(seen, s - s.sum(axis=0) / count, 0.0)
        y = y - np.nansum(s * y, axis=0) / np.maximum((s * s).sum(axis=0), 1e-300) * s
    return y


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
