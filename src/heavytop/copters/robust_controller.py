"""The robust controller of a vehicle: one law with one set of constants, and sensors, actuators and drag of its description.

The wrappers around the law are chosen by :func:`heavytop.control.robust`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heavytop.control import AirDrag, BaseController, FeedbackLaw, Prototype, Sensor, Sensors, Wrapper, poles_of, robust
from heavytop.copters.propulsion import typical_propulsion
from heavytop.errors import ControlError
from heavytop.system import GRAVITY

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

POSITION, ATTITUDE, YAW = 5.0, 16.0, 7.5
"""Double pole of the position (1/s), double pole of the tilt and natural frequency of the yaw (rad/s)."""
TORQUE_PRIORITY = 1e4
SPREAD = 0.3
"""Desired tilt inertia per largest one of a positive prototype."""
TYPICAL_SENSORS = Sensors(
    position=Sensor(0.005),
    attitude=Sensor(float(np.deg2rad(0.3))),
    velocity=Sensor(0.03),
    gyro=Sensor(0.02),
    accelerometer=Sensor(0.2, 0.05),
    rotor_speeds=Sensor(2.5),
)
"""Motion capture with differentiated signals, an ordinary inertial unit, motors that report their speed."""


def agile_prototype(
    position: float = POSITION, attitude: float = ATTITUDE, damping: float = 1.0, gravity: float = GRAVITY
) -> Prototype:
    """Prototype of a vehicle with parallel thrusts: double pole of the position at -position, tilt at ``attitude`` rad/s.

    >>> round(float(agile_prototype().stiffness["world", "hull"].total), 6)
    25.0
    """
    lateral = [-position, -position, *poles_of(attitude, damping)]
    p3, _, p1, _ = np.real(np.poly(lateral))[1:]
    spread = SPREAD * p3 * 2 * position * gravity**2 / p1**2
    return Prototype.from_poles(lateral, (-position, -position), poles_of(YAW, 0.9), spread=spread, gravity=gravity)


def agile_law(
    vehicle: Vehicle, position: float = POSITION, attitude: float = ATTITUDE, *, limits: bool = True
) -> FeedbackLaw:
    """The energy-based law of a vehicle with these poles, torques before thrust at the limits.

    >>> from heavytop.copters import quadcopter
    >>> agile_law(quadcopter()).kind
    'energy'
    """
    bounds = vehicle.limits and replace(vehicle.limits, torque_priority=TORQUE_PRIORITY, inertia=None)
    prototype = agile_prototype(position, attitude, gravity=vehicle.weight / vehicle.mass or GRAVITY)
    return vehicle.law("energy", (bounds or False) if limits else False, prototype=prototype)


def known_drag(vehicle: Vehicle) -> AirDrag | None:
    """The drag in the description of a vehicle; None if there is none."""
    p = vehicle.propulsion
    if p is None or not (p.rotor_drag or p.inflow or p.translational_lift or any(p.parasitic_drag)):
        return None
    rotors = vehicle.airframe.rotors
    return replace(p.air_drag, at=[rotor.at for rotor in rotors], axes=[rotor.axis for rotor in rotors])


def robust_controller(
    vehicle: Vehicle,
    sensors: Sensors | None = None,
    *,
    law: FeedbackLaw | Wrapper | None = None,
    drag: bool = True,
    delay: float | None = None,
    identify: bool | None = None,
    members: int | tuple[int, ...] = (),
    rotors: bool = True,
) -> BaseController:
    """``control.robust`` with the law, the actuators and the drag of a vehicle.

    Parameters
    ----------
    vehicle : a single hull. sensors : default: those of the vehicle, else perfect ones.
    law : default: :func:`agile_law`; also a :class:`.Failover` around it. drag : whether the controller knows the drag of the description.
    delay, identify, members : see :func:`.control.robust`.
    rotors : whether the plant has fixed rotors that lag; otherwise the inputs act immediately, without drag, and rotor speeds are not measured.

    Examples
    --------
    >>> from heavytop.copters import load
    >>> robust_controller(load("hummingbird")).needs_reference
    True
    """
    sensors, law = sensors or vehicle.sensors or Sensors(), agile_law(vehicle) if law is None else law
    if not rotors:
        return robust(law, replace(sensors, rotor_speeds=None), delay=delay, identify=identify, members=members)
    if any(rotor.tilt is not None for rotor in vehicle.airframe.rotors):
        raise ControlError(
            f"{vehicle.name!r} has tilting rotors: the robust controller predicts the thrusts of fixed rotors, one input each, not servos. "
            "Fly it with a law (law='energy'), or robustly with rotors that react immediately (rotors=False)."
        )
    actuators = (vehicle.propulsion or typical_propulsion(vehicle)).actuators
    return robust(
        law,
        sensors,
        actuators,
        drag=known_drag(vehicle) if drag else None,
        delay=delay,
        identify=identify,
        members=members,
    )
