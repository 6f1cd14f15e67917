"""The matrices and forces of the equations of motion, as sums over bodies and pairs of bodies (eqs 3.125).

M a + c + D v + fK + fG = B u + f,     every force on the left is the gradient of an energy (errata 0.24, 0.25).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from heavytop._arrays import (
    Array,
    concatenate,
    directional,
    from_columns,
    is_symbolic,
    jacobian,
    shape,
    substitute,
    transpose,
)
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system.description import Description
from heavytop.system.inputs import generalised_force
from heavytop.system.kinematics import Kinematics, Motion
from heavytop.system.names import WORLD
from heavytop.system.solve import linear_part, symmetric


class Dynamics:
    """Symbolic dynamics of a described system; each quantity is derived when first asked for."""

    def __init__(self, description: Description, kinematics: Kinematics, q: Array, v: Array) -> None:
        self.description, self.kinematics, self.q, self.v = description, kinematics, q, v
        self.nv = kinematics.nv

    def bodies(self) -> list[tuple[Array, Motion]]:
        """The 6x6 inertia matrix and the motion relative to the world of each body with inertia."""
        inertias = self.description.inertias
        return [(inertia.matrix, self.kinematics.motion(WORLD, name)) for name, inertia in inertias.items()]

    # --- inertia ----------------------------------------------------------------------------------------------------------

    @cached_property
    def mass_matrix(self) -> Array:
        """M = sum_b J^T M_b J (eq. 3.125a)."""
        return symmetric(sum(transpose(m.jacobian) @ (M @ m.jacobian) for M, m in self.bodies()))

    @cached_property
    def bias(self) -> Array:
        """c = sum_b J^T (M_b d/dt(J) v - ad(xi)^T M_b xi) (eq. 3.125b, erratum 0.39)."""
        return sum(np.matvec(transpose(m.jacobian), inertia_bias(M, m)) for M, m in self.bodies())

    @cached_property
    def coriolis_matrix(self) -> Array:
        """C = sum_b J^T (M_b d/dt(J) + Gamma_b(xi) J) with C v = c and d/dt(M) - 2 C skew (eq. 3.112, erratum 0.38)."""
        total = np.zeros((self.nv, self.nv))
        for M, m in self.bodies():
            J_rate = directional(m.jacobian, self.q, self.kinematics.rate)
            total = total + transpose(m.jacobian) @ (M @ J_rate + body_connection(M, m.twist) @ m.jacobian)
        return total

    @cached_property
    def kinetic_energy(self) -> Array:
        """T = 1/2 sum_b xi^T M_b xi (eq. 3.111)."""
        return sum(0.5 * np.vecdot(m.twist, np.matvec(M, m.twist)) for M, m in self.bodies())

    # --- potentials -------------------------------------------------------------------------------------------------------

    @cached_property
    def gravity_energy(self) -> Array:
        """V^G = -sum_b m_b a_G . (r_b + R_b s_b) (eq. 3.62)."""
        total = 0.0
        for name, inertia in self.description.inertias.items():
            first = np.matvec(
                self.kinematics.pose(WORLD, name)[:3, :],
                concatenate(inertia.mass * inertia.com, np.reshape(inertia.mass, (1,))),
            )
            total = total - np.vecdot(self.description.gravity, first)
        return total

    @cached_property
    def gravity_force(self) -> Array:
        """f^G = -sum_b J^T M_b Ad(G^-1) (a_G, 0) (eq. 3.125e, erratum 0.41)."""
        total = np.zeros(self.nv)
        for M, m in self.bodies():
            falling = concatenate(np.matvec(transpose(se3.rotation(m.pose)), self.description.gravity), np.zeros(3))
            total = total - np.matvec(transpose(m.jacobian), np.matvec(M, falling))
        return total

    def spring_offsets(self) -> list[tuple[Array, Motion, Array, Array]]:
        """For each spring: moments K', motion of b relative to a, rest pose, least energy."""
        offsets = []
        for spring in self.description.springs:
            motion = self.kinematics.motion(spring.a, spring.b)
            rest = (
                substitute(motion.pose, self.q, self.kinematics.coordinates.neutral())
                if spring.rest is None
                else spring.rest
            )
            offsets.append((spring.stiffness.moments, motion, rest, spring.least_energy))
        return offsets

    @cached_property
    def stiffness_energy(self) -> Array:
        """V^K = sum 1/2 tr((G - G_R) K' (G - G_R)^T) + V_0 (eq. 3.118, erratum 0.43), and the user's potentials."""
        total = 0.0
        for K, m, rest, least in self.spring_offsets():
            offset = m.pose - rest
            total = total + 0.5 * np.trace(offset @ K @ transpose(offset)) + least
        for strut in self.description.struts:
            total = total + strut.energy(self.kinematics.motion(strut.a, strut.b))
        return total + sum(self.scalar(fn(self.q), "potential") for fn in self.description.potentials)

    @cached_property
    def stiffness_force(self) -> Array:
        """f^K = sum_ab J^T vee2((I - G^-1 G_R) K') (eq. 3.125d, erratum 0.45), and the gradients of the user's potentials."""
        total = np.zeros(self.nv)
        for K, m, rest, _ in self.spring_offsets():
            wrench = se3.vee2((np.eye(4) - se3.inverse(m.pose) @ rest) @ K)
            total = total + np.matvec(transpose(m.jacobian), wrench)
        for strut in self.description.struts:
            m = self.kinematics.motion(strut.a, strut.b)
            total = total + np.matvec(transpose(m.jacobian), strut.stiffness_wrench(m))
        return total + self._potential_force

    @cached_property
    def _potential_force(self) -> Array:
        """Gradients A^T dV/dq of the user's potentials."""
        total = np.zeros(self.nv)
        for fn in self.description.potentials:
            V = self.scalar(fn(self.q), "potential")
            if is_symbolic(V):
                slope = jacobian(np.reshape(V, (1,)), self.q)[0, :]
                total = total + np.matvec(transpose(self.kinematics.kinematics_matrix), slope)
        return total

    @cached_property
    def user_force(self) -> Array:
        """All generalised forces that come from functions of the user: f - dV/dq A - dR/dv."""
        resisting = sum((self._dissipation_gradient(fn) for fn in self.description.dissipations), np.zeros(self.nv))
        return self.applied_force - self._potential_force - resisting

    # --- dissipation, forces, inputs -----------------------------------------------------------------------------------------

    @cached_property
    def damping_matrix(self) -> Array:
        """D = sum_ab J^T D_ab J (eq. 3.125c), and the Hessians of the user's quadratic dissipation functions."""
        total = np.zeros((self.nv, self.nv))
        for damper in self.description.dampers:
            J = self.kinematics.jacobian(damper.a, damper.b)
            total = total + transpose(J) @ damper.damping.matrix @ J
        for strut in self.description.struts:
            m = self.kinematics.motion(strut.a, strut.b)
            total = total + transpose(m.jacobian) @ strut.damping_matrix(m) @ m.jacobian
        for fn in self.description.dissipations:
            hessian = self._dissipation_hessian(fn)
            if hessian is not None:
                total = total + hessian
        return symmetric(total)

    def _dissipation_hessian(self, fn) -> Array | None:
        """d^2R/dv^2 when R is quadratic in v, else None."""
        return linear_part(self._dissipation_gradient(fn), self.v)

    def _dissipation_gradient(self, fn) -> Array:
        R = self.scalar(fn(self.q, self.kinematics.v), "dissipation")  # by the chain rule pulled back to v
        return jacobian(np.reshape(R, (1,)), self.v)[0, :] if is_symbolic(R) else np.zeros(self.nv)

    @cached_property
    def dissipation_force(self) -> Array:
        """f^D = sum_ab J^T D_ab xi_ab (eq. 3.122) and dR/dv of the user's dissipation functions."""
        total = np.zeros(self.nv)
        for damper in self.description.dampers:
            motion = self.kinematics.motion(damper.a, damper.b)
            total = total + np.matvec(transpose(motion.jacobian), np.matvec(damper.damping.matrix, motion.twist))
        for strut in self.description.struts:
            motion = self.kinematics.motion(strut.a, strut.b)
            total = total + np.matvec(transpose(motion.jacobian), strut.damping_wrench(motion))
        return sum((self._dissipation_gradient(fn) for fn in self.description.dissipations), total)

    @cached_property
    def applied_force(self) -> Array:
        """The user's generalised forces f(q, v) on the right-hand side."""
        total = np.zeros(self.nv)
        for fn in self.description.forces:
            value = fn(self.q, self.kinematics.v)
            if shape(value) != shape(self.kinematics.v):
                raise ModelError(
                    f"force(q, v) must return {shape(self.kinematics.v)[0]} generalised forces, one for each velocity "
                    f"coordinate of the joints, got an array of shape {shape(value)}."
                )
            total = total + self.pulled_back(value)
        if self.description.basis is not None:
            total = total + self.nonideal_force
        return total

    def pulled_back(self, force: Array) -> Array:
        """A generalised force on the joints' own velocities as one on the velocity coordinates of the model: T^T force."""
        transform = self.kinematics.transform
        return force if transform is None else np.matvec(transpose(transform), force)

    @cached_property
    def nonideal_force(self) -> Array:
        """Generalised force (nv,) whose work under virtual displacements the constraints do (friction)."""
        v = self.kinematics.v
        total = np.zeros(shape(v))
        for constraint in self.description.constraints:
            if constraint.work is None:
                continue
            value = constraint.work(self.q, v)
            if shape(value) != shape(v):
                raise ModelError(
                    f"work(q, v) of constraint {constraint.name!r} must return {shape(v)[0]} generalised forces, got shape "
                    f"{shape(value)}."
                )
            total = total + value
        return self.pulled_back(total)

    @cached_property
    def input_matrix(self) -> Array:
        """B (nv, nu): one column per input."""
        columns = [
            sum(generalised_force(action, self.kinematics) for action in element.actions(self.kinematics))
            for element in self.description.inputs.values()
        ]
        return from_columns(*columns) if columns else np.zeros((self.nv, 0))

    @cached_property
    def passive_force(self) -> Array:
        """Everything that resists: c + D v + dR/dv + fK + fG - f."""
        return self.bias + self.dissipation_force + self.stiffness_force + self.gravity_force - self.applied_force

    def scalar(self, value: Array, what: str) -> Array:
        """The value of a user's energy or power; a ModelError names ``what`` when it is not one number."""
        if value is None:
            raise ModelError(
                f"{what}(...) must return one number (an energy or power), got None. Does it lack a return?"
            )
        if shape(value) not in ((), (1,)):
            raise ModelError(
                f"{what}(...) must return one number (an energy or power), got an array of shape {shape(value)}."
            )
        return np.reshape(value, ()) if shape(value) else value


def inertia_bias(M: Array, motion: Motion) -> Array:
    """Body wrench M d/dt(J) v - ad(xi)^T M xi."""
    momentum = np.matvec(M, motion.twist)
    return np.matvec(M, motion.bias) - np.matvec(transpose(se3.ad(motion.twist)), momentum)


def body_connection(M: Array, xi: Array) -> Array:
    """Gamma(xi): the Levi-Civita connection of a body, 1/2 (-ad_y^T M xi - ad_xi^T M y + M ad_xi y) as a matrix acting on y.

    It is skew-symmetric: y^T Gamma(xi) y = 0 (eqs 3.60, 3.61).
    """
    ad, momentum = se3.ad(xi), np.matvec(M, xi)
    by_y = from_columns(*(np.matvec(transpose(se3.ad(np.eye(6)[k])), momentum) for k in range(6)))
    return 0.5 * (M @ ad - transpose(ad) @ M - by_y)
