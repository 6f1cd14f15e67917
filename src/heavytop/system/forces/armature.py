"""The inertia of a motor's rotor, seen from the joint it drives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from heavytop._arrays import Array, as_array
from heavytop.system.forces.base import JointElement
from heavytop.system.forces.displacement import spread
from heavytop.system.forces.joint_damper import diagonal
from heavytop.system.forces.ports import Port


@dataclass(frozen=True, eq=False)
class Armature(JointElement):
    """T = 1/2 sum_i I_i n_i^2 w_i^2: a rotor that turns ``gear_ratio`` n times as fast as the joint, without a coordinate of its own.

    The gyroscopic effect of the fast rotor on the body that carries it is left out, as usual; model it with a body of its own.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Armature("arm", rotor_inertia=0.01, gear_ratio=10.0))
    >>> float(system.derive(native=False).mass_matrix([0.0])[0, 0])
    2.0
    """

    joint: str
    rotor_inertia: Array
    gear_ratio: Array = 1.0

    def resolved(self, port: Port) -> Armature:
        inertia = spread(self.rotor_inertia, port.size, f"inertia of {self.title}")
        return replace(
            self,
            rotor_inertia=inertia,
            gear_ratio=spread(self.gear_ratio, port.size, f"gear_ratio of {self.title}"),
        )

    def inertia(self) -> Array:
        return diagonal(self.rotor_inertia * self.gear_ratio**2)

    def joint_constants(self) -> Mapping[str, Array]:
        return {"armature": as_array(self.rotor_inertia) * as_array(self.gear_ratio) ** 2}
