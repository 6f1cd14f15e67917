"""A batch of flights as measures see it, and the usual measures of flights."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from heavytop.copters.flight import angle_between, desired_poses, distance_between, flown_poses
from heavytop.copters.maneuvers import Maneuver
from heavytop.copters.vehicle import Vehicle
from heavytop.simulate import Run
from heavytop.sweep.measure import Measured

NEAR, UPRIGHT = 0.3, np.deg2rad(15.0)
"""A flight has recovered if it ends so near to the reference (m) and turned away from it by less than that (rad)."""


class Flown:
    """A batch of flights as measures see it: the run, with the errors along the maneuver.

    Attributes of the run are attributes of it; ``flown["position_error"]`` and ``flown["attitude_error"]`` are (records, *batch).
    """

    def __init__(self, run: Run, vehicle: Vehicle, maneuver: Maneuver) -> None:
        self.run, self.vehicle, self.maneuver = run, vehicle, maneuver

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "run":
            raise AttributeError(name)
        return getattr(self.run, name)

    def __getitem__(self, name: str) -> np.ndarray:
        return getattr(self, name) if name in ("position_error", "attitude_error") else self.run[name]

    def with_run(self, run: Run) -> Flown:
        """Another run of the same flight."""
        return Flown(run, self.vehicle, self.maneuver)

    @cached_property
    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the hull and of its reference."""
        return flown_poses(self.vehicle, self.run), desired_poses(self.vehicle, self.maneuver, self.run)

    @cached_property
    def position_error(self) -> np.ndarray:
        """Distance of the hull from the reference, m."""
        return distance_between(*self._poses)

    @cached_property
    def attitude_error(self) -> np.ndarray:
        """Angle between the attitudes of hull and reference, rad."""
        return angle_between(*self._poses)

    @property
    def recovered(self) -> np.ndarray:
        """Whether the flight ends near the reference and upright."""
        return (self.position_error[-1] < NEAR) & (self.attitude_error[-1] < UPRIGHT)


def flight_measures(flown: Any) -> dict[str, Any]:
    """The usual measures: ``recovered``, and errors at the end and at most."""
    position = flown.position_error
    with np.errstate(invalid="ignore"):
        largest = np.fmax.reduce(position, axis=0)
    return {
        "recovered": flown.recovered,
        "position_error": Measured(position[-1], "m"),
        "position_error_max": Measured(largest, "m"),
        "attitude_error": Measured(flown.attitude_error[-1], "rad"),
    }
