"""Random values of a sweep: a draw is a function of the seed, the name of the variable and the index of the draw, of nothing else.

Every draw has its own words of a counter-based generator (Philox 4x64, four words a block): any range of draws has the same bits, in any order
and in any process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from heavytop.errors import SweepError
from heavytop.geometry import quaternion

WORDS = 4
"""Words of 64 bits in a block of the generator."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """A distribution of one variable of a sweep. Made by :func:`normal`, :func:`uniform`, :func:`choice` and :func:`attitude`.

    Attributes
    ----------
    kind, settings : its name and its numbers.
    shape : shape of one draw. words : uniform numbers that a draw takes.
    """

    kind: str
    settings: tuple[Any, ...]
    shape: tuple[int, ...]
    words: int
    transform: Callable[..., Any]

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(repr(s) for s in self.settings)})"

    def draw(self, seed: int, name: str, start: int, stop: int) -> np.ndarray:
        """The draws ``start`` to ``stop - 1`` (stop - start, *shape).

        >>> normal(0.0, 1.0).draw(0, "wind", 5, 7).tolist() == normal(0.0, 1.0).draw(0, "wind", 0, 7)[5:].tolist()
        True
        """
        key = int.from_bytes(hashlib.sha256(f"heavytop sweep {seed} {name}".encode()).digest()[:16], "little")
        block, skipped = divmod(start * self.words, WORDS)
        generator = np.random.Philox(key=key, counter=block)
        raw = generator.random_raw((stop - start) * self.words + skipped)[skipped:].reshape(stop - start, self.words)
        raw >>= np.uint64(11)
        unit = raw.view(np.int64) + 0.5  # signed: processors convert them faster
        unit *= 2.0**-53  # in (0, 1), never 0 or 1
        return self.transform(unit, *self.settings).reshape(stop - start, *self.shape)


def normal(mean: Any = 0.0, deviation: Any = 1.0) -> Distribution:
    """Normal distribution with mean and standard deviation; numbers, or arrays for a vector of independent entries.

    >>> normal(1.0, 0.1).draw(0, "mass", 0, 3).shape
    (3,)
    """
    mean, deviation = _pair(mean, deviation, "the mean and the standard deviation of normal")
    if not np.all(deviation >= 0):
        raise SweepError(f"the standard deviation of normal must not be negative, got {deviation.tolist()}.")
    return Distribution("normal", (mean.tolist(), deviation.tolist()), mean.shape, mean.size, _normal)


def _normal(unit: np.ndarray, mean: Any, deviation: Any) -> np.ndarray:
    from scipy.special import ndtri

    ndtri(unit, out=unit)
    unit *= np.ravel(deviation)
    unit += np.ravel(mean)
    return unit


def uniform(low: Any = 0.0, high: Any = 1.0) -> Distribution:
    """Uniform distribution between two numbers, or between the entries of two arrays.

    >>> bool(np.all(uniform(2.0, 3.0).draw(0, "x", 0, 100) > 2))
    True
    """
    low, high = _pair(low, high, "the bounds of uniform")
    if not np.all(high >= low):
        raise SweepError(f"the bounds of uniform must be in order, got {low.tolist()} and {high.tolist()}.")
    return Distribution("uniform", (low.tolist(), high.tolist()), low.shape, low.size, _uniform)


def _uniform(unit: np.ndarray, low: Any, high: Any) -> np.ndarray:
    low, high = np.ravel(low), np.ravel(high)
    unit *= high - low
    unit += low
    return unit


def choice(values: Sequence[Any], weights: Sequence[float] | None = None) -> Distribution:
    """One of several values (numbers or strings), equally likely or weighted.

    >>> sorted(set(choice(["energy", "body"]).draw(0, "law", 0, 50).tolist()))
    ['body', 'energy']
    """
    items = list(values)
    array = np.asarray(items) if all(np.ndim(item) == 0 for item in items) else np.empty(0, dtype=object)
    if array.dtype.kind not in "fiubU" or (array.dtype.kind == "U" and not all(isinstance(i, str) for i in items)):
        raise SweepError(
            f"choice takes numbers or texts of one kind, got {items}. Choose among names of other objects."
        )
    share = np.ones(len(items)) if weights is None else np.asarray(weights, dtype=float)
    if not items or share.shape != (len(items),) or not np.all(share >= 0) or not share.sum() > 0:
        raise SweepError(f"choice needs values and as many non-negative weights, got {items} and {weights}.")
    return Distribution("choice", (items, (share / share.sum()).tolist()), (), 1, _choice)


def _choice(unit: np.ndarray, items: list[Any], share: list[float]) -> np.ndarray:
    bounds = np.cumsum(share)[:-1]
    return np.asarray(items)[np.searchsorted(bounds, unit[:, 0], side="right")]


def attitude() -> Distribution:
    """Rotation matrices (3, 3), uniform on SO(3): every attitude is as likely as any other.

    >>> R = attitude().draw(0, "attitude", 0, 4)
    >>> bool(np.allclose(np.swapaxes(R, -1, -2) @ R, np.eye(3)))
    True
    """
    return Distribution("attitude", (), (3, 3), 3, _attitude)


def _attitude(unit: np.ndarray) -> np.ndarray:
    # three uniform numbers give a uniform unit quaternion (Shoemake 1992)
    a, b, c = unit.T
    outer, inner = np.sqrt(1 - a), np.sqrt(a)
    q = np.stack(
        [
            outer * np.sin(2 * np.pi * b),
            outer * np.cos(2 * np.pi * b),
            inner * np.sin(2 * np.pi * c),
            inner * np.cos(2 * np.pi * c),
        ],
        axis=-1,
    )
    return quaternion.rotation_from_quaternion(q)


def _pair(first: Any, second: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        a, b = np.broadcast_arrays(np.asarray(first, dtype=float), np.asarray(second, dtype=float))
    except (TypeError, ValueError):
        raise SweepError(f"{what} must be numbers of one shape, got {first!r} and {second!r}.") from None
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))) or prod(a.shape) == 0:
        raise SweepError(f"{what} must be finite, got {first!r} and {second!r}.")
    return a, b
