"""Library systems with symbols: the same motion, equations without numbers, documents that compile."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from heavytop_mechanics import hamilton, multipliers

import heavytop as ht
from heavytop.errors import ModelError

ROLLING = ("skate", "chaplygin-sleigh", "rolling-disc", "rolling-ball", "car")


@pytest.mark.parametrize("name", ROLLING)
def test_symbols_have_the_values_of_the_numbers(name: str) -> None:
    numbers, symbols = (ht.library.load(name, symbolic=s).derive(native=False) for s in (False, True))
    rng = np.random.default_rng(1)
    q = numbers.integrate(numbers.neutral(), 0.3 * rng.normal(size=numbers.nv), 1.0)
    v = rng.normal(size=numbers.nv)
    assert numbers.parameter_names == ()
    assert np.allclose(numbers.acceleration(q, v), symbols.acceleration(q, v), rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
def test_equations_of_a_disc_for_a_paper() -> None:
    import sympy

    equations = ht.library.load("rolling-disc", symbolic=True).derive(native=False).equations()
    m, r, *_ = equations.p
    assert equations.M[1, 1] == sympy.Rational(3, 2) * m * r**2
    assert r"\dot{R}_{xx} &=" in equations.latex()
    assert r"\dot{R_{xx}}" not in equations.latex()
    text = equations.latex_document()
    assert text.startswith(r"\documentclass")
    assert "$m = 1$, $r = 0.5$, $g = 9.81$" in text


def test_systems_with_numbers_only_say_so() -> None:
    with pytest.raises(ModelError, match="numbers only.*rolling-disc"):
        ht.library.load("andrews", symbolic=True)
    assert ht.library.load("pendulum", symbolic=True).parameters == ht.library.load("pendulum").parameters


def test_hamilton_with_constraints_is_lagrange_with_multipliers() -> None:
    from heavytop.coordinates import Vector

    def lagrangian(q, v):
        return 0.5 * (2.0 + np.cos(q[2])) * (v[0] ** 2 + v[1] ** 2) + 0.3 * v[2] ** 2 + v[0] * v[2] - 9.81 * q[1]

    def across(q, v):
        return v[1] * np.cos(q[2]) - v[0] * np.sin(q[2])

    coordinates = Vector(3)
    q, v = np.array([0.2, -0.4, 0.7]), np.array([0.0, 0.0, 1.3])
    v[:2] = 1.7 * np.cos(q[2]), 1.7 * np.sin(q[2])
    released = multipliers.release(coordinates, lagrangian, velocity=across)(q, v)
    momentum = hamilton.momentum(coordinates, lagrangian)
    motion = hamilton.constrained_flow(coordinates, lagrangian, velocity=across)
    p = momentum(q, v, 0.0)
    rates = motion(q, p)
    h = 1e-6
    after, before = (momentum(q + s * h * v, v + s * h * released.acceleration, 0.0) for s in (1.0, -1.0))
    assert np.allclose(rates.q, v)
    assert np.allclose(rates.multipliers, released.multipliers)
    assert np.allclose(rates.p, (np.asarray(after) - np.asarray(before)) / (2 * h), atol=1e-7)


@pytest.mark.tex
@pytest.mark.parametrize("name", ["rolling-disc", "snakeboard", "quadcopter", "furuta"])
def test_documents_compile(name: str, tmp_path: Path) -> None:
    engine = shutil.which("pdflatex")
    assert engine is not None, "this test needs pdflatex"
    equations = ht.library.load(name, symbolic=True).derive(native=False).equations()
    (tmp_path / "a.tex").write_text(equations.latex_document(), encoding="utf-8")
    done = subprocess.run(
        [engine, "-halt-on-error", "-interaction=nonstopmode", "a.tex"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "a.pdf").stat().st_size > 10_000
