"""Newton-Euler with spatial vectors (doc 003): inertia, momentum, ``F = I A + V x* I V`` in any frame, recursive inverse dynamics.

Vectors are (angular, linear) here, as in :mod:`heavytop.geometry.spatial`. The equation has one form in every frame, inertial or
moving, with its origin anywhere; the classical pair of Newton and Euler holds at the centre of mass only (erratum 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, block, concatenate, entry, scale, transpose
from heavytop.errors import ModelError, wrong_shape
from heavytop.geometry import se3, so3, spatial
from heavytop.mechanics.functions import solve


def rotational_inertia(masses: Array, points: Array) -> np.ndarray:
    """``sum m [r][r]^T`` (3, 3) of particles at ``points`` (n, 3) about the origin. Numbers only.

    >>> rotational_inertia([2.0], [[0.0, 0.0, 3.0]]).diagonal()
    array([18., 18.,  0.])
    """
    m, r = np.asarray(masses, dtype=float), np.asarray(points, dtype=float)
    if r.shape != (len(m), 3):
        raise wrong_shape("points of particles", (len(m), 3), r.shape)
    wedges = so3.wed(r)
    return np.sum(m[:, None, None] * (wedges @ transpose(wedges)), axis=0)


def spatial_inertia(mass: Array, com: Array, moment_at_com: Array) -> Array:
    """The spatial inertia (..., 6, 6) about the origin of a body with centre of mass ``com`` (..., 3).

    ``[I_C + m [c][c]^T, m [c]; m [c]^T, m I]``; at the centre of mass it is ``diag(I_C, m I)``.
    """
    wedge = scale(mass, so3.wed(com), 2)
    corner = as_array(moment_at_com) + wedge @ transpose(so3.wed(com))
    return block([[corner, wedge], [transpose(wedge), scale(mass, np.eye(3), 2)]])


def transform_inertia(pose: Array, inertia: Array) -> Array:
    """``I_A = X* I_B X^-1`` (..., 6, 6): the inertia seen from the frame A in which frame B has the ``pose`` (erratum 3.6)."""
    return spatial.force_transform(pose) @ inertia @ spatial.motion_transform_inverse(pose)


def momentum(inertia: Array, velocity: Array) -> Array:
    """``h = I V`` (..., 6), angular and linear; it transforms like a force, ``phi_O = phi_C + r x L``."""
    return np.matvec(inertia, velocity)


def kinetic_energy(inertia: Array, velocity: Array) -> Array:
    """``V . I V / 2`` (...), the same in every frame."""
    return 0.5 * np.vecdot(velocity, np.matvec(inertia, velocity))


def newton_euler(inertia: Array, velocity: Array, acceleration: Array) -> Array:
    """The wrench ``F = I A + V x* I V`` (..., 6) that causes the spatial acceleration ``A``, in any frame.

    In an inertial frame ``A = dV/dt``; in a moving frame ``A`` is :func:`~heavytop.geometry.spatial.derivative_in_frame`. In the
    body frame that is the rate of the coordinates, since ``V x V = 0``.

    Examples
    --------
    >>> inertia = spatial_inertia(1.0, np.zeros(3), np.diag([1.0, 2.0, 3.0]))
    >>> newton_euler(inertia, np.array([1.0, 1, 1, 0, 0, 0]), np.zeros(6))[:3]
    array([ 1., -2.,  1.])
    """
    return np.matvec(inertia, acceleration) + spatial.cross_force(velocity, np.matvec(inertia, velocity))


def body_acceleration(inertia: Array, velocity: Array, wrench: Array) -> Array:
    """The spatial acceleration (..., 6) that a wrench causes: Newton-Euler solved for A."""
    bias = spatial.cross_force(velocity, np.matvec(inertia, velocity))
    return solve(inertia, as_array(wrench) - bias, "the spatial inertia")


def rolling_cylinder(speed: float, radius: float, t: Array) -> tuple[np.ndarray, np.ndarray]:
    """Spatial velocity and acceleration (..., 6) of a cylinder that rolls along x, in a frame at its first contact (erratum 3.7).

    The axis lies along y at the height ``radius``. The acceleration ``(0, 0, 0; 0, 0, v^2 / r)`` is constant: not that of any particle.
    """
    t = np.asarray(t, dtype=float)
    zero = np.zeros(t.shape)
    omega = speed / radius
    velocity = np.stack([zero, zero + omega, zero, zero, zero, speed * omega * t], axis=-1)
    acceleration = np.stack([zero, zero, zero, zero, zero, zero + speed * omega], axis=-1)
    return velocity, acceleration


# --- recursive Newton-Euler -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Link:
    """A body of a tree with a joint of one degree of freedom.

    Parameters
    ----------
    screw : (6,) motion vector of the joint per unit rate, (angular, linear), in the frame of the link.
    inertia : (6, 6) spatial inertia in the frame of the link.
    at : (4, 4) pose of the link's frame in the parent's frame when the joint is at zero.
    parent : index of the parent link, -1 for the ground.
    """

    screw: Any
    inertia: Any
    at: Any = None
    parent: int = -1

    def pose(self, q: Array) -> Array:
        """Pose (..., 4, 4) of the link's frame in the parent's frame at the joint coordinate ``q`` (...)."""
        screw = spatial.swap(self.screw)
        moved = se3.exp(scale(q, screw, 1))
        return moved if self.at is None else as_array(self.at) @ moved


class InverseDynamics(NamedTuple):
    """Joint forces ``tau = S . F`` (..., n) and the wrenches (..., 6) that parents exert on links, in link frames."""

    forces: Array
    wrenches: tuple[Array, ...]


def inverse_dynamics(
    links: Sequence[Link],
    q: Array,
    qd: Array,
    qdd: Array,
    gravity: Array = (0.0, 0.0, 0.0),
    external: Sequence[Array | None] | None = None,
) -> InverseDynamics:
    """Recursive Newton-Euler: velocities and accelerations outwards, wrenches inwards. Numbers with batch axes, or symbols.

    Parameters
    ----------
    q, qd, qdd : joint coordinates, rates and accelerations (..., n). gravity : acceleration of free fall (3,).
    external : wrenches (..., 6) on the links in link frames, or None.

    Examples
    --------
    A pendulum of length 2 held horizontally:

    >>> inertia = spatial_inertia(1.0, np.array([0.0, 0, -2]), np.zeros((3, 3)))
    >>> arm = Link(screw=[0.0, 1, 0, 0, 0, 0], inertia=inertia)
    >>> inverse_dynamics([arm], np.array([np.pi / 2]), np.zeros(1), np.zeros(1), gravity=(0, 0, -9.81)).forces
    array([19.62])
    """
    q, qd, qdd = (as_array(x) for x in (q, qd, qdd))
    _check(links)
    poses, velocities, accelerations, forces = [], [], [], []
    lift = concatenate(np.zeros(3), -as_array(gravity))
    for i, link in enumerate(links):
        screw = as_array(link.screw)
        pose = link.pose(entry(q, i))
        back = spatial.motion_transform_inverse(pose)
        rate, second = scale(entry(qd, i), screw, 1), scale(entry(qdd, i), screw, 1)
        if link.parent < 0:
            velocity, acceleration = rate, np.matvec(back, lift) + second
        else:
            velocity = np.matvec(back, velocities[link.parent]) + rate
            acceleration = np.matvec(back, accelerations[link.parent]) + second + spatial.cross_motion(velocity, rate)
        force = newton_euler(as_array(link.inertia), velocity, acceleration)
        if external is not None and external[i] is not None:
            force = force - as_array(external[i])
        poses.append(pose)
        velocities.append(velocity)
        accelerations.append(acceleration)
        forces.append(force)
    for i in reversed(range(len(links))):
        parent = links[i].parent
        if parent >= 0:
            forces[parent] = forces[parent] + np.matvec(spatial.force_transform(poses[i]), forces[i])
    torques = [np.vecdot(as_array(link.screw), force) for link, force in zip(links, forces, strict=True)]
    return InverseDynamics(np.stack(torques, axis=-1), tuple(forces))


def _check(links: Sequence[Link]) -> None:
    for i, link in enumerate(links):
        if not -1 <= link.parent < i:
            raise ModelError(
                f"link {i} has parent {link.parent}: parents must come before their children, -1 is the ground."
            )


def mass_matrix(links: Sequence[Link], q: Array) -> Array:
    """The joint-space mass matrix (..., n, n): inverse dynamics of unit accelerations at rest."""
    n = len(links)
    zero = 0 * as_array(q)
    columns = [inverse_dynamics(links, q, zero, zero + np.eye(n)[i]).forces for i in range(n)]
    return np.stack(columns, axis=-1)


def acceleration(
    links: Sequence[Link], q: Array, qd: Array, torques: Array | None = None, gravity: Array = (0.0, 0.0, 0.0)
) -> Array:
    """Forward dynamics (..., n) with the recursion as the only source of the equations."""
    bias = inverse_dynamics(links, q, qd, 0 * as_array(q), gravity).forces
    force = -bias if torques is None else as_array(torques) - bias
    return solve(mass_matrix(links, q), force)


# --- the other ordering ---------------------------------------------------------------------------------------------------------


def from_linear_angular(inertia: Array) -> Array:
    """A 6 x 6 inertia in the (linear, angular) ordering of the rest of the package as a spatial inertia, and back: ``P M P``."""
    return spatial.swap_matrix(inertia)


def body_wrench(inertia: Array, xi: Array, xi_rate: Array) -> Array:
    """``f^M`` (..., 6) in (linear, angular) ordering by way of spatial vectors: the same as ``M xi' - ad(xi)^T M xi`` (eq. 3.95a)."""
    return spatial.swap(newton_euler(spatial.swap_matrix(inertia), spatial.swap(xi), spatial.swap(xi_rate)))
