"""Reading URDF into the neutral description."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from heavytop.errors import FileFormatError, ModelError, did_you_mean
from heavytop.geometry import se3, so3
from heavytop.io.asset_paths import AssetPaths
from heavytop.io.import_report import TransferReport
from heavytop.io.robot import (
    MOST_LINKS,
    ONE_AXIS,
    Actuator,
    Color,
    JointKind,
    Mimic,
    Robot,
    RobotJoint,
    RobotLink,
    Visual,
    resolve_mimics,
)
from heavytop.io.urdf.vocabulary import NOT_READ, SHAPES, report_unknown
from heavytop.io.xml_elements import Element
from heavytop.system import MESH_FORMATS, Box, Capsule, Cylinder, JointLimits, Mesh, Sphere


def robot_of(root: Element, paths: AssetPaths, with_collision: bool = False) -> Robot:
    """The robot of a parsed file, also with the shapes for collisions."""
    path = paths.file
    if any(element.tag.startswith("xacro:") for element in root.walk()):
        raise FileFormatError(
            f"{root.where}: this is a xacro file, a template of a URDF. Rename it to end in .xacro to expand it."
        )
    report = TransferReport()
    robot = Robot(root.get("name") or path.stem, str(path), report)
    materials = Materials(root, paths, report, with_collision)
    for element in root.children:
        if element.tag == "link":
            _read_link(element, robot, materials)
        elif element.tag == "joint":
            _read_joint(element, robot)
    if not robot.links:
        raise root.error("it has no <link>.")
    represented = list(root.all("link", "joint", "material"))
    for element in root.children:
        if element.tag == "transmission" and _read_transmission(element, robot):
            represented.append(element)
        elif element.tag in NOT_READ:
            name = element.get("name") or element.get("reference") or ""
            report.lost(element.tag, name, element.where, NOT_READ[element.tag])
    report_unknown(root, represented, report)
    resolve_mimics(robot)
    _check_root(robot)
    return robot


def _read_link(element: Element, robot: Robot, materials: Materials) -> None:
    name = element.string("name")
    if name in robot.links:
        raise element.error(f"the name {name!r} is taken by the link in {robot.links[name].where}.")
    link = RobotLink(name, element.where)
    inertial = element.first("inertial")
    if inertial is not None:
        _read_inertial(inertial, link)
    link.visuals = _read_visuals(element, materials)
    if materials.with_collision:
        link.visuals += _read_visuals(element, materials, "collision")
    robot.links[name] = link
    robot.report.represented("link", name, element.where)
    for child in element.children:
        if child.tag == "collision" and not materials.with_collision:
            robot.report.lost("collision geometry", name, child.where, "there are no contacts")


def _read_inertial(element: Element, link: RobotLink) -> None:
    """Mass, centre of mass and moment about it in axes of the link."""
    mass = element.first("mass")
    link.mass = mass.number("value") if mass is not None else 0.0
    if link.mass < 0:
        raise (mass or element).error(f"the mass of link {link.name!r} must not be negative, got {link.mass:g}.")
    pose = _origin(element)
    R, link.com = se3.rotation(pose), se3.position(pose)
    given = element.first("inertia")
    if given is None:
        return
    xx, xy, xz, yy, yz, zz = (given.number(key, 0.0) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    moment = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    link.moment = (moment + moment.T) / 2


def _read_joint(element: Element, robot: Robot) -> None:
    name, given = element.string("name"), element.string("type")
    if name in robot.joints:
        raise element.error(f"the name {name!r} is taken by the joint in {robot.joints[name].where}.")
    if given not in list(JointKind):
        raise element.error(f"joint {name!r} has the type {given!r}; known are {', '.join(JointKind)}.")
    kind = JointKind(given)
    parent, child = element.need("parent").string("link"), element.need("child").string("link")
    joint = RobotJoint(name, kind, parent, child, element.where, at=_origin(element))
    axis = element.first("axis")
    if axis is not None and kind in (*ONE_AXIS, JointKind.PLANAR):
        joint.axis = axis.numbers("xyz", 3, (1.0, 0.0, 0.0))
        if not 1e-100 < np.max(np.abs(joint.axis)) < 1e100:
            raise axis.error(f"the axis of joint {name!r} must be finite and not zero.")
    limit, dynamics, mimic = element.first("limit"), element.first("dynamics"), element.first("mimic")
    if limit is not None:
        joint.limits = _limits(limit, kind)
    if dynamics is not None:
        joint.damping, joint.friction = dynamics.number("damping", 0.0), dynamics.number("friction", 0.0)
        for label, value in (("damping", joint.damping), ("friction", joint.friction)):
            if value < 0:
                raise dynamics.error(f"{label} of joint {name!r} must not be negative, got {value:g}.")
    if mimic is not None and kind == JointKind.FIXED:
        robot.report.lost("mimic", name, mimic.where, "a fixed joint does not follow another one")
    elif mimic is not None:
        if kind not in ONE_AXIS:
            raise mimic.error(
                f"joint {name!r} is {kind}; only revolute, continuous and prismatic joints can mimic another one."
            )
        joint.mimic = Mimic(mimic.string("joint"), mimic.number("multiplier", 1.0), mimic.number("offset", 0.0))
    robot.joints[name] = joint
    robot.report.represented("joint", name, element.where)
    for tag, note in (("safety_controller", "settings of a controller"), ("calibration", "settings of a sensor")):
        if (found := element.first(tag)) is not None:
            robot.report.lost(tag, name, found.where, note)


def _limits(element: Element, kind: str) -> JointLimits:
    bounded = kind in (JointKind.REVOLUTE, JointKind.PRISMATIC)
    values = {
        key: element.number(key) if element.get(key) is not None else None
        for key in ("lower", "upper", "velocity", "effort")
    }
    for key in ("velocity", "effort"):
        if (value := values[key]) is not None and value < 0:
            raise element.error(f"the limit of the {key} must not be negative, got {value:g}.")
    lower, upper = values["lower"], values["upper"]
    if bounded:  # 0 is the default of the format
        lower, upper = lower or 0.0, upper or 0.0
        if lower > upper:
            raise element.error(f"the lower limit {lower:g} is above the upper limit {upper:g}.")
    else:
        lower = upper = None
    return JointLimits(lower, upper, values["velocity"], values["effort"])


def _read_transmission(element: Element, robot: Robot) -> bool:
    """Add the actuator of a transmission (one unit: the effort of the motor, times the reduction in the joint), or report why not."""
    name = element.get("name") or f"transmission at line {element.line}"
    joints = [j.get("name") or "" for j in element.all("joint")]
    joint = robot.joints.get(joints[0]) if len(joints) == 1 else None
    reason = ""
    if joint is None:
        reason = "it does not move exactly one joint of the file"
    elif joint.kind not in ONE_AXIS:
        reason = f"its joint {joint.name!r} is {joint.kind}"
    elif any(term[0] == joint.name for actuator in robot.actuators for term in actuator.terms):
        reason = f"joint {joint.name!r} has an actuator already"
    if joint is None or reason:
        robot.report.lost("transmission", name, element.where, reason)
        return False
    reduction = next((r for a in element.all("actuator") for r in a.all("mechanicalReduction")), None)
    gear = 1.0
    if reduction is not None:
        gear = replace(reduction, attributes={"text": reduction.text}).number("text")
    robot.actuators.append(Actuator(joint.name, ((joint.name, 0, gear),), element.where))
    robot.report.represented("transmission", name, element.where, f"input {joint.name!r}")
    return True


def _check_root(robot: Robot) -> None:
    """Raise a FileFormatError for a second root link; other mistakes are found when the tree is checked."""
    carried = {joint.child for joint in robot.joints.values()}
    if len(carried) < len(robot.joints) or len(robot.links) > MOST_LINKS:
        return
    roots = [link for link in robot.links.values() if link.name not in carried]
    if len(roots) > 1:
        first, second = roots[:2]
        raise FileFormatError(
            f"{second.where}: link {second.name!r} is carried by no joint, and neither is {first.name!r} ({first.where}): a URDF is one tree. "
            "Connect them by a joint, fixed or floating."
        )


# --- visual geometry and materials ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Materials:
    """Colours by name, and folders of meshes."""

    root: Element
    paths: AssetPaths
    report: TransferReport
    with_collision: bool = False
    colors: dict[str, Color] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for element in self.root.all("material"):
            self.color(element)

    def color(self, element: Element | None) -> Color | None:
        """The colour of a <material>, given here or by its name."""
        if element is None:
            return None
        name, given = element.get("name") or "", element.first("color")
        if given is not None:
            red, green, blue, opacity = np.clip(given.numbers("rgba", 4), 0.0, 1.0).tolist()
            self.colors[name] = (red, green, blue, opacity)
            return self.colors[name]
        return self.colors.get(name)


def _read_visuals(link: Element, materials: Materials, tag: str = "visual") -> list[Visual]:
    """The visual shapes of a link, or those for collisions."""
    result = []
    for element in link.all(tag):
        geometry = element.first("geometry")
        shape = _shape(geometry.children[0], materials) if geometry is not None and geometry.children else None
        if shape is None:
            continue
        color = materials.color(element.first("material"))
        result.append(Visual(shape, _origin(element), color, tag == "collision", tag == "collision"))
    return result


def _origin(element: Element) -> np.ndarray:
    """The pose (4, 4) of an <origin>, by default the identity: Rz(yaw) Ry(pitch) Rx(roll), then xyz."""
    found = element.first("origin")
    if found is None:
        return np.eye(4)
    xyz, rpy = found.numbers("xyz", 3, (0.0, 0.0, 0.0)), found.numbers("rpy", 3, (0.0, 0.0, 0.0))
    return se3.pose(so3.from_roll_pitch_yaw(rpy) if np.any(rpy) else np.eye(3), xyz)


def _shape(element: Element, materials: Materials) -> Box | Cylinder | Sphere | Capsule | Mesh | None:
    try:
        if element.tag == "box":
            x, y, z = element.numbers("size", 3).tolist()
            return Box((x, y, z))
        if element.tag == "cylinder":
            return Cylinder(element.number("radius"), element.number("length"))
        if element.tag == "sphere":
            return Sphere(element.number("radius"))
        if element.tag == "capsule":
            return Capsule(element.number("radius"), element.number("length"))
        if element.tag == "mesh":
            return _mesh(element, materials)
    except ModelError as error:
        materials.report.lost("visual", element.tag, element.where, str(error))
        return None
    hint = did_you_mean(element.tag.lower(), SHAPES)
    materials.report.lost("visual", element.tag, element.where, "unknown geometry" + (f".{hint}" if hint else ""))
    return None


def _mesh(element: Element, materials: Materials) -> Mesh | None:
    name = element.attributes.get("filename", "").strip()
    if not name:
        raise element.error("needs the attribute 'filename'.")
    x, y, z = element.numbers("scale", 3, (1.0, 1.0, 1.0)).tolist()
    path, reason = materials.paths.find(name)
    if path is not None and path.suffix.lower() not in MESH_FORMATS:
        path, reason = None, f"the format {path.suffix!r} is not read"
    if path is None:
        materials.report.lost("mesh", name, element.where, reason)
        return None
    return Mesh(str(path), (x, y, z))
