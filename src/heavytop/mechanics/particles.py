"""Systems of particles whose positions ``r_p(q, t)`` follow from coordinates (thesis, sections 3.1 and 3.2, eqs 3.1 to 3.47).

Masses, gravity, springs to the ground and between particles, viscous friction in a moving fluid, external forces, explicit time.
Every quantity is a function of (q, v, a, t) for numbers or symbols, so each formalism can take it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, is_symbolic, jacobian, transpose
from heavytop._pickling import Unchanging
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError, wrong_shape
from heavytop.mechanics.functions import (
    Acceleration,
    Evaluator,
    Function,
    along,
    gradient,
    scalar,
    shapes,
    time_derivative,
    timed,
)


@dataclass(frozen=True)
class ParticleSpring:
    """A linear spring of stiffness ``k`` (N/m) and rest length zero between particle ``first`` and an anchor (eqs 3.38, 3.39).

    ``anchor`` is the index of another particle, a fixed point (3,) or a function of the time that gives one.

    >>> ParticleSpring(10.0, first=0, anchor=(0.0, 0.0, 1.0)).k
    10.0
    """

    k: float
    first: int
    anchor: Any


@dataclass(frozen=True)
class Drag:
    """Viscous friction ``d`` (N s/m) of one particle in a fluid of velocity ``fluid`` (3,), or a function of time (eq. 3.40).

    >>> Drag(0.5, particle=0, fluid=(1.0, 0.0, 0.0)).d
    0.5
    """

    d: float
    particle: int
    fluid: Any = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class ParticleSystem(Unchanging):
    """Particles at ``positions(q, t)`` (n, 3) with ``masses`` (n,), moved by coordinates.

    Parameters
    ----------
    coordinates : the coordinates of the configuration.
    masses : (n,) in kg.
    positions : function of q, or of (q, t), that gives (n, 3) in m: an array or a list of n vectors.
    gravity : acceleration (3,) of free fall in m/s^2.
    springs, drags : force elements.
    force : external forces on the particles, a function of (q, v) or (q, v, t) that gives (n, 3) in N.

    Examples
    --------
    >>> from heavytop import vector
    >>> from heavytop.coordinates import Circle
    >>> pendulum = ParticleSystem(Circle(), [2.0], lambda q: [vector(q[0], q[1], 0.0)], gravity=(9.81, 0, 0))
    >>> pendulum.acceleration([0.0, 1.0], [0.0])
    array([-9.81])
    """

    coordinates: Coordinates
    masses: Any
    positions: Function
    gravity: Any = (0.0, 0.0, 0.0)
    springs: Sequence[ParticleSpring] = field(default=())
    drags: Sequence[Drag] = field(default=())
    force: Function | None = None

    def __post_init__(self) -> None:
        masses, gravity = np.array(self.masses, dtype=float), np.array(self.gravity, dtype=float)
        if masses.ndim != 1 or len(masses) == 0:
            raise wrong_shape("masses of a particle system", ("n",), masses.shape)
        if not np.all(np.isfinite(masses)) or np.any(masses < 0):
            raise ModelError(f"masses of particles must be finite and not negative, got {masses.tolist()}.")
        if gravity.shape != (3,):
            raise wrong_shape("gravity of a particle system", (3,), gravity.shape)
        for element, index in [(s, s.first) for s in self.springs] + [(d, d.particle) for d in self.drags]:
            if not 0 <= index < len(masses):
                raise ModelError(f"{element} names particle {index}, but the particles are 0 to {len(masses) - 1}.")
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "gravity", gravity)

    @property
    def count(self) -> int:
        """Number of particles."""
        return len(self.masses)

    def weighted(self, vectors: Array) -> Array:
        """``m_p x_p`` for vectors (n, 3)."""
        return self.masses[:, None] * vectors

    def _evaluator(self, function: Function, names: str, name: str) -> Evaluator:
        return Evaluator(function, shapes(self.coordinates, names), name)

    def _table(self, value: Any, what: str) -> Array:
        """A list of vectors or an array as (n, 3)."""
        if isinstance(value, (list, tuple)):
            value = np.stack([as_array(row) for row in value], axis=0)
        array = as_array(value)
        if tuple(array.shape) != (self.count, 3):
            raise wrong_shape(what, (self.count, 3), tuple(array.shape))
        return array

    # --- kinematics (eqs 3.13 to 3.17) ----------------------------------------------------------------------------------------

    @cached_property
    def position(self) -> Evaluator:
        """``r_p`` (n, 3) at (q, t)."""
        given = timed(self.positions, 1, "the positions of a particle system")
        return self._evaluator(lambda q, t: self._table(given(q, t), "positions of particles"), "q t", "position")

    @cached_property
    def jacobian(self) -> Evaluator:
        """``d_i r_p`` as (3 n, nv) at (q, t): rows particle by particle."""

        def derivative(q: Array, t: Array) -> Array:
            flat = np.reshape(self.position(q, t), (3 * self.count,))
            return jacobian(flat, q) @ as_array(self.coordinates.kinematics_matrix(q))

        return self._evaluator(derivative, "q t", "particle_jacobian")

    @cached_property
    def explicit_velocity(self) -> Evaluator:
        """``dr_p/dt`` (n, 3) at (q, t): the motion of the constraints."""
        return self._evaluator(lambda q, t: time_derivative(self.position(q, t), t), "q t", "explicit_velocity")

    @cached_property
    def velocity_of_particles(self) -> Evaluator:
        """``r_p' = d_i r_p v^i + dr_p/dt`` (n, 3) at (q, v, t) (eq. 3.15a)."""

        def velocity(q: Array, v: Array, t: Array) -> Array:
            r = self.position(q, t)
            return along(r, q, self.coordinates.rate(q, v)) + time_derivative(r, t)

        return self._evaluator(velocity, "q v t", "particle_velocity")

    @cached_property
    def acceleration_of_particles(self) -> Evaluator:
        """``r_p''`` (n, 3) at (q, v, a, t) (eq. 3.15b)."""

        def acceleration(q: Array, v: Array, a: Array, t: Array) -> Array:
            velocity = self.velocity_of_particles(q, v, t)
            moved = along(velocity, q, self.coordinates.rate(q, v)) + along(velocity, v, a)
            return moved + time_derivative(velocity, t)

        return self._evaluator(acceleration, "q v a t", "particle_acceleration")

    # --- energies --------------------------------------------------------------------------------------------------------------

    @cached_property
    def kinetic_energy(self) -> Evaluator:
        """``T = 1/2 sum m |r'|^2`` in J at (q, v, t) (eq. 3.26)."""

        def energy(q: Array, v: Array, t: Array) -> Array:
            velocity = self.velocity_of_particles(q, v, t)
            return 0.5 * np.sum(self.weighted(velocity) * velocity)

        return self._evaluator(energy, "q v t", "kinetic_energy")

    @cached_property
    def acceleration_energy(self) -> Evaluator:
        """``S = 1/2 sum m |r''|^2`` at (q, v, a, t) (eq. 3.30)."""

        def energy(q: Array, v: Array, a: Array, t: Array) -> Array:
            acceleration = self.acceleration_of_particles(q, v, a, t)
            return 0.5 * np.sum(self.weighted(acceleration) * acceleration)

        return self._evaluator(energy, "q v a t", "acceleration_energy")

    def _anchor(self, spring: ParticleSpring, r: Array, t: Array) -> Array:
        if isinstance(spring.anchor, (int, np.integer)):
            return r[int(spring.anchor), :]
        return as_array(spring.anchor(t)) if callable(spring.anchor) else as_array(spring.anchor)

    @cached_property
    def potential_energy(self) -> Evaluator:
        """``V`` in J at (q, t): gravity ``-sum m <r, a_G>`` (eq. 3.37) and springs ``1/2 k |r_p - r_q|^2`` (eqs 3.38, 3.39)."""

        def energy(q: Array, t: Array) -> Array:
            r = self.position(q, t)
            total = -np.sum(self.weighted(self.gravity + 0 * r) * r)
            for spring in self.springs:
                stretch = r[spring.first, :] - self._anchor(spring, r, t)
                total = total + 0.5 * spring.k * np.vecdot(stretch, stretch)
            return total

        return self._evaluator(energy, "q t", "potential_energy")

    @cached_property
    def dissipation(self) -> Evaluator:
        """``R = 1/2 sum d |r' - v_D|^2`` in W at (q, v, t) (eq. 3.40)."""

        def rayleigh(q: Array, v: Array, t: Array) -> Array:
            velocity = self.velocity_of_particles(q, v, t)
            total: Array = 0.0
            for drag in self.drags:
                slip = velocity[drag.particle, :] - as_array(drag.fluid(t) if callable(drag.fluid) else drag.fluid)
                total = total + 0.5 * drag.d * np.vecdot(slip, slip)
            return total

        return self._evaluator(rayleigh, "q v t", "dissipation")

    @cached_property
    def lagrangian(self) -> Evaluator:
        """``L = T - V`` at (q, v, t)."""
        return self._evaluator(
            lambda q, v, t: self.kinetic_energy(q, v, t) - self.potential_energy(q, t), "q v t", "lagrangian"
        )

    # --- forces ----------------------------------------------------------------------------------------------------------------

    @cached_property
    def applied_forces(self) -> Evaluator:
        """The forces ``F_p^A`` (n, 3) on the free particles at (q, v, t): gravity, springs, friction, external (eq. 3.1)."""
        external = timed(self.force, 2, "the external force")

        def forces(q: Array, v: Array, t: Array) -> Array:
            r, velocity = self.position(q, t), self.velocity_of_particles(q, v, t)
            rows = [self.masses[p] * self.gravity for p in range(self.count)]
            for spring in self.springs:
                pull = spring.k * (self._anchor(spring, r, t) - r[spring.first, :])
                rows[spring.first] = rows[spring.first] + pull
                if isinstance(spring.anchor, (int, np.integer)):
                    rows[int(spring.anchor)] = rows[int(spring.anchor)] - pull
            for drag in self.drags:
                fluid = as_array(drag.fluid(t) if callable(drag.fluid) else drag.fluid)
                rows[drag.particle] = rows[drag.particle] - drag.d * (velocity[drag.particle, :] - fluid)
            total = np.stack(rows, axis=0)
            return total if self.force is None else total + self._table(external(q, v, t), "external forces")

        return self._evaluator(forces, "q v t", "applied_forces")

    @cached_property
    def generalised_force(self) -> Evaluator:
        """``f^E_i = sum <d_i r_p, F_p>`` (nv,) of the external forces at (q, v, t)."""
        external = timed(self.force, 2, "the external force")

        def force(q: Array, v: Array, t: Array) -> Array:
            if self.force is None:
                return np.zeros(self.coordinates.nv)
            table = self._table(external(q, v, t), "external forces")
            return np.matvec(transpose(self.jacobian(q, t)), np.reshape(table, (3 * self.count,)))

        return self._evaluator(force, "q v t", "generalised_force")

    @cached_property
    def potential_force(self) -> Evaluator:
        """``f^V_i = d_i V`` (nv,) at (q, t)."""

        def force(q: Array, t: Array) -> Array:
            slope = gradient(scalar(self.potential_energy(q, t), "a potential energy"), q)
            return np.matvec(transpose(as_array(self.coordinates.kinematics_matrix(q))), slope)

        return self._evaluator(force, "q t", "potential_force")

    @cached_property
    def dissipation_force(self) -> Evaluator:
        """``f^D = dR/dv`` (nv,) at (q, v, t)."""
        return self._evaluator(lambda q, v, t: gradient(self.dissipation(q, v, t), v), "q v t", "dissipation_force")

    @cached_property
    def inertia_force(self) -> Evaluator:
        """``f^M_i = sum m <d_i r_p, r_p''>`` (nv,) at (q, v, a, t) (eq. 3.20, erratum 0.24)."""

        def force(q: Array, v: Array, a: Array, t: Array) -> Array:
            weighted = self.weighted(self.acceleration_of_particles(q, v, a, t))
            return np.matvec(transpose(self.jacobian(q, t)), np.reshape(weighted, (3 * self.count,)))

        return self._evaluator(force, "q v a t", "inertia_force")

    @cached_property
    def mass_matrix(self) -> Evaluator:
        """``M_ij = sum m <d_i r_p, d_j r_p>`` (nv, nv) at (q, t) (eq. 3.21)."""

        def mass(q: Array, t: Array) -> Array:
            j = self.jacobian(q, t)
            return transpose(j) @ (np.repeat(self.masses, 3)[:, None] * j)

        return self._evaluator(mass, "q t", "mass_matrix")

    @cached_property
    def connection(self) -> Evaluator:
        """``Gamma_ijk = sum m <d_i r_p, d_k d_j r_p>`` as (nv, nv * nv), entry [i, j * nv + k], at (q, t) (eq. 3.32)."""
        n = self.coordinates.nv

        def coefficients(q: Array, t: Array) -> Array:
            j = self.jacobian(q, t)
            kinematics = as_array(self.coordinates.kinematics_matrix(q))
            weighted = np.repeat(self.masses, 3)[:, None] * j
            # columns of d_j r, then their directional derivatives d_k
            second = [
                jacobian(j[:, i], q) @ kinematics if is_symbolic(j) else np.zeros((3 * self.count, n)) for i in range(n)
            ]
            return transpose(weighted) @ np.concatenate(second, axis=1)

        return self._evaluator(coefficients, "q t", "particle_connection")

    @cached_property
    def acceleration(self) -> Acceleration:
        """The motion ``a = M^-1 b`` at (q, v, t) (eqs 3.21, 3.22): all forces projected on the directions ``d_i r_p``."""

        def system(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
            zero = np.zeros(self.coordinates.nv)
            free = self.applied_forces(q, v, t) - self.weighted(self.acceleration_of_particles(q, v, zero, t))
            projected = np.matvec(transpose(self.jacobian(q, t)), np.reshape(free, (3 * self.count,)))
            return self.mass_matrix(q, t), projected

        return Acceleration(system, shapes(self.coordinates, "q v t"), "particles")


def tracking_force(
    mass: float,
    gravity: Array,
    plant: tuple[float, float],
    desired: tuple[float, float],
    state: tuple[Array, Array],
    reference: tuple[Array, Array, Array],
    anchor: Array = 0.0,
    fluid: Array = 0.0,
) -> np.ndarray:
    """The force that makes a particle follow a reference like a damped spring (eqs 3.6, 3.7, errata 0.21, 0.22).

    Parameters
    ----------
    plant, desired : (damping, stiffness) of the particle as it is, and as it should be about the reference.
    state : position and velocity (..., 3). reference : position, velocity and acceleration (..., 3).
    anchor, fluid : of the plant's own spring and friction.

    The closed loop is ``m e'' + d e' + k e = 0`` with ``e = r - r_R`` and the desired d, k.
    """
    (d, k), (d_new, k_new) = plant, desired
    r, velocity = (np.asarray(x, dtype=float) for x in state)
    r_ref, v_ref, a_ref = (np.asarray(x, dtype=float) for x in reference)
    own = mass * (a_ref - np.asarray(gravity, dtype=float)) + d * (velocity - fluid) + k * (r - anchor)
    return own - d_new * (velocity - v_ref) - k_new * (r - r_ref)
