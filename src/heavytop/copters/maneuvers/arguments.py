"""Checks of the arguments of maneuvers, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import ControlError, ShapeError, wrong_shape


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
