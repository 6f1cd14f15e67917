"""Charts: minimal coordinates of a neighbourhood of a configuration.

``q = chart(q_bar, e)`` with ``e`` (nv,) around the centre ``q_bar``: joint coordinates are shifted, positions of free bodies are shifted
along the axes of the world, attitudes are rotated by the rotation vector ``e`` (in body axes), which is regular up to a full turn. A
motion with joint velocities ``w`` has ``e' = chart_rate(q_bar, e, w)``; :func:`residual` compares two configurations, regular up to
rotations by half a turn.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, concatenate, jacobian, part, substitute, symbol, transpose
from heavytop.coordinates import Attitude, Coordinates, EulerAngles, Pose, Product
from heavytop.geometry import so3
from heavytop.system import solve_definite, symmetric


def chart(coordinates: Product, q_bar: Array, e: Array) -> Array:
    """The configuration (nq,) with the coordinates e (nv,) in the chart around q_bar (nq,); numbers with batch axes, or symbols.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.quadcopter().derive()
    >>> chart(model.coordinates, model.neutral(), np.array([1.0, 0, 0, 0, 0, np.pi / 2])).round(3)[:6] + 0.0
    array([1., 0., 0., 0., 1., 0.])
    """
    parts = zip(coordinates.blocks, coordinates.split_q(q_bar), coordinates.split_v(e), strict=True)
    return concatenate(*(_chart(block, q, d) for block, q, d in parts))


def chart_rate(coordinates: Product, q_bar: Array, e: Array, w: Array) -> Array:
    """The rate e' (nv,) of a motion with the joint velocities w (nv,)."""
    c = coordinates
    parts = zip(c.blocks, c.split_q(q_bar), c.split_v(e), c.split_v(w), strict=True)
    return concatenate(*(_rate(block, q, d, velocity) for block, q, d, velocity in parts))


def residual(coordinates: Product, q0: Array, q1: Array) -> Array:
    """Difference (nv,) of q1 from q0: zero if they agree, the coordinates of q1 in the chart around q0 up to third order.

    Attitudes are compared by Cayley's map ``2 tan(angle / 2)``: no branches, no second zero.
    """
    parts = zip(coordinates.blocks, coordinates.split_q(q0), coordinates.split_q(q1), strict=True)
    return concatenate(*(_residual(block, a, b) for block, a, b in parts))


def place(coordinates: Product, q_bar: Array, q: Array) -> Array:
    """The e (nv,) with ``chart(q_bar, e) = q``: the shortest one."""
    parts = zip(coordinates.blocks, coordinates.split_q(q_bar), coordinates.split_q(q), strict=True)
    return concatenate(*(_place(block, a, b) for block, a, b in parts))


def is_turn(coordinates: Product) -> np.ndarray:
    """Which entries of e (nv,) belong to rotation vectors, whose chart ends at a full turn."""
    turns = []
    for block in coordinates.blocks:
        if isinstance(block, Pose):
            turns += [False] * 3 + [not isinstance(block.attitude_block, EulerAngles)] * 3
        else:
            turns += [isinstance(block, Attitude) and not isinstance(block, EulerAngles)] * block.nv
    return np.array(turns, dtype=bool)


def _chart(block: Coordinates, q: Array, e: Array) -> Array:
    if isinstance(block, Pose):
        r, attitude = block.split(q)
        return concatenate(r + part(e, 0, 3), _chart(block.attitude_block, attitude, part(e, 3, 6)))
    if isinstance(block, EulerAngles):
        return q + e
    return block.retract(q, e)


def _rate(block: Coordinates, q_bar: Array, e: Array, w: Array) -> Array:
    if isinstance(block, Pose):
        q = _chart(block, q_bar, e)
        moved = part(block.rate(q, w), 0, 3)
        turned = _rate(block.attitude_block, block.split(q_bar)[1], part(e, 3, 6), part(w, 3, 6))
        return concatenate(moved, turned)
    if isinstance(block, EulerAngles):
        return block.rate(q_bar + e, w)
    if block.is_group:
        return block.tangent_inverse(e, w)
    # q = chart(e), q' = (dq/de) e'
    at = symbol("e", block.nv)
    slope = substitute(jacobian(block.retract(q_bar, at), at), at, e)
    rate = block.rate(block.retract(q_bar, e), w)
    return solve_definite(symmetric(transpose(slope) @ slope), np.matvec(transpose(slope), rate))


def _residual(block: Coordinates, q0: Array, q1: Array) -> Array:
    if isinstance(block, Pose):
        (r0, a0), (r1, a1) = block.split(q0), block.split(q1)
        return concatenate(r1 - r0, _residual(block.attitude_block, a0, a1))
    if isinstance(block, EulerAngles):
        return q1 - q0
    if isinstance(block, Attitude):
        return so3.cayley_inverse(transpose(block.rotation_matrix(q0)) @ block.rotation_matrix(q1))
    return block.difference(q0, q1)


def _place(block: Coordinates, q_bar: Array, q: Array) -> Array:
    if isinstance(block, Pose):
        (r0, a0), (r1, a1) = block.split(q_bar), block.split(q)
        return concatenate(r1 - r0, _place(block.attitude_block, a0, a1))
    if isinstance(block, EulerAngles):
        return q - q_bar
    return block.difference(q_bar, q)
