"""Reading SDF into the neutral description: models with links, joints and frames, nested and included ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from heavytop.errors import ModelError
from heavytop.geometry import quaternion, se3, so3
from heavytop.io.asset_paths import AssetPaths
from heavytop.io.import_report import TransferReport
from heavytop.io.renaming import unused_name
from heavytop.io.robot import (
    MOST_LINKS,
    Color,
    JointKind,
    Mimic,
    NamedFrame,
    Robot,
    RobotJoint,
    RobotLink,
    Visual,
    resolve_mimics,
)
from heavytop.io.xml_elements import Element, read_xml
from heavytop.system import MESH_FORMATS, WORLD, Box, Capsule, Cylinder, Ellipsoid, JointLimits, Mesh, Sphere

MODEL = "__model__"
MOST_NESTED = 20
UNBOUNDED = 1e15
"""Limits from here on are those of the format for "none"."""
KINDS = {
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.CONTINUOUS,
    "prismatic": JointKind.PRISMATIC,
    "ball": JointKind.SPHERICAL,
    "fixed": JointKind.FIXED,
    "universal": JointKind.REVOLUTE,
    "revolute2": JointKind.REVOLUTE,
}
TWO_AXES = ("universal", "revolute2")
KNOWN = {
    "sdf": "version model world",
    "world": "name model include gravity frame",
    "model": "name canonical_link pose static link joint frame model include self_collide enable_wind allow_auto_disable",
    "include": "uri name pose static",
    "frame": "name attached_to pose",
    "link": "name pose inertial visual collision gravity self_collide kinematic enable_wind must_be_base_link",
    "inertial": "pose mass inertia",
    "inertia": "ixx ixy ixz iyy iyz izz",
    "visual": "name pose geometry material cast_shadows transparency laser_retro visibility_flags",
    "material": "diffuse ambient specular emissive script",
    "joint": "name type parent child pose axis axis2",
    "axis": "xyz limit dynamics mimic use_parent_model_frame initial_position",
    "limit": "lower upper effort velocity stiffness dissipation",
    "dynamics": "damping friction spring_stiffness spring_reference",
    "mimic": "joint axis multiplier offset reference",
}
"""Attributes and children that are read, or that have no effect on the motion here; others are reported as lost."""


def robot_of(root: Element, paths: AssetPaths, with_collision: bool = False) -> Robot:
    """The robot of a parsed SDF file, also with the shapes for collisions."""
    report = TransferReport()
    robot = Robot(paths.file.stem, str(paths.file), report)
    world = root.first("world")
    holder = root if world is None else world
    models = [*holder.all("model"), *holder.all("include")]
    if not models:
        raise root.error("it has no <model>.")
    if world is not None:
        gravity = world.first("gravity")
        x, y, z = _numbers(gravity, 3).tolist() if gravity is not None else (0.0, 0.0, -9.8)
        robot.gravity = (x, y, z)
    reader = ModelReader(robot, paths, _version(root), with_collision)
    robot.name = models[0].get("name") or robot.name
    for element in models:
        reader.read(element, np.eye(4), "" if len(models) == 1 else None)
    reader.connect_free_links()
    _report_unread(root, report)
    resolve_mimics(robot)
    return robot


@dataclass(eq=False)
class Scope:
    """Frames of one model by name: pose relative to another frame, until they are resolved in the world."""

    at: np.ndarray
    prefix: str
    given: dict[str, tuple[str, np.ndarray, Element]] = field(default_factory=dict)
    attached: dict[str, str] = field(default_factory=dict)
    """Frame -> link or frame that carries it."""
    poses: dict[str, np.ndarray] = field(default_factory=dict)

    def pose(self, name: str, e: Element, seen: tuple[str, ...] = ()) -> np.ndarray:
        """The pose (4, 4) of a frame in the world."""
        if name == MODEL:
            return self.at
        if name == WORLD:
            return np.eye(4)
        if name not in self.poses:
            if name not in self.given:
                raise e.error(
                    f"names the frame {name!r}, which does not exist; known are {', '.join(self.given) or 'none'}."
                )
            if name in seen:
                raise e.error(f"the frames are relative to each other in a cycle: {' -> '.join((*seen, name))}.")
            relative, pose, own = self.given[name]
            self.poses[name] = self.pose(relative, own, (*seen, name)) @ pose
        return self.poses[name]


class ModelReader:
    """Reads models into the links, joints and frames of a robot."""

    def __init__(self, robot: Robot, paths: AssetPaths, version: float, with_collision: bool) -> None:
        self.robot, self.paths, self.version, self.with_collision = robot, paths, version, with_collision
        self.poses: dict[str, np.ndarray] = {WORLD: np.eye(4)}
        """Link -> pose in the world, where all joints are at zero."""
        self.static: set[str] = set()
        self.prefixes: set[str] = set()

    def read(self, e: Element, at: np.ndarray, prefix: str | None, depth: int = 0, static: bool = False) -> Scope:
        """Read a model at the pose of the enclosing frame; its names begin with the ``prefix``, None for its own name."""
        if depth > MOST_NESTED:
            raise e.error(f"models are nested or included in each other more than {MOST_NESTED} times.")
        if e.tag == "include":
            e = self._included(e)
        name = e.get("name") or "model"
        if prefix is None:
            prefix = f"{unused_name(name, self.prefixes.__contains__)}/"
        self.prefixes.add(prefix.rstrip("/"))
        scope = Scope(at @ _pose(e), prefix)
        static = static or _text(e, "static", "false") in ("true", "1")
        for link in e.all("link"):
            self._link(link, scope, static)
        for frame in e.all("frame"):
            carrier = frame.get("attached_to") or MODEL
            _declare(scope, frame, carrier)
            scope.attached[frame.string("name")] = carrier
        for joint in e.all("joint"):
            _declare(scope, joint, _text(joint, "child", ""))
            scope.attached[joint.string("name")] = _text(joint, "child", "")
        for inner in (*e.all("model"), *e.all("include")):
            within = self.read(
                inner,
                scope.at,
                f"{scope.prefix}{inner.get('name') or _text(inner, 'name', 'model')}/",
                depth + 1,
                static,
            )
            own = within.prefix.removeprefix(scope.prefix).rstrip("/")
            for label in within.given:
                scope.poses[f"{own}::{label}"] = within.pose(label, inner)
                scope.attached[f"{own}::{label}"] = f"{own}::{within.attached.get(label, label)}"
                if f"{within.prefix}{label}" in self.robot.links:
                    scope.attached[f"{own}::{label}"] = f"{own}::{label}"
            scope.given |= {f"{own}::{label}": (MODEL, np.eye(4), inner) for label in within.given}
        for label in scope.given:
            link = f"{scope.prefix}{label}".replace("::", "/")
            if link in self.robot.links:
                self.poses[link] = scope.pose(label, e)
        for joint in e.all("joint"):
            self._joint(joint, scope)
        first = next((link.string("name") for link in e.all("link")), None)
        for frame in e.all("frame"):
            self._frame(frame, scope, first)
        return scope

    def _included(self, e: Element) -> Element:
        """The model of an included file with the name and pose given here."""
        uri = _text(e, "uri", "")
        name = f"package://{uri.removeprefix('model://').rstrip('/')}" if uri.startswith("model://") else uri
        found, reason = self.paths.find(name)
        if found is None:
            found, reason = self.paths.find(f"{name}/model.sdf")
        if found is None:
            raise e.error(f"cannot include {uri!r}: {reason}.")
        root = read_xml(found)
        model = root.first("model") if root.tag == "sdf" else None
        if model is None:
            raise e.error(f"{uri!r} has no <model>.")
        named = e.first("name")
        attributes = {**model.attributes, **({"name": named.text} if named is not None else {})}
        own = [child for child in model.children if child.tag not in {c.tag for c in e.all("pose", "static")}]
        return replace(model, attributes=attributes, children=[*own, *e.all("pose", "static")])

    # --- links and frames -------------------------------------------------------------------------------------------------

    def _link(self, e: Element, scope: Scope, static: bool) -> None:
        label = e.string("name")
        name = f"{scope.prefix}{label}"
        if name in self.robot.links or label in scope.given:
            raise e.error(f"the name {label!r} is taken.")
        if len(self.robot.links) >= MOST_LINKS:
            raise e.error(f"the file has more than {MOST_LINKS} links.")
        _declare(scope, e, MODEL)
        link = self.robot.links[name] = RobotLink(name, e.where, mass=1.0, moment=np.eye(3))
        inertial = e.first("inertial")
        if inertial is None and not static:
            note = "it has the mass of 1 kg and moments of 1 kg m^2 that the format gives links without <inertial>"
            self.robot.report.changed("link", name, e.where, note)
        if inertial is not None:
            self._inertial(inertial, link)
        if _text(e, "gravity", "true") in ("false", "0"):
            link.gravity_compensation = 1.0
        for visual in e.all("visual", "collision") if self.with_collision else e.all("visual"):
            self._visual(visual, link)
        if next(e.all("collision"), None) is not None and not self.with_collision:
            self.robot.report.lost("collision geometry", name, e.where, "there are no contacts")
        if static:
            self.static.add(name)
        self.robot.report.represented("link", name, e.where)

    def _inertial(self, e: Element, link: RobotLink) -> None:
        if e.get("auto", "false") == "true":
            raise e.error(
                "an inertia computed from the collision geometry (auto) is not read: give <mass> and <inertia>."
            )
        mass, given, pose = e.first("mass"), e.first("inertia"), _pose(e)
        link.mass = float(_numbers(mass, 1)[0]) if mass is not None else 1.0
        if link.mass < 0:
            raise e.error(f"the mass of link {link.name!r} must not be negative, got {link.mass:g}.")
        values = {key: 1.0 if key[1] == key[2] else 0.0 for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
        for key in values:
            entry = given.first(key) if given is not None else None
            values[key] = float(_numbers(entry, 1)[0]) if entry is not None else values[key]
        xx, xy, xz, yy, yz, zz = values.values()
        R = se3.rotation(pose)
        moment = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
        link.com, link.moment = se3.position(pose), (moment + moment.T) / 2

    def _visual(self, e: Element, link: RobotLink) -> None:
        geometry = e.first("geometry")
        if geometry is None or not geometry.children:
            return
        try:
            shape = self._shape(geometry.children[0])
        except ModelError as error:
            self.robot.report.lost("visual", e.get("name") or "", e.where, str(error))
            return
        material = e.first("material")
        diffuse = material.first("diffuse") if material is not None else None
        color: Color | None = None
        if diffuse is not None:
            red, green, blue, opacity = (*np.clip(_numbers(diffuse, None)[:4], 0, 1).tolist(), 1.0, 1.0, 1.0, 1.0)[:4]
            color = (red, green, blue, opacity)
        if shape is not None:
            link.visuals.append(Visual(shape, _pose(e), color, e.tag == "collision", e.tag == "collision"))

    def _shape(self, e: Element) -> Box | Sphere | Cylinder | Capsule | Ellipsoid | Mesh | None:
        def number(tag: str) -> float:
            return float(_numbers(e.need(tag), 1)[0])

        if e.tag == "box":
            x, y, z = _numbers(e.need("size"), 3).tolist()
            return Box((x, y, z))
        if e.tag == "sphere":
            return Sphere(number("radius"))
        if e.tag == "cylinder":
            return Cylinder(number("radius"), number("length"))
        if e.tag == "capsule":
            return Capsule(number("radius"), number("length"))
        if e.tag == "ellipsoid":
            x, y, z = _numbers(e.need("radii"), 3).tolist()
            return Ellipsoid((x, y, z))
        if e.tag == "mesh":
            uri, scale = e.need("uri").text, e.first("scale")
            found, reason = self.paths.find(uri.replace("model://", "package://"))
            if found is not None and found.suffix.lower() not in MESH_FORMATS:
                found, reason = None, f"the format {found.suffix!r} is not read"
            if found is None:
                self.robot.report.lost("mesh", uri, e.where, reason)
                return None
            x, y, z = _numbers(scale, 3).tolist() if scale is not None else (1.0, 1.0, 1.0)
            return Mesh(str(found), (x, y, z))
        if e.tag not in ("plane", "empty"):
            self.robot.report.lost("visual", e.tag, e.where, "this geometry is not drawn")
        return None

    def _frame(self, e: Element, scope: Scope, first: str | None) -> None:
        label = e.string("name")
        link = self._carrier(label, scope, e, first)
        if link is None:
            return
        at = se3.inverse(self.poses[link]) @ scope.pose(label, e)
        self.robot.frames.append(NamedFrame(f"{scope.prefix}{label}", link, at, e.where))
        self.robot.report.represented("frame", label, e.where)

    def _carrier(self, label: str, scope: Scope, e: Element, first: str | None) -> str | None:
        """The link that carries a frame, a joint or a link of a model; ``first`` is that of the model itself."""
        for _ in range(len(scope.given) + 2):
            name = f"{scope.prefix}{label}".replace("::", "/")
            if label == WORLD or name in self.robot.links:
                return WORLD if label == WORLD else name
            if label == MODEL:
                if first is None:
                    return None
                label = first
            elif label in scope.attached:
                label = scope.attached[label]
            else:
                raise e.error(f"names {label!r}, which is neither a link nor a frame of the model.")
        raise e.error(f"the frames are attached to each other in a cycle, among them {label!r}.")

    # --- joints -----------------------------------------------------------------------------------------------------------

    def _joint(self, e: Element, scope: Scope) -> None:
        label, given = e.string("name"), e.string("type")
        name = f"{scope.prefix}{label}"
        if name in self.robot.joints:
            raise e.error(f"the joint name {label!r} is taken.")
        kind = KINDS.get(given)
        if kind is None:
            self.robot.report.lost(
                "joint", name, e.where, f"a joint of the type {given!r} is not read; it does not move here"
            )
            kind = JointKind.FIXED
        parent = self._carrier(_text(e, "parent", ""), scope, e, None)
        child = self._carrier(_text(e, "child", ""), scope, e, None)
        if parent is None or child is None or child == WORLD:
            raise e.error(f"joint {label!r} must have a link as child, and a link or the world as parent.")
        frame = scope.pose(label, e)
        at, after = se3.inverse(self.poses[parent]) @ frame, se3.inverse(frame) @ self.poses[child]
        if given in TWO_AXES:  # two pins with a frame without mass between them
            between = f"{name}.cross"
            self.robot.links[between] = RobotLink(between, e.where)
            self._add(e, e.need("axis"), f"{name}.1", kind, parent, between, at, None, scope)
            self._add(e, e.need("axis2"), f"{name}.2", kind, between, child, np.eye(4), after, scope)
        else:
            axis = e.need("axis") if kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC) else None
            self._add(e, axis, name, kind, parent, child, at, after, scope)
        self.robot.report.represented("joint", name, e.where)

    def _add(
        self,
        e: Element,
        axis: Element | None,
        name: str,
        kind: JointKind,
        parent: str,
        child: str,
        at: np.ndarray,
        after: np.ndarray | None,
        scope: Scope,
    ) -> None:
        after = None if after is None or np.array_equal(after, np.eye(4)) else after
        joint = self.robot.joints[name] = RobotJoint(name, kind, parent, child, e.where, at=at, after=after)
        if axis is None:
            return
        xyz = axis.first("xyz")
        given = _numbers(xyz, 3) if xyz is not None else np.array([0.0, 0.0, 1.0])
        if not 1e-100 < np.max(np.abs(given)) < 1e100:
            raise axis.error(f"the axis of joint {name!r} must be finite and not zero.")
        expressed = xyz.get("expressed_in") if xyz is not None else None
        if expressed is None and _in_model_frame(axis, self.version):
            expressed = MODEL
        own = se3.rotation(scope.pose(e.string("name"), e))
        joint.axis = given if not expressed else own.T @ se3.rotation(scope.pose(expressed, axis)) @ given
        self._axis(axis, joint, scope)

    def _axis(self, axis: Element, joint: RobotJoint, scope: Scope) -> None:
        """Limits, dynamics and mimic of an axis."""
        limit, dynamics, mimic = axis.first("limit"), axis.first("dynamics"), axis.first("mimic")
        values: dict[str, float | None] = dict.fromkeys(("lower", "upper", "velocity", "effort"))
        for key in values if limit is not None else ():
            entry = limit.first(key) if limit is not None else None
            value = _number(entry)
            negative = key in ("velocity", "effort") and value is not None and value < 0
            values[key] = None if value is None or abs(value) >= UNBOUNDED or negative else value
        if joint.kind == JointKind.CONTINUOUS:
            values["lower"] = values["upper"] = None
        lower, upper = values["lower"], values["upper"]
        if lower is not None and upper is not None and lower > upper:
            raise axis.error(f"the lower limit {lower:g} is above the upper limit {upper:g}.")
        joint.limits = JointLimits(lower, upper, values["velocity"], values["effort"])
        keys = {
            "damping": "damping",
            "friction": "friction",
            "stiffness": "spring_stiffness",
            "rest": "spring_reference",
        }
        for attribute, tag in keys.items() if dynamics is not None else ():
            value = _number(dynamics.first(tag) if dynamics is not None else None) or 0.0
            if attribute != "rest" and value < 0:
                raise axis.error(f"{tag} of joint {joint.name!r} must not be negative, got {value:g}.")
            setattr(joint, attribute, value)
        if mimic is not None:
            # q = multiplier (q_leader - reference) + offset
            ratio, offset, reference = (_number(mimic.first(tag)) for tag in ("multiplier", "offset", "reference"))
            ratio = 1.0 if ratio is None else ratio
            source = f"{scope.prefix}{mimic.string('joint')}".replace("::", "/")
            joint.mimic = Mimic(source, ratio, (offset or 0.0) - ratio * (reference or 0.0))

    def connect_free_links(self) -> None:
        """Links without a joint move freely, those of static models not at all."""
        carried = {joint.child for joint in self.robot.joints.values()}
        first = {}
        for name, link in self.robot.links.items():
            if name not in carried and name in self.poses:
                kind = JointKind.FIXED if name in self.static else JointKind.FLOATING
                label = name if name not in self.robot.joints else f"{name}.root"
                # the body of a free joint has its pose at the neutral configuration
                first[label] = RobotJoint(label, kind, WORLD, name, link.where, at=self.poses[name])
        self.robot.joints = {**first, **self.robot.joints}


def _version(root: Element) -> float:
    try:
        major, _, minor = (root.get("version") or "1.7").partition(".")
        return int(major) + int(minor.partition(".")[0] or 0) / 100
    except ValueError:
        raise root.error(f"the version must be a number such as 1.7, got {root.get('version')!r}.") from None


def _in_model_frame(axis: Element, version: float) -> bool:
    """Whether an axis without ``expressed_in`` has the axes of the model: always before version 1.5, then by a switch, since 1.7 never."""
    switch = axis.first("use_parent_model_frame")
    if switch is not None:
        return switch.text in ("true", "1")
    return version < 1.05


def _declare(scope: Scope, e: Element, default: str) -> None:
    label, pose = e.string("name"), e.first("pose")
    if label in scope.given and e.tag != "link":
        raise e.error(
            f"the name {label!r} is taken by the <{scope.given[label][2].tag}> in {scope.given[label][2].where}."
        )
    relative = (pose.get("relative_to") or pose.get("frame")) if pose is not None else None
    scope.given[label] = (relative or default, _pose(e), e)


def _pose(e: Element) -> np.ndarray:
    """The pose of an element, by default the identity: x y z and roll pitch yaw, or a quaternion xyzw."""
    given = e.first("pose")
    if given is None or not given.text:
        return np.eye(4)
    if given.get("rotation_format") == "quat_xyzw":
        values = _numbers(given, 7)
        wxyz = np.roll(values[3:], 1)
        if not np.linalg.norm(wxyz) > 0:
            raise given.error("the quaternion must not be zero.")
        return se3.pose(quaternion.rotation_from_quaternion(quaternion.normalize(wxyz)), values[:3])
    values = _numbers(given, 6)
    angles = np.deg2rad(values[3:]) if given.get("degrees", "false") == "true" else values[3:]
    return se3.pose(so3.from_roll_pitch_yaw(angles) if np.any(angles) else np.eye(3), values[:3])


def _text(e: Element, tag: str, default: str) -> str:
    found = e.first(tag)
    return default if found is None else found.text


def _numbers(e: Element, count: int | None) -> np.ndarray:
    """The numbers in the text of an element."""
    return replace(e, attributes={"text": e.text}).numbers("text", count)


def _number(e: Element | None) -> float | None:
    """The number in an element; None if it is missing or infinite."""
    if e is None or e.text.lower().lstrip("+-") in ("inf", "infinity"):
        return None
    return float(_numbers(e, 1)[0])


def _report_unread(root: Element, report: TransferReport) -> None:
    """Report elements that are not read, each kind once for each place it occurs in."""
    stack = [root]
    while stack:
        e = stack.pop()
        for child in e.children:
            key = "axis" if child.tag == "axis2" else child.tag
            if e.tag in KNOWN and child.tag not in KNOWN[e.tag if e.tag != "axis2" else "axis"].split():
                note = (
                    "settings of a simulator" if child.tag in ("plugin", "physics", "sensor", "light") else "not read"
                )
                report.lost(child.tag, child.get("name") or "", child.where, f"{note}, inside <{e.tag}>")
            elif key in KNOWN:
                stack.append(child)
        for name in e.attributes:
            known = KNOWN.get("axis" if e.tag == "axis2" else e.tag, name).split()
            if name not in known and not name.startswith("xmlns"):
                report.lost("attribute", name, e.where, f"not read inside <{e.tag}>")
