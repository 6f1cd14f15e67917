"""The document of an MJCF file: includes, compiler settings, defaults and classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from heavytop.geometry import quaternion, se3, so3
from heavytop.io.asset_paths import find_file
from heavytop.io.mjcf.actuator_terms import ACTUATORS, as_general, merged
from heavytop.io.xml_elements import Element, read_xml

MOST_INCLUDES = 100
ORIENTATIONS = {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3, "euler": 3}
"""Attributes that specify an orientation, with their number of values; an element has one of them."""


def name_of(e: Element) -> str:
    """The name of an element; empty if it has none."""
    return (e.get("name") or "").strip()


def expand_includes(root: Element, path: Path) -> None:
    """Replace each <include file=...> by the children of the root of that file; a file may be included once."""
    seen = {path.resolve()}

    def expand(element: Element) -> None:
        children: list[Element] = []
        for child in element.children:
            if child.tag != "include":
                expand(child)
                children.append(child)
                continue
            name = child.string("file")
            found, reason = find_file(name, path, {})
            if found is None or not found.is_relative_to(path.resolve().parent):
                raise child.error(f"cannot include {name!r}: {reason or 'it is outside the folder of the file'}.")
            if found in seen or len(seen) > MOST_INCLUDES:
                raise child.error(f"{name!r} is included twice (or there are more than {MOST_INCLUDES} includes).")
            seen.add(found)
            included = read_xml(found)
            expand(included)
            children += included.children
        element.children = children

    expand(root)


@dataclass(eq=False)
class CompilerSettings:
    """Settings of <compiler> and <option>."""

    degrees: bool = True
    eulerseq: str = "xyz"
    autolimits: bool = True
    inertia_from_geoms: str = "auto"
    groups: tuple[float, float] = (0, 5)
    bound_mass: float = 0.0
    bound_inertia: float = 0.0
    total_mass: float | None = None
    mesh_folder: str = ""
    strips_paths: bool = False
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    balanced: bool = False
    """Whether moments that break the triangle inequality are replaced by their mean."""
    disabled: set[str] = field(default_factory=set)
    """Features switched off by flags: "spring", "damper", "actuation", "equality"."""
    silent_groups: set[int] = field(default_factory=set)
    """Groups of actuators that are switched off."""
    notes: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Losses: kind, name, place, reason."""

    @classmethod
    def of(cls, root: Element) -> CompilerSettings:
        """The settings of a file; later elements override earlier ones."""
        s = cls()
        for element in root.all("compiler"):
            s._compiler(element)
        for element in root.all("option"):
            s._option(element)
        return s

    def _compiler(self, e: Element) -> None:
        self.degrees = e.get("angle", "degree" if self.degrees else "radian") != "radian"
        self.eulerseq = e.get("eulerseq", self.eulerseq) or self.eulerseq
        if len(self.eulerseq) != 3 or any(letter not in "xyzXYZ" for letter in self.eulerseq):
            raise e.error(f"eulerseq must be three letters of xyzXYZ, got {self.eulerseq!r}.")
        self.autolimits = _is_set(e, "autolimits", self.autolimits)
        self.inertia_from_geoms = e.get("inertiafromgeom", self.inertia_from_geoms) or "auto"
        if self.inertia_from_geoms not in ("true", "false", "auto"):
            raise e.error(f"inertiafromgeom must be true, false or auto, got {self.inertia_from_geoms!r}.")
        low, high = e.numbers("inertiagrouprange", 2, self.groups)
        self.groups = (float(low), float(high))
        self.bound_mass = e.number("boundmass", self.bound_mass)
        self.bound_inertia = e.number("boundinertia", self.bound_inertia)
        total = e.number("settotalmass", -1.0)
        self.total_mass = total if total > 0 else self.total_mass
        self.strips_paths = _is_set(e, "strippath", self.strips_paths)
        self.mesh_folder = e.get("meshdir") or e.get("assetdir") or self.mesh_folder
        if e.get("coordinate", "local") != "local":
            raise e.error("coordinate must be 'local'; MuJoCo has dropped global coordinates as well.")
        self.balanced = _is_set(e, "balanceinertia", self.balanced)
        if _is_set(e, "alignfree", False):
            self.notes.append(("compiler setting", "alignfree", e.where, "not read"))

    def _option(self, e: Element) -> None:
        x, y, z = e.numbers("gravity", 3, self.gravity).tolist()
        self.gravity = (x, y, z)
        for name in ("density", "viscosity"):
            if e.number(name, 0.0):
                self.notes.append(("option", name, e.where, "there are no fluid forces"))
        if np.any(e.numbers("wind", 3, (0, 0, 0))):
            self.notes.append(("option", "wind", e.where, "there are no fluid forces"))
        for flag in e.all("flag"):
            if flag.get("gravity") == "disable":
                self.gravity = (0.0, 0.0, 0.0)
            for name in ("spring", "damper", "actuation", "equality"):
                if flag.get(name) == "disable" or (flag.get("passive") == "disable" and name in ("spring", "damper")):
                    self.disabled.add(name)
        self.silent_groups |= {int(x) for x in e.numbers("actuatorgroupdisable", None, ())}

    def angle(self, value: float) -> float:
        """An angle of the file in radians."""
        return float(np.deg2rad(value)) if self.degrees else value

    def rotation(self, e: Element) -> np.ndarray:
        """The orientation of an element: quat, axisangle, xyaxes, zaxis or euler; the identity if none."""
        kinds = [name for name in ORIENTATIONS if e.get(name) is not None]
        if not kinds:
            return np.eye(3)
        if len(kinds) > 1:
            raise e.error(f"has two orientations, {' and '.join(kinds)}.")
        (kind,) = kinds
        given = e.numbers(kind, ORIENTATIONS[kind])
        if kind == "quat":
            if not np.linalg.norm(given) > 0:
                raise e.error("quat must not be zero.")
            return quaternion.rotation_from_quaternion(quaternion.normalize(given))
        if kind == "euler":
            return self.euler_rotation(given)
        first = _unit(e, given[:3], kind)
        if kind == "zaxis":
            return smallest_turn(first)
        if kind == "axisangle":
            return so3.rotation_about(first, self.angle(given[3]))
        second = _unit(e, given[3:] - (given[3:] @ first) * first, kind)
        return np.stack([first, second, np.cross(first, second)], axis=-1)

    def euler_rotation(self, angles: np.ndarray) -> np.ndarray:
        """The rotation of three angles; lower-case letters: axes of the turned frame, capital letters: axes of the parent."""
        R = np.eye(3)
        for letter, angle in zip(self.eulerseq, angles, strict=True):
            turn = so3.rotation_about(letter.lower(), self.angle(angle))
            R = R @ turn if letter.islower() else turn @ R
        return R

    def pose(self, e: Element) -> np.ndarray:
        """Position and orientation of an element."""
        return se3.pose(self.rotation(e), e.numbers("pos", 3, (0.0, 0.0, 0.0)))


def _is_set(e: Element, name: str, default: bool) -> bool:
    return e.get(name) == "true" if e.get(name) is not None else default


def _unit(e: Element, vector: np.ndarray, name: str) -> np.ndarray:
    norm = np.linalg.norm(vector)
    if not norm > 1e-14:
        raise e.error(f"{name} must hold a direction, got zero.")
    return vector / norm


def smallest_turn(z: np.ndarray) -> np.ndarray:
    """The rotation by the least angle from the z axis to the unit vector ``z``."""
    axis = np.cross([0.0, 0.0, 1.0], z)
    sine = float(np.linalg.norm(axis))
    if sine < 1e-14:
        return np.eye(3) if z[2] > 0 else np.diag([1.0, -1.0, -1.0])
    return so3.rotation_about(axis / sine, float(np.arctan2(sine, z[2])))


class Defaults:
    """Default attributes by class and tag; an inner class inherits those of the outer one."""

    def __init__(self, root: Element) -> None:
        self.classes: dict[str, dict[str, dict[str, str]]] = {"main": {}}
        self.outer: dict[str, str] = {}
        """Class -> the enclosing class."""
        for element in root.all("default"):
            self._read(element, None)

    def _read(self, element: Element, outer: str | None) -> None:
        if outer is None:
            name = element.get("class") or "main"
            self.classes[name] = self.classes["main"]
        else:
            name = element.string("class")
            self.classes[name] = {tag: dict(values) for tag, values in self.classes[outer].items()}
            if name != outer:
                self.outer[name] = outer
        settings = self.classes[name]
        for child in element.children:
            if child.tag in ACTUATORS:
                settings["general"] = self._actuator(child, name)
            elif child.tag != "default":
                own = {k: v for k, v in child.attributes.items() if k != "class"}
                settings[child.tag] = _over(settings.get(child.tag, {}), own)
        for child in element.children:
            if child.tag == "default":
                self._read(child, name)

    def apply(self, element: Element, childclass: str | None) -> Element:
        """The element with the defaults of its class."""
        name = element.get("class") or childclass or "main"
        if name not in self.classes:
            raise element.error(f"the class {name!r} is not defined; defined are {', '.join(self.classes)}.")
        if element.tag in ACTUATORS:
            attributes = self._actuator(element, name)
        else:
            attributes = _over(self.classes[name].get(element.tag, {}), element.attributes)
        return replace(element, attributes=attributes)

    def _actuator(self, element: Element, name: str) -> dict[str, str]:
        around, seen = [self.classes[name].get("general", {})], {name}
        while name in self.outer and self.outer[name] not in seen:
            name = self.outer[name]
            seen.add(name)
            around.append(self.classes[name].get("general", {}))
        return as_general(element, around)


def _over(inherited: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """Attributes of an element over those of its class; one orientation replaces another."""
    if any(key in own for key in ORIENTATIONS):
        inherited = {key: value for key, value in inherited.items() if key not in ORIENTATIONS}
    return merged(inherited, own)
