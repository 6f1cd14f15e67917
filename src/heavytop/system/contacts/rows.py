"""Rows of velocities that rigid contacts, stops, ropes, dry friction and constraints act on: u = J v + b.

A point of a contact has three rows, along its normal and two tangents (one if it is smooth). An impulse lam in the rows changes v by M^-1 J^T lam.
Loops and constraints join them as rows that are always held, so that one problem decides about all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    from_columns,
    from_sx,
    is_symbolic,
    shape,
    sparse,
    to_sx,
    transpose,
    vector,
)
from heavytop.errors import ModelError, unknown_name
from heavytop.geometry import se3, so3
from heavytop.system.constraints.constraints import at_rest
from heavytop.system.contacts.contact import Candidate, Contact
from heavytop.system.contacts.one_sided import HardStop, Rope, StickingFriction
from heavytop.system.description import WORLD
from heavytop.system.kinematics.kinematics import Motion

if TYPE_CHECKING:
    from heavytop.system.expressions import Expressions

POINT, HELD, DRY = "point", "held", "dry"


@dataclass(frozen=True)
class RowUnit:
    """Rows that are decided together.

    Attributes
    ----------
    name : name of its contact, stop, rope or constraint.
    kind : "point": a gap that must not become negative, with Coulomb's friction in its further rows; "held": an equation; "dry": friction of a
        given largest size.
    first, size : its rows.
    gap : its place among the gaps; None if it has none.
    """

    name: str
    kind: str
    first: int
    size: int
    gap: int | None

    @property
    def rows(self) -> range:
        """Numbers of its rows."""
        return range(self.first, self.first + self.size)


class ContactRows:
    """All rows of a system at the configuration q, as expressions.

    Attributes
    ----------
    units : in order of their rows.
    gaps : (k,) in m. J : (m, nv). drift : (m,) the velocities b at v = 0, where a partner is moved by time.
    friction, restitution : (units,) coefficients; for dry friction ``friction`` is the largest force.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self._kinematics = expressions.kinematics
        self.units: list[RowUnit] = []
        self._gaps: list[Array] = []
        self._rows: list[Array] = []
        self._drifts: list[Array] = []
        self._coefficients: list[tuple[Array, Array]] = []
        self.points: list[tuple[str, Motion, Candidate]] = []
        """Each point of contacts and ropes with its body and relative motion, in the order of the first units."""
        description = expressions.description
        for contact in description.contacts:
            self._add_contact(contact)
        items = description.inequalities
        for rope in (item for item in items if isinstance(item, Rope)):
            self._add_rope(rope)
        for stop in (item for item in items if isinstance(item, HardStop)):
            self._add_stop(stop)
        for friction in (item for item in items if isinstance(item, StickingFriction)):
            self._add_dry(friction)
        if expressions.is_constrained:
            self._add_constraints()

    def _add(
        self, name: str, kind: str, gap: Array | None, rows: list[Array], drifts: list[Array], *coefficients: Array
    ) -> None:
        self.units.append(RowUnit(name, kind, len(self._rows), len(rows), None if gap is None else len(self._gaps)))
        if gap is not None:
            self._gaps.append(gap)
        self._rows += rows
        self._drifts += drifts
        self._coefficients.append((as_array(coefficients[0]), as_array(coefficients[1])))

    def _add_contact(self, contact: Contact) -> None:
        motion = self._kinematics.motion(contact.partner, contact.body)
        J = motion.jacobian
        if to_sx(J).is_zero() and to_sx(motion.twist).is_zero():
            raise ModelError(
                f"contact {contact.name!r}: {contact.body!r} does not move relative to {contact.partner!r}, so they cannot touch."
            )
        smooth = not is_symbolic(contact.friction) and not np.any(contact.friction)
        for candidate in contact.candidates(motion.pose):
            moved = J[:3, :] - so3.wed(candidate.point) @ J[3:, :]
            axes = (candidate.normal,) if smooth else (candidate.normal, *candidate.tangents)
            velocity = at_rest(candidate.velocity(motion.twist), self._kinematics)
            rows = [np.matvec(transpose(moved), axis) for axis in axes]
            drifts = [np.vecdot(axis, velocity) for axis in axes]
            self._add(contact.name, POINT, candidate.gap, rows, drifts, contact.friction, contact.restitution)
            self.points.append((contact.body, motion, candidate))

    def _add_rope(self, rope: Rope) -> None:
        motion = self._kinematics.motion(rope.a, rope.b)
        J, end = motion.jacobian, rope.end(motion.pose)
        moved = J[:3, :] - so3.wed(end.point) @ J[3:, :]
        drift = np.vecdot(end.normal, at_rest(end.velocity(motion.twist), self._kinematics))
        row = np.matvec(transpose(moved), end.normal)
        self._add(rope.name, POINT, end.gap, [row], [drift], 0.0, rope.restitution)
        self.points.append((rope.b, motion, end))

    def _add_stop(self, stop: HardStop) -> None:
        q, v = self._joint(stop.joint, stop.name)
        row, drift = self._kinematics.joint_velocity_row(stop.joint, 0), at_rest(v, self._kinematics)[0]
        ends = ((1.0, stop.lower), (-1.0, stop.upper))
        for sign, end in ends:
            if end is not None:
                gap = sign * (q[0] - end)
                self._add(stop.name, POINT, gap, [sign * row], [sign * drift], 0.0, stop.restitution)

    def _add_dry(self, friction: StickingFriction) -> None:
        _, v = self._joint(friction.joint, friction.name, one=False)
        drift, count = at_rest(v, self._kinematics), shape(v)[0]
        limits = as_array(friction.coulomb)
        for i in range(count):
            row = self._kinematics.joint_velocity_row(friction.joint, i)
            limit = limits if shape(limits) == () else limits[i]
            self._add(friction.name, DRY, None, [row], [drift[i]], limit, 0.0)

    def _joint(self, joint: str, name: str, one: bool = True) -> tuple[Array, Array]:
        """Coordinates and parent-relative velocities of a joint."""
        if joint not in self._kinematics.relative_v:
            raise unknown_name(f"joint (of {name!r})", joint, self._kinematics.relative_v)
        q, v = self._kinematics.q_of[joint], self._kinematics.relative_v[joint]
        if one and (shape(q) != (1,) or shape(v) != (1,)):
            raise ModelError(
                f"{name!r}: a hard limit needs a joint with one angle or length, but {joint!r} has {shape(q)[0]} coordinates. Use "
                "system.joint_stop(...) with a stiffness."
            )
        return q, v

    def _add_constraints(self) -> None:
        """Each row of loops and constraints as an equation; those of positions have a gap, phi."""
        for part in self.expressions.constrained.rows:
            for i in range(shape(part.drift)[0]):
                gap = None if part.phi is None else part.phi[i]
                self._add(part.name, HELD, gap, [part.Phi[i, :]], [part.drift[i]], 0.0, 0.0)

    @cached_property
    def gaps(self) -> Array:
        """Gaps (k,)."""
        return vector(*self._gaps) if self._gaps else np.zeros(0)

    @cached_property
    def J(self) -> Array:
        """Rows (m, nv)."""
        return sparse(transpose(from_columns(*self._rows)))

    @cached_property
    def drift(self) -> Array:
        """Velocities (m,) in the rows at v = 0."""
        return vector(*(as_array(x) for x in self._drifts))

    @cached_property
    def velocities(self) -> Array:
        """Velocities (m,) in the rows at (q, v)."""
        found: list[Array] = []
        for unit, (_, motion, c) in zip(self.units, self.points, strict=False):
            velocity = c.velocity(motion.twist)
            found += [np.vecdot(axis, velocity) for axis in (c.normal, *c.tangents)[: unit.size]]
        for i in range(len(found), len(self._rows)):
            found.append(np.vecdot(self._rows[i], self.expressions.v) + self._drifts[i])
        return vector(*found)

    @cached_property
    def gap_rates(self) -> Array:
        """Rates (k,) of the gaps at (q, v)."""
        rates = [self.velocities[unit.first] for unit in self.units if unit.gap is not None]
        return vector(*rates) if rates else np.zeros(0)

    def gap_accelerations(self, w: Array, a: Array) -> Array:
        """Second time derivatives (k,) of the gaps at (q, v), the velocities w of the coordinates' blocks and accelerations a (nv,)."""
        import casadi

        e = self.expressions
        if not self._gaps:
            return np.zeros(0)
        variables, rates = [to_sx(e.q), to_sx(e.v)], [to_sx(e.coordinates.rate(e.q, w)), to_sx(a)]
        if e.description.time is not None:
            variables, rates = [*variables, to_sx(e.description.time)], [*rates, casadi.SX(1.0)]
        value = to_sx(self.gap_rates)
        return from_sx(casadi.jtimes(value, casadi.vertcat(*variables), casadi.vertcat(*rates)), (len(self._gaps),))

    @cached_property
    def friction(self) -> Array:
        """Coefficients of friction (units,), or largest forces of dry friction."""
        return vector(*(mu for mu, _ in self._coefficients))

    @cached_property
    def restitution(self) -> Array:
        """Coefficients of restitution (units,)."""
        return vector(*(e for _, e in self._coefficients))

    def world_points(self) -> dict[str, Array]:
        """Gap (n,), point (n, 3) and axes (n, 9) (normal, two tangents) of all points of contacts and ropes, in world axes."""
        if not self.points:
            return {"gap": np.zeros(0), "point": np.zeros((0, 3)), "axes": np.zeros((0, 9))}
        places, axes = [], []
        for body, _, c in self.points:
            pose = self._kinematics.pose(WORLD, body)
            R = se3.rotation(pose)
            places.append(se3.position(pose) + np.matvec(R, c.point))
            axes.append([np.matvec(R, axis) for axis in (c.normal, *c.tangents)])
        flat = [axis[i] for three in axes for axis in three for i in range(3)]
        return {
            "gap": vector(*(c.gap for _, _, c in self.points)),
            "point": np.reshape(vector(*(place[i] for place in places for i in range(3))), (len(places), 3)),
            "axes": np.reshape(vector(*flat), (len(places), 9)),
        }
