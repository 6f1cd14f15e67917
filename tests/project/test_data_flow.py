"""How many modules and layers a run passes when its native code exists: a part that needs one more has to say why here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError

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
    script = data_flow()
    work = script.run_of(name)
    work()
    seen = script.flow(work)
    assert len(seen.modules) <= modules
    assert seen.switches.total() <= switches


def test_an_override_of_the_user_is_used_inside() -> None:
    class Twice(ht.coordinates.Circle):
        """A circle of radius 2."""

        def constraints(self, q: np.ndarray) -> np.ndarray:
            return (q[..., :1] ** 2 + q[..., 1:] ** 2) / 4 - 1

    assert Twice().check([0.0, 2.0]).tolist() == [0.0, 2.0]
    product = ht.coordinates.Product((Twice(),), names=("turn",))
    with pytest.raises(ConfigurationError, match="off its manifold"):
        product.check([0.0, 1.0])
