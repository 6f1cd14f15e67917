"""Laws that read contact forces: rigid ones of the step before, compliant ones of the state; touch-down and lift-off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import HeavytopError, ModelError, SimulationError
from heavytop.simulate import contact_events

MASS, G = 2.0, 9.81


def leg(**contact: Any) -> ht.Model:
    """A hull on a sliding leg with a motor, above a ground."""
    system = ht.System(name="leg")
    system.body("hull", joint=ht.Prismatic("z"), inertia=ht.Inertia(MASS))
    system.body("shank", parent="hull", joint=ht.Prismatic("z"), inertia=ht.Inertia(0.2))
    system.ground(friction=0.6)
    system.contact("shank", "ground", ht.Sphere(0.02), at=(0, 0, -0.5), name="foot", **contact)
    system.input("motor", ht.JointForce("shank"))
    return system.derive()


def reading(hold: float = 4.0) -> ht.Feedback:
    """Presses only while the foot feels more than half a newton."""

    def law(q, v, contacts):
        force = -60.0 * q[1] - 6.0 * v[1]
        return {"u": ht.vector(force - hold * np.where(contacts[2] > 0.5, 1.0, 0.0)), "felt": contacts}

    return ht.Feedback(law, ("q", "v", "contacts"))


START = np.array([0.6, 0.0]), np.zeros(2)


@pytest.mark.parametrize(
    "contact",
    [
        pytest.param({}, id="rigid"),
        pytest.param({"stiffness": 1e6, "restitution": 0.2}, id="compliant", marks=pytest.mark.thorough),
    ],
)
def test_a_law_feels_its_foot(contact: dict[str, Any]) -> None:
    model = leg(**contact)
    assert model.sensed_contacts == ("foot",)
    method, step = ("ros2", 2e-4) if contact else ("moreau", 1e-3)
    run = ht.simulate(model, START, 2.0, step, method, control=reading())
    assert run.outcome.ok
    felt, foot = run.channels["felt"], run.contacts["foot"]
    if contact:  # those of the state
        np.testing.assert_allclose(felt, foot.force, atol=1e-9)
    else:  # one step late
        np.testing.assert_allclose(felt[1:], foot.force[1:], atol=1e-9)
        assert np.all(felt[0] == 0.0)
    np.testing.assert_allclose(felt[-1], [0.0, 0.0, (MASS + 0.2) * G], rtol=1e-2, atol=1e-9)
    fall = np.sqrt(2 * (0.6 - 0.52) / G)
    assert foot.touchdowns[0] == pytest.approx(fall, abs=2 * step)
    pressed = run.u[:, 0] + 60.0 * run.q[:, 1] + 6.0 * run.v[:, 1]
    np.testing.assert_allclose(pressed, -4.0 * (felt[:, 2] > 0.5), atol=1e-9)


@pytest.mark.thorough
def test_batches_held_and_continuous_laws() -> None:
    model = leg()
    starts = np.array([[0.6, 0.0], [0.8, 0.0], [0.53, 0.0]]), np.zeros((3, 2))
    run = ht.simulate(model, starts, 0.5, 1e-3, "moreau", control=reading(), control_step=4e-3)
    alone = ht.simulate(model, tuple(x[1] for x in starts), 0.5, 1e-3, "moreau", control=reading(), control_step=4e-3)
    np.testing.assert_array_equal(run.u[:, 1], alone.u)
    smooth = ht.simulate(model, START, 0.5, 1e-3, "moreau", control=reading(), hold="continuous")
    assert smooth.outcome.ok
    assert smooth.channels["felt"][-1, 2] > 1.0


@pytest.mark.thorough
def test_lift_off_of_a_jump() -> None:
    model = leg()
    jump = ht.Feedback(lambda t, q, v: ht.vector(np.where(t < 0.1, -80.0, -300.0 * q[1] - 5.0 * v[1])), ("t", "q", "v"))
    run = ht.simulate(model, ([0.52, 0.0], [0.0, 0.0]), 1.0, 5e-4, "moreau", control=jump)
    foot = run.contacts["foot"]
    assert foot.liftoffs.size >= 1
    assert foot.touchdowns.size >= 1
    off = foot.liftoffs[0]
    assert np.all(foot.force[(run.t > off) & (run.t < foot.touchdowns[foot.touchdowns > off][0]), 2] == 0.0)


@pytest.mark.thorough
def test_plausible_mistakes() -> None:
    soft = leg(stiffness=1e6)
    with pytest.raises(SimulationError, match="contacts.*fixed step"):
        ht.simulate(soft, START, 0.1, 1e-3, "rkmk45", control=reading())
    bare = ht.System()
    bare.body("arm", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    bare.input("motor", ht.JointForce("arm"))
    with pytest.raises(HeavytopError, match=r"contacts"):
        ht.simulate(
            bare.derive(), ([0.0], [0.0]), 0.1, 1e-2, control=ht.Feedback(lambda contacts: contacts[:1], ("contacts",))
        )


@pytest.mark.thorough
def test_times_of_a_batch_are_rejected() -> None:
    model = leg()
    starts = np.array([[0.55, 0.0], [0.6, 0.0]]), np.zeros((2, 2))
    foot = ht.simulate(model, starts, until=0.2, step=1e-2, integrator="moreau").contacts["foot"]
    assert foot.closed.shape == (21, 2)
    with pytest.raises(SimulationError, match="'foot' .* batch"):
        _ = foot.touchdowns


def test_events_of_contacts() -> None:
    """Touch-down and lift-off of each trajectory at their own times: free fall, and a deck that is pulled away."""
    system = ht.System(name="ball")
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.ground(friction=0.0)
    system.contact("ball", "ground", ht.Sphere(0.1), restitution=system.parameter("restitution", 0.5))
    model = system.derive()
    heights = np.array([[1.1], [0.6]])
    events = contact_events(model, gap=2e-3)
    run = ht.simulate(model, (heights, np.zeros((2, 1))), 0.6, 1e-3, "moreau", events=events)
    for k, h in enumerate((1.0, 0.5)):
        own = [event for event in run.events if event.trajectory == (k,)]
        assert [event.name for event in own[:2]] == ["ball touches down", "ball lifts off"]
        assert own[0].time == pytest.approx(np.sqrt(2 * (h - 2e-3) / 9.81), abs=1e-7)
    with pytest.raises(ModelError, match="'ball' has restitution"):
        contact_events(model)
    with pytest.raises(ModelError, match="cube"):
        contact_events(model, "cube")

    soft = ht.System(name="soft")
    soft.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    soft.ground(friction=0.0)
    soft.contact("ball", "ground", ht.Sphere(0.1), stiffness=1e6)
    run = ht.simulate(
        soft.derive(), ([1.1], [0.0]), 1.0, 1e-4, "rkmk4", events=contact_events(soft.derive(), terminal=True)
    )
    assert run.outcome.time == pytest.approx(np.sqrt(2 / 9.81), abs=1e-6)
    assert run.q[-1, 0] == pytest.approx(0.1 + 1e-6, abs=1e-9)
