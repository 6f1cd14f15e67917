"""Points of a shape that may touch a surface: centres with a radius, in the axes of the shape.

A sphere is its centre with its radius, a capsule the two ends of its axis, a box its corners, a mesh the corners of its convex hull. These do not
depend on the surface. Of an ellipsoid and of the rims of a cylinder the point is chosen that reaches furthest against the normal; a rim also has
three fixed points, on which it stands upright.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, as_array, components, scale, vector
from heavytop.errors import ModelError
from heavytop.system.description.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Points, Rim, Sphere, Triangles

MOST_POINTS = 64
"""Most corners of a hull; others are left out, the ones that change it least."""
INSET = 0.95
"""Radius of the three points on which a rim stands upright, relative to its own: a rim that rolls passes above them."""
UPRIGHT = 1e-12
"""Squared sine of the angle between a normal and the axis of a rim below which all its points are equally low."""

Feature = tuple[Array, float]
"""Centre (..., 3) and radius in m."""


def check_shape(shape: Any, where: str) -> None:
    """Raise a ModelError for a shape without points that touch."""
    if not isinstance(shape, Sphere | Capsule | Ellipsoid | Box | Cylinder | Rim | Points | Mesh | Triangles):
        raise ModelError(
            f"{where}: the shape must be an ht.Sphere, Capsule, Ellipsoid, Box, Cylinder, Rim, Points, Mesh or Triangles, got {shape!r}."
        )


def needs_normal(shape: Any) -> bool:
    """Whether the touching points depend on the normal of the surface, so that a surface must be nearly flat."""
    return isinstance(shape, Ellipsoid | Cylinder | Rim)


def features(shape: Any, normal: Array) -> list[Feature]:
    """Points of a shape that may touch a surface with the outward ``normal`` (..., 3) in the axes of the shape.

    >>> import heavytop as ht
    >>> features(ht.Capsule(0.1, 0.4), np.array([0.0, 0.0, 1.0]))
    [(array([ 0. ,  0. , -0.2]), 0.1), (array([0. , 0. , 0.2]), 0.1)]
    """
    if isinstance(shape, Sphere):
        return [(np.zeros(3), shape.radius)]
    if isinstance(shape, Capsule):
        return [(np.array([0.0, 0.0, 0.5 * sign * shape.length]), shape.radius) for sign in (-1.0, 1.0)]
    if isinstance(shape, Ellipsoid):
        # the point of x^T D^-1 x = 1, D = diag(radii^2), with the least n . x is -D n / sqrt(n . D n)
        stretched = normal * np.square(np.array(shape.radii))
        return [(scale(-1.0 / np.sqrt(np.vecdot(normal, stretched)), stretched, 1), 0.0)]
    if isinstance(shape, Rim):
        return _rim(shape.radius, 0.0, normal)
    if isinstance(shape, Cylinder):
        half = 0.5 * shape.length
        return [*_rim(shape.radius, -half, normal), *_rim(shape.radius, half, normal)]
    if isinstance(shape, Box):
        half = 0.5 * np.array(shape.size)
        return [(half * np.array(signs), 0.0) for signs in product((-1.0, 1.0), repeat=3)]
    if isinstance(shape, Points):
        return [(np.array(place), shape.radius) for place in shape.positions]
    return [(place, 0.0) for place in hull_points(shape.triangles[0])]


def _rim(radius: float, height: float, normal: Array) -> list[Feature]:
    """The lowest point of a circle around z, and three fixed points within it."""
    x, y, z = components(normal)
    across = x * x + y * y
    tilted = across > UPRIGHT
    size = np.sqrt(np.where(tilted, across, 1.0))
    x, y = np.where(tilted, x, 1.0) / size, np.where(tilted, y, 0.0) / size
    lowest = vector(-radius * x, -radius * y, height + 0.0 * z)
    angles, inner = (np.pi / 2, 7 * np.pi / 6, 11 * np.pi / 6), INSET * radius
    fixed = [np.array([inner * np.cos(angle), inner * np.sin(angle), height]) for angle in angles]
    return [(as_array(lowest), 0.0), *((place, 0.0) for place in fixed)]


def hull_points(vertices: Floats) -> Floats:
    """Corners (n, 3) of the convex hull of points, at most ``MOST_POINTS``: those that lie furthest from the ones already chosen."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        corners = vertices[ConvexHull(vertices).vertices]
    except QhullError:  # flat: all of them
        corners = np.unique(vertices, axis=0)
    if len(corners) <= MOST_POINTS:
        return corners
    extremes = {int(np.argmax(sign * corners[:, k])) for k in range(3) for sign in (-1.0, 1.0)}
    chosen = sorted(extremes)
    nearest = np.min(np.linalg.norm(corners[:, None] - corners[None, chosen], axis=2), axis=1)
    while len(chosen) < MOST_POINTS:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(corners - corners[chosen[-1]], axis=1))
    return corners[chosen]


def hull_error(vertices: Floats) -> float:
    """Largest distance in m by which the points of :func:`hull_points` fall short of the hull, over many directions."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((512, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    reach, kept = (np.max(points @ directions.T, axis=0) for points in (vertices, hull_points(vertices)))
    return float(np.max(reach - kept))
