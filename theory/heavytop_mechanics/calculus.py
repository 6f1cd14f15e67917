"""Calculus on coordinates: the manifold of configurations (thesis, section 2.1), directional derivatives, Hessians, commutation, connection
(section 2.2), linearisation about a trajectory (section 2.2.3).

Functions of the configuration (``potential(q)``, ``metric(q)``) are written in NumPy notation, so that they run on
symbols and their derivatives are exact. Configurations may be numbers with leading batch axes or symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from heavytop._arrays import (
    Array,
    Flags,
    as_array,
    column,
    directional,
    from_columns,
    is_symbolic,
    jacobian,
    matrix,
    to_sx,
    transpose,
)
from heavytop.compile import trace
from heavytop.coordinates import Coordinates
from heavytop.coordinates.base import evaluate_stacked, stack_flat
from heavytop.errors import ConfigurationError, ModelError, wrong_shape
from heavytop.geometry import pseudo_inverse

Function = Callable[[Array], Array]
"""A function of the configuration ``q`` in NumPy notation."""


# --- the manifold of configurations ------------------------------------------------------------------------------------


def contains(coordinates: Coordinates, q: Array, tolerance: float = 1e-9) -> Flags:
    """Whether ``q`` (..., nq) satisfies ``phi(q) = 0`` (eq. 2.1): booleans (...). Numbers only.

    Examples
    --------
    >>> from heavytop.coordinates import Circle
    >>> contains(Circle(), [[0.6, 0.8], [0.6, 0.7]])
    array([ True, False])
    """
    return np.all(np.abs(coordinates.constraints(np.asarray(q, dtype=float))) <= tolerance, axis=-1)


def dimension(coordinates: Coordinates, q: Array, tolerance: float = 1e-9) -> np.ndarray:
    """``n = nq - rank dphi/dq`` (eq. 2.2) at ``q``: integers (...). Numbers only.

    Examples
    --------
    >>> from heavytop.coordinates import Rotation
    >>> int(dimension(Rotation(), Rotation().neutral()))
    3
    """
    phi = coordinates.constraint_jacobian(np.asarray(q, dtype=float))
    return coordinates.nq - _rank(phi, tolerance)


def _rank(matrix: np.ndarray, tolerance: float) -> np.ndarray:
    if 0 in matrix.shape[-2:]:
        return np.zeros(matrix.shape[:-2], dtype=int)
    return np.linalg.matrix_rank(matrix, rtol=tolerance)


class ConstraintDerivatives(NamedTuple):
    """``phi``, ``phi'`` and ``phi''`` (..., m): the constraint and its hidden forms."""

    value: Array
    rate: Array
    acceleration: Array


def constraint_derivatives(coordinates: Coordinates, q: Array, v: Array, a: Array) -> ConstraintDerivatives:
    """The constraint with its first and second time derivative along ``q' = A v``, ``v' = a`` (eq. 2.3)."""

    def derivatives(q: Array, v: Array, a: Array) -> tuple[Array, ...]:
        rate = coordinates.rate(q, v)
        phi = coordinates.constraints(q)
        first = _derivative_or_zero(phi, q, rate)
        second = _derivative_or_zero(first, q, rate) + _derivative_or_zero(first, v, a)
        return phi, first, second

    n = coordinates.nv
    traced = trace(derivatives, {"q": (coordinates.nq,), "v": (n,), "a": (n,)}, name="constraint_derivatives")
    return ConstraintDerivatives(*traced(q, v, a))


class Projectors(NamedTuple):
    """Projectors (..., nq, nq) of identity (2.10): ``tangent + complement = I``."""

    tangent: Array
    complement: Array


def projectors(coordinates: Coordinates, q: Array) -> Projectors:
    """``P = A Y`` onto the tangent space and ``Psi Phi`` onto its complement (eq. 2.10).

    ``Psi`` is the pseudoinverse of ``Phi = dphi/dq``. Numbers only: the constraints may be dependent, so it needs a
    singular value decomposition.
    """
    q = np.asarray(q, dtype=float)
    phi = coordinates.constraint_jacobian(q)
    return Projectors(
        coordinates.kinematics_matrix(q) @ coordinates.left_inverse(q),
        pseudo_inverse(phi, 1e-12) @ phi,
    )


# --- derivatives -------------------------------------------------------------------------------------------------------


def _scalar(function: Function, q: Array) -> Array:
    value = as_array(function(q))
    if tuple(value.shape) not in ((), (1,)):
        raise ModelError(f"a scalar function of q is needed, got one of shape {tuple(value.shape)}.")
    return np.reshape(value, (1,))


def _gradient(coordinates: Coordinates, potential: Function, q: Array) -> Array:
    value = _scalar(potential, q)
    if not is_symbolic(value):
        return np.zeros(coordinates.nv)
    return _derivative_along(value, q, coordinates.kinematics_matrix(q))[0, :]


def directional_derivatives(coordinates: Coordinates, potential: Function, q: Array) -> Array:
    """``d_i V = A_i^a dV/dx^a`` (eq. 2.13): (..., nv).

    Examples
    --------
    >>> from heavytop.coordinates import Circle
    >>> directional_derivatives(Circle(), lambda q: q[0], np.array([0.0, 1.0]))
    array([-1.])
    """
    return trace(lambda x: _gradient(coordinates, potential, x), {"q": (coordinates.nq,)}, name="gradient")(q)[0]


def _second(coordinates: Coordinates, potential: Function, q: Array) -> Array:
    gradient = _gradient(coordinates, potential, q)
    if not is_symbolic(gradient):
        return np.zeros((coordinates.nv, coordinates.nv))
    return transpose(_derivative_along(gradient, q, coordinates.kinematics_matrix(q)))


def second_derivatives(coordinates: Coordinates, potential: Function, q: Array) -> Array:
    """``d_i d_j V`` (..., nv, nv) with row i and column j. They do not commute (eq. 2.17)."""
    return trace(lambda x: _second(coordinates, potential, x), {"q": (coordinates.nq,)}, name="second")(q)[0]


def taylor(coordinates: Coordinates, potential: Function, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """``V``, ``V'`` and ``V''`` (...) along a curve with velocity ``v`` and velocity rate ``a`` (eqs 2.11 to 2.14).

    ``V(t) = V + t V' + t^2 V'' / 2 + O(t^3)``, ``V'' = d_i d_j V v^i v^j + d_i V a^i``.
    """

    def coefficients(q: Array, v: Array, a: Array) -> tuple[Array, ...]:
        gradient, second = _gradient(coordinates, potential, q), _second(coordinates, potential, q)
        curvature = np.vecdot(np.matvec(second, v), v) + np.vecdot(gradient, a)
        return _scalar(potential, q)[0], np.vecdot(gradient, v), curvature

    n = coordinates.nv
    value, first, second = trace(coefficients, {"q": (coordinates.nq,), "v": (n,), "a": (n,)}, name="taylor")(q, v, a)
    return value, first, second


Kind = Literal["minimum", "maximum", "saddle", "degenerate"]


class CriticalPoint(NamedTuple):
    """The Hessian matrix ``H`` (nv, nv) at a critical point, its eigenvalues (ascending) and its kind."""

    hessian: np.ndarray
    eigenvalues: np.ndarray
    kind: Kind


def critical_point(
    coordinates: Coordinates, potential: Function, q: Array, tolerance: float = 1e-6, zero: float = 1e-9
) -> CriticalPoint:
    """Hessian ``H_ij = d_i d_j V`` at a critical point (eq. 2.15) and its classification. Numbers only, one point.

    Parameters
    ----------
    tolerance : largest entry of the gradient that still counts as zero.
    zero : eigenvalues smaller than this times the largest count as zero: the point is then "degenerate", unless it is a
        saddle.

    Examples
    --------
    >>> from heavytop.coordinates import Circle
    >>> critical_point(Circle(), lambda q: -q[0], np.array([1.0, 0.0])).kind
    'minimum'
    """
    gradient = directional_derivatives(coordinates, potential, q)
    size = float(np.max(np.abs(gradient), initial=0.0))
    if size > tolerance:
        raise ConfigurationError(
            f"q is not a critical point: its largest directional derivative is {size:.3g} (tolerance {tolerance:g}). "
            "The Hessian matrix (2.15) exists at critical points only; use riemannian_hessian elsewhere."
        )
    hessian = second_derivatives(coordinates, potential, q)
    hessian = 0.5 * (hessian + transpose(hessian))  # symmetric at a critical point, up to the remaining gradient
    eigenvalues = np.linalg.eigvalsh(hessian)
    limit = zero * max(float(np.max(np.abs(eigenvalues), initial=0.0)), np.finfo(float).tiny)
    return CriticalPoint(hessian, eigenvalues, _classify(eigenvalues, limit))


def _classify(eigenvalues: np.ndarray, limit: float) -> Kind:
    positive, negative = np.any(eigenvalues > limit), np.any(eigenvalues < -limit)
    if positive and negative:
        return "saddle"
    if np.any(np.abs(eigenvalues) <= limit) or not (positive or negative):
        return "degenerate"
    return "minimum" if positive else "maximum"


def commutation_coefficients(coordinates: Coordinates, q: Array) -> Array | tuple[Array, ...]:
    """``gamma^k_ij`` of ``d_i d_j - d_j d_i = gamma^k_ij d_k`` (eq. 2.19), (..., nv, nv, nv) indexed [k, i, j].

    By differentiation of ``A``, also where the block knows a closed form (``coordinates.commutation``). On symbols a
    tuple of matrices, so ``gamma[k][i, j]`` reads the same.

    Examples
    --------
    >>> from heavytop.coordinates import Rotation
    >>> commutation_coefficients(Rotation(), Rotation().neutral())[2, 0, 1]
    np.float64(1.0)
    """
    return Coordinates.commutation(coordinates, q)


def is_integrable(coordinates: Coordinates, q: Array, tolerance: float = 1e-9) -> bool:
    """Whether the velocities are rates of coordinates: ``gamma = 0`` at all ``q`` (..., nq), eq. 2.21. Numbers only."""
    gamma = np.asarray(coordinates.commutation(np.asarray(q, dtype=float)))
    return bool(np.max(np.abs(gamma), initial=0.0) <= tolerance)


def connection_coefficients(coordinates: Coordinates, metric: Function, q: Array) -> Array | tuple[Array, ...]:
    """Levi-Civita connection ``Gamma_ijk`` of a metric ``M(q)`` (eq. 3.35), (..., nv, nv, nv) indexed [i, j, k].

    ``M v' + Gamma_ijk v^j v^k`` is the inertia force of the kinetic energy ``v^T M v / 2``. With ``A = I`` these are
    the Christoffel symbols (eq. 3.36). On symbols a tuple of matrices.
    """

    def coefficients(q: Array) -> Array:
        a, m = coordinates.kinematics_matrix(q), as_array(metric(q))
        if tuple(m.shape) != (coordinates.nv, coordinates.nv):
            raise wrong_shape("the metric M(q)", (coordinates.nv, coordinates.nv), tuple(m.shape))
        return stack_flat(connection_matrices(m, tuple(coordinates.commutation(q)), a, q))

    return evaluate_stacked(trace(coefficients, {"q": (coordinates.nq,)}, name="connection"), q)


def raise_first_index(metric: Array, connection: Array) -> Array:
    """``Gamma^i_jk`` from ``Gamma_ijk`` (..., n, n, n) and the metric matrix (..., n, n). Numbers only."""
    n = metric.shape[-1]
    flat = np.reshape(connection, (*connection.shape[:-3], n, n * n))
    return np.reshape(np.linalg.solve(metric, flat), connection.shape)


def riemannian_hessian(coordinates: Coordinates, potential: Function, connection: Array, q: Array) -> Array:
    """``(nabla^2 V)_ij = d_i d_j V - Gamma^k_ji d_k V`` (..., nv, nv) (eq. 2.16, erratum 0.5): symmetric everywhere.

    Parameters
    ----------
    connection : ``Gamma^k_ij`` (..., nv, nv, nv), indexed [k, i, j], first index raised. Numbers only.
    """
    gradient = directional_derivatives(coordinates, potential, q)
    second = second_derivatives(coordinates, potential, q)
    return second - np.einsum("...kji,...k->...ij", connection, gradient)


# --- linearisation about a trajectory ----------------------------------------------------------------------------------


def deviation(coordinates: Coordinates, q_R: Array, q: Array) -> Array:
    """``eps = A^+(q_R) (q - q_R)`` (..., nv), the linear deviation from the reference ``q_R`` (eq. 2.23)."""
    return np.matvec(coordinates.left_inverse(q_R), q - q_R)


def velocity_deviation(coordinates: Coordinates, q: Array, v: Array, eps: Array, eps_dot: Array) -> Array:
    """``delta v^i = eps'^i + gamma^i_kj v^k eps^j`` (..., nv) about the reference (eq. 2.24, erratum 0.10)."""
    n = coordinates.nv

    def deviate(q: Array, v: Array, eps: Array, eps_dot: Array) -> Array:
        return eps_dot + np.matvec(_contract_second(tuple(coordinates.commutation(q)), v), eps)

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
        turning = _contract_second(gamma, v)  # gamma^i_kj v^k, row i, column j
        # gamma^i_kj a^k + (d_l gamma^i_kj) v^l v^k: the time derivative of the line above
        turning_rate = _contract_second(gamma, a) + _derivative_or_zero(turning, q, coordinates.rate(q, v))
        f0 = _derivative_along(value, q, coordinates.kinematics_matrix(q)) + by_v @ turning + by_a @ turning_rate
        return value, f0, by_v + by_a @ turning, by_a

    shapes = {"q": (coordinates.nq,), "v": (n,), "a": (n,)}
    return LinearCoefficients(*trace(coefficients, shapes, name="linear_coefficients")(q, v, a))


# --- symbols: objects with three indices are tuples of matrices, ``gamma[k][i, j]`` ------------------------------------------


def _derivative_along(expression: Array, q: Array, kinematics_matrix: Array) -> Array:
    """The directional derivatives ``d_i f = A_i^a df/dx^a`` (eq. 2.13) of a symbolic vector (m,): matrix (m, nv)."""
    return jacobian(expression, q) @ kinematics_matrix


def connection_matrices(metric: Array, gamma: Sequence[Array], kinematics_matrix: Array, q: Array) -> tuple[Array, ...]:
    """Connection coefficients of a metric ``M`` (eq. 3.35): entry i holds ``Gamma_ijk`` with row j, column k.

    ``Gamma_ijk = (d_k M_ij + d_j M_ik - d_i M_jk + gamma^s_ij M_sk + gamma^s_ik M_sj - gamma^s_jk M_si) / 2``.
    """
    n = kinematics_matrix.shape[1]
    # rates[k][i, j] = d_k M_ij;  lowered[i][j, k] = gamma^s_ij M_sk
    rates = [_derivative_or_zero(metric, q, column(kinematics_matrix, k)) for k in range(n)]
    lowered = [from_columns(*(_row_of(gamma[s], i) for s in range(n))) @ metric for i in range(n)]

    def coefficient(i: int, j: int, k: int) -> Array:
        m = rates[k][i, j] + rates[j][i, k] - rates[i][j, k]
        return 0.5 * (m + lowered[i][j, k] + lowered[i][k, j] - lowered[j][k, i])

    return tuple(matrix([[coefficient(i, j, k) for k in range(n)] for j in range(n)]) for i in range(n))


def _derivative_or_zero(expression: Array, variables: Array, direction: Array) -> Array:
    """Derivative of ``expression`` along ``direction``; zeros for an expression without symbols."""
    if not is_symbolic(expression):
        return np.zeros(np.shape(expression))
    return directional(expression, variables, direction)


def _row_of(m: Array, i: int) -> Array:
    """Row ``i`` of a matrix."""
    return column(transpose(m), i)


def _contract_second(gamma: Sequence[Array], x: Array) -> Array:
    """The matrix ``gamma^k_ij x^i`` with row k and column j."""
    return transpose(from_columns(*(np.matvec(transpose(g), x) for g in gamma)))
