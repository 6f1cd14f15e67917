"""Names of a file that are not valid in a system are changed wherever they occur, and reported.

Bodies and frames have letters, digits, spaces and ``_ - . / +``; inputs have letters, digits, ``_`` and ``-``; joints have any name; "world" is
the inertial frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from heavytop.io.robot import Actuator, JointRelation, Robot, RobotJoint, RobotSensor, ServoTerm, StoredState
from heavytop.system import WORLD

OF_JOINTS = ("ballquat", "ballangvel")
"""Kinds of sensors whose target is a joint."""


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
    if not (links or frames or inputs):
        return robot
    return renamed(
        robot,
        link=lambda name: links.get(name, name),
        frame=lambda name: frames.get(name, name),
        actuator=lambda name: inputs.get(name, name),
    )


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


def same(name: str) -> str:
    """The name itself."""
    return name


def renamed(
    robot: Robot,
    *,
    link: Callable[[str], str] = same,
    joint: Callable[[str], str] = same,
    frame: Callable[[str], str] = same,
    actuator: Callable[[str], str] = same,
    other: Callable[[str], str] = same,
) -> Robot:
    """The robot with other names of links, joints, frames, actuators, and of tendons, loops, relations and keyframes."""

    def along(path: tuple[tuple[str, np.ndarray], ...]) -> tuple[tuple[str, np.ndarray], ...]:
        return tuple((link(name), point) for name, point in path)

    def terms(given: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
        return tuple((joint(name), c) for name, c in given)

    def one_joint(x: RobotJoint) -> RobotJoint:
        mimic = None if x.mimic is None else replace(x.mimic, source=joint(x.mimic.source))
        return replace(x, name=joint(x.name), parent=link(x.parent), child=link(x.child), mimic=mimic)

    def one_actuator(x: Actuator) -> Actuator:
        acts = tuple((joint(name), k, gear) for name, k, gear in x.terms)
        at = None if x.frame is None else frame(x.frame)
        return replace(x, name=actuator(x.name), terms=acts, path=along(x.path), frame=at, length=terms(x.length))

    def one_servo(x: ServoTerm) -> ServoTerm:
        name = actuator(x.actuator) if x.actuator else ""
        return replace(x, terms=terms(x.terms), path=along(x.path), actuator=name)

    def one_relation(x: JointRelation) -> JointRelation:
        source = None if x.source is None else joint(x.source)
        return replace(x, name=other(x.name), follower=joint(x.follower), source=source)

    def one_state(x: StoredState) -> StoredState:
        positions, velocities = ({joint(n): y for n, y in given.items()} for given in (x.positions, x.velocities))
        controls = {actuator(n): y for n, y in x.controls.items()}
        return replace(x, name=other(x.name), positions=positions, velocities=velocities, controls=controls)

    def one_sensor(x: RobotSensor) -> RobotSensor:
        # targets of sensors are frames or links, joints or actuators
        named = (
            joint if x.kind in OF_JOINTS else actuator if x.shares else lambda n: frame(n) if n in frames else link(n)
        )
        shares = {actuator(n): c for n, c in x.shares.items()}
        reference = None if x.reference is None else frame(x.reference) if x.reference in frames else link(x.reference)
        target = named(x.target) if x.target else ""
        return replace(x, name=other(x.name), target=target, reference=reference, terms=terms(x.terms), shares=shares)

    frames = {x.name for x in robot.frames}
    return replace(
        robot,
        links={link(n): replace(x, name=link(n)) for n, x in robot.links.items()},
        joints={joint(n): one_joint(x) for n, x in robot.joints.items()},
        frames=[replace(x, name=frame(x.name), link=link(x.link)) for x in robot.frames],
        actuators=[one_actuator(x) for x in robot.actuators],
        commands=[actuator(x) for x in robot.commands],
        closures=[replace(x, name=other(x.name), a=link(x.a), b=link(x.b)) for x in robot.closures],
        relations=[one_relation(x) for x in robot.relations],
        length_relations=[
            replace(x, name=other(x.name), terms=terms(x.terms), source=terms(x.source)) for x in robot.length_relations
        ],
        tendons=[replace(x, name=other(x.name), terms=terms(x.terms), path=along(x.path)) for x in robot.tendons],
        servos=[one_servo(x) for x in robot.servos],
        sensors=[one_sensor(x) for x in robot.sensors],
        force_ranges={joint(n): x for n, x in robot.force_ranges.items()},
        keyframes=[one_state(x) for x in robot.keyframes],
    )
