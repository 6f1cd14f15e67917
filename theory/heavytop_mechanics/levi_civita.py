"""The connection form of the equations of motion (thesis, eqs 3.32 to 3.36).

    M_ij a^j + Gamma_ijk v^j v^k + d_i V + dR/dv^i = f_i

with the Levi-Civita connection of the metric M in any velocities, also nonholonomic ones (eq. 3.35). For rates of minimal coordinates
Gamma are the Christoffel symbols (eq. 3.36).
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, as_array, is_symbolic, jacobian
from heavytop.coordinates import Coordinates
from heavytop_mechanics.calculus import connection_coefficients, connection_matrices
from heavytop_mechanics.functions import (
    Acceleration,
    Evaluator,
    Function,
    acceleration_of,
    gradient,
    scalar_function,
    shapes,
)


def _quadratic_force(coordinates: Coordinates, metric: Function, q: Array, v: Array) -> tuple[Array, Array]:
    """``M`` and ``Gamma_ijk v^j v^k``. Symbols."""
    mass = as_array(metric(q))
    gamma = tuple(coordinates.commutation(q))
    connection = connection_matrices(mass, gamma, as_array(coordinates.kinematics_matrix(q)), q)
    return mass, np.stack([np.vecdot(v, np.matvec(matrix, v)) for matrix in connection])


def connection(coordinates: Coordinates, metric: Function, q: Array) -> Array | tuple[Array, ...]:
    """``Gamma_ijk`` of a metric ``M(q)`` (eq. 3.35), (..., nv, nv, nv) indexed [i, j, k].

    Examples
    --------
    Polar coordinates (r, phi): the centrifugal force is ``Gamma_122 = -r``.

    >>> from heavytop import matrix
    >>> from heavytop.coordinates import Vector
    >>> float(connection(Vector(2), lambda q: matrix([[1, 0], [0, q[0] ** 2]]), np.array([3.0, 0.0]))[0, 1, 1])
    -3.0
    """
    return connection_coefficients(coordinates, metric, q)


def bias(coordinates: Coordinates, metric: Function) -> Evaluator:
    """The velocity-dependent inertia force ``Gamma_ijk v^j v^k`` (nv,) as a function of (q, v, t)."""
    return Evaluator(
        lambda q, v, t: _quadratic_force(coordinates, metric, q, v)[1], shapes(coordinates, "q v t"), "levi_civita"
    )


def acceleration(
    coordinates: Coordinates,
    metric: Function,
    potential: Function | None = None,
    force: Function | None = None,
    dissipation: Function | None = None,
) -> Acceleration:
    """The acceleration ``a(q, v, t)`` of a system with kinetic energy ``v . M(q) v / 2``. Without forces: geodesics.

    Examples
    --------
    >>> from heavytop.coordinates import Rotation
    >>> free = acceleration(Rotation(), lambda q: np.diag([1.0, 2.0, 3.0]))
    >>> free(Rotation().neutral(), [1.0, 1.0, 1.0])
    array([-1.        ,  1.        , -0.33333333])
    """

    def inertia(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
        return _quadratic_force(coordinates, metric, q, v)

    return acceleration_of("levi_civita", coordinates, inertia, potential, force, dissipation)


def metric_of(coordinates: Coordinates, kinetic: Function) -> Function:
    """The metric ``M(q) = d^2 T / dv dv`` of a kinetic energy ``T(q, v)`` quadratic in v, for :func:`acceleration`."""
    energy = scalar_function(kinetic, 2, "a kinetic energy")
    evaluator = Evaluator(
        lambda q, v, t: jacobian(gradient(energy(q, v, t), v), v), shapes(coordinates, "q v t"), "metric"
    )

    def metric(q: Array) -> Array:
        zero = np.zeros(coordinates.nv)
        return evaluator(q, zero if is_symbolic(q) else zero + np.zeros((*np.shape(q)[:-1], 1)))

    return metric
