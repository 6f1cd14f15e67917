"""Every name that a package offers in ``__all__`` exists, is public and says what it is."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "heavytop"
LAYERS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
MODULES = ["heavytop", *(f"heavytop.{name}" for name in LAYERS)]


def offered(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", []))


def needs_docstring(value: object) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)


def test_packages_are_found() -> None:
    assert {"geometry", "coordinates", "compile", "system", "mechanics"} <= set(LAYERS)


@pytest.mark.parametrize("name", MODULES)
def test_offered_names_exist_and_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    names = offered(module)
    assert len(names) == len(set(names)), "a name is offered twice"
    assert [n for n in names if n.startswith("_") and n != "__version__"] == []
    assert [n for n in names if not hasattr(module, n)] == []
    undocumented = [n for n in names if needs_docstring(value := getattr(module, n)) and not inspect.getdoc(value)]
    assert undocumented == []
    assert not names or (module.__doc__ or "").strip(), f"{name} offers names but does not say what it is"


def test_citation_names_the_version_of_the_package() -> None:
    citation = (PACKAGE.parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    version = importlib.import_module("heavytop").__version__
    assert f"\nversion: {version}\n" in citation
