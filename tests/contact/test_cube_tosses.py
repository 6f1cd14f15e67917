"""Real tosses of a cube (ContactNets, BSD-3), predicted with parameters that ``benchmarks/cube_tosses.py`` fitted on 50 others."""

from __future__ import annotations

from functools import cache

import cube_tosses
import numpy as np
import pytest
from cube_tosses import ENGINES, Engine, Setup, Toss

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not cube_tosses.DATA.is_dir(), reason="no measurements"),
]

FITTED = {
    "heavytop": {"friction": 0.1807, "restitution": 0.2142, "moment": 1.677},
    "heavytop-compliant": {"friction": 0.1747, "stiffness": 29360.0, "hysteresis": 4.503, "moment": 1.63},
    "mujoco": {"friction": 0.1758, "stiffness": 2905.0, "damping": 460.1, "moment": 1.913},
}


@cache
def tosses() -> tuple[list[Toss], list[Toss]]:
    """Those that were fitted, and the others."""
    known, others = cube_tosses.split(cube_tosses.load())
    return known, others


@cache
def setup() -> Setup:
    return Setup.of(tosses()[0])


@cache
def median(name: str) -> np.ndarray:
    """Median errors of position in mm and angle in degrees."""
    engine: Engine = ENGINES[name](setup())
    return np.median(cube_tosses.errors(engine, FITTED[name], tosses()[1]), axis=0) * [1e3, np.rad2deg(1.0)]


def test_the_setup_is_measured_in_flight() -> None:
    """Gravity to 3 % (scale of the data), the mass centre 5 mm away from the centre of the cube, corners of 2 mm."""
    found = setup()
    assert abs(found.gravity[2] + 9.6) < 0.1
    assert np.linalg.norm(found.gravity[:2]) < 0.05
    assert 3e-3 < found.mass_centre[2] < 7e-3
    assert 1e-3 < found.radius < 4e-3


@pytest.mark.parametrize("name", ["heavytop", "heavytop-compliant"])
def test_tosses_are_predicted(name: str) -> None:
    """8 % of the edge of 104.8 mm, and less than 7 degrees, over whole tosses with several impacts."""
    position, angle = median(name)
    assert position < 8.5
    assert angle < 7.0


def test_the_prediction_depends_on_the_friction() -> None:
    worse = FITTED["heavytop"] | {"friction": 0.35}
    error = np.median(cube_tosses.errors(ENGINES["heavytop"](setup()), worse, tosses()[1]), axis=0)
    assert 1e3 * error[0] > 1.5 * median("heavytop")[0]


@pytest.mark.peers
def test_tosses_are_predicted_as_closely_as_by_mujoco() -> None:
    pytest.importorskip("mujoco")
    assert np.all(median("heavytop-compliant") <= median("mujoco"))
