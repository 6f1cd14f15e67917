"""Interface of solvers: the nonlinear program, the request and the solution."""

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
        """Lower and upper bounds of the rows."""
        ...

    @property
    def units(self) -> np.ndarray | None:
        """Units of the variables for solvers that scale; None: all are 1."""
        ...

    @property
    def jacobian_structure(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Jacobian."""
        ...

    @property
    def hessian_structure(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Hessian, lower triangle."""
        ...

    def objective(self, x: np.ndarray) -> float:
        """The cost."""
        ...

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of the cost."""
        ...

    def values(self, x: np.ndarray) -> np.ndarray:
        """Values of the rows."""
        ...

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Entries of the Jacobian of the rows."""
        ...

    def hessian(self, x: np.ndarray, lam: np.ndarray, cost_weight: float) -> np.ndarray:
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
    """Result of a solver.

    Attributes
    ----------
    x : variables. lam : multipliers of the rows. lower_lam, upper_lam : multipliers of the bounds of the variables.
    seconds : time in the solver; callback_seconds : part of it in the functions; cpu_seconds : processor time in the solver.
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


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """A nonlinear program with a starting point.

    Attributes
    ----------
    program : the program. x : starting point. tolerance, iterations : stopping criteria.
    warm : solution of a similar program, for its multipliers. callback : called after every iteration with its number, the cost and the largest
        violation. feasible : whether the starting point fulfils the constraints, so that iterates should stay near them.
    """

    program: NonlinearProgram
    x: np.ndarray
    tolerance: float = 1e-8
    iterations: int = 1000
    warm: Solution | None = None
    callback: Callable[[int, float, float], None] | None = None
    feasible: bool = False


class Solver(Protocol):
    """A solver of nonlinear programs."""

    name: str

    def solve(self, request: SolveRequest) -> Solution:
        """Solve the program of the request from its starting point."""
        ...


def default_solver() -> Solver:
    """IPOPT through its C interface if CasADi's wheel has its library, otherwise through CasADi."""
    from heavytop.ocp.solvers.ipopt import Ipopt, library
    from heavytop.ocp.solvers.nlpsol import Nlpsol

    return Nlpsol() if library() is None else Ipopt()
