"""Elements that only robot files have: actuators on several joints or tendons, gravity compensation, joints tied by polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.errors import FileFormatError
from heavytop.io.robot import JointRelation
from heavytop.io.tendon import PathPort
from heavytop.system import WORLD, BodyWrench, JointAction, Kinematics, PairElement, System


@dataclass(frozen=True)
class SharedForce:
    """A generalised force on several velocity coordinates: ``terms`` are (joint, index of the velocity, gear)."""

    terms: tuple[tuple[str, int, float], ...]

    def actions(self, kinematics: Kinematics) -> Sequence[JointAction]:
        return tuple(JointAction(joint, index, gear) for joint, index, gear in self.terms)


@dataclass(frozen=True, eq=False)
class PathForce:
    """A force that lengthens a path through points (3,) of bodies: ``path`` are (body, point), ``gear`` newtons per unit."""

    path: tuple[tuple[str, Any], ...]
    gear: float

    def actions(self, kinematics: Kinematics) -> Sequence[BodyWrench]:
        wrenches = PathPort(kinematics, self.path).wrenches()
        return tuple(BodyWrench(b, self.gear * wrench, a) for a, b, wrench in wrenches)


@dataclass(frozen=True, eq=False)
class GravityCompensation(PairElement):
    """A force -``weight`` (3,) in world axes at the point ``com`` (3,) of a body: V = weight . (r + R com)."""

    b: str
    com: np.ndarray
    weight: np.ndarray
    a: str = WORLD

    def energy(self, x: Array, /) -> Array:
        return np.vecdot(self.weight, x[:3, 3] + np.matvec(x[:3, :3], self.com))


@dataclass(frozen=True)
class JointPolynomial:
    """phi(q) = q_follower - sum_k c_k q_source^k of two joints of one axis; without a source q_follower - c_0.

    ``follower_index`` and ``source_index`` are the places of their coordinates in q.
    """

    follower: str
    source: str | None
    coefficients: tuple[float, ...]
    follower_index: int
    source_index: int | None

    @classmethod
    def of(cls, system: System, relation: JointRelation) -> JointPolynomial:
        """The constraint of a relation of a file."""
        places, start = {}, 0
        for edge in system.describe().joints:
            places[edge.label] = start
            start += edge.joint.coordinates.nq
        for joint in (relation.follower, relation.source):
            if joint is not None and joint not in places:
                raise FileFormatError(f"{relation.where}: joint {joint!r} has no coordinate.")
        source = None if relation.source is None else places[relation.source]
        return cls(relation.follower, relation.source, relation.coefficients, places[relation.follower], source)

    def __call__(self, q: Array) -> Array:
        if self.source_index is None:
            return q[self.follower_index] - self.coefficients[0]
        x = q[self.source_index]
        return q[self.follower_index] - sum(c * x**k for k, c in enumerate(self.coefficients) if c)
