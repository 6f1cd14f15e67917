"""The commands of the last samples, and the state of the actuators that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part
from heavytop.control.actuators.lag import Propellers
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull
from heavytop.system import Model

UNIT = 0.005
"""Delays are multiples of about this time (s), at least of a sample."""
TRUST = 0.5
"""Gain of the correction of modelled levels by measured speeds."""


def units(period: float) -> int:
    """Samples per unit of a delay."""
    return max(1, round(UNIT / period))


def stored_samples(longest: float, period: float) -> int:
    """Number of stored commands for delays up to ``longest`` s."""
    step = units(period)
    return step * ceil(longest / (step * period) - 1e-6) + 1


class CommandMemory(Wrapper):
    """Wrapper that reports ``commands``: the levels commanded to the actuators 1, 2, ... samples ago, newest first.

    Parameters
    ----------
    controller : makes the commands. model, actuators : model and actuators of the vehicle. longest : age of the oldest command, s.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import Propellers
    >>> from heavytop.copters import quadcopter
    >>> memory = CommandMemory(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model, Propellers(0.02), longest=0.04)
    >>> memory.sampled(0.005).state_size
    36
    """

    def __init__(self, controller: Any, model: Model, actuators: Propellers, longest: float = 0.04) -> None:
        super().__init__(controller)
        self.model, self.actuators, self.longest = model, actuators, longest
        self.hull = Hull.of(model)

    depends_on_period = True  # it stores a time, in samples  # pyright: ignore[reportAssignmentType]

    @property
    def count(self) -> int:
        """Number of stored samples."""
        return 0 if self.sample_time is None else stored_samples(self.longest, self.sample_time)

    @property
    def own_state_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.count * self.model.nu

    @property
    def provides(self) -> Mapping[str, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {"commands": self.own_state_size}

    def first(self) -> np.ndarray:
        return np.tile(hover_levels(self.hull, self.actuators), self.count)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        return {"commands": at.z}

    def following(self, at: Seen, u: Array) -> Array:
        newest = self.actuators.target(u)
        kept = (self.count - 1) * self.model.nu
        return concatenate(newest, part(at.z, 0, kept)) if kept else newest


def hover_levels(hull: Hull, actuators: Propellers) -> np.ndarray:
    """Levels (nu,) of the actuators in hovering, as equal as possible."""
    wrench = np.concatenate([-hull.mass * hull.gravity, np.zeros(3)])
    return actuators.level(np.linalg.pinv(hull.wrenches) @ wrench)


def sent(at: Seen, nu: int, samples_ago: int) -> Array:
    """The levels (nu,) commanded some samples ago, 1 for the newest; at most the oldest stored ones."""
    commands = at.signals["commands"]
    last = commands.shape[-1] // nu
    k = min(samples_ago, last) - 1
    return part(commands, k * nu, (k + 1) * nu)


def sent_before(at: Seen, nu: int, delay: Array) -> Array:
    """The levels (nu,) that acted during the last sample before a measurement that is ``delay`` s old."""
    step, commands = units(at.period), at.signals["commands"]
    if isinstance(delay, float):
        return sent(at, nu, round(delay / (step * at.period)) * step + 1)
    deepest = (commands.shape[-1] // nu - 1) // step
    number, found = delay / (step * at.period), sent(at, nu, 1)
    for j in range(1, deepest + 1):
        found = np.where(number > j - 0.5, sent(at, nu, j * step + 1), found)
    return found


class RotorState(Wrapper):
    """Wrapper that reports ``levels``, the actuator state at the time of the measurement, and ``thrusts``, their means over the preceding sample.

    The estimate comes from a model of the actuators, driven by the commands and corrected by the measured speeds if available.

    Parameters
    ----------
    model, actuators : model and actuators of the vehicle.
    delay : delay of the measurements, s; delay and actuator lag are used unless they are identified.
    trust : gain of the correction by the measured speeds. None: 0.5, or 0 for tilting rotors, where a weak rotor counts as a disturbance.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import Propellers
    >>> from heavytop.copters import quadcopter
    >>> RotorState(ht.Feedback(lambda v: v[:4], ("v",)), quadcopter().model, Propellers(0.02)).state_size
    5
    """

    def __init__(
        self, controller: Any, model: Model, actuators: Propellers, delay: float = 0.0, trust: float | None = None
    ) -> None:
        super().__init__(controller)
        self.model, self.actuators, self.delay = model, actuators, float(delay)
        self.trust = (TRUST if actuators.directions is None else 0.0) if trust is None else trust
        self.hull = Hull.of(model)
        self.provides = {"levels": model.nu, "thrusts": model.nu}
        self.own_state_size = model.nu + 1

    def first(self) -> np.ndarray:
        """Hovering, before the first sample."""
        return np.append(hover_levels(self.hull, self.actuators), 0.0)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """Levels now, mean thrusts before."""
        if "state" in at.shared:
            return at.shared["state"]
        nu, act = self.model.nu, self.actuators
        lag = at.signals.number("lag", float(np.mean(act.time_constant)))
        before, target = part(at.z, 0, nu), sent_before(at, nu, at.signals.number("delay", self.delay))
        ratio = at.period / lag
        modelled = target + (before - target) * np.exp(-ratio)
        thrusts = act.mean(before, target, ratio)
        levels = modelled
        if "rotor_speeds" in at.signals:
            measured = at.signals["rotor_speeds"]
            share = np.where(at.z[nu] > 0.5, self.trust, 1.0)
            levels = act.corrected(modelled, measured, share)
            # half of the correction at the end holds for the mean
            thrusts = thrusts + 0.5 * (act.output(levels) - act.output(modelled))
        thrusts = np.where(at.z[nu] > 0.5, thrusts, act.output(levels))
        at.shared["state"] = {"levels": levels, "thrusts": thrusts}
        return at.shared["state"]

    def following(self, at: Seen, u: Array) -> Array:
        return concatenate(self.seen(at)["levels"], np.ones(1))
