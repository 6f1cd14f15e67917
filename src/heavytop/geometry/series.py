"""Scalar functions behind exp, log and their tangents, as functions of the squared angle z = theta^2.

Each is entire in z (or has its first pole at z = 4 pi^2), so no square root of a vanishing angle appears. Below a limit
a short power series is summed, above it the closed form is used; both agree to about 1e-15 at the limit. Both branches
stay finite where they are not selected, together with their derivatives (arguments and denominators are clipped, the
closed form at half the limit, as clipping has no derivative at its bound), so values and derivatives of any order
exist at z = 0 and at the limits, for numbers and for symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, pi

import numpy as np

from heavytop._arrays import Array

_EXP_LIMIT = 1.0
_LIMIT = 4.0
_SLOPE_LIMIT = 12.0
_LOG_LIMIT = 0.04
_FIRST_POLE = 4 * pi**2

_HALF_SINE = [(-0.25) ** k / factorial(2 * k + 1) for k in range(8)]
_HALF_COSINE = [(-0.25) ** k / factorial(2 * k) for k in range(9)]
_CUBIC = [(-1.0) ** k / factorial(2 * k + 3) for k in range(9)]
_VERSINE_SLOPE = [2 * k * (-1.0) ** k / factorial(2 * k + 2) for k in range(1, 15)]
_CUBIC_SLOPE = [2 * k * (-1.0) ** k / factorial(2 * k + 3) for k in range(1, 15)]
_ARCTANGENT = [(-1.0) ** k / (2 * k + 1) for k in range(12)]
# sum over k >= 2 of 2 / (2 pi k)^(2 j + 2), j = 0, 1, ...: the cotangent series without its first pole
_COTANGENT = [
    0.03267274151216445,
    0.000105641107053347,
    5.637370282876845e-07,
    3.357141926657451e-09,
    2.0742872904166045e-11,
    1.3000482138698975e-13,
    8.196052055691008e-16,
    5.180118196169724e-18,
    3.277539174701792e-20,
    2.0747401878593604e-22,
    1.3136241807166534e-24,
    8.318003195189264e-27,
    5.267262996834231e-29,
    3.3354842988221443e-31,
    2.1122063323183885e-33,
]
_COTANGENT_SLOPE = [2 * j * coefficient for j, coefficient in enumerate(_COTANGENT)][1:]


def polynomial(z: Array, coefficients: Sequence[float]) -> Array:
    """Horner's scheme for coefficients in ascending order.

    >>> polynomial(2.0, [1.0, 0.0, 3.0])
    13.0
    """
    value: Array = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * z + coefficient
    return value


def half_angle(z: Array) -> tuple[Array, Array]:
    """``sin(theta/2) / (theta/2)`` and ``cos(theta/2)``."""
    small = z < _EXP_LIMIT
    near = np.minimum(z, _EXP_LIMIT)
    half = 0.5 * np.sqrt(np.maximum(z, 0.5 * _EXP_LIMIT))
    sine = np.where(small, polynomial(near, _HALF_SINE), np.sin(half) / half)
    cosine = np.where(small, polynomial(near, _HALF_COSINE), np.cos(half))
    return sine, cosine


def sine_versine(z: Array) -> tuple[Array, Array]:
    """``sin(theta) / theta`` and ``(1 - cos(theta)) / theta^2``: the coefficients of exp on SO(3)."""
    half_sine, half_cosine = half_angle(z)
    return half_sine * half_cosine, 0.5 * half_sine * half_sine


def cubic(z: Array) -> Array:
    """``(theta - sin(theta)) / theta^3``: second coefficient of the tangent operator."""
    sine, _ = sine_versine(z)
    series = polynomial(np.minimum(z, _EXP_LIMIT), _CUBIC)
    return np.where(z < _EXP_LIMIT, series, (1.0 - sine) / np.maximum(z, 0.5 * _EXP_LIMIT))


def cotangent(z: Array) -> Array:
    """``(1 - theta/2 cot(theta/2)) / theta^2``: coefficient of the inverse tangent operator (002 eq. 76, erratum 2.3).

    It equals the sum over k >= 1 of ``2 / ((2 pi k)^2 - z)``: its first pole is at a full turn.
    """
    half_sine, half_cosine = half_angle(z)
    near = np.minimum(z, _LIMIT)
    series = 2.0 / (_FIRST_POLE - near) + polynomial(near, _COTANGENT)
    return np.where(z < _LIMIT, series, (1.0 - half_cosine / half_sine) / np.maximum(z, 0.5 * _LIMIT))


def versine_slope(z: Array) -> Array:
    """``(sin(theta)/theta - 2 (1 - cos(theta))/theta^2) / theta^2``: twice the derivative of the versine with respect to z."""
    sine, versine = sine_versine(z)
    series = polynomial(np.minimum(z, _SLOPE_LIMIT), _VERSINE_SLOPE)
    return np.where(z < _SLOPE_LIMIT, series, (sine - 2.0 * versine) / np.maximum(z, 0.5 * _SLOPE_LIMIT))


def cubic_slope(z: Array) -> Array:
    """``((1 - cos(theta))/theta^2 - 3 (theta - sin(theta))/theta^3) / theta^2``: twice the derivative of ``cubic``."""
    sine, versine = sine_versine(z)
    far = np.maximum(z, 0.5 * _SLOPE_LIMIT)
    series = polynomial(np.minimum(z, _SLOPE_LIMIT), _CUBIC_SLOPE)
    return np.where(z < _SLOPE_LIMIT, series, (versine - 3.0 * (1.0 - sine) / far) / far)


def cotangent_slope(z: Array) -> Array:
    """``(theta^2/(1 - cos(theta)) + theta cot(theta/2) - 4) / (2 theta^4)``: twice the derivative of ``cotangent``.

    Second coefficient of the inverse tangent operator of SE(3) (002 eq. 77, erratum 2.5).
    """
    half_sine, half_cosine = half_angle(z)
    near, far = np.minimum(z, _SLOPE_LIMIT), np.maximum(z, 0.5 * _SLOPE_LIMIT)
    distance = _FIRST_POLE - near
    series = 4.0 / (distance * distance) + polynomial(near, _COTANGENT_SLOPE)
    closed = (1.0 / (half_sine * half_sine) + half_cosine / half_sine - 2.0) / (far * far)
    return np.where(z < _SLOPE_LIMIT, series, closed)


def arctangent(y: Array, w: Array) -> Array:
    """``atan2(sqrt(y), w) / sqrt(y)`` for ``w >= 0`` and ``y + w^2 = 1``.

    In a unit quaternion with scalar part ``w``: half the angle over the length of the vector part.
    """
    small = y < _LOG_LIMIT
    scale = np.maximum(w, 0.5)
    near = np.minimum(y, _LOG_LIMIT) / (scale * scale)
    length = np.sqrt(np.maximum(y, 0.5 * _LOG_LIMIT))
    return np.where(small, polynomial(near, _ARCTANGENT) / scale, np.arctan2(length, w) / length)
