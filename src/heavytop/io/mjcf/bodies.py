"""The tree of bodies of MJCF: nested bodies, several joints per body, frames, sites."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.io.mjcf.document import CompilerSettings, Defaults
from heavytop.io.mjcf.geoms import Assets, Geom, read_geom
from heavytop.io.robot import (
    FIXED,
    FLOATING,
    MOST_LINKS,
    PRISMATIC,
    REVOLUTE,
    SPHERICAL,
    NamedFrame,
    Robot,
    RobotJoint,
    RobotLink,
)
from heavytop.io.xml_source import Element
from heavytop.system import JointLimits
from heavytop.system.description.moments import Inertia
from heavytop.system.description.names import WORLD

KINDS = {"hinge": REVOLUTE, "slide": PRISMATIC, "ball": SPHERICAL, "free": FLOATING}
MOST_GEOMS = 20_000
NOT_READ = {
    "camera": "looks only",
    "light": "looks only",
    "composite": "bodies made by a macro are not read",
    "flexcomp": "flexible bodies are not read",
    "attach": "attached models are not read",
    "plugin": "plugins are not read",
}


class BodyReader:
    """Reads <worldbody> into links, joints and frames, in MuJoCo's order."""

    def __init__(self, robot: Robot, settings: CompilerSettings, defaults: Defaults, assets: Assets) -> None:
        self.robot, self.settings, self.defaults, self.assets = robot, settings, defaults, assets
        self.zeros: dict[str, float] = {}
        """Joint -> the coordinate of the file at which ours is zero (ref)."""
        self.count = self.geoms = 0
        self.sites: set[str] = set()
        self.given: dict[str, set[str]] = {"body": set(), "joint": set()}
        """Names that the file gives; those that we make are unlike them."""

    def read_world(self, world: Element) -> None:
        """Everything below <worldbody>."""
        for e in world.walk():
            if e.tag in ("body", "joint", "freejoint"):
                self.given["joint" if e.tag == "freejoint" else e.tag].add((e.get("name") or "").strip())
        link = self.robot.links.setdefault(WORLD, RobotLink(WORLD, world.where))
        self._contents(world, link, np.eye(4), world.get("childclass"), [], [], [])

    def _body(self, e: Element, parent: str, at: np.ndarray, childclass: str | None) -> None:
        self.count += 1
        name = (e.get("name") or "").strip() or self._new_name("body", f"body{self.count}", self.robot.links)
        if name in self.robot.links:
            raise e.error(f"the name {name!r} is taken by the body in {self.robot.links[name].where}.")
        childclass = e.get("childclass") or childclass
        link = RobotLink(name, e.where)
        if len(self.robot.links) >= MOST_LINKS:
            raise e.error(f"the file has more than {MOST_LINKS} bodies; at most {MOST_LINKS} are read.")
        self.robot.links[name] = link
        joints: list[tuple[Element, np.ndarray]] = []
        bodies: list[tuple[Element, np.ndarray, str | None]] = []
        inertials: list[tuple[Element, np.ndarray]] = []
        geoms = self._contents(e, link, np.eye(4), childclass, joints, bodies, inertials)
        self._joints(joints, e, parent, link, at @ self.settings.pose(e))
        self._inertia(e, link, geoms, inertials)
        self.robot.report.represented("body", name, e.where)
        if e.get("mocap", "false") == "true":
            self.robot.report.changed("body", name, e.where, "a mocap body stands still here")
        link.gravity_compensation = e.number("gravcomp", 0.0)
        for child, frame, inner in bodies:
            self._body(child, name, frame, inner)

    def _contents(
        self,
        e: Element,
        link: RobotLink,
        at: np.ndarray,
        childclass: str | None,
        joints: list[tuple[Element, np.ndarray]],
        bodies: list[tuple[Element, np.ndarray, str | None]],
        inertials: list[tuple[Element, np.ndarray]],
    ) -> list[Geom]:
        """Geoms of a body; its joints, sites, inner bodies and inertia are noted. Frames move what is inside of them."""
        geoms: list[Geom] = []
        for child in e.children:
            if child.tag == "geom":
                self.geoms += 1
                if self.geoms > MOST_GEOMS:
                    raise child.error(f"the file has more than {MOST_GEOMS} geoms.")
                geom = read_geom(self.defaults.apply(child, childclass), at, self.assets)
                geoms.append(geom)
                if geom.visual is not None:
                    link.visuals.append(geom.visual)
            elif child.tag in ("joint", "freejoint"):
                if link.name == WORLD:
                    raise child.error("the world has no joints: put it into a <body>.")
                joints.append((child if child.tag == "freejoint" else self.defaults.apply(child, childclass), at))
            elif child.tag == "site":
                self._site(self.defaults.apply(child, childclass), link.name, at)
            elif child.tag == "body":
                if link.name == WORLD:
                    self._body(child, WORLD, at, childclass)
                else:
                    bodies.append((child, at, childclass))
            elif child.tag == "frame":
                inner = child.get("childclass") or childclass
                geoms += self._contents(child, link, at @ self.settings.pose(child), inner, joints, bodies, inertials)
            elif child.tag == "inertial":
                inertials.append((child, at))
            else:
                self.robot.report.lost(
                    child.tag, child.get("name") or "", child.where, NOT_READ.get(child.tag, "not read")
                )
        return geoms

    def _new_name(self, kind: str, wish: str, taken: Container[str]) -> str:
        """A name that the file does not give and that is not yet taken."""
        name, number = wish, 1
        while name in taken or name in self.given[kind]:
            number += 1
            name = f"{wish}_{number}"
        return name

    def _site(self, e: Element, link: str, at: np.ndarray) -> None:
        name = (e.get("name") or "").strip()
        if not name:
            return
        if len(self.robot.frames) >= MOST_LINKS:
            raise e.error(f"the file has more than {MOST_LINKS} sites.")
        if name in self.sites:
            raise e.error(f"the site name {name!r} is taken.")
        self.sites.add(name)
        pose = self.settings.pose(e)
        if e.get("fromto") is not None:
            ends = e.numbers("fromto", 6)
            pose = se3.pose(np.eye(3), (ends[:3] + ends[3:]) / 2)
        self.robot.frames.append(NamedFrame(name, link, at @ pose, e.where))
        self.robot.report.represented("site", name, e.where)

    # --- joints -----------------------------------------------------------------------------------------------------------

    def _joints(
        self,
        given: list[tuple[Element, np.ndarray]],
        body: Element,
        parent: str,
        link: RobotLink,
        at: np.ndarray,
    ) -> None:
        """The joints of a body in series: G = at prod_k T(p_k) J_k T(-p_k), with frames without mass between them."""
        if not given:
            name = self._new_name("joint", f"{link.name}.weld", self.robot.joints)
            self.robot.joints[name] = RobotJoint(name, FIXED, parent, link.name, body.where, at=at)
            return
        pending = at
        for k, (e, around) in enumerate(given):
            joint = self._joint(e, around, link.name, len(given), k)
            anchor = se3.pose(np.eye(3), se3.transform(around, e.numbers("pos", 3, (0, 0, 0))))
            if joint.kind in (FLOATING, PRISMATIC):
                anchor = np.eye(4)
            if joint.kind == FLOATING and (parent != WORLD or len(given) > 1):
                raise e.error("a free joint must be the only joint of a body of the world.")
            joint.parent, joint.at = parent, pending @ anchor
            pending = se3.inverse(anchor)
            last = k == len(given) - 1
            if last:
                joint.child = link.name
                joint.after = None if np.array_equal(pending, np.eye(4)) else pending
            else:
                joint.child = self._new_name("body", f"{joint.name}.link", self.robot.links)
                self.robot.links[joint.child] = RobotLink(joint.child, e.where)
            parent = joint.child
            self.robot.joints[joint.name] = joint
            self.robot.report.represented("joint", joint.name, e.where)

    def _joint(self, e: Element, around: np.ndarray, body: str, count: int, k: int) -> RobotJoint:
        kind = "free" if e.tag == "freejoint" else e.get("type", "hinge") or "hinge"
        if kind not in KINDS:
            raise e.error(f"a joint has the type {kind!r}; known are {', '.join(KINDS)}.")
        name = (e.get("name") or "").strip()
        if not name:
            name = self._new_name("joint", body if count == 1 else f"{body}.joint{k + 1}", self.robot.joints)
        if name in self.robot.joints:
            raise e.error(f"the joint name {name!r} is taken.")
        joint = RobotJoint(name, KINDS[kind], "", "", e.where)
        axis = se3.rotation(around) @ e.numbers("axis", 3, (0.0, 0.0, 1.0))
        if not 1e-100 < np.max(np.abs(axis)) < 1e100:
            raise e.error("the axis of a joint must be finite and not zero.")
        joint.axis = axis
        if e.tag == "freejoint":
            if e.get("align", "auto") == "true":
                self.robot.report.lost("align", name, e.where, "the frame of the body stays where the file has it")
            return joint
        if np.any(e.numbers("springdamper", None, (0.0,))):
            self.robot.report.lost("springdamper", name, e.where, "it depends on the inertia at the start")
        turn = self.settings.angle if kind == "hinge" else float
        zero = turn(e.number("ref", 0.0)) if kind in ("hinge", "slide") else 0.0
        self.zeros[name] = zero
        joint.stiffness, joint.damping = self._first(e, "stiffness"), self._first(e, "damping")
        joint.rest = turn(e.number("springref", 0.0)) - zero
        joint.friction, joint.armature = e.number("frictionloss", 0.0), e.number("armature", 0.0)
        for label in ("stiffness", "damping", "friction", "armature"):
            if getattr(joint, label) < 0:
                raise e.error(f"{label} of joint {name!r} must not be negative.")
        joint.limits = self._limits(e, kind, zero)
        return joint

    def _first(self, e: Element, name: str) -> float:
        values = e.numbers(name, None, (0.0,))
        if np.any(values[1:]):
            self.robot.report.lost(name, e.get("name") or "", e.where, "only the linear coefficient is used")
        return float(values[0]) if len(values) else 0.0

    def _limits(self, e: Element, kind: str, zero: float) -> JointLimits:
        limited, strength = e.get("limited", "auto"), self._strength(e)
        if limited == "false" or e.get("range") is None or (limited == "auto" and not self.settings.autolimits):
            return JointLimits(effort=strength)
        low, high = e.numbers("range", 2)
        if kind not in ("hinge", "slide"):
            return JointLimits(upper=self.settings.angle(float(high)) if kind == "ball" else None)
        turn = self.settings.angle if kind == "hinge" else float
        return JointLimits(turn(float(low)) - zero, turn(float(high)) - zero, effort=strength)

    def _strength(self, e: Element) -> float | None:
        """The largest force of all actuators in a joint."""
        limited = e.get("actuatorfrclimited", "auto")
        if e.get("actuatorfrcrange") is None or limited == "false":
            return None
        return float(np.max(np.abs(e.numbers("actuatorfrcrange", 2))))

    # --- inertia ----------------------------------------------------------------------------------------------------------

    def _inertia(
        self, e: Element, link: RobotLink, geoms: list[Geom], inertials: list[tuple[Element, np.ndarray]]
    ) -> None:
        """From <inertial> (the last, if there are several), or from the geoms, as the compiler settings say."""
        rule = self.settings.inertia_from_geoms
        if inertials and rule != "true":
            self._given(*inertials[-1], link)
        elif rule != "false":
            unknown = next((geom.unknown for geom in geoms if geom.unknown), "")
            if unknown:
                losses = "; ".join(str(item) for item in self.robot.report.losses if item.what == "mesh")
                raise e.error(
                    f"{unknown}, so that the inertia of body {link.name!r} is unknown. Give the file, or the body an <inertial>. ({losses})"
                )
            parts = [geom.inertia for geom in geoms if geom.inertia is not None]
            if parts:
                total: Inertia = sum(parts[1:], start=parts[0])
                link.mass, link.com, link.moment = float(total.mass), total.com, total.moment_at_com
        if self.settings.bound_mass:
            if link.mass is None:
                self.robot.report.changed(
                    "boundmass", link.name, e.where, "the least mass lies in the origin of the body"
                )
            link.mass = max(link.mass or 0.0, self.settings.bound_mass)
        if self.settings.bound_inertia or self.settings.balanced:
            link.mass = link.mass or 0.0
            values, axes = np.linalg.eigh(link.moment)
            values = np.maximum(values, self.settings.bound_inertia)
            if self.settings.balanced and values[0] + values[1] < values[2]:
                values = np.full(3, np.mean(values))
            link.moment = axes @ np.diag(values) @ axes.T

    def _given(self, e: Element, at: np.ndarray, link: RobotLink) -> None:
        pose = at @ self.settings.pose(e)
        R, link.com, link.mass = se3.rotation(pose), se3.position(pose), e.number("mass")
        if link.mass < 0:
            raise e.error(f"the mass of body {link.name!r} must not be negative, got {link.mass:g}.")
        if e.get("fullinertia") is not None:
            xx, yy, zz, xy, xz, yz = e.numbers("fullinertia", 6)
            moment = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        else:
            moment = np.diag(e.numbers("diaginertia", 3, (0.0, 0.0, 0.0)))
        moment = R @ moment @ R.T
        link.moment = (moment + moment.T) / 2


def scale_to_total_mass(robot: Robot, total: float) -> None:
    """Scale all masses and moments so that the masses add up to ``total``."""
    present = sum(link.mass or 0.0 for link in robot.links.values())
    if present <= 0:
        raise ModelError(f"{robot.file}: settotalmass needs a model with mass.")
    for link in robot.links.values():
        if link.mass is not None:
            link.mass, link.moment = link.mass * total / present, link.moment * total / present
