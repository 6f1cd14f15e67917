"""Every kind of object a user would send to another process, each with a function that turns it into numbers."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import heavytop as ht
from heavytop import control, copters, library
from heavytop.copters import maneuvers
from heavytop.geometry import se3, so3

ROOT = Path(__file__).parents[2]


def spring_energy(q: Any) -> Any:
    """A function of a module: it is pickled by its name."""
    return 0.5 * 3.0 * q[0] ** 2


def pendulum(potential: Any = None) -> ht.System:
    system = ht.System(name="pendulum")
    mass = system.parameter("mass", 0.7)
    length = system.parameter("length", 1.3)
    inertia = ht.Inertia(mass, com=(0, 0, -length), moment_at_com=(mass * length**2 / 9, mass * length**2 / 9, 0.01))
    system.body("rod", joint=ht.Revolute("y"), inertia=inertia)
    system.input("motor", ht.JointForce("rod"))
    if potential is not None:
        system.potential(potential)
    return system


def numbers_of(value: Any) -> np.ndarray:
    """The same numbers from the same object, whatever it is."""
    if isinstance(value, ht.System):
        return numbers_of(value.derive())
    if isinstance(value, ht.Model):
        q, v = value.random(1), np.linspace(-1, 1, value.nv)
        if value.description.loops or value.description.constraints:
            return value.mass_matrix(value.neutral())
        return value.acceleration(q, v, np.ones(value.nu))
    if isinstance(value, copters.Vehicle):
        return np.concatenate(
            [numbers_of(value.model), np.ravel([i.mass for i in value.describe().describe().inertias.values()])]
        )
    if isinstance(value, control.FeedbackLaw):
        return value(value.model.random(2), np.ones(value.model.nv), value.model.neutral())
    if isinstance(value, control.Reference):
        return value.signal([0.0, 0.13, 0.4])
    if isinstance(value, ht.sweep.Study):
        return np.concatenate([m.values.ravel() for m in value.compute(value.chunks.region(0)).measured.values()])
    if isinstance(value, ht.plan.Plan):
        return np.concatenate([value.q.ravel(), value.inputs(np.linspace(0, 3, 7)).ravel(), value.reference(0.33)[0]])
    if isinstance(value, ht.plan.problems.Task):
        return value.plan(tolerance=1e-3).q
    if isinstance(value, control.Predictive):
        return np.concatenate([value(0.05 * k, np.array([0.1, 0.2]), np.zeros(2)) for k in range(3)])
    if isinstance(value, control.LinearQuadratic):
        model = value.model
        return ht.simulate(model, ([0.1, 0.2], [0, 0]), until=0.2, step=0.01, control=value).q
    if isinstance(value, control.ClosedLoop):
        return numbers_of(value.plant)
    if hasattr(value, "traced") and hasattr(value, "signal_size"):  # a controller: fly it
        model = ht.library.load("furuta").derive() if isinstance(value, ht.Feedback) else copters.quadcopter().model
        if isinstance(value, control.Windy):
            model = windy_model()
        if isinstance(value, control.VirtualVehicle):
            return np.concatenate([value.initial_state(), numbers_of(value.law)])
        if isinstance(value, control.Actuated):
            return np.concatenate([value.initial_state(), numbers_of(value.controller.law)])
        start = model.integrate(model.neutral(), 0.1 * np.ones(model.nv), 1.0), np.zeros(model.nv)
        return ht.simulate(model, start, until=0.05, step=0.01, control=value).q[-1]
    if isinstance(value, ht.UserDynamics):
        return ht.simulate(value, (np.ones(value.nq) / np.sqrt(value.nq), np.ones(value.nv)), until=0.1, step=0.01).q
    if isinstance(value, ht.Run):
        return np.concatenate([value.q.ravel(), value.kinetic_energy.ravel()])
    if isinstance(value, copters.Flight):
        return np.concatenate([value.position_error, value.thrusts.ravel()])
    if isinstance(value, control.Prototype):
        return np.concatenate([np.ravel(m.moments) for m in (*value.inertia.values(), *value.stiffness.values())])
    if isinstance(value, ht.Custom):
        return value.jacobian(np.array([0.3]))
    if hasattr(value, "at") and callable(value.at):  # wind
        return np.ravel(value.at(np.array([0.0, 0.3, 1.0])))
    if isinstance(value, ht.Event):
        return np.array([float(value.function(0.1, np.ones(3), np.ones(3)))])
    return np.frombuffer(repr(value).encode(), dtype=np.uint8)


def windy_model() -> ht.Model:
    system = copters.quadcopter().describe()
    control.add_wind(system, "hull", 0.2)
    return system.derive()


def height(t: Any, q: Any, v: Any) -> Any:
    return q[2] - 0.5


def samples(names: Sequence[str] = ()) -> dict[str, Any]:
    """The objects by name; all of them unless some are named."""
    return {name: make() for name, make in _makers() if not names or name in names}


ARM = """<robot name="arm"><link name="base"/>
<link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="2"/>
<inertia ixx="0.1" iyy="0.1" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="elbow" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/><dynamics damping="0.1"/></joint></robot>"""
PENDULUM = """<mujoco model="ball"><worldbody><body name="ball" pos="0 0 1"><freejoint/>
<geom type="sphere" size="0.1" mass="1.5"/><body name="arm"><joint type="hinge" axis="0 1 0" damping="0.2"/>
<geom type="capsule" size="0.02 0.2" mass="0.3"/></body></body></worldbody></mujoco>"""
ELEMENT = """
import heavytop as ht

class Tether(ht.PairElement):
    def __init__(self, a, b, stiffness):
        self.a, self.b, self.stiffness = a, b, stiffness

    def energy(self, pose):
        r = pose[:3, 3]
        return 0.5 * self.stiffness * (r @ r) ** 2
"""


def load_text(text: str, suffix: str) -> Any:
    """A robot from a file that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"robot{suffix}"
        file.write_text(text)
        return ht.load(file)


def with_element(name: str) -> ht.System:
    """A system with an element whose class is in a user's script that other processes cannot import."""
    module = ModuleType(name)
    exec(compile(ELEMENT, f"{name}.py", "exec"), vars(module))
    module.Tether.__module__ = "__main__"  # pyright: ignore  # as in a script that is run
    system = pendulum()
    system.add(module.Tether("world", "rod", 2.0))  # pyright: ignore
    return system


def _screw(q: Any) -> Any:
    return se3.pose(so3.rotation_about("z", q[0]), 0.005 * q[0] * np.eye(3)[2])


def _planned() -> Iterator[tuple[str, Callable[[], Any]]]:
    cart = library.cart_pole().derive()
    task = ht.plan.problems.swing_up_cart_pole(steps=20)
    swing = cache(lambda: task.plan(tolerance=1e-3))
    yield "regulator", lambda: control.lqr(cart, [0.0, 0.0], limits=(-20, 20))
    yield "task", lambda: task
    yield "plan", swing
    yield "reference of a plan", lambda: swing().reference
    yield "regulator along a plan", lambda: control.lqr(swing().model, swing().reference)
    yield "predictive control", lambda: control.mpc(cart, [0.0, 0.0], horizon=5, limits=(-20, 20))
    yield "cost", lambda: ht.plan.Time() + 0.1 * ht.plan.Effort()
    yield "gate", lambda: ht.plan.Gate("hull", (1.0, 2.0, 3.0))


def _makers() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "system", lambda: pendulum()
    yield "system with a function of a module", lambda: pendulum(spring_energy)
    yield "model", lambda: pendulum().derive()
    yield "model with loops", lambda: library.load("bricard").derive()
    yield "model with constraints", lambda: library.load("car").derive()
    yield "interpreted model", lambda: pendulum().derive(native=False)
    for name in ("double-pendulum", "tricopter-load", "heavy-top", "chain:4", "rolling-disc"):
        yield f"system {name}", partial(library.load, name)
    quad = copters.quadcopter()
    yield "prototype", lambda: quad.prototype
    yield "limits", lambda: quad.limits
    yield "airframe", lambda: quad.airframe
    yield "conditions", lambda: copters.Conditions(wind=2.0, seed=3)
    yield "integral", lambda: control.Integral("hull", gain=1.0)
    for maker in (
        copters.quadcopter,
        copters.tricopter,
        copters.bicopter,
        copters.hexacopter,
        copters.quadcopter_with_load,
    ):
        yield maker.__name__, maker
    yield "vehicle of the catalogue", lambda: copters.load("crazyflie")
    for kind in ("energy", "particle", "body"):
        yield f"{kind} law", partial(quad.law, kind)
    yield "law with integral action", lambda: quad.law("energy", integral=control.Integral("hull", gain=1.0))
    yield "shared law", lambda: copters.hexacopter().law("energy")
    arm = pendulum().derive()
    yield "computed torque", lambda: control.computed_torque(arm, stiffness=3.0, damping=2.0)
    yield "set point", lambda: control.Reference.set_point(quad.model)
    yield "reference from a function", lambda: control.Reference.from_function(arm, lambda t: ht.vector(np.sin(2 * t)))
    hold = quad.law("energy").with_reference(quad.model.neutral())
    yield "tracking", lambda: hold
    yield "noisy", lambda: control.Noisy(hold, quad.model, 0.01, 0.02, seed=4)
    yield "delayed", lambda: control.Delayed(hold, 2, (quad.model.neutral(), np.zeros(6)))
    yield "windy", lambda: control.Windy(hold, control.ConstantWind((1.0, 0.5, 0.0)))
    yield "gust", lambda: control.Gust((3.0, 0.0, 0.0), 0.1, 1.0)
    yield "turbulence", lambda: control.VonKarman((3.0, 0.0, 0.0), seed=2)
    yield "virtual vehicle", lambda: control.VirtualVehicle(quad.law("energy"), control.Reference.set_point(quad.model))
    yield "closed loop", lambda: control.ClosedLoop(quad.model, hold)
    for integrator in (ht.RKMK4(), ht.RKMK45(), ht.EnergyMomentum(), ht.Variational(), ht.ProjectedRK4()):
        yield f"integrator {type(integrator).__name__}", partial(copy, integrator)
    yield "event", lambda: ht.Event(height, name="height")
    yield "run", lambda: ht.simulate(arm, ([0.1], [0.2]), until=0.1, step=0.01)
    yield "batch", lambda: ht.simulate(arm, (np.linspace(0, 1, 5)[:, None], np.zeros((5, 1))), until=0.1, step=0.01)
    yield from _planned()
    yield "robot from URDF", lambda: load_text(ARM, ".urdf")
    yield "robot from MJCF", lambda: load_text(PENDULUM, ".xml").derive()
    yield "element from a user's file", lambda: with_element("tethers")
    yield "study of a model", lambda: ht.sweep.make_study(arm, {"mass": [0.5, 1.0]}, until=0.1, step=0.01)
    yield (
        "study of a vehicle",
        lambda: ht.sweep.make_study(
            quad, {"tilt": ht.uniform(0, 1)}, 3, maneuver="hover", until=0.1, step=0.01, wind=1.0
        ),
    )
    # functions by value
    yield "system with a lambda", lambda: pendulum(lambda q: 2.0 * q[0] ** 4)
    yield "joint", lambda: ht.Custom(ht.coordinates.Angle(), _screw)
    yield "feedback", lambda: ht.Feedback(lambda t, q, v: -2.0 * v[:1] + 0.1 * q[:1])
    fall = lambda q, v: ht.vector(-9.81 * q[1])  # noqa: E731
    yield "user-defined dynamics", lambda: ht.UserDynamics(ht.coordinates.Circle(), fall, name="circle")
    for name in ("hover", "recovery", "eight", "looping", "flip"):
        yield f"maneuver {name}", partial(maneuvers.make, name, quad)
    yield "tracking of a maneuver", lambda: quad.law("body").with_reference(maneuvers.make("circle", quad))
    yield "flight", lambda: copters.fly(quad, "hover", until=0.2)


BY_VALUE = (
    "regulator",
    "plan",
    "reference of a plan",
    "element from a user's file",
    "system with a lambda",
    "feedback",
    "joint",
    "user-defined dynamics",
    "maneuver",
    "tracking of a maneuver",
    "flight",
    "model with constraints",
    "system rolling-disc",
)
"""These hold functions without a name in a module."""
QUICK = (
    "system",
    "system with a lambda",
    "model",
    "quadcopter",
    "energy law",
    "delayed",
    "feedback",
    "maneuver looping",
    "run",
)
"""The few that stand for all in the quick tests."""


def answer() -> None:
    """Read a pickle of named objects, write the numbers of each."""
    import pickle

    found = pickle.load(sys.stdin.buffer)
    pickle.dump({name: numbers_of(value) for name, value in found.items()}, sys.stdout.buffer)


if __name__ == "__main__":
    answer()
