"""The theory pages: their programs run, their pictures exist, their table agrees with the formalisms."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "docs" / "theory"
PATHS = os.pathsep.join(str(ROOT / folder) for folder in ("src", "theory"))
PAGES = sorted(THEORY.glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_programs_of_the_page_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, one after the other, in one namespace, from the root of the project."""
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert blocks, f"{page.name} has no program"
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": "page"}
    for code in blocks:
        exec(compile(code, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_pictures_and_links_exist(page: Path) -> None:
    text = BLOCK.sub("", page.read_text("utf-8"))
    for target in (*IMAGE.findall(text), *LINK.findall(text)):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"
    if page.stem != "index":
        assert IMAGE.findall(text), f"{page.name} has no picture"
    assert max(p.stat().st_size for p in (ROOT / "docs" / "images" / "theory").iterdir()) < 100_000


def test_every_formalism_has_a_page() -> None:
    modules = {p.stem for p in (ROOT / "theory" / "heavytop_mechanics").glob("*.py")}
    helpers = {"__init__", "bodies", "calculus", "functions", "quasi", "moving_frame_examples", "scalable_pose"}
    beyond = {  # of the layers system, simulate and control
        "explicit_time",
        "energy_momentum",
        "estimation",
        "lie_group_steps",
        "linearization",
        "nonsmooth",
        "reaction_friction",
        "singular_configurations",
    }
    pages = {p.stem for p in PAGES} - {"index", "agreement"} - beyond
    assert pages == modules - helpers
    index = (THEORY / "index.md").read_text("utf-8")
    assert all(f"({page}.md)" in index for page in pages | beyond)


def test_table_of_agreement_is_current() -> None:
    script = runpy.run_path(str(THEORY / "agreement_table.py"))
    rows = script["results"]()
    assert script["spread"](rows) < 1e-12
    text = (THEORY / "agreement.md").read_text("utf-8")
    stored = {}
    for line in text[text.index(script["BEGIN"]) : text.index(script["END"])].splitlines()[3:]:
        name, *numbers = (cell.strip() for cell in line.strip("|").split(" | "))
        stored[name] = [float(x) for x in numbers]
    assert stored.keys() == rows.keys()
    for name, a in rows.items():
        np.testing.assert_allclose(stored[name], a, atol=2e-12)


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(THEORY.glob("figures/*.py")), ids=lambda p: p.stem)
def test_figures_can_be_drawn(script: Path, tmp_path: Path) -> None:
    """The scripts run; they write to a copy of the tree's layout so that the stored pictures stay."""
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(script.parent)!r}); import common; from pathlib import Path; "
        f"common.IMAGES = Path({str(tmp_path)!r}); runpy.run_path({str(script)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": PATHS})
    assert script.stem == "common" or (tmp_path / f"{script.stem}.png").exists()
