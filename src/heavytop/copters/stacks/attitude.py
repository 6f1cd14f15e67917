"""Attitudes of packets in plain numbers: rotation matrices by rows to quaternions and angles."""

from __future__ import annotations

from math import sqrt

Rows = tuple[tuple[float, float, float], ...]


def quaternion_wxyz(R: Rows) -> tuple[float, float, float, float]:
    """Unit quaternion of a rotation matrix by rows, in plain numbers.

    >>> quaternion_wxyz(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
    (1.0, 0.0, 0.0, 0.0)
    """
    (a, b, c), (d, e, f), (g, h, i) = R
    squares = (1 + a + e + i, 1 + a - e - i, 1 - a + e - i, 1 - a - e + i)
    k = max(range(4), key=squares.__getitem__)
    s = 0.5 / sqrt(squares[k])
    if k == 0:
        return 0.25 / s, (h - f) * s, (c - g) * s, (d - b) * s
    if k == 1:
        return (h - f) * s, 0.25 / s, (b + d) * s, (c + g) * s
    if k == 2:
        return (c - g) * s, (b + d) * s, 0.25 / s, (f + h) * s
    return (d - b) * s, (c + g) * s, (f + h) * s, 0.25 / s
