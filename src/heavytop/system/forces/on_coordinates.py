"""Force elements on all coordinates: potentials, dissipation functions and forces given by functions."""

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


@dataclass(frozen=True, eq=False, repr=False)
class Dissipation(Brief, Value, CoordinateElement):
    """R = function(q, v) in W; its force is -dR/dv.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Dissipation(lambda q, v: 0.25 * v[0] ** 2))
    >>> float(system.derive(native=False).acceleration([0.0], [2.0])[0])
    -1.0
    """

    function: Callable[[Array, Array], Array]

    def dissipation(self, q: Array, v: Array, /) -> Array:
        return self.function(q, v)


@dataclass(frozen=True, eq=False, repr=False)
class Force(Brief, Value, CoordinateElement):
    """f = function(q, v) on the joints' own velocities; its power is supplied.

    >>> import numpy as np
    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Force(lambda q, v: 3.0 * np.cos(q)))
    >>> float(system.derive(native=False).acceleration([0.0], [0.0])[0])
    3.0
    """

    function: Callable[[Array, Array], Array]

    def force(self, q: Array, v: Array, /) -> Array:
        return self.function(q, v)
