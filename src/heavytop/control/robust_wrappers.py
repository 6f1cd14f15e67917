"""Observers, prediction and a governor around a law, chosen by the sensors and actuators: :func:`robust`.

:func:`heavytop.copters.robust_controller` takes law, sensors, actuators and drag from the description of a vehicle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop.control.actuators.command_history import CommandMemory, RotorState
from heavytop.control.actuators.lag import LagInverse, Propellers
from heavytop.control.disturbances.air_drag import AirDrag
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.law import FeedbackLaw
from heavytop.control.laws.wrapper import Wrapper
from heavytop.control.observers.compensation import Compensated
from heavytop.control.observers.disturbance_observers import ForceObserver, MomentObserver, ThrustScale
from heavytop.control.observers.identification import Identified
from heavytop.control.observers.measurements import OnPart
from heavytop.control.observers.prediction import Predicted
from heavytop.control.observers.sensors import Sensed, Sensors
from heavytop.control.references.governor import Governed

OBSERVER_TIME, VELOCITY_TIME = 0.03, 0.12
"""Time constants (s) of the observers, with an accelerometer and from the velocity alone."""
SCALE_TIME = 0.5
LAG_LEFT = 0.01
"""Lag (s) of slow actuators behind the inverse of their lag."""
LONGEST = 0.04
"""Longest identified delay (s)."""


def robust(
    law: FeedbackLaw | Wrapper,
    sensors: Sensors | None = None,
    actuators: Propellers | None = None,
    *,
    drag: AirDrag | None = None,
    delay: float | None = None,
    identify: bool | None = None,
    governor: bool = True,
    members: int | tuple[int, ...] = (),
) -> BaseController:
    """A law with the wrappers for outdoor flight that suit the sensors and actuators. It still needs its reference.

    ===================== =================================================================================================
    with                  is added
    ===================== =================================================================================================
    anything              observers of the disturbing force and moment, the scale of the thrust, a governor
    an accelerometer      a fast observer of the force (30 ms instead of 120 ms)
    ``actuators``         the state of the actuators, prediction over the delay, the inverse of their lag
    measured rotor speeds identification of delay and lag in flight, unless ``delay`` is given
    ``drag``              a reference that balances it, and observers that need not learn it
    ===================== =================================================================================================

    Parameters
    ----------
    law : of a single free body, or a wrapper around one that reads signals. sensors : of the vehicle; None: the state is measured perfectly.
    actuators : of the vehicle; None: the inputs act immediately.
    drag : as far as known. delay : of the measurements in s, if known; None: zero, or identified.
    identify : whether delay and lag are identified; None: if rotor speeds are measured and no delay is given.
    governor : whether large errors are limited, for a law with a prototype. members : batch axes whose members have different noise.

    Examples
    --------
    >>> from heavytop.control import Propellers, Sensors
    >>> from heavytop.copters import quadcopter
    >>> quad = quadcopter()
    >>> flown = robust(quad.law(), Sensors(rotor_speeds=None), Propellers(0.02, lowest=0.0, highest=6.0), delay=0.02)
    >>> flown.needs_reference
    True
    """
    model, measured = law.law.model, () if sensors is None else sensors.names
    heart = law if isinstance(law, Wrapper) else OnPart(law, model)
    controller: Any = Compensated(heart, model, drag, actuators)
    if governor and getattr(law.law, "prototype", None) is not None:
        controller = Governed(controller, model)
    if actuators is not None:
        controller = LagInverse(controller, actuators, LAG_LEFT)
        controller = Predicted(controller, model, actuators, delay or 0.0, lag_left=LAG_LEFT, drag=drag)
    time = OBSERVER_TIME if "accelerometer" in measured else VELOCITY_TIME
    controller = MomentObserver(controller, model, OBSERVER_TIME)
    known = drag if actuators is not None else None
    controller = ForceObserver(controller, model, time, drag=known)
    controller = ThrustScale(controller, model, SCALE_TIME, drag=known)
    if actuators is not None:
        controller = RotorState(controller, model, actuators, delay or 0.0)
        if identify is None:
            identify = delay is None and "rotor_speeds" in measured
        if identify:
            controller = Identified(controller, model, actuators, delay or 0.0, LONGEST)
        longest = LONGEST if identify else float(np.max(delay or 0.0))
        controller = CommandMemory(controller, model, actuators, longest)
    return controller if sensors is None else Sensed(controller, model, sensors, members)
