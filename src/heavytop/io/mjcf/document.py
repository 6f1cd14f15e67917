"""An MJCF file as a whole: includes put in place, compiler settings, defaults and classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from heavytop.errors import FileFormatError
from heavytop.geometry import quaternion, se3, so3
from heavytop.io.asset_paths import find_file
from heavytop.io.mjcf.actuator_terms import ACTUATORS, as_general, merged
from heavytop.io.xml_source import Element, read_xml

MOST_INCLUDES = 100


def with_includes(root: Element, path: Path) -> None:
    """Replace each <include file=...> by the children of the root of that file; each file may be included once."""
    seen = {path.resolve()}

    def expand(element: Element, folder_of: Path) -> None:
        children: list[Element] = []
        for child in element.children:
            if child.tag != "include":
                expand(child, folder_of)
                children.append(child)
                continue
            name = child.string("file")
            found, reason = find_file(name, folder_of, {})
            if found is None or not found.is_relative_to(path.resolve().parent):
                raise child.error(f"cannot include {name!r}: {reason or 'it is outside the folder of the file'}.")
            if found in seen or len(seen) > MOST_INCLUDES:
                raise child.error(f"{name!r} is included twice (or there are more than {MOST_INCLUDES} includes).")
            seen.add(found)
            included = read_xml(found)
            expand(included, folder_of)
            children += included.children
        element.children = children

    expand(root, path)


@dataclass(eq=False)
class CompilerSettings:
    """What <compiler> and <option> say."""

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
    """What flags switch off: "spring", "damper", "actuation", "equality"."""
    silent_groups: set[int] = field(default_factory=set)
    """Groups of actuators that are switched off."""
    notes: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Losses: what, name, where, why."""

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
        self.autolimits = e.get("autolimits", "true" if self.autolimits else "false") == "true"
        self.inertia_from_geoms = e.get("inertiafromgeom", self.inertia_from_geoms) or "auto"
        if self.inertia_from_geoms not in ("true", "false", "auto"):
            raise e.error(f"inertiafromgeom must be true, false or auto, got {self.inertia_from_geoms!r}.")
        low, high = e.numbers("inertiagrouprange", 2, self.groups)
        self.groups = (float(low), float(high))
        self.bound_mass = e.number("boundmass", self.bound_mass)
        self.bound_inertia = e.number("boundinertia", self.bound_inertia)
        total = e.number("settotalmass", -1.0)
        self.total_mass = total if total > 0 else self.total_mass
        self.strips_paths = e.get("strippath", "true" if self.strips_paths else "false") == "true"
        self.mesh_folder = e.get("meshdir") or e.get("assetdir") or self.mesh_folder
        if e.get("coordinate", "local") != "local":
            raise e.error("coordinate must be 'local'; MuJoCo has dropped global coordinates, too.")
        self.balanced = e.get("balanceinertia", "true" if self.balanced else "false") == "true"
        if e.get("alignfree", "false") == "true":
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
        given = [name for name in TURNS if e.get(name) is not None]
        if len(given) > 1:
            raise e.error(f"gives its orientation twice, by {' and '.join(given)}.")
        if not given:
            return np.eye(3)
        return getattr(self, f"_{given[0]}")(e)

    def _quat(self, e: Element) -> np.ndarray:
        quat = e.numbers("quat", 4)
        if not np.linalg.norm(quat) > 0:
            raise e.error("quat must not be zero.")
        return quaternion.rotation_from_quaternion(quaternion.normalize(quat))

    def _axisangle(self, e: Element) -> np.ndarray:
        x, y, z, angle = e.numbers("axisangle", 4)
        return so3.rotation_about(_unit(e, np.array([x, y, z]), "axisangle"), self.angle(angle))

    def _xyaxes(self, e: Element) -> np.ndarray:
        given = e.numbers("xyaxes", 6)
        x = _unit(e, given[:3], "xyaxes")
        y = _unit(e, given[3:] - (given[3:] @ x) * x, "xyaxes")
        return np.stack([x, y, np.cross(x, y)], axis=-1)

    def _zaxis(self, e: Element) -> np.ndarray:
        return smallest_turn(_unit(e, e.numbers("zaxis", 3), "zaxis"))

    def _euler(self, e: Element) -> np.ndarray:
        return self.euler_rotation(e.numbers("euler", 3))

    def euler_rotation(self, angles: np.ndarray) -> np.ndarray:
        """The rotation of three angles of the file; small letters: axes of the turned frame, capital letters: axes of the parent."""
        R = np.eye(3)
        for letter, angle in zip(self.eulerseq, angles, strict=True):
            turn = so3.rotation_about(letter.lower(), self.angle(angle))
            R = R @ turn if letter.islower() else turn @ R
        return R

    def pose(self, e: Element) -> np.ndarray:
        """Position and orientation of an element."""
        return se3.pose(self.rotation(e), e.numbers("pos", 3, (0.0, 0.0, 0.0)))


def _unit(e: Element, vector: np.ndarray, name: str) -> np.ndarray:
    norm = np.linalg.norm(vector)
    if not norm > 1e-14:
        raise e.error(f"{name} must hold a direction, got zero.")
    return vector / norm


def smallest_turn(z: np.ndarray) -> np.ndarray:
    """The rotation by the least angle that takes the z axis to the unit vector ``z``."""
    axis = np.cross([0.0, 0.0, 1.0], z)
    sine = float(np.linalg.norm(axis))
    if sine < 1e-14:
        return np.eye(3) if z[2] > 0 else np.diag([1.0, -1.0, -1.0])
    return so3.rotation_about(axis / sine, float(np.arctan2(sine, z[2])))


class Defaults:
    """Default attributes by class and tag; an inner class begins with those of the outer one."""

    def __init__(self, root: Element) -> None:
        self.classes: dict[str, dict[str, dict[str, str]]] = {"main": {}}
        self.outer: dict[str, str] = {}
        """Class -> the class around it."""
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
        """The element with the attributes of its class that it does not give itself."""
        name = element.get("class") or childclass or "main"
        if name not in self.classes:
            raise element.error(f"the class {name!r} is not defined; defined are {', '.join(self.classes)}.")
        if element.tag in ACTUATORS:
            attributes = self._actuator(element, name)
        else:
            attributes = _over(self.classes[name].get(element.tag, {}), element.attributes)
        return Element(element.tag, attributes, element.file, element.line, element.children, element.texts)

    def _actuator(self, element: Element, name: str) -> dict[str, str]:
        around, seen = [self.classes[name].get("general", {})], {name}
        while name in self.outer and self.outer[name] not in seen:
            name = self.outer[name]
            seen.add(name)
            around.append(self.classes[name].get("general", {}))
        return as_general(element, around)


TURNS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")
"""Attributes that give an orientation; an element has one of them."""


def _over(inherited: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """Attributes of an element over those of its class; one orientation replaces another."""
    if any(key in own for key in TURNS):
        inherited = {key: value for key, value in inherited.items() if key not in TURNS}
    return merged(inherited, own)


def check_root(root: Element) -> None:
    """Raise a FileFormatError for a file that is no MJCF."""
    if root.tag != "mujoco":
        raise FileFormatError(f"{root.where}: an MJCF file begins with <mujoco>, got <{root.tag}>.")
