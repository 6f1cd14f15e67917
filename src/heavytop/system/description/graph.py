"""The graph of body frames, any connected set of transformations between them (section 3.4.1, eqs 3.97-3.99), and placements of frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array, Floats, as_array, constant, freeze_fields
from heavytop._format import Brief
from heavytop.errors import ModelError, ShapeError, unknown_name, wrong_shape
from heavytop.geometry import linalg, se3
from heavytop.system.description import WORLD
from heavytop.system.joints import Joint

INSTANTS = (0.0, 0.37, 2.9)
"""Times in s at which time-dependent values are checked."""


@dataclass(frozen=True, eq=False, repr=False)
class Edge(Brief):
    """One transformation ``G_ab(q) = at G_joint(q)`` between the frames a and b."""

    a: str
    b: str
    at: Array
    joint: Joint
    label: str
    """Name of the joint: that of the body it was declared with."""
    own_frame: str | None = None
    """Velocity frame of the joint for user-defined functions where ``derive(velocity=...)`` chose another one for the model."""

    def __post_init__(self) -> None:
        freeze_fields(self)


@dataclass(frozen=True, eq=False)
class Step:
    """One step of the spanning tree: ``frame`` is reached from ``parent`` over ``edge``, along or against its direction."""

    frame: str
    parent: str
    edge: Edge
    forward: bool


@dataclass(frozen=True)
class FrameGraph:
    """Frames and the edges between them."""

    frames: tuple[str, ...]
    edges: tuple[Edge, ...]

    def spanning_tree(self, root: str = WORLD) -> tuple[Step, ...]:
        """Steps that reach every frame from ``root``, each after its parent, in the order of declaration where possible.

        Raises a ModelError for a disconnected graph (naming the frames that cannot be reached) and for a closed loop.
        """
        self._check_names()
        self._check_loops()
        neighbours: dict[str, list[Step]] = {frame: [] for frame in self.frames}
        for edge in self.edges:
            neighbours[edge.a].append(Step(edge.b, edge.a, edge, True))
            neighbours[edge.b].append(Step(edge.a, edge.b, edge, False))
        steps: dict[str, Step] = {}
        used: set[int] = set()
        queue = deque([root])
        while queue:
            for step in neighbours[queue.popleft()]:
                if id(step.edge) in used:
                    continue
                used.add(id(step.edge))
                steps[step.frame] = step
                queue.append(step.frame)
        missing = [frame for frame in self.frames if frame != root and frame not in steps]
        if missing:
            listed = ", ".join(repr(name) for name in missing)
            raise ModelError(
                f"the graph of frames is not connected: {listed} cannot be reached from {root!r}. Give each group of bodies a joint "
                "to the rest (ht.Free() for a body that moves freely)."
            )
        return self._ordered(steps, root)

    def _ordered(self, steps: dict[str, Step], root: str) -> tuple[Step, ...]:
        """Declaration order, parents first."""
        ordered: dict[str, Step] = {}

        def place(frame: str) -> None:
            if frame == root or frame in ordered:
                return
            place(steps[frame].parent)
            ordered[frame] = steps[frame]

        for frame in self.frames:
            place(frame)
        return tuple(ordered.values())

    def _check_loops(self) -> None:
        """Raise a ModelError for the first declared edge whose ends are already connected."""
        group = {frame: {frame} for frame in self.frames}
        for edge in self.edges:
            if edge.b in group[edge.a]:
                raise ModelError(
                    f"joint {edge.label!r} between {edge.a!r} and {edge.b!r} closes a loop: both are already connected. "
                    "A body has one joint in the tree; close a kinematic loop with system.loop(...)."
                )
            group[edge.a] |= group[edge.b]
            for frame in group[edge.b]:
                group[frame] = group[edge.a]

    def _check_names(self) -> None:
        for edge in self.edges:
            for name in (edge.a, edge.b):
                if name not in self.frames:
                    raise unknown_name(f"body or frame (in joint {edge.label!r})", name, self.frames)


def ancestors(steps: Sequence[Step], root: str = WORLD) -> dict[str, tuple[str, ...]]:
    """For each frame its chain of frames from the root down to itself."""
    chains: dict[str, tuple[str, ...]] = {root: (root,)}
    for step in steps:
        chains[step.frame] = (*chains[step.parent], step.frame)
    return chains


def placement(at: Array, where: str) -> Array:
    """A pose (4, 4) from a position (3,), a pose, or None for the frame itself."""
    if at is None:
        return constant(np.eye(4))
    value = as_array(at)
    if value.shape == (3,):
        value = se3.pose(np.eye(3), value)
    if value.shape != (4, 4):
        raise wrong_shape(where, (3,), value.shape, "Give a position (3,) or a pose (4, 4).")
    return constant(value)


def check_pose(where: str, at_time: Callable[[float], Floats], moves: bool) -> None:
    """Raise unless the numbers ``at_time(t)`` (4, 4) are a pose, at several times if it ``moves``."""
    for instant in INSTANTS if moves else INSTANTS[:1]:
        numbers, when = at_time(instant), f" at t = {instant:g} s" if moves else ""
        if not np.all(np.isfinite(numbers)):
            raise ShapeError(f"{where} must be finite, got {numbers[:3, 3].tolist()}{when}.")
        if not linalg.is_pose(numbers, 1e-9):
            defect = np.max(np.abs(numbers[:3, :3].T @ numbers[:3, :3] - np.eye(3)))
            raise ModelError(
                f"{where} is not a pose{when}: its rotation part is off by {defect:.3g} from orthogonality, det = "
                f"{np.linalg.det(numbers[:3, :3]):.6g}, last row {numbers[3].tolist()}. Build it with se3.pose(R, r)."
            )
