"""Budget of modules and changes of layer for a simulation whose native code exists."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "data_flow.py"


def data_flow() -> ModuleType:
    spec = importlib.util.spec_from_file_location("data_flow", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["data_flow"] = module  # dataclasses look for their module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "modules", "switches"),
    [("free-body", 24, 13), pytest.param("tricopter-load", 25, 21, marks=pytest.mark.thorough)],
)
def test_a_warm_run_passes_few_modules(name: str, modules: int, switches: int) -> None:
    seen = data_flow().warm(f"simulate:{name}")
    assert len(seen.modules) <= modules
    assert seen.switches.total() <= switches
