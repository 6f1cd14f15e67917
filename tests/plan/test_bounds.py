"""Bounds of a plan: infinite ones are free, violations between the nodes are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plan.test_transcription import check_derivatives, program

import heavytop as ht
from heavytop.plan import (
    Between,
    Cone,
    Effort,
    Fatrop,
    InfeasibleError,
    Ipopt,
    KeepOut,
    Nlpsol,
    OwnCost,
    Phase,
    Plan,
    Point,
    Time,
)
from heavytop.plan.violations import between_nodes


@pytest.fixture(scope="module")
def table() -> ht.Model:
    """A table that moves along x and y, each with its own motor."""
    system = ht.System(gravity=(0, 0, 0), name="table")
    system.body("x", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("y", parent="x", joint=ht.Prismatic("y"), inertia=ht.Inertia(1.0))
    system.input("Fx", ht.JointForce("x"))
    system.input("Fy", ht.JointForce("y"))
    return system.derive()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rates", "wide"),
    [
        ({"Fx": (-10, 10)}, {"Fx": (-10, 10), "Fy": (-1e4, 1e4)}),
        ({"Fx": (-np.inf, 10)}, {"Fx": (-1e4, 10), "Fy": (-1e4, 1e4)}),
        (([-10, -np.inf], [np.inf, 10]), ([-10, -1e4], [1e4, 10])),
    ],
)
def test_rates_without_bound_are_free(table: ht.Model, rates, wide) -> None:
    """A rate without a bound is like one with a bound that is never active, also with a free duration."""
    options = {"limits": (-5, 5), "cost": Time(), "steps": 12, "tolerance": 1.0}
    ours, other = (ht.plan(table, [0, 0], [1, 1], rates=given, **options) for given in (rates, wide))
    assert ours.duration == pytest.approx(other.duration, rel=1e-6)
    assert np.abs(np.diff(ours.u[:, 1])).max() > 0.1  # both motors move
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
    assert [node for label, node in nlp.row_labels if label == "rate of inputs"] == [*range(5), *np.repeat(range(5), 2)]


# --- between the nodes --------------------------------------------------------------------------------------------------------


def _depth(plan: Plan, obstacle: KeepOut) -> float:
    """How deep (m) the way goes into a sphere at the worst."""
    q = plan.reference(np.linspace(0, plan.duration, 20001))[0]
    return obstacle.radius - float(np.linalg.norm(q - np.array(obstacle.center)[:2], axis=1).min())


@pytest.mark.parametrize("where", ["path", "phase"])
def test_obstacle_between_nodes(table: ht.Model, where: str) -> None:
    """A sphere between two nodes is entered; the plan reports the depth, for constraints of the path and of a phase."""
    out = KeepOut("y", (0.52, 0.005, 0.0), 0.02)
    if where == "path":
        plan = ht.plan(table, [0, 0], [1, 0], 1.0, steps=6, limits=(-20, 20), path=[out])
    else:
        halves = [Phase(0.5, 0.5, 3), Phase(0.5, 0.5, 3, path=(out,))]
        plan = ht.plan(table, [0, 0], [1, 0], phases=halves, limits=(-20, 20))
    true = _depth(plan, out)
    assert 0.014 < true < 0.02
    assert plan.violation[0] == out.label
    assert plan.violation[1] == pytest.approx(true, rel=0.02)
    assert f"{out.label} is exceeded by {true:.2g}" in plan.report()


@pytest.mark.thorough
def test_constraints_of_a_phase_end_with_it(table: ht.Model) -> None:
    """A wall of the second half does not hold in the first."""
    wall = Between("x.x", 0.5, np.inf)
    halves = [Phase(0.5, 0.5, 6, end=(Between("x.x", 0.5, 0.5),)), Phase(0.5, 0.5, 6, path=(wall,))]
    plan = ht.plan(table, [0, 0], [1, 0], phases=halves, limits=(-20, 20))
    assert plan.q[:6, 0].max() < 0.5
    assert plan.violation[1] < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["limits", "path"])
@pytest.mark.parametrize("name", ["mass.v_x", "mass.x"])
def test_limits_between_nodes(by: str, name: str) -> None:
    """A limited velocity or coordinate that swings between the nodes, as limit or as constraint."""
    system = ht.System(gravity=(0, 0, 0), name="swinger")
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.joint_spring("mass", stiffness=400.0 if name == "mass.v_x" else 1.0)
    system.input("F", ht.JointForce("mass"))
    most = {"mass.v_x": 0.2, "mass.x": 0.01}[name]
    given = {"limits": {name: (-most, most)}} if by == "limits" else {"path": [Between(name, -most, most)]}
    cost = OwnCost(lambda q, v, u: (u[0] - 50) ** 2)
    start, goal = ([0.0], [0.0]) if name == "mass.v_x" else (([0.0], [1.0]), ([0.0], [-1.0]))
    plan = ht.plan(system.derive(), start, goal, 1.0, steps=5, cost=cost, **given)
    _, v, _ = states = plan.reference(np.linspace(0, 1, 20001))
    true = np.abs(v if name == "mass.v_x" else states[0]).max() - most
    assert true > 1e-3
    assert name in plan.violation[0]
    assert plan.violation[1] == pytest.approx(true, rel=0.02)


def test_inputs_and_rates_beyond_their_limits(table: ht.Model) -> None:
    """Limits of inputs and rates, which a solver enforces, are checked too: tighter limits than those of the plan are exceeded."""
    plan = ht.plan(table, [0, 0], [1, 1], 1.5, limits=(-5, 5), rates=10.0, steps=10, cost=Effort())
    assert plan.violation == ("", 0.0)
    for field, label in (("u", "limit 2 of 'Fx'"), ("rate", "limit 2 of the rate of 'Fx'")):
        tight = replace(plan.problem.bounds, **{field: (np.full(2, -2.0), np.full(2, 2.0))})
        found = between_nodes(replace(plan, problem=replace(plan.problem, bounds=tight)))
        true = np.abs(plan.u if field == "u" else np.diff(plan.u, axis=0) / 0.15).max() - 2.0
        assert label.replace("2", "-2") in found[0] or label in found[0]
        assert found[1] == pytest.approx(true, rel=0.02)


def test_violations_are_depths_and_angles() -> None:
    """r - |d| of a sphere, the angle outside of a cone, the distance minus the radius of a point; negative inside."""
    away = np.array([0.0, 0.1, 0.5, 0.8])
    rows = ((away**2 / 0.5 - 0.5) / 2)[:, None]
    np.testing.assert_allclose(KeepOut("y", (0, 0, 0), 0.5).excess(rows)[:, 0], 0.5 - away, atol=1e-12)
    np.testing.assert_allclose(Point("y", (0, 0, 0), radius=0.5).excess(rows)[:, 0], away - 0.5, atol=1e-12)
    angles = np.array([0.1, 0.3, 2.0, np.pi])
    outside = Cone("y", 0.3).violation(np.cos(angles)[:, None])[:, 0]
    np.testing.assert_allclose(outside, np.maximum(angles - 0.3, 0.0), atol=1e-9)


def test_infeasible_sphere_is_violated_by_its_depth(table: ht.Model) -> None:
    """The end of a phase inside a sphere: the violation of the closest motion is its depth, not the row of the program."""
    out, there = KeepOut("y", (0.5, 0, 0), 0.3), (Between("x.x", 0.45, 0.45), Between("y.x", 0.0, 0.0))
    halves = [Phase(0.5, 0.5, 4, path=(out,), end=there), Phase(0.5, 0.5, 4)]
    with pytest.raises(InfeasibleError) as caught:
        ht.plan(table, [0, 0], [1, 0], phases=halves, limits=(-50, 50), guess="straight")
    violations = {label: amount for label, _, amount in caught.value.violations}
    assert violations == {out.label: pytest.approx(0.25, abs=1e-5)}


# --- limits of joints ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_limits_of_joints() -> None:
    """Joint limits of a system equal the same pairs by name; an entry by its own name takes precedence."""
    system = ht.System(gravity=(0, 0, 0), name="arm")
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(0, 0.1, 0.1)))
    system.input("motor", ht.JointForce("arm", gear=2.0))
    system.limits["arm"] = ht.JointLimits(-0.2, 1.1, velocity=0.9, effort=3.0)
    model = system.derive()
    named = {"motor": (-1.5, 1.5), "arm.rate": (-0.9, 0.9), "arm.angle": (-0.2, 1.1)}
    ours, other, own = (
        ht.plan(model, [0.0], [1.0], limits=limits, cost=Time(), steps=16, tolerance=1e-4)
        for limits in (system.limits, named, {"arm.rate": (-0.5, 0.5), **system.limits})
    )
    assert ours.duration == pytest.approx(other.duration, rel=1e-9)
    assert {item.label for item in ours.active} == {item.label for item in other.active}
    assert own.v.max() == pytest.approx(0.5, rel=1e-6)
    with pytest.raises(ht.errors.PlanError, match=r"goal .* violates 'arm.angle' in \[-0.2, 1.1\]"):
        ht.plan(model, [0.0], [1.2], limits=system.limits)
