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
