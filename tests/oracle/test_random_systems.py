"""Random systems: the library against the oracle."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from oracle.compare import ALWAYS, SOMETIMES, Case, compare
from oracle.description import State, SystemData
from oracle.generate import random_system

import heavytop

SEED = 1
SIZES = (1, 2, 1, 2, 1, 2, 1, 2, 3, 4)
"""Largest number of bodies, in turn; the campaign draws up to twelve."""
PARTS, COUNT = 5, 14
MORE = 24
"""Parts of the suite with COUNT systems each, and further parts in the thorough tests."""


@cache
def drawn(k: int) -> tuple[SystemData, State]:
    """The k-th system of the suite and its state."""
    return random_system([SEED, k], SIZES[k % len(SIZES)])


@pytest.mark.parametrize(
    "part", [*range(PARTS), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(PARTS, PARTS + MORE))]
)
def test_accelerations_energies_and_one_more(part: int) -> None:
    deviations = []
    for k in range(part * COUNT, (part + 1) * COUNT):
        compared = compare(Case(*drawn(k)), (*ALWAYS, SOMETIMES[(k // len(SIZES)) % len(SOMETIMES)]))
        deviations += [f"system {k}: {one}" for one in compared if one.is_deviation]
    assert deviations == []


@pytest.mark.parametrize("k", [18, 133])  # the second has a rotor on a free joint
@pytest.mark.thorough
def test_native_code(k: int) -> None:
    assert [
        one for one in compare(Case(*drawn(k), native=True), ("accelerations", "energies", "batch")) if one.is_deviation
    ] == []


def test_oracle_is_independent() -> None:
    """Only the builder and the comparisons know the library."""
    assert heavytop.__name__ == "heavytop"
    for name in ("description", "jets", "maximal", "generate", "rewrite"):
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
        found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        allowed = {"__future__", "collections.abc", "dataclasses", "functools", "typing", "numpy"}
        assert {module for module in found - allowed if not module.startswith("oracle.")} == set(), name
