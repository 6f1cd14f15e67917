"""``heavytop derive``: output for built-in systems and files, and what it says when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sympy
from typer.testing import CliRunner

from heavytop import __version__, library
from heavytop.cli import COMMANDS, app

ROBOT = """\
import heavytop as ht

system = ht.System(name="robot")
system.body("arm", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0.3, 0, 0)))
"""


def run(*arguments: str, code: int = 0) -> str:
    """Output and errors of a command, which must end with the given exit code."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    path = tmp_path / "robot.py"
    path.write_text(ROBOT, "utf-8")
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name.replace(":N", ":6") for name in library.names()])
def test_summary_of_every_built_in_system(name: str) -> None:
    output = run("derive", name)
    model = library.load(name).derive(native=False)
    assert output.splitlines()[0].strip() == model.name
    assert f"{model.nv} {'velocities' if model.is_constrained else 'degree'}" in output
    assert "derived in" in output
    assert "a = (" in output
    assert max(map(len, output.splitlines())) <= 110


@pytest.mark.thorough
def test_short_equations_are_shown_and_long_ones_are_pointed_to() -> None:
    assert "M[1,2] = -L_p·L_r·m_p·cos(α)/2" in run("derive", "furuta")
    long = run("derive", "tricopter-load")
    assert "heavytop derive tricopter-load --text" in long
    assert "M[1,2]" not in long


@pytest.mark.thorough
def test_text_latex_and_json_agree() -> None:
    equations = library.furuta().derive().equations()
    assert run("derive", "furuta", "--text").strip() == equations.text().strip()
    assert run("derive", "furuta", "--latex").strip() == equations.latex().strip()
    data = json.loads(run("derive", "furuta", "--json"))
    assert sympy.sympify(data["M"][0][1]) == equations.M[0, 1]


@pytest.mark.parametrize("option", ["--text", "--latex", "--json", None])
def test_out(option: str | None, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    output = run("derive", "pendulum", *([option] if option else []), "--out", str(path))
    assert f"wrote {path}" in output.replace("\n", "")
    content = path.read_text("utf-8")
    assert "theta" in content or "θ" in content


def test_file(robot: Path) -> None:
    assert "robot" in run("derive", str(robot))


def test_file_with_a_model_and_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(ROBOT, "utf-8")
    path = tmp_path / "whole.py"
    path.write_text("from parts import system as arm\nsystem = arm.derive()\n", "utf-8")
    assert "robot" in run("derive", str(path))


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("x = 1\n", ("'system'", "ht.System")),
        ("import heavytop as ht\nrobot = ht.System()\n", ("'robot'", "'system'")),
        ("system = 3\n", ("ht.System", "got int")),
        (
            "def lengths():\n    return 1 / 0\n\nsystem = lengths()\n",
            ("line 4, in <module>", "return 1 / 0", "ZeroDivisionError: division by zero"),
        ),
        (ROBOT + 'system.body("arm", joint=ht.Free())\n', ("line 5", "'arm'")),
        ("system = = 3\n", ("line 1", "SyntaxError")),
        ("import sys\nsys.exit(5)\n", ("SystemExit: 5",)),
        (ROBOT + 'system.damper("arm", "leg", ht.Damping(1.0))\n', ("'leg'",)),
        (b"\xff\xfe\x00\x01", ("UTF-8",)),
    ],
)
def test_mistakes_in_a_file_are_shown_with_its_own_lines(
    tmp_path: Path, content: str | bytes, names: tuple[str, ...]
) -> None:
    path = tmp_path / "f.py"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    output = run("derive", str(path), code=2)
    assert "Traceback" not in output
    assert "cli/" not in output
    assert all(name in output.replace("\n", " ") for name in names), output


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("none.py", ("'none.py'",)),
        ("furta", ("'furta'", "'furuta'", "tricopter-load")),
        ("furuta --latex --json", ("--latex", "--text", "--json")),
        ("pendulum --text --out no/x.txt", ("'no'",)),
    ],
)
def test_misuse(arguments: str, names: tuple[str, ...]) -> None:
    output = run("derive", *arguments.split(), code=2).replace("\n", " ")
    assert all(name in output for name in names), output


def test_version() -> None:
    assert run("--version").strip() == f"heavytop {__version__}"


@pytest.mark.parametrize("command", [command.__name__ for command in COMMANDS])
def test_help_has_an_example(command: str) -> None:
    output = run(command, "--help")
    assert "Examples:" in output
    assert f"heavytop {command}" in output


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from heavytop.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "print([m for m in ('casadi', 'sympy', 'matplotlib', 'k3d', 'scipy', 'llvmlite') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
