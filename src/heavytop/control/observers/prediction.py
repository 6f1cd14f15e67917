"""The state when the command will act, from late measurements and the commands sent since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array
from heavytop.control.actuators.command_history import sent, units
from heavytop.control.actuators.lag import Propellers
from heavytop.control.disturbances.air_drag import AirDrag
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull, HullMotion
from heavytop.geometry import so3
from heavytop.system import Model


class _Disturbances(NamedTuple):
    """Acceleration in world axes and angular acceleration besides those of the thrust, and the scale of the thrust."""

    force: Array
    moment: Array
    scale: Array


class Predicted(Wrapper):
    """A controller with the predicted state: from the measurement to now and ``ahead`` s further, when its command acts on average.

    Over the delay the model is driven by the commands that were sent and by the observed disturbances; the reference is evaluated equally far
    ahead. Reports the ``levels`` of the actuators now.

    Parameters
    ----------
    controller : the wrapped controller. model, actuators : model and actuators of the vehicle.
    delay : delay of the measurements, s, unless identified.
    ahead : s beyond now; None: half a sample and the lag, at most ``lag_left``.
    drag : known drag.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import Propellers
    >>> from heavytop.copters import quadcopter
    >>> Predicted(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model, Propellers(0.02), delay=0.02).delay
    0.02
    """

    def __init__(
        self,
        controller: Any,
        model: Model,
        actuators: Propellers,
        delay: float = 0.0,
        ahead: float | None = None,
        lag_left: float = 0.01,
        drag: AirDrag | None = None,
    ) -> None:
        super().__init__(controller)
        self.model, self.actuators, self.delay, self.ahead = model, actuators, float(delay), ahead
        self.lag_left, self.drag, self.hull = lag_left, drag, Hull.of(model)

    depends_on_period = True  # delays are counted in samples  # pyright: ignore[reportAssignmentType]

    @property
    def lead_time(self) -> float:
        """Time by which the reference is ahead, s; with the assumed lag, because a reference is a table."""
        return super().lead_time + self._beyond(self.sample_time or 0.0, float(np.mean(self.actuators.time_constant)))

    def _beyond(self, period: float, lag: Any) -> Any:
        if self.ahead is not None:
            return self.ahead
        return 0.5 * period + self._left(lag)

    def _left(self, lag: Any) -> Any:
        """Time (s) for which the actuators still act as before."""
        return np.minimum(lag, self.lag_left)

    def _saturated(self, at: Seen) -> Array:
        """1 if half of the commands or more were at the same limit for two samples, where the lag cannot be inverted; 0 for none of them."""
        act, nu = self.actuators, self.model.nu
        low, high = (float(act.level(np.asarray(bound))) for bound in (act.lowest, act.highest))
        slack = 1e-6 * (high - low) if np.isfinite(high - low) else 0.0
        # commands that alternate between the limits mean a lag that is inverted
        pairs = [(sent(at, nu, 1)[k], sent(at, nu, 2)[k]) for k in range(nu)]
        beyond = [
            np.where((np.maximum(a, b) <= low + slack) + (np.minimum(a, b) >= high - slack) > 0, 1.0, 0.0)
            for a, b in pairs
        ]
        return np.minimum(2 / nu * sum(beyond, start=0.0), 1.0)

    def _predicted(self, at: Seen) -> tuple[HullMotion, Array]:
        """The motion when the command acts, and the levels now."""
        if "predicted" in at.shared:
            return at.shared["predicted"]
        nu, act, step = self.model.nu, self.actuators, units(at.period)
        motion, levels = self.hull.motion(at.q, at.v), at.signals["levels"]
        force = self.hull.gravity
        if "force" in at.signals:
            force = force + at.signals["force"]
        if self.drag is not None:  # changes little during the delay
            force = force + np.matvec(motion.R, self.drag.acceleration(self.hull, motion, levels))
        known = _Disturbances(force, at.signals.get("moment", np.zeros(3)), at.signals.number("thrust_scale", 1.0))
        lag, delay = at.signals.number("lag", float(np.mean(act.time_constant))), at.signals.number("delay", self.delay)
        unit = step * at.period
        deepest = (at.signals["commands"].shape[-1] // nu - 1) // step
        fixed = isinstance(delay, float)
        if fixed:
            deepest = min(deepest, round(delay / unit))
        ratio = unit / lag
        kept = np.exp(-ratio)
        for i in range(deepest, 0, -1):
            parts = [sent(at, nu, (i - 1) * step + k + 1) for k in range(step)]
            target = sum(parts[1:], start=parts[0]) / step
            after = self._moved(motion, act.mean(levels, target, ratio), known, unit)
            later = target + (levels - target) * kept
            if fixed:
                motion, levels = after, later
                continue
            old = delay > (i - 0.5) * unit
            motion = HullMotion(*(np.where(old, new, same) for new, same in zip(after, motion, strict=True)))
            levels = np.where(old, later, levels)
        if self.ahead is not None or not self.needs_reference:
            motion = self._moved(motion, act.output(levels), known, self._beyond(at.period, lag))
        else:
            left = self._left(lag)
            left = left + np.maximum(lag - left - at.period, 0.0) * self._saturated(at)
            motion = self._moved(motion, act.output(levels), known, left)
            _, acceleration, turn = self.hull.reference(*at.reference)
            motion = accelerated(motion, acceleration, turn, 0.5 * at.period)
        at.shared["predicted"] = (motion, levels)
        return motion, levels

    def _moved(self, m: HullMotion, thrusts: Array, known: _Disturbances, h: Any) -> HullMotion:
        """The motion h later: constant thrusts along the attitude in the middle."""
        hull = self.hull
        force, moment = hull.forces(thrusts)
        spin = hull.angular_acceleration(m.omega, moment) + known.moment
        turn = h * (m.omega + 0.5 * h * spin)
        push = known.scale / hull.mass * force
        a = np.matvec(m.R, turned(0.5 * turn, push)) + known.force
        velocity = m.velocity + h * a
        return HullMotion(m.r + 0.5 * h * (m.velocity + velocity), m.R @ so3.cayley(turn), velocity, m.omega + h * spin)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The state when the command acts, and the levels now."""
        motion, levels = self._predicted(at)
        q, v, _ = self.hull.coordinates(motion)
        changed = {"q": q, "v": v, "levels": levels}
        if self.needs_reference and "lag" in at.signals and self.ahead is None:
            changed |= self._moved_reference(at)
        return changed

    def _moved_reference(self, at: Seen) -> Mapping[str, Array]:
        """The reference moved from the assumed to the identified lag."""
        hull = self.hull
        h = self._beyond(at.period, at.signals.number("lag", 0.0)) - self.lead_time
        m, acceleration, turn = hull.reference(*at.reference)
        moved = accelerated(m, acceleration, turn, h)
        q, v, a = hull.coordinates(moved, acceleration, turn)
        return {"q_R": q, "v_R": v, "a_R": a}


def accelerated(m: HullMotion, acceleration: Array, turn: Array, h: Any) -> HullMotion:
    """The motion h later with a constant acceleration (3,) in world axes and a constant angular one (3,) in body axes.

    >>> rest = HullMotion(np.zeros(3), np.eye(3), np.zeros(3), np.zeros(3))
    >>> accelerated(rest, np.array([0.0, 0.0, 2.0]), np.zeros(3), 0.5).r
    array([0.  , 0.  , 0.25])
    """
    velocity, spin = m.velocity + h * acceleration, m.omega + 0.5 * h * turn
    place = m.r + 0.5 * h * (m.velocity + velocity)
    return HullMotion(place, m.R @ so3.cayley(h * spin), velocity, m.omega + h * turn)


def turned(phi: Array, x: Array) -> Array:
    """cayley(phi) x (3,), without the matrix.

    >>> turned(np.array([0.0, 0.0, 2.0]), np.array([1.0, 0.0, 0.0]))
    array([0., 1., 0.])
    """
    factor, across = 4.0 / (4.0 + np.vecdot(phi, phi)), np.cross(phi, x)
    return x + factor * (across + 0.5 * np.cross(phi, across))
