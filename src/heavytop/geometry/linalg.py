"""Linear algebra: pseudo-inverse, matrix sets, weighted inner product, ordered singular values.

Numeric, with leading batch axes; the inner product and the closed-form pseudo-inverses also take symbols.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, Flags, Floats, as_array, finite_matrix, flatten_columns, transpose
from heavytop.errors import ShapeError

_EPS = np.finfo(float).eps


class SingularValues(NamedTuple):
    """``M = X diag(sigma) Y^T``: X (..., n, n), sigma (..., p) descending with p = min(n, m), Y (..., m, m)."""

    X: Floats
    sigma: Floats
    Y: Floats


def singular_values(M: Array) -> SingularValues:
    """Singular value decomposition (section 2.3.4, erratum 0.16) of a matrix (..., n, m), in descending order.

    >>> singular_values([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]).sigma
    array([2., 1.])
    """
    X, sigma, Yt = np.linalg.svd(finite_matrix(M, "the matrix of singular_values"))
    return SingularValues(X, sigma, transpose(Yt))


def pseudo_inverse(S: Array, tolerance: float | None = None) -> Floats:
    """Moore-Penrose inverse (..., n, m) of any matrix (..., m, n), rank-deficient ones included (eq. 2.9).

    Singular values below ``tolerance`` times the largest count as zero; by default ``max(m, n)`` machine precisions.

    >>> pseudo_inverse([[1.0, 1.0], [1.0, 1.0]])
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """
    S = finite_matrix(S, "the matrix of pseudo_inverse")
    relative = max(S.shape[-2:]) * _EPS if tolerance is None else tolerance
    X, sigma, Yt = np.linalg.svd(S, full_matrices=False)
    kept = sigma > relative * np.max(sigma, axis=-1, keepdims=True, initial=0.0)
    with np.errstate(over="ignore"):
        reciprocal = np.where(kept, 1.0 / np.where(kept, sigma, 1.0), 0.0)
    if not np.all(np.isfinite(reciprocal)):
        raise ShapeError("the matrix of pseudo_inverse is too small: the inverse would exceed the largest number.")
    return transpose(Yt) @ (reciprocal[..., :, None] * transpose(X))


def left_inverse(S: Array) -> Array:
    """``(S^T S)^-1 S^T``: the pseudo-inverse of a matrix with independent columns; numbers or symbols."""
    S = as_array(S)
    St = transpose(S)
    return np.linalg.solve(St @ S, St)


def right_inverse(S: Array) -> Array:
    """``S^T (S S^T)^-1``: the pseudo-inverse of a matrix with independent rows; numbers or symbols."""
    S = as_array(S)
    return transpose(np.linalg.solve(S @ transpose(S), S))


def penrose_residual(S: Array, inverse: Array) -> np.ndarray:
    """Largest violation (..., 4) of each of the four Penrose conditions (eq. 2.9a-d), zero for the pseudo-inverse."""
    S, inverse = np.asarray(S, dtype=float), np.asarray(inverse, dtype=float)
    left, right = S @ inverse, inverse @ S
    defects = (left @ S - S, right @ inverse - inverse, transpose(left) - left, transpose(right) - right)
    return np.stack([np.max(np.abs(defect), axis=(-2, -1), initial=0.0) for defect in defects], axis=-1)


def is_symmetric(A: Array, tolerance: float = 1e-12) -> Flags:
    """Whether ``A`` (..., n, n) is in SYM(n) (eq. 2.46a), up to ``tolerance`` times its largest entry."""
    A = np.asarray(A, dtype=float)
    return np.max(np.abs(A - transpose(A)), axis=(-2, -1)) <= tolerance * _size(A)


def is_positive_definite(A: Array, tolerance: float = 1e-12) -> Flags:
    """Whether ``A`` is in SYM+(n) (eq. 2.46b): its least eigenvalue exceeds ``tolerance`` times its largest entry."""
    A = np.asarray(A, dtype=float)
    return is_symmetric(A, tolerance) & (np.linalg.eigvalsh(A)[..., 0] > tolerance * _size(A))


def is_positive_semidefinite(A: Array, tolerance: float = 1e-12) -> Flags:
    """Whether ``A`` is in SYM0+(n) (eq. 2.46c): no eigenvalue below ``-tolerance`` times its largest entry.

    >>> bool(is_positive_semidefinite(np.diag([1.0, 0.0])))
    True
    """
    A = np.asarray(A, dtype=float)
    return is_symmetric(A, tolerance) & (np.linalg.eigvalsh(A)[..., 0] >= -tolerance * _size(A))


def is_unit(a: Array, tolerance: float = 1e-12) -> Flags:
    """Whether ``a`` (..., n) is on the unit sphere S^(n-1) (eq. 2.46d, erratum 0.15)."""
    a = np.asarray(a, dtype=float)
    return np.abs(np.vecdot(a, a) - 1.0) <= tolerance


def is_orthogonal(A: Array, tolerance: float = 1e-12) -> Flags:
    """Whether ``A`` (..., n, n) is in O(n) (eq. 2.46e)."""
    A = np.asarray(A, dtype=float)
    return np.max(np.abs(transpose(A) @ A - np.eye(A.shape[-1])), axis=(-2, -1)) <= tolerance


def is_rotation(R: Array, tolerance: float = 1e-12) -> Flags:
    """Whether ``R`` (..., n, n) is in SO(n) (eq. 2.46f)."""
    return is_orthogonal(R, tolerance) & (np.linalg.det(np.asarray(R, dtype=float)) > 0.0)


def is_pose(G: Array, tolerance: float = 1e-12) -> Flags:
    """Whether ``G`` (..., 4, 4) is in SE(3) (eq. 3.80)."""
    G = np.asarray(G, dtype=float)
    last_row = np.max(np.abs(G[..., 3, :] - np.array([0.0, 0.0, 0.0, 1.0])), axis=-1)
    return is_rotation(G[..., :3, :3], tolerance) & (last_row <= tolerance) & np.all(np.isfinite(G), axis=(-2, -1))


def inner(A: Array, B: Array, K: Array | None = None) -> Array:
    """Weighted inner product ``tr(A^T K B)`` (...) of matrices (..., n, m) (eqs 2.47, 3.91); Frobenius without ``K``.

    >>> float(inner([[1.0], [2.0]], [[3.0], [4.0]]))
    11.0
    """
    A, B = as_array(A), as_array(B)
    return np.vecdot(flatten_columns(A), flatten_columns(B if K is None else as_array(K) @ B))


def norm(A: Array, K: Array | None = None) -> Array:
    """Weighted norm ``sqrt(tr(A^T K A))`` (...) (eqs 2.48, 3.92)."""
    return np.sqrt(inner(A, A, K))


def distance(A: Array, B: Array, K: Array | None = None) -> Array:
    """Weighted metric ``|A - B|_K`` (...) (eqs 2.49, 3.92)."""
    return norm(as_array(A) - as_array(B), K)


def _size(A: np.ndarray) -> np.ndarray:
    return np.max(np.abs(A), axis=(-2, -1))
