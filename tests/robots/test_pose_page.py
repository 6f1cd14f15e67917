"""The page with sliders: its data move the bodies as the model does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app
from heavytop.geometry import se3, so3

INERTIA = ht.Inertia(1.0, (0.1, 0.0, 0.2), (0.1, 0.1, 0.1))


def model() -> ht.Model:
    at = se3.pose(so3.exp(np.array([0.3, 0.2, 0.1])), np.array([0.1, 0.2, 0.3]))
    system = ht.System(name="arm")
    system.body("base/link", joint=ht.Free(), inertia=INERTIA)
    system.connect("elbow body", "base/link", ht.Revolute((0.6, 0.0, 0.8)), at, name="elbow")
    system.body("elbow body", inertia=INERTIA)
    system.body("slide", parent="base/link", at=at, joint=ht.Prismatic("y"), inertia=INERTIA)
    system.body("twin", parent="slide", at=at, joint=ht.Coupled(ht.Revolute("x"), "slide", 2.0, 0.3), inertia=INERTIA)
    system.shape("slide", ht.Box((0.1, 0.1, 0.1)))
    return system.derive(native=False)


def sliders_of(path: Path) -> dict:
    text = path.read_text("utf-8")
    document = re.search(r'<script type="application/json" id="document">(.*?)</script>', text, re.DOTALL)
    assert document is not None
    return json.loads(document[1])["sliders"]


def moved(data: dict, values: list[float]) -> dict[str, np.ndarray]:
    """The poses that the script of the page computes."""
    matrix = lambda entries: np.array(entries).reshape(4, 4).T  # noqa: E731
    poses = {"world": matrix(data["root"])}
    for edge in data["edges"]:
        link = matrix(edge["at"])
        if "joint" in edge:
            x, axis = edge["ratio"] * values[edge["joint"]] + edge["offset"], np.array(edge["axis"])
            link = link @ (
                se3.pose(np.eye(3), x * axis) if edge["slides"] else se3.pose(so3.exp(x * axis), np.zeros(3))
            )
        poses[edge["frame"]] = poses[edge["parent"]] @ (link if edge["forward"] else se3.inverse(link))
    return poses


@pytest.mark.thorough
def test_sliders_move_the_frames_as_the_model_does(tmp_path: Path) -> None:
    arm = model()
    q = arm.random(3)
    page = arm.show(tmp_path / "arm.html", q)
    data = sliders_of(page)
    assert [joint["name"] for joint in data["joints"]] == ["elbow", "slide"]
    values = [0.7, -0.2]
    poses = moved(data, values)
    for joint, value in zip(("elbow", "slide"), values, strict=True):
        q[arm.coordinates.q_slice(joint)] = value
    for frame in arm.description.graph.frames:
        assert_allclose(poses[frame], arm.pose("world", frame, q), atol=1e-14)
    assert page.stat().st_size < 5_000_000


@pytest.mark.thorough
def test_command_shows_a_robot_file(tmp_path: Path) -> None:
    model().to_urdf(tmp_path / "arm.urdf")
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["show", str(tmp_path / "arm.urdf"), "--base", "free", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert len(sliders_of(out)["joints"]) == 2
    wrong = tmp_path / "wrong.urdf"
    wrong.write_text("<robot><link/></robot>")
    result = CliRunner().invoke(app, ["show", str(wrong)])
    assert result.exit_code == 2
    assert "wrong.urdf:1: <link>: needs the attribute 'name'" in result.output
