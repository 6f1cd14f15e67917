"""docs/features.md lists every feature of the source documents with tests that exist."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from functools import cache
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


SOURCES = (ROOT / "src", ROOT / "theory")
DEFINED = {name for folder in SOURCES for name in definitions(folder)} | {
    part for folder in SOURCES for path in folder.rglob("*.py") for part in path.with_suffix("").parts
}


def test_every_feature_has_a_row() -> None:
    assert set(ROWS) == {f"{letter}{i}" for letter, count in COUNTS.items() for i in range(1, count + 1)}


@cache
def collected(file: str) -> set[str]:
    """Names of the tests that pytest collects from a file below tests: functions of the module whose names say so."""
    path = ROOT / "tests" / file
    if not re.fullmatch(r"test_\w+\.py", path.name) or not path.is_file():
        return set()
    body = ast.parse(path.read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def named_tests(cell: str) -> list[tuple[str, str]]:
    """(file, test) of a cell of the table; ``::name`` belongs to the file before it. Anything else is an error."""
    pairs, file = [], ""
    for item in re.split(r"[;,] ", cell):
        match = re.fullmatch(r"`([\w/]+\.py)?::(\w+)`", item)
        assert match, f"{item!r} is not a test"
        file = match[1] or file
        pairs.append((file, match[2]))
    return pairs


def test_unrecoverable_features_are_marked() -> None:
    for feature in NOT_RECOVERABLE:
        assert "cannot be restored" in ROWS[feature][1]


@pytest.mark.parametrize("feature", sorted(set(ROWS) - NOT_RECOVERABLE))
def test_module_and_tests_exist(feature: str) -> None:
    _, _, modules, tests = ROWS[feature]
    named = re.findall(r"`([\w.*]+)", modules)
    assert named, "no module"
    last = [name.strip(".").split(".")[-1] for name in named]
    assert [name for name in last if not any(fnmatch(defined, name) for defined in DEFINED)] == []
    assert [pair for pair in named_tests(tests) if pair[1] not in collected(pair[0])] == []
