"""The scalable body: a quaternion of any length describes attitude and size (doc 001, sections 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    Seed,
    block,
    concatenate,
    entry,
    from_columns,
    part,
    scale,
    transpose,
    vector,
)
from heavytop.coordinates import Coordinates
from heavytop.errors import ConfigurationError
from heavytop.geometry import quaternion, so3


@dataclass(frozen=True)
class ScalablePose(Coordinates):
    """Position, attitude and scale: ``q = (r, A)`` with any quaternion ``A != 0``.

    The body point ``y`` is at ``r + s R y`` with ``s = |A|^2``. The seven velocities are ``u = (v, nu, omega) = Q q'``
    (eq. 38) with ``v = r'``, ``nu = s'`` and ``omega = s R^T Omega``, Omega the angular velocity in world coordinates
    (eqs 44-49). There is no constraint: the kinematics matrix is the square ``Q^-1`` (eq. 85). The velocities
    scale with s and are not left-invariant, so this is not a group.

    Examples
    --------
    >>> body = ScalablePose()
    >>> q = np.array([0, 0, 0, 2.0, 0, 0, 0])
    >>> body.position(q, np.array([1.0, 0.0, 0.0]))
    array([4., 0., 0.])
    """

    q_names = ("x", "y", "z", "a_0", "a_x", "a_y", "a_z")
    v_names = ("v_x", "v_y", "v_z", "nu", "omega_x", "omega_y", "omega_z")

    @property
    def q_units(self) -> tuple[str, ...]:
        return ("m",) * 3 + ("1",) * 4

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("m/s",) * 3 + ("1/s",) + ("rad/s",) * 3

    is_group = False

    def split(self, q: Array) -> tuple[Array, Array]:
        """Position (..., 3) and quaternion (..., 4)."""
        return part(q, 0, 3), part(q, 3, 7)

    def scale_and_rotation(self, q: Array) -> tuple[Array, Array]:
        """``s = |A|^2`` (...) and ``R`` (..., 3, 3) (eqs 23, 27)."""
        return quaternion.scale_rotation_from_quaternion(self.split(q)[1])

    def position(self, q: Array, point: Array) -> Array:
        """``r + s R y`` (..., 3): the position of the body point ``y`` (eqs 32, 34)."""
        r, a = self.split(q)
        return r + np.matvec(quaternion.scaled_rotation(a), point)

    def point_jacobian(self, q: Array, point: Array) -> Array:
        """``(I, R y, -R wed(y))`` (..., 3, 7): the velocity of a body point is this times ``u`` (eq. 40)."""
        _, rotation = self.scale_and_rotation(q)
        stretch = from_columns(np.matvec(rotation, point))
        return block([[np.eye(3), stretch, rotation @ transpose(so3.wed(point))]])

    def neutral(self) -> Floats:
        return np.array([0.0, 0, 0, 1, 0, 0, 0])

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        rng = np.random.default_rng(rng)
        attitude = quaternion.normalize(rng.standard_normal((*shape, 4)))
        return concatenate(rng.standard_normal((*shape, 3)), scale(rng.uniform(0.8, 1.6, shape), attitude, 1))

    def kinematics_matrix(self, q: Array) -> Array:
        # Q^-1 (eq. 85)
        _, a = self.split(q)
        lower = scale(0.5 / np.vecdot(a, a), quaternion.left_matrix(a), 2)
        return block([[np.eye(3), np.zeros((3, 4))], [np.zeros((4, 3)), lower]])

    def left_inverse(self, q: Array) -> Array:
        """``Q`` (..., 7, 7) (eq. 38, erratum 1.3)."""
        _, a = self.split(q)
        lower = 2 * quaternion.left_matrix(quaternion.conjugate(a))
        return block([[np.eye(3), np.zeros((3, 4))], [np.zeros((4, 3)), lower]])

    def rate(self, q: Array, v: Array) -> Array:
        _, a = self.split(q)
        spin = quaternion.multiply(a, part(v, 3, 7))
        return concatenate(part(v, 0, 3), scale(0.5 / np.vecdot(a, a), spin, 1))

    def retract(self, q: Array, delta: Array) -> Array:
        """``(r + v, A exp((nu, omega) / (2 s)))``: the scale stays positive for any step, and constant for nu = 0."""
        r, a = self.split(q)
        s = np.vecdot(a, a)
        turn = quaternion.exp(scale(1 / s, part(delta, 4, 7), 1))
        stretch = np.exp(0.5 * entry(delta, 3) / s)
        return concatenate(r + part(delta, 0, 3), scale(stretch, quaternion.multiply(a, turn), 1))

    def difference(self, q0: Array, q1: Array) -> Array:
        (r0, a0), (r1, a1) = self.split(q0), self.split(q1)
        s0, s1 = np.vecdot(a0, a0), np.vecdot(a1, a1)
        turn = quaternion.log(quaternion.normalize(quaternion.multiply(quaternion.conjugate(a0), a1)))
        return concatenate(r1 - r0, vector(s0 * np.log(s1 / s0)), scale(s0, turn, 1))

    def _check_constraints(self, q: Floats, where: str, tolerance: float) -> None:
        smallest = float(np.min(np.vecdot(q[..., 3:], q[..., 3:]), initial=np.inf))
        if smallest <= tolerance:
            raise ConfigurationError(
                f"{where} has the scale |A|^2 = {smallest:.3g}; the quaternion A of a scalable body must not vanish "
                f"(more than {tolerance:g} is needed). A rigid body has |A| = 1."
            )
