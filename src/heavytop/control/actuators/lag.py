"""Actuators with lag, propellers and tilt servos, between a controller and its plant; and the inverse of the lag.

:class:`Actuated` wraps a controller: the inner one's demand is the input of the actuators, whose states join the
controller's state z. Continuous (``z_rate``) without a sample time; with one, ``z_next`` is the exact response to a demand held over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.control.laws.base import BaseController, check_sample_time
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.errors import ControlError, wrong_shape

TINY = 1e-12
"""Squared thrust (N^2) of a rotor at rest."""


@dataclass(frozen=True, eq=False)
class Propellers:
    """Propellers with first-order lag.

    Parameters
    ----------
    time_constant : s, one number or (nu,).
    follows : "thrust": the thrust itself is of first order; "speed": the rotor speed is, the thrust is proportional to its square.
    lowest, highest : limits of the thrust, N.
    thrust_coefficient : thrust per square of the speed, N/(rad/s)^2, if the speeds themselves are measured.
    directions : number of inputs of each rotor, which are components of its thrust, such as (2, 2, 2) of three tilting ones; None: one each.

    Examples
    --------
    >>> Propellers(time_constant=0.05, lowest=0.0, highest=6.0).highest
    6.0
    >>> Propellers(thrust_coefficient=0.05, directions=(2, 1)).speeds(np.array([3.0, 4.0, 0.2]))
    array([10.,  2.])
    """

    time_constant: Any = 0.05
    follows: str = "thrust"
    lowest: float = -np.inf
    highest: float = np.inf
    thrust_coefficient: float = 1.0
    directions: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.time_constant, dtype=float) > 0):
            raise ControlError(f"the time constant of a propeller must be positive, got {self.time_constant}.")
        if self.follows not in ("thrust", "speed"):
            raise ControlError(f"propellers follow in 'thrust' or 'speed', got {self.follows!r}.")
        if not self.thrust_coefficient > 0:
            raise ControlError(f"the thrust coefficient must be positive, got {self.thrust_coefficient}.")
        if self.directions is not None and self.follows != "thrust":
            raise ControlError("rotors with several directions follow in 'thrust', got follows='speed'.")

    def size(self, nu: int) -> int:
        return nu

    def start(self, u: np.ndarray) -> np.ndarray:
        """States that give the inputs u."""
        return self.level(u)

    def output(self, z: Array) -> Array:
        """Inputs of the plant."""
        return z if self.follows == "thrust" else self.thrust_coefficient * z * np.abs(z)

    def level(self, u: Array) -> Array:
        """The quantity of first order, thrust or speed, that belongs to a thrust."""
        return u if self.follows == "thrust" else np.sign(u) * np.sqrt(np.abs(u) / self.thrust_coefficient)

    def rotors(self, nu: int) -> int:
        """Number of rotors with ``nu`` inputs."""
        return nu if self.directions is None else len(self.directions)

    def _groups(self, z: Array) -> list[Array]:
        """Components of the thrust of every rotor, and further levels of other inputs left out."""
        directions = self.directions or ()
        return [part(z, int(end) - n, int(end)) for n, end in zip(directions, np.cumsum(directions), strict=True)]

    def speeds(self, z: Array) -> Array:
        """The speeds of the rotors that belong to levels."""
        if self.directions is None:
            return z
        return vector(*(np.sqrt(np.sqrt(np.vecdot(f, f) + TINY) / self.thrust_coefficient) for f in self._groups(z)))

    def corrected(self, z: Array, measured: Array, share: Array) -> Array:
        """Levels corrected by a share of the error of their speeds; the directions of tilting rotors stay."""
        if self.directions is None:
            return z + share * (measured - z)
        ratios = measured / self.speeds(z)
        parts = [(1 + share * (ratios[k] * ratios[k] - 1)) * f for k, f in enumerate(self._groups(z))]
        return concatenate(*parts)

    def target(self, demand: Array) -> Array:
        """The level of a demand within the limits."""
        return self.level(self.limited(demand))

    def limited(self, u: Array) -> Array:
        """Thrusts within the limits."""
        if np.isfinite(self.lowest):
            u = np.maximum(u, self.lowest)
        return np.minimum(u, self.highest) if np.isfinite(self.highest) else u

    def mean(self, z: Array, target: Array, ratio: Array) -> Array:
        """Mean thrust while the levels go from z towards a target for ``ratio`` time constants.

        With E1 = (1 - e^-x) / x and E2 = (1 - e^-2x) / (2 x): mean of the level c + (z - c) E1, of its square
        c^2 + 2 c (z - c) E1 + (z - c)^2 E2.
        """
        once = (1 - np.exp(-ratio)) / ratio
        off = z - target
        if self.follows == "thrust":
            return target + off * once
        twice = (1 - np.exp(-2 * ratio)) / (2 * ratio)
        return self.thrust_coefficient * (target * target + 2 * target * off * once + off * off * twice)

    def rate(self, z: Array, demand: Array) -> Array:
        return (self.target(demand) - z) / self._times(z)

    def after(self, z: Array, demand: Array, period: float) -> Array:
        """States after a demand held for a period."""
        kept = np.exp(-period / self._times(z))
        return z * kept + self.target(demand) * (1 - kept)

    def _times(self, z: Array) -> np.ndarray:
        times = np.asarray(self.time_constant, dtype=float)
        if times.shape not in ((), (z.shape[-1],)):
            raise wrong_shape("time constants of the propellers", (z.shape[-1],), times.shape)
        return times


@dataclass(frozen=True, eq=False)
class TiltingPropellers:
    """Propellers on servos: inputs in pairs (tangential, axial force); thrust and tilt angle follow separately.

    Parameters
    ----------
    thrust_time, tilt_time : time constants, s.
    tilt_rate : largest angular velocity of a servo, rad/s.

    Examples
    --------
    >>> TiltingPropellers(tilt_time=0.03).tilt_time
    0.03
    """

    thrust_time: float = 0.05
    tilt_time: float = 0.03
    tilt_rate: float = np.inf

    def __post_init__(self) -> None:
        if not (self.thrust_time > 0 and self.tilt_time > 0 and self.tilt_rate > 0):
            raise ControlError("the time constants and the largest rate of tilting propellers must be positive.")

    def size(self, nu: int) -> int:
        if nu % 2:
            raise ControlError(f"tilting propellers have inputs in pairs (tangential, axial), got {nu} inputs.")
        return nu

    def start(self, u: np.ndarray) -> np.ndarray:
        """States (thrust, tilt) per propeller that give the inputs u."""
        pairs = u.reshape(*u.shape[:-1], -1, 2)
        across, axial = pairs[..., 0], pairs[..., 1]
        return np.stack([np.hypot(across, axial), np.arctan2(-across, axial)], axis=-1).reshape(u.shape)

    def output(self, z: Array) -> Array:
        """Forces F (-sin th, cos th) per propeller."""
        parts: list[Array] = []
        for k in range(0, z.shape[-1], 2):
            parts += [-z[k] * np.sin(z[k + 1]), z[k] * np.cos(z[k + 1])]
        return vector(*parts)

    def rate(self, z: Array, demand: Array) -> Array:
        parts: list[Array] = []
        for k in range(0, z.shape[-1], 2):
            thrust, turn = self._errors(z, demand, k)
            parts += [thrust / self.thrust_time, self._limited(turn / self.tilt_time)]
        return vector(*parts)

    def after(self, z: Array, demand: Array, period: float) -> Array:
        """States after a demand held for a period; servos turn at most at their largest rate."""
        parts: list[Array] = []
        for k in range(0, z.shape[-1], 2):
            thrust, turn = self._errors(z, demand, k)
            step = turn * (1 - np.exp(-period / self.tilt_time)) / period
            parts += [z[k] + thrust * (1 - np.exp(-period / self.thrust_time)), z[k + 1] + period * self._limited(step)]
        return vector(*parts)

    def _errors(self, z: Array, demand: Array, k: int) -> tuple[Array, Array]:
        """Error of the thrust, and of the tilt the shorter way round."""
        ft, fz = demand[k], demand[k + 1]
        th = np.arctan2(-ft, fz) - z[k + 1]
        return np.sqrt(ft * ft + fz * fz) - z[k], np.arctan2(np.sin(th), np.cos(th))

    def _limited(self, rate: Array) -> Array:
        if np.isinf(self.tilt_rate):
            return rate
        return np.minimum(np.maximum(rate, -self.tilt_rate), self.tilt_rate)


class Actuated(Wrapper):
    """A controller with actuators. The channel ``demand`` records the inputs of the inner controller.

    Parameters
    ----------
    controller : makes the demands.
    actuators : :class:`Propellers` or :class:`TiltingPropellers`.
    start : (*batch, nu) inputs at the start, for example those of hover.
    sample_time : required period (s) of a sampled simulation; None: any, or continuous.

    Examples
    --------
    >>> import heavytop as ht
    >>> brake = ht.Feedback(lambda v: -v, ("v",))
    >>> Actuated(brake, Propellers(0.05), start=[0.0], sample_time=0.01).state_size
    1
    """

    def __init__(
        self,
        controller: Any,
        actuators: Propellers | TiltingPropellers,
        start: Sequence[float] | np.ndarray,
        sample_time: float | None = None,
    ) -> None:
        check_sample_time(sample_time)
        super().__init__(controller)
        self.actuators, self.sample_time = actuators, sample_time
        if sample_time is not None and isinstance(self.controller, BaseController):
            self.controller = self.controller.sampled(sample_time)
        self.start = np.asarray(start, dtype=float)
        self.own_state_size = actuators.size(self.start.shape[-1])

    def first(self) -> np.ndarray:
        return self.actuators.start(self.start)

    def plant(self, model: Any) -> Any:
        if self.start.shape[-1] != model.nu:
            raise wrong_shape("start of the actuators", (model.nu,), self.start.shape)
        return model

    def acted(self, at: Seen, u: Array) -> Array:
        return self.actuators.output(at.z)

    def rate(self, at: Seen, u: Array) -> Array:
        return self.actuators.rate(at.z, u)

    def following(self, at: Seen, u: Array) -> Array:
        return self.actuators.after(at.z, u, at.period)

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"demand": u}


class LagInverse(Wrapper):
    """A controller that overshoots its commands, within the limits: actuators follow as if their time constant were ``time``.

    From the level n now, the command c with n + (c - n)(1 - e^(-h/tau)) = n + (n_d - n)(1 - e^(-h/time)) over a sample h.

    Parameters
    ----------
    controller : the wrapped controller. actuators : with their limits; their lag unless identified. time : s.

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

    depends_on_period = True  # a command is held over it  # pyright: ignore[reportAssignmentType]

    def acted(self, at: Seen, u: Array) -> Array:
        act = self.actuators
        now, wanted = at.signals["levels"], act.target(u)
        lag = at.signals.number("lag", float(np.mean(act.time_constant)))
        left = np.minimum(lag, self.time)
        gain = (1 - np.exp(-at.period / left)) / (1 - np.exp(-at.period / lag))
        return act.limited(act.output(now + gain * (wanted - now)))
