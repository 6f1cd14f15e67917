"""Gradients of random systems (those of the oracle) over 1,000 steps against extrapolated differences, all integrators in turn."""

from __future__ import annotations

import numpy as np
import pytest
from oracle.compare import Case
from oracle.generate import random_system

import heavytop as ht
from heavytop.errors import HeavytopError

SEED = 7
INTEGRATORS = ("rkmk4", "rkmk6", "energy_momentum", "rkmk8", "rkmk45", "variational", "rkmk4", "projected_rk4")
STEPS = 1000
ROUNDS = 5


def error_of(k: int, integrator: str | None = None) -> tuple[float, str]:
    """Relative error of the derivative along a random direction of system ``k``, and the name of the integrator.

    The differences are evaluated in one batch. Their size is chosen among several by their own estimate of error; a motion that amplifies rounding is
    followed for a shorter time.
    """
    case = Case(*random_system([SEED, k], 1 + k % 4), native=True)
    model, (q, v, u), p = case.model, case.arguments, case.parameters
    p = {name: value for name, value in p.items() if name != "time"}
    rng = np.random.default_rng(k)
    name = integrator or INTEGRATORS[k % len(INTEGRATORS)]
    if name in ("variational", "energy_momentum") and (
        model.is_constrained or model.coordinates.nv != model.nv or "time" in model.parameter_names
    ):
        name = "rkmk4"
    free = not model.is_constrained
    c = model.coordinates
    d_q = rng.standard_normal(c.nv) * free
    d_v = rng.standard_normal(model.nv) * free
    d_p = {n: 0.1 * x * rng.standard_normal() * free for n, x in p.items()}
    weights = rng.standard_normal(model.nq), rng.standard_normal(model.nv)
    loss = ht.Loss(end=lambda t, q, v: np.vecdot(q, weights[0]) + np.vecdot(v, weights[1]))
    worst = np.inf
    for steps in (STEPS, 200, 40):
        options = {"step": 2e-4, "start_time": case.state.t, "until": case.state.t + 2e-4 * steps, "integrator": name}
        inputs = u + 0.3 * rng.standard_normal((steps, model.nu))
        d_u = rng.standard_normal(inputs.shape)
        found = ht.gradient(loss, model, (q, v), inputs=inputs, parameters=p, **options)
        along = found.q @ d_q + found.v @ d_v + sum(found.parameters[n] * d for n, d in d_p.items())
        along += (found.inputs * d_u).sum() if model.nu else 0.0
        for size in (3e-2, 3e-3, 3e-4):
            e = size / 2.0 ** np.arange(ROUNDS)
            e = np.concatenate([e, -e])
            starts = (
                np.asarray(c.retract(np.broadcast_to(q, (len(e), model.nq)), e[:, None] * d_q)),
                v + e[:, None] * d_v,
            )
            moved = {n: x + e * d_p[n] for n, x in p.items()}
            samples = inputs[:, None] + e[:, None] * d_u[:, None]
            value = ht.gradient(loss, model, starts, inputs=samples, parameters=moved, by=(), **options).value
            table = list((value[:ROUNDS] - value[ROUNDS:]) / (2 * e[:ROUNDS]))
            for j in range(1, ROUNDS):
                table = [(4**j * table[i + 1] - table[i]) / (4**j - 1) for i in range(len(table) - 1)]
            worst = min(worst, abs(along - table[0]) / max(abs(along), 1e-3))
            if worst < 1e-9:
                return worst, name
    return worst, name


@pytest.mark.parametrize(
    "k",
    [
        *(pytest.param(k, marks=pytest.mark.thorough) for k in range(6)),
        *(pytest.param(k, marks=pytest.mark.slow) for k in range(6, 40)),
    ],
)
def test_random_system(k: int) -> None:
    error, _ = error_of(k)
    assert error < 1e-7


def survey(first: int, after: int) -> None:
    """Print the errors of many systems."""
    for k in range(first, after):
        try:
            error, name = error_of(k)
            print(f"{k} {name} {error:.1e}", flush=True)
        except HeavytopError as found:
            print(f"{k} rejected: {str(found)[:150]}", flush=True)
