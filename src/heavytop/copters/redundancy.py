"""More rotors than independent directions: the law decides on the wrench, an allocation shares it among the rotors.

With W (6, n) of rank r the wrench per input, W = U S V^T: the law is made for r virtual inputs w, the amplitudes of the columns of U,
and the rotors get the least thrusts that make them, u = V S^-1 w. Where a rotor reaches a limit, the others take over what they can:
min (u - u*)^T (C^T H C + sigma Z Z^T) (u - u*) with C = S V^T, H the metric of the virtual inputs (torque priority included) and Z the
null space of W, in which thrusts can be moved for (almost) nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import finite_matrix, from_sx, to_sx
from heavytop.compile import Traced, trace_of
from heavytop.control.allocation import Limits
from heavytop.control.law import FeedbackLaw, Law
from heavytop.errors import ControlError

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

ITERATIONS = 10
FREE_MOTION = 1e-4
"""Weight of motions in the null space relative to the smallest weight of the wrench."""


def independent(wrenches: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (6, r), C (r, n) = S V^T and Z (n, n - r) of a matrix W (6, n) of rank r.

    >>> U, C, Z = independent(np.array([[1.0, 1.0]] + [[0.0, 0.0]] * 5))
    >>> U.shape, C.shape, Z.shape
    ((6, 1), (1, 2), (2, 1))
    """
    U, s, Vt = np.linalg.svd(finite_matrix(wrenches, "the wrenches of the rotors"))
    rank = int(np.sum(s > 1e-9 * s[0]))
    return U[:, :rank], s[:rank, None] * Vt[:rank], Vt[rank:].T


def box_qp_iterated(H: Any, target: Any, lower: np.ndarray, upper: np.ndarray, iterations: int = ITERATIONS) -> Any:
    """The u (n,) with lower <= u <= upper nearest to ``target`` in the metric H, by a fixed number of active-set steps.

    Each step fixes the inputs that the multipliers push against a limit and solves for the others; the best admissible point met on
    the way is the result. For symbols; the work grows with n^3, not with 3^n. Exact once the active set repeats, which takes two to
    four steps as a rule.
    """
    import casadi

    x = to_sx(target)
    n = x.shape[0]
    h = casadi.reshape(to_sx(H), n, n)
    low, high = casadi.DM(lower), casadi.DM(upper)
    diagonal = casadi.diag(h)
    u, best = x, casadi.fmin(casadi.fmax(x, low), high)
    cost = _cost(h, best - x)
    for _ in range(iterations):
        trial = u - casadi.mtimes(h, u - x) / diagonal
        below, above = trial < low, trial > high
        fixed = casadi.logic_or(below, above)
        offset = casadi.if_else(below, low, casadi.if_else(above, high, x)) - x  # zero where free
        free = 1 - fixed
        K = h * casadi.mtimes(free, free.T) + casadi.diag(fixed)
        right = casadi.if_else(fixed, offset, -casadi.mtimes(h, offset))
        u = x + _solved(K, right, n)
        inside = casadi.fmin(casadi.fmax(u, low), high)
        value = _cost(h, inside - x)
        better = value < cost
        best, cost = casadi.if_else(better, inside, best), casadi.if_else(better, value, cost)
    return from_sx(best, (n,))


def _cost(h: Any, d: Any) -> Any:
    import casadi

    return casadi.dot(d, casadi.mtimes(h, d))


def _solved(K: Any, right: Any, n: int) -> Any:
    """K^-1 right by L D L^T."""
    import casadi

    L, d = [[K[i, j] for j in range(n)] for i in range(n)], []
    y = [right[i] for i in range(n)]
    for k in range(n):
        pivot = 1.0 / L[k][k]
        d.append(pivot)
        for i in range(k + 1, n):
            factor = L[i][k] * pivot
            for j in range(k + 1, i + 1):
                L[i][j] = L[i][j] - factor * L[j][k]
            y[i] = y[i] - factor * y[k]
    for k in reversed(range(n)):
        total = y[k]
        for i in range(k + 1, n):
            total = total - L[i][k] * y[i]
        y[k] = total * d[k]
    return casadi.vertcat(*y)


class RedundantLaw(FeedbackLaw):
    """A law whose wrench is shared among the rotors of a vehicle. Made by :meth:`.Vehicle.law`."""

    def __init__(self, vehicle: Vehicle, inner: FeedbackLaw, limits: Limits | None) -> None:
        if not isinstance(inner, Law):
            raise ControlError(f"a redundant law needs a law with a prototype, got {inner!r}.")
        self.vehicle, self.inner, self.limits = vehicle, inner, limits
        self.kind, self.model, self.prototype = inner.kind, vehicle.model, inner.prototype

    @property
    def state_size(self) -> int:
        """Number of integrals."""
        return self.inner.state_size

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of q, v, q_R, v_R, a_R, p and, with integral action, z."""
        from heavytop.copters.vehicle import wrench_matrix

        _, C, Z = independent(wrench_matrix(self.vehicle.airframe.rotors))
        symbols = self.inner.symbols()
        w, *more = self.inner.traced_law.expressions(*symbols.values())
        u = np.matvec(np.linalg.pinv(C), w)
        if self.limits is not None:
            projection = self.inner.projection
            weight = projection.weight(projection.directions, self.limits)
            least = float(np.min(np.linalg.norm(C, axis=1))) ** 2
            metric = C.T @ weight @ C + FREE_MOTION * least * (Z @ Z.T)
            u = box_qp_iterated(metric, u, *self.limits.bounds(self.model))
        return trace_of(f"{self.kind}_law", symbols, {"u": u, **({"z_rate": more[0]} if more else {})})
