"""Exact derivatives along velocity coordinates: the symbolic core of the calculus.

All functions take and return symbols. Objects with three indices are tuples of matrices, ``gamma[k][i, j]``, because
symbolic arrays have at most two axes; :func:`evaluate_stacked` turns them into arrays with three trailing axes for
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    column,
    concatenate,
    directional,
    from_columns,
    is_symbolic,
    jacobian,
    matrix,
    transpose,
)
from heavytop.compile import Traced


def derivative_along(expression: Array, q: Array, kinematics_matrix: Array) -> Array:
    """The directional derivatives ``d_i f = A_i^a df/dx^a`` (eq. 2.13) of a symbolic vector (m,): matrix (m, nv)."""
    return jacobian(expression, q) @ kinematics_matrix


def commutation_matrices(kinematics_matrix: Array, left_inverse: Array, q: Array) -> tuple[Array, ...]:
    """Commutation coefficients ``gamma^k_ij = Y^k_a (d_i A_j^a - d_j A_i^a)`` (eq. 2.19, erratum 0.7).

    Returns n symbolic matrices: entry k holds ``gamma^k_ij`` with row i and column j.
    """
    n = kinematics_matrix.shape[1]
    # W_i[k, j] = Y^k_a d_i A_j^a
    w = [left_inverse @ directional(kinematics_matrix, q, column(kinematics_matrix, i)) for i in range(n)]
    raw = [matrix([[w[i][k, j] for j in range(n)] for i in range(n)]) for k in range(n)]
    return tuple(t - transpose(t) for t in raw)


def connection_matrices(metric: Array, gamma: Sequence[Array], kinematics_matrix: Array, q: Array) -> tuple[Array, ...]:
    """Connection coefficients of a metric ``M`` (eq. 3.35): entry i holds ``Gamma_ijk`` with row j, column k.

    ``Gamma_ijk = (d_k M_ij + d_j M_ik - d_i M_jk + gamma^s_ij M_sk + gamma^s_ik M_sj - gamma^s_jk M_si) / 2``.
    """
    n = kinematics_matrix.shape[1]
    # rates[k][i, j] = d_k M_ij;  lowered[i][j, k] = gamma^s_ij M_sk
    rates = [derivative_or_zero(metric, q, column(kinematics_matrix, k)) for k in range(n)]
    lowered = [from_columns(*(row_of(gamma[s], i) for s in range(n))) @ metric for i in range(n)]

    def coefficient(i: int, j: int, k: int) -> Array:
        m = rates[k][i, j] + rates[j][i, k] - rates[i][j, k]
        return 0.5 * (m + lowered[i][j, k] + lowered[i][k, j] - lowered[j][k, i])

    return tuple(matrix([[coefficient(i, j, k) for k in range(n)] for j in range(n)]) for i in range(n))


def derivative_or_zero(expression: Array, variables: Array, direction: Array) -> Array:
    """Derivative of ``expression`` along ``direction``; zeros for an expression without symbols."""
    if not is_symbolic(expression):
        return np.zeros(np.shape(expression))
    return directional(expression, variables, direction)


def row_of(m: Array, i: int) -> Array:
    """Row ``i`` of a matrix."""
    return column(transpose(m), i)


def contract_second(gamma: Sequence[Array], x: Array) -> Array:
    """The matrix ``gamma^k_ij x^i`` with row k and column j."""
    return transpose(from_columns(*(np.matvec(transpose(g), x) for g in gamma)))


def stack_flat(matrices: Sequence[Array]) -> Array:
    """Join matrices into one vector, so that a traced function can return them."""
    if not matrices:
        return np.zeros(0)
    return concatenate(*(np.reshape(m, (m.shape[0] * m.shape[1],)) for m in matrices))


def evaluate_stacked(traced: Traced, *arguments: Array) -> Array | tuple[Array, ...]:
    """Evaluate a traced :func:`stack_flat` of n square matrices: (..., n, n, n) on numbers, n matrices on symbols."""
    (flat,) = traced(*arguments)
    n = round(flat.shape[-1] ** (1 / 3))
    if is_symbolic(flat):
        return tuple(np.reshape(flat[k * n * n : (k + 1) * n * n], (n, n)) for k in range(n))
    return flat.reshape((*flat.shape[:-1], n, n, n))


def constant_stacked(coefficients: Floats, q: Array) -> Array | tuple[Array, ...]:
    """A constant array (n, n, n), with the batch axes of ``q``, or as a tuple of matrices for symbols."""
    if is_symbolic(q):
        return tuple(coefficients)
    return np.broadcast_to(coefficients, np.shape(q)[:-1] + coefficients.shape).copy()
