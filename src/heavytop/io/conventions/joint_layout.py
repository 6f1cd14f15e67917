"""Positions of the joints in the vectors of other programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heavytop._arrays import Floats
from heavytop.errors import ModelError
from heavytop.io.robot import JointKind
from heavytop.system import Model


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
        raise ModelError(f"this conversion has no peer, got a {type(peer).__name__}: leave it out.")
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
    edges = model.description.joints
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
