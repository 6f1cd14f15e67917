"""Heights given on a grid, as a smooth function: the tensor product of cubic B-splines through the grid points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, constant
from heavytop._format import Brief
from heavytop.errors import ModelError

MOST = 2500
"""Most grid points: all of them enter every evaluation."""
FEWEST = 4


@dataclass(frozen=True, eq=False, repr=False)
class HeightGrid(Brief):
    """Heights z (nx, ny) in m at evenly spaced points, for ``system.ground(height=...)``.

    Attributes
    ----------
    z : heights; z[i, j] at the i-th place along x and the j-th along y. At least 4 x 4, at most 2500 of them.
    x, y : first and last place in m.

    The surface passes through the grid points with continuous curvature. Beyond the grid, its edge continues horizontally.

    Examples
    --------
    >>> import heavytop as ht
    >>> x, y = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-2, 2, 11), indexing="ij")
    >>> hills = ht.HeightGrid(0.1 * np.sin(x) * np.cos(y), x=(-1, 1), y=(-2, 2))
    >>> bool(abs(hills(0.5, -1.2) - 0.1 * np.sin(0.5) * np.cos(1.2)) < 1e-14)
    True
    >>> system = ht.System()
    >>> system.ground(height=hills, friction=0.8)
    """

    z: Any
    x: tuple[float, float]
    y: tuple[float, float]

    def __post_init__(self) -> None:
        z = constant(self.z, "z of HeightGrid")
        if z.ndim != 2 or min(z.shape) < FEWEST or z.size > MOST or not np.all(np.isfinite(z)):
            raise ModelError(
                f"HeightGrid: z must be finite heights (nx, ny), at least {FEWEST} along each axis and at most {MOST} in all, got shape "
                f"{z.shape}. Thin it out, for example z[::2, ::2]."
            )
        object.__setattr__(self, "z", z)
        for name in ("x", "y"):
            ends = tuple(np.atleast_1d(constant(getattr(self, name), f"{name} of HeightGrid")).tolist())
            if len(ends) != 2 or not np.all(np.isfinite(ends)) or not ends[0] < ends[1]:
                raise ModelError(f"HeightGrid: {name} must be the first and last position in m, ascending, got {ends}.")
            object.__setattr__(self, name, ends)

    @cached_property
    def coefficients(self) -> Floats:
        """Weights (nx + 2, ny + 2) of the B-splines, with a curvature of zero along the edges."""
        along_x = _through(self.z.shape[0])
        along_y = _through(self.z.shape[1])
        return along_x @ self.z @ along_y.T

    def __call__(self, x: Array, y: Array) -> Array:
        """Height in m at (x, y)."""
        rows = _splines(x, self.x, self.z.shape[0])
        columns = _splines(y, self.y, self.z.shape[1])
        total = 0.0
        for weights, row in zip(self.coefficients, rows, strict=True):
            total = total + row * sum(float(weight) * column for weight, column in zip(weights, columns, strict=True))
        return total


def _through(n: int) -> Floats:
    """Matrix (n + 2, n) from values at n points to the weights of n + 2 cubic B-splines through them, with natural ends."""
    A = np.zeros((n + 2, n + 2))
    for i in range(n):
        A[i, i : i + 3] = (1 / 6, 4 / 6, 1 / 6)
    A[n, :3] = A[n + 1, -3:] = (1.0, -2.0, 1.0)
    return np.asarray(np.linalg.solve(A, np.eye(n + 2, n)), dtype=float)


def _splines(x: Array, ends: tuple[float, float], n: int) -> list[Array]:
    """Values of the n + 2 cubic B-splines at x, held at the ends."""
    low, high = ends
    place = (np.minimum(np.maximum(x, low), high) - low) * ((n - 1) / (high - low))
    found = []
    for k in range(-1, n + 1):
        away = np.abs(place - k)
        outer, inner = np.maximum(2.0 - away, 0.0), np.maximum(1.0 - away, 0.0)
        found.append((outer * outer * outer - 4.0 * inner * inner * inner) / 6.0)
    return found
