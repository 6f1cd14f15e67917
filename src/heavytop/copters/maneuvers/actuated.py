"""Maneuvers that only a fully actuated vehicle can fly: attitude and position on their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, scale, vector
from heavytop.control.references.curves import smoothstep
from heavytop.control.references.reference import Reference
from heavytop.copters.maneuvers.arguments import finite, positive
from heavytop.copters.maneuvers.base import Maneuver
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError
from heavytop.geometry import se3, so3


def require_full_actuation(vehicle: Vehicle, what: str) -> None:
    """Raise a ControlError unless the vehicle can be pushed and turned in all directions."""
    if not vehicle.fully_actuated:
        raise ControlError(
            f"{what} needs a fully actuated vehicle such as the tricopter; the rotors of {vehicle.name!r} cannot push it sideways "
            "without turning it."
        )


def turning(
    vehicle: Vehicle, curve: Any, angle: Any, axis: Any, duration: float, name: str, **options: Any
) -> Maneuver:
    """Position curve(t) (3,) with the attitude exp(angle(t) axis), both in NumPy notation."""
    require_full_actuation(vehicle, name)
    n = np.asarray(so3.unit_axis(axis), dtype=float)

    def pose(t: Array) -> Array:
        return se3.pose(so3.exp(scale(angle(t), n, 1)), curve(t))

    return Maneuver(vehicle, Reference.from_pose(vehicle.model, pose, duration=duration), name, **options)


def hover_roll(vehicle: Vehicle, turn: float = 3.0, axis: Any = "x", begin: float = 0.5) -> Maneuver:
    """Turn once about a horizontal axis on the spot, within ``turn`` seconds.

    >>> from heavytop.copters import tricopter
    >>> maneuver = hover_roll(tricopter())
    >>> maneuver.name, maneuver.duration
    ('hover-roll', 4.5)
    """
    finite("hover-roll", begin=begin)
    positive("hover-roll", turn=turn)
    angle = lambda t: 2 * np.pi * smoothstep((t - begin) / turn)  # noqa: E731
    still = lambda t: vector(0.0 * t, 0.0 * t, 0.0 * t)  # noqa: E731
    marks = [(begin, "roll begins"), (begin + turn / 2, "upside down"), (begin + turn, "roll ends")]
    return turning(vehicle, still, angle, axis, begin + turn + 1.0, "hover-roll", moments=marks)


def level_loop(vehicle: Vehicle, radius: float = 1.5, turn: float = 8.0, begin: float = 0.0) -> Maneuver:
    """A vertical loop with the hull level all the time.

    >>> from heavytop.copters import tricopter
    >>> maneuver = level_loop(tricopter())
    >>> maneuver.name, maneuver.duration
    ('level-loop', 9.0)
    """
    require_full_actuation(vehicle, "level-loop")
    finite("level-loop", radius=radius, begin=begin)
    positive("level-loop", turn=turn)

    def pose(t: Array) -> Array:
        phase = 2 * np.pi * smoothstep((t - begin) / turn)
        position = vector(radius * np.sin(phase), 0.0 * phase, radius * (1 - np.cos(phase)))
        return se3.pose(np.eye(3), position)

    reference = Reference.from_pose(vehicle.model, pose, duration=begin + turn + 1.0)
    return Maneuver(vehicle, reference, "level-loop", moments=[(begin + turn / 2, "top")])
