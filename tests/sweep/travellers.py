"""Every kind of object a user would send to another process, each with a function that turns it into numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import heavytop as ht
from heavytop import control, copters, library
from heavytop.copters import maneuvers
from heavytop.geometry import se3, so3

ROOT = Path(__file__).parents[2]


def spring_energy(q: Any) -> Any:
    """A function of a module: it travels by its name."""
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


def travellers(names: Sequence[str] = ()) -> dict[str, Any]:
    """The objects by name; all of them unless some are named."""
    return {name: make() for name, make in _makers() if not names or name in names}


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
    yield "computed torque", lambda: control.computed_torque(arm, 2.0, 3.0)
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
    # functions by value
    yield "system with a lambda", lambda: pendulum(lambda q: 2.0 * q[0] ** 4)
    yield (
        "joint",
        ht.Custom(
            ht.coordinates.Angle(), lambda q: se3.pose(so3.rotation_about("z", q[0]), 0.005 * q[0] * np.eye(3)[2])
        ),
    )
    yield "feedback", lambda: ht.Feedback(lambda t, q, v: -2.0 * v[:1] + 0.1 * q[:1])
    yield (
        "dynamics of the user",
        ht.UserDynamics(ht.coordinates.Circle(), lambda q, v: ht.vector(-9.81 * q[1]), name="circle"),
    )
    for name in ("hover", "recovery", "eight", "looping", "flip"):
        yield f"maneuver {name}", partial(maneuvers.make, name, quad)
    yield "tracking of a maneuver", lambda: quad.law("body").with_reference(maneuvers.make("circle", quad))
    yield "flight", lambda: copters.fly(quad, "hover", until=0.2)


BY_VALUE = (
    "system with a lambda",
    "feedback",
    "joint",
    "dynamics of the user",
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
