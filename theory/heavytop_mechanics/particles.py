"""Systems of particles whose positions ``r_p(q, t)`` follow from coordinates (thesis, sections 3.1 and 3.2, eqs 3.1 to 3.47).

Masses, gravity, springs to the ground and between particles, viscous friction in a moving fluid, external forces, explicit time.
Every quantity is a function of (q, v, a, t) for numbers or symbols, so that each formalism can use it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, is_symbolic, jacobian, transpose
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError, wrong_shape
from heavytop.functions import Value
from heavytop_mechanics.functions import (
    Acceleration,
    Evaluator,
    Function,
    along,
    gradient,
    shapes,
    slope,
    time_derivative,
    timed,
)


def _evaluator(names: str) -> Callable[[Function], cached_property[Evaluator]]:
    """Decorator: a method as an :class:`Evaluator` of the named arguments, traced when it is first used."""

    def decorate(method: Function) -> cached_property[Evaluator]:
        def make(system: ParticleSystem) -> Evaluator:
            return Evaluator(partial(method, system), shapes(system.coordinates, names), method.__name__)

        make.__doc__ = method.__doc__
        return cached_property(make)

    return decorate


def _at(value: Any, t: Array) -> Array:
    """A vector, or a function of the time that gives one, at the time ``t``."""
    return as_array(value(t) if callable(value) else value)


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
class ParticleSystem(Value):
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

    def _table(self, value: Any, what: str) -> Array:
        """A list of vectors or an array as (n, 3)."""
        if isinstance(value, (list, tuple)):
            value = np.stack([as_array(row) for row in value], axis=0)
        array = as_array(value)
        if tuple(array.shape) != (self.count, 3):
            raise wrong_shape(what, (self.count, 3), tuple(array.shape))
        return array

    def _projected(self, vectors: Array, q: Array, t: Array) -> Array:
        """``sum_p <d_i r_p, x_p>`` (nv,) of vectors (n, 3)."""
        return np.matvec(transpose(self.jacobian(q, t)), np.reshape(vectors, (3 * self.count,)))

    # --- kinematics (eqs 3.13 to 3.17) ----------------------------------------------------------------------------------------

    @_evaluator("q t")
    def position(self, q: Array, t: Array) -> Array:
        """``r_p`` (n, 3) at (q, t)."""
        given = timed(self.positions, 1, "the positions of a particle system")
        return self._table(given(q, t), "positions of particles")

    @_evaluator("q t")
    def jacobian(self, q: Array, t: Array) -> Array:
        """``d_i r_p`` as (3 n, nv) at (q, t): rows particle by particle."""
        flat = np.reshape(self.position(q, t), (3 * self.count,))
        return jacobian(flat, q) @ as_array(self.coordinates.kinematics_matrix(q))

    @_evaluator("q t")
    def explicit_velocity(self, q: Array, t: Array) -> Array:
        """``dr_p/dt`` (n, 3) at (q, t): the motion of the constraints."""
        return time_derivative(self.position(q, t), t)

    @_evaluator("q v t")
    def velocity_of_particles(self, q: Array, v: Array, t: Array) -> Array:
        """``r_p' = d_i r_p v^i + dr_p/dt`` (n, 3) at (q, v, t) (eq. 3.15a)."""
        r = self.position(q, t)
        return along(r, q, self.coordinates.rate(q, v)) + time_derivative(r, t)

    @_evaluator("q v a t")
    def acceleration_of_particles(self, q: Array, v: Array, a: Array, t: Array) -> Array:
        """``r_p''`` (n, 3) at (q, v, a, t) (eq. 3.15b)."""
        velocity = self.velocity_of_particles(q, v, t)
        moved = along(velocity, q, self.coordinates.rate(q, v)) + along(velocity, v, a)
        return moved + time_derivative(velocity, t)

    # --- energies --------------------------------------------------------------------------------------------------------------

    @_evaluator("q v t")
    def kinetic_energy(self, q: Array, v: Array, t: Array) -> Array:
        """``T = 1/2 sum m |r'|^2`` in J at (q, v, t) (eq. 3.26)."""
        velocity = self.velocity_of_particles(q, v, t)
        return 0.5 * np.sum(self.weighted(velocity) * velocity)

    @_evaluator("q v a t")
    def acceleration_energy(self, q: Array, v: Array, a: Array, t: Array) -> Array:
        """``S = 1/2 sum m |r''|^2`` at (q, v, a, t) (eq. 3.30)."""
        acceleration = self.acceleration_of_particles(q, v, a, t)
        return 0.5 * np.sum(self.weighted(acceleration) * acceleration)

    def _anchor(self, spring: ParticleSpring, r: Array, t: Array) -> Array:
        if isinstance(spring.anchor, (int, np.integer)):
            return r[int(spring.anchor), :]
        return _at(spring.anchor, t)

    @_evaluator("q t")
    def potential_energy(self, q: Array, t: Array) -> Array:
        """``V`` in J at (q, t): gravity ``-sum m <r, a_G>`` (eq. 3.37) and springs ``1/2 k |r_p - r_q|^2`` (eqs 3.38, 3.39)."""
        r = self.position(q, t)
        total = -np.sum(self.weighted(self.gravity + 0 * r) * r)
        for spring in self.springs:
            stretch = r[spring.first, :] - self._anchor(spring, r, t)
            total = total + 0.5 * spring.k * np.vecdot(stretch, stretch)
        return total

    @_evaluator("q v t")
    def dissipation(self, q: Array, v: Array, t: Array) -> Array:
        """``R = 1/2 sum d |r' - v_D|^2`` in W at (q, v, t) (eq. 3.40)."""
        velocity = self.velocity_of_particles(q, v, t)
        total: Array = 0.0
        for drag in self.drags:
            slip = velocity[drag.particle, :] - _at(drag.fluid, t)
            total = total + 0.5 * drag.d * np.vecdot(slip, slip)
        return total

    @_evaluator("q v t")
    def lagrangian(self, q: Array, v: Array, t: Array) -> Array:
        """``L = T - V`` at (q, v, t)."""
        return self.kinetic_energy(q, v, t) - self.potential_energy(q, t)

    # --- forces ----------------------------------------------------------------------------------------------------------------

    def _external(self, q: Array, v: Array, t: Array) -> Array:
        """The external forces (n, 3)."""
        if self.force is None:
            return np.zeros((self.count, 3))
        return self._table(timed(self.force, 2, "the external force")(q, v, t), "external forces")

    @_evaluator("q v t")
    def applied_forces(self, q: Array, v: Array, t: Array) -> Array:
        """The forces ``F_p^A`` (n, 3) on the free particles at (q, v, t): gravity, springs, friction, external (eq. 3.1)."""
        r, velocity = self.position(q, t), self.velocity_of_particles(q, v, t)
        rows = [self.masses[p] * self.gravity for p in range(self.count)]
        for spring in self.springs:
            pull = spring.k * (self._anchor(spring, r, t) - r[spring.first, :])
            rows[spring.first] = rows[spring.first] + pull
            if isinstance(spring.anchor, (int, np.integer)):
                rows[int(spring.anchor)] = rows[int(spring.anchor)] - pull
        for drag in self.drags:
            rows[drag.particle] = rows[drag.particle] - drag.d * (velocity[drag.particle, :] - _at(drag.fluid, t))
        return np.stack(rows, axis=0) + self._external(q, v, t)

    @_evaluator("q v t")
    def generalised_force(self, q: Array, v: Array, t: Array) -> Array:
        """``f^E_i = sum <d_i r_p, F_p>`` (nv,) of the external forces at (q, v, t)."""
        return self._projected(self._external(q, v, t), q, t)

    @_evaluator("q t")
    def potential_force(self, q: Array, t: Array) -> Array:
        """``f^V_i = d_i V`` (nv,) at (q, t)."""
        return slope(self.coordinates, self.potential_energy(q, t), q)

    @_evaluator("q v t")
    def dissipation_force(self, q: Array, v: Array, t: Array) -> Array:
        """``f^D = dR/dv`` (nv,) at (q, v, t)."""
        return gradient(self.dissipation(q, v, t), v)

    @_evaluator("q v a t")
    def inertia_force(self, q: Array, v: Array, a: Array, t: Array) -> Array:
        """``f^M_i = sum m <d_i r_p, r_p''>`` (nv,) at (q, v, a, t) (eq. 3.20, erratum 0.24)."""
        return self._projected(self.weighted(self.acceleration_of_particles(q, v, a, t)), q, t)

    @_evaluator("q t")
    def mass_matrix(self, q: Array, t: Array) -> Array:
        """``M_ij = sum m <d_i r_p, d_j r_p>`` (nv, nv) at (q, t) (eq. 3.21)."""
        j = self.jacobian(q, t)
        return transpose(j) @ (np.repeat(self.masses, 3)[:, None] * j)

    @_evaluator("q t")
    def connection(self, q: Array, t: Array) -> Array:
        """``Gamma_ijk = sum m <d_i r_p, d_k d_j r_p>`` as (nv, nv * nv), entry [i, j * nv + k], at (q, t) (eq. 3.32)."""
        n, j = self.coordinates.nv, self.jacobian(q, t)
        kinematics = as_array(self.coordinates.kinematics_matrix(q))
        weighted = np.repeat(self.masses, 3)[:, None] * j
        # columns of d_j r, then their directional derivatives d_k
        second = [
            jacobian(j[:, i], q) @ kinematics if is_symbolic(j) else np.zeros((3 * self.count, n)) for i in range(n)
        ]
        return transpose(weighted) @ np.concatenate(second, axis=1)

    @cached_property
    def acceleration(self) -> Acceleration:
        """The motion ``a = M^-1 b`` at (q, v, t) (eqs 3.21, 3.22): all forces projected on the directions ``d_i r_p``."""

        def system(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
            zero = np.zeros(self.coordinates.nv)
            free = self.applied_forces(q, v, t) - self.weighted(self.acceleration_of_particles(q, v, zero, t))
            return self.mass_matrix(q, t), self._projected(free, q, t)

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
    anchor, fluid : anchor and fluid of the plant's own spring and friction.

    The closed loop is ``m e'' + d e' + k e = 0`` with ``e = r - r_R`` and the desired d, k.
    """
    (d, k), (d_new, k_new) = plant, desired
    r, velocity = (np.asarray(x, dtype=float) for x in state)
    r_ref, v_ref, a_ref = (np.asarray(x, dtype=float) for x in reference)
    own = mass * (a_ref - np.asarray(gravity, dtype=float)) + d * (velocity - fluid) + k * (r - anchor)
    return own - d_new * (velocity - v_ref) - k_new * (r - r_ref)
