"""Python blocks marked ``<!-- example: name -->`` in the README and the docs run unchanged.

One marked ``<!-- example continues: name -->`` belongs to the example before it on the same page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^<!-- example(?P<continues> continues)?: (?P<name>[\w-]+) -->\n```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

LONG = {  # about a second each, or more
    "docs/constraints.md:loop",
    "docs/control/any_system.md:control-any-system",
    "docs/control/dead_rotors.md:control-lost-blade",
    "docs/control/estimation.md:control-estimation-vehicle",
    "docs/control/index.md:control-first",
    "docs/control/margins.md:control-margins",
    "docs/control/predictive.md:mpc-bounds",
    "docs/control/predictive.md:mpc-quadcopter",
    "docs/control/predictive.md:mpc-wrapped",
    "docs/control/robust.md:control-constants",
    "docs/fly.md:looping",
    "docs/fly.md:tuned",
    "docs/gym.md:environments",
    "docs/gym.md:numpy-task",
    "docs/gym.md:task",
    "docs/howto/animate.md:animate",
    "docs/howto/estimate.md:estimate",
    "docs/howto/four_bar.md:four-bar",
    "docs/howto/ground.md:ground",
    "docs/howto/identify.md:identify",
    "docs/howto/inverse_kinematics.md:inverse-kinematics",
    "docs/howto/landing.md:landing",
    "docs/howto/noise_delay.md:noise-delay",
    "docs/howto/payload.md:payload",
    "docs/howto/save.md:save",
    "docs/howto/sweep_wind.md:sweep-wind",
    "docs/howto/swing_up.md:swing-up",
    "docs/identify.md:identify-first",
    "docs/inverse_kinematics.md:ik-first",
    "docs/inverse_kinematics.md:joint-reference",
    "docs/plan/problems.md:plan-hop",
    "docs/plan/problems.md:plan-time",
    "docs/plan/tracking.md:plan-tracked",
    "docs/simulate/gradients.md:gradient-first",
    "docs/simulate/index.md:crane",
    "docs/sweep.md:disturbed",
    "docs/system.md:describe",
    "docs/system.md:feedback",
    "docs/system.md:time",
}


def examples_of(page: Path) -> Iterator[Any]:
    """One program per example, with the blocks that continue it."""
    chains: list[tuple[str, str]] = []
    for match in BLOCK.finditer(page.read_text("utf-8")):
        if match["continues"]:
            name, code = chains.pop()
            chains.append((name, code + match["code"]))
        else:
            chains.append((match["name"], match["code"]))
    for name, code in chains:
        label = f"{page.relative_to(ROOT)}:{name}"
        yield pytest.param(code, id=label, marks=[pytest.mark.thorough] if label in LONG else [])


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
EXAMPLES = [example for page in PAGES for example in examples_of(page)]


def test_the_readme_has_an_example() -> None:
    assert any("README.md" in str(example.id) for example in EXAMPLES)


@pytest.mark.parametrize("code", EXAMPLES)
def test_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<example>", "exec"), {"__name__": "example"})
