"""Computed torque in minimal coordinates: the baseline (eqs 1.4, 1.5 of the thesis).

u = B^-1 (M (q_R'' - L1 (q' - q_R') - L0 (q - q_R)) + b): the error obeys e'' + L1 e' + L0 e = 0. It needs as many inputs as degrees of
freedom and coordinates whose rates are the velocities; with Euler angles it fails at their singularity.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from heavytop.compile import Traced, trace_of
from heavytop.control.checks import check_tree
from heavytop.control.law import FeedbackLaw
from heavytop.errors import ControlError, wrong_shape
from heavytop.system.expressions import Expressions
from heavytop.system.model import Model


class ComputedTorque(FeedbackLaw):
    """The law of :func:`computed_torque`."""

    def __init__(self, model: Model, damping: np.ndarray, stiffness: np.ndarray) -> None:
        self.kind, self.model, self.damping, self.stiffness = "computed_torque", model, damping, stiffness

    @cached_property
    def traced_law(self) -> Traced:
        actual, desired = self.model.expressions, Expressions(self.model.description)
        d = actual.dynamics
        error, rate = actual.q - desired.q, actual.v - desired.v
        wanted = desired.a - np.matvec(self.damping, rate) - np.matvec(self.stiffness, error)
        force = np.matvec(d.mass_matrix, wanted) + d.passive_force
        B = d.input_matrix
        u = np.linalg.solve(B, force)
        inputs = {"q": actual.q, "v": actual.v, "q_R": desired.q, "v_R": desired.v, "a_R": desired.a, "p": actual.p}
        return trace_of("computed_torque", inputs, {"u": u})


def computed_torque(model: Model, damping: Any, stiffness: Any) -> ComputedTorque:
    """Computed torque with error equation e'' + L1 e' + L0 e = 0.

    Parameters
    ----------
    model : with minimal coordinates (q' = v) and as many inputs as degrees of freedom.
    damping, stiffness : L1 (1/s) and L0 (1/s^2): numbers, (n,) diagonals or (n, n) matrices.

    Raises
    ------
    ControlError
        The coordinates are not minimal, B is not square or singular, or M is singular, in the neutral or in random configurations.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> law = computed_torque(model, damping=2.0, stiffness=1.0)
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
    for q in (model.neutral(), *model.random(0, (3,))):
        for what, matrix in (("mass matrix M", model.mass_matrix(q)), ("input matrix B", model.input_matrix(q))):
            if not np.linalg.cond(matrix) < 1e12:
                raise ControlError(
                    f"computed torque of {model.name!r}: the {what} is singular at q = {np.array2string(q, precision=4)}."
                )
    return ComputedTorque(model, _gain(damping, n, "damping"), _gain(stiffness, n, "stiffness"))


def _gain(value: Any, n: int, what: str) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.ndim < 2:
        if array.shape not in ((), (n,)):
            raise wrong_shape(f"{what} of computed torque", (n,), array.shape)
        return np.diag(np.broadcast_to(array, (n,)))
    if array.shape != (n, n):
        raise wrong_shape(f"{what} of computed torque", (n, n), array.shape)
    return array
