"""The nearest admissible input in a fixed number of steps: box-constrained least squares for many inputs, in straight-line native code.

``min (u - x)^T H (u - x)`` with ``l <= u <= h`` is solved once every input is free with a zero gradient, or at a limit that its gradient
pushes it against. Block pivoting (Kunisch and Rendl 2003; Judice and Pires 1994) guesses the set of inputs at limits, solves for the free
ones and puts every input that contradicts the guess on its right side, all at once. It takes two to four steps as a rule and could
cycle; then one input is exchanged at a time, the one of largest index, which cannot (Murty 1974). The work of a step is that of one
elimination, n^3 / 6, where looking at all sets would be 3^n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, from_sx, to_sx

BLOCK_STEPS = 8
"""Steps that exchange all inputs that contradict the guess."""
SINGLE_STEPS = 4
"""Steps afterwards that exchange one, and as many per input more."""
SLACK = 1e-12
"""Relative excess of a limit that rounding explains."""


def bounded_steps(H: Array, target: Array, lower: np.ndarray, upper: np.ndarray) -> Array:
    """The u (n,) with lower <= u <= upper nearest to ``target`` (n,) in the metric H (n, n); for symbols.

    Infinite limits do not limit. The best admissible point met on the way is the result, so that limits hold whatever happens.
    """
    import casadi

    x = to_sx(target)
    n = x.shape[0]
    h = casadi.reshape(to_sx(H), n, n)
    limited = [bool(np.isfinite(a) or np.isfinite(b)) for a, b in zip(lower, upper, strict=True)]
    low, high = casadi.DM(np.where(np.isfinite(lower), lower, -1e300)), casadi.DM(np.where(np.isfinite(upper), upper, 1e300))
    diagonal = casadi.diag(h)
    u, best = x, casadi.fmin(casadi.fmax(x, low), high)
    cost = _cost(h, best - x)
    gradient = casadi.SX.zeros(n)
    below, above = casadi.SX.zeros(n), casadi.SX.zeros(n)
    for step in range(BLOCK_STEPS + SINGLE_STEPS + n):
        # an input at a limit stays there while its gradient pushes it outwards; a free one goes to the limit it exceeds
        trial = u - gradient / diagonal
        wanted_below, wanted_above = trial < low, trial > high
        if step < BLOCK_STEPS:
            below, above = wanted_below, wanted_above
        else:
            below, above = _exchanged(below, above, wanted_below, wanted_above, n)
        fixed = casadi.logic_or(below, above)
        offset = casadi.if_else(below, low, casadi.if_else(above, high, x)) - x  # zero where free
        free = 1 - fixed
        K = [[h[i, j] * free[i] * free[j] if i != j else casadi.if_else(fixed[i], 1.0, h[i, i]) for j in range(n)] for i in range(n)]
        right = casadi.if_else(fixed, offset, -casadi.mtimes(h, offset))
        u = x + eliminated(K, [right[i] for i in range(n)])
        gradient = casadi.mtimes(h, u - x)
        inside = casadi.fmin(casadi.fmax(u, low), high)
        value = _cost(h, inside - x)
        better = value < cost
        best, cost = casadi.if_else(better, inside, best), casadi.if_else(better, value, cost)
    return from_sx(best, (n,)) if any(limited) else target
