"""Joints about and along axes: revolute, prismatic, cylindrical, universal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

import numpy as np

from heavytop._arrays import Array, Floats, components, concatenate, from_columns, scale, shape, vector
from heavytop._format import brief
from heavytop.coordinates import Angle, Circle, Coordinates, Product, Vector
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.system.description.inputs import unit_axis
from heavytop.system.joints.base import Joint, JointParts, checked_parts
from heavytop.system.joints.closure import across, aligned, same_sense, upright

ZERO = np.zeros(3)


class AxisJoint(Joint):
    """A joint with one axis and a constant Jacobian."""

    def _take(self, axis: Any, parts: JointParts, coordinates: Coordinates) -> None:
        name = type(self).__name__
        self.parts, self.coordinates = checked_parts(name, parts), coordinates
        self.axis = unit_axis(axis, f"{name} joint")

    def _arguments(self) -> Iterable[str]:
        return (axis_text(self.axis),)

    def bias(self, q: Array, v: Array) -> Array:
        return np.zeros(6)


class Revolute(AxisJoint):
    """Rotation about one axis.

    Parameters
    ----------
    axis : "x", "y", "z" or three numbers, in the joint frame.
    coordinates : "angle" (one unbounded angle, rad) or "circle" (cosine and sine; no wrap-around, no trigonometry).
    parts : what acts in the joint, as in every joint: ``stiffness``, ``rest``, ``damping``, ``friction``, ``armature``, ``limits``
        (:class:`~heavytop.system.joints.base.JointParts`).

    The velocity coordinate is the angular velocity about the axis, rad/s.

    Examples
    --------
    >>> Revolute("z").pose(np.array([np.pi / 2])).round(12)[:2, :2]
    array([[ 0., -1.],
           [ 1.,  0.]])
    >>> Revolute("z", coordinates="circle").coordinates.nq
    2

    A hinge with a spring, a damper and a geared motor:

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> hinge = Revolute("z", stiffness=8.0, rest=0.5, damping=0.2, armature={"inertia": 0.01, "gear_ratio": 10.0})
    >>> system.body("arm", joint=hinge, inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.derive(native=False).acceleration([0.0], [0.0])
    array([2.])
    """

    kind = "revolute"

    def __init__(self, axis: Any = "z", coordinates: str = "angle", **parts: Unpack[JointParts]) -> None:
        if coordinates not in ("angle", "circle"):
            raise ModelError(f"Revolute joint: coordinates must be 'angle' or 'circle', got {coordinates!r}.")
        self._take(axis, parts, Angle() if coordinates == "angle" else Circle())

    def _arguments(self) -> Iterable[str]:
        return (axis_text(self.axis), *(() if isinstance(self.coordinates, Angle) else ("coordinates='circle'",)))

    @property
    def turns_about(self) -> Array:
        return self.axis

    def pose(self, q: Array) -> Array:
        if isinstance(self.coordinates, Angle):
            (angle,) = components(q)
            c, s = np.cos(angle), np.sin(angle)
        else:
            c, s = components(q)
        return se3.pose(so3.rotation_from_circle(self.axis, c, s), ZERO)

    def jacobian(self, q: Array) -> Array:
        return _constant(q, from_columns(concatenate(ZERO, self.axis)))

    def closure(self, G: Array) -> Array:
        return concatenate(se3.position(G), aligned(self.axis, se3.rotation(G)))

    def closure_branch(self, G: Array) -> Array:
        return same_sense(self.axis, se3.rotation(G))


class Prismatic(AxisJoint):
    """Translation along one axis; q is the displacement in m, v its rate.

    >>> Prismatic("x").pose(np.array([0.5]))[:3, 3]
    array([0.5, 0. , 0. ])
    """

    kind = "prismatic"

    def __init__(self, axis: Any = "z", **parts: Unpack[JointParts]) -> None:
        self._take(axis, parts, Vector(1, names=("x",)))

    @property
    def slides_along(self) -> Array:
        return self.axis

    def pose(self, q: Array) -> Array:
        (x,) = components(q)
        return se3.pose(np.eye(3), scale(x, self.axis, 1))

    def jacobian(self, q: Array) -> Array:
        return _constant(q, from_columns(concatenate(self.axis, ZERO)))

    def closure(self, G: Array) -> Array:
        return concatenate(across(self.axis, se3.position(G)), so3.vee2(se3.rotation(G)))

    def closure_branch(self, G: Array) -> Array:
        return upright(se3.rotation(G))


class Cylindrical(AxisJoint):
    """Rotation about and translation along one axis; q = (angle, displacement), v = their rates.

    >>> Cylindrical("z").coordinates.nq, Cylindrical("z").coordinates.nv
    (2, 2)
    """

    def __init__(self, axis: Any = "z", **parts: Unpack[JointParts]) -> None:
        self._take(axis, parts, Product((Angle(), Vector(1, names=("x",)))))

    @property
    def turns_about(self) -> Array:
        return self.axis

    @property
    def slides_along(self) -> Array:
        return self.axis

    def pose(self, q: Array) -> Array:
        angle, x = components(q)
        return se3.pose(so3.rotation_from_circle(self.axis, np.cos(angle), np.sin(angle)), scale(x, self.axis, 1))

    def jacobian(self, q: Array) -> Array:
        return _constant(q, from_columns(concatenate(ZERO, self.axis), concatenate(self.axis, ZERO)))

    def closure(self, G: Array) -> Array:
        return concatenate(across(self.axis, se3.position(G)), aligned(self.axis, se3.rotation(G)))

    def closure_branch(self, G: Array) -> Array:
        return same_sense(self.axis, se3.rotation(G))


class Universal(Joint):
    """Two rotations in succession: about ``axes[0]`` of the joint frame, then about ``axes[1]`` of the turned frame.

    q = the two angles, v = their rates. The map is singular nowhere: the two axes stay at the given angle to each other.

    >>> Universal(("x", "y")).coordinates.nv
    2
    """

    def __init__(self, axes: tuple[Any, Any] = ("x", "y"), **parts: Unpack[JointParts]) -> None:
        self.parts = checked_parts("Universal", parts)
        if len(axes) != 2:
            raise ModelError(f"Universal joint: it takes two axes, got {axes!r}.")
        self.axes = (unit_axis(axes[0], "Universal joint"), unit_axis(axes[1], "Universal joint"))
        if np.linalg.norm(np.cross(*self.axes)) < 1e-9:
            raise ModelError(f"Universal joint: the two axes must not be parallel, got {axes[0]!r} and {axes[1]!r}.")

        self.coordinates = Product((Angle(), Angle()), names=("first", "second"))

    def _arguments(self) -> Iterable[str]:
        return (f"({axis_text(self.axes[0])}, {axis_text(self.axes[1])})",)

    def _rotations(self, q: Array) -> tuple[Array, Array]:
        first, second = components(q)
        return (
            so3.rotation_from_circle(self.axes[0], np.cos(first), np.sin(first)),
            so3.rotation_from_circle(self.axes[1], np.cos(second), np.sin(second)),
        )

    def pose(self, q: Array) -> Array:
        first, second = self._rotations(q)
        return se3.pose(first @ second, ZERO)

    def closure(self, G: Array) -> Array:
        first, second = self.axes
        angle = np.vecdot(first, np.matvec(se3.rotation(G), second))
        return concatenate(se3.position(G), vector(angle - first @ second))

    def jacobian(self, q: Array) -> Array:
        _, second = self._rotations(q)
        turned = np.matvec(np.swapaxes(second, -1, -2), self.axes[0])
        return from_columns(concatenate(ZERO, turned), concatenate(ZERO, self.axes[1]))


def axis_text(axis: Floats) -> str:
    """An axis (3,) by its letter, or its numbers.

    >>> axis_text(np.array([0.0, -1.0, 0.0])), axis_text(np.array([0.6, 0.8, 0.0]))
    ("'-y'", '(0.6, 0.8, 0)')
    """
    for k, letter in enumerate("xyz"):
        if abs(axis[k]) == 1.0:
            return repr(letter if axis[k] > 0 else f"-{letter}")
    return brief(axis)


def _constant(q: Array, jacobian: Floats) -> Floats:
    """A configuration-independent Jacobian, with the batch axes of ``q``."""
    batch = shape(q)[:-1]
    return np.broadcast_to(jacobian, batch + jacobian.shape) if batch else jacobian
