"""``heavytop doctor``: facts, checks, and what happens when a check fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app, selfcheck
from heavytop.cli.selfcheck import Check


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.thorough
def test_all_is_well() -> None:
    output = run()
    assert output.count("✓") == len(selfcheck.CHECKS)
    assert "All is well." in output
    assert "numpy" in output
    assert "cache" in output


@pytest.mark.parametrize("check", selfcheck.CHECKS, ids=lambda check: check.__name__)
def test_each_check_has_room(check) -> None:
    result = check()
    assert result.passed
    assert result.deviation <= 0.1 * result.allowed


def test_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck, "CHECKS", (lambda: Check("gravity", 1e-3, 1e-12), selfcheck.exponential_map))
    output = run(code=1)
    assert "✗ gravity" in output
    assert "1 of the checks failed." in output


def test_broken_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Check:
        raise RuntimeError("no [memory]")

    monkeypatch.setattr(selfcheck, "CHECKS", (broken,))
    assert "broken: RuntimeError: no [memory]" in run(code=1)


def test_nan_fails() -> None:
    assert not Check("x", float("nan"), 1.0).passed


def test_clear_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAVYTOP_CACHE", str(tmp_path / "cache"))
    system = ht.library.pendulum()
    system.parameter("compiled_by_no_other_test", 1.0)
    system.derive().acceleration([0.1], [0.0])
    assert any((tmp_path / "cache").iterdir())
    monkeypatch.setattr(selfcheck, "CHECKS", ())
    output = run("--clear-cache")
    assert "removed" in output
    assert not list((tmp_path / "cache").glob("*"))
