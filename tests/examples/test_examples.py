"""Every example runs from the shell and leaves its picture or page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import GUARD

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if not path.stem.startswith("_"))
QUICK = ("pendulum",)
THOROUGH = ("chaplygin_sleigh", "rattleback", "rolling_disc")
STACKS = ("firmware_in_the_loop",)


def test_there_are_enough_and_each_says_what_it_is() -> None:
    assert len(EXAMPLES) >= 12
    for name in EXAMPLES:
        text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        assert text.startswith('"""'), name
        assert len(text.splitlines()) <= 60, name


def marked(name: str):
    """The example as a parameter, behind the marker of its length."""
    mark = [] if name in QUICK else [pytest.mark.thorough] if name in THOROUGH else [pytest.mark.slow]
    mark = [pytest.mark.stacks] if name in STACKS else mark
    return pytest.param(name, marks=mark)


@pytest.mark.parametrize("name", [marked(name) for name in EXAMPLES])
def test_example(name: str, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "theory"))
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": paths, "CI": "1"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--out", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = [path for pattern in ("*.png", "*.html") for path in tmp_path.glob(pattern)]
    assert made
    assert all(path.stat().st_size > 10_000 for path in made)
