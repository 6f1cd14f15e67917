"""The rigid-body model of observers and predictors: one free body with its mass, inertia and the wrench of every input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, part, transpose
from heavytop.control.references.reference import coordinates_of_motion
from heavytop.errors import ControlError
from heavytop.geometry import se3
from heavytop.system import Model, at_defaults
from heavytop.system.joints import Free

UP = np.array([0.0, 0.0, 1.0])


class HullMotion(NamedTuple):
    """Position (3,) and velocity (3,) in world axes, rotation (3, 3), angular velocity (3,) in body axes."""

    r: Array
    R: Array
    velocity: Array
    omega: Array


@dataclass(frozen=True, eq=False)
class Hull:
    """Mass, inertia and wrenches of a model that is one free body. Motions are those of its centre of mass.

    Attributes
    ----------
    model : whose coordinates are used.
    mass : kg. moment : (3, 3) about the centre of mass, kg m^2. wrenches : (6, nu) force and moment about the centre of mass per unit of
        every input, body axes.
    gravity : (3,) m/s^2. com : (3,) centre of mass in the axes of the body, m.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> hull = Hull.of(quadcopter().model)
    >>> hull.mass, hull.wrenches[2].round(12)
    (0.9, array([1., 1., 1., 1.]))
    """

    model: Model
    mass: float
    moment: np.ndarray
    wrenches: np.ndarray
    gravity: np.ndarray
    com: np.ndarray

    @classmethod
    def of(cls, model: Model) -> Hull:
        """The hull of a model, its parameters at their nominal values.

        Raises
        ------
        ControlError
            The model is not one free body.
        """
        joints = model.description.joints
        if len(joints) != 1 or not isinstance(joints[0].joint, Free):
            raise ControlError(
                f"{model.name!r} is not a single free body: observers, prediction and the governor require a vehicle without moving "
                "parts. Control the load or the arm by the law and wrap the law of the hull alone."
            )
        inertia, own = model.description.inertias[joints[0].b], model.description.parameters
        mass, com, moment = (at_defaults(x, own) for x in (inertia.mass, inertia.com, inertia.moment_at_com))
        q, rest = model.neutral(), np.zeros(model.nv)
        still = model.acceleration(q, rest, np.zeros(model.nu))
        columns = []
        for unit in np.eye(model.nu):
            pushed = model.acceleration(q, rest, unit) - still
            columns.append(np.concatenate([mass * (pushed[:3] + np.cross(pushed[3:], com)), moment @ pushed[3:]]))
        wrenches = np.array(columns).T
        wrenches[np.abs(wrenches) < 1e-12 * np.max(np.abs(wrenches))] = 0.0  # rounding
        moment = np.where(np.abs(moment) < 1e-12 * np.max(np.abs(moment)), 0.0, moment)
        return cls(model, float(mass), moment, wrenches, at_defaults(model.description.gravity, own), np.asarray(com))

    @property
    def joint(self) -> Any:
        return self.model.description.joints[0].joint

    def motion(self, q: Array, v: Array) -> HullMotion:
        """Position, rotation, velocity and angular velocity from the coordinates."""
        G = self.joint.pose(q)
        J = self.joint.jacobian(q)
        xi = np.matvec(J, v) if is_symbolic(J) or not np.array_equal(J, np.eye(6)) else v
        R, velocity, omega = se3.rotation(G), part(xi, 0, 3), part(xi, 3, 6)
        if not self.is_centred:
            velocity = velocity + np.cross(omega, self.com)
        return HullMotion(self._centre(se3.position(G), R), R, np.matvec(R, velocity), omega)

    @property
    def is_centred(self) -> bool:
        """Whether the origin of the body is its centre of mass."""
        return not np.any(self.com)

    def _centre(self, r: Array, R: Array, sign: float = 1.0) -> Array:
        """The centre of mass for the origin r, or the origin for the centre of mass (sign -1)."""
        return r if self.is_centred else r + sign * np.matvec(R, self.com)

    def _swing(self, omega: Array, omega_rate: Array) -> Array:
        """Acceleration (3,) of the centre of mass relative to the origin, body axes."""
        return np.cross(omega_rate, self.com) + np.cross(omega, np.cross(omega, self.com))

    def coordinates(
        self, motion: HullMotion, acceleration: Array | None = None, omega_rate: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """q, v and a of a motion; the acceleration (3,) of the centre in world axes, the angular one in body axes, zero by default."""
        back = transpose(motion.R)
        v_lin = np.matvec(back, motion.velocity)
        turn = np.zeros(3) if omega_rate is None else omega_rate
        if not self.is_centred:
            v_lin = v_lin - np.cross(motion.omega, self.com)
        rate = np.zeros(3)
        if acceleration is not None:
            rate = np.matvec(back, acceleration) - np.cross(motion.omega, v_lin)
            rate = rate if self.is_centred else rate - self._swing(motion.omega, turn)
        xi, xi_rate = concatenate(v_lin, motion.omega), concatenate(rate, turn)
        pose = se3.pose(motion.R, self._centre(motion.r, motion.R, -1.0))
        return coordinates_of_motion(self.model, pose, xi, xi_rate)

    def reference(self, q_R: Array, v_R: Array, a_R: Array) -> tuple[HullMotion, Array, Array]:
        """The motion of a reference, its acceleration (3,) in world axes and its angular acceleration (3,) in body axes.

        Only for velocities in body or world axes: a_R holds the rates of those.
        """
        motion = self.motion(q_R, v_R)
        linear, turn = part(a_R, 0, 3), part(a_R, 3, 6)
        swing = np.zeros(3) if self.is_centred else self._swing(motion.omega, turn)
        if self.joint.velocity == "mixed":
            return motion, linear if self.is_centred else linear + np.matvec(motion.R, swing), turn
        v_lin = np.matvec(transpose(motion.R), motion.velocity)
        if not self.is_centred:
            v_lin = v_lin - np.cross(motion.omega, self.com)
        return motion, np.matvec(motion.R, linear + swing + np.cross(motion.omega, v_lin)), turn

    def forces(self, u: Array) -> tuple[Array, Array]:
        """Force (3,) and moment (3,) of the inputs, body axes."""
        wrench = np.matvec(self.wrenches, u)
        return part(wrench, 0, 3), part(wrench, 3, 6)

    @property
    def sideways(self) -> np.ndarray:
        """(2, 3) Force along x and y that inevitably accompanies a moment, per moment, body axes; zero if all wrenches are possible.

        Zero for parallel thrusts; rotors that tilt above the centre of mass push the hull sideways when they turn it.
        """
        W = self.wrenches
        if np.linalg.matrix_rank(W) == 6 or not np.any(W[:2]):
            return np.zeros((2, 3))
        return W[:2] @ np.linalg.pinv(W[2:])[:, 1:]

    def angular_acceleration(self, omega: Array, moment: Array) -> Array:
        """Theta^-1 (moment - omega x Theta omega)."""
        return np.matvec(np.linalg.inv(self.moment), moment - np.cross(omega, np.matvec(self.moment, omega)))


def limited(x: Array, largest: float | Array) -> Array:
    """A vector (3,) shortened to a length."""
    length = np.sqrt(np.vecdot(x, x) + 1e-18)
    return np.minimum(1.0, largest / length) * x


def within(x: Array, low: float | np.ndarray, high: float | np.ndarray) -> Array:
    """Numbers clipped to a range."""
    return np.minimum(np.maximum(x, low), high)
