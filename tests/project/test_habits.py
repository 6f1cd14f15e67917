"""What contributors meet first works: hooks, templates, the release recipe; and no test asserts a clock."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLOCKS = {"time", "perf_counter", "process_time", "monotonic", "thread_time", "time_ns", "perf_counter_ns", "elapsed"}
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py"))


def test_hooks_use_installed_tools_on_existing_files() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    repositories = re.findall(r"^  - repo: (.*)$", text, re.MULTILINE)
    assert repositories == ["local"], "hooks are downloaded from elsewhere"
    entries = [shlex.split(entry) for entry in re.findall(r"^\s+entry: (.*)$", text, re.MULTILINE)]
    installed = {re.split(r"[ >=]", line)[0] for line in project()["optional-dependencies"]["test"]} | {"python"}
    assert {entry[0] for entry in entries} <= installed
    assert [a for entry in entries for a in entry if a.startswith("tests/") and not (ROOT / a).exists()] == []


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_release_recipe_names_what_exists() -> None:
    text = (ROOT / "docs" / "releasing.md").read_text("utf-8")
    for name in ("src/heavytop/_version.py", "CITATION.cff", ".ci/run"):
        assert f"`{name}`" in text
        assert (ROOT / name).exists()


@pytest.mark.parametrize(
    "name", ["pull_request_template.md", "ISSUE_TEMPLATE/wrong_result.md", "ISSUE_TEMPLATE/missing_part.md"]
)
def test_templates_name_what_exists(name: str) -> None:
    text = (ROOT / ".github" / name).read_text("utf-8")
    paths = re.findall(r"(?:docs|scripts|tests|src|\.ci)/[\w./]*\w", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_extras_are_used() -> None:
    """An extra installs something that the code imports, or that the tests and the documentation need."""
    imported = {
        node.names[0].name.partition(".")[0] if isinstance(node, ast.Import) else (node.module or "").partition(".")[0]
        for path in [*(ROOT / "src").rglob("*.py"), *TESTS]
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    strings = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    for extra in set(project()["optional-dependencies"]) - {"test", "docs", "peers"}:
        for line in project()["optional-dependencies"][extra]:
            name = re.split(r"[ >=\[]", line)[0]
            assert name in imported or f'"{name}"' in strings, (
                f"the extra {extra!r} installs {name}, which nothing imports"
            )


def test_every_marker_is_run_by_somebody() -> None:
    """A test that no job runs is wrong before long."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    markers = [line.split(":")[0] for line in settings["markers"]]
    jobs = [ROOT / ".ci" / "run", *(ROOT / ".github" / "workflows").glob("*.yml")]
    text = "\n".join(path.read_text("utf-8") for path in jobs)
    run = set(re.findall(r"-m (\w+)", text)) | set(re.findall(r"- marker: (\w+)", text))
    assert [marker for marker in markers if marker not in run] == []
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [marker for marker in markers if f"`pytest -m {marker}`" not in readme] == []


def clocks_asserted(code: str) -> list[int]:
    """Lines of assertions that compare what a clock said: a reading, a member ``..._seconds``, or a name computed from one; with 0 they may."""
    lines = []
    for function in [n for n in ast.walk(ast.parse(code)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]:
        timed: set[str] = set()
        if "setattr(time," in ast.unparse(function):  # a clock of the test's own
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and reads_clock(node.value, timed):
                timed |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        lines += [
            n.lineno
            for n in ast.walk(function)
            if isinstance(n, ast.Assert) and not only_its_sign(n.test) and reads_clock(n.test, timed)
        ]
    return lines


def only_its_sign(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and [ast.unparse(c) for c in test.comparators] == ["0"]


def reads_clock(node: ast.expr, timed: set[str]) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in timed:
            return True
        if isinstance(part, ast.Attribute) and part.attr.endswith("_seconds"):
            return True
        if isinstance(part, ast.Call):
            called = part.func
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                if called.value.id == "time" and called.attr in CLOCKS:
                    return True
            elif isinstance(called, ast.Name) and called.id in CLOCKS - {"time"}:
                return True
    return False


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_asserts_a_clock(path: Path) -> None:
    assert clocks_asserted(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "body",
    [
        "start = time.perf_counter()\n    work()\n    assert time.perf_counter() - start < 1",
        "clock = process_time()\n    work()\n    seconds = process_time() - clock\n    assert seconds < 10",
        "begin, x = time.monotonic(), 1\n    assert x < begin",
        "assert law.call_seconds(1000) < 1e-3",
        "took = run.timing.wall_seconds\n    assert 0 < took < 9",
    ],
)
def test_a_clock_is_seen(body: str) -> None:
    assert len(clocks_asserted(f"def test_x():\n    {body}\n")) == 1


def test_a_clock_of_its_own_is_allowed() -> None:
    code = "def test_x():\n    monkeypatch.setattr(time, 'perf_counter', fake)\n    assert law.call_seconds(9) == 1.0"
    assert clocks_asserted(code) == []


def test_waiting_is_allowed() -> None:
    code = "def test_x():\n    end = time.monotonic() + 60\n    while time.monotonic() < end:\n        pass\n    assert done()"
    assert clocks_asserted(code) == []
