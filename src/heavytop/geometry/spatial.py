"""Spatial vectors in the ordering (angular, linear) of document 003, and the bridge to (linear, angular) twists.

A motion vector ``V = (omega, v_o)`` holds the angular velocity and the velocity of the body particle that is now at the
origin ``o``; a wrench ``F = (n_o, f)`` holds the moment about ``o`` and the force. ``X`` takes motion vectors, ``X*``
forces from the body frame of a pose to its world frame. Only this module uses the ordering (angular, linear).
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, Floats, block, concatenate, part, submatrix, trailing, transpose
from heavytop.geometry import se3, so3

_ZERO = np.zeros((3, 3))
_FIRST, _LAST = slice(0, 3), slice(3, 6)


def _halves(value: Array, what: str = "a spatial vector (angular, linear)") -> tuple[Array, Array]:
    x = trailing(value, (6,), what)
    return part(x, 0, 3), part(x, 3, 6)


def swap(x: Array) -> Array:
    """Exchange the halves of a vector (..., 6): (angular, linear) to (linear, angular) and back; forces alike.

    >>> swap([1, 2, 3, 4, 5, 6])
    array([4., 5., 6., 1., 2., 3.])
    """
    first, last = _halves(x, "a vector of six")
    return concatenate(last, first)


def swap_matrix(M: Array) -> Array:
    """``P M P`` (..., 6, 6) with the permutation P of :func:`swap`: ``P X P = Ad`` and ``P crm(V) P = ad``."""
    M = trailing(M, (6, 6), "a matrix")
    return block(
        [
            [submatrix(M, _LAST, _LAST), submatrix(M, _LAST, _FIRST)],
            [submatrix(M, _FIRST, _LAST), submatrix(M, _FIRST, _FIRST)],
        ]
    )


def permutation() -> Floats:
    """The matrix P (6, 6) of :func:`swap`; ``P P = I``."""
    return np.roll(np.eye(6), 3, axis=1)


def twist_of_motion(G: Array, xi: Array) -> Array:
    """Motion vector (..., 6) in world coordinates of a body with pose ``G`` and body twist ``xi`` (linear, angular)."""
    return np.matvec(motion_transform(G), swap(xi))


def point_velocity(V: Array, r: Array) -> Array:
    """Velocity (..., 3) of the body particle at ``r``: ``v_o + omega x r``.

    >>> point_velocity([0, 0, 2, 0, 0, 0], [1, 0, 0])
    array([0., 2., 0.])
    """
    omega, v = _halves(V)
    return v + np.cross(omega, trailing(r, (3,), "a point"))


def point_acceleration(V: Array, A: Array, r: Array) -> Array:
    """Conventional acceleration (..., 3) of the body particle at ``r`` (erratum 3.2).

    ``r'' = v_o' + omega' x r + omega x r'`` with the spatial acceleration ``A = (omega', v_o')``.
    """
    omega, _ = _halves(V)
    return point_velocity(A, r) + np.cross(omega, point_velocity(V, r))


def acceleration_from_point(V: Array, r: Array, acceleration: Array, angular_acceleration: Array) -> Array:
    """Spatial acceleration (..., 6) from the conventional ``acceleration`` of the body particle at ``r``."""
    omega, _ = _halves(V)
    r = trailing(r, (3,), "a point")
    rate = acceleration - np.cross(angular_acceleration, r) - np.cross(omega, point_velocity(V, r))
    return concatenate(angular_acceleration, rate)


def motion_transform(G: Array) -> Array:
    """``X = [R 0; wed(r) R, R]`` (..., 6, 6): motion vectors from the body frame of ``G`` to its world frame."""
    R = se3.rotation(G)
    return block([[R, _ZERO], [so3.wed(se3.position(G)) @ R, R]])


def motion_transform_inverse(G: Array) -> Array:
    """``X^-1 = [R^T 0; -R^T wed(r), R^T]`` (..., 6, 6)."""
    back = transpose(se3.rotation(G))
    return block([[back, _ZERO], [back @ so3.wed(-se3.position(G)), back]])


def force_transform(G: Array) -> Array:
    """``X* = X^-T = [R, wed(r) R; 0, R]`` (..., 6, 6): wrenches from the body frame of ``G`` to its world frame."""
    R = se3.rotation(G)
    return block([[R, so3.wed(se3.position(G)) @ R], [_ZERO, R]])


def force_transform_inverse(G: Array) -> Array:
    """``X*^-1 = X^T`` (..., 6, 6)."""
    return transpose(motion_transform(G))


def crm(V: Array) -> Array:
    """``[V x]`` (..., 6, 6): cross product of motion vectors, ``[wed(w) 0; wed(v) wed(w)]``."""
    omega, v = _halves(V)
    W = so3.wed(omega)
    return block([[W, _ZERO], [so3.wed(v), W]])


def crf(V: Array) -> Array:
    """``[V x*] = -[V x]^T`` (..., 6, 6): motion vector times force, ``[wed(w) wed(v); 0 wed(w)]``."""
    omega, v = _halves(V)
    W = so3.wed(omega)
    return block([[W, so3.wed(v)], [_ZERO, W]])


def cross_motion(V: Array, W: Array) -> Array:
    """``V x W`` (..., 6) of two motion vectors."""
    (omega, v), (eta, w) = _halves(V), _halves(W)
    return concatenate(np.cross(omega, eta), np.cross(omega, w) + np.cross(v, eta))


def cross_force(V: Array, F: Array) -> Array:
    """``V x* F`` (..., 6) of a motion vector and a force or momentum."""
    (omega, v), (n, f) = _halves(V), _halves(F)
    return concatenate(np.cross(omega, n) + np.cross(v, f), np.cross(omega, f))


def derivative_in_frame(rate: Array, frame: Array, V: Array) -> Array:
    """Coordinates in a moving frame of ``dV/dt``: ``rate + frame x V`` for a motion vector.

    ``rate`` is the time derivative of the coordinates ``V`` and ``frame`` the motion vector of the frame, in the frame.
    """
    return rate + cross_motion(frame, V)


def force_derivative_in_frame(rate: Array, frame: Array, F: Array) -> Array:
    """Coordinates in a moving frame of ``dF/dt``: ``rate + frame x* F`` for a force or momentum."""
    return rate + cross_force(frame, F)


def wrench_of_force(f: Array, r: Array) -> Array:
    """Wrench (..., 6) about the origin of a force ``f`` (..., 3) that acts at ``r`` (..., 3).

    The resultant of many forces is the sum of their wrenches.

    >>> wrench_of_force([0, 1, 0], [2, 0, 0])
    array([0., 0., 2., 0., 1., 0.])
    """
    f, r = trailing(f, (3,), "a force"), trailing(r, (3,), "a point")
    return concatenate(np.cross(r, f), f)


def shift_wrench(F: Array, r: Array) -> Array:
    """The wrench about another point: ``n_A = n_O + r x f`` with ``r`` from ``A`` to ``O``."""
    n, f = _halves(F)
    return concatenate(n + np.cross(trailing(r, (3,), "a shift"), f), f)


def shift_twist(V: Array, r: Array) -> Array:
    """The motion vector about another point: ``v_A = v_O + r x omega`` with ``r`` from ``A`` to ``O``."""
    omega, v = _halves(V)
    return concatenate(omega, v + np.cross(trailing(r, (3,), "a shift"), omega))


def power(V: Array, F: Array) -> Array:
    """Power (...) of a wrench on a body: ``V . F``, the same in every frame.

    With the screw of a joint for ``V`` it is the joint force or torque.
    """
    return np.vecdot(trailing(V, (6,), "a motion vector"), trailing(F, (6,), "a wrench"))


def revolute_screw(axis: Array, point: Array) -> Array:
    """Motion vector (..., 6) of a unit rate about ``axis`` through ``point``: ``(axis, point x axis)``."""
    unit = so3.unit_axis(axis)
    return concatenate(unit, np.cross(trailing(point, (3,), "a point"), unit))


def prismatic_screw(axis: Array) -> Array:
    """Motion vector (..., 6) of a unit rate along ``axis``: ``(0, axis)``."""
    unit = so3.unit_axis(axis)
    return concatenate(0.0 * unit, unit)
