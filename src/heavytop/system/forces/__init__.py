"""Force elements between bodies, in joints and on coordinates."""

from heavytop.system.forces.base import (
    CoordinateElement as CoordinateElement,
    ForceElement as ForceElement,
    JointElement as JointElement,
    Line as Line,
    PairElement as PairElement,
)
from heavytop.system.forces.between_bodies import Damper as Damper, Gravity as Gravity, Spring as Spring, Strut as Strut
from heavytop.system.forces.in_joints import (
    Armature as Armature,
    JointBristles as JointBristles,
    JointDamper as JointDamper,
    JointFriction as JointFriction,
    JointSpring as JointSpring,
    JointStop as JointStop,
)
from heavytop.system.forces.on_coordinates import Dissipation as Dissipation, Force as Force, Potential as Potential
