"""Symbols of a law: the actual motion, the reference motion and the prototype's moments along them.

All laws yield a prototype equation ``M_bar(q) a + c_bar(q, v, reference) = 0`` with the same ``M_bar = sum_b J_b^T M_bar_b J_b``;
they differ in ``c_bar``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heavytop._arrays import Array, Floats, sparse, transpose
from heavytop.control.laws.prototype import Pair, Prototype
from heavytop.control.linear.linearised_loop import freedom_of, sample_configurations
from heavytop.errors import unknown_name
from heavytop.geometry import error_wrench, se3, stiffness_energy
from heavytop.system import (
    WORLD,
    EquationTerms,
    Expressions,
    Model,
    Moments,
    Motion,
    SparseLDL,
    solve_definite,
    symmetric,
)


@dataclass(frozen=True, eq=False)
class Term:
    """One distribution of the prototype with its actual and desired motion.

    Attributes
    ----------
    moments : X' (4, 4). matrix : Vee(X') (6, 6).
    frames : (a, b). motion, reference : actual and desired motion of body b relative to body a.
    reference_rate : (6,) rate of the desired twist, J_R a_R + d/dt(J_R) v_R.
    """

    frames: Pair
    moments: Array
    matrix: Array
    motion: Motion
    reference: Motion
    reference_rate: Array

    @cached_property
    def error(self) -> Array:
        """E = G^-1 G_R (4, 4)."""
        return se3.inverse(self.motion.pose) @ self.reference.pose

    def generalised(self, wrench: Array) -> Array:
        """J^T wrench (nv,)."""
        return np.matvec(transpose(self.motion.jacobian), wrench)


class LawTerms:
    """Symbols and expressions shared by the laws of one model and one prototype."""

    def __init__(self, model: Model, prototype: Prototype) -> None:
        self.model, self.prototype = model, prototype
        self.actual = model.expressions
        self.desired = Expressions(model.description)
        for name in prototype.frames:
            if name not in self.actual.kinematics.chains:
                raise unknown_name("body or frame (in the prototype)", name, self.actual.kinematics.chains)

    @property
    def dynamics(self) -> EquationTerms:
        """The model's own dynamics at (q, v)."""
        return self.actual.dynamics

    @cached_property
    def samples(self) -> Floats:
        """Configurations (n, nq) at which the law is checked."""
        return sample_configurations(self.model)

    @cached_property
    def freedom(self) -> int:
        """Degrees of freedom: dimension of the velocities that satisfy loops and constraints."""
        return freedom_of(self.model, self.samples)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates."""
        return self.actual.nv

    def symbols(self) -> dict[str, Array]:
        """The inputs of every law: q, v, q_R, v_R, a_R and the model's parameters p."""
        a, d = self.actual, self.desired
        return {"q": a.q, "v": a.v, "q_R": d.q, "v_R": d.v, "a_R": d.a, "p": a.p}

    def term(self, a: str, b: str, moments: Moments) -> Term:
        """A distribution on body b relative to body a."""
        motion, reference = self.actual.kinematics.motion(a, b), self.desired.kinematics.motion(a, b)
        rate = np.matvec(reference.jacobian, self.desired.a) + reference.bias
        return Term((a, b), moments.moments, moments.matrix, motion, reference, rate)

    @cached_property
    def inertias(self) -> tuple[Term, ...]:
        """The prototype's bodies."""
        return tuple(self.term(WORLD, b, m) for b, m in self.prototype.inertia.items())

    @cached_property
    def dampings(self) -> tuple[Term, ...]:
        """The prototype's dampers."""
        return self._terms(self.prototype.damping)

    @cached_property
    def stiffnesses(self) -> tuple[Term, ...]:
        """The prototype's springs; they are relaxed on the reference."""
        return self._terms(self.prototype.stiffness)

    def _terms(self, pairs: Mapping[Pair, Moments]) -> tuple[Term, ...]:
        return tuple(self.term(a, b, m) for (a, b), m in pairs.items())

    @cached_property
    def mass_matrix(self) -> Array:
        """M_bar = sum_b J^T M_bar_b J (nv, nv)."""
        return quadratic(self.inertias, self.nv)

    # --- constraints: the nearest admissible velocity and acceleration in the metric of the prototype ----------------------------

    @cached_property
    def _release(self) -> Array:
        """M_bar^-1 Phi^T (nv, m)."""
        return sparse(solve_definite(self.mass_matrix, transpose(self.actual.constrained.Phi)))

    @cached_property
    def _compliance(self) -> SparseLDL:
        """Guarded factorisation of Phi M_bar^-1 Phi^T."""
        constrained = self.actual.constrained
        return SparseLDL(constrained.Phi @ self._release, constrained.groups)

    def kept_velocity(self, v: Array) -> Array:
        """The velocity (nv,) nearest to v with Phi v + b = 0."""
        c = self.actual.constrained
        return v - np.matvec(self._release, self._compliance.solve(np.matvec(c.Phi, v) + c.drift))

    def kept_acceleration(self, a: Array) -> Array:
        """The acceleration (nv,) nearest to a with Phi a + d/dt(Phi) v + d/dt(b) = 0."""
        c = self.actual.constrained
        return a - np.matvec(self._release, self._compliance.solve(np.matvec(c.Phi, a) + c.bias))

    @cached_property
    def damping_matrix(self) -> Array:
        """D_bar = sum_ab J^T D_bar_ab J (nv, nv)."""
        return quadratic(self.dampings, self.nv)

    @cached_property
    def stiffness_matrix(self) -> Array:
        """K_bar = sum_ab J^T K_bar_ab J (nv, nv): the Hessian of V_bar on the reference."""
        return quadratic(self.stiffnesses, self.nv)

    @cached_property
    def stiffness_force(self) -> Array:
        """grad V_bar = sum_ab J^T vee2((I - E) K_bar') (nv,)."""
        total = np.zeros(self.nv)
        for t in self.stiffnesses:
            total = total + t.generalised(error_wrench(t.moments, t.error))
        return total

    @cached_property
    def stiffness_energy(self) -> Array:
        """V_bar = 1/2 sum_ab tr((G - G_R) K_bar' (G - G_R)^T), in J."""
        total = 0.0
        for t in self.stiffnesses:
            total = total + stiffness_energy(t.moments, t.motion.pose, t.reference.pose)
        return total


def quadratic(terms: tuple[Term, ...], nv: int) -> Array:
    """sum J^T X J (nv, nv)."""
    total = np.zeros((nv, nv))
    for t in terms:
        J = t.motion.jacobian
        total = total + transpose(J) @ (t.matrix @ J)
    return symmetric(total)
