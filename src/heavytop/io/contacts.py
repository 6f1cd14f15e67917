"""Contacts of a robot from the collision geometry of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heavytop.errors import ModelError, unknown_name
from heavytop.io.robot import Robot, Visual
from heavytop.system import WORLD, System, Triangles

FRICTION = 0.8
"""Coefficient of friction where neither the file nor the caller gives one."""
CHOICES = ("feet", "all")


def add_contacts(system: System, robot: Robot, chosen: str | Sequence[str], options: Mapping[str, Any]) -> None:
    """Let the chosen links touch the floor of the file, by default the plane z = 0 of the world.

    Parameters
    ----------
    chosen : "feet" (links with collision geometry whose descendants have none), "all", or names of links.
    options : keywords of :meth:`.System.contact`.
    """
    touching = {name: [v for v in link.visuals if v.touches] for name, link in robot.links.items() if name != WORLD}
    touching = {name: visuals for name, visuals in touching.items() if visuals}
    names = _names(robot, touching, chosen)
    if not names:
        raise ModelError(f"{robot.file}: no link has collision geometry, so it has no contacts ({chosen!r}).")
    robot.report.items[:] = [item for item in robot.report.items if item.what != "contact geometry"]
    floor = robot.floor
    if floor is not None:
        system.frame("floor", WORLD, floor.at)
    system.ground(frame=WORLD if floor is None else "floor")
    for name in names:
        seen = 0
        for visual in touching[name]:
            if isinstance(visual.shape, Triangles):
                robot.report.lost(
                    "contact geometry", name, robot.links[name].where, "a mesh without a file does not touch"
                )
                continue
            label = name if not seen else f"{name} {seen + 1}"
            friction = max((f for f in (visual.friction, floor and floor.friction) if f is not None), default=FRICTION)
            given = {"friction": friction, **options}
            system.contact(name, "ground", visual.shape, at=visual.at, name=label, **given)
            robot.report.represented("contact", label, robot.links[name].where)
            seen += 1


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
