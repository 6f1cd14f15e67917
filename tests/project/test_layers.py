"""Imports point downwards only (CONTRIBUTING.md, "Layers")."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "heavytop"

# From the top to the bottom; modules of one row may import each other.
ORDER = (
    {"heavytop", "__main__"},
    {"cli"},
    {"gym"},
    {"fmi"},
    {"identify"},
    {"log"},
    {"show"},
    {"sweep"},
    {"io"},
    {"copters"},
    {"plan"},
    {"control"},
    {"ocp"},
    {"simulate"},
    {"library"},
    {"equations"},
    {"system"},
    {"coordinates"},
    {"compile"},
    {"geometry"},
    {"functions"},
    {
        "_arrays",
        "_checksum",
        "_elsewhere",
        "_format",
        "_files",
        "_memory",
        "_toml_lines",
        "_progress",
        "_version",
        "errors",
    },
)
RANK = {name: -height for height, names in enumerate(ORDER) for name in names}

# Convenience methods that hand an object to a higher layer (`run.show()`, `plan.save()`, `model.to_urdf()`, `model.equations()`): allowed inside a
# function, and for the type of their result.
UPWARD_IN_METHODS = {
    "control": {"show"},
    "sweep": {"show"},
    "copters": {"show", "io"},
    "plan": {"show", "io"},
    "simulate": {"show", "io", "log"},
    "system": {"equations", "fmi", "io", "show"},
}


class Import(NamedTuple):
    module: str
    target: str
    line: int
    deferred: bool


def layer(module: str) -> str:
    """The layer of a dotted module name: its first part below ``heavytop``.

    >>> layer("heavytop.geometry.so3"), layer("heavytop")
    ('geometry', 'heavytop')
    """
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def module_name(path: Path, source: Path = SOURCE) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_deferred(node: ast.AST) -> bool:
    """What is inside this node does not run when the module is imported."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not node.orelse
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def imports(code: str, module: str, is_package: bool = False) -> Iterator[Import]:
    """Every import statement of ``code``, whether at module level, in a function or under TYPE_CHECKING."""
    tree = ast.parse(code)
    inner = {id(node) for block in ast.walk(tree) if is_deferred(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, id(node) in inner)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                kept = package[: len(package) - node.level + 1]
                base = ".".join([*kept, *([base] if base else [])])
            for alias in node.names:
                # `from heavytop import geometry` imports the layer, not the root package
                target = f"{base}.{alias.name}" if base == "heavytop" and alias.name in RANK else base
                yield Import(module, f"{target}.*" if alias.name == "*" else target, node.lineno, id(node) in inner)


def violations(found: Import) -> Iterator[str]:
    where = f"{found.module}, line {found.line}: imports {found.target}"
    if found.target.endswith("*"):
        yield f"{where}: star import"
    if found.target.split(".")[0] in TEST_NAMES:
        yield f"{where}: the library must not import its tests"
    if found.target.split(".")[0] == "heavytop_bench" and not (layer(found.module) == "cli" and found.deferred):
        yield f"{where}: only functions of the command line may import the benchmarks"
    if found.target.split(".")[0] == "heavytop_mechanics":
        yield f"{where}: the formalisms are built on the library, not below it"
    if found.target.split(".")[0] != "heavytop" or found.target.endswith("*"):
        return
    here, there = layer(found.module), layer(found.target)
    if here not in RANK or there not in RANK:
        yield f"{where}: {there if here in RANK else here!r} is in no layer; name its place in ORDER"
    elif RANK[there] > RANK[here] and not (found.deferred and there in UPWARD_IN_METHODS.get(here, set())):
        yield f"{where}: {here} lies below {there}"


TEST_NAMES = {"conftest", "tests"} | {path.stem for path in (ROOT / "tests").iterdir() if path.suffix in {"", ".py"}}
MODULES = sorted(PACKAGE.rglob("*.py"))


def all_imports() -> Iterator[Import]:
    for path in MODULES:
        yield from imports(path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py")


def test_imports_point_downwards() -> None:
    found = list(all_imports())
    assert any(i.target.startswith("heavytop") for i in found), "the parser found no import inside the package"
    assert [line for i in found for line in violations(i)] == []


def test_layers_import_what_packages_export() -> None:
    """A few modules are imported by themselves, because their package must not load them (matplotlib, SymPy)."""
    packages = {module_name(path) for path in MODULES if path.name == "__init__.py"}
    names = {module_name(path) for path in MODULES}
    inner = [
        f"{i.module}: {i.target}"
        for i in all_imports()
        if i.target in names - packages
        and layer(i.target) != layer(i.module)
        and layer(i.target) not in ORDER[-1]
        and i.module not in packages
    ]
    assert len(inner) <= 10, inner


def test_every_module_has_a_layer() -> None:
    assert sorted({layer(module_name(path)) for path in MODULES} - RANK.keys()) == []


def test_contributors_read_the_same_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("cli > "))
    existing = {layer(module_name(path)) for path in MODULES}
    names = [name for row in ORDER[1:-1] for name in row if name in existing]
    assert line.split(" > ")[:-1] == names


@pytest.mark.parametrize(
    ("code", "module", "message"),
    [
        ("import heavytop.system", "heavytop.geometry.so3", "geometry lies below system"),
        ("from heavytop import control", "heavytop.system.model", "system lies below control"),
        ("from ..simulate import run", "heavytop.coordinates.blocks", "coordinates lies below simulate"),
        ("def f():\n    from heavytop.cli import app", "heavytop.show.plots", "show lies below cli"),
        ("import heavytop", "heavytop.geometry.so3", "geometry lies below heavytop"),
        ("from heavytop.geometry import *", "heavytop.system.model", "star import"),
        ("from math import *", "heavytop.system.model", "star import"),
        ("from project import test_layers", "heavytop.system.model", "must not import its tests"),
        ("import heavytop_bench", "heavytop.plan.plan", "may import the benchmarks"),
        ("def f(): import heavytop_mechanics", "heavytop.simulate.run", "the formalisms are built on the library"),
        ("from heavytop_bench import run", "heavytop.cli.bench", "may import the benchmarks"),
        ("from heavytop.magic import x", "heavytop.system.model", "is in no layer"),
        ("from heavytop.show import page", "heavytop.simulate.run", "simulate lies below show"),
        (
            "if TYPE_CHECKING:\n    from heavytop.show import page",
            "heavytop.coordinates.pose",
            "coordinates lies below show",
        ),
        ("from heavytop.equations import Equations", "heavytop.system.model", "system lies below equations"),
    ],
)
def test_violation_is_seen(code: str, module: str, message: str) -> None:
    lines = [line for i in imports(code, module) for line in violations(i)]
    assert len(lines) == 1
    assert message in lines[0]


@pytest.mark.parametrize(
    ("code", "module"),
    [
        ("from heavytop.geometry.so3 import exp", "heavytop.geometry.se3"),
        ("from . import so3", "heavytop.geometry.se3"),
        ("from heavytop._arrays import vector", "heavytop.errors"),
        ("from heavytop import errors", "heavytop.geometry.so3"),
        ("import numpy as np", "heavytop.geometry.so3"),
        ("def show(self):\n    from heavytop.show import page", "heavytop.simulate.run"),
        ("if TYPE_CHECKING:\n    from heavytop.equations import Equations", "heavytop.system.model"),
    ],
)
def test_downward_import_is_accepted(code: str, module: str) -> None:
    assert [line for i in imports(code, module) for line in violations(i)] == []
