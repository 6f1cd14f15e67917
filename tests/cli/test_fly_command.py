"""``heavytop fly`` from the shell."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from heavytop.cli import app
from heavytop.cli.fly import has_desktop
from heavytop.simulate import Run


def run(*arguments: str):
    return CliRunner().invoke(app, ["fly", *arguments])


@pytest.mark.thorough
def test_flies_and_writes_page_and_run(tmp_path: Path) -> None:
    page, data = tmp_path / "a.html", tmp_path / "a.nc"
    result = run("quadcopter", "step", "--out", str(page), "--save", str(data), "--law", "particle", "--no-open")
    assert result.exit_code == 0, result.output
    for word in ("distance from the reference", "energy balance closes within", "times real time", f"page: {page}"):
        assert word in result.output
    assert "<html" in page.read_text(encoding="utf-8")[:500]
    assert Run.load(data).q.shape[-1] == 12


def test_default_is_a_looping_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run()
    assert result.exit_code == 0, result.output
    assert (tmp_path / "quadcopter-looping.html").exists()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("quadcoptr",), ("'quadcoptr'", "'quadcopter'")),
        (("quadcopter", "hover-roll"), ("'hover-roll'",)),
        (("quadcopter", "hover", "--law", "robst"), ("'robst'", "'robust'")),
        (("quadcopter", "hover", "--noise", "-1"), ("--noise", "-1")),
        (("quadcopter", "hover", "--delay", "inf"), ("--delay", "inf")),
    ],
)
def test_misuse_is_reported_without_a_traceback(arguments: tuple[str, ...], names: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert all(name in result.output for name in names)
    assert "Traceback" not in result.output


def test_firmware_that_does_not_start_is_reported_without_a_page(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("quadcopter", "hover", "--stack", "ardupilot", "--stack-path", "/nope/arducopter", "--no-open")
    result = run(*arguments)
    assert result.exit_code == 1
    assert "there is no program '/nope/arducopter'" in result.output
    assert "Traceback" not in result.output
    result = run(*arguments, "--json")
    assert result.exit_code == 1
    assert '"controller_failed"' in result.output
    assert not list(tmp_path.iterdir())


def test_no_browser_in_automation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: True))
    assert has_desktop()
    monkeypatch.setenv("CI", "1")
    assert not has_desktop()
    monkeypatch.delenv("CI")
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: False))
    assert not has_desktop()


@pytest.mark.thorough
def test_list_names_vehicles_and_maneuvers() -> None:
    result = run("--list")
    assert result.exit_code == 0
    for word in ("crazyflie", "hexacopter", "tricopter-with-load-full", "hover-roll", "transport"):
        assert word in result.output


@pytest.mark.thorough
def test_cockpit_flies_a_maneuver_until_interrupted():
    """The cockpit prepares the vehicle with the maneuver, serves it and lands on Ctrl-C."""
    pytest.importorskip("viser")
    command = [sys.executable, "-m", "heavytop", "cockpit", "--maneuver", "eight", "--no-open"]
    code = "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += f"sys.argv = {command[2:]!r}; runpy.run_module('heavytop', run_name='__main__')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "the cockpit is at" in line:
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "landed." in rest


@pytest.mark.thorough
def test_live_page_of_a_flight(tmp_path: Path) -> None:
    # calm: in wind the law has integral action, which has no sliders yet
    result = run("quadcopter", "hover", "--live", "--out", str(tmp_path / "hover.html"), "--no-open")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "hover.html").read_text()
    assert 'id="step-code"' in page
    assert "wind x" in page
    assert "turning stiffness" in page


def test_a_live_page_of_firmware_is_rejected_before_the_flight() -> None:
    result = run("quadcopter", "hover", "--live", "--stack", "betaflight", "--no-open")
    assert result.exit_code != 0
    assert "--stack" in result.output + result.stderr
