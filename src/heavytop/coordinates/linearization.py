"""Linearisation about a trajectory (thesis, section 2.2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, jacobian, to_sx
from heavytop.compile.trace import trace
from heavytop.coordinates.base import Coordinates
from heavytop.coordinates.derivatives import contract_second, derivative_along, derivative_or_zero


def deviation(coordinates: Coordinates, q_R: Array, q: Array) -> Array:
    """``eps = A^+(q_R) (q - q_R)`` (..., nv), the linear deviation from the reference ``q_R`` (eq. 2.23)."""
    return np.matvec(coordinates.left_inverse(q_R), q - q_R)


def velocity_deviation(coordinates: Coordinates, q: Array, v: Array, eps: Array, eps_dot: Array) -> Array:
    """``delta v^i = eps'^i + gamma^i_kj v^k eps^j`` (..., nv) about the reference (eq. 2.24, erratum 0.10)."""
    n = coordinates.nv

    def deviate(q: Array, v: Array, eps: Array, eps_dot: Array) -> Array:
        return eps_dot + np.matvec(contract_second(tuple(coordinates.commutation(q)), v), eps)

    shapes = {"q": (coordinates.nq,), "v": (n,), "eps": (n,), "eps_dot": (n,)}
    return trace(deviate, shapes, name="velocity_deviation")(q, v, eps, eps_dot)[0]


class LinearCoefficients(NamedTuple):
    """``f = value + F0 eps + F1 eps' + F2 eps''`` to first order; value (..., m), matrices (..., m, nv)."""

    value: Array
    F0: Array
    F1: Array
    F2: Array


def linear_coefficients(
    coordinates: Coordinates, f: Callable[[Array, Array, Array], Array], q: Array, v: Array, a: Array
) -> LinearCoefficients:
    """Linearise ``f(q, v, v')`` (m,) about a trajectory through ``(q, v, a)`` (eq. 2.25, erratum 0.11).

    Examples
    --------
    >>> from heavytop.coordinates import Angle
    >>> pendulum = lambda q, v, a: a + np.sin(q)
    >>> linear_coefficients(Angle(), pendulum, [np.pi], [0.0], [0.0]).F0
    array([[-1.]])
    """
    n = coordinates.nv

    def coefficients(q: Array, v: Array, a: Array) -> tuple[Array, ...]:
        value = as_array(f(q, v, a))
        value = np.reshape(value, (to_sx(value).shape[0],))
        gamma = tuple(coordinates.commutation(q))
        by_v, by_a = jacobian(value, v), jacobian(value, a)
        turning = contract_second(gamma, v)  # gamma^i_kj v^k, row i, column j
        # gamma^i_kj a^k + (d_l gamma^i_kj) v^l v^k: the time derivative of the line above
        turning_rate = contract_second(gamma, a) + derivative_or_zero(turning, q, coordinates.rate(q, v))
        f0 = derivative_along(value, q, coordinates.kinematics_matrix(q)) + by_v @ turning + by_a @ turning_rate
        return value, f0, by_v + by_a @ turning, by_a

    shapes = {"q": (coordinates.nq,), "v": (n,), "a": (n,)}
    return LinearCoefficients(*trace(coefficients, shapes, name="linear_coefficients")(q, v, a))
