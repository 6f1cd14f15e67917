"""Dynamics: terms of the equations of motion, recursions over the tree, derivatives, linear solves."""
