"""From a desired to a realisable acceleration: Gauss's principle, and the same under limits of the inputs.

Among all accelerations ``a = M^-1 (B u - b)`` the inputs can produce, take the one nearest to the desired one in the metric of the
prototype (docs/control/laws.md):

    u = (N^T M_bar N)^-1 N^T (M_bar M^-1 b - c_bar),    N = M^-1 B.

With limits the nearest admissible u is the solution of a quadratic program in a box (:func:`.box_qp`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array, transpose, vector
from heavytop.control.laws.law_terms import LawTerms
from heavytop.control.limits.rank import InputRank
from heavytop.ocp import Limits
from heavytop.system import solve_definite, symmetric

METRICS = ("prototype", "model")


@dataclass(frozen=True, eq=False)
class Projection:
    """Gauss's projection of a prototype equation on the inputs of a model.

    With loops and velocity constraints the accelerations are ``a = a_0 + N u`` with admissible a_0 and columns of N; a law then imposes the
    prototype's equation in the admissible directions.
    """

    terms: LawTerms
    bias: Array
    """c_bar (nv,) of the law."""
    metric_of: str = "prototype"
    """Masses that measure the distance of accelerations: "prototype" or "model"."""
    rank: InputRank | None = None
    """Usual effect of the inputs; None: they are independent everywhere."""

    @property
    def directions(self) -> Array:
        """N (nv, nu): acceleration per unit of each input, M^-1 B in a tree."""
        d = self.terms.dynamics
        if self.terms.actual.is_constrained:
            return self.terms.actual.constrained.directions(d.input_matrix)
        return solve_definite(d.mass_matrix, d.input_matrix)

    @property
    def measure(self) -> Array:
        """The metric (nv, nv) of accelerations."""
        return self.terms.mass_matrix if self.metric_of == "prototype" else self.terms.dynamics.mass_matrix

    def metric(self, N: Array) -> Array:
        """H = N^T M_bar N (nu, nu)."""
        return symmetric(transpose(N) @ self.measure @ N)

    def unlimited(self, N: Array) -> Array:
        """u (nu,) without limits."""
        d, M_bar, H = self.terms.dynamics, self.measure, self.metric(N)
        if self.terms.actual.is_constrained:
            drift = -np.matvec(M_bar, self.terms.actual.constrained.passive_acceleration())
        else:
            drift = np.matvec(M_bar, solve_definite(d.mass_matrix, d.passive_force))
        if self.metric_of == "prototype":
            wanted = -self.bias
        else:
            wanted = np.matvec(M_bar, self.desired_acceleration())
        g = np.matvec(transpose(N), drift + wanted)
        return solve_definite(H, g) if self.rank is None else self.rank.solve(H, g)

    def desired_acceleration(self) -> Array:
        """a_d (nv,): that of the prototype, -M_bar^-1 c_bar, with constraints the nearest admissible one."""
        a = solve_definite(self.terms.mass_matrix, -self.bias)
        return self.terms.kept_acceleration(a) if self.terms.actual.is_constrained else a

    def weight(self, N: Array, limits: Limits | None) -> Array:
        """H2 (nu, nu): the metric of the nearest admissible input (torque priority)."""
        weight = self._weight(N, limits)
        return weight if self.rank is None else self.rank.safe_metric(weight, self.metric(N))

    def _weight(self, N: Array, limits: Limits | None) -> Array:
        if limits is None or limits.torque_priority is None:
            return self.metric(N)
        priority, inertias = limits.torque_priority, limits.inertia or self.terms.prototype.inertia
        total = np.zeros((self.terms.nv, self.terms.nv))
        for name, inertia in inertias.items():
            # mass and priority-weighted principal moments about the body origin, without coupling
            whole = inertia.matrix
            weights = vector(*(whole[i, i] * (1.0 if i < 3 else priority) for i in range(6)))
            J = self.terms.actual.kinematics.jacobian("world", name)
            total = total + transpose(J) @ (np.reshape(weights, (6, 1)) * J)
        return symmetric(transpose(N) @ total @ N)
