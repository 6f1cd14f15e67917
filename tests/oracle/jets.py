"""Derivatives along a curve: arrays with their first and second derivative by the parameter of the curve, exact to rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Jet:
    """``f``, ``f'`` and ``f''`` of one shape; None: zero."""

    __array_priority__ = 1000
    __array_ufunc__ = None
    __slots__ = ("f0", "g1", "g2")

    def __init__(self, f0: Any, g1: Any = None, g2: Any = None) -> None:
        self.f0, self.g1, self.g2 = np.asarray(f0, dtype=float), g1, g2

    @property
    def f1(self) -> Any:
        return np.zeros(self.f0.shape) if self.g1 is None else self.g1

    @property
    def f2(self) -> Any:
        return np.zeros(self.f0.shape) if self.g2 is None else self.g2

    def each(self, fn: Callable[[Any], Any]) -> Jet:
        """A linear function of all three."""
        return Jet(fn(self.f0), None if self.g1 is None else fn(self.g1), None if self.g2 is None else fn(self.g2))

    def __add__(self, other: Any) -> Jet:
        o = jet(other)
        return Jet(self.f0 + o.f0, _sum(self.g1, o.g1), _sum(self.g2, o.g2))

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return self.each(np.negative)

    def __sub__(self, other: Any) -> Jet:
        return self + (-jet(other))

    def __rsub__(self, other: Any) -> Jet:
        return jet(other) - self

    def product(self, o: Jet, times: Callable[[Any, Any], Any]) -> Jet:
        """A bilinear function."""

        def of(x: Any, y: Any) -> Any:
            return None if x is None or y is None else times(x, y)

        twice = of(self.g1, o.g1)
        second = _sum(_sum(of(self.g2, o.f0), of(self.f0, o.g2)), None if twice is None else 2 * twice)
        return Jet(times(self.f0, o.f0), _sum(of(self.g1, o.f0), of(self.f0, o.g1)), second)

    def __mul__(self, other: Any) -> Jet:
        return self.product(jet(other), np.multiply)

    __rmul__ = __mul__

    def __matmul__(self, other: Any) -> Jet:
        return self.product(jet(other), np.matmul)

    def __rmatmul__(self, other: Any) -> Jet:
        return jet(other) @ self

    def __truediv__(self, other: Any) -> Jet:
        return self * _chain(jet(other), lambda x: (1 / x, -1 / x**2, 2 / x**3))

    def __getitem__(self, key: Any) -> Jet:
        return self.each(lambda x: x[key])

    @property
    def T(self) -> Jet:
        return self.each(np.transpose)


def _sum(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else x + y


def jet(x: Any) -> Jet:
    """A jet, or a constant as one."""
    return x if isinstance(x, Jet) else Jet(x)


def _chain(x: Jet, derivatives: Callable[[Any], tuple[Any, Any, Any]]) -> Jet:
    y0, y1, y2 = derivatives(x.f0)
    first = None if x.g1 is None else y1 * x.g1
    second = None if x.g2 is None else y1 * x.g2
    return Jet(y0, first, second if x.g1 is None else _sum(y2 * x.g1**2, second))


def sin(x: Any) -> Jet:
    return _chain(jet(x), lambda x: (np.sin(x), np.cos(x), -np.sin(x)))


def cos(x: Any) -> Jet:
    return _chain(jet(x), lambda x: (np.cos(x), -np.sin(x), -np.cos(x)))


def sqrt(x: Any) -> Jet:
    return _chain(jet(x), lambda x: (np.sqrt(x), 0.5 / np.sqrt(x), -0.25 / x**1.5))


def arctan(x: Any) -> Jet:
    return _chain(jet(x), lambda x: (np.arctan(x), 1 / (1 + x * x), -2 * x / (1 + x * x) ** 2))


def stack(parts: Sequence[Any]) -> Jet:
    """A vector of scalars, or a matrix of rows."""
    jets = [jet(part) for part in parts]
    first = np.array([j.f1 for j in jets]) if any(j.g1 is not None for j in jets) else None
    second = np.array([j.f2 for j in jets]) if any(j.g2 is not None for j in jets) else None
    return Jet(np.array([j.f0 for j in jets]), first, second)


def join(x: Any, y: Any) -> Jet:
    """One vector of two."""
    x, y = jet(x), jet(y)
    return Jet(*(np.concatenate([getattr(x, f), getattr(y, f)]) for f in ("f0", "f1", "f2")))


def dot(x: Any, y: Any) -> Jet:
    return jet(x).product(jet(y), lambda a, b: np.sum(a * b, axis=-1))


def cross(x: Any, y: Any) -> Jet:
    return jet(x).product(jet(y), lambda a, b: skew_matrix(a) @ b)


def skew(w: Any) -> Jet:
    """The matrix of ``w x``."""
    return jet(w).each(skew_matrix)


def skew_matrix(w: Any) -> np.ndarray:
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def axial(X: Any) -> Any:
    """The vector w of the skew part [w x] of a matrix."""
    return 0.5 * np.array([X[2, 1] - X[1, 2], X[0, 2] - X[2, 0], X[1, 0] - X[0, 1]])


def turn(axis: Any, angle: Any) -> Jet:
    """Rotation matrix about a unit axis."""
    K = skew_matrix(axis)
    return np.eye(3) + sin(angle) * K + (1 - cos(angle)) * (K @ K)


def solve3(A: Jet, b: Jet) -> Jet:
    """A^-1 b."""
    inverse = np.linalg.inv(A.f0)
    x0 = inverse @ b.f0
    x1 = inverse @ (b.f1 - A.f1 @ x0)
    return Jet(x0, x1, inverse @ (b.f2 - 2 * A.f1 @ x1 - A.f2 @ x0))


def rotation_vector(R: Jet) -> Jet:
    """The vector of a rotation by less than half a turn, and not by zero."""
    w = 0.5 * sqrt(1 + R[0, 0] + R[1, 1] + R[2, 2])
    u = stack([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4 * w)
    s = sqrt(dot(u, u))
    return (2 * arctan(s / w) / s) * u


def displacement_matrix(d: Jet) -> Jet:
    """V(d) with the displacement V(d) m of a unit time of the constant body twist (m, d)."""
    square = dot(d, d)
    angle = sqrt(square)
    K = skew(d)
    return np.eye(3) + ((1 - cos(angle)) / square) * K + ((angle - sin(angle)) / (square * angle)) * (K @ K)
