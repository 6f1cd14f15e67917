"""The neutral description of a robot, independent of the file format: links, joints, force elements, loops, frames, shapes.

Readers fill it, :mod:`heavytop.io.build_system` turns it into a system, writers write it. Names are those of the file; poses are (4, 4), units
SI and radians.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from heavytop.geometry import so3
from heavytop.io.import_report import TransferReport
from heavytop.system import JointLimits

MOST_LINKS = 5000


class JointKind(StrEnum):
    """Joints of robot files, by their names in URDF."""

    FIXED = "fixed"
    REVOLUTE = "revolute"
    CONTINUOUS = "continuous"
    PRISMATIC = "prismatic"
    FLOATING = "floating"
    PLANAR = "planar"
    SPHERICAL = "spherical"


@dataclass(frozen=True, eq=False)
class Visual:
    """A shape at a pose in the frame of its link."""

    shape: Any
    at: np.ndarray
    color: tuple[float, float, float, float] | None = None


@dataclass(eq=False)
class RobotLink:
    """A rigid body: mass (or None), centre of mass and moment about it in axes of the link; its visual shapes."""

    name: str
    where: str
    mass: float | None = None
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))
    moment: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    visuals: list[Visual] = field(default_factory=list)
    gravity_compensation: float = 0.0
    """Share of its weight that is compensated."""


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another one: q = ratio q_source + offset."""

    source: str
    ratio: float
    offset: float


@dataclass(eq=False)
class RobotJoint:
    """A joint: the child frame in the parent frame is ``at`` G_joint(q) ``after``."""

    name: str
    kind: JointKind
    parent: str
    child: str
    where: str
    at: np.ndarray = field(default_factory=lambda: np.eye(4))
    axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    after: np.ndarray | None = None
    limits: JointLimits = field(default_factory=JointLimits)
    mimic: Mimic | None = None
    stiffness: float = 0.0
    rest: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0


@dataclass(frozen=True, eq=False)
class NamedFrame:
    """A frame fixed to a link."""

    name: str
    link: str
    at: np.ndarray
    where: str


@dataclass(frozen=True, eq=False)
class Actuator:
    """An input: forces in joints per unit, as (joint, index of the velocity, gear), a wrench (6,) in a named frame, or a pull along a path."""

    name: str
    terms: tuple[tuple[str, int, float], ...]
    where: str
    frame: str | None = None
    wrench: tuple[float, ...] = ()
    limits: tuple[float, float] | None = None
    """Least and largest value of the input."""
    path: tuple[tuple[str, np.ndarray], ...] = ()
    """Points of links along which it pulls, with ``gear`` newtons that lengthen the path per unit."""
    gear: float = 1.0


@dataclass(frozen=True, eq=False)
class ServoTerm:
    """The state-dependent part of a servo: constant - stiffness L - damping L' on a length L like that of a tendon."""

    stiffness: float
    damping: float
    constant: float
    where: str
    terms: tuple[tuple[str, float], ...] = ()
    path: tuple[tuple[str, np.ndarray], ...] = ()
    ratio: float = 0.0
    """Additional damping as a share of the critical one, while the inertia is not yet known."""


@dataclass(frozen=True, eq=False)
class Closure:
    """A loop: a spherical ("connect") or fixed ("weld") joint between the frame at_a of a and at_b of b."""

    name: str
    kind: str
    a: str
    b: str
    at_a: np.ndarray
    at_b: np.ndarray
    where: str


@dataclass(frozen=True, eq=False)
class JointRelation:
    """q_follower = polynomial(q_source) as a constraint; source None: the polynomial's constant."""

    name: str
    follower: str
    source: str | None
    coefficients: tuple[float, ...]
    where: str


@dataclass(frozen=True, eq=False)
class Tendon:
    """A force element: a spring and damper on a length, either sum coef q of joints or a line through points of links.

    It is slack between the rest lengths ``rest`` = (low, high); ``terms`` are (joint, coefficient), ``path`` are (link, point).
    """

    name: str
    where: str
    stiffness: float = 0.0
    damping: float = 0.0
    rest: tuple[float, float] = (0.0, 0.0)
    terms: tuple[tuple[str, float], ...] = ()
    path: tuple[tuple[str, np.ndarray], ...] = ()


@dataclass(eq=False)
class Robot:
    """The contents of a robot file."""

    name: str
    file: str
    report: TransferReport
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    links: dict[str, RobotLink] = field(default_factory=dict)
    joints: dict[str, RobotJoint] = field(default_factory=dict)
    frames: list[NamedFrame] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    closures: list[Closure] = field(default_factory=list)
    relations: list[JointRelation] = field(default_factory=list)
    tendons: list[Tendon] = field(default_factory=list)
    servos: list[ServoTerm] = field(default_factory=list)


def planar_axes(axis: np.ndarray) -> np.ndarray:
    """Rotation (3, 3) from the axes of a planar joint, z normal to its plane, to those of its frame."""
    z = axis / np.linalg.norm(axis)
    if z[2] == 1:
        return np.eye(3)
    return so3.rotation_with_z(z, np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z))
