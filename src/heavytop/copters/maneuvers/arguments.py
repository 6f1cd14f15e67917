"""Numbers that a maneuver is asked for with, checked where they are given: what comes of wrong ones would be refused much later."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import ControlError, wrong_shape


def positive(maneuver: str, **given: float) -> None:
    """Raise a ControlError unless all numbers are finite and positive.

    >>> positive("circle", rate=1.5, laps=3)
    """
    for name, value in given.items():
        if not _number(value) or value <= 0:
            raise ControlError(f"{name} of {maneuver} must be a positive number, got {value!r}.")


def non_negative(maneuver: str, **given: float) -> None:
    """Raise a ControlError unless all numbers are finite and not negative.

    >>> non_negative("looping", rest=0.0)
    """
    for name, value in given.items():
        if not _number(value) or value < 0:
            raise ControlError(f"{name} of {maneuver} must be a non-negative number, got {value!r}.")


def finite(maneuver: str, **given: float) -> None:
    """Raise a ControlError unless all numbers are finite.

    >>> finite("circle", radius=-2.0)
    """
    for name, value in given.items():
        if not _number(value):
            raise ControlError(f"{name} of {maneuver} must be a finite number, got {value!r}.")


def place(maneuver: str, name: str, given: Any) -> np.ndarray:
    """A position (3,) in m.

    >>> place("step", "to", (3, 0, 1))
    array([3., 0., 1.])
    """
    found = numbers(given, f"{name} of {maneuver}")
    if found.shape != (3,):
        raise wrong_shape(f"{name} of {maneuver}", (3,), found.shape, "Give x, y and z in m.")
    if not np.all(np.isfinite(found)):
        raise ControlError(f"{name} of {maneuver} must be finite, got {found.tolist()}.")
    return found


def places(maneuver: str, name: str, given: Any) -> np.ndarray:
    """At least two positions (m + 1, 3) in m.

    >>> places("waypoints", "points", [(0, 0, 0), (2, 0, 1)]).shape
    (2, 3)
    """
    found = numbers(given, f"{name} of {maneuver}")
    if found.ndim != 2 or found.shape[-1] != 3 or len(found) < 2:
        hint = "Give two or more points, each with x, y and z in m."
        raise wrong_shape(f"{name} of {maneuver}", ("m + 1", 3), found.shape, hint)
    if not np.all(np.isfinite(found)):
        raise ControlError(f"{name} of {maneuver} must be finite, got {found.tolist()}.")
    return found


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and bool(np.isfinite(value))
