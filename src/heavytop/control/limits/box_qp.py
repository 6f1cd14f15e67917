"""The nearest admissible input in a fixed number of steps: box-constrained least squares for many inputs, in straight-line native code.

``min (u - x)^T H (u - x)`` with ``l <= u <= h`` is solved once every input is free with a zero gradient, or at a limit that its gradient
pushes it against. Block pivoting (Judice and Pires 1994, Kunisch and Rendl 2003) guesses the set of inputs at limits, solves for the free
ones and puts every input that contradicts the guess on its right side, all at once: two to four steps as a rule. It could cycle;
therefore single exchanges follow, of the input that contradicts most. The work of a step is that of one elimination, n^3 / 6, where
looking at all sets would be 3^n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, from_sx, to_sx

BLOCK_STEPS = 5
"""Steps that exchange all inputs that contradict the guess."""
FAR = 1e300
"""A limit that is none."""


def bounded_steps(
    H: Array, target: Array, lower: np.ndarray, upper: np.ndarray, block: int = BLOCK_STEPS, single: int | None = None
) -> Array:
    """The u (n,) with lower <= u <= upper nearest to ``target`` (n,) in the metric H (n, n); for symbols.

    The best admissible point met on the way is the result, so that limits hold whatever happens.

    Parameters
    ----------
    block, single : numbers of steps of each kind; None: one more single step than inputs.
    """
    import casadi

    x = to_sx(target)
    n = x.shape[0]
    h = casadi.reshape(to_sx(H), n, n)
    low, high = casadi.DM(np.clip(lower, -FAR, FAR)), casadi.DM(np.clip(upper, -FAR, FAR))
    diagonal = casadi.diag(h)
    u, best = x, casadi.fmin(casadi.fmax(x, low), high)
    cost, gradient = _cost(h, best - x), casadi.SX.zeros(n)
    below, above = casadi.SX.zeros(n), casadi.SX.zeros(n)
    for step in range(block + (n + 1 if single is None else single)):
        # an input at a limit stays there while its gradient pushes it outwards; a free one goes to the limit it exceeds
        trial = u - gradient / diagonal
        wish = trial < low, trial > high
        if step < block:
            below, above = wish
        else:
            below, above = _exchanged((below, above), wish, trial, (low, high))
        fixed = casadi.logic_or(below, above)
        offset = casadi.if_else(below, low, casadi.if_else(above, high, x)) - x  # zero where free
        free = 1 - fixed
        K = h * casadi.mtimes(free, free.T) + casadi.diag(fixed)
        right = casadi.if_else(fixed, offset, -casadi.mtimes(h, offset))
        rows = [[K[i, j] for j in range(n)] for i in range(n)]
        u = x + casadi.vertcat(*eliminated(rows, [right[i] for i in range(n)]))
        gradient = casadi.mtimes(h, u - x)
        inside = casadi.fmin(casadi.fmax(u, low), high)
        value = _cost(h, inside - x)
        better = value < cost
        best, cost = casadi.if_else(better, inside, best), casadi.if_else(better, value, cost)
    # a target within the limits is the solution: where all lanes have one, native code skips the rest
    inside = casadi.logic_and(x >= low, x <= high)
    best = casadi.if_else(casadi.logic_all(inside) if n > 1 else inside, x, best)
    return from_sx(best, (n,))


def _exchanged(now: tuple[Any, Any], wish: tuple[Any, Any], trial: Any, limits: tuple[Any, Any]) -> tuple[Any, Any]:
    """The sets with one input changed: the one whose trial is farthest beyond the limit that it reaches or leaves."""
    import casadi

    low, high = limits
    contradicts = casadi.logic_or(now[0] != wish[0], now[1] != wish[1])
    excess = casadi.if_else(
        casadi.logic_or(*wish),
        casadi.fmax(low - trial, trial - high),
        casadi.if_else(now[0], trial - low, high - trial),
    )
    excess = casadi.if_else(contradicts, excess, -1.0)
    most = casadi.mmax(excess)
    chosen = casadi.logic_and(contradicts, excess >= most)
    return casadi.if_else(chosen, wish[0], now[0]), casadi.if_else(chosen, wish[1], now[1])


def _cost(h: Any, d: Any) -> Any:
    import casadi

    return casadi.dot(d, casadi.mtimes(h, d))


def eliminated(K: Sequence[Sequence[Any]], right: Sequence[Any]) -> list[Any]:
    """K^-1 right by L D L^T for a positive definite K, entry by entry: numbers or symbols."""
    n, L, y, d = len(right), [list(row) for row in K], list(right), []
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
    return y
