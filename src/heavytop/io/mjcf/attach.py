"""Models attached to a model: a part of one robot, with a prefix before its names, on a link of another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heavytop.geometry import se3
from heavytop.io.renaming import renamed
from heavytop.io.robot import Robot
from heavytop.system import WORLD


def subtree(robot: Robot, body: str) -> Robot:
    """The body and everything that it carries; its joint hangs on the world. What names other parts is left out."""
    links = {body}
    for joint in robot.joints.values():  # parents precede their children
        if joint.parent in links:
            links.add(joint.child)
    first = next(joint for joint in robot.joints.values() if joint.child == body)
    above = [first]
    while above[-1].parent not in (WORLD, *_bodies(robot)):  # several joints of the body in series
        above.append(next(joint for joint in robot.joints.values() if joint.child == above[-1].parent))
    links |= {joint.parent for joint in above[:-1]}
    joints = {n: j for n, j in robot.joints.items() if j.child in links}
    joints[above[-1].name] = replace(above[-1], parent=WORLD)
    frames = [x for x in robot.frames if x.link in links]
    named = {x.name for x in frames}

    def inside(x) -> bool:
        on_joints = all(term[0] in joints for term in getattr(x, "terms", ()))
        on_links = all(link in links for link, _ in getattr(x, "path", ()))
        return on_joints and on_links and (getattr(x, "frame", None) is None or x.frame in named)

    return replace(
        robot,
        links={n: x for n, x in robot.links.items() if n in links},
        joints=joints,
        frames=frames,
        sensors=[
            x
            for x in robot.sensors
            if inside(x)
            and {x.target, x.reference or x.target}
            <= {"", *links, *named, *joints, *(a.name for a in robot.actuators if inside(a))}
        ],
        actuators=[x for x in robot.actuators if inside(x)],
        commands=[n for n in robot.commands if any(x.name == n and inside(x) for x in robot.actuators)],
        servos=[x for x in robot.servos if inside(x)],
        tendons=[x for x in robot.tendons if inside(x)],
        closures=[x for x in robot.closures if {x.a, x.b} <= links],
        length_relations=[x for x in robot.length_relations if {n for n, _ in (*x.terms, *x.source)} <= set(joints)],
        relations=[x for x in robot.relations if {x.follower, x.source or x.follower} <= set(joints)],
    )


def _bodies(robot: Robot) -> set[str]:
    """Links that are bodies of the file, not frames between the joints of one."""
    return {item.name for item in robot.report.items if item.what == "body"}


def graft(robot: Robot, part: Robot, link: str, at: np.ndarray, prefix: str) -> Robot:
    """Add the links, joints and frames of a part to a robot: its world becomes the frame ``at`` of the link, its names begin with the prefix.

    Returns the part with these names; :func:`append` adds its other contents, which follow those of the robot.
    """

    def named(name: str) -> str:
        return f"{prefix}{name}"

    def moved(path: tuple[tuple[str, np.ndarray], ...]) -> tuple[tuple[str, np.ndarray], ...]:
        return tuple((name, se3.transform(at, point) if name == WORLD else point) for name, point in path)

    part = replace(
        part,
        actuators=[replace(x, path=moved(x.path)) for x in part.actuators],
        servos=[replace(x, path=moved(x.path)) for x in part.servos],
        tendons=[replace(x, path=moved(x.path)) for x in part.tendons],
        closures=[
            replace(x, at_a=at @ x.at_a if x.a == WORLD else x.at_a, at_b=at @ x.at_b if x.b == WORLD else x.at_b)
            for x in part.closures
        ],
        frames=[replace(x, at=at @ x.at) if x.link == WORLD else x for x in part.frames],
        joints={n: replace(x, at=at @ x.at) if x.parent == WORLD else x for n, x in part.joints.items()},
    )
    part = renamed(
        part,
        link=lambda name: link if name == WORLD else named(name),
        joint=named,
        frame=named,
        actuator=named,
        other=named,
    )
    for name, x in part.links.items():
        if name == link:
            robot.links[link].visuals += [replace(v, at=at @ v.at) for v in x.visuals]
        else:
            robot.links[name] = x
    for name, x in part.joints.items():
        robot.joints[name] = x
    robot.frames += part.frames
    robot.report.items += part.report.items
    return part


def append(robot: Robot, part: Robot, *kinds: str) -> None:
    """Add contents of an attached part, such as "actuators", after those of the robot."""
    for kind in kinds:
        getattr(robot, kind).extend(getattr(part, kind))
