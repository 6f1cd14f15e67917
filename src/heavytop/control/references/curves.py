"""Curves in space as functions of time in NumPy notation, for numbers and for exact symbolic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from heavytop._arrays import Array, Numbers, as_array, directional, is_symbolic, scale, shape, symbol, vector
from heavytop.compile import Traced, trace_of
from heavytop.errors import ControlError, wrong_shape

Curve = Callable[[Array], Array]
"""t -> position (3,), or any vector."""


def smoothstep(s: Array) -> Array:
    """Step from 0 to 1 of degree nine with four vanishing derivatives at both ends; constant outside of 0..1.

    >>> float(smoothstep(0.5))
    0.5
    """
    s = np.minimum(np.maximum(s, 0.0), 1.0)
    return s**5 * (126.0 + s * (-420.0 + s * (540.0 + s * (-315.0 + s * 70.0))))


def rest_to_rest(start: Any, goal: Any, duration: float, begin: float = 0.0) -> Curve:
    """Straight line from ``start`` to ``goal`` (n,), at rest (up to jerk and its rate) before and after.

    >>> line = rest_to_rest((0, 0, 0), (1, 0, 2), duration=2.0)
    >>> line(1.0), line(5.0)
    (array([0.5, 0. , 1. ]), array([1., 0., 2.]))
    """
    a, b = np.asarray(start, dtype=float), np.asarray(goal, dtype=float)
    if a.shape != b.shape or a.ndim != 1:
        raise wrong_shape("goal of rest_to_rest", a.shape, b.shape)
    if not duration > 0:
        raise ControlError(f"the duration of rest_to_rest must be positive, got {duration}.")
    return lambda t: a + scale(smoothstep((t - begin) / duration), b - a, 1)


def looping(radius: float = 1.5, duration: float = 3.6) -> Curve:
    """A loop in the x-z plane, from rest to rest, with its lowest point at the origin.

    >>> looping()(0.0).round(12), looping()(1.8).round(3)
    (array([0., 0., 0.]), array([0., 0., 3.]))
    """

    def position(t: Array) -> Array:
        phase = 2 * np.pi * smoothstep(t / duration)
        return vector(radius * np.sin(phase), 0.0 * phase, radius * (1 - np.cos(phase)))

    return position


def figure_eight(rate: float = 0.8, length: float = 4.0, width: float = 2.0, plane: str = "xy") -> Curve:
    """A figure eight: ``length sin(rate t)`` along the first axis of the plane, ``width sin(2 rate t)`` along the second.

    >>> figure_eight(rate=np.pi)(0.5).round(12)
    array([4., 0., 0.])
    """
    first, second = (_axis(name) for name in plane)

    def position(t: Array) -> Array:
        return scale(length * np.sin(rate * t), first, 1) + scale(width * np.sin(2 * rate * t), second, 1)

    return position


def circle(radius: float, rate: float, plane: str = "xy") -> Curve:
    """A circle about the origin in a plane.

    >>> circle(2.0, np.pi)(0.5).round(12)
    array([0., 2., 0.])
    """
    first, second = (_axis(name) for name in plane)

    def position(t: Array) -> Array:
        return scale(radius * np.cos(rate * t), first, 1) + scale(radius * np.sin(rate * t), second, 1)

    return position


def _axis(name: str) -> np.ndarray:
    if name not in "xyz":
        raise ControlError(f"a plane is named by two of the axes x, y, z, got {name!r}.")
    return np.eye(3)["xyz".index(name)]


@dataclass(frozen=True, eq=False)
class PiecewisePolynomial:
    """Polynomials in t - breaks[k] between ``breaks`` (m + 1,); ``coefficients`` (m, degree + 1, n), lowest first.

    Before the first and after the last break the end values are held.
    """

    breaks: np.ndarray
    coefficients: np.ndarray

    @property
    def duration(self) -> float:
        """Time of the last break."""
        return float(self.breaks[-1])

    def derivative(self, order: int) -> PiecewisePolynomial:
        """The derivative of an order; outside of the breaks its end values are held."""
        powers = np.arange(self.coefficients.shape[1])
        factors = np.prod([powers - k for k in range(order)], axis=0) if order else np.ones(len(powers))
        left = (factors[None, :, None] * self.coefficients)[:, order:]
        return PiecewisePolynomial(self.breaks, left)

    def __call__(self, t: Array) -> Array:
        t = np.minimum(np.maximum(t, self.breaks[0]), self.breaks[-1])
        if not is_symbolic(t):
            t = np.asarray(t, dtype=float)
            k = np.clip(np.searchsorted(self.breaks, t, side="right") - 1, 0, len(self.coefficients) - 1)
            return _horner(t - self.breaks[k], [self.coefficients[k, i] for i in range(self.coefficients.shape[1])])
        chosen = [as_array(c) for c in self.coefficients[0]]
        start: Array = self.breaks[0]
        for begin, segment in zip(self.breaks[1:-1], self.coefficients[1:], strict=True):
            later = t >= begin
            chosen = [np.where(later, c, old) for c, old in zip(segment, chosen, strict=True)]
            start = np.where(later, begin, start)
        return _horner(t - start, chosen)


def _horner(x: Array, coefficients: Sequence[Array]) -> Array:
    total = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = scale(x, total, 1) + c
    return total


def minimum_snap(points: Numbers, times: Numbers) -> PiecewisePolynomial:
    """Curve through ``points`` (m + 1, n) at ``times`` (m + 1,) with the least integral of the squared snap.

    It starts and ends at rest (velocity, acceleration and jerk vanish); the minimum consists of polynomials of degree seven and is smooth up to the
    sixth derivative.

    >>> curve = minimum_snap([[0, 0, 0], [1, 1, 2], [2, 0, 1]], [0.0, 1.0, 2.5])
    >>> curve(1.0).round(12)
    array([1., 1., 2.])
    """
    points, times = np.asarray(points, dtype=float), np.asarray(times, dtype=float)
    if points.ndim != 2 or len(points) < 2:
        raise wrong_shape("points of minimum_snap", ("m + 1", "n"), points.shape)
    if times.shape != (len(points),):
        raise wrong_shape("times of minimum_snap", (len(points),), times.shape)
    if not np.all(np.diff(times) > 0):
        raise ControlError(f"the times of minimum_snap must increase, got {times.tolist()}.")
    from scipy.interpolate import make_interp_spline

    rest = [(order, np.zeros(points.shape[1])) for order in (1, 2, 3)]
    spline = make_interp_spline(times, points, k=7, bc_type=(rest, rest))
    return PiecewisePolynomial(times, np.stack([spline(times[:-1], i) / factorial(i) for i in range(8)], axis=1))


def derivatives(curve: Curve, order: int, name: str = "curve") -> Traced:
    """Traced function t -> (r, r', ..., r^(order)), exact."""
    t, one = symbol("t"), np.asarray(1.0)
    value = as_array(curve(t))
    if len(shape(value)) != 1:
        raise wrong_shape("a curve r(t)", ("n",), shape(value))
    outputs = {"d0": value}
    for k in range(1, order + 1):
        value = directional(value, t, one) if is_symbolic(value) else np.zeros(shape(value))
        outputs[f"d{k}"] = value
    return trace_of(name, {"t": t}, outputs)
