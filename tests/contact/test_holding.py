"""Held contacts: linear equations, equilibria and regulators of systems that stand on rigid contacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError, UnknownNameError
from heavytop.geometry import se3, so3

G = 9.81


def standing(shape: object, moment: tuple[float, float, float], height: float) -> tuple[ht.Model, np.ndarray]:
    system = ht.System(name="standing")
    system.body("body", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=moment))
    system.ground(friction=0.6)
    system.contact("body", "ground", shape)  # type: ignore[arg-type]
    model = system.derive(native=False)
    q = model.neutral()
    q[2] = height
    return model, q


def test_a_pole_on_a_held_point_falls_like_a_pendulum() -> None:
    model, q = standing(ht.Points([(0.0, 0.0, -0.4)]), (0.1, 0.1, 0.02), 0.4)
    held = model.holding("body", q=q)
    A, _ = held.linearize(q)
    rate = np.sqrt(2.0 * G * 0.4 / (0.1 + 2.0 * 0.4**2))
    assert np.allclose(np.sort(np.linalg.eigvals(A).real), [-rate, -rate, 0.0, 0.0, rate, rate], atol=1e-6)
    assert held.description.contacts == ()


def test_the_forces_of_a_held_box_carry_it() -> None:
    """Four corners are held, the upper ones are not; their shares of the weight add up."""
    model, q = standing(ht.Box((0.2, 0.3, 0.4)), (0.04, 0.03, 0.02), 0.2)
    held = model.holding(q=q)
    assert held.constraint_names == ("body 1", "body 2", "body 3", "body 4")
    forces = held.constraint_forces(q, np.zeros(6))
    assert np.allclose(sum(wrench[:3] for wrench in forces.values()), [0.0, 0.0, 2.0 * G])
    assert np.allclose(held.acceleration(q, np.zeros(6)), 0.0, atol=1e-9)


def test_contacts_that_do_not_touch_are_not_held() -> None:
    model, q = standing(ht.Sphere(0.1), (0.01, 0.01, 0.01), 0.15)
    with pytest.raises(ModelError, match=r"0\.05 m"):
        model.holding("body", q=q)
    with pytest.raises(ModelError, match="no rigid contact"):
        model.holding(q=q)
    with pytest.raises(UnknownNameError, match="foot"):
        model.holding("foot", q=q)


def test_a_configuration_that_penetrates_is_not_held() -> None:
    model, q = standing(ht.Points([(0.0, 0.0, -0.4)]), (0.1, 0.1, 0.02), 0.37)
    with pytest.raises(ModelError, match=r"'body' penetrates.* 0\.03 m"):
        model.holding(q=q)
    assert model.holding(q=q, within=0.05).constraint_names == ("body",)


def test_forces_that_are_not_unique_are_named() -> None:
    model, q = standing(ht.Box((0.2, 0.3, 0.4)), (0.04, 0.03, 0.02), 0.2)
    assert len(model.holding(q=q).redundant_constraints(q)) == 4
    model, q = standing(ht.Points([(0.0, 0.0, -0.4)]), (0.1, 0.1, 0.02), 0.4)
    assert model.holding(q=q).redundant_constraints(q) == ()
    assert model.redundant_constraints(q) == ()


@pytest.mark.thorough
def test_a_regulator_of_the_held_model_balances_the_free_one() -> None:
    """A pole with a reaction wheel stands on its tip: the law of the held model on the model with rigid contact, which neither slides nor lifts."""
    system = ht.System(name="pole")
    plane = se3.pose(so3.rotation_about("x", np.pi / 2), np.zeros(3))  # x and z of the world
    system.body("pole", at=plane, joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.05, 0.05, 0.05)))
    wheel = ht.Inertia(0.5, moment_at_com=(2e-3, 2e-3, 4e-3))
    system.body("wheel", parent="pole", at=(0.0, 0.2, 0.0), joint=ht.Revolute("z"), inertia=wheel)
    system.ground(friction=0.8)
    system.contact("pole", "ground", ht.Points([(0.0, -0.3, 0.0)]))
    system.input("motor", ht.JointForce("wheel"))
    model = system.derive()
    q = np.array([0.0, 0.3, 0.0, 0.0])
    held = model.holding("pole", q=q)
    assert np.allclose(ht.control.equilibrium(held, q).u, 0.0, atol=1e-9)
    law = ht.control.lqr(held, q, ignore=("wheel",))
    tilt = 0.02
    start = np.array([-0.3 * np.sin(tilt), 0.3 * np.cos(tilt), tilt, 0.0])
    run = ht.simulate(model, (start, np.zeros(4)), 4.0, 1e-3, "moreau", control=law, hold="continuous")
    assert run.outcome.ok
    assert abs(run.q[-1, 2]) < 2e-3
    foot = run.q[:, 0] + 0.3 * np.sin(run.q[:, 2])
    assert np.max(np.abs(foot)) < 1e-6


@pytest.mark.thorough
def test_a_hop_is_planned_in_phases_of_a_held_foot() -> None:
    """The planned force of the ground is that of the held model, and the model with rigid contact lifts off when the plan does."""
    page = (Path(__file__).parents[2] / "docs" / "plan" / "problems.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("<!-- example: plan-hop -->")[1].split("```")[1].removeprefix("python"), names)
    plan, real = names["hop"], names["hopper"](False)
    held = real.holding(q=np.array([0.5, 0.0]))
    nodes = np.flatnonzero(plan.times < plan.phase_times[0] - 1e-9)
    pushed = [held.constraint_forces(plan.q[k], plan.v[k], plan.u[k, :1])["foot"][2] for k in nodes]
    np.testing.assert_allclose(pushed, plan.u[nodes, 1], rtol=1e-6)

    def samples(t: np.ndarray) -> np.ndarray:
        return np.stack([np.interp(t, plan.times, x) for x in (plan.u[:, 0], plan.q[:, 1], plan.v[:, 1])], axis=-1)

    def law(q, v, signal):
        return signal[:1] - 400.0 * (q[1] - signal[1]) - 20.0 * (v[1] - signal[2])

    servo = ht.Feedback(law, ("q", "v", "signal"), signal_size=3, samples=samples)
    run = ht.simulate(real, ([0.5, 0.0], [0.0, 0.0]), 0.6, 5e-4, "moreau", control=servo)
    assert run.outcome.ok
    assert run.contacts["foot"].liftoffs[0] == pytest.approx(plan.phase_times[0], abs=1e-3)
    assert np.max(run.q[:, 0]) == pytest.approx(np.max(plan.q[:, 0]), abs=0.01)
