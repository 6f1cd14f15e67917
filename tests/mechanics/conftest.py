"""Shared by the tests of the formalisms."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from heavytop_mechanics.functions import Evaluator
from scipy.integrate import solve_ivp

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def golden():
    """Read a file of reference data by its name."""
    return lambda name: json.loads((GOLDEN / name).read_text())


@pytest.fixture
def integrate():
    """Solve ``z' = f(t, z)`` with tight tolerances; states (m, n) at the times ``t``."""

    def solve(f, z0, t, rtol=1e-12, atol=1e-13):
        solution = solve_ivp(f, (t[0], t[-1]), z0, method="DOP853", t_eval=t, rtol=rtol, atol=atol)
        assert solution.success
        return solution.y.T

    return solve


@pytest.fixture
def traced_rate():
    """Trace ``f(z, t)`` once into one function for an integrator: ``(t, z)`` to ``z'``."""

    def trace(f, size):
        function = Evaluator(f, {"z": (size,), "t": ()}, "rate").traced.function
        return lambda t, z: function(z, t).full()[:, 0]

    return trace


def difference(f, x, step=1e-6):
    """Central differences of ``f`` at ``x`` (n,): columns df/dx_i."""
    x = np.asarray(x, dtype=float)
    return np.stack([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))], axis=-1)


@pytest.fixture
def jacobian_by_differences():
    """Central differences: a function and a point give the matrix of derivatives."""
    return difference
