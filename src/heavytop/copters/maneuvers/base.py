"""A maneuver: a reference of a vehicle with a name, a start and a feasibility report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.control import Feasibility, Reference, joined
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError, ShapeError, wrong_shape

State = tuple[np.ndarray, np.ndarray]


class Maneuver(Reference):
    """A desired motion of a vehicle.

    Attributes
    ----------
    vehicle, name : vehicle and name of the motion.
    start : (q, v) at the start of the flight; default: that of the reference.
    moments : (time, label) to mark in reports.
    grounded : whether the vehicle flies over the ground z = 0, which its skids touch.

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
        grounded: bool = False,
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
        self.vehicle, self.name, self.moments, self.grounded = vehicle, name, tuple(moments), grounded
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


def sequence(*parts: Maneuver | Reference, name: str = "sequence") -> Maneuver:
    """Maneuvers and references of one vehicle one after the other, each starting where the previous one ends; one is a maneuver.

    The flight starts where the first one does, over the ground if one of them is; the beginnings of the others are marked in reports.

    Raises
    ------
    ControlError
        Two of them do not meet, see :func:`heavytop.control.sequence`.

    Examples
    --------
    >>> from heavytop.copters import maneuvers, quadcopter
    >>> craft = quadcopter()
    >>> maneuvers.sequence(maneuvers.takeoff(craft), maneuvers.landing(craft))
    Maneuver('sequence' of 'quadcopter', 12 s)
    """
    vehicle = next((part.vehicle for part in parts if isinstance(part, Maneuver)), None)
    if vehicle is None:
        raise ControlError(
            "a sequence of maneuvers needs at least one maneuver; heavytop.control.sequence joins references."
        )
    maneuvers = [part if isinstance(part, Maneuver) else Maneuver(vehicle, part, "reference") for part in parts]
    reference = joined(*maneuvers)
    begins = np.cumsum([0.0, *(m.horizon for m in maneuvers)])
    moments: list[tuple[float, str]] = []
    for k, (begin, maneuver) in enumerate(zip(begins.tolist(), maneuvers, strict=False)):
        moments += [(begin, maneuver.name)] if k else []
        moments += [(begin + time, label) for time, label in maneuver.moments]
    first = maneuvers[0]
    grounded = any(m.grounded for m in maneuvers)
    return Maneuver(vehicle, reference, name, start=first.start, moments=moments, grounded=grounded)


def positive(maneuver: str, **given: float) -> None:
    """Raise a ControlError unless all numbers are finite and positive."""
    _check(maneuver, "positive", given, lambda x: x > 0)


def non_negative(maneuver: str, **given: float) -> None:
    """Raise a ControlError unless all numbers are finite and not negative."""
    _check(maneuver, "non-negative", given, lambda x: x >= 0)


def finite(maneuver: str, **given: float) -> None:
    """Raise a ControlError unless all numbers are finite."""
    _check(maneuver, "finite", given, lambda x: True)


def _check(maneuver: str, kind: str, given: dict[str, float], test: Any) -> None:
    for name, value in given.items():
        if not (np.isfinite(value) and test(value)):
            raise ControlError(f"{name} of {maneuver} must be a {kind} number, got {value!r}.")


def vector3(what: str, given: Any) -> np.ndarray:
    """Three finite numbers.

    >>> vector3("to of step", (3, 0, 1))
    array([3., 0., 1.])
    """
    found = numbers(given, what)
    if found.shape != (3,):
        raise wrong_shape(what, (3,), found.shape, "Give x, y and z.")
    return _all_finite(what, found)


def vector2(what: str, given: Any) -> np.ndarray:
    """Two finite numbers.

    >>> vector2("at of landing", (3, 0))
    array([3., 0.])
    """
    found = numbers(given, what)
    if found.shape != (2,):
        raise wrong_shape(what, (2,), found.shape, "Give x and y.")
    return _all_finite(what, found)


def polyline(what: str, given: Any) -> np.ndarray:
    """At least two positions (m + 1, 3) in m."""
    found = numbers(given, what)
    if found.ndim != 2 or found.shape[-1] != 3 or len(found) < 2:
        raise wrong_shape(what, ("m + 1", 3), found.shape, "Give two or more points, each with x, y and z in m.")
    return _all_finite(what, found)


def _all_finite(what: str, found: np.ndarray) -> np.ndarray:
    if not np.all(np.isfinite(found)):
        raise ShapeError(f"{what} must be finite, got {found.tolist()}.")
    return found
