"""Systems of rigid bodies as plain data: numbers, names and nothing else. ``build`` makes a ``heavytop.System`` of one, ``maximal`` its motion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WORLD = "world"


@dataclass(frozen=True)
class Par:
    """``factor`` times the parameter of that name, plus ``offset``."""

    name: str
    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Wave:
    """``mean + amplitude sin(rate t + phase)``."""

    mean: float
    amplitude: float
    rate: float = 1.0
    phase: float = 0.0


Number = Any
"""A float, a :class:`Par` or a :class:`Wave`."""


@dataclass(frozen=True, eq=False)
class Place:
    """A pose in a frame: rotation ``R`` (3, 3) followed by a turn by ``angle`` about ``axis``, and position ``p``, three numbers."""

    p: tuple[Number, ...] = (0.0, 0.0, 0.0)
    R: np.ndarray = field(default_factory=lambda: np.eye(3))
    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    angle: Number = 0.0


@dataclass(frozen=True, eq=False)
class Joint:
    """How frame b moves in frame a.

    ``kind`` : "revolute", "prismatic", "cylindrical", "universal", "planar", "spherical", "free", "fixed" or "custom".
    ``axes`` : one or two unit vectors. ``circle`` : a revolute joint with cosine and sine as coordinates.
    ``attitude``, ``velocity`` : of spherical and free joints.
    ``stages`` : of custom joints: ("turn" | "slide", axis, slopes, bends), by the amount slopes . q + bends . sin(q), one after the other.
    ``motion`` : numbers in place of the coordinates: the joint is driven. ``source``, ``ratio``, ``offset`` : it follows another one.
    """

    kind: str
    axes: tuple[np.ndarray, ...] = ()
    circle: bool = False
    attitude: str = "matrix"
    velocity: str = ""
    stages: tuple[tuple[str, np.ndarray, np.ndarray, np.ndarray], ...] = ()
    motion: tuple[Number, ...] = ()
    source: str = ""
    ratio: Number = 1.0
    offset: Number = 0.0

    @property
    def nv(self) -> int:
        """Velocities of the joint itself, whether driven, coupled or independent."""
        if self.kind == "custom":
            return len(self.stages[0][2])
        return {
            "revolute": 1,
            "prismatic": 1,
            "cylindrical": 2,
            "universal": 2,
            "planar": 3,
            "spherical": 3,
            "free": 6,
            "fixed": 0,
        }[self.kind]

    @property
    def is_independent(self) -> bool:
        return not self.motion and not self.source and self.nv > 0


@dataclass(frozen=True, eq=False)
class Body:
    """A body or, without mass, a frame. ``moment`` (3, 3) is about the centre of mass, times ``moment_factor``."""

    name: str
    mass: Number = 0.0
    com: tuple[Number, ...] = (0.0, 0.0, 0.0)
    moment: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    moment_factor: Number = 1.0
    is_frame: bool = False
    """Declared as a named frame of the body that it is fixed to."""

    @property
    def has_inertia(self) -> bool:
        return not (isinstance(self.mass, float) and self.mass == 0.0)


@dataclass(frozen=True, eq=False)
class Edge:
    """Frame b moves in frame a by ``at`` followed by ``joint``; either may be the parent. ``name`` is that of the child, and of the joint."""

    name: str
    a: str
    b: str
    joint: Joint
    at: Place = field(default_factory=Place)


@dataclass(frozen=True, eq=False)
class Loop:
    """``joint`` between the frame ``at_a`` of a and the frame ``at_b`` of b."""

    name: str
    a: str
    b: str
    joint: Joint
    at_a: Place = field(default_factory=Place)
    at_b: Place = field(default_factory=Place)


@dataclass(frozen=True, eq=False)
class Smooth:
    """A function of q and time: ``constant + sum c sin(w x + p)`` over terms (c, joint, component, w, p), x a coordinate of the joint."""

    constant: Number = 0.0
    terms: tuple[tuple[float, str, int, float, float], ...] = ()


@dataclass(frozen=True, eq=False)
class VelocityRow:
    """``sum_k f_k(q) v_k + drift(q, t) = 0`` over the terms (joint, component, f)."""

    name: str
    terms: tuple[tuple[str, int, Smooth], ...]
    drift: Smooth = field(default_factory=Smooth)
    work: float = 0.0
    """Coefficient d of a nonideal force -d v of the constraint."""


@dataclass(frozen=True, eq=False)
class PositionRow:
    """``f(q, t) = 0``."""

    name: str
    f: Smooth


@dataclass(frozen=True, eq=False)
class Element:
    """A force element: its ``kind`` is the name of the method of ``heavytop.System`` that adds it, ``data`` the numbers.

    "spring", "springs" (one by one), "damper", "strut", "drag" act between the frames a and b; "joint_spring", "joint_damper",
    "joint_friction", "joint_stop", "armature", "quartic" in the joint a; "potential", "dissipation", "force" on all coordinates.
    """

    kind: str
    a: str = ""
    b: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    as_keyword: bool = False
    """Given to the joint instead of to the system."""


@dataclass(frozen=True, eq=False)
class Input:
    """ "thruster", "joint_force" or "wrench" on ``target``."""

    name: str
    kind: str
    target: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SystemData:
    """A whole system. The order of ``edges`` is that of the coordinates."""

    bodies: tuple[Body, ...]
    edges: tuple[Edge, ...]
    gravity: tuple[Number, ...] = (0.0, 0.0, -9.81)
    elements: tuple[Element, ...] = ()
    inputs: tuple[Input, ...] = ()
    loops: tuple[Loop, ...] = ()
    velocity_rows: tuple[VelocityRow, ...] = ()
    position_rows: tuple[PositionRow, ...] = ()
    basis: tuple[str, ...] | None = None
    """Joints whose velocities are the minimal ones; each velocity row then has one term, its first, with f = 1 in a joint that is not listed."""
    velocity_map: tuple[tuple[int, int, Smooth], ...] | None = None
    """Entries (row, column, f) of W(q) in w = W v."""
    velocity_frames: Mapping[str, str] = field(default_factory=dict)
    """Spherical joints whose velocities ``derive`` takes in another frame."""
    parameters: Mapping[str, float] = field(default_factory=dict)

    @property
    def joints(self) -> tuple[Edge, ...]:
        """Edges with coordinates, in order."""
        return tuple(edge for edge in self.edges if edge.joint.is_independent)


@dataclass(frozen=True, eq=False)
class State:
    """Coordinates and velocities by joint (loops too: their coordinates), time, inputs by name."""

    q: Mapping[str, np.ndarray]
    v: Mapping[str, np.ndarray]
    t: float = 0.0
    u: Mapping[str, float] = field(default_factory=dict)
