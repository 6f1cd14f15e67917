"""Surfaces that a contact meets: a plane, a height function, the surface of a solid.

Each gives the gap and the outward normal at a sphere of radius r around a point p, both in the axes of the frame that carries the surface:

    gap = d(p) - r,     normal = grad d(p),

with the signed distance d, negative inside. For a height z = f(x, y) the touching point y = p - r n(y) is found by fixed rounds and the gap is
(y_z - f) / sqrt(1 + |grad f|^2), the distance to first order, exact where the gap vanishes. A sphere that is rounder than every hollow of the height,
r kappa < 1, has one such point; in a narrower hollow it would touch at two, and the point that is found may be neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, components, concatenate, jacobian, scale, shape, symbol, vector
from heavytop._format import Brief
from heavytop.compile import NOT_MATH, Traced, holds_nan, on_symbols, trace_of
from heavytop.errors import ModelError
from heavytop.system.description.shapes import Bore, Box, Capsule, Cylinder, Sphere

TINY = 1e-30
"""Added to squared lengths (m^2) under a root, so that its derivative is finite at the centre of a solid."""
UPWARD = np.array([0.0, 0.0, 1.0])
ROUNDS = 5
"""Rounds of the touching point on a height function, accelerated (Anderson 1965, depth one); plain ones gain a factor r kappa."""
RESOLUTION = 1e-24
"""Added to squared steps (m^2) of the rounds, which vanish at the end."""


class ContactSurface(ABC):
    """A surface fixed to a frame."""

    is_flat: bool = False
    """Whether its normal is the same everywhere."""

    @abstractmethod
    def touch(self, p: Array, radius: float) -> tuple[Array, Array]:
        """Gap (...) and outward unit normal (..., 3) for a sphere around the point p (..., 3)."""

    def normal(self, p: Array) -> Array:
        """Outward unit normal (..., 3) near the point p (..., 3)."""
        return self.touch(p, 0.0)[1]


@dataclass(frozen=True)
class Plane(ContactSurface):
    """The plane z = 0; the solid is below.

    >>> gap, normal = Plane().touch(np.array([0.0, 0.0, 0.3]), 0.1)
    >>> round(float(gap), 9), normal
    (0.2, array([0., 0., 1.]))
    """

    is_flat = True

    def touch(self, p: Array, radius: float) -> tuple[Array, Array]:
        return components(p)[2] - radius, UPWARD


@dataclass(frozen=True, eq=False, repr=False)
class Height(Brief, ContactSurface):
    """The surface z = function(x, y), in m.

    >>> gap, normal = Height(lambda x, y: 0.5 * x).touch(np.array([0.0, 0.0, 1.0]), 0.0)
    >>> round(float(gap), 6), normal.round(6) + 0.0
    (0.894427, array([-0.447214,  0.      ,  0.894427]))
    """

    function: Callable[[Array, Array], Array]

    @cached_property
    def _traced(self) -> Traced:
        """(x, y) -> (z, dz/dx, dz/dy)."""
        x, y = symbol("x"), symbol("y")
        z = as_array(on_symbols(self.function, "height")(x, y))
        if shape(z) not in ((), (1,)):
            raise ModelError(f"height(x, y) must return one number, got shape {shape(z)}.")
        place = concatenate(np.reshape(x, (1,)), np.reshape(y, (1,)))
        slope = jacobian(np.reshape(z, (1,)), place)
        outputs = {"z": np.reshape(z, ()), "x": slope[0, 0], "y": slope[0, 1]}
        try:
            traced = trace_of("height", {"x": x, "y": y}, outputs)
        except RuntimeError as error:  # other symbols
            raise ModelError("height(x, y) must depend on x and y only, not on parameters or the time.") from error
        if holds_nan(traced.function):
            raise ModelError(f"height(x, y) turned a symbol into the number nan. {NOT_MATH}")
        return traced

    def _at(self, p: Array) -> tuple[Array, Array]:
        """The gap of the point p and the normal above it."""
        x, y, z = components(p)
        height, along_x, along_y = self._traced(x, y)
        length = np.sqrt(1.0 + along_x * along_x + along_y * along_y)
        return (z - height) / length, vector(-along_x / length, -along_y / length, 1.0 / length)

    def touch(self, p: Array, radius: float) -> tuple[Array, Array]:
        gap, normal = self._at(p)
        if not radius:
            return gap, normal
        y = old_y = p - radius * normal
        old = np.zeros(3)
        for k in range(ROUNDS):
            gap, normal = self._at(y)
            found = p - radius * normal
            change = found - y
            bend = change - old
            share = np.vecdot(change, bend) / (np.vecdot(bend, bend) + RESOLUTION) if k else as_array(0.0)
            y, old_y, old = found - scale(share, found - old_y, 1) if k else found, found, change
        return gap, normal


@dataclass(frozen=True)
class Solid(ContactSurface):
    """The surface of a sphere, capsule, box or cylinder around the origin of a frame, or the inside of a bore along its z axis.

    >>> gap, normal = Solid(Box((2.0, 2.0, 2.0))).touch(np.array([1.5, 0.0, 0.2]), 0.1)
    >>> round(float(gap), 9), normal
    (0.4, array([1., 0., 0.]))
    """

    shape: Any

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Sphere | Capsule | Box | Cylinder | Bore):
            raise ModelError(
                f"a contact needs the surface of an ht.Sphere, Capsule, Box, Cylinder or Bore, got {self.shape!r}. Give the other body the shape, or "
                "use points of both bodies in two contacts."
            )

    def touch(self, p: Array, radius: float) -> tuple[Array, Array]:
        distance, normal = _DISTANCE[type(self.shape)](self.shape, p)
        return distance - radius, normal


def length(x: Array) -> Array:
    """|x| (...) of vectors (..., n) that may vanish."""
    return np.sqrt(np.vecdot(x, x) + TINY)


def unit(x: Array) -> Array:
    """x / |x| (..., n); zero where x vanishes."""
    return scale(1.0 / length(x), x, 1)


def _from_sphere(sphere: Sphere, p: Array) -> tuple[Array, Array]:
    return length(p) - sphere.radius, unit(p)


def _from_capsule(capsule: Capsule, p: Array) -> tuple[Array, Array]:
    """Distance from the nearest point of the axis."""
    x, y, z = components(p)
    half = 0.5 * capsule.length
    across = vector(x, y, z - np.minimum(np.maximum(z, -half), half))
    return length(across) - capsule.radius, unit(across)


def _from_box(box: Box, p: Array) -> tuple[Array, Array]:
    sides = [(x, 0.5 * size) for x, size in zip(components(p), box.size, strict=True)]
    signs = [np.where(x >= 0.0, 1.0, -1.0) for x, _ in sides]
    distance, outward = _from_corner([sign * x - half for sign, (x, half) in zip(signs, sides, strict=True)])
    return distance, vector(*(sign * n for sign, n in zip(signs, outward, strict=True)))


def _from_cylinder(cylinder: Cylinder, p: Array) -> tuple[Array, Array]:
    x, y, z = components(p)
    radial, sign = np.sqrt(x * x + y * y + TINY), np.where(z >= 0.0, 1.0, -1.0)
    distance, (out, up) = _from_corner([radial - cylinder.radius, sign * z - 0.5 * cylinder.length])
    return distance, vector(out * x / radial, out * y / radial, sign * up)


def _from_bore(bore: Bore, p: Array) -> tuple[Array, Array]:
    x, y, _ = components(p)
    radial = np.sqrt(x * x + y * y + TINY)
    return bore.radius - radial, vector(-x / radial, -y / radial, 0.0 * x)


def _from_corner(depth: list[Array]) -> tuple[Array, list[Array]]:
    """Distance and normal of a point from the corner of orthogonal faces, ``depth`` in front of each (negative: behind).

    In front of some faces it is the length of the positive depths; behind all of them the nearest face counts.
    """
    largest = depth[0]
    for d in depth[1:]:
        largest = np.maximum(largest, d)
    front = [np.maximum(d, 0.0) for d in depth]
    distance = np.sqrt(sum((f * f for f in front), TINY))
    outside = largest > 0.0
    inner, found = [], False
    for d in depth:  # the first face with the largest depth
        chosen = np.logical_and(d >= largest, np.logical_not(found))
        found = np.logical_or(found, chosen)
        inner.append(np.where(chosen, 1.0, 0.0))
    normal = [np.where(outside, f / distance, one) for f, one in zip(front, inner, strict=True)]
    return np.where(outside, distance, largest), normal


_DISTANCE: dict[type, Callable[[Any, Array], tuple[Array, Array]]] = {
    Sphere: _from_sphere,
    Capsule: _from_capsule,
    Box: _from_box,
    Cylinder: _from_cylinder,
    Bore: _from_bore,
}
