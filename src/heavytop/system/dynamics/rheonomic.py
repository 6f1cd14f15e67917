"""Explicit time: whether a description depends on it, and the drivers that move frames, constraints and potentials.

A driver k adds to the twist of each body a part that does not depend on the velocity coordinates, xi = J v + sum_k D_k xi_k, where xi_k (6,) is
the twist of its frame. Its wrench W_k on that frame follows from the principle of virtual power for a virtual twist of the frame at fixed velocity
coordinates:

    W_k = sum_b D_k^T (M_b xi' - ad(xi)^T M_b xi) + D_k^T (gradient of V) - D_k^T (all other forces) - (H D_k)^T lam,     P_k = W_k . xi_k.

A moving constraint, Phi v + b = 0, does the power -b . lam; a potential that depends on time explicitly does the power dV/dt. Together with the
powers of all other forces, each with the full velocity at its point of action, these make up the rate of the energy T + V.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import (
    Array,
    concatenate,
    depends_on,
    directional,
    is_symbolic,
    jacobian,
    substitute,
    symbol,
    to_sx,
    transpose,
)
from heavytop.compile import on_symbols
from heavytop.coordinates import Product
from heavytop.errors import HeavytopError
from heavytop.geometry import wrenches
from heavytop.system.constraints.constraints import as_symbols, at_rest, loop_motion
from heavytop.system.description import WORLD
from heavytop.system.description.description import Description
from heavytop.system.description.inputs import BodyWrench
from heavytop.system.description.moments import Moments
from heavytop.system.forces.terms import ElementTerms
from heavytop.system.joints import Joint
from heavytop.system.kinematics.kinematics import ONE, Kinematics, Motion

if TYPE_CHECKING:
    from heavytop.system.expressions import Expressions

POTENTIALS, BASIS = "potentials", "basis"
"""Names of the drivers of potentials and of a basis with a drift."""
GIVEN, LOST, SUPPLIED, STORED, HELD = "input", "dissipated", "supplied", "stored", "held"
"""Kinds of forces that a driver works against; HELD are the reactions of constraints."""


class Drivers:
    """The drivers of a described system at (q, v), with expressions of their powers and wrenches."""

    def __init__(self, expressions: Expressions) -> None:
        self.e, self.kinematics = expressions, expressions.kinematics
        self.time = expressions.description.time

    @cached_property
    def frames(self) -> dict[str, Motion]:
        """Name of each frame with a prescribed motion -> this motion relative to its parent."""
        moving = [edge for edge in self.e.description.graph.edges if self.kinematics.is_moving(edge)]
        return {edge.label: Motion.given(edge.at, self.time, self.e.nv) for edge in moving}

    @cached_property
    def basis_drift(self) -> Array | None:
        """The joints' own velocities (n,) of a basis at w = 0, or None if they vanish."""
        if self.e.description.basis is None:
            return None
        drift = at_rest(self.kinematics.v, self.kinematics)
        return drift if _is_nonzero(drift) else None

    @cached_property
    def constraints(self) -> dict[str, Array]:
        """Name of each constraint that moves by itself -> that part of its drift b (m,)."""
        if not self.e.is_constrained:
            return {}
        found, d = {}, self.e.description
        functions = {c.name: c for c in d.constraints}
        for rows in self.e.constrained.rows:
            own = rows.drift
            if rows.wrench_map is not None:
                loop = next(loop for loop in d.loops if loop.name == rows.name)
                whole, carried = (
                    at_rest(loop_motion(loop, self.kinematics, moving).twist, self.kinematics)
                    for moving in (True, False)
                )
                own = np.matvec(rows.wrench_map, whole - carried)
            elif rows.phi is not None and functions[rows.name].holonomic:
                own = np.zeros(1) if self.time is None else directional(as_symbols(rows.phi), self.time, ONE)
            if _is_nonzero(own):
                found[rows.name] = own
        return found

    @cached_property
    def has_potentials(self) -> bool:
        """Whether a potential depends on time explicitly, not only through the motion of frames."""
        if self.time is None:
            return False
        dynamics = self.e.dynamics
        return depends_on(as_symbols(dynamics.gravity.acceleration), self.time) or any(
            t.energy_depends_on(self.time) for t in dynamics.elements
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Moving frames, moving constraints, a basis with a drift, time-dependent potentials."""
        frames = list(self.frames)
        held = [f"constraint {name}" if name in frames else name for name in self.constraints]
        others = [BASIS] * (self.basis_drift is not None) + [POTENTIALS] * self.has_potentials
        return (*frames, *held, *(f"{name} (all)" if name in (*frames, *held) else name for name in others))

    # --- virtual velocities -------------------------------------------------------------------------------------------------

    @cached_property
    def _pushes(self) -> dict[str, Array]:
        """Symbols that are added to the twist (6,) of each frame, and to the pace () of a basis."""
        pushes = {label: symbol(f"push_{label}", 6) for label in self.frames}
        return pushes | ({BASIS: symbol("pace", 1)} if self.basis_drift is not None else {})

    @cached_property
    def _pushed(self) -> Kinematics:
        v = self.kinematics.v
        if self.basis_drift is not None:
            v = v + self._pushes[BASIS][0] * self.basis_drift
        return self.e.tree(v, {label: self._pushes[label] for label in self.frames})

    def _slope(self, velocity: Array, push: Array) -> Array | None:
        """Derivative (n, 6) of a velocity by a push; None if it does not depend on it."""
        return jacobian(velocity, push) if depends_on(velocity, push) else None

    def _acting(self, a: Array, u: Array) -> Iterator[tuple[str, Array, Array]]:
        """(kind, force, velocity) of all forces, the velocities with pushes; forces against inertia and gradients are ``stored``."""
        e, d, k = self.e, self.e.description, self._pushed
        bodies = len(d.inertias)
        terms = e.dynamics.inertia_terms
        for (name, inertia), term in zip(d.inertias.items(), terms[:bodies], strict=True):
            motion = self.kinematics.motion(WORLD, name)
            weight = wrenches.gravity_wrench(inertia.matrix, motion.pose, d.gravity)
            inert = term.force(np.matvec(term.jacobian, a) + term.bias)
            yield STORED, inert + weight, k.motion(WORLD, name).twist
        rotors = [t for t in e.dynamics.elements if t.inertia is not None]
        for t, term in zip(rotors, terms[bodies:], strict=True):
            inert = term.force(np.matvec(term.jacobian, a) + term.bias)
            yield STORED, inert, t.element.port(k).velocity
        for t in e.dynamics.elements:
            velocity = t.element.port(k).velocity
            for kind, force in ((STORED, t.stiffness), (LOST, t.resistance), (SUPPLIED, t.applied)):
                if force is not None:
                    yield kind, force, velocity
        for i, element in enumerate(d.inputs.values()):
            for action in element.actions(self.kinematics):
                if isinstance(action, BodyWrench):
                    yield GIVEN, action.wrench * u[i], k.motion(action.relative_to, action.frame).twist
                else:
                    rate = k.relative_v[action.joint][action.index]
                    yield GIVEN, np.reshape(action.force * u[i], (1,)), np.reshape(rate, (1,))
        for constraint in d.constraints:
            if constraint.work is not None:
                yield SUPPLIED, constraint.work(e.q, self.kinematics.own_v), k.own_v
        if e.is_constrained:
            yield from self._held(u)

    def _held(self, u: Array) -> Iterator[tuple[str, Array, Array]]:
        """Reactions of constraints, and friction that depends on them."""
        e, d, k = self.e, self.e.description, self._pushed
        lam = e.constrained.multipliers(u)
        sizes = e.constrained.friction_sizes(u)
        functions = {c.name: c for c in d.constraints}
        loops = {loop.name: loop for loop in d.loops}
        rubbing = 0
        for rows, at in e.constrained.blocks():
            if rows.wrench_map is not None:
                twist = loop_motion(loops[rows.name], k).twist
                yield HELD, np.matvec(transpose(rows.wrench_map), lam[at]), twist
                rub = loops[rows.name].friction
                if rub is not None:
                    own = loop_motion(loops[rows.name], self.kinematics).twist
                    yield LOST, -sizes[rubbing] * rub(own), twist
            elif rows.phi is not None and functions[rows.name].holonomic:
                yield HELD, lam[at], np.matvec(jacobian(rows.phi, e.q), k.rate)
            rubbing += rows.friction is not None

    # --- results ------------------------------------------------------------------------------------------------------------

    def shares(self, a: Array, u: Array) -> dict[str, dict[str, Array]]:
        """Name of a frame (or the basis) -> kind of force -> its virtual power per unit of push (6,), or (1,)."""
        signs = {STORED: 1.0, LOST: 1.0, SUPPLIED: -1.0, GIVEN: -1.0, HELD: -1.0}
        total: dict[str, dict[str, Array]] = {name: {} for name in self._pushes}
        for kind, force, velocity in self._acting(a, u):
            for name, push in self._pushes.items():
                slope = self._slope(velocity, push)
                if slope is not None:
                    share = signs[kind] * np.matvec(transpose(self._unpushed(slope)), force)
                    total[name][kind] = total[name][kind] + share if kind in total[name] else share
        return total

    @cached_property
    def accelerations(self) -> Array:
        """Rates of the twists of all frames (6 k,)."""
        return concatenate(np.zeros(0), *(as_symbols(motion.bias) for motion in self.frames.values()))

    @cached_property
    def momenta(self) -> Array:
        """Momentum (6 k,) of the bodies carried by each frame, at its origin in its axes: sum_b D_k^T M_b xi."""
        totals = []
        for name in self.frames:
            total = np.zeros(6)
            for body, inertia in self.e.description.inertias.items():
                slope = self._slope(self._pushed.motion(WORLD, body).twist, self._pushes[name])
                if slope is not None:
                    momentum = np.matvec(inertia.matrix, self.kinematics.motion(WORLD, body).twist)
                    total = total + np.matvec(transpose(self._unpushed(slope)), momentum)
            totals.append(total)
        return concatenate(np.zeros(0), *totals)

    def _unpushed(self, value: Array) -> Array:
        for push in self._pushes.values():
            value = substitute(value, push, np.zeros(push.shape))
        return value

    def wrenches(self, a: Array, u: Array) -> dict[str, Array]:
        """Frame -> wrench (6,) of its driver on it, in its axes at its origin; BASIS -> the power of its driver (1,)."""
        shares = self.shares(a, u)
        return {name: sum(parts.values(), np.zeros(self._pushes[name].shape)) for name, parts in shares.items()}

    def powers(self, a: Array, u: Array) -> dict[str, Array]:
        """Power () of each driver, in the order of :attr:`names`."""
        wrench = self.wrenches(a, u)
        values = [np.vecdot(wrench[name], motion.twist) for name, motion in self.frames.items()]
        if self.constraints:
            lam = self.e.constrained.multipliers(u)
            for rows, at in self.e.constrained.blocks():
                if rows.name in self.constraints:
                    values.append(-np.vecdot(lam[at], self.constraints[rows.name]))
        if self.basis_drift is not None:
            values.append(wrench[BASIS][0])
        if self.has_potentials:
            values.append(self._changing_potentials(a, u))
        return dict(zip(self.names, values, strict=True))

    def _changing_potentials(self, a: Array, u: Array) -> Array:
        """dV/dt at fixed poses: the partial derivative with respect to time without the share of the motion of frames."""
        energy = as_symbols(np.reshape(self.e.dynamics.potential_energy, ()))
        whole = directional(energy, self.time, ONE)
        if any(edge.joint.velocity_frame == "absolute" for edge in self.e.description.joints):
            # bodies with absolute velocities do not follow a push of their frame: the rate of V less the power of its gradients
            whole = whole + directional(energy, self.e.q, self.kinematics.rate)
            for _kind, force, velocity in self._gradients(self.kinematics):
                whole = whole - np.vecdot(force, velocity)
            return whole
        for name, motion in self.frames.items():
            for _kind, force, velocity in self._gradients(self._pushed):
                slope = self._slope(velocity, self._pushes[name])
                if slope is not None:
                    whole = whole - np.vecdot(np.matvec(transpose(self._unpushed(slope)), force), motion.twist)
        return whole

    def _gradients(self, kinematics: Kinematics) -> Iterator[tuple[str, Array, Array]]:
        """The gradients of potentials among the forces, with the velocities of some kinematics."""
        d = self.e.description
        for name, inertia in d.inertias.items():
            pose = self.kinematics.motion(WORLD, name).pose
            yield (
                STORED,
                wrenches.gravity_wrench(inertia.matrix, pose, d.gravity),
                kinematics.motion(WORLD, name).twist,
            )
        for t in self.e.dynamics.elements:
            if t.stiffness is not None:
                yield STORED, t.stiffness, t.element.port(kinematics).velocity

    def balance(self, a: Array, u: Array) -> dict[str, Array]:
        """Powers of inputs, resistances, other forces and all drivers, each with the full velocity at its point of action."""
        plain = self.e.dynamics.power(u)
        if self.e.description.has_reaction_friction:
            plain["dissipated"] = plain["dissipated"] - np.vecdot(self.e.v, self.e.constrained.friction_force(u))
        signs = {GIVEN: -1.0, LOST: 1.0, SUPPLIED: -1.0}
        for name, parts in self.shares(a, u).items():
            along = self.frames[name].twist if name in self.frames else np.ones(1)
            for kind, sign in signs.items():
                if kind in parts:
                    plain[kind] = plain[kind] + sign * np.vecdot(parts[kind], along)
        return plain | {"driver": sum(self.powers(a, u).values(), np.zeros(()))}


def _is_nonzero(value: Array) -> bool:
    """Whether a vector is not zero by its structure."""
    return bool(np.any(value)) if not is_symbolic(value) else not to_sx(value).is_zero()


# --- dependence on time ---------------------------------------------------------------------------------------------------


def with_time(p: np.ndarray, t: Any) -> np.ndarray:
    """Parameters (..., np) with the last one, the time, set to ``t`` (...); both broadcast.

    >>> with_time(np.array([3.0, 0.0]), [0.5, 1.0])
    array([[3. , 0.5],
           [3. , 1. ]])
    """
    times = np.asarray(t, dtype=float)
    result = np.broadcast_to(p, (*np.broadcast_shapes(p.shape[:-1], times.shape), p.shape[-1])).copy()
    result[..., -1] = times
    return result


def depends_on_time(description: Description, time: Array) -> bool:
    """Whether any expression, user function or user-defined part of a description depends on the symbol ``time``."""
    import casadi

    constants = [to_sx(value) for value in _expressions(description)]
    if constants and casadi.depends_on(casadi.vertcat(*constants), to_sx(time)):
        return True
    return any(depends_on(value, time) for value in _user_results(description))


def _expressions(value: Any) -> Iterator[Array]:
    """All symbolic constants below a value; functions and user-defined classes are not searched."""
    if is_symbolic(value) and not callable(value):  # a joint may keep its pose as a casadi.Function
        yield value
    elif isinstance(value, Joint):
        yield from _expressions(vars(value) if value.is_built_in else ())
    elif isinstance(value, Moments):
        yield from _expressions((value.total, value.center, value.moment_at_center))
    elif isinstance(value, Mapping):
        yield from _expressions(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _expressions(item)
    elif is_dataclass(value) and _is_built_in(value):
        yield from _expressions([getattr(value, field.name) for field in fields(value) if field.name != "parameters"])


def _user_results(d: Description) -> Iterator[Array]:
    """Results of user functions and user-defined parts on symbols; what fails here is reported by the checks of a model."""
    q, v = (symbol(name, sum(getattr(e.joint.coordinates, f"n{name}") for e in d.joints)) for name in "qv")
    for joint in (item.joint for item in (*d.graph.edges, *d.loops)):
        if not joint.is_built_in or any(callable(x) for x in vars(joint).values()):
            yield from _results(joint.pose, symbol("q", joint.coordinates.nq))
    for loop in d.loops:
        yield from _results(loop.friction, symbol("twist", 6))
    for constraint in d.constraints:
        yield from _results(constraint.function, *((q,) if constraint.holonomic else (q, v)))
        yield from _results(constraint.work, q, v)
        yield from _results(constraint.friction, q, v)
    yield from _results(d.velocity, q, v)
    if d.basis is not None:
        yield from _results(d.basis.function, q, symbol("w", len(d.basis.names)))
    for element in d.elements:
        function = getattr(element, "function", None)  # of a potential, dissipation or force
        yield from _results(function, *((q,) if element.gives("energy") else (q, v)))
    elements, inputs = ([x for x in both if not _is_built_in(x)] for both in (d.elements, d.inputs.values()))
    if elements or inputs:
        yield from _results(lambda: _values_at_ports(d, q, v, elements, inputs))


def _results(function: Callable[..., Any] | None, *arguments: Array) -> Iterator[Array]:
    if function is None:
        return
    try:
        yield from _expressions(on_symbols(function, "a user function")(*arguments))
    except HeavytopError:
        return


def _values_at_ports(d: Description, q: Array, v: Array, elements: list[Any], inputs: list[Any]) -> list[Array]:
    coordinates = Product([e.joint.coordinates for e in d.joints], names=[e.label for e in d.joints])
    kinematics = Kinematics(coordinates, d.graph.edges, d.graph.spanning_tree(), q, v)
    values = [value for element in elements for _, value in ElementTerms(element, kinematics).checked_pieces()]
    actions = [action for element in inputs for action in element.actions(kinematics)]
    return values + [action.wrench if isinstance(action, BodyWrench) else action.force for action in actions]


def _is_built_in(value: Any) -> bool:
    return type(value).__module__.startswith("heavytop.")
