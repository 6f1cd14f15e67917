"""The cockpit serves this machine by default, and rejects NaN."""

import numpy as np
import pytest

from heavytop.control import ConstantWind
from heavytop.copters.live import LiveFlight
from heavytop.errors import ShapeError, SimulationError
from heavytop.show import Cockpit


def test_other_machines_need_an_option() -> None:
    with pytest.raises(SimulationError, match="--network"):
        Cockpit(host="0.0.0.0")


@pytest.mark.thorough
def test_numbers_must_be_finite() -> None:
    flight = LiveFlight("quadcopter", background=False)
    with pytest.raises(ShapeError, match="wind must be finite"):
        flight.wind(ConstantWind((np.nan, 0.0, 0.0)))
    with pytest.raises(ShapeError, match="yaw must be finite"):
        flight.set_point((0.0, 0.0, 1.0), np.inf)
    with pytest.raises(ShapeError, match="gains must be finite"):
        flight.gains({"position": np.nan})
