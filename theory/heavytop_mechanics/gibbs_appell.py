"""Gibbs-Appell: the inertia force is the gradient of the acceleration energy (thesis, eqs 3.29, 3.30, errata 0.24, 0.26).

    f^M_i = dS/da^i,      S = 1/2 sum_p m_p |r_p''|^2,      f^M + f^V + f^D = f^E

It needs no commutation coefficients and no distinction between holonomic and nonholonomic velocities: only accelerations.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, jacobian, substitute, symbol
from heavytop.coordinates import Coordinates
from heavytop_mechanics.functions import (
    Acceleration,
    Evaluator,
    Function,
    acceleration_of,
    gradient,
    scalar_function,
    shapes,
)


def inertia_force(coordinates: Coordinates, acceleration_energy: Function) -> Evaluator:
    """``f^M = dS/da`` as a function of (q, v, a, t) (eq. 3.30).

    Parameters
    ----------
    acceleration_energy : ``S(q, v, a)`` or ``S(q, v, a, t)``; terms without ``a`` do not matter.

    Examples
    --------
    >>> from heavytop.coordinates import Vector
    >>> inertia_force(Vector(1), lambda q, v, a: 0.5 * a[0] ** 2)([0.0], [0.0], [3.0])
    array([3.])
    """
    energy = scalar_function(acceleration_energy, 3, "an acceleration energy")
    return Evaluator(lambda q, v, a, t: gradient(energy(q, v, a, t), a), shapes(coordinates, "q v a t"), "gibbs_appell")


def acceleration(
    coordinates: Coordinates,
    acceleration_energy: Function,
    potential: Function | None = None,
    force: Function | None = None,
    dissipation: Function | None = None,
) -> Acceleration:
    """The acceleration ``a(q, v, t)`` of ``dS/da + dV + dR/dv = f^E``.

    Examples
    --------
    >>> from heavytop.coordinates import Circle
    >>> circle = acceleration(Circle(), lambda q, v, a: 0.5 * (a[0] ** 2 + v[0] ** 4), lambda q: -9.81 * q[0])
    >>> circle([0.0, 1.0], [3.0])
    array([-9.81])
    """
    gradient_of_energy, n = inertia_force(coordinates, acceleration_energy), coordinates.nv

    def inertia(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
        a = symbol("a", n)
        f = gradient_of_energy(q, v, a, t)
        return substitute(jacobian(f, a), a, np.zeros(n)), substitute(f, a, np.zeros(n))  # S is quadratic in a

    return acceleration_of("gibbs_appell", coordinates, inertia, potential, force, dissipation)
