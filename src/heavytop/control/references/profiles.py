"""Fastest motions of one coordinate within limits of velocity, acceleration and jerk, between any states; slower ones of a given duration.

A motion is a sequence of segments with constant jerk. Pontryagin's principle leaves few sequences of signs of the jerk. In units with largest
jerk 1 and largest acceleration 1:

* The velocity limit is active: the fastest change of velocity to +-v_max at zero acceleration, a time at constant velocity, and the fastest
  change from there to the goal. The time at constant velocity follows from the distance.
* It is not: jerk +, 0, -, 0, +, or the mirrored sequence, where the jerk is 0 only at an extreme acceleration. With or without each of the
  two holds, three equations (acceleration, velocity, distance) leave one polynomial for one unknown, of degree 2, 4 or 6.

All real roots of all cases that have no negative time and exceed no limit are motions; the shortest is the fastest. A longer duration is met
by a slower velocity between the two changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from heavytop._arrays import Floats
from heavytop.errors import ControlError

ROUNDING = 1e-9
"""Negative times of this size, in units of the motion, and limits exceeded by this share are rounding errors."""
CLOSED, CANCELLED = 1e-9, 1e-13
"""Error of the final position that a motion may have, relative to its distance, and to its way there and back."""
GRID = 129
"""Velocities between which motions of a given duration are searched."""


class AxisState(NamedTuple):
    """Position, velocity and acceleration."""

    p: float
    v: float
    a: float


class AxisLimits(NamedTuple):
    """Largest velocity, acceleration and jerk; the jerk may be infinite."""

    v: float
    a: float
    j: float


@dataclass(frozen=True)
class Profile:
    """Segments of constant jerk from a start.

    With an infinite largest jerk the segments have constant acceleration, ``jerks`` are zero and ``accelerations`` are given.

    >>> fastest(AxisState(0, 0, 0), AxisState(1, 0, 0), AxisLimits(10.0, 1.0, np.inf)).duration
    2.0
    """

    start: AxisState
    times: tuple[float, ...]
    jerks: tuple[float, ...]
    accelerations: tuple[float, ...] | None = None

    @property
    def duration(self) -> float:
        """Sum of the times of the segments."""
        return float(sum(self.times))

    def states(self) -> list[AxisState]:
        """States at the beginning of each segment and at the end."""
        p, v, a = self.start
        found = []
        for k, (t, j) in enumerate(zip(self.times, self.jerks, strict=True)):
            a = a if self.accelerations is None else self.accelerations[k]
            found.append(AxisState(p, v, a))
            p, v, a = p + t * (v + t * (a / 2 + t * j / 6)), v + t * (a + t * j / 2), a + t * j
        return [*found, AxisState(p, v, a)]

    def coefficients(self) -> tuple[Floats, Floats]:
        """Begin (k,) and coefficients (k, 4), lowest first, of the polynomials of the segments that take time."""
        begin = np.concatenate([[0.0], np.cumsum(self.times)[:-1]])
        rows = [(s.p, s.v, s.a / 2, j / 6) for s, j in zip(self.states(), self.jerks, strict=False)]
        kept = np.array(self.times) > 0.0
        return begin[kept], np.array(rows)[kept]

    def peaks(self) -> tuple[float, float, float]:
        """Largest velocity, acceleration and jerk."""
        states = self.states()
        v = [abs(s.v) for s in states]
        for s, t, j in zip(states, self.times, self.jerks, strict=False):
            if j and 0.0 < -s.a / j < t:
                v.append(abs(s.v - s.a * s.a / (2 * j)))
        return max(v), max(abs(s.a) for s in states), max(map(abs, self.jerks), default=0.0)

    def extremes(self) -> tuple[float, float]:
        """Least and largest position."""
        begin, rows = self.coefficients()
        ends = [*begin[1:], self.duration]
        p = [self.start.p, self.states()[-1].p]
        for t0, t1, row in zip(begin, ends, rows, strict=True):
            slope = np.array([row[1], 2 * row[2], 3 * row[3]])
            roots = np.roots(slope[::-1]) if np.any(slope[1:]) else np.zeros(0)
            inner = [r.real for r in roots if abs(r.imag) < 1e-12 and 0.0 < r.real < t1 - t0]
            p += [float(np.polyval(row[::-1], t)) for t in inner]
        return min(p), max(p)

    def scaled(self, factor: float) -> Profile:
        """The same path in ``factor`` times the duration, from rest to rest."""
        accelerations = None if self.accelerations is None else tuple(a / factor**2 for a in self.accelerations)
        start = AxisState(self.start.p, self.start.v / factor, self.start.a / factor**2)
        return Profile(
            start, tuple(t * factor for t in self.times), tuple(j / factor**3 for j in self.jerks), accelerations
        )


def velocity_change(v0: float, a0: float, v1: float, a1: float, limits: AxisLimits) -> list[tuple[float, float]]:
    """Segments (time, jerk) of the fastest change from velocity and acceleration (v0, a0) to (v1, a1)."""
    j, most = limits.j, limits.a
    direct = abs(a1 - a0) * (a0 + a1) / (2 * j)  # change of velocity along the ramp from a0 to a1
    s = 1.0 if v1 - v0 >= direct else -1.0
    # mirrored so that the acceleration first grows to a peak
    rise, b0, b1 = s * (v1 - v0), s * a0, s * a1
    square = j * rise + 0.5 * (b0 * b0 + b1 * b1)
    peak = max(np.sqrt(max(square, 0.0)), b0, b1)
    hold = 0.0
    if peak > most:
        peak = most
        hold = (rise - (2 * peak**2 - b0**2 - b1**2) / (2 * j)) / peak
    return [((peak - b0) / j, s * j), (max(hold, 0.0), 0.0), ((peak - b1) / j, -s * j)]


def fastest(start: AxisState, goal: AxisState, limits: AxisLimits) -> Profile:
    """The fastest motion within limits.

    >>> move = fastest(AxisState(0, 0, 0), AxisState(1, 0, 0), AxisLimits(1.0, 2.0, 10.0))
    >>> round(move.duration, 6), [round(x, 6) for x in move.peaks()]
    (1.7, [1.0, 2.0, 10.0])
    """
    found = candidates(start, goal, limits)
    if not found:
        raise ControlError(impossible(start, goal, limits))
    return found[0]


def impossible(start: AxisState, goal: AxisState, limits: AxisLimits) -> str:
    """The message where no motion keeps the limits.

    >>> impossible(AxisState(0, 2, 0), AxisState(1, 0, 0), AxisLimits(1.0, 2.0, 10.0))[:46]
    'no motion keeps the limits from velocity 2 and'
    """
    return (
        f"no motion keeps the limits from velocity {start.v:.4g} and acceleration {start.a:.4g} to velocity {goal.v:.4g} and acceleration "
        f"{goal.a:.4g}: one of these, or the velocity that an acceleration leads to, is beyond its limit (velocity {limits.v:.4g}, acceleration "
        f"{limits.a:.4g}, jerk {limits.j:.4g})."
    )


def candidates(start: AxisState, goal: AxisState, limits: AxisLimits) -> list[Profile]:
    """All motions of extreme jerk within limits, the fastest first."""
    if tuple(start) == tuple(goal):
        return [Profile(start, (0.0,), (0.0,), None if np.isfinite(limits.j) else (0.0,))]
    if not np.isfinite(limits.j):
        return _trapezoids(start, goal, limits)
    # units in which the largest jerk is 1 and the motion has the size 1
    d, speed, rate = abs(goal.p - start.p), max(abs(start.v), abs(goal.v)), max(abs(start.a), abs(goal.a))
    unit_t = max(np.cbrt(d / limits.j), np.sqrt(speed / limits.j), rate / limits.j)
    unit_a = limits.j * unit_t
    unit_v, unit_p = unit_a * unit_t, unit_a * unit_t**2
    s0 = AxisState(0.0, start.v / unit_v, start.a / unit_a)
    s1 = AxisState((goal.p - start.p) / unit_p, goal.v / unit_v, goal.a / unit_a)
    scaled = AxisLimits(limits.v / unit_v, limits.a / unit_a, 1.0)
    found = []
    for segments in (*_cruising(s0, s1, scaled), *_without_cruise(s0, s1, scaled)):
        profile = _checked(segments, s0, s1, scaled)
        if profile is not None:
            times = tuple(float(t * unit_t) for t in profile.times)
            found.append(Profile(start, times, tuple(j * limits.j for j in profile.jerks)))
    return sorted(found, key=lambda profile: profile.duration)


def _checked(
    segments: Sequence[tuple[float, float]], start: AxisState, goal: AxisState, limits: AxisLimits
) -> Profile | None:
    """The motion of some segments, if no time is negative, no limit is exceeded and it ends at the goal."""
    total = sum(abs(t) for t, _ in segments)
    if not np.isfinite(total) or any(t < -ROUNDING * total for t, _ in segments):
        return None
    return _ending(Profile(start, tuple(max(t, 0.0) for t, _ in segments), tuple(j for _, j in segments)), goal, limits)


def _ending(profile: Profile, goal: AxisState, limits: AxisLimits) -> Profile | None:
    """The motion if it is within limits and ends at the goal to rounding of its distance, its velocities and its accelerations."""
    v, a, _ = profile.peaks()
    if v > limits.v * (1 + ROUNDING) or a > limits.a * (1 + ROUNDING):
        return None
    end, T = profile.states()[-1], profile.duration
    off_p = abs(end.p - goal.p) <= CLOSED * abs(goal.p - profile.start.p) + CANCELLED * v * T
    off_v = abs(end.v - goal.v) <= CLOSED * max(v, abs(goal.v))
    off_a = profile.accelerations is not None or abs(end.a - goal.a) <= CLOSED * max(a, abs(goal.a))
    return profile if off_p and off_v and off_a else None


def _cruising(start: AxisState, goal: AxisState, limits: AxisLimits) -> Iterator[list[tuple[float, float]]]:
    """Motions whose velocity reaches a limit."""
    for v in (limits.v, -limits.v):
        first, last = velocity_change(start.v, start.a, v, 0.0, limits), velocity_change(v, 0.0, goal.v, goal.a, limits)
        gone = _distance(first, start.v, start.a) + _distance(last, v, 0.0)
        yield [*first, ((goal.p - start.p - gone) / v, 0.0), *last]


def _distance(segments: Sequence[tuple[float, float]], v: float, a: float) -> float:
    p = 0.0
    for t, j in segments:
        p, v, a = p + t * (v + t * (a / 2 + t * j / 6)), v + t * (a + t * j / 2), a + t * j
    return p


def _without_cruise(start: AxisState, goal: AxisState, limits: AxisLimits) -> Iterator[list[tuple[float, float]]]:
    """Motions with jerk +, 0, -, 0, + and mirrored ones, in units where the largest jerk is 1."""
    for s in (1.0, -1.0):
        v0, a0, v1, a1, d = s * start.v, s * start.a, s * goal.v, s * goal.a, s * (goal.p - start.p)
        for times in _sequences(v0, a0, v1, a1, d, limits.a):
            yield [(t, s * j) for t, j in zip(times, (1.0, 0.0, -1.0, 0.0, 1.0), strict=True)]


def _sequences(v0: float, a0: float, v1: float, a1: float, d: float, A: float) -> Iterator[tuple[float, ...]]:
    """Times of the five segments with jerk 1, 0, -1, 0, 1; x is the highest and y the lowest acceleration, A their largest size."""
    unknown = Polynomial([0.0, 1.0])
    free = v1 - v0 - 0.5 * (a1 * a1 - a0 * a0)  # = x^2 - y^2 + x h1 + y h2
    # no holds: x - y = s, x + y = free / s; 48 s^3 times the distance
    s, c = unknown, free
    X, Y = s * s + c, c - s * s
    T1, T3 = X - 2 * a0 * s, 2 * a1 * s - Y
    base = v0 - 0.5 * a0 * a0
    total = 24 * v0 * T1 * s**2 + 6 * a0 * T1**2 * s + T1**3
    total = total + 48 * base * s**4 + 6 * X**2 * s**2 + 12 * X * s**4 - 8 * s**6
    total = total + 24 * (base + 0.5 * c) * T3 * s**2 + 3 * T3 * X**2 + 3 * Y * T3**2 + T3**3
    for root in _roots(total - 48 * d * s**3):
        if root > 0.0:
            x, y = 0.5 * (root + c / root), 0.5 * (c / root - root)
            yield x - a0, 0.0, root, 0.0, a1 - y
    if abs(free) <= ROUNDING * (abs(v0) + abs(v1) + a0 * a0 + a1 * a1):  # the ramp from a0 to a1 alone
        yield max(a1 - a0, 0.0), 0.0, max(a0 - a1, 0.0), 0.0, 0.0
    # the highest acceleration is held: y unknown
    y = unknown
    h1 = (free - A * A + y**2) / A
    yield from _solved([A - a0, h1, A - y, 0.0, a1 - y], v0, a0, d)
    # the lowest is held: x unknown
    x = unknown
    h2 = (x**2 - A * A - free) / A
    yield from _solved([x - a0, 0.0, x + A, h2, a1 + A], v0, a0, d)
    # both: the time of the first hold unknown
    yield from _solved([A - a0, unknown, 2.0 * A, unknown - free / A, a1 + A], v0, a0, d)


def _solved(times: Sequence[Polynomial | float], v0: float, a0: float, d: float) -> Iterator[tuple[float, ...]]:
    """Times of the segments at the roots of their distance minus d."""
    p, v, a = Polynomial([0.0]), Polynomial([v0]), Polynomial([a0])
    for t, j in zip(times, (1.0, 0.0, -1.0, 0.0, 1.0), strict=True):
        p, v, a = p + v * t + 0.5 * a * t * t + j / 6 * t * t * t, v + a * t + 0.5 * j * t * t, a + j * t
    for root in _roots(p - d):
        yield tuple(float(t(root)) if isinstance(t, Polynomial) else t for t in times)


def _roots(f: Polynomial) -> list[float]:
    """Real roots, improved by Newton's method; nearly real ones count, as limits make roots double."""
    size = np.max(np.abs(f.coef), initial=0.0)
    if size == 0.0:
        return [0.0]
    f = Polynomial(np.trim_zeros(f.coef, "b") / size)
    if f.degree() < 1:
        return []
    slope, found = f.deriv(), []
    for root in f.roots():
        if abs(root.imag) > 1e-5 * (1.0 + abs(root)):
            continue
        x = float(root.real)
        for _ in range(4):
            rate = slope(x)
            step = f(x) / rate if rate else 0.0
            if not abs(step) <= 1e-2 * (1.0 + abs(x)):
                break
            x -= step
        found.append(x)
    return found


# --- trapezoids: no limit of the jerk ---------------------------------------------------------------------------------------


def _trapezoids(start: AxisState, goal: AxisState, limits: AxisLimits) -> list[Profile]:
    """Motions with extreme or no acceleration, the fastest first."""
    d, found = goal.p - start.p, []
    for s in (1.0, -1.0):
        square = 0.5 * (start.v**2 + goal.v**2) + s * limits.a * d
        peaks = {np.sqrt(max(square, 0.0)), -np.sqrt(max(square, 0.0)), s * limits.v}
        for peak in peaks:
            found += [profile for profile in (_trapezoid(start, goal, peak, limits),) if profile is not None]
    return sorted(found, key=lambda profile: profile.duration)


def _trapezoid(start: AxisState, goal: AxisState, v: float, limits: AxisLimits) -> Profile | None:
    """The motion over the velocity v, which is held for the rest of the distance; None if there is none."""
    t0, t1 = abs(v - start.v) / limits.a, abs(goal.v - v) / limits.a
    rest = goal.p - start.p - 0.5 * (start.v + v) * t0 - 0.5 * (v + goal.v) * t1
    hold = rest / v if v else 0.0
    if hold < -ROUNDING * (t0 + t1 + abs(hold)):
        return None
    up, down = np.sign(v - start.v) * limits.a, np.sign(goal.v - v) * limits.a
    times = float(t0), float(max(hold, 0.0)), float(t1)
    profile = Profile(AxisState(start.p, start.v, 0.0), times, (0.0, 0.0, 0.0), (float(up), 0.0, float(down)))
    return _ending(profile, goal, limits)


# --- a given duration ---------------------------------------------------------------------------------------------------------


def lasting(
    start: AxisState, goal: AxisState, limits: AxisLimits, duration: float, best: Sequence[Profile] | None = None
) -> Profile | None:
    """A motion of the given duration within limits; None if there is none of the form change, constant velocity, change.

    ``best`` are its :func:`candidates`, if they are known.

    >>> slow = lasting(AxisState(0, 0, 0), AxisState(1, 0.5, 0), AxisLimits(1.0, 2.0, 10.0), 3.0)
    >>> round(slow.duration, 9), [round(float(x), 9) for x in slow.states()[-1]]
    (3.0, [1.0, 0.5, 0.0])
    """
    best = candidates(start, goal, limits) if best is None else best
    for profile in best:
        if abs(profile.duration - duration) <= ROUNDING * duration:
            return profile
    if best and not any((start.v, start.a, goal.v, goal.a)) and best[0].duration <= duration:
        return best[0].scaled(duration / best[0].duration) if best[0].duration else _rest(start, duration, limits)

    def motion(v: float) -> tuple[float, float, list[tuple[float, float]]]:
        """Distance that is left over, time of constant velocity, segments."""
        first, last = _change(start.v, start.a, v, 0.0, limits), _change(v, 0.0, goal.v, goal.a, limits)
        hold = duration - sum(t for t, *_ in first) - sum(t for t, *_ in last)
        gone = _gone(first, start.v, start.a, limits) + _gone(last, v, 0.0, limits) + v * hold
        return goal.p - start.p - gone, hold, [*first, (hold, 0.0), *last]

    special = [0.0, start.v, goal.v, *(_peak(s, limits) for s in (start, goal))]
    grid = np.unique(np.clip([*np.linspace(-limits.v, limits.v, GRID), *special], -limits.v, limits.v))
    values = [motion(v)[:2] for v in grid]
    roots = [v for v, (left, hold) in zip(grid, values, strict=True) if left == 0.0 and hold >= 0.0]
    for low, high, (f0, h0), (f1, h1) in zip(grid, grid[1:], values, values[1:], strict=False):
        a, b = low, high
        if h0 < 0.0 and h1 < 0.0:
            continue
        if h0 < 0.0 or h1 < 0.0:  # only a part of the interval has a time of constant velocity
            edge = _bisected(lambda v: motion(v)[1], low, high)
            a, b = (edge, high) if h0 < 0.0 else (low, edge)
            f0, f1 = motion(a)[0], motion(b)[0]
        if f0 * f1 < 0.0:
            roots.append(_bisected(lambda v: motion(v)[0], a, b))
    for v in roots:
        profile = _assembled(start, goal, limits, motion(v)[2])
        if profile is not None:
            return profile
    return None


def _rest(start: AxisState, duration: float, limits: AxisLimits) -> Profile:
    return Profile(start, (duration,), (0.0,), None if np.isfinite(limits.j) else (0.0,))


def _peak(state: AxisState, limits: AxisLimits) -> float:
    """Velocity at which the acceleration of a state has vanished."""
    return state.v + 0.5 * state.a * abs(state.a) / limits.j if np.isfinite(limits.j) else state.v


def _change(v0: float, a0: float, v1: float, a1: float, limits: AxisLimits) -> list[tuple[float, float]]:
    """Segments (time, jerk), or (time, acceleration) without a limit of the jerk."""
    if np.isfinite(limits.j):
        return velocity_change(v0, a0, v1, a1, limits)
    return [(abs(v1 - v0) / limits.a, float(np.sign(v1 - v0)) * limits.a)]


def _gone(segments: Sequence[tuple[float, float]], v: float, a: float, limits: AxisLimits) -> float:
    if np.isfinite(limits.j):
        return _distance(segments, v, a)
    return sum(t * (v + 0.5 * t * x) for t, x in segments)


def _assembled(
    start: AxisState, goal: AxisState, limits: AxisLimits, segments: Sequence[tuple[float, float]]
) -> Profile | None:
    """The motion of the segments, if it ends at the goal within limits."""
    times, values = tuple(max(t, 0.0) for t, _ in segments), tuple(x for _, x in segments)
    if np.isfinite(limits.j):
        profile = Profile(start, times, values)
    else:
        profile = Profile(AxisState(start.p, start.v, 0.0), times, (0.0,) * len(times), values)
    return _ending(profile, goal, limits)


def _bisected(f: Callable[[float], float], a: float, b: float) -> float:
    """A root of a continuous function between a and b, where its signs differ."""
    from scipy.optimize import brentq

    return float(brentq(f, a, b, xtol=1e-15, maxiter=200))  # pyright: ignore[reportArgumentType]
