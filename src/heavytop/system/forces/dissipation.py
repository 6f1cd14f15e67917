"""A dissipation function of coordinates and velocities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heavytop._arrays import Array
from heavytop.system.forces.base import CoordinateElement


@dataclass(frozen=True, eq=False)
class Dissipation(CoordinateElement):
    """R = function(q, v) in W; its force is -dR/dv."""

    function: Callable[[Array, Array], Array]

    def dissipation(self, q: Array, v: Array, /) -> Array:
        return self.function(q, v)
