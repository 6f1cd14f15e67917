"""Optimal control problems as programs: charts, shooting, collocation, bounds, sparsity, solvers."""

from heavytop.ocp.bounds import Limits, StateBounds, Within, input_bounds, named_limits, state_bounds
from heavytop.ocp.charts import ChartRates, Derivatives, Expression, chart, chart_rate, is_turn, place, residual
from heavytop.ocp.collocation import intervals
from heavytop.ocp.node_blocks import Block
from heavytop.ocp.problem import Bounds, OptimalControlProblem, State, needed_inputs
from heavytop.ocp.shooting import NodeLayout, Shooting
from heavytop.ocp.solvers.fatrop import Fatrop
from heavytop.ocp.solvers.ipopt import Ipopt
from heavytop.ocp.solvers.nlpsol import Nlpsol, symbolic
from heavytop.ocp.transcription import Transcription
