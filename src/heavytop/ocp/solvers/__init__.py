"""Solvers of nonlinear programs behind one protocol."""

from heavytop.ocp.solvers.nonlinear_program import NonlinearProgram as NonlinearProgram
from heavytop.ocp.solvers.nonlinear_program import Solution as Solution
from heavytop.ocp.solvers.nonlinear_program import Solver as Solver
from heavytop.ocp.solvers.nonlinear_program import SolveRequest as SolveRequest
from heavytop.ocp.solvers.nonlinear_program import Status as Status
from heavytop.ocp.solvers.nonlinear_program import default_solver as default_solver
