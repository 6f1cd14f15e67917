"""Peers: name, installed version, and a method for each supported comparison.

A benchmark uses the peers that support it; one that is not installed is reported as missing. No time of a peer is
reported before its results were found equal to ours.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from heavytop._arrays import Floats
from heavytop.copters import Vehicle
from heavytop.system import Model
from heavytop_bench.measure import Work
from heavytop_bench.states import States
from heavytop_bench.trees import Tree

AGREE = 8
"""States whose results are compared before anything is timed."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The results of a peer, and the timed call.

    Attributes
    ----------
    results : arrays with one row for each of the first :data:`AGREE` states, in our coordinates.
    work : does ``evaluations`` of them.
    idle : the same number of calls from Python with nothing to do; its time is subtracted. None where the loop is the peer's own.
    """

    results: tuple[Floats, ...]
    work: Work
    evaluations: int
    idle: Work | None = None

    def candidates(self, name: str) -> dict[str, Work]:
        """The calls to time, by name."""
        return {name: self.work} if self.idle is None else {name: self.work, f"{name} call": self.idle}

    def seconds(self, times: Mapping[str, float], name: str) -> float:
        """Seconds of one evaluation inside the engine.

        >>> trial = Trial((), lambda: None, 4, lambda: None)
        >>> trial.seconds({"pin": 5.0, "pin call": 1.0}, "pin")
        1.0
        """
        idle = times[f"{name} call"] if self.idle is not None else 0.0
        return max(times[name] - idle, 1e-12) / self.evaluations


@dataclass(frozen=True, eq=False)
class RobotCase:
    """A robot from a file: our model of it, the URDF file, and states q, v with generalised forces, one per row in our coordinates.

    ``scratch`` is a folder for files that a peer needs.
    """

    model: Model
    file: Path
    is_free: bool
    q: Floats
    v: Floats
    forces: Floats
    scratch: Path


FreeState = tuple[Floats, Floats]
"""Angular velocity (3,) in the body, rotation matrix (3, 3)."""


@dataclass(frozen=True, eq=False)
class FreeBody:
    """Principal moments in kg m^2 and the initial angular velocity in rad/s; the attitude starts at the identity."""

    moment: Floats
    omega: Floats

    def energy(self, state: FreeState) -> float:
        """Kinetic energy in J."""
        return 0.5 * float(state[0] @ (self.moment * state[0]))

    def momentum(self, state: FreeState) -> Floats:
        """Angular momentum in world axes."""
        return state[1] @ (self.moment * state[0])

    @property
    def start(self) -> FreeState:
        """The initial state."""
        return self.omega, np.eye(3)


@dataclass(frozen=True, eq=False)
class FreeBodyMethod:
    """A way in which a peer integrates the free body.

    Attributes
    ----------
    make : body, step size in s, number of steps -> a call that integrates from the start to the end. Only the call is timed.
    is_rival : whether it takes part in the comparison of accuracy against time; the others are listed in the long runs.
    most_steps : limit for loops in Python.
    evaluations : body -> trial of the forward dynamics alone, four of which one step takes; None: not compared.
    """

    name: str
    make: Callable[[FreeBody, float, int], Callable[[], FreeState]]
    is_rival: bool = True
    most_steps: int | None = None
    evaluations: Callable[[FreeBody], Trial] | None = None


@dataclass(frozen=True, eq=False)
class MotionCase:
    """An optimal motion for planners: from rest to rest in a fixed time with least effort, inputs held and limited.

    The cost is the integral of ``sum_i weight (u_i - about_i)^2``; ``low`` and ``high`` (nu,) limit the inputs.
    """

    name: str
    model: Model
    start: Floats
    goal: Floats
    duration: float
    steps: int
    weight: float
    about: Floats
    low: Floats
    high: Floats

    def effort(self, u: Floats) -> float:
        """Cost of held inputs u (steps, nu)."""
        return float(self.weight * np.sum((u - self.about) ** 2) * self.duration / self.steps)


@dataclass(frozen=True, eq=False)
class MotionFound:
    """The result of a planner: held inputs u (steps, nu), iterations, and a description."""

    u: Floats
    iterations: int
    how: str


@dataclass(frozen=True, eq=False)
class MotionTrial:
    """A planner that is ready.

    Attributes
    ----------
    accelerations : of states q (n, nq), v (n, nv) with inputs u (n, nu): (n, nv) in our coordinates, to be compared before anything is timed.
    solve : finds the motion; nothing else is timed. is_native : whether all of it is compiled code; otherwise times are not compared.
    """

    accelerations: Callable[[Floats, Floats, Floats], Floats]
    solve: Callable[[], MotionFound]
    is_native: bool = True


class Flights(Protocol):
    """Flights of the Hummingbird with the controller of the peer."""

    def track(self, name: str, wrong: bool = False) -> tuple[float, float]:
        """RMS and largest distance (m) on a course; ``wrong``: the controller believes in other masses."""
        ...

    def recovery(self, angle: float, axis: str = "x") -> tuple[float, float]:
        """Settling time (s, inf if never) and loss of height (m) from rest at an angle (degrees)."""
        ...

    def steps_per_second(self, steps: int, repeats: int) -> float:
        """Closed-loop steps of 10 ms per second of processor time while a set point is held, best of several runs."""
        ...


class Peer(ABC):
    """Another engine. Subclasses set the two names and override the supported comparisons.

    Attributes
    ----------
    name : of its distribution, its columns and its ratios.
    module : the imported module.

    Examples
    --------
    >>> class Ours(Peer):
    ...     name = module = "heavytop"
    ...     def forward(self, tree, states): ...
    ...
    >>> Ours().offers("forward"), Ours().offers("single")
    (True, False)
    """

    name: str
    module: str

    def version(self) -> str | None:
        """Its version, None if it is not installed."""
        if importlib.util.find_spec(self.module) is None:
            return None
        return importlib.metadata.version(self.name)

    def offers(self, what: str) -> bool:
        """Whether the method ``what`` is overridden."""
        return getattr(type(self), what) is not getattr(Peer, what)

    def forward(self, tree: Tree, states: States) -> Trial:
        """Accelerations of all states."""
        raise NotImplementedError

    def single(self, tree: Tree, states: States) -> Trial:
        """Accelerations of one state after the other."""
        raise NotImplementedError

    def derivatives(self, tree: Tree, states: States) -> Trial:
        """Derivatives of the accelerations by displacements, velocities and forces, for joints with constant coordinates."""
        raise NotImplementedError

    def robot(self, case: RobotCase) -> Trial:
        """Accelerations of a robot from a file; raises a ModelError if the engine rejects it."""
        raise NotImplementedError

    def free_body(self) -> tuple[FreeBodyMethod, ...]:
        """Its methods for the free rigid body."""
        raise NotImplementedError

    def rollout(self, craft: Vehicle, q: Floats, v: Floats, u: Floats, step: float, steps: int) -> Trial:
        """RK4 steps of multicopters from states (n, 12), (n, 6) with constant thrusts (n, k); results: positions (n, 3) at the end."""
        raise NotImplementedError

    def flights(self) -> Flights:
        """Flights of the Hummingbird with its own controller."""
        raise NotImplementedError

    def motion(self, case: MotionCase) -> tuple[MotionTrial, ...]:
        """Ways in which it finds an optimal motion; the better one counts."""
        raise NotImplementedError
