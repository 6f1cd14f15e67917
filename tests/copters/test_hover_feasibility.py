"""Airframes with rotors that cannot carry or turn them raise errors that name the rotors; wind along a given velocity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app
from heavytop.control import Breeze
from heavytop.copters import Conditions, Rotor, fly, multicopter, quadcopter, ring
from heavytop.copters.catalogue.toml_airframe import read_airframe
from heavytop.copters.hover_feasibility import check_hover
from heavytop.errors import FileFormatError, ModelError

PLACES = [(0.2, 0, 0), (0, 0.2, 0), (-0.2, 0, 0), (0, -0.2, 0)]
AIRFRAME = """\
name = "own"
mass = 0.9
moment = [0.008, 0.008, 0.014]
[rotors]
thrust_coefficient = 6e-6
torque_coefficient = 1e-7
speed = [0.0, 1000.0]
"""


def rotors(signs: list[int], thrust: tuple[float, float] = (0.0, 6.0)) -> list[Rotor]:
    return [Rotor(at, drag_ratio=0.02 * sign, thrust=thrust) for at, sign in zip(PLACES, signs, strict=True)]


@pytest.mark.parametrize(
    ("signs", "advice"),
    [
        ([1, 1, 1, 1], "the torque of rotors 1, 2, 3, 4 is positive. Change the sign of rotors 2, 4: then they can"),
        (
            [1, 1, -1, -1],
            "rotors 1, 2 is positive, the torque of rotors 3, 4 is negative. Change the sign of rotors 2, 3",
        ),
        ([1, -1, 1, 1], "the torque of rotor 2 is negative. Change the sign of rotor 4: then they can"),
    ],
)
def test_spins_that_cannot_turn_the_hull_raise(signs: list[int], advice: str) -> None:
    with pytest.raises(ModelError, match=f"cannot turn it about z both ways .*{advice}"):
        multicopter(rotors(signs), 0.9, (0.008, 0.008, 0.014))
    file = AIRFRAME + "".join(
        f"[[rotor]]\nat = {list(map(float, at))}\ntorque = {sign}\n" for at, sign in zip(PLACES, signs, strict=True)
    )
    with pytest.raises(FileFormatError, match=f"airframe.toml, line 8: .*{advice}"):
        read_airframe(file)


def test_torques_of_an_inclined_rotor_are_those_about_the_centre_of_mass() -> None:
    """A rotor that is tilted across its arm turns the hull by its force: the message names the side to which it turns it."""
    craft = rotors([1, -1, 1, -1])
    x, y, _ = craft[0].at
    craft[0] = Rotor(craft[0].at, axis=(0.3 * np.sign(y), -0.3 * np.sign(x), 1.0), drag_ratio=0.02, thrust=(0.0, 6.0))
    with pytest.raises(ModelError, match=r"rotor 3 is positive, the torque of rotors 1, 2, 4 is negative"):
        multicopter(craft, 0.9, (0.008, 0.008, 0.014))


def test_rotors_that_cannot_carry_the_hull_raise() -> None:
    moment = (0.008, 0.008, 0.014)
    with pytest.raises(ModelError, match=r"at most 8 N of its weight of 8.829 N. Give them more thrust"):
        multicopter(rotors([1, -1, 1, -1], (0.0, 2.0)), 0.9, moment)
    with pytest.raises(ModelError, match=r"least thrusts lift 12 N, more than its weight"):
        multicopter(rotors([1, -1, 1, -1], (3.0, 6.0)), 0.9, moment)
    with pytest.raises(
        ModelError, match=r"at most 0 N .*centre of mass \(0.3, 0, 0\): rotor 1 at \(0.2, 0, 0\); rotor 2"
    ):
        multicopter(rotors([1, -1, 1, -1]), 0.9, moment, com=(0.3, 0, 0))


def test_the_remedy_of_missing_yaw_fits_its_cause() -> None:
    """The signs of the torques are right here."""
    moment = (0.008, 0.008, 0.014)
    with pytest.raises(ModelError, match="more thrust"):
        multicopter(rotors([1, -1, 1, -1], (0.0, 0.9 * 9.81 / 4)), 0.9, moment)
    with pytest.raises(ModelError, match="drag_ratio"):
        multicopter(ring(4, 5.0, drag_ratio=1e-4, thrust=(0.0, 6.0)), 0.9, moment)
    others = [Rotor((-0.1, 0.17 * s, 0), drag_ratio=0.02 * s, thrust=(0.0, 12.0)) for s in (1, -1)]
    front = Rotor((0.2, 0, 0), drag_ratio=0.02, thrust=(0.0, 12.0), tilt="x")
    with pytest.raises(ModelError, match="tilt rotors"):
        multicopter([front, *others], 0.9, moment)
    multicopter([replace(front, tilt="y"), *others], 0.9, moment)


@pytest.mark.thorough
def test_vehicles_that_fly_pass_in_all_units() -> None:
    for L, N in ((1.0, 1.0), (1e-4, 1e-9), (1e3, 1e6)):
        for count in (4, 6, 8):
            fine = ring(count, 0.3 * L, drag_ratio=0.02 * L, thrust=(0.0, 6.0 * N))
            check_hover("fine", fine, 9.0 * N)
            with pytest.raises(ModelError, match="cannot turn it"):
                check_hover("wrong", [replace(r, drag_ratio=0.02 * L) for r in fine], 9.0 * N)
    multicopter(rotors([0, 0, 0, 0]), 0.9, (0.008, 0.008, 0.014))  # spins are not checked
    multicopter(ring(3, 0.2, drag_ratio=0.02), 0.9, (0.008, 0.008, 0.014))  # three forces never turn it


@pytest.mark.thorough
def test_wind_blows_along_a_vector() -> None:
    times = np.linspace(0.0, 600.0, 5001)
    mean = np.mean(Breeze((0.0, -3.0, 1.0), 2).at(times), axis=0)
    np.testing.assert_allclose(mean, [0.0, -3.0, 1.0], atol=0.02)
    np.testing.assert_array_equal(Breeze(3.0, 2).at(times), Breeze((3.0, 0.0, 0.0), 2).at(times))
    assert Conditions(wind=(0, 0, 0)).calm
    run = [fly(quadcopter(), "hover", wind=w, until=1.0, integral=False).run.q[-1] for w in (3.0, (0.0, -3.0, 0.0))]
    assert run[0][0] > 0.01 > abs(run[1][0])
    assert run[1][1] < -0.01


@pytest.mark.parametrize("wrong", [-1.0, (1.0, 2.0), (1.0, np.nan, 0.0)])
def test_an_invalid_wind_raises(wrong: object) -> None:
    with pytest.raises(ht.errors.HeavytopError, match="wind of a flight"):
        Conditions(wind=wrong)


@pytest.mark.thorough
def test_the_shell_takes_a_velocity_of_the_wind(tmp_path) -> None:
    page = tmp_path / "flight.html"
    result = CliRunner().invoke(app, ["fly", "quadcopter", "hover", "--wind=-2,0,1", "--no-open", "--out", str(page)])
    assert result.exit_code == 0, result.output
    assert "wind (-2, 0, 1) m/s with gusts" in page.read_text()


@pytest.mark.parametrize("wrong", ["1,2", "a,b,c", "1,2,inf"])
def test_the_shell_rejects_an_invalid_wind(wrong: str) -> None:
    result = CliRunner().invoke(app, ["fly", "quadcopter", "hover", f"--wind={wrong}"])
    assert result.exit_code == 2
    assert "--wind" in result.output
