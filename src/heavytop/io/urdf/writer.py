"""Writing URDF from the neutral description."""

from __future__ import annotations

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.io.mesh_files import MeshFiles
from heavytop.io.robot import JointKind, Robot, RobotJoint, RobotLink
from heavytop.io.xml_elements import Tag, spaced
from heavytop.system import WORLD, Box, Capsule, Cylinder, JointLimits, Mesh, Sphere, Triangles

UNBOUNDED = 1e9
"""Effort and speed of a joint without limits; the format requires them for revolute and prismatic joints."""


def urdf_text(robot: Robot, files: MeshFiles) -> str:
    """The file as text; losses are added to the report of the robot."""
    root = Tag("robot", name=robot.name)
    skipped = _skipped_root(robot)
    if skipped is not None and skipped.kind == JointKind.FLOATING:
        robot.report.changed("joint", skipped.name, skipped.where, "the root link; load the file with base='free'")
    for link in robot.links.values():
        if link.name != WORLD or not skipped:
            _link(root, link, robot, files)
    for joint in robot.joints.values():
        if joint is not skipped:
            _joint(root, joint, robot)
    for actuator in robot.actuators:
        if len(actuator.terms) == 1 and actuator.terms[0][1] == 0:
            joint = actuator.terms[0][0]
            if actuator.name != joint:
                note = f"a transmission of this name; when it is read, its input has the name of its joint, {joint!r}"
                robot.report.changed("input", actuator.name, actuator.where, note)
            made = root.add("transmission", name=actuator.name)
            made.add("type").text = "transmission_interface/SimpleTransmission"
            made.add("joint", name=joint)
            made.add("actuator", name=actuator.name).add("mechanicalReduction").text = spaced(actuator.terms[0][2])
        else:
            robot.report.lost("input", actuator.name, actuator.where, "a transmission moves one joint of one axis")
    _losses(robot)
    return root.document()


def _skipped_root(robot: Robot) -> RobotJoint | None:
    """The fixed or free joint between the world and the only link on it, if any: the file then begins with that link."""
    below = [joint for joint in robot.joints.values() if joint.parent == WORLD]
    if len(below) != 1 or robot.links[WORLD].visuals:
        return None
    (joint,) = below
    at_origin = np.array_equal(joint.at, np.eye(4)) and joint.after is None
    return joint if at_origin and joint.kind in (JointKind.FIXED, JointKind.FLOATING) else None


def free_root(robot: Robot) -> bool:
    """Whether the file begins with a link that moves freely."""
    skipped = _skipped_root(robot)
    return skipped is not None and skipped.kind == JointKind.FLOATING


def _origin(parent: Tag, pose: np.ndarray) -> None:
    if not np.array_equal(pose, np.eye(4)):
        parent.add("origin", xyz=spaced(pose[:3, 3]), rpy=spaced(so3.to_roll_pitch_yaw(pose[:3, :3])))


def _link(root: Tag, link: RobotLink, robot: Robot, files: MeshFiles) -> None:
    made = root.add("link", name=link.name)
    if link.mass is not None:
        inertial, J = made.add("inertial"), link.moment
        _origin(inertial, se3.pose(np.eye(3), link.com))
        inertial.add("mass", value=spaced(link.mass))
        entries = {"ixx": J[0, 0], "ixy": J[0, 1], "ixz": J[0, 2], "iyy": J[1, 1], "iyz": J[1, 2], "izz": J[2, 2]}
        inertial.add("inertia", **{key: spaced(value) for key, value in entries.items()})
    for k, visual in enumerate(link.visuals):
        if isinstance(visual.shape, Mesh | Triangles):
            path = files.name(visual.shape, robot.report, link.where)
            scale = visual.shape.scale if isinstance(visual.shape, Mesh) else (1.0, 1.0, 1.0)
            geometry = None if path is None else Tag("mesh", filename=path, scale=spaced(scale))
        elif (geometry := _geometry(visual.shape)) is None:
            robot.report.lost("shape", link.name, link.where, f"URDF has no {type(visual.shape).__name__}")
        if geometry is None:
            continue
        one = made.add("visual")
        _origin(one, visual.at)
        one.add("geometry").children.append(geometry)
        if visual.color is not None:
            one.add("material", name=f"{link.name} {k}").add("color", rgba=spaced(visual.color))


def _geometry(shape: object) -> Tag | None:
    if isinstance(shape, Box):
        return Tag("box", size=spaced(shape.size))
    if isinstance(shape, Cylinder | Capsule):
        kind = "cylinder" if isinstance(shape, Cylinder) else "capsule"
        return Tag(kind, radius=spaced(shape.radius), length=spaced(shape.length))
    if isinstance(shape, Sphere):
        return Tag("sphere", radius=spaced(shape.radius))
    return None


def _joint(root: Tag, joint: RobotJoint, robot: Robot) -> None:
    kind, child = joint.kind, joint.child
    if kind == JointKind.SPHERICAL:
        robot.report.changed("joint", joint.name, joint.where, "type 'spherical', which some programs do not read")
    if kind == JointKind.REVOLUTE and (joint.limits.lower is None or joint.limits.upper is None):
        kind = "continuous"
    if joint.after is not None:
        child = f"{joint.name}.moved"
        root.add("link", name=child)
        weld = root.add("joint", name=f"{joint.name}.after", type="fixed")
        weld.add("parent", link=child)
        weld.add("child", link=joint.child)
        _origin(weld, joint.after)
    made = root.add("joint", name=joint.name, type=kind)
    made.add("parent", link=joint.parent)
    made.add("child", link=child)
    _origin(made, joint.at)
    if joint.kind in (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.PLANAR):
        made.add("axis", xyz=spaced(joint.axis))
    _limits(made, kind, joint.limits)
    if joint.damping or joint.friction:
        made.add("dynamics", damping=spaced(joint.damping), friction=spaced(joint.friction))
    if joint.mimic is not None:
        m = joint.mimic
        made.add("mimic", joint=m.source, multiplier=spaced(m.ratio), offset=spaced(m.offset))
    for label in ("stiffness", "armature"):
        if getattr(joint, label):
            robot.report.lost(label, joint.name, joint.where, "not in URDF")


def _limits(made: Tag, kind: str, limits: JointLimits) -> None:
    if kind in (JointKind.REVOLUTE, JointKind.PRISMATIC):
        default = {"lower": -UNBOUNDED, "upper": UNBOUNDED, "effort": UNBOUNDED, "velocity": UNBOUNDED}
        given = {name: value for name in default if (value := getattr(limits, name)) is not None}
        made.add("limit", **{name: spaced(value) for name, value in (default | given).items()})
    elif limits.effort is not None or limits.velocity is not None:
        made.add("limit", effort=spaced(limits.effort or UNBOUNDED), velocity=spaced(limits.velocity or UNBOUNDED))


def _losses(robot: Robot) -> None:
    compensated = [link for link in robot.links.values() if link.gravity_compensation]
    for what, items in (
        ("loop", robot.closures),
        ("constraint", robot.relations),
        ("gravity compensation", compensated),
        ("tendon", robot.tendons),
    ):
        for item in items:
            robot.report.lost(what, item.name, item.where, "not in URDF")
    if not np.allclose(robot.gravity, (0.0, 0.0, -9.81)):
        robot.report.lost("gravity", "", robot.file, f"not in URDF; it is {robot.gravity}")
