"""Derive, simulate and control rigid-body systems globally, without singularities, from energy."""

from heavytop import coordinates as coordinates
from heavytop import errors as errors
from heavytop import geometry as geometry
from heavytop import library as library
from heavytop import system as system
from heavytop._arrays import matrix as matrix
from heavytop._arrays import vector as vector
from heavytop._version import __version__ as __version__
from heavytop.system import Custom as Custom
from heavytop.system import Cylindrical as Cylindrical
from heavytop.system import Damping as Damping
from heavytop.system import Fixed as Fixed
from heavytop.system import Free as Free
from heavytop.system import Inertia as Inertia
from heavytop.system import JointForce as JointForce
from heavytop.system import Model as Model
from heavytop.system import Planar as Planar
from heavytop.system import Prismatic as Prismatic
from heavytop.system import Revolute as Revolute
from heavytop.system import Spherical as Spherical
from heavytop.system import Stiffness as Stiffness
from heavytop.system import System as System
from heavytop.system import Thruster as Thruster
from heavytop.system import Universal as Universal
from heavytop.system import Wrench as Wrench
