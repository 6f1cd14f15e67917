"""Force elements in joints: springs, dampers, dry friction, stops, rotors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    block,
    components,
    concatenate,
    from_columns,
    is_symbolic,
    shape,
    transpose,
    vector,
)
from heavytop._format import Brief
from heavytop.errors import ModelError, unknown_name
from heavytop.geometry import se3
from heavytop.system.description.inputs import unit_axis
from heavytop.system.forces.base import JointElement
from heavytop.system.forces.inner import bristles
from heavytop.system.forces.ports import Displacement, JointPort, Port, RotorPort, spread

if TYPE_CHECKING:
    from heavytop.system.kinematics.kinematics import Kinematics

FAR = 1e30
"""Value of an end that does not exist."""


@dataclass(frozen=True, eq=False, repr=False)
class JointSpring(Brief, JointElement):
    """V = 1/2 sum_i k_i delta_i^2 with the displacement delta of the joint from ``rest``.

    For rotations delta is the rotation vector from the rest attitude, in axes of the moved body; at half a turn it jumps.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointSpring("arm", 4.0))
    >>> float(system.derive(native=False).potential_energy([0.5]))
    0.5
    """

    joint: str
    stiffness: Array
    rest: Array = 0.0
    displacement: Any = field(default=None, repr=False)

    def not_negative(self) -> Mapping[str, Any]:
        return {"stiffness": self.stiffness}

    def resolved(self, port: Port) -> JointSpring:
        displacement = Displacement.at(port, self.rest, self.title)
        return replace(
            self, stiffness=spread(self.stiffness, port.size, f"stiffness of {self.title}"), displacement=displacement
        )

    def energy(self, q: Array, /) -> Array:
        delta = self.displacement.of(q)
        return 0.5 * np.vecdot(delta, self.stiffness * delta)

    def energy_gradient(self, q: Array, /) -> Array:
        """T(delta)^T K delta."""
        delta = self.displacement.of(q)
        return self.displacement.pulled_back(delta, self.stiffness * delta)

    def joint_constants(self) -> Mapping[str, Array]:
        return {"stiffness": self.stiffness, "rest": self.rest}


@dataclass(frozen=True, eq=False, repr=False)
class JointDamper(Brief, JointElement):
    """R = 1/2 sum_i d_i w_i^2 with the joint's velocities relative to its parent.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointDamper("arm", 0.5))
    >>> float(system.derive(native=False).acceleration([0.0], [2.0])[0])
    -1.0
    """

    joint: str
    viscosity: Array

    def resolved(self, port: Port) -> JointDamper:
        return replace(self, viscosity=spread(self.viscosity, port.size, f"damping of {self.title}"))

    def dissipation(self, q: Array, v: Array, /) -> Array:
        return 0.5 * np.vecdot(v, self.viscosity * v)

    def resistance(self, q: Array, v: Array, /) -> Array:
        return self.viscosity * v

    def damping(self, q: Array, /) -> Array:
        return diagonal(self.viscosity)

    def not_negative(self) -> Mapping[str, Any]:
        return {"damping": self.viscosity}

    def joint_constants(self) -> Mapping[str, Array]:
        return {"damping": self.viscosity}


def diagonal(values: Array) -> Array:
    """The diagonal matrix (n, n) of values (n,)."""
    units = np.eye(values.shape[0])
    return from_columns(*(value * unit for value, unit in zip(components(values), units, strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class JointFriction(Brief, JointElement):
    """Smooth Coulomb friction with the Stribeck effect, and viscous friction, for each velocity w of the joint:

    (F_C + (F_S - F_C) exp(-(w / w_S)^2)) tanh(w / w_0) + d w

    F_C is the ``coulomb`` friction, F_S the ``static`` one, w_S the ``stribeck_speed``, w_0 the ``smoothing`` and d the ``viscous``
    coefficient. It never drives: w times the force is not negative. Being smooth it creeps instead of sticking.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointFriction("arm", coulomb=0.3))
    >>> float(system.derive(native=False).acceleration([0.0], [2.0])[0].round(6))
    -0.3
    """

    joint: str
    coulomb: Array
    viscous: Array = 0.0
    static: Array | None = None
    stribeck_speed: Array = 0.1
    smoothing: Array = 0.01

    def resolved(self, port: Port) -> JointFriction:
        def each(name: str) -> Array:
            return spread(getattr(self, name), port.size, f"{name} of {self.title}")

        static = None if self.static is None else each("static")
        return replace(
            self,
            coulomb=each("coulomb"),
            viscous=each("viscous"),
            static=static,
            stribeck_speed=each("stribeck_speed"),
            smoothing=each("smoothing"),
        )

    def resistance(self, q: Array, v: Array, /) -> Array:
        return self._level(v) * np.tanh(v / self.smoothing) + self.viscous * v

    def _level(self, v: Array) -> Array:
        """Friction at full size (n,)."""
        if self.static is None:
            return self.coulomb
        return self.coulomb + (self.static - self.coulomb) * np.exp(-((v / self.stribeck_speed) ** 2))

    def damping(self, q: Array, /) -> Array:
        return diagonal(self.viscous)

    def secant(self, q: Array, v: Array, /) -> Array:
        resting = np.abs(v) < 1e-4 * self.smoothing  # there tanh(x)/x is 1 to rounding
        moving = np.where(resting, self.smoothing, v)
        slope = np.where(resting, 1.0 / self.smoothing, np.tanh(moving / self.smoothing) / moving)
        return diagonal(self._level(v) * slope)

    def not_negative(self) -> Mapping[str, Any]:
        static = {} if self.static is None else {"static": self.static}
        return {"coulomb": self.coulomb, "viscous": self.viscous, **static}

    def positive(self) -> Mapping[str, Array]:
        return {"stribeck_speed": self.stribeck_speed, "smoothing": self.smoothing}

    def joint_constants(self) -> Mapping[str, Array]:
        return {"friction": self.coulomb, "damping": self.viscous}

    def left_out(self) -> str:
        return (
            "smooth near zero here" if self.static is None else "without the static friction, and smooth near zero here"
        )


@dataclass(frozen=True, eq=False, repr=False)
class JointBristles(Brief, JointElement):
    """Coulomb friction by bristles, for each velocity of the joint: it sticks without creeping (:mod:`heavytop.system.forces.inner`).

    ``length`` is the displacement in rad or m at which the friction ``coulomb`` is full.

    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("slider", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    >>> system.joint_friction("slider", coulomb=12.0, bristles=1e-4)
    >>> run = ht.simulate(system.derive(), ([0.0, 0.0], [0.0, 0.0]), until=1.0, step=1e-3)
    >>> abs(float(run.v[-1, 0])) < 1e-9, bool(run.q[-1, 0] > -1e-4)
    (True, True)
    """

    joint: str
    coulomb: Array
    length: Array
    states: tuple[str, ...]
    memory: str

    def resolved(self, port: Port) -> JointBristles:
        size = len(self.states)
        values = {name: spread(getattr(self, name), size, f"{name} of {self.title}") for name in ("coulomb", "length")}
        return replace(self, **values)

    def _resistances(self, w: Array) -> tuple[list[Array], list[Array], list[Array]]:
        n = len(self.states)
        parts = [bristles(self.coulomb[k], self.length[k], w[k : k + 1], w[n + k : n + k + 1]) for k in range(n)]
        return tuple(map(list, zip(*parts, strict=True)))  # type: ignore[return-value]

    def resistance(self, q: Array, w: Array, /) -> Array:
        on_slip, on_states, damping = self._resistances(w)
        on_joint = [force + d * w[k : k + 1] for k, (force, d) in enumerate(zip(on_slip, damping, strict=True))]
        return concatenate(*on_joint, *on_states)

    def secant(self, q: Array, w: Array, /) -> Array:
        return diagonal(vector(*self._resistances(w)[2], *np.zeros(len(self.states))))

    def not_negative(self) -> Mapping[str, Any]:
        return {"coulomb": self.coulomb}

    def positive(self) -> Mapping[str, Array]:
        return {"length": as_array(self.length)}


@dataclass(frozen=True, eq=False, repr=False)
class JointStop(Brief, JointElement):
    """A spring and a damper that act outside the range from ``lower`` to ``upper`` of the joint's displacement from neutral.

    With the depth p beyond an end and u = min(max(p, 0), s) the force is k (u^2 / (2 s) + max(p, 0) - u): it sets in like a parabola
    over the ``smoothing`` s and goes on linearly, with continuous slope. The damper fades in over the same depth.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointStop("arm", lower=-1.0, upper=1.0, stiffness=100.0))
    >>> model = system.derive(native=False)
    >>> bool(model.acceleration([1.2], [0.0])[0] < -10), bool(abs(model.acceleration([0.0], [0.0])[0]) < 0.1)
    (True, True)
    """

    joint: str
    lower: Array
    upper: Array
    stiffness: Array
    viscosity: Array = 0.0
    smoothing: Array = 1e-3
    displacement: Any = field(default=None, repr=False)

    def not_negative(self) -> Mapping[str, Any]:
        span = as_array(self.upper) - as_array(self.lower)
        return {"stiffness": self.stiffness, "damping": self.viscosity, "upper less lower": span}

    def positive(self) -> Mapping[str, Array]:
        return {"smoothing": self.smoothing}

    def resolved(self, port: Port) -> JointStop:
        def each(name: str) -> Array:
            return spread(getattr(self, name), port.size, f"{name} of {self.title}")

        return replace(
            self,
            lower=_limited(each("lower")),
            upper=_limited(each("upper")),
            stiffness=each("stiffness"),
            viscosity=each("viscosity"),
            displacement=Displacement.at(port, 0.0, self.title),
        )

    def _depths(self, q: Array) -> tuple[Array, Array, Array]:
        """The displacement and its depths beyond the lower and the upper end (n,)."""
        delta = self.displacement.of(q)
        return delta, np.maximum(self.lower - delta, 0.0), np.maximum(delta - self.upper, 0.0)

    def energy(self, q: Array, /) -> Array:
        total = 0.0
        for depth in self._depths(q)[1:]:
            soft = np.minimum(depth, self.smoothing)
            hard = depth - soft
            stored = soft**3 / (6 * self.smoothing) + 0.5 * hard * (self.smoothing + hard)
            total = total + np.vecdot(self.stiffness, stored)
        return total

    def energy_gradient(self, q: Array, /) -> Array:
        delta, low, high = self._depths(q)
        return self.displacement.pulled_back(delta, self.stiffness * (self._ramp(high) - self._ramp(low)))

    def _ramp(self, depth: Array) -> Array:
        soft = np.minimum(depth, self.smoothing)
        return soft**2 / (2 * self.smoothing) + depth - soft

    def dissipation(self, q: Array, v: Array, /) -> Array:
        delta, low, high = self._depths(q)
        rate = self.displacement.rate(delta, v)
        return 0.5 * np.vecdot(self.viscosity * (self._contact(low) + self._contact(high)), rate * rate)

    def _contact(self, depth: Array) -> Array:
        """From 0 to 1 over the smoothing, with continuous slope."""
        share = np.minimum(depth, self.smoothing) / self.smoothing
        return share**2 * (3.0 - 2.0 * share)


def _limited(ends: Array) -> Array:
    return ends if is_symbolic(ends) else np.clip(ends, -FAR, FAR)


@dataclass(frozen=True, eq=False, repr=False)
class Armature(Brief, JointElement):
    """T = 1/2 sum_i I_i n_i^2 w_i^2: a rotor that turns ``gear_ratio`` n times as fast as the joint, without a further coordinate.

    With ``body`` the rotor is mounted on that body and turns about ``axis`` a of it; its fast spin then acts on the body, too. A symmetric
    rotor has exactly the energy of one that is welded to the body, which belongs to the inertia of the body, and

        T = 1/2 I n^2 w^2 + I n w (a . omega),

    with the angular velocity omega of the body. Without ``body`` the second, gyroscopic part is left out, as usual.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Armature("arm", rotor_inertia=0.01, gear_ratio=10.0))
    >>> float(system.derive(native=False).mass_matrix([0.0])[0, 0])
    2.0
    """

    joint: str
    rotor_inertia: Array
    gear_ratio: Array = 1.0
    body: str | None = None
    axis: Any = None

    def is_inner(self, root: str) -> bool:
        return type(self).port is Armature.port and self.joint != root

    def port(self, kinematics: Kinematics) -> Port:
        return super().port(kinematics) if self.body is None else RotorPort(kinematics, self.joint, self.body)

    def check_names(self, frames: Collection[str], joints: Collection[str]) -> None:
        super().check_names(frames, joints)
        if self.body is not None and self.body not in frames:
            raise unknown_name(f"body or frame (that carries the rotor of {self.title})", self.body, frames)

    def not_negative(self) -> Mapping[str, Any]:
        return {"inertia": self.rotor_inertia}

    def resolved(self, port: Port) -> Armature:
        size = port.joint_size if isinstance(port, RotorPort) else port.size
        if isinstance(port, RotorPort) and size != 1:
            raise ModelError(
                f"{self.title}: a rotor on a body needs a joint with one velocity, got {size}. Leave body= out."
            )
        axis = self._axis(port) if isinstance(port, RotorPort) else None
        inertia = spread(self.rotor_inertia, size, f"inertia of {self.title}")
        return replace(
            self,
            rotor_inertia=inertia,
            gear_ratio=spread(self.gear_ratio, size, f"gear_ratio of {self.title}"),
            axis=axis,
        )

    def _axis(self, port: JointPort) -> Array:
        """The unit axis (3,) of the rotor in the body that carries it: that of the joint unless given."""
        where = f"axis of {self.title}"
        if self.axis is not None:
            return unit_axis(self.axis, where)
        edge = next(edge for edge in port.kinematics.edges if edge.label == self.joint)
        own = edge.joint.turns_about
        if own is None or shape(own) != (3,) or self.body not in (edge.a, edge.b):
            raise ModelError(f"{where}: give the axis of {self.body!r} about which the rotor turns, such as axis='z'.")
        return own if self.body == edge.b else np.matvec(se3.rotation(edge.at), own)

    def inertia(self) -> Array:
        if self.body is None:
            return diagonal(self.rotor_inertia * self.gear_ratio**2)
        spin = from_columns(self.rotor_inertia * self.gear_ratio * self.axis)
        return block([[diagonal(self.rotor_inertia * self.gear_ratio**2), transpose(spin)], [spin, np.zeros((3, 3))]])

    def joint_constants(self) -> Mapping[str, Array]:
        return {"armature": as_array(self.rotor_inertia) * as_array(self.gear_ratio) ** 2}

    def left_out(self) -> str:
        return "" if self.body is None else f"without the gyroscopic effect of the rotor on {self.body!r}"
