"""The site: every page is listed, and links stay inside it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(ROOT / "site"))
    try:
        import pages as module
    finally:
        sys.path.pop(0)
    target = tmp_path_factory.mktemp("site") / "pages"
    module.write(target)
    return target


def test_every_page_is_listed(pages: Path) -> None:
    listed = set()
    for page in pages.rglob("*.md"):
        for block in re.findall(r"```{toctree}\n---\n.*?---\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.split("\n"):
                name = line.partition("<")[2].rstrip(">") or line
                listed.add((page.parent / name).relative_to(pages).as_posix() if line else "")
    written = {page.relative_to(pages).with_suffix("").as_posix() for page in pages.rglob("*.md")}
    assert written - listed == {"index"}
    assert listed - written - {""} == {"gallery/index", "reference/index"}


def test_links_between_pages_exist(pages: Path) -> None:
    for page in pages.rglob("*.md"):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if not target.startswith("http") and "gallery/" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_shapes_are_not_markup() -> None:
    sys.path[:0] = [str(ROOT / "site"), str(ROOT / "scripts")]
    try:
        from reference import escaped
    finally:
        del sys.path[:2]
    assert escaped("(*batch, n) of |x| and ``*q``") == r"(\*batch, n) of \|x\| and ``*q``"


def test_broken_links_are_found(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "site"))
    try:
        import links
    finally:
        sys.path.pop(0)
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#here">b</a><a href="#top">up</a>', encoding="utf-8"
    )
    (tmp_path / "b.html").write_text('<p id="here"></p><a href="https://example.org">out</a>', encoding="utf-8")
    assert links.broken(tmp_path) == []
    (tmp_path / "b.html").write_text(
        '<a href="c.html"></a><a href="a.html#down"></a><script src="https://example.org/x.js"></script>',
        encoding="utf-8",
    )
    assert links.broken(tmp_path) == [
        "a.html: b.html#here has no such place",
        "b.html: c.html does not exist",
        "b.html: a.html#down has no such place",
        "b.html: fetches https://example.org/x.js",
    ]
