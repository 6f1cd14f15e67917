"""Cheap transforms between two frames: turns about and slides along coordinate axes, and general poses.

Quantities of a body are written with 3x3 blocks and vectors of scalars (NumPy arrays of objects: numbers and symbols may be mixed):

    inertia [[A, B], [B^T, D]] on (linear, angular) accelerations, wrench (f, n), acceleration (a, alpha) of the origin.

A stage takes inertias and wrenches from the child frame to the parent frame and velocities and accelerations the other way. Transport in
stages needs about half the operations of R A R^T (successive axial screws, McMillan and Orin 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Vector = np.ndarray
"""Three scalars, numbers or symbols."""
Pair = tuple[np.ndarray, np.ndarray]
"""(linear, angular): an acceleration, or a wrench (force, moment)."""
Blocks = tuple[np.ndarray, np.ndarray, np.ndarray]
"""A, B, D of a symmetric 6x6 matrix."""

PLANE = {0: (1, 2), 1: (2, 0), 2: (0, 1)}
"""For each axis the two others, in the sense of a right-handed turn."""


class FrameStage(Protocol):
    """A step from a child frame to its parent frame."""

    def angular(self, omega: Vector) -> Vector:
        """An angular velocity of the parent in axes of the child."""
        ...

    def acceleration(self, a: Pair) -> Pair:
        """An acceleration of the parent's origin as one of the child's, in its axes; without products of velocities."""
        ...

    def wrench(self, w: Pair) -> Pair:
        """A wrench at the child's origin as one at the parent's, in its axes."""
        ...

    def inertia(self, blocks: Blocks) -> Blocks:
        """An inertia about the child's origin as one about the parent's, in its axes."""
        ...


@dataclass(frozen=True, eq=False)
class Turn:
    """A rotation about a coordinate axis by the angle of cosine ``c`` and sine ``s``."""

    axis: int
    c: Any
    s: Any

    def angular(self, omega: Vector) -> Vector:
        i, j = PLANE[self.axis]
        y = omega.copy()
        y[i], y[j] = self.c * omega[i] + self.s * omega[j], self.c * omega[j] - self.s * omega[i]
        return y

    def _outward(self, x: Vector) -> Vector:
        i, j = PLANE[self.axis]
        y = x.copy()
        y[i], y[j] = self.c * x[i] - self.s * x[j], self.s * x[i] + self.c * x[j]
        return y

    def acceleration(self, a: Pair) -> Pair:
        return self.angular(a[0]), self.angular(a[1])

    def wrench(self, w: Pair) -> Pair:
        return self._outward(w[0]), self._outward(w[1])

    def inertia(self, blocks: Blocks) -> Blocks:
        A, B, D = blocks
        return self._symmetric(A), self._general(B), self._symmetric(D)

    def _symmetric(self, X: np.ndarray) -> np.ndarray:
        """R X R^T: with x = X_ii - X_jj and g = s x + 2 c X_ij the plane turns to X_ii - s g, X_jj + s g, c g - X_ij."""
        (i, j), k = PLANE[self.axis], self.axis
        Y = X.copy()
        if is_zero(self.s):
            pass
        elif is_zero(self.c):
            Y[i, i], Y[j, j] = X[j, j], X[i, i]
            Y[i, j] = Y[j, i] = -X[i, j]
        else:
            g = self.s * (X[i, i] - X[j, j]) + self.c * (X[i, j] + X[i, j])
            t = self.s * g
            Y[i, i], Y[j, j] = X[i, i] - t, X[j, j] + t
            Y[i, j] = Y[j, i] = self.c * g - X[i, j]
        Y[:, k] = Y[k, :] = self._outward(X[:, k])
        return Y

    def _general(self, X: np.ndarray) -> np.ndarray:
        (i, j), k = PLANE[self.axis], self.axis
        Y = X.copy()
        if is_zero(self.s):
            pass
        elif is_zero(self.c):
            Y[i, i], Y[i, j], Y[j, i], Y[j, j] = X[j, j], -X[j, i], -X[i, j], X[i, i]
        else:
            g = self.s * (X[i, i] - X[j, j]) + self.c * (X[i, j] + X[j, i])
            t, h = self.s * g, self.c * g
            Y[i, i], Y[j, j], Y[i, j], Y[j, i] = X[i, i] - t, X[j, j] + t, h - X[j, i], h - X[i, j]
        Y[:, k] = self._outward(X[:, k])
        Y[k, :] = self._outward(X[k, :])
        return Y


@dataclass(frozen=True, eq=False)
class Slide:
    """A translation along a coordinate axis: the child's origin is at ``distance`` on that axis of the parent."""

    axis: int
    distance: Any

    def angular(self, omega: Vector) -> Vector:
        return omega

    def acceleration(self, a: Pair) -> Pair:
        """a + alpha x r."""
        i, j = PLANE[self.axis]
        linear = a[0].copy()
        linear[i] = linear[i] + self.distance * a[1][j]
        linear[j] = linear[j] - self.distance * a[1][i]
        return linear, a[1]

    def wrench(self, w: Pair) -> Pair:
        """n + r x f."""
        i, j = PLANE[self.axis]
        moment = w[1].copy()
        moment[i] = moment[i] - self.distance * w[0][j]
        moment[j] = moment[j] + self.distance * w[0][i]
        return w[0], moment

    def inertia(self, blocks: Blocks) -> Blocks:
        """B - A wed(r),  D + wed(r) (B - A wed(r)) - B^T wed(r), for r along one axis."""
        A, B, D = blocks
        (i, j), k, d = PLANE[self.axis], self.axis, self.distance
        U, E = B.copy(), D.copy()
        for row in range(3):
            U[row, i], U[row, j] = B[row, i] - d * A[row, j], B[row, j] + d * A[row, i]
        E[i, i] = D[i, i] - d * (U[j, i] + B[j, i])
        E[j, j] = D[j, j] + d * (U[i, j] + B[i, j])
        E[i, j] = E[j, i] = D[i, j] + d * (B[i, i] - U[j, j])
        E[i, k] = E[k, i] = D[i, k] - d * U[j, k]
        E[j, k] = E[k, j] = D[j, k] + d * U[i, k]
        return A, U, E


@dataclass(frozen=True, eq=False)
class Whole:
    """A pose of any kind: rotation (3, 3), then a translation (3,) in axes of the parent."""

    R: np.ndarray
    r: np.ndarray

    def angular(self, omega: Vector) -> Vector:
        return self.R.T @ omega

    def acceleration(self, a: Pair) -> Pair:
        return self.R.T @ (a[0] + cross(a[1], self.r)), self.R.T @ a[1]

    def wrench(self, w: Pair) -> Pair:
        force = self.R @ w[0]
        return force, self.R @ w[1] + cross(self.r, force)

    def inertia(self, blocks: Blocks) -> Blocks:
        A, B, D = (self.R @ X @ self.R.T for X in blocks)
        turned = mirrored(A), B, mirrored(D)
        for axis in range(3):
            if not is_zero(self.r[axis]):
                turned = Slide(axis, self.r[axis]).inertia(turned)
        return turned


def to_parent(stages: Sequence[FrameStage], blocks: Blocks) -> Blocks:
    """An inertia through all stages, which are listed from the child to the parent."""
    for stage in stages:
        blocks = stage.inertia(blocks)
    return blocks


def wrench_to_parent(stages: Sequence[FrameStage], wrench: Pair) -> Pair:
    """A wrench, or a column of the inertia, through all stages."""
    for stage in stages:
        wrench = stage.wrench(wrench)
    return wrench


def cross(x: Vector, y: Vector) -> Vector:
    """x times y for scalars of any kind."""
    out = np.empty(3, dtype=object)
    for k, (i, j) in PLANE.items():
        out[k] = x[i] * y[j] - x[j] * y[i]
    return out


def mirrored(X: np.ndarray) -> np.ndarray:
    """The upper triangle in both halves, so that they share their expressions."""
    Y = X.copy()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        Y[j, i] = X[i, j]
    return Y


def is_zero(x: Any) -> bool:
    """Whether a scalar is the number zero."""
    return bool(x.is_zero()) if hasattr(x, "is_zero") else x == 0


def dot(x: Pair, y: Pair) -> Any:
    """Power of a wrench: f . a + n . alpha."""
    return x[0] @ y[0] + x[1] @ y[1]


def apply(blocks: Blocks, a: Pair) -> Pair:
    """Inertia times acceleration: A a + B alpha, B^T a + D alpha."""
    A, B, D = blocks
    return A @ a[0] + B @ a[1], B.T @ a[0] + D @ a[1]


def scaled(factor: Any, x: Pair) -> Pair:
    """A pair times a scalar."""
    return times(x[0], factor), times(x[1], factor)


def times(x: Vector, factor: Any) -> Vector:
    """A vector times a scalar."""
    out = np.empty(3, dtype=object)
    out[:] = [entry * factor for entry in x]
    return out


def plus(x: Pair, y: Pair) -> Pair:
    """Sum of two pairs."""
    return x[0] + y[0], x[1] + y[1]


def reduced(blocks: Blocks, u: Pair, v: Pair) -> Blocks:
    """The inertia less u v^T, for v a multiple of u."""
    A, B, D = (X.copy() for X in blocks)
    for i in range(3):
        for j in range(3):
            B[i, j] = B[i, j] - u[0][i] * v[1][j]
            if j >= i:
                A[i, j] = A[j, i] = A[i, j] - u[0][i] * v[0][j]
                D[i, j] = D[j, i] = D[i, j] - u[1][i] * v[1][j]
    return A, B, D
