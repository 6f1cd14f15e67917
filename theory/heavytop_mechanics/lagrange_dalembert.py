"""The Lagrange-d'Alembert principle (thesis, eqs 3.10, 3.23): the lost forces do no virtual work.

    sum_p <delta r_p, F_p^A - m_p r_p''> = 0      for every admissible delta r_p = d_i r_p h^i

Kane's projection, the Newton-Euler equations of bodies and the principle of virtual power are the same statement for other carriers of
mass: project the accelerations, masses and forces of any of them with their Jacobian.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, transpose
from heavytop_mechanics.functions import Evaluator, shapes, solve
from heavytop_mechanics.particles import ParticleSystem


def virtual_power(system: ParticleSystem) -> Evaluator:
    """``sum_p <d_i r_p h^i, F_p^A - m_p r_p''>`` at (q, v, a, h, t): zero for all ``h`` exactly on motions (eq. 3.23).

    Examples
    --------
    >>> from heavytop import vector
    >>> from heavytop.coordinates import Circle
    >>> pendulum = ParticleSystem(Circle(), [2.0], lambda q: [vector(q[0], q[1], 0.0)], gravity=(9.81, 0, 0))
    >>> abs(float(virtual_power(pendulum)([0.0, 1.0], [5.0], [-9.81], [1.0])))
    0.0
    """

    def expression(q: Array, v: Array, a: Array, h: Array, t: Array) -> Array:
        lost = system.applied_forces(q, v, t) - system.weighted(system.acceleration_of_particles(q, v, a, t))
        displacement = np.matvec(system.jacobian(q, t), h)
        return np.vecdot(displacement, np.reshape(lost, (3 * system.count,)))

    return Evaluator(expression, shapes(system.coordinates, "q v a h t"), "virtual_power")


def project(jacobian: Array, mass: Array, drift: Array, force: Array) -> tuple[Array, Array]:
    """``(J^T W J, J^T (f - W drift))`` of carriers with accelerations ``J a + drift``: the projected equations ``M a = b``.

    Parameters
    ----------
    jacobian : (..., k, nv). mass : ``W`` (..., k, k). drift : (..., k). force : (..., k), gyroscopic terms included.
    """
    back = transpose(jacobian)
    return back @ mass @ jacobian, np.matvec(back, force - np.matvec(mass, drift))


def acceleration(jacobian: Array, mass: Array, drift: Array, force: Array) -> Array:
    """The acceleration (..., nv) of :func:`project`; numbers or symbols.

    Examples
    --------
    A mass that slides down a slope of 3 in 4:

    >>> slope = np.array([[0.8], [-0.6]])
    >>> acceleration(slope, 2.0 * np.eye(2), np.zeros(2), np.array([0.0, -2.0 * 9.81]))
    array([5.886])
    """
    return solve(*project(jacobian, mass, drift, force))


def particle_acceleration(system: ParticleSystem, q: Array, v: Array, t: Array = 0.0) -> Array:
    """The acceleration (..., nv) for which the virtual power vanishes for every ``h``, found from its gradient with respect to h."""
    n = system.coordinates.nv
    principle = virtual_power(system)
    basis = np.eye(n)
    q, v = np.asarray(q, dtype=float)[..., None, :], np.asarray(v, dtype=float)[..., None, :]
    right = principle(q, v, np.zeros(n), basis, t)  # (..., n): one equation per direction h
    columns = [right - principle(q, v, basis[j], basis, t) for j in range(n)]
    return solve(np.stack(columns, axis=-1), right)
