"""Equations g(q) = 0 on user-defined coordinates: multipliers, consistent starts, and the way back onto them.

With ``Phi = dg/dq A``, the mass matrix M of the kinetic energy and the acceleration a0 without constraints (eq. 3.24)

    a = a0 + M^-1 Phi^T lam,        lam = -S^+ (Phi a0 + d/dt(Phi) v),        S = Phi M^-1 Phi^T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    concatenate,
    depends_on,
    directional,
    is_symbolic,
    jacobian,
    shape,
    sparse,
    transpose,
)
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError
from heavytop.system import SparseLDL


class UserConstraints:
    """The constraints of a system at symbols q and v.

    Parameters
    ----------
    functions : name -> g(q), called on symbols. mass : (nv, nv) expression.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        functions: Mapping[str, Callable[[Array], Array]],
        q: Array,
        v: Array,
        mass: Array,
    ) -> None:
        self.coordinates, self.q, self.v, self.mass = coordinates, q, v, mass
        self.values = {name: self._value(name, function) for name, function in functions.items()}

    def _value(self, name: str, function: Callable[[Array], Array]) -> Array:
        value = as_array(function(self.q))
        if len(shape(value)) > 1:
            raise ModelError(
                f"constraint {name!r} must return one number or several, got an array of shape {shape(value)}."
            )
        if not is_symbolic(value) or not depends_on(value, self.q):
            raise ModelError(
                f"constraint {name!r} does not depend on the configuration. Write it with q and NumPy functions."
            )
        return value

    @cached_property
    def g(self) -> Array:
        """All equations (m,)."""
        return concatenate(*(np.reshape(value, (-1,) if shape(value) else (1,)) for value in self.values.values()))

    @cached_property
    def Phi(self) -> Array:
        """(m, nv): the rate of g is Phi v."""
        return sparse(jacobian(self.g, self.q) @ self.coordinates.kinematics_matrix(self.q))

    @cached_property
    def velocity(self) -> Array:
        """Phi v (m,)."""
        return np.matvec(self.Phi, self.v)

    @cached_property
    def _released(self) -> Array:
        return sparse(SparseLDL(self.mass).solve(transpose(self.Phi)))

    @cached_property
    def _compliance(self) -> SparseLDL:
        return SparseLDL(self.Phi @ self._released, list(range(shape(self.g)[0])))

    def multipliers(self, free: Array) -> Array:
        """lam (m,) for the acceleration ``free`` (nv,) without constraints."""
        bias = directional(self.velocity, self.q, self.coordinates.rate(self.q, self.v))
        return -self._compliance.solve(np.matvec(self.Phi, free) + bias)

    def acceleration(self, free: Array, lam: Array) -> Array:
        """a0 + M^-1 Phi^T lam (nv,)."""
        return free + np.matvec(self._released, lam)

    def by_name(self, lam: Array) -> dict[str, Array]:
        """The multipliers in the shapes of the equations."""
        result, start = {}, 0
        for name, value in self.values.items():
            size = shape(value)[0] if shape(value) else 1
            result[name] = lam[start : start + size] if shape(value) else lam[start]
            start += size
        return result

    def projected(self) -> tuple[Array, Array]:
        """q one Newton step nearer to g = 0, and v with Phi v = 0, both least in the metric of M."""
        back = np.matvec(self._released, self._compliance.solve(self.g))
        slower = np.matvec(self._released, self._compliance.solve(self.velocity))
        return self.coordinates.retract(self.q, -back), self.v - slower
