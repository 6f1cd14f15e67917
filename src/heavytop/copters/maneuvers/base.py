"""A maneuver: a reference of a vehicle with a name, a start and a feasibility report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from heavytop.control import Feasibility, Reference
from heavytop.copters.vehicle import Vehicle

State = tuple[np.ndarray, np.ndarray]


class Maneuver(Reference):
    """A desired motion of a vehicle.

    Attributes
    ----------
    vehicle, name : of the motion.
    start : (q, v) at the start of the flight; default: that of the reference.
    moments : (time, label) to mark in reports.

    Examples
    --------
    >>> from heavytop.copters import maneuvers, quadcopter
    >>> maneuver = maneuvers.hover(quadcopter(), duration=2.0)
    >>> maneuver.duration
    2.0
    """

    def __init__(
        self,
        vehicle: Vehicle,
        reference: Reference,
        name: str,
        duration: float | None = None,
        start: State | None = None,
        moments: Sequence[tuple[float, str]] = (),
    ) -> None:
        super().__init__(
            reference.model,
            None if reference.traced is not None else reference.__call__,
            reference.traced,
            reference.duration if duration is None else duration,
            reference.period,
            reference.breaks,
            reference.start_time,
            reference.parameters,
            reference.begin,
        )
        self.vehicle, self.name, self.moments = vehicle, name, tuple(moments)
        self._start = start

    def __repr__(self) -> str:
        return f"Maneuver({self.name!r} of {self.vehicle.name!r}, {self.horizon:g} s)"

    @property
    def start(self) -> State:
        """State (q, v) at the start of the flight."""
        if self._start is not None:
            return self._start
        q, v, _ = self(0.0)
        return q, v

    def check(self) -> Feasibility:
        """The required inputs compared with the vehicle's limits, and the residual force."""
        return self._check

    @cached_property
    def _check(self) -> Feasibility:
        return self.feasibility(self.vehicle.limits)

    def thrusts(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest thrust (n,) of every rotor on the reference, N."""
        shape = self.vehicle.airframe
        values = shape.thrusts(self.check().inputs[..., : shape.inputs])  # motors of limbs follow
        return values.min(axis=0), values.max(axis=0)
