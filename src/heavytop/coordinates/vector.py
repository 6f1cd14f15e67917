"""Blocks with one or no constraint: :class:`Vector`, :class:`Angle`, :class:`Circle`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array, Floats, Seed, components, from_columns, is_symbolic, scale, transpose, vector
from heavytop.coordinates.base import Coordinates, check_dimension, constant_stacked
from heavytop.errors import ModelError


class _Flat(Coordinates):
    """Coordinates whose rates are the velocities: ``A = I``, ``gamma = 0``."""

    def neutral(self) -> Floats:
        return np.zeros(self.nq)

    def kinematics_matrix(self, q: Array) -> Array:
        return np.eye(self.nq) if is_symbolic(q) else np.broadcast_to(np.eye(self.nq), (*np.shape(q), self.nq)).copy()

    def left_inverse(self, q: Array) -> Array:
        return self.kinematics_matrix(q)

    def rate(self, q: Array, v: Array) -> Array:
        return v + 0 * q  # the batch axes of both

    def retract(self, q: Array, delta: Array) -> Array:
        return q + delta

    def difference(self, q0: Array, q1: Array) -> Array:
        return q1 - q0

    def bracket(self, a: Array, b: Array) -> Array:
        return 0 * (a + b)

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        return v + 0 * delta

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        return constant_stacked(np.zeros((self.nv,) * 3), q)


@dataclass(frozen=True)
class Vector(_Flat):
    """A point of the Euclidean space of dimension ``n``; the velocities are the rates.

    Parameters
    ----------
    n : dimension, zero or more.
    names : names of the components; default x, y, z up to three, otherwise x1, x2, ...

    Examples
    --------
    >>> Vector(3).v_names
    ('v_x', 'v_y', 'v_z')
    """

    n: int
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_dimension("the dimension of a Vector", self.n)
        default = ("x", "y", "z")[: self.n] if self.n <= 3 else tuple(f"x{i + 1}" for i in range(self.n))
        names = default if self.names is None else tuple(self.names)
        if len(names) != self.n or len(set(names)) != self.n:
            raise ModelError(f"a Vector of dimension {self.n} needs {self.n} distinct names, got {names}.")
        object.__setattr__(self, "names", names)

    @property
    def q_names(self) -> tuple[str, ...]:
        return tuple(self.names or ())

    @property
    def v_names(self) -> tuple[str, ...]:
        return tuple(f"v_{name}" for name in self.q_names)

    @property
    def q_units(self) -> tuple[str, ...]:
        return ("m",) * self.nq

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("m/s",) * self.nv

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        return np.random.default_rng(rng).standard_normal((*shape, self.n))


@dataclass(frozen=True)
class Angle(_Flat):
    """One angle in rad, without wrapping: ``difference`` counts turns. Its velocity is the rate in rad/s.

    For an angle modulo one turn, use :class:`Circle`.

    >>> float(Angle().difference(np.array([0.1]), np.array([0.1 + 4 * np.pi]))[0].round(6))
    12.566371
    """

    q_names = ("angle",)
    v_names = ("rate",)

    @property
    def q_units(self) -> tuple[str, ...]:
        return ("rad",)

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("rad/s",)

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        return np.random.default_rng(rng).uniform(-np.pi, np.pi, (*shape, 1))


@dataclass(frozen=True)
class Circle(Coordinates):
    """The unit circle (example 1 of the thesis): ``q = (cos, sin)``, ``v`` the angular rate, ``A = (-s, c)`` (eq. 2.5).

    Examples
    --------
    >>> Circle().integrate(np.array([1.0, 0.0]), np.array([np.pi / 2]), 1.0).round(12)
    array([0., 1.])
    """

    q_names = ("c", "s")
    v_names = ("rate",)
    constraint_names = ("c^2 + s^2 - 1",)

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("rad/s",)

    def neutral(self) -> Floats:
        return np.array([1.0, 0.0])

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        angle = np.random.default_rng(rng).uniform(-np.pi, np.pi, shape)
        return vector(np.cos(angle), np.sin(angle))

    def kinematics_matrix(self, q: Array) -> Array:
        c, s = components(q)
        return from_columns(vector(-s, c))

    def left_inverse(self, q: Array) -> Array:
        return transpose(self.kinematics_matrix(q))  # A^T A = 1 on the circle

    def rate(self, q: Array, v: Array) -> Array:
        c, s = components(q)
        (w,) = components(v)
        return vector(-s * w, c * w)

    def constraints(self, q: Array) -> Array:
        c, s = components(q)
        return vector(c * c + s * s - 1)

    def retract(self, q: Array, delta: Array) -> Array:
        c, s = components(q)
        (angle,) = components(delta)
        cd, sd = np.cos(angle), np.sin(angle)
        return vector(c * cd - s * sd, s * cd + c * sd)

    def difference(self, q0: Array, q1: Array) -> Array:
        (c0, s0), (c1, s1) = components(q0), components(q1)
        return vector(np.arctan2(c0 * s1 - s0 * c1, c0 * c1 + s0 * s1))

    def bracket(self, a: Array, b: Array) -> Array:
        return 0 * (a + b)

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        return v + 0 * delta

    def project(self, q: Array) -> Array:
        return scale(1 / np.sqrt(np.vecdot(q, q)), q, 1)

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        return constant_stacked(np.zeros((1, 1, 1)), q)
