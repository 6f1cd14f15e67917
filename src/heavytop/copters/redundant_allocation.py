"""Allocation of redundant rotors: the law computes the wrench, which is shared among the rotors.

With W (6, n) of rank r the wrench per input, W = U S V^T: the law is made for r virtual inputs w, the amplitudes of the columns of U,
and the rotors get the least thrusts for them, u = V S^-1 w. If a rotor reaches a limit, the others compensate as far as possible:
min (u - u*)^T (C^T H C + sigma Z Z^T) (u - u*) with C = S V^T, H the metric of the virtual inputs (torque priority included) and Z the
null space of W, in which moving thrusts costs (almost) nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import finite_matrix
from heavytop.compile import Traced, trace_of
from heavytop.control import FeedbackLaw, Law, box_qp
from heavytop.errors import ControlError
from heavytop.ocp import Limits

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

FREE_MOTION = 1e-4
"""Weight of motions in the null space relative to the smallest weight of the wrench."""


def independent(wrenches: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (6, r), C (r, n) = S V^T and Z (n, n - r) of a matrix W (6, n) of rank r.

    >>> U, C, Z = independent(np.array([[1.0, 1.0]] + [[0.0, 0.0]] * 5))
    >>> U.shape, C.shape, Z.shape
    ((6, 1), (1, 2), (2, 1))
    """
    U, s, Vt = np.linalg.svd(finite_matrix(wrenches, "the wrenches of the rotors"))
    rank = int(np.sum(s > 1e-9 * s[0]))
    return U[:, :rank], s[:rank, None] * Vt[:rank], Vt[rank:].T


class RedundantLaw(FeedbackLaw):
    """A law with its wrench shared among the rotors of a vehicle. Made by :meth:`.Vehicle.law`."""

    def __init__(self, vehicle: Vehicle, inner: FeedbackLaw, limits: Limits | None) -> None:
        if not isinstance(inner, Law):
            raise ControlError(f"a redundant law needs a law with a prototype, got {inner!r}.")
        self.vehicle, self.inner, self.limits = vehicle, inner, limits
        self.kind, self.model, self.prototype = inner.kind, vehicle.model, inner.prototype

    @property
    def state_size(self) -> int:
        """Number of integrals."""
        return self.inner.state_size

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of q, v, q_R, v_R, a_R, p and, with integral action, z."""
        from heavytop.copters.vehicle import wrench_matrix

        _, C, Z = independent(wrench_matrix(self.vehicle.airframe.rotors))
        symbols = self.inner.symbols()
        w, *more = self.inner.traced_law.expressions(*symbols.values())
        u = np.matvec(np.linalg.pinv(C), w)
        if self.limits is not None:
            projection = self.inner.projection
            weight = projection.weight(projection.directions, self.limits)
            least = float(np.min(np.linalg.norm(C, axis=1))) ** 2
            metric = C.T @ weight @ C + FREE_MOTION * least * (Z @ Z.T)
            u = box_qp(metric, u, *self.limits.bounds(self.model))
        return trace_of(f"{self.kind}_law", symbols, {"u": u, **({"z_rate": more[0]} if more else {})})
