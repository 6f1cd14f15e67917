"""From a system to the neutral description of a robot, for writers."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import as_array
from heavytop.geometry import se3
from heavytop.io.elements import GravityCompensation, JointPolynomial, JointTendon, PathForce, SharedForce
from heavytop.io.import_report import TransferReport
from heavytop.io.robot import (
    Actuator,
    Closure,
    JointKind,
    JointRelation,
    Mimic,
    Robot,
    RobotJoint,
    RobotLink,
    Tendon,
    Visual,
)
from heavytop.system import WORLD, Description, JointForce, JointLimits, Step, Wrench, at_defaults
from heavytop.system.forces import ForceElement
from heavytop.system.joints import Joint


class SystemReader:
    """Reads a description and reports everything that robot files cannot represent."""

    def __init__(self, description: Description, limits: dict[str, JointLimits] | None = None) -> None:
        self.description, self.limits = description, limits or {}
        self.report = TransferReport()
        gravity = self.number(description.gravity)
        self.robot = Robot(description.name, description.name, self.report, tuple(gravity.tolist()))
        self.robot.links[WORLD] = RobotLink(WORLD, description.name)

    @property
    def where(self) -> str:
        """The place in entries of the report."""
        return self.description.name

    def number(self, value: Any) -> np.ndarray:
        """A value of the description with parameters at their defaults."""
        return at_defaults(as_array(value), self.description.parameters)

    def read(self) -> Robot:
        """Read the whole description."""
        for parameter in self.description.parameters:
            if parameter.is_time:
                note = "files hold no functions of time: everything is written as it is at t = 0"
                self.report.lost("motion", parameter.name, self.where, note)
                continue
            self.report.changed("parameter", parameter.name, self.where, f"written as its value {parameter.value:g}")
        for step in self.description.graph.spanning_tree():
            self._link(step.frame)
            self._joint(step)
        for placed in self.description.shapes:
            self.robot.links[placed.body].visuals.append(Visual(placed.shape, placed.at, placed.color))
        for element in self.description.elements:
            self._element(element)
        self._inputs()
        self._constraints()
        return self.robot

    def _link(self, name: str) -> None:
        link = RobotLink(name, self.where)
        inertia = self.description.inertias.get(name)
        if inertia is not None:
            link.mass = float(self.number(inertia.total))
            link.com, link.moment = self.number(inertia.center), self.number(inertia.moment_at_center)
        self.robot.links[name] = link
        self.report.represented("body" if inertia is not None else "frame", name, self.where)

    def _joint(self, step: Step) -> None:
        edge, joint, at = step.edge, step.edge.joint, self.number(step.edge.at)
        made = RobotJoint(edge.label, self._kind(joint, edge.label), step.parent, step.frame, self.where, at=at)
        axis = joint.turns_about if joint.slides_along is None else joint.slides_along
        if axis is not None and made.kind != JointKind.FIXED:
            made.axis = self.number(axis)
        if joint.follows is not None:
            offset, ratio = (self._one(x) for x in joint.follow(np.zeros(1), np.ones(1)))
            made.mimic = Mimic(joint.follows, ratio, offset)
        if not step.forward:  # the child carries the parent in the system: G_ba = G(q)^-1 at^-1
            if not joint.is_fixed and made.kind not in (JointKind.REVOLUTE, JointKind.PRISMATIC):
                note = "its child carries its parent, and it has more than one axis"
                self.report.lost("joint", edge.label, self.where, note)
            made.axis, made.at, made.after = -made.axis, np.eye(4), se3.inverse(at)
        made.limits = self.limits.get(edge.label, JointLimits())
        self.robot.joints[edge.label] = made
        if made.kind != JointKind.FIXED:
            self.report.represented("joint", edge.label, self.where)

    def _kind(self, joint: Joint, label: str) -> JointKind:
        if joint.kind in list(JointKind):
            return JointKind(joint.kind)
        note = f"{type(joint).__name__} joints have no counterpart; written as fixed"
        self.report.lost("joint", label, self.where, note)
        return JointKind.FIXED

    def _element(self, element: ForceElement) -> None:
        joint = self.robot.joints.get(getattr(element, "joint", ""))
        name = f"tendon{len(self.robot.tendons) + 1}"
        if (
            isinstance(element, JointTendon)
            and not element.constant
            and not any(self._is_lost(j) for j, _ in element.terms)
        ):
            rest = (element.low, element.high)
            tendon = Tendon(name, self.where, element.stiffness, element.viscosity, rest, terms=element.terms)
            self.robot.tendons.append(tendon)
            return
        if isinstance(element, GravityCompensation):
            link, field = self.robot.links[element.b], np.array(self.robot.gravity)
            if link.mass and np.any(field) and np.array_equal(link.com, element.com):
                link.gravity_compensation += float(element.weight @ field / (field @ field)) / link.mass
                return
        pull = element.pull()
        if pull is not None:
            path = tuple((body, self.number(point)) for body, point in pull.path)
            k, d, low, high = (self._one(x) for x in (pull.stiffness, pull.viscosity, pull.low, pull.high))
            self.robot.tendons.append(Tendon(name, self.where, k, d, (low, high), path=path))
            return
        if joint is None or not self._has_one_number(element, joint) or not self._in_joint(element, joint):
            self.report.lost("force element", element.title, self.where, "no counterpart")

    def _has_one_number(self, element: ForceElement, joint: RobotJoint) -> bool:
        """Whether files can represent an element in a joint: in a ball joint only if it is the same about every axis, at rest at zero."""
        if joint.kind != JointKind.SPHERICAL:
            return joint.kind in (JointKind.REVOLUTE, JointKind.PRISMATIC)
        given = {name: np.reshape(self.number(value), -1) for name, value in element.joint_constants().items()}
        return not np.any(given.pop("rest", 0.0)) and all(np.ptp(values) == 0 for values in given.values())

    def _in_joint(self, element: ForceElement, joint: RobotJoint) -> bool:
        """Add an element to a joint; return False if it has no counterpart."""
        given = {name: self._one(value) for name, value in element.joint_constants().items()}
        if not given:
            return False
        if "stiffness" in given:  # two springs are one: k (q - r) = sum k_i (q - r_i)
            k, rest = given.pop("stiffness"), given.pop("rest", 0.0)
            total = joint.stiffness + k
            if total:
                joint.rest = (joint.stiffness * joint.rest + k * rest) / total
            joint.stiffness = total
        for name, value in given.items():
            setattr(joint, name, getattr(joint, name) + value)
        if element.left_out():
            self.report.changed(element.kind, joint.name, self.where, element.left_out())
        return True

    def _one(self, value: Any) -> float:
        return float(np.reshape(self.number(value), -1)[0])

    def _inputs(self) -> None:
        for name, element in self.description.inputs.items():
            if isinstance(element, JointForce):
                terms = ((element.body, int(element.index), float(self.number(element.gear))),)
                actuator = Actuator(name, terms, self.where)
            elif isinstance(element, SharedForce):
                actuator = Actuator(name, element.terms, self.where)
            elif isinstance(element, PathForce):
                path = tuple((body, self.number(point)) for body, point in element.path)
                actuator = Actuator(name, (), self.where, path=path, gear=element.gear)
            elif isinstance(element, Wrench) and (element.frame, element.relative_to) == ("body", WORLD):
                wrench = np.concatenate([self.number(element.force), self.number(element.moment)])
                actuator = Actuator(name, (), self.where, element.body, tuple(wrench.tolist()))
            else:
                self.report.lost("input", name, self.where, f"{type(element).__name__} has no counterpart")
                continue
            if any(self._is_lost(joint) for joint, *_ in actuator.terms):
                self.report.lost("input", name, self.where, "its joint is not written")
                continue
            self.robot.actuators.append(actuator)
            self.report.represented("input", name, self.where)

    def _is_lost(self, joint: str | None) -> bool:
        return joint in self.robot.joints and self.robot.joints[joint].kind == JointKind.FIXED

    def _constraints(self) -> None:
        for loop in self.description.loops:
            kinds: dict[str, str] = {JointKind.SPHERICAL: "connect", JointKind.FIXED: "weld"}
            kind = kinds.get(loop.joint.kind)
            if kind is None:
                note = f"a loop by a {type(loop.joint).__name__} joint has no counterpart"
                self.report.lost("loop", loop.name, self.where, note)
                continue
            at_a, at_b = self.number(loop.at_a), self.number(loop.at_b)
            self.robot.closures.append(Closure(loop.name, kind, loop.a, loop.b, at_a, at_b, self.where))
        for constraint in self.description.constraints:
            known = getattr(constraint.function, "function", constraint.function)
            if isinstance(known, JointPolynomial) and not (
                self._is_lost(known.follower) or self._is_lost(known.source)
            ):
                relation = JointRelation(constraint.name, known.follower, known.source, known.coefficients, self.where)
                self.robot.relations.append(relation)
                continue
            self.report.lost("constraint", constraint.name, self.where, "functions cannot be written")
        if self.description.basis is not None or self.description.velocity is not None:
            self.report.lost("velocities", "", self.where, "other velocity coordinates cannot be written")


def robot_from(description: Description, limits: dict[str, JointLimits] | None = None) -> Robot:
    """The neutral description of a system."""
    return SystemReader(description, limits).read()
