"""Shapes of bodies as data, for drawings and for the inertia of homogeneous bodies.

A shape lives in its own frame: boxes, spheres, cylinders and capsules are centred at the origin, with the axis of revolution along z.
Shapes do not enter the equations; :meth:`heavytop.Inertia.of` turns one into an inertia.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from heavytop._arrays import Floats, constant, freeze_fields, numbers
from heavytop.errors import FileFormatError, ModelError, ShapeError
from heavytop.geometry import so3

MESH_FORMATS = (".stl", ".obj", ".dae", ".glb", ".gltf", ".ply", ".off", ".msh")
MOST_NODES = 100_000
"""Nodes of a COLLADA file with all copies."""
LARGEST_MESH = 100_000_000
"""Bytes of a mesh file."""
CLOSED_TOLERANCE = 1e-6


class Shape(Protocol):
    """A solid with known moments at unit density."""

    def unit_moments(self) -> tuple[float, Floats, Floats]:
        """Volume (m^3), its centre (3,) (m) and its moment matrix (3, 3) about the centre (m^5)."""
        ...


class _Solid:
    """A shape whose fields are positive lengths in m: numbers, or three of them for ``size`` and ``radii``."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            numbers, count = np.asarray(value, dtype=float), 3 if name in ("size", "radii") else None
            if numbers.shape != (() if count is None else (count,)) or not np.all(np.isfinite(numbers) & (numbers > 0)):
                noun = "a positive number" if count is None else f"{count} positive numbers"
                raise ModelError(f"{type(self).__name__}: {name} must be {noun} in m, got {value!r}.")
            if count is not None:
                object.__setattr__(self, name, tuple(numbers.tolist()))


@dataclass(frozen=True)
class Box(_Solid):
    """A box with edge lengths ``size`` (3,) in m, centred at the origin.

    >>> Box((1.0, 2.0, 3.0)).unit_moments()[0]
    6.0
    """

    size: tuple[float, float, float]

    def unit_moments(self) -> tuple[float, Floats, Floats]:
        x, y, z = self.size
        volume = x * y * z
        return volume, np.zeros(3), volume / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])


@dataclass(frozen=True)
class Sphere(_Solid):
    """A sphere around the origin; ``radius`` in m.

    >>> round(Sphere(radius=1.0).unit_moments()[0], 6)
    4.18879
    """

    radius: float

    def unit_moments(self) -> tuple[float, Floats, Floats]:
        volume = 4 / 3 * np.pi * self.radius**3
        return volume, np.zeros(3), 0.4 * volume * self.radius**2 * np.eye(3)


@dataclass(frozen=True)
class Ellipsoid(_Solid):
    """An ellipsoid around the origin with half axes ``radii`` (3,) in m.

    >>> Ellipsoid((0.1, 0.2, 0.3))
    Ellipsoid(radii=(0.1, 0.2, 0.3))
    """

    radii: tuple[float, float, float]

    def unit_moments(self) -> tuple[float, Floats, Floats]:
        a, b, c = self.radii
        volume = 4 / 3 * np.pi * a * b * c
        return volume, np.zeros(3), volume / 5 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b])


@dataclass(frozen=True)
class Cylinder(_Solid):
    """A cylinder along z, centred at the origin; ``radius`` and ``length`` in m.

    >>> round(Cylinder(radius=1.0, length=2.0).unit_moments()[0], 6)
    6.283185
    """

    radius: float
    length: float

    def unit_moments(self) -> tuple[float, Floats, Floats]:
        r, h = self.radius, self.length
        volume = np.pi * r * r * h
        across = volume * (3 * r * r + h * h) / 12
        return volume, np.zeros(3), np.diag([across, across, volume * r * r / 2])


@dataclass(frozen=True)
class Capsule(_Solid):
    """A cylinder along z of the given ``length`` between two half spheres of the same ``radius``, centred at the origin.

    >>> round(Capsule(radius=0.5, length=1.0).unit_moments()[0], 6)
    1.308997
    """

    radius: float
    length: float

    def unit_moments(self) -> tuple[float, Floats, Floats]:
        r, h = self.radius, self.length
        barrel, ends = np.pi * r * r * h, 4 / 3 * np.pi * r**3
        along = barrel * r * r / 2 + 0.4 * ends * r * r
        # half spheres: 83/320 m r^2 about their own centre, which lies 3/8 r beyond the end of the barrel
        across = barrel * (3 * r * r + h * h) / 12 + ends * (83 / 320 * r * r + (h / 2 + 3 / 8 * r) ** 2)
        return barrel + ends, np.zeros(3), np.diag([across, across, along])


class _Surface:
    """A surface of triangles; if it is closed it has the moments of the solid inside."""

    @property
    def triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices (n, 3) in m and triangles (m, 3)."""
        raise NotImplementedError

    def _title(self) -> str:
        return "a surface of triangles"

    def unit_moments(self) -> tuple[float, Floats, Floats]:
        vertices, faces = self.triangles
        faces = distinct_faces(vertices, faces)
        area = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
        gap = np.linalg.norm(area.sum(axis=0)) / max(np.linalg.norm(area, axis=1).sum(), 1e-300)
        volume, center, moment = mesh_moments(vertices, faces)
        # a closed surface has int dA = 0 and int x dA^T = V 1; a tube without ends fulfils the first only
        spread = (vertices[faces].mean(axis=1) - center).T @ area / 2
        gap = max(
            gap,
            float(np.max(np.abs(spread - volume * np.eye(3)))) / max(abs(volume), float(np.trace(spread)) / 3, 1e-300),
        )
        if gap > CLOSED_TOLERANCE or volume <= 0:
            raise ModelError(
                f"{self._title()} is not closed (its faces leave a gap of {gap:.1e}) or is turned inside out (volume "
                f"{volume:.3g} m^3), so it has no inertia. Repair it, or give the inertia as numbers."
            )
        return volume, center, moment


@dataclass(frozen=True, eq=False)
class Triangles(_Surface):
    """Triangles given as arrays: ``vertices`` (n, 3) in m, ``faces`` (m, 3) with their indices, anticlockwise as seen from outside.

    >>> import heavytop as ht
    >>> corners = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    >>> round(ht.Triangles(corners, ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))).unit_moments()[0], 6)
    0.166667
    """

    vertices: Any
    faces: Any

    def __post_init__(self) -> None:
        vertices, faces = constant(self.vertices, "vertices"), np.array(self.faces)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.all(np.isfinite(vertices)):
            raise ModelError(f"Triangles: vertices must be finite, of shape (n, 3), got shape {vertices.shape}.")
        whole = faces.ndim == 2 and faces.shape[1] == 3 and len(faces) and np.issubdtype(faces.dtype, np.integer)
        if not whole or faces.min() < 0 or faces.max() >= len(vertices):
            raise ModelError(
                f"Triangles: faces must be whole numbers below {len(vertices)}, of shape (m, 3), got shape {faces.shape}."
            )
        faces.flags.writeable = False
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)

    @property
    def triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices (n, 3) in m and triangles (m, 3)."""
        return self.vertices, self.faces


@dataclass(frozen=True)
class Rim(_Solid):
    """The rim of a disc: a circle of ``radius`` around z in the plane z = 0, in m. For contacts; it has no volume.

    >>> Rim(0.04).radius
    0.04
    """

    radius: float


@dataclass(frozen=True)
class Bore(_Solid):
    """A round hole of ``radius`` in m along z, for a pin with clearance. For the partner of a contact; it has no volume.

    >>> Bore(0.06).radius
    0.06
    """

    radius: float


@dataclass(frozen=True)
class Points:
    """Points at ``positions`` (n, 3) in m, each with the same ``radius`` in m (0: sharp). For contacts; they have no volume.

    >>> Points([(0.1, 0.0, 0.0), (-0.1, 0.0, 0.0)], radius=0.01)
    Points(positions=((0.1, 0.0, 0.0), (-0.1, 0.0, 0.0)), radius=0.01)
    """

    positions: Any
    radius: float = 0.0

    def __post_init__(self) -> None:
        places = numbers(self.positions, "positions of Points")
        if places.ndim != 2 or places.shape[1] != 3 or not len(places) or not np.all(np.isfinite(places)):
            raise ModelError(f"Points: positions must be n points (n, 3) in m, finite, got {self.positions!r}.")
        if not np.isfinite(self.radius) or self.radius < 0:
            raise ModelError(f"Points: radius must not be negative, got {self.radius!r} m.")
        object.__setattr__(self, "positions", tuple(tuple(place) for place in places.tolist()))


@dataclass(frozen=True)
class Mesh(_Surface):
    """Triangles from a file (STL, OBJ, DAE, GLB, PLY, OFF, MuJoCo's MSH) in units of m, scaled by ``scale``.

    The file is read when the triangles are first needed, by trimesh.

    >>> Mesh("hull.stl").path
    'hull.stl'
    """

    path: str
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), (3,))
        if not np.all(np.isfinite(scale)) or np.any(scale == 0):
            raise ModelError(f"Mesh {str(self.path)!r}: scale must be finite and not zero, got {self.scale!r}.")
        object.__setattr__(self, "path", str(self.path))
        object.__setattr__(self, "scale", tuple(scale.tolist()))

    @cached_property
    def triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices (n, 3) in m and triangles (m, 3) of the file."""
        import trimesh

        path = Path(self.path)
        try:
            found = path.is_file()
        except (OSError, ValueError):  # an impossible file name
            found = False
        if not found:
            raise FileFormatError(f"mesh file {self.path!r} does not exist.")
        if path.suffix.lower() not in MESH_FORMATS:
            raise FileFormatError(f"mesh {self.path!r}: the format must be one of {', '.join(MESH_FORMATS)}.")
        if path.stat().st_size > LARGEST_MESH:
            raise FileFormatError(f"mesh {self.path!r} has more than {LARGEST_MESH} bytes.")
        try:  # from memory, without a resolver: references to other files are ignored
            content, frame = path.read_bytes(), np.eye(3)
            if path.suffix.lower() == ".dae":
                frame = _collada_frame(content, self.path)
                # materials are not used, and triangles with a missing one would be lost
                content = re.sub(rb"<bind_material\b.*?</bind_material>", b"", content, flags=re.DOTALL)
            if path.suffix.lower() == ".msh":
                vertices, faces = _mujoco_mesh(content)
            else:
                kind = path.suffix.lower().lstrip(".")
                loaded: Any = trimesh.load(BytesIO(content), file_type=kind, force="mesh", skip_materials=True)
                vertices, faces = (
                    np.asarray(loaded.vertices, dtype=float) @ frame.T,
                    np.asarray(loaded.faces, dtype=int),
                )
        except FileFormatError:
            raise
        except Exception as error:
            raise FileFormatError(f"mesh {self.path!r} cannot be read: {type(error).__name__}: {error}.") from error
        if not len(faces) or not np.all(np.isfinite(vertices)):
            raise FileFormatError(f"mesh {self.path!r} holds no triangles, or numbers that are not finite.")
        if np.prod(self.scale) < 0:
            faces = faces[:, ::-1]
        return constant(vertices * self.scale), faces

    def _title(self) -> str:
        return f"mesh {self.path!r}"


def _mujoco_mesh(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of MuJoCo's binary format: four counts, then vertices, normals, texture coordinates (float32) and triangles (int32)."""
    nvertex, nnormal, ntexture, nface = np.frombuffer(content, "<i4", 4).tolist()
    if min(nvertex, nnormal, ntexture, nface) < 0 or 16 + 12 * (nvertex + nnormal + nface) + 8 * ntexture != len(
        content
    ):
        raise ValueError("its size is not that of its counts")
    vertices = np.frombuffer(content, "<f4", 3 * nvertex, 16).reshape(-1, 3).astype(float)
    faces = np.frombuffer(content, "<i4", 3 * nface, len(content) - 12 * nface).reshape(-1, 3).astype(int)
    if nface and (faces.min() < 0 or faces.max() >= nvertex):
        raise ValueError("its triangles name vertices that do not exist")
    return vertices, faces


def distinct_faces(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Triangles without copies: the same three points in the same sense would count their volume again."""
    _, points = np.unique(vertices, axis=0, return_inverse=True)
    corners = np.reshape(points, -1)[faces]
    turned = np.take_along_axis(corners, (np.argmin(corners, axis=1)[:, None] + np.arange(3)) % 3, axis=1)
    _, first = np.unique(turned, axis=0, return_index=True)
    return faces if len(first) == len(faces) else faces[np.sort(first)]


UP_AXES = {
    "X_UP": np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]),
    "Y_UP": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "Z_UP": np.eye(3),
}
"""Rotation to axes with z up, by the up axis of a COLLADA file."""
NOT_TURNED = ("VCGLib", "MeshLab", "Assimp")
"""Programs that call every COLLADA file they write Y_UP, whatever its axes are."""


def _collada_frame(content: bytes, path: str) -> np.ndarray:
    """Matrix (3, 3) from coordinates of a COLLADA file to metres in axes with z up.

    Raises a FileFormatError for a document type, in which entities are declared, and for nodes whose copies of copies are too many.
    """
    from xml.parsers import expat

    parser = expat.ParserCreate()
    units: list[float] = []
    texts: dict[str, str] = {"up_axis": "", "authoring_tool": ""}
    reading = [""]
    parts: dict[str, list[str]] = {"": []}
    """Node -> nodes inside it, by their ids; "" is the document."""
    inside = [""]

    def reject(*_: object) -> None:
        raise FileFormatError(f"mesh {path!r}: document type declarations are not allowed. Remove them.")

    def start(tag: str, attributes: dict[str, str]) -> None:
        if (
            tag == "unit" and "meter" in attributes and not units
        ):  # the unit of the document precedes those of its parts
            units.append(float(attributes["meter"]))
        if tag in texts and not texts[tag]:
            reading[0] = tag
        if tag == "node":
            name = attributes.get("id") or f"<{len(parts)}>"
            parts[inside[-1]].append(name)
            parts.setdefault(name, [])
            inside.append(name)
        elif tag == "instance_node":
            parts[inside[-1]].append(attributes.get("url", "").removeprefix("#"))

    def end(tag: str) -> None:
        reading[0] = ""
        if tag == "node":
            inside.pop()

    def text(part: str) -> None:
        if reading[0]:
            texts[reading[0]] += part

    parser.StartDoctypeDeclHandler = reject
    parser.EntityDeclHandler = reject
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.Parse(content, True)
    if _expanded(parts) > MOST_NODES:
        raise FileFormatError(
            f"mesh {path!r}: its nodes contain each other, or more than {MOST_NODES} copies in total. Export it without instances."
        )
    unit = units[0] if units else 1.0
    if not np.isfinite(unit) or unit <= 0:
        raise FileFormatError(f"mesh {path!r}: its unit must be positive, got {unit!r} m.")
    if any(tool in texts["authoring_tool"] for tool in NOT_TURNED):
        return unit * np.eye(3)
    return unit * UP_AXES.get(texts["up_axis"].strip(), np.eye(3))


def _expanded(parts: dict[str, list[str]]) -> float:
    """Number of nodes with all copies; infinite if one contains itself."""
    counts: dict[str, float] = {}
    stack = [""]
    while stack:
        name = stack[-1]
        missing = [part for part in parts[name] if part in parts and part not in counts]
        if any(part in stack for part in missing):
            return float("inf")
        if missing:
            stack.append(missing[0])
            continue
        counts[name] = 1 + sum(counts.get(part, 1) for part in parts[name])
        stack.pop()
    return counts[""]


def mesh_moments(vertices: np.ndarray, faces: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume, centre and moment matrix about it of the solid that triangles enclose: a sum over tetrahedra with tip at the origin.

    A tetrahedron (0, a, b, c) has the volume d/6, d = a . (b x c), and the second moment d/120 (s s^T + a a^T + b b^T + c c^T),
    s = a + b + c.
    """
    origin = vertices.mean(axis=0)
    a, b, c = (vertices[faces[:, k]] - origin for k in range(3))
    d = np.vecdot(a, np.cross(b, c))
    volume, s = float(d.sum() / 6), a + b + c
    if volume == 0:
        return 0.0, origin, np.zeros((3, 3))
    center = (d[:, None] * s).sum(axis=0) / 24 / volume
    second = sum((d[:, None] * x).T @ x for x in (s, a, b, c)) / 120 - volume * np.outer(center, center)
    return volume, origin + center, so3.Vee(second)


@dataclass(frozen=True, eq=False)
class PlacedShape:
    """A shape on a body: its pose (4, 4) in the body frame and its colour (red, green, blue, opacity, each 0 to 1), or None."""

    body: str
    shape: Any
    at: Floats
    color: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        freeze_fields(self)


def color_of(color: Any) -> tuple[float, float, float, float] | None:
    """Three or four numbers from 0 to 1, or "#rrggbb", as (red, green, blue, opacity)."""
    if color is None:
        return None
    if isinstance(color, str):
        digits = color.removeprefix("#")
        try:
            values: Sequence[float] = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
        except ValueError:
            values = ()
        if len(digits) != 6 or len(values) != 3:
            raise ModelError(f"color must be a code such as '#3366cc' or three numbers from 0 to 1, got {color!r}.")
    else:
        values = [float(c) for c in color]
    if len(values) not in (3, 4) or not all(0 <= c <= 1 for c in values):
        raise ShapeError(f"color must be three or four numbers from 0 to 1, got {color!r}.")
    red, green, blue, *opacity = values
    return red, green, blue, opacity[0] if opacity else 1.0
