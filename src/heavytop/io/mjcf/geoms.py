"""Geoms of MJCF: shapes of bodies, which may define their inertia."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from heavytop.errors import FileFormatError, HeavytopError
from heavytop.geometry import quaternion, se3
from heavytop.io.asset_paths import find_file
from heavytop.io.import_report import TransferReport
from heavytop.io.mjcf.document import CompilerSettings, Defaults, smallest_turn
from heavytop.io.robot import Visual
from heavytop.io.xml_elements import Element
from heavytop.system import Box, Capsule, Cylinder, Ellipsoid, Inertia, Mesh, Sphere

Color = tuple[float, float, float, float]
Shape = Box | Capsule | Cylinder | Ellipsoid | Mesh | Sphere
DENSITY = 1000.0
SHAPES_WITHOUT_MASS = ("plane", "hfield", "sdf")


@dataclass(eq=False)
class Assets:
    """Meshes and colours by name."""

    path: Path
    settings: CompilerSettings
    defaults: Defaults
    report: TransferReport
    meshes: dict[str, tuple[Mesh | None, np.ndarray]] = field(default_factory=dict)
    colors: dict[str, Color] = field(default_factory=dict)

    def read(self, asset: Element) -> None:
        """Read the meshes and materials of an <asset>."""
        for element in asset.children:
            if element.tag == "mesh":
                self._mesh(self.defaults.apply(element, None))
            elif element.tag == "material":
                self.colors[element.get("name") or ""] = _color(self.defaults.apply(element, None))

    def _mesh(self, e: Element) -> None:
        file = e.get("file")
        name = e.get("name") or (Path(file).stem if file else "")
        # a point x of the file becomes S R^T (x - p): the scale acts in axes of the mesh
        R = quaternion.rotation_from_quaternion(quaternion.normalize(e.numbers("refquat", 4, (1, 0, 0, 0))))
        scale = e.numbers("scale", 3, (1, 1, 1))
        if not np.allclose(R, np.eye(3), rtol=0, atol=1e-12) and np.ptp(scale):
            raise e.error("a mesh that is turned by refquat and scaled differently along its axes is not read.")
        shift = se3.pose(R.T, -scale * (R.T @ e.numbers("refpos", 3, (0, 0, 0))))
        mesh = None
        if file is None:
            self.report.lost("mesh", name, e.where, "only meshes from files are read")
        else:
            folder = self.settings.mesh_folder
            file = Path(file).name if self.settings.strips_paths else file
            found, reason = find_file(f"{folder.rstrip('/')}/{file}" if folder else file, self.path, {})
            if found is None:
                self.report.lost("mesh", name, e.where, reason)
            else:
                x, y, z = scale.tolist()
                mesh = Mesh(str(found), (x, y, z))
        self.meshes[name] = (mesh, shift)


def _color(e: Element) -> Color:
    red, green, blue, opacity = np.clip(e.numbers("rgba", 4, (1, 1, 1, 1)), 0, 1).tolist()
    return red, green, blue, opacity


@dataclass(frozen=True, eq=False)
class Geom:
    """A shape at a pose in the frame of its body; ``shape`` is None for a mesh that is not read."""

    element: Element
    shape: Shape | None
    pose: np.ndarray

    def visuals(self, colors: Mapping[str, Color]) -> list[Visual]:
        """Its look, if there is one."""
        e = self.element
        color = _color(e) if e.get("rgba") else colors.get(e.get("material") or "")
        return [] if self.shape is None else [Visual(self.shape, self.pose, color)]

    @property
    def is_weightless(self) -> bool:
        """Whether its mass is zero."""
        e = self.element
        return e.number("mass") == 0 if e.get("mass") is not None else e.number("density", DENSITY) == 0

    def inertia(self, groups: tuple[float, float]) -> Inertia | None:
        """Its inertia in the body frame, by mass if given, else by density; None for a weightless geom or one of another group."""
        e = self.element
        mass, density = e.number("mass") if e.get("mass") is not None else None, e.number("density", DENSITY)
        if (mass or 0) < 0 or density < 0:
            raise e.error("mass and density must not be negative.")
        if self.shape is None or self.is_weightless or not groups[0] <= e.number("group", 0) <= groups[1]:
            return None
        if e.get("shellinertia", "false") == "true":
            raise e.error("shellinertia is not read: give the body an <inertial>.")
        try:
            volume, center, moment = self.shape.unit_moments()
        except HeavytopError as error:
            raise e.error(str(error)) from None
        filled = density if mass is None else mass / volume
        return Inertia(filled * volume, center, filled * moment).shifted(self.pose)


def read_geom(e: Element, at: np.ndarray, assets: Assets) -> Geom | None:
    """The geom of an element with applied defaults, None for one without a shape; ``at`` is the enclosing frame in the frame of the body."""
    kind = e.get("type") or "sphere"
    if kind in SHAPES_WITHOUT_MASS:
        if kind != "plane":
            assets.report.lost("geom", e.get("name") or "", e.where, f"there is no shape {kind}")
        return None
    if e.get("mesh") and kind != "mesh":
        raise e.error(f"a {kind} that is fitted to a mesh is not read: give its size, or type='mesh'.")
    try:
        shape, pose = _shape(e, kind, assets)
    except FileFormatError:
        raise
    except HeavytopError as error:
        raise e.error(str(error)) from None
    return Geom(e, shape, at @ pose)


def _shape(e: Element, kind: str, assets: Assets) -> tuple[Shape | None, np.ndarray]:
    pose = assets.settings.pose(e)
    if kind == "mesh":
        name = e.get("mesh") or ""
        if name not in assets.meshes:
            raise e.error(f"names the mesh {name!r}, which is not an asset.")
        mesh, shift = assets.meshes[name]
        return mesh, pose @ shift
    size = e.numbers("size", None, ())
    length = None
    if e.get("fromto") is not None and kind in ("capsule", "cylinder", "box", "ellipsoid"):
        ends = e.numbers("fromto", 6)
        along = ends[:3] - ends[3:]
        length = float(np.linalg.norm(along))
        if length < 1e-14:
            raise e.error("the two points of fromto coincide.")
        pose = se3.pose(smallest_turn(along / length), (ends[:3] + ends[3:]) / 2)
    needed = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}
    if kind not in needed:
        raise e.error(f"unknown type of geom {kind!r}.")
    if length is not None:  # MuJoCo uses the first size for both directions across
        size = np.append(np.repeat(size[:1], needed[kind] - 1), length / 2)
    if len(size) < needed[kind]:
        raise e.error(f"a {kind} needs {needed[kind]} sizes, got {size.tolist()}.")
    a, b, c = (*size.tolist(), 0.0, 0.0)[:3]
    if kind == "sphere":
        return Sphere(a), pose
    if kind == "capsule":
        return Capsule(a, 2 * b), pose
    if kind == "cylinder":
        return Cylinder(a, 2 * b), pose
    return (Ellipsoid((a, b, c)) if kind == "ellipsoid" else Box((2 * a, 2 * b, 2 * c))), pose
