"""Predictive control as C99: the same inputs as the Python controller, with active limits, restarts and references."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from processes import GUARD

import heavytop as ht
from heavytop import control
from heavytop.compile import MARK
from heavytop.control.mpc import controller as mpc_controller, export as mpc_export
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


@pytest.mark.thorough
def test_an_export_that_fails_leaves_the_folder_as_it_was(quad: ht.Model, tmp_path: Path, monkeypatch) -> None:
    """No mixture of an old controller and a new prediction."""
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
def test_the_c_program_returns_the_inputs_of_the_controller(quad: ht.Model, tmp_path: Path, monkeypatch) -> None:
    """Over 40 samples upside down and back, with active limits and restarts."""
    monkeypatch.setattr(mpc_export, "SAMPLES", 40)
    monkeypatch.setattr(mpc_export, "START", 4.0)
    monkeypatch.setattr(mpc_controller, "HOPELESS_GAP", 0.1)  # frequent restarts
    ahead = control.mpc(quad, limits=(0.0, 3.0))
    names = sorted(path.name for path in ahead.export_c(tmp_path))
    assert names == [
        "Makefile", "README.md", "predictive.c", "predictive.h", "predictive_mpc.c", "predictive_mpc.h", "test_predictive.c",
        "test_predictive_mpc.c",
    ]  # fmt: skip
    output = made(tmp_path)
    assert "predictive_sample: 40 samples" in output
    assert "0 without a solution" in output
    assert " 0 restarts" not in output
    assert "Error" not in output
    rows = mpc_export._samples(ahead)
    limited = np.mean([np.any((row[5] <= 0.0) | (row[5] >= 3.0)) for row in rows])
    assert 0.1 < limited < 1.0
    source = tmp_path / "predictive_mpc.c"
    text = source.read_text()
    source.write_text(text.replace("side[i] * slope_at(w, i) > 0.0", "side[i] * slope_at(w, i) > 1.0"))
    assert "Error" in made(tmp_path)  # a bound that is released too late is detected


@needs_compiler
@pytest.mark.thorough
def test_the_law_of_recovery_in_c(quad: ht.Model, tmp_path: Path, monkeypatch) -> None:
    """Without further iterations the law takes over upside down, and hands back."""
    monkeypatch.setattr(mpc_export, "SAMPLES", 80)
    monkeypatch.setattr(mpc_export, "START", 4.0)
    monkeypatch.setattr(mpc_controller, "MORE", 0)
    control.mpc(quad, limits=(0.0, 3.6)).export_c(tmp_path)
    output = made(tmp_path)
    assert " 0 by the law of recovery" not in output
    assert " 80 by the law of recovery" not in output
    assert "Error" not in output


@needs_compiler
@pytest.mark.parametrize("rounds", [0, 8])
@pytest.mark.thorough
def test_along_a_motion(tmp_path: Path, monkeypatch, rounds: int) -> None:
    """The caller supplies the reference, sample by sample; also with single exchanges of bounds only."""
    monkeypatch.setattr(mpc_export, "BLOCK_ROUNDS", rounds)
    cart = ht.library.cart_pole().derive()
    plan = ht.plan(cart, [0, 0], [0.5, 0], 1.5, limits=(-20, 20), steps=20, tolerance=1e-4)
    control.mpc(cart, plan.reference, limits=(-8, 8), horizon=15, iterations=2).export_c(tmp_path, name="cart")
    output = made(tmp_path)
    assert "cart_sample: 24 samples" in output
    assert "Error" not in output


@pytest.mark.thorough
def test_soft_bounds_and_foreign_files_are_rejected(quad: ht.Model, tmp_path: Path) -> None:
    slow = control.mpc(quad, horizon=3, limits=(0, 9), speeds={"hull.v_x": (-1, 1)})
    with pytest.raises(ControlError, match="'hull.v_x'"):
        slow.export_c(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "predictive_mpc.c").write_text("int mine;")
    with pytest.raises(FileFormatError, match="predictive_mpc.c"):
        control.mpc(quad, horizon=3, limits=(0, 9)).export_c(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["predictive_mpc.c"]
