"""The state of a model joint by joint, and the places of joints in the vectors of other programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from heavytop._arrays import Floats
from heavytop.coordinates import Circle, Pose
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.io.robot import JointKind
from heavytop.system import WORLD, Edge, Model, at_defaults
from heavytop.system.joints import Free


class ModelState(NamedTuple):
    """Configuration, velocity, acceleration and generalised force of a model or a joint; None where not given.

    >>> ModelState(np.zeros(3)).v is None
    True
    """

    q: Floats
    v: Floats | None = None
    a: Floats | None = None
    force: Floats | None = None


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


def of_joint(model: Model, state: ModelState, label: str) -> ModelState:
    """The entries of one joint."""
    q, v = model.coordinates.q_slice(label), model.coordinates.v_slice(label)
    return ModelState(state.q[..., q], *(None if x is None else x[..., v] for x in state[1:]))


def body_state(edge: Edge, parts: ModelState, before: Floats) -> BodyState:
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


def joint_state(edge: Edge, body: BodyState, before: Floats) -> ModelState:
    """The inverse of :func:`body_state`."""
    joint = _free_joint(edge)
    relative = se3.inverse(before) @ body.pose
    q = cast(Pose, joint.coordinates).from_pose(relative)
    if joint.velocity == "body":
        return ModelState(q, *body[1:])
    R, rate = se3.rotation(relative), body.rate
    if rate is not None and body.twist is not None:
        rate = add_linear(rate, np.cross(body.twist[..., 3:], body.twist[..., :3]))
    return ModelState(q, *(None if x is None else _turned(R, x) for x in (body.twist, rate, body.wrench)))


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


def planar_to_body_axes(parts: ModelState, order: int) -> ModelState:
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
    return ModelState(q, v, a, turned(parts.force))


def _turned(R: Floats, x: Floats) -> Floats:
    """The linear part turned by R, the angular part as it is."""
    return np.concatenate([np.matvec(R, x[..., :3]), x[..., 3:]], axis=-1)


def add_linear(x: Floats, more: Floats) -> Floats:
    """A vector (..., 6) with a linear part (..., 3) added."""
    return np.concatenate([x[..., :3] + more, x[..., 3:]], axis=-1)


# --- places of joints in the vectors of other programs -----------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Start and number of the entries of a joint in q and v, and the coordinate there where that of the model is zero."""

    q: int
    nq: int
    v: int
    nv: int
    zero: float = 0.0
    placement: Floats | None = None
    """Pose in the world of a free joint of the other program, if not the identity."""

    def stop(self, kind: str) -> int:
        return self.q + self.nq if kind == "q" else self.v + self.nv

    @property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        """Entries in q, v, a and force."""
        v = slice(self.v, self.v + self.nv)
        return slice(self.q, self.q + self.nq), v, v, v


Layout = Callable[[Model, Any], dict[str, Place]]
"""Model and the other program's model, or None -> the place of each joint."""


def own_layout(model: Model, peer: Any = None, planar: int = 3) -> dict[str, Place]:
    """The joints in the order of the model; ``planar`` joints have three coordinates, or four with cosine and sine."""
    if peer is not None:
        raise ModelError(f"this conversion takes no peer=, got a {type(peer).__name__}: leave it out.")
    places, q, v = {}, 0, 0
    for edge in model.description.joints:
        block = edge.joint.coordinates
        sizes: dict[str, int] = {JointKind.FLOATING: 7, JointKind.SPHERICAL: 4, JointKind.PLANAR: planar}
        nq = sizes.get(edge.joint.kind, block.nq)
        places[edge.label] = Place(q, nq, v, block.nv)
        q, v = q + nq, v + block.nv
    return places


def pinocchio_layout(model: Model, peer: Any) -> dict[str, Place]:
    """That of a ``pinocchio.Model``."""
    if peer is None:
        return own_layout(model, planar=4)
    places, names = {}, list(peer.names)
    for edge in model.description.graph.edges:
        joint = peer.joints[names.index(edge.label)] if edge.label in names else None
        if edge.joint.follows is not None and joint is not None and joint.nv:
            places[edge.label] = Place(joint.idx_q, joint.nq, joint.idx_v, joint.nv)
    for edge in model.description.joints:
        name = edge.label if edge.label in names or edge.joint.kind != JointKind.FLOATING else "root_joint"
        if name not in names:
            raise _missing("Pinocchio model", name, names[1:])
        joint = peer.joints[names.index(name)]
        placement = (
            peer.jointPlacements[names.index(name)].homogeneous if edge.joint.kind == JointKind.FLOATING else None
        )
        places[edge.label] = Place(joint.idx_q, joint.nq, joint.idx_v, joint.nv, placement=placement)
    return places


def mujoco_layout(model: Model, peer: Any) -> dict[str, Place]:
    """That of a ``mujoco.MjModel``; joints without names are matched by their order."""
    if peer is None:
        return own_layout(model)
    joints = [peer.joint(k) for k in range(peer.njnt)]
    by_name = {joint.name: joint for joint in joints if joint.name}
    places: dict[str, Place] = {}
    edges = [edge for edge in model.description.graph.edges if not edge.joint.is_fixed]  # with those that follow others
    for k, edge in enumerate(edges):
        joint = by_name.get(edge.label) or (joints[k] if len(joints) == len(edges) and not joints[k].name else None)
        if joint is None:
            raise _missing("MuJoCo model", edge.label, list(by_name))
        nq, nv = {0: (7, 6), 1: (4, 3), 2: (1, 1), 3: (1, 1)}[int(joint.type[0])]
        zero = float(joint.qpos0[0]) if nq == 1 else 0.0
        places[edge.label] = Place(int(joint.qposadr[0]), nq, int(joint.dofadr[0]), nv, zero)
    return places


def drake_layout(model: Model, peer: Any) -> dict[str, Place]:
    """That of a finalized ``MultibodyPlant``."""
    if peer is None:
        return own_layout(model)
    joints = {joint.name(): joint for joint in map(peer.get_joint, peer.GetJointIndices())}
    places: dict[str, Place] = {}
    for edge in model.description.joints:
        joint = joints.get(edge.label) or joints.get(edge.b)
        if joint is None or joint.num_velocities() != edge.joint.coordinates.nv:
            raise _missing("Drake plant", f"{edge.label} of {edge.joint.coordinates.nv} velocities", list(joints))
        q, v = joint.position_start(), joint.velocity_start()
        places[edge.label] = Place(q, joint.num_positions(), v, joint.num_velocities())
    return places


def _missing(where: str, name: str, known: list[str]) -> ModelError:
    return ModelError(f"the {where} has no joint {name!r}; it has {', '.join(known[:8])}, ...")
