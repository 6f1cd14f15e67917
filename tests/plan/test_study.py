"""Studies in TOML files, the command that plans them, and what they say when something is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app
from heavytop.errors import FileFormatError
from heavytop.plan import Cone, Gate, KeepIn
from heavytop.plan.study import read_study

STUDY = """\
system = "cart-pole"
duration = 2.0
steps = 30
limits = { F = [-20.0, 20.0], "x.x" = [-2.0, 2.0] }
cost = { effort = 0.01 }
tolerance = 1e-4

[start]
q = [0.0, 3.141592653589793]

[goal]
q = [0.0, 0.0]
"""
GATES = """\
limits = [0.0, 7.0]
duration = [0.5, 4.0]
cost = { time = 1.0, effort = 1e-4, speed = 1e-4 }
[goal]
position = [4.0, 0.0, 1.0]
[[gate]]
frame = "hull"
at = [2.0, 1.0, 1.0]
[[cone]]
frame = "hull"
degrees = 60
[[box]]
lower = [-1.0, -2.0, -1.0]
upper = [9.0, 2.0, 3.0]
frame = "hull"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, "utf-8")
    return path


def test_study_is_read(tmp_path: Path) -> None:
    model = ht.library.quadcopter().derive()
    task = read_study(write(tmp_path, GATES), model)
    assert [type(c) for c in task.options["path"]] == [Gate, KeepIn, Cone]
    assert task.options["duration"] == (0.5, 4.0)
    np.testing.assert_array_equal(task.goal[0][:3], [4.0, 0.0, 1.0])
    np.testing.assert_array_equal(task.start[0], model.neutral())
    assert repr(task.options["cost"]) == "Time() + 0.0001 * Effort() + 0.0001 * Speed()"


def test_command_plans_writes_and_lists(tmp_path: Path) -> None:
    page, data = tmp_path / "plan.html", tmp_path / "plan.nc"
    arguments = ["plan", str(write(tmp_path, STUDY)), "--out", str(page), "--save", str(data)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "cart and pole: 2 s, cost 0.5" in result.output
    assert "What holds it" in page.read_text("utf-8")
    run = ht.Run.load(data)
    assert np.abs(run.q[-1]).max() < 0.05
    assert "gates" in CliRunner().invoke(app, ["plan", "--list"]).output


def test_infeasible_study_ends_with_code_one(tmp_path: Path) -> None:
    text = STUDY.replace("duration = 2.0", "duration = 0.2")
    result = CliRunner().invoke(app, ["plan", str(write(tmp_path, text))])
    assert result.exit_code == 1
    assert "misses the goal" in result.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("steps", "step"), "unknown key 'step'"),
        (("[goal]", "[gaol]"), "unknown key 'gaol'"),
        (('system = "cart-pole"', ""), "system = "),
        (("{ effort", "{ efort"), "unknown cost 'efort'"),
        (("duration = 2.0", "duration = "), "is not TOML"),
        (("tolerance = 1e-4", "[[gate]]\nframe = 'pole'"), "needs 'at'"),
        (("tolerance = 1e-4", "[[gate]]\nframe = 'pole'\nat = [1,2,3]\nsize = 3"), "unknown key of"),
        (("q = [0.0, 0.0]", "position = [1, 2, 3]"), "free body"),
        (("q = [0.0, 0.0]", "q = ['a']"), "study.toml"),
        (("tolerance = 1e-4", "gate = {}"), "must be given as tables"),
        (("[start]", "[[start]]"), "start must be a table"),
        (("cost = {", "cost = 3 # {"), "cost must be a table"),
    ],
)
def test_bad_studies_are_told(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_study(write(tmp_path, STUDY.replace(*change)))


def test_a_study_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.toml"):
        with pytest.raises(FileFormatError, match="cannot read the study"):
            read_study(path)


@pytest.mark.slow
def test_a_study_is_flown(tmp_path: Path) -> None:
    path = write(tmp_path, GATES.replace("[0.0, 7.0]", "[0.3, 5.0]"))
    page = tmp_path / "flight.html"
    result = CliRunner().invoke(app, ["fly", "quadcopter", str(path), "--out", str(page), "--no-open"])
    assert result.exit_code == 0, result.output
    assert "distance from the reference" in result.output
    assert page.exists()
