"""Any number of rotors at any pose on one hull."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop._pickling import remembered
from heavytop.control.laws.prototype import Prototype
from heavytop.control.limits.thrust_sector import TiltLimits
from heavytop.control.observers.sensors import Sensors
from heavytop.copters.airframe import Airframe, Rotor, ring
from heavytop.copters.hover_feasibility import check_hover
from heavytop.copters.limbs import Limb, add_limbs, center_below, check_limbs, limb_prototype
from heavytop.copters.propulsion import Propulsion
from heavytop.copters.redundant_allocation import independent
from heavytop.copters.vehicle import Vehicle, add_rotors, rotor_limits, wrench_matrix
from heavytop.copters.vehicles import GRAVITY, hovering_prototype, hull, parameter_rows
from heavytop.errors import ModelError
from heavytop.system.description.inputs import Wrench
from heavytop.system.system import System


@remembered
def multicopter(
    rotors: Sequence[Rotor],
    mass: float,
    moment: Any,
    *,
    com: Any = (0.0, 0.0, 0.0),
    prototype: Prototype | None = None,
    agility: float = 1.0,
    name: str = "multicopter",
    drag: float = 0.1,
    propulsion: Propulsion | None = None,
    sensors: Sensors | None = None,
    torque_priority: float | None = 100.0,
    thrust_gain: float = 1.0,
    attitude: Any = "matrix",
    velocity: str = "body",
    limbs: Sequence[Limb] = (),
) -> Vehicle:
    """A multicopter with any number of rotors at any pose; with more than the directions they span, thrusts are shared.

    Parameters
    ----------
    rotors : fixed or tilting ones.
    mass : kg. moment : (3,) or (3, 3) about the centre of mass, kg m^2. com : (3,) m.
    prototype : of the control; default: the quadcopter's poles times ``agility``.
    drag : air drag in wind, N s/m. propulsion : coefficients of propellers and motors, if they are known. sensors : if they are.
    torque_priority : see :class:`.Limits`.
    thrust_gain : true thrust per commanded thrust.
    limbs : links of an arm, a gripper, a gimbal: further bodies with joints and motors, which come behind the rotors among the inputs.

    Examples
    --------
    >>> hexa = multicopter(ring(6, 0.3, drag_ratio=0.02, thrust=(0.0, 6.0)), 1.5, (0.02, 0.02, 0.035))
    >>> hexa.model.nu, hexa.virtual.nu
    (6, 4)
    """
    shape = Airframe(rotors)
    rotors = tuple(shape.rotors)
    W = wrench_matrix(rotors)
    U, C, _ = independent(W)
    if not len(C) or np.linalg.norm(U[2]) < 1e-9:
        raise ModelError(
            f"the rotors of {name!r} cannot lift it: none of them pushes along z. Turn their axes upwards."
        )

    if np.isfinite(mass) and not limbs:  # an arm moves the centre of mass
        check_hover(name, rotors, mass * GRAVITY / thrust_gain if thrust_gain > 0 else 0.0, com)

    def base() -> System:
        return hull(name, mass, moment, attitude, velocity, com)

    limbs = check_limbs(limbs)

    def describe() -> System:
        system = base()
        add_rotors(system, rotors, thrust_gain)
        add_limbs(system, limbs)
        return system

    def virtual() -> System:
        system = base()
        for k, column in enumerate(U.T):
            system.input(f"w{k + 1}", Wrench("hull", force=column[:3], moment=column[3:]))
        return system

    system = describe()
    model = system.derive()
    if prototype is None:
        # the thrust accelerates the common centre of mass: seen from the hull's origin, x'' = g th + eps th'' with its height eps
        prototype = hovering_prototype(agility, center_below(model) if limbs else 0.0)
        prototype = limb_prototype(prototype, limbs) if limbs else prototype
    limits = rotor_limits(rotors, torque_priority, others=[limb.force for limb in limbs])
    # sectors and limbs are met by the law of all inputs, which knows itself what they can do together
    shared = len(C) < W.shape[1] and not limbs and not isinstance(limits, TiltLimits)
    return Vehicle(
        system,
        model,
        prototype,
        limits,
        shape,
        describe,
        virtual=virtual().derive() if shared else None,
        parameters=parameter_rows(mass, moment, rotors) | {f"limb {limb.name}": limb_row(limb) for limb in limbs},
        drag=drag,
        propulsion=propulsion,
        sensors=sensors,
        limbs=limbs,
    )


def limb_row(limb: Limb) -> str:
    """The parameters of a limb as text."""
    strong = f", motor {limb.force:g}" if np.isfinite(limb.force) else ""
    return f"{limb.mass:g} kg, {np.linalg.norm(limb.tip):.3g} m{strong}"


@remembered
def hexacopter(
    mass: float = 1.5,
    moment: Sequence[float] = (0.022, 0.022, 0.04),
    arm: float = 0.28,
    drag_ratio: float = 0.018,
    thrust: tuple[float, float] = (0.0, 6.5),
    **options: Any,
) -> Vehicle:
    """Six propellers in a circle, four independent directions.

    >>> hexacopter().model
    Model('hexacopter': nq=12, nv=6, nu=6, bodies=1)
    """
    rotors = ring(6, arm, start=np.pi / 6, drag_ratio=drag_ratio, thrust=thrust, radius=0.45 * arm)
    return multicopter(rotors, mass, moment, name="hexacopter", **options)


@remembered
def octocopter(
    mass: float = 2.4,
    moment: Sequence[float] = (0.05, 0.05, 0.09),
    arm: float = 0.38,
    drag_ratio: float = 0.02,
    thrust: tuple[float, float] = (0.0, 8.0),
    **options: Any,
) -> Vehicle:
    """Eight propellers in a circle, four independent directions.

    >>> octocopter().model
    Model('octocopter': nq=12, nv=6, nu=8, bodies=1)
    """
    rotors = ring(8, arm, start=np.pi / 8, drag_ratio=drag_ratio, thrust=thrust, radius=0.34 * arm)
    return multicopter(rotors, mass, moment, name="octocopter", **options)
