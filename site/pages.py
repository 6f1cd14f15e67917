"""The Markdown pages of ``docs``, put in order for a site without a word of it in them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import tutorials

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README": "readme", "CONTRIBUTING": "contributing", "CHANGELOG": "changelog", "SECURITY": "security"}
"""Files outside ``docs`` that the site shows too, by the name of their page."""
CHAPTERS = {
    "learn": (
        "Learn",
        "A first program, a ten-minute tutorial for your field, and a gallery of applications.",
        ("Start <readme>", "tutorials/index", "gallery/index"),
    ),
    "guides": (
        "How to",
        "Recipes answer single questions with short programs; guides cover a subject.",
        (
            "howto/index", "system", "robots", "inverse_kinematics", "constraints", "contact", "contact_compliant", "simulate/index",
            "control/index", "plan/index", "live", "fly", "cockpit", "stacks", "gym", "fmi", "logs", "identify", "sweep", "compile",
            "extending",
        ),
    ),
    "understand": (
        "Understand",
        "The formalisms of mechanics with their equations and programs, and a comparison with other tools.",
        ("theory/index", "comparison"),
    ),
    "lookup": (
        "Look up",
        "Names, arguments, errors, symbols, conventions and measurements.",
        ("reference/index", "api", "errors", "notation", "conventions", "benchmarks", "demands", "changelog", "security", "cite"),
    ),
    "contribute": (
        "Contribute",
        "Rules of the code, decisions and their reasons, the source documents and their corrections, releases.",
        ("contributing", "decisions", "features", "errata", "releasing"),
    ),
}  # fmt: skip
"""Page -> its title, its first sentence and the pages below it, in the order in which a newcomer reads them. Further pages become guides."""
_CITE = """\
If heavytop helped your work, please cite it together with the source of the method that you used; [notation](notation.md) lists the sources.

```bibtex
@software{heavytop,
  title = {heavytop: derive, simulate and control rigid-body systems globally, without singularities, from energy},
  author = {{The heavytop developers}},
  version = {VERSION},
}
```

Name the version (`heavytop --version`); `heavytop doctor` prints those of everything else, which benchmarks need.
"""
FOLDERS = ("tutorials", "howto", "theory", "simulate", "control", "plan")
"""Folders whose pages stand below their index."""


def write(target: Path) -> None:
    """All pages, with their lists, below ``target``."""
    shutil.copytree(ROOT / "docs", target, dirs_exist_ok=True)
    tutorials.write(target / "tutorials")
    for file, page in OUTSIDE.items():
        text = (ROOT / f"{file}.md").read_text(encoding="utf-8")
        (target / f"{page}.md").write_text(text.replace("](docs/", "]("), encoding="utf-8")
    _filter(target / "notation.md")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    terms = (ROOT / "LICENSE").read_text(encoding="utf-8")
    text = f"# How to cite, and the licence\n\n{_CITE.replace('VERSION', _version())}\n`CITATION.cff`:\n\n"
    text += f"```yaml\n{citation}```\n\n`LICENSE`:\n\n```text\n{terms}```\n"
    (target / "cite.md").write_text(text, encoding="utf-8")
    listed = {page for _, _, below in CHAPTERS.values() for page in below} | {*OUTSIDE.values(), "index"}
    others = sorted({path.stem for path in target.glob("*.md")} - listed)
    for page, (title, sentence, below) in CHAPTERS.items():
        below = (*below, *others) if page == "guides" else below
        (target / f"{page}.md").write_text(f"# {title}\n\n{sentence}\n{_tree(below, depth=1)}", encoding="utf-8")
    _append(target / "index.md", _tree(list(CHAPTERS), hidden=True))
    for folder in FOLDERS:
        index = target / folder / "index.md"
        written = {path.stem for path in index.parent.glob("*.md")} - {"index"}
        named = [name for name in re.findall(r"\]\((\w+)\.md", index.read_text(encoding="utf-8")) if name in written]
        _append(index, _tree(list(dict.fromkeys([*named, *sorted(written)])), hidden=True))
    for path in target.rglob("*.md"):
        _redirect(path, "../" * (len(path.relative_to(target).parts) - 1))


def _version() -> str:
    found = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit("CITATION.cff has no version")
    return found[1]


def _filter(path: Path) -> None:
    """A box that searches the tables of the page, below its first paragraph."""
    box = (
        '<p><input id="filter" type="search" placeholder="symbol, name or word" aria-label="Search the tables"> '
        '<span id="filter-count" role="status"></span></p>'
    )
    head, _, rest = path.read_text(encoding="utf-8").partition("\n\n")
    first, _, rest = rest.partition("\n\n")
    path.write_text(f"{head}\n\n{first}\n\n```{{raw}} html\n{box}\n```\n\n{rest}", encoding="utf-8")


def _tree(pages: tuple[str, ...] | list[str], hidden: bool = False, depth: int = 2) -> str:
    options = f"---\nmaxdepth: {depth}\n" + ("hidden:\n" if hidden else "") + "---\n"
    return "\n\n```{toctree}\n" + options + "\n".join(pages) + "\n```\n"


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def _redirect(path: Path, up: str) -> None:
    """Links to the files outside lead to their pages; those to code lead nowhere on a site and become plain text."""
    text = path.read_text(encoding="utf-8")
    for file, page in OUTSIDE.items():
        for prefix in ("", "../", "../../"):
            text = text.replace(f"]({prefix}{file}.md", f"]({up}{page}.md")
    text = text.replace("](LICENSE)", f"]({up}cite.md)").replace("](CITATION.cff)", f"]({up}cite.md)")
    text = re.sub(r"\[([^\]]+)\]\((\.\./)*src/[^)]*\)", r"\1", text)
    text = text.replace("](notebooks)", f"]({up}tutorials/index.md)")
    text = text.replace("](examples)", f"]({up}gallery/index.md)").replace("](../examples)", f"]({up}gallery/index.md)")
    path.write_text(text, encoding="utf-8")
