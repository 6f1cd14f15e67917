"""Random trees and the tricopter against Pinocchio: mass matrix, bias, forward and inverse dynamics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import random_inertia, random_pose
from tricopter_load import (
    ARMS,
    LOAD,
    NAMES,
    PROPELLERS,
    inertia_of,
    joints_of,
    relative_transform,
    states,
    to_quaternions,
    tricopter,
)

import heavytop as ht

pytestmark = pytest.mark.peers
pin = pytest.importorskip("pinocchio")

GRAVITY = np.array([0.3, -0.4, -9.7])


@dataclass
class Pair:
    """The same tree in both programs, and the maps between their coordinates."""

    system: ht.System
    model: ht.Model
    peer: pin.Model
    kinds: dict[str, str]

    def to_peer(self, q):
        """Pinocchio's configuration: quaternions xyzw, otherwise the same entries in its own joint order."""
        result = pin.neutral(self.peer)
        for name, kind in self.kinds.items():
            part = q[self.model.coordinates.q_slice(name)]
            if kind in ("free", "spherical"):
                part = np.concatenate([part[:-4], np.roll(part[-4:], -1)])
            joint = self.peer.joints[self.peer.getJointId(name)]
            result[joint.idx_q : joint.idx_q + joint.nq] = part
        return result

    def indices(self):
        """Position of each of our velocities in Pinocchio's vector: free bodies move with (linear, angular) in body axes in both."""
        result = np.zeros(self.model.nv, dtype=int)
        for name in self.kinds:
            joint = self.peer.joints[self.peer.getJointId(name)]
            result[self.model.coordinates.v_slice(name)] = np.arange(joint.idx_v, joint.idx_v + joint.nv)
        return result


def peer_joint(kind, axis):
    return {
        "revolute": lambda: pin.JointModelRevoluteUnaligned(axis),
        "prismatic": lambda: pin.JointModelPrismaticUnaligned(axis),
        "spherical": pin.JointModelSpherical,
        "free": pin.JointModelFreeFlyer,
    }[kind]()


def our_joint(kind, axis):
    return {
        "revolute": lambda: ht.Revolute(axis),
        "prismatic": lambda: ht.Prismatic(axis),
        "spherical": lambda: ht.Spherical("quaternion"),
        "free": lambda: ht.Free("quaternion"),
    }[kind]()


def placement(G):
    return pin.SE3(G[:3, :3], G[:3, 3])


def peer_inertia(inertia):
    return pin.Inertia(float(inertia.mass), np.asarray(inertia.com), np.asarray(inertia.moment_at_com))


def depth_first(names, parents, root="world"):
    """The order in which Pinocchio must get its joints: each subtree in one piece."""
    for i, parent in enumerate(parents):
        if parent == root:
            yield i
            yield from depth_first(names, parents, names[i])


def random_pair(seed: int, kinds: list[str]) -> Pair:
    rng = np.random.default_rng(seed)
    system, peer = ht.System(gravity=GRAVITY, name=f"tree-{seed}"), pin.Model()
    peer.gravity.linear = GRAVITY
    names = [f"b{i}" for i in range(len(kinds))]
    parents = ["world", *(names[rng.integers(0, i)] for i in range(1, len(names)))]
    for i in depth_first(names, parents):
        kind, parent = kinds[i], parents[i]
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        at, inertia = random_pose(rng), random_inertia(rng)
        system.body(names[i], parent=parent, at=at, joint=our_joint(kind, axis), inertia=inertia)
        parent_id = 0 if parent == "world" else peer.getJointId(parent)
        joint = peer.addJoint(parent_id, peer_joint(kind, axis), placement(at), names[i])
        peer.appendBodyToJoint(joint, peer_inertia(inertia), pin.SE3.Identity())
    return Pair(system, system.derive(native=False), peer, dict(zip(names, kinds, strict=True)))


def compare(pair: Pair, seed: int):
    rng = np.random.default_rng(seed)
    model, peer, data, order = pair.model, pair.peer, pair.peer.createData(), pair.indices()
    q, v, torque = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    Q, V, F = pair.to_peer(q), np.empty(model.nv), np.empty(model.nv)
    V[order], F[order] = v, torque
    M = pin.crba(peer, data, Q)
    M = np.triu(M) + np.triu(M, 1).T
    assert_allclose(model.mass_matrix(q), M[np.ix_(order, order)], atol=1e-12 * np.max(np.abs(M)))
    bias = pin.nle(peer, data, Q, V)[order]
    assert_allclose(model.bias(q, v) + model.gravity_force(q), bias, atol=1e-11 * np.max(np.abs(bias)))
    a = pin.aba(peer, data, Q, V, F)[order]
    ours = np.linalg.solve(model.mass_matrix(q), torque - model.bias(q, v) - model.gravity_force(q))
    assert_allclose(ours, a, atol=1e-10 * np.max(np.abs(a)))
    assert_allclose(model.inverse_dynamics(q, v, a), torque, atol=1e-10 * np.max(np.abs(a)))
    pin.computeJointJacobians(peer, data, Q)
    for name in pair.kinds:
        joint = peer.getJointId(name)
        assert_allclose(model.pose("world", name, q), data.oMi[joint].homogeneous, atol=1e-12)
        J = pin.getJointJacobian(peer, data, joint, pin.ReferenceFrame.LOCAL)
        assert_allclose(model.jacobian("world", name, q), J[:, order], atol=1e-12)
    energy = pin.computeKineticEnergy(peer, data, Q, V) + pin.computePotentialEnergy(peer, data, Q)
    assert_allclose(model.energy(q, v), energy, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        (1, ["revolute"] * 7),
        (2, ["free", "revolute", "spherical", "prismatic", "revolute"]),
        (3, ["prismatic", "spherical", "revolute", "free", "spherical"]),
        (4, ["spherical", "spherical", "spherical"]),
        (5, ["free", "free", "revolute"]),
    ],
)
def test_random_trees(seed, kinds):
    pair = random_pair(seed, kinds)
    for state in range(3):
        compare(pair, state)


def test_joint_torques_accelerate_alike():
    """The same with the torques as inputs of our model, through acceleration(q, v, u)."""
    rng = np.random.default_rng(9)
    pair = random_pair(6, ["free", "revolute", "spherical", "prismatic"])
    blocks = pair.model.coordinates
    for name, block in zip(blocks.names, blocks.blocks, strict=True):
        for index in range(block.nv):
            pair.system.input(f"{name}_{index}", ht.JointForce(name, index))
    model, order = pair.system.derive(native=False), pair.indices()
    q, v, u = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nu)
    V, F = np.empty(model.nv), np.empty(model.nv)
    V[order], F[order] = v, u
    a = pin.aba(pair.peer, pair.peer.createData(), pair.to_peer(q), V, F)[order]
    assert_allclose(model.acceleration(q, v, u), a, atol=1e-11 * np.max(np.abs(a)))


def test_tricopter_with_load():
    """The vehicle of the reference data: Pinocchio agrees with the stored mass matrix and bias, and with ours."""
    model = tricopter("quaternion").derive(native=False)
    kinds = {
        "hull": "free",
        LOAD: "spherical",
        **dict.fromkeys(ARMS, "revolute"),
        **dict.fromkeys(PROPELLERS, "circle"),
    }
    axes = {**dict.fromkeys(ARMS, (1.0, 0.0, 0.0)), **dict.fromkeys(PROPELLERS, (0.0, 0.0, 1.0))}
    peer = pin.Model()
    for name, (parent, at, _) in joints_of("quaternion", "relative").items():
        at = np.zeros(3) if at is None else np.asarray(at, dtype=float)
        G = placement(at) if at.shape == (4, 4) else pin.SE3(np.eye(3), at)
        kind = kinds[name]
        joint = (
            pin.JointModelRUBZ() if kind == "circle" else peer_joint(kind, np.array(axes.get(name, (0.0, 0.0, 1.0))))
        )
        index = peer.addJoint(0 if parent == "world" else peer.getJointId(parent), joint, G, name)
        peer.appendBodyToJoint(index, peer_inertia(inertia_of(NAMES.index(name))), pin.SE3.Identity())
    peer.gravity.linear = np.array([0.0, 0.0, -9.81])
    pair, data = Pair(tricopter(), model, peer, kinds), peer.createData()
    order = pair.indices()
    for state in states():
        q, T = to_quaternions(state["x"]), relative_transform(state["x"])
        v = np.linalg.solve(T, state["xi"])
        V = np.empty(15)
        V[order] = v
        Q = pair.to_peer(q)
        M = pin.crba(peer, data, Q)
        M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
        assert_allclose(M, T.T @ state["M"] @ T, atol=1e-13)
        assert_allclose(M, model.mass_matrix(q), atol=1e-13)
        bias = pin.nle(peer, data, Q, V)[order]
        assert_allclose(bias, model.bias(q, v) + model.gravity_force(q), atol=1e-12 * np.max(np.abs(bias)))
        passive = model.dissipation_force(q, v) + model.stiffness_force(q)
        F = np.empty(15)
        F[order] = -passive
        a = pin.aba(peer, data, Q, V, F)[order]
        assert_allclose(model.acceleration(q, v), a, atol=1e-10 * np.max(np.abs(a)))
