"""Force elements between two bodies: springs, dampers and struts; gravity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, transpose
from heavytop._format import Brief
from heavytop.geometry import se3, wrenches
from heavytop.system.description import WORLD
from heavytop.system.description.moments import Damping, Inertia, Stiffness
from heavytop.system.forces.base import Line, PairElement, Pull
from heavytop.system.forces.ports import Port
from heavytop.system.kinematics.kinematics import Kinematics


@dataclass(frozen=True, eq=False, repr=False)
class Spring(Brief, PairElement):
    """Stiffness of body b relative to body a; ``rest`` is the relaxed pose G_ab, None: that of the neutral configuration.

    V = 1/2 tr((G - G_R) K' (G - G_R)^T) + V_0 (eq. 3.118, erratum 0.43).

    >>> import numpy as np
    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Spring("world", "arm", ht.Stiffness(10.0, (1, 0, 0))))
    >>> float(system.derive(native=False).potential_energy([np.pi]))
    20.0
    """

    a: str
    b: str
    stiffness: Stiffness
    rest: Array | None = None
    least_energy: Any = 0.0

    def resolved(self, port: Port) -> Spring:
        return replace(self, rest=port.neutral()) if self.rest is None else self

    def not_negative(self) -> Mapping[str, Any]:
        return {"stiffness": self.stiffness}

    def lines(self) -> tuple[Line, ...]:
        return ()  # a field of springs has no one line

    def energy(self, pose: Array, /) -> Array:
        return wrenches.stiffness_energy(self.stiffness.moments, pose, self.rest) + self.least_energy

    def energy_gradient(self, pose: Array, /) -> Array:
        """vee2((I - G^-1 G_R) K') (eq. 3.125d, erratum 0.45)."""
        return wrenches.stiffness_wrench(self.stiffness.moments, pose, self.rest)


@dataclass(frozen=True, eq=False, repr=False)
class Damper(Brief, PairElement):
    """Damping of body b in a fluid fixed to body a: R = 1/2 xi^T D xi (eq. 3.122).

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Damper("world", "arm", ht.Damping(0.5)))
    >>> model = system.derive(native=False)
    >>> float(model.acceleration([0.0], [2.0])[0])
    0.0
    """

    a: str
    b: str
    damping_moments: Damping

    def not_negative(self) -> Mapping[str, Any]:
        return {"damping": self.damping_moments}

    def lines(self) -> tuple[Line, ...]:
        return ()

    def dissipation(self, pose: Array, twist: Array, /) -> Array:
        return 0.5 * np.vecdot(twist, np.matvec(self.damping_moments.matrix, twist))

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        return np.matvec(self.damping_moments.matrix, twist)

    def damping(self, pose: Array, /) -> Array:
        return self.damping_moments.matrix


@dataclass(frozen=True, eq=False, repr=False)
class Strut(Brief, PairElement):
    """Spring and damper between the point ``at_a`` of body a and ``at_b`` of body b.

    V = k/2 (L - L_0)^2 and R = c/2 (dL/dt)^2 with the distance L of the points.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Strut("world", "arm", np.array([2.0, 0, 0]), np.array([1.0, 0, 0]), 10.0, 0.5, 0.0))
    >>> float(system.derive(native=False).potential_energy([0.0]))
    1.25
    """

    a: str
    b: str
    at_a: Array
    at_b: Array
    stiffness: Array
    rest_length: Array
    viscosity: Array

    def not_negative(self) -> Mapping[str, Any]:
        return {"stiffness": self.stiffness, "rest_length": self.rest_length, "damping": self.viscosity}

    def lines(self) -> tuple[Line, ...]:
        return (Line(self.a, self.at_a, self.b, self.at_b, "strut"),)

    def pull(self) -> Pull:
        path = (self.a, self.at_a), (self.b, self.at_b)
        return Pull(path, self.stiffness, self.viscosity, self.rest_length, self.rest_length)

    def _line(self, pose: Array) -> tuple[Array, Array]:
        """Length L and the body wrench (6,) on b per newton of tension that lengthens it: dL/dt = wrench . twist."""
        R = se3.rotation(pose)
        offset = se3.position(pose) + np.matvec(R, self.at_b) - self.at_a
        length = np.sqrt(np.vecdot(offset, offset))
        direction = np.matvec(transpose(R), offset) / length
        return length, concatenate(direction, np.cross(self.at_b, direction))

    def energy(self, pose: Array, /) -> Array:
        length, _ = self._line(pose)
        return 0.5 * self.stiffness * (length - self.rest_length) ** 2

    def energy_gradient(self, pose: Array, /) -> Array:
        length, line = self._line(pose)
        return self.stiffness * (length - self.rest_length) * line

    def dissipation(self, pose: Array, twist: Array, /) -> Array:
        _, line = self._line(pose)
        return 0.5 * self.viscosity * np.vecdot(line, twist) ** 2

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        _, line = self._line(pose)
        return self.viscosity * np.vecdot(line, twist) * line

    def damping(self, pose: Array, /) -> Array:
        _, line = self._line(pose)
        return self.viscosity * np.outer(line, line)


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
