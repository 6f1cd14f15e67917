"""Vehicles that touch the ground: landing, take-off, skids of a description."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.control import Reference
from heavytop.copters import Skids, fly, maneuvers, quadcopter
from heavytop.copters.maneuvers import suited
from heavytop.errors import ControlError, FileFormatError, ModelError

TOML = """
name = "lander"
mass = 0.9
moment = [0.006, 0.006, 0.011]
[rotors]
thrust_coefficient = 8e-6
torque_coefficient = 1.2e-7
speed = [0.0, 1000.0]
[skids]
points = [[0.1, 0.1, -0.15], [-0.1, 0.1, -0.15], [-0.1, -0.1, -0.15], [0.1, -0.1, -0.15]]
radius = 0.008
friction = 0.7
restitution = [0.1, 0.5]
"""
ROTORS = "".join(
    f"[[rotor]]\nat = [{x}, {y}, 0.0]\ntorque = {s}\n"
    for x, y, s in ((0.2, 0, 1), (0, 0.2, -1), (-0.2, 0, 1), (0, -0.2, -1))
)


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lander.toml"
    path.write_text(text)
    return path


@pytest.mark.thorough
def test_a_quadcopter_lands_and_stands() -> None:
    """At rest the skids carry the part of the weight that the rotors do not, and the hull is level at the height of the springs."""
    craft = quadcopter()
    flight = fly(craft, "landing")
    assert flight.outcome.ok
    skids = flight.run.contacts["skids"]
    assert 2.0 < skids.touchdowns[0] < 4.5
    assert np.max(np.abs(flight.run.v[-1])) < 1e-6
    carried = skids.force[-1]
    np.testing.assert_allclose(carried + [0, 0, flight.thrusts[-1].sum() - craft.weight], 0.0, atol=1e-6)
    assert carried[2] > 0.2 * craft.weight
    pose = flight.pose()[-1]
    # Hertz: the depth under the whole weight is 1 mm
    risen = 1e-3 * (1 - (carried[2] / craft.weight) ** (2 / 3))
    assert pose[2, 3] == pytest.approx(craft.landing_gear.height(craft.weight) + risen, abs=1e-6)
    np.testing.assert_allclose(pose[:3, :3], np.eye(3), atol=1e-6)
    assert flight.run.invariants["energy"].relative < 1e-3


@pytest.mark.thorough
def test_take_off_and_landing_of_a_described_vehicle_with_rotors(tmp_path: Path) -> None:
    craft = ht.copters.load(file(tmp_path, TOML + ROTORS))
    assert craft.skids is not None
    up = fly(craft, maneuvers.takeoff(craft, height=2.0), rotors=True)
    assert up.outcome.ok
    assert up.pose()[0, 2, 3] == pytest.approx(0.157, abs=1e-3)
    assert up.pose()[-1, 2, 3] == pytest.approx(2.157, abs=2e-2)
    down = fly(craft, maneuvers.landing(craft, height=2.0, duration=3.0), rotors=True)
    assert down.pose()[-1, 2, 3] == pytest.approx(0.158, abs=2e-3)
    assert np.max(np.abs(down.run.v[-1, :6])) < 1e-3


def test_plausible_mistakes(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="friction"):
        ht.copters.load(file(tmp_path, TOML.replace("friction = 0.7", "friction = -0.7") + ROTORS))
    with pytest.raises(ModelError, match="three or more"):
        Skids([(0, 0, -0.1), (0.1, 0, -0.1)])
    assert "landing" not in suited(ht.copters.tricopter_with_load_full())


@pytest.mark.thorough
def test_takeoff_way_and_landing_in_one_flight() -> None:
    craft = quadcopter()
    up = maneuvers.takeoff(craft, height=1.0, at=(0.5, 0.0))
    here = up(up.duration)[0][:3]
    np.testing.assert_allclose(here, [0.5, 0.0, craft.standing_height + 1.0])
    there = here + [1.0, -0.5, 0.2]
    down = maneuvers.landing(craft, height=1.2, at=there[:2])
    whole = maneuvers.sequence(up, maneuvers.waypoints(craft, [here, there]), down)
    assert whole.grounded
    assert np.array_equal(whole.start[0], up.start[0])
    assert [label for _, label in whole.moments if label in ("waypoints", "landing")] == ["waypoints", "landing"]
    flight = fly(craft, whole)
    assert flight.outcome.ok
    skids = flight.run.contacts["skids"]
    assert skids.force[0, 2] > 0
    assert np.all(skids.force[np.searchsorted(flight.t, up.duration)] == 0)
    np.testing.assert_allclose(flight.pose()[-1, :3, 3], [*there[:2], craft.standing_height], atol=5e-3)
    with pytest.raises(ControlError, match="do not meet: '.*' is .* at the end of reference"):
        maneuvers.sequence(up, down)
    with pytest.raises(ControlError, match=r"maneuvers\.sequence"):
        fly(craft, [up, down])
    with pytest.raises(ControlError, match="over the ground"):
        control.sequence(up, whole)
    with pytest.raises(ControlError, match="at least one maneuver"):
        maneuvers.sequence(Reference.set_point(craft.model))
    climb = maneuvers.waypoints(craft, [here, there])
    plain = Reference(climb.model, climb, duration=climb.duration)
    assert maneuvers.sequence(up, plain, down).duration == whole.duration


@pytest.mark.thorough
def test_errors_on_the_ground_do_not_include_press() -> None:
    craft = quadcopter()
    flight = fly(craft, maneuvers.takeoff(craft, duration=2.0), until=0.4, step=2e-3)
    assert flight.desired[0, 2] == pytest.approx(craft.standing_height - 1.0)
    assert flight.position_error.max() < 2e-3
    swept = ht.sweep(craft, {"seed": [0]}, maneuver=flight.maneuver, until=0.4, integrator="ros2")
    assert swept.position_error_max.values[0] < 2e-3


def test_a_start_below_the_ground_is_named() -> None:
    craft = quadcopter()
    low = maneuvers.Maneuver(craft, maneuvers.hover(craft), "low", 1.0, grounded=True)
    with pytest.raises(ControlError, match=r"0\.11 m below.*standing"):
        fly(craft, low)


@pytest.mark.thorough
def test_a_reference_and_a_plan_are_flown() -> None:
    craft = quadcopter()
    still = fly(craft, Reference.set_point(craft.model), until=0.05, step=0.01)
    assert still.maneuver.name == "reference"
    assert still.position_error.max() < 1e-9
    with pytest.raises(ControlError, match="another model"):
        fly(craft, Reference.set_point(ht.library.pendulum().derive()))
    with pytest.raises(ControlError, match="Reference or a Plan.*int"):
        fly(craft, 3)  # pyright: ignore[reportArgumentType]


@pytest.mark.thorough
def test_a_plan_is_flown() -> None:
    craft = quadcopter()
    goal = craft.model.neutral()
    goal[0] = 0.5
    plan = ht.plan(craft.model, (craft.model.neutral(), np.zeros(6)), (goal, np.zeros(6)), duration=1.5, steps=15)
    flight = fly(craft, plan)
    assert flight.maneuver.name == "plan"
    assert flight.t[-1] == pytest.approx(plan.duration)
    assert flight.position_error.max() < 0.01
