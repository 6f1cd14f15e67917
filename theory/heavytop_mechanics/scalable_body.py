"""The scalable body and the rigid body as its constrained case (doc 001, sections 5 to 8).

Coordinates and velocities are those of :class:`~heavytop_mechanics.ScalablePose`: ``q = (r, A)`` with a quaternion of any length,
``u = (v, nu, omega) = Q q'``. The mass matrix is constant and regular; ``|A|^2 = 1`` is an ordinary mechanical constraint whose
multiplier is the force that keeps the size of the body. Numbers with batch axes or symbols.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, block, concatenate, entry, part, scale, transpose, vector
from heavytop.errors import ModelError
from heavytop.geometry import quaternion, so3
from heavytop_mechanics.functions import solve
from heavytop_mechanics.rigid_body import body_inertia
from heavytop_mechanics.scalable_pose import ScalablePose


def mass_matrix(mass: float, theta: Array, scaling_mass: float | None = None) -> np.ndarray:
    """``diag(m I, tr(Theta) / 2, Theta)`` (7, 7) about the centre of mass (eqs 62 to 64). Numbers only.

    ``scaling_mass`` replaces ``tr(Theta) / 2``; under the constraint the rigid motion does not depend on it (after eq. 96).

    Examples
    --------
    >>> mass_matrix(2.0, np.diag([1.0, 2.0, 3.0])).diagonal()
    array([2., 2., 2., 3., 1., 2., 3.])
    """
    theta = body_inertia(mass, theta)
    scaling = 0.5 * np.trace(theta) if scaling_mass is None else float(scaling_mass)
    if not (np.isfinite(scaling) and scaling > 0):
        raise ModelError(f"the mass of the scaling motion must be positive, got {scaling:g}.")
    total = np.zeros((7, 7))
    total[:3, :3] = mass * np.eye(3)
    total[3, 3] = scaling
    total[4:, 4:] = theta
    return total


def rate_matrix(q: Array) -> Array:
    """``Q(q)`` (..., 7, 7) of ``u = Q q'`` (eq. 38, erratum 1.3)."""
    return ScalablePose().left_inverse(as_array(q))


def rate_matrix_rate(qd: Array) -> Array:
    """``Q'`` (..., 7, 7): the time derivative of ``Q``, linear in ``q'``."""
    lower = 2 * quaternion.left_matrix(quaternion.conjugate(part(as_array(qd), 3, 7)))
    return block([[np.zeros((3, 3)), np.zeros((3, 4))], [np.zeros((4, 3)), lower]])


# --- kinetic energy (eqs 58 to 68) ----------------------------------------------------------------------------------------------


def kinetic_energy(mass: Array, q: Array, qd: Array) -> Array:
    """``T = q'^T Q^T M Q q' / 2`` (...) (eq. 60)."""
    u = np.matvec(rate_matrix(q), as_array(qd))
    return 0.5 * np.vecdot(u, np.matvec(mass, u))


def kinetic_energy_in_q(mass: Array, q: Array, qd: Array) -> Array:
    """The same energy as a quadratic form in ``q``: ``m |r'|^2 / 2 + q^T Q'^T M Q' q / 2`` (eq. 66)."""
    swapped = np.matvec(rate_matrix_rate(qd), as_array(q))
    v = part(as_array(qd), 0, 3)
    return 0.5 * entry(mass, 0, 0) * np.vecdot(v, v) + 0.5 * np.vecdot(swapped, np.matvec(mass, swapped))


def energy_gradients(mass: Array, q: Array, qd: Array) -> tuple[Array, Array]:
    """``dT/dq' = Q^T M Q q'`` and ``dT/dq = Q'^T M Q' q`` (..., 7) (eq. 68)."""
    forward, backward = rate_matrix(q), rate_matrix_rate(qd)
    by_rate = np.matvec(transpose(forward), np.matvec(mass, np.matvec(forward, as_array(qd))))
    return by_rate, np.matvec(transpose(backward), np.matvec(mass, np.matvec(backward, as_array(q))))


# --- forces (eqs 71 to 81) ------------------------------------------------------------------------------------------------------


class Loads(NamedTuple):
    """Resultant force F (..., 3) in world coordinates, scaling force S (...) and moment M (..., 3) about C (eq. 75, erratum 1.6)."""

    force: Array
    scaling: Array
    moment: Array

    @property
    def vector(self) -> Array:
        """``(F, S, M)`` (..., 7), conjugate to ``u``."""
        return concatenate(as_array(self.force), vector(self.scaling), as_array(self.moment))


NO_LOADS = Loads(np.zeros(3), 0.0, np.zeros(3))


def loads(rotation: Array, points: Array, forces: Array) -> Loads:
    """The loads of forces (..., n, 3) in world coordinates on body points (n, 3) (eq. 75). Numbers only."""
    rho, f = np.asarray(points, dtype=float), np.asarray(forces, dtype=float)
    turned = f @ np.asarray(rotation, dtype=float)  # rows R^T F
    return Loads(
        f.sum(axis=-2), np.sum(rho * turned, axis=(-2, -1)), np.sum(np.cross(rho + 0 * turned, turned), axis=-2)
    )


def coordinate_force(q: Array, loads: Loads) -> Array:
    """``f_q = Q^T (F, S, M)`` (..., 7), conjugate to ``q'`` (eq. 76)."""
    return np.matvec(transpose(rate_matrix(q)), loads.vector)


def constraint(q: Array) -> Array:
    """``g = |A|^2 - 1`` (...) (eq. 77)."""
    a = part(as_array(q), 3, 7)
    return np.vecdot(a, a) - 1


def constraint_gradient(q: Array) -> Array:
    """``dg/dq = (0, 2 A)`` (..., 7); the constraint force is this times lambda (eq. 81)."""
    q = as_array(q)
    return concatenate(0 * part(q, 0, 3), 2 * part(q, 3, 7))


# --- equations of motion --------------------------------------------------------------------------------------------------------


def _coordinate_system(mass: Array, q: Array, qd: Array, loads: Loads) -> tuple[Array, Array]:
    """Mass matrix and right-hand side of eq. 70."""
    q, qd = as_array(q), as_array(qd)
    forward, backward = rate_matrix(q), rate_matrix_rate(qd)
    u, swapped = np.matvec(forward, qd), np.matvec(backward, q)
    # the linear velocity is not a quadratic form in q: its rows of Q' vanish
    change = np.matvec(transpose(forward), np.matvec(mass, np.matvec(backward, qd)))
    change = change + np.matvec(transpose(backward), np.matvec(mass, u - swapped))
    return transpose(forward) @ mass @ forward, coordinate_force(q, loads) - change


def coordinate_acceleration(mass: Array, q: Array, qd: Array, loads: Loads = NO_LOADS) -> Array:
    """``q''`` (..., 7) of the free scalable body (eq. 70)."""
    return solve(*_coordinate_system(mass, q, qd, loads))


class Constrained(NamedTuple):
    """Acceleration (..., 7) and the scaling constraint force lambda (...)."""

    acceleration: Array
    multiplier: Array


def rigid_coordinate_acceleration(mass: Array, q: Array, qd: Array, loads: Loads = NO_LOADS) -> Constrained:
    """``q''`` and lambda of the rigid body from the saddle-point problem of the DAE (82): ``|A|^2 = 1`` differentiated twice."""
    q, qd = as_array(q), as_array(qd)
    matrix, right = _coordinate_system(mass, q, qd, loads)
    g = constraint_gradient(q)
    rate = part(qd, 3, 7)
    corner = block([[matrix, -_column(g)], [transpose(_column(g)), np.zeros((1, 1))]])
    solution = solve(corner, concatenate(right, vector(-2 * np.vecdot(rate, rate))), "the saddle-point matrix")
    return Constrained(part(solution, 0, 7), entry(solution, 7))


def _column(x: Array) -> Array:
    return np.reshape(x, (x.shape[0], 1)) if len(x.shape) == 1 else x[..., None]


def _bias(mass: Array, s: Array, u: Array) -> Array:
    """``Q^-T Q'^T M (u - Q' q) = (0, -omega . Theta omega, (nu I + wed(omega)) Theta omega) / s`` (eq. 91)."""
    nu, omega = entry(u, 3), part(u, 4, 7)
    angular = np.matvec(_theta(mass), omega)
    spin = scale(nu, angular, 1) + np.cross(omega, angular)
    return concatenate(0 * part(u, 0, 3), scale(1 / s, concatenate(vector(-np.vecdot(omega, angular)), spin), 1))


def _theta(mass: Array) -> Array:
    return mass[4:, 4:]


def acceleration(mass: Array, q: Array, u: Array, loads: Loads = NO_LOADS) -> Array:
    """``u'`` (..., 7) of the free scalable body (eq. 93 with lambda = 0)."""
    a = part(as_array(q), 3, 7)
    right = loads.vector - _bias(np.asarray(mass, dtype=float), np.vecdot(a, a), as_array(u))
    return np.matvec(np.linalg.inv(mass), right)


def rigid_acceleration(mass: Array, q: Array, u: Array, loads: Loads = NO_LOADS) -> Constrained:
    """``u'`` and lambda of the rigid body (eqs 93 to 96): ``nu' = 0``, the Newton-Euler equations and the scaling row."""
    mass = np.asarray(mass, dtype=float)
    a = part(as_array(q), 3, 7)
    right = loads.vector - _bias(mass, np.vecdot(a, a), as_array(u))
    free = np.matvec(np.linalg.inv(mass), right)
    rigid = concatenate(part(free, 0, 3), 0 * part(free, 3, 4), part(free, 4, 7))
    return Constrained(rigid, -entry(right, 3))


def scaling_force(theta: Array, omega: Array, scaling_load: Array = 0.0) -> Array:
    """``lambda = -omega . Theta omega - S_C`` (...) (eq. 96): it holds a spinning body together.

    Examples
    --------
    >>> float(scaling_force(np.eye(3), np.array([0.0, 0.0, 2.0])))
    -4.0
    """
    return -np.vecdot(omega, np.matvec(theta, omega)) - scaling_load


def virtual_work_residual(masses: Array, points: Array, q: Array, u: Array, u_rate: Array, forces: Array) -> np.ndarray:
    """``sum (d xi / du)^T (m xi'' - F)`` (7,) of a cloud of particles (eqs 50 to 53): zero on motions. Numbers only.

    Parameters
    ----------
    masses, points : (n,), (n, 3) about the centre of mass. forces : (n, 3) in world coordinates.
    """
    body = ScalablePose()
    m, rho = np.asarray(masses, dtype=float), np.asarray(points, dtype=float)
    u, u_rate = np.asarray(u, dtype=float), np.asarray(u_rate, dtype=float)
    s, rotation = body.scale_and_rotation(np.asarray(q, dtype=float))
    spin = u[4:] / s  # R^T R' = wed(omega) / s (eq. 44)
    total = np.zeros(7)
    for mass_p, point, force in zip(m, rho, np.asarray(forces, dtype=float), strict=True):
        jacobian = body.point_jacobian(np.asarray(q, dtype=float), point)
        moving = u[3] * point + np.cross(u[4:], point)
        drift = rotation @ np.cross(spin, moving)
        total += jacobian.T @ (mass_p * (jacobian @ u_rate + drift) - force)
    return total


def angular_momentum(theta: Array, q: Array, u: Array) -> Array:
    """``s R Theta omega`` (..., 3) about the centre of mass in world coordinates: conserved without loads."""
    a = part(as_array(q), 3, 7)
    return np.matvec(quaternion.scaled_rotation(a), np.matvec(theta, part(as_array(u), 4, 7)))


def free_scale(theta: Array, scale0: float, rate0: float, omega0: Array, t: Array) -> np.ndarray:
    """``s(t)`` (...) without loads: ``s^2 = s0^2 + 2 s0 nu0 t + (4 T_rs / tr Theta) t^2`` (erratum 1.7)."""
    theta, omega0 = np.asarray(theta, dtype=float), np.asarray(omega0, dtype=float)
    half = 0.5 * np.trace(theta)
    twice = half * rate0**2 + omega0 @ theta @ omega0
    t = np.asarray(t, dtype=float)
    return np.sqrt(scale0**2 + 2 * scale0 * rate0 * t + twice / half * t**2)


def wedge_inertia(masses: Array, points: Array) -> np.ndarray:
    """``Theta = sum -m wed(rho)^2`` (3, 3) (eq. 62). Numbers only."""
    wedges = so3.wed(np.asarray(points, dtype=float))
    return -np.sum(np.asarray(masses, dtype=float)[:, None, None] * (wedges @ wedges), axis=0)
