"""Derive, simulate, plan and control rigid-body systems globally, without singularities, from energy.

Where to begin; ``help`` of each name has shapes, units and an example:

* describe: ``System``; joints ``Revolute``, ``Prismatic``, ``Spherical``, ``Free``, ``Planar``, ...; ``Inertia``, ``Stiffness``, ``Damping``;
  inputs ``JointForce``, ``Thruster``, ``Wrench``; ``load`` for robot files, ``library.load`` for built-in systems
* derive: ``System.derive`` gives a ``Model`` with all terms of ``M a + c + D v + fK + fG = B u``, and ``Model.equations`` to read
* simulate: ``simulate`` gives a ``Run``; ``prepare`` for many of them
* control: ``control.lqr``, ``control.mpc``, ``control.energy_law``, ``control.equilibrium``; plan: ``plan``
* fly: ``copters.load``, ``copters.fly``, ``maneuvers``
* many at once: arrays with leading axes everywhere; ``sweep`` for studies

``dir(heavytop)`` lists the public names. Modules that begin with an underscore are not for users.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heavytop import coordinates as coordinates
from heavytop import errors as errors
from heavytop import geometry as geometry
from heavytop import system as system
from heavytop._arrays import matrix as matrix
from heavytop._arrays import vector as vector
from heavytop._version import __version__ as __version__
from heavytop.system import Box as Box
from heavytop.system import Capsule as Capsule
from heavytop.system import Coupled as Coupled
from heavytop.system import Custom as Custom
from heavytop.system import Cylinder as Cylinder
from heavytop.system import Cylindrical as Cylindrical
from heavytop.system import Damping as Damping
from heavytop.system import Ellipsoid as Ellipsoid
from heavytop.system import Fixed as Fixed
from heavytop.system import ForceElement as ForceElement
from heavytop.system import Free as Free
from heavytop.system import Inertia as Inertia
from heavytop.system import JointElement as JointElement
from heavytop.system import JointForce as JointForce
from heavytop.system import JointLimits as JointLimits
from heavytop.system import Mesh as Mesh
from heavytop.system import Model as Model
from heavytop.system import PairElement as PairElement
from heavytop.system import Planar as Planar
from heavytop.system import Prescribed as Prescribed
from heavytop.system import Prismatic as Prismatic
from heavytop.system import Revolute as Revolute
from heavytop.system import Sphere as Sphere
from heavytop.system import Spherical as Spherical
from heavytop.system import Stiffness as Stiffness
from heavytop.system import System as System
from heavytop.system import Thruster as Thruster
from heavytop.system import Universal as Universal
from heavytop.system import Wrench as Wrench

if TYPE_CHECKING:
    from heavytop import compile as compile
    from heavytop import control as control
    from heavytop import copters as copters
    from heavytop import equations as equations
    from heavytop import io as io
    from heavytop import library as library
    from heavytop import mechanics as mechanics
    from heavytop import plan as plan
    from heavytop import show as show
    from heavytop.copters import maneuvers as maneuvers
    from heavytop.io import conventions as conventions
    from heavytop.io.robot_files import load as load
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
    from heavytop.simulate import prepare as prepare
    from heavytop.simulate import simulate as simulate
    from heavytop.simulate import simulate_dynamics as simulate_dynamics
    from heavytop.sweep import attitude as attitude
    from heavytop.sweep import choice as choice
    from heavytop.sweep import normal as normal
    from heavytop.sweep import sweep as sweep
    from heavytop.sweep import uniform as uniform

_LAYERS = (
    "compile",
    "control",
    "copters",
    "equations",
    "io",
    "library",
    "mechanics",
    "plan",
    "show",
    "simulate",
    "sweep",
)
_MODULES = {layer: f"heavytop.{layer}" for layer in _LAYERS}
_MODULES |= {"maneuvers": "heavytop.copters.maneuvers", "conventions": "heavytop.io.conventions"}
_INTEGRATORS = ("RKMK4", "RKMK6", "RKMK8", "RKMK45", "EnergyMomentum", "ProjectedRK4", "Variational")
_ON_DEMAND = (
    _MODULES
    | dict.fromkeys(_INTEGRATORS, "heavytop.simulate")
    | dict.fromkeys(("Event", "Feedback", "Run", "UserDynamics", "prepare", "simulate_dynamics"), "heavytop.simulate")
    | dict.fromkeys(("attitude", "choice", "normal", "uniform"), "heavytop.sweep")
    | {"load": "heavytop.io.robot_files"}
)
"""Modules of the names that are imported on first use, so that ``import heavytop`` is fast."""


if not TYPE_CHECKING:  # type checkers should see only the names declared above, to find misspelled ones

    def __getattr__(name: str) -> Any:
        if name not in _ON_DEMAND:
            raise AttributeError(f"module 'heavytop' has no attribute {name!r}.{errors.did_you_mean(name, __dir__())}")
        found = import_module(_ON_DEMAND[name])
        value = globals()[name] = found if name in _MODULES else getattr(found, name)
        return value


def __dir__() -> list[str]:
    names = {*globals(), *_ON_DEMAND} - {"Any", "TYPE_CHECKING", "import_module"}
    return sorted(name for name in names if not name.startswith("_") or name.startswith("__"))
