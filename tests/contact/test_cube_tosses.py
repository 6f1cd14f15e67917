"""Real tosses of a cube (ContactNets, BSD-3), predicted with parameters that ``benchmarks/cube_tosses.py`` fitted on 50 others."""

from __future__ import annotations

from functools import cache

import cube_tosses
import numpy as np
import pytest
from cube_tosses import ENGINES, Engine, Toss

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not cube_tosses.DATA.is_dir(), reason="no measurements"),
]

FITTED = {
    "heavytop": {"friction": 0.1693, "restitution": 0.0221, "moment": 2.419},
    "heavytop-compliant": {"friction": 0.1695, "stiffness": 10140.0, "hysteresis": 5.331, "moment": 1.879},
    "mujoco": {"friction": 0.1706, "stiffness": 2529.0, "damping": 348.5, "moment": 1.66},
}


@cache
def others() -> list[Toss]:
    """The tosses that were not fitted."""
    return cube_tosses.split(cube_tosses.load())[1]


@cache
def median(name: str) -> np.ndarray:
    """Median errors of position in mm and angle in degrees."""
    engine: Engine = ENGINES[name]()
    return np.median(cube_tosses.errors(engine, FITTED[name], others()), axis=0) * [1e3, np.rad2deg(1.0)]


@pytest.mark.parametrize("name", ["heavytop", "heavytop-compliant"])
def test_tosses_are_predicted(name: str) -> None:
    """A tenth of the edge of 104.8 mm, and less than 8 degrees, over whole tosses with several impacts."""
    position, angle = median(name)
    assert position < 10.5
    assert angle < 8.0


def test_the_prediction_depends_on_the_friction() -> None:
    worse = FITTED["heavytop"] | {"friction": 0.35}
    error = np.median(cube_tosses.errors(ENGINES["heavytop"](), worse, others()), axis=0)
    assert 1e3 * error[0] > 1.5 * median("heavytop")[0]


@pytest.mark.peers
def test_tosses_are_predicted_as_closely_as_by_mujoco() -> None:
    pytest.importorskip("mujoco")
    assert np.all(median("heavytop-compliant") <= median("mujoco"))
