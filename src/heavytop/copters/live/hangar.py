"""The vehicles a cockpit offers: those of the catalogue."""

from __future__ import annotations

from heavytop.copters import catalogue
from heavytop.copters.vehicle import Vehicle


def vehicle_names() -> tuple[str, ...]:
    """Names of the vehicles to choose from; those that differ only in the plant of ``heavytop fly`` are left out."""
    return tuple(name for name in catalogue.names() if not name.endswith("-full"))


def build_vehicle(vehicle: str | Vehicle) -> Vehicle:
    """The vehicle of a name or TOML file, or the vehicle itself.

    >>> build_vehicle("quadcopter").model.nu
    4
    """
    return vehicle if isinstance(vehicle, Vehicle) else catalogue.load(vehicle)
