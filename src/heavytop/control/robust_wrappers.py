"""Observers, prediction and a governor around a law, chosen by the sensors and actuators: :func:`robust`.

:func:`heavytop.copters.robust_controller` takes law, sensors, actuators and drag from the description of a vehicle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._format import Brief
from heavytop.control.actuators.command_history import CommandMemory, RotorState
from heavytop.control.actuators.lag import LagInverse, Propellers
from heavytop.control.disturbances.air_drag import AirDrag
from heavytop.control.estimation.estimator import Estimator
from heavytop.control.estimation.observed import Estimated
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.law import FeedbackLaw
from heavytop.control.laws.wrapper import Wrapper
from heavytop.control.linear.margins import Margins
from heavytop.control.observers.compensation import Compensated
from heavytop.control.observers.disturbance_observers import ForceObserver, MomentObserver, ThrustScale
from heavytop.control.observers.hull import Hull
from heavytop.control.observers.identification import Identified
from heavytop.control.observers.measurements import OnPart
from heavytop.control.observers.prediction import Predicted
from heavytop.control.observers.sensors import Sensed, Sensors
from heavytop.control.observers.state_filter import Filtered
from heavytop.control.observers.thrust_loss import ThrustLoss
from heavytop.control.references.governor import Governed
from heavytop.system import GRAVITY

LONGEST = 0.04
"""Longest identified delay (s) by default."""
OBSERVER, VELOCITY, SCALE, LEFT = 0.48, 1.92, 8.0, 0.16
"""Times per period 1/w of the law's fastest pole w: of the observers with an accelerometer and from the velocity alone, of the scale of the
thrust, and the lag of the actuators that is left behind the inverse of their lag."""
LARGEST_MOMENT, LARGEST_FORCE = 0.23, 0.8
"""Largest observed angular acceleration per w^2, and largest observed acceleration per gravity."""
LOSS = 0.32
"""Time constant of the observer of lost thrust, per period 1/w."""
HELD, LAGGED = 2.2, 3.0
"""Samples needed per period 1/w, and more of them per w times the lag."""


@dataclass(frozen=True, repr=False)
class Tuning(Brief):
    """Time constants of the wrappers of :func:`robust`, and the least sample rate, from the fastest pole of the law and the lag.

    Attributes
    ----------
    pole : w, magnitude of the fastest pole of the law, rad/s.
    observer, velocity : time constants of the observers with an accelerometer (and of the moment), and from the velocity alone, s.
    scale : time constant of the thrust's scale, s. lag_left : lag behind the inverse, s.
    force, moment : largest observed accelerations, m/s^2 and rad/s^2.
    sample_rate : least rate of the samples, Hz.

    Examples
    --------
    >>> Tuning.of(16.0, lag=0.005).lag_left, round(Tuning.of(16.0, lag=0.005).sample_rate, 1)
    (0.01, 39.0)
    """

    pole: float
    observer: float
    velocity: float
    scale: float
    lag_left: float
    force: float
    moment: float
    sample_rate: float

    @classmethod
    def of(cls, pole: float, lag: float = 0.0, gravity: float = GRAVITY) -> Tuning:
        """The rules: every time is a multiple of 1 / pole."""
        w = pole
        return cls(
            w, OBSERVER / w, VELOCITY / w, SCALE / w, LEFT / w, LARGEST_FORCE * gravity, LARGEST_MOMENT * w * w,
            w * (HELD + LAGGED * w * lag),
        )  # fmt: skip


class Tuned(Wrapper):
    """The whole of :func:`robust` inside its sensors: it passes everything on, and has the tuning and the margins.

    Attributes
    ----------
    tuning : :class:`Tuning`.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> round(robust(quadcopter().law(limits=False)).tuning.sample_rate, 1)
    17.6
    """

    def __init__(self, controller: Any, tuning: Tuning) -> None:
        super().__init__(controller)
        self.tuning = tuning

    def margins(self, *given: Any, **named: Any) -> Margins:
        """Margins of the law inside; the sample rate is that of the whole with the assumed lag, and with half as much again."""
        return replace(self.law.margins(*given, **named), sample_rate=self.tuning.sample_rate)


def sampled_pole(period: float, lag: float = 0.0) -> float:
    """The fastest pole w (rad/s) for a sample period (s): w (2.2 + 3 w lag) = 1 / period; infinite for no period.

    >>> w = sampled_pole(0.02, 0.05)
    >>> round(Tuning.of(w, 0.05).sample_rate, 6)
    50.0
    """
    if not period:
        return np.inf
    a, b = LAGGED * lag, HELD
    return float(2 / period / (b + np.sqrt(b * b + 4 * a / period)))


def fastest_pole(law: Any) -> float:
    """Magnitude (rad/s) of the fastest pole of a law at rest; that of a typical vehicle if it has none."""
    found = getattr(law, "inner", law)
    if getattr(found, "prototype", None) is None:
        return TYPICAL_POLE
    return float(np.max(np.abs(found.poles())))


TYPICAL_POLE = 16.0
ACTIVITY = 0.05
"""Mean change of a command per sample by noise, per hover thrust, that a motor tolerates."""


def quiet_moments(hull: Hull, activity: float | None, amplified: float) -> np.ndarray:
    """Deviations (3,) of angular accelerations (rad/s^2) per sample that change the commands by the activity (N) in the mean.

    ``amplified`` : factor of the inverse of the lag.
    """
    share = np.linalg.pinv(hull.wrenches)
    weight = hull.mass * (float(np.linalg.norm(hull.gravity)) or GRAVITY)
    bound = ACTIVITY * float(np.mean(np.abs(share[:, 2]))) * weight if activity is None else float(activity)
    per = np.mean(np.abs(share[:, 3:]), axis=0) * np.diag(hull.moment)
    return bound / (amplified * np.maximum(per, 1e-12))


MOMENTS, FORCES = 0.38, 0.3
"""Shares of the activity left to the gyro about each axis, and to the accelerometer."""


def turning_gains(law: Any, pole: float) -> tuple[np.ndarray, np.ndarray]:
    """Angular accelerations that a law demands per angular velocity (3,), 1/s, and per angle (3,), 1/s^2: those of its prototype."""
    prototype = getattr(law, "prototype", None)
    if prototype is None or len(prototype.inertia) != 1:
        return np.full(3, 2 * pole), np.full(3, pole**2)
    ((body, inertia),) = prototype.inertia.items()
    found = [
        sum((np.diag(m.moment_at_center) for (_, b), m in parts.items() if b == body), start=np.zeros(3))
        for parts in (prototype.damping, prototype.stiffness)
    ]
    return found[0] / np.diag(inertia.moment_at_com), found[1] / np.diag(inertia.moment_at_com)


def robust(
    law: FeedbackLaw | Wrapper,
    sensors: Sensors | None = None,
    actuators: Propellers | None = None,
    *,
    drag: AirDrag | None = None,
    delay: float | None = None,
    identify: bool | None = None,
    governor: bool = True,
    observers: bool = True,
    members: int | tuple[int, ...] = (),
    longest: float = LONGEST,
    activity: float | None = None,
    estimator: Estimator | None = None,
    start: Any = None,
) -> BaseController:
    """A law with the wrappers for outdoor flight that suit the sensors and actuators. It still needs its reference.

    ===================== =================================================================================================
    with                  is added
    ===================== =================================================================================================
    anything              observers of the disturbing force and moment, the scale of the thrust, a governor
    an accelerometer      a fast observer of the force, four times as fast
    ``actuators``         the state of the actuators, prediction over the delay, the inverse of their lag
    measured rotor speeds identification of delay and lag in flight, unless ``delay`` is given
    ``drag``              a reference that balances it, and observers that need not learn it
    ===================== =================================================================================================

    Parameters
    ----------
    law : law of a single free body, or a wrapper around one that reads signals.
    sensors : sensors of the vehicle; None: the state is measured perfectly.
    actuators : actuators of the vehicle; None: the inputs act immediately.
    drag : drag as far as it is known. delay : delay of the measurements in s, if known; None: zero, or identified.
    identify : whether delay and lag are identified; None: if rotor speeds are measured and no delay is given.
    governor : whether large errors are limited, for a law with a prototype. observers : whether disturbances and the scale of the thrust are
        observed; without observers the law still knows lag, delay and drag. members : batch axes whose members have different noise.
    longest : longest delay that is identified, s.
    activity : largest mean change of a command from one sample to the next by the noise of the sensors, N; None: 5 % of the hover thrust.
    estimator, start : a filter of the vehicle with its first memory; it replaces the stationary filter of the measurements, see :class:`.Estimated`.

    All time constants are multiples of the period of the law's fastest pole, see :class:`Tuning`.

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
    hull = Hull.of(model)
    gravity = float(np.linalg.norm(hull.gravity)) or GRAVITY
    lag = 0.0 if actuators is None else float(np.mean(actuators.time_constant))
    tuning = Tuning.of(fastest_pole(law.law), lag, gravity)
    if actuators is not None:
        controller = LagInverse(controller, actuators, tuning.lag_left)
        controller = Predicted(controller, model, actuators, delay or 0.0, lag_left=tuning.lag_left, drag=drag)
    time = tuning.observer if "accelerometer" in measured else tuning.velocity
    gyro = 0.0 if sensors is None else sensors.gyro.noise
    felt = 0.0 if sensors is None or sensors.accelerometer is None else sensors.accelerometer.noise
    quiet = quiet_moments(hull, activity, lag / min(lag, tuning.lag_left) if lag else 1.0)
    damping, stiffness = turning_gains(law.law, tuning.pole)
    if observers:
        controller = MomentObserver(controller, model, tuning.observer, tuning.moment, gyro, MOMENTS * quiet, damping)
        known = drag if actuators is not None else None
        # the reference leans against the force
        leaning = FORCES * gravity * float(np.min(quiet[:2] / stiffness[:2]))
        controller = ForceObserver(controller, model, time, tuning.force, known, felt, leaning)
        controller = ThrustScale(controller, model, tuning.scale, drag=known)
    if "thrust_loss" in getattr(heart, "requires", ()):
        controller = ThrustLoss(controller, model, LOSS / tuning.pole, gyro, getattr(heart, "pairs", ()))
    if actuators is not None:
        controller = RotorState(controller, model, actuators, delay or 0.0)
        if identify is None:
            identify = delay is None and "rotor_speeds" in measured
        if identify:
            controller = Identified(controller, model, actuators, delay or 0.0, longest)
        oldest = longest if identify else float(np.max(delay or 0.0))
        controller = CommandMemory(controller, model, actuators, oldest)
    if estimator is not None:
        controller = Estimated(controller, estimator, start)
    elif sensors is not None and any(getattr(sensors, name).noise for name in measured):
        controller = Filtered(controller, model, sensors)
    controller = Tuned(controller, tuning)
    rotors = None if actuators is None else actuators.rotors(model.nu)
    return controller if sensors is None else Sensed(controller, model, sensors, members, rotors)
