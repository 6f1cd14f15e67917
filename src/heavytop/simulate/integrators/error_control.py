"""Methods that choose the size of their steps by an estimate of the error.

Every trajectory of a batch has its own time and step; one native step is one attempt, accepted or not. What dense output needs of an
attempt is recorded and evaluated afterwards: ``q(t + x h) = q o exp(theta(x))`` with a quartic theta(x), and quartics for the flat
parts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, from_columns, shape, vector
from heavytop.compile import Shape, Traced, trace
from heavytop.coordinates import Coordinates
from heavytop.errors import SimulationError
from heavytop.functions import key
from heavytop.simulate.energy_monitor import ALARM
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.rkmk import stage_rates
from heavytop.simulate.integrators.tableaus import DORMAND_PRINCE4_WEIGHTS, DORMAND_PRINCE5, MIDDLE
from heavytop.simulate.plant import Plant, PlantState, Rates

SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0
LONGEST = 1e300
"""Step in s without a limit."""
TINY = 1e-300
ROUNDING = 2e-16
"""Of each step, relative to a velocity, and of displacements in m and rad."""
SHARED = 0.5
"""Of the tolerance, what the steps share; the rest is left for motions that multiply errors."""
FEWEST, PER_RECORD = 1_000_000, 1000
"""Attempts that a run may take at least, and for each record."""


@dataclass(frozen=True)
class TrialStep:
    """What a method knows at the end of an attempt.

    Attributes
    ----------
    end : the state there. step : displacement from the start to the end.
    error : its estimated error.
    curve : displacements (h k_first, h k_last, h k_middle) that make up the interpolant of :func:`dense_curve` with ``step``.
    """

    end: PlantState
    step: Rates
    error: Rates
    curve: tuple[Rates, Rates, Rates]


class ErrorControlled(Integrator):
    """A method with an embedded estimate of its error; parameters as of :class:`RKMK45`."""

    project_every = 0
    chooses_step = True
    integrates_work = True
    clock = "t"
    records = ("t", "attempt", "dense_q", "dense_theta", "dense_flats")

    def __init__(
        self,
        rtol: float = 1e-8,
        atol: float = 1e-10,
        first_step: float | None = None,
        max_step: float | None = None,
        max_steps: int | None = None,
    ) -> None:
        for label, value in (
            ("rtol", rtol),
            ("atol", atol),
            ("max_step", inf if max_step is None else max_step),
            ("max_steps", FEWEST if max_steps is None else max_steps),
        ):
            if not isinstance(value, int | float | np.number) or not value > 0:
                raise SimulationError(f"{label} of {type(self).__name__} must be positive, got {value!r}.")
        self.rtol, self.atol, self.first_step = float(rtol), float(atol), first_step
        self.max_step = None if max_step is None else float(max_step)
        self.max_steps = None if max_steps is None else int(max_steps)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rtol={self.rtol:g}, atol={self.atol:g})"

    @property
    def code_key(self) -> str | None:
        """The tolerances are inputs of the step, so the class determines it."""
        return key(type(self)) or self.key

    @abstractmethod
    def attempt(self, plant: Plant, state: PlantState, h: Array) -> TrialStep:
        """One step of size ``h``."""

    def carries(self, plant: Plant) -> Mapping[str, Shape]:
        """Time, size of the next step, and the last attempt: (begin, size or 0 if rejected, size tried), and its dense output."""
        flats = sum(flat.shape[0] for flat in plant.flats)
        dense = {"dense_q": (plant.nq,), "dense_theta": (plant.nw, 4), "dense_flats": (flats, 5)}
        return {"t": (), "next_h": (), "attempt": (3,), **dense}

    def given(self) -> Mapping[str, Shape]:
        """The end of the segment, and (rtol, atol, largest step, duration and end of the run)."""
        return {"t_end": (), "tolerance": (5,)}

    def start(self, problem: Any) -> Mapping[str, Array]:
        return {"t": np.full(problem.batch, problem.start_time), "next_h": np.full(problem.batch, self.first(problem))}

    def first(self, problem: Any) -> float:
        """The first step in s, also after a breakpoint."""
        return min(self.first_step or 0.01 * problem.step, self.longest(problem))

    def longest(self, problem: Any) -> float:
        """The longest step in s."""
        if self.max_step is not None:
            return min(self.max_step, LONGEST)
        control = problem.plan.control
        timed = problem.dynamics.has_time or (control.kind == "continuous" and "t" in control.law.takes)
        return problem.step * problem.record_every if timed else LONGEST

    def most(self, problem: Any) -> int:
        """Attempts after which the run ends."""
        return max(FEWEST, PER_RECORD * len(problem.grid)) if self.max_steps is None else self.max_steps

    def tolerance(self, problem: Any) -> np.ndarray:
        """What is given as ``tolerance``."""
        duration = problem.step * problem.steps
        return np.array([self.rtol, self.atol, self.longest(problem), duration, problem.start_time + duration])

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        """Estimate the error, accept or reject, choose the next step, lay down what dense output needs."""
        control, law = plant.control, plant.control.law
        if control.kind == "continuous" and law is not None and "signal" in law.takes:
            raise SimulationError(
                "error control chooses its own times, but this law takes samples of its reference. Write the reference in "
                "terms of 't', use hold='zero-order', or take a method with a fixed step."
            )
        t, next_h = state.own["t"], state.own["next_h"]
        t_end, tolerance = plant.given_symbol("t_end"), plant.given_symbol("tolerance")
        left = t_end - t
        if plant.watch is not None:  # once the watch has ended a trajectory it stays where it is
            left = np.where(plant.slots.read(plant.watch)[ALARM] == 0.0, left, 0.0)
        idle, last = left <= 0.0, left <= next_h
        target = np.where(idle, t, np.where(last, t_end, t + next_h))
        h = plant.set_size(target - t)  # between times as they are rounded: the sum of many steps loses nothing
        attempt = self.attempt(plant, state, h)
        error = self._error(plant, state, attempt, tolerance)
        accept = error <= 1.0  # false for NaN
        # h (0.9 error^-1/5), within limits; the smallest positive number keeps the logarithm finite
        power = -1.0 / self.order
        ratio = SAFETY * np.exp(power * np.log(np.where(accept, error, 1.0) + 1e-12))
        growing = np.minimum(np.maximum(ratio, SHRINK), GROW)
        shrinking = np.where(error > 1.0, SAFETY * np.exp(power * np.log(np.where(error > 1.0, error, 1.0))), SHRINK)
        factor = np.where(accept, growing, np.maximum(shrinking, SHRINK))
        # a step cut short at the end says nothing against the step before it
        base = np.where(last, left, next_h) * factor
        base = np.where(np.logical_and(accept, last), np.maximum(base, next_h), base)
        return plant.chosen(accept, attempt.end, state).keeping(
            t=np.where(accept, target, t),
            next_h=np.where(idle, next_h, np.minimum(base, tolerance[2])),
            attempt=vector(t, np.where(np.logical_and(accept, np.logical_not(idle)), h, 0.0), h),
            dense_q=state.q,
            dense_theta=from_columns(*(r.w for r in (attempt.step, *attempt.curve))),
            dense_flats=from_columns(
                concatenate(*state.parts[1:]),
                *(concatenate(*(r.of(flat) for flat in plant.flats)) for r in (attempt.step, *attempt.curve)),
            ),
        )

    def _error(self, plant: Plant, state: PlantState, attempt: TrialStep, tolerance: Array) -> Array:
        """The error that this step leaves at the end of the run, relative to what is tolerated of it; the work is not controlled.

        The estimate d, relative to 1 m, 1 rad and the velocities, is one of order 4, as dense output is: records within the step miss about d, and
        its end about d^(6/5). An error of a velocity displaces the end of the run by its product with the time left. Tolerated is the step's share
        h/T of half of ``rtol``, and what rounding leaves however small the steps are: that of T/h steps adds up to its square root, of which again
        the share h/T.
        """
        rtol, atol, duration, end = tolerance[0], tolerance[1], tolerance[3], tolerance[4]
        left = np.maximum(end - state.own["t"], 0.0)
        parts, grown = [np.abs(attempt.error.w)], [np.ones(shape(attempt.error.w))]
        for flat in plant.flats:
            if flat is not plant.work:
                x = state.of(flat)
                size = atol / rtol + np.maximum(np.abs(x), np.abs(x + attempt.step.of(flat)))
                parts.append(np.abs(attempt.error.of(flat)) / size)
                grown.append(np.maximum(left * size, 1.0) if flat is plant.v else np.ones(shape(x)))
        missed, growth = concatenate(*parts), concatenate(*grown)
        share = np.maximum(plant.h, TINY) / duration
        tolerated = SHARED * rtol * share + ROUNDING * growth * np.sqrt(share)
        at_end, within = np.exp(1.2 * np.log(missed + TINY)) * growth / tolerated, missed / rtol
        return np.sqrt(np.maximum(np.vecdot(at_end, at_end), np.vecdot(within, within)) / missed.shape[0])


ERROR_WEIGHTS = tuple(b - e for b, e in zip(DORMAND_PRINCE5.b, DORMAND_PRINCE4_WEIGHTS, strict=True))


class RKMK45(ErrorControlled):
    """The Munthe-Kaas form of the Dormand-Prince method: order 5 with an embedded estimate of order 4.

    Parameters
    ----------
    rtol : error of the run relative to the velocities; for displacements relative to one unit (1 m, 1 rad). Motions that diverge from their
        neighbours, as chaotic ones, multiply it.
    atol : absolute part of the tolerance of velocities.
    first_step : in s; None: a hundredth of the distance of the records.
    max_step : in s; None: the distance of the records where the equations depend explicitly on the time, so that pulses that last longer than it
        are not stepped over, else unlimited.
    max_steps : attempts per trajectory, after which the outcome is ``step_limit``; None: a million, or a thousand for each record if these are more.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), 1.0, 0.1, ht.RKMK45(rtol=1e-10))
    >>> run.outcome.ok, len(run)
    (True, 11)
    """

    name = "rkmk45"
    order = 5

    def attempt(self, plant: Plant, state: PlantState, h: Array) -> TrialStep:
        k = stage_rates(plant, state, h, DORMAND_PRINCE5)
        step = plant.displacement(h, DORMAND_PRINCE5.b, k)
        end = plant.retract(state, step)
        plant.cut()  # the error estimate is a separate function
        error, middle = plant.combine(ERROR_WEIGHTS, k) * h, plant.combine(MIDDLE, k) * h
        return TrialStep(end, step, error, (k[0] * h, k[6] * h, middle))


def dense_output(coordinates: Coordinates, flats: int) -> Traced:
    """(q, theta (nw, 4), columns (flats, 5), x) -> (q, flat parts) at a fraction ``x`` of an attempt, from what was laid down of it."""

    def within(q: Array, theta: Array, columns: Array, x: Array) -> dict[str, Array]:
        return {
            "q": coordinates.retract(q, dense_curve(theta, x)),
            "flats": columns[:, 0] + dense_curve(columns[:, 1:], x),
        }

    shapes = {"q": (coordinates.nq,), "theta": (coordinates.nv, 4), "columns": (flats, 5), "x": ()}
    return trace(within, shapes, name="dense")


def dense_curve(data: Array, x: Array) -> Array:
    """The quartic (n,) at a fraction ``x`` of the step from columns (end, h k_first, h k_last, h k_middle) (n, 4)."""
    end, first, last, middle = (data[:, k] for k in range(4))
    return x * x * (3 - 2 * x) * end + x * (x - 1) ** 2 * first + x * x * (x - 1) * last + x * x * (x - 1) ** 2 * middle
