"""Elements that only robot files have: tendons, actuators on several joints or tendons, gravity compensation, joints tied by polynomials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, symbol, transpose, vector
from heavytop.errors import FileFormatError, unknown_name
from heavytop.geometry import se3
from heavytop.io.robot import JointRelation, LengthRelation, Mimic, Robot
from heavytop.system import WORLD, Actions, BodyWrench, JointAction, Kinematics, PairElement, Port, Pull, System
from heavytop.system.forces import ForceElement, Line


def stretch(length: Array, low: float, high: float) -> Array:
    """The excess of a length above ``high`` or below ``low``; zero between them."""
    if low == high:
        return length - low
    return np.maximum(length - high, 0.0) - np.maximum(low - length, 0.0)


class LengthPort(Port):
    """A length: x = (L,), w = (L',); a positive force lengthens."""

    forces = "force, one along the length"

    @property
    def flat(self) -> Array:
        return self.configuration

    def probe(self) -> Array:
        return symbol("L", 1)

    def view(self, flat: Array) -> Array:
        return flat

    def kinematics_matrix(self, flat: Array) -> Array:
        return np.eye(1)

    def samples(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.uniform(0.05, 5.0, (count, 1))


class JointsPort(LengthPort):
    """L = sum c q over joints of one axis: ``terms`` are (joint, coefficient)."""

    def __init__(self, kinematics: Kinematics, terms: tuple[tuple[str, float], ...]) -> None:
        super().__init__(kinematics)
        self.terms = terms
        self.configuration = vector(sum(c * kinematics.q_of[joint][0] for joint, c in terms))
        self.velocity = vector(sum(c * kinematics.relative_v[joint][0] for joint, c in terms))

    @cached_property
    def rows(self) -> Array:
        row = sum(c * self.kinematics.joint_velocity_row(joint, 0) for joint, c in self.terms)
        return np.reshape(row, (1, self.kinematics.nv))

    def place(self, force: Array, actions: Actions) -> None:
        for joint, c in self.terms:
            actions.joint(joint, c * force)


class PathPort(LengthPort):
    """The length of a path through points of bodies: ``path`` are (body, point)."""

    def __init__(self, kinematics: Kinematics, path: tuple[tuple[str, Any], ...]) -> None:
        super().__init__(kinematics)
        self.segments = [(a, p, b, r) for (a, p), (b, r) in pairwise(path)]
        self.configuration = vector(sum(self._line(*segment)[0] for segment in self.segments))
        rates = [np.vecdot(self._line(a, p, b, r)[1], kinematics.motion(a, b).twist) for a, p, b, r in self._moving]
        self.velocity = vector(sum(rates, start=0.0))

    @property
    def _moving(self) -> list[tuple[str, Any, str, Any]]:
        return [segment for segment in self.segments if segment[0] != segment[2]]

    def _line(self, a: str, at_a: Any, b: str, at_b: Any) -> tuple[Array, Array]:
        """Length of a segment and the body wrench (6,) on b per newton of tension that lengthens it."""
        pose = self.kinematics.motion(a, b).pose if a != b else np.eye(4)
        R = se3.rotation(pose)
        offset = se3.position(pose) + np.matvec(R, at_b) - at_a
        length = np.sqrt(np.vecdot(offset, offset))
        direction = np.matvec(transpose(R), offset) / length
        return length, concatenate(direction, np.cross(at_b, direction))

    @cached_property
    def rows(self) -> Array:
        lines = [(self._line(a, p, b, r)[1], self.kinematics.motion(a, b).jacobian) for a, p, b, r in self._moving]
        row = sum(np.matvec(transpose(J), line) for line, J in lines)
        return np.reshape(row, (1, self.kinematics.nv))

    def wrenches(self) -> tuple[tuple[str, str, Array], ...]:
        """(a, b, body wrench (6,) on b with its reaction on a) for each segment, per newton that lengthens the path."""
        return tuple((a, b, self._line(a, p, b, r)[1]) for a, p, b, r in self._moving)

    def place(self, force: Array, actions: Actions) -> None:
        for a, b, wrench in self.wrenches():
            actions.wrench(a, b, wrench * force[0])


@dataclass(frozen=True, eq=False)
class LengthElement(ForceElement):
    """V = k/2 s(L)^2 - f L and R = d/2 L'^2 on a length L, with the stretch s beyond ``low`` ... ``high`` and a constant force f."""

    stiffness: float
    viscosity: float
    low: float
    high: float
    constant: float = 0.0

    def energy(self, x: Array, /) -> Array:
        return 0.5 * self.stiffness * stretch(x[0], self.low, self.high) ** 2 - self.constant * x[0]

    def energy_gradient(self, x: Array, /) -> Array:
        return vector(self.stiffness * stretch(x[0], self.low, self.high) - self.constant)

    def dissipation(self, x: Array, w: Array, /) -> Array:
        return 0.5 * self.viscosity * w[0] ** 2

    def resistance(self, x: Array, w: Array, /) -> Array:
        return self.viscosity * w

    def damping(self, x: Array, /) -> Array:
        return self.viscosity * np.eye(1)


@dataclass(frozen=True, eq=False, kw_only=True)
class JointTendon(LengthElement):
    """A tendon over joints of one axis, L = sum c q: ``terms`` are (joint, coefficient)."""

    terms: tuple[tuple[str, float], ...]

    def port(self, kinematics: Kinematics) -> Port:
        return JointsPort(kinematics, self.terms)

    def check_names(self, frames: Collection[str], joints: Collection[str]) -> None:
        for joint, _ in self.terms:
            if joint not in joints:
                raise unknown_name("joint (of a tendon)", joint, joints)


@dataclass(frozen=True, eq=False, kw_only=True)
class PathTendon(LengthElement):
    """A tendon along a path through points of bodies: ``path`` are (body, point)."""

    path: tuple[tuple[str, Any], ...]

    @property
    def is_between_frames(self) -> bool:
        return True

    def port(self, kinematics: Kinematics) -> Port:
        return PathPort(kinematics, self.path)

    def check_names(self, frames: Collection[str], joints: Collection[str]) -> None:
        for body, _ in self.path:
            if body not in frames:
                raise unknown_name("body or frame (on the path of a tendon)", body, frames)

    def lines(self) -> tuple[Line, ...]:
        return tuple(Line(a, p, b, r) for (a, p), (b, r) in pairwise(self.path))

    def pull(self) -> Pull | None:
        if self.constant:
            return None
        return Pull(self.path, self.stiffness, self.viscosity, self.low, self.high)


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

    def lines(self) -> tuple[Line, ...]:
        return ()

    def renamed(self, name: Callable[[str], str]) -> GravityCompensation:
        """The element in an attached system: gravity stays that of the world."""
        return replace(self, b=name(self.b))

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


@dataclass(frozen=True)
class LengthPolynomial:
    """phi(q) = L - sum_k c_k L_source^k of two sums L = offset + sum_i c_i q_i; without a source L - c_0. Terms are (place in q, c_i)."""

    terms: tuple[tuple[int, float], ...]
    offset: float
    source: tuple[tuple[int, float], ...]
    source_offset: float
    coefficients: tuple[float, ...]

    @classmethod
    def of(cls, system: System, robot: Robot, relation: LengthRelation) -> LengthPolynomial:
        """The constraint of a relation of a file; joints that follow others count through these."""
        places, start = {}, 0
        for edge in system.describe().joints:
            places[edge.label] = start
            start += edge.joint.coordinates.nq

        def in_coordinates(terms: tuple[tuple[str, float], ...]) -> tuple[tuple[tuple[int, float], ...], float]:
            made, offset = [], 0.0
            for joint, c in terms:
                mimic = robot.joints[joint].mimic or Mimic(joint, 1.0, 0.0)
                if mimic.source not in places:
                    raise FileFormatError(f"{relation.where}: joint {joint!r} has no coordinate.")
                made.append((places[mimic.source], c * mimic.ratio))
                offset += c * mimic.offset
            return tuple(made), offset

        return cls(*in_coordinates(relation.terms), *in_coordinates(relation.source), relation.coefficients)

    def __call__(self, q: Array) -> Array:
        length = self.offset + sum(c * q[k] for k, c in self.terms)
        if not self.source:
            return length - self.coefficients[0]
        other = self.source_offset + sum(c * q[k] for k, c in self.source)
        return length - sum(c * other**k for k, c in enumerate(self.coefficients) if c)
