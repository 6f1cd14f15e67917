"""A task: start, observation, reward and end of episodes as functions in NumPy notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate
from heavytop._format import Brief
from heavytop.errors import SimulationError
from heavytop.functions import Value


@dataclass(frozen=True, eq=False, repr=False)
class At(Brief):
    """The state of an environment after a step, as symbols: functions of a task take it.

    Attributes
    ----------
    model : model of the system. q, v : state. u : inputs. action : the last one. goal : numbers of the episode that ``reset`` drew.
    p : parameters. t : time in the episode, s.

    Examples
    --------
    >>> reward = lambda at: -at.q[0] ** 2 - 0.1 * at.v[0] ** 2
    """

    model: Any
    q: Array
    v: Array
    u: Array
    action: Array
    goal: Array
    p: Array
    t: Array

    def pose(self, body: str) -> tuple[Array, Array]:
        """Rotation matrix (3, 3) and position (3,) of a body in the world."""
        G = self.model.traced(f"pose:world:{body}").expressions(self.q, self.p)[0]
        return G[:3, :3], G[:3, 3]

    def twist(self, body: str) -> tuple[Array, Array]:
        """Linear and angular velocity (3,) of a body in its axes."""
        J = self.model.traced(f"jacobian:world:{body}").expressions(self.q, self.p)[0]
        V = np.matvec(J, self.v)
        return V[:3], V[3:]

    def distance(self, q: Array) -> Array:
        """Difference (nv,) of the present configuration from ``q``: shifts and turning vectors."""
        return self.model.coordinates.difference(q, self.q)


@dataclass(frozen=True, eq=False, repr=False)
class EnvTask(Brief, Value):
    """A task for :func:`heavytop.gym.env`. Its functions are traced once and run natively; they use NumPy notation on symbols.

    With ``traced=False`` they are plain NumPy functions, which may branch and call other libraries, and are called outside the native step for all
    environments together: every array of ``at`` and of ``draw`` has a leading axis (n, ...), and so do the results.

    Parameters
    ----------
    reset : ``fn(draw) -> (q, v)`` or ``(q, v, goal)``: the start of an episode from random numbers (:class:`Draw`).
    observation : ``fn(at) -> (n,)``, reward : ``fn(at) -> ()`` of the state after a step (:class:`At`).
    terminated : ``fn(at) -> ()``, not zero where the episode ends; None: never.
    horizon : s after which an episode is truncated. period : s between actions. substeps : steps of the integrator per action.
    action : "inputs", "rates", "attitude", "velocity" or an :class:`.Action`. lag : time constant of the actuators, s.
    limits : (lower, upper) of the inputs; None: those of the vehicle, or the efforts of the joints (``system.limits``).
    randomized : parameter -> (low, high), drawn for every episode; of multicopters also "payload" (kg) and "drag" (N s/m).
    traced : whether reset, observation, reward and terminated are traced; False: NumPy functions of batches.

    Examples
    --------
    >>> import numpy as np
    >>> balance = EnvTask(
    ...     reset=lambda draw: (draw.uniform(-0.1, 0.1, 2), np.zeros(2)),
    ...     observation=lambda at: np.concatenate([at.q, at.v]),
    ...     reward=lambda at: 1.0 - at.q[1] ** 2,
    ...     terminated=lambda at: np.abs(at.q[1]) > 0.5,
    ...     limits=(-10.0, 10.0),
    ... )
    """

    reset: Callable[..., Any]
    observation: Callable[[At], Array]
    reward: Callable[[At], Array]
    terminated: Callable[[At], Array] | None = None
    horizon: float = 5.0
    period: float = 0.01
    substeps: int = 1
    action: Any = "inputs"
    lag: float = 0.0
    limits: Any = None
    randomized: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    traced: bool = True

    def __post_init__(self) -> None:
        for name in ("reset", "observation", "reward"):
            if not callable(getattr(self, name)):
                raise SimulationError(f"{name} of a task must be a function, got {getattr(self, name)!r}.")
        for name, least in (("horizon", self.period), ("period", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0 or value < least:
                raise SimulationError(
                    f"{name} of a task must be a positive number of seconds (horizon >= period), got {value!r}."
                )
        if not isinstance(self.substeps, int) or self.substeps < 1:
            raise SimulationError(f"substeps of a task must be 1, 2, ..., got {self.substeps!r}.")
        for name, pair in self.randomized.items():
            if not (np.shape(pair) == (2,) and np.isfinite(pair).all() and pair[0] <= pair[1]):
                raise SimulationError(f"the range of parameter {name!r} must be (low, high), got {pair!r}.")


def flat(*parts: Array) -> Array:
    """Numbers, vectors and matrices as one vector.

    >>> flat(np.eye(2), 3.0).tolist()
    [1.0, 0.0, 0.0, 1.0, 3.0]
    """
    return concatenate(*(np.reshape(x, (int(np.prod(np.shape(x))) if np.shape(x) else 1,)) for x in parts))
