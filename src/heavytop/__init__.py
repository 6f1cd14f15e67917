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

from heavytop import coordinates as coordinates, errors as errors, geometry as geometry, system as system
from heavytop._arrays import matrix as matrix, vector as vector
from heavytop._version import __version__ as __version__
from heavytop.system import (
    Box as Box,
    Capsule as Capsule,
    Coupled as Coupled,
    Custom as Custom,
    Cylinder as Cylinder,
    Cylindrical as Cylindrical,
    Damping as Damping,
    Ellipsoid as Ellipsoid,
    Fixed as Fixed,
    ForceElement as ForceElement,
    Free as Free,
    Inertia as Inertia,
    JointElement as JointElement,
    JointForce as JointForce,
    JointLimits as JointLimits,
    Mesh as Mesh,
    Model as Model,
    PairElement as PairElement,
    Planar as Planar,
    Prescribed as Prescribed,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Sphere as Sphere,
    Spherical as Spherical,
    Stiffness as Stiffness,
    System as System,
    Thruster as Thruster,
    Universal as Universal,
    Wrench as Wrench,
)

if TYPE_CHECKING:
    from heavytop import (
        compile as compile,
        control as control,
        copters as copters,
        equations as equations,
        io as io,
        library as library,
        plan as plan,
        show as show,
    )
    from heavytop.copters import maneuvers as maneuvers
    from heavytop.io import conventions as conventions, load as load
    from heavytop.simulate import (
        RKMK4 as RKMK4,
        RKMK6 as RKMK6,
        RKMK8 as RKMK8,
        RKMK45 as RKMK45,
        EnergyMomentum as EnergyMomentum,
        Event as Event,
        Feedback as Feedback,
        ProjectedRK4 as ProjectedRK4,
        Run as Run,
        UserDynamics as UserDynamics,
        Variational as Variational,
        prepare as prepare,
        simulate as simulate,
        simulate_dynamics as simulate_dynamics,
    )
    from heavytop.sweep import (
        attitude as attitude,
        choice as choice,
        normal as normal,
        sweep as sweep,
        uniform as uniform,
    )

_LAYERS = ("compile", "control", "copters", "equations", "io", "library", "plan", "show", "simulate", "sweep")
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
