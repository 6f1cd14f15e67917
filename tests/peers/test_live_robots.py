"""Robots of example-robot-data as live pages: the same motion in node as in native code, and small modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from show.live_node import difference, page_parts, simulated

import heavytop as ht

pin = pytest.importorskip("pinocchio")
pytestmark = pytest.mark.peers

FOLDER = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
ROBOTS = {
    "ur5": ("ur_description/urdf/ur5_robot.urdf", "fixed", 300_000),
    "panda": ("panda_description/urdf/panda.urdf", "fixed", 300_000),
    "kinova": ("kinova_description/robots/kinova.urdf", "fixed", 300_000),
    "solo12": ("solo_description/robots/solo12.urdf", "free", 300_000),
    "allegro": ("allegro_hand_description/urdf/allegro_left_hand.urdf", "fixed", 300_000),
    "talos": ("talos_data/robots/talos_reduced.urdf", "free", 1_000_000),
}
"""File, base, and the most bytes that the simulation may add to a page. The hand has dampers as stiff as 2e8/s."""


@pytest.mark.parametrize("name", ROBOTS)
def test_robot(name: str, tmp_path: Path) -> None:
    file, base, most = ROBOTS[name]
    system: Any = ht.load(FOLDER / file, base=base)
    system = getattr(system, "system", system)
    system._shapes.clear()  # a page with all meshes would be too large
    model = system.derive()
    rng = np.random.default_rng(0)
    q = model.coordinates.retract(model.neutral(), 0.2 * rng.standard_normal(model.coordinates.nv))
    v = 0.3 * rng.standard_normal(model.nv)  # at rest, a free robot falls without moving its joints
    run = ht.simulate(model, (q, v), until=1.0, step=1e-3, integrator="ros2" if name == "allegro" else "rkmk4")
    assert run.outcome.ok
    path: Any = run.show(tmp_path / "live.html", live=True)
    replay: Any = run.show(tmp_path / "replay.html")
    result = simulated(path, 1000)
    assert result["problem"] is None
    assert difference(result, run) < 1e-12
    assert path.stat().st_size - replay.stat().st_size < most
    parts = page_parts(path)
    assert len(parts["step-code"]) + len(parts["function-code"]) < most
