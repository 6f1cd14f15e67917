"""Joints with more than two degrees of freedom: free, spherical, planar; and none: fixed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Unpack

import numpy as np

from heavytop._arrays import Array, block, components, concatenate, constant, matrix, transpose, vector
from heavytop.coordinates import (
    Angle,
    EulerAngles,
    Pose,
    Product,
    Quaternion,
    Rotation,
    UnifiedPose,
    Vector,
)
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.system.joints.base import Joint, JointParts, checked_parts
from heavytop.system.joints.closure import aligned, same_sense, upright

AttitudeName = Literal["matrix", "quaternion", "euler"]
UNIT_Z = constant((0.0, 0.0, 1.0))
ATTITUDES = {"matrix": Rotation, "quaternion": Quaternion, "euler": EulerAngles}


class Free(Joint):
    """Six degrees of freedom.

    Parameters
    ----------
    attitude : "matrix" (q = position and rotation matrix, column by column), "quaternion" (wxyz) or "euler" (roll, pitch, yaw;
        singular at pitch +-90 degrees, for comparison only).
    velocity : "body" (linear and angular velocity in body axes), "mixed" (linear in world axes, angular in body axes) or
        "unified" (six velocities of points along directions, hexahedral set of document 002).

    Examples
    --------
    >>> Free().coordinates.nq, Free("quaternion").coordinates.nq, Free().coordinates.nv
    (12, 7, 6)
    """

    kind = "floating"

    def __init__(self, attitude: AttitudeName = "matrix", velocity: str = "body", **parts: Unpack[JointParts]) -> None:
        self.parts = checked_parts("Free", parts)
        _check_choice("Free joint", "attitude", attitude, ATTITUDES)
        _check_choice("Free joint", "velocity", velocity, ("body", "mixed", "unified"))
        self.attitude: AttitudeName = attitude
        self.velocity = velocity
        self._block = Pose(attitude=attitude, velocity="mixed" if velocity == "mixed" else "body")
        self.coordinates = UnifiedPose.hexahedral(attitude=attitude) if velocity == "unified" else self._block

    def _arguments(self) -> Iterable[str]:
        return _chosen(attitude=(self.attitude, "matrix"), velocity=(self.velocity, "body"))

    def pose(self, q: Array) -> Array:
        return self._block.pose(q)

    def jacobian(self, q: Array) -> Array:
        if isinstance(self.coordinates, UnifiedPose):
            return self.coordinates.inverse_matrix
        if self.velocity == "body":
            return np.eye(6)
        R = se3.rotation(self.pose(q))
        return block([[transpose(R), np.zeros((3, 3))], [np.zeros((3, 3)), np.eye(3)]])

    def bias(self, q: Array, v: Array) -> Array:
        return super().bias(q, v) if self.velocity == "mixed" else np.zeros(6)


class Spherical(Joint):
    """Three rotations about one point.

    Parameters
    ----------
    attitude : "matrix", "quaternion" or "euler".
    velocity : "relative" (angular velocity relative to the parent) or "absolute" (relative to the world), in axes of the moved body.

    Examples
    --------
    >>> Spherical().coordinates.nq, Spherical("quaternion").coordinates.nq, Spherical().coordinates.nv
    (9, 4, 3)
    """

    kind = "spherical"

    def __init__(
        self, attitude: AttitudeName = "matrix", velocity: str = "relative", **parts: Unpack[JointParts]
    ) -> None:
        self.parts = checked_parts("Spherical", parts)
        _check_choice("Spherical joint", "attitude", attitude, ATTITUDES)
        _check_choice("Spherical joint", "velocity", velocity, ("relative", "absolute"))
        self.attitude: AttitudeName = attitude
        self.coordinates = self._block = ATTITUDES[attitude]()
        self.velocity_frame = velocity

    def _arguments(self) -> Iterable[str]:
        return _chosen(attitude=(self.attitude, "matrix"), velocity=(self.velocity_frame, "relative"))

    def with_velocity(self, frame: str) -> Joint:
        return Spherical(self.attitude, frame) if type(self) is Spherical else super().with_velocity(frame)

    def pose(self, q: Array) -> Array:
        return se3.pose(self._block.rotation_matrix(q), np.zeros(3))

    def jacobian(self, q: Array) -> Array:
        return np.concatenate([np.zeros((3, 3)), np.eye(3)])

    def closure(self, G: Array) -> Array:
        return se3.position(G)

    def bias(self, q: Array, v: Array) -> Array:
        return np.zeros(6)


class Planar(Joint):
    """Motion in the x-y plane of the joint frame: q = (x, y, angle), v = (rates of x and y in the joint frame, angular velocity).

    >>> Planar().coordinates.nq, Planar().coordinates.nv
    (3, 3)
    """

    kind = "planar"

    def __init__(self, **parts: Unpack[JointParts]) -> None:
        self.parts = checked_parts("Planar", parts)
        self.coordinates = Product((Vector(2, names=("x", "y")), Angle()), names=("position", "angle"))

    @property
    def turns_about(self) -> Array:
        return UNIT_Z

    def pose(self, q: Array) -> Array:
        x, y, angle = components(q)
        c, s = np.cos(angle), np.sin(angle)
        return matrix([[c, -s, 0.0, x], [s, c, 0.0, y], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])

    def jacobian(self, q: Array) -> Array:
        _, _, angle = components(q)
        c, s = np.cos(angle), np.sin(angle)
        zero, one = 0.0, 1.0
        rows = [[c, s, zero], [-s, c, zero], [zero] * 3, [zero] * 3, [zero] * 3, [zero, zero, one]]
        return matrix(rows)

    def closure(self, G: Array) -> Array:
        return concatenate(se3.position(G)[2:], aligned(UNIT_Z, se3.rotation(G)))

    def closure_branch(self, G: Array) -> Array:
        return same_sense(UNIT_Z, se3.rotation(G))

    def bias(self, q: Array, v: Array) -> Array:
        _, _, angle = components(q)
        vx, vy, omega = components(v)
        c, s = np.cos(angle), np.sin(angle)
        return vector(omega * (c * vy - s * vx), -omega * (c * vx + s * vy), 0.0, 0.0, 0.0, 0.0)


class Fixed(Joint):
    """No degree of freedom: the body is welded to its parent.

    >>> Fixed().coordinates.nq
    0
    """

    kind = "fixed"

    def __init__(self) -> None:
        self.coordinates = Vector(0)

    def pose(self, q: Array) -> Array:
        return np.eye(4)

    def jacobian(self, q: Array) -> Array:
        return np.zeros((6, 0))

    def closure(self, G: Array) -> Array:
        return concatenate(se3.position(G), so3.vee2(se3.rotation(G)))

    def closure_branch(self, G: Array) -> Array:
        return upright(se3.rotation(G))

    def bias(self, q: Array, v: Array) -> Array:
        return np.zeros(6)


def _chosen(**options: tuple[str, str]) -> Iterable[str]:
    """Options (value, default) that are not at their default."""
    return [f"{name}={value!r}" for name, (value, default) in options.items() if value != default]


def _check_choice(where: str, option: str, value: object, choices) -> None:
    if value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ModelError(f"{where}: {option} must be one of {listed}, got {value!r}.")
