"""Multicopters as systems with their models, prototypes and limits.

The geometry of the bicopter and all numbers are assumptions of ours; every builder takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop.control.allocation import Limits
from heavytop.control.prototype import Prototype, lateral_lever, moments_about_origin, poles_of
from heavytop.system.inputs import Thruster, Wrench
from heavytop.system.joints import Free, Spherical
from heavytop.system.joints.spatial import AttitudeName
from heavytop.system.model import Model
from heavytop.system.moments import Damping, Inertia, Stiffness
from heavytop.system.system import System

GRAVITY = 9.81
LATERAL = (-2.0, -2.0, -6.4 + 4.8j, -6.4 - 4.8j)
"""Default lateral poles of the quadcopter and the bicopter, 1/s."""


@dataclass(frozen=True, eq=False)
class Vehicle:
    """A multicopter: the described system, its model, the prototype of its default control, the limits of its inputs."""

    system: System
    model: Model
    prototype: Prototype
    limits: Limits | None


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
    system = System(gravity=(0.0, 0.0, -GRAVITY), name="quadcopter")
    system.body("hull", joint=Free(attitude, velocity), inertia=Inertia(mass, moment_at_com=moment))
    for k in range(4):
        angle = k * np.pi / 2
        at = np.array([arm * np.cos(angle), arm * np.sin(angle), 0.0])
        system.input(f"thrust{k}", _scaled(at, (0.0, 0.0, 1.0), (-1) ** k * drag_ratio, thrust_gain))
    prototype = Prototype.from_poles(LATERAL, (-2.0, -2.0), poles_of(3.0, 0.9), spread=0.02, yaw_inertia=0.01)
    return Vehicle(system, system.derive(), prototype, Limits(*thrust))


def tricopter(
    mass: float = 1.2,
    moment: Sequence[float] = (0.013, 0.013, 0.024),
    arm: float = 0.25,
    drag_ratio: float = 0.018,
    *,
    thrust_gain: float = 1.0,
    attitude: AttitudeName = "matrix",
    velocity: str = "body",
) -> Vehicle:
    """Three propellers that tilt about their arms: fully actuated. The inputs are the tangential and the axial force of each in N.

    Thrust and tilt of propeller k follow from its forces: ``hypot(ft, fz)`` and ``atan2(-ft, fz)``, see :func:`tilting_thrusts`.
    The prototype has the model's inertia, natural frequencies 3 rad/s (translation) and 10 rad/s (rotation), critically damped.
    """
    system = System(gravity=(0.0, 0.0, -GRAVITY), name="tricopter")
    inertia = Inertia(mass, moment_at_com=moment)
    system.body("hull", joint=Free(attitude, velocity), inertia=inertia)
    _tilting_propellers(system, arm, drag_ratio, thrust_gain)
    w_t, w_r, theta = 3.0, 10.0, np.asarray(moment, dtype=float)
    prototype = Prototype.of_body(
        inertia,
        Damping(2 * w_t * mass, moment_at_center=2 * w_r * theta),
        Stiffness(w_t**2 * mass, moment_at_center=w_r**2 * theta),
    )
    return Vehicle(system, system.derive(), prototype, None)


def bicopter(
    mass: float = 1.0,
    moment: Sequence[float] = (0.020, 0.006, 0.022),
    arm: float = 0.25,
    height: float = 0.10,
    inclination: float = np.deg2rad(15.0),
    *,
    thrust_gain: float = 1.0,
    attitude: AttitudeName = "matrix",
    velocity: str = "body",
) -> Vehicle:
    """Two propellers above the centre of mass that tilt fore and aft in planes inclined inwards.

    The inputs are, per propeller, the force along e_x and along the normal n = (0, -+sin a, cos a) of its plane, in N.
    """
    system = System(gravity=(0.0, 0.0, -GRAVITY), name="bicopter")
    system.body("hull", joint=Free(attitude, velocity), inertia=Inertia(mass, moment_at_com=moment))
    for k, side in enumerate((1.0, -1.0)):
        at = np.array([0.0, side * arm, height])
        normal = (0.0, -side * np.sin(inclination), np.cos(inclination))
        system.input(f"fx{k + 1}", _scaled(at, (1.0, 0.0, 0.0), 0.0, thrust_gain))
        system.input(f"fn{k + 1}", _scaled(at, normal, 0.0, thrust_gain))
    high = arm / np.tan(inclination) + height
    levers = (lateral_lever(moment[1], mass, height), lateral_lever(moment[0], mass, high))
    prototype = Prototype.matched(LATERAL, 4.0, poles_of(3.0, 0.9), levers=levers, height=0.07)
    return Vehicle(system, system.derive(), prototype, None)


def tricopter_with_load(
    load_mass: float = 0.3,
    load_com: Sequence[float] = (0.0, 0.0, -0.5),
    load_moment_at_joint: Sequence[float] = (0.077, 0.077, 0.001),
    joint_at: Sequence[float] = (0.0, 0.0, -0.05),
    *,
    attitude: AttitudeName = "matrix",
    velocity: str = "body",
    load_velocity: str = "relative",
) -> Vehicle:
    """The tricopter with a rigid load that hangs on a spherical joint: nine degrees of freedom, six inputs.

    The prototype ties the hull to its place, the load's swing to the motion of the hull, and turns the hull on its own.
    """
    system = System(gravity=(0.0, 0.0, -GRAVITY), name="tricopter_with_load")
    system.body("hull", joint=Free(attitude, velocity), inertia=Inertia(1.2, moment_at_com=(0.013, 0.013, 0.024)))
    _tilting_propellers(system, 0.25, 0.018, 1.0)
    inertia = moments_about_origin(Inertia, load_mass, load_com, load_moment_at_joint)
    joint = Spherical(attitude, load_velocity)
    system.body("load", parent="hull", at=joint_at, joint=joint, inertia=inertia)
    eps = lateral_lever(load_moment_at_joint[0], load_mass, -load_com[2])
    prototype = Prototype.hanging_load((-1.5, -1.5, -3.2 + 2.4j, -3.2 - 2.4j), eps)
    return Vehicle(system, system.derive(), prototype, None)


def tilting_thrusts(u: Any) -> tuple[np.ndarray, np.ndarray]:
    """Thrusts (..., 3) in N and tilt angles (..., 3) in rad of the tricopter's propellers from its inputs (..., 6).

    >>> tilting_thrusts([0.0, 4.0, -3.0, 0.0, 0.0, 4.0])[0]
    array([4., 3., 4.])
    """
    u = np.asarray(u, dtype=float)
    tangential, axial = u[..., 0::2], u[..., 1::2]
    return np.hypot(tangential, axial), np.arctan2(-tangential, axial)


def _tilting_propellers(system: System, arm: float, drag_ratio: float, gain: float) -> None:
    for k, (angle, spin) in enumerate(zip((np.pi / 3, np.pi, -np.pi / 3), (1.0, -1.0, 1.0), strict=True)):
        at = np.array([arm * np.cos(angle), arm * np.sin(angle), 0.0])
        tangent = (-np.sin(angle), np.cos(angle), 0.0)
        system.input(f"ft{k + 1}", _scaled(at, tangent, spin * drag_ratio, gain))
        system.input(f"fz{k + 1}", _scaled(at, (0.0, 0.0, 1.0), spin * drag_ratio, gain))


def _scaled(at: np.ndarray, axis: Sequence[float], drag_ratio: float, gain: float) -> Thruster | Wrench:
    """A propeller on the hull whose true thrust is ``gain`` times the input."""
    if gain == 1.0:
        return Thruster("hull", at=at, axis=axis, drag_ratio=drag_ratio)
    force = gain * np.asarray(axis, dtype=float)
    return Wrench("hull", force=force, moment=np.cross(at, force) + drag_ratio * force)
