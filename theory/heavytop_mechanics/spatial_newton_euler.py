"""Newton-Euler with spatial vectors (doc 003): inertia, momentum, ``F = I A + V x* I V`` in any frame, recursive inverse dynamics.

Vectors are (angular, linear) here, as in :mod:`heavytop.geometry.spatial`. The equation has one form in every frame, inertial or
moving, with its origin anywhere; the classical pair of Newton and Euler holds at the centre of mass only (erratum 3.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, block, concatenate, entry, from_columns, scale, split, transpose
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError
from heavytop.functions import Value
from heavytop.geometry import se3, so3, spatial
from heavytop_mechanics.functions import Evaluator, along, solve, weighted_points


def rotational_inertia(masses: Array, points: Array) -> np.ndarray:
    """``sum m [r][r]^T`` (3, 3) of particles at ``points`` (n, 3) about the origin. Numbers only.

    >>> rotational_inertia([2.0], [[0.0, 0.0, 3.0]]).diagonal()
    array([18., 18.,  0.])
    """
    m, r = weighted_points(masses, points, "points of particles")
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
    if np.ndim(speed) or np.ndim(radius) or not (np.isfinite(speed) and 0.0 < radius < np.inf):
        raise ModelError(
            f"A cylinder rolls with one speed and one radius > 0, got the speed {speed} and the radius {radius}."
        )
    zero = np.zeros(t.shape)
    omega = speed / radius
    velocity = np.stack([zero, zero + omega, zero, zero, zero, speed * omega * t], axis=-1)
    acceleration = np.stack([zero, zero, zero, zero, zero, zero + speed * omega], axis=-1)
    return velocity, acceleration


# --- recursive Newton-Euler -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Link(Value):
    """A body with the joint that carries it.

    Parameters
    ----------
    screw : axis (6,) of a joint with one degree of freedom in the link's frame, angular part first; None with ``coordinates``.
    inertia : spatial inertia (6, 6) about the origin of the link's frame.
    at : pose (4, 4) of the joint in the parent's frame; None for the parent's frame itself.
    parent : index of the parent link, -1 for the ground.
    coordinates, placement : for a joint with any degrees of freedom: the manifold of its ``q``, and the pose (4, 4) of the link in the
        joint frame as a function of ``q`` in NumPy notation.

    Examples
    --------
    A body on a ball joint, with the body angular velocity as joint velocity:

    >>> from heavytop.coordinates import Rotation
    >>> ball = Rotation()
    >>> turned = lambda q: se3.pose(ball.rotation_matrix(q), np.zeros(3))
    >>> link = Link(inertia=np.eye(6), coordinates=ball, placement=turned)
    >>> link.nq, link.nv
    (9, 3)
    """

    screw: Any = None
    inertia: Any = None
    at: Any = None
    parent: int = -1
    coordinates: Coordinates | None = None
    placement: Callable[[Array], Array] | None = None

    def __post_init__(self) -> None:
        if self.inertia is None:
            raise ModelError("a link needs an inertia (6, 6); a zero matrix is one.")
        if (self.coordinates is None) != (self.placement is None) or (self.screw is None) == (self.coordinates is None):
            raise ModelError("give a link either a screw (6,), or coordinates together with placement(q).")

    @property
    def nq(self) -> int:
        """Number of configuration coordinates of the joint."""
        return 1 if self.coordinates is None else self.coordinates.nq

    @property
    def nv(self) -> int:
        """Number of velocity coordinates of the joint."""
        return 1 if self.coordinates is None else self.coordinates.nv

    def motion(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Pose (..., 4, 4) in the parent's frame, subspace ``S`` (..., 6, nv) in the link's frame, and ``dS/dt v`` (..., 6)."""
        if self.coordinates is None:
            screw = as_array(self.screw)
            pose = se3.exp(scale(entry(q, 0), spatial.swap(screw), 1))
            subspace, bias = np.reshape(screw, (6, 1)), np.zeros(6)
        else:
            pose, subspace, bias = self._joint(q, v)
        return (pose if self.at is None else as_array(self.at) @ pose), subspace, bias

    @cached_property
    def _joint(self) -> Evaluator:
        coordinates, placement = self.coordinates, self.placement
        if coordinates is None or placement is None:
            raise ModelError("a joint with one screw has no coordinates.")

        def motion(q: Array, v: Array) -> tuple[Array, Array, Array]:
            pose, A = as_array(placement(q)), as_array(coordinates.kinematics_matrix(q))
            back = se3.inverse(pose)
            columns = [spatial.swap(se3.vee(back @ along(pose, q, A[:, j]))) for j in range(coordinates.nv)]
            subspace = from_columns(*columns)
            return pose, subspace, along(np.matvec(subspace, v), q, coordinates.rate(q, v))

        return Evaluator(motion, {"q": (coordinates.nq,), "v": (coordinates.nv,)}, "joint")


class InverseDynamics(NamedTuple):
    """Joint forces ``tau = S^T F`` (..., nv) and the wrenches (..., 6) that parents exert on links, in link frames."""

    forces: Array
    wrenches: tuple[Array, ...]


def inverse_dynamics(
    links: Sequence[Link],
    q: Array,
    v: Array,
    a: Array,
    gravity: Array = (0.0, 0.0, 0.0),
    external: Sequence[Array | None] | None = None,
) -> InverseDynamics:
    """Recursive Newton-Euler: velocities and accelerations outwards, wrenches inwards. Numbers with batch axes, or symbols.

    Parameters
    ----------
    q, v, a : configuration (..., nq), velocities and accelerations (..., nv) of all joints, in the order of the links.
    gravity : acceleration of free fall (3,). external : wrenches (..., 6) on the links in link frames, angular part first, or None.

    Examples
    --------
    A pendulum of length 2 held horizontally:

    >>> inertia = spatial_inertia(1.0, np.array([0.0, 0, -2]), np.zeros((3, 3)))
    >>> arm = Link(screw=[0.0, 1, 0, 0, 0, 0], inertia=inertia)
    >>> inverse_dynamics([arm], np.array([np.pi / 2]), np.zeros(1), np.zeros(1), gravity=(0, 0, -9.81)).forces
    array([19.62])
    """
    q, v, a = (as_array(x) for x in (q, v, a))
    _check(links, external)
    sizes = [link.nv for link in links]
    states = zip(split(q, [link.nq for link in links]), split(v, sizes), split(a, sizes), strict=True)
    poses, subspaces, velocities, accelerations, forces = [], [], [], [], []
    lift = concatenate(np.zeros(3), -as_array(gravity))
    for i, (link, (q_i, v_i, a_i)) in enumerate(zip(links, states, strict=True)):
        pose, subspace, bias = link.motion(q_i, v_i)
        back = spatial.motion_transform_inverse(pose)
        rate = np.matvec(subspace, v_i)
        second = np.matvec(subspace, a_i) + bias
        if link.parent < 0:
            velocity, acceleration = rate, np.matvec(back, lift) + second
        else:
            velocity = np.matvec(back, velocities[link.parent]) + rate
            acceleration = np.matvec(back, accelerations[link.parent]) + second + spatial.cross_motion(velocity, rate)
        force = newton_euler(as_array(link.inertia), velocity, acceleration)
        if external is not None and external[i] is not None:
            force = force - as_array(external[i])
        poses.append(pose)
        subspaces.append(subspace)
        velocities.append(velocity)
        accelerations.append(acceleration)
        forces.append(force)
    for i in reversed(range(len(links))):
        parent = links[i].parent
        if parent >= 0:
            forces[parent] = forces[parent] + np.matvec(spatial.force_transform(poses[i]), forces[i])
    joint_forces = [np.matvec(transpose(S), force) for S, force in zip(subspaces, forces, strict=True)]
    return InverseDynamics(concatenate(*joint_forces), tuple(forces))


def _check(links: Sequence[Link], external: Sequence[Array | None] | None) -> None:
    for i, link in enumerate(links):
        if not -1 <= link.parent < i:
            raise ModelError(
                f"link {i} has parent {link.parent}: parents must come before their children, -1 is the ground."
            )
    if external is not None and len(external) != len(links):
        raise ModelError(f"give one external wrench (or None) for each of the {len(links)} links, got {len(external)}.")


def mass_matrix(links: Sequence[Link], q: Array) -> Array:
    """The joint-space mass matrix (..., nv, nv): inverse dynamics of unit accelerations at rest."""
    n, q = sum(link.nv for link in links), as_array(q)
    zero = np.zeros((*q.shape[:-1], n))
    columns = [inverse_dynamics(links, q, zero, zero + np.eye(n)[i]).forces for i in range(n)]
    return np.stack(columns, axis=-1)


def acceleration(
    links: Sequence[Link],
    q: Array,
    v: Array,
    forces: Array | None = None,
    gravity: Array = (0.0, 0.0, 0.0),
    external: Sequence[Array | None] | None = None,
) -> Array:
    """Forward dynamics (..., nv) with the recursion as the only source of the equations.

    ``forces`` act in the joints (..., nv), ``external`` are wrenches on the links as in :func:`inverse_dynamics`.
    """
    bias = inverse_dynamics(links, q, v, 0 * as_array(v), gravity, external).forces
    return solve(mass_matrix(links, q), -bias if forces is None else as_array(forces) - bias)


# --- the other ordering ---------------------------------------------------------------------------------------------------------


def from_linear_angular(inertia: Array) -> Array:
    """A 6 x 6 inertia in the (linear, angular) ordering of the rest of the package as a spatial inertia, and back: ``P M P``."""
    return spatial.swap_matrix(inertia)


def body_wrench(inertia: Array, xi: Array, xi_rate: Array) -> Array:
    """``f^M`` (..., 6) in (linear, angular) ordering by way of spatial vectors: the same as ``M xi' - ad(xi)^T M xi`` (eq. 3.95a)."""
    return spatial.swap(newton_euler(spatial.swap_matrix(inertia), spatial.swap(xi), spatial.swap(xi_rate)))
