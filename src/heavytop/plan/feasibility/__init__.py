"""Necessary conditions of plans, and the diagnosis of infeasible ones."""
