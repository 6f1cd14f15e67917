"""From the neutral description of a robot to a system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from heavytop._arrays import Array
from heavytop.errors import FileFormatError, HeavytopError, ModelError
from heavytop.geometry import se3
from heavytop.io.build_elements import add_elements
from heavytop.io.elements import SharedForce
from heavytop.io.given_inertia import inertia_of
from heavytop.io.import_report import TransferReport
from heavytop.io.robot import (
    CONTINUOUS,
    FIXED,
    FLOATING,
    MOST_LINKS,
    PLANAR,
    PRISMATIC,
    REVOLUTE,
    SPHERICAL,
    Robot,
    RobotJoint,
)
from heavytop.system import Coupled, Fixed, Free, JointForce, Planar, Prismatic, Revolute, Spherical, System, Wrench
from heavytop.system.inputs import unit_axis
from heavytop.system.joint_limits import JointLimits
from heavytop.system.joints import Joint
from heavytop.system.names import WORLD


class LoadedSystem(System):
    """A system that was read from a file: it can be extended and derived like any other.

    Attributes
    ----------
    report : what of the file is represented and what is not, by name and line.
    input_limits : input name -> its least and largest value.
    limits : joint name -> bounds of position, speed and effort, as in every system. They are data: ``system.joint_stop`` or
        ``ht.simulate.limit_events`` enforce them.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot.gravity, robot.name)
        self.report: TransferReport = robot.report
        self.input_limits: dict[str, tuple[float, float]] = {}


def build_system(robot: Robot, base: str = "fixed") -> LoadedSystem:
    """The system of a robot; ``base`` "fixed" or "free" says how links that no joint carries are joined to the world."""
    if base not in ("fixed", "free"):
        raise ModelError(f"base must be 'fixed' or 'free', got {base!r}.")
    check_tree(robot)
    robot = _with_own_names(robot)
    system = LoadedSystem(robot)
    try:
        _add_bodies(system, robot, base)
        _add_frames(system, robot)
        _add_actuators(system, robot)
        _add_closures(system, robot)
        add_elements(system, robot)
    except HeavytopError as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{robot.file}: {error}") from error
    return system


def check_tree(robot: Robot) -> None:
    """Raise a FileFormatError for parents that do not exist, links with two parents, and cycles."""
    for what in ("links", "frames", "joints", "actuators", "tendons", "closures", "relations"):
        count = len(getattr(robot, what))
        if count > MOST_LINKS:
            raise FileFormatError(f"{robot.file}: it has {count} {what}; at most {MOST_LINKS} are read.")
    carrier: dict[str, RobotJoint] = {}
    for joint in robot.joints.values():
        for role, name in (("parent", joint.parent), ("child", joint.child)):
            if name != WORLD and name not in robot.links:
                raise FileFormatError(
                    f"{joint.where}: joint {joint.name!r} has the {role} {name!r}, which is no link of the file."
                )
        if joint.child in carrier:
            other = carrier[joint.child]
            raise FileFormatError(
                f"{joint.where}: link {joint.child!r} is carried by two joints, {other.name!r} ({other.where}) and {joint.name!r}. A tree "
                "has one joint per link; close a loop with system.loop(...) after loading."
            )
        carrier[joint.child] = joint
    settled: set[str] = set()
    for name in robot.links:
        path: list[str] = []
        seen: set[str] = set()
        while name in carrier and name not in settled:
            if name in seen:
                cycle = " -> ".join(reversed(path[path.index(name) :]))
                raise FileFormatError(f"{carrier[name].where}: the joints form a cycle: {cycle} -> {path[-1]}.")
            path.append(name)
            seen.add(name)
            name = carrier[name].parent
        settled.update(path)


def _with_own_names(robot: Robot) -> Robot:
    """A link named "world" that is not the world itself gets another name: that one is taken."""
    if WORLD not in robot.links:
        return robot
    carried = any(joint.child == WORLD for joint in robot.joints.values())
    if not carried and robot.links[WORLD].name == WORLD and not robot.links[WORLD].mass:
        return robot  # an inertial frame under its usual name
    new = "world link"
    robot.report.changed("link", WORLD, robot.links[WORLD].where, f"named {new!r}, as 'world' is the inertial frame")
    links = {new if n == WORLD else n: replace(l, name=new) if n == WORLD else l for n, l in robot.links.items()}
    joints = {
        name: replace(
            joint,
            parent=new if joint.parent == WORLD else joint.parent,
            child=new if joint.child == WORLD else joint.child,
        )
        for name, joint in robot.joints.items()
    }
    return replace(robot, links=links, joints=joints)


def _add_bodies(system: LoadedSystem, robot: Robot, base: str) -> None:
    carried = {joint.child for joint in robot.joints.values()}
    for link in robot.links.values():
        if link.name == WORLD and base == "fixed":
            continue
        name = link.name
        if name == WORLD:
            raise FileFormatError(
                f"{link.where}: the root link is 'world', which cannot move: load the file with base='fixed'."
            )
        system.body(name, inertia=inertia_of(link, robot.report))
        if name not in carried:
            joint = Free() if base == "free" else Fixed()
            label = name if name not in robot.joints else "root_joint"
            system.connect(WORLD, name, joint, name=label)
    for joint in robot.joints.values():
        _add_joint(system, robot, joint)
    for link in robot.links.values():
        for visual in link.visuals:
            system.shape(link.name, visual.shape, visual.at, visual.color)


def _add_joint(system: LoadedSystem, robot: Robot, joint: RobotJoint) -> None:
    """Connect parent and child, through a frame between them where the child frame is not that of the joint."""
    at, after = joint.at, joint.after
    if joint.kind == PLANAR:  # our plane is x-y: turn z to the axis and back
        turn = se3.pose(_turn_z_to(joint.axis), np.zeros(3))
        at = at @ turn
        after = se3.inverse(turn) if after is None else se3.inverse(turn) @ after
        after = None if np.allclose(after, np.eye(4), rtol=0, atol=0) else after
    child = joint.child
    if after is not None:
        moved = f"{joint.name}.moved"
        system.body(moved)
        system.connect(moved, child, Fixed(), after, name=f"{joint.name}.after")
        child = moved
    system.connect(joint.parent, child, _joint(joint, robot), at, name=joint.name)
    if joint.limits != JointLimits() and joint.kind != FIXED:
        system.limits[joint.name] = joint.limits


def _turn_z_to(axis: np.ndarray) -> np.ndarray:
    """A rotation whose third column is the axis; the identity for z."""
    z = unit_axis(axis, "planar joint")
    if z[2] == 1.0:
        return np.eye(3)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=-1)


def _joint(joint: RobotJoint, robot: Robot) -> Joint:
    if joint.mimic is not None:
        source, ratio, offset = joint.mimic.source, joint.mimic.ratio, joint.mimic.offset
        inner = Prismatic(joint.axis) if joint.kind == PRISMATIC else Revolute(joint.axis)
        return Coupled(inner, source, ratio, offset)
    if joint.kind in (REVOLUTE, CONTINUOUS):
        return Revolute(joint.axis)
    if joint.kind == PRISMATIC:
        return Prismatic(joint.axis)
    return {FIXED: Fixed, FLOATING: Free, PLANAR: Planar, SPHERICAL: Spherical}[joint.kind]()


def _add_frames(system: LoadedSystem, robot: Robot) -> None:
    taken = {*robot.links, *(f"{name}.moved" for name in robot.joints)}
    for frame in robot.frames:
        name = frame.name
        if name in taken:
            name = f"{name}.site"
            robot.report.changed("site", frame.name, frame.where, f"named {name!r}, as a body has its name")
        taken.add(name)
        system.body(name)
        system.connect(frame.link, name, Fixed(), frame.at, name=f"{name}.frame")


def _add_actuators(system: LoadedSystem, robot: Robot) -> None:
    for actuator in robot.actuators:
        if actuator.limits is not None:
            system.input_limits[actuator.name] = actuator.limits
        if actuator.frame is not None:
            system.input(actuator.name, Wrench(actuator.frame, actuator.wrench[:3], actuator.wrench[3:]))
        elif len(actuator.terms) == 1:
            joint, index, gear = actuator.terms[0]
            system.input(actuator.name, JointForce(joint, index, gear))
        else:
            system.input(actuator.name, SharedForce(actuator.terms))


def _add_closures(system: LoadedSystem, robot: Robot) -> None:
    for loop in robot.closures:
        joint = Spherical() if loop.kind == "connect" else Fixed()
        system.loop(loop.a, loop.b, joint, loop.at_a, loop.at_b, name=loop.name)
    for relation in robot.relations:
        follower = q_index(system, relation.follower)
        source = None if relation.source is None else q_index(system, relation.source)
        system.constrain(_polynomial(follower, source, relation.coefficients), name=relation.name)


def _polynomial(follower: int, source: int | None, coefficients: tuple[float, ...]) -> Callable[[Array], Array]:
    """phi(q) = q_follower - sum_k c_k q_source^k."""

    def phi(q: Array) -> Array:
        if source is None:
            return q[follower] - coefficients[0]
        return q[follower] - sum(c * q[source] ** k for k, c in enumerate(coefficients) if c)

    return phi


def q_index(system: System, joint: str) -> int:
    """Index in q of the first coordinate of a joint."""
    start = 0
    for edge in system.describe().joints:
        if edge.label == joint:
            return start
        start += edge.joint.coordinates.nq
    raise ModelError(f"joint {joint!r} has no coordinates.")
