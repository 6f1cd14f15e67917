"""Euler-Lagrange equations in any coordinates (thesis, section 2.2.4).

For redundant configurations ``q`` and velocities ``v`` that need not be rates, the curve that makes the action stationary obeys

    d/dt dL/dv_i + gamma^k_ij v^j dL/dv^k - d_i L = f_i,      q' = A(q) v          (eq. 2.31)

with the commutation coefficients gamma (eq. 2.19) and the directional derivatives d_i (eq. 2.13). ``A = I`` gives the classical form.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, as_array, column, from_columns, jacobian, transpose
from heavytop.coordinates import Coordinates
from heavytop_mechanics.functions import (
    Acceleration,
    Evaluator,
    Function,
    acceleration_of,
    along,
    applied,
    gradient,
    gyroscopic,
    scalar_function,
    shapes,
    slope,
    time_derivative,
    timed,
)


def _inertia(coordinates: Coordinates, lagrangian: Function) -> Function:
    """``(M, h)`` as a function of (q, v, t), with the left-hand side of (2.31b) equal to ``M a + h``."""
    energy = scalar_function(lagrangian, 2, "a Lagrangian")

    def split(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
        value = energy(q, v, t)
        momentum = gradient(value, v)
        # d/dt dL/dv at a = 0
        drift = along(momentum, q, coordinates.rate(q, v)) + time_derivative(momentum, t)
        return jacobian(momentum, v), drift + gyroscopic(coordinates, q, v, momentum) - slope(coordinates, value, q)

    return split


def residual(
    coordinates: Coordinates, lagrangian: Function, force: Function | None = None, dissipation: Function | None = None
) -> Evaluator:
    """The Euler-Lagrange expression minus the forces: a function ``(q, v, a, t)`` that vanishes on motions (eq. 2.31b).

    Parameters
    ----------
    lagrangian : ``L(q, v)`` or ``L(q, v, t)``; a kinetic energy alone gives the inertia force ``f^M`` (eq. 3.31).
    force : generalised force ``f^E(q, v, t)`` (nv,) on the right-hand side.
    dissipation : ``R(q, v, t)``; ``f^D = dR/dv`` on the left-hand side.

    Examples
    --------
    The free rigid body (eq. 2.33): ``Theta w' + w x Theta w``.

    >>> from heavytop.coordinates import Rotation
    >>> theta = np.array([1.0, 2.0, 3.0])
    >>> euler = residual(Rotation(), lambda q, w: 0.5 * np.vecdot(w, theta * w))
    >>> euler(Rotation().neutral(), [1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    array([ 1., -2.,  1.])
    """
    inertia, applied_force = _inertia(coordinates, lagrangian), applied(coordinates, force, dissipation)

    def expression(q: Array, v: Array, a: Array, t: Array) -> Array:
        mass, rest = inertia(q, v, t)
        return np.matvec(mass, a) + rest - applied_force(q, v, t)

    return Evaluator(expression, shapes(coordinates, "q v a t"), "euler_lagrange")


def acceleration(
    coordinates: Coordinates, lagrangian: Function, force: Function | None = None, dissipation: Function | None = None
) -> Acceleration:
    """The acceleration ``a(q, v, t)`` that solves :func:`residual`; same parameters.

    Examples
    --------
    >>> from heavytop.coordinates import Circle
    >>> pendulum = acceleration(Circle(), lambda q, v: 0.5 * v[0] ** 2 + 9.81 * q[0])
    >>> pendulum([0.0, 1.0], [3.0])
    array([-9.81])
    """
    inertia = _inertia(coordinates, lagrangian)
    return acceleration_of("euler_lagrange", coordinates, inertia, None, force, dissipation)


def quadratic_lagrangian(metric: Function, linear: Function | None = None, rest: Function | None = None) -> Function:
    """``L = M_ij v^i v^j / 2 + b_i v^i + c`` of functions ``M, b, c`` of (q, t) (eq. 2.40)."""
    m, b, c = timed(metric, 1, "a metric"), timed(linear, 1, "a linear term"), timed(rest, 1, "a scalar term")

    def energy(q: Array, v: Array, t: Array) -> Array:
        return 0.5 * np.vecdot(v, np.matvec(as_array(m(q, t)), v)) + np.sum(as_array(b(q, t)) * v) + c(q, t)

    return energy


def quadratic_acceleration(
    coordinates: Coordinates,
    metric: Function,
    linear: Function | None = None,
    rest: Function | None = None,
    force: Function | None = None,
    dissipation: Function | None = None,
) -> Acceleration:
    """The expanded equation of motion of a quadratic Lagrangian (eq. 2.44b with erratum 0.14).

    ``M_ij a^j + (d_k M_ij + gamma^l_ij M_lk - d_i M_kj / 2) v^j v^k
    + (dM_ij/dt + d_j b_i - d_i b_j + gamma^k_ij b_k) v^j + db_i/dt - d_i c = f_i``.
    """
    m, b = timed(metric, 1, "a metric"), timed(linear, 1, "a linear term")
    c, n = scalar_function(rest, 1, "a scalar term"), coordinates.nv

    def inertia(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
        kinematics = as_array(coordinates.kinematics_matrix(q))
        directions = [column(kinematics, i) for i in range(n)]
        mass, b_vector = as_array(m(q, t)), as_array(b(q, t)) + np.zeros(n)
        # slopes[i] = d_i M; b_slopes[i, j] = d_j b_i
        slopes = [along(mass, q, direction) for direction in directions]
        b_slopes = from_columns(*(along(b_vector, q, direction) for direction in directions))
        quadratic = np.matvec(along(mass, q, coordinates.rate(q, v)), v)
        half = [0.5 * np.vecdot(v, np.matvec(slopes[i], v)) for i in range(n)]
        linear_terms = np.matvec(time_derivative(mass, t) + b_slopes - transpose(b_slopes), v)
        c_slope = np.matvec(transpose(kinematics), gradient(c(q, t), q))
        turning = gyroscopic(coordinates, q, v, np.matvec(mass, v) + b_vector)
        total = quadratic - np.stack(half) + turning + linear_terms + time_derivative(b_vector, t) - c_slope
        return mass, total

    return acceleration_of("quadratic_lagrangian", coordinates, inertia, None, force, dissipation)
