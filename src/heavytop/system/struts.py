"""Struts: a spring with rest length and a damper on the line between two points of two bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, transpose
from heavytop.geometry import se3
from heavytop.system.kinematics import Motion


@dataclass(frozen=True, eq=False)
class Strut:
    """Spring and damper between the point ``at_a`` of body a and ``at_b`` of body b.

    V = k/2 (L - L_0)^2 and R = c/2 (dL/dt)^2 with the distance L of the points.
    """

    a: str
    b: str
    at_a: Array
    at_b: Array
    stiffness: Any
    rest_length: Any
    damping: Any

    def line(self, motion: Motion) -> tuple[Array, Array]:
        """Length L and the body wrench (6,) on b per newton of tension that lengthens it: dL/dt = wrench . twist."""
        R = se3.rotation(motion.pose)
        offset = se3.position(motion.pose) + np.matvec(R, self.at_b) - self.at_a
        length = np.sqrt(np.vecdot(offset, offset))
        direction = np.matvec(transpose(R), offset) / length
        return length, concatenate(direction, np.cross(self.at_b, direction))

    def energy(self, motion: Motion) -> Array:
        """V in J."""
        length, _ = self.line(motion)
        return 0.5 * self.stiffness * (length - self.rest_length) ** 2

    def stiffness_wrench(self, motion: Motion) -> Array:
        """Gradient of V by the twist of b relative to a (6,)."""
        length, line = self.line(motion)
        return self.stiffness * (length - self.rest_length) * line

    def damping_wrench(self, motion: Motion) -> Array:
        """Gradient of R by that twist (6,)."""
        _, line = self.line(motion)
        return self.damping * np.vecdot(line, motion.twist) * line

    def damping_matrix(self, motion: Motion) -> Array:
        """Hessian of R by that twist (6, 6)."""
        _, line = self.line(motion)
        return self.damping * np.outer(line, line)
