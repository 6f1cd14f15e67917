"""Budgets of modules and changes of layer that warm calls pass through."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import data_flow


@pytest.mark.parametrize(
    ("name", "modules", "changes"),
    [
        ("simulate:free-body", 14, 6),
        ("fly", 40, None),
        pytest.param("simulate:tricopter-load", 14, 6, marks=pytest.mark.thorough),
        pytest.param("fly:robust", 40, None, marks=pytest.mark.thorough),
    ],
)
def test_warm_calls_stay_within_their_budget(name: str, modules: int, changes: int | None) -> None:
    seen = data_flow.warm(name)
    assert len(seen.modules) <= modules, seen.modules
    assert changes is None or seen.switches.total() <= changes, seen.switches
