"""Triangles of bodies: primitives from formulas, mesh files simplified to the size of a page, solids of equivalent inertia.

A body of which only the inertia is known looks like the homogeneous solid with the same moments: three equal principal moments give a ball, two
a cylinder, three different ones a box. Along each principal axis the mean square extent is s_i = (J_j + J_k - J_i) / (2 m); a ball has
s = r^2/5, a cylinder s = r^2/4 across and h^2/12 along its axis, a box s = a^2/12. A disc, a rod or a ball therefore appears in its true size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heavytop.errors import HeavytopError
from heavytop.geometry import se3, so3
from heavytop.show.meshes import Floats, Surface, box, cylinder, disc, revolve, sphere
from heavytop.system import PlacedShape
from heavytop.system.description import shapes

MOST_FACES = 24_000
"""Triangles of all mesh files of a page."""
EQUAL = 0.04
"""Mean square extents that differ by less than this share of the largest one are considered equal."""
THINNEST = 0.035
"""Least thickness of a solid as a share of its largest dimension, so that ideal discs and rods are visible."""
SLENDER = 4.0
"""Ratio of height and radius above which a cylinder is a rod, without a stripe."""
CREASE = np.cos(np.deg2rad(35.0))
"""Faces at a larger angle have a sharp edge between them."""


def role_of(color: tuple[float, float, float, float] | None, role: str) -> str:
    """The colour as a role, "#rrggbb" or "#rrggbbaa"; ``role`` where none is given."""
    if color is None:
        return role
    red, green, blue, opacity = (round(255 * c) for c in color)
    return f"#{red:02x}{green:02x}{blue:02x}" + (f"{opacity:02x}" if opacity < 255 else "")


def shape_meshes(placed: Sequence[PlacedShape], role: str = "body") -> tuple[dict[str, list[Surface]], list[str]]:
    """Body -> its meshes in the body frame, and problems with drawing them."""
    files = [p for p in placed if isinstance(p.shape, shapes.Mesh | shapes.Triangles)]
    budget = _budgets(files)
    result: dict[str, list[Surface]] = {}
    problems = []
    for one in placed:
        look = role_of(one.color, role)
        try:
            mesh = _mesh(one.shape, look, budget.get(id(one), 0))
        except HeavytopError as error:
            problems.append(str(error))
            continue
        result.setdefault(one.body, []).append(mesh.moved(one.at))
    return result, problems


def _budgets(files: Sequence[PlacedShape]) -> dict[int, int]:
    """Triangles for each mesh: small ones keep all of theirs, the others share the rest evenly."""
    sizes: dict[int, int] = {}
    for one in files:
        try:
            sizes[id(one)] = len(one.shape.triangles[1])
        except HeavytopError:
            continue
    left, waiting, budget = MOST_FACES, sorted(sizes, key=sizes.__getitem__), {}
    while waiting:
        share = left // len(waiting)
        key = waiting.pop(0)
        budget[key] = min(sizes[key], max(share, 12))
        left -= budget[key]
    return budget


def _mesh(shape: object, role: str, most: int) -> Surface:
    if isinstance(shape, shapes.Box):
        return box(shape.size, role)
    if isinstance(shape, shapes.Sphere):
        return sphere(shape.radius, role)
    if isinstance(shape, shapes.Cylinder):
        return cylinder(shape.radius, shape.length, role)
    if isinstance(shape, shapes.Ellipsoid):
        ball, radii = sphere(1.0, role), np.array(shape.radii)
        normals = ball.normals / radii
        return Surface(
            ball.vertices * radii, normals / np.linalg.norm(normals, axis=-1, keepdims=True), ball.faces, role
        )
    if isinstance(shape, shapes.Capsule):
        angle = np.linspace(-np.pi / 2, np.pi / 2, 14)
        height = shape.radius * np.sin(angle) + np.where(angle < 0, -1, 1) * shape.length / 2
        return revolve(np.column_stack([shape.radius * np.cos(angle), height]), role=role, smooth=True)
    if isinstance(shape, shapes.Mesh | shapes.Triangles):
        return with_normals(*simplified(*shape.triangles, most), role)
    raise TypeError(f"no way to draw a {type(shape).__name__}")


def simplified(vertices: Floats, faces: np.ndarray, most: int) -> tuple[Floats, np.ndarray]:
    """At most ``most`` triangles of nearly the same surface: vertices in one cell of a grid become one.

    >>> v, f = simplified(np.random.default_rng(0).random((999, 3)), np.arange(999).reshape(333, 3), 100)
    >>> len(f) <= 100
    True
    """
    size = float(np.max(np.ptp(vertices, axis=0))) or 1.0
    cell = 1e-5 * size
    vertices, faces = _clustered(vertices, faces, cell)
    cell = 2e-3 * size if len(faces) > most else cell
    while len(faces) > most and cell < size:
        finer = _clustered(vertices, faces, cell)
        if len(finer[1]) <= most:
            return finer
        # the number of triangles of a surface goes with the square of the cell
        cell *= max(1.15, float(np.sqrt(len(finer[1]) / most)))
    return (vertices, faces) if len(faces) <= most else _clustered(vertices, faces, size)


def _clustered(vertices: Floats, faces: np.ndarray, cell: float) -> tuple[Floats, np.ndarray]:
    cells = np.floor((vertices - vertices.min(axis=0)) / cell + 0.5).astype(np.int64)
    which = _distinct(cells)[1]
    counts = np.bincount(which)
    centers = np.stack([np.bincount(which, vertices[:, k]) for k in range(3)], axis=-1) / counts[:, None]
    mapped = which[faces]
    kept = (mapped[:, 0] != mapped[:, 1]) & (mapped[:, 1] != mapped[:, 2]) & (mapped[:, 2] != mapped[:, 0])
    mapped = mapped[kept]
    # triangles turned over by the move are turned back
    over = np.vecdot(_areas(vertices[faces[kept]]), _areas(centers[mapped])) < 0
    mapped[over] = mapped[over][:, ::-1]
    # each triangle once, independent of its first vertex
    start = np.argmin(mapped, axis=1)
    turned = np.take_along_axis(mapped, (start[:, None] + np.arange(3)) % 3, axis=1)
    return centers, turned[_distinct(turned)[0]]


def _areas(corners: Floats) -> Floats:
    """Normals (n, 3) of triangles (n, 3, 3), as long as twice their areas."""
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First index of each distinct row of non-negative integers (n, m), and the distinct row of each row."""
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:  # at most 2^63: cells are 1e5 in each direction, vertices a million
        keys = keys * (int(column.max(initial=0)) + 1) + column
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def with_normals(vertices: Floats, faces: np.ndarray, role: str) -> Surface:
    """A mesh whose normals are smooth except across creases."""
    normals = _areas(vertices[faces])
    area = np.linalg.norm(normals, axis=-1)
    kept = area > 0
    faces, normals, area = faces[kept], normals[kept], area[kept]
    unit = normals / area[:, None]
    # corners sorted by vertex; each considers all faces around its vertex
    vertex, face = faces.reshape(-1), np.repeat(np.arange(len(faces)), 3)
    order = np.argsort(vertex, kind="stable")
    starts = np.searchsorted(vertex[order], np.arange(len(vertices) + 1))
    smooth = np.zeros((len(vertex), 3))
    for shift in range(int(np.max(np.diff(starts), initial=0))):
        around = starts[vertex] + shift
        valid = around < starts[vertex + 1]
        other = face[order[np.minimum(around, len(order) - 1)]]
        alike = valid & (np.vecdot(unit[face], unit[other]) > CREASE)
        smooth += np.where(alike[:, None], normals[other], 0.0)
    smooth /= np.maximum(np.linalg.norm(smooth, axis=-1, keepdims=True), 1e-300)
    # corners with the same vertex and normal are one
    first, which = _distinct(np.column_stack([vertex, np.round(smooth * 500).astype(np.int64) + 500]))
    return Surface(vertices[vertex[first]], smooth[first], which.reshape(-1, 3), role)


@dataclass(frozen=True, eq=False)
class MassProperties:
    """Mass (kg), centre of mass (3,) in the body frame (m) and moment (3, 3) about it (kg m^2), as numbers."""

    mass: float
    center: Floats
    moment: Floats

    def principal(self) -> tuple[Floats, Floats]:
        """Mean square extents (3,) in m^2 and the right-handed principal axes (3, 3), one per column."""
        values, axes = np.linalg.eigh(self.moment)
        if np.linalg.det(axes) < 0:
            axes = axes * np.array([1.0, 1.0, -1.0])
        square = (np.sum(values) / 2 - values) / self.mass if self.mass > 0 else np.zeros(3)
        return np.maximum(square, 0.0), axes

    @property
    def symmetry(self) -> int | None:
        """The axis of the body frame about which a body of revolution is symmetric; None if there is no single one."""
        J = self.moment
        if np.max(np.abs(J - np.diag(np.diag(J)))) > 1e-9 * np.max(np.abs(J), initial=1e-300):
            return None
        largest = np.max(np.diag(J))
        alike = [abs(J[i, i] - J[j, j]) <= 1e-6 * largest for i, j in ((1, 2), (2, 0), (0, 1))]
        return alike.index(True) if sum(alike) == 1 else None

    @property
    def size(self) -> float:
        """About half the largest extent, in m."""
        return float(np.sqrt(3 * np.max(self.principal()[0])))


def equivalent_solid(
    body: MassProperties, point: float, role: str, along: Floats | None = None, widest: float = np.inf
) -> list[Surface]:
    """Meshes of the homogeneous solid with the same moments, at the centre of mass in the body frame.

    Bodies of revolution get a stripe that makes their spin visible, unless they are slender.

    Parameters
    ----------
    point : radius of a point mass in m.
    along : (3,) direction in which a point mass slides: it is drawn as a block.
    widest : largest radius of a disc in m, so that it does not hide its link.

    >>> ball = MassProperties(1.0, np.zeros(3), 0.4 * 0.1**2 * np.eye(3))
    >>> round(equivalent_solid(ball, 0.01, "body")[0].radius, 6)
    0.1
    """
    square, axes = body.principal()
    pose = se3.pose(np.eye(3), body.center)
    largest = float(np.max(square))
    if np.sqrt(largest) < 0.2 * point:
        if along is None:
            return [sphere(point, role).moved(pose)]
        pose[:3, :3] = so3.rotation_with_z(along)
        return [box((1.6 * point, 1.6 * point, 2.6 * point), role).moved(pose)]
    alike = [abs(square[i] - square[j]) <= EQUAL * largest for i, j in ((1, 2), (2, 0), (0, 1))]
    if sum(alike) >= 2:
        radius = float(np.sqrt(5 * np.mean(square)))
        pose[:3, :3] = axes
        return [sphere(radius, role).moved(pose), disc(1.015 * radius, 0.12 * radius, "accent").moved(pose)]
    if not any(alike):
        sides = np.sqrt(12 * square)
        pose[:3, :3] = axes
        return [box(np.maximum(sides, THINNEST * np.max(sides)), role).moved(pose)]
    axis = alike.index(True)
    pose[:3, :3] = np.roll(axes, 2 - axis, axis=1)
    radius = 2 * float(np.sqrt((np.sum(square) - square[axis]) / 2))
    height = float(np.sqrt(12 * square[axis]))
    if radius > height:
        radius = min(radius, widest)
    radius, height = max(radius, THINNEST / 2 * height), max(height, 2 * THINNEST * radius)
    parts = [cylinder(radius, height, role, 48).moved(pose)]
    if height < SLENDER * radius:
        parts.append(box((2.03 * radius, 0.16 * radius, height + 0.03 * radius), "accent").moved(pose))
    return parts
