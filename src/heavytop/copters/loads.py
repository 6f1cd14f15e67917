"""Vehicles with a suspended load: reduced models, in which the propellers are forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop.control.allocation import Limits
from heavytop.control.prototype import (
    DesiredDamping,
    DesiredInertia,
    Prototype,
    lateral_lever,
    moments_about_origin,
)
from heavytop.copters.airframe import Airframe, Hanging, ring
from heavytop.copters.vehicle import GRAVITY, Vehicle, add_rotors
from heavytop.copters.vehicles import finished, hull, parameter_rows, tilting_rotors
from heavytop.errors import ControlError
from heavytop.system.joints import Spherical
from heavytop.system.moments import Inertia, Stiffness
from heavytop.system.system import System


def tricopter_with_load(
    load_mass: float = 0.3,
    load_com: Sequence[float] = (0.0, 0.0, -0.5),
    load_moment_at_joint: Sequence[float] = (0.077, 0.077, 0.001),
    joint_at: Sequence[float] = (0.0, 0.0, -0.05),
    *,
    attitude: str = "matrix",
    velocity: str = "body",
    load_velocity: str = "relative",
) -> Vehicle:
    """The tricopter with a rigid load that hangs on a spherical joint: nine degrees of freedom, six inputs.

    The prototype ties the hull to its place, the load's swing to the motion of the hull, and turns the hull on its own.
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
    return finished(describe, load_prototype(eps), None, airframe, rows, levers=(eps, eps))


def load_rows(mass: float, lever: float) -> dict[str, str]:
    """The parameters of a load as text."""
    return {"load": f"{mass:g} kg", "centre of oscillation": f"{lever:.4g} m below the joint"}


def load_prototype(
    lever: float,
    lateral: Sequence[complex] = (-1.5, -1.5, -3.2 + 2.4j, -3.2 - 2.4j),
    mass: float = 1.5,
    anchor: str = "hull",
) -> Prototype:
    """Prototype of a hanging load from its lateral poles: a translation, the load's rotation about the joint, the hull's own rotation.

    Parameters
    ----------
    lever : Theta_L / (m_L L). The desired inertia about the joint is 0.3 lever^2 mass.
    anchor : whose origin the translation is tied to: "hull", exact poles only for a joint in the hull's origin; or "load", whose
        origin is the joint: exact poles for every place of the joint.
    """
    p3, p2, p1, p0 = np.real(np.poly(np.asarray(lateral, dtype=complex)))[1:]
    inner = 0.3 * lever**2 * mass
    total = lever**2 * mass + inner
    stiff, damp = p0 * total / (GRAVITY * lever), p1 * total / (GRAVITY * lever)
    damp_swing = p3 * total - lever**2 * damp
    stiff_swing = p2 * total - lever**2 * stiff - GRAVITY * lever * mass
    turn = np.array([0.02, 0.02, 0.03])
    if anchor not in ("hull", "load"):
        raise ControlError(f"anchor must be 'hull' or 'load', got {anchor!r}.")

    def kind(make: Any, total: float, turn: np.ndarray, swing: tuple[float, float, float]) -> dict[Any, Any]:
        on = {"hull": 0.0, "load": 0.0, anchor: total}
        return {"hull": make(on["hull"], (0.0, 0.0, 0.0), turn), "load": make(on["load"], (0.0, 0.0, 0.0), swing)}

    return Prototype(
        kind(DesiredInertia, mass, turn, (inner, inner, 0.001)),
        kind(DesiredDamping, damp, 2 * 8.0 * turn, (damp_swing, damp_swing, 0.004)),
        kind(Stiffness, stiff, 8.0**2 * turn, (stiff_swing, stiff_swing, 0.004)),
    )
