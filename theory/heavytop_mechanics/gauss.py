"""Gauss' principle of least constraint (thesis, eqs 3.11, 3.24, 3.25) as a quadratic program and as a projection.

Among all accelerations that the constraints allow, the true one is nearest to the free one in the norm of the masses:

    minimise G = 1/2 |a - a_free|_M^2     subject to     C a = d.

The same least squares in generalised accelerations needs no constraints (eq. 3.24), and with inputs instead of constraints it
selects the realizable acceleration closest to a desired one (section 1.3). Numbers only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, finite_matrix, transpose
from heavytop.errors import ConfigurationError, ModelError
from heavytop.geometry import linalg
from heavytop_mechanics.particles import ParticleSystem


def gaussian_constraint(mass: Array, a: Array, free: Array) -> np.ndarray:
    """``G = 1/2 (a - a_free)^T M (a - a_free)`` (...) (eq. 3.11)."""
    difference = np.asarray(a, dtype=float) - np.asarray(free, dtype=float)
    return 0.5 * np.vecdot(difference, np.matvec(mass, difference))


def quadratic_program(
    mass: Array, free: Array, matrix: Array, right: Array, lower: Array | None = None, upper: Array | None = None
) -> np.ndarray:
    """The minimiser (n,) of ``1/2 |a - a_free|_M^2`` with ``matrix a = right`` by an active-set solver (eq. 3.11).

    Parameters
    ----------
    mass : (n, n) positive definite. free : (n,). matrix, right : (m, n) and (m,); dependent rows are allowed.
    lower, upper : instead of ``right``, bounds (m,) of ``matrix a`` for one-sided constraints.

    Examples
    --------
    >>> quadratic_program(np.eye(2), [1.0, 1.0], [[1.0, 1.0]], [0.0]).round(12) + 0.0
    array([0., 0.])
    """
    import casadi

    mass, free = np.asarray(mass, dtype=float), np.asarray(free, dtype=float)
    matrix = np.atleast_2d(np.asarray(matrix, dtype=float))
    low = np.asarray(right if lower is None else lower, dtype=float)
    high = np.asarray(right if upper is None else upper, dtype=float)
    if lower is None and upper is None:
        matrix, low = _independent(matrix, low)
        high = low
    # scaled to |x|^2 with x = M^(1/2) (a - a_free): well conditioned for any units
    root = np.linalg.cholesky(mass).T
    scaled = np.linalg.solve(root.T, matrix.T).T
    offset = matrix @ free
    size = np.maximum(np.linalg.norm(scaled, axis=1), np.finfo(float).tiny)
    n, m = len(free), len(matrix)
    options = {"print_iter": False, "print_header": False, "print_info": False, "error_on_fail": False}
    sparsity = {"h": casadi.Sparsity.dense(n, n), "a": casadi.Sparsity.dense(m, n)}
    solver = casadi.conic("gauss", "qrqp", sparsity, options)
    solution = solver(
        h=np.eye(n), g=np.zeros(n), a=scaled / size[:, None], lba=(low - offset) / size, uba=(high - offset) / size
    )
    if not solver.stats()["success"]:
        raise ConfigurationError("no acceleration satisfies the constraints: they contradict each other there.")
    return free + np.linalg.solve(root, np.asarray(solution["x"]).reshape(-1))


def _independent(matrix: np.ndarray, right: np.ndarray, tolerance: float = 1e-10) -> tuple[np.ndarray, np.ndarray]:
    """Equivalent equations with independent, orthonormal rows."""
    u, sigma, vt = np.linalg.svd(finite_matrix(matrix, "the matrix of the constraints"), full_matrices=False)
    kept = sigma > tolerance * max(float(np.max(sigma, initial=0.0)), np.finfo(float).tiny)
    rotated = u.T @ right
    if np.max(np.abs(rotated[~kept]), initial=0.0) > 1e-6 * max(1.0, float(np.max(np.abs(right), initial=0.0))):
        raise ConfigurationError("no acceleration satisfies the constraints: they contradict each other there.")
    return vt[kept], rotated[kept] / sigma[kept]


def projection(jacobian: Array, weights: Array, drift: Array, free: Array) -> np.ndarray:
    """The least-squares solution (..., nv) of ``J a + drift = free`` in the norm of the weights (eqs 3.24, 3.25).

    Parameters
    ----------
    jacobian : ``J`` (..., k, nv). weights : masses (k,) of the rows. drift : accelerations (..., k) at a = 0.
    free : accelerations (..., k) without constraints.
    """
    root = np.sqrt(np.asarray(weights, dtype=float))
    scaled = root[:, None] * np.asarray(jacobian, dtype=float)
    target = root * (np.asarray(free, dtype=float) - np.asarray(drift, dtype=float))
    return np.matvec(linalg.pseudo_inverse(scaled, 1e-13), target)


def particle_acceleration(system: ParticleSystem, q: Array, v: Array, t: float = 0.0) -> np.ndarray:
    """The acceleration (..., nv) of a particle system as the projection of Newton's free accelerations (eq. 3.24)."""
    if np.any(system.masses == 0):
        raise ModelError("Gauss' principle divides by the masses: every particle needs a positive one.")
    zero = np.zeros(system.coordinates.nv)
    weights = np.repeat(system.masses, 3)
    forces = system.applied_forces(q, v, t)
    drift = system.acceleration_of_particles(q, v, zero, t)
    flat = (*forces.shape[:-2], 3 * system.count)
    return projection(system.jacobian(q, t), weights, drift.reshape(flat), forces.reshape(flat) / weights)


class Realizable(NamedTuple):
    """Inputs (..., nu), the acceleration (..., nv) they cause, and its difference from the desired one (..., nv)."""

    inputs: np.ndarray
    acceleration: np.ndarray
    residual: np.ndarray


def closest_realizable(mass: Array, force: Array, inputs: Array, desired: Array) -> Realizable:
    """The inputs whose acceleration is nearest to a desired one in the norm of the masses.

    ``M a = f + B u``; minimise ``1/2 |a - a_desired|_M^2`` over u. The residual is M-orthogonal to the range of ``M^-1 B``, and the
    choice does not depend on the velocity coordinates. With as many independent inputs as velocities the residual is zero.

    Parameters
    ----------
    mass : (..., nv, nv). force : all other forces (..., nv). inputs : ``B`` (..., nv, nu). desired : (..., nv).
    """
    mass, b = np.asarray(mass, dtype=float), np.asarray(inputs, dtype=float)
    lower = np.linalg.cholesky(mass)
    missing = np.matvec(mass, desired) - np.asarray(force, dtype=float)
    whitened = np.linalg.solve(lower, b)
    target = np.linalg.solve(lower, missing[..., None])[..., 0]
    u = np.matvec(linalg.pseudo_inverse(whitened, 1e-12), target)
    back = np.matvec(b, u) + np.asarray(force, dtype=float)
    a = np.linalg.solve(transpose(lower), np.linalg.solve(lower, back[..., None]))[..., 0]
    return Realizable(u, a, np.asarray(desired, dtype=float) - a)
