"""The state of a model joint by joint, in the form that conventions convert."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from heavytop._arrays import Floats
from heavytop.coordinates import Circle, Pose
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system import WORLD, Edge, Model, at_defaults
from heavytop.system.joints import Free


class ModelState(NamedTuple):
    """Configuration, velocity, acceleration and generalised force; None where not given.

    >>> ModelState(np.zeros(3)).v is None
    True
    """

    q: Floats
    v: Floats | None = None
    a: Floats | None = None
    force: Floats | None = None


class JointState(NamedTuple):
    """The entries of one joint in q, v, a and force; None where not given."""

    q: Floats
    v: Floats | None
    a: Floats | None
    force: Floats | None


class BodyState(NamedTuple):
    """A free body: pose in the world, then body twist, its rate and the body wrench, each (..., 6) (linear, angular), or None.

    >>> BodyState(np.eye(4), None, None, None).twist is None
    True
    """

    pose: Floats
    twist: Floats | None
    rate: Floats | None
    wrench: Floats | None


def check(model: Model, state: ModelState) -> ModelState:
    """The state, if it has the sizes of the model and can be converted."""
    for name, value in state._asdict().items():
        size = model.nq if name == "q" else model.nv
        if value is not None and (value.ndim == 0 or value.shape[-1] != size):
            raise ModelError(f"{name} of {model.name!r} must have shape (..., {size}), got {value.shape}.")
    if state.a is not None and state.v is None:
        raise ModelError("accelerations need the velocity v too: their conversion depends on it.")
    if model.description.time is not None:
        raise ModelError(
            f"{model.name!r} depends on the time explicitly, which states of other programs do not contain."
        )
    if model.description.velocity is not None or model.description.basis is not None:
        raise ModelError(f"{model.name!r} has user-defined velocity coordinates; convert a model in joint velocities.")
    return state


def of_joint(model: Model, state: ModelState, label: str) -> JointState:
    """The entries of one joint."""
    q, v = model.coordinates.q_slice(label), model.coordinates.v_slice(label)
    return JointState(state.q[..., q], *(None if x is None else x[..., v] for x in state[1:]))


def body_state(edge: Edge, parts: JointState, before: Floats) -> BodyState:
    """The motion of a body on a free joint in the frame of the other program; ``before`` (4, 4) is the joint in that frame."""
    joint = _free_joint(edge)
    relative = joint.pose(parts.q)
    pose = before @ relative
    if joint.velocity == "body":
        return BodyState(pose, *parts[1:])
    R_T = np.swapaxes(se3.rotation(relative), -1, -2)
    twist, rate, wrench = (None if x is None else _turned(R_T, x) for x in parts[1:])
    if rate is not None and twist is not None:
        rate = add_linear(rate, -np.cross(twist[..., 3:], twist[..., :3]))
    return BodyState(pose, twist, rate, wrench)


def joint_state(edge: Edge, body: BodyState, before: Floats) -> JointState:
    """The inverse of :func:`body_state`."""
    joint = _free_joint(edge)
    relative = se3.inverse(before) @ body.pose
    q = cast(Pose, joint.coordinates).from_pose(relative)
    if joint.velocity == "body":
        return JointState(q, *body[1:])
    R, rate = se3.rotation(relative), body.rate
    if rate is not None and body.twist is not None:
        rate = add_linear(rate, np.cross(body.twist[..., 3:], body.twist[..., :3]))
    return JointState(q, *(None if x is None else _turned(R, x) for x in (body.twist, rate, body.wrench)))


def _free_joint(edge: Edge) -> Free:
    if not isinstance(edge.joint, Free) or edge.joint.velocity not in ("body", "mixed"):
        raise ModelError(f"joint {edge.label!r} must be Free with velocity 'body' or 'mixed' to be converted.")
    return edge.joint


def angle_of(edge: Edge, q: Floats) -> Floats:
    """The angle (..., 1) of a revolute joint, also where its coordinates are cosine and sine."""
    if isinstance(edge.joint.coordinates, Circle):
        return np.arctan2(q[..., 1:], q[..., :1])
    return q


def from_angle(edge: Edge, angle: Floats) -> Floats:
    """The coordinates of a revolute joint at an angle (..., 1)."""
    if isinstance(edge.joint.coordinates, Circle):
        return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)
    return angle


def before_free_joint(model: Model, edge: Edge, placement: Floats | None = None) -> Floats:
    """The pose of a free joint in the frame of the other program's coordinates.

    That frame is the world, or ``placement`` (4, 4) in it, for a body on the world, and the joint itself for a body on another body.
    """
    if edge.a != WORLD:
        return np.eye(4)
    at = at_defaults(edge.at, model.description.parameters)
    return at if placement is None else se3.inverse(placement) @ at


def planar_to_body_axes(parts: JointState, order: int) -> JointState:
    """A planar joint with (cos, sin) and velocities in axes of the moved body (``order`` 1), or back (-1).

    With w = R^T r' the rates are w' = R^T r'' - omega x w.
    """
    angle = parts.q[..., 2:] if order == 1 else np.arctan2(parts.q[..., 3:], parts.q[..., 2:3])
    c, s = np.cos(angle), np.sin(angle)

    def turned(x: Floats | None) -> Floats | None:
        if x is None:
            return None
        along, across = x[..., :1], x[..., 1:2]
        return np.concatenate([c * along + order * s * across, c * across - order * s * along, x[..., 2:]], axis=-1)

    q = np.concatenate([parts.q[..., :2], c, s] if order == 1 else [parts.q[..., :2], angle], axis=-1)
    v, a = turned(parts.v), parts.a
    body = v if order == 1 else parts.v  # velocities in axes of the body
    if a is not None and body is not None:
        omega = body[..., 2:]
        cross = omega * np.concatenate([-body[..., 1:2], body[..., :1]], axis=-1)
        a = turned(a) if order == 1 else np.concatenate([a[..., :2] + cross, a[..., 2:]], axis=-1)
        a = np.concatenate([a[..., :2] - cross, a[..., 2:]], axis=-1) if order == 1 and a is not None else turned(a)
    return JointState(q, v, a, turned(parts.force))


def _turned(R: Floats, x: Floats) -> Floats:
    """The linear part turned by R, the angular part as it is."""
    return np.concatenate([np.matvec(R, x[..., :3]), x[..., 3:]], axis=-1)


def add_linear(x: Floats, more: Floats) -> Floats:
    """A vector (..., 6) with a linear part (..., 3) added."""
    return np.concatenate([x[..., :3] + more, x[..., 3:]], axis=-1)
