"""Single quantities in other conventions: quaternions, twists and wrenches, aerospace frames."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array

NED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
"""World: east-north-up to north-east-down, and back."""
FRD = np.diag([1.0, -1.0, -1.0])
"""Body: forward-left-up to forward-right-down, and back."""


def quaternion_to_xyzw(quat: Array) -> np.ndarray:
    """Quaternions (..., 4) with the scalar last (ROS, SciPy, Eigen, Pinocchio).

    >>> quaternion_to_xyzw([1.0, 0.0, 0.0, 0.0])
    array([0., 0., 0., 1.])
    """
    return np.roll(np.asarray(quat, dtype=float), -1, axis=-1)


def quaternion_from_xyzw(quat: Array) -> np.ndarray:
    """Quaternions (..., 4) with the scalar first, from those with the scalar last.

    >>> quaternion_from_xyzw([0.0, 0.0, 0.0, 1.0])
    array([1., 0., 0., 0.])
    """
    return np.roll(np.asarray(quat, dtype=float), 1, axis=-1)


def twist_to_angular_first(twist: Array) -> np.ndarray:
    """Twists or wrenches (..., 6) as (angular, linear), as in texts on spatial vectors, Drake and MuJoCo.

    >>> twist_to_angular_first([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    array([4., 5., 6., 1., 2., 3.])
    """
    twist = np.asarray(twist, dtype=float)
    return np.concatenate([twist[..., 3:], twist[..., :3]], axis=-1)


def twist_from_angular_first(twist: Array) -> np.ndarray:
    """Twists or wrenches (..., 6) as (linear, angular); the exchange is its own inverse.

    >>> twist_from_angular_first([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    array([4., 5., 6., 1., 2., 3.])
    """
    return twist_to_angular_first(twist)


def pose_to_ned(pose: Array) -> np.ndarray:
    """Poses (..., 4, 4) of a body (forward, left, up) in the world (east, north, up) as (forward, right, down) in (north, east, down).

    >>> pose_to_ned(np.eye(4))[:3, :3]
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    G = np.array(pose, dtype=float)
    G[..., :3, :3] = NED @ G[..., :3, :3] @ FRD
    G[..., :3, 3] = G[..., :3, 3] @ NED.T
    return G


def pose_from_ned(pose: Array) -> np.ndarray:
    """The inverse of :func:`pose_to_ned`, which is its own inverse.

    >>> pose_from_ned(pose_to_ned(np.eye(4)))
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """
    return pose_to_ned(pose)
