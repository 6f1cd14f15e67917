"""References of vehicles with a suspended load, from the curve of the load's centre of oscillation c.

The load hangs along the specific force of that point: b = unit(c'' - g), the joint is at s = c + eps b. The hull carries the joint: level
if it is fully actuated; otherwise its thrust axis is along the common force on hull and load. Exact for motions in a plane.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from heavytop._arrays import Array, concatenate, directional, flatten_columns, from_columns, scale, transpose
from heavytop.control import Curve, Reference
from heavytop.coordinates import Pose
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError
from heavytop.geometry import se3, so3


def hanging_reference(vehicle: Vehicle, curve: Curve, duration: float, side: Any = None) -> Reference:
    """The reference with the load's centre of oscillation on ``curve``; ``side`` (3,) is the normal of the plane of motion."""
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
