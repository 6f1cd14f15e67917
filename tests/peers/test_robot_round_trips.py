"""Robots of example-robot-data written as URDF and MJCF and read again: the same accelerations, names and limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht

pytestmark = pytest.mark.peers
pin = pytest.importorskip("pinocchio")

FOLDER = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
ROBOTS = ("panda", "talos_reduced", "ur5_robot", "anymal", "so101", "solo12", "xarm7", "z1")


def acceleration(model: ht.Model, state: dict[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Accelerations at a state that is given joint by joint; sorted by the names of the velocities."""
    q, v = model.neutral(), np.zeros(model.nv)
    for edge in model.description.joints:
        q[model.coordinates.q_slice(edge.label)], v[model.coordinates.v_slice(edge.label)] = state[edge.label]
    values = model.traced("internal_acceleration").interpret(q, v, np.zeros(model.nu), np.zeros(0))[0]
    return values[np.argsort(model.v_names)]


@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
@pytest.mark.parametrize("name", ROBOTS)
def test_robot_is_the_same_after_a_round_trip(name: str, kind: str, tmp_path: Path) -> None:
    free = name in ("talos_reduced", "anymal", "solo12")
    system = ht.load(next(FOLDER.rglob(f"{name}.urdf")), base="free" if free else "fixed")
    model = system.derive(native=False)
    path = tmp_path / ("robot.urdf" if kind == "urdf" else "robot.xml")
    report = getattr(model, f"to_{kind}")(path)
    assert report.losses == ()
    again = ht.load(path, base="free" if free and kind == "urdf" else "fixed").derive(native=False)
    if kind == "mjcf" and name in ("panda", "so101") and again.is_constrained:
        assert again.nv > model.nv  # mimic joints are constraints there
        return
    rng = np.random.default_rng(0)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    state = {
        edge.label: (q[model.coordinates.q_slice(edge.label)], v[model.coordinates.v_slice(edge.label)])
        for edge in model.description.joints
    }
    ours, theirs = acceleration(model, state), acceleration(again, state)
    assert sorted(again.v_names) == sorted(model.v_names)
    assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9 * np.max(np.abs(ours)))
    for joint, bound in model.description.limits.items():
        kept = again.description.limits[joint]
        assert (kept.lower, kept.upper, kept.effort) == (bound.lower, bound.upper, bound.effort)


INERTIA = ht.Inertia(1.3, (0.1, -0.2, 0.15), [[0.3, 0.01, 0.02], [0.01, 0.4, -0.03], [0.02, -0.03, 0.35]])
THIN = ht.Inertia(1.0, (0, 0, -1), [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1.0]])
JOINTS = (
    (ht.Revolute("z"), ht.Free()),
    (ht.Fixed(), ht.Free(), ht.Revolute("x"), ht.Spherical()),
    (ht.Planar(), ht.Revolute("x"), ht.Prismatic("z"), ht.Revolute("y")),
    tuple(ht.Revolute(axis) for axis in "xyzxyzxy"),
)


@pytest.mark.parametrize("inertia", [INERTIA, THIN, ht.Inertia(1.0, (0.1, 0.2, -1))], ids=("body", "rod", "point"))
@pytest.mark.parametrize("joints", JOINTS, ids=lambda joints: "-".join(type(joint).__name__ for joint in joints))
def test_written_files_are_read_by_mujoco(joints: tuple, inertia: ht.Inertia, tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    system, parent = ht.System(name="written"), "world"
    for k, joint in enumerate(joints):
        heavy = {"inertia": inertia} if k in (len(joints) - 1, len(joints) - 2, len(joints) - 3) else {}
        system.body(f"b{k}", parent=parent, at=(0.1, 0.2 * k, -0.3), joint=joint, **heavy)
        parent = f"b{k}"
    system.body("end", parent=parent, at=(0.3, 0.4, 0.5), joint=ht.Fixed(), inertia=INERTIA)
    model = system.derive(native=False)
    assert model.to_mjcf(tmp_path / "written.xml").losses == ()
    again = ht.load(tmp_path / "written.xml").derive(native=False)
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "written.xml"))
    data, rng = mujoco.MjData(peer), np.random.default_rng(0)
    q, v = again.random(rng), rng.standard_normal(again.nv)
    there = ht.conventions.to_mujoco(again, q, v, again.acceleration(q, v), peer=peer)
    data.qpos[:], data.qvel[:] = there.q, there.v
    mujoco.mj_forward(peer, data)
    assert_allclose(data.qacc, there.a, rtol=1e-8, atol=1e-9 * np.max(np.abs(there.a)))
