"""Struts: a spring with rest length and a damper on the line between two points of two bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, transpose
from heavytop._format import Brief
from heavytop.geometry import se3
from heavytop.system.forces.base import Line, PairElement, Pull


@dataclass(frozen=True, eq=False, repr=False)
class Strut(Brief, PairElement):
    """Spring and damper between the point ``at_a`` of body a and ``at_b`` of body b.

    V = k/2 (L - L_0)^2 and R = c/2 (dL/dt)^2 with the distance L of the points.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Strut("world", "arm", np.array([2.0, 0, 0]), np.array([1.0, 0, 0]), 10.0, 0.5, 0.0))
    >>> float(system.derive(native=False).potential_energy([0.0]))
    1.25
    """

    a: str
    b: str
    at_a: Array
    at_b: Array
    stiffness: Array
    rest_length: Array
    viscosity: Array

    def not_negative(self) -> Mapping[str, Any]:
        return {"stiffness": self.stiffness, "rest_length": self.rest_length, "damping": self.viscosity}

    def lines(self) -> tuple[Line, ...]:
        return (Line(self.a, self.at_a, self.b, self.at_b, "strut"),)

    def pull(self) -> Pull:
        path = (self.a, self.at_a), (self.b, self.at_b)
        return Pull(path, self.stiffness, self.viscosity, self.rest_length, self.rest_length)

    def _line(self, pose: Array) -> tuple[Array, Array]:
        """Length L and the body wrench (6,) on b per newton of tension that lengthens it: dL/dt = wrench . twist."""
        R = se3.rotation(pose)
        offset = se3.position(pose) + np.matvec(R, self.at_b) - self.at_a
        length = np.sqrt(np.vecdot(offset, offset))
        direction = np.matvec(transpose(R), offset) / length
        return length, concatenate(direction, np.cross(self.at_b, direction))

    def energy(self, pose: Array, /) -> Array:
        length, _ = self._line(pose)
        return 0.5 * self.stiffness * (length - self.rest_length) ** 2

    def energy_gradient(self, pose: Array, /) -> Array:
        length, line = self._line(pose)
        return self.stiffness * (length - self.rest_length) * line

    def dissipation(self, pose: Array, twist: Array, /) -> Array:
        _, line = self._line(pose)
        return 0.5 * self.viscosity * np.vecdot(line, twist) ** 2

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        _, line = self._line(pose)
        return self.viscosity * np.vecdot(line, twist) * line

    def damping(self, pose: Array, /) -> Array:
        _, line = self._line(pose)
        return self.viscosity * np.outer(line, line)
