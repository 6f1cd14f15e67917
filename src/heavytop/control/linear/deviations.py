"""What the particles of a prototype see of a deviation from rest or from a steady motion, to first order.

A particle of frame b sits at a constant place of b. Seen from b, its distance from its place on the reference, and how velocity and
acceleration differ, are the matrices (docs/control/laws.md, particle-based law)

    I - E,     wed(xi) - E wed(xi_R),     wed(beta) + wed(xi)^2 - E (wed(beta_R) + wed(xi_R)^2),     E = G^-1 G_R,

times that place, with the twist xi and its bias beta = d/dt(J) v. About the reference a deviation that moves b by the twist eps changes them by

    wed(eps),     wed(d xi) + wed(eps) wed(xi),     wed(d beta) + wed(d xi) wed(xi) + wed(xi) wed(d xi) + wed(eps) (wed(beta) + wed(xi)^2).

At rest these are wed(eps), wed(d xi) and zero, and all laws agree; the same holds while nothing rotates and no constraint forbids the velocity error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from heavytop._arrays import Array, Floats, is_symbolic, jacobian, substitute, symbol
from heavytop.compile import trace_of
from heavytop.geometry import se3

if TYPE_CHECKING:
    from heavytop.control.laws.prototype import Pair
    from heavytop.system.model import Model


class Deviations(NamedTuple):
    """Changes (nx, 4, 4) of acceleration, velocity and place of a frame's particles per deviation x, seen from the frame; the
    acceleration without that of the velocity coordinates."""

    acceleration: Floats
    velocity: Floats
    place: Floats


def deviations(
    model: Model, pair: Pair, q: Floats, v: Floats, eps: Floats, displacement: Floats, velocity: Floats
) -> Deviations:
    """The deviations of a pair of frames about the state (q, v).

    Parameters
    ----------
    eps : (6, nx) twist by which x displaces the second frame relative to the first.
    displacement : (nw, nx) along velocities of joints and velocity : (nv, nx) that x means.
    """
    twist, bias, twist_q, bias_q, J, bias_v = _slopes(model, pair, q, v)
    moved, turned = se3.wed(eps.T), se3.wed((twist_q @ displacement + J @ velocity).T)
    pushed = se3.wed((bias_q @ displacement + bias_v @ velocity).T)
    xi = se3.wed(twist)
    acceleration = pushed + turned @ xi + xi @ turned + moved @ (se3.wed(bias) + xi @ xi)
    return Deviations(acceleration, turned + moved @ xi, moved)


def _slopes(model: Model, pair: Pair, q: Floats, v: Floats) -> tuple[Floats, ...]:
    """Twist (6,) and bias (6,) of a pair of frames, their derivatives along velocities of joints (6, nw), and by v (6, nv)."""
    e = model.expressions
    motion = e.kinematics.motion(*pair)
    delta = symbol("delta", e.coordinates.nv)
    moved = e.q + np.matvec(e.coordinates.kinematics_matrix(e.q), delta)

    def along(x: Array) -> Array:
        if not is_symbolic(x):
            return np.zeros((6, e.coordinates.nv))
        return substitute(jacobian(substitute(x, e.q, moved), delta), delta, np.zeros(e.coordinates.nv))

    def by_v(x: Array) -> Array:
        return jacobian(x, e.v) if is_symbolic(x) else np.zeros((6, e.nv))

    twist, bias = motion.twist, motion.bias
    outputs = (twist, bias, along(twist), along(bias), by_v(twist), by_v(bias))
    names = ("twist", "bias", "twist_q", "bias_q", "twist_v", "bias_v")
    traced = trace_of("slopes", {"q": e.q, "v": e.v, "p": e.p}, dict(zip(names, outputs, strict=True)))
    return tuple(np.asarray(x) for x in traced(q, v, model.parameter_vector()))


def moments_of(matrix: Floats) -> Floats:
    """The moments X' (..., 4, 4) of matrices Vee(X') (..., 6, 6): [tr(S) / 2 - S, t c; t c^T, t] of [t, t wed(c)^T; t wed(c), S].

    >>> moments_of(np.diag([2.0, 2.0, 2.0, 3.0, 4.0, 5.0])).diagonal().tolist()
    [3.0, 2.0, 1.0, 2.0]
    """
    S, arm = matrix[..., 3:, 3:], matrix[..., 3:, :3]
    center = np.stack([arm[..., 2, 1], arm[..., 0, 2], arm[..., 1, 0]], axis=-1)
    half = 0.5 * np.trace(S, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - S
    top = np.concatenate([half, center[..., None]], axis=-1)
    bottom = np.concatenate([center, matrix[..., 0, :1]], axis=-1)[..., None, :]
    return np.concatenate([top, bottom], axis=-2)
