"""Names of a file that a system cannot take are changed, everywhere they stand, and the report says so.

Bodies and frames have letters, digits, spaces and ``_ - . / +``; inputs have letters, digits, ``_`` and ``-``; joints have any name; "world" is
the inertial frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from heavytop.io.robot import Robot
from heavytop.system.description.names import WORLD

WORLD_LINK = "world link"


def frame_name(name: str) -> str:
    """A name as a body or frame can have it.

    >>> frame_name("robot0:slide(1)"), frame_name("left/arm 2")
    ('robot0_slide_1_', 'left/arm 2')
    """
    return re.sub(r"[^\w./+ -]", "_", name.strip()) or "_"


def input_name(name: str) -> str:
    """A name as an input can have it.

    >>> input_name("left/motor 1")
    'left_motor_1'
    """
    return re.sub(r"[^\w-]", "_", name.strip()) or "_"


def with_own_names(robot: Robot) -> Robot:
    """The robot with names that a system can take; itself if it has no others."""
    links = _changes(robot.links, frame_name)
    if WORLD in robot.links and _is_a_body(robot):
        links[WORLD] = _unlike(WORLD_LINK, {*robot.links, *links.values()})
    frames = _changes([frame.name for frame in robot.frames], frame_name)
    inputs = _changes([actuator.name for actuator in robot.actuators], input_name)
    places = {link.name: link.where for link in robot.links.values()}
    for what, changes, where in (
        ("link", links, places),
        ("site", frames, {frame.name: frame.where for frame in robot.frames}),
        ("actuator", inputs, {actuator.name: actuator.where for actuator in robot.actuators}),
    ):
        for old, new in changes.items():
            note = f"named {new!r}" + (", as 'world' is the inertial frame" if old == WORLD else "")
            robot.report.changed(what, old, where[old], note)
    return _renamed(robot, links, frames, inputs) if links or frames or inputs else robot


def _is_a_body(robot: Robot) -> bool:
    """Whether the link called "world" is not the inertial frame: it is carried by a joint or has a mass."""
    return any(joint.child == WORLD for joint in robot.joints.values()) or bool(robot.links[WORLD].mass)


def _changes(names: Iterable[str], own: Callable[[str], str]) -> dict[str, str]:
    """Old name -> new name of those that must change; all names stay different."""
    all_names = list(names)
    taken = {name for name in all_names if own(name) == name}
    result = {}
    for name in all_names:
        if own(name) != name:
            result[name] = _unlike(own(name), taken)
            taken.add(result[name])
    return result


def _unlike(wish: str, taken: set[str]) -> str:
    name, number = wish, 1
    while name in taken:
        number += 1
        name = f"{wish}_{number}"
    return name


def _renamed(robot: Robot, links: dict[str, str], frames: dict[str, str], inputs: dict[str, str]) -> Robot:
    def link(name: str) -> str:
        return links.get(name, name)

    def along(path: tuple[tuple[str, np.ndarray], ...]) -> tuple[tuple[str, np.ndarray], ...]:
        return tuple((link(name), point) for name, point in path)

    return replace(
        robot,
        links={link(n): replace(x, name=link(n)) for n, x in robot.links.items()},
        joints={n: replace(x, parent=link(x.parent), child=link(x.child)) for n, x in robot.joints.items()},
        frames=[replace(x, name=frames.get(x.name, x.name), link=link(x.link)) for x in robot.frames],
        actuators=[
            replace(
                x,
                name=inputs.get(x.name, x.name),
                path=along(x.path),
                frame=None if x.frame is None else frames.get(x.frame, x.frame),
            )
            for x in robot.actuators
        ],
        closures=[replace(x, a=link(x.a), b=link(x.b)) for x in robot.closures],
        tendons=[replace(x, path=along(x.path)) for x in robot.tendons],
        servos=[replace(x, path=along(x.path)) for x in robot.servos],
    )
