"""What acts in the joints of a robot: springs, dampers, friction, rotor inertia, tendons."""

from __future__ import annotations

import numpy as np

from heavytop.io.elements import GravityCompensation
from heavytop.io.robot import FLOATING, SPHERICAL, Robot, RobotJoint, ServoTerm, Tendon
from heavytop.io.tendon import JointTendon, PathTendon
from heavytop.system import System

SMOOTHING = 0.01
"""Speed in rad/s or m/s below which dry friction is smooth."""


def add_elements(system: System, robot: Robot) -> None:
    """Add every force element of the robot."""
    for joint in robot.joints.values():
        _in_joint(system, robot, joint)
    for servo in robot.servos:
        _servo(system, robot, servo)
    for tendon in robot.tendons:
        if tendon.stiffness or tendon.damping:
            _tendon(system, tendon)
    for link in robot.links.values():
        if link.gravity_compensation and link.mass:
            weight = link.gravity_compensation * link.mass * np.array(robot.gravity)
            system.add(GravityCompensation(link.name, link.com, weight))


def _servo(system: System, robot: Robot, servo: ServoTerm) -> None:
    """A spring and damper in a joint where they say it all, otherwise a force along the length."""
    k, d, f = servo.stiffness, servo.damping, servo.constant
    plain = len(servo.terms) == 1 and robot.joints[servo.terms[0][0]].mimic is None and (k > 0 or not (k or f))
    if plain:
        ((joint, c),) = servo.terms
        if k:
            system.joint_spring(joint, stiffness=k * c * c, rest=f / (k * c))
        if d:
            system.joint_damper(joint, damping=d * c * c)
    elif servo.path:
        system.add(PathTendon(k, d, 0.0, 0.0, f, path=servo.path))
    else:
        system.add(JointTendon(k, d, 0.0, 0.0, f, terms=servo.terms))


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
        system.add(PathTendon(tendon.stiffness, tendon.damping, low, high, path=tendon.path))
    else:
        system.add(JointTendon(tendon.stiffness, tendon.damping, low, high, terms=tendon.terms))
