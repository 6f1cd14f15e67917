"""Kinematics: poses, Jacobians, frames of the recursions, connection coefficients."""
