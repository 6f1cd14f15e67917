"""Observers of model errors: a disturbing force, a disturbing moment, the true scale of the thrust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, transpose, vector
from heavytop.control.disturbances.air_drag import AirDrag
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull, HullMotion, limited, within
from heavytop.geometry import so3
from heavytop.system import Model


class _Observer(Wrapper):
    """Base of the observers: the motion of the hull and the thrusts of the last sample.

    The memory holds the last inputs (nu,), a velocity or angular velocity of the last sample (3,), 1 after the first sample, and the estimate.
    """

    def __init__(self, controller: Any, model: Model, time: float, estimate: int) -> None:
        super().__init__(controller)
        self.model, self.hull, self.time = model, Hull.of(model), time
        self.own_state_size = model.nu + 4 + estimate

    def _memory_parts(self, at: Seen) -> tuple[Array, Array, Array]:
        """Velocity of the last sample (3,), 1 after the first sample, and the estimate."""
        nu = self.model.nu
        return part(at.z, nu, nu + 3), at.z[nu + 3], part(at.z, nu + 4, self.own_state_size)

    def _motion(self, at: Seen) -> HullMotion:
        return self.hull.motion(at.q, at.v)

    def _gain(self, at: Seen) -> float:
        """Share of an error that is corrected within a sample."""
        return 1 - float(np.exp(-at.period / self.time))

    def _middle(self, at: Seen, motion: HullMotion) -> Array:
        """Rotation in the middle of the last sample."""
        return motion.R @ so3.cayley(-0.5 * at.period * motion.omega)

    def _thrusts(self, at: Seen) -> Array:
        """Mean thrusts (nu,) over the last sample: those of the rotors, or the requested inputs."""
        return at.signals.get("thrusts", part(at.z, 0, self.model.nu))

    def _felt(self, at: Seen, motion: HullMotion, before: Array, started: Array, drag: AirDrag | None) -> Array:
        """Specific force (3,) in body axes less known drag: by the accelerometer, or from the velocity of the last sample."""
        if "accelerometer" in at.signals:
            felt = at.signals["accelerometer"]
        else:
            rate = (motion.velocity - before) / at.period - self.hull.gravity
            felt = started * np.matvec(transpose(self._middle(at, motion)), rate)
        if drag is None:
            return felt
        return felt - drag.acceleration(self.hull, motion, at.signals["levels"])


class ThrustScale(_Observer):
    """Wrapper that reports ``thrust_scale``, the ratio of true to assumed thrust acceleration; a wrong mass or weak batteries change it.

    A least-squares fit of the measured to the assumed specific force along the thrust, with a forgetting time of ``time`` seconds.
    :class:`.Compensated` divides the thrust by this ratio.

    Parameters
    ----------
    controller : the wrapped controller. model : model of the vehicle. time : forgetting time, s. lowest, highest : range of the estimate.
    drag : known drag, so that it is not mistaken for weak thrust.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.copters import quadcopter
    >>> ThrustScale(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model).provides
    {'thrust_scale': 1}
    """

    provides: Mapping[str, int] = {"thrust_scale": 1}

    def __init__(
        self,
        controller: Any,
        model: Model,
        time: float = 0.5,
        lowest: float = 0.6,
        highest: float = 1.7,
        drag: AirDrag | None = None,
    ) -> None:
        super().__init__(controller, model, time, 2)
        self.lowest, self.highest, self.drag = lowest, highest, drag

    def first(self) -> np.ndarray:
        """The scale one, with the weight of hovering."""
        g2 = float(self.hull.gravity @ self.hull.gravity)
        return np.concatenate([np.zeros(self.model.nu + 4), [g2, g2]])

    def _sums(self, at: Seen) -> Array:
        """Products measured x assumed and assumed x assumed, (2,)."""
        motion, (before, started, old) = self._motion(at), self._memory_parts(at)
        force, _ = self.hull.forces(self._thrusts(at))
        assumed = force / self.hull.mass
        felt = self._felt(at, motion, before, started, self.drag)
        valid = started * np.where(np.vecdot(felt, felt) > 0, 1.0, 0.0)
        share = valid * self._gain(at)
        return old + share * (vector(np.vecdot(felt, assumed), np.vecdot(assumed, assumed)) - old)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        sums = self._sums(at)
        return {"thrust_scale": vector(within(sums[0] / np.maximum(sums[1], 1.0), self.lowest, self.highest))}

    def following(self, at: Seen, u: Array) -> Array:
        return concatenate(u, self._motion(at).velocity, np.ones(1), self._sums(at))

    def channels(self, at: Seen, u: Array) -> Mapping[str, Array]:
        return self.seen(at)


class ForceObserver(_Observer):
    """Wrapper that reports ``force``: the acceleration (3,) in world axes that neither thrust nor gravity nor known drag explains, m/s^2.

    By the accelerometer if there is one, otherwise from the change of the velocity; of first order with the time constant ``time``.

    Parameters
    ----------
    controller : the wrapped controller. model : model of the vehicle. time : time constant, s. largest : largest estimate, m/s^2. drag : known drag.
    noise : noise of the accelerometer, m/s^2. quiet : largest deviation of the estimate per sample by this noise, m/s^2: it slows the observer.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.copters import quadcopter
    >>> ForceObserver(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model).provides
    {'force': 3}
    """

    provides: Mapping[str, int] = {"force": 3}

    def __init__(
        self,
        controller: Any,
        model: Model,
        time: float = 0.03,
        largest: float = 8.0,
        drag: AirDrag | None = None,
        noise: float = 0.0,
        quiet: float = np.inf,
    ) -> None:
        super().__init__(controller, model, time, 3)
        self.largest, self.drag, self.noise, self.quiet = largest, drag, float(noise), float(quiet)

    def _gain(self, at: Seen) -> float:
        return min(super()._gain(at), self.quiet / self.noise) if self.noise else super()._gain(at)

    def _force(self, at: Seen) -> Array:
        if "force" in at.shared:
            return at.shared["force"]
        motion, (before, started, old) = self._motion(at), self._memory_parts(at)
        felt = self._felt(at, motion, before, started, self.drag)
        valid = started * np.where(np.vecdot(felt, felt) > 0, 1.0, 0.0)
        force, _ = self.hull.forces(self._thrusts(at))
        scale = at.signals.number("thrust_scale", 1.0)
        raw = np.matvec(self._middle(at, motion), felt - scale * force / self.hull.mass)
        share = valid * self._gain(at)
        at.shared["force"] = limited(old + share * (raw - old), self.largest)
        return at.shared["force"]

    def seen(self, at: Seen) -> Mapping[str, Array]:
        return {"force": self._force(at)}

    def following(self, at: Seen, u: Array) -> Array:
        return concatenate(u, self._motion(at).velocity, np.ones(1), self._force(at))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"disturbing_acceleration": self._force(at)}


class MomentObserver(_Observer):
    """Wrapper that reports ``moment``: the angular acceleration (3,) in body axes that the inputs do not explain, rad/s^2.

    An observer of the angular velocity, driven by the thrusts: with the error e of the gyro from the prediction, the estimates are

        omega <- omega_predicted + k e,    moment <- moment + (s / h) e,    s = 1 - exp(-h / time).

    k is 1 unless the noise of the gyro is given with a bound: then k and s are as small as it takes, and the angular velocity is filtered.

    Parameters
    ----------
    controller : the wrapped controller. model : model of the vehicle. time : time constant, s. largest : largest estimate about each axis, rad/s^2.
    noise : noise of the gyro, rad/s. quiet : (3,) largest deviation, per sample, of the angular acceleration that noise may demand, rad/s^2.
    damping : (3,) angular acceleration that the law demands per angular velocity, 1/s.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.copters import quadcopter
    >>> MomentObserver(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model).provides
    {'moment': 3}
    """

    provides: Mapping[str, int] = {"moment": 3}

    def __init__(
        self,
        controller: Any,
        model: Model,
        time: float = 0.03,
        largest: float = 60.0,
        noise: float = 0.0,
        quiet: Any = np.inf,
        damping: Any = 0.0,
    ) -> None:
        super().__init__(controller, model, time, 3)
        self.largest, self.noise = largest, float(noise)
        self.quiet, self.damping = (np.broadcast_to(np.asarray(x, dtype=float), (3,)) for x in (quiet, damping))

    def gains(self, period: float) -> tuple[np.ndarray, np.ndarray]:
        """k and s (3,) about each axis: half of the bound is left to each."""
        share = np.full(3, 1 - float(np.exp(-period / self.time)))
        if not self.noise:
            return np.ones(3), share
        # noise changes the demand by sqrt(2) noise (damping k + s / h) from one sample to the next
        half = 0.5 * self.quiet / (np.sqrt(2) * self.noise)
        k = np.clip(half / np.maximum(self.damping, 1e-9), LEAST_GAIN, 1.0)
        return k, np.minimum(share, np.where(k < 1, np.minimum(half * period, k * k / 4), half * period))

    def _estimates(self, at: Seen) -> tuple[Array, Array]:
        """Angular velocity (3,) and moment (3,)."""
        if "estimates" in at.shared:
            return at.shared["estimates"]
        omega, (before, started, old) = self._motion(at).omega, self._memory_parts(at)
        _, moment = self.hull.forces(self._thrusts(at))
        expected = self.hull.angular_acceleration(0.5 * (omega + before), moment)
        error = omega - before - at.period * (expected + old)
        k, share = self.gains(at.period)
        found = within(old + started * (share / at.period) * error, -self.largest, self.largest)
        filtered = omega if np.all(k == 1) else omega - started * (1 - k) * error
        at.shared["estimates"] = (filtered, found)
        return filtered, found

    def seen(self, at: Seen) -> Mapping[str, Array]:
        omega, moment = self._estimates(at)
        if not self.noise:
            return {"moment": moment}
        q, v, _ = self.hull.coordinates(self._motion(at)._replace(omega=omega))
        return {"moment": moment, "q": q, "v": v}

    def following(self, at: Seen, u: Array) -> Array:
        omega, moment = self._estimates(at)
        return concatenate(u, omega, np.ones(1), moment)

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"disturbing_angular_acceleration": self._estimates(at)[1]}


LEAST_GAIN = 0.1
"""Smallest share of an error of the angular velocity that is corrected within a sample."""
