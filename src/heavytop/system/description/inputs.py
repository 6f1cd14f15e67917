"""Inputs: each element is one column of the input matrix B(q), the generalised force per unit of the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, constant, is_symbolic, transpose
from heavytop._format import Brief
from heavytop.errors import HeavytopError, ModelError, wrong_shape
from heavytop.geometry import se3, so3
from heavytop.system.description import WORLD

if TYPE_CHECKING:
    from heavytop.system.dynamics.articulated import Actions
    from heavytop.system.joints import Joint
    from heavytop.system.kinematics.kinematics import Kinematics


def _freeze_vectors(element: Any, *names: str) -> None:
    for name in names:
        value = getattr(element, name)
        if not isinstance(value, str):
            object.__setattr__(element, name, constant(value))


def unit_axis(axis: Any, where: str) -> Array:
    """A unit vector from "x", "-y", ... or from three numbers; ``where`` the axis belongs, for errors."""
    if isinstance(axis, str) and axis.startswith("-"):
        return constant(-unit_axis(axis[1:], where))
    try:
        return constant(so3.unit_axis(axis))
    except HeavytopError as error:
        raise type(error)(f"{where}: {error}") from None


@dataclass(frozen=True, eq=False)
class BodyWrench:
    """A wrench (6,) (force, moment) in the axes of ``frame`` at its origin; the reaction acts on ``relative_to``."""

    frame: str
    wrench: Array
    relative_to: str = WORLD

    def place(self, u: Array, actions: Actions) -> None:
        """Apply ``u`` units of it in the recursions over the tree."""
        actions.wrench(self.relative_to, self.frame, self.wrench * u)


@dataclass(frozen=True, eq=False)
class JointAction:
    """A generalised force on one velocity coordinate of a joint (parent-relative)."""

    joint: str
    index: int
    force: Array

    def place(self, u: Array, actions: Actions) -> None:
        """Let ``u`` units of it act in the recursions over the tree."""
        actions.joint(self.joint, np.eye(actions.size(self.joint))[self.index] * (self.force * u))


class Input(Protocol):
    """Turns one input into wrenches on bodies and forces in joints, each per unit of the input.

    Optional: ``unit(joints)`` returns the unit of the input, where ``joints`` maps names to joints.
    """

    def actions(self, kinematics: Kinematics) -> Sequence[BodyWrench | JointAction]:
        """Wrenches and joint forces of one unit of the input."""
        ...


def generalised_force(action: BodyWrench | JointAction, kinematics: Kinematics) -> Array:
    """Generalised force (nv,) of an action: J^T wrench, or the joint's row."""
    if isinstance(action, BodyWrench):
        return np.matvec(transpose(kinematics.jacobian(action.relative_to, action.frame)), action.wrench)
    return action.force * kinematics.joint_velocity_row(action.joint, action.index)


@dataclass(frozen=True, repr=False)
class Thruster(Brief):
    """A propeller or jet: force along ``axis`` at the point ``at`` of a body, with a drag torque along the same axis.

    Parameters
    ----------
    body : body or frame name.
    at : (3,) point of attack in that frame, m.
    axis : direction in that frame.
    drag_ratio : torque about ``axis`` per unit of thrust, m (its sign is the sense of rotation).

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.02)))
    >>> system.input("thrust", Thruster("hull", at=(0.2, 0, 0), drag_ratio=0.02))
    >>> model = system.derive(native=False)
    >>> model.input_matrix(model.neutral())[:, 0]
    array([ 0.  ,  0.  ,  1.  ,  0.  , -0.2 ,  0.02])
    """

    body: str
    at: Any = (0.0, 0.0, 0.0)
    axis: Any = "z"
    drag_ratio: Any = 0.0

    def __post_init__(self) -> None:
        _freeze_vectors(self, "at", "axis")

    def actions(self, kinematics: Kinematics) -> Sequence[BodyWrench | JointAction]:
        direction, point = unit_axis(self.axis, f"thruster on {self.body!r}"), as_array(self.at)
        if point.shape != (3,):
            raise wrong_shape(f"at of thruster on {self.body!r}", (3,), point.shape)
        wrench = concatenate(direction, np.cross(point, direction) + self.drag_ratio * direction)
        return (BodyWrench(self.body, wrench),)

    def unit(self, joints: Mapping[str, Joint]) -> str:
        """Newton."""
        return "N"


@dataclass(frozen=True, repr=False)
class JointForce(Brief):
    """Force or torque in a joint: one unit of generalised force on one of its velocity coordinates.

    Parameters
    ----------
    body : the body the joint carries.
    index : which velocity coordinate of the joint (0 for revolute and prismatic joints).
    gear : generalised force per unit of the input.

    Examples
    --------
    >>> JointForce("rod", gear=20.0).gear
    20.0
    """

    body: str
    index: int = 0
    gear: Any = 1.0

    def actions(self, kinematics: Kinematics) -> Sequence[BodyWrench | JointAction]:
        return (JointAction(self.body, self.index, self.gear),)

    def unit(self, joints: Mapping[str, Joint]) -> str:
        """Unit of the force in the joint, for a gear without unit."""
        return joints[self.body].force_units[self.index] if self.body in joints else ""


@dataclass(frozen=True, repr=False)
class Wrench(Brief):
    """A force and moment on a body (reaction on ``relative_to``), scaled by the input.

    Parameters
    ----------
    body : body or frame name.
    force, moment : (3,) each, per unit of the input; the force attacks at the origin of the body frame.
    frame : "body" (axes turn with the body) or "world" (axes fixed in the world).
    relative_to : the body that carries the reaction; "world" for an external wrench.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.02)))
    >>> system.input("push", Wrench("hull", force=(1, 0, 0), moment=(0, 0, 0.5)))
    >>> model = system.derive(native=False)
    >>> model.input_matrix(model.neutral())[:, 0]
    array([1. , 0. , 0. , 0. , 0. , 0.5])
    """

    body: str
    force: Any = (0.0, 0.0, 0.0)
    moment: Any = (0.0, 0.0, 0.0)
    frame: str = "body"
    relative_to: str = WORLD

    def __post_init__(self) -> None:
        _freeze_vectors(self, "force", "moment")

    def actions(self, kinematics: Kinematics) -> Sequence[BodyWrench | JointAction]:
        force, moment = as_array(self.force), as_array(self.moment)
        for label, value in (("force", force), ("moment", moment)):
            if value.shape != (3,):
                raise wrong_shape(f"{label} of wrench on {self.body!r}", (3,), value.shape)
        if self.frame == "world":
            R = se3.rotation(kinematics.pose(WORLD, self.body))
            force, moment = np.matvec(transpose(R), force), np.matvec(transpose(R), moment)
        elif self.frame != "body":
            raise ModelError(f"wrench on {self.body!r}: frame must be 'body' or 'world', got {self.frame!r}.")
        return (BodyWrench(self.body, concatenate(force, moment), self.relative_to),)

    def unit(self, joints: Mapping[str, Joint]) -> str:
        """Newton for a force alone, newton metre for a moment alone, for directions without unit; otherwise unknown."""
        force, moment = (is_symbolic(part) or np.any(part) for part in (self.force, self.moment))
        return "" if force and moment else "N" if force else "N m"
