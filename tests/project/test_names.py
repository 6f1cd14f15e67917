"""One thing has one name, and one name means one thing: no public class exists twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "heavytop"

TWICE: dict[str, str] = {
    "Attempt": "of a plan, and of a step with error control",
    "Box": "a shape, and the room that a plan stays in",
    "Constraint": "of a system, and of a plan",
    "JointSpring": "an element, and what a robot file says about one",
    "Law": "of control, and of an actuator in a robot file",
    "Layout": "of a step's buffers, and of a shooting problem",
    "Limits": "of inputs, and of a joint in a robot file",
    "Link": "of a chain in spatial vectors, and of a robot file",
    "Mesh": "what is drawn, and the file it comes from",
    "Parts": "of a state in our order, and in that of another program",
    "Problem": "of a plan, and of a simulation that failed",
    "Program": "traced, and nonlinear for a solver",
    "Rates": "of a plant, and of a control law",
    "Scene": "what is drawn, and what a plan avoids",
    "Settings": "of a run, and of a robot file",
    "State": "of a plan's ends, of a step, of another program",
}
"""Class -> why two modules may use the name."""


def classes(folder: Path) -> dict[str, list[str]]:
    """Public classes at module level -> the modules that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(folder)))
    return found


def test_public_class_names_are_unique() -> None:
    assert {name: where for name, where in classes(PACKAGE).items() if len(where) > 1 and name not in TWICE} == {}


def test_exceptions_are_needed() -> None:
    found = classes(PACKAGE)
    assert [name for name in TWICE if len(found[name]) < 2] == []


def test_a_second_class_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Panel: ...\nclass _Private: ...\n")
    (tmp_path / "b.py").write_text("class Panel: ...\nclass _Private: ...\n")
    assert classes(tmp_path) == {"Panel": ["a.py", "b.py"]}
