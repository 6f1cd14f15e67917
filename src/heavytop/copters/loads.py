"""Vehicles with a suspended load: reduced models with propellers as forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop.control import DesiredDamping, DesiredInertia, Prototype, lateral_lever, moments_about_origin
from heavytop.copters.airframe import Airframe, Hanging, ring
from heavytop.copters.vehicle import GRAVITY, Vehicle, add_rotors, rotor_limits
from heavytop.copters.vehicles import hull, parameter_rows, tilting_rotors
from heavytop.errors import ControlError
from heavytop.functions import recipe
from heavytop.system import Inertia, Stiffness, System
from heavytop.system.joints import Spherical

LOAD_POLES = (-1.5, -1.5, -3.2 + 2.4j, -3.2 - 2.4j)
"""Lateral poles of the tricopter with load, 1/s."""


SLUNG = tuple(p / np.sqrt(9.81 / 0.604) for p in (-1.5, -1.5, -1.8 + 0.87j, -1.8 - 0.87j, -4.5 + 2.2j, -4.5 - 2.2j))
"""Lateral poles of a quadcopter with a load per frequency of its swing."""
LIGHT = 0.785
"""Depth of the joint's centre of oscillation per lever, above which the poles are slower."""


@recipe
def tricopter_with_load(
    load_mass: float = 0.3,
    load_com: Sequence[float] = (0.0, 0.0, -0.5),
    load_moment_at_joint: Sequence[float] = (0.077, 0.077, 0.001),
    joint_at: Sequence[float] = (0.0, 0.0, -0.05),
    *,
    attitude: Any = "matrix",
    velocity: str = "body",
    load_velocity: str = "relative",
) -> Vehicle:
    """The tricopter with a rigid load on a spherical joint: nine degrees of freedom, six inputs.

    The prototype couples the hull to its place and the load's swing to the motion of the hull; the hull rotates independently.

    >>> tricopter_with_load().model
    Model('tricopter_with_load': nq=21, nv=9, nu=6, bodies=2)
    """
    mass, moment, rotors = 1.2, (0.013, 0.013, 0.024), tilting_rotors(0.25, 0.018)

    def describe() -> System:
        system = hull("tricopter_with_load", mass, moment, attitude, velocity)
        add_rotors(system, rotors)
        inertia = moments_about_origin(Inertia, load_mass, load_com, load_moment_at_joint)
        joint = Spherical(attitude, load_velocity)
        system.body("load", parent="hull", at=joint_at, joint=joint, inertia=inertia)
        return system

    eps = lateral_lever(load_moment_at_joint[0], load_mass, -load_com[2])
    rows = parameter_rows(mass, moment, rotors) | load_rows(load_mass, eps)
    airframe = Airframe(rotors, load=Hanging("load", -float(load_com[2]), 0.14))
    prototype = Prototype.hanging_load(LOAD_POLES, eps)
    return Vehicle(describe().derive(), prototype, None, airframe, describe, parameters=rows, levers=(eps, eps))


def load_rows(mass: float, lever: float) -> dict[str, str]:
    """The parameters of a load as text."""
    return {"load": f"{mass:g} kg", "centre of oscillation": f"{lever:.4g} m below the joint"}


@recipe
def quadcopter_with_load(
    load_mass: float = 0.25,
    cable: float = 0.6,
    load_moment: Sequence[float] = (0.0006, 0.0006, 0.0006),
    *,
    mass: float = 0.9,
    moment: Sequence[float] = (0.008, 0.008, 0.014),
    arm: float = 0.2,
    drag_ratio: float = 0.016,
    thrust: tuple[float, float] = (0.0, 7.0),
    poles: Sequence[complex] | None = None,
) -> Vehicle:
    """A quadcopter with a load on a rod from a spherical joint in its centre of mass: nine degrees of freedom, four inputs.

    Parameters
    ----------
    load_mass : kg. cable : from the joint to the load's centre of mass, m. load_moment : about that, kg m^2.
    mass, moment, arm, drag_ratio, thrust : of the quadcopter.
    poles : six lateral poles of hull, swing and tilt together, 1/s; default: from the frequency of the swing and the share of the load.

    Examples
    --------
    >>> quad = quadcopter_with_load()
    >>> quad.model.nv, quad.model.nu
    (9, 4)
    """
    rotors = ring(4, arm, start=np.pi / 4, drag_ratio=drag_ratio, thrust=thrust, radius=0.6 * arm)
    about_joint = load_moment[0] + load_mass * cable**2
    eps = lateral_lever(about_joint, load_mass, cable)

    def describe() -> System:
        system = hull("quadcopter_with_load", mass, moment)
        add_rotors(system, rotors)
        inertia = Inertia(load_mass, com=(0.0, 0.0, -cable), moment_at_com=load_moment)
        system.body("load", parent="hull", joint=Spherical(velocity="absolute"), inertia=inertia)
        return system

    depth = eps - load_mass * cable / (mass + load_mass)
    if poles is None:
        # sqrt(g / eps) is the frequency of the swing; light loads allow slower poles only
        poles = [p * np.sqrt(GRAVITY / eps) * min(1.0, LIGHT * eps / depth) for p in SLUNG]
    prototype = slung_prototype(eps, depth, poles)
    rows = parameter_rows(mass, moment, rotors) | load_rows(load_mass, eps)
    airframe = Airframe(rotors, load=Hanging("load", cable, 0.12))
    limits = rotor_limits(rotors)
    return Vehicle(describe().derive(), prototype, limits, airframe, describe, parameters=rows, levers=(eps, eps))


def slung_prototype(
    lever: float,
    depth: float,
    poles: Sequence[complex],
    spread: float = 0.015,
    vertical: tuple[float, float] = (4.0, 4.0),
) -> Prototype:
    """Prototype of a quadcopter with a load below its centre of mass, from six lateral poles.

    With c the centre of oscillation of the load, x = c + eps c''/g (hull), theta = c''/g (swing) and
    phi = c''/g + kappa c''''/g^2 (tilt). The projected equation is the prototype's row of the tilt,

        (Th s^2 + (Ups + Ups_r) s + Pi + Pi_r) phi - (Ups_r s + Pi_r) theta + (d l s + k h) x = 0,

    with a damping Ups_r and a stiffness Pi_r between hull and load: a polynomial of degree six in c.

    Parameters
    ----------
    lever : eps of the load, m. depth : kappa = eps - m_L L / (m + m_L), m.
    spread : Th per mass, m^2. vertical : q1, q0 of the vertical motion.
    """
    p5, p4, p3, p2, p1, p0 = np.real(np.poly(np.asarray(poles, dtype=complex)))[1:]
    g, (q1, q0) = GRAVITY, vertical
    A = spread * depth / g**2
    low, high = p1 * A / q1, p0 * A / q0
    ups, pi = g * p3 * A - p1 * A * lever, g * p2 * A - p0 * A * lever
    ups_r, pi_r = p5 * spread - ups, g**2 / depth * (p4 * A - spread / g) - pi
    values = {"damping of the tilt": ups - q1 * low**2, "stiffness of the tilt": pi - q0 * high**2}
    values |= {"damping of the swing": ups_r, "stiffness of the swing": pi_r}
    for what, value in values.items():
        if not value > 0:
            raise ControlError(f"these poles have no positive prototype: {what} would be {value:.4g}. Choose others.")
    turn, small = (0.01, 0.054, 0.09), 1e-3
    swing = (0.02 * small, 0.02 * small, 0.02 * small)
    return Prototype(
        {
            "hull": DesiredInertia(1.0, (0.0, 0.0, 0.0), (spread, spread, turn[0])),
            "load": DesiredInertia(0.0, (0, 0, 0), swing),
        },
        {
            ("world", "hull"): DesiredDamping(q1, (0.0, 0.0, low), (ups - q1 * low**2, ups - q1 * low**2, turn[1])),
            ("hull", "load"): DesiredDamping(0.0, (0, 0, 0), (ups_r, ups_r, small)),
        },
        {
            ("world", "hull"): Stiffness(q0, (0.0, 0.0, high), (pi - q0 * high**2, pi - q0 * high**2, turn[2])),
            ("hull", "load"): Stiffness(0.0, (0, 0, 0), (pi_r, pi_r, small)),
        },
    )
