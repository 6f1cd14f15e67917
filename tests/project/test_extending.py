"""The parts of docs/extending.md work: the Python blocks of a section, joined, are one file that runs as a user's would."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
KNOWN = ("A joint", "A force element", "An integrator", "A law", "A wrapper", "A vehicle", "A peer")
SECTION = re.compile(r"^## (?P<title>.+?)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(text: str) -> dict[str, str]:
    """Title -> the code of the section."""
    return {match["title"]: "\n".join(BLOCK.findall(match["body"])) for match in SECTION.finditer(text)}


SECTIONS = sections(PAGE.read_text("utf-8"))


def run_as_file(title: str, code: str, folder: Path) -> ModuleType:
    """Import the code from a file, so that classes have a module and sources that can be read."""
    name = f"extending_{re.sub('[^a-z]+', '_', title.lower())}"
    path = folder / f"{name}.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def test_every_kind_of_part_is_shown() -> None:
    assert list(SECTIONS) == list(KNOWN)


@pytest.mark.parametrize("title", SECTIONS)
def test_section_runs_and_checks_itself(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\nassert " in SECTIONS[title], "a section ends with what its part is expected to do"
    monkeypatch.chdir(tmp_path)
    run_as_file(title, SECTIONS[title], tmp_path)


def test_a_wrong_section_is_seen(tmp_path: Path) -> None:
    text = "# Page\n\n## A law\n\n```python\nx = 1\n```\nand then\n```python\nassert x == 2\n```\n"
    with pytest.raises(AssertionError):
        run_as_file("A law", sections(text)["A law"], tmp_path)
