"""Ready-made planning problems: swing-ups, gates, transport of loads, transfers, reorientation in free flight.

Each function returns a :class:`Task`; ``task.plan()`` solves it from the default guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop import library
from heavytop.errors import unknown_name, wrong_shape
from heavytop.functions import Value
from heavytop.ocp import needed_inputs
from heavytop.plan.api import plan
from heavytop.plan.constraints import Between, Cone, Constraint, Gate, HalfSpace, Own, Point, Rest, swing
from heavytop.plan.costs import Effort, Speed, Time
from heavytop.plan.problem import Phase
from heavytop.plan.result import Plan
from heavytop.plan.scene import check_frame
from heavytop.system import GRAVITY, Damping, Free, Inertia, JointForce, Model, Revolute, Spherical, System, Wrench


@dataclass(frozen=True, eq=False)
class Task(Value):
    """A ready-made problem.

    Attributes
    ----------
    name, text : its name and description. model, start, goal : as in :func:`heavytop.plan`; options : its other arguments.
    """

    name: str
    text: str
    model: Model
    start: Any
    goal: Any
    options: dict[str, Any] = field(default_factory=dict)

    def plan(self, **options: Any) -> Plan:
        """Plan it; ``options`` replace those of the task."""
        return plan(self.model, self.start, self.goal, **(self.options | options))


def swing_up_cart_pole(duration: float = 2.0, force: float = 20.0, steps: int = 60) -> Task:
    """Swing the pole on a cart up with least effort.

    Examples
    --------
    >>> round(swing_up_cart_pole().plan(tolerance=1e-4).cost, 3)
    0.536
    """
    options = {"duration": duration, "limits": (-force, force), "cost": 0.01 * Effort(), "steps": steps, "guesses": 0}
    return Task("cart-pole", "swing-up", library.cart_pole().derive(), [0.0, np.pi], [0.0, 0.0], options)


def swing_up_furuta(duration: float = 2.5, torque: float = 0.3, steps: int = 100) -> Task:
    """Swing the rotary pendulum up with least effort; its limits are active.

    From one start, as in other solvers: the cost is 6.596. ``plan(guesses=None)`` finds the best of nine starts.
    """
    options = {
        "duration": duration, "limits": (-torque, torque), "cost": 100.0 * Effort(), "steps": steps, "guesses": 0,
    }  # fmt: skip
    return Task("furuta", "swing-up", library.furuta().derive(), [0.0, np.pi], [0.0, 0.0], options)


def quadcopter_gates(
    gates: Sequence[Any] = ((3.0, 2.0, 1.0), (6.0, -2.0, 2.0), (9.0, 0.0, 1.0)),
    goal: Any = (12.0, 0.0, 1.0),
    steps: int = 80,
) -> Task:
    """A quadcopter from rest through gates to rest in least time."""
    model = library.quadcopter().derive()
    hover = hover_input(model)
    options = {
        "limits": (0.0, 3.2 * hover.max()), "path": [Gate("hull", at) for at in gates], "steps": steps,
        "cost": Time() + 1e-4 * Effort(about=hover) + 1e-4 * Speed([0, 0, 0, 1, 1, 1]),
    }  # fmt: skip
    return Task("gates", "least time through gates", model, model.neutral(), _moved(model, goal), options)


def quadcopter_flip(steps: int = 60) -> Task:
    """A quadcopter rolls once around, over one side, its back and the other side, from rest to rest in least time.

    A gate upside down alone does not suffice: rolling back from there is faster than rolling on.
    """
    model = library.quadcopter().derive()
    hover = hover_input(model)
    one_side, back, other_side = (
        Cone("hull", np.radians(angle), about=about)
        for angle, about in ((45.0, (0.0, -1.0, 0.0)), (5.0, (0.0, 0.0, -1.0)), (45.0, (0.0, 1.0, 0.0)))
    )
    quarter = max(steps // 4, 1)
    on_the_way = [Phase(0.02, 3.0, quarter, end=(cone,)) for cone in (one_side, back, other_side)]
    options = {
        "limits": (0.0, 2.0 * hover.max()), "phases": [*on_the_way, Phase(0.02, 3.0, max(steps - 3 * quarter, 1))],
        "cost": Time() + 1e-4 * Effort(about=hover),
    }  # fmt: skip
    return Task("flip", "least time, once around", model, model.neutral(), model.neutral(), options)


def quadcopter_perch(at: Any = (4.0, 0.0, 2.0), steps: int = 60) -> Task:
    """A quadcopter lands on a wall in least time: at rest, its axis along the normal of the wall, which faces -x."""
    model = library.quadcopter().derive()
    hover = hover_input(model)
    place = np.asarray(at, dtype=float)
    if place.shape != (3,):
        raise wrong_shape("the position to perch", (3,), place.shape)
    beyond = float(place[0])
    goal = [*perch(model, "hull", place), Cone("hull", np.radians(2.0), about=(-1.0, 0.0, 0.0))]
    options = {
        "limits": (0.0, 2.5 * hover.max()), "path": [HalfSpace("hull", (-1.0, 0.0, 0.0), -beyond)], "steps": steps,
        "cost": Time() + 1e-4 * Effort(about=hover) + 1e-4 * Speed([0, 0, 0, 1, 1, 1]),
    }  # fmt: skip
    return Task("perch", "lands on a wall in least time", model, model.neutral(), goal, options)


def carrier() -> System:
    """A tricopter whose three propellers tilt (two forces each) with a load on a spherical joint 0.45 m below."""
    system = System(gravity=(0.0, 0.0, -GRAVITY), name="tricopter with load")
    hull = Inertia(1.0, com=(0.0, 0.0, 0.01), moment_at_com=(0.012, 0.013, 0.021))
    load = Inertia(0.3, com=(0.0, 0.0, -0.4), moment_at_com=(0.02, 0.02, 0.001))
    system.body("hull", joint=Free(), inertia=hull)
    system.body("load", parent="hull", at=(0.0, 0.0, -0.05), joint=Spherical(), inertia=load)
    system.damper("world", "hull", Damping(0.1))
    for k, angle in enumerate(np.pi / 3 * np.array([1.0, 3.0, 5.0]), start=1):
        at = np.array([0.25 * np.cos(angle), 0.25 * np.sin(angle), 0.04])
        for name, force in (
            (f"ft{k}", np.array([-np.sin(angle), np.cos(angle), 0.0])),
            (f"fz{k}", np.array([0.0, 0.0, 1.0])),
        ):
            system.input(name, Wrench("hull", force=force, moment=np.cross(at, force)))
    return system


def load_transport(distance: float = 3.0, angle: float = np.radians(30.0), steps: int = 60, turns: float = 0.0) -> Task:
    """A tricopter carries a load over some metres in least time, from rest to rest; the load swings at most by ``angle``.

    ``turns`` is the weight of squared angular rates. Without it spinning costs nothing, the optimum is flat, and with a wide angle the solver
    takes minutes.
    """
    model = carrier().derive()
    hover = hover_input(model)
    options = {
        "limits": ([-4.0, 0.0] * 3, [4.0, 9.0] * 3), "path": [swing("load", angle)], "steps": steps,
        "cost": Time() + 1e-3 * Effort(about=hover) + turns * Speed([0.0] * 3 + [1.0] * 6),
    }  # fmt: skip
    goal = _moved(model, (distance, 0.0, 0.5))
    return Task("load", "transport within bounded swing", model, model.neutral(), goal, options)


def bicopter() -> System:
    """Two propellers above the centre of mass that tilt fore and aft in planes inclined inwards: four forces, six degrees of freedom."""
    system = System(gravity=(0.0, 0.0, -GRAVITY), name="bicopter")
    system.body("hull", joint=Free(), inertia=Inertia(1.0, moment_at_com=(0.020, 0.006, 0.022)))
    tilt = np.radians(15.0)
    for k, side in ((1, 1.0), (2, -1.0)):
        at = np.array([0.0, side * 0.25, 0.10])
        normal = np.array([0.0, -side * np.sin(tilt), np.cos(tilt)])
        for name, force in ((f"fx{k}", np.array([1.0, 0.0, 0.0])), (f"fn{k}", normal)):
            system.input(name, Wrench("hull", force=force, moment=np.cross(at, force)))
    return system


def bicopter_transfer(goal: Any = (2.0, 1.0, 0.5), steps: int = 60) -> Task:
    """A bicopter from rest to rest at another place in least time."""
    model = bicopter().derive()
    hover = hover_input(model)
    options = {
        "limits": ([-4.0, 0.0] * 2, [4.0, 10.0] * 2), "steps": steps, "cost": Time() + 1e-3 * Effort(about=hover),
    }  # fmt: skip
    return Task("bicopter", "transfer", model, model.neutral(), _moved(model, goal), options)


def free_arm() -> System:
    """A free-floating base with an arm of two links that turn about crossed axes; without external forces, momentum is conserved."""
    system = System(gravity=(0.0, 0.0, 0.0), name="free-flying arm")
    system.body("base", joint=Free(), inertia=Inertia(10.0, moment_at_com=(0.5, 0.5, 0.4)))
    link = Inertia(2.0, com=(0.0, 0.0, 0.4), moment_at_com=(0.1, 0.1, 0.01))
    system.body("upper", parent="base", at=(0.0, 0.0, 0.3), joint=Revolute("y"), inertia=link)
    system.body("lower", parent="upper", at=(0.0, 0.0, 0.8), joint=Revolute("x"), inertia=link)
    system.input("shoulder", JointForce("upper"))
    system.input("elbow", JointForce("lower"))
    return system


def arm_reorientation(angle: float = np.radians(20.0), duration: float = 6.0, steps: int = 60) -> Task:
    """A free-flying arm turns its base about an axis without joint, by moving its two joints in a loop, like a falling cat.

    Angular momentum stays zero; the arm ends in its initial shape.
    """
    model = free_arm().derive()
    start = model.neutral()
    turned = Own(
        lambda q, v, u: np.stack([q[4] - np.sin(angle), q[5], q[8]]), np.zeros(3), np.zeros(3), name="base turned"
    )
    names = [f"{joint}.{part}" for joint in ("upper", "lower") for part in ("angle", "rate")]
    straight = [Between(name, 0.0, 0.0) for name in names]  # then the base is at rest too, as momentum is conserved
    options = {"duration": duration, "limits": (-5.0, 5.0), "cost": Effort(), "steps": steps}
    return Task("arm", "reorientation without outer forces", model, start, [turned, *straight], options)


PROBLEMS: dict[str, Callable[[], Task]] = {
    "cart-pole": swing_up_cart_pole,
    "furuta": swing_up_furuta,
    "gates": quadcopter_gates,
    "flip": quadcopter_flip,
    "perch": quadcopter_perch,
    "load": load_transport,
    "bicopter": bicopter_transfer,
    "arm": arm_reorientation,
}


BEST_KNOWN = {
    "cart-pole": 0.535849, "furuta": 6.59556, "gates": 2.48906, "flip": 0.659498, "perch": 0.982786, "load": 1.62925, "bicopter": 0.859894,
    "arm": 0.362534,
}  # fmt: skip
"""Least known costs, by IPOPT from the default guess with the tolerance 1e-8. fatrop, with derivatives of CasADi, finds the same to
1e-6 for cart-pole, furuta and bicopter; the others were found by one solver only and detect regressions, not an optimum."""


def load(name: str) -> Task:
    """Return the built-in problem with the given name."""
    if name not in PROBLEMS:
        raise unknown_name("planning problem", name, PROBLEMS)
    return PROBLEMS[name]()


def hover_input(model: Model) -> np.ndarray:
    """Inputs (nu,) in balance in the neutral configuration."""
    zero = np.zeros(model.nv)
    return needed_inputs(model, model.neutral(), zero, zero)


def _moved(model: Model, place: Any) -> np.ndarray:
    """The neutral configuration with the free body at another position."""
    q = model.neutral().copy()
    q[:3] = place
    return q


def perch(model: Model, frame: str, at: Any, offset: Any = (0.0, 0.0, 0.0)) -> tuple[Constraint, ...]:
    """A goal: a point of a frame of the model at a position, at rest, in any attitude."""
    check_frame(model, frame)
    return Point(frame, at, offset), Rest()
