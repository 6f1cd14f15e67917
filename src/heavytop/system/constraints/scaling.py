"""Characteristic sizes that make residuals of loops and constraints pure numbers, so that tolerances do not depend on the unit of length.

An equation of positions is divided by the length of the system, one of directions by 1, and one given by a user's function by the change
that displacements by one size make in it: s_i = |Phi_ij| s_j, with 1 rad for angles and the length for sliding coordinates.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, Floats, concatenate, entry, is_symbolic, shape, to_sx, vector
from heavytop.geometry import se3
from heavytop.system.constraints.constraints import reacts_with_forces
from heavytop.system.description import WORLD
from heavytop.system.description.description import Description

if TYPE_CHECKING:
    from heavytop.system.expressions import Expressions

CLOSED = 1e-6
"""Largest relative residual of loops and constraints in a given configuration or velocity."""
OPEN = 1e-4
"""The same along a motion; beyond it a trajectory ends."""
ASSEMBLED = 1e-12
"""The same at the end of an assembly."""


class SystemSizes:
    """Sizes of a system's coordinates and equations, as expressions of its configuration and parameters.

    >>> import heavytop as ht
    >>> SystemSizes(ht.library.four_bars(1).derive(native=False).expressions).length
    1.0
    """

    def __init__(self, expressions: Expressions) -> None:
        self._e = expressions

    @cached_property
    def length(self) -> Array:
        """The largest distance, in m, of points of one body: joints, ends of loops, the centre of mass; or a radius of gyration.

        Without any it is the largest of the sliding coordinates, but at least 1 m, since near their origin they are not a size of the system.
        """
        squares = [np.vecdot(r, r) for r in _arms(self._e.description)] + _gyrations(self._e.description)
        constants = [float(np.asarray(s)) for s in squares if not is_symbolic(s)]
        found = [np.asarray(x) for x in (max(constants, default=0.0),) if x]
        found += [s for s in squares if is_symbolic(s) and not to_sx(s).is_zero()]
        if not found:
            sliding = [entry(self._e.q, k) for k, unit in enumerate(_q_units(self._e.description)) if unit == "m"]
            found = [np.asarray(1.0), *(x * x for x in sliding)]
        largest = found[0]
        for square in found[1:]:
            largest = np.maximum(largest, square)
        if not is_symbolic(largest):
            return float(np.sqrt(largest))
        return np.sqrt(np.where(largest > 0.0, largest, 1.0))

    @cached_property
    def joints(self) -> Array:
        """For each velocity of a joint its size, times 1/s (nw,): the length for m/s, else 1."""
        units = [unit for edge in self._e.description.joints for unit in edge.joint.v_units]
        return vector(*(self.length if unit == "m/s" else 1.0 for unit in units))

    @property
    def velocities(self) -> Array:
        """The same for the velocity coordinates (nv,); 1 for user-defined ones, whose units are unknown."""
        d = self._e.description
        return self.joints if d.velocity is None and d.basis is None else np.ones(self._e.nv)

    @cached_property
    def rows(self) -> Array:
        """For each row of Phi (m,) the size of its equation."""
        constrained = self._e.constrained
        parts = []
        for rows in constrained.rows:
            if rows.wrench_map is None:
                parts.append(np.matvec(np.abs(rows.Phi), self.velocities))
            else:
                is_position = reacts_with_forces(rows.wrench_map)
                parts.append(vector(*(self.length if yes else 1.0 for yes in is_position)))
        return concatenate(*parts)

    @cached_property
    def holonomic(self) -> Array:
        """Those of the equations phi(q) = 0."""
        parts = [self.rows[at] for rows, at in self._e.constrained.blocks() if rows.phi is not None]
        return concatenate(np.zeros(0), *parts)

    def relative_residuals(self) -> dict[str, Array]:
        """phi and Phi v + b divided by their sizes (those of rates in 1/s), and the sum of the magnitudes of the terms of the latter."""
        c = self._e.constrained
        terms = np.matvec(np.abs(c.Phi), np.abs(self._e.v)) + np.abs(c.drift)
        return {
            "position": self.share(c.position_residual, self.holonomic),
            "velocity": self.share(c.velocity_residual, self.rows),
            "terms": self.share(terms, self.rows),
        }

    def kept(self) -> dict[str, Array]:
        """Relative residuals to monitor: phi of loops and holonomic constraints, Phi v + b (1/s) of velocity constraints."""
        c, slips = self._e.constrained, [np.zeros(0)]
        for rows, at in c.blocks():
            if rows.phi is None:
                slips.append(self.share(np.matvec(rows.Phi, self._e.v) + rows.drift, self.rows[at]))
        return {"residual": self.share(c.position_residual, self.holonomic), "slip": concatenate(*slips)}

    @cached_property
    def speed(self) -> Array:
        """The largest velocity coordinate divided by its size, in 1/s."""
        rates = self._e.v / self.velocities
        result = np.zeros(())
        for k in range(self._e.nv):
            result = np.maximum(result, np.abs(rates[k]))
        return result

    def share(self, values: Array, sizes: Array) -> Array:
        """Values (n,) divided by sizes (n,); zero stays zero where a size vanishes too."""
        if not shape(values)[0]:
            return np.zeros(0)
        if not is_symbolic(sizes):
            return values / np.where(np.asarray(sizes) > 0.0, sizes, np.inf)
        return np.where(values == 0.0, 0.0, values / sizes)


def scaled_pseudo_inverse(matrix: Floats, rows: Floats, columns: Floats, tolerance: float) -> Floats:
    """Pseudo-inverse (..., n, m) of a matrix (..., m, n) whose rows and columns have the sizes (m,) and (n,).

    Least steps and rank then do not depend on units. Equations of size zero are ignored.

    >>> scaled_pseudo_inverse(np.array([[2.0, 4.0]]), np.array([2.0]), np.array([1.0, 0.5]), 1e-9)
    array([[0.25 ],
           [0.125]])
    """
    weights = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0.0)
    pure = weights[:, None] * matrix * columns
    return columns[:, None] * np.linalg.pinv(pure, rcond=tolerance) * weights


def _arms(description: Description) -> list[Array]:
    """Vectors between points of one body. The origin of the world does not count: the place of a system is not a size."""
    points: dict[str, list[Array]] = {WORLD: []}
    for frame in description.graph.frames:
        points.setdefault(frame, [np.zeros(3)] if frame != WORLD else [])
    for edge in description.graph.edges:
        points[edge.a].append(se3.position(edge.at))
    for loop in description.loops:
        points[loop.a].append(se3.position(loop.at_a))
        points[loop.b].append(se3.position(loop.at_b))
    for body, inertia in description.inertias.items():
        points[body].append(inertia.center)
    return [point - own[0] for own in points.values() for point in own[1:]]


def _gyrations(description: Description) -> list[Array]:
    """Squares of the radii of gyration that are numbers."""
    known = [i for i in description.inertias.values() if not is_symbolic(i.total, i.moment_at_center)]
    return [np.trace(i.moment_at_center) / (2 * i.total) for i in known if float(i.total) > 0.0]


def _q_units(description: Description) -> tuple[str, ...]:
    return tuple(unit for edge in description.joints for unit in edge.joint.q_units)
