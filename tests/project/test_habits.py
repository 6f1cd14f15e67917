"""Hooks, templates, the release recipe, extras and test markers refer to things that exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = sorted(path for folder in ("src", "benchmarks", "theory", "tests") for path in (ROOT / folder).rglob("*.py"))


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


def test_release_recipe_names_existing_files() -> None:
    text = (ROOT / "docs" / "releasing.md").read_text("utf-8")
    for name in ("src/heavytop/_version.py", "CITATION.cff", ".ci/run"):
        assert f"`{name}`" in text
        assert (ROOT / name).exists()


@pytest.mark.parametrize(
    "name", ["pull_request_template.md", "ISSUE_TEMPLATE/wrong_result.md", "ISSUE_TEMPLATE/missing_part.md"]
)
def test_templates_name_existing_files(name: str) -> None:
    text = (ROOT / ".github" / name).read_text("utf-8")
    paths = re.findall(r"(?:docs|scripts|tests|src|\.ci)/[\w./]*\w", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_extras_are_used() -> None:
    """An extra installs packages that the code imports, or that the tests and the documentation need."""
    text = "\n".join(path.read_text("utf-8") for path in CODE)
    for extra in set(project()["optional-dependencies"]) - {"test", "docs", "peers", "learn"}:
        for line in project()["optional-dependencies"][extra]:
            name = re.split(r"[ >=\[]", line)[0].removesuffix("-support").replace("-", "_")  # as it is imported
            assert re.search(rf"^\s*(import|from) {name}\b|\"{name}\"", text, re.MULTILINE), f"{extra}: {name}"


def test_every_marker_is_run_by_a_job() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    markers = [line.split(":")[0] for line in settings["markers"]]
    jobs = [ROOT / ".ci" / "run", *(ROOT / ".github" / "workflows").glob("*.yml")]
    text = "\n".join(path.read_text("utf-8") for path in jobs)
    run = set(re.findall(r"-m (\w+)", text)) | set(re.findall(r"- marker: (\w+)", text))
    assert [marker for marker in markers if marker not in run] == []
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [marker for marker in markers if f"`pytest -m {marker}`" not in readme] == []
