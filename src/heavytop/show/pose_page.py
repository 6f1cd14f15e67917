"""Page of a model at one configuration, with a slider for every joint of one axis; the page computes the poses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.show.linkage import Linkage
from heavytop.show.pack import columns
from heavytop.show.page import write_page
from heavytop.show.scene import Report
from heavytop.system import WORLD, Model, Step
from heavytop.system.joints import Joint

MOST_SLIDERS = 120


def write_pose_page(model: Model, path: str | Path, q: Any = None, limits: Mapping[str, Any] | None = None) -> Path:
    """Write a page of the model at ``q`` (default: neutral) with sliders; ``limits`` maps joints to bounds with lower and upper."""
    return write_page(pose_report(model, q, limits), path)


def pose_report(model: Model, q: Any = None, limits: Mapping[str, Any] | None = None) -> Report:
    """The contents of the page of a model at ``q``.

    Models with loops are shown without sliders, because their joints do not move independently; those that only roll or skate have them.
    """
    if q is not None:
        start = np.asarray(q, dtype=float)
    else:
        start = model.assemble()[0] if model.is_constrained else model.neutral()
    linkage = Linkage(model, np.array([0.0, 1.0]), np.tile(start, (2, 1)), np.zeros((2, model.nu)), moves=False)
    scene = linkage.scene()
    closed = model.is_constrained and bool(np.any(model.holonomic_rows))
    sliders = _Sliders(model, linkage, start, limits or {}).data(scene.bodies, movable=not closed)
    highlights = [
        ("degrees of freedom", str(model.degrees_of_freedom(start) if model.is_constrained else model.nv)),
        ("mass", f"{model.mass:.4g} kg"),
    ]
    title = model.name[:1].upper() + model.name[1:]
    notes = linkage.notes()
    if linkage.is_timed:
        notes.append("The system is shown at t = 0.")
    if closed:
        notes.append("A system with loops is shown at one configuration, without sliders.")
    return Report(
        title,
        f"{model.nv} {'velocity' if model.nv == 1 else 'velocities'}",
        scene,
        highlights=highlights,
        notes=notes,
        sliders=sliders,
    )


class _Sliders:
    """Data to move the bodies of the page: the tree, the joints, the bodies on its frames."""

    def __init__(self, model: Model, linkage: Linkage, q: np.ndarray, limits: Mapping[str, Any]) -> None:
        self.model, self.linkage, self.q, self.limits = model, linkage, q, limits
        self.sliders: dict[str, dict[str, Any]] = {}

    def data(self, bodies: Mapping[str, Any], movable: bool = True) -> dict[str, Any]:
        """The part of the document; without joints if they are not movable or too many."""
        steps = self.model.description.graph.spanning_tree()
        for step in steps:
            if movable and step.edge.joint.coordinates.nq == 1 and _axis(step.edge.joint) is not None:
                self._slider(step)
        if len(self.sliders) > MOST_SLIDERS:
            self.sliders.clear()
        frames = {name.replace("/", "\u2215"): name for name in self.model.description.graph.frames}
        placed = {}
        for name, body in bodies.items():
            if name in frames and frames[name] != WORLD:
                pose = self.linkage.poses[frames[name]][0]
                placed[name] = {"frame": frames[name], "offset": columns(np.linalg.inv(pose) @ body.motion[0])}
        return {
            "root": columns(self.linkage.poses[WORLD][0]),
            "edges": [self._edge(step) for step in steps],
            "joints": list(self.sliders.values()),
            "bodies": placed,
        }

    def _slider(self, step: Step) -> None:
        label, sliding = step.edge.label, step.edge.joint.slides_along is not None
        bounds = self.limits.get(label)
        reach = 0.5 * self.linkage.scale if sliding else np.pi
        low, high = getattr(bounds, "lower", None), getattr(bounds, "upper", None)
        limited = low is not None and high is not None
        value = float(self.q[self.model.coordinates.q_slice(label)][0])
        low, high = -reach if low is None else float(low), reach if high is None else float(high)
        ends = {"low": min(low, value), "high": max(high, value)}
        self.sliders[label] = {
            "name": label,
            "unit": "m" if sliding else "rad",
            "value": value,
            "limited": limited,
            **ends,
        }

    def _edge(self, step: Step) -> dict[str, Any]:
        edge, joint = step.edge, step.edge.joint
        at, labels = self.linkage.number(edge.at), list(self.sliders)
        made: dict[str, Any] = {"frame": step.frame, "parent": step.parent, "forward": step.forward}
        source, axis = joint.follows or edge.label, _axis(joint)
        if source in self.sliders and axis is not None:
            offset, ratio = (float(self.linkage.number(x)[0]) for x in joint.follow(np.zeros(1), np.ones(1)))
            made |= {"joint": labels.index(source), "ratio": ratio, "offset": offset}
            made |= {"axis": self.linkage.number(axis).tolist(), "slides": joint.slides_along is not None}
        elif not joint.is_fixed:
            own, _ = joint.follow(self.q[self.model.coordinates.q_slice(source)], np.zeros(1))
            at = at @ self.linkage.number(joint.pose(own))
        return made | {"at": columns(at)}


def _axis(joint: Joint) -> Array | None:
    """The axis of rotation or translation of a joint."""
    return joint.turns_about if joint.slides_along is None else joint.slides_along
