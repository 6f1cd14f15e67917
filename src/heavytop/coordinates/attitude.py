"""Attitude blocks: :class:`Rotation` (9 coordinates), :class:`Quaternion` (4), :class:`EulerAngles` (3).

All three have the body angular velocity ``omega`` as velocity, ``R^T R' = wed(omega)``, so they share the displacement
of SO(3), its tangent operator and the commutation coefficients ``eps_ijk`` (eq. 2.20).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    Seed,
    components,
    concatenate,
    flatten_columns,
    from_columns,
    is_symbolic,
    matrix,
    part,
    scale,
    split,
    transpose,
    unflatten_columns,
    vector,
)
from heavytop.coordinates.base import Coordinates, constant_stacked
from heavytop.coordinates.vector import Vector
from heavytop.errors import ConfigurationError, ModelError
from heavytop.geometry import quaternion, series, so3

LEVI_CIVITA = np.array([[[(i - j) * (j - k) * (k - i) / 2 for k in range(3)] for j in range(3)] for i in range(3)])
"""``eps_ijk``; as commutation coefficients ``gamma^k_ij`` it is read [k, i, j], which is the same (eq. 2.20)."""
LEVI_CIVITA.flags.writeable = False


class Attitude(Coordinates):
    """Base of the attitude blocks: body angular velocity, displacement on SO(3), conversion to and from matrices.

    >>> from heavytop.coordinates import Quaternion
    >>> isinstance(Quaternion(), Attitude), Quaternion().nq, Quaternion().nv
    (True, 4, 3)
    """

    v_names = ("omega_x", "omega_y", "omega_z")

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("rad/s",) * 3

    @abstractmethod
    def rotation_matrix(self, q: Array) -> Array:
        """The rotation matrix (..., 3, 3), body to world."""

    @abstractmethod
    def from_rotation_matrix(self, rotation: Array) -> Array:
        """Coordinates (..., nq) of a rotation matrix (..., 3, 3)."""

    def neutral(self) -> Floats:
        return self.from_rotation_matrix(np.eye(3))

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        return self.from_rotation_matrix(so3.random(np.random.default_rng(rng), shape))

    def retract(self, q: Array, delta: Array) -> Array:
        return self.from_rotation_matrix(self.rotation_matrix(q) @ so3.exp(delta))

    def difference(self, q0: Array, q1: Array) -> Array:
        return so3.log(transpose(self.rotation_matrix(q0)) @ self.rotation_matrix(q1))

    def bracket(self, a: Array, b: Array) -> Array:
        return np.cross(a, b)

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        # T^-1 v = v + d x v / 2 + k1 d x (d x v) (doc 002, eq. 16, erratum 2.3)
        turned = np.cross(delta, v)
        return v + 0.5 * turned + scale(series.cotangent(np.vecdot(delta, delta)), np.cross(delta, turned), 1)

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        return constant_stacked(LEVI_CIVITA, q)


@dataclass(frozen=True)
class Rotation(Attitude):
    """A rotation matrix, column by column (thesis, example 2, errata 0.1 to 0.3); velocity: body angular velocity.

    Examples
    --------
    >>> quarter = Rotation().retract(Rotation().neutral(), np.array([0, 0, np.pi / 2]))
    >>> quarter.round(12) + 0.0
    array([ 0.,  1.,  0., -1.,  0.,  0.,  0.,  0.,  1.])
    """

    q_names = tuple(f"R_{row}{col}" for col in "xyz" for row in "xyz")
    constraint_names = ("|R_x|^2 - 1", "|R_y|^2 - 1", "|R_z|^2 - 1", "R_y . R_z", "R_z . R_x", "R_x . R_y", "det R - 1")

    def rotation_matrix(self, q: Array) -> Array:
        return unflatten_columns(q, 3)

    def from_rotation_matrix(self, rotation: Array) -> Array:
        return flatten_columns(rotation)

    def kinematics_matrix(self, q: Array) -> Array:
        # eq. 2.7: the columns of R wed(e_i)
        x, y, z = split(q, (3, 3, 3))
        zero = np.zeros(3)
        return from_columns(concatenate(zero, z, -y), concatenate(-z, zero, x), concatenate(y, -x, zero))

    def left_inverse(self, q: Array) -> Array:
        return 0.5 * transpose(self.kinematics_matrix(q))  # A^T A = 2 I on SO(3)

    def rate(self, q: Array, v: Array) -> Array:
        x, y, z = split(q, (3, 3, 3))
        a, b, c = components(v)
        return concatenate(
            scale(c, y, 1) - scale(b, z, 1), scale(a, z, 1) - scale(c, x, 1), scale(b, x, 1) - scale(a, y, 1)
        )

    def constraints(self, q: Array) -> Array:
        # eq. 2.6 with errata 0.1, 0.2: R^T R = I and det R = 1
        a, b, c, d, e, f, g, h, i = components(q)
        squares = a * a + b * b + c * c - 1, d * d + e * e + f * f - 1, g * g + h * h + i * i - 1
        products = d * g + e * h + f * i, g * a + h * b + i * c, a * d + b * e + c * f
        determinant = a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)
        return vector(*squares, *products, determinant - 1)

    def project(self, q: Array) -> Array:
        """The nearest rotation by five Newton steps ``X <- (X + X^-T) / 2``: full precision from errors of 0.4."""
        for _ in range(5):
            x, y, z = split(q, (3, 3, 3))
            cofactors = concatenate(np.cross(y, z), np.cross(z, x), np.cross(x, y))  # X^-T det X
            determinant = np.vecdot(x, part(cofactors, 0, 3))
            if not is_symbolic(q) and not np.all(determinant):
                raise ConfigurationError("a singular matrix has no nearest rotation; its columns must be independent.")
            q = 0.5 * (q + scale(1 / determinant, cofactors, 1))
        return q

    def _remedy(self, q: Floats) -> str:
        if np.linalg.det(self.rotation_matrix(q)) < 0:
            return "It is a reflection, not a rotation: check the order and the sign of its columns."
        return super()._remedy(q)


@dataclass(frozen=True)
class Quaternion(Attitude):
    """A unit quaternion ``(w, x, y, z)``, Hamilton; velocity: body angular velocity.

    ``q`` and ``-q`` are the same attitude.

    Examples
    --------
    >>> Quaternion().retract(Quaternion().neutral(), np.array([0, 0, np.pi])).round(12)
    array([0., 0., 0., 1.])
    """

    q_names = ("w", "x", "y", "z")
    constraint_names = ("w^2 + x^2 + y^2 + z^2 - 1",)

    def rotation_matrix(self, q: Array) -> Array:
        return quaternion.rotation_from_quaternion(q)

    def from_rotation_matrix(self, rotation: Array) -> Array:
        return quaternion.quaternion_from_rotation(rotation)

    def kinematics_matrix(self, q: Array) -> Array:
        return 0.5 * quaternion.rate_matrix(q)  # q' = q (0, omega) / 2

    def left_inverse(self, q: Array) -> Array:
        return 4 * transpose(self.kinematics_matrix(q))  # A^T A = I / 4 on the unit sphere

    def constraints(self, q: Array) -> Array:
        return vector(np.vecdot(q, q) - 1)

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        return self.project(np.random.default_rng(rng).standard_normal((*shape, 4)))

    def retract(self, q: Array, delta: Array) -> Array:
        return quaternion.multiply(q, quaternion.exp(delta))

    def difference(self, q0: Array, q1: Array) -> Array:
        return quaternion.log(quaternion.multiply(quaternion.conjugate(q0), q1))

    def project(self, q: Array) -> Array:
        return quaternion.normalize(q)


@dataclass(frozen=True)
class EulerAngles(Attitude):
    """Roll, pitch, yaw in rad, ``R = Rz(yaw) Ry(pitch) Rx(roll)`` (eq. 1.6a): for comparison, not for flying.

    Parameters
    ----------
    velocity : "body": the body angular velocity, ``q' = Y^-1 omega``, singular at pitch = +-pi/2; "rates": the rates of
        the angles.

    Examples
    --------
    >>> EulerAngles().retract(np.zeros(3), np.array([0, 0, 0.5])).round(12) + 0.0
    array([0. , 0. , 0.5])
    """

    velocity: Literal["body", "rates"] = "body"

    def __post_init__(self) -> None:
        if self.velocity not in ("body", "rates"):
            raise ModelError(f"the velocity of EulerAngles must be 'body' or 'rates', got {self.velocity!r}.")

    q_names = ("roll", "pitch", "yaw")

    @property
    def v_names(self) -> tuple[str, ...]:
        return super().v_names if self.velocity == "body" else ("roll_rate", "pitch_rate", "yaw_rate")

    def rotation_matrix(self, q: Array) -> Array:
        return so3.from_roll_pitch_yaw(q)

    def from_rotation_matrix(self, rotation: Array) -> Array:
        return so3.to_roll_pitch_yaw(rotation)

    @property
    def q_units(self) -> tuple[str, ...]:
        return ("rad",) * 3

    def kinematics_matrix(self, q: Array) -> Array:
        if self.velocity == "rates":
            return Vector(3).kinematics_matrix(q)
        (ca, cb, _), (sa, sb, _) = components(np.cos(q)), components(np.sin(q))
        tan = sb / cb
        return matrix([[1.0, sa * tan, ca * tan], [0.0, ca, -sa], [0.0, sa / cb, ca / cb]])  # Y^-1

    def left_inverse(self, q: Array) -> Array:
        return Vector(3).left_inverse(q) if self.velocity == "rates" else so3.roll_pitch_yaw_rates(q)

    def retract(self, q: Array, delta: Array) -> Array:
        return q + delta if self.velocity == "rates" else super().retract(q, delta)

    def difference(self, q0: Array, q1: Array) -> Array:
        return q1 - q0 if self.velocity == "rates" else super().difference(q0, q1)

    def bracket(self, a: Array, b: Array) -> Array:
        return 0 * (a + b) if self.velocity == "rates" else super().bracket(a, b)

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        return v + 0 * delta if self.velocity == "rates" else super().tangent_inverse(delta, v)

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        return constant_stacked(np.zeros((3, 3, 3)), q) if self.velocity == "rates" else super().commutation(q)
