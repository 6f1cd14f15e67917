"""A potential energy given by a function of the coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heavytop._arrays import Array
from heavytop.system.forces.base import CoordinateElement


@dataclass(frozen=True, eq=False)
class Potential(CoordinateElement):
    """V = function(q) in J; its force is -A^T dV/dq."""

    function: Callable[[Array], Array]

    def energy(self, q: Array, /) -> Array:
        return self.function(q)
