"""Rotations: the vee and wedge family on 3x3 matrices, exp, log, tangent operators, Cayley map, Euler angles.

Rotation matrices take body to world coordinates and ``R' = R wed(omega)`` with the body angular velocity omega. Every
function takes numbers with leading batch axes, or symbols.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    components,
    entry,
    is_symbolic,
    matrix,
    part,
    scale,
    trailing,
    transpose,
    vector,
)
from heavytop.errors import ModelError
from heavytop.geometry import quaternion, series


def _vector(value: Array, what: str = "a vector") -> Array:
    return trailing(value, (3,), what)


def _matrix(value: Array, what: str = "a matrix") -> Array:
    return trailing(value, (3, 3), what)


def trace(M: Array) -> Array:
    """Sum of the diagonal (...) of a square matrix (..., n, n).

    >>> float(trace(np.diag([1.0, 2.0, 3.0])))
    6.0
    """
    return sum(entry(M, i, i) for i in range(M.shape[-1]))


def wed(a: Array) -> Array:
    """Skew matrix (..., 3, 3) of a vector (..., 3): ``wed(a) b = a x b`` (eq. 2.51a).

    >>> wed([1.0, 2.0, 3.0])
    array([[ 0., -3.,  2.],
           [ 3.,  0., -1.],
           [-2.,  1.,  0.]])
    """
    x, y, z = components(_vector(a))
    return matrix([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def vee(W: Array) -> Array:
    """The vector of a skew matrix, inverse of :func:`wed`; reads the entries (2,1), (0,2), (1,0)."""
    W = _matrix(W)
    return vector(entry(W, 2, 1), entry(W, 0, 2), entry(W, 1, 0))


def vee2(M: Array) -> Array:
    """``vee(M - M^T)`` (eq. 2.53), defined by ``tr(M wed(w)^T) = w . vee2(M)``."""
    M = _matrix(M)
    return vector(
        entry(M, 2, 1) - entry(M, 1, 2),
        entry(M, 0, 2) - entry(M, 2, 0),
        entry(M, 1, 0) - entry(M, 0, 1),
    )


def Vee(M: Array) -> Array:
    """``tr(M) I - M`` (eq. 2.55), defined by ``tr(wed(w) M wed(e)^T) = e . Vee(M) w``; second moments to inertia.

    >>> Vee(np.ones((3, 3)))
    array([[ 2., -1., -1.],
           [-1.,  2., -1.],
           [-1., -1.,  2.]])
    """
    M = _matrix(M)
    xx, yy, zz = (entry(M, i, i) for i in range(3))
    return _minus_with_diagonal(M, yy + zz, zz + xx, xx + yy)


def Wed(K: Array) -> Array:
    """``tr(K)/2 I - K`` (eq. 2.56), the inverse of :func:`Vee`; inertia to second moments."""
    K = _matrix(K)
    xx, yy, zz = (entry(K, i, i) for i in range(3))
    return _minus_with_diagonal(K, 0.5 * (yy + zz - xx), 0.5 * (zz + xx - yy), 0.5 * (xx + yy - zz))


def _minus_with_diagonal(M: Array, *diagonal: Array) -> Array:
    return matrix([[diagonal[i] if i == j else -entry(M, i, j) for j in range(3)] for i in range(3)])


def _skew_polynomial(phi: Array, first: Array, second: Array) -> Array:
    """``I + first S + second S^2`` with ``S = wed(phi)``."""
    x, y, z = components(phi)
    sx, sy, sz = first * x, first * y, first * z
    px, py, pz = second * x, second * y, second * z
    xx, yy, zz, xy, xz, yz = px * x, py * y, pz * z, px * y, px * z, py * z
    return matrix(
        [
            [1.0 - (yy + zz), xy - sz, xz + sy],
            [xy + sz, 1.0 - (xx + zz), yz - sx],
            [xz - sy, yz + sx, 1.0 - (xx + yy)],
        ]
    )


def exp(phi: Array) -> Array:
    """Rotation matrix (..., 3, 3) of a rotation vector (..., 3) in rad (002 eq. 13).

    >>> exp([0.0, 0.0, np.pi / 2]).round(15)
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    phi = _vector(phi, "a rotation vector")
    sine, versine = series.sine_versine(np.vecdot(phi, phi))
    return _skew_polynomial(phi, sine, versine)


def log(R: Array) -> Array:
    """Rotation vector (..., 3), at most pi long, of a rotation matrix (..., 3, 3).

    Computed through the quaternion, accurate up to a half turn, where it is one of the two solutions.
    """
    return quaternion.log(quaternion.quaternion_from_rotation(R))


def angle(R: Array) -> Array:
    """Angle (...) of a rotation matrix, 0 to pi rad."""
    q = quaternion.quaternion_from_rotation(R)
    v = part(q, 1, 4)
    square = np.vecdot(v, v)
    length = np.sqrt(np.where(square > 0.0, square, 1.0))
    return np.where(square > 0.0, 2.0 * np.arctan2(length, entry(q, 0)), 0.0)


def tangent(phi: Array) -> Array:
    """Tangent operator T (..., 3, 3) of exp: ``R^T dR = wed(T(phi) dphi)`` (002 eqs 13, 15).

    ``T(phi)`` takes the rate of the rotation vector to the angular velocity in body, ``T(-phi)`` in world coordinates.
    """
    phi = _vector(phi, "a rotation vector")
    z = np.vecdot(phi, phi)
    _, versine = series.sine_versine(z)
    return _skew_polynomial(phi, -versine, series.cubic(z))


def tangent_inverse(phi: Array) -> Array:
    """Inverse of :func:`tangent` (002 eq. 16, erratum 2.3): body angular velocity to rate of the rotation vector.

    Its first singularity is at ``|phi| = 2 pi``.
    """
    phi = _vector(phi, "a rotation vector")
    return _skew_polynomial(phi, 0.5, series.cotangent(np.vecdot(phi, phi)))


def cayley(phi: Array) -> Array:
    """Cayley map ``(I - S/2)^-1 (I + S/2)`` with ``S = wed(phi)``: second-order copy of exp, no trigonometry."""
    phi = _vector(phi, "a rotation vector")
    factor = 4.0 / (4.0 + np.vecdot(phi, phi))
    return _skew_polynomial(phi, factor, 0.5 * factor)


def cayley_inverse(R: Array) -> Array:
    """The vector (..., 3) with ``cayley(phi) = R``: ``2 vee2(R) / (1 + tr R)``, for every rotation but half turns."""
    R = _matrix(R, "a rotation matrix")
    return scale(2.0 / (1.0 + trace(R)), vee2(R), 1)


def cayley_tangent(phi: Array) -> Array:
    """``4/(4 + phi.phi) (I - S/2)``: rate of ``phi`` to the body angular velocity of ``cayley(phi)``."""
    phi = _vector(phi, "a rotation vector")
    x, y, z = components(0.5 * phi)
    factor = 4.0 / (4.0 + np.vecdot(phi, phi))
    return scale(factor, matrix([[1.0, z, -y], [-z, 1.0, x], [y, -x, 1.0]]), 2)


def cayley_tangent_inverse(phi: Array) -> Array:
    """Inverse of :func:`cayley_tangent`: ``I + S/2 + phi phi^T/4``."""
    x, y, z = components(0.5 * _vector(phi, "a rotation vector"))
    xy, xz, yz = x * y, x * z, y * z
    return matrix(
        [
            [1.0 + x * x, xy - z, xz + y],
            [xy + z, 1.0 + y * y, yz - x],
            [xz - y, yz + x, 1.0 + z * z],
        ]
    )


def rotation_about(axis: Array | str, angle: Array) -> Array:
    """Rotation matrix (..., 3, 3) by ``angle`` (...) in rad about ``axis``: a vector of any length, or "x", "y", "z".

    >>> rotation_about("z", np.pi).round(15)
    array([[-1., -0.,  0.],
           [ 0., -1.,  0.],
           [ 0.,  0.,  1.]])
    """
    return rotation_from_circle(axis, np.cos(angle), np.sin(angle))


def rotation_from_circle(axis: Array | str, cosine: Array, sine: Array) -> Array:
    """Rotation matrix (..., 3, 3) about ``axis`` by the angle with the given cosine and sine (...)."""
    x, y, z = components(unit_axis(axis))
    versine = 1.0 - cosine
    xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
    return matrix(
        [
            [xx + (1.0 - xx) * cosine, xy * versine - z * sine, xz * versine + y * sine],
            [xy * versine + z * sine, yy + (1.0 - yy) * cosine, yz * versine - x * sine],
            [xz * versine - y * sine, yz * versine + x * sine, zz + (1.0 - zz) * cosine],
        ]
    )


def rotation_with_z(z: Array, x: Array | None = None) -> Floats:
    """Rotations (..., 3, 3) whose third column is the unit vector ``z`` (..., 3). Numbers only.

    The first column is in the plane of ``z`` and ``x`` (..., 3), by default of ``z`` and a coordinate axis far from it.

    >>> rotation_with_z([1.0, 0.0, 0.0])
    array([[0., 0., 1.],
           [1., 0., 0.],
           [0., 1., 0.]])
    """
    z = np.asarray(z, dtype=float)
    side = np.eye(3)[(np.argmax(np.abs(z), axis=-1) + 1) % 3] if x is None else np.asarray(x, dtype=float)
    for _ in range(2):  # the second time for the rounding of the first
        side = side - z * np.vecdot(side, z)[..., None]
        side = side / np.sqrt(np.vecdot(side, side))[..., None]
    side = without_rounding(side)
    return np.stack([side, without_rounding(np.cross(z, side)), z], axis=-1)


def without_rounding(x: Array, tolerance: float = 1e-15) -> Floats:
    """Unit vectors whose entries within ``tolerance`` of 0, 1 and -1 are made exact.

    >>> without_rounding([1e-17, 1.0 - 1e-16])
    array([0., 1.])
    """
    y = np.where(np.abs(x) < tolerance, 0.0, x)
    return np.where(np.abs(np.abs(y) - 1.0) < tolerance, np.sign(y), y)


def unit_axis(axis: Array | str | Sequence[float]) -> Array:
    """The unit vector (..., 3) along ``axis``, which may be "x", "y" or "z".

    >>> unit_axis((0, 0, 2))
    array([0., 0., 1.])
    """
    if isinstance(axis, str):
        if axis not in ("x", "y", "z"):
            raise ModelError(
                f"an axis named by a letter must be 'x', 'y' or 'z', got {axis!r}. Give a vector for any other axis."
            )
        return np.eye(3)["xyz".index(axis)]
    direction = _vector(axis, "a rotation axis")
    square = np.vecdot(direction, direction)
    if not is_symbolic(direction) and not np.all((square > 0.0) & np.isfinite(square)):
        raise ModelError(f"a rotation axis must be finite and not zero, got {direction.tolist()}.")
    return scale(1.0 / np.sqrt(square), direction, 1)


def from_roll_pitch_yaw(angles: Array) -> Array:
    """``R_z(yaw) R_y(pitch) R_x(roll)`` (..., 3, 3) of angles (roll, pitch, yaw) (..., 3) in rad (eq. 1.6a)."""
    angles = _vector(angles, "angles (roll, pitch, yaw)")
    ca, cb, cp = components(np.cos(angles))
    sa, sb, sp = components(np.sin(angles))
    return matrix(
        [
            [cp * cb, cp * sb * sa - sp * ca, cp * sb * ca + sp * sa],
            [sp * cb, sp * sb * sa + cp * ca, sp * sb * ca - cp * sa],
            [-sb, cb * sa, cb * ca],
        ]
    )


def to_roll_pitch_yaw(R: Array) -> Array:
    """Angles (roll, pitch, yaw) (..., 3) of a rotation matrix; roll and yaw are not unique at a pitch of +-pi/2: one pair is returned.

    The yaw is that of R Rx(-roll) = Rz(yaw) Ry(pitch), so that the three angles belong together at every pitch.
    """
    R = _matrix(R, "a rotation matrix")
    pitch = np.arctan2(-entry(R, 2, 0), np.hypot(entry(R, 2, 1), entry(R, 2, 2)))
    roll = np.arctan2(entry(R, 2, 1), entry(R, 2, 2))
    c, s = np.cos(roll), np.sin(roll)
    yaw = np.arctan2(s * entry(R, 0, 2) - c * entry(R, 0, 1), c * entry(R, 1, 1) - s * entry(R, 1, 2))
    return vector(roll, pitch, yaw)


def roll_pitch_yaw_rates(angles: Array) -> Array:
    """Matrix Y (..., 3, 3) from rates of (roll, pitch, yaw) to the body angular velocity (eq. 1.6b).

    ``det Y = cos(pitch)``: singular at a pitch of +-pi/2.
    """
    angles = _vector(angles, "angles (roll, pitch, yaw)")
    ca, cb, _ = components(np.cos(angles))
    sa, sb, _ = components(np.sin(angles))
    return matrix([[1.0, 0.0, -sb], [0.0, ca, cb * sa], [0.0, -sa, cb * ca]])


def inverse(R: Array) -> Array:
    """The transpose."""
    return transpose(_matrix(R, "a rotation matrix"))


def random(rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Floats:
    """Rotation matrices (*shape, 3, 3), uniformly distributed.

    >>> random(np.random.default_rng(0), (5, 2)).shape
    (5, 2, 3, 3)
    """
    return quaternion.rotation_from_quaternion(quaternion.normalize(rng.standard_normal((*shape, 4))))
