"""Derive, simulate, plan and control rigid-body systems globally, without singularities, from energy.

Where to begin; ``help`` of each name has shapes, units and an example:

* describe: ``System``; joints ``Revolute``, ``Prismatic``, ``Spherical``, ``Free``, ``Planar``, ...; ``Inertia``, ``Stiffness``, ``Damping``;
  inputs ``JointForce``, ``Thruster``, ``Wrench``; ``load`` for robot files, ``library.load`` for built-in systems
* derive: ``System.derive`` gives a ``Model`` with all terms of ``M a + c + D v + fK + fG = B u``, and ``Model.equations`` to read
* simulate: ``simulate`` gives a ``Run``; ``prepare`` for many of them; ``stepper`` for your own time loop; ``gradient`` differentiates a
  whole motion
* robots: ``Model.inverse_kinematics``, ``control.joint_reference``; ground and contact: ``System.ground``, ``System.contact``
* control: ``control.lqr``, ``control.mpc``, ``control.energy_law``, ``control.equilibrium``; plan: ``plan``
* estimate: ``estimator`` filters, smooths and checks observability
* fly: ``copters.load``, ``copters.fly``, ``maneuvers``
* logs: ``load_log`` reads ULog, MCAP, ROS bags, netCDF, blackbox and CSV; ``Run.save`` also writes MCAP
* identify: ``identify`` finds parameters from logs
* learn: ``env`` for policies, ``tune`` for gains
* many at once: arrays with leading axes everywhere; ``sweep`` for studies

``dir(heavytop)`` lists the public names. Modules that begin with an underscore are not for users.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heavytop import coordinates as coordinates, errors as errors, geometry as geometry, system as system
from heavytop._arrays import matrix as matrix, vector as vector
from heavytop._elsewhere import advice_on
from heavytop._version import __version__ as __version__
from heavytop.system import (
    Bore as Bore,
    Box as Box,
    Capsule as Capsule,
    CenterOfMassTask as CenterOfMassTask,
    Coupled as Coupled,
    Custom as Custom,
    Cylinder as Cylinder,
    Cylindrical as Cylindrical,
    Damping as Damping,
    DirectionTask as DirectionTask,
    Ellipsoid as Ellipsoid,
    Fixed as Fixed,
    ForceElement as ForceElement,
    Free as Free,
    FunctionTask as FunctionTask,
    GazeTask as GazeTask,
    HeightGrid as HeightGrid,
    Inertia as Inertia,
    JointElement as JointElement,
    JointForce as JointForce,
    JointLimits as JointLimits,
    Mesh as Mesh,
    Model as Model,
    PairElement as PairElement,
    Planar as Planar,
    Points as Points,
    PoseTask as PoseTask,
    PositionTask as PositionTask,
    PostureTask as PostureTask,
    Prescribed as Prescribed,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Rim as Rim,
    Sphere as Sphere,
    Spherical as Spherical,
    Stiffness as Stiffness,
    System as System,
    Thruster as Thruster,
    Triangles as Triangles,
    Universal as Universal,
    Wrench as Wrench,
    scene as scene,
)

if TYPE_CHECKING:
    from heavytop import (
        compile as compile,
        control as control,
        copters as copters,
        equations as equations,
        fmi as fmi,
        gym as gym,
        identify as identify,
        io as io,
        library as library,
        log as log,
        plan as plan,
        show as show,
    )
    from heavytop.control import estimator as estimator
    from heavytop.copters import maneuvers as maneuvers
    from heavytop.fmi import load_fmu as load_fmu
    from heavytop.gym import env as env
    from heavytop.io import conventions as conventions, load as load
    from heavytop.log import load_log as load_log
    from heavytop.simulate import (
        RKMK4 as RKMK4,
        RKMK6 as RKMK6,
        RKMK8 as RKMK8,
        RKMK45 as RKMK45,
        ROS2 as ROS2,
        EnergyMomentum as EnergyMomentum,
        Event as Event,
        Feedback as Feedback,
        Loss as Loss,
        Moreau as Moreau,
        ProjectedRK4 as ProjectedRK4,
        Run as Run,
        UserDynamics as UserDynamics,
        Variational as Variational,
        gradient as gradient,
        prepare as prepare,
        simulate as simulate,
        simulate_dynamics as simulate_dynamics,
        stepper as stepper,
        tune as tune,
    )
    from heavytop.simulate.gradients import jax as jax, torch as torch
    from heavytop.sweep import (
        attitude as attitude,
        choice as choice,
        normal as normal,
        sweep as sweep,
        uniform as uniform,
    )

_LAYERS = (
    "compile",
    "control",
    "copters",
    "equations",
    "fmi",
    "gym",
    "identify",
    "io",
    "library",
    "log",
    "plan",
    "show",
    "simulate",
    "sweep",
)
_MODULES = {layer: f"heavytop.{layer}" for layer in _LAYERS}
_MODULES |= {"maneuvers": "heavytop.copters.maneuvers", "conventions": "heavytop.io.conventions"}
_MODULES |= {name: f"heavytop.simulate.gradients.{name}" for name in ("torch", "jax")}
_INTEGRATORS = ("RKMK4", "RKMK6", "RKMK8", "RKMK45", "ROS2", "EnergyMomentum", "Moreau", "ProjectedRK4", "Variational")
_ON_DEMAND = (
    _MODULES
    | dict.fromkeys(_INTEGRATORS, "heavytop.simulate")
    | dict.fromkeys(
        ("Event", "Feedback", "Run", "UserDynamics", "prepare", "simulate_dynamics", "stepper"), "heavytop.simulate"
    )
    | dict.fromkeys(("Loss", "gradient", "tune"), "heavytop.simulate")
    | dict.fromkeys(("attitude", "choice", "normal", "uniform"), "heavytop.sweep")
    | {"estimator": "heavytop.control"}
    | {"load": "heavytop.io.robot_files", "env": "heavytop.gym", "load_fmu": "heavytop.fmi", "load_log": "heavytop.log"}
)
"""Modules of the names that are imported on first use, so that ``import heavytop`` is fast."""


if not TYPE_CHECKING:  # type checkers should see only the names declared above, to find misspelled ones

    def __getattr__(name: str) -> Any:
        if name not in _ON_DEMAND:
            known = () if name.startswith("_") else __dir__()
            raise AttributeError(f"module 'heavytop' has no attribute {name!r}.{advice_on(name, known)}", name=name)
        found = import_module(_ON_DEMAND[name])
        value = globals()[name] = found if name in _MODULES else getattr(found, name)
        return value


def __dir__() -> list[str]:
    names = {*globals(), *_ON_DEMAND} - {"Any", "TYPE_CHECKING", "import_module", "advice_on"}
    return sorted(name for name in names if not name.startswith("_") or name.startswith("__"))
