"""Parameters at given times, where the time is the last of them."""

from __future__ import annotations

from typing import Any

import numpy as np


def with_time(p: np.ndarray, t: Any) -> np.ndarray:
    """Parameters (..., np) with the last one set to the times ``t`` (...); both broadcast.

    >>> with_time(np.array([3.0, 0.0]), [0.5, 1.0])
    array([[3. , 0.5],
           [3. , 1. ]])
    """
    times = np.asarray(t, dtype=float)
    result = np.broadcast_to(p, (*np.broadcast_shapes(p.shape[:-1], times.shape), p.shape[-1])).copy()
    result[..., -1] = times
    return result
