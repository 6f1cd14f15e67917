"""Observer of lost thrust: which actuator makes less force than its level implies, from gyro and accelerometer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.control.laws.wrapper import Seen
from heavytop.control.observers.disturbance_observers import _Observer
from heavytop.system import GRAVITY, Model

SLOW = 25.0
"""Time constant of the usual residual per that of the observer: wind, a wrong mass, a misaligned frame are no failures."""
LOADED, PAIRED, LARGE, ALONE = 0.2, 0.45, 0.35, 0.4
"""An actuator is judged above the first share of its effect in hovering, two at once above the second; a residual counts above the third share
of the effect of one lost actuator; the loss of one actuator explains the residual if at most the last share of its square is left."""
GONE = 0.65
"""Share above which a thrust counts as lost; a weaker loss is left to the other observers."""
BETTER = 0.5
"""Two lost actuators explain a residual if at most this share is left of what the best single one leaves."""
DISTINCT = 0.05
"""Two actuators are distinguished if the determinant of their squares and product is above this share of the product of the squares."""
LIFT = 0.3
"""Weight of the specific force relative to the angular accelerations, which gusts disturb less."""


class ThrustLoss(_Observer):
    """Wrapper that reports ``thrust_loss``: the share (nu,) of thrust lost by an actuator at its commanded level, as with a lost blade.

    With the residuals rho of angular acceleration and specific force, less their slow mean per thrust, and the effect s_k of losing actuator k
    entirely, in units of their size in hovering, the share l_k = <s_k rho> / <s_k s_k> is that of least squares, forgotten within ``time``. It
    is reported for the actuator that explains the residual best, if little of it is left; the others report 0. An actuator
    loses at most all of its thrust. Of the one of ``pairs`` that explains the residual much better both shares are reported, if both are lost.

    Parameters
    ----------
    controller : the wrapped controller. model : model of the vehicle. time : time constant, s.
    noise : noise of the gyro, rad/s: axes on which a loss has no larger effect count little. pairs : actuators that may be lost at the same instant.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.copters import quadcopter
    >>> ThrustLoss(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model).provides
    {'thrust_loss': 4}
    """

    def __init__(
        self,
        controller: Any,
        model: Model,
        time: float = 0.02,
        noise: float = 0.0,
        pairs: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.noise, self.pairs = float(noise), tuple(pairs)
        super().__init__(controller, model, time, 8 + 2 * model.nu + len(self.pairs))
        self.provides = {"thrust_loss": model.nu}

    @property
    def _effects(self) -> np.ndarray:
        """(4, nu) angular accelerations and specific force along the common thrust per newton of each actuator."""
        hull = self.hull
        return np.concatenate(
            [np.linalg.solve(hull.moment, hull.wrenches[3:]), (self._axis @ hull.wrenches[:3])[None] / hull.mass]
        )

    @property
    def _axis(self) -> np.ndarray:
        """Direction (3,) of the common thrust."""
        along = np.sum(self.hull.wrenches[:3], axis=1)
        return along / np.linalg.norm(along)

    @property
    def _hover(self) -> np.ndarray:
        """Thrusts (nu,) of hovering, as equal as possible."""
        hull = self.hull
        return np.abs(np.linalg.pinv(hull.wrenches) @ np.concatenate([-hull.mass * hull.gravity, np.zeros(3)]))

    @property
    def _gravity(self) -> float:
        return float(np.linalg.norm(self.hull.gravity)) or GRAVITY

    def _weights(self, period: float) -> np.ndarray:
        """(4,) one over the squared size of a residual: that of one lost actuator in hovering, and of the noise."""
        size = np.max(np.abs(self._effects) * self._hover, axis=1) ** 2
        noise = np.array([1.0, 1.0, 1.0, 0.0]) * 2 * self.noise**2 / (period * self.time)
        return np.array([1.0, 1.0, 1.0, LIFT]) / (size + noise + 1e-12)

    def _sums(self, at: Seen) -> tuple[Array, Array]:
        """The memory one sample later: angular velocity and slow mean (7,); square of the residual, products, squares, and
        products of the effects of pairs (1 + 2 nu + pairs,)."""
        if "sums" in at.shared:
            return at.shared["sums"]
        nu, motion = self.model.nu, self._motion(at)
        before, started, old = self._memory_parts(at)
        omega, mean, sums = part(old, 0, 3), part(old, 3, 7), part(old, 7, 8 + 2 * nu + len(self.pairs))
        thrusts = self._thrusts(at)
        force, moment = self.hull.forces(thrusts)
        turn = (motion.omega - omega) / at.period
        turn = turn - self.hull.angular_acceleration(0.5 * (motion.omega + omega), moment)
        felt = np.vecdot(self._axis, self._felt(at, motion, before, started, None) - force / self.hull.mass)
        raw = started * concatenate(turn, vector(felt))
        gain, weights, effects = self._gain(at), self._weights(at.period), self._effects
        load = np.vecdot(self._axis, force) / (self.hull.mass * self._gravity)
        rho = raw - load * mean
        mean = mean + gain / SLOW * load / np.maximum(load * load, 1.0) * rho
        lost = [-effects[:, k] * thrusts[k] for k in range(nu)]
        products = [np.vecdot(weights * each, rho) for each in lost]
        squares = [np.vecdot(weights * each, each) for each in lost]
        both = [np.vecdot(weights * lost[i], lost[j]) for i, j in self.pairs]
        now = vector(np.vecdot(weights * rho, rho), *products, *squares, *both)
        at.shared["sums"] = concatenate(motion.omega, mean), sums + gain * (now - sums)
        return at.shared["sums"]

    def _losses(self, at: Seen) -> Array:
        if "thrust_loss" in at.shared:
            return at.shared["thrust_loss"]
        nu, (_, sums) = self.model.nu, self._sums(at)
        usual = np.sum(self._weights(at.period)[:, None] * (self._effects * self._hover) ** 2, axis=0)
        total, left, shares = sums[0], [], []
        for k in range(nu):
            product, square = np.maximum(sums[1 + k], 0.0), np.maximum(sums[1 + nu + k], 1e-9)
            loaded = np.where(square > LOADED**2 * usual[k], 1.0, 0.0)
            share = loaded * product / square
            whole = np.minimum(share, 1.0)
            shares.append(share)
            left.append(total - whole * (2 * product - whole * square))
        least = left[0]
        for other in left[1:]:
            least = np.minimum(least, other)
        large = np.where(total > LARGE**2 * float(np.min(usual)), 1.0, 0.0)
        alone = np.where(least < ALONE * total, 1.0, 0.0)
        found = [np.where(left[k] <= least, large * alone * shares[k], 0.0) for k in range(nu)]
        rest = np.minimum(ALONE * total, BETTER * least)
        for n, (i, j) in enumerate(self.pairs):
            (a, b, c), (x, y) = (sums[1 + nu + i], sums[1 + nu + j], sums[1 + 2 * nu + n]), (sums[1 + i], sums[1 + j])
            det = a * b - c * c
            apart = np.where(det > DISTINCT * a * b + 1e-18, 1.0, 0.0) * np.where(a > PAIRED**2 * usual[i], 1.0, 0.0)
            apart = apart * np.where(b > PAIRED**2 * usual[j], 1.0, 0.0)
            det = np.maximum(det, 1e-18)
            first, second = (b * x - c * y) / det, (a * y - c * x) / det
            over = total - first * x - second * y
            both = np.where(np.minimum(first, second) > GONE, 1.0, 0.0)
            best = large * apart * both * np.where(over < rest, 1.0, 0.0)
            rest = np.where(best > 0.5, over, rest)
            found = [
                np.where(best > 0.5, first if k == i else second if k == j else 0.0, old) for k, old in enumerate(found)
            ]
        at.shared["thrust_loss"] = vector(*found)
        return at.shared["thrust_loss"]

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The losses; levels and thrusts inside are those without the lost ones, so that the other observers need not learn them."""
        loss = self._losses(at)
        left = 1 - np.where(loss > GONE, np.minimum(loss, 1.0), 0.0)
        found = {"thrust_loss": loss}
        if "thrusts" in at.signals:
            found |= {"thrusts": left * at.signals["thrusts"], "levels": np.sqrt(left) * at.signals["levels"]}
        return found

    def following(self, at: Seen, u: Array) -> Array:
        kept, sums = self._sums(at)
        return concatenate(u, self._motion(at).velocity, np.ones(1), kept, sums)

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"thrust_loss": self._losses(at)}
