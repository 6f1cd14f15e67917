"""From a desired to a realisable acceleration: Gauss's principle, and the same under limits of the inputs.

Among all accelerations ``a = M^-1 (B u - b)`` the inputs can produce, take the one nearest to the desired one in the metric of the
prototype (docs/control/laws.md):

    u = (N^T M_bar N)^-1 N^T (M_bar M^-1 b - c_bar),    N = M^-1 B.

With limits the nearest admissible u is found by looking at every set of inputs that may sit on a limit: exact, without iterations,
and therefore fit for straight-line native code. Beyond a few inputs a fixed number of active-set steps does (:mod:`.bounded`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from heavytop._arrays import Array, from_sx, is_symbolic, to_sx, transpose, vector
from heavytop.control.laws.law_terms import LawTerms
from heavytop.control.limits.box_qp import bounded_steps
from heavytop.control.limits.rank import InputRank
from heavytop.ocp.bounds import Limits
from heavytop.system.dynamics.solve import solve_definite, symmetric

ENUMERATE_UP_TO = 4
"""With more limited inputs active-set steps replace the look at every set."""


METRICS = ("prototype", "model")


@dataclass(frozen=True, eq=False)
class Projection:
    """Gauss's projection of a prototype equation on the inputs of a model.

    Loops and velocity constraints leave the accelerations ``a = a_0 + N u`` with a_0 and the columns of N kept by them; a law then wants the
    prototype's equation in the directions they leave.
    """

    terms: LawTerms
    bias: Array
    """c_bar (nv,) of the law."""
    metric_of: str = "prototype"
    """Whose masses measure the distance of accelerations: "prototype" or "model"."""
    rank: InputRank | None = None
    """What the inputs do as a rule; None: they are independent everywhere."""

    @property
    def directions(self) -> Array:
        """N (nv, nu): acceleration per unit of each input, M^-1 B in a tree."""
        d = self.terms.dynamics
        if self.terms.actual.is_constrained:
            return self.terms.actual.constrained.directions(d.input_matrix)
        return solve_definite(d.mass_matrix, d.input_matrix)

    @property
    def measure(self) -> Array:
        """The matrix (nv, nv) in whose metric the nearest acceleration is taken."""
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
        """a_d (nv,): what the prototype would do, -M_bar^-1 c_bar, and with constraints the nearest to it that keeps them."""
        a = solve_definite(self.terms.mass_matrix, -self.bias)
        return self.terms.kept_acceleration(a) if self.terms.actual.is_constrained else a

    def weight(self, N: Array, limits: Limits | None) -> Array:
        """H2 (nu, nu): the metric in which the nearest admissible input is sought (torque priority)."""
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


def nearest_admissible(H: Array, target: Array, lower: np.ndarray, upper: np.ndarray) -> Array:
    """The u (n,) with lower <= u <= upper nearest to ``target`` in the metric H, in the shorter of two ways; for symbols."""
    limited = np.isfinite(lower) | np.isfinite(upper)
    return (box_qp if np.sum(limited) <= ENUMERATE_UP_TO else bounded_steps)(H, target, lower, upper)


def box_qp(H: Array, target: Array, lower: np.ndarray, upper: np.ndarray) -> Array:
    """The u (n,) with lower <= u <= upper nearest to ``target``: min (u - target)^T H (u - target), exactly.

    Every set of inputs that may sit at a limit is tried: the nearest point with those inputs fixed is a candidate if it is
    admissible, and the best candidate is the solution. 3^n candidates; for numbers (one state) and symbols alike.

    Examples
    --------
    >>> box_qp(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([2.0, 0.0]), np.zeros(2), np.ones(2))
    array([1. , 0.5])
    """
    n = len(lower)
    x, metric = _scalars(target), [_scalars(H[i, :]) for i in range(n)]
    inside = _all(_within(x[i], lower[i], upper[i]) for i in range(n))
    if inside is None:
        return target
    # with all inputs on a limit a candidate is always admissible
    best, cost = list(x), np.inf
    for count in range(1, n + 1):
        for fixed in combinations(range(n), count):
            sides = [[side for side in (lower[i], upper[i]) if np.isfinite(side)] for i in fixed]
            if not all(sides):
                continue
            free = [i for i in range(n) if i not in fixed]
            gain, schur = _eliminate(metric, free, list(fixed))
            for values in product(*sides):
                offset = [value - x[i] for value, i in zip(values, fixed, strict=True)]
                moved = {i: x[i] - _dot(row, offset) for i, row in zip(free, gain, strict=True)}
                value = _dot(offset, [_dot(row, offset) for row in schur])
                better = _all([*(_within(moved[i], lower[i], upper[i]) for i in free), value < cost])
                cost = _where(better, value, cost)
                moved |= dict(zip(fixed, values, strict=True))
                best = [_where(better, moved[i], best[i]) for i in range(n)]
    # a target within the limits is the solution: where all lanes have one, native code skips the rest
    return _gather([_where(inside, x[i], best[i]) for i in range(n)], target)


def _eliminate(H: list[list[Array]], free: list[int], fixed: list[int]) -> tuple[list[list[Array]], list[list[Array]]]:
    """P = H_FF^-1 H_FA (rows per free input) and the Schur complement H_AA - H_AF P, by elimination without pivots."""
    size = len(free)
    order = free + fixed
    A = [[H[i][j] for j in order] for i in order]
    for k in range(size):
        pivot = 1.0 / A[k][k]
        A[k] = [entry * pivot for entry in A[k]]
        for i in range(len(order)):
            if i != k:
                factor = A[i][k]
                A[i] = [a - factor * b for a, b in zip(A[i], A[k], strict=True)]
    return [row[size:] for row in A[:size]], [row[size:] for row in A[size:]]


def _within(x: Array, low: float, high: float) -> Array:
    tests = [x >= low] if np.isfinite(low) else []
    tests += [x <= high] if np.isfinite(high) else []
    return _all(tests)


def _all(tests: Iterable[Array]) -> Array:
    """Conjunction of conditions; None if there is none."""
    result = None
    for test in tests:
        if test is not None:
            result = test if result is None else _both(result, test)
    return result


# Scalars of a traced vector as bare CasADi scalars: thousands of operations on them are recorded many times faster


def _scalars(x: Array) -> list[Array]:
    column = to_sx(x) if is_symbolic(x) else np.asarray(x, dtype=float)
    return [column[i] for i in range(column.shape[0])]


def _gather(scalars: list[Array], like: Array) -> Array:
    if not any(is_symbolic(s) for s in scalars):
        return vector(*scalars)
    import casadi

    return from_sx(casadi.vertcat(*scalars), tuple(like.shape))


def _where(condition: Array, a: Array, b: Array) -> Array:
    if not is_symbolic(condition):
        return np.where(condition, a, b)
    import casadi

    return casadi.if_else(condition, a, b)


def _both(a: Array, b: Array) -> Array:
    if not is_symbolic(a, b):
        return np.logical_and(a, b)
    import casadi

    return casadi.logic_and(a, b)


def _dot(a: Iterable[Array], b: Iterable[Array]) -> Array:
    total: Array = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total
