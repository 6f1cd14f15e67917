"""Triangle meshes of simple solids from formulas: the look of bodies in a scene.

Every mesh is closed or thin, has outward normals at its vertices (edges are sharp because faces do not share vertices across
them) and is in the frame of its body. Lengths are in m; the axis of a solid of revolution is z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from heavytop._arrays import Floats
from heavytop.errors import ModelError, ShapeError, unknown_name, wrong_shape
from heavytop.geometry import se3, so3
from heavytop.show.palette import ROLES, is_role


def frozen_array(value: object, what: str, shape: tuple[int | str, ...], dtype: type = float) -> np.ndarray:
    """A read-only copy of ``value``; raises a ShapeError for another shape or numbers that are not finite."""
    array = np.array(value, dtype=dtype)
    sizes = zip(shape, array.shape, strict=False)
    if array.ndim != len(shape) or any(isinstance(n, int) and n != m for n, m in sizes):
        raise wrong_shape(what, shape, array.shape)
    if not np.all(np.isfinite(array)):
        raise ShapeError(f"{what} must be finite, but {int(np.sum(~np.isfinite(array)))} of its numbers are not.")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles in the frame of a body, with a colour role.

    Parameters
    ----------
    vertices : (n, 3) positions in m.
    normals : (n, 3) outward unit normals at the vertices.
    faces : (m, 3) vertices of each triangle, counter-clockwise seen from outside.
    role : a key of :data:`heavytop.show.palette.ROLES`, or a colour "#rrggbb".

    >>> box((2, 1, 1)).moved(at=(1, 0, 0)).vertices[:, 0].min()
    np.float64(0.0)
    """

    vertices: Floats
    normals: Floats
    faces: np.ndarray
    role: str = "body"

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", frozen_array(self.vertices, "vertices of a mesh", ("n", 3)))
        object.__setattr__(self, "normals", frozen_array(self.normals, "normals of a mesh", (len(self.vertices), 3)))
        object.__setattr__(self, "faces", frozen_array(self.faces, "faces of a mesh", ("m", 3), dtype=int))
        if not is_role(self.role):
            raise unknown_name("role", self.role, ROLES)
        if self.faces.size and not 0 <= self.faces.min() <= self.faces.max() < len(self.vertices):
            raise ModelError(f"faces of a mesh must be vertices 0 to {len(self.vertices) - 1}, got {self.faces.max()}.")

    def moved(self, pose: object = None, at: object = None) -> Surface:
        """The mesh at a pose (4, 4), or at a position (3,) without turning."""
        G = np.eye(4)
        if pose is not None:
            G = frozen_array(pose, "pose of a mesh", (4, 4)).copy()
        if at is not None:
            G[:3, 3] += frozen_array(at, "position of a mesh", (3,))
        return replace(self, vertices=self.vertices @ G[:3, :3].T + G[:3, 3], normals=self.normals @ G[:3, :3].T)

    def painted(self, role: str) -> Surface:
        """The mesh with another colour role."""
        return replace(self, role=role)

    @property
    def radius(self) -> float:
        """Largest distance of a vertex from the origin of the body frame, in metres."""
        return float(np.max(np.linalg.norm(self.vertices, axis=-1), initial=0.0))


def merge(meshes: Sequence[Surface]) -> dict[str, Surface]:
    """One mesh per role, in order of first appearance.

    >>> sorted(merge([box((1, 1, 1)), sphere(1), box((1, 1, 1), role="load")]))
    ['body', 'load']
    """
    merged: dict[str, Surface] = {}
    for role in dict.fromkeys(mesh.role for mesh in meshes):
        parts = [mesh for mesh in meshes if mesh.role == role]
        starts = np.cumsum([0] + [len(mesh.vertices) for mesh in parts])
        merged[role] = Surface(
            np.concatenate([mesh.vertices for mesh in parts]),
            np.concatenate([mesh.normals for mesh in parts]),
            np.concatenate([mesh.faces + start for mesh, start in zip(parts, starts, strict=False)]),
            role,
        )
    return merged


def _grid_faces(rows: int, columns: int) -> np.ndarray:
    """Triangles of a grid of rows times columns vertices, rows running first."""
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij")
    a, b = i * columns + j, (i + 1) * columns + j
    quads = np.stack([a, b, b + 1, a, b + 1, a + 1], axis=-1)
    return quads.reshape(-1, 3)


def box(size: ArrayLike, role: str = "body") -> Surface:
    """A box with edge lengths ``size`` around the origin.

    >>> box((1, 2, 3)).vertices.shape
    (24, 3)
    """
    half = frozen_array(size, "size of a box", (3,)) / 2
    vertices, normals, faces = [], [], []
    for axis in range(3):
        for sign in (1.0, -1.0):
            u, v = np.roll(np.eye(3), axis, axis=1)[1:]
            normal = sign * np.roll(np.eye(3), axis, axis=1)[0]
            corners = [normal + a * sign * u + b * v for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
            faces += [
                (len(vertices), len(vertices) + 1, len(vertices) + 2),
                (len(vertices), len(vertices) + 2, len(vertices) + 3),
            ]
            vertices += [corner * half for corner in corners]
            normals += [normal] * 4
    return Surface(np.array(vertices), np.array(normals), np.array(faces), role)


def revolve(profile: ArrayLike, sides: int = 28, role: str = "body", smooth: bool = False) -> Surface:
    """A solid of revolution about z from a profile of (radius, height) points, bottom to top.

    Every straight piece of the profile gets its own normals (sharp edges) unless ``smooth``.
    """
    points = frozen_array(profile, "profile of a solid of revolution", ("n", 2))
    angle = np.linspace(0.0, 2 * np.pi, sides + 1)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    step = np.diff(points, axis=0)
    across = np.stack([step[:, 1], -step[:, 0]], axis=-1) / np.maximum(np.linalg.norm(step, axis=-1), 1e-12)[:, None]
    if smooth:
        mean = np.concatenate([across[:1], across[:-1] + across[1:], across[-1:]])
        mean /= np.maximum(np.linalg.norm(mean, axis=-1), 1e-12)[:, None]
        pieces = [(points, mean)]
    else:
        pieces = [(points[k : k + 2], np.repeat(across[k : k + 1], 2, axis=0)) for k in range(len(step))]
    vertices, normals, faces, start = [], [], [], 0
    for curve, normal in pieces:
        for (radius, height), (outward, upward) in zip(curve, normal, strict=True):
            vertices.append(np.column_stack([radius * ring, np.full(sides + 1, height)]))
            normals.append(np.column_stack([outward * ring, np.full(sides + 1, upward)]))
        faces.append(_grid_faces(len(curve), sides + 1)[:, ::-1] + start)
        start += len(curve) * (sides + 1)
    return Surface(np.concatenate(vertices), np.concatenate(normals), np.concatenate(faces), role)


def cylinder(radius: float, height: float, role: str = "body", sides: int = 28) -> Surface:
    """A cylinder along z, centred at the origin.

    >>> float(cylinder(0.5, 2.0).vertices[:, 2].max())
    1.0
    """
    return revolve([(0, -height / 2), (radius, -height / 2), (radius, height / 2), (0, height / 2)], sides, role)


def cone(radius: float, height: float, role: str = "body", sides: int = 28) -> Surface:
    """A cone with its base at the origin and its tip at (0, 0, height)."""
    return revolve([(0, 0), (radius, 0), (0, height)], sides, role)


def sphere(radius: float, role: str = "load", sides: int = 24) -> Surface:
    """A sphere around the origin."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, sides // 2 + 1)
    return revolve(radius * np.column_stack([np.cos(angle), np.sin(angle)]), sides, role, smooth=True)


def disc(radius: float, thickness: float, role: str = "body", sides: int = 40) -> Surface:
    """A flat disc in the x-y plane."""
    return cylinder(radius, thickness, role, sides)


def ring(radius: float, thickness: float, role: str = "arm", sides: int = 40) -> Surface:
    """A torus in the x-y plane, for example a propeller guard."""
    angle = np.linspace(0.0, 2 * np.pi, 11)
    profile = np.column_stack([radius + thickness / 2 * np.cos(angle), thickness / 2 * np.sin(angle)])
    return revolve(profile, sides, role, smooth=True)


def tube(start: ArrayLike, end: ArrayLike, radius: float, role: str = "arm", sides: int = 12) -> Surface:
    """A straight tube from one point to another: arms, legs, cables.

    >>> tube((0, 0, 0), (0.3, 0, 0), 0.01).radius < 0.31
    True
    """
    a, b = frozen_array(start, "start of a tube", (3,)), frozen_array(end, "end of a tube", (3,))
    length = float(np.linalg.norm(b - a))
    if length <= 0.0:
        raise ModelError(f"a tube must join two different points, got {tuple(a.tolist())} twice.")
    return cylinder(radius, length, role, sides).moved(se3.pose(so3.rotation_with_z((b - a) / length), (a + b) / 2))


def hull(size: ArrayLike, role: str = "body", roundness: float = 0.35, sides: int = 24) -> Surface:
    """A box with rounded edges (superellipsoid) with edge lengths ``size``; roundness 1 gives an ellipsoid."""
    half = frozen_array(size, "size of a hull", (3,)) / 2

    def power(x: Floats, exponent: float) -> Floats:
        return np.sign(x) * np.abs(x) ** exponent

    latitude, longitude = np.meshgrid(
        np.linspace(-np.pi / 2, np.pi / 2, sides // 2 + 1), np.linspace(-np.pi, np.pi, sides + 1), indexing="ij"
    )
    e = roundness
    vertices = np.stack(
        [
            half[0] * power(np.cos(latitude), e) * power(np.cos(longitude), e),
            half[1] * power(np.cos(latitude), e) * power(np.sin(longitude), e),
            half[2] * power(np.sin(latitude), e),
        ],
        axis=-1,
    ).reshape(-1, 3)
    # gradient of the implicit function sum |x_i / h_i|^(2 / e)
    normals = power(vertices / half, 2 / e - 1) / half
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)
    return Surface(vertices, normals, _grid_faces(sides // 2 + 1, sides + 1)[:, ::-1], role)


def propeller(radius: float, blades: int = 2, clockwise: bool = False, role: str = "propeller") -> Surface:
    """A propeller turning about z: tapered, twisted blades and a hub; thrust is along +z.

    A counter-clockwise propeller (seen from +z) lifts when it turns in the positive sense about z.
    """
    span = np.linspace(0.12, 1.0, 9)
    chord = radius * 0.26 * np.sqrt(np.clip(1.0 - ((span - 0.42) / 0.62) ** 2, 0.05, 1.0))
    twist = np.deg2rad(12 + 20 * (1 - span)) * (-1.0 if clockwise else 1.0)
    around = np.linspace(0.0, 2 * np.pi, 13)
    section_y, section_z = 0.5 * np.cos(around), 0.055 * np.sin(around)
    y = chord[:, None] * (section_y * np.cos(twist)[:, None] - section_z * np.sin(twist)[:, None])
    z = chord[:, None] * (section_y * np.sin(twist)[:, None] + section_z * np.cos(twist)[:, None])
    outline = np.stack([np.broadcast_to(radius * span[:, None], y.shape), y, z], axis=-1)
    n_y, n_z = 0.11 * np.cos(around), np.sin(around)
    normal = np.stack(
        [
            0 * y,
            n_y * np.cos(twist)[:, None] - n_z * np.sin(twist)[:, None],
            n_y * np.sin(twist)[:, None] + n_z * np.cos(twist)[:, None],
        ],
        -1,
    )
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    blade = Surface(outline.reshape(-1, 3), normal.reshape(-1, 3), _grid_faces(len(span), len(around)), role)
    hub = revolve(
        [(0, -0.07 * radius), (0.11 * radius, -0.07 * radius), (0.11 * radius, 0.05 * radius), (0, 0.14 * radius)],
        18,
        role,
    )
    turns = (so3.rotation_about("z", 2 * np.pi * k / blades) for k in range(blades))
    return merge([hub, *(blade.moved(se3.pose(turn, np.zeros(3))) for turn in turns)])[role]


def sweep(points: Floats, radius: float, sides: int = 6, dash: float | None = None, role: str = "path") -> Surface:
    """A tube along a curve, its triangles in order of the curve (a prefix of the faces shows the curve so far).

    Parameters
    ----------
    points : (n, 3) of the curve.
    radius : radius of the tube.
    dash : length of dashes and gaps; None: solid.
    """
    curve = frozen_array(points, "points of a curve", ("n", 3))
    n = len(curve)
    if n < 2:
        raise wrong_shape("points of a curve", ("n >= 2", 3), curve.shape)
    tangent = np.gradient(curve, axis=0)
    length = np.linalg.norm(tangent, axis=-1, keepdims=True)
    tangent = np.where(length > 1e-12, tangent / np.maximum(length, 1e-12), [0.0, 0.0, 1.0])
    # parallel transport of the first normal keeps the tube free of twist
    side = np.empty_like(curve)
    side[0] = so3.rotation_with_z(tangent[0])[:, 0]
    for k in range(1, n):
        projected = side[k - 1] - tangent[k] * (side[k - 1] @ tangent[k])
        norm = np.linalg.norm(projected)
        side[k] = projected / norm if norm > 1e-6 else so3.rotation_with_z(tangent[k])[:, 0]
    other = np.cross(tangent, side)
    angle = np.linspace(0.0, 2 * np.pi, sides + 1)
    normals = np.cos(angle)[:, None] * side[:, None, :] + np.sin(angle)[:, None] * other[:, None, :]
    vertices = curve[:, None, :] + radius * normals
    faces = _grid_faces(n, sides + 1)[:, ::-1].reshape(n - 1, sides * 2, 3)
    if dash is not None:
        arc = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=-1))])
        middle = (arc[1:] + arc[:-1]) / 2
        faces = faces[np.floor(middle / dash) % 2 == 0]
    return Surface(vertices.reshape(-1, 3), normals.reshape(-1, 3), faces.reshape(-1, 3), role)
