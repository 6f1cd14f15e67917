"""One free rigid body: energies and forces as 6-vectors and as 4 x 4 matrices (thesis, section 3.3, eqs 3.48 to 3.96).

Inertia, damping and stiffness enter as moments of particle distributions, ``X' = sum_p w_p [h_p; 1][h_p; 1]^T`` (4, 4), with
``X = Vee(X')`` (6, 6) (eqs 3.94, erratum 0.32). Poses ``G`` (..., 4, 4), body twists ``xi`` (..., 6) linear and angular.
Every function takes numbers with batch axes or symbols, unless it says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, block, column, concatenate, entry, part, scale, submatrix, transpose
from heavytop.coordinates import Pose
from heavytop.errors import ModelError, wrong_shape
from heavytop.geometry import polar, se3, so3, trace, wrenches
from heavytop_mechanics.functions import solve, weighted_points

inertia_force = wrenches.inertia_wrench
acceleration_energy_from_moments = wrenches.acceleration_energy
gravity_force = wrenches.gravity_wrench
stiffness_energy = wrenches.stiffness_energy
stiffness_force = wrenches.stiffness_wrench


def moments(weights: Array, points: Array) -> np.ndarray:
    """``X'`` (4, 4) of particles with weights (n,) at body points (n, 3) (eqs 3.94). Numbers only.

    Examples
    --------
    >>> moments([2.0], [[0.0, 0.0, 3.0]])[2:, 2:]
    array([[18.,  6.],
           [ 6.,  2.]])
    """
    w, h = weighted_points(weights, points, "points of a particle distribution")
    homogeneous = np.concatenate([h, np.ones((len(w), 1))], axis=1)
    return homogeneous.T @ (w[:, None] * homogeneous)


def body_inertia(mass: float, inertia: Array) -> np.ndarray:
    """The inertia ``Theta`` (3, 3) of a body about its centre of mass, checked. Numbers only.

    Parameters
    ----------
    mass : kg, positive. inertia : principal moments (3,) or matrix (3, 3), kg m^2.

    Raises
    ------
    ModelError
        No mass distribution has these values.

    Examples
    --------
    >>> body_inertia(1.0, [1.0, 2.0, 3.0]).diagonal()
    array([1., 2., 3.])
    """
    theta = np.asarray(inertia, dtype=float)
    if theta.shape not in ((3,), (3, 3)):
        raise wrong_shape(
            "the inertia of a body", (3, 3), theta.shape, "Give principal moments (3,) or a matrix (3, 3)."
        )
    theta = np.diag(theta) if theta.ndim == 1 else theta
    if not (np.all(np.isfinite(theta)) and np.isfinite(mass) and mass > 0):
        raise ModelError(
            f"a body needs a finite positive mass and a finite inertia, got {mass} kg and {theta.tolist()}."
        )
    principal = np.linalg.eigvalsh(0.5 * (theta + theta.T))
    size = float(np.max(np.abs(theta)))
    if np.max(np.abs(theta - theta.T)) > 1e-9 * size:
        raise ModelError(f"the inertia of a body must be symmetric, got {theta.tolist()}.")
    if principal[0] < -1e-9 * size or principal[2] > principal[0] + principal[1] + 1e-9 * size:
        raise ModelError(
            f"no body has the principal moments of inertia {np.array2string(principal, precision=6)}: none may be negative, and "
            "each is at most the sum of the other two. Check the units and the signs of the products of inertia."
        )
    return theta


# --- kinematics -----------------------------------------------------------------------------------------------------------------


def point_velocity(rotation: Array, xi: Array, point: Array) -> Array:
    """``r_p' = R (v - wed(h) omega)`` (..., 3) in world coordinates (eq. 3.50a)."""
    v, omega = part(xi, 0, 3), part(xi, 3, 6)
    return np.matvec(rotation, v + np.cross(omega, point))


def point_acceleration(rotation: Array, xi: Array, xi_rate: Array, point: Array) -> Array:
    """``r_p''`` (..., 3) in world coordinates (eq. 3.50b)."""
    v, omega = part(xi, 0, 3), part(xi, 3, 6)
    own = part(xi_rate, 0, 3) + np.cross(part(xi_rate, 3, 6), point)
    return np.matvec(rotation, own + np.cross(omega, v + np.cross(omega, point)))


# --- inertia --------------------------------------------------------------------------------------------------------------------


def kinetic_energy(mass: Array, xi: Array) -> Array:
    """``T = xi^T M xi / 2`` (...) with the 6 x 6 inertia (eq. 3.54); also the dissipation ``R`` with the damping (eq. 3.93c)."""
    return 0.5 * np.vecdot(xi, np.matvec(mass, xi))


def kinetic_energy_from_moments(mass: Array, xi: Array) -> Array:
    """``T = tr(G' M' G'^T) / 2`` with 4 x 4 moments (eq. 3.93a, erratum 0.30); the rotation drops out."""
    x = se3.wed(xi)
    return 0.5 * trace(x @ mass @ transpose(x))


def mixed_inertia(mass: Array, rotation: Array) -> Array:
    """The inertia (..., 6, 6) for the velocities ``(r', omega)`` (footnote 2 to eq. 3.54): not constant off the centre of mass."""
    first = slice(0, 3), slice(3, 6)
    corner = rotation @ submatrix(mass, *first)
    total = submatrix(mass, first[0], first[0])
    return block([[total, corner], [transpose(corner), submatrix(mass, first[1], first[1])]])


def inertia_force_from_moments(mass: Array, xi: Array, xi_rate: Array) -> Array:
    """``f^M = vee2((wed(xi') + wed(xi)^2) M')`` (..., 6) (eq. 3.95a)."""
    x = se3.wed(xi)
    return se3.vee2((se3.wed(xi_rate) + x @ x) @ mass)


def acceleration_energy(mass: Array, xi: Array, xi_rate: Array) -> Array:
    """``S`` (...) with the 6 x 6 inertia, its part ``S_0`` without accelerations included (eq. 3.57, erratum 0.28)."""
    v, omega = part(xi, 0, 3), part(xi, 3, 6)
    angular = slice(3, 6)
    theta = submatrix(mass, angular, angular)
    second = so3.Wed(theta)  # sum m h h^T
    total = entry(mass, 0, 0)
    first = so3.vee(submatrix(mass, angular, slice(0, 3)))  # m s
    turn = so3.wed(omega)
    square = turn @ turn
    linear = np.vecdot(xi_rate, np.matvec(mass, xi_rate)) * 0.5
    coupling = -np.vecdot(xi_rate, np.matvec(transpose(se3.ad(xi)), np.matvec(mass, xi)))
    spin = np.cross(omega, v)
    rest = 0.5 * total * np.vecdot(spin, spin)
    rest = rest + np.vecdot(v, np.matvec(square, np.cross(first, omega))) + 0.5 * trace(second @ square @ square)
    return linear + coupling + rest


def connection(mass: Array) -> np.ndarray:
    """``Gamma_ijk`` (6, 6, 6) of a constant inertia (6, 6) in body velocities (eqs 3.60, 3.61). Numbers only."""
    mass = np.asarray(mass, dtype=float)
    gamma = np.asarray(Pose().commutation(np.zeros(12)))  # [s, i, j]
    lowered = np.einsum("sij,sk->ijk", gamma, mass)  # gamma^s_ij M_sk
    return 0.5 * (lowered + np.einsum("ikj->ijk", lowered) - np.einsum("jki->ijk", lowered))


# --- gravity --------------------------------------------------------------------------------------------------------------------


def _gravity_twist(gravity: Array) -> Array:
    return concatenate(as_array(gravity), np.zeros(3))


def gravity_energy(mass: Array, pose: Array, gravity: Array) -> Array:
    """``V^G = -m <r + R s, a_G>`` (...) from 4 x 4 moments (eqs 3.62, 3.93e)."""
    first = column(as_array(mass), 3)  # (m s, m)
    return -np.vecdot(part(np.matvec(pose, first), 0, 3), as_array(gravity))


def gravity_energy_from_moments(mass: Array, pose: Array, gravity: Array) -> Array:
    """``V^G = tr(G M' wed(-alpha_G)^T)`` (...) (eq. 3.93e, erratum 0.40)."""
    return trace(pose @ mass @ transpose(se3.wed(-_gravity_twist(gravity))))


def gravity_force_from_moments(mass: Array, pose: Array, gravity: Array) -> Array:
    """``f^G = vee2(G^T wed(-alpha_G) M')`` (..., 6) (eq. 3.95d)."""
    return se3.vee2(transpose(pose) @ se3.wed(-_gravity_twist(gravity)) @ mass)


# --- stiffness ------------------------------------------------------------------------------------------------------------------


class Springs(NamedTuple):
    """The resultant of any set of springs to the ground: ``k, h, p, P`` and a constant energy (eqs 3.64 to 3.66)."""

    stiffness: float
    center: np.ndarray
    anchor: np.ndarray
    moment: np.ndarray
    constant: float

    def energy(self, pose: Array) -> Array:
        """``V^K`` (...) (eq. 3.65)."""
        k, h, p, _, constant = self
        r, rotation = se3.position(pose), se3.rotation(pose)
        arm = np.matvec(rotation, h)
        linear = 0.5 * np.vecdot(r, r) + np.vecdot(r, arm) - np.vecdot(r, p)
        return k * linear - trace(self.moment @ rotation) + constant

    def gradient(self, pose: Array) -> Array:
        """``grad V^K`` (..., 6) (eq. 3.67)."""
        k, h, p, _, _ = self
        back = transpose(se3.rotation(pose))
        r = np.matvec(back, se3.position(pose))
        linear = k * (r - np.matvec(back, p) + h)
        return concatenate(linear, k * np.cross(h, r) + so3.vee2(self.moment @ se3.rotation(pose)))

    def hessian(self, pose: Array) -> Array:
        """``d_i d_j V^K`` (..., 6, 6) with row i and column j (eq. 3.68, there transposed); symmetric at critical points."""
        k, h, p, _, _ = self
        back = transpose(se3.rotation(pose))
        r = np.matvec(back, se3.position(pose))
        wedge = so3.wed(h)
        turned = self.moment @ se3.rotation(pose)
        by_turning = k * transpose(so3.wed(r - np.matvec(back, p)))  # d_i d_j V, j linear, i angular
        return block([[k * np.eye(3), k * transpose(wedge)], [by_turning, k * so3.wed(r) @ wedge + so3.Vee(turned)]])

    def minimum(self) -> StiffnessForm:
        """The configuration of least energy and the energy about it (eqs 3.69 to 3.73). Numbers only."""
        k, h, p, moment, _ = self
        decomposition = polar.special_polar((moment - k * np.outer(h, p)).T)  # P_s^T = R_R Wed(Pi_s)
        rotation = decomposition.R
        rest = se3.pose(rotation, p - rotation @ h)
        wedge = so3.wed(h)
        full = decomposition.K + k * wedge @ wedge.T
        matrix = np.block([[k * np.eye(3), k * wedge.T], [k * wedge, full]])
        return StiffnessForm(matrix, rest, float(self.energy(rest)), decomposition.K)


class StiffnessForm(NamedTuple):
    """A spring set about its minimum: ``K`` (6, 6), rest pose, least energy and the moment at the centre (eqs 3.72 to 3.75)."""

    matrix: np.ndarray
    rest: np.ndarray
    least_energy: float
    moment_at_center: np.ndarray

    @property
    def moments(self) -> np.ndarray:
        """``K' = Wed(K)`` (4, 4); symmetric, possibly indefinite (erratum 0.31)."""
        return se3.Wed(self.matrix)


def springs(stiffness: Array, points: Array, anchors: Array) -> Springs:
    """Springs with stiffness (n,) from body points (n, 3) to anchors (n, 3) in the world (eq. 3.66). Numbers only."""
    k, h = weighted_points(stiffness, points, "points of springs")
    _, p = weighted_points(stiffness, anchors, "anchors of springs")
    total = float(k.sum())
    if not np.all(np.isfinite(k)) or abs(total) <= 1e-12 * float(np.abs(k).sum()):
        raise ModelError(
            f"springs need a total stiffness that is finite and not zero, got {total:g} N/m from {k.tolist()}: without it they "
            "have no centre. Leave springs of zero stiffness out; give a pure moment of stiffness to ht.Stiffness."
        )
    constant = 0.5 * float(np.sum(k * (np.vecdot(h, h) + np.vecdot(p, p))))
    return Springs(total, k @ h / total, k @ p / total, (k[:, None] * h).T @ p, constant)


def stiffness_force_from_matrix(matrix: Array, pose: Array, rest: Array) -> Array:
    """``f^K`` (..., 6) in terms of total, centre and moment of stiffness (eq. 3.74)."""
    angular = slice(3, 6)
    k = entry(matrix, 0, 0)
    first = so3.vee(submatrix(matrix, angular, slice(0, 3)))  # k h
    second = so3.Wed(submatrix(matrix, angular, angular))
    relative = transpose(se3.rotation(pose)) @ se3.rotation(rest)  # R^T R_R
    shift = np.matvec(transpose(se3.rotation(pose)), se3.position(pose) - se3.position(rest))
    linear = scale(k, shift, 1) + first - np.matvec(relative, first)
    return concatenate(linear, np.cross(first, shift) + so3.vee2(second @ transpose(relative)))


# --- motion ---------------------------------------------------------------------------------------------------------------------


def acceleration(
    mass: Array,
    pose: Array,
    xi: Array,
    gravity: Array = (0.0, 0.0, 0.0),
    damping: Array | None = None,
    stiffness: Array | None = None,
    rest: Array | None = None,
    force: Array | None = None,
) -> Array:
    """``xi'`` (..., 6) of a free body (eq. 3.96b).

    Parameters
    ----------
    mass, damping : 6 x 6 matrices. stiffness : 4 x 4 moments ``K'`` with the rest pose ``rest``.
    force : wrench (..., 6) on the body in body coordinates.

    Examples
    --------
    >>> acceleration(np.eye(6), np.eye(4), np.zeros(6), gravity=(0.0, 0.0, -9.81))
    array([ 0.  ,  0.  , -9.81,  0.  ,  0.  ,  0.  ])
    """
    total = np.matvec(transpose(se3.ad(xi)), np.matvec(mass, xi)) - gravity_force(mass, pose, gravity)
    if damping is not None:
        total = total - np.matvec(damping, xi)
    if stiffness is not None:
        total = total - stiffness_force(stiffness, pose, np.eye(4) if rest is None else rest)
    if force is not None:
        total = total + force
    return solve(mass, total, "the inertia of the body")
