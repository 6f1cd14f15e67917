"""Multicopters: any number of rotors at any pose on one hull, and ready-made airframes.

The geometry of the bicopter and all numbers are heavytop's assumptions; every builder takes others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heavytop.control import Prototype, Sensors, TiltLimits, lateral_lever, poles_of
from heavytop.copters.airframe import Airframe, Rotor, ring
from heavytop.copters.battery import Battery
from heavytop.copters.hover_feasibility import check_hover
from heavytop.copters.limbs import Limb, add_limbs, center_below, check_limbs, limb_prototype
from heavytop.copters.propulsion import Propulsion
from heavytop.copters.skids import Skids
from heavytop.copters.vehicle import GRAVITY, Vehicle, add_rotors, independent, rotor_limits, wrench_matrix
from heavytop.errors import ModelError
from heavytop.functions import recipe
from heavytop.system import Damping, Inertia, Stiffness, System, Wrench
from heavytop.system.joints import Free

LATERAL = (-2.0, -2.0, -6.4 + 4.8j, -6.4 - 4.8j)
"""Default lateral poles of vehicles with parallel thrusts and of the bicopter, 1/s."""
TRICOPTER_ARMS = (np.pi / 3, np.pi, -np.pi / 3)
TYPICAL_DRAG = 0.11
"""Air drag per mass of a vehicle without data, 1/s."""
AIRFRAME: Mapping[str, Any] = {"drag": 0.1}
"""Options of the ready-made airframes: their air drag, N s/m."""
RINGS = {"quadcopter": (4, 0.0, 0.6), "hexacopter": (6, np.pi / 6, 0.45), "octocopter": (8, np.pi / 8, 0.34)}
"""Airframes with rotors on a circle: their number, the angle of the first one (rad), the propeller radius per arm."""
Pair = tuple[float, float]


def hovering_prototype(agility: float = 1.0, lever: float = 0.0) -> Prototype:
    """Prototype of a vehicle with parallel thrusts, from the default poles times ``agility``.

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


@recipe
def multicopter(
    rotors: Sequence[Rotor],
    mass: float,
    moment: Any,
    *,
    com: Any = (0.0, 0.0, 0.0),
    prototype: Prototype | None = None,
    agility: float = 1.0,
    name: str = "multicopter",
    drag: float | None = None,
    propulsion: Propulsion | None = None,
    sensors: Sensors | None = None,
    torque_priority: float | None = 100.0,
    thrust_gain: float = 1.0,
    attitude: Any = "matrix",
    velocity: str = "body",
    limbs: Sequence[Limb] = (),
    skids: Skids | None = None,
    battery: Battery | None = None,
    firmware: Mapping[str, Mapping[str, float | str]] | None = None,
    levers: Pair = (0.0, 0.0),
    input_names: Sequence[str] | None = None,
) -> Vehicle:
    """A multicopter with any number of rotors at any pose; redundant thrusts are shared.

    Parameters
    ----------
    rotors : fixed or tilting ones.
    mass : kg. moment : (3,) or (3, 3) about the centre of mass, kg m^2. com : (3,) m.
    prototype : prototype of the control; default: the quadcopter's poles times ``agility``.
    drag : air drag in wind, N s/m; default: 0.11/s times the mass. propulsion : coefficients of propellers and motors, if known. sensors : if known.
    torque_priority : see :class:`.Limits`.
    thrust_gain : true thrust per commanded thrust, to simulate a plant that the controller does not know.
    attitude, velocity : coordinates of the free body, see :class:`.Free`.
    limbs : links of an arm, a gripper, a gimbal: further bodies with joints and motors, whose inputs follow those of the rotors.
    skids : on which it stands; default: typical ones.
    battery, firmware : battery and firmware settings for flights with a flight stack, see :class:`.Vehicle`.
    levers : see :class:`.Vehicle`. input_names : default: thrust0, thrust1, ... for fixed rotors, ft1, fz1, ... for tilting ones.

    Examples
    --------
    >>> hexa = multicopter(ring(6, 0.3, drag_ratio=0.02, thrust=(0.0, 6.0)), 1.5, (0.02, 0.02, 0.035))
    >>> hexa.model.nu, hexa.virtual.nu
    (6, 4)
    """
    shape = Airframe(rotors)
    W = wrench_matrix(shape.rotors)
    U, C, _ = independent(W)
    if not len(C) or np.linalg.norm(U[2]) < 1e-9:
        raise ModelError(
            f"the rotors of {name!r} cannot lift it: none of them pushes along z. Turn their axes upwards."
        )
    if np.isfinite(mass) and not limbs:  # an arm moves the centre of mass
        check_hover(name, shape.rotors, mass * GRAVITY / thrust_gain if thrust_gain > 0 else 0.0, com)
    limbs = check_limbs(limbs)

    def base() -> System:
        return hull(name, mass, moment, attitude, velocity, com)

    def describe() -> System:
        system = base()
        add_rotors(system, shape.rotors, thrust_gain, input_names)
        add_limbs(system, limbs)
        return system

    model = describe().derive()
    if prototype is None:
        # the thrust accelerates the common centre of mass: seen from the hull's origin, x'' = g th + eps th'' with its height eps
        prototype = hovering_prototype(agility, center_below(model) if limbs else 0.0)
        prototype = limb_prototype(prototype, limbs) if limbs else prototype
    limits = rotor_limits(shape.rotors, torque_priority, others=[limb.force for limb in limbs])
    virtual = None
    # tilt limits and limbs need the law of all inputs, which allocates them itself
    if len(C) < W.shape[1] and not limbs and not isinstance(limits, TiltLimits):
        system = base()
        for k, column in enumerate(U.T):
            system.input(f"w{k + 1}", Wrench("hull", force=column[:3], moment=column[3:]))
        virtual = system.derive()
    rows = parameter_rows(mass, moment, shape.rotors) | {f"limb {limb.name}": _limb_row(limb) for limb in limbs}
    drag = TYPICAL_DRAG * mass if drag is None else drag
    return Vehicle(
        model, prototype, limits, shape, describe, virtual, rows, levers, drag, propulsion, sensors=sensors, limbs=limbs, skids=skids,
        battery=battery, firmware=firmware or {},
    )  # fmt: skip


def _ring_copter(name: str, mass: float, moment: Any, arm: float, drag_ratio: float, thrust: Pair, options: Any) -> Vehicle:  # fmt: skip
    count, start, radius = RINGS[name]
    rotors = ring(count, arm, start=start, drag_ratio=drag_ratio, thrust=thrust, radius=radius * arm)
    return multicopter(rotors, mass, moment, name=name, **{**AIRFRAME, **options})


@recipe
def quadcopter(
    mass: float = 0.9,
    moment: Sequence[float] = (0.008, 0.008, 0.014),
    arm: float = 0.2,
    drag_ratio: float = 0.016,
    thrust: Pair = (0.0, 6.0),
    **options: Any,
) -> Vehicle:
    """Four propellers at the ends of a cross; the inputs are their thrusts in N.

    Parameters
    ----------
    mass : kg. moment : principal moments of inertia, kg m^2. arm : m. drag_ratio : torque per thrust, m.
    thrust : least and largest thrust of a propeller, N.
    options : options of :func:`multicopter`, for example ``thrust_gain``, ``attitude``, ``velocity``.

    Examples
    --------
    >>> quad = quadcopter()
    >>> quad.model.nv, quad.model.nu
    (6, 4)
    """
    return _ring_copter("quadcopter", mass, moment, arm, drag_ratio, thrust, options)


@recipe
def hexacopter(
    mass: float = 1.5,
    moment: Sequence[float] = (0.022, 0.022, 0.04),
    arm: float = 0.28,
    drag_ratio: float = 0.018,
    thrust: Pair = (0.0, 6.5),
    **options: Any,
) -> Vehicle:
    """Six propellers in a circle, four independent directions; parameters as :func:`quadcopter`.

    >>> hexacopter().model
    Model('hexacopter': nq=12, nv=6, nu=6, bodies=1)
    """
    return _ring_copter("hexacopter", mass, moment, arm, drag_ratio, thrust, options)


@recipe
def octocopter(
    mass: float = 2.4,
    moment: Sequence[float] = (0.05, 0.05, 0.09),
    arm: float = 0.38,
    drag_ratio: float = 0.02,
    thrust: Pair = (0.0, 8.0),
    **options: Any,
) -> Vehicle:
    """Eight propellers in a circle, four independent directions; parameters as :func:`quadcopter`.

    >>> octocopter().model
    Model('octocopter': nq=12, nv=6, nu=8, bodies=1)
    """
    return _ring_copter("octocopter", mass, moment, arm, drag_ratio, thrust, options)


@recipe
def tricopter(
    mass: float = 1.2,
    moment: Sequence[float] = (0.013, 0.013, 0.024),
    arm: float = 0.25,
    drag_ratio: float = 0.018,
    *,
    thrust: Pair = (0.0, np.inf),
    tilt: Pair = (-np.inf, np.inf),
    tilt_rate: float = np.inf,
    **options: Any,
) -> Vehicle:
    """Three propellers that tilt about their arms: fully actuated. The inputs are the tangential and the axial force of each in N.

    Thrust and tilt of propeller k follow from its forces: ``hypot(ft, fz)`` and ``atan2(-ft, fz)``, see :func:`tilting_thrusts`.
    ``thrust`` (N), ``tilt`` (rad) and ``tilt_rate`` (rad/s) limit them, see :class:`.Sector`; a rate is kept for samples every 5 ms.
    The prototype has the model's inertia, natural frequencies 3 rad/s (translation) and 10 rad/s (rotation), critically damped.

    >>> tricopter().model
    Model('tricopter': nq=12, nv=6, nu=6, bodies=1)
    """
    w_t, w_r, theta = 3.0, 10.0, np.asarray(moment, dtype=float)
    prototype = Prototype.of_body(
        Inertia(mass, moment_at_com=moment),
        Damping(2 * w_t * mass, moment_at_center=2 * w_r * theta),
        Stiffness(w_t**2 * mass, moment_at_center=w_r**2 * theta),
    )
    rotors = tilting_rotors(arm, drag_ratio, thrust, tilt, tilt_rate)
    return multicopter(rotors, mass, moment, prototype=prototype, name="tricopter", **{**AIRFRAME, **options})


@recipe
def bicopter(
    mass: float = 1.0,
    moment: Sequence[float] = (0.020, 0.006, 0.022),
    arm: float = 0.25,
    height: float = 0.10,
    inclination: float = np.deg2rad(15.0),
    *,
    thrust: Pair = (0.0, np.inf),
    tilt: Pair = (-np.inf, np.inf),
    tilt_rate: float = np.inf,
    **options: Any,
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
    high = arm / np.tan(inclination) + height
    levers = (lateral_lever(moment[1], mass, height), lateral_lever(moment[0], mass, high))
    prototype = Prototype.matched(LATERAL, 4.0, poles_of(3.0, 0.9), levers=levers, height=0.07)
    names = ("fx1", "fn1", "fx2", "fn2")
    return multicopter(
        rotors, mass, moment, prototype=prototype, name="bicopter", levers=levers, input_names=names,
        **{**AIRFRAME, **options},
    )  # fmt: skip


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
    thrust: Pair = (0.0, np.inf),
    tilt: Pair = (-np.inf, np.inf),
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


def _limb_row(limb: Limb) -> str:
    motor = f", motor {limb.force:g}" if np.isfinite(limb.force) else ""
    return f"{limb.mass:g} kg, {np.linalg.norm(limb.tip):.3g} m{motor}"
