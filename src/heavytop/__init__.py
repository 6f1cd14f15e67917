"""Derive, simulate and control rigid-body systems globally, without singularities, from energy."""

from typing import TYPE_CHECKING

from heavytop import coordinates as coordinates
from heavytop import errors as errors
from heavytop import geometry as geometry
from heavytop import library as library
from heavytop import system as system
from heavytop._arrays import matrix as matrix
from heavytop._arrays import vector as vector
from heavytop._version import __version__ as __version__
from heavytop.simulate import RKMK4 as RKMK4
from heavytop.simulate import RKMK6 as RKMK6
from heavytop.simulate import RKMK8 as RKMK8
from heavytop.simulate import RKMK45 as RKMK45
from heavytop.simulate import EnergyMomentum as EnergyMomentum
from heavytop.simulate import Event as Event
from heavytop.simulate import Feedback as Feedback
from heavytop.simulate import ProjectedRK4 as ProjectedRK4
from heavytop.simulate import Run as Run
from heavytop.simulate import UserDynamics as UserDynamics
from heavytop.simulate import Variational as Variational
from heavytop.simulate import simulate_dynamics as simulate_dynamics
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

if TYPE_CHECKING:
    from heavytop.simulate import simulate as simulate
else:
    from heavytop import simulate  # the package, which can be called like its function
