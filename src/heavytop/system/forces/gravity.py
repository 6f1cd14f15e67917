"""Gravity: a uniform field that pulls at every body with inertia."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array, concatenate, transpose
from heavytop.geometry import wrenches
from heavytop.system.description.moments import Inertia
from heavytop.system.description.names import WORLD
from heavytop.system.kinematics.kinematics import Kinematics


@dataclass(frozen=True, eq=False)
class Gravity:
    """The field ``acceleration`` (3,) in world axes, m/s^2.

    It pulls in proportion to the inertia of each body, so it is a part of the system instead of an element between bodies: the
    recursions over a tree let the world accelerate by ``-acceleration`` instead.

    >>> Gravity(np.array([0.0, 0.0, -9.81])).acceleration
    array([ 0.  ,  0.  , -9.81])
    """

    acceleration: Array

    def energy(self, inertias: Mapping[str, Inertia], kinematics: Kinematics) -> Array:
        """V^G = -sum_b m_b a_G . (r_b + R_b s_b) (eq. 3.62)."""
        total = 0.0
        for name, inertia in inertias.items():
            first = np.matvec(
                kinematics.pose(WORLD, name)[:3, :],
                concatenate(inertia.mass * inertia.com, np.reshape(inertia.mass, (1,))),
            )
            total = total - np.vecdot(self.acceleration, first)
        return total

    def gradient(self, inertias: Mapping[str, Inertia], kinematics: Kinematics) -> Array:
        """f^G = -sum_b J^T M_b Ad(G^-1) (a_G, 0) (nv,) (eq. 3.125e, erratum 0.41)."""
        total = np.zeros(kinematics.nv)
        for name, inertia in inertias.items():
            motion = kinematics.motion(WORLD, name)
            wrench = wrenches.gravity_wrench(inertia.matrix, motion.pose, self.acceleration)
            total = total + np.matvec(transpose(motion.jacobian), wrench)
        return total

    def base_acceleration(self) -> Array:
        """Acceleration (6,) of the world that has the same effect."""
        return concatenate(-self.acceleration, np.zeros(3))
