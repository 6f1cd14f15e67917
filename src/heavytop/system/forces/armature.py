"""The inertia of a motor's rotor, seen from the joint it drives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, as_array, block, from_columns, shape, transpose
from heavytop._format import Brief
from heavytop.errors import ModelError, unknown_name
from heavytop.geometry import se3
from heavytop.system.description.inputs import unit_axis
from heavytop.system.forces.base import JointElement
from heavytop.system.forces.joint_damper import diagonal
from heavytop.system.forces.ports import JointPort, Port, RotorPort, spread

if TYPE_CHECKING:
    from heavytop.system.kinematics.kinematics import Kinematics


@dataclass(frozen=True, eq=False, repr=False)
class Armature(Brief, JointElement):
    """T = 1/2 sum_i I_i n_i^2 w_i^2: a rotor that turns ``gear_ratio`` n times as fast as the joint, without a further coordinate.

    With ``body`` the rotor is mounted on that body and turns about ``axis`` a of it; its fast spin then acts on the body, too. A symmetric
    rotor has exactly the energy of one that is welded to the body, which belongs to the inertia of the body, and

        T = 1/2 I n^2 w^2 + I n w (a . omega),

    with the angular velocity omega of the body. Without ``body`` the second, gyroscopic part is left out, as usual.

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
    body: str | None = None
    axis: Any = None

    def is_inner(self, root: str) -> bool:
        return type(self).port is Armature.port and self.joint != root

    def port(self, kinematics: Kinematics) -> Port:
        return super().port(kinematics) if self.body is None else RotorPort(kinematics, self.joint, self.body)

    def check_names(self, frames: Collection[str], joints: Collection[str]) -> None:
        super().check_names(frames, joints)
        if self.body is not None and self.body not in frames:
            raise unknown_name(f"body or frame (that carries the rotor of {self.title})", self.body, frames)

    def not_negative(self) -> Mapping[str, Any]:
        return {"inertia": self.rotor_inertia}

    def resolved(self, port: Port) -> Armature:
        size = port.joint_size if isinstance(port, RotorPort) else port.size
        if isinstance(port, RotorPort) and size != 1:
            raise ModelError(
                f"{self.title}: a rotor on a body needs a joint with one velocity, got {size}. Leave body= out."
            )
        axis = self._axis(port) if isinstance(port, RotorPort) else None
        inertia = spread(self.rotor_inertia, size, f"inertia of {self.title}")
        return replace(
            self,
            rotor_inertia=inertia,
            gear_ratio=spread(self.gear_ratio, size, f"gear_ratio of {self.title}"),
            axis=axis,
        )

    def _axis(self, port: JointPort) -> Array:
        """The unit axis (3,) of the rotor in the body that carries it: that of the joint unless given."""
        where = f"axis of {self.title}"
        if self.axis is not None:
            return unit_axis(self.axis, where)
        edge = next(edge for edge in port.kinematics.edges if edge.label == self.joint)
        own = edge.joint.turns_about
        if own is None or shape(own) != (3,) or self.body not in (edge.a, edge.b):
            raise ModelError(f"{where}: give the axis of {self.body!r} about which the rotor turns, such as axis='z'.")
        return own if self.body == edge.b else np.matvec(se3.rotation(edge.at), own)

    def inertia(self) -> Array:
        if self.body is None:
            return diagonal(self.rotor_inertia * self.gear_ratio**2)
        spin = from_columns(self.rotor_inertia * self.gear_ratio * self.axis)
        return block([[diagonal(self.rotor_inertia * self.gear_ratio**2), transpose(spin)], [spin, np.zeros((3, 3))]])

    def joint_constants(self) -> Mapping[str, Array]:
        return {"armature": as_array(self.rotor_inertia) * as_array(self.gear_ratio) ** 2}

    def left_out(self) -> str:
        return "" if self.body is None else f"without the gyroscopic effect of the rotor on {self.body!r}"
