"""A spring in a joint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop._format import Brief
from heavytop.system.forces.base import JointElement
from heavytop.system.forces.ports import Displacement, Port, spread


@dataclass(frozen=True, eq=False, repr=False)
class JointSpring(Brief, JointElement):
    """V = 1/2 sum_i k_i delta_i^2 with the displacement delta of the joint from ``rest``.

    For rotations delta is the rotation vector from the rest attitude, in axes of the moved body; at half a turn it jumps.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointSpring("arm", 4.0))
    >>> float(system.derive(native=False).potential_energy([0.5]))
    0.5
    """

    joint: str
    stiffness: Array
    rest: Array = 0.0
    displacement: Any = field(default=None, repr=False)

    def not_negative(self) -> Mapping[str, Any]:
        return {"stiffness": self.stiffness}

    def resolved(self, port: Port) -> JointSpring:
        displacement = Displacement.at(port, self.rest, self.title)
        return replace(
            self, stiffness=spread(self.stiffness, port.size, f"stiffness of {self.title}"), displacement=displacement
        )

    def energy(self, q: Array, /) -> Array:
        delta = self.displacement.of(q)
        return 0.5 * np.vecdot(delta, self.stiffness * delta)

    def energy_gradient(self, q: Array, /) -> Array:
        """T(delta)^T K delta."""
        delta = self.displacement.of(q)
        return self.displacement.pulled_back(delta, self.stiffness * delta)

    def joint_constants(self) -> Mapping[str, Array]:
        return {"stiffness": self.stiffness, "rest": self.rest}
