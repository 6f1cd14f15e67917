"""Keyframes of MJCF: stored states, joint by joint."""

from __future__ import annotations

import numpy as np

from heavytop.io.mjcf.document import name_of
from heavytop.io.robot import JointKind, Robot, StoredState
from heavytop.io.xml_elements import Element

SIZES = {JointKind.FIXED: (0, 0), JointKind.FLOATING: (7, 6), JointKind.SPHERICAL: (4, 3)}
"""Numbers of positions and velocities in the file; (1, 1) for joints of one axis."""


def read_keyframes(section: Element, robot: Robot) -> None:
    """Add the states of a section; one for another number of coordinates is reported as lost."""
    controls = robot.commands
    for e in section.all("key"):
        name = name_of(e) or f"key{len(robot.keyframes) + 1}"
        sizes = {n: SIZES.get(joint.kind, (1, 1)) for n, joint in robot.joints.items()}
        positions = _by_joint(e, "qpos", {n: nq for n, (nq, _) in sizes.items()})
        velocities = _by_joint(e, "qvel", {n: nv for n, (_, nv) in sizes.items()})
        given = e.numbers("ctrl", None, ())
        if positions is None or velocities is None or len(given) not in (0, len(controls)):
            robot.report.lost(
                "keyframe", name, e.where, "it has not one number for each coordinate of the joints and inputs read"
            )
            continue
        values = {n: float(x) for n, x in zip(controls, given, strict=False)}
        robot.keyframes.append(StoredState(name, e.where, e.number("time", 0.0), positions, velocities, values))
        robot.report.represented("keyframe", name, e.where)
        if np.any(e.numbers("act", None, ())):
            robot.report.lost("act", name, e.where, "states of actuators are not stored")


def _by_joint(e: Element, name: str, sizes: dict[str, int]) -> dict[str, np.ndarray] | None:
    """Numbers of each joint, none if the attribute is missing; None for a wrong number of them."""
    if e.get(name) is None:
        return {}
    values, result, start = e.numbers(name), {}, 0
    if len(values) != sum(sizes.values()):
        return None
    for joint, size in sizes.items():
        if size:
            result[joint], start = values[start : start + size], start + size
    return result
