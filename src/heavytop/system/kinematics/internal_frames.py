"""Internal frames, in which the recursion over a tree needs the fewest operations; the user's frames are unaffected.

Bodies that are welded together are one carrier. A carrier that turns about or slides along an axis gets an internal frame: its z axis is
that of the joint, and its origin and x axis follow the common normal to the axis of a child (modified Denavit-Hartenberg), so that the
constant placement of the child is a screw about x and one about z. The remaining turn about z is added to the joint coordinate.
Carriers with other joints, with placements that depend on parameters, or with an oblique axis and an inertia that depends on parameters keep
the user's frame. Nothing is rounded beyond :data:`ROUNDING`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from heavytop._arrays import Array, is_symbolic, transpose
from heavytop.geometry import se3, so3
from heavytop.system.description import WORLD
from heavytop.system.description.description import Description
from heavytop.system.description.graph import Step
from heavytop.system.description.moments import Inertia
from heavytop.system.kinematics.spatial_transforms import FrameStage, Slide, Turn

ROUNDING = 1e-15
"""Entries of rotations, and of positions relative to the largest, that count as rounding errors of zero and one."""
OBLIQUE = 0.05
"""Sine of the least angle between two axes whose common normal is used: the feet of the normal of nearly parallel axes are far away."""
TURN_COST, SLIDE_COST, MIXING_COST = 80.0, 33.0, 45.0
"""Operations that a constant turn, a constant slide and a general rotation before a joint of another kind take."""


@dataclass(frozen=True, eq=False)
class BodyMoments:
    """Mass, first moment (3,) and moment of inertia (3, 3) about the origin of a frame."""

    mass: Array
    first: Array
    second: Array

    @classmethod
    def of(cls, inertia: Inertia) -> BodyMoments:
        """Those of an inertia.

        >>> BodyMoments.of(Inertia(2.0, com=(0.0, 0.0, 0.5))).first
        array([0., 0., 1.])
        """
        return cls(inertia.total, inertia.total * inertia.center, inertia.moment_at_origin)

    @property
    def is_numeric(self) -> bool:
        """Whether no parameter takes part."""
        return not is_symbolic(self.mass, self.first, self.second)

    def __add__(self, other: BodyMoments) -> BodyMoments:
        return BodyMoments(self.mass + other.mass, self.first + other.first, self.second + other.second)

    def moved(self, pose: np.ndarray) -> BodyMoments:
        """Moments about another frame, in which the present one has ``pose`` (4, 4): S + 2 (s.r) I - s r^T - r s^T + m (r.r I - r r^T)."""
        R, r = se3.rotation(pose), se3.position(pose)
        s = np.matvec(R, self.first)
        crossed = 2.0 * np.vecdot(s, r) * np.eye(3) - np.outer(s, r) - np.outer(r, s)
        steiner = self.mass * ((r @ r) * np.eye(3) - np.outer(r, r))
        return BodyMoments(self.mass, s + self.mass * r, R @ self.second @ transpose(R) + crossed + steiner)


NOTHING = BodyMoments(0.0, np.zeros(3), np.zeros((3, 3)))


@dataclass(frozen=True, eq=False)
class Axis:
    """A joint with one velocity in the form ``before G(q) after``, with G(q) a turn about (or a slide along) ``axis``."""

    slides: bool
    axis: np.ndarray
    before: np.ndarray
    after: np.ndarray


@dataclass(frozen=True, eq=False)
class Carrier:
    """Bodies that are welded together, in their internal frame.

    Attributes
    ----------
    name : the user's frame whose joint carries it.
    parent : name of the carrier that this joint hangs on, or the world.
    axis : its joint where it has one axis, else None.
    at : constant part of its link: pose (4, 4) of the joint frame in the internal frame of the parent. With an axis the internal frame is
        then turned about (or shifted along) z by the joint coordinate plus ``offset``; otherwise ``at`` is the pose of the user's
        frame of the parent.
    moments : moments of all its bodies, in the internal frame.
    """

    name: str
    parent: str
    step: Step
    axis: Axis | None
    at: Array
    offset: float = 0.0
    moments: BodyMoments = NOTHING


@dataclass
class InternalTree:
    """Carriers, parents first, and the places of the user's frames in them."""

    carriers: dict[str, Carrier]
    place: dict[str, tuple[str, Array]] = field(default_factory=dict)
    """User's frame -> (its carrier, its pose (4, 4) in the internal frame of the carrier)."""


def internal_tree(description: Description, steps: Sequence[Step]) -> InternalTree:
    """The internal frames of a described system over its spanning tree."""
    place: dict[str, tuple[str, Array]] = {WORLD: (WORLD, np.eye(4))}
    carriers: dict[str, Carrier] = {}
    for step in steps:
        carrier, pose = place[step.parent]
        at = step.edge.at
        if step.edge.joint.is_fixed and not is_symbolic(at):
            place[step.frame] = carrier, pose @ (at if step.forward else se3.inverse(at))
        else:
            axis = _axis(step, np.asarray(pose, dtype=float)) if not is_symbolic(at) else None
            carriers[step.frame] = Carrier(step.frame, carrier, step, axis, pose)
            place[step.frame] = step.frame, np.eye(4)
        owner, pose = place[step.frame]
        if step.frame in description.inertias and owner != WORLD:
            own = BodyMoments.of(description.inertias[step.frame])
            own = own if np.array_equal(pose, np.eye(4)) else own.moved(pose)
            carriers[owner] = replace(carriers[owner], moments=carriers[owner].moments + own)
    for name, carrier in carriers.items():
        if carrier.axis is not None and not carrier.moments.is_numeric and not _is_aligned(carrier.axis):
            carriers[name] = replace(carrier, axis=None)
    return _reframed(carriers, place)


def _axis(step: Step, pose: np.ndarray) -> Axis | None:
    """The joint of a step as one about an axis, where it is; ``pose`` is that of the step's parent frame in its carrier."""
    turns, slides = step.edge.joint.turns_about, step.edge.joint.slides_along
    given = turns if turns is not None else slides
    is_ours = type(step.edge.joint).__module__.startswith("heavytop.")
    if step.edge.joint.kind not in ("revolute", "prismatic") or not is_ours or given is None or is_symbolic(given):
        return None
    axis, at = np.asarray(given, dtype=float), np.asarray(step.edge.at)
    if step.forward:
        return Axis(turns is None, axis, pose @ at, np.eye(4))
    return Axis(turns is None, -axis, pose, se3.inverse(at))


def _is_aligned(axis: Axis) -> bool:
    return np.count_nonzero(axis.axis) == 1 and np.array_equal(axis.after, np.eye(4))


def _reframed(carriers: Mapping[str, Carrier], place: Mapping[str, tuple[str, Array]]) -> InternalTree:
    """Choose the internal frames, from the leaves to the root, and write everything in them."""
    children: dict[str, list[Carrier]] = {name: [] for name in (WORLD, *carriers)}
    for carrier in carriers.values():
        children[carrier.parent].append(carrier)
    frames: dict[str, np.ndarray] = {WORLD: np.eye(4)}  # of the carrier, in the user's frame with its name
    for carrier in reversed(tuple(carriers.values())):
        if carrier.axis is None:
            frames[carrier.name] = np.eye(4)
        else:
            best = _best_frame(carrier, carrier.axis, children[carrier.name], carriers, frames)
            frames[carrier.name] = se3.inverse(carrier.axis.after) @ best
    made: dict[str, Carrier] = {}
    for name, carrier in carriers.items():
        back, frame = se3.inverse(frames[carrier.parent]), frames[name]
        moments = carrier.moments if np.array_equal(frame, np.eye(4)) else carrier.moments.moved(se3.inverse(frame))
        if carrier.axis is None:
            made[name] = replace(carrier, at=back @ carrier.at, moments=moments)
        else:
            at, offset = _without_turn(back @ carrier.axis.before @ carrier.axis.after @ frame, carrier.axis.slides)
            made[name] = replace(carrier, at=at, offset=offset, moments=moments)
    return InternalTree(
        made, {name: (owner, se3.inverse(frames[owner]) @ pose) for name, (owner, pose) in place.items()}
    )


def _best_frame(
    carrier: Carrier,
    axis: Axis,
    children: Sequence[Carrier],
    carriers: Mapping[str, Carrier],
    frames: Mapping[str, np.ndarray],
) -> np.ndarray:
    """The frame (4, 4) with z along the axis of the carrier, in its joint frame, that makes the placements of its children cheapest."""
    plain = se3.pose(so3.rotation_with_z(axis.axis), np.zeros(3))
    if not carrier.moments.is_numeric:
        return plain
    if not children:
        return _leaf_frame(carrier, axis, plain, carriers)
    candidates = [plain]
    for child in children:
        if child.axis is not None:
            line = axis.after @ child.axis.before
            origin = (line @ child.axis.after @ frames[child.name])[:3, 3]
            candidates.append(_towards(axis.axis, line[:3, :3] @ child.axis.axis, line[:3, 3], origin, plain))
        elif child.step.forward and not is_symbolic(child.step.edge.at):
            candidates.append(_pointing(axis.axis, (axis.after @ child.at @ child.step.edge.at)[:3, 3], plain))

    def cost(frame: np.ndarray) -> float:
        total = 0.0
        for child in children:
            if child.axis is None:
                total += MIXING_COST * (np.count_nonzero(np.abs(frame[:3, :3]) > ROUNDING) > 3)
            else:
                pose = se3.inverse(frame) @ axis.after @ child.axis.before @ child.axis.after @ frames[child.name]
                at, _ = _without_turn(pose, child.axis.slides)
                total += stage_cost(constant_stages(at))
        return total

    reach = 10.0 * _reach(carrier, children)
    return min((frame for frame in candidates if np.linalg.norm(frame[:3, 3]) <= reach), key=cost)


def _reach(carrier: Carrier, children: Sequence[Carrier]) -> float:
    """The size of a carrier: the farthest of its joints and its centre of mass."""
    points = [child.axis.before[:3, 3] for child in children if child.axis is not None]
    if carrier.moments.mass > 0:
        points.append(carrier.moments.first / carrier.moments.mass)
    return max((float(np.linalg.norm(p)) for p in points), default=0.0)


def _leaf_frame(carrier: Carrier, axis: Axis, plain: np.ndarray, carriers: Mapping[str, Carrier]) -> np.ndarray:
    """Without children: the x axis through the centre of mass, the origin at the foot of the common normal with the parent's axis."""
    parent = carriers.get(carrier.parent)
    if axis.slides or not carrier.moments.mass > 0:
        return plain
    center = (axis.after @ np.append(carrier.moments.first / carrier.moments.mass, 1.0))[:3]
    frame = _pointing(axis.axis, center, plain)
    if parent is not None and parent.axis is not None:
        line = se3.inverse(axis.before) @ se3.inverse(
            parent.axis.after
        )  # the parent's joint frame in that of the carrier
        foot = _feet(axis.axis, line[:3, :3] @ parent.axis.axis, line[:3, 3])
        if foot is not None and abs(foot[0]) <= 10.0 * max(np.linalg.norm(line[:3, 3]), np.linalg.norm(center)):
            return se3.pose(frame[:3, :3], foot[0] * axis.axis)
    return se3.pose(frame[:3, :3], np.zeros(3))


def _feet(z: np.ndarray, w: np.ndarray, p: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Foot on the axis z through zero of the common normal with the axis w through p, and its direction; None for nearly parallel axes."""
    normal = np.cross(z, w)
    size = np.linalg.norm(normal)
    if size < OBLIQUE:
        return None
    cosine = float(z @ w)
    # h z + d normal = p + k w
    height = float(p @ (z - cosine * w)) / float(size**2)
    return height, normal / size


def _towards(z: np.ndarray, w: np.ndarray, p: np.ndarray, origin: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """The frame with z whose x axis is the common normal to the axis w through p; ``origin`` lies on that axis."""
    found = _feet(z, w, p)
    if found is None:
        return _pointing(z, origin, plain)
    height, normal = found
    return se3.pose(so3.rotation_with_z(z, normal), height * z)


def _pointing(z: np.ndarray, point: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """The frame with z at the height of a point, whose x axis points to it."""
    height = float(point @ z)
    across = point - height * z
    is_on_axis = np.linalg.norm(across) <= 1e-9 * max(float(np.linalg.norm(point)), 1e-9)
    return se3.pose(plain[:3, :3] if is_on_axis else so3.rotation_with_z(z, across), height * z)


def _turn_of(c: float, s: float) -> tuple[float, float]:
    """Cosine and sine of exact unit length, up to rounding."""
    size = np.hypot(c, s)
    c, s = so3.without_rounding(np.array([c / size, s / size]))
    return float(c), float(s)


def zxz(R: np.ndarray) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """Cosine and sine of b, a and g with R = Rz(b) Rx(a) Rz(g); b = 0 where a is 0 or half a turn."""
    sine = float(np.hypot(R[0, 2], R[1, 2]))
    a = _turn_of(R[2, 2], sine)
    b = (1.0, 0.0) if a[1] == 0.0 else _turn_of(-R[1, 2], R[0, 2])
    if b[0] < 0.0:  # (b + pi, -a, g + pi) is the same: quarter turns of b are rather 0 than pi
        b, a = (-b[0], -b[1]), (a[0], -a[1])
    rest = (_rz(*b) @ _rx(*a)).T @ R
    return b, a, _turn_of(rest[0, 0], rest[1, 0])


def _rz(c: float, s: float) -> np.ndarray:
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _rx(c: float, s: float) -> np.ndarray:
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def _without_turn(pose: np.ndarray, slides: bool) -> tuple[np.ndarray, float]:
    """A placement without the last turn about z, which joins the joint's own; that of a sliding joint cannot be taken out."""
    scale = float(np.max(np.abs(pose[:3, 3])))
    position = np.where(np.abs(pose[:3, 3]) < 4.0 * ROUNDING * scale, 0.0, pose[:3, 3])
    b, a, g = zxz(pose[:3, :3])
    if slides:
        return se3.pose(_rz(*b) @ _rx(*a) @ _rz(*g), position), 0.0
    return se3.pose(_rz(*b) @ _rx(*a), position), float(np.arctan2(g[1], g[0]))


def constant_stages(at: np.ndarray) -> list[FrameStage]:
    """A constant placement as turns and slides, from the child to the parent; the slides where they are fewest."""
    b, a, g = zxz(at[:3, :3])
    turns: list[FrameStage] = [Turn(2, *g), Turn(0, *a), Turn(2, *b)]
    steps = (_rz(*g), _rx(*a), _rz(*b))
    shift, options = at[:3, 3], []
    for count in (3, 2, 1, 0):  # the shift in the axes after ``count`` turns
        options.append(
            (count, np.where(np.abs(shift) < 4.0 * ROUNDING * np.max(np.abs(shift), initial=0.0), 0.0, shift))
        )
        shift = steps[count - 1].T @ shift
    count, shift = min(options, key=lambda option: np.count_nonzero(option[1]))
    slides: list[FrameStage] = [Slide(k, float(d)) for k, d in enumerate(shift) if d]
    stages = [*turns[:count], *slides, *turns[count:]]
    return [stage for stage in stages if not (isinstance(stage, Turn) and stage.c == 1.0 and stage.s == 0.0)]


def stage_cost(stages: Sequence[FrameStage]) -> float:
    """About how many operations constant stages take; quarter turns only rename."""
    turns = sum(isinstance(stage, Turn) and stage.c * stage.s != 0.0 for stage in stages)
    return TURN_COST * turns + SLIDE_COST * sum(isinstance(stage, Slide) for stage in stages)


def regrouped(carriers: Mapping[str, Carrier]) -> dict[str, BodyMoments]:
    """The moments of each carrier in its internal frame, with all that its joint cannot distinguish moved to its parent.

    About an axis z a body with mass on the axis and a moment diag(J, J, 0) has the same energy at every angle and rate of the joint, so it may
    as well be welded to the parent; so may the whole moment of inertia of a sliding body (base parameters, Gautier and Khalil 1990).
    The remainder of a turning body is (m c_x, m c_y) and five moments: it is not a physical body, and only the recursion uses it.
    """
    moments = {name: carrier.moments for name, carrier in carriers.items()}
    for name, carrier in reversed(tuple(carriers.items())):
        own, parent = moments[name], carrier.parent
        if carrier.axis is None or not own.is_numeric or not (parent == WORLD or moments[parent].is_numeric):
            continue
        if carrier.axis.slides:
            moved = BodyMoments(0.0, np.zeros(3), own.second)
            moments[name] = BodyMoments(own.mass, own.first, np.zeros((3, 3)))
        else:
            J = own.second
            moved = BodyMoments(own.mass, np.array([0.0, 0.0, own.first[2]]), np.diag([J[1, 1], J[1, 1], 0.0]))
            left = J - moved.second
            left[1, 1] = 0.0
            moments[name] = BodyMoments(0.0, np.array([own.first[0], own.first[1], 0.0]), left)
        if parent != WORLD:
            moments[parent] = moments[parent] + moved.moved(np.asarray(carrier.at))
    return moments
