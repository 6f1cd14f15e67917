"""Legendre transformation and Hamilton's equations in any coordinates (thesis, section 2.2.5).

    p_i = dL/dv^i,     H = p_i v^i - L,                                            (eqs 2.34, 2.35)
    q' = A dH/dp,      p_i' + gamma^k_ij dH/dp_j p_k + d_i H = f_i                 (eq. 2.37)

Nothing is assumed about L except that the momentum determines the velocity. H is constant on motions without forces when L does not
depend on the time (eq. 2.39).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, column, is_symbolic, jacobian, scale, transpose
from heavytop.coordinates import Coordinates
from heavytop.errors import ConfigurationError, ModelError
from heavytop_mechanics.functions import (
    Evaluator,
    Function,
    along,
    applied,
    gradient,
    gyroscopic,
    is_constant_in,
    scalar_function,
    shapes,
    slope,
    solve,
    time_derivative,
    timed,
)
from heavytop_mechanics.multipliers import Constraints, constrained

MAX_ITERATIONS = 50
"""Newton steps after which the inversion of the momentum fails."""


class Legendre:
    """The Legendre transform ``H(q, p, t) = p . v - L(q, v, t)`` at ``p = dL/dv`` (eqs 2.34, 2.35).

    The result can be transformed again like any energy: the transform is its own inverse. It works with numbers for any smooth convex L
    (Newton's method) and with symbols if L is quadratic in v (one exact step).

    Examples
    --------
    >>> from heavytop.coordinates import Vector
    >>> H = Legendre(Vector(1), lambda q, v: v[0] ** 2)
    >>> float(H(np.zeros(1), np.array([3.0])))
    2.25

    Transforming twice returns the original function, even if the momentum is not linear in the velocity:

    >>> twice = Legendre(Vector(1), Legendre(Vector(1), lambda q, v: np.cosh(v[0])))
    >>> float(twice(np.zeros(1), np.array([1.0])) - np.cosh(1.0)) < 1e-14
    True
    """

    takes_time = True

    def __init__(self, coordinates: Coordinates, energy: Function) -> None:
        self.coordinates = coordinates
        self._symbolic_ok = True
        self._derivatives: Callable[..., tuple[Array, Array, Array]]
        if isinstance(energy, Legendre) and not energy._symbolic_ok:
            self._symbolic_ok = False
            self._derivatives = energy._transformed_derivatives
            return
        function = scalar_function(energy, 2, "a function to transform")

        def derivatives(q: Array, v: Array, t: Array) -> tuple[Array, Array, Array]:
            value = function(q, v, t)
            momentum = gradient(value, v)
            curvature = jacobian(momentum, v)
            self._symbolic_ok = is_constant_in(curvature, v)
            return value[0], momentum, curvature

        self._derivatives = Evaluator(derivatives, shapes(coordinates, "q v t"), "legendre")

    def _transformed_derivatives(self, q: Array, p: Array, t: Array = 0.0) -> tuple[Array, Array, Array]:
        """Value, gradient and curvature of H with respect to p: ``dH/dp = v(p)``, ``d^2H/dp^2 = (d^2L/dv^2)^-1``. Numbers only."""
        v = self.velocity(q, p, t)
        value, _, curvature = self._derivatives(q, v, t)
        return np.vecdot(p, v) - value, v, np.linalg.inv(curvature)

    def momentum(self, q: Array, v: Array, t: Array = 0.0) -> Array:
        """``p = dL/dv`` (..., nv) (eq. 2.34)."""
        return self._derivatives(q, v, t)[1]

    def velocity(self, q: Array, p: Array, t: Array = 0.0, guess: Array | None = None) -> Array:
        """The velocity (..., nv) of a momentum: the inverse of :meth:`momentum`.

        Raises
        ------
        ConfigurationError
            Newton's method does not converge: no velocity has this momentum, or the guess (zero by default) is too far.
        """
        if is_symbolic(q, p, t):
            if not self._symbolic_ok:
                raise ModelError("the momentum is not linear in the velocity: pass numbers, not symbols.")
            zero = np.zeros(self.coordinates.nv)
            _, offset, mass = self._derivatives(q, zero, t)
            return solve(mass, p - offset)
        p = np.asarray(p, dtype=float)
        v = np.zeros(p.shape) if guess is None else np.asarray(guess, dtype=float) + np.zeros(p.shape)
        for _ in range(MAX_ITERATIONS):
            value, reached, mass = self._derivatives(q, v, t)
            step = solve(mass, p - reached, "the second derivative of the Lagrangian")
            # p . v - L is concave: shorten the step until it does not decrease
            size = np.ones(np.shape(value))
            objective = np.vecdot(p, v) - value
            for _ in range(30):
                trial = v + scale(size, step, 1)
                with np.errstate(all="ignore"):
                    gain = np.vecdot(p, trial) - self._derivatives(q, trial, t)[0] - objective
                bad = ~(gain >= -1e-12 * (1 + np.abs(objective)))
                if not np.any(bad):
                    break
                size = np.where(bad, 0.5 * size, size)
            v = v + scale(size, step, 1)
            if np.all(np.abs(step) <= 1e-14 * (1 + np.abs(v))) or self._symbolic_ok:
                return v
        raise ConfigurationError(
            f"the momentum could not be inverted within {MAX_ITERATIONS} Newton steps: no velocity has it, or it needs a closer guess."
        )

    def __call__(self, q: Array, p: Array, t: Array = 0.0) -> Array:
        """``H(q, p, t)`` (...)."""
        v = self.velocity(q, p, t)
        return np.vecdot(p, v) - self._derivatives(q, v, t)[0]


def momentum(coordinates: Coordinates, lagrangian: Function) -> Evaluator:
    """The generalised momentum ``p = dL/dv`` as a function of (q, v, t) (eq. 2.34)."""
    energy = scalar_function(lagrangian, 2, "a Lagrangian")
    return Evaluator(lambda q, v, t: gradient(energy(q, v, t), v), shapes(coordinates, "q v t"), "momentum")


def energy_of(coordinates: Coordinates, lagrangian: Function) -> Evaluator:
    """``p . v - L``: the Hamiltonian in terms of velocities, a function of (q, v, t) (eqs 2.35, 2.45).

    Examples
    --------
    >>> from heavytop.coordinates import Vector
    >>> float(energy_of(Vector(1), lambda q, v: v[0] ** 2 - q[0])([1.0], [3.0]))
    10.0
    """
    energy = scalar_function(lagrangian, 2, "a Lagrangian")

    def expression(q: Array, v: Array, t: Array) -> Array:
        value = energy(q, v, t)
        return np.vecdot(gradient(value, v), v) - value[0]

    return Evaluator(expression, shapes(coordinates, "q v t"), "hamiltonian")


class HamiltonRates(NamedTuple):
    """``q'`` (..., nq) and ``p'`` (..., nv)."""

    q: Array
    p: Array


class CanonicalEquations(Evaluator):
    """Hamilton's equations: :class:`HamiltonRates` at ``(q, p, t)``."""

    def __call__(self, *arguments: Array) -> HamiltonRates:
        return HamiltonRates(*super().__call__(*arguments))


def equations(coordinates: Coordinates, hamiltonian: Function, force: Function | None = None) -> CanonicalEquations:
    """Hamilton's equations (2.37) of a Hamiltonian ``H(q, p, t)`` that takes symbols.

    Parameters
    ----------
    force : generalised force ``f(q, v, t)`` (nv,), added to ``p'``; the velocity is ``dH/dp``.

    Examples
    --------
    >>> from heavytop.coordinates import Vector
    >>> oscillator = equations(Vector(1), lambda q, p: 0.5 * p[0] ** 2 + 0.5 * q[0] ** 2)
    >>> oscillator([1.0], [2.0])
    HamiltonRates(q=array([2.]), p=array([-1.]))
    """
    energy, applied_force = scalar_function(hamiltonian, 2, "a Hamiltonian"), applied(coordinates, force, None)

    def expression(q: Array, p: Array, t: Array) -> tuple[Array, Array]:
        value = energy(q, p, t)
        v = gradient(value, p)
        rate = applied_force(q, v, t) - gyroscopic(coordinates, q, v, p) - slope(coordinates, value, q)
        return coordinates.rate(q, v), rate

    return CanonicalEquations(expression, shapes(coordinates, "q p t"), "hamilton")


class LagrangianFlow:
    """Hamilton's equations of a Lagrangian, without a symbolic inverse: ``d_i H = -d_i L``, ``dH/dp = v`` (eqs 2.36)."""

    def __init__(
        self, coordinates: Coordinates, lagrangian: Function, force: Function | None, dissipation: Function | None
    ) -> None:
        energy = scalar_function(lagrangian, 2, "a Lagrangian")
        applied_force = applied(coordinates, force, dissipation)
        self.transform = Legendre(coordinates, lagrangian)

        def rates(q: Array, v: Array, p: Array, t: Array) -> tuple[Array, Array]:
            applied_part = applied_force(q, v, t) - gyroscopic(coordinates, q, v, p)
            return coordinates.rate(q, v), applied_part + slope(coordinates, energy(q, v, t), q)

        def change(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
            p = gradient(energy(q, v, t), v)
            return jacobian(p, v), along(p, q, coordinates.rate(q, v)) + time_derivative(p, t)

        self._rates = Evaluator(rates, shapes(coordinates, "q v p t"), "hamilton")
        self.momentum_rate = Evaluator(change, shapes(coordinates, "q v t"), "momentum_rate")
        """``M = dp/dv`` and the rate of the momentum at constant velocity, at (q, v, t)."""

    def __call__(self, q: Array, p: Array, t: Array = 0.0) -> HamiltonRates:
        """:class:`HamiltonRates` at a momentum."""
        return HamiltonRates(*self._rates(q, self.transform.velocity(q, p, t), p, t))

    def acceleration(self, q: Array, v: Array, t: Array = 0.0) -> Array:
        """``v'`` (..., nv): the momentum rate of (2.37b), taken back to velocities."""
        p = self.transform.momentum(q, v, t)
        mass, drift = self.momentum_rate(q, v, t)
        return solve(mass, self(q, p, t).p - drift)


def flow(
    coordinates: Coordinates, lagrangian: Function, force: Function | None = None, dissipation: Function | None = None
) -> LagrangianFlow:
    """Hamilton's equations (2.37) of any Lagrangian ``L(q, v, t)``: a function of (q, p, t) that gives :class:`HamiltonRates`.

    Examples
    --------
    A relativistic particle, whose momentum is not linear in the velocity:

    >>> from heavytop.coordinates import Vector
    >>> particle = flow(Vector(1), lambda q, v: -np.sqrt(1 - v[0] ** 2) - q[0])
    >>> particle([0.0], [0.75]).q.round(12)
    array([0.6])
    """
    return LagrangianFlow(coordinates, lagrangian, force, dissipation)


class ConstrainedRates(NamedTuple):
    """``q'`` (..., nq), ``p'`` (..., nv) and the multipliers (..., m)."""

    q: np.ndarray
    p: np.ndarray
    multipliers: np.ndarray


class ConstrainedFlow:
    """Hamilton's equations with the reactions of constraints: :class:`ConstrainedRates` at (q, p, t). Numbers only.

    q' = A v,    p_i' + gamma^k_ij v^j p_k + d_i H = f_i + (Phi^T lambda)_i,    Phi v' = d,    v = dH/dp.
    """

    def __init__(self, free: LagrangianFlow, constraints: Constraints) -> None:
        self.free, self.constraints = free, constraints

    def __call__(self, q: Array, p: Array, t: Array = 0.0) -> ConstrainedRates:
        """The rates at a momentum whose velocity satisfies the constraints."""
        v = self.free.transform.velocity(q, p, t)
        rates = self.free(q, p, t)
        mass, drift = self.free.momentum_rate(q, v, t)
        phi, right = self.constraints.equations(q, v, t)
        found = constrained(mass, rates.p - drift, phi, right)
        return ConstrainedRates(np.asarray(rates.q), np.asarray(rates.p) + found.force, found.multipliers)


def constrained_flow(
    coordinates: Coordinates,
    lagrangian: Function,
    position: Function | None = None,
    velocity: Function | None = None,
    force: Function | None = None,
    dissipation: Function | None = None,
) -> ConstrainedFlow:
    """Hamilton's equations (2.37) of a Lagrangian under ``c(q, t) = 0`` and ``psi(q, v, t) = 0`` (eq. 3.9).

    Examples
    --------
    A skate that glides along its blade; the reaction acts across it:

    >>> from heavytop.coordinates import Vector
    >>> across = lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2])
    >>> skate = constrained_flow(Vector(3), lambda q, v: np.vecdot(v, v), velocity=across)
    >>> rates = skate([0.0, 0.0, 0.0], [4.0, 0.0, 6.0])
    >>> rates.p, rates.multipliers
    (array([ 0., 12.,  0.]), array([12.]))
    """
    return ConstrainedFlow(
        flow(coordinates, lagrangian, force, dissipation), Constraints(coordinates, position, velocity)
    )


def quadratic_equations(
    coordinates: Coordinates, metric: Function, linear: Function | None = None, rest: Function | None = None
) -> Evaluator:
    """Hamilton's equations of ``L = M v v / 2 + b v + c`` written out (eq. 2.43 with erratum 0.13): (q, p, t) to (q', p').

    ``p_i' + (gamma^k_il M^lj p_k + d_i M^kj (p_k - b_k) / 2 - M^kj d_i b_k) (p_j - b_j) - d_i c = 0``.
    """
    m, b = timed(metric, 1, "a metric"), timed(linear, 1, "a linear term")
    c, n = scalar_function(rest, 1, "a scalar term"), coordinates.nv

    def expression(q: Array, p: Array, t: Array) -> tuple[Array, Array]:
        kinematics = as_array(coordinates.kinematics_matrix(q))
        mass, b_vector = as_array(m(q, t)), as_array(b(q, t)) + np.zeros(n)
        v = np.linalg.solve(mass, p - b_vector)  # M^jk (p_k - b_k)
        c_slope = np.matvec(transpose(kinematics), gradient(c(q, t), q))
        turning = gyroscopic(coordinates, q, v, p)
        rate = []
        for i in range(n):
            direction = column(kinematics, i)
            # d_i M^kj = -(M^-1 d_i M M^-1)^kj
            inverse_slope = -np.vecdot(v, np.matvec(along(mass, q, direction), v))
            rate.append(0.5 * inverse_slope - np.vecdot(v, along(b_vector, q, direction)))
        return coordinates.rate(q, v), c_slope - turning - np.stack(rate)

    return CanonicalEquations(expression, shapes(coordinates, "q p t"), "quadratic_hamiltonian")
