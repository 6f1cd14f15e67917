"""Payloads, hover times, and tables of flights."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from heavytop import copters
from heavytop.errors import FileFormatError, ModelError

QUAD = copters.quadcopter()


def test_lift_and_power_of_hovering_in_closed_form() -> None:
    assert copters.lifted_payload(QUAD) == pytest.approx(4 * 6.0 / 9.81 - 0.9)
    bird = copters.load("hummingbird")
    p, thrust = bird.propulsion, (bird.mass + 0.1) * 9.81 / 4
    assert p is not None
    power = 4 * p.torque_coefficient * (thrust / p.thrust_coefficient) ** 1.5
    assert copters.hover_power(bird, payload=0.1, efficiency=1.0) == pytest.approx(power)
    assert copters.hover_time(bird, energy=2 * power, payload=0.1, efficiency=0.5) == pytest.approx(1.0)
    with pytest.raises(ModelError, match="efficiency"):
        copters.hover_power(bird, efficiency=0.0)


@pytest.mark.thorough
def test_the_largest_payload_is_the_edge() -> None:
    hover = copters.maneuvers.hover(QUAD, duration=0.6)
    found = copters.largest_payload(QUAD, hover, error=0.1, step=0.01)
    for payload, inside in ((0.99 * found, True), (1.02 * found, False)):
        flight = copters.fly(QUAD, hover, payload=payload, step=0.01)
        assert (flight.position_error.max() <= 0.1) == inside
    assert copters.largest_payload(QUAD, hover, error=1e-12, step=0.01, wind=3.0) == 0.0


@pytest.mark.thorough
def test_tables_have_the_same_columns_with_and_without_rotors(tmp_path: Path) -> None:
    hover = copters.maneuvers.hover(QUAD, duration=0.05)
    names = []
    for rotors in (False, True):
        flight = copters.fly(QUAD, hover, rotors=rotors, wind=1.0)
        flight.save(tmp_path / "a.csv", every=20)
        with open(tmp_path / "a.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["time"]) for row in rows] == pytest.approx([0.0, 0.02, 0.04, 0.05])
        assert float(rows[-1]["thrust0"]) == pytest.approx(flight.u[-1, 0], rel=1e-9)
        names.append([name for name in rows[0] if not name.startswith("rotors")])
        assert np.isclose(float(rows[-1]["hull.z"]), flight.run.q[-1, 2])
    assert names[0] == names[1]
    with pytest.raises(FileFormatError, match=r"\.csv"):
        flight.save(tmp_path / "a.nc", every=2)
