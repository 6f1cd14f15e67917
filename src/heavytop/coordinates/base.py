"""The interface of coordinates: redundant configurations, minimal velocities, ``q' = A(q) v`` (thesis, section 2.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    Seed,
    column,
    concatenate,
    directional,
    is_symbolic,
    jacobian,
    matrix,
    numbers,
    scale,
    transpose,
)
from heavytop.compile import Traced, trace
from heavytop.errors import ConfigurationError, ModelError, wrong_shape
from heavytop.functions import Value
from heavytop.geometry import linalg

LARGEST = 10**6
"""Largest dimension; the names of more coordinates would fill the memory."""


def check_dimension(what: str, value: int) -> None:
    """Raise a ModelError for a negative or huge number of coordinates."""
    if not 0 <= value <= LARGEST:
        raise ModelError(f"{what} must be from 0 to {LARGEST}, got {value!r}.")


class Coordinates(Value, ABC):
    """Configurations ``q`` (nq) with constraints ``phi(q) = 0`` and velocities ``v`` (nv) with ``q' = A(q) v``.

    Immutable. All methods take NumPy arrays with leading batch axes or symbols, unless they say "numbers only".

    Attributes
    ----------
    q_names, v_names : short names of the components.
    constraint_names : the formula of each entry of ``constraints(q)``.
    is_group : whether ``retract`` is the displacement of a Lie group whose left-invariant velocities are ``v``;
        Munthe-Kaas integrators need it (``tangent_inverse``). Otherwise ``retract`` is any smooth step on the manifold.

    Examples
    --------
    >>> from heavytop.coordinates import Circle
    >>> block = Circle()
    >>> block.nq, block.nv, float(block.constraints(block.neutral())[0])
    (2, 1, 0.0)
    """

    q_names: tuple[str, ...]
    v_names: tuple[str, ...]
    constraint_names: tuple[str, ...] = ()
    is_group: bool = True

    @property
    def q_units(self) -> tuple[str, ...]:
        """Unit of each configuration coordinate; "1" for pure numbers, empty if unknown."""
        return ("1" if self.constraint_names else "",) * self.nq

    @property
    def v_units(self) -> tuple[str, ...]:
        """Unit of each velocity coordinate; empty if unknown."""
        return ("",) * self.nv

    @cached_property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return len(self.q_names)

    @cached_property
    def nv(self) -> int:
        """Number of velocity coordinates: the degrees of freedom."""
        return len(self.v_names)

    @abstractmethod
    def neutral(self) -> Floats:
        """The configuration of no displacement (nq,)."""

    @abstractmethod
    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        """Random configurations (*shape, nq) on the manifold; ``rng`` is a generator or a seed. Numbers only."""

    @abstractmethod
    def kinematics_matrix(self, q: Array) -> Array:
        """``A(q)`` (..., nq, nv) of ``q' = A v`` (eq. 2.4)."""

    def left_inverse(self, q: Array) -> Array:
        """``Y(q)`` (..., nv, nq), the pseudoinverse of ``A``: ``Y A = I``, ``v = Y q'`` (below eq. 2.9)."""
        return linalg.left_inverse(self.kinematics_matrix(q))

    def rate(self, q: Array, v: Array) -> Array:
        """``q' = A(q) v`` (..., nq)."""
        return np.matvec(self.kinematics_matrix(q), v)

    def constraints(self, q: Array) -> Array:
        """``phi(q)`` (..., m), zero on the manifold (eq. 2.1)."""
        return np.zeros(0) if is_symbolic(q) else np.zeros((*np.shape(q)[:-1], 0))

    @abstractmethod
    def retract(self, q: Array, delta: Array) -> Array:
        """Move from ``q`` by the velocity coordinates ``delta`` of any size; on groups ``q o exp(delta)``."""

    def integrate(self, q: Array, v: Array, dt: Array) -> Array:
        """Move with constant velocity coordinates ``v`` for the time ``dt``: ``retract(q, v dt)``."""
        return self.retract(q, scale(dt, v, 1))

    @abstractmethod
    def difference(self, q0: Array, q1: Array) -> Array:
        """``delta`` (..., nv) with ``retract(q0, delta) = q1``: the shortest one."""

    def bracket(self, a: Array, b: Array) -> Array:
        """The Lie bracket ``[a, b]^k = gamma^k_ij a^i b^j`` (..., nv) of two velocities. Groups only."""
        raise self._no_group("bracket")

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        """``delta'`` such that ``retract(q, delta(t))`` moves with velocity ``v`` (Munthe-Kaas). Groups only."""
        raise self._no_group("tangent_inverse")

    def tangent_inverse_truncated(self, delta: Array, v: Array) -> Array:
        """``v + [delta, v] / 2 + [delta, [delta, v]] / 12``: :meth:`tangent_inverse` up to a relative error ``|delta|^4 / 720``.

        It costs a few products and suffices inside one step of a Munthe-Kaas integrator of order four or less. Groups only.
        """
        once = self.bracket(delta, v)
        return v + 0.5 * once + self.bracket(delta, once) / 12

    def _no_group(self, operation: str) -> ModelError:
        return ModelError(
            f"{self!r} is not a Lie group with left-invariant velocities, so it has no {operation}. "
            "Use an integrator that projects (for example 'projected_rk4')."
        )

    def project(self, q: Array) -> Array:
        """The point of the manifold nearest to ``q``, for ``q`` near it; removes rounding and drift."""
        return q

    def constraint_jacobian(self, q: Array) -> Array:
        """``Phi = dphi/dq`` (..., m, nq), exact."""
        return self._constraint_jacobian(q)[0]

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        """Commutation coefficients ``gamma^k_ij`` (eq. 2.19) as (..., nv, nv, nv), indexed [k, i, j].

        On symbols a tuple of nv matrices, so that ``gamma[k][i, j]`` reads the same.
        """
        return evaluate_stacked(self._commutation, q)

    @cached_property
    def _constraint_jacobian(self) -> Traced:
        return trace(self._symbolic_constraint_jacobian, {"q": (self.nq,)}, name="constraint_jacobian")

    def _symbolic_constraint_jacobian(self, q: Array) -> Array:
        phi = self.constraints(q)
        return jacobian(phi, q) if is_symbolic(phi) else np.zeros((phi.shape[0], self.nq))

    @cached_property
    def _commutation(self) -> Traced:
        def coefficients(q: Array) -> Array:
            a = self.kinematics_matrix(q)
            if not is_symbolic(a):  # a constant kinematics matrix: the velocities are rates
                return np.zeros(self.nv**3)
            return stack_flat(commutation_matrices(a, self.left_inverse(q), q))

        return trace(coefficients, {"q": (self.nq,)}, name="commutation")

    def check(self, q: Array, where: str = "q", tolerance: float = 1e-6) -> Floats:
        """Return ``q`` as a float array if it is on the manifold; raise an error otherwise. Numbers only.

        Raises
        ------
        ShapeError
            The last axis does not have nq entries.
        ConfigurationError
            An entry is not finite, or a constraint is violated by more than ``tolerance``.
        """
        q = self._check_entries(q, where)
        self._check_constraints(q, where, tolerance)
        return q

    def _check_entries(self, q: Array, where: str) -> Floats:
        """``q`` as a float array of the right shape with finite entries."""
        q = numbers(q, where)
        if q.ndim == 0 or q.shape[-1] != self.nq:
            raise wrong_shape(where, ("...", self.nq), q.shape, f"The coordinates are {', '.join(self.q_names)}.")
        if not np.isfinite(q).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(q))[0])
            raise ConfigurationError(
                f"{where} must be finite, got {self.q_names[index[-1]]} = {q[index]}{_at(index[:-1])}. "
                "Check its computation."
            )
        return q

    def _check_constraints(self, q: Floats, where: str, tolerance: float) -> None:
        if not self.constraint_names:
            return
        phi = np.abs(self.constraints(q))
        if phi.size == 0 or phi.max() <= tolerance:
            return
        index = tuple(int(i) for i in np.unravel_index(np.argmax(phi), phi.shape))
        raise ConfigurationError(
            f"{where} is off its manifold{_at(index[:-1])}: {self.constraint_names[index[-1]]} = "
            f"{float(self.constraints(q)[index]):.3g} (tolerance {tolerance:g}). {self._remedy(q[index[:-1]])}"
        )

    def _remedy(self, q: Floats) -> str:
        return "Call project(q) if this is rounding or drift."


def _at(index: tuple[int, ...]) -> str:
    """Place in a batch: ' at index (3,)', empty without batch axes."""
    return f" at index {index}" if index else ""


# --- objects with three indices: tuples of matrices on symbols, arrays with three trailing axes on numbers -----------------


def commutation_matrices(kinematics_matrix: Array, left_inverse: Array, q: Array) -> tuple[Array, ...]:
    """Commutation coefficients ``gamma^k_ij = Y^k_a (d_i A_j^a - d_j A_i^a)`` (eq. 2.19, erratum 0.7).

    Returns n symbolic matrices: entry k holds ``gamma^k_ij`` with row i and column j.
    """
    n = kinematics_matrix.shape[1]
    # W_i[k, j] = Y^k_a d_i A_j^a
    w = [left_inverse @ directional(kinematics_matrix, q, column(kinematics_matrix, i)) for i in range(n)]
    raw = [matrix([[w[i][k, j] for j in range(n)] for i in range(n)]) for k in range(n)]
    return tuple(t - transpose(t) for t in raw)


def stack_flat(matrices: Sequence[Array]) -> Array:
    """Join matrices into one vector, so that a traced function can return them."""
    if not matrices:
        return np.zeros(0)
    return concatenate(*(np.reshape(m, (m.shape[0] * m.shape[1],)) for m in matrices))


def evaluate_stacked(traced: Traced, *arguments: Array) -> Array | tuple[Array, ...]:
    """Evaluate a traced :func:`stack_flat` of n square matrices: (..., n, n, n) on numbers, n matrices on symbols."""
    (flat,) = traced(*arguments)
    n = round(flat.shape[-1] ** (1 / 3))
    if is_symbolic(flat):
        return tuple(np.reshape(flat[k * n * n : (k + 1) * n * n], (n, n)) for k in range(n))
    return flat.reshape((*flat.shape[:-1], n, n, n))


def constant_stacked(coefficients: Floats, q: Array) -> Array | tuple[Array, ...]:
    """A constant array (n, n, n), with the batch axes of ``q``, or as a tuple of matrices for symbols."""
    if is_symbolic(q):
        return tuple(coefficients)
    return np.broadcast_to(coefficients, np.shape(q)[:-1] + coefficients.shape).copy()
