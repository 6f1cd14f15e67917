"""Solvers of nonlinear programs behind one protocol."""

from heavytop.ocp.solvers.nonlinear_program import (
    NonlinearProgram as NonlinearProgram,
    Solution as Solution,
    Solver as Solver,
    SolveRequest as SolveRequest,
    Status as Status,
    default_solver as default_solver,
)
