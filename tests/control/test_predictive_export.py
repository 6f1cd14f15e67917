"""Predictive control as C99: what it answers is what the controller of the model answers, with active limits, restarts and references."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import GUARD

import heavytop as ht
from heavytop import control
from heavytop.compile.backends.c_export import MARK
from heavytop.control.mpc import export as mpc_export
from heavytop.control.mpc import guards
from heavytop.errors import ControlError, FileFormatError

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("make") is None, reason="needs make and a C compiler"
)


def made(folder: Path) -> str:
    flags = "CFLAGS=-std=c99 -Wall -Wextra -Werror -pedantic -O0"
    done = subprocess.run(
        ["make", flags, "test"], cwd=folder, capture_output=True, text=True, check=False, timeout=GUARD
    )
    return done.stdout + done.stderr if done.returncode else done.stdout


@pytest.fixture(scope="module")
def quad() -> ht.Model:
    return ht.library.quadcopter().derive()


def test_an_export_that_fails_leaves_the_folder_as_it_was(quad: ht.Model, tmp_path: Path, monkeypatch) -> None:
    """The prediction was written first, on its own: whoever killed the process then had the old controller with a new prediction."""
    ahead = control.mpc(quad, limits=(0.0, 3.0))
    (tmp_path / "predictive.c").write_text(f"/* {MARK} */ old")

    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(mpc_export, "_test_tables", stop)
    with pytest.raises(KeyboardInterrupt):
        ahead.export_c(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"predictive.c": f"/* {MARK} */ old"}


@needs_compiler
@pytest.mark.thorough
def test_the_c_program_answers_as_the_controller_does(quad: ht.Model, tmp_path: Path, monkeypatch) -> None:
    """Over 40 samples upside down and back, with limits active and the expected motion given up on the way."""
    monkeypatch.setattr(mpc_export, "SAMPLES", 40)
    monkeypatch.setattr(mpc_export, "START", 4.0)
    for module in (guards, sys.modules["heavytop.control.mpc"]):
        monkeypatch.setattr(module, "HOPELESS_GAP", 0.1)  # so that motions are given up often
    ahead = control.mpc(quad, limits=(0.0, 3.0))
    names = sorted(path.name for path in ahead.export_c(tmp_path))
    assert names == [
        "Makefile", "README.md", "predictive.c", "predictive.h", "predictive_mpc.c", "predictive_mpc.h", "test_predictive.c",
        "test_predictive_mpc.c",
    ]  # fmt: skip
    told = made(tmp_path)
    assert "predictive_sample: 40 samples" in told
    assert "0 without a solution" in told
    assert " 0 restarts" not in told
    assert "Error" not in told
    rows = mpc_export._samples(ahead)
    limited = np.mean([np.any((row[5] <= 0.0) | (row[5] >= 3.0)) for row in rows])
    assert 0.1 < limited < 1.0
    source = tmp_path / "predictive_mpc.c"
    text = source.read_text()
    source.write_text(text.replace("side[i] * slope_at(w, i) > 0.0", "side[i] * slope_at(w, i) > 1.0"))
    assert "Error" in made(tmp_path)  # a bound that is let go too late is seen


@needs_compiler
@pytest.mark.parametrize("rounds", [0, 8])
def test_along_a_motion(tmp_path: Path, monkeypatch, rounds: int) -> None:
    """The reference comes from outside, sample by sample; also if bounds are only exchanged one by one."""
    monkeypatch.setattr(mpc_export, "BLOCK_ROUNDS", rounds)
    cart = ht.library.cart_pole().derive()
    plan = ht.plan(cart, [0, 0], [0.5, 0], 1.5, limits=(-20, 20), steps=20, tolerance=1e-4)
    control.mpc(cart, plan.reference, limits=(-8, 8), horizon=15, iterations=2).export_c(tmp_path, name="cart")
    told = made(tmp_path)
    assert "cart_sample: 24 samples" in told
    assert "Error" not in told


def test_what_is_not_exported_is_told(quad: ht.Model, tmp_path: Path) -> None:
    slow = control.mpc(quad, horizon=3, limits=(0, 9), speeds={"hull.v_x": (-1, 1)})
    with pytest.raises(ControlError, match=r"soft bounds of states \('hull.v_x'\)"):
        slow.export_c(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "predictive_mpc.c").write_text("int mine;")
    with pytest.raises(FileFormatError, match="would be overwritten"):
        control.mpc(quad, horizon=3, limits=(0, 9)).export_c(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["predictive_mpc.c"]
