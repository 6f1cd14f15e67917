"""Visual geometry and materials of URDF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from heavytop.errors import ModelError, did_you_mean
from heavytop.geometry import se3, so3
from heavytop.io.asset_paths import find_file
from heavytop.io.import_report import TransferReport
from heavytop.io.robot import Visual
from heavytop.io.urdf.vocabulary import SHAPES
from heavytop.io.xml_elements import Element
from heavytop.system import MESH_FORMATS, Box, Capsule, Cylinder, Mesh, Sphere

Color = tuple[float, float, float, float]


@dataclass(eq=False)
class Materials:
    """Colours by name, and folders of meshes."""

    root: Element
    path: Path
    packages: Mapping[str, Path]
    report: TransferReport
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


def read_visuals(link: Element, materials: Materials) -> list[Visual]:
    """The visual shapes of a link."""
    result = []
    for element in link.all("visual"):
        geometry = element.first("geometry")
        shape = _shape(geometry.children[0], materials) if geometry is not None and geometry.children else None
        if shape is None:
            continue
        result.append(Visual(shape, origin(element), materials.color(element.first("material"))))
    return result


def origin(element: Element) -> np.ndarray:
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
    path, reason = find_file(name, materials.path, materials.packages)
    if path is not None and path.suffix.lower() not in MESH_FORMATS:
        path, reason = None, f"the format {path.suffix!r} is not read"
    if path is None:
        materials.report.lost("mesh", name, element.where, reason)
        return None
    return Mesh(str(path), (x, y, z))
