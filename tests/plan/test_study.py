"""Studies in TOML files, the command that plans them, and errors with their line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app
from heavytop.errors import FileFormatError
from heavytop.plan import Cone, Gate, KeepIn, KeepOutBox, Rest, problems, read_study, swing

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


@pytest.mark.thorough
def test_command_plans_writes_and_lists(tmp_path: Path) -> None:
    page, data = tmp_path / "plan.html", tmp_path / "plan.nc"
    arguments = ["plan", str(write(tmp_path, STUDY)), "--out", str(page), "--save", str(data)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "cart and pole: 2 s, cost 0.5" in result.output
    assert "Active limits" in page.read_text("utf-8")
    run = ht.Run.load(data)
    assert np.abs(run.q[-1]).max() < 0.05
    assert "gates" in CliRunner().invoke(app, ["plan", "--list"]).output


@pytest.mark.thorough
def test_infeasible_study_ends_with_code_one(tmp_path: Path) -> None:
    text = STUDY.replace("duration = 2.0", "duration = 0.2")
    result = CliRunner().invoke(app, ["plan", str(write(tmp_path, text))])
    assert result.exit_code == 1
    assert "violates the goal" in result.output.replace("\n", " ")


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
def test_bad_studies(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_study(write(tmp_path, STUDY.replace(*change)))


def test_unreadable_studies(tmp_path: Path) -> None:
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


PHASES = """\
limits = [0.0, 7.0]
cost = { time = 1.0, effort = 1e-3 }

[goal]
position = [2.0, 0.0, 1.0]

[[phase]]
steps = 10
duration = [0.2, 3.0]
[[phase.gate]]
frame = "hull"
at = [1.0, 0.5, 1.0]
[[phase.cone]]
frame = "hull"
degrees = 50
[[phase.cone]]
frame = "hull"
degrees = 20
when = "end"

[[phase]]
steps = 10
rest = true
[[phase.box]]
lower = [-1.0, -2.0, 0.5]
upper = [9.0, 2.0, 3.0]
frame = "hull"
"""


@pytest.mark.thorough
def test_phases_are_read_and_planned(tmp_path: Path) -> None:
    """Constraints of a phase hold within it, those of its end only there."""
    model = ht.library.quadcopter().derive()
    task = read_study(write(tmp_path, PHASES), model)
    first, second = task.options["phases"]
    assert "duration" not in task.options
    assert (first.shortest, first.longest, first.steps) == (0.2, 3.0, 10)
    assert (second.shortest, second.longest) == (0.0, np.inf)
    assert [type(c) for c in first.path] == [Cone]
    assert [type(c) for c in first.end] == [Gate, Cone]
    assert ([type(c) for c in second.path], [type(c) for c in second.end]) == ([KeepIn], [Rest])
    plan = task.plan(tolerance=1e-3)
    up = model.pose("world", "hull", plan.q)[:, 2, 2]
    assert np.all(up[:10] > np.cos(np.radians(50)) - 1e-6)
    assert up[10] > np.cos(np.radians(20)) - 1e-6
    np.testing.assert_allclose(plan.q[10, :3], [1.0, 0.5, 1.0], atol=1e-6)
    assert len(plan.phase_times) == 2


def test_swing_and_boxes_of_a_study(tmp_path: Path) -> None:
    model = problems.load("load").model
    tables = '[[swing]]\nload = "load"\ndegrees = 30\n[[keep_out_box]]\nlower = [1, 1, 1]\nupper = [2, 2, 2]\nframe = "load"\n'
    task = read_study(write(tmp_path, "[goal]\nposition = [3.0, 0.0, 0.0]\n" + tables), model)
    box, hanging = task.options["path"]
    assert isinstance(box, KeepOutBox)
    assert hanging == swing("load", np.radians(30))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("duration = [0.2, 3.0]", "duration = [3.0, 0.2]"), "line 9: .*duration must be positive"),
        (("[[phase]]\nsteps = 10\nrest", "[[phase]]\nrest"), "line 21: .*needs 'steps'"),
        (("steps = 10\nrest", "steps = -1\nrest"), "line 22: steps of a phase"),
        (("rest = true", "rest = 1"), "line 23: rest must be true or false"),
        (("rest = true", "rets = true"), "line 23: unknown key of .*'rets'"),
        (('when = "end"', 'when = "then"'), "line 19: when must be .path. or .end., got 'then'"),
        (("at = [1.0, 0.5, 1.0]", 'at = [1.0, 0.5, 1.0]\nwhen = "path"'), "line 13: when must be .end., got 'path'"),
        (("degrees = 20", "degrees = 200"), "line 16: the angle of a cone"),
        (('upper = [9.0, 2.0, 3.0]\nframe = "hull"', 'upper = [9.0, 2.0, 3.0]\nframe = "hul"'), "line 24: .*'hul'"),
        (("upper = [9.0", "upper = [-9.0"), "line 24: .*bounds are empty"),
        (("[goal]", "steps = 30\n[goal]"), "line 4: with .*steps belongs to the phases"),
        (("[goal]", "duration = 3\n[goal]"), "line 4: with .*duration belongs to the phases"),
        (("[goal]", "[[gate]]\nframe='hull'\nat=[1,1,1]\n[goal]"), "line 4: with .*gate belongs to the phases"),
        (("[[phase.box]]\nlower", "[phase.box]\nlower"), "line 24: box must be given as tables ..phase.box.."),
    ],
)
def test_errors_in_phases_name_the_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in PHASES
    with pytest.raises(FileFormatError, match=message):
        read_study(write(tmp_path, PHASES.replace(*change)), ht.library.quadcopter().derive())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("steps = 30", "steps = -3"), "line 3: steps must be"),
        (("duration = 2.0", "duration = nan"), "line 2: the duration must be positive"),
        (("duration = 2.0", 'duration = "long"'), "line 2: duration must be"),
        (("F = [-20.0, 20.0]", "F = [20.0, -20.0]"), "line 4: limits of 'F' are empty"),
        (("F = [-20.0, 20.0]", "G = [-20.0, 20.0]"), "line 4: unknown .*'G'"),
        (("F = [-20.0, 20.0]", "F = 3"), "line 4: limits of 'F' must be a pair"),
        (("effort = 0.01", "effort = -1"), "line 5: a cost must be multiplied"),
        (("effort = 0.01", "jerk_of = 'pol'"), "line 5: .*'pol'"),
        (("tolerance = 1e-4", "tolerance = 0"), "line 6: tolerance must be a positive number"),
        (("tolerance = 1e-4", "rates = { G = [-1, 1] }"), "line 6: unknown input .*'G'"),
        (("tolerance = 1e-4", "method = 'guess'"), "line 6: method"),
        (("tolerance = 1e-4", "reserve = 1"), "line 6: reserve must be a share"),
        (("tolerance = 1e-4", "guesses = -1"), "line 6: guesses must be a whole number"),
        (("tolerance = 1e-4", "periodic = 1"), "line 6: periodic must be true or false"),
        (("tolerance = 1e-4", "[[between]]\nname = 'thet'"), "line 6: .*'thet'"),
        (("tolerance = 1e-4", "[[swing]]\nload = 'pol'\ndegrees = 3"), "line 6: .*'pol'"),
    ],
)
def test_errors_in_values_name_the_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in STUDY
    with pytest.raises(FileFormatError, match=message):
        read_study(write(tmp_path, STUDY.replace(*change)))
