"""Checks of a description that need its kinematics or parameter values."""
