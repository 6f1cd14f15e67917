"""References of joints: motions through waypoints within limits of velocity, acceleration and jerk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from heavytop._arrays import Floats, Numbers, is_finite, numbers
from heavytop._format import Brief
from heavytop.control.references.curves import PiecewisePolynomial, minimum_snap
from heavytop.control.references.profiles import (
    AxisLimits,
    AxisState,
    Profile,
    candidates,
    fastest,
    impossible,
    lasting,
)
from heavytop.control.references.reference import Motion3, Reference
from heavytop.errors import ControlError, unknown_name, wrong_shape
from heavytop.functions import Value
from heavytop.system import JointLimits, Model

KEPT = 1e-9
"""Share of a limit that rounding may exceed."""


@dataclass(frozen=True, eq=False, repr=False)
class MotionLimits(Brief, Value):
    """Largest velocity, acceleration and jerk of joints: one number for all of them, or a mapping from joints to numbers.

    Parameters
    ----------
    velocity : rad/s or m/s; None: that of the limits of the system (robot files have it), joint by joint.
    acceleration : rad/s^2 or m/s^2.
    jerk : rad/s^3 or m/s^3; None: unlimited, the acceleration jumps.

    >>> MotionLimits(velocity=2.0, acceleration=10.0, jerk={"shoulder": 80.0, "elbow": 150.0})
    MotionLimits(velocity=2, acceleration=10, jerk={'shoulder': 80, 'elbow': 150})
    """

    velocity: Any = None
    acceleration: Any = None
    jerk: Any = None

    def of(self, model: Model, joints: Sequence[str]) -> list[AxisLimits]:
        """The limits of some joints."""
        if self.acceleration is None:
            raise ControlError(
                "motion limits need an acceleration, such as control.MotionLimits(velocity=2.0, acceleration=10.0)."
            )
        for what in ("velocity", "acceleration", "jerk"):
            given = getattr(self, what)
            for name in given if isinstance(given, Mapping) else ():
                if name not in joints:
                    raise unknown_name(f"joint of {model.name!r} (in motion limits)", name, joints)
        found = []
        for joint in joints:
            own = model.description.limits.get(joint, JointLimits())
            values = (
                self._one("velocity", joint, own.velocity), self._one("acceleration", joint, None), self._one("jerk", joint, np.inf)
            )  # fmt: skip
            found.append(AxisLimits(*values))
        return found

    def _one(self, what: str, joint: str, default: float | None) -> float:
        given = getattr(self, what)
        value = given.get(joint, default) if isinstance(given, Mapping) else default if given is None else given
        if value is None:
            raise ControlError(f"the {what} of joint {joint!r} has no limit. Give control.MotionLimits({what}=...).")
        number = float(numbers(value, f"{what} of joint {joint!r}"))
        if not number > 0.0 or (what != "jerk" and not np.isfinite(number)):
            raise ControlError(f"the {what} limit of joint {joint!r} must be a positive number, got {number!r}.")
        return number


@dataclass(frozen=True, eq=False)
class JointMotion(Value):
    """Polynomials of the moving coordinates ``places`` of q; the others stay at ``rest``. At rest before and after.

    Callable as the function of numbers of a :class:`.Reference`.
    """

    rest: Floats
    nv: int
    places: tuple[int, ...]
    v_places: tuple[int, ...]
    breaks: Floats
    rows: Floats

    def __call__(self, times: np.ndarray) -> Motion3:
        curve = PiecewisePolynomial(self.breaks, self.rows)
        t = np.clip(times, self.breaks[0], self.breaks[-1])
        q = np.tile(self.rest, (len(times), 1))
        v, a = np.zeros((len(times), self.nv)), np.zeros((len(times), self.nv))
        q[:, self.places] = curve(t)
        inside = ((times >= self.breaks[0]) & (times <= self.breaks[-1]))[:, None]
        v[:, self.v_places] = np.where(inside, curve.derivative(1)(t), 0.0)
        a[:, self.v_places] = np.where(inside, curve.derivative(2)(t), 0.0)
        return q, v, a


class JointReference(Reference):
    """A reference of joints through waypoints, made by :func:`joint_reference`; it is used like any other reference.

    Attributes
    ----------
    times : (m + 1,) of the waypoints, s.
    breaks : times where polynomials meet: the jerk jumps, or the acceleration if the jerk is unlimited.

    Examples
    --------
    >>> import heavytop as ht
    >>> arm = ht.library.load("double-pendulum").derive()
    >>> limits = ht.control.MotionLimits(velocity=2.0, acceleration=4.0, jerk=np.inf)
    >>> moved = ht.control.joint_reference(arm, [arm.neutral(), arm.integrate(arm.neutral(), [0.5, 0.5], 1.0)], limits)
    >>> float(moved.times[-1].round(4))  # 2 sqrt(0.5 / 4) s
    0.7071
    """

    def __init__(self, model: Model, motion: JointMotion, times: Floats) -> None:
        breaks = tuple(motion.breaks[1:-1].tolist())
        super().__init__(model, motion, duration=float(motion.breaks[-1]), breaks=breaks)
        self.times = times


def joint_reference(
    model: Model,
    waypoints: Numbers,
    limits: MotionLimits,
    *,
    velocities: Numbers | None = None,
    method: Literal["fastest", "smooth"] = "fastest",
    minimum_times: Numbers | None = None,
) -> JointReference:
    """Reference through joint waypoints within velocity, acceleration and jerk limits.

    Parameters
    ----------
    model : a tree; joints with one coordinate move, coordinates of other joints must be the same at all waypoints.
    waypoints : (m + 1, nq) configurations, the first is the start.
    limits : limits of the joints.
    velocities : (m + 1, nv) at the waypoints, rad/s or m/s; None: it stops at every waypoint. With ``method="fastest"`` only.
    method : "fastest": every leg takes the least time of its slowest joint, whose jerk (without a limit of the jerk: acceleration) is extreme;
        all joints arrive together. "smooth": polynomials of degree seven through all waypoints without stopping, smooth up to the sixth
        derivative, in the least time for which a limit is reached.
    minimum_times : (m,) least duration of each leg, s.

    Returns
    -------
    JointReference : a reference with the ``times`` of the waypoints; ``duration`` is its end.

    Raises
    ------
    ControlError
        A waypoint or the motion is beyond a limit of position (of the system), or velocities cannot be reached within the limits.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("arm", joint=ht.Revolute("y", limits=(-3, 3)), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> system.body("slide", parent="arm", joint=ht.Prismatic("z"), inertia=ht.Inertia(0.5))
    >>> model = system.derive()
    >>> limits = MotionLimits(velocity=2.0, acceleration=8.0, jerk={"arm": 60.0, "slide": 40.0})
    >>> reference = joint_reference(model, [[0.0, 0.0], [1.5, -0.2], [0.5, 0.1]], limits)
    >>> reference.times.round(3), reference(reference.times[1])[0].round(9)
    (array([0.   , 1.133, 2.017]), array([ 1.5, -0.2]))
    """
    points, places = _waypoints(model, waypoints)
    joints = list(places)
    at_q, at_v = (tuple(places[joint][k] for joint in joints) for k in (0, 1))
    if not isinstance(limits, MotionLimits):
        raise ControlError(
            f"limits must be control.MotionLimits(velocity=, acceleration=, jerk=), each one number or one per joint, got {limits!r}."
        )
    bounds = limits.of(model, joints)
    moving, legs = points[:, at_q], len(points) - 1
    least = np.zeros(legs) if minimum_times is None else numbers(minimum_times, "minimum_times")
    if least.shape != (legs,) or not np.all(least >= 0.0) or not is_finite(least):
        raise wrong_shape(
            "minimum_times of joint_reference", (legs,), least.shape, "Times of the legs in s, not negative."
        )
    if method == "smooth":
        if velocities is not None:
            raise ControlError(
                "velocities at the waypoints can be given only with method='fastest'; smooth motions choose them."
            )
        breaks, rows = _smooth(moving, bounds, least)
        times = breaks
    elif method == "fastest":
        speeds = _speeds(model, velocities, len(points), at_v)
        breaks, rows, times = _fastest(moving, speeds, bounds, least, joints)
    else:
        raise ControlError(f"method of joint_reference must be 'fastest' or 'smooth', got {method!r}.")
    _check_positions(model, joints, breaks, rows)
    return JointReference(model, JointMotion(points[0], model.nv, at_q, at_v, breaks, rows), times)


def _waypoints(model: Model, waypoints: Any) -> tuple[Floats, dict[str, tuple[int, int]]]:
    """Configurations (m + 1, nq) without repetitions, and the places in q and v of joints with one coordinate."""
    if model.is_constrained:
        raise ControlError(
            f"{model.name!r} has loops or constraints, which independent motions of its joints would break. Use path_reference or ht.plan."
        )
    if model.v_names != model.coordinates.v_names:
        raise ControlError(f"{model.name!r} has its own velocity coordinates; derive it without velocity= and basis.")
    points = model.coordinates.check(numbers(waypoints, "waypoints"), "waypoints")
    if points.ndim != 2 or len(points) < 2:
        raise wrong_shape(
            "waypoints of joint_reference", ("m + 1", model.nq), points.shape, "The first one is the start."
        )
    places, at_q, at_v = {}, 0, 0
    for edge in model.description.joints:
        block = edge.joint.coordinates
        if block.nq == block.nv == 1:
            places[edge.label] = at_q, at_v
        elif np.any(points[:, at_q : at_q + block.nq] != points[0, at_q : at_q + block.nq]):
            raise ControlError(
                f"joint {edge.label!r} has {block.nq} coordinates and moves between the waypoints; joint_reference moves joints with one "
                "coordinate. Use tree_reference for vehicles with arms, Reference.from_function, or ht.plan."
            )
        at_q, at_v = at_q + block.nq, at_v + block.nv
    if not places:
        raise ControlError(f"{model.name!r} has no joint with one coordinate.")
    if np.any(np.all(points[1:] == points[:-1], axis=1)):
        raise ControlError("two waypoints in a row are the same. Leave one out.")
    return points, places


def _speeds(model: Model, velocities: Any, count: int, at_v: tuple[int, ...]) -> Floats:
    if velocities is None:
        return np.zeros((count, len(at_v)))
    given = numbers(velocities, "velocities")
    if given.shape != (count, model.nv):
        raise wrong_shape("velocities at the waypoints", (count, model.nv), given.shape)
    if not np.all(np.isfinite(given)):
        raise ControlError("velocities at the waypoints must be finite.")
    return given[:, at_v]


def _fastest(
    points: Floats, speeds: Floats, bounds: Sequence[AxisLimits], least: Floats, joints: Sequence[str]
) -> tuple[Floats, Floats, Floats]:
    """Breaks and coefficients of cubic pieces, and the times of the waypoints."""
    stops, pieces = [0.0], []
    for k, shortest in enumerate(least):
        ends = [
            (AxisState(p0, v0, 0.0), AxisState(p1, v1, 0.0), bound)
            for p0, v0, p1, v1, bound in zip(points[k], speeds[k], points[k + 1], speeds[k + 1], bounds, strict=True)
        ]
        profiles = together(ends, float(shortest), joints)
        pieces.append((stops[-1], profiles))
        stops.append(stops[-1] + max(profile.duration for profile in profiles))
    breaks = np.unique(
        [stops[-1], *(b + begin for begin, profiles in pieces for x in profiles for b in x.coefficients()[0])]
    )
    breaks = breaks[np.concatenate([[True], np.diff(breaks) > 1e-12 * stops[-1]])]
    rows = np.zeros((len(breaks) - 1, 4, points.shape[1]))
    for begin, profiles in pieces:
        for i, profile in enumerate(profiles):
            starts, coefficients = profile.coefficients()
            middle = 0.5 * (breaks[:-1] + breaks[1:]) - begin
            inside = np.flatnonzero((middle > 0.0) & (middle < profile.duration))
            own = np.clip(np.searchsorted(starts, middle[inside], side="right") - 1, 0, len(starts) - 1)
            rows[inside, :, i] = _shifted(coefficients[own], breaks[inside] - begin - starts[own])
    return breaks, rows, np.array(stops)


def _shifted(rows: Floats, t: Floats) -> Floats:
    """Coefficients (n, 4) of cubic polynomials about the points t (n,)."""
    p, v, a, j = rows.T
    return np.stack([p + t * (v + t * (a + t * j)), v + t * (2 * a + 3 * t * j), a + 3 * t * j, j], axis=1)


def together(
    ends: Sequence[tuple[AxisState, AxisState, AxisLimits]], shortest: float, joints: Sequence[str]
) -> list[Profile]:
    """Motions of several coordinates that take the same time: the least for which all of them have one.

    >>> move = AxisState(0, 0, 0), AxisState(1, 0, 0), AxisLimits(1.0, 2.0, np.inf)
    >>> [profile.duration for profile in together([move, (AxisState(0, 0, 0), AxisState(0.1, 0, 0), AxisLimits(1.0, 2.0, np.inf))], 0.0, "ab")]
    [1.5, 1.5]
    """
    found = [candidates(*end) for end in ends]
    for (start, goal, bound), motions, joint in zip(ends, found, joints, strict=True):
        if not motions:
            raise ControlError(f"joint {joint!r}: {impossible(start, goal, bound)}")
    least = max(shortest, *(motions[0].duration for motions in found))
    # states in motion leave gaps between possible durations, which begin and end at durations of extreme motions
    durations = sorted({least, *(x.duration for motions in found for x in motions if x.duration > least)})
    for duration in [*durations, *(durations[-1] * 1.1**k for k in range(1, 60))]:
        profiles = [lasting(*end, duration, motions) for end, motions in zip(ends, found, strict=True)]
        if all(profile is not None for profile in profiles):
            return [profile for profile in profiles if profile is not None]
    raise ControlError(
        f"no common duration was found for the joints {', '.join(map(repr, joints))}. Choose other velocities."
    )


def _smooth(points: Floats, bounds: Sequence[AxisLimits], least: Floats) -> tuple[Floats, Floats]:
    """Polynomials of degree seven through the points in the least time; the legs share it like the fastest rest-to-rest motions."""
    shares = []
    for start, goal, shortest in zip(points, points[1:], least, strict=False):
        moves = [
            fastest(AxisState(a, 0, 0), AxisState(b, 0, 0), bound).duration
            for a, b, bound in zip(start, goal, bounds, strict=True)
        ]
        shares.append(max(*moves, shortest))
    curve = minimum_snap(points, np.concatenate([[0.0], np.cumsum(shares)]))
    factor = _needed_time(curve, bounds)
    with np.errstate(divide="ignore"):
        factor = max(factor, float(np.max(least / np.diff(curve.breaks))))
    return curve.breaks * factor, curve.coefficients / factor ** np.arange(8)[None, :, None]


def _needed_time(curve: PiecewisePolynomial, bounds: Sequence[AxisLimits]) -> float:
    """Factor of the duration for which one limit is reached and none is exceeded."""
    factor = 0.0
    for order in (1, 2, 3):
        most = np.array([bound[order - 1] for bound in bounds])
        factor = max(factor, float(np.max(_largest(curve.derivative(order)) / most)) ** (1.0 / order))
    return factor * (1.0 + KEPT / 10)


def _largest(curve: PiecewisePolynomial) -> Floats:
    """Largest size (n,) of each coordinate, from the roots of its derivatives."""
    found = np.zeros(curve.coefficients.shape[2])
    for t0, t1, rows in zip(curve.breaks, curve.breaks[1:], curve.coefficients, strict=False):
        for i, row in enumerate(rows.T):
            found[i] = max(found[i], *(abs(x) for x in _extremes(row, t1 - t0)))
    return found


def _extremes(row: Floats, span: float) -> list[float]:
    """Values of a polynomial at the ends and at its extremes from 0 to ``span``."""
    slope = np.polynomial.polynomial.polyder(row)
    roots = np.polynomial.polynomial.polyroots(np.trim_zeros(slope, "b")) if np.any(slope[1:]) else np.zeros(0)
    inner = [float(x.real) for x in roots if abs(x.imag) <= 1e-9 * (1 + abs(x)) and 0.0 < x.real < span]
    return [float(x) for x in np.polynomial.polynomial.polyval([0.0, span, *inner], row)]


def _check_positions(model: Model, joints: Sequence[str], breaks: Floats, rows: Floats) -> None:
    """Raise a ControlError for a joint that leaves its range on the way."""
    for i, joint in enumerate(joints):
        own = model.description.limits.get(joint, JointLimits())
        low = -np.inf if own.lower is None else own.lower
        high = np.inf if own.upper is None else own.upper
        slack = KEPT * max(1.0, *(abs(x) for x in (low, high) if np.isfinite(x)), 1.0)
        reached = [
            (value, float(t0))
            for t0, t1, row in zip(breaks, breaks[1:], rows[:, :, i], strict=False)
            for value in _extremes(row, t1 - t0)
        ]
        worst, time = max(reached, key=lambda pair: max(low - pair[0], pair[0] - high))
        if not low - slack <= worst <= high + slack:
            raise ControlError(
                f"joint {joint!r} moves to {worst:.6g} after t = {time:.4g} s, beyond its limits [{low:g}, {high:g}]. Choose other waypoints or "
                "smaller velocities there."
            )
