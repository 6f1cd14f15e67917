"""A type checker knows the public names, including those that are imported on demand."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INIT = (ROOT / "src" / "heavytop" / "__init__.py").read_text("utf-8")


def test_names_imported_on_demand_are_declared() -> None:
    import heavytop

    nodes = [node for node in ast.walk(ast.parse(INIT)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    declared = {alias.asname or alias.name for node in nodes for alias in node.names}
    assert set(dir(heavytop)) - set(vars(heavytop)) <= declared
    assert {"control", "maneuvers", "show", "simulate", "System"} <= declared


@pytest.mark.thorough
def test_pyright_finds_a_misspelled_name(tmp_path: Path) -> None:
    import subprocess

    path = tmp_path / "user.py"
    path.write_text("import heavytop as ht\nht.System()\nht.control.energy_law\nht.Sytem()\nht.control.enery_law\n")
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    wrong = [line for line in run.stdout.splitlines() if "error:" in line]
    assert len(wrong) == 2, run.stdout
    assert "Sytem" in wrong[0]
    assert "enery_law" in wrong[1]
