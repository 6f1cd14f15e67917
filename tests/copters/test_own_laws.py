"""Flights with a user-defined controller instead of a name."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop import control
from heavytop.copters import agile_prototype, fly, maneuvers, quadcopter
from heavytop.errors import ControlError, UnknownNameError


@pytest.fixture(scope="module")
def craft():
    return quadcopter()


@pytest.mark.thorough
def test_the_named_law_given_as_an_object_flies_the_same(craft) -> None:
    hover = maneuvers.hover(craft, duration=0.3)
    start = craft.model.neutral(), np.array([0.5, 0, 0, 0, 0, 0.2])
    named = fly(craft, hover, "energy", start=start)
    own = fly(craft, hover, craft.law("energy"), start=start)
    assert np.array_equal(named.run.q, own.run.q)
    assert (own.law, own.limits, own.integral) == ("energy", True, False)


@pytest.mark.thorough
def test_a_function_makes_the_law_for_the_vehicle(craft) -> None:
    flight = fly(craft, "looping", lambda v: control.energy_law(v.model, agile_prototype(4.0, 15.0)), wind=2.0)
    assert flight.run.outcome.ok
    assert not flight.limits
    assert flight.position_error.max() < 0.5


@pytest.mark.thorough
def test_predictive_control_flies(craft) -> None:
    ahead = control.mpc(craft.model, limits=(0.0, 6.0))
    start = craft.model.neutral(), np.array([0.5, 0, 0, 0, 0, 0])
    flight = fly(craft, maneuvers.hover(craft, duration=4.0), ahead, start=start, step=0.01)
    assert flight.law == "Predictive"
    assert flight.position_error[-1] < 0.02


def test_invalid_laws_raise(craft) -> None:
    with pytest.raises(UnknownNameError, match="unknown law 'enrgy'"):
        fly(craft, "hover", "enrgy")
    with pytest.raises(ControlError, match="law must be a controller"):
        fly(craft, "hover", 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ControlError, match="function law"):
        fly(craft, "hover", lambda v: 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ControlError, match="integral="):
        fly(craft, "hover", craft.law(), integral=True)
