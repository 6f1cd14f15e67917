"""Sensors of MJCF; those of contacts, cameras, reactions and plugins are reported as lost."""

from __future__ import annotations

from heavytop.io.mjcf.document import name_of
from heavytop.io.robot import JointKind, Robot, RobotSensor
from heavytop.io.xml_elements import Element

AT_SITES = ("accelerometer", "velocimeter", "gyro")
OF_FRAMES = ("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis")
OF_FRAMES += ("framelinvel", "frameangvel", "framelinacc", "frameangacc")
OF_SUBTREES = ("subtreecom", "subtreelinvel", "subtreeangmom")
ENERGIES = ("e_potential", "e_kinetic")


def read_sensors(section: Element, robot: Robot) -> None:
    """Add the sensors of a section that are functions of the state; report the others."""
    taken = {sensor.name for sensor in robot.sensors}
    for e in section.children:
        name = name_of(e) or f"{e.tag}{len(robot.sensors) + 1}"
        made = _sensor(e, name, robot)
        if made is None or name in taken:
            robot.report.lost("sensor", name, e.where, f"a sensor of the kind {e.tag!r} is not read")
            continue
        taken.add(name)
        robot.sensors.append(made)
        robot.report.represented("sensor", name, e.where)
        for attribute, note in (("delay", "it measures without delay"), ("interval", "it is not sampled")):
            if e.number(attribute, 0.0):
                robot.report.lost(attribute, name, e.where, note)


def _sensor(e: Element, name: str, robot: Robot) -> RobotSensor | None:
    made = RobotSensor(name, e.tag, e.where, cutoff=e.number("cutoff", 0.0))
    sites = {frame.name for frame in robot.frames}

    def known(label: str, names: object, what: str) -> str:
        if label not in names:  # pyright: ignore[reportOperatorIssue]
            raise e.error(f"names the {what} {label!r}, which does not exist.")
        return label

    def with_changes(**changes: object) -> RobotSensor:
        return RobotSensor(**{**vars(made), **changes})  # pyright: ignore[reportArgumentType]

    if e.tag in AT_SITES:
        return with_changes(target=known(e.string("site"), sites, "site"))
    if e.tag in OF_FRAMES:
        kinds, names = (e.get("objtype"), e.get("reftype")), (e.get("objname"), e.get("refname"))
        found = []
        for kind, label in zip(kinds, names, strict=True):
            if label is not None and kind not in ("site", "body", "xbody"):
                return None
            if label is not None:
                known(label, sites if kind == "site" else robot.links, "site" if kind == "site" else "body")
            found.append(label)
        if kinds[0] == "body" or (names[1] is not None and kinds[1] == "body"):
            if e.tag not in ("framepos", "framelinvel", "frameangvel", "framelinacc", "frameangacc"):
                return None  # axes of the principal moments
            if names[1] is not None and kinds[1] == "body":
                return None
        return with_changes(target=found[0], reference=found[1], at_center=kinds[0] == "body")
    if e.tag in OF_SUBTREES:
        return with_changes(target=known(e.string("body"), robot.links, "body"))
    if e.tag in ENERGIES:
        return made
    if e.tag in ("ballquat", "ballangvel"):
        return with_changes(target=known(e.string("joint"), robot.joints, "joint"))
    if e.tag in ("jointpos", "jointvel", "jointactuatorfrc"):
        joint = known(e.string("joint"), robot.joints, "joint")
        if robot.joints[joint].kind in (JointKind.FLOATING, JointKind.SPHERICAL):
            raise e.error(f"joint {joint!r} has not one axis.")
        if e.tag != "jointactuatorfrc":
            return with_changes(target=joint, terms=((joint, 1.0),))
        acting = [a for a in robot.actuators if any(term[0] == joint for term in a.terms)]
        if any(joint not in dict(a.length) for a in acting):
            return None
        return with_changes(target=joint, shares={a.name: dict(a.length)[joint] for a in acting})
    if e.tag in ("tendonpos", "tendonvel", "tendonactuatorfrc"):
        tendon = next((t for t in robot.tendons if t.name == e.string("tendon")), None)
        if tendon is None or not tendon.terms or e.tag == "tendonactuatorfrc":
            return None
        return with_changes(target=tendon.name, terms=tendon.terms)
    if e.tag in ("actuatorpos", "actuatorvel", "actuatorfrc"):
        actuator = next((a for a in robot.actuators if a.name == e.string("actuator")), None)
        if actuator is None or not actuator.length or not actuator.ratio:
            return None
        if e.tag == "actuatorfrc":
            return with_changes(target=actuator.name, shares={actuator.name: 1.0 / actuator.ratio})
        return with_changes(target=actuator.name, terms=tuple((j, actuator.ratio * c) for j, c in actuator.length))
    return None
