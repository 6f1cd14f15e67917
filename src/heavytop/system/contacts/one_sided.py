"""Hard stops, ropes and sticking friction as data: inequalities that act like contacts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, freeze_fields, transpose
from heavytop._format import Brief
from heavytop.geometry import se3
from heavytop.system.contacts.contact import Candidate
from heavytop.system.contacts.surfaces import length


@dataclass(frozen=True, eq=False, repr=False)
class HardStop(Brief):
    """Rigid ends of the range of a joint of one axis, rad or m; None: no end."""

    name: str
    joint: str
    lower: Any = None
    upper: Any = None
    restitution: Any = 0.0

    def __post_init__(self) -> None:
        freeze_fields(self)


@dataclass(frozen=True, eq=False, repr=False)
class Rope(Brief):
    """A rope of given length in m from the point ``at_a`` of a to ``at_b`` of b that does not stretch and goes slack.

    >>> rope = Rope("rope", "world", "ball", np.zeros(3), np.zeros(3), 2.0)
    >>> end = rope.end(se3.pose(np.eye(3), [0.0, 0.0, -1.5]))
    >>> float(end.gap), end.normal + 0.0
    (0.5, array([0., 0., 1.]))
    """

    name: str
    a: str
    b: str
    at_a: Array
    at_b: Array
    length: Any
    restitution: Any = 0.0

    def __post_init__(self) -> None:
        freeze_fields(self)

    def end(self, pose: Array) -> Candidate:
        """The end at b as a point, at the pose (4, 4) of b in a: the gap is the slack, the normal points along the pull."""
        R = se3.rotation(pose)
        away = se3.position(pose) + np.matvec(R, self.at_b) - self.at_a
        distance = length(away)
        pull = -np.matvec(transpose(R), away) / distance
        return Candidate(self.length - distance, self.at_b, pull, (np.zeros(3), np.zeros(3)))


@dataclass(frozen=True, eq=False, repr=False)
class StickingFriction(Brief):
    """Dry friction in a joint with the largest force or torque ``coulomb``, which sticks."""

    name: str
    joint: str
    coulomb: Any

    def __post_init__(self) -> None:
        freeze_fields(self)


Inequality = HardStop | Rope | StickingFriction
