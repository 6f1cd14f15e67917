"""Visual shapes of robot arms and of copters with tilting rotors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.system import Box, Capsule, Cylinder, Sphere, System

WHITE, GREY, DARK, ACCENT = "#e8eaed", "#8a9099", "#2b2f36", "#d2691e"


def bar(system: System, body: str, start: np.ndarray, end: np.ndarray, radius: float, color: str) -> None:
    """Add a capsule between two points (3,) of a body, unless they coincide."""
    along = np.asarray(end, dtype=float) - start
    length = float(np.linalg.norm(along))
    if length > 0.0:
        pose = se3.pose(so3.rotation_with_z(along / length), start + along / 2)
        system.shape(body, Capsule(radius, length), pose, color)


def look_like_an_arm(system: System, names: Sequence[str], positions: Sequence[np.ndarray], radius: float) -> None:
    """Add a drum around the z axis of every hinge and a bar to the next one; ``positions`` (3,) of the hinges in their parents."""
    bar(system, "world", np.zeros(3), positions[0], 1.1 * radius, DARK)
    ends = [*positions[1:], np.array([0.0, 0.0, 2.0 * radius])]
    for name, end in zip(names, ends, strict=True):
        system.shape(name, Cylinder(radius, 2.6 * radius), color=GREY)
        bar(system, name, np.zeros(3), end, 0.85 * radius, WHITE)


def look_like_a_tricopter(system: System, arms: Sequence[str], roots: Sequence[np.ndarray], height: float) -> None:
    """Add a hull with spokes to the ``roots`` (3,) of the arms, each with a motor and a propeller at ``height``.

    The bodies are "hull", ``arms`` and the propellers ("propeller" and the last letter of the arm).
    """
    system.shape("hull", Cylinder(0.3 * float(np.linalg.norm(roots[0])), 0.04), color=DARK)
    for arm, root in zip(arms, roots, strict=True):
        radius = 0.55 * float(np.linalg.norm(root))
        bar(system, "hull", np.zeros(3), np.asarray(root), 0.008, GREY)
        system.shape(arm, Cylinder(0.016, height), (0.0, 0.0, height / 2), ACCENT)
        system.shape(arm, Sphere(0.018), color=DARK)
        propeller = f"propeller{arm[-1]}"
        system.shape(propeller, Box((2 * radius, 0.12 * radius, 0.004)), color=DARK)
        system.shape(propeller, Cylinder(0.01, 0.014), color=DARK)
