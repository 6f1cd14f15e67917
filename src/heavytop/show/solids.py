"""The look of a rigid body of which only the inertia is known: the homogeneous solid with the same moments.

Three equal principal moments give a ball, two a cylinder, three different ones a box. Along each principal axis the mean square
extent is s_i = (J_j + J_k - J_i) / (2 m); a ball has s = r^2/5, a cylinder s = r^2/4 across and h^2/12 along its axis, a box
s = a^2/12. A disc, a rod or a ball therefore appears in its true size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.show.meshes import Floats, Surface, box, cylinder, disc, sphere

EQUAL = 0.04
"""Mean square extents that differ by less than this share of the largest one are considered equal."""
THINNEST = 0.035
"""Least thickness of a solid as a share of its largest dimension, so that ideal discs and rods are visible."""
SLENDER = 4.0
"""Ratio of height and radius above which a cylinder is a rod, without a stripe."""


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
