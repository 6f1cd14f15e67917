"""Linear solves that stay small on symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, depends_on, is_symbolic, jacobian, shape, substitute, to_sx
from heavytop.errors import ModelError
from heavytop.system.dynamics.scalar import from_scalars, scalars


def symmetric(matrix: Array) -> Array:
    """Mirror the upper triangle, so that both halves share their expressions."""
    if not is_symbolic(matrix):
        return matrix
    import casadi

    return casadi.ArrayInterface(casadi.triu2symm(casadi.triu(casadi.SX(matrix.to_casadi()))), 2)


def solve_definite(matrix: Array, right: Array) -> Array:
    """x with matrix x = right, for a symmetric positive definite matrix (sparse LDL^T on symbols).

    ``right`` is a vector (n,) or a matrix (n, m).
    """
    if not is_symbolic(matrix, right):
        vector = np.ndim(right) == np.ndim(matrix) - 1
        x = np.linalg.solve(matrix, right[..., None] if vector else right)
        return x[..., 0] if vector else x
    import casadi

    if matrix.shape[0] == 1:
        return right / (matrix[0, 0])
    D, LT, permutation = casadi.ldl(casadi.sparsify(_sx(matrix)))
    is_vector = len(right.shape) == 1
    rhs = to_sx(right) if is_vector else casadi.densify(_sx(right))
    x = casadi.ldl_solve(rhs, D, LT, permutation)
    return casadi.ArrayInterface(x.T, 1) if is_vector else casadi.ArrayInterface(x, 2)


def inverse_definite(matrix: Array) -> Array:
    """The inverse of a symbolic symmetric positive definite matrix (n, n), by M = L^T D L from the last row on.

    For the mass matrix of a tree no entry that is zero becomes another number (Featherstone 2005).
    """
    n = shape(matrix)[0]
    W = scalars(matrix)
    L, Y, inverse = (np.zeros((n, n), dtype=object) for _ in range(3))
    pivots: list[Any] = [0.0] * n
    for k in reversed(range(n)):
        pivots[k] = 1.0 / W[k, k]
        for i in range(k):
            L[k, i] = W[k, i] * pivots[k]
        for i in range(k):
            for j in range(i + 1):
                W[i, j] = W[i, j] - L[k, i] * W[k, j]
    for j in range(n):
        for i in range(j + 1, n):
            Y[i, j] = -L[i, j] - L[i, j + 1 : i] @ Y[j + 1 : i, j]
        Y[j, j] = 1.0
    for i in range(n):
        weighted = [Y[i, k] * pivots[k] for k in range(i + 1)]
        for j in range(i, n):
            inverse[i, j] = inverse[j, i] = sum(w * Y[j, k] for k, w in enumerate(weighted))
    return from_scalars(inverse)


def product(A: Array, B: Array) -> Array:
    """A @ B of symbolic matrices (n, n), (n, m), whose entries are sums in the order of the columns of A."""
    return from_scalars(scalars(A) @ scalars(B))


def linear_part(expression: Array, variables: Array) -> Array | None:
    """The matrix W with expression = W variables for a symbolic vector that is linear in the variables, else None."""
    if not is_symbolic(expression):
        return None if np.any(expression) else np.zeros((shape(expression)[0], shape(variables)[0]))
    W = jacobian(expression, variables)
    at_zero = to_sx(substitute(expression, variables, np.zeros(shape(variables))))
    return W if at_zero.is_zero() and not depends_on(W, variables) else None


def inverse_by_elimination(matrix: Array) -> Array:
    """Inverse of a symbolic square matrix by Gauss-Jordan elimination that prefers constant pivots.

    User-defined velocity maps are mostly unit triangular up to permutation: then no division by an expression occurs.
    """
    import casadi

    W = casadi.SX(matrix.to_casadi())
    n = W.shape[0]
    left = [[W[i, j] for j in range(n)] for i in range(n)]
    right = [[casadi.SX(1.0 if i == j else 0.0) for j in range(n)] for i in range(n)]
    row_of: dict[int, int] = {}
    free = set(range(n))
    columns = sorted(range(n), key=lambda j: sum(not left[i][j].is_zero() for i in range(n)))
    for j in columns:
        candidates = [i for i in free if not left[i][j].is_zero()]
        if not candidates:
            raise ModelError(
                "velocity(q, v) does not determine v: the map is singular (two new velocities depend on each other)."
            )
        pivot = min(candidates, key=lambda i: (not left[i][j].is_constant(), sum(not e.is_zero() for e in left[i])))
        free.discard(pivot)
        row_of[j] = pivot
        value = left[pivot][j]
        if not value.is_one():
            left[pivot] = [e / value if not e.is_zero() else e for e in left[pivot]]
            right[pivot] = [e / value if not e.is_zero() else e for e in right[pivot]]
        for i in range(n):
            factor = left[i][j]
            if i == pivot or factor.is_zero():
                continue
            left[i] = [a if b.is_zero() else a - factor * b for a, b in zip(left[i], left[pivot], strict=True)]
            right[i] = [a if b.is_zero() else a - factor * b for a, b in zip(right[i], right[pivot], strict=True)]
            left[i][j] = casadi.SX(0.0)
    rows = [casadi.horzcat(*right[row_of[j]]) for j in range(n)]
    return casadi.ArrayInterface(casadi.sparsify(casadi.vertcat(*rows)), 2)


def _sx(x: Array):
    import casadi

    return casadi.SX(x.to_casadi()) if is_symbolic(x) else casadi.SX(casadi.DM(np.atleast_2d(x)))
