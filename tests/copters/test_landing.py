"""Vehicles that touch the ground: landing, take-off, skids of a description."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.copters import Skids, fly, maneuvers, quadcopter
from heavytop.copters.maneuvers import suited
from heavytop.errors import FileFormatError, ModelError

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
