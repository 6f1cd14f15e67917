"""What acts in the joints of a robot: springs, dampers, friction, rotor inertia, tendons."""

from __future__ import annotations

from heavytop.io.robot import FLOATING, SPHERICAL, Robot, RobotJoint, Tendon
from heavytop.io.tendon import JointTendon, PathTendon
from heavytop.system import System

SMOOTHING = 0.01
"""Speed in rad/s or m/s below which dry friction is smooth."""


def add_elements(system: System, robot: Robot) -> None:
    """Add every force element of the robot."""
    for joint in robot.joints.values():
        _in_joint(system, robot, joint)
    for spring in robot.springs:
        joint = robot.joints[spring.joint]
        target, ratio, offset = _source(joint)
        if spring.stiffness:
            system.joint_spring(target, stiffness=spring.stiffness * ratio**2, rest=(spring.rest - offset) / ratio)
        if spring.damping:
            system.joint_damper(target, damping=spring.damping * ratio**2)
    for tendon in robot.tendons:
        if tendon.stiffness or tendon.damping:
            _tendon(system, tendon)


def _source(joint: RobotJoint) -> tuple[str, float, float]:
    """The joint that has the coordinate, and ratio and offset from it; a joint that follows another one acts on that."""
    if joint.mimic is None:
        return joint.name, 1.0, 0.0
    return joint.mimic.source, joint.mimic.ratio, joint.mimic.offset


def _in_joint(system: System, robot: Robot, joint: RobotJoint) -> None:
    target, ratio, offset = _source(joint)
    if not (joint.stiffness or joint.damping or joint.friction or joint.armature):
        return
    if joint.kind == FLOATING:
        _on_free_joint(system, robot, joint)
        return
    if ratio == 0:
        return  # it does not move
    if joint.stiffness:
        rest = 0.0 if joint.kind == SPHERICAL else (joint.rest - offset) / ratio
        system.joint_spring(target, stiffness=joint.stiffness * ratio**2, rest=rest)
    if joint.damping:
        system.joint_damper(target, damping=joint.damping * ratio**2)
    if joint.armature:
        system.armature(target, joint.armature, abs(ratio))
    if joint.friction:
        system.joint_friction(target, coulomb=joint.friction * abs(ratio), smoothing=SMOOTHING / abs(ratio))
        note = f"smooth below {SMOOTHING} rad/s or m/s"
        robot.report.changed("dry friction", joint.name, joint.where, note)


def _on_free_joint(system: System, robot: Robot, joint: RobotJoint) -> None:
    """A free body: damping is the same in world and body axes; the other elements are not."""
    if joint.damping:
        system.joint_damper(joint.name, damping=joint.damping)
    for label in ("stiffness", "friction", "armature"):
        if getattr(joint, label):
            robot.report.lost(label, joint.name, joint.where, "not on a free joint")


def _tendon(system: System, tendon: Tendon) -> None:
    low, high = tendon.rest
    if tendon.path:
        system.add(PathTendon(tendon.path, tendon.stiffness, tendon.damping, low, high))
        return
    places: dict[str, tuple[int, int]] = {}
    q = v = 0
    for edge in system.describe().joints:
        places[edge.label] = (q, v)
        q, v = q + edge.joint.coordinates.nq, v + edge.joint.coordinates.nv
    terms = tuple((*places[joint], coefficient) for joint, coefficient in tendon.terms)
    system.add(JointTendon(terms, tendon.stiffness, tendon.damping, low, high))
