"""Geometry on plain arrays: rotations, displacements, quaternions, spatial vectors, special polar decomposition."""

from heavytop.geometry import critical_points as critical_points
from heavytop.geometry import linalg as linalg
from heavytop.geometry import polar as polar
from heavytop.geometry import quaternion as quaternion
from heavytop.geometry import se3 as se3
from heavytop.geometry import series as series
from heavytop.geometry import so3 as so3
from heavytop.geometry import spatial as spatial
from heavytop.geometry import wrenches as wrenches
