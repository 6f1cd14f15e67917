"""Hamilton quaternions, scalar first (w, x, y, z): unit ones as rotations, any as rotations with scaling.

A quaternion ``A = (w, v)`` acts on a point as ``A (0, x) A* = (0, s R x)`` with the scale ``s = |A|^2`` (document 001,
eqs 18-27). Unit quaternions have ``s = 1``; ``q`` and ``-q`` mean the same rotation.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import (
    Array,
    components,
    concatenate,
    entry,
    is_symbolic,
    matrix,
    numbers,
    part,
    scale,
    trailing,
    transpose,
    vector,
)
from heavytop.errors import ShapeError
from heavytop.geometry import series


def _quaternion(value: Array) -> Array:
    return trailing(value, (4,), "a quaternion (w, x, y, z)")


def _nonzero(value: Array) -> Array:
    a = _quaternion(value)
    if not is_symbolic(a) and np.any(np.vecdot(a, a) == 0.0):
        raise ShapeError("a quaternion must not be zero here: it has no direction.")
    return a


def real(a: Array) -> Array:
    """Scalar part (...) of a quaternion (..., 4)."""
    return entry(_quaternion(a), 0)


def imaginary(a: Array) -> Array:
    """Vector part (..., 3) of a quaternion (..., 4)."""
    return part(_quaternion(a), 1, 4)


def multiply(a: Array, b: Array) -> Array:
    """Hamilton product of two quaternions (..., 4) (001 eq. 4).

    >>> multiply([0, 1, 0, 0], [0, 0, 1, 0])
    array([0., 0., 0., 1.])
    """
    aw, ax, ay, az = components(_quaternion(a))
    bw, bx, by, bz = components(_quaternion(b))
    return vector(
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by + ay * bw + az * bx - ax * bz,
        aw * bz + az * bw + ax * by - ay * bx,
    )


def conjugate(a: Array) -> Array:
    """``(w, -v)``."""
    w, x, y, z = components(_quaternion(a))
    return vector(w, -x, -y, -z)


def norm(a: Array) -> Array:
    """Length ``|A| = sqrt(A A*)`` (...)."""
    a = _quaternion(a)
    return np.sqrt(np.vecdot(a, a))


def normalize(a: Array) -> Array:
    """The unit quaternion along ``a``, which must not be zero."""
    a = _nonzero(a)
    return scale(1.0 / norm(a), a, 1)


def inverse(a: Array) -> Array:
    """``A* / |A|^2`` (001 eq. 9), for ``A`` other than zero."""
    a = _nonzero(a)
    return scale(1.0 / np.vecdot(a, a), conjugate(a), 1)


def left_matrix(a: Array) -> Array:
    """The matrix phi(A) (..., 4, 4) of multiplication from the left: ``A B = phi(A) B`` (001 eqs 10-17)."""
    w, x, y, z = components(_quaternion(a))
    return matrix([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])


def right_matrix(a: Array) -> Array:
    """The matrix (..., 4, 4) of multiplication from the right: ``B A = right_matrix(A) B``; it equals T phi(A)^T T."""
    w, x, y, z = components(_quaternion(a))
    return matrix([[w, -x, -y, -z], [x, w, z, -y], [y, -z, w, x], [z, y, -x, w]])


def rate_matrix(a: Array) -> Array:
    """The matrix Q(q) (..., 4, 3) of ``q' = 1/2 Q(q) omega`` with the body angular velocity omega.

    ``Q^T Q = |q|^2 I`` and ``Q^T q = 0``.
    """
    w, x, y, z = components(_quaternion(a))
    return matrix([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]])


def angular_velocity(a: Array, rate: Array) -> Array:
    """Body angular velocity (..., 3) of a quaternion with time derivative ``rate``: ``2 Q(q)^T q' / |q|^2``."""
    a = _nonzero(a)
    return scale(2.0 / np.vecdot(a, a), np.matvec(transpose(rate_matrix(a)), _quaternion(rate)), 1)


def scaled_rotation(a: Array) -> Array:
    """The matrix ``s R`` (..., 3, 3) of ``A (0, x) A* = (0, s R x)``, defined for every ``A`` (001 eq. 24)."""
    w, x, y, z = components(_quaternion(a))
    ww, xx, yy, zz = w * w, x * x, y * y, z * z
    wx, wy, wz, xy, xz, yz = 2 * w * x, 2 * w * y, 2 * w * z, 2 * x * y, 2 * x * z, 2 * y * z
    return matrix(
        [
            [ww + xx - yy - zz, xy - wz, xz + wy],
            [xy + wz, ww - xx + yy - zz, yz - wx],
            [xz - wy, yz + wx, ww - xx - yy + zz],
        ]
    )


def rotation_from_quaternion(q: Array) -> Array:
    """Rotation matrix (..., 3, 3), body to world, of a unit quaternion (..., 4).

    For a quaternion that is not a unit one use :func:`scale_rotation_from_quaternion`.

    >>> rotation_from_quaternion([0.0, 0.0, 0.0, 1.0])
    array([[-1.,  0.,  0.],
           [ 0., -1.,  0.],
           [ 0.,  0.,  1.]])
    """
    w, x, y, z = components(_quaternion(q))
    xx, yy, zz = 2 * x * x, 2 * y * y, 2 * z * z
    wx, wy, wz, xy, xz, yz = 2 * w * x, 2 * w * y, 2 * w * z, 2 * x * y, 2 * x * z, 2 * y * z
    return matrix(
        [
            [1 - (yy + zz), xy - wz, xz + wy],
            [xy + wz, 1 - (xx + zz), yz - wx],
            [xz - wy, yz + wx, 1 - (xx + yy)],
        ]
    )


def scale_rotation_from_quaternion(a: Array) -> tuple[Array, Array]:
    """Scale ``s = |A|^2`` (...) and rotation ``R`` (..., 3, 3) of a quaternion other than zero (001 eqs 18-27)."""
    a = _nonzero(a)
    s = np.vecdot(a, a)
    return s, scale(1.0 / s, scaled_rotation(a), 2)


def quaternion_from_rotation(R: Array) -> Array:
    """Unit quaternion (..., 4) with ``w >= 0`` of a rotation matrix (..., 3, 3).

    Takes the longest column of ``4 q q^T``, so it is accurate for every angle, half turns (of open sign) included.

    >>> quaternion_from_rotation(np.diag([1.0, -1.0, -1.0]))
    array([0., 1., 0., 0.])
    """
    R = trailing(R, (3, 3), "a rotation matrix")
    xx, yy, zz = entry(R, 0, 0), entry(R, 1, 1), entry(R, 2, 2)
    wx, wy, wz = (entry(R, i, j) - entry(R, j, i) for i, j in ((2, 1), (0, 2), (1, 0)))
    xy, xz, yz = (entry(R, i, j) + entry(R, j, i) for i, j in ((1, 0), (2, 0), (2, 1)))
    dw, dx, dy, dz = 1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz
    columns = ((dw, wx, wy, wz), (wx, dx, xy, xz), (wy, xy, dy, yz), (wz, xz, yz, dz))
    # first the longer of each pair, then the longer of the two; the longest diagonal entry is at least 1
    first, upper = dw >= dx, np.maximum(dw, dx)
    second, lower = dy >= dz, np.maximum(dy, dz)
    pair = upper >= lower
    q = vector(
        *(np.where(pair, np.where(first, a, b), np.where(second, c, d)) for a, b, c, d in zip(*columns, strict=True))
    )
    sign = np.where(entry(q, 0) < 0.0, -1.0, 1.0)
    return scale(sign / np.sqrt(np.vecdot(q, q)), q, 1)


def quaternion_from_scale_rotation(s: Array, R: Array) -> Array:
    """The quaternion ``A`` with ``w >= 0`` and ``A (0, x) A* = (0, s R x)``, for ``s > 0`` (001 eqs 28-31).

    The other solution is ``-A``.
    """
    if not is_symbolic(s) and np.any(~(numbers(s, "a scale") > 0.0)):
        raise ShapeError(f"a scale must be positive, got {s!r}.")
    return scale(np.sqrt(s), quaternion_from_rotation(R), 1)


def exp(phi: Array) -> Array:
    """Unit quaternion (..., 4) of a rotation vector (..., 3): ``(cos(theta/2), sin(theta/2) phi / theta)``.

    >>> exp([np.pi, 0.0, 0.0]).round(15)
    array([0., 1., 0., 0.])
    """
    phi = trailing(phi, (3,), "a rotation vector")
    sine, cosine = series.half_angle(np.vecdot(phi, phi))
    return concatenate(vector(cosine), scale(0.5 * sine, phi, 1))


def log(q: Array) -> Array:
    """Rotation vector (..., 3), at most pi long, of a unit quaternion (..., 4); ``q`` and ``-q`` give the same."""
    q = _quaternion(q)
    w, v = entry(q, 0), part(q, 1, 4)
    sign = np.where(w < 0.0, -1.0, 1.0)
    return scale(2.0 * sign * series.arctangent(np.vecdot(v, v), sign * w), v, 1)
