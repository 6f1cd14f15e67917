"""An optimal control problem: the data of the transcription to a nonlinear program, apart from costs and constraints at nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from heavytop.ocp.chart_dynamics import ChartRates, TimedChartRates
from heavytop.system import Model


@dataclass(frozen=True, eq=False)
class State:
    """A configuration (nq,) with a velocity (nv,).

    >>> State(np.zeros(2), np.zeros(2)).q.shape
    (2,)
    """

    q: np.ndarray
    v: np.ndarray


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of inputs u, velocities v and rates of inputs: pairs of arrays."""

    u: tuple[np.ndarray, np.ndarray]
    v: tuple[np.ndarray, np.ndarray]
    rate: tuple[np.ndarray, np.ndarray] | None = None


class PhaseLike(Protocol):
    """A part of a motion: bounds of its duration in s and its number of intervals."""

    @property
    def shortest(self) -> float: ...
    @property
    def longest(self) -> float: ...
    @property
    def steps(self) -> int: ...


@dataclass(frozen=True, eq=False)
class OptimalControlProblem:
    """A motion between two ends in phases.

    Attributes
    ----------
    start : the state at the beginning; None if only constraints specify it. goal : the state at the end, or None.
    total : bounds of the sum of all durations, where single phases do not give it.
    periodic : whether the end is the state of the start.
    linear : whether inputs are linear in time between the nodes, otherwise they are held.
    timed : whether the time is the last coordinate; configurations of start and goal then include it, NaN where it is open.
    hover : (nu,) inputs nearest to balance at the start.
    follows : (ne + nv,) which entries of (e, v) at the goal follow from the others by loops and constraints; None: none.
    units : (nu,) in which solvers count the inputs; None: as they are.
    """

    model: Model
    parameters: np.ndarray
    start: State | None
    goal: State | None
    phases: Sequence[PhaseLike]
    bounds: Bounds
    periodic: bool = False
    linear: bool = False
    timed: bool = False
    total: tuple[float, float] | None = None
    hover: np.ndarray = field(default_factory=lambda: np.zeros(0))
    follows: np.ndarray | None = None
    units: np.ndarray | None = None

    @property
    def rates(self) -> ChartRates:
        """The rates of the model in charts, with the time as last coordinate if the problem is timed."""
        return (TimedChartRates if self.timed else ChartRates).of(self.model)

    @property
    def start_time(self) -> float:
        """The time (s) at the start, from the parameters."""
        return float(self.parameters[-1]) if self.model.description.time is not None else 0.0

    def with_time(self, q: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Configurations (n, nq) of the model at the times t (n,) from the start, as ``rates`` takes them."""
        return np.column_stack([q, self.start_time + t]) if self.timed else q

    def pinned(self, state: State, q: np.ndarray) -> np.ndarray:
        """The configuration of an end: q (nq,) where the state leaves it open (the time at the goal)."""
        return np.where(np.isnan(state.q), q, state.q)

    @property
    def free(self) -> bool:
        """Whether any duration is to be found."""
        return any(phase.longest > phase.shortest for phase in self.phases)

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
