"""Functions that cannot handle explicitly time-dependent systems raise; the others evaluate them at the right time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ControlError, FileFormatError, ModelError


def crane() -> ht.Model:
    system = ht.System(name="crane")
    system.body("trolley", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: np.sin(t)), inertia=ht.Inertia(10.0))
    system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, com=(0, 0, -1)))
    system.input("motor", ht.JointForce("load"))
    return system.derive(native=False)


def test_laws_and_references() -> None:
    with pytest.raises(ControlError, match="time"):
        ht.control.Reference.set_point(crane())


def test_robot_files_report_omissions(tmp_path: Path) -> None:
    model = crane()
    assert "motion 'time'" in str(model.to_urdf(tmp_path / "crane.urdf"))
    for write in (model.to_urdf, model.to_mjcf):
        with pytest.raises(FileFormatError, match="time"):
            write(tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict").exists()


def test_states_of_other_programs() -> None:
    with pytest.raises(ModelError, match="crane"):
        ht.conventions.to_mujoco(crane(), [0.1])


@pytest.mark.thorough
def test_a_page_shows_the_prescribed_motion(tmp_path: Path) -> None:
    run = ht.simulate(crane(), ([0.1], [0.0]), until=1.0, step=0.05)
    from heavytop.show.linkage import Linkage

    linkage = Linkage(run.model, run.t, run.q, run.u)
    np.testing.assert_allclose(linkage.poses["trolley"][:, 0, 3], np.sin(run.t), atol=1e-12)
    assert run.show(tmp_path / "run.html").stat().st_size > 10_000
    assert "at t = 0" in crane().show(tmp_path / "pose.html").read_text("utf-8")
