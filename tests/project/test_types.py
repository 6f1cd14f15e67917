"""A type checker sees the public names, and only them; the share of arguments with a type does not fall."""

from __future__ import annotations

import ast
import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INIT = (ROOT / "src" / "heavytop" / "__init__.py").read_text("utf-8")


def declared(code: str, for_checker: bool) -> set[str]:
    """Names that a module declares, for a type checker or at run time."""
    names: set[str] = set()

    def visit(body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.If):
                text = ast.unparse(node.test)
                taken = {"TYPE_CHECKING": for_checker, "not TYPE_CHECKING": not for_checker}.get(text, True)
                visit(node.body if taken else node.orelse)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)

    visit(ast.parse(code).body)
    return names


def test_no_getattr_hides_misspelled_names_from_a_checker() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert "__getattr__" not in declared(path.read_text("utf-8"), for_checker=True), path


def test_whatever_is_loaded_on_demand_is_declared() -> None:
    import heavytop

    assert set(dir(heavytop)) - set(vars(heavytop)) <= declared(INIT, for_checker=True)
    assert {"control", "maneuvers", "show", "simulate", "System"} <= declared(INIT, for_checker=True)


def test_rules_for_names_are_on() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]
    assert rules["reportAttributeAccessIssue"] == "error"
    assert rules["reportMissingImports"] == "error"


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


def test_arguments_have_types() -> None:
    """Of the arguments where no symbol may come."""
    path = ROOT / "scripts" / "typed_arguments.py"
    spec = importlib.util.spec_from_file_location("typed_arguments", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.count(ROOT / "src" / "heavytop")
    assert found["typed"] / (found.total() - found["symbol"]) > 0.9
