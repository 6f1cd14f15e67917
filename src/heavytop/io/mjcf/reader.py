"""Reading MJCF into the neutral description."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from heavytop.geometry import quaternion, se3, so3
from heavytop.io.asset_paths import AssetPaths
from heavytop.io.import_report import TransferReport
from heavytop.io.mjcf.actuators import limit_joint_forces, read_actuators
from heavytop.io.mjcf.attach import append
from heavytop.io.mjcf.bodies import BodyReader, scale_to_total_mass
from heavytop.io.mjcf.contacts import read_contacts
from heavytop.io.mjcf.document import CompilerSettings, Defaults, expand_includes, expand_replicas, name_of
from heavytop.io.mjcf.geoms import Assets
from heavytop.io.mjcf.keyframes import read_keyframes
from heavytop.io.mjcf.sensors import read_sensors
from heavytop.io.mjcf.vocabulary import SECTIONS, report_unread
from heavytop.io.robot import Closure, JointKind, JointRelation, LengthRelation, Mimic, Robot, Tendon, resolve_mimics
from heavytop.io.xml_elements import Element, read_xml
from heavytop.system import WORLD

MOST_ATTACHED = 20
"""Models attached to models that are attached."""
NOT_READ = {
    "deformable": "flexible bodies are not read",
    "extension": "plugins are not read",
    "custom": "user data",
    "visual": "visual only",
    "statistic": "visual only",
    "size": "memory settings",
}


def robot_of(root: Element, paths: AssetPaths) -> Robot:
    """The robot of a parsed MJCF file."""
    expand_includes(root, paths)
    settings = CompilerSettings.of(root)
    bodies = _read_model(root, paths, settings, 0)
    robot = bodies.robot
    if len(robot.links) < 2:
        raise root.error("it has no <body>.")
    for note in settings.notes:
        robot.report.lost(*note)
    if settings.total_mass is not None:
        scale_to_total_mass(robot, settings.total_mass)
    _couple_joints(robot)
    limit_joint_forces(robot, bodies.forces)
    _damp_by_inertia(robot, bodies.springdampers)
    _switch_off(robot, settings.disabled)
    return robot


def _read_model(root: Element, paths: AssetPaths, settings: CompilerSettings, depth: int) -> BodyReader:
    """Read a model, or one that is attached to another at a ``depth`` above zero; settings that concern the whole are not applied yet."""
    report = TransferReport()
    report_unread(root, report)
    defaults = Defaults(root)
    robot = Robot(root.get("model") or paths.file.stem, str(paths.file), report, settings.gravity)

    def read_attached(e: Element) -> BodyReader:
        found, reason = paths.find(e.string("file"), Path(e.file).parent)
        if found is None:
            raise e.error(f"cannot attach {e.string('file')!r}: {reason}.")
        if depth >= MOST_ATTACHED:
            raise e.error(f"models are attached to each other more than {MOST_ATTACHED} times.")
        inner, around = read_xml(found), AssetPaths(found, paths.packages, paths.root)
        expand_includes(inner, around)
        # options are those of the whole model
        own = CompilerSettings.of(inner, settings)
        return _read_model(inner, around, own, depth + 1)

    assets = Assets(paths, settings, defaults, report, read_attached)
    for element in root.all("asset"):
        assets.read(element)
    bodies = BodyReader(robot, settings, defaults, assets)
    for element in root.all("worldbody"):
        expand_replicas(element, settings)
        bodies.read_world(element)
    _report_geoms(root, robot)
    for element in root.all("contact"):
        if depth:
            report.lost("contact", "", element.where, "contacts of attached models are not read")
        else:
            read_contacts(element, robot, defaults)
    for element in root.all("tendon"):
        _read_tendons(element, robot, defaults, bodies.zeros)
    for part in bodies.attached:
        append(robot, part, "tendons")
    for element in root.all("equality"):
        _read_equalities(element, robot, defaults, settings)
    for element in root.all("actuator"):
        read_actuators(element, robot, defaults, settings, bodies.zeros)
    for part in bodies.attached:
        append(robot, part, "closures", "relations", "length_relations", "actuators", "commands", "servos")
    for element in root.all("sensor"):
        read_sensors(element, robot)
    for element in root.all("keyframe"):
        read_keyframes(element, robot)
    for part in bodies.attached:
        append(robot, part, "sensors", "keyframes")
    for element in root.children:
        if element.tag not in SECTIONS:
            report.lost(element.tag, element.get("name") or "", element.where, NOT_READ.get(element.tag, "not read"))
    return bodies


def _switch_off(robot: Robot, disabled: set[str]) -> None:
    """Remove springs, dampers, dry friction and limits that a flag of the file switches off."""
    if "limit" in disabled:
        for joint in robot.joints.values():
            joint.limits = replace(joint.limits, lower=None, upper=None)
    for flag, name in (("spring", "stiffness"), ("damper", "damping"), ("frictionloss", "friction")):
        if flag in disabled:
            for joint in robot.joints.values():
                setattr(joint, name, 0.0)
        if flag in disabled and name != "friction":
            robot.tendons[:] = [replace(tendon, **{name: 0.0}) for tendon in robot.tendons]


def _report_geoms(root: Element, robot: Robot) -> None:
    """Report the lost contacts of geoms in one entry."""
    geoms = [e for world in root.all("worldbody") for e in world.walk() if e.tag == "geom"]
    if geoms:
        robot.report.lost("contact geometry", f"{len(geoms)} geoms", geoms[0].where, "there are no contacts")


# --- tendons ------------------------------------------------------------------------------------------------------------------


def _read_tendons(section: Element, robot: Robot, defaults: Defaults, zeros: dict[str, float]) -> None:
    for element in section.children:
        e = defaults.apply(replace(element, tag="tendon"), None)
        name = name_of(e) or f"tendon{len(robot.tendons) + 1}"
        if element.tag == "fixed":
            terms = tuple((j.string("joint"), j.number("coef", 1.0)) for j in element.all("joint"))
            for joint, _ in terms:
                _check_exists(e, "joint", joint, robot.joints)
            # lengths are sums of the file's coordinates; those of the system are shifted by ref
            shift = sum(c * zeros.get(joint, 0.0) for joint, c in terms)
            length = sum(c * robot.joints[joint].rest for joint, c in terms)
            tendon = _tendon(e, name, length, shift, terms=terms)
        elif element.tag == "spatial":
            if any(child.tag != "site" for child in element.children):
                robot.report.lost("tendon", name, e.where, "it wraps around geoms or pulleys")
                continue
            path = _path(element, robot)
            poses = _link_poses(robot, {joint.name: joint.rest for joint in robot.joints.values()})
            points = [se3.transform(poses[link], point) for link, point in path]
            length = float(sum(np.linalg.norm(b - a) for a, b in pairwise(points)))
            tendon = _tendon(e, name, length, 0.0, path=path)
        else:
            robot.report.lost("tendon", name, e.where, f"tendons of the kind {element.tag!r} are not read")
            continue
        robot.tendons.append(tendon)
        for attribute in ("stiffness", "damping"):
            if np.any(e.numbers(attribute, None, (0.0,))[1:]):
                robot.report.lost(attribute, name, e.where, "only the linear coefficient is used")
        robot.report.represented("tendon", name, e.where)
        for attribute, note in (
            ("frictionloss", "friction of tendons is not read"),
            ("armature", "inertia of tendons is not read"),
        ):
            if e.number(attribute, 0.0):
                robot.report.lost(attribute, name, e.where, note)
        if e.get("range") is not None and e.get("limited", "auto") != "false":
            robot.report.lost("range", name, e.where, "limits of tendons are not read")


def _tendon(e: Element, name: str, rest_length: float, shift: float, **kind) -> Tendon:
    """A tendon; the spring length -1 denotes the length where the springs of the joints are relaxed."""
    given = e.numbers("springlength", None, (-1.0,))
    if len(given) not in (1, 2):
        raise e.error(f"springlength must hold one or two numbers, got {len(given)}.")
    low, high = given[0], given[-1]
    if low == high == -1.0:
        low = high = rest_length + shift
    stiffness, damping = float(e.numbers("stiffness", None, (0.0,))[0]), float(e.numbers("damping", None, (0.0,))[0])
    if stiffness < 0 or damping < 0 or low > high:
        raise e.error(
            f"stiffness and damping of tendon {name!r} must not be negative, and its spring lengths must increase."
        )
    return Tendon(name, e.where, stiffness, damping, (float(low) - shift, float(high) - shift), **kind)


def _path(element: Element, robot: Robot) -> tuple[tuple[str, np.ndarray], ...]:
    sites = {frame.name: frame for frame in robot.frames}
    path = []
    for child in element.all("site"):
        name = child.string("site")
        _check_exists(child, "site", name, sites)
        path.append((sites[name].link, se3.position(sites[name].at)))
    if len(path) < 2:
        raise element.error("a spatial tendon needs two sites.")
    return tuple(path)


def _link_poses(robot: Robot, q: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Pose (4, 4) of each link in the world; one-axis joints at ``q`` (default 0), all others at rest."""
    carrier = {joint.child: joint for joint in robot.joints.values()}
    poses: dict[str, np.ndarray] = {WORLD: np.eye(4)}
    for name in robot.links:
        chain = []
        while name not in poses and name in carrier:
            chain.append(carrier[name])
            name = carrier[name].parent
        poses.setdefault(name, np.eye(4))
        for joint in reversed(chain):
            x, moved = q.get(joint.name, 0.0), np.eye(4)
            axis = joint.axis / np.linalg.norm(joint.axis)
            if joint.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS):
                moved = se3.pose(so3.exp(x * axis), np.zeros(3))
            elif joint.kind == JointKind.PRISMATIC:
                moved = se3.pose(np.eye(3), x * axis)
            pose = poses[joint.parent] @ joint.at @ moved
            poses[joint.child] = pose if joint.after is None else pose @ joint.after
    return poses


def _rest_mass_matrix(robot: Robot) -> tuple[dict[str, int], np.ndarray]:
    """Mass matrix where all coordinates are zero, rotor inertia included, and the first row of each joint.

    Rates of free joints are those of world axes, of ball joints those of the axes of the joint; bodies add m Jv^T Jv + Jw^T J Jw.
    """
    poses, rows, n = _link_poses(robot, {}), {}, 0
    axes: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, joint in robot.joints.items():
        frame = poses[joint.parent] @ joint.at
        R, z = se3.rotation(frame), np.zeros((3, 3))
        one = (R @ joint.axis / np.linalg.norm(joint.axis))[:, None]
        slides, turns = {
            JointKind.FIXED: (z[:, :0], z[:, :0]),
            JointKind.PRISMATIC: (one, z[:, :1]),
            JointKind.SPHERICAL: (z, R),
            JointKind.FLOATING: (np.hstack([np.eye(3), z]), np.hstack([z, R])),
        }.get(joint.kind, (z[:, :1], one))
        # velocity of the world's origin and angular velocity per rate
        axes[name] = (slides + np.cross(se3.position(frame), turns, axisb=0, axisc=0), turns)
        rows[name], n = n, n + turns.shape[1]
    M, carrier = np.zeros((n, n)), {joint.child: joint for joint in robot.joints.values()}
    for name, joint in robot.joints.items():
        k = rows[name] + np.arange(axes[name][1].shape[1])
        M[k, k] += joint.armature
    for name, link in robot.links.items():
        v, w, below = np.zeros((3, n)), np.zeros((3, n)), name
        while below in carrier and link.mass:
            joint = carrier[below]
            k = slice(rows[joint.name], rows[joint.name] + axes[joint.name][1].shape[1])
            v[:, k], w[:, k] = axes[joint.name]
            below = joint.parent
        v = v - np.cross(se3.transform(poses[name], link.com), w, axisb=0, axisc=0)
        J = se3.rotation(poses[name]) @ link.moment @ se3.rotation(poses[name]).T
        M += (link.mass or 0.0) * v.T @ v + w.T @ J @ w
    return rows, M


def _damp_by_inertia(robot: Robot, springdampers: Mapping[str, tuple[float, float]]) -> None:
    """Damping ratios of servos and time constants of springs, with the inertia at rest: d = 2 zeta sqrt(k m), m = 1/(c M^-1 c^T)."""
    if not springdampers and not any(servo.ratio for servo in robot.servos):
        return
    rows, M = _rest_mass_matrix(robot)

    def mass(*terms: tuple[str, float]) -> float:
        c = np.zeros(len(M))
        for joint, factor in terms:
            c[rows[joint]] += factor
        return float(1 / (c @ np.linalg.lstsq(M, c, rcond=None)[0]))

    for name, (time, ratio) in springdampers.items():
        joint, m = robot.joints[name], mass((name, 1.0))
        joint.stiffness, joint.damping = m / (time * ratio) ** 2, 2 * m / time
    for k, servo in enumerate(robot.servos):
        if servo.ratio:
            damping = 2 * servo.ratio * np.sqrt(servo.stiffness * mass(*servo.terms))
            robot.servos[k] = replace(servo, damping=servo.damping + float(damping), ratio=0.0)


def _check_exists(e: Element, what: str, name: str, known: Container[str]) -> None:
    if name not in known:
        raise e.error(f"names the {what} {name!r}, which does not exist.")


# --- equality constraints -----------------------------------------------------------------------------------------------------


def _read_equalities(section: Element, robot: Robot, defaults: Defaults, settings: CompilerSettings) -> None:
    poses = _link_poses(robot, {})
    for k, element in enumerate(section.children):
        e = defaults.apply(replace(element, tag="equality"), None)
        name = name_of(e) or f"{element.tag}{k + 1}"
        if e.get("active", "true") == "false" or "equality" in settings.disabled:
            robot.report.lost("equality", name, e.where, "it is not active")
        elif element.tag in ("connect", "weld"):
            robot.closures.append(_closure(e, element.tag, name, robot, poses))
            robot.report.changed("equality", name, e.where, "an exact loop instead of a soft constraint")
        elif element.tag == "joint":
            robot.relations.append(_relation(e, name, robot))
        elif element.tag == "tendon" and (made := _length_relation(e, name, robot)) is not None:
            robot.length_relations.append(made)
            robot.report.changed("equality", name, e.where, "an exact constraint instead of a soft one")
        else:
            robot.report.lost("equality", name, e.where, f"constraints of this {element.tag} are not read")


def _closure(e: Element, kind: str, name: str, robot: Robot, poses: dict[str, np.ndarray]) -> Closure:
    if e.get("site1") is not None:
        frames, names = {frame.name: frame for frame in robot.frames}, (e.string("site1"), e.string("site2"))
        for site in names:
            _check_exists(e, "site", site, frames)
        first, second = (frames[site] for site in names)
        return Closure(name, kind, first.link, second.link, first.at, second.at, e.where)
    a, b = e.string("body1"), e.get("body2") or WORLD
    for body in (a, b):
        _check_exists(e, "body", body, robot.links)
    if kind == "connect":
        anchor = se3.pose(np.eye(3), e.numbers("anchor", 3))
        return Closure(name, kind, a, b, anchor, se3.inverse(poses[b]) @ poses[a] @ anchor, e.where)
    # the point and axes at_a of body 1 are those at the anchor of body 2
    at_b = se3.pose(np.eye(3), e.numbers("anchor", 3, (0, 0, 0)))
    at_a = se3.inverse(poses[a]) @ poses[b] @ at_b
    given = e.numbers("relpose", 7, (0, 1, 0, 0, 0, 0, 0))
    if np.any(given[3:]):
        at_a = se3.pose(quaternion.rotation_from_quaternion(quaternion.normalize(given[3:])), given[:3])
    return Closure(name, "weld" if e.number("torquescale", 1.0) else "connect", a, b, at_a, at_b, e.where)


def _relation(e: Element, name: str, robot: Robot) -> JointRelation:
    """q1 - q1_ref = polynomial(q2 - q2_ref): the coordinates of the system are zero at the reference."""
    follower, source = e.string("joint1"), e.get("joint2")
    for joint in (follower, source or follower):
        _check_exists(e, "joint", joint, robot.joints)
    coefficients = e.numbers("polycoef", None, (0.0, 1.0, 0.0, 0.0, 0.0)).tolist()
    return JointRelation(name, follower, source, tuple(coefficients), e.where)


def _length_relation(e: Element, name: str, robot: Robot) -> LengthRelation | None:
    """L1 - L1_ref = polynomial(L2 - L2_ref) of tendons over joints, whose coordinates are zero at the reference; None for other tendons."""
    found = []
    for which in ("tendon1", "tendon2"):
        given = e.string("tendon1") if which == "tendon1" else e.get(which)
        tendon = next((t for t in robot.tendons if t.name == given), None)
        if given is not None and (tendon is None or not tendon.terms):
            return None
        found.append(() if tendon is None else tendon.terms)
    coefficients = e.numbers("polycoef", None, (0.0, 1.0, 0.0, 0.0, 0.0)).tolist()
    return LengthRelation(name, found[0], found[1], tuple(coefficients), e.where)


def _couple_joints(robot: Robot) -> None:
    """Turn linear relations between two joints of one axis into joints that follow others, which need no constraint equations.

    A joint follows one other joint at most and takes part in no other relation; all further relations remain constraints.
    """
    one_axis = {n for n, joint in robot.joints.items() if joint.kind in (JointKind.REVOLUTE, JointKind.PRISMATIC)}
    linear = [
        r
        for r in robot.relations
        if {r.follower, r.source} <= one_axis and r.follower != r.source and not any(r.coefficients[2:])
    ]
    while True:
        sources: dict[str, JointRelation] = {}
        for relation in linear:
            end: str | None = relation.source
            while end in sources:
                end = sources[end].source
            if relation.follower not in sources and end != relation.follower:
                sources[relation.follower] = relation
        kept = list(sources.values())
        bound = {name for r in robot.relations if r not in kept for name in (r.follower, r.source)}
        remaining = [r for r in kept if r.follower not in bound]
        if len(remaining) == len(linear):
            break
        linear = remaining
    for relation in linear:
        offset, ratio = (*relation.coefficients, 0.0, 0.0)[:2]
        robot.joints[relation.follower].mimic = Mimic(str(relation.source), ratio, offset)
        robot.relations.remove(relation)
        robot.report.changed(
            "equality", relation.name, relation.where, "an exact coupling instead of a soft constraint"
        )
    for relation in robot.relations:
        robot.report.changed("equality", relation.name, relation.where, "an exact constraint instead of a soft one")
    resolve_mimics(robot)
