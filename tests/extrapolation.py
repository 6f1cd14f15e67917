"""Central differences with extrapolation: an independent derivative of anything that can be called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def slope(function: Callable[[float], np.ndarray], size: float = 1e-3, rounds: int = 4) -> np.ndarray:
    """The derivative of ``function(e)`` at zero by Richardson's extrapolation of central differences."""
    sizes = [size / 2**k for k in range(rounds)]
    table = [(function(e) - function(-e)) / (2 * e) for e in sizes]
    for k in range(1, rounds):
        table = [(4**k * table[i + 1] - table[i]) / (4**k - 1) for i in range(len(table) - 1)]
    return table[0]
