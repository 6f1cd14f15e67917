"""Bounds of joints, as data: what enforces them is a compliant stop or an event."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JointLimits:
    """Bounds of a joint of one axis: position (rad or m), largest speed, largest effort; None where there is none.

    >>> JointLimits(-1.0, 2.0).upper
    2.0
    """

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None
