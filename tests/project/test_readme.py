"""The README has two commands; links of all pages lead somewhere, and no page mentions private folders."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = ("src", "benchmarks", "theory", "examples", "scripts", "site", "tests", "docs")
MODULES = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
FOREIGN = {
    "a folder of some machine": r"(?<![\w.~-])/(?:home|root|work|opt|tmp|Users|mnt|var)/",
    "a package registry": r"\b(?:pypi|files\.pythonhosted|conda\.anaconda|registry\.npmjs)\.org\b",
    "an unfinished note": r"\b(?:TODO|FIXME|XXX|TBD)\b|lorem ipsum",
    "a promise to fill in": r"\b(?:coming soon|to be written|work in progress)\b",
}


def commands(what: str) -> list[str]:
    """The lines of the fenced block right after the marker ``<!-- run: what -->``."""
    found = re.findall(
        rf"^<!-- run: {what} -->\n```sh\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(found) == 1, f"README.md must have one sh block right after <!-- run: {what} -->, found {len(found)}"
    return found[0].splitlines()


def slug(heading: str) -> str:
    """The anchor that a Markdown heading gets.

    >>> slug("## Order of a twist, (v, omega)")
    'order-of-a-twist-v-omega'
    """
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def relative_links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text("utf-8"))
    links = [first or second for first, second in LINK.findall(text)]
    return [link for link in links if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("what", ["main", "tests"])
def test_command_is_one_line_from_nothing(what: str) -> None:
    lines = commands(what)
    assert len(lines) == 1
    first, install, run = lines[0].split(" && ")
    assert first == "python3 -m venv .venv"
    assert shlex.split(install)[:2] == [".venv/bin/pip", "install"]
    assert shlex.split(run)[0].startswith(".venv/bin/")


def test_there_are_exactly_two_commands() -> None:
    assert re.findall(r"<!-- run: (\w+) -->", README.read_text("utf-8")) == ["main", "tests"]


def test_commands_run_heavytop_and_pytest() -> None:
    assert ".venv/bin/heavytop " in commands("main")[0]
    assert "'.[test]'" in commands("tests")[0]
    assert "-m pytest" in commands("tests")[0]


def test_the_first_screen_has_the_picture_and_one_command() -> None:
    first_screen, *sections = README.read_text("utf-8").split("\n## ")
    assert "<!-- run: main -->" in first_screen
    assert "<!-- run: tests -->" not in first_screen
    assert "](docs/images/looping.webp)" in first_screen
    assert "<!-- example: readme -->" in sections[0]


def test_the_first_program_is_short() -> None:
    code = README.read_text("utf-8").split("<!-- example: readme -->\n```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


def test_cells_of_the_readme_are_short() -> None:
    rows = [line for line in README.read_text("utf-8").splitlines() if line.startswith("|")]
    assert rows
    assert [cell for row in rows for cell in row.split("|") if len(cell.split()) > 20] == []


def test_the_merge_gate_takes_the_command_from_the_readme() -> None:
    gate = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "readme_command tests" in gate
    assert commands("tests")[0] not in gate
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111, ".ci/run must be executable"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_exist(page: Path) -> None:
    missing = []
    for link in relative_links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            missing.append(link)
        elif anchor and target.suffix == ".md":
            headings = re.findall(r"^#+ .*$", FENCE.sub("", target.read_text("utf-8")), re.MULTILINE)
            if anchor not in map(slug, headings):
                missing.append(link)
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_named_on_the_page_exist(page: Path) -> None:
    named = set(re.findall(r"`([\w/]+/\w+\.py)`", page.read_text("utf-8")))
    assert [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in MODULES)] == []


CONTRIBUTORS = {"decisions", "features", "errata", "releasing"}
GUIDES = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page.stem not in CONTRIBUTORS]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_picture_or_a_program_is_near_the_top(page: Path) -> None:
    first = re.search(r"^(```|!\[|\| !\[)", page.read_text("utf-8"), re.MULTILINE)
    assert first is not None
    assert len(page.read_text("utf-8")[: first.start()].split()) < 330


def test_links_are_found() -> None:
    assert "docs/notation.md" in relative_links(README)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_is_about_the_project_only(page: Path) -> None:
    text = page.read_text("utf-8")
    assert {what: re.findall(pattern, text) for what, pattern in FOREIGN.items() if re.search(pattern, text)} == {}


@pytest.mark.parametrize("path", ["/home/me/x", "see /tmp/a", "pypi.org", "TODO: more", "Coming soon".lower()])
def test_foreign_words_are_seen(path: str) -> None:
    assert any(re.search(pattern, path) for pattern in FOREIGN.values())


def test_every_marker_is_explained() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    markers = re.findall(r'^  "(\w+): ', project.split("markers = [")[1].split("]")[0], re.MULTILINE)
    text = README.read_text("utf-8")
    assert markers
    assert [m for m in markers if f"`pytest -m {m}`" not in text] == []
