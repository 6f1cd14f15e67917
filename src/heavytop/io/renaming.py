"""Names of a file that are not valid in a system are changed wherever they occur, and reported.

Bodies and frames have letters, digits, spaces and ``_ - . / +``; inputs have letters, digits, ``_`` and ``-``; joints have any name; "world" is
the inertial frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from heavytop.io.robot import Actuator, Robot
from heavytop.system import WORLD


def frame_name(name: str) -> str:
    """A valid name of a body or frame.

    >>> frame_name("robot0:slide(1)"), frame_name("left/arm 2")
    ('robot0_slide_1_', 'left/arm 2')
    """
    return re.sub(r"[^\w./+ -]", "_", name.strip()) or "_"


def input_name(name: str) -> str:
    """A valid name of an input.

    >>> input_name("left/motor 1")
    'left_motor_1'
    """
    return re.sub(r"[^\w-]", "_", name.strip()) or "_"


def unused_name(wish: str, taken: Callable[[str], bool]) -> str:
    """``wish``, or the first of ``wish_2``, ``wish_3``, ... that is not taken.

    >>> unused_name("arm", {"arm", "arm_2"}.__contains__)
    'arm_3'
    """
    name, number = wish, 1
    while taken(name):
        number += 1
        name = f"{wish}_{number}"
    return name


def with_valid_names(robot: Robot) -> Robot:
    """The robot with names that are valid in a system."""
    links = _changes(robot.links, frame_name)
    # a link called "world" is the inertial frame, unless a joint carries it or it has a mass
    if WORLD in robot.links and (robot.links[WORLD].mass or any(j.child == WORLD for j in robot.joints.values())):
        links[WORLD] = unused_name("world link", {*robot.links, *links.values()}.__contains__)
    frames = _changes([frame.name for frame in robot.frames], frame_name)
    inputs = _changes([actuator.name for actuator in robot.actuators], input_name)
    for what, changes, items in (
        ("link", links, robot.links.values()),
        ("site", frames, robot.frames),
        ("actuator", inputs, robot.actuators),
    ):
        where = {item.name: item.where for item in items}
        for old, new in changes.items():
            note = f"named {new!r}" + (", as 'world' is the inertial frame" if old == WORLD else "")
            robot.report.changed(what, old, where[old], note)
    return _renamed(robot, links, frames, inputs) if links or frames or inputs else robot


def _changes(names: Iterable[str], valid: Callable[[str], str]) -> dict[str, str]:
    """Old name -> new name of the invalid ones; all names stay different."""
    all_names = list(names)
    taken = {name for name in all_names if valid(name) == name}
    result = {}
    for name in all_names:
        if valid(name) != name:
            result[name] = unused_name(valid(name), taken.__contains__)
            taken.add(result[name])
    return result


def _renamed(robot: Robot, links: dict[str, str], frames: dict[str, str], inputs: dict[str, str]) -> Robot:
    def link(name: str) -> str:
        return links.get(name, name)

    def along(path: tuple[tuple[str, np.ndarray], ...]) -> tuple[tuple[str, np.ndarray], ...]:
        return tuple((link(name), point) for name, point in path)

    def actuator(x: Actuator) -> Actuator:
        frame = None if x.frame is None else frames.get(x.frame, x.frame)
        return replace(x, name=inputs.get(x.name, x.name), path=along(x.path), frame=frame)

    return replace(
        robot,
        links={link(n): replace(x, name=link(n)) for n, x in robot.links.items()},
        joints={n: replace(x, parent=link(x.parent), child=link(x.child)) for n, x in robot.joints.items()},
        frames=[replace(x, name=frames.get(x.name, x.name), link=link(x.link)) for x in robot.frames],
        actuators=[actuator(x) for x in robot.actuators],
        closures=[replace(x, a=link(x.a), b=link(x.b)) for x in robot.closures],
        tendons=[replace(x, path=along(x.path)) for x in robot.tendons],
        servos=[replace(x, path=along(x.path)) for x in robot.servos],
    )
