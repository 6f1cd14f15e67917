"""Bounds of a plan: those that are infinite say nothing."""

from __future__ import annotations

import numpy as np
import pytest
from plan.test_transcription import check_derivatives, program

import heavytop as ht
from heavytop.plan import Fatrop, Ipopt, Nlpsol, Time


@pytest.fixture(scope="module")
def table() -> ht.Model:
    """A table that moves along x and y, each with its own motor."""
    system = ht.System(gravity=(0, 0, 0), name="table")
    system.body("x", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("y", parent="x", joint=ht.Prismatic("y"), inertia=ht.Inertia(1.0))
    system.input("Fx", ht.JointForce("x"))
    system.input("Fy", ht.JointForce("y"))
    return system.derive()


@pytest.mark.parametrize(
    ("rates", "wide"),
    [
        ({"Fx": (-10, 10)}, {"Fx": (-10, 10), "Fy": (-1e4, 1e4)}),
        ({"Fx": (-np.inf, 10)}, {"Fx": (-1e4, 10), "Fy": (-1e4, 1e4)}),
        (([-10, -np.inf], [np.inf, 10]), ([-10, -1e4], [1e4, 10])),
    ],
)
def test_rates_without_bound_are_free(table: ht.Model, rates, wide) -> None:
    """A rate without a bound is like one with a bound that is never met, also where the duration is free."""
    options = {"limits": (-5, 5), "cost": Time(), "steps": 12, "tolerance": 1.0}
    ours, other = (ht.plan(table, [0, 0], [1, 1], rates=given, **options) for given in (rates, wide))
    assert ours.duration == pytest.approx(other.duration, rel=1e-6)
    assert np.abs(np.diff(ours.u[:, 1])).max() > 0.1  # neither motor stands still
    fixed = [ht.plan(table, [0, 0], [1, 1], 1.6, limits=(-5, 5), steps=8, rates=given) for given in (rates, wide)]
    assert fixed[0].cost == pytest.approx(fixed[1].cost, rel=1e-6)


def test_no_rate_bounded(table: ht.Model) -> None:
    """Infinite rates alone leave inputs that are linear in time."""
    options = {"limits": (-5, 5), "cost": Time(), "steps": 12, "tolerance": 1.0}
    none, linear = (
        ht.plan(table, [0, 0], [1, 1], **options, **own) for own in ({"rates": np.inf}, {"inputs": "linear"})
    )
    assert none.duration == pytest.approx(linear.duration, rel=1e-6)


@pytest.mark.parametrize("solver", [Fatrop(), Nlpsol()])
def test_solvers_agree_on_rates_of_some_inputs(table: ht.Model, solver) -> None:
    options = {"limits": (-5, 5), "rates": {"Fx": (-10, np.inf)}, "cost": Time(), "steps": 8, "tolerance": 1.0}
    ours, other = (ht.plan(table, [0, 0], [1, 1], solver=own, **options) for own in (Ipopt(), solver))
    assert other.duration == pytest.approx(ours.duration, rel=1e-5)


def test_derivatives_of_rates_of_some_inputs(table: ht.Model) -> None:
    rates = {"Fx": (-10, np.inf), "Fy": (-3, 4)}
    nlp, x = program(table, [0, 0], [1, 1], (0.5, 2.0), rates=rates, cost=Time(), steps=5)
    check_derivatives(nlp, x)
    rows = [k for k in range(nlp.rows) if nlp.row(k).label == "rate of inputs"]
    assert [nlp.row(k).node for k in rows] == [*range(5), *np.repeat(range(5), 2)]
