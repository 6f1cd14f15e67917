"""Meshes of multicopters from the positions of their rotors."""

from __future__ import annotations

import numpy as np

from heavytop.geometry import se3
from heavytop.show.meshes import Floats, Surface, box, cone, cylinder, frozen_array, hull, sphere, tube


def airframe(
    rotors: object, propeller_radius: float, front: object = (1.0, 0.0, 0.0), *, bare: bool = False
) -> tuple[Surface, ...]:
    """Hull, arms, motors and landing legs of a multicopter with any number of rotors, in the frame of its hull.

    A pointed nose and coloured arms towards ``front`` show the heading.

    Parameters
    ----------
    rotors : (n, 3) positions of the propeller centres.
    propeller_radius : in m.
    front : (3,) direction of the nose.
    bare : without motors and legs.

    >>> arms = airframe([(0.2, 0.2, 0), (-0.2, 0.2, 0), (-0.2, -0.2, 0), (0.2, -0.2, 0)], 0.12)
    >>> sorted({mesh.role for mesh in arms})
    ['accent', 'arm', 'body']
    """
    tips = frozen_array(rotors, "rotors of an airframe", ("n", 3))
    ahead = frozen_array(front, "front of an airframe", (3,))
    ahead = ahead / np.linalg.norm(ahead)
    reach = float(np.max(np.linalg.norm(tips, axis=-1)))
    size = (0.4 if bare else 0.42) * reach
    up = np.array([0.0, 0.0, 1.0])
    left = np.cross(up, ahead)
    yaw = se3.pose(np.column_stack([ahead, left, up]), np.zeros(3))
    nose = se3.pose(np.column_stack([left, up, ahead]), 0.6 * size * ahead)
    parts = [
        hull((1.5 * size, size, 0.42 * size)).moved(yaw),
        box((0.75 * size, 0.5 * size, 0.16 * size), "arm").moved(yaw, at=(0, 0, 0.27 * size)),
        cone(0.2 * size, 0.5 * size, "accent").moved(nose),
    ]
    for tip in tips:
        role = "accent" if tip @ ahead > 0.35 * np.linalg.norm(tip) else "arm"
        end = tip if bare else tip - 0.17 * propeller_radius * up
        parts.append(tube(0.12 * end, end, 0.03 * reach, role))
        if not bare:
            parts.append(cylinder(0.15 * propeller_radius, 0.26 * propeller_radius, "body", 20).moved(at=end))
    for sign in () if bare else (1.0, -1.0):
        parts.extend(_leg(yaw, size, sign))
    return tuple(parts)


def _leg(yaw: Floats, size: float, sign: float) -> list[Surface]:
    foot = np.array([0.0, sign * 0.75 * size, -0.75 * size])
    bar = 0.55 * size * np.array([1.0, 0.0, 0.0])
    parts = [
        tube(foot - bar, foot + bar, 0.035 * size),
        *(
            tube((x * size, sign * 0.4 * size, -0.12 * size), foot + np.array([x * size, 0, 0]), 0.035 * size)
            for x in (0.3, -0.3)
        ),
    ]
    return [part.moved(yaw) for part in parts]


def slung_load(cable: float, size: float) -> tuple[Surface, ...]:
    """A load below the origin of its frame: a cable and a crate at its end."""
    crate = box((size, size, size), "load").moved(at=(0, 0, -cable))
    strap = box((1.02 * size, 0.2 * size, 1.02 * size), "cable").moved(at=(0, 0, -cable))
    return (tube((0, 0, 0), (0, 0, size / 2 - cable), 0.03 * size, "cable"), crate, strap)


def link(tip: object) -> tuple[Surface, ...]:
    """A link of an arm from its joint at the origin to its tip."""
    end = np.asarray(tip, dtype=float)
    thick = max(0.04 * float(np.linalg.norm(end)), 6e-3)
    return (
        sphere(1.6 * thick, "accent"),
        tube((0.0, 0.0, 0.0), end, thick, "arm"),
        sphere(1.2 * thick, "body").moved(at=end),
    )
