"""Wrenches of rigid bodies: inertia, gravity, and springs between two poses.

A wrench is a force and a moment (..., 6) in body axes at the body origin, conjugate to the body twist.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, transpose
from heavytop.geometry import se3, so3


def inertia_wrench(mass: Array, xi: Array, xi_rate: Array, ad: Callable[[Array], Array] = se3.ad) -> Array:
    """``f^M = M xi' - ad(xi)^T M xi`` (..., 6) with the 6 x 6 inertia (eqs 3.55, 3.95a).

    With another bracket ``ad`` it is the force of any kinetic energy ``xi^T M xi / 2`` with constant ``M`` (..., n, n).
    """
    return np.matvec(mass, xi_rate) - np.matvec(transpose(ad(xi)), np.matvec(mass, xi))


def gravity_wrench(mass: Array, pose: Array, gravity: Array) -> Array:
    """``f^G = -M Ad(G^-1) (a_G, 0)`` (..., 6) with the 6 x 6 inertia (eqs 3.63, 3.95d, erratum 0.41).

    >>> gravity_wrench(2.0 * np.eye(6), np.eye(4), np.array([0.0, 0.0, -9.81]))
    array([-0.  , -0.  , 19.62, -0.  , -0.  , -0.  ])
    """
    falling = np.matvec(transpose(se3.rotation(pose)), gravity)
    return -np.matvec(mass, concatenate(falling, np.zeros(3)))


def stiffness_energy(moments: Array, pose: Array, rest: Array) -> Array:
    """``V^K - V_0 = tr((G - G_R) K' (G - G_R)^T) / 2`` (...) (eq. 3.93d, erratum 0.31)."""
    offset = as_array(pose) - rest
    return 0.5 * so3.trace(offset @ moments @ transpose(offset))


def stiffness_wrench(moments: Array, pose: Array, rest: Array) -> Array:
    """``f^K = vee2((I - G^-1 G_R) K')`` (..., 6): the gradient of :func:`stiffness_energy` (eq. 3.95c, erratum 0.45)."""
    return error_wrench(moments, se3.inverse(pose) @ rest)


def error_wrench(moments: Array, error: Array) -> Array:
    """``vee2((I - E) K')`` (..., 6): :func:`stiffness_wrench` in terms of the error pose ``E = G^-1 G_R``."""
    return se3.vee2((np.eye(4) - error) @ moments)


def acceleration_energy(moments: Array, xi: Array, xi_rate: Array) -> Array:
    """``S = tr(G'' M' G''^T) / 2`` (...) with ``G'' = G (wed(xi') + wed(xi)^2)`` and 4 x 4 moments of mass (eq. 3.93b)."""
    x = se3.wed(xi)
    second = se3.wed(xi_rate) + x @ x
    return 0.5 * so3.trace(second @ moments @ transpose(second))
