"""Describe bodies, joints and force elements; derive the model."""

from heavytop._gate import gate as _gate
from heavytop.system import forces as forces
from heavytop.system.forces import ForceElement as ForceElement
from heavytop.system.forces import JointElement as JointElement
from heavytop.system.forces import PairElement as PairElement
from heavytop.system.inputs import JointForce as JointForce
from heavytop.system.inputs import Thruster as Thruster
from heavytop.system.inputs import Wrench as Wrench
from heavytop.system.joint_limits import JointLimits as JointLimits
from heavytop.system.joints import Coupled as Coupled
from heavytop.system.joints import Custom as Custom
from heavytop.system.joints import Cylindrical as Cylindrical
from heavytop.system.joints import Fixed as Fixed
from heavytop.system.joints import Free as Free
from heavytop.system.joints import Planar as Planar
from heavytop.system.joints import Prescribed as Prescribed
from heavytop.system.joints import Prismatic as Prismatic
from heavytop.system.joints import Revolute as Revolute
from heavytop.system.joints import Spherical as Spherical
from heavytop.system.joints import Universal as Universal
from heavytop.system.model import Model as Model
from heavytop.system.moments import Damping as Damping
from heavytop.system.moments import Inertia as Inertia
from heavytop.system.moments import SpringSet as SpringSet
from heavytop.system.moments import Stiffness as Stiffness
from heavytop.system.shapes import Box as Box
from heavytop.system.shapes import Capsule as Capsule
from heavytop.system.shapes import Cylinder as Cylinder
from heavytop.system.shapes import Ellipsoid as Ellipsoid
from heavytop.system.shapes import Mesh as Mesh
from heavytop.system.shapes import Sphere as Sphere
from heavytop.system.system import System as System
from heavytop.system.tangent import NotAtRestWarning as NotAtRestWarning

_gate(__name__)
