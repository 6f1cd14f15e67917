"""An optimal control problem: the data of the transcription to a nonlinear program, apart from costs and constraints at nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from heavytop._arrays import is_finite
from heavytop.ocp.charts import ChartRates, TimedChartRates
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


DEPENDENT = 1e-9
"""Relative singular value below which a direction of the inputs is without effect."""


def needed_inputs(
    model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray, parameters: Mapping[str, Any] | None = None
) -> np.ndarray:
    """Inputs u (..., nu) of least error in ``B u = M a + bias``, for states (..., nq), (..., nv) and accelerations (..., nv).

    Loops and constraints react: only forces along their admissible velocities N have to be balanced, ``N^T B u = N^T (M a + bias)``.

    Examples
    --------
    >>> import heavytop as ht
    >>> quad = ht.library.quadcopter().derive()
    >>> needed_inputs(quad, quad.neutral(), np.zeros(6), np.zeros(6)).round(3)
    array([2.207, 2.207, 2.207, 2.207])
    """
    force = model.evaluate("inverse_dynamics", q, v, a, parameters=parameters)
    B = model.evaluate("input_matrix", q, parameters=parameters)
    if not (is_finite(force) and is_finite(B)):
        model.inverse_dynamics(q, v, a, parameters)  # raises the reason
        model.input_matrix(q, parameters)
    if model.is_constrained:
        N = np.swapaxes(model.minimal_tangent(q, v, parameters=parameters).N, -2, -1)
        force, B = np.matvec(N, force), N @ B
    return np.matvec(np.linalg.pinv(B, rcond=DEPENDENT), force)
