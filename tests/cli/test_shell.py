"""What all commands share: lists, JSON, completion, and refusals before the work starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import processes
import pytest
from typer.testing import CliRunner

from heavytop import library
from heavytop.cli import app
from heavytop.cli.bench import complete_benchmark
from heavytop.cli.choices import (
    complete_integrator,
    complete_law,
    complete_maneuver,
    complete_problem,
    complete_system,
    complete_vehicle,
)
from heavytop.cli.data import _plain


def shell(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("command", ["simulate", "derive", "export", "show"])
def test_every_command_lists_its_systems(command: str) -> None:
    lines = shell(command, "--list").splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(library.names())
    assert all(len(line.split()) > 1 for line in lines)
    assert json.loads(shell(command, "--list", "--json")) == library.summaries()
    assert f"name a system or a file: heavytop {command} furuta" in " ".join(shell(command, code=2).split())


@pytest.mark.parametrize("command", ["fly", "cockpit", "plan", "bench"])
def test_other_lists_as_json(command: str) -> None:
    names = json.loads(shell(command, "--list", "--json"))
    assert len(names) > 5
    assert all(name in shell(command, "--list") for name in names)


def test_written_files_as_json(tmp_path: Path) -> None:
    page, folder = tmp_path / "x.html", tmp_path / "c"
    shown = json.loads(shell("show", "pendulum", "--out", str(page), "--json"))
    assert shown == {"system": "pendulum", "q": ["theta.angle"], "files": [str(page)]}
    written = json.loads(shell("export", "pendulum", str(folder), "-f", "energy", "--json"))
    assert written["functions"] == ["energy"]
    assert sorted(written["files"]) == sorted(map(str, folder.iterdir()))


def test_a_run_as_json(tmp_path: Path) -> None:
    content = json.loads(shell("simulate", "pendulum", "--until", "0.1", "--json", "--out", str(tmp_path / "run.nc")))
    assert content["outcome"]["ok"]
    assert content["end"]["time"] == pytest.approx(0.1)
    assert set(content["end"]["q"]) == {"theta.angle"}
    assert content["drift"]["energy"]["relative"] < 1e-9
    assert content["files"] == [str(tmp_path / "run.nc")]


def test_doctor_as_json() -> None:
    content = json.loads(shell("doctor", "--json"))
    assert content["ok"]
    assert all(check["passed"] for check in content["checks"])
    assert "heavytop" in content["facts"]


def test_numbers_that_json_lacks_are_null() -> None:
    assert _plain({"a": [float("nan"), 1.0], "b": Path("x")}) == {"a": [None, 1.0], "b": "x"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("simulate", "pendulum", "--plot", "x.foo"),
            "--plot: the name must end with .png or .pdf or .svg, got 'x.foo'",
        ),
        (
            ("simulate", "pendulum", "--out", "x.csv"),
            "--out: the name must end with .nc or .nc4 or .h5 or .hdf5, got 'x.csv'",
        ),
        (("fly", "--save", "x.csv"), "--save: the name must end with .nc"),
        (("plan", "gates", "--save", "x"), "--save: the name must end with .nc"),
        (
            ("derive", "own.toml"),
            "'own.toml': systems come from Python and robot files. An airframe flies with heavytop fly own.toml",
        ),
        (
            ("fly", "arm.urdf"),
            "a vehicle is a name (heavytop fly --list) or an airframe in a TOML file, got 'arm.urdf'",
        ),
        (("sweep", "none.toml"), "cannot read the study 'none.toml': the file does not exist"),
        (("simulate", "pendulum", "--page", "x.png"), "--page: the name must end with .html"),
        (("simulate", "pendulum", "--integrator", "rk5"), "unknown integrator 'rk5'"),
        (("simulate", "pendulum", "--until", "nan"), "--until must be a time in s that is not before the start"),
        (("simulate", "pendulum", "--step", "0"), "--step must be a positive number of seconds, got 0"),
        (("simulate", "pendulum", "--every", "0"), "--every must be 1, 2, ..., got 0"),
        (("simulate", "pendulum", "--q", "a"), "--q takes finite numbers separated by commas, got 'a'"),
        (("simulate", "pendulum", "--v", "inf"), "--v takes finite numbers separated by commas, got 'inf'"),
        (("derive", "pendulum", "--base", "frei"), "--base must be fixed or free, got 'frei'"),
        (("derive", "pendulum", "--base", "free"), "--base is for robot files"),
        (("export", "pendulum"), "name a folder to write to: heavytop export pendulum pendulum_c"),
        (("bench", "forwards"), "unknown benchmark 'forwards'. Did you mean 'forward'?"),
        (("bench", "forward", "--seconds", "nan"), "--seconds must be a positive number, got nan"),
        (("show", "pendulum", "--out", "nowhere/x.html"), "the folder 'nowhere' does not exist"),
        (("fly", "--out", "."), "is a folder"),
        (("fly", "quadcopter", "lopping"), "unknown maneuver 'lopping'. Did you mean 'looping'?"),
        (("fly", "quadcopter", "none.toml"), "the file 'none.toml' does not exist"),
        (("fly", "--law", "enrgy"), "unknown law 'enrgy'. Did you mean 'energy'?"),
        (("fly", "nofile.toml"), "cannot read the airframe 'nofile.toml': the file does not exist"),
        (("fly", "--wind", "nan"), "--wind must be a finite number of at least 0, got nan"),
        (("plan", "gates", "--tolerance", "-1"), "--tolerance must be a positive number, got -1"),
        (("plan", "gate"), "unknown planning problem 'gate'. Did you mean 'gates'?"),
        (("plan", "gates", "--out", "x.png"), "--out: the name must end with .html"),
    ],
)
def test_refused_before_the_work_starts(
    arguments: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("heavytop.system.System.derive", lambda *a, **k: pytest.fail("derived before it was refused"))
    assert says in " ".join(shell(*arguments, code=2).split())


def test_completion() -> None:
    assert "furuta" in complete_system("fu")
    assert "quadcopter" in complete_vehicle("qu")
    assert complete_integrator("rkmk4") == ["rkmk4", "rkmk45"]
    assert complete_maneuver("hover") == ["hover", "hover-roll"]
    assert complete_law("r") == ["robust"]
    assert complete_problem("g") == ["gates"]
    assert "plan:speed" in complete_benchmark("plan")
    assert "--install-completion" in shell("--help")


def test_without_arguments_it_says_what_to_do_first() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert "heavytop fly" in result.output
    assert ">>>" not in CliRunner().invoke(app, ["--help"]).output


def test_output_that_cannot_show_every_character() -> None:
    """Files in Latin-1 or ASCII, as where Windows redirects, ended in a UnicodeEncodeError."""
    done = processes.shell("derive", "furuta", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", [("--help",), ("derive", "--help"), ("derive", "--list"), ("derive", "furuta")])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_disk(arguments: tuple[str, ...], unbuffered: str) -> None:
    """Also where what is printed waits in a buffer until the end of the process."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "heavytop", *arguments],
            env=processes.environment(PYTHONUNBUFFERED=unbuffered),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads(unbuffered: str) -> None:
    """``heavytop derive --list | head -0``: no word of it, and no second attempt at the end of the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "heavytop", "derive", "--list"],
        env=processes.environment(PYTHONUNBUFFERED=unbuffered),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 1


def test_output_that_the_shell_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``heavytop derive furuta >&-``: Python has no such stream then."""
    from heavytop.cli.terminal import WIDTH, console

    monkeypatch.setattr(sys, "stdout", None)
    assert console().width == WIDTH
