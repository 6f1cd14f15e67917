"""Active constraints of a plan: multipliers are sensitivities of the cost, checked by plans with a changed limit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import heavytop as ht
from heavytop.plan import Between, Effort, Gate, KeepOut, Phase, Plan, Point, Speed, Time


@pytest.fixture(scope="module")
def table() -> ht.Model:
    """A ball of 1 kg that is pushed along x and y."""
    system = ht.System(gravity=(0, 0, 0), name="table")
    system.body("carriage", joint=ht.Prismatic("x"), inertia=ht.Inertia(1e-3))
    system.body("ball", parent="carriage", joint=ht.Prismatic("y"), inertia=ht.Inertia(1.0))
    system.input("Fx", ht.JointForce("carriage"))
    system.input("Fy", ht.JointForce("ball"))
    return system.derive()


ENDS = ([0.0, 0.0], [1.0, 0.0])


def _longest(m: ht.Model, d: float) -> Plan:
    return ht.plan(m, *ENDS, (0.1, 0.9 + d), cost=1e-2 * Effort(), steps=20)


def _shortest(m: ht.Model, d: float) -> Plan:
    return ht.plan(m, *ENDS, (3.0 + d, 9.0), cost=Time() + 1e-2 * Effort(), steps=20)


def _gates(m: ht.Model, d: float) -> Plan:
    return ht.plan(m, *ENDS, (0.1, 0.9 + d), cost=1e-2 * Effort(), steps=20, path=[Gate("ball", (0.5, 0.3, 0.0))])


def _phase(m: ht.Model, d: float) -> Plan:
    phases = [Phase(0.1, 0.4 + d, 10, end=(Point("ball", (0.5, 0.3, 0.0)),)), Phase(0.6, 0.6, 10)]
    return ht.plan(m, *ENDS, phases=phases, cost=1e-2 * Effort())


def _rates(m: ht.Model, d: float) -> Plan:
    return ht.plan(m, *ENDS, None, limits=(-2, 2), rates={"Fx": (-9 - d, 9)}, cost=Time() + 1e-3 * Effort(), steps=20)


def _fixed_rates(m: ht.Model, d: float) -> Plan:
    return ht.plan(m, *ENDS, 1.0, rates={"Fx": (-20 - d, 90)}, cost=Speed() + 1e-4 * Effort(), steps=20)


def _sphere(m: ht.Model, d: float) -> Plan:
    return ht.plan(m, *ENDS, 1.0, cost=1e-2 * Effort(), steps=20, path=[KeepOut("ball", (0.5, -0.1, 0.0), 0.3 - d)])


@pytest.mark.parametrize(
    ("make", "label"),
    [
        (_longest, "longest duration 0.9 s"),
        (_shortest, "shortest duration 3 s"),
        (_gates, "longest duration 0.9 s"),
        (_phase, "longest duration 0.4 s of phase 1"),
        (_rates, "lower limit -9 of the rate of 'Fx'"),
        (_fixed_rates, "lower limit -20 of the rate of 'Fx'"),
        (_sphere, "'ball' out of the sphere at (0.5, -0.1, 0)"),
    ],
)
def test_multipliers_are_sensitivities(table: ht.Model, make: Callable[[ht.Model, float], Plan], label: str) -> None:
    d = 1e-4
    found = {item.label: item for item in make(table, 0.0).active}
    assert label in found
    slope = -(make(table, d).cost - make(table, -d).cost) / (2 * d)
    assert found[label].multipliers.sum() == pytest.approx(abs(slope), rel=2e-3)


def test_nothing_is_active_in_a_free_plan(table: ht.Model) -> None:
    assert not ht.plan(table, *ENDS, (0.1, 90.0), rates=1e3, cost=Time() + 1e-2 * Effort(), steps=20).active


def test_multipliers_are_in_the_order_of_their_times(table: ht.Model) -> None:
    """The same bound for all and for the second phase: one label with two groups of nodes."""
    slow = Between("carriage.v_x", -5.0, 1.2)
    phases = [Phase(0.5, 0.5, 10), Phase(0.5, 0.5, 10, path=(slow,))]
    plan = ht.plan(table, *ENDS, phases=phases, path=[slow], cost=1e-2 * Effort())
    (held,) = [item for item in plan.active if item.label == slow.label]
    nodes, values = np.r_[1:20, 10:20], np.abs(plan.multipliers[slow.label][:, 0])
    assert len(held.times) > 3
    for t, lam in zip(held.times, held.multipliers, strict=True):
        assert lam in values[np.isclose(plan.times[nodes], t)]


@pytest.mark.parametrize("mass", [1e-6, 1.0, 1e6])
@pytest.mark.thorough
def test_limits_of_light_and_heavy_systems(mass: float) -> None:
    """The same limits are active at the same nodes in any unit of force; distant limits are inactive."""
    system = ht.System(gravity=(0, 0, 0), name="sled")
    system.body("sled", joint=ht.Prismatic("x"), inertia=ht.Inertia(mass))
    system.input("F", ht.JointForce("sled"))
    sled = system.derive()
    cost = Time() + (1e-3 / mass**2) * Effort()
    plan = ht.plan(sled, [0.0], [1.0], limits=(-2 * mass, 2 * mass), cost=cost, steps=20)
    assert [len(item.times) for item in plan.active] == [10, 10]
    wide = ht.plan(sled, [0.0], [1.0], 2.0, limits=(-20 * mass, 20 * mass), cost=(1.0 / mass**2) * Effort(), steps=20)
    assert not wide.active
