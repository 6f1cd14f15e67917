"""What a solver is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

WARM = {
    "warm_start_init_point": "yes", "mu_init": 1e-4, "warm_start_bound_push": 1e-8, "warm_start_bound_frac": 1e-8,
    "warm_start_slack_bound_push": 1e-8, "warm_start_slack_bound_frac": 1e-8, "warm_start_mult_bound_push": 1e-8,
}  # fmt: skip
"""Options of IPOPT for a start near a solution, with its multipliers."""


class NonlinearProgram(Protocol):
    """A nonlinear program: ``min objective(x)`` with ``lower <= x <= upper`` and bounded rows ``values(x)``."""

    lower: np.ndarray
    upper: np.ndarray

    @property
    def row_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the rows."""
        ...

    @property
    def units(self) -> np.ndarray | None:
        """Sizes of the variables, None: 1. Solvers that scale count them in these."""
        ...

    @property
    def slope_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Jacobian."""
        ...

    @property
    def curve_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Hessian, lower triangle."""
        ...

    def objective(self, x: np.ndarray) -> float:
        """The cost."""
        ...

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Its gradient."""
        ...

    def values(self, x: np.ndarray) -> np.ndarray:
        """The rows."""
        ...

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """Entries of the Jacobian."""
        ...

    def curves(self, x: np.ndarray, lam: np.ndarray, cost_weight: float) -> np.ndarray:
        """Entries of the Hessian of the Lagrangian."""
        ...


class Status(Enum):
    """How a solver ended."""

    SOLVED = "solved"
    ACCEPTABLE = "solved to a lower accuracy"
    INFEASIBLE = "no point nearby fulfils the constraints"
    LIMIT = "out of iterations or time"
    STOPPED = "stopped by the user"
    FAILED = "failed numerically"


@dataclass(eq=False)
class Solution:
    """The end of a solver's work.

    Attributes
    ----------
    x : variables. lam : multipliers of the rows. lower_lam, upper_lam : of the bounds of the variables.
    cost, iterations, status, message : what they say. seconds : time in the solver; callback_seconds : of it in the functions; cpu_seconds :
        time of the processor in the solver.
    """

    x: np.ndarray
    lam: np.ndarray
    lower_lam: np.ndarray
    upper_lam: np.ndarray
    cost: float
    iterations: int
    status: Status
    message: str
    seconds: float = 0.0
    callback_seconds: float = 0.0
    cpu_seconds: float = 0.0


Tell = Callable[[int, float, float], None]
"""Called after every iteration with its number, the cost and the largest violation."""


class Solver(Protocol):
    """Solves programs."""

    name: str

    def solve(
        self,
        program: NonlinearProgram,
        x: np.ndarray,
        *,
        tolerance: float = 1e-8,
        iterations: int = 1000,
        warm: Solution | None = None,
        tell: Tell | None = None,
    ) -> Solution:
        """Solve from the point x; ``warm`` is the solution of a program like this one."""
        ...


def default_solver() -> Solver:
    """IPOPT through its C interface where CasADi's wheel has its library, otherwise by way of CasADi."""
    from heavytop.ocp.solvers.ipopt import Ipopt, library
    from heavytop.ocp.solvers.nlpsol import Nlpsol

    return Nlpsol() if library() is None else Ipopt()
