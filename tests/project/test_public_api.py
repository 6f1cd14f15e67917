"""Every public name has a docstring, an example and an entry on docs/api.md. See scripts/api_page.py."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


api = load(ROOT / "scripts" / "api_page.py", "api_page")
PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")


def test_packages_are_found() -> None:
    names = {module.__name__ for module in api.public_modules()}
    assert {
        "heavytop",
        "heavytop.geometry.so3",
        "heavytop.system",
        "heavytop.control",
        "heavytop.copters.maneuvers",
    } <= names


def test_public_names_are_documented_shown_and_listed() -> None:
    assert api.faults(api.public_modules(), PAGE) == []


PACKAGES = [module for module in api.public_modules() if hasattr(module, "__path__")]


@pytest.mark.parametrize("module", PACKAGES, ids=lambda module: module.__name__)
def test_completion_finds_public_names(module: ModuleType) -> None:
    assert set(api.offered(module)) <= set(dir(module))


def test_completion_of_the_package_finds_nothing_else() -> None:
    import heavytop

    shown = {name for name in dir(heavytop) if not name.startswith("_")}
    assert shown - {"cli", *api.ROOMS} == set(api.offered(heavytop))


def test_the_page_is_up_to_date() -> None:
    assert api.page(api.public_modules()) == PAGE, "docs/api.md is out of date: run python scripts/api_page.py"


GOOD = '''"""A package."""

LIMIT = 3


def double(x):
    """Twice x.

    >>> double(2)
    4
    """
    return 2 * x


class Pair:
    """Two things."""

    def first(self):
        """The first.

        >>> Pair().first()
        """


def _private():
    pass
'''


def package(folder: Path, name: str, code: str) -> ModuleType:
    """A package in a temporary folder."""
    (folder / name).mkdir()
    path = folder / name / "__init__.py"
    path.write_text(code, encoding="utf-8")
    module = load(path, name)
    module.__path__ = [str(path.parent)]
    return module


def test_a_good_package_has_no_faults(tmp_path: Path) -> None:
    module = package(tmp_path, "good_package", GOOD)
    page = api.page([module])
    assert api.faults([module], page) == []
    assert [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| `")] == [
        "`double(x)`",
        "`LIMIT`",
        "`Pair()`",
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"""A package."""\n', "", "bad_package: has no docstring"),
        ('    """Twice x.\n\n    >>> double(2)\n    4\n    """\n', "", "bad_package.double: has no docstring"),
        (">>> double(2)\n    4", "It is even.", "bad_package.double: has no example that runs"),
        (">>> Pair().first()", "Nothing.", "bad_package.Pair: has no example that runs"),
        ('"""Two things."""', '"""Two other things."""', "bad_package.Pair: has no entry (or an old one)"),
        ("def _private", "def public", "bad_package.public: has no entry"),
    ],
)
def test_each_fault_is_found(old: str, new: str, fault: str, tmp_path: Path) -> None:
    """The good package with one change, compared with the page of the unchanged one."""
    assert old in GOOD
    page = api.page([package(tmp_path, "good_package", GOOD)]).replace("good_package", "bad_package")
    found = api.faults([package(tmp_path, "bad_package", GOOD.replace(old, new, 1))], page)
    assert any(line.startswith(fault) for line in found), found


def test_citation_names_the_version_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version = importlib.import_module("heavytop").__version__
    assert f"\nversion: {version}\n" in citation


def test_help_of_the_package_names_existing_functions() -> None:
    import re

    import heavytop as ht

    first, guide = str(ht.__doc__).split("\n\n", 1)
    assert "\n" not in first
    named = [name for name in re.findall(r"``([\w.]+)``", guide) if name not in ("help", "heavytop")]
    assert len(named) > 20
    for name in named:
        found = ht
        for part in name.split("."):
            found = getattr(found, part)
