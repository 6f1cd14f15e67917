"""Mass, first moment and moment of inertia about the origin of a frame: what adds up when bodies are welded together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array, is_symbolic, transpose
from heavytop.geometry import se3
from heavytop.system.description.moments import Inertia


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
        """The same in another frame, in which the present one has ``pose`` (4, 4): S + 2 (s.r) I - s r^T - r s^T + m (r.r I - r r^T)."""
        R, r = se3.rotation(pose), se3.position(pose)
        s = np.matvec(R, self.first)
        crossed = 2.0 * np.vecdot(s, r) * np.eye(3) - np.outer(s, r) - np.outer(r, s)
        steiner = self.mass * ((r @ r) * np.eye(3) - np.outer(r, r))
        return BodyMoments(self.mass, s + self.mass * r, R @ self.second @ transpose(R) + crossed + steiner)


NOTHING = BodyMoments(0.0, np.zeros(3), np.zeros((3, 3)))
