"""Writing MJCF from the neutral description."""

from __future__ import annotations

import numpy as np

from heavytop.geometry import quaternion, se3
from heavytop.io.mesh_files import MeshFiles
from heavytop.io.robot import JointKind, Robot, RobotJoint, RobotLink, planar_axes
from heavytop.io.xml_elements import Tag, spaced
from heavytop.system import WORLD, Box, Capsule, Cylinder, Ellipsoid, Mesh, Sphere, Triangles

MUJOCO_MESHES = (".stl", ".obj")
"""Formats of meshes that both MuJoCo and heavytop read."""
LEAST = 1e-14
"""Least mass in kg and principal moment in kg m^2 of a moving body; MuJoCo rejects less than 1e-15."""
MOST_FREEDOMS = 6
"""Velocities of the joints of one body."""
TYPES = {
    JointKind.REVOLUTE: "hinge",
    "continuous": "hinge",
    JointKind.PRISMATIC: "slide",
    JointKind.SPHERICAL: "ball",
    JointKind.FLOATING: "free",
}


class MjcfWriter:
    """Nests the links of a robot; massless frames between joints become joints of one body."""

    def __init__(self, robot: Robot, files: MeshFiles) -> None:
        self.robot, self.files = robot, files
        self.children: dict[str, list[RobotJoint]] = {}
        for joint in robot.joints.values():
            self.children.setdefault(joint.parent, []).append(joint)
        self.sites: dict[str, list[tuple[str, np.ndarray]]] = {}
        self.meshes: dict[tuple[str, tuple[float, ...]], str] = {}
        self.anchored = {name for loop in robot.closures for name in (loop.a, loop.b)}
        self.anchored |= {link for element in (*robot.tendons, *robot.actuators) for link, _ in element.path}
        self.anchored |= {actuator.frame for actuator in robot.actuators if actuator.frame is not None}

    def text(self) -> str:
        """The file as text; losses are added to the report of the robot."""
        robot, root = self.robot, Tag("mujoco", model=self.robot.name)
        root.add("compiler", angle="radian", autolimits="true")
        root.add("option", gravity=spaced(robot.gravity))
        asset, world = root.add("asset"), Tag("worldbody")
        self._site_places()
        self._contents(world, robot.links[WORLD])
        stack = [(world, WORLD)]
        while stack:
            parent, name = stack.pop()
            for joint in self.children.get(name, []):
                stack.append(self._body(parent, joint))
        root.children.append(world)
        for (path, scale), label in self.meshes.items():
            asset.add("mesh", name=label, file=path, scale=spaced(scale), inertia="shell")  # may be open
        self._tendons(root)
        self._equalities(root)
        self._actuators(root)
        return root.document()

    def _body(self, parent: Tag, joint: RobotJoint) -> tuple[Tag, str]:
        """The body at the end of a chain of joints through massless frames; each joint is written in the frame of that body."""
        chain = [joint]
        while self._passes_on(chain):
            chain.append(self.children[chain[-1].child][0])
        rests = [j.at if j.after is None else j.at @ j.after for j in chain]
        made = parent.add("body", name=chain[-1].child)
        if self.robot.links[chain[-1].child].gravity_compensation:
            made.attributes["gravcomp"] = spaced(self.robot.links[chain[-1].child].gravity_compensation)
        self._place(made, _product(rests))
        for k, one in enumerate(chain):
            after = np.eye(4) if one.after is None else one.after
            self._joint(made, one, after @ _product(rests[k + 1 :]))
        moves = any(one.kind != JointKind.FIXED for one in chain)
        self._contents(made, self.robot.links[chain[-1].child], moves)
        return made, chain[-1].child

    def _passes_on(self, chain: list[RobotJoint]) -> bool:
        """Whether the next joint of a chain is written in the same body: through a plain massless frame, as far as MuJoCo allows."""
        link, below = self.robot.links[chain[-1].child], self.children.get(chain[-1].child, [])
        plain = not link.mass and not link.visuals and link.name not in self.anchored
        whole = (JointKind.FIXED, JointKind.FLOATING)
        if not plain or chain[-1].kind in whole or len(below) != 1 or below[0].kind == JointKind.FLOATING:
            return False
        sizes = {JointKind.FIXED: 0, JointKind.SPHERICAL: 3, JointKind.PLANAR: 3}
        turns = below[0].kind not in (JointKind.FIXED, JointKind.PRISMATIC)
        if turns and any(joint.kind == JointKind.SPHERICAL for joint in chain):
            return False
        return sum(sizes.get(joint.kind, 1) for joint in (*chain, below[0])) <= MOST_FREEDOMS

    def _joint(self, body: Tag, joint: RobotJoint, to_body: np.ndarray) -> None:
        """``to_body`` (4, 4) is the body frame in the frame of the joint, at rest."""
        if joint.kind == JointKind.FIXED:
            return
        R, place = to_body[:3, :3].T, se3.position(se3.inverse(to_body))
        report = self.robot.report
        if joint.kind == JointKind.PLANAR:
            kinds = {"x": "slide", "y": "slide", "angle": "hinge"}
            for (suffix, kind), axis in zip(kinds.items(), planar_axes(joint.axis).T, strict=True):
                body.add("joint", name=f"{joint.name}.{suffix}", type=kind, axis=spaced(R @ axis), pos=spaced(place))
            report.changed("joint", joint.name, joint.where, "two slides and a hinge")
            return
        if joint.kind == JointKind.FLOATING and joint.parent != WORLD:  # MuJoCo allows free joints only in the world
            for suffix, axis in zip("xyz", R.T, strict=True):
                body.add("joint", name=f"{joint.name}.{suffix}", type="slide", axis=spaced(axis), pos=spaced(place))
            body.add("joint", name=f"{joint.name}.ball", type="ball", pos=spaced(place))
            report.changed("joint", joint.name, joint.where, "three slides and a ball")
            return
        made = body.add("joint", name=joint.name, type=TYPES[joint.kind])
        if joint.kind == JointKind.FLOATING:
            return
        made.attributes["pos"] = spaced(place)
        if joint.kind != JointKind.SPHERICAL:
            made.attributes["axis"] = spaced(R @ joint.axis)
            if joint.limits.lower is not None and joint.limits.upper is not None:
                made.attributes["range"] = spaced([joint.limits.lower, joint.limits.upper])
            elif joint.limits.lower is not None or joint.limits.upper is not None:
                report.lost("limit", joint.name, joint.where, "ranges of MJCF have two ends")
            if joint.limits.effort is not None:
                made.attributes["actuatorfrcrange"] = spaced([-joint.limits.effort, joint.limits.effort])
            if joint.limits.velocity is not None:
                report.changed("joint", joint.name, joint.where, "without its largest speed, which is not in MJCF")
        named = {
            "stiffness": joint.stiffness,
            "springref": joint.rest,
            "damping": joint.damping,
            "armature": joint.armature,
        }
        named["frictionloss"] = joint.friction
        made.attributes |= {key: spaced(value) for key, value in named.items() if value}

    def _place(self, tag: Tag, pose: np.ndarray) -> None:
        if not np.array_equal(pose, np.eye(4)):
            tag.attributes["pos"] = spaced(pose[:3, 3])
            tag.attributes["quat"] = spaced(quaternion.quaternion_from_rotation(pose[:3, :3]))

    def _contents(self, body: Tag, link: RobotLink, moves: bool = False) -> None:
        if link.name != WORLD:
            self._inertial(body, link, moves)
        for visual in link.visuals:
            geom = self._geom(visual.shape)
            if geom is None and not isinstance(visual.shape, Mesh | Triangles):
                self.robot.report.lost("shape", link.name, link.where, f"MJCF has no {type(visual.shape).__name__}")
            if geom is None:
                continue
            self._place(geom, visual.at)
            geom.attributes |= {"contype": "0", "conaffinity": "0", "mass": "0"}
            if visual.color is not None:
                geom.attributes["rgba"] = spaced(visual.color)
            body.children.append(geom)
        for name, pose in self.sites.get(link.name, []):
            self._place(body.add("site", name=name), pose)

    def _inertial(self, body: Tag, link: RobotLink, moves: bool) -> None:
        """Mass and moments; those of a moving body are at least LEAST, unless a body that is fixed to it has them."""
        mass, J, note = link.mass or 0.0, link.moment, ""
        principal, axes = np.linalg.eigh(J)
        if not (mass or np.any(J)) and (not moves or self._carries_weight(link.name)):
            return
        if principal[0] + principal[1] < principal[2] * (1 - 1e-9):
            reason = "MuJoCo rejects a file with impossible moments, unless its compiler has balanceinertia"
            self.robot.report.changed("inertia", link.name, link.where, reason)
        elif moves and (mass < LEAST or principal[0] < LEAST) and not self._carries_weight(link.name):
            note = f"a mass and moments of at least {LEAST:g}: MuJoCo rejects moving bodies without"
            self.robot.report.changed("inertia", link.name, link.where, note)
        made = body.add("inertial", pos=spaced(link.com), mass=spaced(max(mass, LEAST) if note else mass))
        if np.array_equal(J, np.diag(np.diag(J))):
            made.attributes["diaginertia"] = spaced(np.maximum(np.diag(J), LEAST) if note else np.diag(J))
        elif principal[0] < 1e-12 * principal[2]:  # MuJoCo rejects a singular fullinertia
            axes = axes * np.linalg.det(axes)
            made.attributes["quat"] = spaced(quaternion.quaternion_from_rotation(axes))
            made.attributes["diaginertia"] = spaced(np.maximum(principal, LEAST if note else 0.0))
        else:
            made.attributes["fullinertia"] = spaced([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])

    def _carries_weight(self, name: str) -> bool:
        """Whether a body, or one that is fixed to it, has the mass and moments that MuJoCo requires."""
        link = self.robot.links[name]
        if (link.mass or 0.0) >= LEAST and np.linalg.eigvalsh(link.moment)[0] >= LEAST:
            return True
        fixed = (joint for joint in self.children.get(name, []) if joint.kind == JointKind.FIXED)
        return any(self._carries_weight(joint.child) for joint in fixed)

    def _geom(self, shape: object) -> Tag | None:
        if isinstance(shape, Box):
            return Tag("geom", type="box", size=spaced(np.array(shape.size) / 2))
        if isinstance(shape, Sphere):
            return Tag("geom", type="sphere", size=spaced(shape.radius))
        if isinstance(shape, Ellipsoid):
            return Tag("geom", type="ellipsoid", size=spaced(shape.radii))
        if isinstance(shape, Cylinder | Capsule):
            kind = "cylinder" if isinstance(shape, Cylinder) else "capsule"
            return Tag("geom", type=kind, size=spaced([shape.radius, shape.length / 2]))
        if isinstance(shape, Mesh | Triangles):
            path = self.files.name(shape, self.robot.report, self.robot.file)
            if path is None:
                return None
            key = (path, shape.scale if isinstance(shape, Mesh) else (1.0, 1.0, 1.0))
            label = self.meshes.setdefault(key, f"mesh{len(self.meshes) + 1}")
            return Tag("geom", type="mesh", mesh=label)
        return None

    # --- connections of bodies ----------------------------------------------------------------------------------------------

    def _site_places(self) -> None:
        for frame in self.robot.frames:
            self.sites.setdefault(frame.link, []).append((frame.name, frame.at))
        for element in (*self.robot.tendons, *self.robot.actuators):
            for k, (link, point) in enumerate(element.path):
                pose = se3.pose(np.eye(3), np.asarray(point, dtype=float))
                self.sites.setdefault(link, []).append((f"{element.name}.{k}", pose))
        for actuator in self.robot.actuators:
            if actuator.frame is not None:
                self.sites.setdefault(actuator.frame, []).append((f"{actuator.name}.site", np.eye(4)))
        for loop in self.robot.closures:
            self.sites.setdefault(loop.a, []).append((f"{loop.name}.a", loop.at_a))
            self.sites.setdefault(loop.b, []).append((f"{loop.name}.b", loop.at_b))

    def _tendons(self, root: Tag) -> None:
        shared = [actuator for actuator in self.robot.actuators if len(actuator.terms) > 1]
        paths = [actuator for actuator in self.robot.actuators if actuator.path]
        if paths:
            section = root.add("tendon")
            for actuator in paths:
                made = section.add("spatial", name=f"{actuator.name}.tendon")
                for k in range(len(actuator.path)):
                    made.add("site", site=f"{actuator.name}.{k}")
        if not (self.robot.tendons or shared):
            return
        section = root.add("tendon")
        for tendon in self.robot.tendons:
            kind = "spatial" if tendon.path else "fixed"
            made = section.add(
                kind, name=tendon.name, stiffness=spaced(tendon.stiffness), damping=spaced(tendon.damping)
            )
            low, high = tendon.rest
            if low == high == -1.0:  # means "relaxed" in MJCF
                high = float(np.nextafter(high, 0.0))
            made.attributes["springlength"] = spaced([low, high])
            for k in range(len(tendon.path)):
                made.add("site", site=f"{tendon.name}.{k}")
            for joint, coefficient in tendon.terms:
                made.add("joint", joint=joint, coef=spaced(coefficient))
        for actuator in shared:
            made = section.add("fixed", name=f"{actuator.name}.tendon")
            for joint, _, gear in actuator.terms:
                made.add("joint", joint=joint, coef=spaced(gear))

    def _equalities(self, root: Tag) -> None:
        mimics = [joint for joint in self.robot.joints.values() if joint.mimic is not None]
        if not (self.robot.closures or self.robot.relations or mimics):
            return
        section = root.add("equality")
        for loop in self.robot.closures:
            section.add(loop.kind, name=loop.name, site1=f"{loop.name}.a", site2=f"{loop.name}.b")
            self.robot.report.changed("loop", loop.name, loop.where, "a soft constraint")
        for relation in self.robot.relations:
            powers = spaced([*relation.coefficients, 0, 0, 0, 0, 0][:5])
            made = section.add("joint", name=relation.name, joint1=relation.follower, polycoef=powers)
            if relation.source is not None:
                made.attributes["joint2"] = relation.source
            self.robot.report.changed("constraint", relation.name, relation.where, "a soft constraint")
        for joint in mimics:
            m = joint.mimic
            if m is not None:
                section.add("joint", joint1=joint.name, joint2=m.source, polycoef=spaced([m.offset, m.ratio, 0, 0, 0]))
                self.robot.report.changed("joint", joint.name, joint.where, "follows another one by a soft constraint")

    def _actuators(self, root: Tag) -> None:
        if not self.robot.actuators:
            return
        section = root.add("actuator")
        for actuator in self.robot.actuators:
            if actuator.frame is not None:
                site, gear = f"{actuator.name}.site", spaced(actuator.wrench)
                section.add("motor", name=actuator.name, site=site, gear=gear)
                continue
            if actuator.path:
                tendon, gear = f"{actuator.name}.tendon", spaced(actuator.gear)
                section.add("motor", name=actuator.name, tendon=tendon, gear=gear)
                continue
            if len(actuator.terms) > 1:
                section.add("motor", name=actuator.name, tendon=f"{actuator.name}.tendon")
                continue
            for joint, index, gear in actuator.terms:
                kind = self.robot.joints[joint].kind
                if kind in (JointKind.FLOATING, JointKind.PLANAR):
                    self.robot.report.lost("input", actuator.name, actuator.where, f"it acts in a {kind} joint")
                    continue
                values = [0.0] * index + [gear] if kind == JointKind.SPHERICAL else [gear]
                section.add("motor", name=actuator.name, joint=joint, gear=spaced(values))


def _product(poses: list[np.ndarray]) -> np.ndarray:
    result = np.eye(4)
    for pose in poses:
        result = result @ pose
    return result


def mjcf_text(robot: Robot, files: MeshFiles) -> str:
    """The file as text; losses are added to the report of the robot."""
    return MjcfWriter(robot, files).text()
