"""Maneuvers along a curve: the attitude of every kind of vehicle follows from the curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from heavytop._arrays import Array, concatenate, directional, flatten_columns, from_columns, scale, transpose, vector
from heavytop.control import (
    Curve,
    Reference,
    flat_reference,
    minimum_snap,
    oscillation_reference,
    pose_coordinates,
    rest_to_rest,
    tree_reference,
    virtual_reference,
)
from heavytop.coordinates import Pose
from heavytop.copters.maneuvers.base import Maneuver, finite, non_negative, polyline, positive, vector2, vector3
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError
from heavytop.functions import recipe
from heavytop.geometry import se3, so3

CLOSE = 0.1
"""Height (m) over the ground from which on a landing vehicle descends slowly."""
RAMP = 2.0
"""Time (s) in which the motion on a closed path starts and stops."""


def eased(duration: float, ramp: float) -> Any:
    """Time that starts and stops smoothly: its rate rises from 0 to 1 within ``ramp`` and falls again before ``duration``.

    >>> clock = eased(10.0, 2.0)
    >>> float(clock(0.0)), float(clock(5.0)), float(clock(10.0))
    (0.0, 4.0, 8.0)
    """
    if not 0 < 2 * ramp <= duration:
        raise ControlError(
            f"a smooth start and stop of {ramp:g} s each need a duration above {2 * ramp:g} s, got {duration:g} s."
        )

    def risen(t: Array) -> Array:
        """Integral of the smooth step of degree nine."""
        s = np.minimum(np.maximum(t / ramp, 0.0), 1.0)
        inner = s**6 * (21.0 + s * (-60.0 + s * (67.5 + s * (-35.0 + s * 7.0))))
        return ramp * inner + np.maximum(t - ramp, 0.0)

    return lambda t: risen(t) - risen(t - (duration - ramp))


@recipe
def along(
    vehicle: Vehicle,
    curve: Curve,
    duration: float,
    name: str = "path",
    side: Any = None,
    heading: Any = None,
    **options: Any,
) -> Maneuver:
    """Follow a curve t -> position (3,), given in NumPy notation.

    A vehicle with parallel thrusts tilts as the curve demands, a fully actuated one stays level, a bicopter follows a virtual copy of
    itself, a vehicle with a load moves the load's centre of oscillation along the curve, one with limbs the centre of mass of all bodies, while
    its joints follow their paths.

    Parameters
    ----------
    side : (3,) normal of the plane of the motion, or heading : (3,) direction of the nose; default: heading e_x.

    Examples
    --------
    >>> from heavytop.control import circle as curve
    >>> from heavytop.copters import quadcopter
    >>> along(quadcopter(), curve(1.0, 1.0), duration=6.0, heading=(1, 0, 0)).duration
    6.0
    """
    if vehicle.airframe.load is not None:
        reference = hanging_reference(vehicle, curve, duration, side)
    elif vehicle.limbs:
        level = (lambda t: np.eye(3)) if vehicle.fully_actuated else None
        joints = {limb.name: limb.path for limb in vehicle.limbs}
        reference = tree_reference(
            vehicle.model, curve, joints, side=side, heading=heading, attitude=level, duration=duration
        )
    elif vehicle.fully_actuated:
        reference = Reference.from_pose(vehicle.model, lambda t: se3.pose(np.eye(3), curve(t)), duration=duration)
    elif any(vehicle.levers):
        reference = _bicopter(vehicle, curve, duration, side, heading)
    else:
        reference = flat_reference(vehicle.model, curve, side, heading, duration)
    return Maneuver(vehicle, reference, name, duration, **options)


def _bicopter(vehicle: Vehicle, curve: Curve, duration: float, side: Any, heading: Any) -> Reference:
    """Exact where the motion stays in a vertical plane; otherwise that of a virtual vehicle."""
    lever = vehicle.levers[0] if side is None or abs(np.asarray(side)[1]) > 0.5 else vehicle.levers[1]
    rough = oscillation_reference(vehicle.model, curve, lever, side, heading, duration)
    if rough.feasibility().relative_residual < 1e-10:
        return rough
    guide: Any = vehicle.law(limits=False)
    return virtual_reference(guide, rough, duration)


@recipe
def hover(vehicle: Vehicle, duration: float = 6.0, at: Any = (0.0, 0.0, 0.0)) -> Maneuver:
    """Stay in one place.

    >>> from heavytop.copters import quadcopter
    >>> hover(quadcopter())
    Maneuver('hover' of 'quadcopter', 6 s)
    """
    positive("hover", duration=duration)
    here = vector3("at of hover", at)
    if vehicle.limbs:
        return along(vehicle, lambda t: here + 0.0 * vector(t, t, t), duration, "hover")
    return Maneuver(vehicle, Reference.set_point(vehicle.model, _placed(vehicle, here)), "hover", duration)


@recipe
def step(vehicle: Vehicle, to: Any = (3.0, 0.0, 1.0), duration: float = 6.0) -> Maneuver:
    """Fly to a place after a step of the set point by ``to`` (3,) at the start.

    >>> from heavytop.copters import quadcopter
    >>> step(quadcopter())
    Maneuver('step' of 'quadcopter', 6 s)
    """
    positive("step", duration=duration)
    goal = _placed(vehicle, vector3("to of step", to))
    start = (_placed(vehicle, (0.0, 0.0, 0.0)), np.zeros(vehicle.model.nv))
    return Maneuver(vehicle, Reference.set_point(vehicle.model, goal), "step", duration, start)


@recipe
def recovery(vehicle: Vehicle, angle: float = np.deg2rad(170.0), axis: Any = "x", duration: float = 8.0) -> Maneuver:
    """Return to hover from rest at any attitude: turned by ``angle`` (rad) about ``axis``.

    >>> from heavytop.copters import quadcopter
    >>> recovery(quadcopter())
    Maneuver('recovery' of 'quadcopter', 8 s)
    """
    positive("recovery", duration=duration)
    finite("recovery", angle=angle)
    R = so3.exp(angle * np.asarray(so3.unit_axis(axis)))
    start = (pose_coordinates(vehicle.model, se3.pose(R, np.zeros(3))), np.zeros(vehicle.model.nv))
    return Maneuver(vehicle, Reference.set_point(vehicle.model), "recovery", duration, start)


def _placed(vehicle: Vehicle, at: Any) -> np.ndarray:
    """The neutral configuration with the hull at a place."""
    q = vehicle.model.neutral().copy()
    q[:3] = np.asarray(at, dtype=float)
    return q


def _laps(vehicle: Vehicle, name: str, rate: float, laps: float, path: Curve, **options: Any) -> Maneuver:
    """Laps of a path of the phase (rad), from rest to rest."""
    positive(name, rate=rate)
    duration = 2 * np.pi * laps / rate + RAMP
    clock = eased(duration, RAMP)
    return along(vehicle, lambda t: path(rate * clock(t)), duration, name, **options)


@recipe
def eight(
    vehicle: Vehicle, length: float = 3.0, width: float = 1.5, rate: float = 0.8, laps: int = 2, plane: str = "xy"
) -> Maneuver:
    """A horizontal figure eight (vertical in the plane "xz") from rest to rest.

    Parameters
    ----------
    length, width : half lengths of the sides, m. rate : rad/s. laps : their number.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> eight(quadcopter())
    Maneuver('eight' of 'quadcopter', 17.708 s)
    """
    if len(plane) != 2 or not set(plane) <= set("xyz"):
        raise ControlError(f"plane of eight must be two of the axes x, y, z, got {plane!r}.")
    finite("eight", length=length, width=width)
    positive("eight", laps=laps)
    first, second = (np.eye(3)["xyz".index(axis)] for axis in plane)

    def path(phase: Array) -> Array:
        return length * np.sin(phase) * first + width * np.sin(2 * phase) * second

    side = None if plane == "xy" else np.cross(second, first)
    return _laps(vehicle, "eight", rate, laps, path, side=side)


@recipe
def circle(vehicle: Vehicle, radius: float = 1.5, rate: float = 1.5, laps: int = 3) -> Maneuver:
    """A level circle from rest to rest; radius in m, rate in rad/s.

    >>> from heavytop.copters import quadcopter
    >>> circle(quadcopter())
    Maneuver('circle' of 'quadcopter', 14.5664 s)
    """
    finite("circle", radius=radius)
    positive("circle", laps=laps)

    def path(phase: Array) -> Array:
        return vector(radius * (np.cos(phase) - 1.0), radius * np.sin(phase), 0.0 * phase)

    return _laps(vehicle, "circle", rate, laps, path)


@recipe
def helix(vehicle: Vehicle, radius: float = 1.2, rate: float = 1.8, climb: float = 3.0, turns: int = 3) -> Maneuver:
    """Climb on a helix; radius and climb in m, rate in rad/s.

    >>> from heavytop.copters import quadcopter
    >>> helix(quadcopter())
    Maneuver('helix' of 'quadcopter', 12.472 s)
    """
    finite("helix", radius=radius, climb=climb)
    positive("helix", turns=turns)
    whole = 2 * np.pi * turns

    def path(phase: Array) -> Array:
        return vector(radius * (np.cos(phase) - 1.0), radius * np.sin(phase), climb / whole * phase)

    return _laps(vehicle, "helix", rate, turns, path)


@recipe
def waypoints(
    vehicle: Vehicle,
    points: Sequence[Sequence[float]] = ((0, 0, 0), (2, 0, 1), (2, 2, 0.5), (0, 2, 1.5), (0, 0, 0)),
    times: Sequence[float] | None = None,
    speed: float = 1.5,
) -> Maneuver:
    """Fly through points (m + 1, 3) with minimum snap, at the given times or at a mean speed (m/s) on every leg.

    >>> from heavytop.copters import quadcopter
    >>> waypoints(quadcopter())
    Maneuver('waypoints' of 'quadcopter', 7.02246 s)
    """
    through = polyline("points of waypoints", points)
    positive("waypoints", speed=speed)
    legs = np.linalg.norm(np.diff(through, axis=0), axis=-1)
    even = np.concatenate([[0.0], np.cumsum(np.maximum(legs / speed, 0.3))])
    when = even if times is None else np.asarray(times, dtype=float)
    curve = minimum_snap(through, when)
    marks = [(float(t), f"point {k}") for k, t in enumerate(when[1:-1], start=1)]
    return along(vehicle, curve, curve.duration + 1.0, "waypoints", moments=marks)


@recipe
def transport(
    vehicle: Vehicle,
    to: Any = (4.0, 0.0, 0.0),
    duration: float = 4.0,
    swing: float = np.deg2rad(25.0),
    settle: float = 4.0,
) -> Maneuver:
    """Carry a load to a place, from rest to rest, while its initial swing decays.

    Parameters
    ----------
    to : (3,) m. duration : duration of the transport, s. swing : angle of the load at the start, rad. settle : time afterwards, s.

    Examples
    --------
    >>> from heavytop.copters import tricopter_with_load
    >>> transport(tricopter_with_load())
    Maneuver('transport' of 'tricopter_with_load', 8.5 s)
    """
    if vehicle.airframe.load is None:
        raise ControlError(f"{vehicle.name!r} has no load to transport.")
    goal = vector3("to of transport", to)
    positive("transport", duration=duration)
    non_negative("transport", settle=settle)
    finite("transport", swing=swing)
    across = np.cross([0.0, 0.0, 1.0], goal)
    size = float(np.linalg.norm(across))
    side = across / size if size > 0 else np.array([0.0, 1.0, 0.0])
    depth = np.array([0.0, 0.0, -vehicle.levers[0]])
    curve = rest_to_rest(depth, depth + goal, duration, begin=0.5)
    maneuver = along(vehicle, curve, 0.5 + duration + settle, "transport", side=side)
    start = swung(maneuver, swing)
    return Maneuver(
        vehicle, maneuver, "transport", start=start, moments=[(0.5, "departure"), (0.5 + duration, "arrival")]
    )


@recipe
def landing(
    vehicle: Vehicle,
    height: float = 1.0,
    duration: float = 2.0,
    settle: float = 2.0,
    press: float = 1.0,
    at: Any = (0.0, 0.0),
) -> Maneuver:
    """Descend to a little above the ground, touch down slowly on the skids and stay.

    The reference ends ``press`` below the ground, so that the law leaves a part of the weight to the skids.

    Parameters
    ----------
    height : height of the start over standing, m. duration : duration of the descent, s; touching down takes as long. settle : time afterwards, s.
    press : depth of the end of the reference, m. at : (2,) x and y of the place, m.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> landing(quadcopter())
    Maneuver('landing' of 'quadcopter', 6.5 s)
    """
    positive("landing", height=height, duration=duration, press=press)
    non_negative("landing", settle=settle)
    x, y = vector2("at of landing", at)
    standing = vehicle.standing_height
    near = min(CLOSE, 0.5 * height)
    descent = rest_to_rest((x, y, standing + height), (x, y, standing + near), duration, begin=0.5)
    last = rest_to_rest((0.0, 0.0, 0.0), (0.0, 0.0, -near - press), duration, begin=0.5 + duration)
    moments = [(0.5, "descent"), (0.5 + duration, "touching down")]
    return along(
        vehicle,
        lambda t: descent(t) + last(t),
        0.5 + 2 * duration + settle,
        "landing",
        heading=(1, 0, 0),
        moments=moments,
        grounded=True,
    )


@recipe
def takeoff(
    vehicle: Vehicle,
    height: float = 1.0,
    duration: float = 3.0,
    settle: float = 2.0,
    press: float = 1.0,
    at: Any = (0.0, 0.0),
) -> Maneuver:
    """Take off from the skids to a height.

    The vehicle stands on the ground; the reference starts ``press`` below it, so that the law spins the rotors up gradually.

    Parameters
    ----------
    height : height of the end over standing, m. duration : duration of the ascent, s. settle : time afterwards, s. press : depth of the start, m.
    at : (2,) x and y of the place, m.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> takeoff(quadcopter())
    Maneuver('takeoff' of 'quadcopter', 5.5 s)
    """
    positive("takeoff", height=height, duration=duration, press=press)
    non_negative("takeoff", settle=settle)
    x, y = vector2("at of takeoff", at)
    standing = vehicle.standing_height
    curve = rest_to_rest((x, y, standing - press), (x, y, standing + height), duration, begin=0.5)
    start = (_placed(vehicle, (x, y, standing)), np.zeros(vehicle.model.nv))
    moments = [(0.5, "ascent"), (0.5 + duration, "up")]
    return along(
        vehicle,
        curve,
        0.5 + duration + settle,
        "takeoff",
        heading=(1, 0, 0),
        start=start,
        moments=moments,
        grounded=True,
    )


def hanging_reference(vehicle: Vehicle, curve: Curve, duration: float, side: Any = None) -> Reference:
    """The reference with the load's centre of oscillation c on ``curve``; ``side`` (3,) is the normal of the plane of motion.

    The load hangs along the specific force of c: b = unit(c'' - g), the joint is at s = c + eps b. The hull carries the joint: level
    if it is fully actuated; otherwise its thrust axis is along the common force on hull and load. Exact for motions in a plane.
    """
    model, load = vehicle.model, vehicle.airframe.load
    joints = {edge.b: edge for edge in model.description.joints}
    if load is None or load.body not in joints or joints[load.body].joint.kind != "spherical":
        raise ControlError(f"{vehicle.name!r} has no load on a spherical joint.")
    if len(joints) != 2 or joints["hull"].joint.kind != "floating":
        raise ControlError(f"{vehicle.name!r} is not a free hull with one load, which a hanging reference requires.")
    normal = np.array([0.0, 1.0, 0.0]) if side is None else np.asarray(side, dtype=float)
    gravity = model.description.gravity
    at = np.asarray(joints[load.body].at, dtype=float)[:3, 3]
    masses = dict(model.description.inertias)
    one = np.asarray(1.0)

    def twice(x: Array, t: Array) -> Array:
        return directional(directional(x, t, one), t, one)

    def configuration(t: Array) -> Array:
        c = curve(t)
        b = _unit(twice(c, t) - gravity)
        joint = c + vehicle.levers[0] * b
        R_load = _frame(b, normal)
        if vehicle.fully_actuated:
            R = np.eye(3)
        else:
            if np.any(at):
                raise ControlError(
                    f"the load of {vehicle.name!r} must hang in the hull's origin for a reference to exist."
                )
            center = joint - float(np.linalg.norm(np.asarray(masses[load.body].com, dtype=float))) * b
            force = float(masses["hull"].mass) * (twice(joint, t) - gravity)
            force = force + float(masses[load.body].mass) * (twice(center, t) - gravity)
            R = _frame(_unit(force), normal)
        hull = cast(Pose, joints["hull"].joint.coordinates).from_pose(se3.pose(R, joint - np.matvec(R, at)))
        return concatenate(hull, flatten_columns(transpose(R) @ R_load))

    return Reference.from_function(model, configuration, duration=duration)


def _unit(a: Array) -> Array:
    return scale(1 / np.sqrt(np.vecdot(a, a)), a, 1)


def _frame(b: Array, normal: np.ndarray) -> Array:
    """Rotation with z axis b and y axis near ``normal``."""
    x = _unit(np.cross(normal, b))
    return from_columns(x, np.cross(b, x), b)


def swung(reference: Reference, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """The state at the start of a reference with the load turned about the world's x and y axes by ``angle`` (rad)."""
    q, v, _ = reference(0.0)
    q = q.copy()
    R = q[-9:].reshape(3, 3).T
    turned = so3.exp(angle * np.array([0.6, 0.8, 0.0])) @ R
    q[-9:] = turned.T.reshape(9)
    return q, v
