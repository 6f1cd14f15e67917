"""Robots of example-robot-data, loaded as users load them, against Pinocchio: mass matrix, forces, accelerations, energy, frames."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, FileFormatError, ModelError
from heavytop.io.build_system import SMOOTHING

pytestmark = pytest.mark.peers
pin = pytest.importorskip("pinocchio")

FOLDER = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
FILES = sorted(FOLDER.rglob("*.urdf"))
NOT_LOADED = {
    "ur3": "it has no <link>",
}
TOLERANCE = 1e-10


SINGULAR = ("romeo", "romeo_laas_small")
"""Some of their joints carry no mass: there are no accelerations, there and here."""


def is_free(file: Path) -> bool:
    """Whether the root is not the world itself, so that the robot is loaded with a free base."""
    return ElementTree.parse(file).find("link[@name='world']") is None


def resistance(file: Path, peer, v: np.ndarray) -> np.ndarray:
    """Damping and smoothed dry friction of the file on the velocities (nv,) of Pinocchio, which does not compute with them."""
    force = np.zeros(peer.nv)
    for joint in ElementTree.parse(file).iterfind("joint"):
        dynamics, name = joint.find("dynamics"), joint.get("name")
        if dynamics is None or joint.get("type") in ("fixed", "floating") or not peer.existJointName(name):
            continue
        k = peer.joints[peer.getJointId(name)].idx_v
        friction = float(dynamics.get("friction", 0)) * np.tanh(v[k] / SMOOTHING)
        force[k] += float(dynamics.get("damping", 0)) * v[k] + friction
    return force


def deviation(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))


def test_robots_are_found() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_robot_equals_pinocchio(file: Path) -> None:
    if file.stem in NOT_LOADED:
        with pytest.raises(FileFormatError, match=NOT_LOADED[file.stem]):
            ht.load(file)
        return
    free = is_free(file)
    model = ht.load(file, base="free" if free else "fixed").derive()
    peer = pin.buildModelFromUrdf(str(file), *((pin.JointModelFreeFlyer(),) if free else ()))
    data, rng = peer.createData(), np.random.default_rng(0)
    q, v = model.random(rng, (3,)), rng.standard_normal((3, model.nv))
    M, energy = model.mass_matrix(q), model.energy(q, v)
    if file.stem in SINGULAR:
        with pytest.raises((ConfigurationError, ModelError), match="moves no mass"):
            model.acceleration(q, v)
    a = None if file.stem in SINGULAR else model.acceleration(q, v)
    force = model.bias(q, v) + model.gravity_force(q)
    there = ht.conventions.to_pinocchio(model, q, v, peer=peer)
    unit = np.broadcast_to(q[0], (model.nv, model.nq))
    T = ht.conventions.to_pinocchio(model, unit, np.eye(model.nv), peer=peer).v.T  # mimic joints: v_pin = T v
    offsets: list[float] = []
    for k in range(3):
        full = pin.crba(peer, data, there.q[k])
        theirs = T.T @ (np.triu(full) + np.triu(full, 1).T) @ T
        effects = T.T @ pin.rnea(peer, data, there.q[k], there.v[k], np.zeros(peer.nv))
        loss = resistance(file, peer, there.v[k])
        assert deviation(M[k], theirs) < TOLERANCE
        assert deviation(force[k], effects) < TOLERANCE
        assert np.max(np.abs(model.dissipation_force(q[k], v[k]) - T.T @ loss)) <= TOLERANCE * np.max(np.abs(loss))
        if a is not None and T.shape[0] == T.shape[1]:
            direct = pin.aba(peer, data, there.q[k], there.v[k], -loss)
            # rounding is amplified by the condition of M, which reaches 2e11 for one robot with tiny links
            bound = max(TOLERANCE, np.finfo(float).eps * np.linalg.cond(theirs))
            assert deviation(a[k], T.T @ direct) < bound
        elif a is not None:
            assert deviation(a[k], np.linalg.solve(theirs, -effects - T.T @ loss)) < TOLERANCE
        kinetic = pin.computeKineticEnergy(peer, data, there.q[k], there.v[k])
        potential = pin.computePotentialEnergy(peer, data, there.q[k])
        # links welded to the world have a constant energy here and none there
        offsets.append(energy[k] - kinetic - potential)
        assert abs(offsets[k] - offsets[0]) < TOLERANCE * (abs(kinetic) + abs(potential) + abs(offsets[0]))
        assert not free or abs(offsets[k]) < TOLERANCE * (abs(kinetic) + abs(potential))
        pin.framesForwardKinematics(peer, data, there.q[k])
        names = [
            f.name
            for f in peer.frames
            if f.type == pin.FrameType.BODY and f.name in model.expressions.kinematics.chains
        ]
        for name in names[:: max(1, len(names) // 6)]:
            theirs_pose = data.oMf[peer.getFrameId(name, pin.FrameType.BODY)].homogeneous
            traced = model.traced(f"pose:world:{name}")
            assert np.max(np.abs(traced(q[k], model.parameter_vector())[0] - theirs_pose)) < TOLERANCE
