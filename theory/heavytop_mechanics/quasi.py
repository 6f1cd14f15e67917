"""User-defined velocity coordinates: ``q' = A(q) v`` with any matrix, also for nonholonomic systems.

Gibbs-Appell, d'Alembert and the moving frame method need only ``A``. Euler-Lagrange, Hamilton and Levi-Civita also need the
commutation coefficients, which exist only when ``v`` describes every motion of ``q`` (``complete``): nonholonomic constraints
must not be inserted into the Lagrangian before it is differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop._arrays import Array, Seed, as_array
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError
from heavytop_mechanics.functions import Function


class QuasiCoordinates(Coordinates):
    """Coordinates ``q`` with velocities ``v`` given by the kinematics matrix alone.

    Parameters
    ----------
    q_names, v_names : names of the components.
    kinematics : ``A(q)`` (nq, nv) in NumPy notation.
    left_inverse : ``Y(q)`` (nv, nq), the pseudoinverse of A, where a closed form is known.
    complete : whether ``A v`` reaches every motion of ``q``; False for nonholonomic constraints.

    Examples
    --------
    A skate: position, heading; speed and turning rate.

    >>> from heavytop import matrix
    >>> def skate(q):
    ...     return matrix([[np.cos(q[2]), 0], [np.sin(q[2]), 0], [0, 1]])
    >>> coordinates = QuasiCoordinates(("x", "y", "heading"), ("speed", "turn"), skate, complete=False)
    >>> coordinates.rate(np.zeros(3), np.array([2.0, 1.0]))
    array([2., 0., 1.])
    """

    def __init__(
        self,
        q_names: Sequence[str],
        v_names: Sequence[str],
        kinematics: Function,
        left_inverse: Function | None = None,
        complete: bool = True,
    ) -> None:
        self._q_names, self._v_names = tuple(q_names), tuple(v_names)
        self._kinematics, self._left_inverse, self.complete = kinematics, left_inverse, complete

    def __repr__(self) -> str:
        return f"QuasiCoordinates({', '.join(self._v_names)})"

    @property
    def q_names(self) -> tuple[str, ...]:
        return self._q_names

    @property
    def v_names(self) -> tuple[str, ...]:
        return self._v_names

    @property
    def is_group(self) -> bool:
        return False

    def kinematics_matrix(self, q: Array) -> Array:
        return as_array(self._kinematics(as_array(q)))

    def left_inverse(self, q: Array) -> Array:
        return super().left_inverse(q) if self._left_inverse is None else as_array(self._left_inverse(as_array(q)))

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        if not self.complete:
            raise ModelError(
                f"{self!r} leaves out motions (nonholonomic constraints), so it has no commutation coefficients. Use Gibbs-Appell, the "
                "moving frame method or multipliers."
            )
        return super().commutation(q)

    def neutral(self) -> np.ndarray:
        return np.zeros(self.nq)

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Not defined: the manifold is not known."""
        raise ModelError(f"{self!r} has no manifold, so it has no random configurations.")

    def retract(self, q: Array, delta: Array) -> Array:
        """A step along ``A(q) delta``, correct to first order."""
        return q + np.matvec(self.kinematics_matrix(q), delta)

    def difference(self, q0: Array, q1: Array) -> Array:
        """``Y(q0) (q1 - q0)``, correct to first order."""
        return np.matvec(self.left_inverse(q0), q1 - q0)
