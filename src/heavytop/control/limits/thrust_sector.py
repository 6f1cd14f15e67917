"""Limits of tilting rotors: the force of each stays in a sector of its plane, given by bounds of thrust and tilt.

A tilting rotor has two inputs, the force across and along its axis, ``f = F (-sin th, cos th)``. Its limits are not a box: bounds of the
thrust F are a disc (a ring with a least thrust), bounds of the tilt th a cone. The nearest admissible input in a metric H is found by a
fixed number of steps of a semismooth Newton method, in straight-line code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, from_sx, is_symbolic, to_sx
from heavytop.control.limits.box_qp import dot, least, most, pick, scalars, solve_ldl, times
from heavytop.errors import ControlError
from heavytop.ocp import Limits
from heavytop.system import Model

STEPS = 10
"""Newton steps."""
SHORTENED = (1.0, 0.3, 0.1)
"""Tried fractions of a Newton step."""
TINY = 1e-300
NO_FORCE = 1e-9
"""Size of a force (N) below which it has no direction."""


@dataclass(frozen=True)
class Sector:
    """Admissible forces of a tilting rotor: a disc or ring by its thrust, a cone by its tilt, or both.

    Parameters
    ----------
    across, along : indices of the two inputs, the force across and along the axis (N).
    thrust : least and largest size of the force, N.
    tilt : least and largest angle ``atan2(-across, along)``, rad; default: unlimited.
    rate : largest change of the angle per second, rad/s. The law then stores the angles, see :class:`TiltLimits`.

    Examples
    --------
    >>> disc = Sector(0, 1, thrust=(0.0, 2.0))
    >>> disc.nearest([3.0, 4.0])
    array([1.2, 1.6])
    >>> Sector(0, 1, thrust=(0.0, 2.0), tilt=(-0.5, 0.5)).nearest([0.0, -1.0])  # opposite direction: no thrust
    array([0., 0.])
    """

    across: int
    along: int
    thrust: tuple[float, float] = (0.0, np.inf)
    tilt: tuple[float, float] = (-np.inf, np.inf)
    rate: float = np.inf

    def __post_init__(self) -> None:
        low, high = self.thrust
        if not 0.0 <= low < high:
            raise ControlError(
                f"the thrust of a tilting rotor must be (least, largest) with 0 <= least < largest, got {tuple(self.thrust)}."
            )
        first, last = self.tilt
        if not first < last or np.isfinite(first) != np.isfinite(last):
            raise ControlError(
                f"the tilt of a rotor must be (least, largest), both finite or both infinite, got {self.tilt}."
            )
        if not self.rate > 0:
            raise ControlError(f"the tilt rate of a rotor must be positive, got {self.rate}.")

    @property
    def bounded(self) -> bool:
        """Whether the tilt is bounded to less than a full turn."""
        return bool(self.tilt[1] - self.tilt[0] < 2 * np.pi)

    def nearest(self, force: Any) -> np.ndarray:
        """The admissible force (2,) nearest to a given one, in N, without regard to the rate."""
        x, y = scalars(to_sx(force))
        foot = _foot(x, y, self, _window(self, None, 0.0))
        return np.array([float(foot.length * foot.x), float(foot.length * foot.y)])

    def excess(self, force: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Excess of forces (..., 2) over the bounds of thrust (N) and tilt (rad); zero inside."""
        size = np.linalg.norm(force, axis=-1)
        thrust = np.maximum(np.maximum(self.thrust[0] - size, size - self.thrust[1]), 0.0)
        if not self.bounded:
            return thrust, np.zeros_like(thrust)
        middle, half = (self.tilt[0] + self.tilt[1]) / 2, (self.tilt[1] - self.tilt[0]) / 2
        angle = np.arctan2(-force[..., 0], force[..., 1]) - middle
        off = np.abs(np.arctan2(np.sin(angle), np.cos(angle)))
        return thrust, np.where(size > 0, np.maximum(off - half, 0.0), 0.0)

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest force (2,) across and along the axis."""
        angles = np.arange(-8, 9) * np.pi / 2
        if self.bounded:
            angles = np.concatenate([[*self.tilt], angles[(angles > self.tilt[0]) & (angles < self.tilt[1])]])
        points = np.round(np.stack([-np.sin(angles), np.cos(angles)]), 15)
        high = self.thrust[1]
        reached = points * high if np.isfinite(high) else np.where(points == 0, 0.0, np.copysign(np.inf, points))
        return np.minimum(reached.min(axis=1), 0.0), np.maximum(reached.max(axis=1), 0.0)


@dataclass(frozen=True, eq=False)
class TiltLimits(Limits):
    """Limits of a vehicle with tilting rotors: a sector for each, bounds for all other inputs.

    Parameters
    ----------
    lower, upper, torque_priority, inertia : as in :class:`.Limits`, for inputs outside of sectors.
    sectors : sectors of the tilting rotors.
    period : s between the samples of the law; required for bounded tilt rates. From one sample to the next a tilt then
        changes by at most ``rate * period``. The law stores the tilts in its states z, which start at zero.

    Examples
    --------
    >>> limits = TiltLimits(sectors=[Sector(0, 1, (0.0, 7.0)), Sector(2, 3, (0.0, 7.0))])
    >>> limits.nearest(np.eye(4), np.array([3.0, 14.0, 1.0, 2.0])).round(3)
    array([1.467, 6.845, 1.   , 2.   ])
    """

    lower: Any = -np.inf
    upper: Any = np.inf
    sectors: Sequence[Sector] = ()
    period: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sectors", tuple(self.sectors))
        used = [i for s in self.sectors for i in (s.across, s.along)]
        if len(set(used)) < len(used):
            raise ControlError(f"an input is in two sectors: they have the inputs {used}.")
        if self.rate_limited and (self.period is None or not self.period > 0):
            raise ControlError(
                f"a bounded tilt rate needs the period of the samples: TiltLimits(..., period=0.005), got {self.period}."
            )

    @property
    def rate_limited(self) -> tuple[Sector, ...]:
        """The sectors with a bounded tilt rate, whose tilts the law stores."""
        return tuple(s for s in self.sectors if np.isfinite(s.rate))

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """The smallest box (nu,) around all admissible inputs."""
        lower, upper = super().bounds(model)
        for sector in self.sectors:
            pair = [sector.across, sector.along]
            if max(pair) >= model.nu or min(pair) < 0:
                raise ControlError(f"a sector has the inputs {pair}, but {model.name!r} has {model.nu} inputs, from 0.")
            least, largest = sector.box()
            lower[pair], upper[pair] = np.maximum(lower[pair], least), np.minimum(upper[pair], largest)
        return lower, upper

    def active(self, u: np.ndarray, slack: float = 1e-9) -> np.ndarray:
        """Whether inputs u (..., n) touch a limit (...)."""
        found = np.zeros(u.shape[:-1], dtype=bool)
        for s in self.sectors:
            force = u[..., [s.across, s.along]]
            inner = replace(s, thrust=(s.thrust[0] * (1 + slack), s.thrust[1] * (1 - slack)))
            if s.bounded:
                inner = replace(inner, tilt=(s.tilt[0] + slack, s.tilt[1] - slack))
            thrust, tilt = inner.excess(force)
            found |= (thrust > 0) | (tilt > 0)
        others = [i for i in range(u.shape[-1]) if all(i not in (s.across, s.along) for s in self.sectors)]
        for side, sign in ((self.lower, -1.0), (self.upper, 1.0)):
            bound = np.broadcast_to(np.asarray(side, dtype=float), (u.shape[-1],))[others]
            found |= np.any(sign * (u[..., others] - bound) >= -slack, axis=-1)
        return found

    def nearest(self, H: Array, target: Array) -> Array:
        """The admissible u (n,) nearest to ``target`` in the metric H (n, n), without regard to rates."""
        return nearest_in_sectors(H, target, self)[0]


class _Foot(NamedTuple):
    """Projection on a sector: unit vector of the force, its length, active bounds, curvature of the arc."""

    x: Any
    y: Any
    length: Any
    held: Any  # the thrust is at a bound
    edge: Any  # the tilt is at a bound
    bend: Any  # |w| / F - 1 beyond the arc


class _Window(NamedTuple):
    """Cone of admissible directions: its middle, cosine and sine of half its angle; None: all directions."""

    middle: Any
    cosine: Any
    sine: Any
    x: Any
    y: Any


def _window(sector: Sector, angle: Any, period: float) -> _Window | None:
    """The cone of a sector, around the stored angle if the rate is bounded."""
    import casadi

    first, last = sector.tilt
    if angle is None:
        if not sector.bounded:
            return None
        middle, half = (first + last) / 2, (last - first) / 2
    else:
        reach = sector.rate * period
        low, high = angle - reach, angle + reach
        if sector.bounded:
            low, high = least(most(low, first), last), most(least(high, last), first)
        middle, half = (low + high) / 2, (high - low) / 2
    middle, half = casadi.SX(middle), casadi.SX(half)
    return _Window(middle, casadi.cos(half), casadi.sin(half), -casadi.sin(middle), casadi.cos(middle))


def _foot(x: Any, y: Any, sector: Sector, window: _Window | None) -> _Foot:
    """The point of a sector nearest to (x, y): projected on the cone, then on the disc."""
    import casadi

    size = casadi.sqrt(x * x + y * y)
    empty = size <= TINY
    divisor = pick(empty, 1.0, size)
    if window is None:
        ux, uy, length, edge = pick(empty, 0.0, x / divisor), pick(empty, 1.0, y / divisor), size, 0.0
    else:
        # in axes of the middle direction m and m turned towards larger angles
        a, b = window.x * x + window.y * y, -window.y * x + window.x * y
        inside = a >= size * window.cosine
        side = pick(b >= 0, 1.0, -1.0)
        ca, cb = window.cosine, side * window.sine
        ua = pick(inside, pick(empty, 1.0, a / divisor), ca)
        ub = pick(inside, pick(empty, 0.0, b / divisor), cb)
        length = pick(inside, size, ca * a + cb * b)
        ux, uy = window.x * ua - window.y * ub, window.y * ua + window.x * ub
        edge = pick(inside, 0.0, 1.0)
    low, high = sector.thrust
    kept = most(length, low)
    held, bend = pick(length <= low, 1.0 if low > 0 else edge, 0.0), 0.0
    if np.isfinite(high):
        kept = least(kept, high)
        beyond = length > high
        held = pick(beyond, 1.0, held)
        bend = pick(beyond, length / high - 1.0, 0.0)
    return _Foot(ux, uy, kept, held, edge, bend)


class _Sets:
    """All sectors of a vehicle and bounds of its other inputs, in one order: two inputs per sector, then the others."""

    def __init__(self, limits: TiltLimits, n: int, angles: Sequence[Any]) -> None:
        self.sectors = tuple(limits.sectors)
        stored = iter(angles)
        self.windows = [
            _window(s, next(stored) if angles and np.isfinite(s.rate) else None, limits.period or 0.0)
            for s in self.sectors
        ]
        taken = [i for s in self.sectors for i in (s.across, s.along)]
        self.others = [i for i in range(n) if i not in taken]
        self.order = [*taken, *self.others]
        sides = [np.broadcast_to(np.asarray(side, dtype=float), (n,)) for side in (limits.lower, limits.upper)]
        self.lower, self.upper = ([float(side[i]) for i in self.others] for side in sides)

    def feet(self, w: list[Any]) -> list[_Foot]:
        """Projections of the sectors' inputs."""
        return [_foot(w[2 * k], w[2 * k + 1], s, self.windows[k]) for k, s in enumerate(self.sectors)]

    def nearest(self, w: list[Any]) -> list[Any]:
        """The point nearest to w in the plain metric."""
        found: list[Any] = []
        for foot in self.feet(w):
            found += [foot.length * foot.x, foot.length * foot.y]
        rest = w[2 * len(self.sectors) :]
        return found + [least(most(x, a), b) for x, a, b in zip(rest, self.lower, self.upper, strict=True)]


def nearest_in_sectors(
    H: Array, target: Array, limits: TiltLimits, angles: Sequence[Any] = (), steps: int = STEPS
) -> tuple[Array, list[Any]]:
    """The admissible u (n,) nearest to ``target``, min (u - target)^T H (u - target), and the tilts of the rate-limited sectors.

    Each step projects a scaled gradient step on the sets, which determines the active bounds, and solves for the other directions, with the
    curvature of the arcs: Newton's method on u = P(u - D^-1 H (u - target)). The best admissible point is kept, so that the cost never
    increases. With a least thrust the sets are not convex and the result is a local minimum.

    Parameters
    ----------
    angles : stored tilts (rad) of ``limits.rate_limited``; empty: without regard to rates.
    """
    import casadi

    n = target.shape[-1]
    sets = _Sets(limits, n, list(angles))
    column, matrix = scalars(to_sx(target)), [scalars(to_sx(H[i, :])) for i in range(n)]
    order = sets.order
    x = [column[i] for i in order]
    h = [[matrix[i][j] for j in order] for i in order]
    pairs = 2 * len(sets.sectors)
    d = [h[i - i % 2][i - i % 2] + h[i - i % 2 + 1][i - i % 2 + 1] if i < pairs else h[i][i] for i in range(n)]
    u = sets.nearest(x)
    gradient = times(h, _less(u, x))
    cost = dot(gradient, _less(u, x))
    for _ in range(steps):
        w = [a - g / s for a, g, s in zip(u, gradient, d, strict=True)]
        feet = sets.feet(w)
        delta = _newton(sets, h, d, u, w, feet)
        best, lowest = u, cost
        for share in SHORTENED:
            point = sets.nearest([a + share * b for a, b in zip(u, delta, strict=True)])
            # and the best point between, admissible because the sets are convex
            way = _less(point, u)
            slope, curve = dot(gradient, way), dot(way, times(h, way))
            part = least(most(-slope / most(curve, TINY), 0.0), 1.0)
            on_way = sets.nearest([a + part * b for a, b in zip(u, way, strict=True)])
            for found in (point, on_way):
                off = _less(found, x)
                value = dot(off, times(h, off))
                better = value < lowest
                best = [pick(better, a, b) for a, b in zip(found, best, strict=True)]
                lowest = pick(better, value, lowest)
        u, cost = best, lowest
        gradient = times(h, _less(u, x))
    w = [a - g / s for a, g, s in zip(u, gradient, d, strict=True)]
    tilts = [
        _angle(u[2 * k], u[2 * k + 1], foot, window)
        for k, (foot, window) in enumerate(zip(sets.feet(w), sets.windows, strict=True))
        if window is not None and np.isfinite(sets.sectors[k].rate) and angles
    ]
    ordered = [u[order.index(i)] for i in range(n)]
    if is_symbolic(H, target, *angles):
        return from_sx(casadi.vertcat(*ordered), (n,)), tilts
    return np.array([float(x) for x in ordered]), [float(tilt) for tilt in tilts]


def _newton(sets: _Sets, h: list[list[Any]], d: list[Any], u: list[Any], w: list[Any], feet: list[_Foot]) -> list[Any]:
    """The Newton step: active directions go to their bound, the others to the minimum of the model with the arcs' curvature."""
    n, pairs = len(u), 2 * len(sets.sectors)
    # turn the inputs of a sector into (radial, tangential)
    turned = [list(row) for row in h]
    r, held, stiff = [0.0] * n, [0.0] * n, [0.0] * n
    for k, f in enumerate(feet):
        i, j = 2 * k, 2 * k + 1
        for row in turned:
            row[i], row[j] = f.x * row[i] + f.y * row[j], -f.y * row[i] + f.x * row[j]
        turned[i], turned[j] = (
            [f.x * a + f.y * b for a, b in zip(turned[i], turned[j], strict=True)],
            [-f.y * a + f.x * b for a, b in zip(turned[i], turned[j], strict=True)],
        )
        ox, oy = f.length * f.x - u[i], f.length * f.y - u[j]
        r[i], r[j] = f.x * ox + f.y * oy, -f.y * ox + f.x * oy
        held[i], held[j], stiff[j] = f.held, f.edge, f.bend
    for i, (a, b) in enumerate(zip(sets.lower, sets.upper, strict=True), start=pairs):
        kept = least(most(w[i], a), b)
        r[i], held[i] = kept - u[i], pick(kept == w[i], 0.0, 1.0)
    fixed = [a * b for a, b in zip(held, r, strict=True)]
    push = times(turned, fixed)
    free = [1.0 - a for a in held]
    K = [[turned[i][j] * free[i] * free[j] for j in range(n)] for i in range(n)]
    right = []
    for i in range(n):
        K[i][i] = K[i][i] + held[i] * d[i] + free[i] * d[i] * stiff[i]
        right.append(held[i] * d[i] * r[i] + free[i] * (d[i] * r[i] * (1.0 + stiff[i]) - push[i]))
    solved = solve_ldl(K, right)
    for k, f in enumerate(feet):
        i, j = 2 * k, 2 * k + 1
        solved[i], solved[j] = f.x * solved[i] - f.y * solved[j], f.y * solved[i] + f.x * solved[j]
    return solved


def _angle(x: Any, y: Any, foot: _Foot, window: _Window) -> Any:
    """Tilt of a force, near the middle of its window; without a force, that of the demand."""
    import casadi

    pushing = x * x + y * y > NO_FORCE**2
    x, y = pick(pushing, x, foot.x), pick(pushing, y, foot.y)
    a, b = window.x * x + window.y * y, -window.y * x + window.x * y
    return window.middle + casadi.atan2(b, a)


def _less(a: list[Any], b: list[Any]) -> list[Any]:
    return [x - y for x, y in zip(a, b, strict=True)]
