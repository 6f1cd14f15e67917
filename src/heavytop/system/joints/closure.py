"""Loop joints: the equations phi(G) = 0 that a joint imposes on the pose G of its two frames when it closes a kinematic loop."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, concatenate, vector
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.system.joints.base import Joint
from heavytop.system.joints.single_axis import Cylindrical, Prismatic, Revolute, Universal
from heavytop.system.joints.spatial import Fixed, Planar, Spherical


def closure(joint: Joint, G: Array) -> Array:
    """phi(G) (m,) for the relative pose G (4, 4): zero exactly on the poses the joint allows (near the closed loop).

    A spherical joint gives 3 equations, revolute 5, prismatic 5, cylindrical 4, universal 4, planar 3, fixed 6.
    """
    R, r = se3.rotation(G), se3.position(G)
    if isinstance(joint, Spherical):
        return r
    if isinstance(joint, Revolute):
        return concatenate(r, _aligned(joint.axis, R))
    if isinstance(joint, Prismatic):
        return concatenate(_across(joint.axis, r), so3.vee2(R))
    if isinstance(joint, Cylindrical):
        return concatenate(_across(joint.axis, r), _aligned(joint.axis, R))
    if isinstance(joint, Universal):
        first, second = joint.axes
        return concatenate(r, vector(np.vecdot(first, np.matvec(R, second)) - first @ second))
    if isinstance(joint, Planar):
        z = np.array([0.0, 0.0, 1.0])
        return concatenate(r[2:], _aligned(z, R))
    if isinstance(joint, Fixed):
        return concatenate(r, so3.vee2(R))
    raise ModelError(
        f"a {type(joint).__name__} joint cannot close a loop. Use Revolute, Prismatic, Cylindrical, Universal, Spherical, Planar or "
        "Fixed, or give the equations themselves: system.constrain(lambda q: ...)."
    )


def _normals(axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors that complete ``axis`` to a right-handed frame; along the coordinate axes where ``axis`` is."""
    seed = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(axis, seed)
    first = first / np.linalg.norm(first)
    return first, np.cross(axis, first)


def _across(axis: np.ndarray, r: Array) -> Array:
    """Components of r across the axis."""
    first, second = _normals(axis)
    return vector(np.vecdot(first, r), np.vecdot(second, r))


def _aligned(axis: np.ndarray, R: Array) -> Array:
    """Two equations that hold when the axis, carried along with the second frame, is parallel to itself."""
    return _across(axis, np.matvec(R, axis))
