"""Generalised forces given by a function of coordinates and velocities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heavytop._arrays import Array
from heavytop.system.forces.base import CoordinateElement


@dataclass(frozen=True, eq=False)
class Force(CoordinateElement):
    """f = function(q, v) on the joints' own velocities; its power is supplied."""

    function: Callable[[Array, Array], Array]

    def force(self, q: Array, v: Array, /) -> Array:
        return self.function(q, v)
