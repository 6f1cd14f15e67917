"""Geometry on plain arrays: rotations, displacements, quaternions, spatial vectors, special polar decomposition."""

from heavytop.geometry import (
    critical_points as critical_points,
    linalg as linalg,
    polar as polar,
    quaternion as quaternion,
    se3 as se3,
    series as series,
    so3 as so3,
    spatial as spatial,
    wrenches as wrenches,
)
from heavytop.geometry.linalg import pseudo_inverse
from heavytop.geometry.quaternion import quaternion_from_rotation
from heavytop.geometry.so3 import rotation_with_z, trace
from heavytop.geometry.wrenches import error_wrench, stiffness_energy
