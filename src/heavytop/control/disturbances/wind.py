"""Wind: the velocity of the air as a function of time. Random winds have a seed and are the same in every run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from heavytop.errors import ControlError
from heavytop.geometry import rotation_with_z


class Wind(Protocol):
    """Wind velocity as function of time."""

    def at(self, times: np.ndarray) -> np.ndarray:
        """Velocity (n, 3) in world axes at the times (n,), m/s."""
        ...


@dataclass(frozen=True)
class ConstantWind:
    """Wind of constant velocity (3,), m/s.

    >>> ConstantWind((3.0, 0.0, 0.0)).velocity
    (3.0, 0.0, 0.0)
    """

    velocity: Any

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.velocity, dtype=float), (len(times), 3))


@dataclass(frozen=True)
class Gust:
    """A gust of the shape 1 - cos: from ``begin`` on for ``length`` seconds, ``peak`` (3,) in the middle, m/s.

    >>> Gust((5.0, 0, 0), begin=1.0, length=2.0).at(np.array([0.0, 2.0, 4.0]))[:, 0]
    array([0., 5., 0.])
    """

    peak: Any
    begin: float
    length: float

    def at(self, times: np.ndarray) -> np.ndarray:
        phase = np.clip((np.asarray(times) - self.begin) / self.length, 0.0, 1.0)
        return 0.5 * (1 - np.cos(2 * np.pi * phase))[:, None] * np.asarray(self.peak, dtype=float)


@dataclass(frozen=True)
class Breeze:
    """A mean wind with gusts of about a third of it in all directions: ``speed`` in m/s along x, or the mean velocity (3,); ``seed`` of the gusts.

    Six waves per axis between 0.5 and 6 rad/s: cheap, and defined at every time.

    >>> Breeze((3.0, 0.0, 1.0)).mean
    array([3., 0., 1.])
    >>> bool(np.all(Breeze(3.0).at(np.array([0.5])) == Breeze((3.0, 0, 0)).at(np.array([0.5]))))
    True
    """

    speed: Any
    seed: int = 0

    @property
    def mean(self) -> np.ndarray:
        """Mean velocity (3,), m/s."""
        given = np.asarray(self.speed, dtype=float)
        return np.array([float(given), 0.0, 0.0]) if given.shape == () else given

    def at(self, times: np.ndarray) -> np.ndarray:
        t = np.asarray(times, dtype=float)
        rng = np.random.default_rng(self.seed)
        rates = rng.uniform(0.5, 6.0, (6, 3))
        phases = rng.uniform(0.0, 2 * np.pi, (6, 3))
        sizes = np.array([1.0, 1.0, 0.5]) / np.sqrt(1 + rates)
        gusts = np.sum(sizes * np.sin(rates * t[..., None, None] + phases), axis=-2)
        return self.mean + 0.3 * np.linalg.norm(self.mean) * gusts


@dataclass(frozen=True)
class VonKarman:
    """Turbulence with von Karman's spectra, frozen and carried past the vehicle with the mean wind.

    Parameters
    ----------
    mean : (3,) mean velocity, m/s; not zero. intensity : standard deviation of each component, m/s.
    length : integral length scale, m. seed : of the random phases. waves : number of frequencies.
    lowest, highest : range of the frequencies, rad/s; default: from 0.01 to 300 times mean speed by length.

    The velocity is a sum of waves with random phases, so it is defined at every time.

    Examples
    --------
    >>> VonKarman((5.0, 0.0, 0.0), intensity=0.5, seed=1).length
    50.0
    """

    mean: Any
    intensity: float = 1.0
    length: float = 50.0
    seed: int = 0
    waves: int = 400
    lowest: float | None = None
    highest: float | None = None

    def __post_init__(self) -> None:
        if not (self.speed > 0 and self.length > 0 and self.intensity >= 0):
            raise ControlError(
                "von Karman turbulence needs a mean wind, a positive length and a non-negative intensity."
            )

    @property
    def speed(self) -> float:
        """Mean speed, m/s."""
        return float(np.linalg.norm(np.asarray(self.mean, dtype=float)))

    def spectrum(self, omega: Any) -> np.ndarray:
        """One-sided spectra (..., 3) along, across and above the mean wind, (m/s)^2 s/rad: each integrates to intensity^2."""
        omega = np.asarray(omega, dtype=float)
        base = self.intensity**2 * self.length / (np.pi * self.speed)
        x = (1.339 * self.length * omega / self.speed) ** 2
        along = 2 * base / (1 + x) ** (5 / 6)
        across = base * (1 + 8 / 3 * x) / (1 + x) ** (11 / 6)
        return np.stack([along, across, across], axis=-1)

    def at(self, times: np.ndarray) -> np.ndarray:
        times = np.asarray(times, dtype=float)
        rng = np.random.default_rng(self.seed)
        turn = self.speed / self.length
        edges = np.geomspace(self.lowest or 0.01 * turn, self.highest or 300 * turn, self.waves + 1)
        omega = rng.uniform(edges[:-1], edges[1:])
        amplitude = np.sqrt(2 * self.spectrum(omega) * np.diff(edges)[:, None])
        # frequencies below the lowest: a constant of random sign
        rest = np.sqrt(np.maximum(self.spectrum(0.0) * edges[0], 0.0)) * rng.standard_normal(3)
        phases = rng.uniform(0, 2 * np.pi, (self.waves, 3))
        velocity = np.empty((len(times), 3))
        for axis in range(3):
            velocity[:, axis] = np.cos(np.outer(times, omega) + phases[:, axis]) @ amplitude[:, axis] + rest[axis]
        return np.asarray(self.mean, dtype=float) + velocity @ self._axes()

    def _axes(self) -> np.ndarray:
        """Rows: unit vectors along, across and above the mean wind."""
        along = np.asarray(self.mean, dtype=float) / self.speed
        helper = np.array([0.0, 0.0, 1.0]) if abs(along[2]) < 0.9 else np.array([1.0, 0.0, 0.0])
        across, above, _ = rotation_with_z(along, np.cross(helper, along)).T
        return np.stack([along, across, above])


@dataclass(frozen=True)
class Winds:
    """The sum of several winds.

    >>> Winds((ConstantWind((1.0, 0, 0)), Gust((5.0, 0, 0), 1.0, 2.0))).at(np.array([0.0, 2.0]))[:, 0]
    array([1., 6.])
    """

    parts: tuple[Wind, ...]

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.sum([wind.at(times) for wind in self.parts], axis=0)
