"""Viscous friction in a joint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, components, from_columns
from heavytop._format import Brief
from heavytop.system.forces.base import JointElement
from heavytop.system.forces.ports import Port, spread


@dataclass(frozen=True, eq=False, repr=False)
class JointDamper(Brief, JointElement):
    """R = 1/2 sum_i d_i w_i^2 with the joint's velocities relative to its parent.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointDamper("arm", 0.5))
    >>> float(system.derive(native=False).acceleration([0.0], [2.0])[0])
    -1.0
    """

    joint: str
    viscosity: Array

    def resolved(self, port: Port) -> JointDamper:
        return replace(self, viscosity=spread(self.viscosity, port.size, f"damping of {self.title}"))

    def dissipation(self, q: Array, v: Array, /) -> Array:
        return 0.5 * np.vecdot(v, self.viscosity * v)

    def resistance(self, q: Array, v: Array, /) -> Array:
        return self.viscosity * v

    def damping(self, q: Array, /) -> Array:
        return diagonal(self.viscosity)

    def not_negative(self) -> Mapping[str, Any]:
        return {"damping": self.viscosity}

    def joint_constants(self) -> Mapping[str, Array]:
        return {"damping": self.viscosity}


def diagonal(values: Array) -> Array:
    """The diagonal matrix (n, n) of values (n,)."""
    units = np.eye(values.shape[0])
    return from_columns(*(value * unit for value, unit in zip(components(values), units, strict=True)))
