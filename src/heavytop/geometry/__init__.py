"""Arrays only: rotations, displacements, quaternions, spatial vectors, the vee and wedge family."""

from heavytop.geometry import quaternion as quaternion
from heavytop.geometry import se3 as se3
from heavytop.geometry import series as series
from heavytop.geometry import so3 as so3
