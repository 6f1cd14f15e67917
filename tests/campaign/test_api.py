"""Every public function with invalid arguments: no crash, no hang, no silent NaN, no harm to files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

SCRIPT = Path(__file__).with_name("fuzz_api.py")
PROCESSES = 25


@pytest.mark.parametrize("seed", range(PROCESSES))
def test_every_public_callable(seed: int, tmp_path: Path, record, size) -> None:
    calls = size(4200, 1000)
    if size(1, 0) == 0 and seed:
        pytest.skip("one process in the slice")
    report = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), str(seed), str(calls), str(report)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)  # it limits itself
    if done.returncode:
        now = Path(f"{report}.now").read_text() if Path(f"{report}.now").exists() else done.stderr[-500:]
        record("calls of public functions", calls, [f"exit {done.returncode}: {now}"])
        return
    content = json.loads(report.read_text())
    record("calls of public functions", content["calls"], content["failures"])
    assert content["callables"] > 500
