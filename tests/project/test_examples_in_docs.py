"""Python blocks marked ``<!-- example: name -->`` in the README and the docs run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^<!-- example: (?P<name>[\w-]+) -->\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(match["code"], id=f"{page.relative_to(ROOT)}:{match['name']}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for match in BLOCK.finditer(page.read_text("utf-8"))
]


def test_the_readme_has_an_example() -> None:
    assert any("README.md" in str(example.id) for example in EXAMPLES)


@pytest.mark.parametrize("code", EXAMPLES)
def test_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<example>", "exec"), {"__name__": "example"})
