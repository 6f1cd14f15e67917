"""References by prescribed attitude and thrust: feasible by construction, also where the thrust is zero or negative.

The attitude R(t) and the signed specific thrust f(t) are given; the position follows from r'' = f R e_z + g by integration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.control.references.curves import derivatives, smoothstep
from heavytop.control.references.flatness import held_motion, numeric_gravity
from heavytop.control.references.reference import Motion3, Reference
from heavytop.errors import ControlError
from heavytop.geometry import so3
from heavytop.system import Model

DEGREE = 40
"""Degree of the integrated Chebyshev polynomials per segment."""


class Integrated:
    """Twice integrated acceleration (3,) from rest between breaks, by Chebyshev polynomials; constant outside."""

    def __init__(self, acceleration: Callable[[np.ndarray], np.ndarray], breaks: np.ndarray, start: np.ndarray) -> None:
        from numpy.polynomial import Chebyshev

        self.breaks, self.pieces = breaks, []
        r, v = np.asarray(start, dtype=float), np.zeros(3)
        for begin, end in pairwise(breaks):
            columns = [
                Chebyshev.interpolate(lambda t, i=i: acceleration(t)[:, i], DEGREE, (begin, end)) for i in range(3)
            ]
            speeds = [c.integ(1, k=0.0, lbnd=begin) + v[i] for i, c in enumerate(columns)]
            places = [c.integ(1, k=0.0, lbnd=begin) + r[i] for i, c in enumerate(speeds)]
            self.pieces.append((places, speeds))
            r, v = np.array([p(end) for p in places]), np.array([s(end) for s in speeds])

    def __call__(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity (n, 3)."""
        t = np.clip(t, self.breaks[0], self.breaks[-1])
        r, v = np.zeros((len(t), 3)), np.zeros((len(t), 3))
        which = np.clip(np.searchsorted(self.breaks, t, side="right") - 1, 0, len(self.pieces) - 1)
        for k, (places, speeds) in enumerate(self.pieces):
            mine = which == k
            r[mine] = np.stack([p(t[mine]) for p in places], axis=-1)
            v[mine] = np.stack([s(t[mine]) for s in speeds], axis=-1)
        return r, v


def thrust_reference(
    model: Model,
    angle: Callable[[Array], Array],
    thrust: Callable[[np.ndarray], np.ndarray],
    axis: Any = "y",
    duration: float = 1.0,
    start: Any = (0.0, 0.0, 0.0),
    breaks: Sequence[float] = (),
) -> Reference:
    """Motion of a quadcopter that turns about a fixed axis by angle(t) with the specific thrust f(t) (m/s^2).

    Parameters
    ----------
    angle : rotation angle (rad), in NumPy notation. thrust : times (n,) -> f (n,), signed.
    duration : end of the motion (s); afterwards the last pose is held, which is feasible if the motion ends at rest with f = g.
    breaks : times where angle or thrust are less smooth.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> reference = thrust_reference(craft.model, lambda t: 0.0 * t, lambda t: 9.81 + 0.0 * t, duration=1.0)
    >>> q, v, a = reference(0.5)
    >>> bool(np.allclose(q, craft.model.neutral())), bool(np.allclose(a, 0))
    (True, True)
    """
    gravity, n = numeric_gravity(model), so3.unit_axis(axis)
    angles = derivatives(lambda t: np.reshape(angle(t), (1,)), 2, "angle")

    def attitude(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        th, th1, th2 = angles(t)
        return so3.exp(th * n), th1 * n, th2 * n

    def acceleration(t: np.ndarray) -> np.ndarray:
        return thrust(t)[:, None] * attitude(t)[0][..., 2] + gravity

    knots = np.unique([0.0, duration, *(b for b in breaks if 0 < b < duration)])
    finer = np.unique(np.concatenate([np.linspace(a, b, 3) for a, b in pairwise(knots)]))
    path = Integrated(acceleration, finer, np.asarray(start, dtype=float))

    def evaluate(t: np.ndarray) -> Motion3:
        return held_motion(model, t, duration, attitude, lambda now: (*path(now), acceleration(now)))

    return Reference(model, evaluate, duration=duration, breaks=(*breaks, duration))


def thrust_correction(
    angle: Callable[[Array], Array],
    base: Callable[[np.ndarray], np.ndarray],
    g: float,
    knots: np.ndarray,
    terms: int,
    axis: str = "y",
    free: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The correction f = sum c_i sin^4(pi t/T) cos(i pi t/T) of the specific thrust base(angle) that ends a turn about ``axis`` at rest.

    Returns the Gram matrix of its shapes (terms, terms), rows and right-hand side of the linear conditions on c (final velocity and height and,
    unless ``free``, the final place sideways vanish), and the shapes t (n,) -> (n, terms).
    """
    duration = float(knots[-1])

    def shapes(t: np.ndarray) -> np.ndarray:
        phase = np.pi * t / duration
        return np.sin(phase)[:, None] ** 4 * np.cos(phase[:, None] * np.arange(terms))

    # Gauss-Legendre quadrature between the knots
    x, w = np.polynomial.legendre.leggauss(80)
    t = np.concatenate([(a + b) / 2 + (b - a) / 2 * x for a, b in pairwise(knots)])
    weight = np.concatenate([(b - a) / 2 * w for a, b in pairwise(knots)])
    s, th = shapes(t), angle(t)
    gram = (s * weight[:, None]).T @ s + 1e-6 * np.eye(terms)
    direction = np.stack([-np.sin(th) if axis == "x" else np.sin(th), np.cos(th)])
    drift = base(th) * direction - np.array([[0.0], [g]])
    moments = [(0, weight), (1, weight), (1, weight * (duration - t))]
    moments += [] if free else [(0, weight * (duration - t))]
    rows = np.array([(moment * direction[k]) @ s for k, moment in moments])
    return gram, rows, np.array([-np.sum(moment * drift[k]) for k, moment in moments]), shapes


def constrained_least(gram: np.ndarray, rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The c with the least c^T gram c and rows c = right."""
    system = np.block([[gram, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    return np.linalg.solve(system, np.concatenate([np.zeros(len(gram)), right]))[: len(gram)]


def flip(
    model: Model, begin: float = 0.75, turn: float = 0.9, duration: float = 2.4, terms: int = 14, axis: Any = "y"
) -> Reference:
    """One turn about a horizontal axis from rest to rest, with the least correction of the thrust ``g (1 + cos th) / 2``.

    The correction is sum c_i sin^4(pi t/T) cos(i pi t/T); c minimises the integral of its square such that the vehicle ends at rest at its start
    (four linear conditions).

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> flip(craft.model).duration
    2.4
    """
    g = float(np.linalg.norm(model.description.gravity))
    knots = np.array([0.0, begin, begin + turn, duration])
    if not (begin > 0 and begin + turn < duration):
        raise ControlError(
            f"a flip must turn within its duration, got begin = {begin}, turn = {turn}, duration = {duration}."
        )

    def angle(t: Array) -> Array:
        return 2 * np.pi * smoothstep((t - begin) / turn)

    def base(th: np.ndarray) -> np.ndarray:
        return g * (1 + np.cos(th)) / 2

    gram, rows, right, shapes = thrust_correction(angle, base, g, knots, terms)
    c = constrained_least(gram, rows, right)

    def thrust(t: np.ndarray) -> np.ndarray:
        return base(angle(t)) + shapes(t) @ c

    return thrust_reference(model, angle, thrust, axis, duration, breaks=knots[1:-1].tolist())
