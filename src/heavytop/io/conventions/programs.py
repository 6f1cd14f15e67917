"""Whole states in the conventions of other programs.

A free body is (pose, body twist xi = (v, omega), its rate, wrench) here. With R the attitude the programs have

    Pinocchio   q = (r, xyzw)   v = (v, omega)         a = (v', omega')                       f = (force, moment)
    MuJoCo      q = (r, wxyz)   v = (R v, omega)       a = (R (v' + omega x v), omega')        f = (R force, moment)
    Drake       q = (wxyz, r)   v = (R omega, R v)     a = (R omega', R (v' + omega x v))      f = (R moment, R force)
    Exudyn      q = (r, wxyz)   v = (R v, omega)       as MuJoCo (Lie-group node with the angular velocity in body axes)
    SymPy       q = (r, wxyz)   v = (R v, omega)       as MuJoCo (speeds: velocity of the origin in N, angular velocity in B)
    ROS         q = (r, xyzw)   v = (v, omega)         as Pinocchio (Odometry: twist in the axes of child_frame_id)
    RotorPy     q = (r, xyzw)   v = (R v, omega)       as MuJoCo

The pose is that in the world; of a body that is carried by another one, that in the joint. Planar joints are (x, y, angle) and their rates
here and in Drake; Pinocchio has (x, y, cos, sin) and velocities in axes of the moved body.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from heavytop._arrays import Floats, Numbers
from heavytop.coordinates import Attitude
from heavytop.errors import ModelError
from heavytop.geometry import quaternion, se3
from heavytop.io.conventions.states import (
    BodyState,
    JointState,
    ModelState,
    angle_of,
    before_free_joint,
    body_state,
    check,
    from_angle,
    given,
    joint_parts,
    of_joint,
    planar_to_body_axes,
    rotation_from,
    rotation_of,
)
from heavytop.io.robot import FLOATING, PLANAR, REVOLUTE, SPHERICAL
from heavytop.system.description.graph import Edge
from heavytop.system.model import Model


@dataclass(frozen=True)
class Place:
    """Where a joint lies in the vectors of the other program, and the coordinate there at which ours is zero."""

    q: int
    nq: int
    v: int
    nv: int
    zero: float = 0.0
    placement: Floats | None = None
    """Where the other program has a free joint on the world, if not in the world itself."""


@dataclass(frozen=True)
class Convention:
    """How a program writes free bodies and quaternions."""

    scalar_first: bool
    world_linear: bool
    """Linear velocities in world axes."""
    world_angular: bool = False
    rotation_first: bool = False
    """Attitude before position, angular before linear."""

    def quat(self, R: Floats) -> Floats:
        wxyz = quaternion.quaternion_from_rotation(R)
        return wxyz if self.scalar_first else np.roll(wxyz, -1, axis=-1)

    def rotation(self, quat: Floats) -> Floats:
        return rotation_from(quat if self.scalar_first else np.roll(quat, 1, axis=-1))

    def encode(self, body: BodyState) -> JointState:
        """The entries of a free body."""
        R, r = se3.rotation(body.pose), se3.position(body.pose)
        rate = body.rate
        if rate is not None and body.twist is not None and self.world_linear:
            rate = _shifted(rate, np.cross(body.twist[..., 3:], body.twist[..., :3]))
        parts = (self.quat(R), r) if self.rotation_first else (r, self.quat(R))
        return JointState(np.concatenate(parts, axis=-1), *(self._turn(R, x) for x in (body.twist, rate, body.wrench)))

    def decode(self, parts: JointState) -> BodyState:
        """The inverse of :meth:`encode`."""
        quat, r = (parts.q[..., :4], parts.q[..., 4:]) if self.rotation_first else (parts.q[..., 3:], parts.q[..., :3])
        R = self.rotation(quat)
        twist, rate, wrench = (self._turn_back(R, x) for x in parts[1:])
        if rate is not None and twist is not None and self.world_linear:
            rate = _shifted(rate, -np.cross(twist[..., 3:], twist[..., :3]))
        return BodyState(se3.pose(R, r), twist, rate, wrench)

    def _turn(self, R: Floats, x: Floats | None) -> Floats | None:
        if x is None:
            return None
        linear, angular = x[..., :3], x[..., 3:]
        linear = np.matvec(R, linear) if self.world_linear else linear
        angular = np.matvec(R, angular) if self.world_angular else angular
        return np.concatenate([angular, linear] if self.rotation_first else [linear, angular], axis=-1)

    def _turn_back(self, R: Floats, x: Floats | None) -> Floats | None:
        if x is None:
            return None
        first, second = x[..., :3], x[..., 3:]
        linear, angular = (second, first) if self.rotation_first else (first, second)
        R_T = np.swapaxes(R, -1, -2)
        linear = np.matvec(R_T, linear) if self.world_linear else linear
        angular = np.matvec(R_T, angular) if self.world_angular else angular
        return np.concatenate([linear, angular], axis=-1)


PINOCCHIO = Convention(scalar_first=False, world_linear=False)
MUJOCO = Convention(scalar_first=True, world_linear=True)
DRAKE = Convention(scalar_first=True, world_linear=True, world_angular=True, rotation_first=True)
ROTORPY = Convention(scalar_first=False, world_linear=True)


def _shifted(rate: Floats, more: Floats) -> Floats:
    return np.concatenate([rate[..., :3] + more, rate[..., 3:]], axis=-1)


def _to(model: Model, convention: Convention, state: ModelState, places: dict[str, Place]) -> ModelState:
    state = check(model, state)
    batch = np.broadcast_shapes(*(x.shape[:-1] for x in state if x is not None))
    nq, nv = (
        max((p.q + p.nq for p in places.values()), default=0),
        max((p.v + p.nv for p in places.values()), default=0),
    )
    result = [None if x is None else np.zeros((*batch, n)) for x, n in zip(state, (nq, nv, nv, nv), strict=True)]
    for edge in model.description.joints:
        place, parts = places[edge.label], of_joint(model, state, edge.label)
        encoded = _encode(model, convention, edge, parts, place)
        for target, value, start, size in zip(
            result, encoded, (place.q, *(place.v,) * 3), (place.nq, *(place.nv,) * 3), strict=True
        ):
            if target is not None and value is not None:
                target[..., start : start + size] = value
    _follow(model, state, places, result)
    return ModelState(*result)  # pyright: ignore[reportArgumentType]


def _follow(model: Model, state: ModelState, places: dict[str, Place], result: list[Floats | None]) -> None:
    """Joints that follow others here and stand for themselves there; forces on them are not ours to give."""
    for edge in model.description.graph.edges:
        if edge.joint.follows is None or edge.label not in places:
            continue
        place, parts = places[edge.label], of_joint(model, state, edge.joint.follows)
        q, _ = edge.joint.follow(parts.q, np.zeros(1))
        if result[0] is not None:
            turned = np.concatenate([np.cos(q), np.sin(q)], axis=-1) if place.nq == 2 else q
            result[0][..., place.q : place.q + place.nq] = turned
        for target, value in zip(result[1:3], parts[1:3], strict=True):
            if target is not None and value is not None:
                target[..., place.v : place.v + 1] = edge.joint.follow(parts.q, value)[1]


def _encode(model: Model, convention: Convention, edge: Edge, parts: JointState, place: Place) -> JointState:
    if edge.joint.kind == FLOATING:
        return convention.encode(body_state(edge, parts, before_free_joint(model, edge, place.placement)))
    if edge.joint.kind == SPHERICAL:
        return JointState(convention.quat(rotation_of(edge.joint, parts.q)), *parts[1:])
    if edge.joint.kind == REVOLUTE:
        angle = angle_of(edge, parts.q)
        if place.nq == 2:
            return JointState(np.concatenate([np.cos(angle), np.sin(angle)], axis=-1), *parts[1:])
        return JointState(angle + place.zero, *parts[1:])
    if edge.joint.kind == PLANAR and place.nq == 4:
        return planar_to_body_axes(parts, 1)
    if place.nq != edge.joint.coordinates.nq:
        raise ModelError(f"joint {edge.label!r} has {edge.joint.coordinates.nq} coordinates here and {place.nq} there.")
    return JointState(parts.q + place.zero, *parts[1:])


def _from(model: Model, convention: Convention, state: ModelState, places: dict[str, Place]) -> ModelState:
    arrays = [None if x is None else np.asarray(x, dtype=float) for x in state]
    if arrays[2] is not None and arrays[1] is None:
        raise ModelError("accelerations need the velocity v too: their conversion depends on it.")
    batch = np.broadcast_shapes(*(x.shape[:-1] for x in arrays if x is not None))
    sizes = (model.nq, model.nv, model.nv, model.nv)
    result = [None if x is None else np.zeros((*batch, n)) for x, n in zip(arrays, sizes, strict=True)]
    for edge in model.description.joints:
        place = places[edge.label]
        cuts = (slice(place.q, place.q + place.nq), *(slice(place.v, place.v + place.nv),) * 3)
        entries = JointState(*(None if x is None else x[..., cut] for x, cut in zip(arrays, cuts, strict=True)))  # pyright: ignore[reportArgumentType]
        decoded = _decode(model, convention, edge, entries, place)
        q, v = model.coordinates.q_slice(edge.label), model.coordinates.v_slice(edge.label)
        for target, value, cut in zip(result, decoded, (q, v, v, v), strict=True):
            if target is not None and value is not None:
                target[..., cut] = value
    return ModelState(*result)  # pyright: ignore[reportArgumentType]


def _decode(model: Model, convention: Convention, edge: Edge, parts: JointState, place: Place) -> JointState:
    if edge.joint.kind == FLOATING:
        return joint_parts(edge, convention.decode(parts), before_free_joint(model, edge, place.placement))
    if edge.joint.kind == SPHERICAL:
        R = convention.rotation(parts.q)
        return JointState(cast(Attitude, edge.joint.coordinates).from_rotation_matrix(R), *parts[1:])
    if edge.joint.kind == REVOLUTE:
        q = np.arctan2(parts.q[..., 1:], parts.q[..., :1]) if place.nq == 2 else parts.q - place.zero
        return JointState(from_angle(edge, q), *parts[1:])
    if edge.joint.kind == PLANAR and place.nq == 4:
        return planar_to_body_axes(parts, -1)
    return JointState(parts.q - place.zero, *parts[1:])


# --- where joints lie -------------------------------------------------------------------------------------------------------


def _in_order(model: Model, planar: int = 3) -> dict[str, Place]:
    """Our joints one after the other; ``planar`` joints have three coordinates, or four with cosine and sine."""
    places, q, v = {}, 0, 0
    for edge in model.description.joints:
        block = edge.joint.coordinates
        nq = {FLOATING: 7, SPHERICAL: 4, PLANAR: planar}.get(edge.joint.kind, block.nq)
        places[edge.label] = Place(q, nq, v, block.nv)
        q, v = q + nq, v + block.nv
    return places


def _pinocchio_places(model: Model, peer: Any) -> dict[str, Place]:
    if peer is None:
        return _in_order(model, planar=4)
    places, names = {}, list(peer.names)
    followers = [e for e in model.description.graph.edges if e.joint.follows is not None]
    for edge in followers:
        joint = peer.joints[names.index(edge.label)] if edge.label in names else None
        if joint is not None and joint.nv:
            places[edge.label] = Place(joint.idx_q, joint.nq, joint.idx_v, joint.nv)
    for edge in model.description.joints:
        name = edge.label if edge.label in names or edge.joint.kind != FLOATING else "root_joint"
        if name not in names:
            raise ModelError(f"the Pinocchio model has no joint {name!r}; it has {', '.join(names[1:9])}, ...")
        joint = peer.joints[names.index(name)]
        placement = peer.jointPlacements[names.index(name)].homogeneous if edge.joint.kind == FLOATING else None
        places[edge.label] = Place(joint.idx_q, joint.nq, joint.idx_v, joint.nv, placement=placement)
    return places


def _mujoco_places(model: Model, peer: Any) -> dict[str, Place]:
    if peer is None:
        return _in_order(model)
    joints = [peer.joint(k) for k in range(peer.njnt)]
    by_name = {joint.name: joint for joint in joints if joint.name}
    places: dict[str, Place] = {}
    ours = model.description.joints
    for k, edge in enumerate(ours):
        joint = by_name.get(edge.label) or (joints[k] if len(joints) == len(ours) and not joints[k].name else None)
        if joint is None:
            raise ModelError(
                f"the MuJoCo model has no joint {edge.label!r}; it has {', '.join(list(by_name)[:8])}, ..."
            )
        nq, nv = {0: (7, 6), 1: (4, 3), 2: (1, 1), 3: (1, 1)}[int(joint.type[0])]
        zero = float(joint.qpos0[0]) if nq == 1 else 0.0
        places[edge.label] = Place(int(joint.qposadr[0]), nq, int(joint.dofadr[0]), nv, zero)
    return places


def _drake_places(model: Model, peer: Any) -> dict[str, Place]:
    if peer is None:
        return _in_order(model)
    joints = {joint.name(): joint for joint in map(peer.get_joint, peer.GetJointIndices())}
    places: dict[str, Place] = {}
    for edge in model.description.joints:
        joint = joints.get(edge.label) or joints.get(edge.b)
        if joint is None or joint.num_velocities() != edge.joint.coordinates.nv:
            raise ModelError(
                f"the Drake plant has no joint {edge.label!r} of {edge.joint.coordinates.nv} velocities; it has {', '.join(list(joints)[:8])}, ..."
            )
        q, v = joint.position_start(), joint.velocity_start()
        places[edge.label] = Place(q, joint.num_positions(), v, joint.num_velocities())
    return places


# --- the programs -------------------------------------------------------------------------------------------------------------


def to_pinocchio(
    model: Model,
    q: Numbers,
    v: Numbers | None = None,
    a: Numbers | None = None,
    force: Numbers | None = None,
    *,
    peer: Any = None,
) -> ModelState:
    """A state as Pinocchio has it; with ``peer`` (a ``pinocchio.Model``) in its order of joints, matched by name.

    >>> import heavytop as ht
    >>> model = ht.library.free_body().derive(native=False)
    >>> to_pinocchio(model, model.neutral()).q
    array([0., 0., 0., 0., 0., 0., 1.])
    """
    return _to(model, PINOCCHIO, given(q, v, a, force), _pinocchio_places(model, peer))


def from_pinocchio(
    model: Model,
    q: Numbers,
    v: Numbers | None = None,
    a: Numbers | None = None,
    force: Numbers | None = None,
    *,
    peer: Any = None,
) -> ModelState:
    """A state of ours from Pinocchio's.

    >>> import heavytop as ht
    >>> model = ht.library.free_body().derive(native=False)
    >>> from_pinocchio(model, [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]).q[:3]
    array([1., 2., 3.])
    """
    return _from(model, PINOCCHIO, given(q, v, a, force), _pinocchio_places(model, peer))


def to_mujoco(
    model: Model,
    q: Numbers,
    v: Numbers | None = None,
    a: Numbers | None = None,
    force: Numbers | None = None,
    *,
    peer: Any = None,
) -> ModelState:
    """``qpos``, ``qvel``, ``qacc`` and ``qfrc`` of MuJoCo; with ``peer`` (a ``mujoco.MjModel``) in its order, zeros at its ``qpos0``.

    >>> import heavytop as ht
    >>> model = ht.library.free_body().derive(native=False)
    >>> to_mujoco(model, model.neutral()).q
    array([0., 0., 0., 1., 0., 0., 0.])
    """
    return _to(model, MUJOCO, given(q, v, a, force), _mujoco_places(model, peer))


def from_mujoco(
    model: Model,
    q: Numbers,
    v: Numbers | None = None,
    a: Numbers | None = None,
    force: Numbers | None = None,
    *,
    peer: Any = None,
) -> ModelState:
    """A state of ours from MuJoCo's ``qpos``, ``qvel``, ``qacc`` and ``qfrc``.

    >>> import heavytop as ht
    >>> model = ht.library.free_body().derive(native=False)
    >>> from_mujoco(model, [1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0]).q[:3]
    array([1., 2., 3.])
    """
    return _from(model, MUJOCO, given(q, v, a, force), _mujoco_places(model, peer))


def to_drake(
    model: Model,
    q: Numbers,
    v: Numbers | None = None,
    a: Numbers | None = None,
    force: Numbers | None = None,
    *,
    peer: Any = None,
) -> ModelState:
    """A state as Drake has it: floating bodies are (wxyz, r) with (omega, v) in world axes.

    With ``peer`` (a finalized ``MultibodyPlant``) in its order of joints, matched by name; otherwise in ours.

    >>> import heavytop as ht
    >>> model = ht.library.free_body().derive(native=False)
    >>> to_drake(model, model.neutral()).q
    array([1., 0., 0., 0., 0., 0., 0.])
    """
    return _to(model, DRAKE, given(q, v, a, force), _drake_places(model, peer))


def from_drake(
    model: Model,
    q: Numbers,
    v: Numbers | None = None,
    a: Numbers | None = None,
    force: Numbers | None = None,
    *,
    peer: Any = None,
) -> ModelState:
    """A state of ours from Drake's.

    >>> import heavytop as ht
    >>> model = ht.library.free_body().derive(native=False)
    >>> from_drake(model, [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]).q[:3]
    array([1., 2., 3.])
    """
    return _from(model, DRAKE, given(q, v, a, force), _drake_places(model, peer))


def _pair(convention: Convention, name: str, note: str) -> tuple[Callable[..., ModelState], Callable[..., ModelState]]:
    def to(
        model: Model, q: Numbers, v: Numbers | None = None, a: Numbers | None = None, force: Numbers | None = None
    ) -> ModelState:
        return _to(model, convention, given(q, v, a, force), _in_order(model))

    def back(
        model: Model, q: Numbers, v: Numbers | None = None, a: Numbers | None = None, force: Numbers | None = None
    ) -> ModelState:
        return _from(model, convention, given(q, v, a, force), _in_order(model))

    word = name.split()[0].lower()
    example = (
        "\n\n>>> import heavytop as ht\n>>> model = ht.library.free_body().derive(native=False)"
        f"\n>>> theirs = to_{word}(model, model.neutral())"
        f"\n>>> bool((from_{word}(model, theirs.q).q == model.neutral()).all())\nTrue\n"
    )
    to.__doc__ = f"A state as {name} has it: {note}{example}"
    back.__doc__ = f"A state of ours from that of {name}: {note}{example}"
    return to, back


to_exudyn, from_exudyn = _pair(MUJOCO, "Exudyn", "Lie-group nodes (r, wxyz), velocity in world and omega in body axes.")
to_sympy, from_sympy = _pair(MUJOCO, "SymPy mechanics", "(r, wxyz), speeds: velocity in N, angular velocity in B.")
to_ros, from_ros = _pair(PINOCCHIO, "ROS", "Pose (r, xyzw), Twist and Wrench (linear, angular) in axes of the body.")
to_rotorpy, from_rotorpy = _pair(ROTORPY, "RotorPy", "x and v in world axes, q as xyzw, w in body axes.")

CONVENTIONS = {
    "drake": DRAKE,
    "exudyn": MUJOCO,
    "mujoco": MUJOCO,
    "pinocchio": PINOCCHIO,
    "ros": PINOCCHIO,
    "rotorpy": ROTORPY,
    "sympy": MUJOCO,
}
