"""Texts and identifiers use the words of CONTRIBUTING.md ("Words"): these unambiguous ones must not appear."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTEAD = {
    r"tell|tells|told|telling": "report, return, state, warn, specify",
    r"refuse|refuses|refused|refusing|refusals?": "reject, raise; rejection, error",
    r"beside": "relative to, compared with, next to, besides",
    r"whoever|nobody": "the caller, no one, nothing",
    r"anew": "again, re-",
    r"shall": "must, should",
    r"likeness": "key",
    r"asked for|asks for": "requested, requires",
    r"of ours|of yours": "heavytop's, your",
    r"in vain": "without success",
    r"by and by": "gradually",
    r"(can|to) be had": "available",
    r"in a hurry": "fast",
    r"thought to be": "assumed",
    r"gives? back": "return",
}
FORBIDDEN = re.compile(rf"\b({'|'.join(INSTEAD)})\b", re.IGNORECASE)
ENDINGS = {".py", ".md", ".toml", ".cff", ".js", ".css", ".html", ".yml"}
PLACES = (
    "src",
    "benchmarks",
    "theory",
    "docs",
    "examples",
    "scripts",
    "site",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CITATION.cff",
)
WORD_LIST = re.compile(r"<!-- words -->.*?<!-- end of words -->", re.DOTALL)

ALLOWED: dict[tuple[str, str], tuple[int, str]] = {
    ("CHANGELOG.md", "refused"): (1, "the name of an outcome before 0.2.0"),
    ("src/heavytop/io/netcdf.py", "refused"): (1, "the same, in files that were written then"),
}
"""(file, word) -> how often, and why it must stay; at most ten in all."""


def files() -> Iterator[Path]:
    for place in PLACES:
        path = ROOT / place
        yield from [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in ENDINGS)


def words(text: str) -> Counter[str]:
    """Forbidden words of a text, also as parts of identifiers, except ``file.tell()`` and names of tests."""
    text = re.sub(r"\.tell\(|\btest_\w+", "", WORD_LIST.sub("", text))
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.replace("_", " "))
    return Counter(match[0].lower() for match in FORBIDDEN.finditer(separated))


@pytest.mark.thorough
def test_forbidden_words_do_not_appear() -> None:
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        counts = words(path.read_text("utf-8"))
        found += [f"{name}: {n} x {word!r}" for word, n in counts.items() if n > ALLOWED.get((name, word), (0, ""))[0]]
    assert found == [], "use the words of CONTRIBUTING.md instead"


def test_few_exceptions_are_allowed() -> None:
    assert sum(count for count, _ in ALLOWED.values()) <= 10
    for (name, word), (count, _) in ALLOWED.items():
        assert words((ROOT / name).read_text("utf-8"))[word] == count, f"{name}: {word}"


@pytest.mark.parametrize("text", ["It tells so.", "def _told():", "class RefusedInput:", "told=True", "asked for x"])
def test_forbidden_words_are_seen(text: str) -> None:
    assert words(text)


def test_similar_words_and_the_word_list_are_ignored() -> None:
    assert not words("besides, intellectual, stall <!-- words --> tell <!-- end of words -->")
