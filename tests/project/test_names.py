"""One thing has one name, and one name means one thing: no public class exists twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "heavytop"


def classes(folder: Path) -> dict[str, list[str]]:
    """Public classes at module level -> the modules that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(folder)))
    return found


def test_public_class_names_are_unique() -> None:
    assert {name: where for name, where in classes(PACKAGE).items() if len(where) > 1} == {}


def test_a_second_class_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Panel: ...\nclass _Private: ...\n")
    (tmp_path / "b.py").write_text("class Panel: ...\nclass _Private: ...\n")
    assert classes(tmp_path) == {"Panel": ["a.py", "b.py"]}
