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

from heavytop._arrays import Floats, constant, freeze_fields
from heavytop.errors import FileFormatError, ModelError, ShapeError
from heavytop.geometry import so3

MESH_FORMATS = (".stl", ".obj", ".dae", ".glb", ".gltf", ".ply", ".off")
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


@dataclass(frozen=True)
class Mesh:
    """Triangles from a file (STL, OBJ, DAE, GLB, PLY, OFF) in units of m, scaled by ``scale``.

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
            content, unit = path.read_bytes(), 1.0
            if path.suffix.lower() == ".dae":
                unit = _collada_unit(content, self.path)
                # materials are not used, and triangles with a missing one would be lost
                content = re.sub(rb"<bind_material\b.*?</bind_material>", b"", content, flags=re.DOTALL)
            kind = path.suffix.lower().lstrip(".")
            loaded: Any = trimesh.load(BytesIO(content), file_type=kind, force="mesh", skip_materials=True)
            vertices, faces = unit * np.asarray(loaded.vertices, dtype=float), np.asarray(loaded.faces, dtype=int)
        except FileFormatError:
            raise
        except Exception as error:
            raise FileFormatError(f"mesh {self.path!r} cannot be read: {type(error).__name__}: {error}.") from error
        if not len(faces) or not np.all(np.isfinite(vertices)):
            raise FileFormatError(f"mesh {self.path!r} holds no triangles, or numbers that are not finite.")
        if np.prod(self.scale) < 0:
            faces = faces[:, ::-1]
        return constant(vertices * self.scale), faces

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
                f"mesh {self.path!r} is not closed (its faces leave a gap of {gap:.1e}) or is turned inside out (volume "
                f"{volume:.3g} m^3), so it has no inertia. Repair it, or give the inertia as numbers."
            )
        return volume, center, moment


def distinct_faces(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Triangles without copies: the same three points in the same sense would count their volume again."""
    _, points = np.unique(vertices, axis=0, return_inverse=True)
    corners = np.reshape(points, -1)[faces]
    turned = np.take_along_axis(corners, (np.argmin(corners, axis=1)[:, None] + np.arange(3)) % 3, axis=1)
    _, first = np.unique(turned, axis=0, return_index=True)
    return faces if len(first) == len(faces) else faces[np.sort(first)]


def _collada_unit(content: bytes, path: str) -> float:
    """Metres per unit of a COLLADA file.

    Raises a FileFormatError for a document type, in which entities are declared, and for nodes whose copies of copies are too many.
    """
    from xml.parsers import expat

    parser = expat.ParserCreate()
    units: list[float] = []
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
        if tag == "node":
            name = attributes.get("id") or f"<{len(parts)}>"
            parts[inside[-1]].append(name)
            parts.setdefault(name, [])
            inside.append(name)
        elif tag == "instance_node":
            parts[inside[-1]].append(attributes.get("url", "").removeprefix("#"))

    def end(tag: str) -> None:
        if tag == "node":
            inside.pop()

    parser.StartDoctypeDeclHandler = reject
    parser.EntityDeclHandler = reject
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(content, True)
    if _expanded(parts) > MOST_NODES:
        raise FileFormatError(
            f"mesh {path!r}: its nodes contain each other, or more than {MOST_NODES} copies in total. Export it without instances."
        )
    unit = units[0] if units else 1.0
    if not np.isfinite(unit) or unit <= 0:
        raise FileFormatError(f"mesh {path!r}: its unit must be positive, got {unit!r} m.")
    return unit


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
