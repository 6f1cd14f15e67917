"""Where flights of a stack take place: a point of the Earth, from which positions and pressures of sensors follow."""

from __future__ import annotations

from math import cos, degrees, radians

HOME = (47.397742, 8.545594, 488.0)
"""Latitude and longitude in degrees, altitude in m, of the origin of world axes: x north, y west, z up."""
EARTH = 6378137.0
"""Radius in m."""
NORTH, EAST = degrees(1.0 / EARTH), degrees(1.0 / (EARTH * cos(radians(HOME[0]))))
"""Degrees of latitude and longitude per m."""


def place_on_earth(position: tuple[float, float, float]) -> tuple[float, float, float]:
    """Latitude and longitude in degrees and altitude in m of a position in world axes, m.

    >>> place_on_earth((0.0, 0.0, 2.0))
    (47.397742, 8.545594, 490.0)
    """
    x, y, z = position
    return HOME[0] + x * NORTH, HOME[1] - y * EAST, HOME[2] + z


def pressure_at(altitude: float) -> float:
    """Pressure (Pa) of the standard atmosphere at an altitude (m).

    >>> round(pressure_at(0.0))
    101325
    """
    return 101325.0 * (1.0 - 2.25577e-5 * altitude) ** 5.25588
