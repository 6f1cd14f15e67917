"""Random numbers that depend on a seed and the number of an episode only, whatever the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, entry, part, scale, vector
from heavytop.errors import SimulationError
from heavytop.geometry import quaternion

MOST = 256
"""Numbers that the start of an episode may draw."""
_GOLDEN, _A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniform(seeds: np.ndarray, episodes: np.ndarray, count: int) -> np.ndarray:
    """Numbers (n, count) in [0, 1) of episodes (n,) of environments with these seeds (n,), uint64.

    The finaliser of SplitMix64 (Steele, Lea, Flood 2014) of a counter from the hashed seed: each number is a function of (seed, episode, index).

    >>> seeds, first = np.array([1, 2], dtype=np.uint64), np.zeros(2, dtype=np.uint64)
    >>> bool((uniform(seeds, first, 3)[1:] == uniform(seeds[1:], first[1:], 3)).all())
    True
    """
    with np.errstate(over="ignore"):
        stream = _mixed(_mixed(seeds + _GOLDEN) + episodes * _A)
        counters = stream[:, None] + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
        return (_mixed(counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * _A
        x = (x ^ (x >> np.uint64(27))) * _B
        return x ^ (x >> np.uint64(31))


class Draw:
    """Random numbers for the start of an episode, in NumPy notation: each call draws new ones. Numbers (n, m) are those of n episodes.

    Examples
    --------
    >>> draw = Draw(np.full(8, 0.25))
    >>> float(draw.uniform(-1.0, 1.0)), draw.uniform(0.0, 2.0, 3).tolist()
    (-0.5, [0.5, 0.5, 0.5])
    """

    def __init__(self, numbers: Array) -> None:
        self._numbers, self.used = numbers, 0

    def _take(self, count: int) -> Array:
        first, self.used = self.used, self.used + count
        if self.used > MOST:
            raise SimulationError(f"the start of an episode may draw at most {MOST} numbers.")
        return part(self._numbers, first, self.used)

    def uniform(self, low: Any, high: Any, size: int | None = None) -> Array:
        """A number, or ``size`` numbers, between ``low`` and ``high``."""
        x = self._take(1 if size is None else size)
        low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        return low + (high - low) * (entry(x, 0) if size is None else x)

    def normal(self, scale: Any = 1.0, size: int | None = None) -> Array:
        """Normal numbers of a standard deviation, by Box and Muller's method."""
        n = 1 if size is None else size
        radius, angle = np.sqrt(-2.0 * np.log(1.0 - self._take(n))), 2.0 * np.pi * self._take(n)
        x = np.asarray(scale, dtype=float) * radius * np.cos(angle)
        return entry(x, 0) if size is None else x

    def rotation(self) -> Array:
        """A rotation matrix (3, 3), uniform over all attitudes (Shoemake's method)."""
        x = self._take(3)
        share, first, second = (entry(x, k) for k in range(3))
        a, b = np.sqrt(1.0 - share), np.sqrt(share)
        angles = 2.0 * np.pi * first, 2.0 * np.pi * second
        wxyz = vector(b * np.cos(angles[1]), a * np.sin(angles[0]), a * np.cos(angles[0]), b * np.sin(angles[1]))
        return quaternion.rotation_from_quaternion(wxyz)

    def tilted(self, most: float) -> Array:
        """A rotation matrix (3, 3) by at most ``most`` rad about a horizontal axis, with any heading within it."""
        heading, tilt = self.uniform(-np.pi, np.pi), self.uniform(0.0, most)
        axis = vector(np.cos(heading), np.sin(heading), 0.0)
        return quaternion.rotation_from_quaternion(quaternion.exp(scale(tilt, axis, 1)))
