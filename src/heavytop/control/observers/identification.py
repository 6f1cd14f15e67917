"""Delay and lag of the actuators, identified in flight from the speeds of the rotors.

A bank of models, one for each pair of a delay and a lag, is driven by the commands that were sent; the pair whose speeds have been nearest
to the measured ones is reported. The models are compared by their squared errors without the worst rotor, forgotten within about a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.control.actuators.command_history import hover_levels, sent, stored_samples, units
from heavytop.control.actuators.lag import Propellers
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull
from heavytop.system import Model

LAGS = (0.1, 0.2, 0.375, 0.625, 1.0, 1.5, 2.25)
"""Candidates of the lag per longest delay."""
SLOWER = 1.6
"""The longest candidate is at least this multiple of the assumed lag."""
FOLLOWING = 0.02
"""Share of its error by which a model is drawn to the measurement at every sample."""


class Identified(Wrapper):
    """Wrapper that reports ``delay`` and ``lag`` (s), identified from measured rotor speeds and the commands sent.

    Parameters
    ----------
    model, actuators : model and actuators of the vehicle; the actuators' lag and ``delay`` are the initial guess.
    longest : longest candidate of the delay, s. lags : candidates of the lag, s; None: from a tenth to more than twice ``longest``, or 1.6
        times the assumed lag, which is one of them; that alone for rotors that tilt, whose servos the
        speeds do not show. memory : time constant in which errors are forgotten, s.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import Propellers
    >>> from heavytop.copters import quadcopter
    >>> bank = Identified(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model, Propellers(0.02))
    >>> bank.sampled(0.005).pairs[:2]
    [(0, 0.004), (0, 0.008)]
    """

    provides: Mapping[str, int] = {"delay": 1, "lag": 1}

    def __init__(
        self,
        controller: Any,
        model: Model,
        actuators: Propellers,
        delay: float = 0.0,
        longest: float = 0.04,
        lags: tuple[float, ...] | None = None,
        memory: float = 1.0,
    ) -> None:
        super().__init__(controller)
        self.model, self.actuators, self.delay, self.longest = model, actuators, delay, longest
        self.memory, self.hull = memory, Hull.of(model)
        # the assumed lag takes the place of the one nearest to it
        guess = float(np.mean(actuators.time_constant))
        if lags is None and actuators.directions is not None:
            lags = (guess,)
        if lags is None:
            *shorter, last = (share * longest for share in LAGS)
            lags = (*shorter, max(last, SLOWER * guess))
        nearest = min(lags, key=lambda lag: abs(np.log(lag / guess)))
        self.lags = tuple(guess if lag == nearest else lag for lag in lags)

    depends_on_period = True  # delays are counted in samples  # pyright: ignore[reportAssignmentType]

    @property
    def pairs(self) -> list[tuple[int, float]]:
        """Delay in samples and lag in s of every model."""
        if self.sample_time is None:
            return []
        step = units(self.sample_time)
        delays = range(0, stored_samples(self.longest, self.sample_time), step)
        return [(delay, lag) for delay in delays for lag in self.lags]

    @property
    def own_state_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.pairs) * (self.model.nu + 1)

    def first(self) -> np.ndarray:
        """All models hover; the guess has the least error, its neighbours little more."""
        if self.sample_time is None:
            return np.zeros(0)
        hover = hover_levels(self.hull, self.actuators)
        scale = 1e-6 * float(np.mean(self.actuators.speeds(hover) ** 2))
        guess = float(np.mean(self.actuators.time_constant))
        errors = [
            scale * (abs(d * self.sample_time - self.delay) / 0.005 + 0.1 * abs(np.log(lag / guess)))
            for d, lag in self.pairs
        ]
        return np.concatenate([np.tile(hover, len(self.pairs)), errors])

    def _models(self, at: Seen) -> tuple[list[Array], list[Array]]:
        """Corrected levels of the models at the measurement, and their errors."""
        if "models" in at.shared:
            return at.shared["models"]
        nu, pairs, act = self.model.nu, self.pairs, self.actuators
        measured = at.signals["rotor_speeds"]
        kept = float(np.exp(-at.period / self.memory))
        levels, errors = [], []
        for k, (delay, lag) in enumerate(pairs):
            target = sent(at, nu, delay + 1)
            level = target + (part(at.z, k * nu, (k + 1) * nu) - target) * float(np.exp(-at.period / lag))
            off = measured - act.speeds(level)
            errors.append(kept * at.z[len(pairs) * nu + k] + _without_the_worst(off * off, act.rotors(nu)))
            levels.append(act.corrected(level, measured, FOLLOWING))
        at.shared["models"] = (levels, errors)
        return levels, errors

    def seen(self, at: Seen) -> Mapping[str, Array]:
        _, errors = self._models(at)
        best, delay, lag = errors[0], self.pairs[0][0] * at.period + 0 * errors[0], self.pairs[0][1] + 0 * errors[0]
        for (samples, time), error in zip(self.pairs[1:], errors[1:], strict=True):
            better = error < best
            best = np.where(better, error, best)
            delay, lag = np.where(better, samples * at.period, delay), np.where(better, time, lag)
        return {"delay": vector(delay), "lag": vector(lag)}

    def following(self, at: Seen, u: Array) -> Array:
        levels, errors = self._models(at)
        return concatenate(*levels, vector(*errors))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        found = self.seen(at)
        return {"identified_delay": found["delay"], "identified_lag": found["lag"]}


def _without_the_worst(squares: Array, count: int) -> Array:
    """The sum of all errors but the largest: a dead rotor does not count."""
    total, worst = squares[0], squares[0]
    for k in range(1, count):
        total, worst = total + squares[k], np.maximum(worst, squares[k])
    return total - worst if count > 1 else total
