"""``import heavytop`` loads NumPy and itself; everything heavy waits until it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {"casadi", "sympy", "matplotlib", "k3d", "scipy", "xarray", "llvmlite", "typer", "rich", "h5netcdf", "pandas"}
PRINT_MODULES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def loaded_after(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after ``statement``."""
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{PRINT_MODULES}"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_import_loads_only_numpy() -> None:
    new = loaded_after("import heavytop") - loaded_after("pass")
    third_party = {name for name in new if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert "heavytop" in third_party
    assert third_party <= {"heavytop", "numpy"}


def test_heavy_libraries_are_seen_when_loaded() -> None:
    # the check above would be worthless if a loaded library did not show up
    assert "scipy" in loaded_after("import heavytop, scipy") & HEAVY


def test_heavy_libraries_wait() -> None:
    assert loaded_after("import heavytop") & HEAVY == set()


@pytest.mark.thorough
def test_robot_files_need_no_network() -> None:
    """Modules of the standard library that take a tenth of the time of loading a robot."""
    assert loaded_after("import heavytop.io") & {"http", "ssl", "email", "socket"} == set()


def test_bottom_layers_load_no_heavy_library() -> None:
    statement = "import heavytop.errors, heavytop._arrays, heavytop.geometry, heavytop.coordinates, heavytop.compile"
    assert loaded_after(statement) & HEAVY == set()
