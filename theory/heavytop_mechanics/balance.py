"""Energy balances (thesis, section 3.2.7, eqs 3.41 to 3.47).

The energy of a system without explicit time (skleronomic) changes by forces and friction alone: ``W' = v . (f^E - f^D)`` (eq. 3.44).
With explicit time (rheonomic) the moving constraints and potentials do work too, and the Hamiltonian is not the total energy.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array
from heavytop.coordinates import Coordinates
from heavytop_mechanics.functions import Evaluator, Function, applied, scalar_function, shapes, time_derivative
from heavytop_mechanics.particles import ParticleSystem


def power(coordinates: Coordinates, force: Function | None = None, dissipation: Function | None = None) -> Evaluator:
    """``v . (f^E - f^D)`` as a function of (q, v, t): the energy rate of a skleronomic system (eq. 3.44).

    Examples
    --------
    >>> from heavytop.coordinates import Vector
    >>> float(power(Vector(1), dissipation=lambda q, v: 0.5 * v[0] ** 2)([0.0], [3.0]))
    -9.0
    """
    total = applied(coordinates, force, dissipation)
    return Evaluator(lambda q, v, t: np.vecdot(v, total(q, v, t)), shapes(coordinates, "q v t"), "power")


def hamiltonian_rate(
    coordinates: Coordinates, lagrangian: Function, force: Function | None = None, dissipation: Function | None = None
) -> Evaluator:
    """``H' = v . (f^E - f^D) - dL/dt`` on motions, a function of (q, v, t) (eqs 2.39, 3.47)."""
    energy, total = scalar_function(lagrangian, 2, "a Lagrangian"), applied(coordinates, force, dissipation)

    def rate(q: Array, v: Array, t: Array) -> Array:
        return np.vecdot(v, total(q, v, t)) - time_derivative(energy(q, v, t), t)[0]

    return Evaluator(rate, shapes(coordinates, "q v t"), "hamiltonian_rate")


def kinetic_rate(system: ParticleSystem) -> Evaluator:
    """``T' = v . f^M + sum_p m_p <dr_p/dt, r_p''>`` as a function of (q, v, a, t) (eq. 3.41)."""

    def rate(q: Array, v: Array, a: Array, t: Array) -> Array:
        explicit = system.weighted(system.explicit_velocity(q, t)) * system.acceleration_of_particles(q, v, a, t)
        return np.vecdot(v, system.inertia_force(q, v, a, t)) + np.sum(explicit)

    return Evaluator(rate, shapes(system.coordinates, "q v a t"), "kinetic_rate")


def potential_rate(system: ParticleSystem) -> Evaluator:
    """``V' = v . f^V + dV/dt`` as a function of (q, v, t) (eq. 3.42)."""

    def rate(q: Array, v: Array, t: Array) -> Array:
        return np.vecdot(v, system.potential_force(q, t)) + time_derivative(system.potential_energy(q, t), t)

    return Evaluator(rate, shapes(system.coordinates, "q v t"), "potential_rate")


def energy_rate(system: ParticleSystem) -> Evaluator:
    """``W' = v . (f^M + f^V) + sum_p m_p <dr_p/dt, r_p''> + dV/dt`` as a function of (q, v, a, t) (eq. 3.43).

    On motions ``f^M + f^V = f^E - f^D``, so this is the power of forces, friction, moving constraints and moving potentials.
    """
    kinetic, potential = kinetic_rate(system), potential_rate(system)

    def rate(q: Array, v: Array, a: Array, t: Array) -> Array:
        return kinetic(q, v, a, t) + potential(q, v, t)

    return Evaluator(rate, shapes(system.coordinates, "q v a t"), "energy_rate")


def hamiltonian(system: ParticleSystem) -> Evaluator:
    """``H = T + V - sum_p m_p <dr_p/dt, r_p'>`` as a function of (q, v, t) (eq. 3.46): not T + V when constraints move."""

    def value(q: Array, v: Array, t: Array) -> Array:
        moving = system.weighted(system.explicit_velocity(q, t)) * system.velocity_of_particles(q, v, t)
        return system.kinetic_energy(q, v, t) + system.potential_energy(q, t) - np.sum(moving)

    return Evaluator(value, shapes(system.coordinates, "q v t"), "particle_hamiltonian")
