"""Constraints beyond the tree: closed loops, holonomic equations and velocity constraints, ideal and nonideal.

Each gives rows of Phi(q) v + b(q) = 0. Loops and holonomic equations also have phi(q), whose rate those rows are. The acceleration then
minimises Gauss' function (eq. 3.24): with Z = M^-1 Phi^T and S = Phi Z

    a = a0 - Z S^+ (Phi a0 + d/dt(Phi) v + d/dt(b)),        lam = -S^+ (...),        constraint force Phi^T lam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    concatenate,
    depends_on,
    directional,
    from_columns,
    is_symbolic,
    jacobian,
    shape,
    sparse,
    substitute,
    symbol,
    to_sx,
    transpose,
)
from heavytop.compile import holds_nan, trace_of
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system.constraints.reaction_friction import FrictionTerm, ReactionFriction
from heavytop.system.description.description import FunctionConstraint, Loop
from heavytop.system.description.graph import INSTANTS
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.dynamics.sparse_ldl import SparseLDL
from heavytop.system.kinematics.kinematics import Kinematics, Motion

if TYPE_CHECKING:
    from heavytop.system.model import Model


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one constraint at (q, v): Phi (m, nv), drift b (m,), bias d/dt(Phi) v + d/dt(b) (m,), phi (m,) or None.

    ``wrench_map`` (m, 6) gives for a loop the wrench H^T lam on body b in the axes of its joint frame; ``branch`` (k,) is positive where it
    closes as intended. ``friction`` (nv,) is a generalised force per unit of the reaction, if there is one.
    """

    name: str
    Phi: Array
    drift: Array
    bias: Array
    phi: Array | None
    wrench_map: Array | None = None
    branch: Array | None = None
    friction: Array | None = None


def loop_rows(loop: Loop, kinematics: Kinematics) -> Rows:
    """phi(G) of a loop joint; Phi = H(G) J with H = d phi/d(body twist), so reactions are wrenches H^T lam."""
    motion = loop_motion(loop, kinematics)
    pose, twist, J, J_bias = motion.pose, motion.twist, motion.jacobian, motion.bias
    G, delta = symbol("G", 12), symbol("delta", 6)
    full = np.concatenate([np.reshape(G, (3, 4)), np.array([[0.0, 0.0, 0.0, 1.0]])], axis=0)

    def slope(function: Callable[[Array], Array]) -> Array:
        """Derivative of a function of the pose along the six body twists."""
        moved = function(full @ (np.eye(4) + se3.wed(delta)))
        return substitute(jacobian(moved, delta), delta, np.zeros(6))

    phi, H = loop.joint.closure(full), slope(loop.joint.closure)
    if kinematics.time is not None and depends_on(phi, kinematics.time):
        raise ModelError(
            f"the joint of loop {loop.name!r} depends on the time explicitly. Move its frames instead: at_a, at_b."
        )
    xi = symbol("xi", 6)
    rate = np.matvec(slope(lambda g: np.matvec(substitute(H, G, np.reshape(g[:3, :], (12,))), xi)), xi)
    flat = np.reshape(pose[:3, :], (12,))
    phi, H = substitute(phi, G, flat), sparse(substitute(H, G, flat))
    rate = substitute(substitute(rate, G, flat), xi, twist)
    branch = loop.joint.closure_branch(pose)
    rubbing = None
    if loop.friction is not None:
        rubbing = np.matvec(transpose(J), _force(loop.friction(twist), 6, loop.name))
    drift = np.zeros(phi.shape)
    if kinematics.time is not None:
        drift = np.matvec(H, at_rest(twist, kinematics))
    return Rows(loop.name, sparse(H @ J), drift, rate + np.matvec(H, J_bias), phi, H, branch, rubbing)


def loop_motion(loop: Loop, kinematics: Kinematics, moving: bool = True) -> Motion:
    """Motion of the joint frame at b relative to that at a; if not ``moving``, without the prescribed motion of these frames."""
    motion, time = kinematics.motion(loop.a, loop.b), kinematics.time
    if moving and time is not None and (depends_on(loop.at_a, time) or depends_on(loop.at_b, time)):
        anchor, tip = (Motion.given(as_symbols(at), time, kinematics.nv) for at in (loop.at_a, loop.at_b))
        return anchor.reversed().then(motion).then(tip)
    Ad = se3.Ad_inverse(loop.at_b)
    pose = se3.inverse(loop.at_a) @ motion.pose @ loop.at_b
    return Motion(pose, np.matvec(Ad, motion.twist), np.matvec(Ad, motion.bias), lambda: Ad @ motion.jacobian)


def as_symbols(x: Array) -> Array:
    """Numbers as an expression, which can be differentiated."""
    return x if is_symbolic(x) else sparse(x)


def at_rest(value: Array, kinematics: Kinematics) -> Array:
    """A value where the velocity coordinates vanish: the part that the time drives."""
    return substitute(value, kinematics.free_velocity, np.zeros(kinematics.nv))


def _force(value: Any, size: int, name: str) -> Array:
    value = as_array(value)
    if shape(value) != (size,):
        raise ModelError(f"friction of {name!r} must return {size} numbers, got shape {shape(value)}.")
    return value


def function_rows(constraint: FunctionConstraint, kinematics: Kinematics, q: Array, v: Array) -> Rows:
    """Rows of a constraint given by a function of q, or of q and v."""
    if constraint.holonomic:
        phi = _vector(constraint.function(q), constraint.name)
        if not depends_on(phi, q):
            raise ModelError(
                f"constraint {constraint.name!r} does not depend on the configuration. Write it with q and NumPy functions."
            )
        Phi = sparse(jacobian(phi, q) @ kinematics.kinematics_matrix)
        drift = np.zeros(phi.shape)
        if kinematics.time is not None:
            drift = at_rest(kinematics.rate_of(phi), kinematics)
            return Rows(constraint.name, Phi, drift, kinematics.rate_of(np.matvec(Phi, v) + drift), phi)
        return Rows(constraint.name, Phi, drift, directional(np.matvec(Phi, v), q, kinematics.rate), phi)
    value = _vector(constraint.function(q, kinematics.own_v), constraint.name)
    if not depends_on(value, v):
        raise ModelError(
            f"constraint {constraint.name!r} does not depend on the velocities: it never or always holds. Write it with v "
            "and NumPy functions; a condition on q alone is a function of q."
        )
    if holds_nan(casadi_function(value)):
        raise ModelError(
            f"constraint {constraint.name!r} turned a symbol into the number nan. Write it with NumPy (np.sin), not with math.sin or float()."
        )
    Phi = jacobian(value, v)
    if depends_on(Phi, v):
        raise ModelError(
            f"constraint {constraint.name!r} must be linear in v (plus a drift), but its derivative with respect to v depends on v."
        )
    drift = substitute(value, v, np.zeros(shape(v)))
    return Rows(constraint.name, sparse(Phi), drift, kinematics.rate_of(value), None)


def casadi_function(value: Array) -> Any:
    """A function of all the symbols in an expression."""
    import casadi

    expression = to_sx(value)
    return casadi.Function("probe", casadi.symvar(expression), [expression])


def _vector(value: Any, name: str) -> Array:
    if value is None:
        raise ModelError(f"constraint {name!r} returned None instead of its equations. Does it lack a return?")
    value = as_array(value)
    value = np.reshape(value, (1,)) if shape(value) == () else value
    if len(shape(value)) != 1:
        raise ModelError(
            f"constraint {name!r} must return a vector of equations, got an array of shape {shape(value)}."
        )
    return value


def reacts_with_forces(wrench_map: Array) -> list[bool]:
    """For each row of H (m, 6) whether its reaction has a force: an equation of positions, not of directions alone."""
    import casadi

    H = casadi.SX(wrench_map.to_casadi()) if is_symbolic(wrench_map) else casadi.SX(casadi.DM(wrench_map))
    return [any(not H[i, j].is_zero() for j in range(3)) for i in range(H.shape[0])]


class ConstrainedDynamics:
    """Accelerations and reactions of a system whose tree is closed by loops or restrained by further constraints."""

    def __init__(
        self, dynamics: EquationTerms, loops: tuple[Loop, ...], constraints: tuple[FunctionConstraint, ...]
    ) -> None:
        self.dynamics, self.kinematics = dynamics, dynamics.kinematics
        self.q, self.v = dynamics.q, dynamics.v
        self.rows = [loop_rows(loop, self.kinematics) for loop in loops]
        for c in constraints:
            part = function_rows(c, self.kinematics, self.q, self.v)
            if c.friction is not None:
                own = self.kinematics.own_v
                force = self.kinematics.pulled_back(_force(c.friction(self.q, own), shape(own)[0], c.name))
                part = replace(part, friction=force)
            self.rows.append(part)

    def blocks(self) -> Iterator[tuple[Rows, slice]]:
        """The rows of each constraint, and their place among all rows."""
        start = 0
        for rows in self.rows:
            stop = start + shape(rows.Phi)[0]
            yield rows, slice(start, stop)
            start = stop

    @cached_property
    def Phi(self) -> Array:
        """All rows (m, nv)."""
        return sparse(np.concatenate([rows.Phi for rows in self.rows], axis=0))

    @cached_property
    def position_residual(self) -> Array:
        """phi(q) of loops and holonomic constraints; velocity constraints have none."""
        parts = [rows.phi for rows in self.rows if rows.phi is not None]
        return concatenate(*parts) if parts else np.zeros(0)

    @cached_property
    def branches(self) -> Array:
        """Values that are positive where every loop closes as intended, not turned by half a turn."""
        parts = [rows.branch for rows in self.rows if rows.branch is not None]
        return concatenate(*parts) if parts else np.zeros(0)

    @cached_property
    def velocity_residual(self) -> Array:
        """Phi v + b (m,)."""
        return np.matvec(self.Phi, self.v) + self.drift

    @cached_property
    def _mass(self) -> SparseLDL:
        return SparseLDL(self.dynamics.mass_matrix)

    @cached_property
    def _released(self) -> Array:
        """M^-1 Phi^T (nv, m): accelerations per unit of each multiplier."""
        return sparse(self._mass.solve(transpose(self.Phi)))

    @cached_property
    def groups(self) -> list[int]:
        """For each row of Phi a number that it shares with the rows of the same loop and unit: positions, or directions.

        Equations given by functions have units of the user's choice: each forms a group.
        """
        groups: list[int] = []
        for rows in self.rows:
            first = len(groups)
            if rows.wrench_map is None:
                groups += range(first, first + rows.Phi.shape[0])
            else:
                groups += [first if moves else first + 1 for moves in reacts_with_forces(rows.wrench_map)]
        return groups

    @cached_property
    def _compliance(self) -> SparseLDL:
        """Guarded factorisation of S = Phi M^-1 Phi^T."""
        return SparseLDL(self.Phi @ self._released, self.groups)

    def near_singular(self) -> Array:
        """1 where a row of Phi nearly depends on the others, else 0: errors of positions and velocities then grow in the accelerations."""
        import casadi

        return casadi.ArrayInterface(casadi.densify(self._compliance.near), 0)

    def free_acceleration(self, u: Array) -> Array:
        """a0 = M^-1 (B u - passive + nonideal): the acceleration without the ideal constraint forces."""
        right = self.dynamics.nonideal_force - self.dynamics.passive_force
        if self.dynamics.description.inputs:
            right = right + np.matvec(self.dynamics.input_matrix, u)
        return self._mass.solve(right)

    def directions(self, forces: Array) -> Array:
        """Accelerations (nv, n) per unit of generalised forces, the columns (nv, n), that the constraints leave."""
        free = sparse(self._mass.solve(forces))
        return free - self._released @ self._compliance.solve(self.Phi @ free)

    def passive_acceleration(self) -> Array:
        """a (nv,) without inputs, and without friction that depends on the reactions."""
        u = np.zeros(len(self.dynamics.description.inputs))
        return self.free_acceleration(u) + np.matvec(self._released, self._frictionless_multipliers(u))

    @cached_property
    def bias(self) -> Array:
        """d/dt(Phi) v + d/dt(b) (m,) of all rows."""
        return concatenate(*(rows.bias for rows in self.rows))

    @cached_property
    def drift(self) -> Array:
        """b (m,) of all rows: they demand Phi v + b = 0."""
        return concatenate(*(rows.drift for rows in self.rows))

    @cached_property
    def friction_terms(self) -> list[FrictionTerm]:
        """Frictions that depend on the reactions."""
        count, terms = self.Phi.shape[0], []
        for rows, at in self.blocks():
            if rows.friction is not None:
                own = np.eye(at.stop - at.start) if rows.wrench_map is None else transpose(rows.wrench_map)[:3, :]
                before, behind = np.zeros((own.shape[0], at.start)), np.zeros((own.shape[0], count - at.stop))
                terms.append(FrictionTerm(rows.name, rows.friction, np.concatenate([before, own, behind], axis=1)))
        return terms

    @cached_property
    def friction_forces(self) -> Array:
        """F (nv, k): the generalised force of each friction per unit of the reaction it depends on."""
        columns = [term.force for term in self.friction_terms]
        return from_columns(*columns) if columns else np.zeros((shape(self.v)[0], 0))

    @cached_property
    def friction_reactions(self) -> Array:
        """P (r, m): the rows that take lam to the reactions; friction k has the size N_k of its ``friction_rows``."""
        parts = [term.reaction for term in self.friction_terms]
        return np.concatenate(parts, axis=0) if parts else np.zeros((0, self.Phi.shape[0]))

    @property
    def friction_rows(self) -> list[int]:
        """Number of rows of P of each friction."""
        return [shape(term.reaction)[0] for term in self.friction_terms]

    @cached_property
    def friction(self) -> ReactionFriction | None:
        """Friction that depends on the reactions, if any."""
        if not self.friction_terms:
            return None
        hold = lambda a: -self._compliance.solve(np.matvec(self.Phi, a))  # noqa: E731
        return ReactionFriction(self.friction_terms, self._mass.solve, hold)

    def _frictionless_multipliers(self, u: Array) -> Array:
        return -self._compliance.solve(np.matvec(self.Phi, self.free_acceleration(u)) + self.bias)

    def friction_sizes(self, u: Array) -> Array:
        """Sizes of the reactions (count,) that friction depends on."""
        return np.zeros(0) if self.friction is None else self.friction.sizes(self._frictionless_multipliers(u))

    def friction_force(self, u: Array) -> Array:
        """Generalised force (nv,) of the friction that depends on the reactions."""
        if self.friction is None:
            return np.zeros(shape(self.v))
        return np.matvec(self.friction_forces, self.friction_sizes(u))

    def multipliers(self, u: Array) -> Array:
        """lam (m,): the ideal constraint force is Phi^T lam; redundant equations share it, the later ones get zero."""
        lam = self._frictionless_multipliers(u)
        return lam if self.friction is None else lam + np.matvec(self.friction.gains, self.friction.sizes(lam))

    def acceleration(self, u: Array) -> Array:
        """a = a0 + M^-1 (friction + Phi^T lam)."""
        a0 = self.free_acceleration(u)
        if self.friction is not None:
            sizes = self.friction.sizes(self._frictionless_multipliers(u))
            a0 = a0 + np.matvec(self.friction.accelerations, sizes)
        return a0 + np.matvec(self._released, self.multipliers(u))

    def acceleration_check(self, u: Array) -> dict[str, Array]:
        """The acceleration, the residual of Phi a + d/dt(Phi) v + d/dt(b) = 0 (m,), and the size of its terms (m,)."""
        a = self.acceleration(u)
        free = np.matvec(self.Phi, self.free_acceleration(u))
        return {"a": a, "residual": np.matvec(self.Phi, a) + self.bias, "size": np.abs(free) + np.abs(self.bias)}

    def reactions(self, u: Array) -> dict[str, Array]:
        """Name -> reaction: for a loop the wrench (6,) on b in its joint frame, else the generalised force (nv,)."""
        lam, result = self.multipliers(u), {}
        for rows, at in self.blocks():
            map_ = rows.Phi if rows.wrench_map is None else rows.wrench_map
            result[rows.name] = np.matvec(transpose(map_), lam[at])
        return result

    def position_correction(self) -> Array:
        """Least displacement (nv,) in the metric of M that removes phi to first order: -M^-1 Phi^T S^+ phi."""
        parts = [rows.phi if rows.phi is not None else np.zeros(rows.Phi.shape[0]) for rows in self.rows]
        return -np.matvec(self._released, self._compliance.solve(concatenate(*parts)))

    def velocity_correction(self) -> Array:
        """Least change (nv,) of v in the metric of M that makes Phi v + b vanish."""
        return -np.matvec(self._released, self._compliance.solve(self.velocity_residual))


def check_constraints(model: Model) -> None:
    """Call every function of the constraints once; raise a ModelError for a basis that does not satisfy them."""
    expressions = model.expressions
    if model.description.has_reaction_friction and model.description.basis is not None:
        raise ModelError(
            f"friction that depends on reactions needs the multipliers of {model.name!r}, which a basis eliminates. Omit the basis."
        )
    if model.description.basis is None:
        _ = expressions.constrained, expressions.dynamics.nonideal_force  # calls the user's functions
        return
    q, w = model.random(0, (3,)), np.random.default_rng(1).standard_normal((3, model.nv))
    joint_v = symbol("joint_v", expressions.coordinates.nv)
    tree = expressions.tree(joint_v)
    rows = [loop_rows(loop, tree) for loop in model.description.loops]
    rows += [function_rows(c, tree, expressions.q, joint_v) for c in model.description.constraints]
    v = model.description.basis.function(expressions.q, expressions.v)
    for row in rows:
        value = substitute(np.matvec(row.Phi, joint_v) + row.drift, joint_v, v)
        terms = substitute(np.matvec(np.abs(row.Phi), np.abs(joint_v)) + np.abs(row.drift), joint_v, v)
        inputs = {"q": expressions.q, "w": expressions.v, "p": expressions.p}
        traced = trace_of("basis", inputs, {"residual": value, "terms": terms})
        p = np.tile(model.parameter_vector(), (3, 1))
        if model.description.time is not None:
            p[:, -1] = INSTANTS
        residual, sizes = (np.max(np.abs(x), axis=0) for x in traced.interpret(q, w, p))
        if not np.all(residual <= 1e-9 * sizes):
            raise ModelError(
                f"the basis does not satisfy constraint {row.name!r}: it is violated by {np.max(residual):.3g} at random configurations. "
                "v = basis(q, w) must fulfil every constraint for all w."
            )
