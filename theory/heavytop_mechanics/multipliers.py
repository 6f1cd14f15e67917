"""Constraint release: constraints become forces with multipliers (thesis, eq. 3.9; doc 004, eqs 17 to 26).

    f^M + f^V + f^D - f^E = Phi^T lambda,       Phi a = d

``Phi`` (m, nv) are the constraints at the level of accelerations: of ``c(q, t) = 0`` (holonomic) or of ``psi(q, v, t) = 0`` (velocity
constraints, holonomic or not). Constraints may be dependent; the multipliers are then the smallest ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, is_symbolic, jacobian, transpose
from heavytop.coordinates import Coordinates
from heavytop.errors import ConfigurationError, ModelError
from heavytop.geometry import linalg
from heavytop_mechanics import euler_lagrange
from heavytop_mechanics.functions import Evaluator, Function, along, shapes, time_derivative, timed

RANK_TOLERANCE = 1e-11
"""Singular values below this share of the largest count as zero: dependent constraints."""


class Release(NamedTuple):
    """Acceleration (..., nv), multipliers (..., m) and the constraint force ``Phi^T lambda`` (..., nv)."""

    acceleration: np.ndarray
    multipliers: np.ndarray
    force: np.ndarray


def constrained(mass: Array, force: Array, matrix: Array, right: Array) -> Release:
    """Solve ``M a - Phi^T lambda = f``, ``Phi a = d``; dependent rows of ``Phi`` are allowed. Numbers only.

    Examples
    --------
    >>> constrained(np.eye(2), [0.0, -9.81], [[0.0, 1.0]], [0.0]).multipliers
    array([9.81])
    """
    mass, phi = np.asarray(mass, dtype=float), np.asarray(matrix, dtype=float)
    lower = np.linalg.cholesky(mass)
    free = np.linalg.solve(lower, np.asarray(force, dtype=float)[..., None])[..., 0]
    scaled = transpose(np.linalg.solve(lower, transpose(phi)))  # Phi L^-T
    x = _least(scaled, np.asarray(right, dtype=float) - np.matvec(scaled, free))
    multipliers = np.matvec(linalg.pseudo_inverse(transpose(scaled), RANK_TOLERANCE), x)
    a = np.linalg.solve(transpose(lower), (free + x)[..., None])[..., 0]
    return Release(a, multipliers, np.matvec(transpose(phi), multipliers))


def _least(matrix: np.ndarray, lack: np.ndarray) -> np.ndarray:
    """The smallest solution (..., n) of ``matrix x = lack``, whose rows may be dependent but must not contradict each other."""
    x = np.matvec(linalg.pseudo_inverse(matrix, RANK_TOLERANCE), lack)
    gap = np.max(np.abs(np.matvec(matrix, x) - lack), initial=0.0)
    if gap > 1e-6 * max(1.0, float(np.max(np.abs(lack), initial=0.0))):
        raise ConfigurationError(
            f"no acceleration satisfies the constraints: they contradict each other there by {gap:.3g}. Check the velocities "
            "(the rates of the constraints must vanish) and the configuration."
        )
    return x


def udwadia_kalaba(mass: Array, free: Array, matrix: Array, right: Array) -> np.ndarray:
    """``a = a_free + M^-1/2 (A M^-1/2)^+ (b - A a_free)`` (..., n), any rank of ``A`` (doc 004, eq. 22; feature M12). Numbers only.

    Raises
    ------
    ConfigurationError
        The constraints contradict each other: no acceleration satisfies ``A a = b``.

    Examples
    --------
    >>> udwadia_kalaba(np.eye(2), [0.0, -9.81], [[0.0, 1.0], [0.0, 2.0]], [0.0, 0.0])
    array([0., 0.])
    """
    a_free, a_matrix = np.asarray(free, dtype=float), np.asarray(matrix, dtype=float)
    inverse_root = inverse_square_root(mass)
    lack = np.asarray(right, dtype=float) - np.matvec(a_matrix, a_free)
    return a_free + np.matvec(inverse_root, _least(a_matrix @ inverse_root, lack))


def square_root(mass: Array) -> np.ndarray:
    """The symmetric square root (..., n, n) of a positive definite matrix: ``M = M^1/2 M^1/2`` (doc 004, eq. 44). Numbers only.

    >>> square_root(np.diag([4.0, 9.0]))
    array([[2., 0.],
           [0., 3.]])
    """
    values, vectors = _eigen(mass)
    return (vectors * np.sqrt(values)[..., None, :]) @ transpose(vectors)


def inverse_square_root(mass: Array) -> np.ndarray:
    """The inverse of :func:`square_root`."""
    values, vectors = _eigen(mass)
    return (vectors / np.sqrt(values)[..., None, :]) @ transpose(vectors)


def _eigen(mass: Array) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eigh(np.asarray(mass, dtype=float))
    if np.min(values, initial=np.inf) <= 0:
        raise ModelError(f"a mass matrix must be positive definite, its smallest eigenvalue is {np.min(values):.3g}.")
    return values, vectors


class Constraints:
    """Constraints of coordinates at the level of accelerations: ``Phi(q, v, t) a = d(q, v, t)``.

    Parameters
    ----------
    position : ``c(q)`` or ``c(q, t)`` (m,), differentiated twice. velocity : ``psi(q, v)`` or ``psi(q, v, t)`` (k,), linear or not
        in v, differentiated once.
    """

    def __init__(
        self, coordinates: Coordinates, position: Function | None = None, velocity: Function | None = None
    ) -> None:
        if position is None and velocity is None:
            raise ModelError("give constraints of positions, of velocities, or both.")
        c = None if position is None else timed(position, 1, "a constraint")
        psi = None if velocity is None else timed(velocity, 2, "a velocity constraint")

        def rates(q: Array, v: Array, t: Array) -> Array:
            parts = []
            if c is not None:
                value = _vector(c(q, t))
                parts.append(along(value, q, coordinates.rate(q, v)) + time_derivative(value, t))
            if psi is not None:
                parts.append(_vector(psi(q, v, t)))
            return concatenate(*parts)

        def accelerations(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
            rate = rates(q, v, t)
            drift = along(rate, q, coordinates.rate(q, v)) + time_derivative(rate, t)
            return jacobian(rate, v), -drift

        self.rate = Evaluator(rates, shapes(coordinates, "q v t"), "constraint_rate")
        """The rates (m + k,) at (q, v, t); zero when the velocities are consistent."""
        self.equations = Evaluator(accelerations, shapes(coordinates, "q v t"), "constraint_acceleration")
        """``(Phi, d)`` at (q, v, t)."""


def _vector(value: Array) -> Array:
    value = np.stack(value) if isinstance(value, (list, tuple)) else as_array(value)
    return np.reshape(value, (1,)) if len(value.shape) == 0 else value


class ReleasedMotion:
    """Motion of coordinates with a Lagrangian and extra constraints; :class:`Release` at (q, v, t)."""

    def __init__(
        self,
        coordinates: Coordinates,
        lagrangian: Function,
        constraints: Constraints,
        force: Function | None = None,
        dissipation: Function | None = None,
    ) -> None:
        self.free = euler_lagrange.acceleration(coordinates, lagrangian, force, dissipation)
        self.constraints = constraints

    def __call__(self, q: Array, v: Array, t: Array = 0.0) -> Release:
        """Acceleration, multipliers and constraint force. Numbers only."""
        if is_symbolic(q, v, t):
            raise ModelError("constraint release takes numbers only: it needs a rank-revealing decomposition.")
        mass, force = self.free.system(q, v, t)
        phi, right = self.constraints.equations(q, v, t)
        return constrained(mass, force, phi, right)

    def acceleration(self, q: Array, v: Array, t: Array = 0.0) -> np.ndarray:
        """The acceleration (..., nv)."""
        return self(q, v, t).acceleration


def release(
    coordinates: Coordinates,
    lagrangian: Function,
    position: Function | None = None,
    velocity: Function | None = None,
    force: Function | None = None,
    dissipation: Function | None = None,
) -> ReleasedMotion:
    """Release constraints (eq. 3.9): the motion of ``coordinates`` under ``c(q, t) = 0`` and ``psi(q, v, t) = 0``.

    Examples
    --------
    A pendulum in Cartesian coordinates; the multiplier is half the tension per length:

    >>> from heavytop.coordinates import Vector
    >>> pendulum = release(Vector(2), lambda q, v: 0.5 * np.vecdot(v, v) - 9.81 * q[1], lambda q: np.vecdot(q, q) - 1)
    >>> pendulum([0.0, -1.0], [2.0, 0.0]).force
    array([ 0.  , 13.81])
    """
    return ReleasedMotion(coordinates, lagrangian, Constraints(coordinates, position, velocity), force, dissipation)
