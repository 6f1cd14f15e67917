"""The free body in six unified velocities (doc 002, sections 3 and 4): Gibbs-Appell without angular velocities.

``w_i = b_i . v(y_i)``, the speeds of six body points along six directions, are the only velocities (:class:`UnifiedPose`). The
velocity field ``v(y) = N(y) w`` gives the mass matrix and the quadratic forces by integration over the body:

    M w' + Gamma(w) w = Q,     M = sum m N^T N,     Gamma = sum m N^T P,     P = E'(w) N      (eqs 41 to 51)

Closed forms and Newton-Euler follow from ``w = D xi`` with ``D^-1``, which is ``D^T`` for unit lengths only (erratum 2.11).
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, as_array, block, from_columns, part, scale, transpose, vector
from heavytop.coordinates import UnifiedPose
from heavytop.geometry import se3, so3
from heavytop_mechanics.functions import solve, weighted_points


def basis_rate(unified: UnifiedPose, w: Array) -> Array:
    """``E'`` (..., 3, 3) with columns ``v(e_i) - v(0)``: the rates of the body axes in body coordinates (eqs 36, 40).

    It is ``wed(Omega)``, found from velocity differences alone.
    """
    w = as_array(w)
    axes = np.eye(3)
    rest = np.matvec(unified.interpolation_matrix(np.zeros(3)), w)
    return from_columns(*(np.matvec(unified.interpolation_matrix(axes[i]), w) - rest for i in range(3)))


def point_velocity(unified: UnifiedPose, point: Array, w: Array) -> Array:
    """``v(y) = N(y) w`` (..., 3) in body coordinates (eq. 26)."""
    return np.matvec(unified.interpolation_matrix(point), as_array(w))


def acceleration_matrix(unified: UnifiedPose, point: Array, w: Array) -> Array:
    """``P(y, w) = E'(w) N(y)`` (..., 3, 6) (eq. 42)."""
    return basis_rate(unified, w) @ unified.interpolation_matrix(point)


def point_acceleration(unified: UnifiedPose, point: Array, w: Array, w_rate: Array) -> Array:
    """``v' = N w' + P w`` (..., 3) in body coordinates (eq. 41)."""
    turned = np.matvec(acceleration_matrix(unified, point, w), as_array(w))
    return np.matvec(unified.interpolation_matrix(point), as_array(w_rate)) + turned


def gibbs_function(unified: UnifiedPose, masses: Array, points: Array, w: Array, w_rate: Array) -> Array:
    """``G = 1/2 sum m |v'|^2`` (...) (eq. 44)."""
    total: Array = 0.0
    for m, y in _particles(masses, points):
        acceleration = point_acceleration(unified, y, w, w_rate)
        total = total + 0.5 * m * np.vecdot(acceleration, acceleration)
    return total


def _particles(masses: Array, points: Array) -> list[tuple[float, np.ndarray]]:
    return list(zip(*weighted_points(masses, points, "points of particles"), strict=True))


def mass_matrix(unified: UnifiedPose, masses: Array, points: Array) -> np.ndarray:
    """``M = sum m N^T N`` (6, 6) (eq. 48): constant. Numbers only."""
    matrices = [(m, unified.interpolation_matrix(y)) for m, y in _particles(masses, points)]
    return sum((m * n.T @ n for m, n in matrices), np.zeros((6, 6)))


def gamma_matrix(unified: UnifiedPose, masses: Array, points: Array, w: Array) -> Array:
    """``Gamma(w) = sum m N^T P`` (..., 6, 6) (eq. 49)."""
    total: Array = np.zeros((6, 6))
    for m, y in _particles(masses, points):
        total = total + m * transpose(unified.interpolation_matrix(y)) @ acceleration_matrix(unified, y, w)
    return total


def closed_mass_matrix(unified: UnifiedPose, mass: float, inertia: Array) -> np.ndarray:
    """``M = D^-T diag(m I, J) D^-1`` (6, 6), reference point at the centre of mass (eqs 56, 60, erratum 2.11)."""
    inverse = unified.inverse_matrix
    return inverse.T @ _newton_euler_mass(mass, inertia) @ inverse


def closed_gamma_matrix(unified: UnifiedPose, mass: float, inertia: Array, w: Array) -> Array:
    """``D^-T diag(E' m, E' J) D^-1`` (..., 6, 6) (eq. 56).

    As a matrix it is not (49); applied to ``w`` both give the same force (erratum 2.10).
    """
    inverse = unified.inverse_matrix
    turn = basis_rate(unified, w)
    zero = np.zeros((3, 3))
    middle = block([[turn * mass, zero], [zero, turn @ np.asarray(inertia, dtype=float)]])
    return inverse.T @ middle @ inverse


def _newton_euler_mass(mass: float, inertia: Array) -> np.ndarray:
    zero = np.zeros((3, 3))
    return np.block([[mass * np.eye(3), zero], [zero, np.asarray(inertia, dtype=float)]])


def hexahedral_force(mass: float, moments: Array, w: Array) -> Array:
    """``Gamma w`` (..., 6) written out for the hexahedral set of unit lengths and principal moments (eq. 61, erratum 2.12)."""
    j1, j2, j3 = np.asarray(moments, dtype=float)
    w = as_array(w)
    w1, w2, w3, w4, w5, w6 = (w[i] if len(w.shape) == 1 else w[..., i] for i in range(6))
    x = mass * ((w1 + w2) * (w4 - w3) + (w5 - w6) * (w5 + w6))
    y = mass * (w1 * w1 - w2 * w2 - (w3 + w4) * (w5 - w6))
    z = mass * (w3 * w3 - w4 * w4 - (w1 - w2) * (w5 + w6))
    a = (j2 - j1) * (w3 + w4) * (w5 + w6)
    b = (j3 - j2) * (w1 + w2) * (w5 + w6)
    c = (j1 - j3) * (w1 + w2) * (w3 + w4)
    return vector(x + a, a - x, y + b, b - y, z + c, c - z) / (2 * np.sqrt(2))


def generalised_force(unified: UnifiedPose, point: Array, force: Array) -> Array:
    """``Q = N^T f`` (..., 6) of a force ``f`` (..., 3) in body coordinates at a body point (eqs 52, 53)."""
    return np.matvec(transpose(unified.interpolation_matrix(point)), as_array(force))


def wrench(unified: UnifiedPose, force: Array) -> Array:
    """``D^T Q`` (..., 6): the wrench (linear, angular) with the same power, conjugate to ``xi`` (eqs 62 to 64)."""
    return np.matvec(unified.matrix.T, as_array(force))


def force_of_wrench(unified: UnifiedPose, wrench: Array) -> Array:
    """``Q = D^-T f`` (..., 6): inverse of :func:`wrench`."""
    return np.matvec(unified.inverse_matrix.T, as_array(wrench))


def acceleration(unified: UnifiedPose, mass: float, inertia: Array, w: Array, force: Array | None = None) -> Array:
    """``w'`` (..., 6) of ``M w' + Gamma w = Q`` (eq. 51), reference point at the centre of mass.

    Examples
    --------
    >>> pose = UnifiedPose("hexahedral")
    >>> xi = np.array([0, 0, 0, 1.0, 1, 1])
    >>> rate = acceleration(pose, 1.0, np.diag([1.0, 2, 3]), pose.unified_velocity(xi))
    >>> pose.body_velocity(rate).round(6) + 0.0
    array([ 0.      ,  0.      ,  0.      , -1.      ,  1.      , -0.333333])
    """
    bias = np.matvec(closed_gamma_matrix(unified, mass, inertia, w), as_array(w))
    right = -bias if force is None else as_array(force) - bias
    return solve(closed_mass_matrix(unified, mass, inertia), right)


def motion_vector_rate(unified: UnifiedPose, motion: Array, w: Array) -> Array:
    """``n' = T^-1(n) D^-1 w`` (..., 6): rate of the incremental motion vector (eqs 11, 72 to 78, errata 2.2 to 2.7)."""
    return np.matvec(se3.tangent_inverse(motion), unified.body_velocity(as_array(w)))


def motion_vector_operator(unified: UnifiedPose, motion: Array) -> Array:
    """``T^-1 D^-1 = D^-1 + T1 / 2 + K T2`` (..., 6, 6) written out (eqs 73 to 78, errata 2.3 to 2.7).

    ``T1 = [wed(n_R), wed(n_T); 0, wed(n_R)] D^-1``, ``T2 = [wed(n_R)^2, wed(n_T) wed(n_R) + wed(n_R) wed(n_T); 0, wed(n_R)^2] D^-1``.
    """
    from heavytop.geometry import series

    motion = as_array(motion)
    n_t, n_r = part(motion, 0, 3), part(motion, 3, 6)
    z = np.vecdot(n_r, n_r)
    k1, k2 = series.cotangent(z), np.vecdot(n_r, n_t) * series.cotangent_slope(z)
    t, r = so3.wed(n_t), so3.wed(n_r)
    zero = np.zeros((3, 3))
    square = r @ r
    first = block([[r, t], [zero, r]])
    second = block([[square, t @ r + r @ t], [zero, square]])
    third = block([[zero, square], [zero, zero]])
    total = np.eye(6) + 0.5 * first + scale(k1, second, 2) + scale(k2, third, 2)
    return total @ unified.inverse_matrix
