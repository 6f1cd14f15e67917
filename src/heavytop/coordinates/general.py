"""User-defined coordinates by two functions: a kinematics matrix ``A(q)`` and constraints ``phi(q)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, Flags, Floats, Seed, as_array, column, from_columns, transpose
from heavytop.compile import Traced, on_symbols, trace
from heavytop.coordinates.base import Coordinates, check_dimension
from heavytop.errors import ConfigurationError, ModelError, wrong_shape

RANK_TOLERANCE = 1e-9
"""Singular values below this times the largest count as zero."""


class GeneralCoordinates(Coordinates):
    """Any configuration coordinates with any velocity coordinates: ``q' = A(q) v`` on ``phi(q) = 0``.

    At construction ``dphi/dq A = 0``, ``rank A = nv`` and ``nq - rank dphi/dq = nv`` (eqs 2.2 to 2.4) are checked on
    sample points. ``retract`` steps along ``A delta`` and returns to the manifold by Newton steps, so steps must be
    moderate; there is no group structure.

    Parameters
    ----------
    kinematics_matrix, constraints : functions of ``q`` in NumPy notation that run on symbols; they return arrays or
        nested lists of shape (nq, nv) and (m,). No constraints: every ``q`` is a configuration.
    nq, nv : numbers of coordinates.
    q_names, v_names, constraint_names : default q_1, v_1, phi_1, ...
    neutral : a configuration (nq,) on the manifold; default: the result of Newton steps from the origin or random
        points.
    samples : configurations (k, nq) for the checks; default: the neutral one and eight random ones.
    newton_steps : number of Newton steps of ``project`` and ``retract``.

    Examples
    --------
    >>> circle = GeneralCoordinates(lambda q: [[-q[1]], [q[0]]], lambda q: [q[0] ** 2 + q[1] ** 2 - 1], nq=2, nv=1)
    >>> circle.retract(np.array([1.0, 0.0]), np.array([1.0])).round(6)
    array([0.707107, 0.707107])
    """

    is_group = False

    def __init__(
        self,
        kinematics_matrix: Callable[[Array], Any],
        constraints: Callable[[Array], Any] | None = None,
        *,
        nq: int,
        nv: int,
        q_names: Sequence[str] | None = None,
        v_names: Sequence[str] | None = None,
        constraint_names: Sequence[str] | None = None,
        neutral: Any = None,
        samples: Any = None,
        newton_steps: int = 6,
    ) -> None:
        for name, value in (("nq", nq), ("nv", nv), ("newton_steps", newton_steps)):
            check_dimension(f"{name} of GeneralCoordinates", value)
        self.q_names = _names("q", nq, q_names)
        self.v_names = _names("v", nv, v_names)
        self._kinematics = _traced("kinematics_matrix", kinematics_matrix, nq)
        shape = self._kinematics.outputs["out"]
        if shape != (nq, nv):
            raise wrong_shape("the result of kinematics_matrix(q)", (nq, nv), shape)
        self._constraints = _traced("constraints", constraints or (lambda q: np.zeros(0)), nq)
        shape = self._constraints.outputs["out"]
        if len(shape) != 1:
            raise wrong_shape("the result of constraints(q)", ("m",), shape)
        self.constraint_names = _names("phi", shape[0], constraint_names)
        self._newton_steps = newton_steps
        self._check_dimension()
        self._neutral = self._find_neutral(neutral)
        self._check_structure(self._samples(samples))

    def __repr__(self) -> str:
        return f"GeneralCoordinates(q = ({', '.join(self.q_names)}), v = ({', '.join(self.v_names)}))"

    def neutral(self) -> Floats:
        return self._neutral.copy()

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        """Standard normal points around the neutral one, projected to the manifold."""
        rng = np.random.default_rng(rng)
        q = self._attempt(self._neutral + rng.standard_normal((*shape, self.nq)))
        for _ in range(30):
            lost = ~self._on_manifold(q)
            if not np.any(lost):
                return q
            q[lost] = self._attempt(self._neutral + rng.standard_normal((int(np.sum(lost)), self.nq)))
        raise ConfigurationError(
            f"Newton steps from 30 random points did not reach phi(q) = 0 of {self!r}. "
            "Give 'neutral' and 'samples', and scale the coordinates to about one."
        )

    def kinematics_matrix(self, q: Array) -> Array:
        return self._kinematics(q)[0]

    def constraints(self, q: Array) -> Array:
        return self._constraints(q)[0]

    def project(self, q: Array) -> Array:
        """Newton steps ``q - Phi^+ phi`` towards the manifold; quadratic, from points near it."""
        for _ in range(self._newton_steps if self.constraint_names else 0):
            q = self._newton(q)
        return q

    def _newton(self, q: Array) -> Array:
        # Phi^T Phi + A A^T is regular also for dependent constraints; its inverse times Phi^T is Phi^+ where Phi A = 0
        phi, a = self.constraint_jacobian(q), self.kinematics_matrix(q)
        force = np.matvec(transpose(phi), self.constraints(q))
        return q - column(np.linalg.solve(transpose(phi) @ phi + a @ transpose(a), from_columns(force)), 0)

    def retract(self, q: Array, delta: Array) -> Array:
        return self.project(q + self.rate(q, delta))

    def difference(self, q0: Array, q1: Array) -> Array:
        """``delta`` with ``retract(q0, delta) = q1`` by iteration, for points that are not far apart. Numbers only."""
        q0, q1 = np.asarray(q0, dtype=float), np.asarray(q1, dtype=float)
        inverse = self.left_inverse(q0)
        delta = np.matvec(inverse, q1 - q0)
        for _ in range(100):
            change = np.matvec(inverse, q1 - self.retract(q0, delta))
            delta = delta + change
            if np.max(np.abs(change), initial=0.0) < 1e-14 * (1 + np.max(np.abs(delta), initial=0.0)):
                break
        gap = float(np.max(np.abs(self.retract(q0, delta) - q1), initial=0.0))
        if not gap < 1e-9:
            raise ConfigurationError(
                f"the difference of two configurations of {self!r} was not found: gap {gap:.3g}. "
                "They are too far apart: take several steps."
            )
        return delta

    def _on_manifold(self, q: Floats) -> Flags:
        return np.all(np.isfinite(q), axis=-1) & np.all(np.abs(self.constraints(q)) < 1e-10, axis=-1)

    def _attempt(self, q: Floats) -> Floats:
        """Many Newton steps from a distant point; the result is not on the manifold if they fail."""
        for _ in range(25 if self.constraint_names else 0):
            try:
                with np.errstate(all="ignore"):
                    q = self._newton(q)
            except np.linalg.LinAlgError:
                return np.full(q.shape, np.nan)
        return q

    def _find_neutral(self, neutral: Any) -> Floats:
        if neutral is not None:
            return self.check(neutral, "neutral")
        self._neutral = np.zeros(self.nq)
        start = self._attempt(self._neutral)
        return start if self._on_manifold(start) else self.random(0)

    def _samples(self, samples: Any) -> Floats:
        if samples is not None:
            return self.check(np.atleast_2d(samples), "samples")
        return np.concatenate([self._neutral[None], self.random(1, (8,))])

    def _check_dimension(self) -> None:
        """Newton steps solve for nq - nv coordinates, so they cannot succeed if the constraints determine fewer."""
        points = np.random.default_rng(2).standard_normal((8, self.nq))
        ranks = [_rank(jacobian) for jacobian in self.constraint_jacobian(points) if np.all(np.isfinite(jacobian))]
        if ranks and max(ranks) < self.nq - self.nv:  # generic points have the largest rank
            raise self._wrong_dimension(self.nq - max(ranks), "")

    def _wrong_dimension(self, dimension: int, where: str) -> ModelError:
        return ModelError(
            f"the manifold has dimension nq - rank dphi/dq = {self.nq} - {self.nq - dimension} = {dimension} (eq. 2.2), "
            f"but nv = {self.nv}{where}. Add or remove constraints or velocity coordinates."
        )

    def _check_structure(self, samples: Floats) -> None:
        for q in samples:
            where = f"at q = {np.array2string(q, precision=4, separator=', ')}"
            a, phi = self.kinematics_matrix(q), self.constraint_jacobian(q)
            if not np.all(np.isfinite(a)):
                raise ModelError(f"kinematics_matrix(q) is not finite {where}.")
            self._check_tangent(a, phi, where)
            rank = _rank(a)
            if rank != self.nv:
                raise ModelError(
                    f"kinematics_matrix(q) must have rank nv = {self.nv}, got {rank} {where}. "
                    "Its columns must be independent: one per velocity coordinate."
                )
            n = self.nq - _rank(phi)
            if n != self.nv:
                raise self._wrong_dimension(n, f" {where}")

    def _check_tangent(self, a: Floats, phi: Floats, where: str) -> None:
        product = np.abs(phi @ a)
        worst = float(np.max(product, initial=0.0))
        if worst > 1e-8 * (1 + np.max(np.abs(phi), initial=0.0) * np.max(np.abs(a), initial=0.0)):
            i, j = (int(k) for k in np.unravel_index(np.argmax(product), product.shape))
            raise ModelError(
                f"kinematics_matrix(q) violates the constraints: dphi/dq A must vanish (eq. 2.4), but "
                f"'{self.v_names[j]}' changes '{self.constraint_names[i]}' at the rate {worst:.3g} {where}."
            )


def _rank(matrix: np.ndarray) -> int:
    return 0 if 0 in matrix.shape else int(np.linalg.matrix_rank(matrix, rtol=RANK_TOLERANCE))


def _names(letter: str, count: int, names: Sequence[str] | None) -> tuple[str, ...]:
    result = tuple(f"{letter}_{i + 1}" for i in range(count)) if names is None else tuple(names)
    if len(result) != count or len(set(result)) != count:
        raise ModelError(f"{count} distinct names are needed for {letter}, got {result}.")
    return result


def _traced(name: str, function: Callable[[Array], Any], nq: int) -> Traced:
    return trace(on_symbols(lambda q: as_array(function(q)), name), {"q": (nq,)}, name=name)
