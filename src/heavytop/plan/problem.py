"""A planning problem, complete and checked: what the transcription turns into numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from heavytop._travel import Unchanging
from heavytop.plan.constraints import Constraint
from heavytop.plan.costs import Cost
from heavytop.system.model import Model


@dataclass(frozen=True, eq=False)
class State:
    """A configuration (nq,) with a velocity (nv,).

    >>> State(np.zeros(2), np.zeros(2)).q.shape
    (2,)
    """

    q: np.ndarray
    v: np.ndarray


@dataclass(frozen=True, eq=False)
class Phase:
    """A part of a motion.

    Attributes
    ----------
    shortest, longest : bounds of its duration in s; equal if it is fixed.
    steps : number of intervals.
    path : constraints at all its nodes. end : constraints at its last node.

    Examples
    --------
    >>> Phase(0.5, 2.0, steps=40).steps
    40
    """

    shortest: float
    longest: float
    steps: int
    path: tuple[Constraint, ...] = ()
    end: tuple[Constraint, ...] = ()

    @property
    def free(self) -> bool:
        """Whether its duration is to be found."""
        return self.longest > self.shortest


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of inputs, of their rates, of velocities: pairs of arrays."""

    u: tuple[np.ndarray, np.ndarray]
    v: tuple[np.ndarray, np.ndarray]
    rate: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class Problem(Unchanging):
    """What is to be planned.

    Attributes
    ----------
    start : the state at the beginning; None if only constraints say where it is. goal : the state at the end, or None.
    total : bounds of the sum of all durations, where single phases do not give it.
    path : constraints of all phases. periodic : whether the end is the state of the start.
    linear : whether inputs are linear in time between the nodes, otherwise they are held.
    """

    model: Model
    parameters: np.ndarray
    start: State | None
    goal: State | None
    phases: tuple[Phase, ...]
    bounds: Bounds
    cost: Cost
    path: tuple[Constraint, ...] = ()
    begin: tuple[Constraint, ...] = ()
    periodic: bool = False
    linear: bool = False
    total: tuple[float, float] | None = None
    hover: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def free(self) -> bool:
        """Whether any duration is to be found."""
        return any(phase.free for phase in self.phases)

    @property
    def steps(self) -> int:
        """Intervals of all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def phase_of_interval(self) -> np.ndarray:
        """Index of the phase of each interval (N,)."""
        return np.repeat(np.arange(len(self.phases)), [phase.steps for phase in self.phases])

    @property
    def ends(self) -> np.ndarray:
        """Node at the end of each phase."""
        return np.cumsum([phase.steps for phase in self.phases])
