"""Computed torque in minimal coordinates: the baseline (eqs 1.4, 1.5 of the thesis).

u = B^-1 (M (q_R'' - L1 (q' - q_R') - L0 (q - q_R)) + b): the error obeys e'' + L1 e' + L0 e = 0. It needs as many inputs as degrees of
freedom and coordinates whose rates are the velocities; with Euler angles it fails at their singularity. It reports a singular B or M.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, shape
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.law import FeedbackLaw
from heavytop.control.laws.law_checks import check_tree
from heavytop.control.linear.linearised_loop import sample_configurations
from heavytop.errors import ControlError, wrong_shape
from heavytop.system import Expressions, Model

SINGULAR = 1e-11
"""Distance of a row of B from the previous rows, or pivot of M, below which a matrix counts as singular; relative to its size elsewhere."""

CAUSES = (
    "the input matrix B is singular: some force has no input. Steer the motion around it, or use energy_law, which projects.",
    "the mass matrix M is singular: some force has no acceleration. Give every joint a mass to move.",
)


class ComputedTorque(FeedbackLaw):
    """The law of :func:`computed_torque`.

    Its function has the outputs u and ``status``: 0, or 1 where B and 2 where M is singular; u is NaN there.
    """

    def __init__(
        self, model: Model, damping: np.ndarray, stiffness: np.ndarray, sizes: tuple[Floats, Floats, Floats]
    ) -> None:
        self.kind, self.model, self.damping, self.stiffness = "computed_torque", model, damping, stiffness
        self._rows, self._columns, self._masses = sizes

    @cached_property
    def traced_law(self) -> Traced:
        actual, desired = self.model.expressions, Expressions(self.model.description)
        d = actual.dynamics
        error, rate = actual.q - desired.q, actual.v - desired.v
        wanted = desired.a - np.matvec(self.damping, rate) - np.matvec(self.stiffness, error)
        force = np.matvec(d.mass_matrix, wanted) + d.passive_force
        u = np.linalg.solve(d.input_matrix, force)
        B = d.input_matrix / self._rows[:, None] / self._columns
        M = d.mass_matrix / np.sqrt(self._masses[:, None] * self._masses)
        status = np.where(least_distance(B) <= SINGULAR, 1.0, np.where(least_pivot(M) <= SINGULAR, 2.0, 0.0))
        u = np.where(status > 0.0, np.nan, u)
        inputs = {"q": actual.q, "v": actual.v, "q_R": desired.q, "v_R": desired.v, "a_R": desired.a, "p": actual.p}
        return trace_of("computed_torque", inputs, {"u": u, "status": status})

    @property
    def causes(self) -> tuple[str, ...]:
        return CAUSES

    def _numbers(self, arguments: Sequence[Array]) -> np.ndarray:
        u, status = self._kernel(*arguments)
        if np.any(status > 0):
            first = np.argwhere(status > 0)[0]
            cause = CAUSES[round(float(status[tuple(first)])) - 1]
            q = np.broadcast_to(arguments[0], (*status.shape, self.model.nq))[tuple(first)]
            raise ControlError(
                f"computed torque of {self.model.name!r} at q = {np.array2string(q, precision=4)}: {cause}"
            )
        return u


def least_distance(matrix: Array) -> Array:
    """The least distance of a row of a matrix (n, n) from the span of the previous rows (Gram-Schmidt); 0 up to rounding if it is singular.

    >>> float(least_distance(np.array([[2.0, 0.0], [1.0, 3.0]])))
    2.0
    >>> bool(least_distance(np.array([[1.0, 1.0], [1.0, 1.0]])) < 1e-15)
    True
    """
    directions: list[Array] = []
    least: Array = np.asarray(np.inf)
    for i in range(shape(matrix)[0]):
        row = matrix[i]
        for direction in 2 * directions:  # twice is enough against rounding
            row = row - np.vecdot(direction, row) * direction
        length = np.sqrt(np.vecdot(row, row))
        least = np.minimum(least, length)
        directions.append(np.where(length > 0.0, row / np.where(length > 0.0, length, 1.0), 0.0))
    return least


def least_pivot(matrix: Array) -> Array:
    """The least pivot of a symmetric positive semidefinite matrix (n, n); pivots after a zero one do not count.

    >>> float(least_pivot(np.array([[2.0, 1.0], [1.0, 0.5]])))
    0.0
    """
    n = shape(matrix)[0]
    rows = [[matrix[i, j] for j in range(n)] for i in range(n)]
    least: Array = np.asarray(np.inf)
    for k in range(n):
        pivot = rows[k][k]
        least = np.minimum(least, pivot)
        inverse = np.where(pivot > 0.0, 1.0 / np.where(pivot > 0.0, pivot, 1.0), 0.0)
        for i in range(k + 1, n):
            factor = rows[i][k] * inverse
            for j in range(k + 1, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
    return least


def computed_torque(model: Model, *, stiffness: Any, damping: Any) -> ComputedTorque:
    """Computed torque with error equation e'' + L1 e' + L0 e = 0.

    Parameters
    ----------
    model : with minimal coordinates (q' = v) and as many inputs as degrees of freedom.
    stiffness, damping : L0 (1/s^2) and L1 (1/s): numbers, (n,) diagonals or (n, n) matrices.

    Raises
    ------
    ControlError
        The coordinates are not minimal, B is not square, or B or M is singular in the neutral or in random configurations, or where the law is
        called. A simulation ends there with the outcome ``controller_failed``; native code reports it by ``status``.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> law = computed_torque(model, stiffness=1.0, damping=2.0)
    >>> u = law(np.array([0.1]), np.zeros(1), np.zeros(1))
    >>> float(model.acceleration([0.1], [0.0], u)[0].round(12))
    -0.1
    """
    check_tree(model, "computed torque")
    n = model.nv
    if model.nq != n or not np.allclose(model.kinematics_matrix(model.random(0)), np.eye(n)):
        raise ControlError(
            f"computed torque needs minimal coordinates with q' = v; {model.name!r} has nq = {model.nq}, nv = {n}. Use energy_law instead."
        )
    if model.nu != n:
        raise ControlError(
            f"computed torque needs as many inputs as degrees of freedom; {model.name!r} has {model.nu} inputs for {n}. "
            "Use energy_law instead, which projects."
        )
    return ComputedTorque(model, _gain(damping, n, "damping"), _gain(stiffness, n, "stiffness"), _sizes(model))


def _sizes(model: Model) -> tuple[Floats, Floats, Floats]:
    """Sizes of the rows and columns of B and of the diagonal of M, the largest over sample configurations; raises where B or M is singular."""
    configurations = sample_configurations(model)
    B, M = model.input_matrix(configurations), model.mass_matrix(configurations)
    rows = np.linalg.norm(B, axis=2).max(axis=0)
    masses = np.diagonal(M, axis1=1, axis2=2).max(axis=0)
    rows, masses = np.where(rows > 0, rows, 1.0), np.where(masses > 0, masses, 1.0)
    columns = np.linalg.norm(B / rows[:, None], axis=1).max(axis=0)
    columns = np.where(columns > 0, columns, 1.0)
    for q, b, m in zip(configurations, B / rows[:, None] / columns, M / np.sqrt(masses[:, None] * masses), strict=True):
        for what, least in (("mass matrix M", least_pivot(m)), ("input matrix B", least_distance(b))):
            if not least > SINGULAR:
                raise ControlError(
                    f"computed torque of {model.name!r}: the {what} is singular at q = {np.array2string(q, precision=4)}."
                )
    return rows, columns, masses


def _gain(value: Any, n: int, what: str) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.ndim < 2:
        if array.shape not in ((), (n,)):
            raise wrong_shape(f"{what} of computed torque", (n,), array.shape)
        return np.diag(np.broadcast_to(array, (n,)))
    if array.shape != (n, n):
        raise wrong_shape(f"{what} of computed torque", (n, n), array.shape)
    return array
