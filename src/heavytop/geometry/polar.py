"""Special polar decomposition ``M = R Wed(K)`` and the problems it solves (section 2.4).

Any 3x3 matrix is a rotation times a symmetric matrix ``Wed(K)`` with ``K`` positive semidefinite. The rotation has the
least ``-tr(M^T R)`` in SO(3) and ``K`` is the Hessian of that function there: Wahba's problem, the closest rotation and
the rest attitude of springs are problems of this kind. Numeric, with leading batch axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, Flags, Floats, trailing, transpose, vector
from heavytop.errors import ShapeError, wrong_shape
from heavytop.geometry import linalg, so3


class ProperSVD(NamedTuple):
    """``P = X diag(sigma) Y^T`` with rotations X, Y (..., 3, 3) and ``sigma_1 >= sigma_2 >= |sigma_3|`` (..., 3)."""

    X: Floats
    sigma: Floats
    Y: Floats


@dataclass(frozen=True, eq=False)
class SpecialPolar:
    """Result of :func:`special_polar`.

    Attributes
    ----------
    R : (..., 3, 3) rotation.
    K : (..., 3, 3) symmetric, positive semidefinite, with ``M = R Wed(K)``.
    eigenvalues : (..., 3) eigenvalues of ``K``, ascending.
    rotation_unique : (...) whether the rotation is unique; if and only if ``K`` is positive definite.
    stiffness_unique : (...) whether ``K`` is unique; not if and only if ``det M < 0`` and the two smaller singular
        values are equal (erratum 0.20).
    """

    R: Floats
    K: Floats
    eigenvalues: Floats
    rotation_unique: Flags
    stiffness_unique: Flags


@dataclass(frozen=True, eq=False)
class Wahba:
    """Result of :func:`wahba`: rotation (..., 3, 3), least cost (...), its Hessian (..., 3, 3), uniqueness (...)."""

    R: Floats
    cost: Floats
    hessian: Floats
    unique: Flags


def proper_svd(P: Array) -> ProperSVD:
    """Singular value decomposition with proper rotations (eq. 2.62); the last value has the sign of ``det P``."""
    X, sigma, Y = linalg.singular_values(_finite(P))
    sign_x, sign_y = (np.where(np.linalg.det(Q) < 0.0, -1.0, 1.0) for Q in (X, Y))
    sigma = np.concatenate([sigma[..., :2], (sign_x * sign_y)[..., None] * sigma[..., 2:]], axis=-1)
    return ProperSVD(_flip_last(X, sign_x), sigma, _flip_last(Y, sign_y))


def lambda_from_sigma(sigma: Array) -> Floats:
    """Eigenvalues of ``Vee(diag(sigma))``: ``(s2 + s3, s3 + s1, s1 + s2)`` (eq. 2.66), ascending for ordered ``sigma``.

    >>> lambda_from_sigma([3.0, 2.0, -1.0])
    array([1., 2., 5.])
    """
    s1, s2, s3 = np.moveaxis(np.asarray(sigma, dtype=float), -1, 0)
    return vector(s2 + s3, s3 + s1, s1 + s2)


def sigma_from_lambda(lam: Array) -> Floats:
    """Inverse of :func:`lambda_from_sigma` (eq. 2.66)."""
    lam = np.asarray(lam, dtype=float)
    return 0.5 * np.sum(lam, axis=-1, keepdims=True) - lam


def special_polar(M: Array, tolerance: float = 1e-12) -> SpecialPolar:
    """Decompose ``M = R Wed(K)`` (..., 3, 3) (end of section 2.4, erratum 0.20).

    ``tolerance``, relative to the largest singular value, decides which eigenvalues of ``K`` count as zero.

    >>> polar = special_polar(np.diag([1.0, 1.0, -1.0]))
    >>> bool(polar.rotation_unique), bool(polar.stiffness_unique)
    (False, False)
    """
    X, sigma, Y = proper_svd(transpose(np.asarray(M, dtype=float)))
    lam = lambda_from_sigma(sigma)
    threshold = tolerance * sigma[..., 0]
    rotation_unique = lam[..., 0] > threshold
    K = X @ (lam[..., :, None] * transpose(X))
    return SpecialPolar(
        R=Y @ transpose(X),
        K=0.5 * (K + transpose(K)),
        eigenvalues=np.maximum(lam, 0.0),
        rotation_unique=rotation_unique,
        stiffness_unique=rotation_unique | (sigma[..., 1] <= threshold),
    )


def wahba(u: Array, v: Array, weights: Array | None = None) -> Wahba:
    """The rotation that minimises ``sum_k w_k |u_k - R v_k|^2`` for vectors (..., n, 3) (eq. 2.58, erratum 0.17).

    >>> v = np.eye(3)
    >>> wahba(v @ so3.rotation_about("x", 0.5).T, v).R.round(3)
    array([[ 1.   ,  0.   ,  0.   ],
           [ 0.   ,  0.878, -0.479],
           [ 0.   ,  0.479,  0.878]])
    """
    u, v = np.asarray(u, dtype=float), np.asarray(v, dtype=float)
    if u.ndim < 2 or v.ndim < 2 or u.shape[-1] != 3 or u.shape[-2:] != v.shape[-2:]:
        raise wrong_shape(
            "the vectors u and v", ("...", "n", 3), u.shape, f"v has shape {v.shape}; both need the same n."
        )
    w = np.ones(u.shape[-2]) if weights is None else np.asarray(weights, dtype=float)
    # cost = const - 2 tr(P R) with P = sum w v u^T, so the Hessian is twice that of -tr(P R)
    polar = special_polar(transpose(u) @ (w[..., :, None] * v))
    residual = u - v @ transpose(polar.R)
    cost = np.sum(w[..., :, None] * residual * residual, axis=(-2, -1))
    return Wahba(polar.R, cost, 2.0 * polar.K, polar.rotation_unique)


def closest_rotation(Q: Array, K: Array | None = None) -> Floats:
    """The rotation ``R`` (..., 3, 3) with the least ``tr((Q - R)^T K (Q - R))`` (eq. 2.60), ``K = I`` by default.

    It is the rotation of the special polar decomposition of ``K Q``.
    """
    Q = np.asarray(Q, dtype=float)
    return special_polar(Q if K is None else np.asarray(K, dtype=float) @ Q).R


def navigation_function(R: Array, reference: Array, K: Array) -> Array:
    """``tr(K (I - R_R^T R))`` (...), numbers or symbols (eq. 2.59).

    For positive definite ``K`` it is zero at ``R = reference`` and positive elsewhere.
    """
    R, reference, K = (trailing(value, (3, 3), "a matrix") for value in (R, reference, K))
    return so3.trace(K @ (np.eye(3) - transpose(reference) @ R))


def _flip_last(Q: np.ndarray, sign: np.ndarray) -> np.ndarray:
    return np.concatenate([Q[..., :2], sign[..., None, None] * Q[..., 2:]], axis=-1)


def _finite(P: Array) -> Floats:
    P = trailing(P, (3, 3), "a matrix to decompose")
    if not np.all(np.isfinite(P)):
        raise ShapeError(f"a matrix to decompose must be finite, got {P.tolist()}.")
    return P
