"""Maneuvers: exactly feasible, within limits, smooth, and rejected for vehicles that cannot fly them."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from heavytop.copters import bicopter, maneuvers, quadcopter, quadcopter_with_load, tricopter, tricopter_with_load
from heavytop.copters.maneuvers import make, suited
from heavytop.copters.maneuvers.paths import eased
from heavytop.errors import ControlError, ShapeError, UnknownNameError

MAKERS = {
    "quadcopter": quadcopter,
    "tricopter": tricopter,
    "bicopter": bicopter,
    "load": quadcopter_with_load,
    "tricopter load": tricopter_with_load,
}


@cache
def vehicle(name: str):
    return MAKERS[name]()


QUICK = [
    ("quadcopter", name)
    for name in ("hover", "eight", "waypoints", "looping", "flip", "barrel-roll", "knife-edge", "recovery", "step")
]
QUICK += [("tricopter", name) for name in ("hover-roll", "level-loop", "knife-edge", "inverted", "eight")]
QUICK += [("bicopter", "looping"), ("load", "transport"), ("tricopter load", "transport")]


@pytest.mark.parametrize(("name", "maneuver"), QUICK)
def test_every_maneuver_is_feasible(name: str, maneuver: str) -> None:
    made = make(maneuver, vehicle(name))
    check = made.check()
    assert check.largest_residual < 1e-9
    assert check.outside == ()
    # velocities are the derivatives of the configuration
    t, h = np.linspace(0.1, made.horizon - 0.1, 23), 1e-5
    (before, *_), (after, *_), (q, v, _) = made(t - h), made(t + h), made(t)
    A = made.model.kinematics_matrix(q)
    np.testing.assert_allclose((after - before) / (2 * h), np.matvec(A, v), atol=2e-4 * (1 + np.abs(v).max()))


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_everything_that_suits_a_vehicle_is_feasible(name: str) -> None:
    for maneuver in suited(vehicle(name)):
        assert make(maneuver, vehicle(name)).check().largest_residual < 2e-6


@pytest.mark.parametrize("name", ["quadcopter", "tricopter", "bicopter"])
def test_inverted_flight_suits_those_that_can_fly_it(name: str) -> None:
    if "inverted" in suited(vehicle(name)):
        make("inverted", vehicle(name))
    else:
        with pytest.raises(ControlError):
            make("inverted", vehicle(name))


def test_looping_needs_the_known_thrusts() -> None:
    low, high = make("looping", vehicle("quadcopter")).thrusts()
    assert (low.min(), high.max()) == pytest.approx((2.157, 5.591), abs=2e-3)


def test_hover_roll_and_level_loop_need_the_known_thrusts() -> None:
    low, high = make("hover-roll", vehicle("tricopter")).thrusts()
    assert (low.min(), high.max()) == pytest.approx((3.68, 7.84), abs=0.01)
    low, high = make("level-loop", vehicle("tricopter")).thrusts()
    assert (low.min(), high.max()) == pytest.approx((1.68, 5.22), abs=0.01)


def test_flip_turns_once_and_ends_at_rest_at_its_height() -> None:
    flip = make("flip", vehicle("quadcopter"))
    q, v, _ = flip(flip.horizon)
    np.testing.assert_allclose(v, 0.0, atol=1e-9)
    assert q[2] == pytest.approx(0.0, abs=1e-9)
    upside_down = flip(np.linspace(0, flip.horizon, 400))[0][:, 11].min()
    assert upside_down < -0.99
    # rotors that push backwards bring it back to its place
    reversible = maneuvers.flip(quadcopter(thrust=(-6.0, 6.0)))
    np.testing.assert_allclose(reversible(reversible.horizon)[0][:3], 0.0, atol=1e-9)


def test_loopings_in_both_planes_turn_over() -> None:
    for plane in ("xz", "yz"):
        loop = maneuvers.looping(vehicle("quadcopter"), plane=plane)
        assert loop(1.8)[0][11] < -0.999
        assert loop.check().is_feasible(1e-9)
    with pytest.raises(ControlError, match="'xz' or 'yz'"):
        maneuvers.looping(vehicle("quadcopter"), plane="xy")


def test_transport_starts_with_a_swing_and_ends_at_the_goal() -> None:
    move = maneuvers.transport(vehicle("load"), to=(2.0, 1.0, 0.5), swing=0.3)
    q, _, _ = move(move.horizon)
    np.testing.assert_allclose(q[:3], (2.0, 1.0, 0.5), atol=1e-9)
    turned = move.start[0][-9:].reshape(3, 3).T
    assert np.arccos(turned[2, 2]) == pytest.approx(0.3)


def test_time_that_starts_and_stops_smoothly() -> None:
    clock = eased(6.0, 1.5)
    t = np.linspace(0, 6, 2001)
    rate = np.gradient(clock(t), t)
    assert rate[0] == pytest.approx(0, abs=1e-6)
    assert rate.max() == pytest.approx(1.0, abs=1e-6)
    assert rate.min() > -1e-9
    with pytest.raises(ControlError, match="above 3 s"):
        eased(2.0, 1.5)


@pytest.mark.parametrize(
    ("maneuver", "given", "said"),
    [
        ("waypoints", {"speed": 0}, "speed of waypoints must be a positive number, got 0."),
        ("waypoints", {"points": [(0, 0), (1, 1)]}, "points of waypoints must have shape (m + 1, 3), got (2, 2)."),
        ("waypoints", {"points": [(0, 0, 0), (1, 0, np.nan)]}, "points of waypoints must be finite"),
        ("eight", {"length": np.inf}, "length of eight must be a finite number, got inf."),
        ("circle", {"laps": -1}, "laps of circle must be a positive number, got -1."),
        ("helix", {"climb": np.nan}, "climb of helix must be a finite number, got nan."),
        ("hover", {"at": (1, 2)}, "at of hover must have shape (3,), got (2,)."),
        ("step", {"to": (1, 2, np.nan)}, "to of step must be finite"),
        ("looping", {"rest": -1.0}, "rest of looping must be a non-negative number, got -1.0."),
        ("flip", {"turn": 0}, "turn of flip must be a positive number, got 0."),
    ],
)
def test_invalid_numbers_raise_by_name(maneuver: str, given: dict, said: str) -> None:
    with pytest.raises((ControlError, ShapeError), match=re.escape(said)):
        getattr(maneuvers, maneuver)(vehicle("quadcopter"), **given)


def test_impossible_maneuvers_raise() -> None:
    with pytest.raises(UnknownNameError, match="unknown maneuver 'loping'. Did you mean 'looping'"):
        make("loping", vehicle("quadcopter"))
    with pytest.raises(ControlError, match="cannot fly 'hover-roll'. It can fly: hover, step"):
        make("hover_roll", vehicle("quadcopter"))
    with pytest.raises(ControlError, match="hover-roll needs a fully actuated vehicle"):
        maneuvers.hover_roll(vehicle("quadcopter"))
    with pytest.raises(ControlError, match="cannot push backwards"):
        maneuvers.inverted(vehicle("quadcopter"))
    with pytest.raises(ControlError, match="has no load to transport"):
        maneuvers.transport(vehicle("quadcopter"))
