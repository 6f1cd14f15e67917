"""Flat references with a prescribed yaw rate: the attitude about the thrust axis is integrated, and no direction is singular.

Side and heading vectors fail where the thrust axis becomes parallel to them. With the rate w_z about the thrust axis given instead,

    w_x = -b' . b_y,    w_y = b' . b_x,    w_z = w_z(t),

the attitude is the integral of its angular velocity. Between two nodes of a grid the axis turns from b_k to b(t) by the shortest rotation,
which spins by (b_k x b . b') / (1 + b_k . b) about the axis; the rest of w_z is a rotation about b, a plain integral.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heavytop._arrays import Array
from heavytop.control.references.curves import derivatives
from heavytop.control.references.flatness import Unit, held_motion
from heavytop.control.references.reference import Reference
from heavytop.errors import ControlError
from heavytop.geometry import so3
from heavytop.system import Model

NODES = 5
"""Gauss nodes of the integrals between two nodes of the grid."""
TURN = 0.2
"""Largest turn (rad) of the thrust axis between two nodes of the grid."""

Axis = Callable[[np.ndarray], Unit]
Path = Callable[[np.ndarray], tuple[np.ndarray, ...]]


class IntegratedYaw:
    """Attitudes (n, 3, 3) with a given z axis and a given rate about it, from an attitude at the start.

    Parameters
    ----------
    axis : times (n,) -> z axis with two derivatives. rate : times (n,) -> w_z (n,) and its derivative (n,), rad/s.
    start : (3,) heading at the start. duration : s.
    """

    def __init__(self, axis: Axis, rate: Path, start: np.ndarray, duration: float, grid: int = 400) -> None:
        self.axis, self.rate = axis, rate
        x, w = np.polynomial.legendre.leggauss(NODES)
        self._nodes, self._weights = (x + 1) / 2, w / 2
        times = np.linspace(0.0, duration, grid + 1)
        b = axis(times).b
        turned = np.arccos(np.clip(np.sum(b[1:] * b[:-1], axis=1), -1.0, 1.0))
        if np.max(turned) > TURN:  # finer where the axis turns fast
            pieces = [np.linspace(a, c, 2 + int(n / TURN)) for a, c, n in zip(times, times[1:], turned, strict=False)]
            times = np.unique(np.concatenate(pieces))
            b = axis(times).b
        y = np.cross(b[0], start)
        if np.linalg.norm(y) < 1e-6:
            raise ControlError("the heading at the start is parallel to the thrust axis; choose another one.")
        y = y / np.linalg.norm(y)
        self.times, self.b = times, b
        R = np.stack([np.cross(y, b[0]), y, b[0]], axis=-1)
        spins = self._spin(times[:-1], times[1:], b[:-1])
        swings = _shortest(b[:-1], b[1:])
        attitudes = [R]
        for swing, spin in zip(swings, spins, strict=True):
            R = _orthonormal(swing @ R @ so3.exp(np.array([0.0, 0.0, spin])))
            attitudes.append(R)
        self.attitudes = np.array(attitudes)
        finite = np.all(np.isfinite(self.attitudes), axis=(1, 2))
        if not np.all(finite):
            raise ControlError(
                f"the yaw rate or the curve is not finite near t = {times[np.argmin(finite)]:.4g} s: the attitude cannot be integrated."
            )

    def __call__(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rotation (n, 3, 3), angular velocity (n, 3) and its rate (n, 3) at the times (n,)."""
        k = np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        axis = self.axis(t)
        spin = self._spin(self.times[k], t, self.b[k])
        about = np.stack([0.0 * spin, 0.0 * spin, spin], axis=-1)
        R = _shortest(self.b[k], axis.b) @ self.attitudes[k] @ so3.exp(about)
        w_z, w_z1 = self.rate(t)
        bx, by = R[..., 0], R[..., 1]
        w_x, w_y = -np.vecdot(axis.b1, by), np.vecdot(axis.b1, bx)
        # derivatives of -b' . b_y and b' . b_x with b_x' = w_z b_y - w_y b, b_y' = w_x b - w_z b_x
        w_x1 = -np.vecdot(axis.b2, by) + w_z * w_y
        w_y1 = np.vecdot(axis.b2, bx) - w_z * w_x
        return R, np.stack([w_x, w_y, w_z], axis=-1), np.stack([w_x1, w_y1, w_z1], axis=-1)

    def _spin(self, begin: np.ndarray, end: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Integrals (n,) of the yaw rate minus that of the shortest rotation from the axes b (n, 3)."""
        total, length = np.zeros(len(begin)), end - begin
        for x, w in zip(self._nodes, self._weights, strict=True):
            t = begin + x * length
            axis = self.axis(t)
            own = np.vecdot(np.cross(b, axis.b), axis.b1) / (1.0 + np.vecdot(b, axis.b))
            total = total + w * length * (self.rate(t)[0] - own)
        return total


def _shortest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The shortest rotations (n, 3, 3) of unit vectors a (n, 3) into b: I + [c] + [c]^2 / (1 + a . b), c = a x b."""
    c = so3.wed(np.cross(a, b))
    return np.eye(3) + c + c @ c / (1.0 + np.vecdot(a, b))[..., None, None]


def _orthonormal(R: np.ndarray) -> np.ndarray:
    """One step of Newton's iteration for the nearest rotation."""
    return R @ (1.5 * np.eye(3) - 0.5 * R.T @ R)


def yaw_reference(
    model: Model, axis: Axis, path: Path, yaw_rate: Callable[[Array], Array], heading: np.ndarray, duration: float
) -> Reference:
    """Reference along a path (r, r', r'' at times (n,)) with a thrust axis and a yaw rate (rad/s, a function of time in NumPy notation)."""
    rates = derivatives(lambda t: np.reshape(yaw_rate(t), (1,)), 1, "yaw_rate")
    attitude = IntegratedYaw(axis, lambda t: tuple(x[..., 0] for x in rates(t)), heading, duration)
    return Reference(model, lambda t: held_motion(model, t, duration, attitude, path), duration=duration)
