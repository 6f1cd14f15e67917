"""docs/notation.md gives each symbol of a source one ASCII name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

NOTATION = Path(__file__).parents[2] / "docs" / "notation.md"
SOURCES = ("000", "001", "002", "003", "004")


def rows() -> Iterator[tuple[str, str, str]]:
    """(section, symbol, name) of every table row with a symbol column."""
    for section in NOTATION.read_text("utf-8").split("\n## ")[1:]:
        title, *lines = section.splitlines()
        table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
        if table[0][0] == "symbol":
            assert {len(row) for row in table} == {4}, f"a row of {title!r} has too many or too few cells"
            yield from ((title, row[0], row[1]) for row in table[2:])


def test_every_source_has_a_table() -> None:
    titles = {title for title, _, _ in rows()}
    assert [source for source in SOURCES if not any(title.startswith(source) for title in titles)] == []


def test_names_are_ascii_code() -> None:
    wrong = [(s, name) for _, s, name in rows() if not name.isascii() or (name and "`" not in name)]
    assert wrong == []


def test_a_symbol_has_one_name() -> None:
    seen: dict[tuple[str, str], str] = {}
    for title, symbol, name in rows():
        key = (title.split(":")[0], symbol)
        assert seen.setdefault(key, name) == name, f"{symbol} of {key[0]} is called {seen[key]} and {name}"
    assert len(seen) > 100


def test_main_symbols_are_named_as_in_the_code() -> None:
    named = {(title.split(":")[0], symbol): re.findall(r"`([^`]+)`", name) for title, symbol, name in rows()}
    assert named["000", "x"] == ["q"]
    assert named["000", "ξ"] == ["v"]
    assert named["000", "γ^k_ij"] == ["gamma"]
    assert named["000", "ᵃ_bG"] == ["G_ab"]
    assert named["001", "u = (v, ν, ω)"] == ["v"]
    assert named["002", "H"] == ["G"]
