"""Every package that offers names to users ends with the gate that types the errors they may meet."""

from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "heavytop"
WITHOUT = {"cli", "bench"}  # commands, which report errors themselves
PACKAGES = sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py") if p.parent.name not in WITHOUT)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_is_gated(name: str) -> None:
    text = (PACKAGE / name / "__init__.py").read_text(encoding="utf-8")
    offered = [line for line in text.splitlines() if " as " in line and "as _" not in line]
    assert not offered or "\n_gate(__name__" in text
