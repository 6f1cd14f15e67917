"""The matrices and forces of the equations of motion, as sums over bodies and pairs of bodies (eqs 3.125).

M a + c + D v + fK + fG = B u + f,     every force on the left is the gradient of an energy (errata 0.24, 0.25).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np

from heavytop._arrays import Array, as_array, column, directional, from_columns, shape, substitute, transpose
from heavytop.errors import ModelError
from heavytop.geometry import se3, wrenches
from heavytop.system.description import WORLD
from heavytop.system.description.description import Description
from heavytop.system.description.inputs import generalised_force
from heavytop.system.dynamics.solve import symmetric
from heavytop.system.forces.between_bodies import Gravity
from heavytop.system.forces.ports import JointPort, Port
from heavytop.system.forces.terms import ElementTerms
from heavytop.system.kinematics.kinematics import Kinematics, Motion


class InertiaTerm:
    """Kinetic energy 1/2 w^T M w with a constant matrix M (n, n) and a velocity w = J v: a body, or an element in a joint.

    ``ad(w)`` (n, n) is the bracket of the velocities w (zero for rates): ad(w) y = [w, y].
    """

    def __init__(self, matrix: Array, motion: Motion | JointPort, ad: Callable[[Array], Array]) -> None:
        self.matrix, self._motion, self.ad = matrix, motion, ad
        self.bias = motion.bias
        self.velocity = motion.twist if isinstance(motion, Motion) else motion.velocity

    @property
    def jacobian(self) -> Array:
        """J (n, nv), built on demand."""
        return self._motion.jacobian if isinstance(self._motion, Motion) else self._motion.rows

    @property
    def momentum(self) -> Array:
        """M w (n,)."""
        return np.matvec(self.matrix, self.velocity)

    def force(self, rate: Array) -> Array:
        """M w' - ad(w)^T M w (n,)."""
        return wrenches.inertia_wrench(self.matrix, self.velocity, rate, self.ad)

    def connection(self, w: Array) -> Array:
        """Gamma(w): the Levi-Civita connection 1/2 (-ad_y^T M w - ad_w^T M y + M ad_w y) as a matrix acting on y.

        It is skew-symmetric: y^T Gamma(w) y = 0 (eqs 3.60, 3.61).
        """
        ad, momentum = self.ad(w), np.matvec(self.matrix, w)
        units = np.eye(self.matrix.shape[0])
        by_y = from_columns(*(np.matvec(transpose(self.ad(unit)), momentum) for unit in units))
        return 0.5 * (self.matrix @ ad - transpose(ad) @ self.matrix - by_y)


class EquationTerms:
    """Symbolic dynamics of a described system; each quantity is derived on demand."""

    def __init__(self, description: Description, kinematics: Kinematics, q: Array, v: Array) -> None:
        self.description, self.kinematics, self.q, self.v = description, kinematics, q, v
        self.nv = kinematics.nv
        self.gravity = Gravity(description.gravity)

    def bodies(self) -> list[tuple[Array, Motion]]:
        """The 6x6 inertia matrix and the motion relative to the world of each body with inertia."""
        inertias = self.description.inertias
        return [(inertia.matrix, self.kinematics.motion(WORLD, name)) for name, inertia in inertias.items()]

    @cached_property
    def elements(self) -> tuple[ElementTerms, ...]:
        """The force elements where they act."""
        return tuple(ElementTerms(element, self.kinematics) for element in self.description.elements)

    @cached_property
    def rotors(self) -> tuple[tuple[JointPort, InertiaTerm], ...]:
        """Joints with elements that add inertia there."""
        return tuple(
            (t.port, InertiaTerm(t.inertia, t.port, t.port.ad))
            for t in self.elements
            if t.inertia is not None and isinstance(t.port, JointPort)
        )

    @cached_property
    def inertia_terms(self) -> tuple[InertiaTerm, ...]:
        """Everything that has kinetic energy."""
        bodies = (InertiaTerm(M, motion, se3.ad) for M, motion in self.bodies())
        return (*bodies, *(term for _, term in self.rotors))

    def _total(self, parts: Iterable[tuple[Port, Array | None]]) -> Array:
        """Sum of rows^T force (nv,)."""
        total = np.zeros(self.nv)
        for port, force in parts:
            if force is not None:
                total = total + port.generalised(force)
        return total

    # --- inertia ----------------------------------------------------------------------------------------------------------

    @cached_property
    def mass_matrix(self) -> Array:
        """M = sum_b J^T M_b J (eq. 3.125a)."""
        return symmetric(sum(transpose(t.jacobian) @ (t.matrix @ t.jacobian) for t in self.inertia_terms))

    @cached_property
    def bias(self) -> Array:
        """c = sum_b J^T (M_b d/dt(J) v - ad(xi)^T M_b xi) (eq. 3.125b, erratum 0.39)."""
        return sum(np.matvec(transpose(t.jacobian), t.force(t.bias)) for t in self.inertia_terms)

    @cached_property
    def coriolis_matrix(self) -> Array:
        """C = sum_b J^T (M_b d/dt(J) + Gamma_b(xi) J) with C v = c and d/dt(M) - 2 C skew (eq. 3.112, erratum 0.38)."""
        self.need_rest("a Coriolis matrix")
        total = np.zeros((self.nv, self.nv))
        for t in self.inertia_terms:
            J_rate = directional(t.jacobian, self.q, self.kinematics.rate)
            total = total + transpose(t.jacobian) @ (t.matrix @ J_rate + t.connection(t.velocity) @ t.jacobian)
        return total

    @cached_property
    def connection(self) -> tuple[Array, ...]:
        """Gamma_ijk as nv matrices [k][i, j]: sum_b J^T (M_b d_k J + Gamma_b(J_k) J) (eq. 3.112, erratum 0.38)."""
        self.need_rest("connection")
        kinematics, A = self.kinematics, self.kinematics.kinematics_matrix

        def along(k: int) -> Array:
            total = np.zeros((self.nv, self.nv))
            for t in self.inertia_terms:
                J = t.jacobian
                change = t.matrix @ directional(J, kinematics.q, column(A, k)) + t.connection(column(J, k)) @ J
                total = total + transpose(J) @ change
            return total

        return tuple(along(k) for k in range(self.nv))

    def need_rest(self, what: str) -> None:
        """Raise a ModelError if time moves frames: then the bias c is not a quadratic form of the velocities."""
        moving = [edge.label for edge in self.description.graph.edges if self.kinematics.is_moving(edge)]
        if moving:
            raise ModelError(
                f"{self.description.name!r} has no {what.removeprefix('a ')}: {moving[0]!r} is moved by the time, so the bias c is not C(q, v) v. "
                "Use model.bias, or let the joint be free and drive it by an input."
            )

    @cached_property
    def kinetic_energy(self) -> Array:
        """T = 1/2 sum_b xi^T M_b xi (eq. 3.111)."""
        return sum(0.5 * np.vecdot(t.velocity, t.momentum) for t in self.inertia_terms)

    def kinetic_change(self, v: Array, later: Array) -> Array:
        """T with the velocities ``later`` less T with v, without the rounding of their sizes; nothing is moved by time."""
        total = as_array(0.0)
        for t in self.inertia_terms:
            mean, change = (substitute(t.velocity, self.v, x) for x in (0.5 * (v + later), later - v))
            total = total + np.vecdot(mean, np.matvec(t.matrix, change))
        return total

    def acceleration_energy(self, a: Array) -> Array:
        """S = sum_b 1/2 tr(G'' M_b' G''^T) (eq. 3.113), and a term with the same gradient for inertia in joints."""
        total = 0.0
        for name, inertia in self.description.inertias.items():
            motion = self.kinematics.motion(WORLD, name)
            total = total + wrenches.acceleration_energy(inertia.moments, motion.twist, motion.rate(a))
        for _, rotor in self.rotors:
            rate = np.matvec(rotor.jacobian, a) + rotor.bias
            gyroscopic = rotor.force(np.zeros(rate.shape))
            total = total + np.vecdot(rate, 0.5 * np.matvec(rotor.matrix, rate) + gyroscopic)
        return total

    # --- mass and momentum ------------------------------------------------------------------------------------------------

    @cached_property
    def center_of_mass(self) -> Array:
        """Centre of mass (3,) in the world."""
        total, mass = np.zeros(3), 0.0
        for name, inertia in self.description.inertias.items():
            pose = self.kinematics.pose(WORLD, name)
            total = total + inertia.mass * (se3.position(pose) + np.matvec(se3.rotation(pose), inertia.com))
            mass = mass + inertia.mass
        return total / mass

    @cached_property
    def momentum(self) -> tuple[Array, Array]:
        """Linear and angular momentum (3,) about the origin: sums of R p and R l + r x R p over the bodies, (p, l) = M_b xi.

        Rotors that a body carries add R times the momentum of their spin.
        """
        linear, angular = np.zeros(3), np.zeros(3)
        for inertia, motion in self.bodies():
            wrench = np.matvec(inertia, motion.twist)
            rotation, position = motion.pose[:3, :3], motion.pose[:3, 3]
            push = np.matvec(rotation, wrench[:3])
            linear = linear + push
            angular = angular + np.matvec(rotation, wrench[3:]) + np.cross(position, push)
        for port, rotor in self.rotors:
            if port.carrier is not None:
                rotation = se3.rotation(self.kinematics.pose(WORLD, port.carrier))
                angular = angular + np.matvec(rotation, rotor.momentum[port.size - 3 :])
        return linear, angular

    # --- potentials -------------------------------------------------------------------------------------------------------

    @cached_property
    def gravity_energy(self) -> Array:
        """V^G = -sum_b m_b a_G . (r_b + R_b s_b) (eq. 3.62)."""
        return self.gravity.energy(self.description.inertias, self.kinematics)

    @cached_property
    def gravity_force(self) -> Array:
        """f^G = -sum_b J^T M_b Ad(G^-1) (a_G, 0) (eq. 3.125e, erratum 0.41)."""
        return self.gravity.gradient(self.description.inertias, self.kinematics)

    @cached_property
    def stiffness_energy(self) -> Array:
        """V^K: the energy that the elements store."""
        return sum((t.energy for t in self.elements if t.stiffness is not None), 0.0)

    @cached_property
    def stiffness_force(self) -> Array:
        """f^K: the gradient of the energy that the elements store (eq. 3.125d, erratum 0.45)."""
        return self._total((t.port, t.stiffness) for t in self.elements)

    @property
    def potential_energy(self) -> Array:
        """V = V^G + V^K."""
        return self.gravity_energy + self.stiffness_energy

    # --- dissipation, forces, inputs -----------------------------------------------------------------------------------------

    @cached_property
    def damping_matrix(self) -> Array:
        """D = sum J^T D_ab J (eq. 3.125c) of all resistances that are linear in the velocities."""
        total = np.zeros((self.nv, self.nv))
        for t in self.elements:
            if t.damping is not None:
                total = total + transpose(t.port.rows) @ t.damping @ t.port.rows
        return symmetric(total) if all(t.has_symmetric_damping for t in self.elements) else total

    @cached_property
    def dissipation_force(self) -> Array:
        """f^D = sum J^T D_ab xi_ab (eq. 3.122) and all other resistances."""
        return self._total((t.port, t.resistance) for t in self.elements)

    @cached_property
    def nonlinear_dissipation_force(self) -> Array:
        """f^D - D v: the part beyond the damping matrix."""
        if self.description.time is not None:  # resistance to what moves by itself
            return self.dissipation_force - np.matvec(self.damping_matrix, self.v)
        return self._total((t.port, t.nonlinear_resistance) for t in self.elements)

    def secant_force(self, direction: Array) -> Array | None:
        """Secants of friction times velocities ``direction`` (nv,): generalised force (nv,), or None if no element has any."""
        if not any(t.gives("secant") for t in self.elements):
            return None
        return self._total((t.port, t.secant(np.matvec(t.port.rows, direction))) for t in self.elements)

    @cached_property
    def applied_force(self) -> Array:
        """Forces of elements that supply power, on the right-hand side."""
        total = self._total((t.port, t.applied) for t in self.elements)
        return total if self.description.basis is None else total + self.nonideal_force

    @cached_property
    def nonideal_force(self) -> Array:
        """Generalised force (nv,) whose work under virtual displacements the constraints do (friction)."""
        v = self.kinematics.own_v
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
        return self.kinematics.pulled_back(total)

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

    def input_force(self, u: Array) -> Array:
        """B u (nv,)."""
        return np.matvec(self.input_matrix, u) if self.description.inputs else np.zeros(self.nv)

    @cached_property
    def supplied_force(self) -> Array:
        """Forces (nv,) that are neither inputs, nor resistances, nor gradients: of elements and of nonideal constraints."""
        return self.applied_force if self.description.basis is not None else self.applied_force + self.nonideal_force

    def nonpotential_force(self, u: Array) -> Array:
        """All nonconservative forces (nv,): inputs, supplied forces, resistances."""
        return self.input_force(u) + self.supplied_force - self.dissipation_force

    def power(self, u: Array) -> dict[str, Array]:
        """Power of the inputs, of what resists and of all other forces."""
        forces = {"input": self.input_force(u), "supplied": self.supplied_force}
        powers = {name: np.vecdot(self.v, force) for name, force in forces.items()}
        return {"input": powers["input"], "dissipated": self._dissipated(), "supplied": powers["supplied"]}

    def _dissipated(self) -> Array:
        """v . f^D, where the velocities of ports are rows v without the rows."""
        if self.description.time is not None or self.description.basis is not None:
            return np.vecdot(self.v, self.dissipation_force)
        parts = [(t.port.velocity, t.resistance) for t in self.elements]
        return sum((np.vecdot(w, force) for w, force in parts if force is not None), as_array(0.0))

    @property
    def is_conservative(self) -> bool:
        """Whether nothing can bring in or take out power."""
        d = self.description
        driven = d.inputs or d.has_reaction_friction or any(c.work is not None for c in d.constraints)
        return not driven and not any(element.is_nonconservative for element in d.elements)
