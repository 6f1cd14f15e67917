"""Behaviour of all commands: lists, JSON, completion, and errors before the work starts."""

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
from heavytop.cli.terminal import _plain


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


@pytest.mark.thorough
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


@pytest.mark.thorough
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
    ("arguments", "names"),
    [
        ("simulate pendulum --plot x.foo", ("--plot", ".png", "'x.foo'")),
        ("simulate pendulum --out x.csv", ("--out", ".nc", "'x.csv'")),
        ("fly --save x.txt", ("--save", ".nc", ".csv")),
        ("fly --save x.nc --every 2", ("--every", ".csv")),
        ("plan gates --save x", ("--save", ".nc")),
        ("derive own.toml", ("'own.toml'", "heavytop fly own.toml")),
        ("fly arm.urdf", ("heavytop fly --list", "'arm.urdf'")),
        ("sweep none.toml", ("'none.toml'",)),
        ("simulate pendulum --page x.png", ("--page", ".html")),
        ("simulate pendulum --integrator rk5", ("'rk5'",)),
        ("simulate pendulum --until nan", ("--until", "nan")),
        ("simulate pendulum --step 0", ("--step", "got 0")),
        ("simulate pendulum --every 0", ("--every", "got 0")),
        ("simulate pendulum --q a", ("--q", "'a'")),
        ("simulate pendulum --v inf", ("--v", "'inf'")),
        ("derive pendulum --base frei", ("--base", "'frei'")),
        ("derive pendulum --base free", ("--base", "'pendulum'")),
        ("export pendulum", ("heavytop export pendulum pendulum_c",)),
        ("bench forwards", ("'forwards'", "'forward'")),
        ("bench forward --seconds nan", ("--seconds", "nan")),
        ("show pendulum --out nowhere/x.html", ("'nowhere'",)),
        ("fly --out .", ("'.'",)),
        ("fly quadcopter lopping", ("'lopping'", "'looping'")),
        ("fly quadcopter none.toml", ("'none.toml'",)),
        ("fly --law enrgy", ("'enrgy'", "'energy'")),
        ("fly nofile.toml", ("'nofile.toml'",)),
        ("fly --wind nan", ("--wind", "nan")),
        ("plan gates --tolerance -1", ("--tolerance", "-1")),
        ("plan gate", ("'gate'", "'gates'")),
    ],
)
def test_mistakes_are_rejected_before_the_work_starts(
    arguments: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("heavytop.system.System.derive", lambda *a, **k: pytest.fail("derived before it was rejected"))
    output = " ".join(shell(*arguments.split(), code=2).split())
    assert all(name in output for name in names), output


def test_completion() -> None:
    assert "furuta" in complete_system("fu")
    assert "quadcopter" in complete_vehicle("qu")
    assert complete_integrator("rkmk4") == ["rkmk4", "rkmk45"]
    assert complete_maneuver("hover") == ["hover", "hover-roll"]
    assert complete_law("r") == ["robust"]
    assert complete_problem("g") == ["gates"]
    assert "plan:speed" in complete_benchmark("plan")
    assert "--install-completion" in shell("--help")


def test_without_arguments_it_prints_first_steps() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert "heavytop fly" in result.output
    assert ">>>" not in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.thorough
def test_output_that_cannot_show_every_character() -> None:
    """Files in Latin-1 or ASCII, as redirected on Windows, raised a UnicodeEncodeError."""
    done = processes.shell("derive", "furuta", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [(("--help",), ""), (("derive", "--help"), "1"), (("derive", "--list"), "1"), (("derive", "furuta"), "")],
)
@pytest.mark.thorough
def test_output_to_a_full_disk(arguments: tuple[str, ...], unbuffered: str) -> None:
    """Also if the output is buffered until the end of the process."""
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
@pytest.mark.thorough
def test_output_that_nothing_reads(unbuffered: str) -> None:
    """``heavytop derive --list | head -0``: no message, and no second attempt at the end of the process."""
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
