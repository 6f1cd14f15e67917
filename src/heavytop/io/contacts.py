"""Contacts of a robot from the collision geometry of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from heavytop.errors import ModelError, unknown_name
from heavytop.io.robot import ContactPair, Floor, Robot, Visual
from heavytop.system import (
    WORLD,
    Box,
    Capsule,
    Cylinder,
    Mesh,
    Points,
    Sphere,
    System,
    Triangles,
    hull_points,
)

FRICTION = 0.8
"""Coefficient of friction where neither the file nor the caller gives one."""
CHOICES = ("feet", "all")
ROLES = (
    (Sphere, (Sphere, Box, Capsule, Cylinder)),
    (Capsule | Box | Mesh | Triangles, (Sphere, Box, Capsule, Cylinder)),
)
"""Shapes whose points can touch the surfaces of others, the exact ones first."""
SIGNS = np.array(list(product((-1.0, 1.0), repeat=3)))


def add_contacts(system: System, robot: Robot, chosen: str | Sequence[str], options: Mapping[str, Any]) -> None:
    """Let the chosen links touch the floor of the file, by default the plane z = 0 of the world, and each other in the pairs of the file.

    Parameters
    ----------
    chosen : "feet" (links with collision geometry whose descendants have none), "all", or names of links.
    options : keywords of :meth:`.System.contact`.
    """
    in_pairs = {shape for pair in robot.pairs for shape in pair.shapes}
    touching = {
        name: [v for v in link.visuals if v.touches or (v.name and v.name in in_pairs)]
        for name, link in robot.links.items()
        if name != WORLD
    }
    touching = {name: visuals for name, visuals in touching.items() if visuals}
    names = _names(robot, touching, chosen)
    if not names:
        if touching:
            raise ModelError(
                f"contacts= names no link. Choose 'feet', 'all' or some of {', '.join(map(repr, touching))}."
            )
        raise ModelError(f"no link has collision geometry, so it has no contacts ({chosen!r}).")
    robot.report.items[:] = [item for item in robot.report.items if item.what != "contact geometry"]
    floor = robot.floor
    if floor is not None:
        system.frame("floor", WORLD, floor.at)
    system.ground(frame=WORLD if floor is None else "floor")
    for name in names:
        seen = 0
        for visual in touching[name]:
            pair = _floor_pair(robot, visual)
            if pair is None and not (robot.links[name].touches_floor and _meets_floor(robot, visual)):
                continue
            label = name if not seen else f"{name} {seen + 1}"
            friction = _mixed(visual, floor)
            margin = visual.margin + (0.0 if floor is None else floor.margin)
            if pair is not None:
                friction = friction if pair.friction is None else pair.friction
                margin = 0.0 if pair.margin is None else pair.margin
            shape = _grown(robot, visual, margin, name)
            system.contact(name, "ground", shape, at=visual.at, name=label, **{"friction": friction, **options})
            robot.report.represented("contact", label, robot.links[name].where)
            seen += 1
    for name, where in robot.obstacles:
        if not name or name not in in_pairs:
            note = "links touch the first plane of the world only, and solids of the world in a <pair> of <contact>"
            robot.report.lost("geom", name, where, note)
    owners = {v.name: (name, v) for name, link in robot.links.items() for v in link.visuals if v.name}
    for number, pair in enumerate(robot.pairs, 1):
        _add_pair(system, robot, pair, pair.name or f"pair {number}", owners, set(names), options)


def _meets_floor(robot: Robot, visual: Visual) -> bool:
    """Whether the filters of the file let a shape touch the floor."""
    if robot.floor is None:
        return visual.touches
    kind, touched = visual.filters
    floor_kind, floor_touched = robot.floor.filters
    return bool(kind & floor_touched or floor_kind & touched)


def _mixed(one: Visual, two: Visual | Floor | None) -> float:
    """Friction of two shapes: of that with the higher priority, else the larger one; 0 where the file gives none."""
    found: list[Visual | Floor] = [one] if two is None else [one, two]
    first = max(shape.priority for shape in found)
    found = [shape for shape in found if shape.priority == first]
    if all(shape.is_smooth for shape in found):
        return 0.0
    return max((shape.friction for shape in found if shape.friction is not None), default=FRICTION)


def _floor_pair(robot: Robot, visual: Visual) -> ContactPair | None:
    """The pair of a shape and the floor."""
    if robot.floor is None or not robot.floor.name or not visual.name:
        return None
    both = {robot.floor.name, visual.name}
    return next((pair for pair in robot.pairs if set(pair.shapes) == both), None)


def _grown(robot: Robot, visual: Visual, margin: float, link: str) -> Any:
    """The shape with rounded corners that reaches further by the distance at which the file lets it touch."""
    shape = visual.shape
    if margin == 0.0:
        return shape
    if isinstance(shape, Sphere | Capsule) and shape.radius + margin > 0.0:
        return replace(shape, radius=shape.radius + margin)
    if isinstance(shape, Box | Mesh | Triangles) and margin > 0.0:
        corners = 0.5 * np.array(shape.size) * SIGNS if isinstance(shape, Box) else hull_points(shape.triangles[0])
        return Points(corners, radius=margin)
    robot.report.lost("margin", visual.name or link, robot.links[link].where, f"not of an ht.{type(shape).__name__}")
    return shape


def _add_pair(
    system: System,
    robot: Robot,
    pair: ContactPair,
    label: str,
    owners: Mapping[str, tuple[str, Visual]],
    chosen: set[str],
    options: Mapping[str, Any],
) -> None:
    """Let two shapes of the file touch, if one belongs to a chosen link and the other to a chosen link or the world."""
    floor = "" if robot.floor is None else robot.floor.name
    for name in pair.shapes:
        if name not in owners and not (floor and name == floor):
            robot.report.lost("pair", label, pair.where, f"{name!r} is not a geom whose shape is read")
            return
    if floor in pair.shapes:
        return  # among the contacts with the floor
    (link_1, visual_1), (link_2, visual_2) = (owners[name] for name in pair.shapes)
    links = {link_1, link_2} - {WORLD}
    if not links or not links <= chosen:
        return
    if link_1 == link_2:
        robot.report.lost("pair", label, pair.where, "both geoms belong to one body")
        return
    friction = pair.friction if pair.friction is not None else _mixed(visual_1, visual_2)
    for points, surfaces in ROLES:
        for (body, visual), (partner, other) in (
            ((link_1, visual_1), (link_2, visual_2)),
            ((link_2, visual_2), (link_1, visual_1)),
        ):
            if not isinstance(visual.shape, points) or not isinstance(other.shape, surfaces) or body == WORLD:
                continue
            given = {"friction": friction, **options}
            roles = [(label, body, visual, partner, other)]
            if isinstance(visual.shape, Box) and isinstance(other.shape, Box) and partner != WORLD:
                roles.append((f"{label} reversed", partner, other, body, visual))
            for name, moving, shaped, resting, surface in roles:
                frame = f"{name} surface"
                system.frame(frame, resting, surface.at)
                shape = _grown(robot, shaped, pair.margin or 0.0, moving)
                system.contact(moving, frame, shape, at=shaped.at, against=surface.shape, name=name, **given)
            robot.report.represented("pair", label, pair.where)
            return
    kinds = " and ".join(type(v.shape).__name__ for v in (visual_1, visual_2))
    robot.report.lost("pair", label, pair.where, f"{kinds} do not touch each other here")


def _names(robot: Robot, touching: Mapping[str, list[Visual]], chosen: str | Sequence[str]) -> list[str]:
    """The links that touch."""
    if chosen == "all":
        return list(touching)
    if chosen == "feet":
        carriers = {joint.child: joint.parent for joint in robot.joints.values()}
        above: set[str] = set()
        for name in touching:
            while (name := carriers.get(name, WORLD)) != WORLD:
                above.add(name)
        return [name for name in touching if name not in above and name in carriers]
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    for name in names:
        if name not in touching:
            raise unknown_name("link with collision geometry (or 'feet', 'all')", name, touching)
    return names
