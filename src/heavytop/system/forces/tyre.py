"""A tyre on the ground: vertical spring and damper, and the brush model of slip and cornering.

The wheel is a disc of radius r around the y axis of its frame. Its lowest point c in the plane of the disc touches where its distance from the ground
is negative. With the longitudinal direction e_x = unit(y x n), the lateral one e_y = n x e_x, the velocity V of the wheel's centre and the velocity
u = v + w x c of the point of the wheel, which vanishes if it rolls,

    kappa = u . e_x / |V_x|,   tan alpha = u . e_y / |V_x|,   |V_x| at least the speed v_0,
    s = (C_x kappa, C_y tan alpha) / (mu N),   F = -mu N (s / |s|) (x - x^2/3 + x^3/27) with x = |s| up to 3, then -mu N s / |s|   (Fiala 1954).

So F = -(C_x kappa, C_y tan alpha) at small slip, the friction is full from |s| = 3 on, and braking and cornering share it. Below the speed v_0 the
tyre resists like a damper C / v_0: a standing car creeps at F v_0 / C. The rolling resistance is a moment f N r against the rolling.

A tyre with a relaxation length sigma bends by z = (z_x, z_y) first, z' = phi (u - |V_x| z/sigma) (Pacejka 2012, section 7.2), and z/sigma takes the
place of the slip in s; phi = phi(s)/s, 1 at small slip, is the share of the brush that holds. It carries phi C z/sigma: a spring, on which a standing
car rests. From s = 3 on, where the whole brush slides, slip does not bend it further. The deflections are states with the energy of that spring
(:mod:`heavytop.system.forces.inner`); below v_0 a damper sqrt(N C/(sigma g)) settles a car that has stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, part, scale, transpose, vector
from heavytop._format import Brief
from heavytop.geometry import se3, so3
from heavytop.system.contacts.surfaces import ContactSurface
from heavytop.system.description import GRAVITY
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

    def _motion(self, pose: Array, twist: Array) -> _Motion:
        """Velocities and normal forces at the lowest point."""
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
        return _Motion(
            low,
            normal,
            forward,
            sideways,
            np.vecdot(u, forward),
            np.vecdot(u, sideways),
            np.vecdot(velocity, forward),
            omega[1],
            touching,
            damped,
            pressure,
        )

    def _speed(self, m: _Motion) -> Array:
        """Speed over the ground, at least v_0."""
        return np.sqrt(m.travel * m.travel + self.low_speed * self.low_speed)

    def _share(self, m: _Motion, along: Array, across: Array) -> tuple[Array, Array]:
        """phi(s)/s of the brush model and s for two components of the slip."""
        most = np.where(m.touching, np.maximum(self.friction * m.pressure, 1e-9), 1.0)
        s_x, s_y = self.slip * along / most, self.cornering * across / most
        s = np.sqrt(s_x * s_x + s_y * s_y + TINY)
        return np.where(s < 3.0, 1.0 - s / 3.0 + s * s / 27.0, 1.0 / np.maximum(s, 1.0)), s

    def _roll(self, m: _Motion) -> Array:
        """Moment of the rolling resistance per rad/s."""
        turning = m.turning * self.radius
        speed = np.sqrt(turning * turning + self.low_speed * self.low_speed)
        return self.rolling * m.pressure * self.radius / speed * self.radius

    def _held(self, m: _Motion) -> tuple[Array, Array]:
        """Forces per slip speed, along and across."""
        speed = self._speed(m)
        hold = np.where(m.touching, self._share(m, m.along / speed, m.across / speed)[0] / speed, 0.0)
        return self.slip * hold, self.cornering * hold

    def _wrench(self, m: _Motion, along: Array, across: Array) -> Array:
        """Resistance (6,) with the forces along and across."""
        force = along * m.forward + across * m.sideways - m.damped * m.normal
        moment = self._roll(m) * m.turning * np.array([0.0, 1.0, 0.0])
        return concatenate(force, np.cross(m.low, force) + moment)

    def _matrix(self, m: _Motion, c_x: Array, c_y: Array) -> Array:
        """The same for forces that are proportional to the slip speeds, as a matrix (6, 6), without the normal force."""
        slide = c_x * np.outer(m.forward, m.forward) + c_y * np.outer(m.sideways, m.sideways)
        lever, axis = so3.wed(m.low), np.array([0.0, 1.0, 0.0])
        lower = lever @ slide
        upper = np.concatenate([slide, -slide @ lever], axis=1)
        turn = self._roll(m) * np.outer(axis, axis) - lower @ lever
        return np.concatenate([upper, np.concatenate([lower, turn], axis=1)], axis=0)

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        m = self._motion(pose, twist)
        c_x, c_y = self._held(m)
        return self._wrench(m, c_x * m.along, c_y * m.across)

    def secant(self, pose: Array, twist: Array, /) -> Array:
        m = self._motion(pose, twist)
        return self._matrix(m, *self._held(m))


@dataclass(frozen=True, eq=False, repr=False)
class RelaxingTyre(Tyre):
    """A tyre whose forces follow the slip over the distance ``relaxation`` in m, with its deflections as states."""

    relaxation: Any = 0.3
    memory: str = ""
    states = ("along", "across")

    def positive(self) -> Mapping[str, Array]:
        own = {name: as_array(getattr(self, name)) for name in ("relaxation", "slip", "cornering")}
        return {**super().positive(), **own}

    def _damping(self, m: _Motion) -> Array:
        """Viscous coefficient at rest, fading out above the speed v_0."""
        bent = self.slip / self.relaxation * np.maximum(m.pressure, 0.0) / GRAVITY
        slow = m.travel / self.low_speed
        return np.where(m.touching, np.sqrt(bent + TINY) / (1.0 + slow * slow), 0.0)

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        m = self._motion(pose, part(twist, 0, 6))
        stiff_x, stiff_y = self.slip / self.relaxation, self.cornering / self.relaxation
        s_x, s_y = twist[6], twist[7]
        bent_x, bent_y = s_x / np.sqrt(stiff_x), s_y / np.sqrt(stiff_y)
        share, s = self._share(m, bent_x / self.relaxation, bent_y / self.relaxation)
        share = np.where(m.touching, share, 0.0)
        gain_x, gain_y = np.sqrt(stiff_x) * share, np.sqrt(stiff_y) * share
        back = share * np.sqrt(m.travel * m.travel + TINY) / self.relaxation
        sliding = np.minimum(np.maximum((s - 3.0) / 0.3, 0.0), 1.0)
        bending = self.slip * s_x * gain_x * m.along + self.cornering * s_y * gain_y * m.across
        stretched = self.slip * s_x * s_x + self.cornering * s_y * s_y
        back = back + sliding * np.maximum(bending, 0.0) / np.maximum(stretched, TINY)
        d = self._damping(m) * share
        wrench = self._wrench(m, gain_x * s_x + d * m.along, gain_y * s_y + d * m.across)
        return concatenate(wrench, vector(back * s_x - gain_x * m.along, back * s_y - gain_y * m.across))

    def secant(self, pose: Array, twist: Array, /) -> Array:
        m = self._motion(pose, part(twist, 0, 6))
        d = self._damping(m)
        upper = np.concatenate([self._matrix(m, d, d), np.zeros((6, 2))], axis=1)
        return np.concatenate([upper, np.zeros((2, 8))], axis=0)


@dataclass
class _Motion:
    """A wheel at its lowest point: directions, slip speeds ``along`` and ``across``, speed of ``travel`` and of ``turning``, and normal forces."""

    low: Array
    normal: Array
    forward: Array
    sideways: Array
    along: Array
    across: Array
    travel: Array
    turning: Array
    touching: Array
    damped: Array
    pressure: Array
