"""The three mechanisms of doc 004: simple pendulum, modified Chaplygin sleigh with an elastic rotor, rotary (Furuta) pendulum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, components, matrix, vector
from heavytop_mechanics.moving_frame import MovingFrame, block_gyroscopic, block_mass


@dataclass(frozen=True)
class Pendulum:
    """A particle on a circle (section 2): ``theta = 0`` hangs along +x1, which is the direction of gravity.

    Examples
    --------
    >>> Pendulum().derive().acceleration([np.pi / 2], [0.0])
    array([-12.2625])
    """

    m: float = 1.3
    l: float = 0.8
    g: float = 9.81

    def position(self, theta: Array) -> Array:
        """``x`` (..., 2) (eqs 7, 12)."""
        return vector(self.l * np.cos(theta), self.l * np.sin(theta))

    def velocity(self, theta: Array, rate: Array) -> Array:
        """``l theta' e2`` (..., 2) in world coordinates (eq. 8)."""
        return vector(-self.l * np.sin(theta) * rate, self.l * np.cos(theta) * rate)

    def acceleration(self, theta: Array, rate: Array, second: Array) -> Array:
        """``l theta'' e2 - l theta'^2 e1`` (..., 2) in world coordinates (eq. 9)."""
        c, s = np.cos(theta), np.sin(theta)
        return vector(-self.l * (second * s + rate**2 * c), self.l * (second * c - rate**2 * s))

    def constraint(self, theta: Array, rate: Array) -> tuple[Array, Array]:
        """``A`` (..., 1, 2) and ``b`` (..., 1) of ``A x'' = b`` (eqs 18, 19)."""
        x, y = components(self.position(theta))
        u, w = components(self.velocity(theta, rate))
        return matrix([[x, y]]), vector(-(u * u + w * w))

    def derive(self) -> MovingFrame:
        """The projected equation of motion (eq. 16)."""
        weight = np.array([self.m * self.g, 0.0])
        return MovingFrame(
            (1, 1),
            lambda q: np.eye(1),
            lambda q: matrix([[-self.l * np.sin(q[0])], [self.l * np.cos(q[0])]]),
            self.m * np.eye(2),
            lambda q, v: weight,
        )


@dataclass(frozen=True)
class ChaplyginSleigh:
    """A sleigh with a runner that cannot slip sideways and an elastic rotor at its centre of mass (section 4.1).

    Coordinates ``(x_c1, x_c2, theta, delta)``; essential velocities ``(u, theta', delta')`` with the speed u of the runner P.
    """

    m_c: float = 5.0
    m_r: float = 1.5
    J_c: float = 0.4
    J_r: float = 0.05
    a: float = 0.3
    b: float = 0.25
    k1: float = 2.0
    k2: float = 1.0

    def kinematics(self, q: Array) -> Array:
        """``A(q)`` (4, 3): eq. 60 (errata 4.5, 4.6) and the rates of the angles."""
        theta = q[2]
        c, s = np.cos(theta), np.sin(theta)
        return matrix([[c, -self.b * s, 0.0], [s, self.b * c, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

    def constraint_matrix(self, q: Array) -> Array:
        """``B(q)`` (6, 3) (eq. 65)."""
        theta, rotor = q[2], q[2] + q[3]
        c, s = np.cos(theta), np.sin(theta)
        x, y = -self.a * np.sin(rotor), self.a * np.cos(rotor)
        return matrix(
            [
                [c, -self.b * s, 0.0],
                [s, self.b * c, 0.0],
                [0.0, 1.0, 0.0],
                [c, x - self.b * s, x],
                [s, y + self.b * c, y],
                [0.0, 1.0, 1.0],
            ]
        )

    def mass(self) -> np.ndarray:
        """``M`` (6, 6) (eq. 66)."""
        return np.diag([self.m_c, self.m_c, self.J_c, self.m_r, self.m_r, self.J_r])

    def spring(self, delta: Array) -> Array:
        """Torque on the rotor (eq. 52)."""
        return -2 * self.k1 * delta - 4 * self.k2 * delta**3

    def forces(self, q: Array, v: Array) -> Array:
        """``Gamma`` (6,) (eq. 67)."""
        torque = self.spring(q[3])
        return vector(0.0, 0.0, -torque, 0.0, 0.0, torque)

    def energy(self, q: Array, v: Array) -> Array:
        """Kinetic and spring energy (...) in J; numbers or symbols without batch axes."""
        rate = np.matvec(self.constraint_matrix(q), v)
        return 0.5 * np.vecdot(rate, np.matvec(self.mass(), rate)) + self.k1 * q[3] ** 2 + self.k2 * q[3] ** 4

    def side_slip(self, q: Array, full: Array) -> Array:
        """Sideways speed of the runner P from the velocity ``(x_c1', x_c2', theta')`` of the sleigh: zero."""
        return -full[0] * np.sin(q[2]) + full[1] * np.cos(q[2]) - self.b * full[2]

    def derive(self, work: Any = None) -> MovingFrame:
        """The projected equations of motion (eqs 68, 69); ``work`` adds nonideal constraint forces."""
        return MovingFrame((4, 3), self.kinematics, self.constraint_matrix, self.mass(), self.forces, None, work)


@dataclass(frozen=True)
class RotaryPendulum:
    """The Furuta pendulum (section 4.2): coordinates ``(theta, alpha)``, ``alpha = 0`` upright.

    Examples
    --------
    >>> RotaryPendulum(tau=0.0).derive().acceleration([0.3, 0.0], [0.0, 0.0])
    array([0., 0.])
    """

    L_r: float = 0.216
    L_p: float = 0.337
    m_r: float = 0.257
    m_p: float = 0.127
    g: float = 9.81
    Jr: tuple[float, float, float] = (0.0002, 0.0011, 0.00099829)
    Jp: tuple[float, float, float] = (0.0011998, 0.00125, 4e-05)
    B_r: float = 0.0024
    B_p: float = 0.0024
    tau: float = 0.01

    def constraint_matrix(self, q: Array) -> Array:
        """``B(q)`` (12, 2) (eqs 80, 81, 84, 86, erratum 4.8)."""
        theta, alpha = q[0], q[1]
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
        r, p = self.L_r, 0.5 * self.L_p
        return matrix(
            [
                [-0.5 * r * st, 0.0],
                [0.5 * r * ct, 0.0],
                [0.0, 0.0],
                [0.0, 0.0],
                [0.0, 0.0],
                [1.0, 0.0],
                [-r * st + p * ct * sa, p * st * ca],
                [r * ct + p * st * sa, -p * ct * ca],
                [0.0, -p * sa],
                [0.0, 1.0],
                [sa, 0.0],
                [ca, 0.0],
            ]
        )

    def forces(self, q: Array, v: Array) -> Array:
        """``Gamma`` (12,): weights, motor torque, joint friction (eq. 89)."""
        arm = (0.0, 0.0, -self.m_r * self.g, self.B_p * v[1], 0.0, self.tau - self.B_r * v[0])
        return vector(*arm, 0.0, 0.0, -self.m_p * self.g, -self.B_p * v[1], 0.0, 0.0)

    def mass(self) -> np.ndarray:
        """``M`` (12, 12) (eq. 88)."""
        return block_mass([self.m_r, self.m_p], [np.array(self.Jr), np.array(self.Jp)])

    def kinetic_energy(self, q: Array, v: Array) -> Array:
        """``T`` in J."""
        rate = np.matvec(self.constraint_matrix(q), v)
        return 0.5 * np.vecdot(rate, np.matvec(self.mass(), rate))

    def potential_energy(self, q: Array) -> Array:
        """``V`` in J."""
        return 0.5 * self.m_p * self.g * self.L_p * np.cos(q[1])

    def derive(self) -> MovingFrame:
        """The projected equations of motion (eqs 87 to 90, erratum 4.10)."""
        return MovingFrame(
            (2, 2), lambda q: np.eye(2), self.constraint_matrix, self.mass(), self.forces, block_gyroscopic
        )
