"""Bodies of multicopters, drawn from the positions of their rotors."""

from __future__ import annotations

import numpy as np

from heavytop.show.meshes import Floats, Surface, box, cone, cylinder, frozen_array, hull, propeller, sphere, tube


def airframe(rotors: object, propeller_radius: float, front: object = (1.0, 0.0, 0.0)) -> tuple[Surface, ...]:
    """Hull, arms, motors and landing legs of a multicopter with any number of rotors, in the frame of its hull.

    A pointed nose and coloured arms towards ``front`` show the heading without the help of colour.

    Parameters
    ----------
    rotors : array (n, 3)
        Positions of the propeller centres.
    propeller_radius : float
        Radius of the propellers, in metres.
    front : array (3,)
        Direction of flight that the nose shows.

    >>> arms = airframe([(0.2, 0.2, 0), (-0.2, 0.2, 0), (-0.2, -0.2, 0), (0.2, -0.2, 0)], 0.12)
    >>> sorted({mesh.role for mesh in arms})
    ['accent', 'arm', 'body']
    """
    tips = frozen_array(rotors, "rotors of an airframe", ("n", 3))
    ahead = frozen_array(front, "front of an airframe", (3,))
    ahead = ahead / np.linalg.norm(ahead)
    reach = float(np.max(np.linalg.norm(tips, axis=-1)))
    size = 0.42 * reach
    yaw = np.eye(4)
    yaw[:3, 0], yaw[:3, 1] = ahead, np.cross([0.0, 0.0, 1.0], ahead)
    nose = np.eye(4)
    nose[:3, :3] = np.column_stack([np.cross([0.0, 0.0, 1.0], ahead), [0.0, 0.0, 1.0], ahead])
    nose[:3, 3] = 0.6 * size * ahead
    parts = [
        hull((1.5 * size, size, 0.42 * size)).moved(yaw),
        box((0.75 * size, 0.5 * size, 0.16 * size), "arm").moved(yaw, at=(0, 0, 0.27 * size)),
        cone(0.2 * size, 0.5 * size, "accent").moved(nose),
    ]
    for tip in tips:
        parts.extend(_arm(tip, 0.06 * reach, propeller_radius, ahead))
    for sign in (1.0, -1.0):
        parts.extend(_leg(yaw, size, sign))
    return tuple(parts)


def _arm(tip: Floats, thickness: float, propeller_radius: float, ahead: Floats) -> list[Surface]:
    outward = tip / max(float(np.linalg.norm(tip)), 1e-9)
    role = "accent" if outward @ ahead > 0.35 else "arm"
    motor = tip - np.array([0.0, 0.0, 0.17 * propeller_radius])
    return [
        tube(0.12 * motor, motor, 0.5 * thickness, role),
        cylinder(0.15 * propeller_radius, 0.26 * propeller_radius, "body", 20).moved(at=motor),
    ]


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


def rotor(radius: float, clockwise: bool = False) -> tuple[Surface, ...]:
    """A propeller that turns about z at the origin of its frame."""
    return (propeller(radius, clockwise=clockwise),)


def slung_load(cable: float, size: float) -> tuple[Surface, ...]:
    """A load below the origin of its frame: a cable of the given length and a crate at its end."""
    crate = box((size, size, size), "load").moved(at=(0, 0, -cable))
    strap = box((1.02 * size, 0.2 * size, 1.02 * size), "cable").moved(at=(0, 0, -cable))
    return (tube((0, 0, 0), (0, 0, size / 2 - cable), 0.03 * size, "cable"), crate, strap)


def link(tip: object) -> tuple[Surface, ...]:
    """A link of an arm from the origin of its frame, where its joint is, to its tip."""
    end = np.asarray(tip, dtype=float)
    thick = max(0.04 * float(np.linalg.norm(end)), 6e-3)
    return (
        sphere(1.6 * thick, "accent"),
        tube((0.0, 0.0, 0.0), end, thick, "arm"),
        sphere(1.2 * thick, "body").moved(at=end),
    )
