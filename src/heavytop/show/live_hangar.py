"""The vehicles a cockpit offers, by name."""

from __future__ import annotations

from collections.abc import Callable

from heavytop import copters
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import unknown_name

VEHICLES: dict[str, Callable[[], Vehicle]] = {
    "quadcopter": copters.quadcopter,
    "hexacopter": copters.hexacopter,
    "octocopter": copters.octocopter,
    "tricopter": copters.tricopter,
    "bicopter": copters.bicopter,
    "quadcopter_with_load": copters.quadcopter_with_load,
    "tricopter_with_load": copters.tricopter_with_load,
}


def vehicle_names() -> tuple[str, ...]:
    """Names that :func:`build_vehicle` knows."""
    return tuple(VEHICLES)


def build_vehicle(vehicle: str | Vehicle) -> Vehicle:
    """The vehicle of a name, or the vehicle itself.

    >>> build_vehicle("quadcopter").model.nu
    4
    """
    if isinstance(vehicle, Vehicle):
        return vehicle
    name = vehicle.strip().lower().replace("-", "_")
    if name not in VEHICLES:
        raise unknown_name("vehicle", vehicle, VEHICLES)
    return VEHICLES[name]()
