"""Geoms of MJCF: shapes of bodies, which may define their inertia."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from heavytop.errors import FileFormatError, HeavytopError, ModelError
from heavytop.geometry import quaternion, se3
from heavytop.io.asset_paths import AssetPaths
from heavytop.io.import_report import TransferReport
from heavytop.io.mjcf.document import CompilerSettings, Defaults, name_of, smallest_turn
from heavytop.io.robot import Color, Filters, Visual
from heavytop.io.xml_elements import Element, spaced
from heavytop.system import MESH_FORMATS, Box, Capsule, Cylinder, Ellipsoid, Inertia, Mesh, Sphere, Triangles
from heavytop.system.description.shapes import distinct_faces

Shape = Box | Capsule | Cylinder | Ellipsoid | Mesh | Sphere | Triangles
DENSITY = 1000.0
LAST_VISIBLE = 2
"""Groups of geoms above are hidden in MuJoCo's viewer; models have their collision geometry there."""
MESH_INERTIAS = ("legacy", "exact", "convex", "shell")
"""Rules for the inertia of a mesh, see :func:`mesh_moments_by`."""


@dataclass(frozen=True, eq=False)
class MeshAsset:
    """A mesh of the file: its triangles, None if they are not read for the ``reason``; its pose and the rule for its inertia."""

    shape: Mesh | Triangles | None
    pose: np.ndarray
    rule: str
    reason: str = ""


@dataclass(eq=False)
class Assets:
    """Meshes, colours and other models by name."""

    paths: AssetPaths
    settings: CompilerSettings
    defaults: Defaults
    report: TransferReport
    read_model: Callable[[Element], Any]
    """Reads the model of an element <model>."""
    meshes: dict[str, MeshAsset] = field(default_factory=dict)
    colors: dict[str, Color] = field(default_factory=dict)
    models: dict[str, Element] = field(default_factory=dict)
    fields: dict[str, Element] = field(default_factory=dict)
    """Height fields."""

    def read(self, asset: Element) -> None:
        """Read the meshes, materials and models of an <asset>."""
        for element in asset.children:
            if element.tag == "mesh":
                self._mesh(self.defaults.apply(element, None))
            elif element.tag == "material":
                self.colors[element.get("name") or ""] = _color(self.defaults.apply(element, None))
            elif element.tag == "hfield":
                self.fields[element.get("name") or Path(element.get("file") or "").stem] = element
            elif element.tag == "model":
                self.models[element.get("name") or Path(element.string("file")).stem] = element

    def _mesh(self, e: Element) -> None:
        file = e.get("file")
        name = e.get("name") or (Path(file).stem if file else "")
        # a point x of the file becomes S R^T (x - p): the scale acts in axes of the mesh
        R = quaternion.rotation_from_quaternion(quaternion.normalize(e.numbers("refquat", 4, (1, 0, 0, 0))))
        scale = e.numbers("scale", 3, (1, 1, 1))
        if not np.allclose(R, np.eye(3), rtol=0, atol=1e-12) and np.ptp(scale):
            raise e.error("a mesh that is turned by refquat and scaled differently along its axes is not read.")
        pose = se3.pose(R.T, -scale * (R.T @ e.numbers("refpos", 3, (0, 0, 0))))
        rule = e.get("inertia", "exact" if self.settings.exact_meshes else "legacy") or "legacy"
        if rule not in MESH_INERTIAS:
            raise e.error(f"inertia must be one of {', '.join(MESH_INERTIAS)}, got {rule!r}.")
        mesh, reason = None, "only meshes from files or with vertices are read"
        if e.get("vertex") is not None:
            mesh = _inline_mesh(e, scale)
        elif file is not None:
            folder = self.settings.mesh_folder
            file = Path(file).name if self.settings.strips_paths else file
            found, reason = self.paths.find(f"{folder.rstrip('/')}/{file}" if folder else file, Path(e.file).parent)
            if found is not None and found.suffix.lower() not in MESH_FORMATS:
                found, reason = None, f"the format {found.suffix!r} is not read"
            if found is not None:
                x, y, z = scale.tolist()
                mesh = Mesh(str(found), (x, y, z))
        if mesh is None:
            self.report.lost("mesh", name, e.where, reason)
        self.meshes[name] = MeshAsset(mesh, pose, rule, reason)

    def height_field(self, e: Element) -> Box:
        """The box by which MuJoCo computes the inertia of a height field."""
        name = e.get("hfield") or ""
        if name not in self.fields:
            raise e.error(f"names the height field {name!r}, which is not an asset.")
        x, y, top, base = self.fields[name].numbers("size", 4).tolist()
        return Box((2 * x, 2 * y, top / 2 + base))

    def mesh(self, e: Element) -> MeshAsset:
        """The mesh that a geom names."""
        name = e.get("mesh") or ""
        if name not in self.meshes:
            raise e.error(f"names the mesh {name!r}, which is not an asset.")
        return self.meshes[name]


def _inline_mesh(e: Element, scale: np.ndarray) -> Triangles:
    """A mesh with its vertices in the file; without faces the convex hull of them."""
    vertices = e.numbers("vertex")
    if len(vertices) < 12 or len(vertices) % 3:
        raise e.error(f"vertex must hold three numbers for each of at least four points, got {len(vertices)}.")
    vertices = vertices.reshape(-1, 3) * scale
    faces = e.numbers("face", None, ())
    if len(faces) % 3 or np.any(faces != np.round(faces)):
        raise e.error("face must hold three numbers of vertices for each triangle.")
    faces = faces.reshape(-1, 3).astype(int)
    try:
        if not len(faces):
            return Triangles(vertices, hull_faces(vertices))
        return Triangles(vertices, faces if np.prod(scale) > 0 else faces[:, ::-1])
    except ModelError as error:
        raise e.error(str(error)) from None


def hull_faces(vertices: np.ndarray) -> np.ndarray:
    """Triangles (m, 3) of the convex hull of points (n, 3), anticlockwise from outside."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(vertices)
    except QhullError:
        raise ModelError("its points lie in a plane, so that they have no convex hull.") from None
    corners = vertices[hull.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outwards = np.vecdot(normals, hull.equations[:, :3])[:, None] > 0
    return np.where(outwards, hull.simplices, hull.simplices[:, ::-1])


def _color(e: Element) -> Color:
    red, green, blue, opacity = np.clip(e.numbers("rgba", 4, (1, 1, 1, 1)), 0, 1).tolist()
    return red, green, blue, opacity


def filters(e: Element) -> Filters:
    """The kind of a geom in contacts and the kinds that it touches, as bits."""
    return int(e.number("contype", 1)), int(e.number("conaffinity", 1))


def touches(e: Element) -> bool:
    """Whether a geom takes part in contacts."""
    return any(filters(e))


def slide_friction(e: Element) -> float:
    """Coefficient of friction of a geom, 1 by default."""
    return float(e.numbers("friction", None, (1.0,))[0])


def rank(e: Element) -> tuple[int, bool]:
    """The priority of a geom, and whether it has no friction (condim 1)."""
    return int(e.number("priority", 0)), e.number("condim", 3) == 1


@dataclass(frozen=True, eq=False)
class Geom:
    """A shape at a pose in the frame of its body; ``shape`` is None for one that is not read, for the reason ``missing``."""

    element: Element
    shape: Shape | None
    pose: np.ndarray
    rule: str = "legacy"
    missing: str = ""
    is_drawn: bool = True

    def visuals(self, colors: Mapping[str, Color]) -> list[Visual]:
        """Its look, if there is one."""
        e = self.element
        color = _color(e) if e.get("rgba") else colors.get(e.get("material") or "")
        return (
            []
            if self.shape is None or not self.is_drawn
            else [
                Visual(
                    self.shape,
                    self.pose,
                    color,
                    e.number("group", 0) > LAST_VISIBLE,
                    touches(e),
                    slide_friction(e),
                    name_of(e),
                    filters(e),
                    e.number("margin", 0.0),
                    *rank(e),
                )
            ]
        )

    @property
    def is_weightless(self) -> bool:
        """Whether its mass is zero."""
        e = self.element
        return e.number("mass") == 0 if e.get("mass") is not None else e.number("density", DENSITY) == 0

    def inertia(self, groups: tuple[float, float], report: TransferReport) -> Inertia | None:
        """Its inertia in the body frame, by mass if given, else by density; None for a weightless geom or one of another group."""
        e = self.element
        mass, density = e.number("mass") if e.get("mass") is not None else None, e.number("density", DENSITY)
        if (mass or 0) < 0 or density < 0:
            raise e.error("mass and density must not be negative.")
        if self.is_weightless or not groups[0] <= e.number("group", 0) <= groups[1]:
            return None
        if self.shape is None:
            raise e.error(f"{self.missing}, so that its inertia is unknown. Give the body an <inertial>.")
        if e.get("shellinertia", "false") == "true":
            raise e.error("shellinertia is not read: give the body an <inertial>.")
        try:
            if isinstance(self.shape, Mesh | Triangles):
                volume, center, moment = self._mesh_moments(self.shape, report)
            else:
                volume, center, moment = self.shape.unit_moments()
        except HeavytopError as error:
            raise e.error(str(error)) from None
        filled = density if mass is None else mass / volume
        return Inertia(filled * volume, center, filled * moment).shifted(self.pose)

    def _mesh_moments(self, mesh: Mesh | Triangles, report: TransferReport) -> tuple[float, np.ndarray, np.ndarray]:
        vertices, faces = mesh.triangles
        kept = distinct_faces(vertices, faces)
        if len(kept) < len(faces):
            note = f"{len(faces) - len(kept)} of its {len(faces)} faces are copies of others and are left out of its inertia"
            report.changed("mesh", self.element.get("mesh") or "", self.element.where, note)
        try:
            return mesh_moments_by(self.rule, vertices, kept)
        except ModelError as error:
            name = mesh.path if isinstance(mesh, Mesh) else self.element.get("mesh")
            raise ModelError(f"mesh {name!r}: {error}") from None


def mesh_moments_by(rule: str, vertices: np.ndarray, faces: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume (area for "shell"), centre and moment about it of a mesh, by a rule of MuJoCo.

    "exact": of the enclosed solid; "convex": of its hull; "legacy": a sum over pyramids from the centroid of the surface to each face, then
    from the centre, which all count positively, so that concave and open meshes have too much; "shell": of the surface.
    """
    if rule == "convex":
        faces = hull_faces(vertices)
    corners = vertices[faces]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    sizes, middles = np.linalg.norm(area, axis=1), corners.mean(axis=1)

    def weights(apex: np.ndarray) -> np.ndarray:
        """Volume of the pyramid over each face, or its area."""
        if rule == "shell":
            return sizes
        volumes = np.vecdot(middles - apex, area) / 3
        return np.abs(volumes) if rule == "legacy" else volumes

    centroid = sizes @ middles / sizes.sum()
    w = weights(centroid)
    if not w.sum() > 1e-15:
        raise ModelError(
            "it has no volume or its faces point inwards, so it has no inertia; inertia='shell' uses its surface."
        )
    center = w @ (0.75 * middles + 0.25 * centroid) / w.sum()
    w, x = weights(center), corners - center
    s = x.sum(axis=1)
    # pyramid (0, a, b, c): second moment w/20 (s s^T + a a^T + b b^T + c c^T), s = a + b + c; triangle: w/12
    products = np.einsum("n,ni,nj->ij", w, s, s) + np.einsum("n,nki,nkj->ij", w, x, x)
    products /= 12 if rule == "shell" else 20
    return float(w.sum()), center, np.trace(products) * np.eye(3) - products


def read_geom(e: Element, at: np.ndarray, assets: Assets) -> Geom | None:
    """The geom of an element with applied defaults, None for a plane; ``at`` is the enclosing frame in the frame of the body."""
    kind = e.get("type") or "sphere"
    if kind == "plane":
        return None
    try:
        pose = assets.settings.pose(e)
        if kind == "hfield":
            return Geom(e, assets.height_field(e), at @ pose, is_drawn=False)
        if kind == "sdf":
            assets.report.lost("geom", e.get("name") or "", e.where, "a geom given by a signed distance is not read")
            return Geom(e, None, at @ pose, missing="a geom given by a signed distance is not read")
        if e.get("mesh"):
            asset = assets.mesh(e)
            if asset.shape is None:
                return Geom(e, None, at @ pose, missing=f"the mesh {e.get('mesh')!r} is not read ({asset.reason})")
            if kind == "mesh":
                return Geom(e, asset.shape, at @ pose @ asset.pose, asset.rule)
            try:
                shape, fitted = _fitted(e, kind, asset, assets.settings)
            except HeavytopError as error:
                note = f"it cannot be fitted to its mesh: {error}"
                assets.report.lost("geom", e.get("name") or "", e.where, note)
                return Geom(e, None, at @ pose, missing=note)
            return Geom(e, shape, at @ pose @ fitted)
        if kind == "mesh":
            raise e.error("needs the attribute 'mesh'.")
        shape, pose = _shape(e, kind, pose)
    except FileFormatError:
        raise
    except HeavytopError as error:
        raise e.error(str(error)) from None
    return Geom(e, shape, at @ pose)


def between_points(e: Element) -> tuple[np.ndarray, float]:
    """The pose of an element whose z axis is given by ``fromto``, and its length."""
    ends = e.numbers("fromto", 6)
    along = ends[:3] - ends[3:]
    length = float(np.linalg.norm(along))
    if length < 1e-14:
        raise e.error("the two points of fromto coincide.")
    return se3.pose(smallest_turn(along / length), (ends[:3] + ends[3:]) / 2), length


def _shape(e: Element, kind: str, pose: np.ndarray) -> tuple[Shape, np.ndarray]:
    size = e.numbers("size", None, ())
    length = None
    if e.get("fromto") is not None and kind in ("capsule", "cylinder", "box", "ellipsoid"):
        pose, length = between_points(e)
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


def _fitted(e: Element, kind: str, asset: MeshAsset, settings: CompilerSettings) -> tuple[Shape, np.ndarray]:
    """The primitive that fits a mesh, and its pose in the frame of the file: by the box of equal inertia or, with fitaabb, by its extent.

    Axes are the principal ones of the mesh, the last with the least moment; a box with half edges b has I_i = V (b_j^2 + b_k^2) / 3.
    """
    assert asset.shape is not None
    vertices, faces = asset.shape.triangles
    vertices = se3.transform(asset.pose, vertices)
    volume, center, moment = mesh_moments_by(asset.rule, vertices, distinct_faces(vertices, faces))
    values, axes = np.linalg.eigh(moment)
    values, axes = values[::-1], axes[:, ::-1]
    axes = axes * np.linalg.det(axes)
    middle = np.zeros(3)
    if not settings.fits_extent:
        b = np.sqrt(np.maximum(1.5 * (values.sum() - 2 * values) / volume, 0.0))
        radius, half = {"sphere": (b.mean(), 0.0), "capsule": (b[:2].mean(), b[2] - b[:2].mean() / 2)}.get(
            kind, (b[:2].mean(), b[2])
        )
    else:
        inside = (vertices - center) @ axes
        middle = (inside.min(axis=0) + inside.max(axis=0)) / 2
        b = np.ptp(inside, axis=0) / 2
        radius = b.max() if kind == "sphere" else b[:2].max()
        half = b[2] - radius if kind == "capsule" else b[2]
    scale = e.number("fitscale", 1.0)
    sizes = {"box": b, "ellipsoid": b, "sphere": [radius]}.get(kind, [radius, max(float(half), 0.0)])
    sized = replace(e, attributes={"size": spaced(scale * np.asarray(sizes))})
    return _shape(sized, kind, np.eye(4))[0], se3.pose(axes, center + axes @ middle)
