"""Fixtures of the tests of sweeps."""

from __future__ import annotations

from typing import Any

import pytest

from heavytop.simulate import RunSpec


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that are run."""
    sizes: list[int] = []
    ready = RunSpec.ready

    def counted(self: RunSpec, start: Any, parameters: Any = None) -> Any:
        sizes.append(len(start[0]))
        return ready(self, start, parameters)

    monkeypatch.setattr(RunSpec, "ready", counted)
    return sizes
