"""Inverse kinematics: configurations that put frames, points, directions and the centre of mass where tasks require them."""
