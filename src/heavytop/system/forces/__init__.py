"""Force elements between bodies, in joints and on coordinates; one file per kind."""

from heavytop.system.forces.armature import Armature as Armature
from heavytop.system.forces.base import (
    CoordinateElement as CoordinateElement,
    ForceElement as ForceElement,
    JointElement as JointElement,
    Line as Line,
    PairElement as PairElement,
)
from heavytop.system.forces.damper import Damper as Damper
from heavytop.system.forces.dissipation import Dissipation as Dissipation
from heavytop.system.forces.force import Force as Force
from heavytop.system.forces.gravity import Gravity as Gravity
from heavytop.system.forces.joint_damper import JointDamper as JointDamper
from heavytop.system.forces.joint_friction import JointFriction as JointFriction
from heavytop.system.forces.joint_spring import JointSpring as JointSpring
from heavytop.system.forces.joint_stop import JointStop as JointStop
from heavytop.system.forces.potential import Potential as Potential
from heavytop.system.forces.spring import Spring as Spring
from heavytop.system.forces.strut import Strut as Strut
