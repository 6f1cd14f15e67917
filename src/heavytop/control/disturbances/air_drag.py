"""Drag of rotors and frame as a force, for plants that feel it and for controllers that know it.

With the velocity a_k of a rotor through the air, in body axes, and its speed n_k (Svacha, Mohta, Kumar 2017):

    -n_k diag(k_d, k_d, k_z) a_k + k_h (a_kx^2 + a_ky^2) axis   at every rotor,    -|a| diag(c) a   at the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, components, scale, transpose
from heavytop.control.observers.hull import UP, Hull, HullMotion
from heavytop.errors import ControlError, wrong_shape
from heavytop.geometry import so3


@dataclass(frozen=True, eq=False)
class AirDrag:
    """Coefficients of the drag of a vehicle.

    Parameters
    ----------
    rotor, inflow : k_d, k_z across and along the axis of a rotor, kg/rad. lift : k_h, kg/m. frame : c (3,), N/(m/s)^2.
    at, axes : (n, 3) places and axes of the rotors, m; default axes: z.
    wind : (3,) velocity of the air as far as known, world axes, m/s.

    Examples
    --------
    >>> AirDrag(frame=(0.01, 0.01, 0.02)).force(np.array([2.0, 0, 0]), np.zeros(3), np.zeros(0))
    array([-0.04, -0.  , -0.  ])
    """

    rotor: float = 0.0
    inflow: float = 0.0
    lift: float = 0.0
    frame: Any = (0.0, 0.0, 0.0)
    at: Sequence[Any] = ()
    axes: Sequence[Any] = field(default=())
    wind: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("frame", "wind"):
            if np.shape(getattr(self, name)) != (3,):
                raise wrong_shape(f"{name} of air drag", (3,), np.shape(getattr(self, name)))
        if len(self.axes) not in (0, len(self.at)):
            raise ControlError(f"air drag has {len(self.at)} rotors but {len(self.axes)} axes.")

    def scaled(self, factor: float) -> AirDrag:
        """All coefficients times a factor, for wrongly known drag.

        >>> AirDrag(rotor=1e-4).scaled(2.0).rotor
        0.0002
        """
        frame = tuple(factor * float(c) for c in self.frame)
        return replace(
            self, rotor=factor * self.rotor, inflow=factor * self.inflow, lift=factor * self.lift, frame=frame
        )

    def at_rotor(self, speed: Array, local: Array, axis: Array) -> Array:
        """Force (3,) on a rotor of that speed whose velocity through the air is ``local``, all in body axes."""
        x, y, _ = components(local)
        turning = scale(-speed, np.array([self.rotor, self.rotor, self.inflow]) * local, 1)
        return turning + scale(self.lift * (x * x + y * y), axis + 0.0 * local, 1)

    def at_frame(self, air: Array) -> Array:
        """Force (3,) on the frame, whose velocity through the air is ``air``."""
        fast = np.sqrt(np.vecdot(air, air) + 1e-18)
        return scale(-fast, np.asarray(self.frame, dtype=float) * air, 1)

    def force(self, air: Array, omega: Array, speeds: Array) -> Array:
        """Force (3,) on a vehicle with the velocity ``air`` through the air, body axes; ``speeds`` (n,) of its rotors."""
        total = self.at_frame(air)
        spin = components(speeds) if len(self.at) else ()
        for k, place in enumerate(self.at):
            axis = UP if not len(self.axes) else np.asarray(self.axes[k], dtype=float)
            local = air + np.cross(omega, np.asarray(place, dtype=float))
            total = total + self.at_rotor(spin[k], local, axis)
        return total

    def acceleration(self, hull: Hull, motion: HullMotion, speeds: Array) -> Array:
        """Acceleration (3,) of a hull by the drag, body axes, m/s^2."""
        air = np.matvec(transpose(motion.R), motion.velocity - np.asarray(self.wind, dtype=float))
        if not hull.is_centred:  # the places of the rotors are relative to the origin of the body
            air = air - np.cross(motion.omega, hull.com)
        return self.force(air, motion.omega, speeds) / hull.mass


def turning(b: Array, c: Array) -> Array:
    """The smallest rotation (3, 3) that takes the unit vector b (3,) to c; for vectors that are not opposite.

    I + S + S S / (1 + b . c) with S = wed(b x c).

    >>> turning(np.array([1.0, 0, 0]), np.array([0.0, 1, 0])) @ np.array([1.0, 0, 0])
    array([0., 1., 0.])
    """
    S = so3.wed(np.cross(b, c))
    return np.eye(3) + S + scale(1 / (1 + np.vecdot(b, c)), S @ S, 2)


def leaned(R: Array, specific: Array, axis: Array = UP) -> Array:
    """The rotation R (3, 3) turned by the smallest angle so that a body axis (3,), z by default, is along a specific force (3,), up or down."""
    b = np.matvec(R, axis)
    along = np.vecdot(b, specific)
    size = np.sqrt(np.vecdot(specific, specific) + 1e-18)
    c = scale(np.where(along >= 0, 1.0, -1.0) / size, specific, 1)
    return turning(b, c) @ R
