"""A pair of a shape and a surface that may touch, as data, and its candidate points at a relative pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, components, freeze_fields, part, transpose, vector
from heavytop._format import Brief
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system.contacts.features import Feature, check_shape, features, hull_error, needs_normal
from heavytop.system.contacts.surfaces import ContactSurface, Plane, Solid
from heavytop.system.description.shapes import Bore, Box, Capsule, Mesh, Points, Sphere, Triangles

REFINED = 3
"""Rounds in which the lowest point of a curved shape and the normal of a curved surface find each other."""


class Candidate(NamedTuple):
    """A point at which two bodies may touch; vectors in the axes of b, the body with the shape.

    Attributes
    ----------
    gap : signed distance in m, negative where the bodies overlap.
    point : (..., 3) the point of b, from its origin, m.
    normal : (..., 3) unit vector from a to b.
    tangents : two unit vectors (..., 3) that complete the normal to a right-handed basis.
    """

    gap: Array
    point: Array
    normal: Array
    tangents: tuple[Array, Array]

    def velocity(self, twist: Array) -> Array:
        """Velocity (..., 3) of the point relative to a, from the body twist (..., 6) of b relative to a: ``v + w x point``.

        The rate of the gap is its component along the normal.
        """
        return part(twist, 0, 3) + np.cross(part(twist, 3, 6), self.point)


@dataclass(frozen=True, eq=False, repr=False)
class Ground(Brief):
    """A surface in the world or on a frame, as data; ``friction``: of contacts that give none, or None."""

    name: str
    frame: str
    surface: ContactSurface
    friction: Any = None

    def __post_init__(self) -> None:
        freeze_fields(self)


@dataclass(frozen=True, eq=False, repr=False)
class Contact(Brief):
    """A shape on body b that may touch a surface on body a.

    Attributes
    ----------
    name : unique among contacts.
    body, partner : frames b (with the shape) and a (with the surface).
    shape : one of ``ht.Sphere``, ``Capsule``, ``Ellipsoid``, ``Box``, ``Cylinder``, ``Rim``, ``Points``, ``Mesh``,
        ``Triangles``.
    at : (4, 4) pose of the shape in b.
    surface : :class:`.Plane`, :class:`.Height` or :class:`.Solid` in a.
    friction, restitution : Coulomb's coefficient and Newton's coefficient of restitution: numbers or parameters.

    Examples
    --------
    >>> import heavytop as ht
    >>> contact = Contact("ball", "ball", "world", ht.Sphere(0.1), np.eye(4), Plane(), 0.5)
    >>> [point] = contact.candidates(ht.geometry.se3.pose(np.eye(3), [0.0, 0.0, 0.3]))
    >>> round(float(point.gap), 9), point.normal, point.point
    (0.2, array([0., 0., 1.]), array([ 0. ,  0. , -0.1]))
    """

    name: str
    body: str
    partner: str
    shape: Any
    at: Array
    surface: ContactSurface
    friction: Any = 0.0
    restitution: Any = 0.0

    def __post_init__(self) -> None:
        check_shape(self.shape, f"contact {self.name!r}")
        if isinstance(self.surface, Solid) and needs_normal(self.shape):
            raise ModelError(
                f"contact {self.name!r}: an ht.{type(self.shape).__name__} touches planes and heights only, not an "
                f"ht.{type(self.surface.shape).__name__}. Use ht.Sphere, ht.Capsule, ht.Box, ht.Points or ht.Mesh on {self.body!r}."
            )
        bore = self.surface.shape if isinstance(self.surface, Solid) else None
        if (
            isinstance(bore, Bore)
            and isinstance(self.shape, Sphere | Capsule | Points)
            and self.shape.radius >= bore.radius
        ):
            raise ModelError(
                f"contact {self.name!r}: a pin of radius {self.shape.radius:g} m does not fit in an ht.Bore of radius {bore.radius:g} m."
            )
        freeze_fields(self)

    def candidates(self, pose: Array) -> list[Candidate]:
        """The points that may touch, at the pose (..., 4, 4) of b in a."""
        R, x = se3.rotation(pose), se3.position(pose)
        A, r = se3.rotation(self.at), se3.position(self.at)
        R_T, A_T = transpose(R), transpose(A)

        def placed(center: Array) -> Array:
            """A point of the shape in the axes of b."""
            return r + np.matvec(A, center)

        def lowest(at: Array) -> list[Feature]:
            """Points of the shape for the normal of the surface near the point ``at`` of b."""
            return features(self.shape, np.matvec(A_T, np.matvec(R_T, self.surface.normal(x + np.matvec(R, at)))))

        found = []
        for k, (center, radius) in enumerate(lowest(r)):
            if needs_normal(self.shape) and not self.surface.is_flat:
                for _ in range(REFINED):
                    center, radius = lowest(placed(center))[k]
            at = placed(center)
            gap, normal = self.surface.touch(x + np.matvec(R, at), radius)
            along = [np.matvec(R_T, axis) for axis in (normal, *tangents(normal))]
            found.append(Candidate(gap, at - radius * along[0] if radius else at, along[0], (along[1], along[2])))
        return found

    @property
    def unseen(self) -> str:
        """Contacts of the two bodies that the points of the shape do not see, as text; empty if there are none."""
        missed = []
        if isinstance(self.shape, Mesh | Triangles) and (error := hull_error(self.shape.triangles[0])) > 0.0:
            missed.append(f"up to {error:.2g} m of the hull of the mesh, and all its hollows")
        if isinstance(self.surface, Solid):
            other = type(self.surface.shape).__name__.lower()
            if isinstance(self.shape, Capsule):
                missed.append("the barrel of the capsule between its ends")
            elif isinstance(self.shape, Box | Mesh | Triangles):
                missed.append(f"edges against edges, and faces against corners of the {other}")
        elif not isinstance(self.surface, Plane):
            if not isinstance(self.shape, Sphere) and not needs_normal(self.shape):
                missed.append("hills between the points of the shape")
            if needs_normal(self.shape) or getattr(self.shape, "radius", 0.0):
                missed.append("hollows that are narrower than the roundness of the shape")
        return "; ".join(missed)


def tangents(normal: Array) -> tuple[Array, Array]:
    """Two unit vectors (..., 3) that complete a unit normal (..., 3) to a right-handed basis, without a singular direction.

    Duff et al., Building an orthonormal basis, revisited, JCGT 2017; they jump where the normal is horizontal.

    >>> [t + 0.0 for t in tangents(np.array([0.0, 0.0, 1.0]))]
    [array([1., 0., 0.]), array([0., 1., 0.])]
    """
    x, y, z = components(normal)
    sign = np.where(z >= 0.0, 1.0, -1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return vector(1.0 + sign * x * x * a, sign * b, -sign * x), vector(b, sign + y * y * a, -y)
