"""The free rigid body: :class:`Pose`, position and attitude."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from heavytop._arrays import Array, Floats, Seed, block, concatenate, part, scale, transpose
from heavytop.coordinates.attitude import LEVI_CIVITA, Attitude, EulerAngles, Quaternion, Rotation
from heavytop.coordinates.base import Coordinates, constant_stacked
from heavytop.errors import unknown_name
from heavytop.geometry import se3, series

ATTITUDES = {"matrix": Rotation, "quaternion": Quaternion, "euler": EulerAngles}
VELOCITIES = ("body", "mixed")


def _body_commutation() -> Floats:
    """``gamma^k_ij`` of SE(3) in body velocities (eq. 3.52), indexed [k, i, j] with (linear, angular)."""
    gamma = np.zeros((6, 6, 6))
    gamma[3:, 3:, 3:] = LEVI_CIVITA
    gamma[:3, :3, 3:] = LEVI_CIVITA
    gamma[:3, 3:, :3] = LEVI_CIVITA
    return gamma


def _mixed_commutation() -> Floats:
    """``gamma^k_ij`` of R^3 x SO(3): only the angular part."""
    gamma = np.zeros((6, 6, 6))
    gamma[3:, 3:, 3:] = LEVI_CIVITA
    return gamma


@dataclass(frozen=True)
class Pose(Coordinates):
    """Position and attitude of a body: ``q = (r, attitude)``, 12, 7 or 6 coordinates; six velocities (linear, angular).

    Parameters
    ----------
    attitude : "matrix" (9 coordinates, column by column), "quaternion" (wxyz) or "euler" (roll, pitch, yaw; singular).
    velocity : "body": velocity of the reference point in body coordinates and body angular velocity, ``r' = R v``
        (eq. 3.51), displacement of SE(3); "mixed": velocity ``r'`` in world coordinates and body angular velocity,
        displacement of R^3 x SO(3).

    Examples
    --------
    >>> pose = Pose("quaternion")
    >>> pose.nq, pose.nv
    (7, 6)
    >>> pose.retract(pose.neutral(), np.array([1.0, 0, 0, 0, 0, np.pi])).round(2) + 0.0  # half a circle
    array([0.  , 0.64, 0.  , 0.  , 0.  , 0.  , 1.  ])
    """

    attitude: Literal["matrix", "quaternion", "euler"] = "matrix"
    velocity: Literal["body", "mixed"] = "body"

    def __post_init__(self) -> None:
        if self.attitude not in ATTITUDES:
            raise unknown_name("attitude of a Pose", str(self.attitude), ATTITUDES)
        if self.velocity not in VELOCITIES:
            raise unknown_name("velocity of a Pose", str(self.velocity), VELOCITIES)

    @cached_property
    def attitude_block(self) -> Attitude:
        """The coordinates of the attitude alone."""
        return ATTITUDES[self.attitude]()

    @property
    def q_names(self) -> tuple[str, ...]:
        prefix = "q_" if self.attitude == "quaternion" else ""
        return ("x", "y", "z", *(prefix + name for name in self.attitude_block.q_names))

    @property
    def v_names(self) -> tuple[str, ...]:
        linear = ("v_x", "v_y", "v_z") if self.velocity == "body" else ("x_rate", "y_rate", "z_rate")
        return linear + self.attitude_block.v_names

    @property
    def q_units(self) -> tuple[str, ...]:
        return ("m",) * 3 + self.attitude_block.q_units

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("m/s",) * 3 + ("rad/s",) * 3

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return self.attitude_block.constraint_names

    def split(self, q: Array) -> tuple[Array, Array]:
        """Position (..., 3) and attitude coordinates (..., nq - 3)."""
        return part(q, 0, 3), part(q, 3, self.nq)

    def pose(self, q: Array) -> Array:
        """The homogeneous matrix (..., 4, 4) of body to world."""
        r, attitude = self.split(q)
        return se3.pose(self.attitude_block.rotation_matrix(attitude), r)

    def from_pose(self, g: Array) -> Array:
        """Coordinates (..., nq) of a homogeneous matrix (..., 4, 4)."""
        return concatenate(se3.position(g), self.attitude_block.from_rotation_matrix(se3.rotation(g)))

    def neutral(self) -> Floats:
        return concatenate(np.zeros(3), self.attitude_block.neutral())

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        rng = np.random.default_rng(rng)
        return concatenate(rng.standard_normal((*shape, 3)), self.attitude_block.random(rng, shape))

    def _linear_map(self, attitude: Array) -> Array:
        """``r' = L v``: the rotation matrix for body velocities, the identity for mixed ones."""
        return self.attitude_block.rotation_matrix(attitude) if self.velocity == "body" else np.eye(3)

    def kinematics_matrix(self, q: Array) -> Array:
        _, attitude = self.split(q)
        lower = self.attitude_block.kinematics_matrix(attitude)
        return block([[self._linear_map(attitude), np.zeros((3, 3))], [np.zeros((self.nq - 3, 3)), lower]])

    def left_inverse(self, q: Array) -> Array:
        _, attitude = self.split(q)
        lower = self.attitude_block.left_inverse(attitude)
        return block([[transpose(self._linear_map(attitude)), np.zeros((3, self.nq - 3))], [np.zeros((3, 3)), lower]])

    def rate(self, q: Array, v: Array) -> Array:
        _, attitude = self.split(q)
        linear, angular = part(v, 0, 3), part(v, 3, 6)
        if self.velocity == "body":
            linear = np.matvec(self._linear_map(attitude), linear)
        return concatenate(linear, self.attitude_block.rate(attitude, angular))

    def constraints(self, q: Array) -> Array:
        return self.attitude_block.constraints(part(q, 3, self.nq))

    def retract(self, q: Array, delta: Array) -> Array:
        r, attitude = self.split(q)
        linear, angular = part(delta, 0, 3), part(delta, 3, 6)
        if self.velocity == "body":
            linear = np.matvec(self._linear_map(attitude), se3.displacement(linear, angular))
        return concatenate(r + linear, self.attitude_block.retract(attitude, angular))

    def difference(self, q0: Array, q1: Array) -> Array:
        (r0, attitude0), (r1, attitude1) = self.split(q0), self.split(q1)
        angular = self.attitude_block.difference(attitude0, attitude1)
        linear = r1 - r0
        if self.velocity == "body":
            linear = np.matvec(transpose(self._linear_map(attitude0)), linear)
            linear = se3.displacement_inverse(linear, angular)
        return concatenate(linear, angular)

    def bracket(self, a: Array, b: Array) -> Array:
        m, n, v, w = part(a, 0, 3), part(a, 3, 6), part(b, 0, 3), part(b, 3, 6)
        linear = np.cross(n, v) + np.cross(m, w) if self.velocity == "body" else 0 * (m + v)
        return concatenate(linear, np.cross(n, w))

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        m, n = part(delta, 0, 3), part(delta, 3, 6)
        linear, angular = part(v, 0, 3), part(v, 3, 6)
        if self.velocity == "mixed":
            return concatenate(linear + 0 * m, self.attitude_block.tangent_inverse(n, angular))
        # inverse tangent operator of SE(3) applied to (linear, angular): doc 002, eqs 73-78, errata 2.3 to 2.7
        z = np.vecdot(n, n)
        k1, k2 = series.cotangent(z), series.cotangent_slope(z) * np.vecdot(n, m)
        once = np.cross(n, angular)
        twice = np.cross(n, once)
        mixed = np.cross(n, linear) + np.cross(m, angular)
        linear = linear + 0.5 * mixed + scale(k1, np.cross(n, mixed) + np.cross(m, once), 1) + scale(k2, twice, 1)
        return concatenate(linear, angular + 0.5 * once + scale(k1, twice, 1))

    def project(self, q: Array) -> Array:
        r, attitude = self.split(q)
        return concatenate(r, self.attitude_block.project(attitude))

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        return constant_stacked(_body_commutation() if self.velocity == "body" else _mixed_commutation(), q)

    def _remedy(self, q: Floats) -> str:
        return self.attitude_block._remedy(q[3:])
