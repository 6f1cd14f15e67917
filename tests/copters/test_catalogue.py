"""Airframes from TOML: numbers of the published vehicles, and errors with the line of the mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heavytop.copters import Propulsion, fly, load, quadcopter
from heavytop.copters.catalogue import airframes, names
from heavytop.copters.catalogue.toml_airframe import read_airframe
from heavytop.copters.propulsion import TYPICAL_LAG
from heavytop.errors import FileFormatError, ModelError, UnknownNameError

GOOD = """name = "small"
mass = 0.5
moment = [
  0.003, 0.003,  # x, y
  0.006,
]

[rotors]
thrust_coefficient = 5e-6
torque_coefficient = 1e-7
speed = [0.0, 1400.0]

[[rotor]]
at = [0.1, 0.0, 0.0]
torque = 1

[[rotor]]
at = [0.0, 0.1, 0.0]
torque = -1

[[rotor]]
at = [-0.1, 0.0, 0.0]
torque = 1

[[rotor]]
at = [0.0, -0.1, 0.0]
torque = -1
"""


def test_catalogue() -> None:
    assert airframes() == ("crazyflie", "hummingbird", "racer")
    assert {"quadcopter", "tricopter-with-load-full", "crazyflie"} <= set(names())
    hummingbird = load("hummingbird")
    assert hummingbird.airframe.thrust_range == pytest.approx((0.0, 5.57e-6 * 1500**2))
    assert hummingbird.airframe.rotors[0].drag_ratio == pytest.approx(1.36e-7 / 5.57e-6)
    ratio = {name: load(name).airframe.thrust_range[1] * 4 / (load(name).mass * 9.81) for name in airframes()}
    assert ratio == pytest.approx({"crazyflie": 2.09, "hummingbird": 10.2, "racer": 6.64}, rel=0.01)


def test_a_file_describes_a_vehicle(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(GOOD, encoding="utf-8")
    craft = load(path)
    path.rename(tmp_path / "SMALL.TOML")
    assert craft.name == load(tmp_path / "SMALL.TOML").name == "small"
    assert craft.limits.bounds(craft.model)[1] == pytest.approx(np.full(4, 5e-6 * 1400**2))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mass = 0.5", "mas = 0.5", r"x.toml, line 2: unknown key 'mas'. Did you mean 'mass'\?"),
        ("mass = 0.5", "mass = -1", r"x.toml, line 2: 'mass' must be a positive number \(kg\), got -1"),
        (
            "speed = [0.0, 1400.0]",
            "speed = [0.0, 140.0]",
            r"x.toml, line 11: .* 0.392 N .* 4.91 N: it cannot fly",
        ),
        ("speed = [0.0, 1400.0]", "speed = [1400.0, 0.0]", r"x.toml, line 11: 'speed' must be \[least, largest\]"),
        (
            "at = [0.0, 0.1, 0.0]\ntorque = -1",
            "at = [0.0, 0.1]\ntorque = -1",
            r"x.toml, line 18: 'at' must be three numbers",
        ),
        (
            "at = [0.0, 0.1, 0.0]\ntorque = -1",
            "torque = -1",
            r"x.toml, line 17: \[\[rotor\]\] number 2 needs the key 'at'",
        ),
        ("thrust_coefficient = 5e-6\n", "", r"x.toml, line 8: \[rotors\] needs the key 'thrust_coefficient'"),
        ("torque_coefficient = 1e-7", "torque_coefficient = ", r"x.toml is not TOML: Invalid value \(at line 10"),
        ("0.006,", "0.6,", r"x.toml, line 3: .*inertia"),
        ('name = "small"\n', "", r"x.toml: an airframe needs the key 'name'"),
    ],
)
def test_mistakes_are_named_with_their_line(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(FileFormatError, match=message):
        read_airframe(GOOD.replace(old, new, 1), "x.toml")


def test_missing_vehicles_are_named() -> None:
    with pytest.raises(UnknownNameError, match="unknown vehicle 'crazyfly'. Did you mean 'crazyflie'"):
        load("crazyfly")
    with pytest.raises(FileFormatError, match=r"cannot read the airframe 'nowhere.toml'"):
        load("nowhere.toml")


@pytest.mark.parametrize("line", ["", "time_constant = 0.0", "time_constant = 1e-5"])
@pytest.mark.thorough
def test_motors_without_a_lag_fly_with_rotors(line: str) -> None:
    """Missing data are typical ones; motors faster than the steps do not diverge."""
    craft = read_airframe(GOOD.replace("speed = [0.0, 1400.0]", f"speed = [0.0, 1400.0]\n{line}"))
    assert craft.propulsion is not None
    assert craft.propulsion.lag == pytest.approx(0.001 if line else TYPICAL_LAG)
    flight = fly(craft, "hover", rotors=True, until=0.5)
    assert flight.outcome.ok
    assert flight.position_error.max() < 1e-3


def test_impossible_numbers_raise() -> None:
    wrong = "parasitic_drag = [-1.0, 0.0, 0.0]\n" + GOOD
    with pytest.raises(FileFormatError, match=r"line 1: 'parasitic_drag' must be three non-negative numbers"):
        read_airframe(wrong)
    with pytest.raises(ModelError, match=r"rotor_drag of a propulsion must not be negative, got -1"):
        Propulsion(1e-5, 1e-7, (0.0, 1000.0), rotor_drag=-1.0)
    with pytest.raises(ModelError, match=r"the mass of 'quadcopter' must be a positive number \(kg\), got 0"):
        quadcopter(mass=0.0)
