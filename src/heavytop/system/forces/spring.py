"""Stiffness between two bodies in all six directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from heavytop._arrays import Array
from heavytop._format import Brief
from heavytop.geometry import wrenches
from heavytop.system.description.moments import Stiffness
from heavytop.system.forces.base import Line, PairElement
from heavytop.system.forces.ports import Port


@dataclass(frozen=True, eq=False, repr=False)
class Spring(Brief, PairElement):
    """Stiffness of body b relative to body a; ``rest`` is the relaxed pose G_ab, None: that of the neutral configuration.

    V = 1/2 tr((G - G_R) K' (G - G_R)^T) + V_0 (eq. 3.118, erratum 0.43).

    >>> import numpy as np
    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Spring("world", "arm", ht.Stiffness(10.0, (1, 0, 0))))
    >>> float(system.derive(native=False).potential_energy([np.pi]))
    20.0
    """

    a: str
    b: str
    stiffness: Stiffness
    rest: Array | None = None
    least_energy: Any = 0.0

    def resolved(self, port: Port) -> Spring:
        return replace(self, rest=port.neutral()) if self.rest is None else self

    def not_negative(self) -> Mapping[str, Any]:
        return {"stiffness": self.stiffness}

    def lines(self) -> tuple[Line, ...]:
        return ()  # a field of springs has no one line

    def energy(self, pose: Array, /) -> Array:
        return wrenches.stiffness_energy(self.stiffness.moments, pose, self.rest) + self.least_energy

    def energy_gradient(self, pose: Array, /) -> Array:
        """vee2((I - G^-1 G_R) K') (eq. 3.125d, erratum 0.45)."""
        return wrenches.stiffness_wrench(self.stiffness.moments, pose, self.rest)
