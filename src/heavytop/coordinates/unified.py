"""Other velocity coordinates for the same configurations: :class:`LinearVelocities` and :class:`UnifiedPose`."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, Seed, block, transpose
from heavytop.coordinates.base import Coordinates, constant_stacked
from heavytop.coordinates.pose import Pose
from heavytop.errors import ModelError, unknown_name, wrong_shape
from heavytop.geometry import se3, so3

MAX_CONDITION = 1e8
"""Above this condition number a matrix of velocity coordinates counts as singular."""


class LinearVelocities(Coordinates):
    """Velocity coordinates ``w = D v`` with a constant regular matrix ``D``; the configurations stay those of ``base``.

    Parameters
    ----------
    base : the coordinates to transform.
    matrix : ``D`` (nv, nv).
    v_names : names of ``w``; default w_1, w_2, ...

    Attributes
    ----------
    base : the coordinates with the original velocities. matrix, inverse_matrix : ``D`` and ``D^-1`` (nv, nv).

    Examples
    --------
    >>> from heavytop.coordinates import Vector
    >>> sum_and_difference = LinearVelocities(Vector(2), [[1.0, 1.0], [1.0, -1.0]])
    >>> sum_and_difference.rate(np.zeros(2), np.array([2.0, 0.0]))
    array([1., 1.])
    """

    def __init__(self, base: Coordinates, matrix: Any, v_names: tuple[str, ...] | None = None) -> None:
        d = np.array(matrix, dtype=float)
        if d.shape != (base.nv, base.nv):
            raise wrong_shape("the matrix of velocity coordinates", (base.nv, base.nv), d.shape)
        if not np.all(np.isfinite(d)) or np.linalg.cond(d) > MAX_CONDITION:
            rank = np.linalg.matrix_rank(np.nan_to_num(d), rtol=1 / MAX_CONDITION)
            raise ModelError(
                f"the matrix D of the velocity coordinates w = D v must be regular, got rank {rank} of {base.nv}. "
                "Choose velocities (points and directions) that determine every motion."
            )
        self.base, self.matrix, self.inverse_matrix = base, d, np.linalg.inv(d)
        self.q_names, self.constraint_names, self.is_group = base.q_names, base.constraint_names, base.is_group
        self.v_names = tuple(f"w_{i + 1}" for i in range(base.nv)) if v_names is None else tuple(v_names)
        if len(self.v_names) != base.nv:
            raise ModelError(f"{base.nv} velocity names are needed, got {self.v_names}.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    @property
    def q_units(self) -> tuple[str, ...]:
        return self.base.q_units

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("m/s",) * self.nv

    def _original(self, w: Array) -> Array:
        return np.matvec(self.inverse_matrix, w)

    def neutral(self) -> Floats:
        return self.base.neutral()

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        return self.base.random(rng, shape)

    def kinematics_matrix(self, q: Array) -> Array:
        return self.base.kinematics_matrix(q) @ self.inverse_matrix

    def left_inverse(self, q: Array) -> Array:
        """``D Y`` (..., nv, nq): the pseudoinverse of ``A D^-1``, which has the range of ``A``."""
        return self.matrix @ self.base.left_inverse(q)

    def rate(self, q: Array, v: Array) -> Array:
        return self.base.rate(q, self._original(v))

    def constraints(self, q: Array) -> Array:
        return self.base.constraints(q)

    def retract(self, q: Array, delta: Array) -> Array:
        return self.base.retract(q, self._original(delta))

    def difference(self, q0: Array, q1: Array) -> Array:
        return np.matvec(self.matrix, self.base.difference(q0, q1))

    def bracket(self, a: Array, b: Array) -> Array:
        return np.matvec(self.matrix, self.base.bracket(self._original(a), self._original(b)))

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        # doc 002, eq. 72 with errata 2.2, 2.11: D T^-1(D^-1 delta) D^-1 w
        return np.matvec(self.matrix, self.base.tangent_inverse(self._original(delta), self._original(v)))

    def project(self, q: Array) -> Array:
        return self.base.project(q)

    def _remedy(self, q: Floats) -> str:
        return self.base._remedy(q)


class UnifiedPose(LinearVelocities):
    """A pose with six unified velocities: the speeds ``w_i = b_i . v(y_i)`` of six body points along six directions.

    No distinction of translation and rotation (doc 002, eqs 18-31). ``w = D xi`` with the body velocity
    ``xi = (v, omega)`` and rows ``(b_i, y_i x b_i)`` of ``D``, so ``xi = D^-1 w`` (``D^T w`` only for
    orthogonal D, erratum 2.11).

    Parameters
    ----------
    kind : "hexahedral" (six face centres of a cube of half width one) or "tetrahedral" (six edges of a regular
        tetrahedron); see :meth:`hexahedral` and :meth:`tetrahedral` for other sizes.
    points, directions : (6, 3) each, in body coordinates, instead of a kind.
    attitude : as in :class:`~heavytop.coordinates.Pose`.

    Examples
    --------
    >>> pose = UnifiedPose("hexahedral")
    >>> float(np.linalg.det(pose.matrix).round(12))
    -1.0
    """

    def __init__(
        self, kind: str | None = None, *, points: Any = None, directions: Any = None, attitude: str = "matrix"
    ) -> None:
        if kind is not None:
            if kind not in _KINDS:
                raise unknown_name("kind of unified velocities", kind, _KINDS)
            if points is not None or directions is not None:
                raise ModelError("give either a kind of unified velocities or points and directions, not both.")
            points, directions = _KINDS[kind]()
        if points is None or directions is None:
            raise ModelError(
                "unified velocities need a kind ('hexahedral', 'tetrahedral') or six points and directions."
            )
        y, b = np.array(points, dtype=float), np.array(directions, dtype=float)
        for what, array in (("points", y), ("directions", b)):
            if array.shape != (6, 3):
                raise wrong_shape(f"{what} of unified velocities", (6, 3), array.shape)
        pose: Any = Pose(attitude=attitude, velocity="body")  # type: ignore[arg-type]
        super().__init__(pose, np.concatenate([b, np.cross(y, b)], axis=1))  # eq. 54
        self.points, self.directions = y, b

    @classmethod
    def hexahedral(cls, lengths: Any = (1.0, 1.0, 1.0), attitude: str = "matrix") -> UnifiedPose:
        """The set of eqs 19-24: face centres of a box with half edges ``lengths``, directions of length 1/sqrt(2)."""
        points, directions = _hexahedral(lengths)
        return cls(points=points, directions=directions, attitude=attitude)

    @classmethod
    def tetrahedral(cls, vertices: Any = None, attitude: str = "matrix") -> UnifiedPose:
        """Edge mid-points and unit edge directions of a tetrahedron with the given (4, 3) vertices (erratum 2.21)."""
        points, directions = _tetrahedral(vertices)
        return cls(points=points, directions=directions, attitude=attitude)

    def body_velocity(self, w: Array) -> Array:
        """``xi = D^-1 w`` (..., 6), linear and angular (eq. 71, errata 2.9, 2.11)."""
        return self._original(w)

    def unified_velocity(self, xi: Array) -> Array:
        """``w = D xi`` (..., 6) (eqs 18, 54)."""
        return np.matvec(self.matrix, xi)

    def lie_algebra(self, w: Array) -> Array:
        """The 4 x 4 matrix of se(3) that belongs to ``w`` (eq. 70)."""
        return se3.wed(self.body_velocity(w))

    def interpolation_matrix(self, point: Array) -> Array:
        """``N(y)`` (..., 3, 6): the velocity of the body point ``y`` in body coordinates is ``N w`` (eqs 26, 27)."""
        return block([[np.eye(3), transpose(so3.wed(point))]]) @ self.inverse_matrix

    def pose(self, q: Array) -> Array:
        """The homogeneous matrix (..., 4, 4) of body to world."""
        return self._pose.pose(q)

    def from_pose(self, g: Array) -> Array:
        """Coordinates (..., nq) of a homogeneous matrix (..., 4, 4)."""
        return self._pose.from_pose(g)

    @property
    def _pose(self) -> Pose:
        if not isinstance(self.base, Pose):
            raise ModelError(f"the base of a UnifiedPose must be a Pose, got {self.base!r}.")
        return self.base

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        body = Pose().commutation(np.zeros(12))
        gamma = np.einsum("ka,abc,bi,cj->kij", self.matrix, body, self.inverse_matrix, self.inverse_matrix)
        return constant_stacked(gamma, q)


def _hexahedral(lengths: Any = (1.0, 1.0, 1.0)) -> tuple[Floats, Floats]:
    l1, l2, l3 = (float(length) for length in lengths)
    points = [[0, -l2, 0], [0, l2, 0], [0, 0, -l3], [0, 0, l3], [-l1, 0, 0], [l1, 0, 0]]
    axes = np.repeat(np.eye(3), 2, axis=0)
    signs = np.array([1, -1, 1, -1, 1, -1])[:, None]
    return np.array(points, dtype=float), signs * axes / np.sqrt(2)


def _tetrahedral(vertices: Any = None) -> tuple[Floats, Floats]:
    regular = [[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    corners = np.array(regular if vertices is None else vertices, dtype=float)
    if corners.shape != (4, 3):
        raise wrong_shape("vertices of the tetrahedron", (4, 3), corners.shape)
    first, second = np.array(list(combinations(range(4), 2))).T
    edges = corners[second] - corners[first]
    lengths = np.linalg.norm(edges, axis=1, keepdims=True)
    if np.min(lengths) == 0:
        raise ModelError("two vertices of the tetrahedron coincide. Give four points that are not in one plane.")
    return 0.5 * (corners[first] + corners[second]), edges / lengths


_KINDS = {"hexahedral": _hexahedral, "tetrahedral": _tetrahedral}
