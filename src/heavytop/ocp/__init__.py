"""Optimal control problems as programs: charts, shooting, collocation, bounds, sparsity, solvers."""
