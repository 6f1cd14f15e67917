"""From a desired to a realisable acceleration: Gauss's principle, and the same under limits of the inputs.

Among all accelerations ``a = M^-1 (B u - b)`` the inputs can produce, take the one nearest to the desired one in the metric of the
prototype (docs/control/laws.md):

    u = (N^T M_bar N)^-1 N^T (M_bar M^-1 b - c_bar),    N = M^-1 B.

With limits the nearest admissible u is the solution of a quadratic program in a box (:func:`.box_qp`).

The inputs of least deviation solve ``H u = g`` with ``H = N^T M_bar N`` and g in the range of H. Where H loses rank the smallest u is required, and
near such a configuration a bounded one. Both follow from Tikhonov's regularisation, iterated so that it is exact where H is regular:

    u_0 = 0,     u_k+1 = u_k + (H + eps R)^-1 (g - H u_k),     k < STEPS.

R is the mean of H over random configurations, the usual effect of each direction. A direction whose share
lambda of its usual effect (H x = lambda R x) is large keeps all but (eps / (lambda + eps))^STEPS of its input; a lost one gets none, and no
input exceeds that of a direction with share eps.

Changes Z of the inputs without any effect (six rotors on one hull) need no regularisation: R is completed there, the smallest inputs are
u = Y w with Z^T R Y = 0, and w solves the smaller equations Y^T H Y w = Y^T g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array, Floats, is_symbolic, to_sx, transpose, vector
from heavytop.control.laws.law_terms import LawTerms
from heavytop.ocp import Limits
from heavytop.system import solve_definite, symmetric

DAMPING = 1e-5
"""eps: share of the usual effect of a direction at which half of its input is suppressed in each step."""
STEPS = 4
SHARING, SHARING_STEPS = 1e-3, 8
"""The same for inputs that are redundant everywhere in directions that vary: rounding in these directions grows by 1 / eps."""
LOST = 1e-4
"""Share of its usual effect below which a direction of the inputs counts as lost."""
DEPENDENT = 1e-9
"""Ratio to the largest eigenvalue below which one of the mean of H counts as zero: inputs that depend on each other everywhere."""


@dataclass(frozen=True, eq=False)
class InputRank:
    """Usual effect of the inputs of a model.

    Attributes
    ----------
    usual : R (nu, nu), positive definite: the mean effect of the inputs, completed where they depend on each other.
    spare : Z (nu, k): changes of the inputs without effect in any configuration.
    pivots : (nu,) of the elimination of H, the mean of the samples; far smaller ones indicate a loss of rank.
    constant : whether H is the same in all configurations, so that no rank is ever lost.
    redundant : number of directions of the inputs without effect in every configuration, always the same ones or not.
    used : Y (nu, r), the inputs without the spare ones, and reduced : their rank; None without spare ones.
    """

    usual: Floats
    spare: Floats
    pivots: Floats
    constant: bool
    redundant: int
    used: Floats | None = None
    reduced: InputRank | None = None

    @property
    def is_redundant(self) -> bool:
        """Whether inputs depend on each other in every configuration."""
        return self.redundant > 0

    @classmethod
    def of(cls, H: Floats, pivots: Floats, constant: bool) -> InputRank:
        """From samples of H (n, nu, nu) and of its pivots (n, nu).

        >>> rank = InputRank.of(np.ones((1, 2, 2)), np.ones((1, 2)), True)
        >>> rank.is_redundant, rank.spare.round(3).ravel().tolist()
        (True, [-0.707, 0.707])
        """
        mean = np.mean(H, axis=0)
        size = np.sqrt(np.maximum(np.diag(mean), 0.0))
        size = np.where(size > 0.0, size, max(float(np.max(size)), 1e-300))
        values, vectors = np.linalg.eigh(mean / np.outer(size, size))
        spare = values <= DEPENDENT * values[-1]
        Z = vectors[:, spare]
        # completed by equally large inputs, in units of their own effect
        filled = mean + np.outer(size, size) * (Z @ Z.T)
        usual = 0.5 * (filled + filled.T)
        ranks = [np.sum(_shares(one, usual)[0] > DEPENDENT) for one in H]
        Z, redundant = Z / size[:, None], len(mean) - int(max(ranks))
        if not Z.shape[1]:
            return cls(usual, Z, np.mean(pivots, axis=0), constant, redundant)
        # Y^T R Y = 1: the right singular vectors behind those of Z^T L, with R = L L^T
        L = np.linalg.cholesky(usual)
        Y = np.linalg.solve(L.T, np.linalg.svd(Z.T @ L)[2][Z.shape[1] :].T)
        small = Y.T @ H @ Y
        reduced = cls.of(small, np.array([eliminated_pivots(one) for one in small]), constant)
        return cls(usual, Z, np.mean(pivots, axis=0), constant, redundant, Y, reduced)

    def solve(self, H: Array, g: Array) -> Array:
        """u (nu,) with H u = g where H is regular, the smallest or a bounded one elsewhere."""
        if self.used is not None and self.reduced is not None:
            Y = self.used
            w = self.reduced.solve(symmetric(transpose(Y) @ H @ Y), np.matvec(transpose(Y), g))
            return np.matvec(Y, w)
        if self.is_redundant:
            return self.damped(H, g, SHARING, SHARING_STEPS)
        if self.constant or not is_symbolic(H):
            return solve_definite(H, g)
        regular = self.is_regular(H)
        safe = symmetric(np.where(regular, H, self.usual))
        return np.where(regular, solve_definite(safe, g), self.damped(H, g))

    def damped(self, H: Array, g: Array, damping: float = DAMPING, steps: int = STEPS) -> Array:
        """Tikhonov's iteration; smooth in H and g."""
        lifted = symmetric(H + damping * self.usual)
        u = solve_definite(lifted, g)
        for _ in range(steps - 1):
            u = u + solve_definite(lifted, g - np.matvec(H, u))
        return u

    def is_regular(self, H: Array) -> Array:
        """Whether no pivot of H has fallen below LOST of its usual size."""
        import casadi

        regular = None
        D = to_sx(pivots(H))
        for k in range(D.shape[0]):
            one = D[k] > LOST * float(self.pivots[k])
            regular = one if regular is None else casadi.logic_and(regular, one)
        return casadi.ArrayInterface(regular, 0)

    def safe_metric(self, weight: Array, H: Array) -> Array:
        """A metric of the inputs (nu, nu) that is definite also where they have no effect."""
        if self.is_redundant:
            return symmetric(weight + LOST * self.usual)  # inputs without effect cost almost nothing
        if self.constant or not is_symbolic(H):
            return weight
        return symmetric(np.where(self.is_regular(H), weight, weight + LOST * self.usual))

    def shares(self, H: Floats) -> tuple[Floats, Floats]:
        """Shares lambda (..., nu) of their usual effect, ascending, and the directions (..., nu, nu) of the inputs, as columns."""
        return _shares(H, self.usual)

    def lost(self, shares: Floats, directions: Floats) -> Floats:
        """Directions (nu, k) that have lost their usual effect, from :meth:`shares` of one configuration; redundant ones are not lost."""
        idle = directions[:, shares < LOST]
        if idle.shape[1] <= self.redundant:
            return idle[:, :0]
        Z = self.spare
        if Z.shape[1] < max(self.redundant, 1):
            return idle  # redundant directions vary: they cannot be distinguished
        # without the directions that are idle everywhere, in the metric of the usual effects
        left = idle - Z @ np.linalg.solve(Z.T @ self.usual @ Z, Z.T @ self.usual @ idle)
        return np.linalg.svd(left)[0][:, : idle.shape[1] - self.redundant]


def _shares(H: Floats, usual: Floats) -> tuple[Floats, Floats]:
    """Solutions of H x = lambda R x, the directions x of length 1."""
    inverse = np.linalg.inv(np.linalg.cholesky(usual))
    values, vectors = np.linalg.eigh(inverse @ H @ inverse.T)
    directions = inverse.T @ vectors
    return np.maximum(values, 0.0), directions / np.linalg.norm(directions, axis=-2, keepdims=True)


def eliminated_pivots(H: Floats) -> Floats:
    """The pivots (n,) of the elimination of a numeric matrix; zero after one that vanishes.

    >>> eliminated_pivots(np.array([[4.0, 2.0], [2.0, 3.0]])).tolist()
    [4.0, 2.0]
    """
    left, found = np.array(H, dtype=float), np.zeros(len(H))
    for k in range(len(H)):
        found[k] = left[k, k]
        if not found[k] > 0.0:
            break
        left[k + 1 :] -= np.outer(left[k + 1 :, k] / found[k], left[k])
    return found


def pivots(H: Array) -> Array:
    """The pivots (nu,) of the elimination of :func:`.solve_definite`."""
    import casadi

    if not is_symbolic(H):
        H = casadi.ArrayInterface(casadi.SX(casadi.DM(np.atleast_2d(H))), 2)
    matrix = casadi.SX(H.to_casadi())
    D = matrix if matrix.shape[0] == 1 else casadi.ldl(casadi.sparsify(matrix))[0]
    return casadi.ArrayInterface(casadi.densify(casadi.vec(D)).T, 1)


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
