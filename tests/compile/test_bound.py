"""Kernels bound to arrays return the same as the kernels."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.compile import Bound, Kernel, trace
from heavytop.errors import ShapeError


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(trace(lambda x, p: (np.sin(x) * p[0], x[0] * p), {"x": (3,), "p": (2,)}, name="bound"))


@pytest.mark.parametrize("count", [1, 7, 33])
def test_rows_that_lie_apart(kernel: Kernel, count: int) -> None:
    rng = np.random.default_rng(1)
    x, p, results = rng.standard_normal((count, 4, 3)), rng.standard_normal(2), np.full((count, 5), np.nan)
    call = Bound(kernel, (x[:, 2], p), (results[:, :3], results[:, 3:]))
    for _ in range(2):  # the content of the arrays at the call counts
        x[...] = rng.standard_normal(x.shape)
        p[...] = rng.standard_normal(2)
        call()
        s, t = kernel(x[:, 2], p)
        np.testing.assert_array_equal(results, np.concatenate([s, t], axis=1))


def test_what_cannot_be_tied(kernel: Kernel) -> None:
    x, p, s, t = np.zeros((4, 3)), np.zeros(2), np.zeros((4, 3)), np.zeros((4, 2))
    with pytest.raises(ShapeError, match="2 inputs and 2 outputs, got 1 and 2"):
        Bound(kernel, (x,), (s, t))
    with pytest.raises(ShapeError, match="x of bound"):
        Bound(kernel, (x[:3], p), (s, t))
    with pytest.raises(ShapeError, match="contiguous rows"):
        Bound(kernel, (np.zeros((3, 4)).T, p), (s, t))
    with pytest.raises(ShapeError, match="int64"):
        Bound(kernel, (x.astype(int), p), (s, t))
