"""Force elements of a robot: springs, dampers, friction and rotor inertia in joints, servos, tendons, gravity compensation."""

from __future__ import annotations

import numpy as np

from heavytop.io.elements import GravityCompensation
from heavytop.io.robot import JointKind, Mimic, Robot, RobotJoint, ServoTerm
from heavytop.io.tendon import JointTendon, PathTendon
from heavytop.system import System

SMOOTHING = 0.01
"""Speed in rad/s or m/s below which dry friction is smoothed."""


def add_elements(system: System, robot: Robot) -> None:
    """Add every force element of the robot."""
    for joint in robot.joints.values():
        if joint.kind != JointKind.FIXED and (joint.stiffness or joint.damping or joint.friction or joint.armature):
            _in_joint(system, robot, joint)
    for servo in robot.servos:
        _servo(system, robot, servo)
    for tendon in robot.tendons:
        if tendon.stiffness or tendon.damping:
            constants = (tendon.stiffness, tendon.damping, *tendon.rest)
            path, terms = tendon.path, tendon.terms
            system.add(PathTendon(*constants, path=path) if path else JointTendon(*constants, terms=terms))
    for link in robot.links.values():
        if link.gravity_compensation and link.mass:
            weight = link.gravity_compensation * link.mass * np.array(robot.gravity)
            system.add(GravityCompensation(link.name, link.com, weight))


def _servo(system: System, robot: Robot, servo: ServoTerm) -> None:
    """A spring and damper in a joint if they represent it, otherwise a force along the length."""
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


def _in_joint(system: System, robot: Robot, joint: RobotJoint) -> None:
    if joint.kind == JointKind.FLOATING:
        _on_free_joint(system, robot, joint)
        return
    # elements of a joint that follows another one act on that one
    mimic = joint.mimic or Mimic(joint.name, 1.0, 0.0)
    target, ratio, offset = mimic.source, mimic.ratio, mimic.offset
    if ratio == 0:
        return  # it does not move
    if joint.stiffness:
        rest = 0.0 if joint.kind == JointKind.SPHERICAL else (joint.rest - offset) / ratio
        system.joint_spring(target, stiffness=joint.stiffness * ratio**2, rest=rest)
    if joint.damping:
        system.joint_damper(target, damping=joint.damping * ratio**2)
    if joint.armature:
        system.armature(target, joint.armature, abs(ratio))
    if joint.friction:
        system.joint_friction(target, coulomb=joint.friction * abs(ratio), smoothing=SMOOTHING / abs(ratio))
        robot.report.changed("dry friction", joint.name, joint.where, f"smoothed below {SMOOTHING} rad/s or m/s")


def _on_free_joint(system: System, robot: Robot, joint: RobotJoint) -> None:
    """A free body: only damping is the same in world and body axes."""
    if joint.damping:
        system.joint_damper(joint.name, damping=joint.damping)
    for label in ("stiffness", "friction", "armature"):
        if getattr(joint, label):
            robot.report.lost(label, joint.name, joint.where, "not on a free joint")
