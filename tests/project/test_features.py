"""docs/features.md lists every feature of the source documents with tests that exist."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNTS = {"K": 104, "Q": 22, "U": 22, "S": 21, "M": 21}
NOT_RECOVERABLE = {"S11"}
ROWS = {
    cells[0]: cells
    for line in (ROOT / "docs" / "features.md").read_text("utf-8").splitlines()
    if re.match(r"\| [KQUSM]\d+ \|", line)
    for cells in [[cell.strip() for cell in line.strip().strip("|").split(" | ")]]
}


def definitions(folder: Path) -> set[str]:
    """Names of all functions and classes below a folder."""
    names = set()
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        names |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return names


FUNCTIONS = definitions(ROOT / "tests")
FILES = {path.name for path in (ROOT / "tests").rglob("*.py")}
DEFINED = definitions(ROOT / "src") | {
    part for path in (ROOT / "src").rglob("*.py") for part in path.with_suffix("").parts
}


def test_every_feature_has_a_row() -> None:
    assert set(ROWS) == {f"{letter}{i}" for letter, count in COUNTS.items() for i in range(1, count + 1)}


@pytest.mark.parametrize("feature", sorted(set(ROWS) - NOT_RECOVERABLE))
def test_module_and_tests_exist(feature: str) -> None:
    _, _, modules, tests = ROWS[feature]
    named = re.findall(r"`([\w.*]+)", modules)
    assert named, "no module"
    last = [name.strip(".").split(".")[-1] for name in named]
    assert [name for name in last if not any(fnmatch(defined, name) for defined in DEFINED)] == []
    files = re.findall(r"(test_\w+\.py)", tests)
    names = re.findall(r"(?:::|`)(test_[\w*]+)(?!\w*\.py)", tests)
    assert files or names, "no test"
    assert [file for file in files if file not in FILES] == []
    assert [n for n in names if not n.endswith("_") and not any(fnmatch(f, n) for f in FUNCTIONS)] == []
