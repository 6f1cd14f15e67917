"""Displacements: poses, the vee and wedge family on 4x4 and 6x6 matrices, Ad, ad, exp, log, tangent operators.

A pose ``G = [R r; 0 1]`` takes body to world coordinates. Twists are ``(linear, angular)`` in body coordinates and
``G' = G wed(xi)`` (eq. 3.82). Every function takes numbers with leading batch axes, or symbols.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    block,
    column,
    concatenate,
    entry,
    is_symbolic,
    matrix,
    part,
    scale,
    submatrix,
    trailing,
    transpose,
)
from heavytop.geometry import series, so3

_ZERO = np.zeros((3, 3))
_LINEAR, _ANGULAR = slice(0, 3), slice(3, 6)


def _twist(value: Array) -> tuple[Array, Array]:
    xi = trailing(value, (6,), "a twist (linear, angular)")
    return part(xi, 0, 3), part(xi, 3, 6)


def _pose(value: Array, what: str = "a pose") -> Array:
    return trailing(value, (4, 4), what)


def pose(R: Array, r: Array) -> Array:
    """The pose (..., 4, 4) with rotation ``R`` (..., 3, 3) and position ``r`` (..., 3) (eq. 3.80).

    >>> pose(np.eye(3), [1.0, 2.0, 3.0])[:3, 3]
    array([1., 2., 3.])
    """
    R = trailing(R, (3, 3), "the rotation of a pose")
    r = trailing(r, (3,), "the position of a pose")
    rows = [[*(entry(R, i, j) for j in range(3)), entry(r, i)] for i in range(3)]
    return matrix([*rows, [0.0, 0.0, 0.0, 1.0]])


def rotation(G: Array) -> Array:
    """Rotation (..., 3, 3) of a pose."""
    return submatrix(_pose(G), slice(0, 3), slice(0, 3))


def position(G: Array) -> Array:
    """Position (..., 3) of a pose."""
    return part(column(_pose(G), 3), 0, 3)


def inverse(G: Array) -> Array:
    """``[R^T, -R^T r; 0 1]``."""
    back = transpose(rotation(G))
    return pose(back, -np.matvec(back, position(G)))


def transform(G: Array, points: Array) -> Array:
    """World coordinates ``r + R y`` of body points ``y`` (..., 3) (002 eq. 1); batch axes broadcast.

    >>> transform(pose(np.eye(3), [1.0, 0.0, 0.0]), [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    array([[1., 0., 0.],
           [1., 2., 0.]])
    """
    G = _pose(G)
    if is_symbolic(G, points) and len(np.shape(points)) == 2:
        return points @ transpose(rotation(G)) + position(G)
    return np.matvec(rotation(G), trailing(points, (3,), "points")) + position(G)


def wed(xi: Array) -> Array:
    """The matrix ``[wed(w) v; 0 0]`` (..., 4, 4) of a twist ``(v, w)`` (..., 6) (eq. 3.81b)."""
    v, w = _twist(xi)
    W = so3.wed(w)
    rows = [[*(entry(W, i, j) for j in range(3)), entry(v, i)] for i in range(3)]
    return matrix([*rows, [0.0, 0.0, 0.0, 0.0]])


def vee(X: Array) -> Array:
    """The twist (..., 6) of a matrix ``[wed(w) v; 0 0]``, inverse of :func:`wed`."""
    X = _pose(X, "a matrix")
    return concatenate(position(X), so3.vee(rotation(X)))


def vee2(A: Array) -> Array:
    """``vee2([A b; * *]) = (b, vee(A - A^T))`` (eq. 3.84b), defined by ``tr(A wed(xi)^T) = xi . vee2(A)``."""
    A = _pose(A, "a matrix")
    return concatenate(position(A), so3.vee2(rotation(A)))


def Vee(A: Array) -> Array:
    """``[d I, wed(b)^T; wed(c), Vee(A)]`` (..., 6, 6) of ``[A b; c^T d]`` (..., 4, 4) (eq. 3.86b).

    Defined by ``tr(wed(xi) A wed(eta)^T) = eta . Vee(A) xi``; turns moments into a 6x6 inertia, damping or stiffness.
    """
    A = _pose(A, "a matrix")
    c = part(column(transpose(A), 3), 0, 3)
    return block(
        [
            [scale(entry(A, 3, 3), np.eye(3), 2), so3.wed(-position(A))],
            [so3.wed(c), so3.Vee(rotation(A))],
        ]
    )


def Wed(M: Array) -> Array:
    """Inverse of :func:`Vee`: from ``[d I, wed(b)^T; wed(c), Vee(A)]`` (..., 6, 6) to ``[A b; c^T d]`` (..., 4, 4)."""
    M = trailing(M, (6, 6), "a matrix")
    A = so3.Wed(submatrix(M, _ANGULAR, _ANGULAR))
    b = so3.vee(transpose(submatrix(M, _LINEAR, _ANGULAR)))
    c = so3.vee(submatrix(M, _ANGULAR, _LINEAR))
    rows = [[*(entry(A, i, j) for j in range(3)), entry(b, i)] for i in range(3)]
    return matrix([*rows, [*(entry(c, i) for i in range(3)), entry(M, 0, 0)]])


def Ad(G: Array) -> Array:
    """``[R, wed(r) R; 0, R]`` (..., 6, 6): twists from body to world coordinates (eq. 3.88a)."""
    R = rotation(G)
    return block([[R, so3.wed(position(G)) @ R], [_ZERO, R]])


def Ad_inverse(G: Array) -> Array:
    """``Ad(G^-1) = [R^T, -R^T wed(r); 0, R^T]`` (..., 6, 6)."""
    back = transpose(rotation(G))
    return block([[back, back @ so3.wed(-position(G))], [_ZERO, back]])


def ad(xi: Array) -> Array:
    """``[wed(w), wed(v); 0, wed(w)]`` (..., 6, 6) of a twist ``(v, w)`` (eq. 3.88b)."""
    v, w = _twist(xi)
    W = so3.wed(w)
    return block([[W, so3.wed(v)], [_ZERO, W]])


def exp(xi: Array) -> Array:
    """Pose (..., 4, 4) reached from the identity by the constant twist ``xi`` (..., 6) in unit time (002 eq. 14).

    >>> exp([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])[:3, 3]
    array([0., 0., 1.])
    """
    v, w = _twist(xi)
    return pose(so3.exp(w), displacement(v, w))


def log(G: Array) -> Array:
    """Twist (..., 6) with angular part at most pi long whose :func:`exp` is ``G``."""
    w, r = so3.log(rotation(G)), position(G)
    return concatenate(displacement_inverse(r, w), w)


def displacement(v: Array, w: Array) -> Array:
    """Displacement (..., 3) of the origin by the constant twist ``(v, w)`` in unit time: ``T(w)^T v`` with T of :func:`.so3.tangent`."""
    z = np.vecdot(w, w)
    _, versine = series.sine_versine(z)
    first = np.cross(w, v)
    return v + scale(versine, first, 1) + scale(series.cubic(z), np.cross(w, first), 1)


def displacement_inverse(r: Array, w: Array) -> Array:
    """The velocity ``v`` (..., 3) with ``displacement(v, w) = r``; singular at a full turn."""
    first = np.cross(w, r)
    return r - 0.5 * first + scale(series.cotangent(np.vecdot(w, w)), np.cross(w, first), 1)


def tangent(xi: Array) -> Array:
    """Tangent operator T (..., 6, 6) of exp: ``G^-1 dG = wed(T(xi) dxi)`` (002 eq. 15).

    ``tangent(-xi)`` is that of ``dG G^-1``. The off-diagonal block is the derivative of the rotational one along ``v``.
    """
    v, w = _twist(xi)
    z, slope = np.vecdot(w, w), np.vecdot(w, v)
    _, versine = series.sine_versine(z)
    W, V = so3.wed(w), so3.wed(v)
    mixed = W @ V
    T = so3.tangent(w)
    U = (
        scale(series.cubic(z), mixed + transpose(mixed), 2)
        - scale(versine, V, 2)
        - scale(slope * series.versine_slope(z), W, 2)
        + scale(slope * series.cubic_slope(z), W @ W, 2)
    )
    return block([[T, U], [_ZERO, T]])


def tangent_inverse(xi: Array) -> Array:
    """Inverse of :func:`tangent`: body twist to the rate of ``xi``; singular at a full turn.

    002 eqs 17, 73-78 with errata 2.3-2.7.
    """
    v, w = _twist(xi)
    z, slope = np.vecdot(w, w), np.vecdot(w, v)
    W, V = so3.wed(w), so3.wed(v)
    mixed = W @ V
    T = so3.tangent_inverse(w)
    U = (
        0.5 * V
        + scale(series.cotangent(z), mixed + transpose(mixed), 2)
        + scale(slope * series.cotangent_slope(z), W @ W, 2)
    )
    return block([[T, U], [_ZERO, T]])


def cayley(xi: Array) -> Array:
    """Cayley map ``(I - X/2)^-1 (I + X/2)`` with ``X = wed(xi)``: second-order copy of exp, no trigonometry."""
    v, w = _twist(xi)
    factor = 4.0 / (4.0 + np.vecdot(w, w))
    return pose(so3.cayley(w), scale(factor, np.matvec(so3.cayley_tangent_inverse(w), v), 1))


def cayley_tangent_inverse(xi: Array) -> Array:
    """Matrix (..., 6, 6) from the body twist of ``cayley(xi)`` to the rate of ``xi``.

    From ``wed(rate) = (I + X/2) wed(twist) (I - X/2)`` with ``X = wed(xi)``.
    """
    v, w = _twist(xi)
    half = np.eye(3) + 0.5 * so3.wed(w)
    return block([[half, 0.5 * half @ so3.wed(v)], [_ZERO, so3.cayley_tangent_inverse(w)]])


def random(rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Floats:
    """Poses (*shape, 4, 4): uniform rotation, standard normal position."""
    return pose(so3.random(rng, shape), rng.standard_normal((*shape, 3)))
