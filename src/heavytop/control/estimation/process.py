"""Processes of a filter: the state, its error on the manifold and its step, by the equations of a model or by an IMU.

The state of a process is a vector x (nx,) of redundant coordinates. Its error e (ne,) is a displacement in minimal coordinates,

    x = retract(x_hat, e),     dx = A(x) e,     e = Y(x) dx    to first order.

:class:`ModelProcess` has x = (q, v) and e = (displacement of the joints in body axes, deviation of v); :class:`Strapdown` has x = (r, R, v) of the
measuring unit and the left-invariant error of SE_2(3), for which the slopes of the step do not depend on the estimate.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import (
    Array,
    block,
    concatenate,
    flatten_columns,
    jacobian,
    part,
    split,
    substitute,
    symbol,
    transpose,
    unflatten_columns,
)
from heavytop.control.estimation.model_sensors import AccelerometerSensor, GyroSensor
from heavytop.control.observers.hull import Hull, HullMotion
from heavytop.coordinates import Angle, Attitude, Circle, Coordinates, EulerAngles, Pose, Product, Rotation, Vector
from heavytop.errors import ControlError
from heavytop.functions import Value
from heavytop.geometry import se3, so3
from heavytop.ocp import chart, chart_rate
from heavytop.simulate import as_dynamics
from heavytop.system import Model


class Process(Value):
    """Base of processes.

    Attributes
    ----------
    nx, ne : entries of state and error. ni, nw : entries of the inputs and of the noise of a step.
    names : names of the entries of an error.
    """

    model: Model
    nx: int
    ne: int
    ni: int
    nw: int
    names: tuple[str, ...]

    @abstractmethod
    def retract(self, x: Array, e: Array) -> Array:
        """The state (nx,) with the error e (ne,)."""

    @abstractmethod
    def difference(self, x0: Array, x1: Array) -> Array:
        """The error e (ne,) with ``retract(x0, e) = x1``."""

    @abstractmethod
    def A(self, x: Array) -> Array:
        """Slope (nx, ne) of :meth:`retract` at e = 0."""

    @abstractmethod
    def Y(self, x: Array) -> Array:
        """Slope (ne, nx) of :meth:`difference` where both states agree."""

    @abstractmethod
    def transport(self, x: Array, delta: Array) -> Array:
        """J (ne, ne) = Y d retract(x, delta) / d delta: errors about x to errors about ``retract(x, delta)``."""

    @abstractmethod
    def step(self, x: Array, b: Array, i: Array, w: Array, t: Array) -> Array:
        """The state one period later, with biases b of inputs, inputs i (ni,) and noise w (nw,)."""

    @abstractmethod
    def state(self, x: Array, b: Array, i: Array) -> tuple[Array, Array]:
        """q (nq,) and v (nv,) of the model."""

    @abstractmethod
    def start(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The state of q (..., nq) and v (..., nv). Numbers only."""

    @abstractmethod
    def deviations(self) -> np.ndarray:
        """Standard deviations (nw,) of the noise of a step."""


@dataclass(frozen=True, eq=False)
class ModelProcess(Process):
    """The equations of motion, driven by inputs and by white disturbing accelerations that are held over a step.

    Parameters
    ----------
    model : any model. period : length of a step, s. disturbance : (nv,) densities of the disturbing accelerations, unit of v per square root of s.
    parameters : (np,).
    """

    model: Model  # pyright: ignore[reportIncompatibleVariableOverride]
    period: float
    disturbance: Any
    parameters: Any

    def __post_init__(self) -> None:
        m, own = self.model, vars(self)
        own["nx"], own["ne"], own["ni"], own["nw"] = m.nq + m.nv, m.coordinates.nv + m.nv, m.nu, m.nv
        shifts: list[str] = []
        for label, c in zip(m.coordinates.names or (), m.coordinates.blocks, strict=True):
            shifts += [f"shift of {label}.{name}" for name in (c.q_names if c.nq == c.nv else c.v_names)]
        own["names"] = (*shifts, *(f"error of {name}" for name in m.v_names))

    @cached_property
    def _projection(self) -> Any:
        both = as_dynamics(self.model).projection()
        return None if both is None else both[0]

    def _split(self, x: Array) -> tuple[Array, Array]:
        return part(x, 0, self.model.nq), part(x, self.model.nq, self.nx)

    def _p(self, t: Array) -> Array:
        if self.model.description.time is None:
            return np.asarray(self.parameters)
        return concatenate(np.asarray(self.parameters)[:-1], np.reshape(t, (1,)))

    def kept(self, x: Array, t: Array) -> Array:
        """The state on the manifold of loops and constraints: one Newton step, least in the metric of the inertia."""
        if self._projection is None:
            return x
        q, v, _ = self._projection.expressions(*self._split(x), self._p(t))
        return concatenate(q, v)

    def retract(self, x: Array, e: Array) -> Array:
        q, v = self._split(x)
        n = self.model.coordinates.nv
        moved = concatenate(self.model.coordinates.retract(q, part(e, 0, n)), v + part(e, n, self.ne))
        return moved if self._projection is None else self.kept(self.kept(moved, 0.0), 0.0)

    def difference(self, x0: Array, x1: Array) -> Array:
        (q0, v0), (q1, v1) = self._split(x0), self._split(x1)
        return concatenate(self.model.coordinates.difference(q0, q1), v1 - v0)

    def A(self, x: Array) -> Array:
        q, _ = self._split(x)
        n, m = self.model.coordinates.nv, self.model.nv
        plain = _diagonal(self.model.coordinates.kinematics_matrix(q), np.eye(m), (self.model.nq, n))
        if self._projection is None:
            return plain
        z = symbol("z", self.nx)
        slope = substitute(jacobian(self.kept(z, 0.0), z), z, x)
        return slope @ plain

    def Y(self, x: Array) -> Array:
        q, _ = self._split(x)
        return _diagonal(
            self.model.coordinates.left_inverse(q), np.eye(self.model.nv), (self.model.coordinates.nv, self.model.nq)
        )

    def transport(self, x: Array, delta: Array) -> Array:
        n = self.model.coordinates.nv
        if self._projection is None:
            J = _tangent(self.model.coordinates, part(x, 0, self.model.nq), part(delta, 0, n))
            return _diagonal(J, np.eye(self.model.nv), (n, n))
        e = symbol("e", self.ne)
        return self.Y(self.retract(x, delta)) @ substitute(jacobian(self.retract(x, e), e), e, delta)

    def step(self, x: Array, b: Array, i: Array, w: Array, t: Array) -> Array:
        q, v = self._split(x)
        h = self.period

        def rate(q: Array, v: Array, late: float) -> tuple[Array, Array]:
            joint, a = self.model.traced("motion").expressions(q, v, i, self._p(t + late))[:2]
            return joint, a + w

        moved = self._munthe_kaas(q, v, rate, h) if self.model.coordinates.is_group else self._chart(q, v, rate, h)
        return self.kept(concatenate(*moved), t + h)

    def _munthe_kaas(self, q: Array, v: Array, rate: Any, h: float) -> tuple[Array, Array]:
        """The step of integrator rkmk4."""
        c = self.model.coordinates
        w1, a1 = rate(q, v, 0.0)
        d = 0.5 * h * w1
        w2, a2 = rate(c.retract(q, d), v + 0.5 * h * a1, 0.5 * h)
        k2 = c.tangent_inverse_truncated(d, w2)
        d = 0.5 * h * k2
        w3, a3 = rate(c.retract(q, d), v + 0.5 * h * a2, 0.5 * h)
        k3 = c.tangent_inverse_truncated(d, w3)
        d = h * k3
        w4, a4 = rate(c.retract(q, d), v + h * a3, h)
        k4 = c.tangent_inverse_truncated(d, w4)
        return c.retract(q, h / 6 * (w1 + 2 * k2 + 2 * k3 + k4)), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)

    def _chart(self, q: Array, v: Array, rate: Any, h: float) -> tuple[Array, Array]:
        """The classical step in the chart around q, for coordinates without a group."""
        c, total_e, total_v = self.model.coordinates, 0.0, 0.0
        e, dv = np.zeros(c.nv), 0.0
        for share, weight, late in ((0.5, 1, 0.0), (0.5, 2, 0.5), (1.0, 2, 0.5), (0.0, 1, 1.0)):
            joint, a = rate(chart(c, q, e), v + dv, late * h)
            k = chart_rate(c, q, e, joint)
            total_e, total_v = total_e + weight * h / 6 * k, total_v + weight * h / 6 * a
            e, dv = share * h * k, share * h * a
        return chart(c, q, total_e), v + total_v

    def state(self, x: Array, b: Array, i: Array) -> tuple[Array, Array]:
        return self._split(x)

    def start(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return concatenate(q, v)

    def deviations(self) -> np.ndarray:
        return np.asarray(self.disturbance) / np.sqrt(self.period)


def _tangent(own: Coordinates, q: Array, delta: Array) -> Array:
    """The slope (nv, nv) of displacements: errors about q to errors about ``retract(q, delta)``."""
    if isinstance(own, Product):
        parts = zip(own.blocks, own.split_q(q), own.split_v(delta), strict=True)
        return own._diagonal([_tangent(inner, at, d) for inner, at, d in parts])
    if isinstance(own, Pose) and not isinstance(own.attitude_block, EulerAngles):
        if own.velocity == "body":
            return se3.tangent(delta)
        return _diagonal(np.eye(3), so3.tangent(part(delta, 3, 6)), (3, 3))
    if isinstance(own, Attitude) and not isinstance(own, EulerAngles):
        return so3.tangent(delta)
    if isinstance(own, Vector | Circle | Angle):
        return np.eye(own.nv)
    e = symbol("e", own.nv)
    return own.left_inverse(own.retract(q, delta)) @ substitute(jacobian(own.retract(q, e), e), e, delta)


def _diagonal(first: Array, second: Array, size: tuple[int, int]) -> Array:
    """Block-diagonal matrix of two."""
    rows, columns = size
    return block([[first, np.zeros((rows, second.shape[1]))], [np.zeros((second.shape[0], columns)), second]])


@dataclass(frozen=True, eq=False)
class Strapdown(Process):
    """A free body whose motion follows from its gyro and accelerometer, without a model of its forces.

    Parameters
    ----------
    model : one free body. gyro, accelerometer : on it, one reading of each per period, means over it. period : s.
    """

    model: Model  # pyright: ignore[reportIncompatibleVariableOverride]
    gyro: GyroSensor
    accelerometer: AccelerometerSensor
    period: float

    def __post_init__(self) -> None:
        own = vars(self)
        own["nx"], own["ne"], own["ni"], own["nw"] = 15, 9, 6, 6
        frame = self.gyro.frame
        body = self.model.description.joints[0].b
        if frame != body or self.accelerometer.frame != body:
            raise ControlError(f"gyro and accelerometer must be on the frame {body!r} of the free body, got {frame!r}.")
        shifts = [f"shift of {frame} along {axis}" for axis in "xyz"] + [
            f"turn of {frame} about {axis}" for axis in "xyz"
        ]
        own["names"] = (*shifts, *(f"velocity of {frame} along {axis}" for axis in "xyz"))

    @cached_property
    def hull(self) -> Hull:
        """The body with the accelerometer as reference point."""
        return replace(Hull.of(self.model), com=np.asarray(self.accelerometer.at, dtype=float))

    @staticmethod
    def _split(x: Array) -> tuple[Array, Array, Array]:
        r, R, v = split(x, (3, 9, 3))
        return r, unflatten_columns(R, 3), v

    def retract(self, x: Array, e: Array) -> Array:
        r, R, v = self._split(x)
        rho, theta, nu = split(e, (3, 3, 3))
        shift, kick = (np.matvec(R, se3.displacement(d, theta)) for d in (rho, nu))
        return concatenate(r + shift, flatten_columns(R @ so3.exp(theta)), v + kick)

    def difference(self, x0: Array, x1: Array) -> Array:
        (r0, R0, v0), (r1, R1, v1) = self._split(x0), self._split(x1)
        back = transpose(R0)
        theta = so3.log(back @ R1)
        rho, nu = (se3.displacement_inverse(np.matvec(back, d), theta) for d in (r1 - r0, v1 - v0))
        return concatenate(rho, theta, nu)

    def A(self, x: Array) -> Array:
        _, R, _ = self._split(x)
        zero, turn = np.zeros((3, 3)), Rotation().kinematics_matrix(part(x, 3, 12))
        wide = np.zeros((9, 3))
        return block([[R, zero, zero], [wide, turn, wide], [zero, zero, R]])

    def Y(self, x: Array) -> Array:
        _, R, _ = self._split(x)
        back, turn = transpose(R), Rotation().left_inverse(part(x, 3, 12))
        zero, wide = np.zeros((3, 3)), np.zeros((3, 9))
        return block([[back, wide, zero], [zero, turn, zero], [zero, wide, back]])

    def transport(self, x: Array, delta: Array) -> Array:
        rho, theta, nu = split(delta, (3, 3, 3))
        first, second = se3.tangent(concatenate(rho, theta)), se3.tangent(concatenate(nu, theta))
        T, zero = so3.tangent(theta), np.zeros((3, 3))
        return block([[T, first[:3, 3:], zero], [zero, T, zero], [zero, second[:3, 3:], T]])

    def step(self, x: Array, b: Array, i: Array, w: Array, t: Array) -> Array:
        r, R, v = self._split(x)
        h, felt = self.period, i - b - w
        turn, force = h * part(felt, 0, 3), part(felt, 3, 6)
        a = np.matvec(R @ so3.exp(0.5 * turn), force) + self.hull.gravity
        return concatenate(r + h * v + 0.5 * h * h * a, flatten_columns(R @ so3.exp(turn)), v + h * a)

    def state(self, x: Array, b: Array, i: Array) -> tuple[Array, Array]:
        r, R, v = self._split(x)
        q, rates, _ = self.hull.coordinates(HullMotion(r, R, v, part(i, 0, 3) - part(b, 0, 3)))
        return q, rates

    def start(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        m = self.hull.motion(q, v)
        return concatenate(m.r, flatten_columns(m.R), m.velocity)

    def deviations(self) -> np.ndarray:
        return np.concatenate([self.gyro.deviations("noise"), self.accelerometer.deviations("noise")])
