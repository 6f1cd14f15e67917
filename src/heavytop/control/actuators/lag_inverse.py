"""Actuators of first order made faster: the command overshoots, so that they arrive sooner, within their limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.control.actuators.command_history import timing
from heavytop.control.actuators.lag import Propellers
from heavytop.control.laws.wrapper import Seen, Wrapper


class LagInverse(Wrapper):
    """A controller whose actuators follow as if their time constant were ``time``.

    From the level n now, the command c with n + (c - n)(1 - e^(-h/tau)) = n + (n_d - n)(1 - e^(-h/time)) over a sample h.

    Parameters
    ----------
    controller : inside. actuators : with their limits; their lag unless it is identified. time : s that is left of the lag.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import Propellers
    >>> LagInverse(ht.Feedback(lambda v: v[:4], ("v",)), Propellers(0.05), time=0.01).time
    0.01
    """

    def __init__(self, controller: Any, actuators: Propellers, time: float = 0.01) -> None:
        super().__init__(controller)
        self.actuators, self.time = actuators, time

    @property
    def depends_on_period(self) -> bool:
        """A command is held over it."""
        return True

    def acted(self, at: Seen, u: Array) -> Array:
        """The command."""
        act = self.actuators
        now, wanted = at.signals["levels"], act.target(u)
        lag = timing(at, "lag", float(np.mean(act.time_constant)))
        left = np.minimum(lag, self.time)
        gain = (1 - np.exp(-at.period / left)) / (1 - np.exp(-at.period / lag))
        return within_limits(act, act.output(now + gain * (wanted - now)))


def within_limits(actuators: Propellers, u: Array) -> Array:
    """Thrusts within what the actuators can give."""
    if np.isfinite(actuators.lowest):
        u = np.maximum(u, actuators.lowest)
    return np.minimum(u, actuators.highest) if np.isfinite(actuators.highest) else u
