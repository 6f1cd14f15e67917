"""The manifold of configurations (thesis, section 2.1): membership, dimension, hidden constraints, projectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, Flags
from heavytop.compile.trace import trace
from heavytop.coordinates.base import Coordinates
from heavytop.coordinates.derivatives import derivative_or_zero
from heavytop.geometry.linalg import pseudo_inverse


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
        first = derivative_or_zero(phi, q, rate)
        second = derivative_or_zero(first, q, rate) + derivative_or_zero(first, v, a)
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
