"""Every tutorial runs unchanged, cell by cell, and its notebook holds the same cells with pictures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from processes import GUARD

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    sys.path.insert(0, str(ROOT / "site"))
    try:
        import tutorials
    finally:
        sys.path.pop(0)
    return tutorials


NAMES = tuple(load().names())
FIRMWARE = "firmware"
"""The tutorial that builds and flies real firmware."""
LONG = ("multibody", "contact")
RUNS = [
    pytest.param(
        name,
        marks=pytest.mark.stacks if name == FIRMWARE else pytest.mark.slow if name in LONG else pytest.mark.thorough,
    )
    for name in NAMES
]


@pytest.fixture(scope="module")
def tutorials() -> ModuleType:
    return load()


def test_the_index_lists_every_tutorial(tutorials: ModuleType) -> None:
    assert len(NAMES) >= 9
    assert {path.stem for path in tutorials.PAGES.glob("*.md")} == {*NAMES, "index"}


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_is_the_page_with_pictures(tutorials: ModuleType, name: str) -> None:
    kept = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    made = tutorials.notebook(name)
    sources = [["".join(cell["source"]) for cell in book["cells"]] for book in (kept, made)]
    assert sources[0] == sources[1], f"run: python site/tutorials.py {name}"
    outputs = [output for cell in kept["cells"] for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_compiles(tutorials: ModuleType, name: str) -> None:
    for cell in tutorials.cells(name):
        if cell.kind == "python":
            compile(cell.text, name, "exec")


@pytest.mark.parametrize("name", RUNS)
def test_tutorial_runs(tutorials: ModuleType, name: str, tmp_path: Path) -> None:
    script = ["import subprocess", "import matplotlib", 'matplotlib.use("Agg")']
    for cell in tutorials.cells(name):
        if cell.kind == "file":
            (tmp_path / cell.name).write_text(cell.text + "\n", encoding="utf-8")
        elif cell.kind == "sh":
            script.append(f"subprocess.run({cell.text!r}, shell=True, check=True)")
        elif cell.kind == "python":
            script.append(cell.text)
    (tmp_path / "whole.py").write_text("\n\n".join(script) + "\n", encoding="utf-8")
    programs = tmp_path / "programs"
    programs.mkdir()
    for command in ("heavytop", "python"):
        module = "-m heavytop" if command == "heavytop" else ""
        (programs / command).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', encoding="utf-8")
        (programs / command).chmod(0o755)
    environment = os.environ | {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("src", "theory")),
        "CI": "1",
    }
    done = subprocess.run(
        [sys.executable, "whole.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=GUARD
    )
    assert done.returncode == 0, done.stderr[-3000:]
