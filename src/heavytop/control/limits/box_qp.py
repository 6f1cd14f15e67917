"""Quadratic program in a box, in straight-line code: the inputs nearest to a target in a metric H, within lower and upper limits.

    min (u - x)^T H (u - x),    l <= u <= h

With up to ``FACES_UP_TO`` limited inputs every face of the box is a candidate: exact, without iterations. Their number grows by 3^n. For more inputs
a path of active sets is followed (parametric quadratic programming, Best 1996): the gradient is shifted so that an admissible guess is
optimal, then the shift is removed, and wherever an input meets a limit or leaves it the active set changes by one. The path ends after about as many
changes as there are inputs, and never cycles; the work of a step is n^3 / 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from heavytop._arrays import Array, from_sx, is_symbolic, shape, to_sx

FACES_UP_TO = 4
"""Number of limited inputs up to which all faces are tried."""
MORE_STEPS = 7
"""Changes of the active set beyond the number of inputs for which a path has room."""
FAR = 1e100
"""Stands for an infinite limit."""
NO_RATE, ROUNDING = 1e-30, 1e-9


def box_qp(H: Array, target: Array, lower: Array, upper: Array) -> Array:
    """The u (n,) with lower <= u <= upper nearest to ``target``: min (u - target)^T H (u - target).

    Parameters
    ----------
    H : (n, n), symmetric and positive definite. target : (n,). Numbers or symbols.
    lower, upper : (n,) numbers; infinite ones do not limit. Or symbols, which are finite.

    Examples
    --------
    >>> box_qp(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([2.0, 0.0]), np.zeros(2), np.ones(2))
    array([1. , 0.5])
    """
    import casadi

    has_lower, has_upper = (
        np.ones(shape(side), bool) if is_symbolic(side) else np.isfinite(side) for side in (lower, upper)
    )
    limited = int(np.sum(has_lower | has_upper))
    if not limited:
        return target
    n = shape(target)[0]
    h, x = casadi.reshape(to_sx(H), n, n), to_sx(target)
    limits = [to_sx(side) if is_symbolic(side) else casadi.DM(np.clip(side, -FAR, FAR)) for side in (lower, upper)]
    if limited > FACES_UP_TO:
        u = _path(n)(h, x, *limits)
    else:
        finite = tuple(has_lower.tolist()), tuple(has_upper.tolist())
        u = _best_face(*finite)(x, *limits, *(_eliminated(h, face) for face in _faces(*finite)))
    return from_sx(u, (n,)) if is_symbolic(H, target, lower, upper) else np.asarray(casadi.evalf(u)).ravel()


# --- all faces ------------------------------------------------------------------------------------------------------------------


def _faces(has_lower: Sequence[bool], has_upper: Sequence[bool]) -> list[tuple[int, ...]]:
    """Sets of inputs that may be at a limit together."""
    limited = [i for i, sides in enumerate(zip(has_lower, has_upper, strict=True)) if any(sides)]
    return [face for count in range(1, len(limited) + 1) for face in combinations(limited, count)]


def _eliminated(H: Any, fixed: tuple[int, ...]) -> Any:
    """H_FF^-1 H_FA above the Schur complement H_AA - H_AF H_FF^-1 H_FA, by elimination without pivots; A is ``fixed``, F the rest."""
    import casadi

    free = [i for i in range(H.shape[0]) if i not in fixed]
    order = [*free, *fixed]
    A = H[order, order]
    for k in range(len(free)):
        row = A[k, :] * (1.0 / A[k, k])
        A = A - casadi.mtimes(A[:, k], row)
        A[k, :] = row
    return A[:, len(free) :]


@cache
def _best_face(has_lower: tuple[bool, ...], has_upper: tuple[bool, ...]) -> Any:
    """The CasADi function (target, lower, upper, :func:`_eliminated` of each face) -> u: the best of the nearest points of all faces."""
    import casadi

    n, faces = len(has_lower), _faces(has_lower, has_upper)
    x, low, high = (casadi.SX.sym(name, n) for name in ("x", "low", "high"))
    blocks = [casadi.SX.sym("block", n, len(face)) for face in faces]

    def inside(i: int, u: Any) -> Any:
        return _all([u >= low[i]] * has_lower[i] + [u <= high[i]] * has_upper[i])

    target = scalars(x)
    # with all inputs at a limit a candidate is always admissible
    best, cost = target, np.inf
    for fixed, block in zip(faces, blocks, strict=True):
        free = [i for i in range(n) if i not in fixed]
        rows = [scalars(block[i, :]) for i in range(n)]
        gain, schur = rows[: len(free)], rows[len(free) :]
        for values in product(*([low[i]] * has_lower[i] + [high[i]] * has_upper[i] for i in fixed)):
            offset = [value - target[i] for value, i in zip(values, fixed, strict=True)]
            point = {i: target[i] - dot(row, offset) for i, row in zip(free, gain, strict=True)}
            value = dot(offset, times(schur, offset))
            better = _all([*(inside(i, u) for i, u in point.items()), value < cost])
            cost = pick(better, value, cost)
            point |= dict(zip(fixed, values, strict=True))
            best = [pick(better, point[i], best[i]) for i in range(n)]
    # a target within the limits is the solution: where all lanes have one, native code skips the rest
    within = _all(inside(i, u) for i, u in enumerate(target))
    u = casadi.vertcat(*(pick(within, a, b) for a, b in zip(target, best, strict=True)))
    return casadi.Function("best_face", [x, low, high, *blocks], [u])


def _all(tests: Iterable[Any]) -> Any:
    """Conjunction of conditions; None if there are none."""
    import casadi

    result = None
    for test in tests:
        if test is not None:
            result = test if result is None else casadi.logic_and(result, test)
    return result


# --- path of active sets ----------------------------------------------------------------------------------------------------------


@cache
def _path(n: int) -> Any:
    """The CasADi function (H, target, lower, upper) -> u that follows the path of active sets."""
    import casadi

    h = casadi.SX.sym("H", n, n)
    x, low, high = (casadi.SX.sym(name, n) for name in ("x", "low", "high"))
    clipped = lambda u: casadi.fmin(casadi.fmax(u, low), high)  # noqa: E731
    # start: the limits that the target exceeds are active, then one step along the scaled gradient
    u = _on_face(h, x, x < low, x > high, low, high)
    u = clipped(u - casadi.mtimes(h, u - x) / casadi.diag(h))
    below, above = u <= low, casadi.logic_and(u >= high, u > low)
    # the shift of the gradient w that makes u optimal is removed: w = H (u - x) + tau shift, tau from 1 to 0
    w = casadi.mtimes(h, u - x)
    shift = pick(below, casadi.fmax(-w, 0.0), pick(above, casadi.fmin(-w, 0.0), -w))
    w, tau = w + shift, casadi.SX(1.0)
    for _ in range(n + MORE_STEPS):
        fixed = casadi.logic_or(below, above)
        free = casadi.logic_not(fixed)
        du = _solution(h, -shift, free)
        dw = fixed * (casadi.mtimes(h, du) + shift)
        # a free input meets the limit towards which it moves, the gradient of an active one vanishes
        rate = pick(fixed, dw, du)
        meets = pick(below, rate > NO_RATE, pick(above, rate < -NO_RATE, casadi.fabs(rate) > NO_RATE))
        room = pick(fixed, w, u - pick(du > 0, low, high))
        until = pick(meets, casadi.fmax(room / pick(meets, rate, 1.0), 0.0), 2.0)
        first = casadi.mmin(until)
        part = casadi.fmin(first, tau)
        changes = _first_true(casadi.logic_and(until <= first, first < tau))
        u, w, tau = u - part * du, w - part * dw, tau - part
        below = pick(changes, casadi.logic_and(free, du > 0), below)
        above = pick(changes, casadi.logic_and(free, du <= 0), above)
    # exact to rounding on the last face; a path that has not ended has its last point
    u, exact = clipped(u), clipped(_on_face(h, x, below, above, low, high))
    best = pick(_cost(h, exact - x) <= (1.0 + ROUNDING) * _cost(h, u - x), exact, u)
    # a target within the limits is the solution: where all lanes have one, native code skips the rest
    u = pick(casadi.logic_all(casadi.logic_and(x >= low, x <= high)), x, best)
    return casadi.Function("path", [h, x, low, high], [u])


def _on_face(h: Any, x: Any, below: Any, above: Any, low: Any, high: Any) -> Any:
    """The nearest point with inputs at the lower or upper limit."""
    import casadi

    offset = pick(below, low, pick(above, high, x)) - x  # zero where free
    free = casadi.logic_not(casadi.logic_or(below, above))
    moved = x + _solution(h, -casadi.mtimes(h, offset), free)
    return pick(below, low, pick(above, high, moved))


def _solution(h: Any, right: Any, free: Any) -> Any:
    """The solution of H_FF y_F = right_F for the free entries; y = 0 for the others."""
    import casadi

    rows = [scalars(h[i, :]) for i in range(right.shape[0])]
    return casadi.vertcat(*solve_ldl(rows, scalars(right), scalars(free)))


def _first_true(tests: Any) -> Any:
    """The first condition that holds, alone."""
    import casadi

    found, before = [], casadi.SX(0)
    for test in scalars(tests):
        found.append(casadi.logic_and(test, casadi.logic_not(before)))
        before = casadi.logic_or(before, test)
    return casadi.vertcat(*found)


def _cost(h: Any, d: Any) -> Any:
    import casadi

    return casadi.dot(d, casadi.mtimes(h, d))


# --- algebra of CasADi scalars: operations on them are recorded many times faster than on arrays ------------------------------


def scalars(column: Any) -> list[Any]:
    """The entries of a CasADi vector."""
    return [column[i] for i in range(column.numel())]


def pick(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``."""
    import casadi

    return casadi.if_else(condition, a, b)


def least(a: Any, b: Any) -> Any:
    """The smaller of two scalars."""
    import casadi

    return casadi.fmin(a, b)


def most(a: Any, b: Any) -> Any:
    """The larger of two scalars."""
    return -least(-a, -b)


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    """a^T b."""
    total: Any = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def times(rows: Iterable[Iterable[Any]], x: Sequence[Any]) -> list[Any]:
    """The product of a matrix and a vector."""
    return [dot(row, x) for row in rows]


def solve_ldl(K: Sequence[Sequence[Any]], right: Sequence[Any], free: Sequence[Any] | None = None) -> list[Any]:
    """K^-1 right by L D L^T, for a positive definite K; its lower triangle is read.

    ``free`` : conditions; where they do not hold, the row and column are left out and the solution is zero.
    """
    n, L, y, d = len(right), [list(row) for row in K], list(right), []
    for k in range(n):
        pivot = (1.0 if free is None else free[k]) / L[k][k]
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
    return y
