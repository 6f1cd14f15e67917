"""The robust controller of a vehicle: one law with one set of constants, and sensors, actuators and drag of its description.

The wrappers around the law are chosen by :func:`heavytop.control.robust`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.control import (
    LONGEST,
    AirDrag,
    BaseController,
    Estimator,
    FeedbackLaw,
    Hull,
    OnPart,
    Propellers,
    Prototype,
    Sensor,
    Sensors,
    Wrapper,
    poles_of,
    robust,
    sampled_pole,
)
from heavytop.copters.authority import Authority
from heavytop.copters.carrying import Carrying, as_rigid, has_parts
from heavytop.copters.failover import Failover
from heavytop.copters.propulsion import SERVO, typical_propulsion
from heavytop.system import GRAVITY

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

TILT, LATE, LAGGING = 1.0, 0.64, 0.8
"""Bounds of the frequency w of the tilt: w^2 per angular acceleration by the rotors, w times the longest delay, w times the lag."""
POSITION, YAW, TURNING = 0.3125, 0.47, 1.8
"""Double pole of the position and natural frequency of the yaw per that of the tilt; bound of the latter per root of the angular acceleration."""
TORQUE_PRIORITY = 1e4
SPREAD = 0.3
"""Desired tilt inertia per largest one of a positive prototype."""
YAW_SHARE = 1e-3
"""Desired inertia of the yaw per that of the tilt: at the limits of the rotors the heading gives way."""
TYPICAL_SENSORS = Sensors(
    position=Sensor(0.005),
    attitude=Sensor(float(np.deg2rad(0.3))),
    velocity=Sensor(0.03),
    gyro=Sensor(0.02),
    accelerometer=Sensor(0.2, 0.05),
    rotor_speeds=Sensor(2.5),
)
"""Motion capture with differentiated signals, an ordinary inertial unit, motors that report their speed."""


def agile_frequencies(vehicle: Vehicle, longest: float = LONGEST, period: float = 0.0) -> tuple[float, float, float]:
    """Position pole (1/s), tilt and yaw frequency (rad/s) that a vehicle can realise.

    With the angular accelerations alpha of its rotors (:class:`.Authority`), their lag tau, the longest delay and the sample period h:

        w = min(sqrt(alpha_tilt), 0.64 / longest, 0.8 / tau, w_h),    w_h (2.2 + 3 w_h tau) = 1 / h,
        w_position = 0.3125 w,    w_yaw = min(0.47 w, 1.8 sqrt(alpha_yaw)).

    Parameters
    ----------
    longest : longest tolerated delay of the measurements, s. period : sampling period, s; 0: fast enough.

    Examples
    --------
    >>> from heavytop.copters import load
    >>> [round(w, 2) for w in agile_frequencies(load("hummingbird"))]
    [5.0, 16.0, 7.43]
    """
    can = Authority.of(vehicle)
    w = min(TILT * np.sqrt(can.tilt), LATE / longest, LAGGING / can.lag, sampled_pole(period, can.lag))
    return POSITION * w, w, float(min(YAW * w, TURNING * np.sqrt(can.yaw))) or YAW * w


def agile_prototype(
    position: float = 5.0,
    attitude: float = 16.0,
    damping: float = 1.0,
    gravity: float = GRAVITY,
    yaw: float | None = None,
) -> Prototype:
    """Prototype of a vehicle with parallel thrusts: a double position pole at -position, tilt and yaw at ``attitude`` and ``yaw`` rad/s.

    >>> round(float(agile_prototype().stiffness["world", "hull"].total), 6)
    25.0
    """
    lateral = [-position, -position, *poles_of(attitude, damping)]
    p3, _, p1, _ = np.real(np.poly(lateral))[1:]
    spread = SPREAD * p3 * 2 * position * gravity**2 / p1**2
    heading = poles_of(YAW * attitude if yaw is None else yaw, 0.9)
    return Prototype.from_poles(
        lateral, (-position, -position), heading, spread=spread, yaw_inertia=YAW_SHARE * spread, gravity=gravity
    )


def agile_law(
    vehicle: Vehicle,
    position: float | None = None,
    attitude: float | None = None,
    *,
    limits: bool = True,
    longest: float = LONGEST,
    period: float = 0.0,
) -> FeedbackLaw:
    """The energy-based law of a vehicle with these poles; at the limits, torques have priority over thrust.

    Vehicles with tilting rotors keep their own prototype. With loads or limbs it is the law of the rigid body of :class:`.Carrying`.

    Parameters
    ----------
    position, attitude : poles, 1/s and rad/s; default: those the vehicle can realise, see :func:`agile_frequencies`, with their ``longest``
        and ``period``.
    limits : whether the law keeps those of the vehicle.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> agile_law(quadcopter()).kind
    'energy'
    """
    if has_parts(vehicle):
        vehicle = as_rigid(vehicle)
    if is_tilting(vehicle):
        return vehicle.law("energy", limits)
    bounds = vehicle.limits and replace(vehicle.limits, torque_priority=TORQUE_PRIORITY, inertia=None)
    slow, fast, yaw = agile_frequencies(vehicle, longest, period)
    if attitude is not None:
        slow, yaw = POSITION * attitude, min(yaw, YAW * attitude)
    gravity = vehicle.weight / vehicle.mass or GRAVITY
    prototype = agile_prototype(position or slow, attitude or fast, gravity=gravity, yaw=yaw)
    if np.any(com := Hull.of(vehicle.model).com):
        prototype = prototype.shifted(com)
    return vehicle.law("energy", (bounds or False) if limits else False, prototype=prototype)


def is_tilting(vehicle: Vehicle) -> bool:
    """Whether a rotor tilts."""
    return any(rotor.tilt is not None for rotor in vehicle.airframe.rotors)


def known_drag(vehicle: Vehicle) -> AirDrag | None:
    """The drag in the description of a vehicle; None if there is none."""
    p = vehicle.propulsion
    if p is None or not p.has_drag:
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
    longest: float = LONGEST,
    period: float = 0.0,
    activity: float | None = None,
    estimator: Estimator | None = None,
    start: Any = None,
    failures: bool = False,
    observers: bool = True,
) -> BaseController:
    """``control.robust`` with the law, the actuators and the drag of a vehicle.

    Parameters
    ----------
    vehicle : a vehicle. With a load or limbs its hull is controlled as a rigid body that they push, see :class:`.Carrying`, without known drag; the
        servos of tilting rotors are predicted as a lag of the forces. sensors : default: those of the vehicle, else perfect ones.
    law : default: :func:`agile_law`, with a load or limbs a law of that rigid body; also a :class:`.Failover` around it.
    failures : whether failed rotors are detected and left out, by a :class:`.Failover` around the law.
    drag : whether the controller knows the drag of the description.
    delay, identify, members, activity, estimator, start, observers : see :func:`.control.robust`.
    longest, period : longest delay and sample period (s) for which the default law is made, see :func:`agile_frequencies`; 0: down to the
        rate of ``controller.margins().sample_rate``.
    rotors : whether the plant has fixed rotors that lag; otherwise the inputs act immediately, without drag, and rotor speeds are not measured.

    Examples
    --------
    >>> from heavytop.copters import load
    >>> robust_controller(load("hummingbird")).needs_reference
    True
    """
    if has_parts(vehicle):
        rigid = as_rigid(vehicle)
        inner = robust_controller(
            rigid, sensors, law=law, drag=False, delay=delay, identify=identify, members=members, rotors=rotors, longest=longest,
            period=period, activity=activity, estimator=estimator, start=start, failures=failures, observers=observers,
        )  # fmt: skip
        return Carrying(inner, vehicle, rigid)
    sensors = sensors or vehicle.sensors or Sensors()
    law = agile_law(vehicle, longest=longest, period=period) if law is None else law
    if failures and not isinstance(law, Wrapper):
        law = Failover(OnPart(law, vehicle.model), vehicle)
    options: dict[str, Any] = {"delay": delay, "identify": identify, "members": members}
    options |= {
        "longest": longest,
        "activity": activity,
        "estimator": estimator,
        "start": start,
        "observers": observers,
    }
    if not rotors:
        return robust(law, replace(sensors, rotor_speeds=None), **options)
    if is_tilting(vehicle):
        # forces along both directions of a rotor follow thrust and servo
        p = vehicle.propulsion or typical_propulsion(vehicle)
        directions = [len(rotor.directions) for rotor in vehicle.airframe.rotors]
        slow = Propellers(
            0.5 * (p.lag + 2 / SERVO), "thrust", thrust_coefficient=p.thrust_coefficient, directions=directions
        )
        return robust(law, sensors, slow, **options)
    actuators = (vehicle.propulsion or typical_propulsion(vehicle)).actuators
    return robust(law, sensors, actuators, drag=known_drag(vehicle) if drag else None, **options)
