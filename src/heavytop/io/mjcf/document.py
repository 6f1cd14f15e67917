"""The document of an MJCF file: includes, copies, compiler settings, defaults and classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from heavytop.geometry import quaternion, se3, so3
from heavytop.io.asset_paths import AssetPaths
from heavytop.io.robot import MOST_LINKS
from heavytop.io.xml_elements import Element, read_xml, spaced

MOST_INCLUDES = 100
ORIENTATIONS = {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3, "euler": 3}
"""Attributes that specify an orientation, with their number of values; an element has one of them."""
FLAGS = ("spring", "damper", "actuation", "equality", "frictionloss", "clampctrl", "limit")
FLAG_GROUPS = {"passive": ("spring", "damper"), "constraint": ("equality", "frictionloss", "limit")}
"""Flags that switch off several features."""
MOST_COPIES = 50_000
"""Elements of all copies in total."""
ACTUATORS = ("motor", "position", "velocity", "general", "damper")
ACTUATORS += ("intvelocity", "cylinder", "muscle", "adhesion", "dcmotor", "plugin")  # the last four are not read
"""Tags of actuators; they share their defaults."""
MERGED = ("size", "gear", "gainprm", "biasprm", "dynprm")
"""Attributes whose trailing numbers may be left to the class."""
KIND = "kind"
"""Internal attribute: the tag from which the parameters come."""
UNREAD = "unread"
"""Internal attribute: the reason why an actuator cannot be an input."""


def name_of(e: Element) -> str:
    """The name of an element; empty if it has none."""
    return (e.get("name") or "").strip()


def expand_includes(root: Element, paths: AssetPaths) -> None:
    """Replace each <include file=...> by the children of the root of that file; a file may be included once."""
    seen = {paths.file.resolve()}

    def expand(element: Element, near: Path) -> None:
        children: list[Element] = []
        for child in element.children:
            if child.tag != "include":
                expand(child, near)
                children.append(child)
                continue
            name = child.string("file")
            found, reason = paths.find(name, near)
            if found is None:
                raise child.error(f"cannot include {name!r}: {reason}.")
            if found in seen or len(seen) > MOST_INCLUDES:
                raise child.error(f"{name!r} is included twice (or there are more than {MOST_INCLUDES} includes).")
            seen.add(found)
            included = read_xml(found)
            expand(included, found.parent)
            children += included.children
        element.children = children

    expand(root, paths.folder)


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
    exact_meshes: bool = False
    fits_extent: bool = False
    """Whether primitives are fitted to the extent of a mesh, not to its inertia."""
    mesh_folder: str = ""
    strips_paths: bool = False
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    balanced: bool = False
    """Whether moments that break the triangle inequality are replaced by their mean."""
    disabled: set[str] = field(default_factory=set)
    """Features switched off by flags."""
    silent_groups: set[int] = field(default_factory=set)
    """Groups of actuators that are switched off."""
    notes: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Losses: kind, name, place, reason."""

    @classmethod
    def of(cls, root: Element, whole: CompilerSettings | None = None) -> CompilerSettings:
        """The settings of a file; later elements override earlier ones. A model attached to another has the options of the ``whole``."""
        s = cls()
        for element in root.all("compiler"):
            s._compiler(element)
        if whole is not None:
            return replace(s, gravity=whole.gravity, disabled=whole.disabled, silent_groups=whole.silent_groups)
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
        self.exact_meshes = _is_set(e, "exactmeshinertia", self.exact_meshes)
        self.fits_extent = _is_set(e, "fitaabb", self.fits_extent)
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
            self.disabled |= {name for name in FLAGS if flag.get(name) == "disable"}
            for whole, parts in FLAG_GROUPS.items():
                if flag.get(whole) == "disable":
                    self.disabled.update(parts)
        self.silent_groups |= {int(x) for x in e.numbers("actuatorgroupdisable", None, ())}

    def is_limited(self, e: Element, switch: str, bounds: str) -> bool:
        """Whether the bounds of an element are given and switched on."""
        state = e.get(switch, "auto")
        return e.get(bounds) is not None and (state == "true" or (state == "auto" and self.autolimits))

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


def merged(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Attributes of an element over those of its class."""
    result = {**inherited, **own}
    for name in MERGED:
        if name in inherited and name in own:
            given = own[name].split()
            result[name] = " ".join([*given, *inherited[name].split()[len(given) :]])
    return result


def as_general(e: Element, classes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Attributes of an actuator as those of <general>; ``classes`` are those of its class and of the enclosing classes, in this form.

    force = (g0 + g1 l + g2 l') control + b0 + b1 l + b2 l'     with l = gear length of the transmission
    """
    inherited: Mapping[str, str] = classes[0] if classes else {}
    # gains are inherited from actuators of the same kind
    alike = next((given for given in classes if given.get(KIND) in ("general", e.tag)), {})
    own = {name: value for name, value in e.attributes.items() if name != "class"}
    result = merged(inherited, own) | {KIND: e.tag}
    if e.tag != "general":
        result.pop(UNREAD, None)
    if e.tag == "motor":
        result |= {"gaintype": "fixed", "gainprm": "1", "biastype": "none", "biasprm": "0 0 0", "dyntype": "none"}
    elif e.tag == "position":
        kp, kv = e.number("kp", _at(alike, "gainprm", 0, 1.0)), e.number("kv", -_at(alike, "biasprm", 2, 0.0))
        if "kv" in own and kv < 0:
            raise e.error(f"kv must not be negative, got {kv:g}.")
        if "dampratio" in own:
            kv = -e.number("dampratio")  # MuJoCo marks a damping ratio by its sign
            if "kv" in own or kv > 0:
                raise e.error("give either kv or a dampratio, and none below zero.")
        result |= {"gaintype": "fixed", "gainprm": f"{kp!r}", "biastype": "affine", "biasprm": f"0 {-kp!r} {-kv!r}"}
        if "timeconst" in own:
            result["dyntype"] = "filterexact" if e.number("timeconst") else "none"
            result["dynprm"] = own["timeconst"]
    elif e.tag == "intvelocity":
        kp, kv = e.number("kp", _at(alike, "gainprm", 0, 1.0)), e.number("kv", -_at(alike, "biasprm", 2, 0.0))
        result |= {"gaintype": "fixed", "gainprm": f"{kp!r}", "biastype": "affine", "biasprm": f"0 {-kp!r} {-kv!r}"}
        result["dyntype"] = "integrator"
    elif e.tag == "cylinder":
        area = e.number("area", _at(alike, "gainprm", 0, 1.0))
        if "diameter" in own:
            area = float(np.pi / 4 * e.number("diameter") ** 2)
        result |= {"gaintype": "fixed", "gainprm": f"{area!r}", "biastype": "affine", "dyntype": "filter"}
        result["biasprm"] = own.get("bias", alike.get("biasprm", "0 0 0"))
        result["dynprm"] = own.get("timeconst", alike.get("dynprm", "1"))
    elif e.tag == "velocity":
        kv = e.number("kv", _at(alike, "gainprm", 0, 1.0))
        result |= {"gaintype": "fixed", "gainprm": f"{kv!r}", "biastype": "affine", "biasprm": f"0 0 {-kv!r}"}
        result["dyntype"] = "none"
    elif e.tag == "damper":
        result[UNREAD] = "its input is a damping coefficient"
    elif e.tag != "general":
        result[UNREAD] = f"actuators of the kind {e.tag!r} are not read"
    return result


def _at(attributes: Mapping[str, str], name: str, index: int, default: float) -> float:
    values = attributes.get(name, "").split()
    try:
        return float(values[index]) if index < len(values) else default
    except ValueError:
        return default  # an error where the default itself is read


def expand_replicas(element: Element, settings: CompilerSettings) -> None:
    """Replace every <replicate> below an element by a <frame> for each copy."""
    made = 0

    def count(e: Element) -> None:
        nonlocal made
        made += 1
        if made > MOST_COPIES:
            raise e.error(f"the copies have more than {MOST_COPIES} elements in total.")

    def expand(element: Element) -> None:
        children: list[Element] = []
        for child in element.children:
            expand(child)
            children += copies(child) if child.tag == "replicate" else [child]
        element.children = children

    def copies(e: Element) -> list[Element]:
        number = e.number("count")
        if not 1 <= number <= MOST_LINKS or number != int(number):
            raise e.error(f"count must be a whole number from 1 to {MOST_LINKS}, got {number:g}.")
        offset, angles = e.numbers("offset", 3, (0.0, 0.0, 0.0)), e.numbers("euler", 3, (0.0, 0.0, 0.0))
        place, width, separator = np.zeros(3), len(str(int(number))), e.get("sep", "") or ""
        frames = []
        for k in range(int(number)):
            count(e)
            # R_k = euler(k angles), p_k+1 = p_k + R_k offset
            R = settings.euler_rotation(k * angles)
            frame = {"pos": spaced(place), "quat": spaced(quaternion.quaternion_from_rotation(R))}
            if e.get("childclass"):
                frame["childclass"] = e.get("childclass") or ""
            inner = [copy(child, f"{separator}{k:0{width}d}", e) for child in e.children]
            frames.append(Element("frame", frame, e.file, e.line, inner))
            place = place + R @ offset
        return frames

    def copy(element: Element, suffix: str, e: Element) -> Element:
        count(e)
        attributes = dict(element.attributes)
        if attributes.get("name"):
            attributes["name"] += suffix
        return replace(element, attributes=attributes, children=[copy(x, suffix, e) for x in element.children])

    expand(element)
