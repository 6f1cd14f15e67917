"""``heavytop export``: C code that compiles strictly and reproduces its vectors."""

import subprocess

import pytest
from processes import GUARD
from typer.testing import CliRunner

from heavytop.cli import app


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("precision", ["double", "float"])
def test_exported_code_passes_its_own_test(tmp_path, precision):
    folder = tmp_path / "furuta"
    result = run(
        "export", "furuta", str(folder), "--precision", precision, "-f", "acceleration,mass_matrix,pose:world:pendulum"
    )
    assert result.exit_code == 0, result.output
    flags = "CFLAGS=-std=c99 -O1 -Wall -Wextra -Werror -pedantic"
    made = subprocess.run(["make", "-C", str(folder), "test", flags], capture_output=True, text=True, timeout=GUARD)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.thorough
def test_mechanisms_export_too(tmp_path):
    assert run("export", "four-bars:2", str(tmp_path / "bars"), "-f", "acceleration").exit_code == 0
    made = subprocess.run(["make", "-C", str(tmp_path / "bars"), "test"], capture_output=True, text=True, timeout=GUARD)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("furuta", "{out}", "--precision", "half"), "--precision must be double or float"),
        (("furuta", "{out}", "-f", "speed"), "unknown function of a model 'speed'"),
        (("furuta", "{out}", "-f", ","), "names no function"),
        (("furuta", "{out}", "-f", "pose:world:nose"), "unknown body or frame 'nose'"),
    ],
)
def test_bad_requests(tmp_path, arguments, message):
    out = tmp_path / "never"
    result = run("export", *(a.format(out=out) for a in arguments))
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not out.exists()
