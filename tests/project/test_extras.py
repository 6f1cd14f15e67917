"""Packages of extras: nothing else needs them, and their absence is a typed error that names the extra."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heavytop as ht
from heavytop.errors import EXTRAS, MissingPackageError

ROOT = Path(__file__).parents[2]
CALLS: dict[str, tuple[str, Callable[[ht.Run], Any]]] = {
    "plot": ("plot", lambda run: run.plot()),
    "table": ("data", lambda run: run.to_dataframe()),
    "dataset": ("data", lambda run: run.to_xarray()),
    "save": ("data", lambda run: run.save("run.nc")),
    "load": ("data", lambda run: ht.Run.load("run.nc")),
    "log": ("data", lambda run: ht.load_log("log.csv")),
    "sweep": ("data", lambda run: ht.sweep(lambda x: {"double": 2 * x}, {"x": [1.0, 2.0]})),
    "edge": ("data", lambda run: ht.sweep.refine(lambda x: {"ok": x < 1}, "x", [0.0, 2.0], "ok", 0.1)),
}
WITHOUT = """
import sys
for name in (*{packages!r}, "h5py", "IPython", "ipywidgets", "anywidget"):
    sys.modules[name] = None
import heavytop as ht
run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
run.report()
run.show({page!r})
"""


@pytest.fixture(scope="module")
def run() -> ht.Run:
    return ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)


@pytest.mark.parametrize("call", CALLS)
def test_missing_packages_are_named_with_their_extra(
    call: str, run: ht.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("heavytop.errors.find_spec", lambda name: None)
    extra, use = CALLS[call]
    with pytest.raises(MissingPackageError, match=rf"'{EXTRAS[extra][0]}'.*pip install 'heavytop\[{extra}\]'"):
        use(run)
    assert list(tmp_path.iterdir()) == []


def test_extras_install_the_packages_that_are_checked() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        named = {line.split()[0] for line in extras[extra]} | {"pandas"}  # a dependency of xarray
        assert set(packages) <= named


@pytest.mark.thorough
def test_runs_and_pages_need_no_extra(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    program = WITHOUT.format(packages=sum(EXTRAS.values(), ()), page=str(page))
    source = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=source)
    assert page.stat().st_size > 1e6  # with its viewer
