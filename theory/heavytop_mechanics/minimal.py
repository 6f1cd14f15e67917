"""Lagrange's equations in minimal coordinates, computed torque, and the singularity of Euler angles (thesis, sections 1.1 and 1.2).

    M(q) q'' + b(q, q') = B(q) u                                                   (eq. 1.3)

This is the textbook method. It works where minimal coordinates exist globally and fails for rotations: :func:`euler_angle_body` has
``det M = Theta_x Theta_y Theta_z cos(pitch)^2``. Everything else in this package avoids that.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, finite_matrix, is_symbolic, part, transpose
from heavytop.coordinates import Vector
from heavytop.errors import ConfigurationError, ModelError
from heavytop.geometry import so3
from heavytop_mechanics import euler_lagrange
from heavytop_mechanics.functions import Evaluator, Function, lagrangian, solve, timed

MAX_CONDITION = 1e10
"""Above this condition number a matrix counts as singular."""

NEARBY = 0.1
"""Relative distance at which the typical norm of a matrix is evaluated."""


class MinimalModel:
    """``M(q) q'' + b(q, q') = B(q) u`` from energies of minimal coordinates (eqs 1.1 to 1.3).

    Parameters
    ----------
    n : number of coordinates.
    kinetic : ``T(q, qd)``, quadratic in qd. potential : ``V(q)``.
    input_matrix : ``B(q)`` (n, nu); identity by default.

    Examples
    --------
    >>> pendulum = MinimalModel(1, lambda q, qd: 0.5 * 4.0 * qd[0] ** 2, lambda q: -19.62 * np.cos(q[0]))
    >>> pendulum.mass_matrix([0.0]), pendulum.bias([np.pi / 2], [0.0])
    (array([[4.]]), array([19.62]))
    """

    def __init__(
        self, n: int, kinetic: Function, potential: Function | None = None, input_matrix: Function | None = None
    ) -> None:
        coordinates = Vector(n)
        self.n = n
        self._motion = euler_lagrange.acceleration(coordinates, lagrangian(kinetic, potential))
        given = timed(input_matrix, 1, "an input matrix") if input_matrix is not None else lambda q, t: np.eye(n)
        self._inputs = Evaluator(lambda q, t: as_array(given(q, t)), {"q": (n,), "t": ()}, "input_matrix")

    def mass_matrix(self, q: Array) -> Array:
        """``M`` (..., n, n)."""
        return self._motion.system(q, np.zeros(self.n))[0]

    def bias(self, q: Array, qd: Array) -> Array:
        """``b`` (..., n): Coriolis, centrifugal and potential forces."""
        return -self._motion.system(q, qd)[1]

    def input_matrix(self, q: Array) -> Array:
        """``B`` (..., n, nu)."""
        return self._inputs(q)

    def acceleration(self, q: Array, qd: Array, u: Array | None = None) -> Array:
        """``q'' = M^-1 (B u - b)`` (..., n)."""
        mass, force = self._motion.system(q, qd)
        if u is not None:
            force = force + np.matvec(self.input_matrix(q), u)
        return solve(self._regular(mass, self.mass_matrix, q, "the mass matrix M(q)"), force)

    def state_rate(self, z: Array, u: Array | None = None) -> Array:
        """``z' = f(z, u)`` (..., 2 n) of the state ``z = (q, qd)``: the standard form for simulation (eq. 1.3)."""
        z = as_array(z)
        q, qd = part(z, 0, self.n), part(z, self.n, 2 * self.n)
        return concatenate(qd, self.acceleration(q, qd, u))

    def computed_torque(
        self,
        state: tuple[Array, Array],
        reference: tuple[Array, Array, Array],
        *,
        stiffness: Array,
        damping: Array,
    ) -> Array:
        """``u = B^-1 (M (q_R'' - L1 e' - L0 e) + b)`` (..., n) with ``e = q - q_R`` (eqs 1.4, 1.5).

        Parameters
        ----------
        state : q and qd. reference : q_R, its rate and second rate.
        stiffness, damping : ``L0`` and ``L1`` (n, n).

        Raises
        ------
        ConfigurationError
            ``B`` or ``M`` is singular there.
        ModelError
            There are not as many inputs as coordinates.
        """
        (q, qd), (q_ref, qd_ref, qdd_ref) = state, reference
        b = self.input_matrix(q)
        if b.shape[-1] != self.n:
            raise ModelError(
                f"computed torque needs as many inputs as coordinates ({self.n}), got {b.shape[-1]}. For fewer inputs use "
                "gauss.closest_realizable."
            )
        mass = self._regular(self.mass_matrix(q), self.mass_matrix, q, "the mass matrix M(q)")
        feedback = np.matvec(damping, as_array(qd) - qd_ref) + np.matvec(stiffness, as_array(q) - q_ref)
        force = np.matvec(mass, as_array(qdd_ref) - feedback) + self.bias(q, qd)
        return solve(self._regular(b, self.input_matrix, q, "the input matrix B(q)"), force)

    def _regular(self, matrix: Array, function: Function, q: Array, what: str) -> Array:
        """The matrix at ``q`` if it is regular relative to its norm at and around ``q``.

        A matrix that vanishes entirely has condition number 1; only its norm nearby shows that it is singular.
        """
        if is_symbolic(matrix):
            return matrix
        q = np.asarray(q, dtype=float)
        shifts = NEARBY * np.concatenate([np.eye(self.n), -np.eye(self.n)]) * (1 + np.abs(q))[..., None, :]
        nearby = finite_matrix(function(q[..., None, :] + shifts), "the matrix nearby")
        around = np.linalg.svd(nearby, compute_uv=False)[..., 0]
        values = np.linalg.svd(finite_matrix(matrix, "the matrix"), compute_uv=False)
        size = np.maximum(values[..., 0], np.max(around, axis=-1, initial=0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            condition = float(np.max(size / values[..., -1], initial=0.0))
        if not condition < MAX_CONDITION:
            raise ConfigurationError(
                f"{what} is singular there (condition number {condition:.3g}). Minimal coordinates of rotations have such points "
                "(Euler angles at a pitch of +-90 degrees): use a rotation matrix or a quaternion."
            )
        return matrix


def euler_angle_body(moments: Array) -> MinimalModel:
    """A body that turns about its centre of mass in roll, pitch and yaw (eqs 1.6, 1.7): singular at a pitch of +-pi/2.

    ``moments`` are the principal moments (3,) or the inertia matrix (3, 3). The inputs are torques about the body axes:
    ``B = Y^T``, with ``omega = Y q'``.

    Examples
    --------
    >>> body = euler_angle_body([1.0, 2.0, 3.0])
    >>> float(np.linalg.det(body.mass_matrix([0.3, np.pi / 3, 0.1])).round(12))  # 6 cos(60 deg)^2
    1.5
    """
    theta = np.asarray(moments, dtype=float)
    theta = np.diag(theta) if theta.ndim == 1 else theta

    def kinetic(q: Array, qd: Array) -> Array:
        omega = np.matvec(so3.roll_pitch_yaw_rates(q), qd)
        return 0.5 * np.vecdot(omega, np.matvec(theta, omega))

    return MinimalModel(3, kinetic, None, lambda q: transpose(so3.roll_pitch_yaw_rates(q)))


def euler_rotation(moments: Array, omega: Array, torque: Array | None = None) -> Array:
    """Euler's equations ``omega' = Theta^-1 (tau - omega x Theta omega)`` (..., 3) (eq. 1.8b): no singularity.

    Examples
    --------
    >>> euler_rotation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]))
    array([-1.        ,  1.        , -0.33333333])
    """
    theta = np.asarray(moments, dtype=float)
    theta = np.diag(theta) if theta.ndim == 1 else theta
    omega = as_array(omega)
    moment = -np.cross(omega, np.matvec(theta, omega))
    if torque is not None:
        moment = moment + as_array(torque)
    return np.matvec(np.linalg.inv(theta), moment)
