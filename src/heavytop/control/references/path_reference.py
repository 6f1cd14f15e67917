"""References of frames along paths in space: lines, arcs and other curves, by inverse kinematics along them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from heavytop._arrays import Floats, Numbers, numbers
from heavytop.control.references.curves import PiecewisePolynomial
from heavytop.control.references.joint_reference import MotionLimits
from heavytop.control.references.profiles import AxisLimits, AxisState, Profile, fastest
from heavytop.control.references.reference import Motion3, Reference
from heavytop.errors import ConfigurationError, ControlError, wrong_shape
from heavytop.functions import Value
from heavytop.geometry import linalg, se3, so3
from heavytop.system import WORLD, JointLimits, KinematicTask, Model

DEGREE = 7
"""Degree of the spline of the joints."""
SAMPLES = 2001
"""Points of a path at which its limits are checked."""
MARGIN = 1e-6
"""Share by which a motion along a path stays below its limits, which are checked at samples."""
MOST_PIECES = 1024
SHAPES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.3, 1.7)
"""Ratios of velocity to acceleration along a path, of which the fastest motion is taken."""


@dataclass(frozen=True, eq=False)
class PathMotion(Value):
    """q(s) as a spline of degree seven, with s(t) a fastest motion from 0 to 1; a function of numbers of a :class:`.Reference`."""

    nodes: Floats
    rows: Floats
    times: Floats
    law: Floats

    def __call__(self, times: np.ndarray) -> Motion3:
        q, v, a, _ = self.derivatives(times)
        inside = ((times >= 0.0) & (times <= self.times[-1]))[:, None]
        return q, np.where(inside, v, 0.0), np.where(inside, a, 0.0)

    def derivatives(self, times: np.ndarray) -> tuple[Floats, ...]:
        """q and its first three time derivatives (n, nq)."""
        clock, path = PiecewisePolynomial(self.times, self.law), PiecewisePolynomial(self.nodes, self.rows)
        t = np.clip(times, 0.0, self.times[-1])
        s, s1, s2, s3 = (clock.derivative(k)(t)[:, :1] for k in range(4))
        q, q1, q2, q3 = (path.derivative(k)(np.clip(s[:, 0], 0.0, 1.0)) for k in range(4))
        return q, q1 * s1, q2 * s1**2 + q1 * s2, q3 * s1**3 + 3 * q2 * s1 * s2 + q1 * s3


def path_reference(
    model: Model,
    frame: str,
    path: Callable[[float], Numbers],
    limits: MotionLimits,
    *,
    q0: Numbers | None = None,
    tasks: KinematicTask | Sequence[KinematicTask] = (),
    speed: float | None = None,
    tolerance: float = 1e-6,
    pieces: int = 32,
) -> Reference:
    """Reference whose frame follows a path in space, by inverse kinematics along it, from rest to rest within joint limits.

    Parameters
    ----------
    model : whose frame moves; loops stay closed.
    frame : body or frame on the path.
    path : s from 0 to 1 -> pose (4, 4) or position (3,) in the world: :func:`line`, :func:`arc`, or any smooth function of numbers.
    limits : limits of the joints.
    q0 : (nq,) configuration near which the motion begins.
    tasks : further tasks of the inverse kinematics, such as an ``ht.PostureTask`` for a redundant arm.
    speed : largest speed of the frame, m/s.
    tolerance : largest deviation from the path, m and rad.
    pieces : pieces of the path at the beginning; they are divided until the tolerance holds.

    Raises
    ------
    ControlError
        A part of the path is unreachable, or reachable only with a jump of the joints.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> for name, parent in (("upper", "world"), ("lower", "upper")):
    ...     system.body(name, parent=parent, at=(0, 0, 0 if parent == "world" else 1), joint=ht.Revolute("y"), inertia=ht.Inertia(1.0))
    >>> system.frame("tip", "lower", at=(0, 0, 1))
    >>> arm = system.derive()
    >>> straight = line((1.0, 0, 1.0), (1.2, 0, 0.4))
    >>> reference = path_reference(arm, "tip", straight, MotionLimits(2.0, 10.0, 100.0), q0=[0.1, 1.0])
    >>> middle = arm.pose("world", "tip", reference(0.5 * reference.duration)[0])[:3, 3]
    >>> bool(np.allclose(middle, (1.1, 0.0, 0.7), atol=1e-6))
    True
    """
    if model.v_names != model.coordinates.v_names:
        raise ControlError(f"{model.name!r} has its own velocity coordinates; derive it without velocity= and basis.")
    axes = [edge.label for edge in model.description.joints]
    for edge in model.description.joints:
        if not edge.joint.coordinates.nq == edge.joint.coordinates.nv == 1:
            raise ControlError(
                f"joint {edge.label!r} has {edge.joint.coordinates.nq} coordinates, but path_reference moves joints with one coordinate each."
            )
    bounds = limits.of(model, axes)
    s, q = _solved_path(model, frame, path, q0, tasks, tolerance, pieces)
    from scipy.interpolate import make_interp_spline

    spline = make_interp_spline(s, q, k=DEGREE)
    rows = np.stack([spline(s[:-1], k) / factorial(k) for k in range(DEGREE + 1)], axis=1)
    motion = _timed_path(model, frame, s, rows, np.array(bounds), speed)
    swept = motion(np.linspace(0.0, motion.times[-1], SAMPLES))[0]
    for k, name in enumerate(axes):
        own = model.description.limits.get(name, JointLimits())
        low, high = -np.inf if own.lower is None else own.lower, np.inf if own.upper is None else own.upper
        if swept[:, k].min() < low - tolerance or swept[:, k].max() > high + tolerance:
            raise ControlError(f"joint {name!r} leaves its limits [{low:g}, {high:g}] on the path.")
    return Reference(model, motion, duration=float(motion.times[-1]))


def _solved_path(
    model: Model, frame: str, path: Callable[[float], Any], q0: Any, tasks: Any, tolerance: float, pieces: int
) -> tuple[Floats, Floats]:
    """Nodes s (m + 1,) and configurations (m + 1, nq), so dense that a spline through them stays on the path."""
    from scipy.interpolate import make_interp_spline

    def solved(s: float, near: Any, restarts: int) -> Floats:
        target = numbers(path(float(s)), f"path of {frame!r} at s = {s:.4g}")
        found = model.inverse_kinematics({frame: target}, near, tasks=tasks, restarts=restarts)
        try:
            return found.require()
        except ConfigurationError as error:
            raise ControlError(f"the path of {frame!r} cannot be followed at s = {s:.4g}: {error}") from None

    first = solved(0.0, q0, 60)
    while pieces <= MOST_PIECES:
        s = np.linspace(0.0, 1.0, pieces + 1)
        q = [first]
        for at in s[1:]:
            q.append(solved(at, q[-1], 0))
        nodes = np.array(q)
        steps = np.abs(np.diff(nodes, axis=0)).max(axis=1)
        spline = make_interp_spline(s, nodes, k=DEGREE)
        between = 0.5 * (s[:-1] + s[1:])
        off = max(_off_path(model, frame, path(float(x)), spline(x)) for x in between)
        if off <= tolerance:
            return s, nodes
        pieces *= 2
    k = int(np.argmax(steps))
    raise ControlError(
        f"the path of {frame!r} cannot be followed smoothly: the joints jump by {steps[k]:.3g} near s = {s[k]:.4g}, at a singular configuration or a "
        "joint limit. Choose another start q0, a posture task, or another path."
    )


def _off_path(model: Model, frame: str, target: Any, q: Floats) -> float:
    wanted, G = np.asarray(target, dtype=float), model.pose("world", frame, q)
    if wanted.shape == (3,):
        return float(np.max(np.abs(G[:3, 3] - wanted)))
    turn = so3.log(wanted[:3, :3].T @ G[:3, :3])
    return float(max(np.max(np.abs(G[:3, 3] - wanted[:3, 3])), np.max(np.abs(turn))))


def _timed_path(model: Model, frame: str, s: Floats, rows: Floats, most: Floats, speed: float | None) -> PathMotion:
    """The fastest of several shapes of s(t), each stretched until it keeps all limits ``most`` (n, 3)."""
    path = PiecewisePolynomial(s, rows)
    dense = np.linspace(0.0, 1.0, SAMPLES)
    slopes = [np.max(np.abs(path.derivative(k)(dense)), axis=0) for k in (1, 2, 3)]
    with np.errstate(divide="ignore"):
        # velocity at which one of the limits is reached without acceleration along the path
        v = min(float(np.min(most[:, k] / slopes[k])) ** (1.0 / (k + 1)) for k in range(3))
        a, j = (float(np.min(most[:, k] / slopes[0])) for k in (1, 2))
    if not np.isfinite(v):
        raise ControlError(f"the path of {frame!r} does not move any joint.")
    found = []
    for share in SHAPES:
        profile = fastest(AxisState(0, 0, 0), AxisState(1, 0, 0), AxisLimits(share * v, a, j))
        factor = _stretch(model, frame, _along(profile, s, rows), most, speed)
        found.append(_along(profile.scaled(factor), s, rows))
    return min(found, key=lambda motion: motion.times[-1])


def _along(profile: Profile, s: Floats, rows: Floats) -> PathMotion:
    begin, coefficients = profile.coefficients()
    return PathMotion(s, rows, np.append(begin, profile.duration), coefficients[:, :, None])


def _stretch(model: Model, frame: str, motion: PathMotion, most: Floats, speed: float | None) -> float:
    """Factor of the duration for which no limit is exceeded."""
    times = np.linspace(0.0, motion.times[-1], SAMPLES)
    # both sides of the times where the jerk jumps
    times = np.unique(np.concatenate([times, motion.times, np.nextafter(motion.times[1:], 0.0)]))
    q, *rates = motion.derivatives(times)
    factor = max(float(np.max(np.abs(x) / most[:, k])) ** (1.0 / (k + 1)) for k, x in enumerate(rates))
    if speed is not None:
        if not speed > 0.0:
            raise ControlError(f"the speed along a path must be positive, got {speed!r} m/s.")
        moved = model.twist(WORLD, frame, q, rates[0])[:, :3]
        factor = max(factor, float(np.max(np.linalg.norm(moved, axis=1))) / speed)
    return factor * (1.0 + MARGIN)


def line(start: Numbers, goal: Numbers) -> Callable[[float], Floats]:
    """Straight path s -> position (3,) between two points, or s -> pose (4, 4) between two poses, turning about one axis.

    >>> line((0, 0, 0), (1, 0, 2))(0.5)
    array([0.5, 0. , 1. ])
    """
    return StraightPath(_place(start, "start of a line"), _place(goal, "goal of a line"))


def arc(
    start: Numbers, center: Numbers, normal: Numbers, angle: float, *, turning: bool = False
) -> Callable[[float], Floats]:
    """Circular path s -> place, from ``start`` (3,) or (4, 4) by ``angle`` in rad about the axis ``normal`` (3,) through ``center`` (3,).

    ``turning``: whether a pose turns with the circle; otherwise its attitude stays.

    >>> arc((1, 0, 0), center=(0, 0, 0), normal=(0, 0, 1), angle=np.pi)(0.5).round(12)
    array([0., 1., 0.])
    """
    axis = numbers(normal, "normal of an arc")
    if axis.shape != (3,) or not np.linalg.norm(axis) > 0.0:
        raise ControlError(f"the normal of an arc must be a nonzero vector (3,), got {axis.tolist()}.")
    return CircularPath(
        _place(start, "start of an arc"), numbers(center, "center of an arc"), axis, float(angle), turning
    )


def _place(value: Any, what: str) -> Floats:
    array = numbers(value, what)
    if array.shape not in ((3,), (4, 4)) or not np.all(np.isfinite(array)):
        raise wrong_shape(what, (4, 4), array.shape, "Give a pose (4, 4) or a point (3,).")
    if array.shape == (4, 4) and not linalg.is_pose(array, 1e-6):
        raise ControlError(f"{what} is not a pose: build it with se3.pose(R, r).")
    return array


@dataclass(frozen=True, eq=False)
class StraightPath(Value):
    """A straight path, made by :func:`line`."""

    start: Floats
    goal: Floats

    def __post_init__(self) -> None:
        if self.start.shape != self.goal.shape:
            raise wrong_shape("goal of a line", self.start.shape, self.goal.shape)

    def __call__(self, s: float) -> Floats:
        if self.start.shape == (3,):
            return (1.0 - s) * self.start + s * self.goal
        turn = so3.log(self.start[:3, :3].T @ self.goal[:3, :3])
        place = (1.0 - s) * self.start[:3, 3] + s * self.goal[:3, 3]
        return se3.pose(self.start[:3, :3] @ so3.exp(s * turn), place)


@dataclass(frozen=True, eq=False)
class CircularPath(Value):
    """A circular path, made by :func:`arc`."""

    start: Floats
    center: Floats
    normal: Floats
    angle: float
    turning: bool = False

    def __call__(self, s: float) -> Floats:
        R = so3.rotation_about(self.normal, s * self.angle)
        place = self.start if self.start.shape == (3,) else self.start[:3, 3]
        moved = self.center + R @ (place - self.center)
        if self.start.shape == (3,):
            return moved
        return se3.pose(R @ self.start[:3, :3] if self.turning else self.start[:3, :3], moved)
