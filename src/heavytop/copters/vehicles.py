"""Multicopters as systems with their models, prototypes and limits.

The geometry of the bicopter and all numbers are assumptions of ours; every builder takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop._pickling import remembered
from heavytop.control.laws.prototype import Prototype, lateral_lever, poles_of
from heavytop.copters.airframe import Airframe, Rotor, ring
from heavytop.copters.vehicle import GRAVITY, Vehicle, add_rotors, rotor_limits
from heavytop.errors import ModelError
from heavytop.ocp.bounds import Limits
from heavytop.system.description.moments import Damping, Inertia, Stiffness
from heavytop.system.joints import Free
from heavytop.system.joints.spatial import AttitudeName
from heavytop.system.system import System

LATERAL = (-2.0, -2.0, -6.4 + 4.8j, -6.4 - 4.8j)
"""Default lateral poles of the quadcopter and the bicopter, 1/s."""
TRICOPTER_ARMS = (np.pi / 3, np.pi, -np.pi / 3)


def hovering_prototype(agility: float = 1.0, lever: float = 0.0) -> Prototype:
    """Prototype of a vehicle whose thrusts are parallel, from the default poles times ``agility``.

    ``lever`` is the height (m) of the hull's origin above the centre of mass of all bodies.
    """
    lateral = [agility * p for p in LATERAL]
    # the bounds of the desired tilt inertia per mass scale with 1/agility^4, and so does it
    return Prototype.from_poles(
        lateral,
        (-2.0 * agility, -2.0 * agility),
        poles_of(3.0 * agility, 0.9),
        spread=0.02 / agility**4,
        yaw_inertia=0.01,
        lever=lever,
    )


@remembered
def quadcopter(
    mass: float = 0.9,
    moment: Sequence[float] = (0.008, 0.008, 0.014),
    arm: float = 0.2,
    drag_ratio: float = 0.016,
    thrust: tuple[float, float] = (0.0, 6.0),
    *,
    thrust_gain: float = 1.0,
    attitude: AttitudeName = "matrix",
    velocity: str = "body",
) -> Vehicle:
    """Four propellers at the ends of a cross; the inputs are their thrusts in N.

    Parameters
    ----------
    mass : kg. moment : principal moments of inertia, kg m^2. arm : m. drag_ratio : torque per thrust, m.
    thrust : least and largest thrust of a propeller, N.
    thrust_gain : true thrust per commanded thrust, to simulate a plant that the controller does not know.
    attitude, velocity : coordinates of the free body, see :class:`.Free`.

    Examples
    --------
    >>> quad = quadcopter()
    >>> quad.model.nv, quad.model.nu
    (6, 4)
    """
    rotors = ring(4, arm, drag_ratio=drag_ratio, thrust=thrust, radius=0.6 * arm)

    def describe() -> System:
        system = hull("quadcopter", mass, moment, attitude, velocity)
        add_rotors(system, rotors, thrust_gain)
        return system

    return finished(
        describe, hovering_prototype(), Limits(*thrust), Airframe(rotors), parameter_rows(mass, moment, rotors)
    )


@remembered
def tricopter(
    mass: float = 1.2,
    moment: Sequence[float] = (0.013, 0.013, 0.024),
    arm: float = 0.25,
    drag_ratio: float = 0.018,
    *,
    thrust: tuple[float, float] = (0.0, np.inf),
    tilt: tuple[float, float] = (-np.inf, np.inf),
    tilt_rate: float = np.inf,
    thrust_gain: float = 1.0,
    attitude: AttitudeName = "matrix",
    velocity: str = "body",
) -> Vehicle:
    """Three propellers that tilt about their arms: fully actuated. The inputs are the tangential and the axial force of each in N.

    Thrust and tilt of propeller k follow from its forces: ``hypot(ft, fz)`` and ``atan2(-ft, fz)``, see :func:`tilting_thrusts`.
    ``thrust`` (N), ``tilt`` (rad) and ``tilt_rate`` (rad/s) limit them, see :class:`.Sector`; a rate is kept for samples every 5 ms.
    The prototype has the model's inertia, natural frequencies 3 rad/s (translation) and 10 rad/s (rotation), critically damped.

    >>> tricopter().model
    Model('tricopter': nq=12, nv=6, nu=6, bodies=1)
    """
    rotors = tilting_rotors(arm, drag_ratio, thrust, tilt, tilt_rate)
    inertia = Inertia(mass, moment_at_com=moment)

    def describe() -> System:
        system = hull("tricopter", mass, moment, attitude, velocity)
        add_rotors(system, rotors, thrust_gain)
        return system

    w_t, w_r, theta = 3.0, 10.0, np.asarray(moment, dtype=float)
    prototype = Prototype.of_body(
        inertia,
        Damping(2 * w_t * mass, moment_at_center=2 * w_r * theta),
        Stiffness(w_t**2 * mass, moment_at_center=w_r**2 * theta),
    )
    return finished(describe, prototype, rotor_limits(rotors), Airframe(rotors), parameter_rows(mass, moment, rotors))


@remembered
def bicopter(
    mass: float = 1.0,
    moment: Sequence[float] = (0.020, 0.006, 0.022),
    arm: float = 0.25,
    height: float = 0.10,
    inclination: float = np.deg2rad(15.0),
    *,
    thrust: tuple[float, float] = (0.0, np.inf),
    tilt: tuple[float, float] = (-np.inf, np.inf),
    tilt_rate: float = np.inf,
    thrust_gain: float = 1.0,
    attitude: AttitudeName = "matrix",
    velocity: str = "body",
) -> Vehicle:
    """Two propellers above the centre of mass that tilt fore and aft in planes inclined inwards.

    The inputs are, per propeller, the force along e_x and along the normal n = (0, -+sin a, cos a) of its plane, in N.
    ``thrust``, ``tilt`` and ``tilt_rate`` limit the propellers as in :func:`tricopter`.

    >>> bicopter().model
    Model('bicopter': nq=12, nv=6, nu=4, bodies=1)
    """
    rotors = tuple(
        Rotor(
            (0.0, side * arm, height),
            axis=(0.0, -side * np.sin(inclination), np.cos(inclination)),
            tilt="x",
            thrust=thrust,
            radius=0.14,
            tilt_range=tilt,
            tilt_rate=tilt_rate,
        )
        for side in (1.0, -1.0)
    )

    def describe() -> System:
        system = hull("bicopter", mass, moment, attitude, velocity)
        add_rotors(system, rotors, thrust_gain, names=("fx1", "fn1", "fx2", "fn2"))
        return system

    high = arm / np.tan(inclination) + height
    levers = (lateral_lever(moment[1], mass, height), lateral_lever(moment[0], mass, high))
    prototype = Prototype.matched(LATERAL, 4.0, poles_of(3.0, 0.9), levers=levers, height=0.07)
    rows = parameter_rows(mass, moment, rotors)
    return finished(describe, prototype, rotor_limits(rotors), Airframe(rotors), rows, levers=levers)


def tilting_thrusts(u: Any) -> tuple[np.ndarray, np.ndarray]:
    """Thrusts (..., 3) in N and tilt angles (..., 3) in rad of the tricopter's propellers from its inputs (..., 6).

    >>> tilting_thrusts([0.0, 4.0, -3.0, 0.0, 0.0, 4.0])[0]
    array([4., 3., 4.])
    """
    u = np.asarray(u, dtype=float)
    tangential, axial = u[..., 0::2], u[..., 1::2]
    return np.hypot(tangential, axial), np.arctan2(-tangential, axial)


def tilting_rotors(
    arm: float,
    drag_ratio: float,
    thrust: tuple[float, float] = (0.0, np.inf),
    tilt: tuple[float, float] = (-np.inf, np.inf),
    tilt_rate: float = np.inf,
) -> tuple[Rotor, ...]:
    """Three rotors that tilt about their arms at 60, 180 and -60 degrees; the torques have the signs +, -, +."""
    return tuple(
        Rotor(
            (arm * np.cos(angle), arm * np.sin(angle), 0.0),
            drag_ratio=spin * drag_ratio,
            thrust=thrust,
            tilt=(-np.sin(angle), np.cos(angle), 0.0),
            radius=0.13,
            tilt_range=tilt,
            tilt_rate=tilt_rate,
        )
        for angle, spin in zip(TRICOPTER_ARMS, (1.0, -1.0, 1.0), strict=True)
    )


def hull(
    name: str, mass: float, moment: Any, attitude: Any = "matrix", velocity: str = "body", com: Any = (0.0, 0.0, 0.0)
) -> System:
    """A system with the free body "hull"."""
    if not (np.isfinite(mass) and mass > 0):
        raise ModelError(f"the mass of {name!r} must be a positive number (kg), got {mass}.")
    system = System(gravity=(0.0, 0.0, -GRAVITY), name=name)
    system.body("hull", joint=Free(attitude, velocity), inertia=Inertia(mass, com=com, moment_at_com=moment))
    return system


def finished(
    describe: Any, prototype: Prototype, limits: Limits | None, airframe: Airframe, rows: Any, **more: Any
) -> Vehicle:
    """The vehicle with its derived model."""
    system = describe()
    return Vehicle(system, system.derive(), prototype, limits, airframe, describe, parameters=rows, **more)


def parameter_rows(mass: float, moment: Sequence[float], rotors: Sequence[Rotor]) -> dict[str, str]:
    """The parameters of a vehicle as text for reports."""
    given = np.asarray(moment, dtype=float)
    diagonal = given if given.ndim == 1 else np.diag(given)
    low, high = rotors[0].thrust
    return {
        "mass": f"{mass:g} kg",
        "moments of inertia": ", ".join(f"{m:.4g}" for m in diagonal) + " kg m²",
        "rotors": f"{len(rotors)}" + (" tilting" if rotors[0].tilt is not None else ""),
        "arm": f"{np.linalg.norm(rotors[0].at):.3g} m",
        "torque per thrust": f"{abs(rotors[0].drag_ratio):.4g} m",
        "thrust of a rotor": f"{low:g} to {high:.4g} N" if np.isfinite(high) else "not limited",
    }
