"""The moving frame method by projection (doc 004): Euler's laws of free bodies, projected onto the motions that constraints allow.

    M X'' = Q + Q^c,    Q = Gamma - D M X',    X' = B(q) q'                        (eqs 38, 40, 43)
    B^T M B q'' = B^T (Q - M B' q')                                                (eqs 41, 51, erratum 4.3)

``X'`` stacks, body after body, the velocity of the centre of mass in world coordinates and the angular velocity in body coordinates;
``q'`` are the essential velocities, holonomic or not. The part of Euler's laws that the projection drops gives the constraint force.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    block,
    concatenate,
    directional,
    from_columns,
    is_symbolic,
    jacobian,
    part,
    transpose,
)
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError, wrong_shape
from heavytop.functions import Value
from heavytop.geometry import se3, so3
from heavytop_mechanics.functions import Evaluator, Function, solve, timed, vector_of
from heavytop_mechanics.multipliers import inverse_square_root, square_root

# --- block matrices (eqs 38, 39) ------------------------------------------------------------------------------------------------


def block_diagonal(matrices: Sequence[Array]) -> Array:
    """The block-diagonal matrix of square matrices."""
    rows = []
    for i, m in enumerate(matrices):
        zeros = [np.zeros((m.shape[-1], other.shape[-1])) for other in matrices]
        rows.append([*zeros[:i], m, *zeros[i + 1 :]])
    return block(rows)


def block_mass(masses: Sequence[float], inertias: Sequence[Array]) -> np.ndarray:
    """``M = diag(m_1 I, J_1, ..., m_n I, J_n)`` (6 n, 6 n); inertias at the centres of mass, (3, 3) or diagonals (3,).

    Examples
    --------
    >>> block_mass([2.0], [[3.0, 4.0, 5.0]]).diagonal()
    array([2., 2., 2., 3., 4., 5.])
    """
    if len(masses) != len(inertias):
        raise ModelError(f"as many masses as inertias are needed, got {len(masses)} and {len(inertias)}.")
    blocks = []
    for m, inertia in zip(masses, inertias, strict=True):
        j = np.asarray(inertia, dtype=float)
        blocks += [m * np.eye(3), np.diag(j) if j.ndim == 1 else j]
    return block_diagonal(blocks)


def block_gyroscopic(rate: Array) -> Array:
    """``D = diag(0, wed(omega_1), ..., 0, wed(omega_n))`` (..., 6 n, 6 n) of ``X'`` (..., 6 n) (eq. 39)."""
    blocks = []
    for i in range(rate.shape[-1] // 6):
        blocks += [np.zeros((3, 3)), so3.wed(part(rate, 6 * i + 3, 6 * i + 6))]
    return block_diagonal(blocks)


# --- frame connections (Murakami) -----------------------------------------------------------------------------------------------


def frame_connection(rotation: Array, position: Array) -> Array:
    """``E = [R x; 0 1]`` (..., 4, 4): a frame seen from another one; products of them run along a tree."""
    return se3.pose(rotation, position)


def tree_frames(parents: Sequence[int], connections: Sequence[Array]) -> list[Array]:
    """Frames in world coordinates: ``E_i = E_parent(i) E_(parent(i), i)``; parent -1 is the world and parents come first."""
    frames: list[Array] = []
    for i, (parent, connection) in enumerate(zip(parents, connections, strict=True)):
        if not -1 <= parent < i:
            raise ModelError(
                f"frame {i} has parent {parent}: parents must come before their children, -1 is the world."
            )
        frames.append(connection if parent == -1 else frames[parent] @ connection)
    return frames


def constraint_matrix(coordinates: Coordinates, frames: Callable[[Array], Sequence[Array]]) -> Function:
    """``B(q)`` (6 n, nv) of ``X' = B v`` from the frames (4, 4) at the centres of mass, by differentiation (eq. 40). Symbols.

    Rows of body i: the velocity of its origin in world coordinates, then its angular velocity in its own coordinates.
    """

    def matrix(q: Array) -> Array:
        kinematics = as_array(coordinates.kinematics_matrix(q))
        rows = []
        for frame in frames(q):
            rotation, position = se3.rotation(frame), se3.position(frame)
            rows.append([jacobian(position, q) @ kinematics])
            spins = []
            for i in range(coordinates.nv):
                rate = directional(rotation, q, kinematics[:, i]) if is_symbolic(rotation) else np.zeros((3, 3))
                spins.append(so3.vee(transpose(rotation) @ rate))
            rows.append([from_columns(*spins)])
        return block(rows)

    return matrix


# --- projection (eqs 41 to 51) --------------------------------------------------------------------------------------------------


class FrameMotion(NamedTuple):
    """The result of the five steps.

    Attributes
    ----------
    acceleration : ``q''`` (..., nv). mass : ``M* = B^T M B``. right : ``B^T (Q + Q^c,ni - M B' q')``.
    full : ``X''`` (..., k). ideal, nonideal : the two parts of the constraint force ``Q^c`` (..., k) (eq. 47).
    """

    acceleration: Array
    mass: Array
    right: Array
    full: Array
    ideal: Array
    nonideal: Array


def five_steps(mass: Array, force: Array, matrix: Array, drift: Array, work: Array | None = None) -> FrameMotion:
    """From Euler's laws and constraints to accelerations and constraint forces (section 3.2.2).

    Parameters
    ----------
    mass : ``M`` (..., k, k). force : ``Q = Gamma - D M X'`` (..., k). matrix : ``B`` (..., k, nv). drift : ``B' q'`` (..., k).
    work : for nonideal constraints a force (..., k) whose virtual work is that of the constraint forces; its part in the column
        space is the nonideal constraint force (eqs 47 to 50).

    Examples
    --------
    A mass on a slope with friction 1 N against the motion:

    >>> slope = np.array([[0.8], [-0.6]])
    >>> motion = five_steps(2.0 * np.eye(2), np.array([0.0, -19.62]), slope, np.zeros(2), work=-slope[:, 0])
    >>> motion.acceleration, motion.ideal
    (array([5.386]), array([ 9.4176, 12.5568]))
    """
    back = transpose(matrix)
    projected = back @ mass @ matrix
    nonideal = 0 * force if work is None else nonideal_force(mass, matrix, work)
    right = np.matvec(back, force + nonideal - np.matvec(mass, drift))
    a = solve(projected, right, "the projected mass matrix B^T M B")
    full = np.matvec(matrix, a) + drift
    return FrameMotion(a, projected, right, full, np.matvec(mass, full) - force - nonideal, nonideal)


def nonideal_force(mass: Array, matrix: Array, work: Array) -> Array:
    """``M^1/2 P_Bs M^-1/2 w`` (..., k): the force in the column space with the virtual work of ``work`` (eqs 47, 49a).

    Written without roots: ``M B (B^T M B)^-1 B^T w``.
    """
    back = transpose(matrix)
    return np.matvec(mass, np.matvec(matrix, solve(back @ mass @ matrix, np.matvec(back, work))))


class Scaled(NamedTuple):
    """``M^1/2``, ``M^-1/2``, ``B_s = M^1/2 B`` and the projector onto its columns (eqs 44 to 49)."""

    root: np.ndarray
    inverse_root: np.ndarray
    matrix: np.ndarray
    projector: np.ndarray


def scaled(mass: Array, matrix: Array) -> Scaled:
    """The scaling of Gauss' principle (eqs 44, 45) with the projector ``P = B_s (B_s^T B_s)^-1 B_s^T``. Numbers only."""
    root, inverse_root = square_root(mass), inverse_square_root(mass)
    b = root @ np.asarray(matrix, dtype=float)
    return Scaled(root, inverse_root, b, b @ np.linalg.solve(transpose(b) @ b, transpose(b)))


def split_constraint_force(mass: Array, matrix: Array, force: Array) -> tuple[np.ndarray, np.ndarray]:
    """The ideal and the nonideal part of a constraint force (..., k) (eqs 47, 49). Numbers only."""
    s = scaled(mass, matrix)
    nonideal = np.matvec(s.root, np.matvec(s.projector, np.matvec(s.inverse_root, force)))
    return np.asarray(force, dtype=float) - nonideal, nonideal


def minimum_norm_force(mass: Array, force: Array, matrix: Array, right: Array) -> Array:
    """``F^c = A^T (A M^-1 A^T)^-1 (b - A M^-1 F)`` (..., k) of constraints ``A x'' = b`` with full rank (eq. 23)."""
    lack = right - np.matvec(matrix, solve(mass, force))
    weighted = matrix @ np.linalg.solve(mass, transpose(matrix))
    return np.matvec(transpose(matrix), solve(weighted, lack, "A M^-1 A^T"))


class MovingFrame(Value):
    """A mechanism derived by the moving frame method: :class:`FrameMotion` at (q, v, t).

    Parameters
    ----------
    sizes : (nq, nv), the numbers of coordinates and essential velocities; they may differ (nonholonomic constraints).
    kinematics : ``A(q)`` (nq, nv) of ``q' = A v``.
    matrix : ``B(q)`` (k, nv) of ``X' = B v``.
    mass : ``M`` (k, k). force : ``Gamma(q, v)`` or ``Gamma(q, v, t)`` (k,), forces in world and torques in body coordinates.
    gyroscopic : ``D(X')`` (k, k); :func:`block_gyroscopic` for spatial bodies, None for planar ones.
    work : nonideal constraint force as a function of (q, v) or (q, v, t), see :func:`five_steps`.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        kinematics: Function,
        matrix: Function,
        mass: Array,
        force: Function | None = None,
        gyroscopic: Callable[[Array], Array] | None = None,
        work: Function | None = None,
    ) -> None:
        nq, nv = sizes
        mass = np.asarray(mass, dtype=float)
        k = len(mass)
        gamma = timed(force, 2, "the forces of a mechanism")
        extra = timed(work, 2, "the nonideal constraint force")
        self._kinematics = kinematics
        self.mass = mass
        inputs = {"q": (nq,), "v": (nv,), "t": ()}

        def parts(q: Array, v: Array, t: Array) -> tuple[Array, ...]:
            b = as_array(matrix(q))
            if tuple(b.shape) != (k, nv):
                raise wrong_shape("the constraint matrix B(q)", (k, nv), tuple(b.shape))
            rate = np.matvec(as_array(kinematics(q)), v)
            full = np.matvec(b, v)
            drift = directional(full, q, rate) if is_symbolic(full) else np.zeros(k)
            total = vector_of(gamma(q, v, t), k, "the forces of a mechanism")
            if gyroscopic is not None:
                total = total - np.matvec(gyroscopic(full), np.matvec(mass, full))
            friction = vector_of(extra(q, v, t), k, "the nonideal constraint force")
            return b, full, drift, total, friction

        self.terms = Evaluator(parts, inputs, "moving_frame")
        """``(B, X', B' v, Q, w)`` at (q, v, t): the arguments of :func:`five_steps`, with the nonideal force ``w``."""
        self._rate = Evaluator(lambda q, v, t: np.matvec(as_array(kinematics(q)), v), inputs, "rate")
        self._ideal = work is None

    def matrix(self, q: Array) -> Array:
        """``B(q)`` (..., k, nv)."""
        return self.terms(q, np.zeros(self.terms.inputs["v"][0]))[0]

    def full_velocity(self, q: Array, v: Array) -> Array:
        """``X' = B v`` (..., k)."""
        return self.terms(q, v)[1]

    def rate(self, q: Array, v: Array) -> Array:
        """``q' = A(q) v`` (..., nq): the reconstruction of the configuration."""
        return self._rate(q, v)

    def __call__(self, q: Array, v: Array, t: Array = 0.0) -> FrameMotion:
        """Accelerations and constraint forces."""
        b, _, drift, force, work = self.terms(q, v, t)
        return five_steps(self.mass, force, b, drift, None if self._ideal else work)

    def acceleration(self, q: Array, v: Array, t: Array = 0.0) -> Array:
        """``v'`` (..., nv)."""
        return self(q, v, t).acceleration

    def state_rate(self, z: Array, t: float = 0.0) -> Array:
        """``(q', v')`` of a state ``z = (q, v)``, for an integrator of ordinary differential equations."""
        nq, nv = self.terms.inputs["q"][0], self.terms.inputs["v"][0]
        z = as_array(z)
        q, v = part(z, 0, nq), part(z, nq, nq + nv)
        return concatenate(self.rate(q, v), self.acceleration(q, v, t))


def from_frames(
    coordinates: Coordinates,
    frames: Callable[[Array], Sequence[Array]],
    masses: Sequence[float],
    inertias: Sequence[Array],
    force: Function | None = None,
    work: Function | None = None,
) -> MovingFrame:
    """A mechanism of bodies whose frames (4, 4) at the centres of mass follow from coordinates; ``B`` by differentiation.

    Examples
    --------
    A rod of length 2 that hangs from the world at its end:

    >>> from heavytop.coordinates import Angle
    >>> def rod(q):
    ...     rotation = so3.rotation_about("y", q[0])
    ...     return [se3.pose(rotation, np.matvec(rotation, np.array([0.0, 0.0, -1.0])))]
    >>> weight = np.array([0.0, 0, -9.81, 0, 0, 0])
    >>> hanging = from_frames(Angle(), rod, [1.0], [[1 / 3, 1 / 3, 0.0001]], lambda q, v: weight)
    >>> hanging.acceleration([np.pi / 2], [0.0])
    array([-7.3575])
    """
    sizes = (coordinates.nq, coordinates.nv)
    return MovingFrame(
        sizes,
        coordinates.kinematics_matrix,
        constraint_matrix(coordinates, frames),
        block_mass(masses, inertias),
        force,
        block_gyroscopic,
        work,
    )


def total_power(motion: FrameMotion, matrix: Array, v: Array) -> tuple[Any, Any]:
    """Powers (...) in W of the ideal constraint force (zero, eq. 48, erratum 4.2) and of the nonideal one."""
    velocity = np.matvec(matrix, v)
    return np.vecdot(velocity, motion.ideal), np.vecdot(velocity, motion.nonideal)
