"""The same system in other units: every number of a description multiplied by what its unit asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import heavytop as ht
from heavytop._arrays import as_array, concatenate, substitute
from heavytop.geometry import se3
from heavytop.system import BodyWrench, Description, at_defaults
from heavytop.system.description.description import Basis
from heavytop.system.forces.between_bodies import Damper, Spring, Strut
from heavytop.system.forces.in_joints import Armature, JointDamper, JointFriction, JointSpring
from heavytop.system.forces.on_coordinates import Dissipation, Force, Potential


class Units(NamedTuple):
    """By what numbers of lengths (m), masses (kg) and times (s) are multiplied."""

    L: float = 1.0
    M: float = 1.0
    T: float = 1.0

    @property
    def newton(self) -> float:
        return self.M * self.L / self.T**2

    @property
    def joule(self) -> float:
        return self.newton * self.L

    def of(self, names: tuple[str, ...]) -> np.ndarray:
        """Factors of numbers with these units; other ones are pure."""
        known = {
            "m": self.L, "m/s": self.L / self.T, "rad/s": 1 / self.T, "N": self.newton, "N m": self.joule, "1/s": 1 / self.T,
        }  # fmt: skip
        return np.array([known.get(name, 1.0) for name in names])


@dataclass(frozen=True)
class RescaledInput:
    """An input whose own number stays what it is."""

    element: Any
    units: Units
    fixed: Callable[[Any], Any]

    def actions(self, kinematics: Any) -> tuple[Any, ...]:
        found = []
        for action in self.element.actions(kinematics):
            if isinstance(action, BodyWrench):
                factors = np.array([self.units.newton] * 3 + [self.units.joule] * 3)
                found.append(replace(action, wrench=self.fixed(action.wrench) * factors))
            else:
                edge = next(e for e in kinematics.edges if e.label == action.joint)
                unit = edge.joint.v_units[action.index]
                factor = self.units.newton if unit == "m/s" else self.units.joule
                found.append(replace(action, force=self.fixed(action.force) * factor))
        return tuple(found)


def rescaled(system: ht.System, units: Units, native: bool = True) -> ht.Model:
    """The model of a system in other units, its parameters at their nominal values."""
    d = system.describe()
    own = d.parameters
    number = lambda x: at_defaults(as_array(x), own)  # noqa: E731
    q = units.of(tuple(u for e in d.joints for u in e.joint.q_units))
    v = units.of(tuple(u for e in d.joints for u in e.joint.v_units))
    forces = units.of(tuple({"m/s": "N", "rad/s": "N m"}.get(u, "") for e in d.joints for u in e.joint.v_units))

    def fixed(value: Any) -> Any:
        for p in own:
            value = substitute(as_array(value), p.symbol, np.asarray(p.value))
        return value

    def wrapped(fn: Callable, factor: Any) -> Callable:
        if fn is None:
            return None

        def rescaled_function(x: Any, *w: Any) -> Any:
            return fixed(fn(x / q, *(y / v for y in w))) * factor

        return rescaled_function

    def pose(G: Any) -> Any:
        G = number(G)
        return se3.pose(G[:3, :3], units.L * G[:3, 3])

    def moments(x: Any, total: float) -> Any:
        kind = ht.Inertia if isinstance(x, ht.Inertia) else type(x)
        return kind(
            total * number(x.total), units.L * number(x.center), total * units.L**2 * number(x.moment_at_center)
        )

    M, L, T = units.M, units.L, units.T

    def element(e: Any) -> Any:
        if isinstance(e, Damper):
            return Damper(e.a, e.b, moments(e.damping_moments, M / T))
        if isinstance(e, Spring):
            rest = None if e.rest is None else pose(e.rest)
            return Spring(e.a, e.b, moments(e.stiffness, M / T**2), rest, units.joule * number(e.least_energy))
        if isinstance(e, Strut):
            constants = M / T**2 * number(e.stiffness), L * number(e.rest_length), M / T * number(e.viscosity)
            return Strut(e.a, e.b, L * number(e.at_a), L * number(e.at_b), *constants)
        if isinstance(e, Potential):
            return Potential(wrapped(e.function, units.joule))
        if isinstance(e, Dissipation):
            return Dissipation(wrapped(e.function, units.joule / T))
        if isinstance(e, Force):
            return Force(wrapped(e.function, forces))
        joint = next(x.joint for x in d.joints if x.label == e.joint)
        place, rate = units.of(joint.q_units)[0], units.of(joint.v_units)[0]
        force = units.of(tuple({"m/s": "N", "rad/s": "N m"}[u] for u in joint.v_units))[0]
        if isinstance(e, JointDamper):
            return JointDamper(e.joint, number(e.viscosity) * force / rate)
        if isinstance(e, JointSpring):
            return JointSpring(e.joint, number(e.stiffness) * force / place, number(e.rest) * place)
        if isinstance(e, JointFriction):
            static = None if e.static is None else number(e.static) * force
            speeds = number(e.stribeck_speed) * rate, number(e.smoothing) * rate
            return JointFriction(e.joint, number(e.coulomb) * force, number(e.viscous) * force / rate, static, *speeds)
        if isinstance(e, Armature) and e.body is None:
            return Armature(e.joint, number(e.rotor_inertia) * force * T / rate, number(e.gear_ratio))
        raise TypeError(f"no units of {type(e).__name__}")

    loops = tuple(replace(x, at_a=pose(x.at_a), at_b=pose(x.at_b)) for x in d.loops)
    constraints = tuple(
        replace(
            c,
            function=wrapped(c.function, 1.0),
            work=wrapped(c.work, forces),
            friction=None if c.friction is None else wrapped(c.friction, forces),
        )
        for c in d.constraints
    )
    basis = None
    if d.basis is not None:
        given = d.basis.function
        basis = Basis(lambda x, w: fixed(given(x / q, w * T)) * v, d.basis.names)
    edges = tuple(replace(e, at=pose(e.at)) for e in d.graph.edges)
    return ht.Model(
        Description(
            d.name, number(d.gravity) * L / T**2, replace(d.graph, edges=edges),
            {name: moments(x, M) for name, x in d.inertias.items()}, tuple(map(element, d.elements)),
            {name: RescaledInput(x, units, fixed) for name, x in d.inputs.items()}, (), None, loops, constraints, basis,
        ),
        native,
    )  # fmt: skip


def state_in(model: ht.Model, q: Any, v: Any, units: Units) -> tuple[np.ndarray, np.ndarray]:
    """A state whose numbers are in the usual units, in other ones; velocities of a basis are rates."""
    rates = units.of(model.v_units) if model.description.basis is None else np.full(model.nv, 1 / units.T)
    return np.asarray(q) * units.of(model.q_units), np.asarray(v) * rates


def state_out(model: ht.Model, q: Any, v: Any, units: Units) -> np.ndarray:
    """The state in the usual units again, as one array (..., nq + nv)."""
    back = state_in(model, q, v, Units(1 / units.L, 1 / units.M, 1 / units.T))
    return concatenate(*back) if np.ndim(q) == 1 else np.concatenate(back, axis=-1)
