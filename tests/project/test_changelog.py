"""CHANGELOG.md follows Keep a Changelog and contains the version of the package."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
RELEASE = re.compile(r"^## \[(?P<version>\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$")


def headings(level: int) -> list[str]:
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    return [line for line in lines if line.startswith("#" * level + " ")]


def test_unreleased_comes_first_and_releases_are_dated() -> None:
    first, *releases = headings(2)
    assert first == "## [Unreleased]"
    assert [line for line in releases if not RELEASE.match(line)] == []


def test_releases_descend() -> None:
    versions = [match["version"] for line in headings(2) if (match := RELEASE.match(line))]
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(set(numbers), reverse=True)


def test_kinds_of_change_are_the_known_ones() -> None:
    kinds = {line.removeprefix("### ") for line in headings(3)}
    assert kinds
    assert kinds <= KINDS
