"""Differential flatness without angles: feasible references of vehicles whose thrust has one fixed direction in the body.

The specific force a = r'' - g determines the thrust axis ``b = a / f``; a side or a heading vector the rotation about it.
``f = +-|a|``: where the force passes through zero (free fall) the sign changes and the axis continues smoothly, so
inverted flight and free fall need no special case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, concatenate, directional, from_columns, is_symbolic, scale, symbol, transpose
from heavytop.compile import Traced, trace_of
from heavytop.control.disturbances.air_drag import turning
from heavytop.control.references.curves import Curve, derivatives
from heavytop.control.references.reference import Motion3, Reference, check_regular, coordinates_of_motion
from heavytop.errors import ControlError, wrong_shape
from heavytop.geometry import se3, so3
from heavytop.system import Model

ZERO_FORCE = 1e-3
"""Specific force, as a share of gravity, below which a zero of the force is missed too closely."""
SERIES_ORDER = 12


class Unit(NamedTuple):
    """A unit vector with two derivatives, and the length of the original vector."""

    b: Array
    b1: Array
    b2: Array
    f: Array


def unit_vector(a: Array, a1: Array, a2: Array, sign: Array = 1.0) -> Unit:
    """b = a / f with f = sign |a|, and its derivatives: b' = (a' - f' b) / f, b'' = (a'' - f'' b - 2 f' b') / f."""
    f = sign * np.sqrt(np.vecdot(a, a))
    b = scale(1 / f, a, 1)
    f1 = np.vecdot(b, a1)
    b1 = scale(1 / f, a1 - scale(f1, b, 1), 1)
    f2 = np.vecdot(b, a2) + np.vecdot(b1, a1)
    b2 = scale(1 / f, a2 - scale(f2, b, 1) - scale(2 * f1, b1, 1), 1)
    return Unit(b, b1, b2, f)


def _crossed(a: Unit, b: Unit) -> Unit:
    """a x b with derivatives."""
    first = np.cross(a.b1, b.b) + np.cross(a.b, b.b1)
    second = np.cross(a.b2, b.b) + 2 * np.cross(a.b1, b.b1) + np.cross(a.b, b.b2)
    return Unit(np.cross(a.b, b.b), first, second, a.f)


def attitude_about(axis: Unit, side: Any = None, heading: Any = None) -> tuple[Array, Array, Array]:
    """Rotation matrix, angular velocity and its rate of a body whose z axis is ``axis``.

    side : b_x = unit(side x b), for motions in a plane with this normal; heading : b_y = unit(b x heading), default: heading e_x.
    """
    z = axis
    if side is not None:
        n = np.asarray(side, dtype=float)
        x = unit_vector(np.cross(n, z.b), np.cross(n, z.b1), np.cross(n, z.b2))
        y = _crossed(z, x)
    else:
        c = np.asarray((1.0, 0.0, 0.0) if heading is None else heading, dtype=float)
        y = unit_vector(np.cross(z.b, c), np.cross(z.b1, c), np.cross(z.b2, c))
        x = _crossed(y, z)
    R = from_columns(x.b, y.b, z.b)
    back = transpose(R)
    omega = 0.5 * so3.vee2(back @ from_columns(x.b1, y.b1, z.b1))
    omega_rate = 0.5 * so3.vee2(back @ from_columns(x.b2, y.b2, z.b2))
    return R, omega, omega_rate


def motion_of(R: Array, omega: Array, omega_rate: Array, r: Array, r1: Array, r2: Array) -> tuple[Array, Array, Array]:
    """Pose, body twist and its rate from attitude and position with derivatives: v = R^T r', v' = R^T r'' - w x v."""
    back = transpose(R)
    v = np.matvec(back, r1)
    v_rate = np.matvec(back, r2) - np.cross(omega, v)
    return se3.pose(R, r), concatenate(v, omega), concatenate(v_rate, omega_rate)


def held_motion(
    model: Model,
    t: np.ndarray,
    duration: float,
    attitude: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    path: Callable[[np.ndarray], tuple[np.ndarray, ...]],
) -> Motion3:
    """q, v, a at times (n,) from attitude (R, w, w') and path (r, r', r''); outside of 0 to ``duration`` the end poses are held."""
    inside, now = ((t >= 0) & (t <= duration))[:, None], np.clip(t, 0.0, duration)
    (R, *spinning), (r, *moving) = attitude(now), path(now)[:3]
    omega, omega_rate, r1, r2 = (np.where(inside, x, 0.0) for x in (*spinning, *moving))
    return coordinates_of_motion(model, *motion_of(R, omega, omega_rate, r, r1, r2))


def flat_reference(
    model: Model,
    curve: Curve,
    side: Any = None,
    heading: Any = None,
    duration: float | None = None,
    period: float | None = None,
    yaw_rate: Callable[[Array], Array] | None = None,
) -> Reference:
    """Feasible reference of a quadcopter along a curve of its centre of mass.

    Parameters
    ----------
    model : a single free body whose inputs push along its z axis; origin in the centre of mass.
    curve : t -> position (3,) in NumPy notation, four times differentiable.
    side : (3,) vector near the body's y axis: the normal of the plane of a looping. Or:
    heading : (3,) vector near the body's x axis. Default: heading e_x.
    duration, period : duration and period of the motion (s), in which zeros of the thrust are located.
    yaw_rate : t -> angular velocity about the thrust axis (rad/s), in NumPy notation, instead of a constant side or heading: the attitude
        is its integral, which is never singular. The heading is then that of the start; the reference needs a duration and has no period.

    Raises
    ------
    ControlError
        The specific force vanishes together with its rate, or the axis becomes parallel to the side or heading vector.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> from heavytop.control import looping
    >>> reference = flat_reference(quadcopter().model, looping(1.5, 3.6), side=(0, 1, 0), duration=6.0)
    >>> reference.feasibility().largest_residual < 1e-12
    True
    """
    if side is not None and heading is not None:
        raise ControlError("give the side vector or the heading vector, not both.")
    for what, given in (("side vector", side), ("heading vector", heading)):
        if given is not None and np.shape(given) != (3,):
            raise wrong_shape(what, (3,), np.shape(given))
    gravity, rates = numeric_gravity(model), derivatives(curve, 4)
    horizon = duration or period or 10.0
    zeros = _zeros(rates, gravity, horizon, model)
    series = [_series(curve, t) for t in zeros]

    def axis_at(t: np.ndarray) -> Unit:
        _, _, r2, r3, r4 = rates(t)
        return _axis_through_zeros(t, r2 - gravity, r3, r4, zeros, series)

    if yaw_rate is not None:
        if side is not None or duration is None or period is not None:
            raise ControlError(
                "a yaw rate is integrated: give a heading at the start and a duration, no side vector and no period."
            )
        start = np.asarray((1.0, 0.0, 0.0) if heading is None else heading, dtype=float)
        return yaw_reference(model, axis_at, rates, yaw_rate, start, duration)
    if not zeros:
        t = symbol("t")
        r, r1, r2, r3, r4 = rates.expressions(t)
        attitude = attitude_about(unit_vector(r2 - gravity, r3, r4), side, heading)
        reference = _traced(model, t, motion_of(*attitude, r, r1, r2), duration, period)
    else:

        def evaluate(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            attitude = attitude_about(axis_at(t), side, heading)
            return coordinates_of_motion(model, *motion_of(*attitude, *rates(t)[:3]))

        reference = Reference(model, evaluate, duration=duration, period=period, breaks=zeros)
    check_regular(reference)
    return reference


def oscillation_reference(
    model: Model,
    curve: Curve,
    lever: float,
    side: Any = None,
    heading: Any = None,
    duration: float | None = None,
    period: float | None = None,
) -> Reference:
    """Reference of a vehicle whose lateral force acts above its centre of mass (a bicopter), from its centre of oscillation.

    The centre of oscillation ``c = r - lever b`` moves like a quadcopter: b = unit(c'' - g), r = c + lever b. Exact for motions in a
    vertical plane with the lever of that plane; otherwise approximate, see :meth:`.Reference.feasibility` and :class:`.VirtualVehicle`.

    Parameters
    ----------
    curve : t -> c (3,), six times differentiable. lever : eps of :func:`.lateral_lever`, m. Others: as :func:`flat_reference`.

    Examples
    --------
    >>> from heavytop.control import circle
    >>> from heavytop.copters import bicopter
    >>> craft = bicopter()
    >>> reference = oscillation_reference(craft.model, circle(1.0, 1.0), lever=0.05, heading=(1, 0, 0), duration=6.0)
    >>> reference.duration
    6.0
    """
    gravity = model.description.gravity

    def position(t: Array) -> Array:
        c = curve(t)
        one = np.asarray(1.0)
        a = directional(directional(c, t, one), t, one) - gravity
        return c + scale(lever / np.sqrt(np.vecdot(a, a)), a, 1)

    t = symbol("t")
    r, r1, r2 = derivatives(position, 2).expressions(t)
    _, _, c2, c3, c4 = derivatives(curve, 4).expressions(t)
    attitude = attitude_about(unit_vector(c2 - gravity, c3, c4), side, heading)
    reference = _traced(model, t, motion_of(*attitude, r, r1, r2), duration, period)
    check_regular(reference)
    return reference


def _traced(
    model: Model, t: Array, motion: tuple[Array, Array, Array], duration: float | None, period: float | None
) -> Reference:
    q, v, a = coordinates_of_motion(model, *motion)
    traced = trace_of("flat_reference", {"t": t}, {"q_R": q, "v_R": v, "a_R": a})
    return Reference(model, traced=traced, duration=duration, period=period)


def numeric_gravity(model: Model) -> np.ndarray:
    """Gravity (3,) of a model in which it is not a parameter."""
    gravity = model.description.gravity
    if is_symbolic(gravity):
        raise ControlError(f"gravity of {model.name!r} is a parameter, but a flat reference needs a number.")
    return gravity


def _zeros(rates: Traced, gravity: np.ndarray, horizon: float, model: Model) -> tuple[float, ...]:
    """Times at which the specific force vanishes, found on a grid and refined by Newton's method on a . a'."""
    g = max(float(np.linalg.norm(gravity)), 1e-9)
    times = np.linspace(0.0, horizon, 4001)
    size = np.linalg.norm(rates(times)[2] - gravity, axis=1)
    inner = np.nonzero((size[1:-1] <= size[:-2]) & (size[1:-1] <= size[2:]))[0] + 1
    found = []
    for k in inner:
        t = times[k]
        for _ in range(20):
            _, _, r2, r3, r4 = rates(t)
            a = r2 - gravity
            slope = float(r3 @ r3 + a @ r4)
            if slope <= 0:
                break
            t = t - float(a @ r3) / slope
        _, _, r2, r3, _ = rates(t)
        force, jerk = float(np.linalg.norm(r2 - gravity)), float(np.linalg.norm(r3))
        if abs(t - times[k]) > 2 * (times[1] - times[0]) or force > 1e-9 * g:
            if force < ZERO_FORCE * g and force > 1e-9 * g:
                raise ControlError(
                    f"the specific force of {model.name!r} nearly vanishes at t = {t:.4g} s ({force:.3g} m/s^2): the vehicle would have to "
                    "turn over almost instantly. Let the curve pass exactly through zero force, or keep away from it."
                )
            continue
        if jerk < 1e-6 * g:
            raise ControlError(
                f"the specific force vanishes at t = {t:.4g} s together with its rate: the curve does not determine the thrust axis."
            )
        found.append(t)
    return tuple(found)


def _series(curve: Curve, zero: float) -> np.ndarray:
    """Taylor coefficients (SERIES_ORDER - 2, 3) of a(t) / (t - zero) about a zero of a."""
    values = derivatives(curve, SERIES_ORDER)(zero)[3:]
    factors = np.cumprod(np.arange(1, len(values) + 1, dtype=float))
    return np.array(values) / factors[:, None]


def _axis_through_zeros(
    t: np.ndarray, a: np.ndarray, a1: np.ndarray, a2: np.ndarray, zeros: tuple[float, ...], series: list[np.ndarray]
) -> Unit:
    """The thrust axis: the sign of f changes at each zero; near a zero c = a / (t - zero) from its series replaces a."""
    polynomial = np.polynomial.polynomial
    radius = 2e-2 / max(1.0, np.max(np.linalg.norm(a1, axis=1))) if zeros else 0.0
    sign, near, locals_ = np.ones(len(t)), [], []
    for k, (zero, c) in enumerate(zip(zeros, series, strict=True)):
        sign = np.where(t > zero, -sign, sign)
        tau = t - zero
        near.append((np.abs(tau) < radius)[:, None])
        values = [polynomial.polyval(tau, polynomial.polyder(c, m)).T for m in range(3)]
        # on both sides of the zero sign(f) a / |a| = -(-1)^k c / |c|
        locals_.append(unit_vector(values[0], values[1], values[2], -((-1.0) ** k)))
    axis = unit_vector(np.where(np.any(near, axis=0), 1.0, a) if near else a, a1, a2, sign)
    for mask, local in zip(near, locals_, strict=True):
        b, b1, b2 = (np.where(mask, x, y) for x, y in zip(local[:3], axis[:3], strict=True))
        axis = Unit(b, b1, b2, axis.f)
    return axis


NODES = 5
"""Gauss nodes of the integrals between two nodes of the grid."""
TURN = 0.2
"""Largest turn (rad) of the thrust axis between two nodes of the grid."""

Axis = Callable[[np.ndarray], Unit]
Path = Callable[[np.ndarray], tuple[np.ndarray, ...]]


class IntegratedYaw:
    """Attitudes (n, 3, 3) with a given z axis and a given rate w_z about it, from an attitude at the start: no direction is singular.

    They are the integral of the angular velocity w_x = -b' . b_y, w_y = b' . b_x, w_z(t). Between two nodes of a grid the axis turns from b_k to b(t)
    by the shortest rotation, which spins by (b_k x b . b') / (1 + b_k . b) about the axis; the rest of w_z is a rotation about b, a plain integral.

    Parameters
    ----------
    axis : times (n,) -> z axis with two derivatives. rate : times (n,) -> w_z (n,) and its derivative (n,), rad/s.
    start : (3,) heading at the start. duration : s.
    """

    def __init__(self, axis: Axis, rate: Path, start: np.ndarray, duration: float, grid: int = 400) -> None:
        self.axis, self.rate = axis, rate
        x, w = np.polynomial.legendre.leggauss(NODES)
        self._nodes, self._weights = (x + 1) / 2, w / 2
        times = np.linspace(0.0, duration, grid + 1)
        b = axis(times).b
        turned = np.arccos(np.clip(np.sum(b[1:] * b[:-1], axis=1), -1.0, 1.0))
        if np.max(turned) > TURN:  # finer where the axis turns fast
            pieces = [np.linspace(a, c, 2 + int(n / TURN)) for a, c, n in zip(times, times[1:], turned, strict=False)]
            times = np.unique(np.concatenate(pieces))
            b = axis(times).b
        y = np.cross(b[0], start)
        if np.linalg.norm(y) < 1e-6:
            raise ControlError("the heading at the start is parallel to the thrust axis; choose another one.")
        y = y / np.linalg.norm(y)
        self.times, self.b = times, b
        R = np.stack([np.cross(y, b[0]), y, b[0]], axis=-1)
        spins = self._spin(times[:-1], times[1:], b[:-1])
        swings = turning(b[:-1], b[1:])
        attitudes = [R]
        for swing, spin in zip(swings, spins, strict=True):
            R = _orthonormal(swing @ R @ so3.exp(np.array([0.0, 0.0, spin])))
            attitudes.append(R)
        self.attitudes = np.array(attitudes)
        finite = np.all(np.isfinite(self.attitudes), axis=(1, 2))
        if not np.all(finite):
            raise ControlError(
                f"the yaw rate or the curve is not finite near t = {times[np.argmin(finite)]:.4g} s: the attitude cannot be integrated."
            )

    def __call__(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rotation (n, 3, 3), angular velocity (n, 3) and its rate (n, 3) at the times (n,)."""
        k = np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        axis = self.axis(t)
        spin = self._spin(self.times[k], t, self.b[k])
        about = np.stack([0.0 * spin, 0.0 * spin, spin], axis=-1)
        R = turning(self.b[k], axis.b) @ self.attitudes[k] @ so3.exp(about)
        w_z, w_z1 = self.rate(t)
        bx, by = R[..., 0], R[..., 1]
        w_x, w_y = -np.vecdot(axis.b1, by), np.vecdot(axis.b1, bx)
        # derivatives of -b' . b_y and b' . b_x with b_x' = w_z b_y - w_y b, b_y' = w_x b - w_z b_x
        w_x1 = -np.vecdot(axis.b2, by) + w_z * w_y
        w_y1 = np.vecdot(axis.b2, bx) - w_z * w_x
        return R, np.stack([w_x, w_y, w_z], axis=-1), np.stack([w_x1, w_y1, w_z1], axis=-1)

    def _spin(self, begin: np.ndarray, end: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Integrals (n,) of the yaw rate minus that of the shortest rotation from the axes b (n, 3)."""
        total, length = np.zeros(len(begin)), end - begin
        for x, w in zip(self._nodes, self._weights, strict=True):
            t = begin + x * length
            axis = self.axis(t)
            own = np.vecdot(np.cross(b, axis.b), axis.b1) / (1.0 + np.vecdot(b, axis.b))
            total = total + w * length * (self.rate(t)[0] - own)
        return total


def _orthonormal(R: np.ndarray) -> np.ndarray:
    """One step of Newton's iteration for the nearest rotation."""
    return R @ (1.5 * np.eye(3) - 0.5 * R.T @ R)


def yaw_reference(
    model: Model, axis: Axis, path: Path, yaw_rate: Callable[[Array], Array], heading: np.ndarray, duration: float
) -> Reference:
    """Reference along a path (r, r', r'' at times (n,)) with a thrust axis and a yaw rate (rad/s, a function of time in NumPy notation)."""
    rates = derivatives(lambda t: np.reshape(yaw_rate(t), (1,)), 1, "yaw_rate")
    attitude = IntegratedYaw(axis, lambda t: tuple(x[..., 0] for x in rates(t)), heading, duration)
    return Reference(model, lambda t: held_motion(model, t, duration, attitude, path), duration=duration)
