"""The energy-based law: the desired velocity is transported to the actual configuration, so that the velocity error is a tangent vector.

With a transport Q the velocity error is ``v_e = v - Q v_R``. The law is Lagrange's with the Levi-Civita derivative of the prototype's
metric along the actual motion (docs/control/laws.md):

    c_bar = sum_b J^T (M_bar_b (d/dt(J) v_e - J d/dt(Q v_R)) + vee2(wed(J v) wed(J v_e) M_bar_b')) + D_bar v_e + grad V_bar.

The transport is composed of blocks with a group structure: points (R^3), attitudes (SO(3)), poses (SE(3)) and joint displacements. Where
the springs of the prototype act on the same blocks, ``W = v_e^T M_bar v_e / 2 + V_bar`` obeys ``W' = -v_e^T D_bar v_e`` exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    concatenate,
    directional,
    is_symbolic,
    jacobian,
    substitute,
    symbol,
    transpose,
)
from heavytop.compile import trace_of
from heavytop.control.laws.law_terms import LawTerms
from heavytop.control.laws.prototype import Prototype
from heavytop.errors import ControlError
from heavytop.geometry import se3
from heavytop.system import WORLD, Expressions, Kinematics, Motion, solve_definite, symmetric
from heavytop.system.joints import Joint

ZERO = (0.0, 0.0, 0.0)


class EnergyBlock(Protocol):
    """A part of the configuration with its own error."""

    @property
    def size(self) -> int:
        """Number of velocities."""
        ...

    def velocity(self, kinematics: Kinematics) -> Array:
        """Velocities (size,) of the block."""
        ...

    def carry(self, actual: Kinematics, desired: Kinematics) -> Array:
        """The desired velocities (size,), carried to the actual configuration."""
        ...


@dataclass(frozen=True, eq=False)
class PointBlock:
    """Position of the point ``at`` of body b relative to body a; the error is the difference, in axes of b: R^T (r' - r_R').

    >>> PointBlock("load", at=(0.0, 0.0, -0.1)).a
    'world'
    """

    b: str
    at: Any = ZERO
    a: str = WORLD
    size = 3

    def velocity(self, kinematics: Kinematics) -> Array:
        twist = kinematics.motion(self.a, self.b).twist
        return twist[:3] + np.cross(twist[3:], as_array(self.at))

    def carry(self, actual: Kinematics, desired: Kinematics) -> Array:
        return turn_back(self.a, self.b, actual, desired, self.velocity(desired))


@dataclass(frozen=True)
class AttitudeBlock:
    """Attitude of body b relative to body a: w_e = w - R^T R_R w_R.

    >>> AttitudeBlock("hull").size
    3
    """

    b: str
    a: str = WORLD
    size = 3

    def velocity(self, kinematics: Kinematics) -> Array:
        return kinematics.motion(self.a, self.b).twist[3:]

    def carry(self, actual: Kinematics, desired: Kinematics) -> Array:
        return turn_back(self.a, self.b, actual, desired, self.velocity(desired))


@dataclass(frozen=True)
class PoseBlock:
    """Pose of body b relative to body a: xi_e = xi - Ad(G^-1 G_R) xi_R.

    >>> PoseBlock("hull").size
    6
    """

    b: str
    a: str = WORLD
    size = 6

    def velocity(self, kinematics: Kinematics) -> Array:
        return kinematics.motion(self.a, self.b).twist

    def carry(self, actual: Kinematics, desired: Kinematics) -> Array:
        E = se3.inverse(actual.pose(self.a, self.b)) @ desired.pose(self.a, self.b)
        return np.matvec(se3.Ad(E), self.velocity(desired))


@dataclass(frozen=True)
class JointBlock:
    """A joint whose velocities are rates (revolute, prismatic, ...): the error is the difference.

    >>> JointBlock("elbow").size
    1
    """

    joint: str
    size: int = 1

    def velocity(self, kinematics: Kinematics) -> Array:
        return kinematics.relative_v[self.joint]

    def carry(self, actual: Kinematics, desired: Kinematics) -> Array:
        return self.velocity(desired)


def turn_back(a: str, b: str, actual: Kinematics, desired: Kinematics, x: Array) -> Array:
    """R^T R_R x: a vector in axes of the desired body b, in axes of the actual one."""
    R, R_R = (se3.rotation(k.pose(a, b)) for k in (actual, desired))
    return np.matvec(transpose(R), np.matvec(R_R, x))


def default_blocks(expressions: Expressions, prototype: Prototype, transport: str) -> tuple[EnergyBlock, ...]:
    """Blocks on which the prototype's springs act, if they determine the velocities of the system, else one per joint.

    "product": points at the centres of stiffness and attitudes. "se3": the pose of each free body as a whole.
    """
    if transport not in ("product", "se3"):
        raise ControlError(f"transport must be 'product' or 'se3', got {transport!r}.")
    if transport == "product":
        springs = _blocks_of_springs(prototype)
        if sum(block.size for block in springs) == expressions.nv and _independent(expressions, springs):
            return springs
    blocks: list[EnergyBlock] = []
    for edge in expressions.description.joints:
        blocks += _blocks_of_joint(edge.a, edge.b, edge.label, edge.joint, prototype, transport)
    return tuple(blocks)


def _blocks_of_springs(prototype: Prototype) -> tuple[EnergyBlock, ...]:
    blocks: list[EnergyBlock] = []
    for (a, b), stiffness in prototype.stiffness.items():
        # symbolic parameters count as nonzero
        if is_symbolic(stiffness.total) or stiffness.total > 0:
            blocks.append(PointBlock(b, stiffness.center, a))
        if is_symbolic(stiffness.moment_at_center) or np.any(stiffness.moment_at_center):
            blocks.append(AttitudeBlock(b, a))
    return tuple(blocks)


def _independent(expressions: Expressions, blocks: Sequence[EnergyBlock]) -> bool:
    """Whether the blocks' velocities determine v, at a random configuration."""
    Y = _stack(expressions, blocks)
    traced = trace_of("stack", {"q": expressions.q, "p": expressions.p}, {"Y": Y})
    values = traced(expressions.coordinates.random(0), expressions.description.parameter_values())[0]
    return bool(np.linalg.matrix_rank(values) == expressions.nv)


def _blocks_of_joint(
    a: str, b: str, label: str, joint: Joint, prototype: Prototype, transport: str
) -> list[EnergyBlock]:
    if joint.kind == "floating":
        if transport == "se3":
            return [PoseBlock(b, a)]
        stiffness = prototype.stiffness.get((a, b))
        return [PointBlock(b, ZERO if stiffness is None else stiffness.center, a), AttitudeBlock(b, a)]
    if joint.kind == "spherical":
        absolute = (a, b) not in prototype.stiffness and (WORLD, b) in prototype.stiffness
        return [AttitudeBlock(b, WORLD if absolute else a)]
    return [JointBlock(label, joint.coordinates.nv)]


def _stack(expressions: Expressions, blocks: Sequence[EnergyBlock]) -> Array:
    """Y (n, nv): the blocks' velocities are Y v."""
    velocities = concatenate(*(block.velocity(expressions.kinematics) for block in blocks))
    return jacobian(velocities, expressions.v)


def _determined(Y: Array, y: Array) -> Array:
    """v = Y^-1 y by the definite matrix Y^T Y, whose pivots do not vanish."""
    return solve_definite(symmetric(transpose(Y) @ Y), np.matvec(transpose(Y), y))


class Transport:
    """The velocity error v_e = v - Q v_R of the terms of a law, and the rate of Q v_R along both motions.

    With loops, velocity constraints or a basis Q v_R must satisfy them. Blocks with as many velocities as the system has degrees
    of freedom determine it. Blocks of all joints do not, in general: then it is the nearest admissible one in the metric of the prototype.
    """

    def __init__(self, terms: LawTerms, blocks: Sequence[EnergyBlock]) -> None:
        self.terms, self.blocks = terms, tuple(blocks)
        size = sum(block.size for block in self.blocks)
        freedom, joints = terms.freedom, terms.model.coordinates.nv
        self._nearest = size != freedom
        if size not in (freedom, joints):
            raise ControlError(
                f"the blocks of the velocity error have {size} velocities, but the system has {freedom} degrees of freedom and {joints} joint "
                "velocities. Each degree of freedom must belong to exactly one block."
            )

    @cached_property
    def carried(self) -> Array:
        """Q v_R (nv,) in the velocity coordinates of the model."""
        actual, desired = self.terms.actual, self.terms.desired
        y = concatenate(*(block.carry(actual.kinematics, desired.kinematics) for block in self.blocks))
        if actual.description.basis is not None:
            return self._in_basis(y)
        if not actual.is_constrained:
            return _determined(_stack(actual, self.blocks), y)
        if self._nearest:
            return self.terms.kept_velocity(_determined(_stack(actual, self.blocks), y))
        c = actual.constrained
        rows = np.concatenate([_stack(actual, self.blocks), c.Phi], axis=0)
        return _determined(rows, concatenate(y, -c.drift))

    def _in_basis(self, y: Array) -> Array:
        """The velocities w of a basis, with joint velocities v = T w + t and drift t."""
        actual = self.terms.actual
        drift = substitute(actual.kinematics.v, actual.v, np.zeros(self.terms.nv))
        joint_v = symbol("joint_v", actual.coordinates.nv)
        graph = actual.description.graph
        tree = Kinematics(actual.coordinates, graph.edges, actual.steps, actual.q, joint_v)
        Y = jacobian(concatenate(*(block.velocity(tree) for block in self.blocks)), joint_v)
        if not self._nearest:
            return _determined(_stack(actual, self.blocks), y - np.matvec(Y, drift))
        joint_velocities = _determined(Y, y) - drift
        total = np.zeros(self.terms.nv)
        for t in self.terms.inertias:
            twist = np.matvec(tree.motion(*t.frames).jacobian, joint_velocities)
            total = total + t.generalised(np.matvec(t.matrix, twist))
        return solve_definite(self.terms.mass_matrix, total)

    @cached_property
    def carried_rate(self) -> Array:
        """d/dt(Q v_R) (nv,) along the actual and the desired motion."""
        actual, desired = self.terms.actual, self.terms.desired
        variables = concatenate(actual.q, desired.q, desired.v)
        rates = concatenate(actual.kinematics.rate, desired.kinematics.rate, desired.a)
        return directional(self.carried, variables, rates)

    @cached_property
    def error(self) -> Array:
        """v_e = v - Q v_R (nv,)."""
        return self.terms.actual.v - self.carried

    @cached_property
    def bias(self) -> Array:
        """c_bar (nv,) of the energy-based law."""
        s, rate = self.terms, self.terms.actual.kinematics.rate
        total = s.stiffness_force + np.matvec(s.damping_matrix, self.error)
        for t in s.inertias:
            total = total + t.generalised(self._inertia_wrench(t.motion, t.matrix, t.moments, rate))
        return total

    def _inertia_wrench(self, motion: Motion, matrix: Array, moments: Array, rate: Array) -> Array:
        J = motion.jacobian
        turning = np.matvec(directional(J, self.terms.actual.q, rate), self.error)
        pull = np.matvec(matrix, turning - np.matvec(J, self.carried_rate))
        error = np.matvec(J, self.error)
        return pull + se3.vee2(se3.wed(motion.twist) @ se3.wed(error) @ moments)

    @cached_property
    def energy(self) -> Array:
        """W = v_e^T M_bar v_e / 2 + V_bar, in J."""
        inertia = 0.5 * np.vecdot(self.error, np.matvec(self.terms.mass_matrix, self.error))
        return inertia + self.terms.stiffness_energy

    @cached_property
    def dissipation(self) -> Array:
        """v_e^T D_bar v_e, in W."""
        return np.vecdot(self.error, np.matvec(self.terms.damping_matrix, self.error))

    @cached_property
    def defect(self) -> Array:
        """delta = v_R . grad_R V_bar + (Q v_R) . grad V_bar, in W: zero where transport and springs are compatible."""
        s = self.terms
        along_reference = directional(s.stiffness_energy, s.desired.q, s.desired.kinematics.rate)
        return along_reference + np.vecdot(self.carried, s.stiffness_force)
