"""Resampling for the screen: frames at the rate of a display, curves that keep their extremes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from heavytop.geometry import quaternion_from_rotation
from heavytop.show.meshes import Floats


def frame_times(times: Floats, rate: float, most: int) -> Floats:
    """Equidistant times from first to last: at most ``rate`` per second, no denser than the data, at most ``most``.

    >>> len(frame_times(np.linspace(0, 2, 2001), rate=60, most=10_000))
    121
    """
    duration = float(times[-1] - times[0])
    densest = 1.0 / float(np.min(np.diff(times)))
    # the tolerance prevents an additional frame by rounding
    count = int(np.ceil(duration * min(rate, densest) - 1e-6)) + 1
    return np.linspace(times[0], times[-1], int(np.clip(count, 2, max(most, 2))))


def interpolate(times: Floats, values: Floats, at: Floats) -> Floats:
    """Values (T, ...) at other times, linearly between neighbours."""
    k, s = _bracket(times, at)
    s = s.reshape((-1,) + (1,) * (values.ndim - 1))
    return (1 - s) * values[k] + s * values[k + 1]


def pose_frames(times: Floats, poses: Floats, at: Floats) -> Floats:
    """Quaternion and position (N, 7) of poses (T, 4, 4) at other times: ``w, x, y, z`` (continuous in sign), then metres.

    Attitudes follow the shortest arc between neighbours, ``q0 sin((1-s) w) / sin w + q1 sin(s w) / sin w``.
    """
    q = quaternion_from_rotation(poses[:, :3, :3])
    flips = np.where(np.sum(q[1:] * q[:-1], axis=-1) < 0, -1.0, 1.0)
    q = q * np.concatenate([[1.0], np.cumprod(flips)])[:, None]
    k, s = _bracket(times, at)
    angle = np.arccos(np.clip(np.sum(q[k] * q[k + 1], axis=-1), -1.0, 1.0))
    small = angle < 1e-6
    sine = np.where(small, 1.0, np.sin(angle))
    first = np.where(small, 1 - s, np.sin((1 - s) * angle) / sine)
    second = np.where(small, s, np.sin(s * angle) / sine)
    quaternion = first[:, None] * q[k] + second[:, None] * q[k + 1]
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return np.concatenate([quaternion, interpolate(times, poses[:, :3, 3], at)], axis=-1)


def _bracket(times: Floats, at: Floats) -> tuple[np.ndarray, Floats]:
    """Index of the sample before each time and the fraction of the way to the next one."""
    k = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    return k, np.clip((at - times[k]) / (times[k + 1] - times[k]), 0.0, 1.0)


def thin_curves(times: Floats, curves: Floats, most: int) -> tuple[Floats, Floats]:
    """Fewer samples of curves (n, T) that keep the least and the greatest value of every interval.

    Curves with at most ``most`` samples are unchanged. Otherwise every interval becomes two samples, its extremes in their order, so that a
    spike of a single sample remains visible.

    >>> spike = np.zeros((1, 10_000)); spike[0, 4321] = 1.0
    >>> t, y = thin_curves(np.arange(10_000.0), spike, most=100)
    >>> len(t) <= 100, float(y.max())
    (True, 1.0)
    """
    count = curves.shape[-1]
    if count <= most:
        return times, curves
    # the first and the last sample stay; each interval between them has at least two samples, so its two times differ
    edges = np.linspace(1, count - 1, most // 2).astype(int)
    kept_times, kept = [times[0]], [curves[:, 0]]
    for start, stop in pairwise(edges):
        part = curves[:, start:stop]
        rows = np.arange(len(part))
        low, high = np.argmin(part, axis=-1), np.argmax(part, axis=-1)
        kept.append(part[rows, np.minimum(low, high)])
        kept.append(part[rows, np.maximum(low, high)])
        first = start + (stop - start) // 4
        kept_times.extend(times[[first, max(first + 1, start + 3 * (stop - start) // 4)]])
    return np.array([*kept_times, times[-1]]), np.stack([*kept, curves[:, -1]], axis=-1)
