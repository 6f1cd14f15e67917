"""All robot files of the installed packages that have some: none is silently different from MuJoCo or Pinocchio, none crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("mujoco")
pytest.importorskip("pinocchio")
SURVEY = Path(__file__).parent / "robot_survey.py"
PACKAGES = ("mujoco", "gymnasium", "gymnasium_robotics", "dm_control", "robosuite", "metaworld", "example_robot_data")


def files_of(package: str) -> list[str]:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(next(iter(spec.submodule_search_locations)))
    if package == "example_robot_data":
        folder = folder.parents[3] / "share" / "example-robot-data" / "robots"
    models = [
        path
        for path in folder.rglob("*.xml")
        if b"<mujoco" in path.read_bytes() and b"<mujocoinclude" not in path.read_bytes()
    ]
    return sorted(str(path) for path in (*models, *folder.rglob("*.urdf")))


@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_equal_reported_or_refused(package: str) -> None:
    files = files_of(package)
    if not files:
        pytest.skip(f"{package} is not installed")
    lines = []
    for start in range(0, len(files), 50):
        command = [sys.executable, str(SURVEY), *files[start : start + 50]]
        made = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=True)
        lines += [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(files)
    wrong = [line for line in lines if line["class"] in ("silent", "crash", "time")]
    print(package, dict(Counter(line["class"] for line in lines)))
    assert not wrong, "\n".join(f"{line['file']}: {line['class']}: {line.get('why', '')[:300]}" for line in wrong)
