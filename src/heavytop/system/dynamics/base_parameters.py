"""Moments of welded bodies, and base parameters: inertia that a joint cannot distinguish from that of its parent is counted there.

About an axis z a body with mass on the axis and a moment diag(J, J, 0) has the same energy at every angle and rate of the joint, so it may
as well be welded to the parent; so may the whole moment of inertia of a sliding body (base parameters, Gautier and Khalil 1990).
The remainder of a turning body is (m c_x, m c_y) and five moments: it is not a physical body, and only the recursion uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, is_symbolic, transpose
from heavytop.geometry import se3
from heavytop.system.description.moments import Inertia
from heavytop.system.description.names import WORLD

if TYPE_CHECKING:
    from heavytop.system.kinematics.internal_frames import Carrier


@dataclass(frozen=True, eq=False)
class BodyMoments:
    """Mass, first moment (3,) and moment of inertia (3, 3) about the origin of a frame."""

    mass: Array
    first: Array
    second: Array

    @classmethod
    def of(cls, inertia: Inertia) -> BodyMoments:
        """Those of an inertia.

        >>> BodyMoments.of(Inertia(2.0, com=(0.0, 0.0, 0.5))).first
        array([0., 0., 1.])
        """
        return cls(inertia.total, inertia.total * inertia.center, inertia.moment_at_origin)

    @property
    def is_numeric(self) -> bool:
        """Whether no parameter takes part."""
        return not is_symbolic(self.mass, self.first, self.second)

    def __add__(self, other: BodyMoments) -> BodyMoments:
        return BodyMoments(self.mass + other.mass, self.first + other.first, self.second + other.second)

    def moved(self, pose: np.ndarray) -> BodyMoments:
        """Moments about another frame, in which the present one has ``pose`` (4, 4): S + 2 (s.r) I - s r^T - r s^T + m (r.r I - r r^T)."""
        R, r = se3.rotation(pose), se3.position(pose)
        s = np.matvec(R, self.first)
        crossed = 2.0 * np.vecdot(s, r) * np.eye(3) - np.outer(s, r) - np.outer(r, s)
        steiner = self.mass * ((r @ r) * np.eye(3) - np.outer(r, r))
        return BodyMoments(self.mass, s + self.mass * r, R @ self.second @ transpose(R) + crossed + steiner)


NOTHING = BodyMoments(0.0, np.zeros(3), np.zeros((3, 3)))


def regrouped(carriers: Mapping[str, Carrier]) -> dict[str, BodyMoments]:
    """The moments of each carrier in its internal frame, with all that its joint cannot distinguish moved to its parent."""
    moments = {name: carrier.moments for name, carrier in carriers.items()}
    for name, carrier in reversed(tuple(carriers.items())):
        own, parent = moments[name], carrier.parent
        if carrier.axis is None or not own.is_numeric or not (parent == WORLD or moments[parent].is_numeric):
            continue
        if carrier.axis.slides:
            moved = BodyMoments(0.0, np.zeros(3), own.second)
            moments[name] = BodyMoments(own.mass, own.first, np.zeros((3, 3)))
        else:
            J = own.second
            moved = BodyMoments(own.mass, np.array([0.0, 0.0, own.first[2]]), np.diag([J[1, 1], J[1, 1], 0.0]))
            left = J - moved.second
            left[1, 1] = 0.0
            moments[name] = BodyMoments(0.0, np.array([own.first[0], own.first[1], 0.0]), left)
        if parent != WORLD:
            moments[parent] = moments[parent] + moved.moved(np.asarray(carrier.at))
    return moments
