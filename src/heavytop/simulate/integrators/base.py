"""The interface of integrators: a formula for one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from heavytop._arrays import Array
from heavytop.compile import Shape, Traced
from heavytop.errors import SimulationError
from heavytop.functions import Value
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.plant import Plant, PlantState

PROJECT_EVERY = 16
"""Steps between projections onto the manifold: rounding stays below 1e-14, the order of the method is untouched."""
SLOW = 1e-6
"""Speed (m/s or rad/s) below which changes of an iteration are not judged relative to the speed."""


class Integrator(Value, ABC):
    """One method.

    Attributes
    ----------
    name : by which ``simulate(..., integrator=name)`` finds it, and which a run reports.
    order : order of convergence.
    stable_up_to : |lambda| h on the negative real axis below which linear decay stays decay; None for implicit methods.
    project_every : steps between projections onto the manifold, which remove rounding; 0: never.
    carries_velocity : whether ``v`` lasts from step to step; otherwise :meth:`velocity` computes it.
    records : which of the integrator's own quantities are recorded. ``residual`` measures how well the equations of an implicit step were
        solved; a run in which it is large counts as failed.
    enforces_constraints : whether its steps end on loops and constraints by themselves; otherwise they are projected back.
    chooses_step : whether the method chooses the size of its steps: :class:`.ErrorControlled`.
    integrates_work : whether its steps integrate the work along and keep the balance of energy to their order, so that it can be watched.
    damps_fast_modes : whether modes faster than the step decay in it, also those that should not.
    clock : name of the own quantity that is the time; None: all trajectories have the same time.
    unilateral : whether it solves rigid contacts, hard stops, ropes and sticking friction.
    stationary : (function, input) of an iteration whose derivative vanishes at its solution, as that of Newton's method by its own iterate.

    Examples
    --------
    >>> from heavytop.simulate import RKMK4
    >>> isinstance(RKMK4(), Integrator)
    True
    """

    name: ClassVar[str]
    order: ClassVar[int]
    stable_up_to: ClassVar[float | None] = None
    project_every: ClassVar[int] = PROJECT_EVERY
    carries_velocity: ClassVar[bool] = True
    records: ClassVar[tuple[str, ...]] = ()
    enforces_constraints: ClassVar[bool] = False
    chooses_step: ClassVar[bool] = False
    integrates_work: ClassVar[bool] = False
    damps_fast_modes: ClassVar[bool] = False
    clock: ClassVar[str | None] = None
    unilateral: ClassVar[bool] = False
    stationary: ClassVar[tuple[tuple[str, str], ...]] = ()

    @abstractmethod
    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        """The state one step of size ``h`` later."""

    def carries(self, plant: Plant) -> Mapping[str, Shape]:
        """Shapes of own quantities that last from step to step, by name: ``state.own`` has them."""
        return {}

    def given(self) -> Mapping[str, Shape]:
        """Shapes of numbers that the time loop gives for every trajectory, by name."""
        return {}

    def start(self, problem: Any) -> Mapping[str, Array]:
        """The own quantities at the start of a run; missing ones are zero."""
        return {}

    def initial(self, dynamics: Dynamics) -> Traced | None:
        """(q, v, p) -> own quantities at the start as far as they depend on it, by name; None if there are none. For derivatives of runs."""
        return None

    def readout(self, dynamics: Dynamics) -> Traced | None:
        """(q, own quantities by name, p) -> v, for integrators that carry something else instead; None for others."""
        return None

    def velocity(self, plant: Plant, state: PlantState) -> Array:
        """``v`` (nv,) of a state, for integrators that carry something else instead."""
        return state.v

    @property
    def code_key(self) -> str | None:
        """Key of the native code of a step."""
        return self.key

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def need_unconstrained(plant: Plant, name: str) -> None:
    """Raise if loops or velocity constraints act, which the structure-preserving methods do not know."""
    if plant.is_constrained:
        raise SimulationError(
            f"{name} keeps the structure of unconstrained motions, but {plant.name!r} has loops or velocity constraints. "
            "Use 'rkmk4', 'rkmk6', 'rkmk8' or 'rkmk45', which project back onto them."
        )


def relative_size(change: Array, value: Array, floor: Array) -> Array:
    """|change| / (|value| + floor)."""
    return np.sqrt(np.vecdot(change, change)) / (np.sqrt(np.vecdot(value, value)) + floor)
