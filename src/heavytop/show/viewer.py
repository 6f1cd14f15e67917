"""The 3-D part of the page: all meshes as a K3D snapshot, and K3D's viewer as compressed source.

K3D contains three.js, camera controls and a decoder for its snapshots in one script that works offline. Its time series are not used: they store
a matrix per object and time under a text key, rebuild objects when the time changes, and support neither attached parts nor growing curves.
The script of the page moves the three.js objects of K3D (``K3DInstance.getWorld().ObjectsById``) instead, found by the names given here.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from heavytop.errors import MissingPackageError
from heavytop.show import palette
from heavytop.show.meshes import Floats, Surface, cone, cylinder, disc, merge, revolve, sweep
from heavytop.show.pack import interpolate
from heavytop.show.scene import Body, Scene, Spin

TRAIL_SAMPLES = 700
TRAIL_SIDES = 6
SETTINGS = {
    "cameraAutoFit": False,
    "gridAutoFit": False,
    "gridVisible": False,
    "menuVisibility": False,
    "axesHelper": 0,
    "clearColor": -1,
    "camera": [],
    "cameraMode": "orbit",
    "cameraFov": 38.0,
    "cameraDampingFactor": 0.0,
    "lighting": 1.5,
    "antialias": 3,
    "logarithmicDepthBuffer": False,
    "renderOnChange": False,
}


@dataclass(frozen=True)
class Extent:
    """Extent of the motion: the sphere around it, the size of the followed body, and the direction of view."""

    center: tuple[float, float, float]
    radius: float
    body: float
    azimuth: float
    elevation: float


def extent_of(scene: Scene) -> Extent:
    """The sphere around all bodies and trails, and the direction from which the motion appears widest."""
    moving = [
        (b.motion, b.radius) for b in (*scene.bodies.values(), *scene.ghosts.values()) if not isinstance(b.motion, Spin)
    ]
    points = np.concatenate([poses[:, :3, 3] for poses, _ in moving] + [t.points for t in scene.trails.values()])
    center = (points.min(axis=0) + points.max(axis=0)) / 2
    size = _size_with_parts(scene) or 1.0
    radius = float(np.max(np.linalg.norm(points - center, axis=-1))) + max(size, *(radius for _, radius in moving))
    # view across the principal horizontal direction, a quarter of a right angle off, so that depth is visible
    variances, directions = np.linalg.eigh(np.cov((points - center)[:, :2].T))
    x, y = directions[:, -1]
    sign = -1.0 if x > 0 or (x == 0 and y > 0) else 1.0
    across = np.arctan2(sign * x, -sign * y)
    # view a motion in a horizontal plane from above, one in a vertical plane from the side
    depth, height = np.sqrt(max(float(variances[0]), 0.0)), float(np.std(points[:, 2]))
    elevation = 0.2 + 0.4 * depth / (depth + height + 0.3 * size)
    return Extent(tuple(center.tolist()), radius, size, float(across + np.deg2rad(24)), float(elevation))


def _size_with_parts(scene: Scene) -> float:
    """Radius of the followed body with its turning parts."""
    size = scene.bodies[str(scene.follow)].radius
    for body in scene.bodies.values():
        if isinstance(body.motion, Spin) and body.motion.parent == scene.follow:
            size = max(size, float(np.linalg.norm(body.motion.mount[:3, 3])) + body.radius)
    return size


def _reach(scene: Scene) -> float:
    """Radius around the followed body within which all bodies stay that move with it."""
    followed = scene.bodies[str(scene.follow)]
    poses, found = followed.motion, followed.radius
    for body in scene.bodies.values():
        if isinstance(body.motion, Spin) or isinstance(poses, Spin) or not np.any(np.ptp(body.motion, axis=0)):
            continue
        apart = np.linalg.norm(body.motion[:, :3, 3] - poses[:, :3, 3], axis=-1)
        found = max(found, float(np.max(apart)) + body.radius)
    return found


def scene_meshes(scene: Scene) -> dict[str, Surface]:
    """Every mesh of the scene by its name in the script of the page."""
    extent = extent_of(scene)
    meshes: dict[str, Surface] = {}
    for group, bodies in (("body", scene.bodies), ("ghost", scene.ghosts)):
        for name, body in bodies.items():
            meshes.update(_body_meshes(group, name, body))
    width = trail_width(extent)
    for name, trail in scene.trails.items():
        meshes[f"trail:{name}"] = _trail_mesh(scene.times, trail.points, width, trail.role, trail.dashed)
    thickness = 0.022 * extent.body
    for name, arrow in scene.arrows.items():
        meshes[f"arrow:{name}:shaft"] = cylinder(thickness, 1.0, arrow.role, 14).moved(at=(0, 0, 0.5))
        meshes[f"arrow:{name}:head"] = cone(2.6 * thickness, 6.5 * thickness, arrow.role, 18)
    if scene.ground is not None:
        meshes.update(_ground_meshes(scene, extent))
    return meshes


def trail_width(extent: Extent) -> float:
    """Radius of the tubes of paths."""
    return min(0.006 * extent.radius, 0.032 * extent.body)


def _body_meshes(group: str, name: str, body: Body) -> dict[str, Surface]:
    meshes = {}
    parts = merge(body.meshes)
    if group == "ghost":
        parts = merge([part.painted("ghost") for part in parts.values()])
    for role, mesh in parts.items():
        meshes[f"{group}:{name}:{role}"] = mesh
    if group == "body":
        if isinstance(body.motion, Spin):
            meshes[f"blur:{name}:blur"] = disc(body.radius, 0.02 * body.radius, "blur")
        meshes[f"shadow:{name}:shadow"] = merge([part.painted("shadow") for part in parts.values()])["shadow"]
    return meshes


def _trail_mesh(times: Floats, points: Floats, width: float, role: str, dashed: bool) -> Surface:
    # equidistant in time, so that a share of the time is the same share of the triangles
    at = np.linspace(times[0], times[-1], min(TRAIL_SAMPLES, max(len(times), 2)))
    curve = interpolate(times, points, at)
    if not dashed:
        return sweep(curve, width, TRAIL_SIDES, role=role)
    length = float(np.sum(np.linalg.norm(np.diff(curve, axis=0), axis=-1)))
    return sweep(curve, 0.75 * width, TRAIL_SIDES, dash=max(length / 120, 6 * width), role=role)


def grid_spacing(radius: float) -> float:
    """The distance of grid lines: 1, 2 or 5 times a power of ten, about a sixth of the radius.

    >>> [grid_spacing(r) for r in (0.5, 3.0, 10.0, 30.0)]
    [0.1, 0.5, 2.0, 5.0]
    """
    target = radius / 6
    power = 10.0 ** np.floor(np.log10(target))
    return float(np.round(next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= 0.8 * target), 12))


def platform_radius(extent: Extent) -> float:
    """Radius of the ground, a whole number of grid cells."""
    wanted = max(1.25 * extent.radius, 4.5 * extent.body)
    spacing = grid_spacing(wanted)
    return float(np.ceil(wanted / spacing) * spacing)


def _ground_meshes(scene: Scene, extent: Extent) -> dict[str, Surface]:
    """A round platform with grid lines and the axes through the world's origin, all at the height of the ground."""
    radius, height = platform_radius(extent), float(scene.ground or 0.0)
    spacing = grid_spacing(radius)
    x0, y0 = (np.round(np.array(extent.center[:2]) / spacing) * spacing).tolist()
    platform = disc(radius, 0.004 * radius, "ground", 96).moved(at=(x0, y0, height - 0.002 * radius))
    lines = [revolve([(radius, 0.0), (0.996 * radius, 0.0)], 96, "grid").moved(at=(x0, y0, height))]
    axes = []
    for k in range(-round(radius / spacing), round(radius / spacing) + 1):
        for direction in (0, 1):
            offset = k * spacing
            half = np.sqrt(max(radius**2 - offset**2, 0.0))
            if half < spacing / 2:
                continue
            coordinate = (y0 if direction == 0 else x0) + offset
            is_axis = abs(coordinate) < 1e-9
            strip = _strip(direction, (x0, y0), offset, half, (0.0026 if is_axis else 0.0014) * radius, height)
            (axes if is_axis else lines).append(strip.painted("axis" if is_axis else "grid"))
    meshes = {"ground:platform": platform, "ground:grid": merge(lines)["grid"]}
    if axes:
        meshes["ground:axis"] = merge(axes)["axis"]
    return meshes


def _strip(
    direction: int, center: tuple[float, float], offset: float, half: float, width: float, height: float
) -> Surface:
    along, across = np.eye(3)[direction], np.eye(3)[1 - direction]
    middle = np.array([*center, height]) + offset * across
    corners = [middle + a * half * along + b * width * across for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    faces = [(0, 1, 2), (0, 2, 3)] if direction == 0 else [(0, 2, 1), (0, 3, 2)]
    return Surface(np.array(corners), np.tile([0.0, 0.0, 1.0], (4, 1)), np.array(faces), "grid")


def snapshot(meshes: dict[str, Surface]) -> bytes:
    """The meshes as K3D's compressed binary snapshot, without its grid, axes, menu and automatic camera."""
    import msgpack

    objects: list[dict[str, Any]] = []
    for name, mesh in meshes.items():
        color, _, opacity = palette.look(mesh.role)
        look = {
            "color": int(color[1:], 16),
            "opacity": opacity,
            "roughness": 0.62,
            "side": "double",
            "flat_shading": False,
        }
        arrays = {"vertices": _array(mesh.vertices, "float32"), "indices": _array(mesh.faces, "uint32")}
        objects.append(_object(name, "Mesh") | look | arrays | {"normals": _array(mesh.normals, "float32")})
    # the page uses the unlit material of this line for ground, shadows and paths
    empty = dict.fromkeys(("attribute", "color_map", "colors"), _array(np.zeros(0), "float32"))
    line = {"vertices": _array(np.zeros((2, 3)), "float32"), "shader": "simple", "color": 255, "opacity": 1.0}
    objects.append(_object("plain", "Line") | line | empty)
    for number, made in enumerate(objects, start=1):
        made["id"] = number
    content = {"objects": objects, "chunkList": {}, "plot": SETTINGS}
    packed: Any = msgpack.packb(content)
    return zlib.compress(packed, 9)


def _object(name: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "visible": True,
        "color_range": [],
        "model_matrix": _array(np.eye(4), "float32"),
    }


def _array(values: Floats, kind: str) -> dict[str, Any]:
    return {"data": np.ascontiguousarray(values, kind).tobytes(), "dtype": kind, "shape": list(values.shape)}


@cache
def viewer_source() -> bytes:
    """K3D's standalone viewer, compressed with zlib: wheels contain it, a checkout reads it from the package k3d, without importing that."""
    bundled = Path(__file__).with_name("k3d") / "viewer.js.z"
    if bundled.is_file():
        return bundled.read_bytes()
    found = find_spec("k3d")
    if found is None or found.origin is None:
        raise MissingPackageError("a page needs K3D's viewer, which a checkout does not contain: pip install k3d.")
    return zlib.compress(Path(found.origin).with_name("static").joinpath("standalone.js").read_bytes(), 9)


def view_of(scene: Scene) -> dict[str, Any]:
    """Data for the camera and the grid of the page."""
    extent = extent_of(scene)
    platform = platform_radius(extent)
    return {
        "center": list(extent.center),
        "radius": extent.radius,
        "body": extent.body,
        "near": min(_reach(scene), extent.radius),
        "azimuth": extent.azimuth,
        "elevation": extent.elevation,
        "trailWidth": trail_width(extent),
        "platform": platform,
        "spacing": grid_spacing(platform),
        "trailSegments": min(TRAIL_SAMPLES, max(len(scene.times), 2)) - 1,
        "trailIndices": TRAIL_SIDES * 6,
        "arrowHead": 6.5 * 0.022 * extent.body,
    }
