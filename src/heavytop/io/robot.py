"""The neutral description of a robot, independent of the file format: links, joints, force elements, loops, frames, shapes.

Readers fill it, :mod:`heavytop.io.build_system` turns it into a system, writers write it. Names are those of the file; poses are (4, 4), units
SI and radians.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from heavytop.errors import FileFormatError
from heavytop.geometry import so3
from heavytop.io.import_report import TransferReport
from heavytop.system import JointLimits

MOST_LINKS = 5000
Filters = tuple[int, int]
"""Bits of the kind of a shape and of the kinds that it touches (contype and conaffinity of MJCF)."""
Color = tuple[float, float, float, float]
"""Red, green, blue, opacity, each 0 to 1."""


class JointKind(StrEnum):
    """Joints of robot files, by their names in URDF."""

    FIXED = "fixed"
    REVOLUTE = "revolute"
    CONTINUOUS = "continuous"
    PRISMATIC = "prismatic"
    FLOATING = "floating"
    PLANAR = "planar"
    SPHERICAL = "spherical"


ONE_AXIS = (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC)


@dataclass(frozen=True, eq=False)
class Visual:
    """A shape at a pose in the frame of its link."""

    shape: Any
    at: np.ndarray
    color: Color | None = None
    is_collision: bool = False
    """Whether it belongs to the collision geometry, which is drawn on request only."""
    touches: bool = False
    """Whether it takes part in contacts."""
    friction: float | None = None
    """Coefficient of friction, if the file has one."""
    name: str = ""
    """Its name in the file."""
    filters: Filters = (1, 1)
    margin: float = 0.0
    """Distance in m at which it touches."""
    priority: int = 0
    """Of two shapes the one with the higher priority gives the friction."""
    is_smooth: bool = False
    """Whether the file gives it no friction (condim="1" of MJCF)."""


@dataclass(frozen=True, eq=False)
class Floor:
    """A plane z = 0 of a pose (4, 4) in the world that links can touch."""

    at: np.ndarray
    friction: float
    name: str = ""
    filters: Filters = (1, 1)
    margin: float = 0.0
    priority: int = 0
    is_smooth: bool = False


@dataclass(frozen=True, eq=False)
class ContactPair:
    """Two shapes that touch, by their names; ``friction`` and ``margin`` of the pair, or None for those of the shapes."""

    name: str
    where: str
    shapes: tuple[str, str]
    friction: float | None
    margin: float | None


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
    touches_floor: bool = True
    """Whether the file lets it touch the world."""


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
    zero: float = 0.0
    """The coordinate of the file where that of the system is zero."""


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
    lag: float = 0.0
    """Time constant in s of a filter before the input; inf for an integrator, 0 for none."""
    command_range: tuple[float, float] = (-np.inf, np.inf)
    """Range of the command before the filter."""
    ratio: float = 1.0
    """Its length per L below: the gear of the transmission."""
    length: tuple[tuple[str, float], ...] = ()
    """The length L = sum c q on which it acts with a force scale u, and (joint, c); empty for those along paths and at frames."""
    scale: float = 1.0
    force_range: tuple[float, float] = (-np.inf, np.inf)
    """Range of the force on that length, with the state-dependent part of a servo."""


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
    actuator: str = ""
    """The actuator it belongs to; empty for passive dampers."""


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
class LengthRelation:
    """L = polynomial(L_source) as a constraint between sums L = sum c q over joints; ``terms`` are (joint, c), without a source L is constant."""

    name: str
    terms: tuple[tuple[str, float], ...]
    source: tuple[tuple[str, float], ...]
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


@dataclass(frozen=True, eq=False)
class StoredState:
    """A state stored in a file, in its own coordinates: joint -> position and velocity, actuator -> control.

    A ball joint has the quaternion wxyz, a free one position and quaternion; their velocities are those of MuJoCo.
    """

    name: str
    where: str
    time: float
    positions: dict[str, np.ndarray]
    velocities: dict[str, np.ndarray]
    controls: dict[str, float]


@dataclass(frozen=True, eq=False)
class RobotSensor:
    """A sensor by its kind in MJCF: of a frame (relative to another one), a length sum c q over joints, or a force of actuators.

    ``shares`` are actuator -> factor on its force along its length; ``at_center`` objects are the centre of mass of a body, with its axes.
    """

    name: str
    kind: str
    where: str
    target: str = ""
    reference: str | None = None
    at_center: bool = False
    reference_at_center: bool = False
    terms: tuple[tuple[str, float], ...] = ()
    shares: dict[str, float] = field(default_factory=dict)
    cutoff: float = 0.0


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
    commands: list[str] = field(default_factory=list)
    """All actuators of the file in order, with those that are not represented."""
    closures: list[Closure] = field(default_factory=list)
    relations: list[JointRelation] = field(default_factory=list)
    length_relations: list[LengthRelation] = field(default_factory=list)
    tendons: list[Tendon] = field(default_factory=list)
    servos: list[ServoTerm] = field(default_factory=list)
    keyframes: list[StoredState] = field(default_factory=list)
    sensors: list[RobotSensor] = field(default_factory=list)
    force_ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Joint -> range of the total force of its actuators."""
    floor: Floor | None = None
    pairs: list[ContactPair] = field(default_factory=list)
    obstacles: list[tuple[str, str]] = field(default_factory=list)
    """Name and place of shapes of the world, other than the floor, that links could touch."""


def planar_axes(axis: np.ndarray) -> np.ndarray:
    """Rotation (3, 3) from the axes of a planar joint, z normal to its plane, to those of its frame."""
    z = axis / np.linalg.norm(axis)
    if z[2] == 1:
        return np.eye(3)
    return so3.rotation_with_z(z, np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z))


def resolve_mimics(robot: Robot) -> None:
    """Replace chains of mimic joints by the joint at their end; cycles are errors."""
    for joint in robot.joints.values():
        seen = [joint.name]
        while joint.mimic is not None:
            source, problem = robot.joints.get(joint.mimic.source), ""
            if source is None:
                note = f"the joint {joint.mimic.source!r} does not exist, so that it moves independently"
                robot.report.lost("mimic", joint.name, joint.where, note)
                joint.mimic = None
                break
            if source.name in seen:
                problem = f"mimics itself: {' -> '.join([*seen, source.name])}"
            elif source.kind not in ONE_AXIS:
                problem = f"mimics {source.name!r}, which is {source.kind}"
            if problem:
                raise FileFormatError(f"{joint.where}: joint {joint.name!r} {problem}.")
            if source.mimic is None:
                break
            seen.append(source.name)
            inner, outer = joint.mimic, source.mimic
            joint.mimic = Mimic(outer.source, inner.ratio * outer.ratio, inner.ratio * outer.offset + inner.offset)
