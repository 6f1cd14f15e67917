"""A potential energy given by a function of the coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heavytop._arrays import Array
from heavytop._format import Brief
from heavytop.functions import Value
from heavytop.system.forces.base import CoordinateElement


@dataclass(frozen=True, eq=False, repr=False)
class Potential(Brief, Value, CoordinateElement):
    """V = function(q) in J; its force is -A^T dV/dq.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Potential(lambda q: 2.0 * q[0] ** 2))
    >>> float(system.derive(native=False).potential_energy([0.5]))
    0.5
    """

    function: Callable[[Array], Array]

    def energy(self, q: Array, /) -> Array:
        return self.function(q)
