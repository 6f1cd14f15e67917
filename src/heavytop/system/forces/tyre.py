"""A tyre on the ground: vertical spring and damper, and the brush model of slip and cornering.

The wheel is a disc of radius r around the y axis of its frame. Its lowest point c in the plane of the disc touches where its distance from the ground
is negative. With the longitudinal direction e_x = unit(y x n), the lateral one e_y = n x e_x, the velocity V of the wheel's centre and the velocity
u = v + w x c of the point of the wheel, which vanishes if it rolls,

    kappa = u . e_x / |V_x|,   tan alpha = u . e_y / |V_x|,   |V_x| at least the speed v_0,
    s = (C_x kappa, C_y tan alpha) / (mu N),   F = -mu N (s / |s|) (x - x^2/3 + x^3/27) with x = |s| up to 3, then -mu N s / |s|   (Fiala 1954).

So F = -(C_x kappa, C_y tan alpha) at small slip, the friction is full from |s| = 3 on, and braking and cornering share it. Below the speed v_0 the
tyre resists like a damper C / v_0: a standing car creeps at F v_0 / C. The rolling resistance is a moment f N r against the rolling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, part, scale, transpose
from heavytop._format import Brief
from heavytop.geometry import se3, so3
from heavytop.system.contacts.surfaces import ContactSurface
from heavytop.system.forces.base import Line, PairElement

TINY = 1e-24
LOW_SPEED = 0.05
"""Speed v_0 in m/s, by default."""


@dataclass(frozen=True, eq=False, repr=False)
class Tyre(Brief, PairElement):
    """A tyre between the ground of frame a and the wheel b; made by :meth:`.System.tyre`.

    Attributes
    ----------
    surface : surface of the ground. radius : r in m. stiffness, viscosity : vertical ones, N/m and N s/m.
    slip, cornering : C_x and C_y in N (force per unit of slip and of the tangent of the slip angle).
    friction : mu. rolling : coefficient f of the rolling resistance. low_speed : v_0 in m/s.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="wheel")
    >>> system.body("wheel", joint=ht.Free(), inertia=ht.Inertia(20.0, moment_at_com=(0.5, 1.0, 0.5)))
    >>> system.ground(friction=1.0)
    >>> system.tyre("wheel", radius=0.3, stiffness=2e5, slip=5e4, cornering=4e4)
    >>> model = system.derive(native=False)
    >>> q = model.neutral()
    >>> q[2] = 0.3 - 20.0 * 9.81 / 2e5
    >>> float(model.acceleration(q, np.array([10.0, 0, 0, 0, 10.0 / 0.3, 0]))[0].round(6)) + 0.0
    0.0
    """

    a: str
    b: str
    surface: ContactSurface
    radius: float
    stiffness: Any
    viscosity: Any
    slip: Any
    cornering: Any
    friction: Any
    rolling: Any = 0.0
    low_speed: Any = LOW_SPEED

    def lines(self) -> tuple[Line, ...]:
        return ()

    def not_negative(self) -> Mapping[str, Any]:
        names = ("viscosity", "slip", "cornering", "friction", "rolling")
        return {name: as_array(getattr(self, name)) for name in names}

    def positive(self) -> Mapping[str, Array]:
        return {"stiffness": as_array(self.stiffness), "low_speed": as_array(self.low_speed)}

    # --- geometry: all in the axes of the wheel -------------------------------------------------------------------------------

    def _contact(self, pose: Array) -> tuple[Array, Array, Array]:
        """Gap, lowest point (3,) of the wheel, and the normal (3,) there."""
        R, x = se3.rotation(pose), se3.position(pose)
        normal = np.matvec(transpose(R), self.surface.normal(x))
        across = normal - normal[1] * np.array([0.0, 1.0, 0.0])
        low = scale(-self.radius / np.sqrt(np.vecdot(across, across) + TINY), across, 1)
        gap, found = self.surface.touch(x + np.matvec(R, low), 0.0)
        return gap, low, np.matvec(transpose(R), found)

    def energy(self, pose: Array, /) -> Array:
        gap, *_ = self._contact(pose)
        depth = np.maximum(-gap, 0.0)
        return 0.5 * self.stiffness * depth * depth

    def _rolling(self, pose: Array, twist: Array) -> tuple[Array, ...]:
        """Lowest point, normal, directions along and across with the slip speeds, damping force, coefficients against slip and rolling."""
        gap, low, normal = self._contact(pose)
        velocity, omega = part(twist, 0, 3), part(twist, 3, 6)
        axis = np.array([0.0, 1.0, 0.0])
        forward = np.cross(axis, normal)
        forward = scale(1.0 / np.sqrt(np.vecdot(forward, forward) + TINY), forward, 1)
        sideways = np.cross(normal, forward)
        u = velocity + np.cross(omega, low)
        rate = np.vecdot(u, normal)
        touching = gap < 0.0
        elastic = self.stiffness * np.maximum(-gap, 0.0)
        damped = np.where(touching, np.maximum(-self.viscosity * rate, -elastic), 0.0)  # it does not pull
        pressure = elastic + damped
        travel = np.vecdot(velocity, forward)
        speed = np.sqrt(travel * travel + self.low_speed * self.low_speed)
        along, across = np.vecdot(u, forward), np.vecdot(u, sideways)
        most = np.where(touching, np.maximum(self.friction * pressure, 1e-9), 1.0)
        s_x, s_y = self.slip * along / (speed * most), self.cornering * across / (speed * most)
        s = np.sqrt(s_x * s_x + s_y * s_y + TINY)
        # phi(s)/s of the brush model
        share = np.where(s < 3.0, 1.0 - s / 3.0 + s * s / 27.0, 1.0 / np.maximum(s, 1.0))
        hold = np.where(touching, share / speed, 0.0)
        turning = omega[1] * self.radius
        roll = self.rolling * pressure * self.radius / np.sqrt(turning * turning + self.low_speed * self.low_speed)
        return (
            low,
            normal,
            forward,
            sideways,
            along,
            across,
            damped,
            self.slip * hold,
            self.cornering * hold,
            roll * self.radius,
        )

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        low, normal, forward, sideways, along, across, damped, c_x, c_y, roll = self._rolling(pose, twist)
        force = c_x * along * forward + c_y * across * sideways - damped * normal
        moment = roll * twist[4] * np.array([0.0, 1.0, 0.0])
        return concatenate(force, np.cross(low, force) + moment)

    def secant(self, pose: Array, twist: Array, /) -> Array:
        low, _, forward, sideways, _, _, _, c_x, c_y, roll = self._rolling(pose, twist)
        slide = c_x * np.outer(forward, forward) + c_y * np.outer(sideways, sideways)
        lever, axis = so3.wed(low), np.array([0.0, 1.0, 0.0])
        lower = lever @ slide
        upper = np.concatenate([slide, -slide @ lever], axis=1)
        return np.concatenate(
            [upper, np.concatenate([lower, roll * np.outer(axis, axis) - lower @ lever], axis=1)], axis=0
        )
