"""Fixtures of the tests of faults: a small run and a small disk."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import heavytop as ht


@pytest.fixture(scope="session")
def model() -> ht.Model:
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    return system.derive()


@pytest.fixture(scope="session")
def run(model: ht.Model) -> ht.Run:
    return ht.simulate(model, ([0.1], [0.0]), 1.0, 0.01)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("this machine does not mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
