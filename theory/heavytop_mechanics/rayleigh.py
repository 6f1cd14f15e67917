"""Rayleigh dissipation with moving fluid (thesis, eqs 3.40 and 3.76 to 3.79, errata 0.25, 0.29).

``R = 1/2 sum_p d_p |r_p' - v_p^D|^2 >= 0`` in W; its force ``f^D = dR/dv`` is on the left-hand side. For a fluid at rest the
dissipated power is ``2 R``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, concatenate, transpose
from heavytop.coordinates import Coordinates
from heavytop.errors import wrong_shape
from heavytop.geometry import se3, so3
from heavytop_mechanics.functions import Evaluator, Function, gradient, scalar_function, shapes, weighted_points


def dissipation_force(coordinates: Coordinates, dissipation: Function) -> Evaluator:
    """``f^D = dR/dv`` as a function of (q, v, t) (eq. 3.40).

    Examples
    --------
    >>> from heavytop.coordinates import Vector
    >>> wind = 2.0
    >>> dissipation_force(Vector(1), lambda q, v: 0.5 * 3.0 * (v[0] - wind) ** 2)([0.0], [5.0])
    array([9.])
    """
    rayleigh = scalar_function(dissipation, 2, "a dissipation function")
    return Evaluator(lambda q, v, t: gradient(rayleigh(q, v, t), v), shapes(coordinates, "q v t"), "rayleigh")


class BodyDamping(NamedTuple):
    """Total damping d, centre of damping l (3,) and moment of damping Upsilon (3, 3) about the body origin (eq. 3.76)."""

    total: Array
    center: Array
    moment: Array

    @property
    def matrix(self) -> Array:
        """``D = [d I, d wed(l)^T; d wed(l), Upsilon]`` (6, 6) of eq. 3.77."""
        first = self.total * so3.wed(self.center)
        return np.block([[self.total * np.eye(3), -first], [first, self.moment]])


def body_damping(coefficients: Array, points: Array) -> BodyDamping:
    """The damping parameters of particles with drag coefficients (n,) in N s/m at body points (n, 3). Numbers only.

    Examples
    --------
    >>> float(body_damping([1.0, 3.0], [[0, 0, 0], [1, 0, 0]]).center[0])
    0.75
    """
    d, h = weighted_points(coefficients, points, "points of a damping")
    total = d.sum()
    center = d @ h / total if total else np.zeros(3)
    wedges = so3.wed(h)
    return BodyDamping(total, center, np.sum(d[:, None, None] * (transpose(wedges) @ wedges), axis=0))


def body_drag(coefficients: Array, points: Array, rotation: Array, twist: Array, fluid: Array) -> np.ndarray:
    """``f^D`` (..., 6) of a body in any fluid (eq. 3.77 with erratum 0.29).

    Parameters
    ----------
    coefficients, points : drag coefficients (n,) and body points (n, 3).
    rotation : attitude (..., 3, 3). twist : body velocity (..., 6), linear and angular.
    fluid : velocities of the fluid at the particles in world coordinates (..., n, 3).

    ``D xi - sum_p d_p [I; wed(h_p)] R^T v_Dp``.
    """
    d, h = np.asarray(coefficients, dtype=float), np.asarray(points, dtype=float)
    fluid = np.asarray(fluid, dtype=float)
    if fluid.ndim < 2 or fluid.shape[-2:] != h.shape:
        raise wrong_shape("fluid velocities", ("...", *h.shape), fluid.shape)
    carried = d[:, None] * (fluid @ np.asarray(rotation, dtype=float))  # rows R^T v_Dp
    moments = np.cross(np.broadcast_to(h, carried.shape), carried)
    own = np.matvec(body_damping(d, h).matrix, twist)
    return own - concatenate(np.sum(carried, axis=-2), np.sum(moments, axis=-2))


def relative_twist(pose: Array, twist: Array, fluid_pose: Array, fluid_twist: Array) -> Array:
    """``xi_E = xi - Ad(G^-1 G_R) xi_R`` (..., 6): body velocity relative to a fluid that moves like a rigid body (eq. 3.78).

    The force is ``D xi_E`` (eq. 3.79). Numbers or symbols.
    """
    return twist - np.matvec(se3.Ad(se3.inverse(pose) @ fluid_pose), fluid_twist)
