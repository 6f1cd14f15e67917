"""One tree against MuJoCo: mass matrix, bias and accelerations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import random_inertia, random_pose

import heavytop as ht
from heavytop.geometry import quaternion

pytestmark = pytest.mark.peers
mujoco = pytest.importorskip("mujoco")

GRAVITY = (0.3, -0.4, -9.7)
KINDS = ("free", "ball", "hinge", "slide", "hinge")


def numbers(values):
    return " ".join(f"{x:.17g}" for x in np.ravel(values))


def build(seed: int):
    """A chain in both programs; each joint frame is the body frame."""
    rng = np.random.default_rng(seed)
    system = ht.System(gravity=GRAVITY, name="chain")
    opened, parent = "", "world"
    for i, kind in enumerate(KINDS):
        name, inertia = f"b{i}", random_inertia(rng)
        at = np.eye(4) if kind == "free" else random_pose(rng)
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        joint = {
            "free": lambda axis: ht.Free("quaternion"),
            "ball": lambda axis: ht.Spherical("quaternion"),
            "hinge": ht.Revolute,
            "slide": ht.Prismatic,
        }[kind](axis)
        system.body(name, parent=parent, at=at, joint=joint, inertia=inertia)
        J = inertia.moment_at_com
        entries = numbers([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])
        turn = quaternion.quaternion_from_rotation(at[:3, :3])
        opened += f'<body name="{name}" pos="{numbers(at[:3, 3])}" quat="{numbers(turn)}">'
        opened += f'<joint name="{name}" type="{kind}" axis="{numbers(axis)}"/>'
        opened += f'<inertial pos="{numbers(inertia.com)}" mass="{inertia.mass:.17g}" fullinertia="{entries}"/>'
        parent = name
    closed = "</body>" * len(KINDS)
    xml = f"""<mujoco>
        <compiler angle="radian"/><option gravity="{numbers(GRAVITY)}"/><worldbody>{opened}{closed}</worldbody>
    </mujoco>"""
    return system.derive(native=False), mujoco.MjModel.from_xml_string(xml)


@pytest.mark.parametrize("seed", [1, 2])
def test_chain(seed):
    """MuJoCo: quaternion wxyz; free bodies have the linear velocity in world axes, the angular one in body axes, as "mixed"."""
    model, peer = build(seed)
    data = mujoco.MjData(peer)
    rng = np.random.default_rng(seed)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    R = model.pose("world", "b0", q)[:3, :3]
    T = np.eye(model.nv)  # peer velocity = T v
    T[:3, :3] = R
    data.qpos[:], data.qvel[:] = q, T @ v
    mujoco.mj_forward(peer, data)
    M = np.zeros((model.nv, model.nv))
    if "MjData" in (mujoco.mj_fullM.__doc__ or ""):  # since version 4
        mujoco.mj_fullM(peer, data, M)
    else:
        mujoco.mj_fullM(peer, M, data.qM)
    assert_allclose(model.mass_matrix(q), T.T @ M @ T, atol=1e-10)
    # (R v)' = R (v' + omega x v)
    rate = np.zeros(model.nv)
    rate[:3] = R @ np.cross(v[3:6], v[:3])
    bias = T.T @ (data.qfrc_bias + M @ rate)
    assert_allclose(model.bias(q, v) + model.gravity_force(q), bias, atol=1e-9 * np.max(np.abs(bias)))
    a = model.acceleration(q, v)
    assert_allclose(T @ a + rate, data.qacc, atol=1e-8 * np.max(np.abs(data.qacc)))
