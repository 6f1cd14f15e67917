"""Solvers of nonlinear programs behind one protocol."""

from heavytop.plan.solvers.protocol import NonlinearProgram as NonlinearProgram
from heavytop.plan.solvers.protocol import Solution as Solution
from heavytop.plan.solvers.protocol import Solver as Solver
from heavytop.plan.solvers.protocol import Status as Status
from heavytop.plan.solvers.protocol import default_solver as default_solver
