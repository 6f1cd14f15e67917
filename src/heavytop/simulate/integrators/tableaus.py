"""Butcher tableaus of Runge-Kutta methods: explicit ones, and collocation at Radau's points.

The tests check every order condition (all rooted trees) up to the stated order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np


@dataclass(frozen=True)
class Tableau:
    """Coefficients of a method: stage times ``c`` (s,), matrix ``a`` (s, s), strictly lower if it is explicit, weights ``b`` (s,)."""

    order: int
    c: tuple[float, ...]
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.b)

    @property
    def implicit(self) -> bool:
        """Whether stages depend on themselves or on later ones."""
        return any(len(row) > i for i, row in enumerate(self.a))

    @property
    def matrix(self) -> np.ndarray:
        """``a`` as a square array."""
        full = np.zeros((self.stages, self.stages))
        for i, row in enumerate(self.a):
            full[i, : len(row)] = row
        return full


RK4 = Tableau(4, (0.0, 0.5, 0.5, 1.0), ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6))
"""Kutta's classical method."""

BUTCHER6 = Tableau(
    6,
    (0.0, 1 / 3, 2 / 3, 1 / 3, 1 / 2, 1 / 2, 1.0),
    (
        (),
        (1 / 3,),
        (0.0, 2 / 3),
        (1 / 12, 1 / 3, -1 / 12),
        (-1 / 16, 9 / 8, -3 / 16, -3 / 8),
        (0.0, 9 / 8, -3 / 8, -3 / 4, 1 / 2),
        (9 / 44, -9 / 11, 63 / 44, 18 / 11, 0.0, -16 / 11),
    ),
    (11 / 120, 0.0, 27 / 40, 27 / 40, -4 / 15, -4 / 15, 11 / 120),
)
"""Butcher (1964), seven stages."""


def _cooper_verner() -> Tableau:
    s = sqrt(21.0)
    early, late = (7 + s) / 14, (7 - s) / 14
    rows = (
        (),
        (1 / 2,),
        (1 / 4, 1 / 4),
        (1 / 7, (-7 - 3 * s) / 98, (21 + 5 * s) / 49),
        ((11 + s) / 84, 0.0, (18 + 4 * s) / 63, (21 - s) / 252),
        ((5 + s) / 48, 0.0, (9 + s) / 36, (-231 + 14 * s) / 360, (63 - 7 * s) / 80),
        (
            (10 - s) / 42,
            0.0,
            (-432 + 92 * s) / 315,
            (633 - 145 * s) / 90,
            (-504 + 115 * s) / 70,
            (63 - 13 * s) / 35,
        ),
        (1 / 14, 0.0, 0.0, 0.0, (14 - 3 * s) / 126, (13 - 3 * s) / 63, 1 / 9),
        (1 / 32, 0.0, 0.0, 0.0, (91 - 21 * s) / 576, 11 / 72, (-385 - 75 * s) / 1152, (63 + 13 * s) / 128),
        (
            1 / 14,
            0.0,
            0.0,
            0.0,
            1 / 9,
            (-733 - 147 * s) / 2205,
            (515 + 111 * s) / 504,
            (-51 - 11 * s) / 56,
            (132 + 28 * s) / 245,
        ),
        (
            0.0,
            0.0,
            0.0,
            0.0,
            (-42 + 7 * s) / 18,
            (-18 + 28 * s) / 45,
            (-273 - 53 * s) / 72,
            (301 + 53 * s) / 72,
            (28 - 28 * s) / 45,
            (49 - 7 * s) / 18,
        ),
    )
    times = (0.0, 1 / 2, 1 / 2, early, early, 1 / 2, late, late, 1 / 2, early, 1.0)
    return Tableau(8, times, rows, (1 / 20, 0, 0, 0, 0, 0, 0, 49 / 180, 16 / 45, 49 / 180, 1 / 20))


COOPER_VERNER8 = _cooper_verner()
"""Cooper and Verner (1972), eleven stages."""

DORMAND_PRINCE5 = Tableau(
    5,
    (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    (
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0),
)
"""Dormand and Prince (1980), fifth order; the last stage is the first of the next step."""

DORMAND_PRINCE4_WEIGHTS = (5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40)
"""The embedded fourth-order weights."""


MIDDLE = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)
"""Weights of the fourth-order term of the interpolant (Hairer, Norsett, Wanner 1993, section II.6)."""


def dense_weights(fraction: np.ndarray) -> np.ndarray:
    """Weights (..., 7) of the fourth-order interpolant of Dormand and Prince's method at fractions (...) of the step.

    The quartic with b(1) = b, b'(0) = e_1, b'(1) = e_7 and the term ``MIDDLE`` x^2 (1 - x)^2.
    """
    x = np.asarray(fraction, dtype=float)[..., None]
    first, last = np.eye(7)[0], np.eye(7)[6]
    return (
        x**2 * (3 - 2 * x) * np.array(DORMAND_PRINCE5.b)
        + x * (x - 1) ** 2 * first
        + x**2 * (x - 1) * last
        + x**2 * (x - 1) ** 2 * np.array(MIDDLE)
    )


def radau(stages: int) -> Tableau:
    """Collocation at Radau's points (Radau IIA) of order 2 s - 1: L-stable, and the last point is the end of the step.

    The points are the zeros of the (s - 1)-th derivative of ``x^(s-1) (x - 1)^s``; the polynomial through the rates there is exact up to
    degree s - 1, ``sum_j a_ij c_j^(k-1) = c_i^k / k`` (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.5).

    >>> [round(c, 6) for c in radau(2).c], radau(2).order
    ([0.333333, 1.0], 3)
    """
    p = np.polynomial.Polynomial.fromroots([0.0] * (stages - 1) + [1.0] * stages).deriv(stages - 1)
    c = np.sort(p.roots().real)
    for _ in range(3):  # roots to the last digit
        c = c - p(c) / p.deriv()(c)
    c[-1] = 1.0
    k = np.arange(1, stages + 1)
    a = np.linalg.solve((c[:, None] ** (k - 1)).T, (c[:, None] ** k / k).T).T
    rows = tuple(tuple(row) for row in a.tolist())
    return Tableau(2 * stages - 1, tuple(c.tolist()), rows, rows[-1])


RADAU5, RADAU9 = radau(3), radau(5)
"""Collocation of order 5 and 9 for stiff motions."""
