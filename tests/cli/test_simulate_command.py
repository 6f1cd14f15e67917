"""``heavytop simulate``: built-in systems, files, output and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app

ROBOT = """\
import heavytop as ht

system = ht.System(name="robot")
system.body("arm", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
system.input("motor", ht.JointForce("arm"))
start = ([0.5], [0.0])
inputs = [0.1]
events = ht.Event(lambda t, q, v: q[0], name="bottom")
"""


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == code, result.output
    return result.output.replace("\n", " ") if code else result.output


@pytest.mark.thorough
def test_built_in_system_with_file_and_figure(tmp_path: Path) -> None:
    data, figure = tmp_path / "run.nc", tmp_path / "run.png"
    output = run("heavy-top", "--until", "0.5", "--v", "0,15,-4", "--out", str(data), "--plot", str(figure))
    assert "heavy top: finished: reached t = 0.5 s" in output
    assert "determinant" in output
    made = ht.Run.load(data)
    assert made.t[-1] == pytest.approx(0.5)
    assert len(made) == 51
    np.testing.assert_array_equal(made.v[0], [0, 15, -4])
    assert figure.stat().st_size > 10_000


def test_page(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert f"wrote {page}" in run("pendulum", "--until", "0.5", "--page", str(page)).replace("\n", "")
    assert "path of bob" in page.read_text("utf-8")
    assert "does not exist" in run("pendulum", "--page", str(tmp_path / "none" / "run.html"), code=2)


@pytest.mark.thorough
def test_file_with_start_inputs_and_events(tmp_path: Path) -> None:
    path = tmp_path / "robot.py"
    path.write_text(ROBOT, "utf-8")
    output = run(str(path), "--until", "5", "--step", "0.01", "--integrator", "rkmk8")
    assert "robot: event: bottom at t = " in output
    assert "rkmk8" in output


@pytest.mark.thorough
def test_random_start_and_constrained_system() -> None:
    assert "finished" in run("pendulum", "--random", "3", "--until", "0.1")
    assert "loops" in run("bricard", "--until", "0.01")


def test_divergence_is_an_exit_code(tmp_path: Path) -> None:
    assert "the step 0.5 s is too large" in run("furuta", "--step", "0.5", "--until", "50", code=1)


def test_a_start_with_too_many_numbers_names_the_coordinates() -> None:
    output = run("pendulum", "--v", "1,2", code=2)
    assert "theta.rate" in output
    assert "got 2" in output


def test_a_missing_file_is_named() -> None:
    assert "'nothing.py'" in run("nothing.py", code=2)


FOOT = """<robot name="foot"><link name="foot"><inertial><mass value="2"/>
<inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="0.1"/></geometry></collision></link></robot>"""


@pytest.mark.thorough
def test_a_robot_with_contacts_starts_at_rest_on_the_ground(tmp_path: Path) -> None:
    path = tmp_path / "foot.urdf"
    path.write_text(FOOT, "utf-8")
    data = tmp_path / "run.nc"
    output = run(str(path), "--base", "free", "--contacts", "all", "--until", "0.1", "--out", str(data))
    assert "contacts: 1 of 1 closed" in output
    assert ht.Run.load(data).q[-1, 2] == pytest.approx(0.1, abs=1e-9)
    assert "toe" in run(str(path), "--contacts", "toe", code=2)
    assert "--contacts is for robot files" in run("pendulum", "--contacts", "feet", code=2)


def test_cockpit_prepares_a_system_with_rigid_contact() -> None:
    from heavytop.cli.simulate import prepared

    made = prepared("bouncing-ball")
    assert made.integrator == "moreau"
    assert made.outcome.ok
