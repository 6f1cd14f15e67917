"""Failed rotors in flight: noticed by their speeds and by the motion, isolated, and left out of the law.

Four failures differ in their signs. A rotor that is *dead* does not turn although it is commanded to. A *stuck* one turns, but its speed does not
change with the commands. A *lost blade* leaves the speed as commanded, and the thrust of one rotor is missing in angular and linear
acceleration (:class:`.ThrustLoss`). A *weak* rotor keeps a part of its thrust: the observers compensate it, and no law is switched.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.control import GONE, Hull, Seen, Wrapper, box_qp, hover_levels, limited, sent_before
from heavytop.copters.propulsion import typical_propulsion
from heavytop.copters.rotor_failure import DeadRotorLaw, remaining
from heavytop.errors import ControlError

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

STILL, ALIVE, COMMANDED = 0.3, 0.45, 0.5
"""Shares of the hovering speed: a rotor below the first while commanded above the third is suspicious, one above the second is alive."""
DWELL = 0.025
"""Time (s) of suspicion, beyond delay and lag, after which a rotor is given up."""
SECOND, FORGIVEN = 4.0, 0.25
"""After a first failure the motion is violent: factor of this time, and suspicion that a second without a sign takes back, s per s."""
WINDOW = 0.15
"""Time (s) over which changes of the speeds are compared with those of the commands."""
MOVED, FOLLOWS, APART, TOP = 0.1, 0.015, 0.1, 0.8
"""A rotor is stuck if the speed that its commands imply varies by more than the first share of the hovering speed (RMS), its own by less than the
second share of that square, and both differ by more than the third share of the hovering speed, below the last share of the largest speed."""
LATCHED = 1e3
"""Suspicion that never ends."""
RISE, PUSH = 0.6, 6.0
"""Integral action of the position while rotors are given up, 1/s^3, and its largest acceleration, m/s^2."""
TILT, HEADING = 200.0, 0.02
"""Weights of angular accelerations about the tilt axes and the thrust axis, m^2, relative to that of linear acceleration."""


class Failover(Wrapper):
    """A law that detects failed rotors and continues without them. A rotor that was given up is never used again.

    It replaces the law: ``robust_controller(vehicle, law=Failover(OnPart(law, vehicle.model), vehicle))``, or
    ``robust_controller(vehicle, failures=True)``. It requires measured rotor speeds. A quadcopter switches to :func:`.dead_rotor_law`, also for two
    opposite rotors; a vehicle with more rotors shares the wrench of its law among the others, heading last. The channel ``dead`` is 1 for a
    rotor that is given up.

    Parameters
    ----------
    controller : the law of the intact vehicle, inside :class:`.OnPart`. vehicle : with four or more fixed rotors.
    dead : rotors known to be dead from the start.

    Examples
    --------
    >>> from heavytop.control import OnPart
    >>> from heavytop.copters import agile_law, load
    >>> craft = load("hummingbird")
    >>> Failover(OnPart(agile_law(craft), craft.model), craft).state_size
    35
    """

    requires = ("thrust_loss",)

    def __init__(self, controller: Any, vehicle: Vehicle, dead: tuple[int, ...] = ()) -> None:
        super().__init__(controller)
        self.vehicle, self.hull, self.known = vehicle, Hull.of(vehicle.model), dead
        self.actuators = (vehicle.propulsion or typical_propulsion(vehicle)).actuators
        nu = vehicle.model.nu
        if nu < 4 or nu != len(vehicle.airframe.rotors):
            raise ControlError(f"{vehicle.name!r} has no four or more fixed rotors: a failed one cannot be left out.")
        if dead and not (able := remaining(vehicle, *dead)).holds_position:
            raise ControlError(f"{vehicle.name!r} without the rotors {list(dead)}: {able}")
        self.laws: dict[tuple[int, ...], DeadRotorLaw] = {}
        self.pairs = [pair for pair in combinations(range(nu), 2) if remaining(vehicle, *pair).holds_position]
        """Rotors without which together the vehicle holds its position."""
        if nu == 4:
            self.laws = {each: DeadRotorLaw(vehicle, each) for each in [*((k,) for k in range(4)), *self.pairs]}
        self.own_state_size = 8 * nu + 3

    def first(self) -> np.ndarray:
        nu, hover = self.vehicle.model.nu, hover_levels(self.hull, self.actuators)
        latched = np.zeros(nu)
        latched[list(self.known)] = LATCHED
        return np.concatenate([hover, hover, hover, hover, np.zeros(2 * nu), latched, np.zeros(nu), np.zeros(3)])

    def _stored(self, at: Seen) -> list[Array]:
        """Commanded and implied speeds, means of implied and own ones, their squared changes, suspicions, stuck ones (nu,) each, and the integral."""
        nu = self.vehicle.model.nu
        return [part(at.z, k * nu, (k + 1) * nu) for k in range(8)] + [part(at.z, 8 * nu, 8 * nu + 3)]

    def _watched(self, at: Seen) -> tuple[Array, Array, Array, Array]:
        """Suspicions and stuck rotors (nu,), implied speeds (nu,), and the statistics of the speeds (4 nu,), now."""
        if "watched" in at.shared:
            return at.shared["watched"]
        nu, speed, h = self.vehicle.model.nu, at.signals["rotor_speeds"], at.period
        hover = hover_levels(self.hull, self.actuators)
        lag = at.signals.number("lag", float(np.mean(self.actuators.time_constant)))
        delay = at.signals.number("delay", 0.0)
        commanded, implied, mean, own, changed, moved, before, was_stuck, _ = self._stored(at)
        target = sent_before(at, nu, delay) if "commands" in at.signals else commanded
        implied = target + (implied - target) * np.exp(-h / lag)
        share = 1 - float(np.exp(-h / WINDOW))
        mean, own = mean + share * (implied - mean), own + share * (speed - own)
        changed = changed + share * ((implied - mean) * (implied - mean) - changed)
        moved = moved + share * ((speed - own) * (speed - own) - moved)
        patience = DWELL + delay + 0.5 * lag
        top = TOP * float(self.actuators.level(np.asarray(self.actuators.highest)))
        loss = at.signals.get("thrust_loss", np.zeros(nu))
        given = [np.where(before[k] > 0.5 * LATCHED, 1.0, 0.0) for k in range(nu)]
        taken = sum(given, start=0.0)
        counted, stuck = [], []
        for k in range(nu):
            turning = np.where(taken > 0.5, np.minimum(commanded[k], implied[k]), commanded[k])
            still = np.where(speed[k] < STILL * hover[k], 1.0, 0.0) * np.where(turning > COMMANDED * hover[k], 1.0, 0.0)
            frozen = (
                np.where(changed[k] > (MOVED * hover[k]) ** 2, 1.0, 0.0)
                * np.where(moved[k] < FOLLOWS * changed[k], 1.0, 0.0)
                * np.where(np.abs(speed[k] - implied[k]) > APART * hover[k], 1.0, 0.0)
                * np.where(speed[k] < top, 1.0, 0.0)
            )
            gone = np.where(loss[k] > GONE, 1.0, 0.0)
            sign = np.minimum(still + frozen + gone, 1.0)
            # a stopped rotor that turns again, and one that makes thrust, are cleared
            alive = np.where(speed[k] > ALIVE * hover[k], 1.0, 0.0) * (1 - np.minimum(frozen + gone, 1.0))
            count = (1 - alive) * np.maximum(
                before[k] + h * np.where(sign > 0.5, 1.0, np.where(taken > 0.5, -FORGIVEN, 0.0)), 0.0
            )
            # rotors whose signs began together are given up together
            allowed = self._allowed(given, k)
            enough = np.where(taken > 0.5, SECOND, 1.0) * patience
            new = np.where(count > enough, 1.0, 0.0) * allowed
            kept = np.where(
                before[k] > 0.5 * LATCHED, LATCHED, np.where(new > 0.5, LATCHED, np.minimum(count, enough + h))
            )
            counted.append(kept)
            stuck.append(np.where(new > 0.5, frozen * (1 - gone) * (1 - still), was_stuck[k]))
            given[k] = np.maximum(given[k], new)
        found = vector(*counted), vector(*stuck), implied, concatenate(mean, own, changed, moved)
        at.shared["watched"] = found
        return found

    def _allowed(self, given: Sequence[Array], k: int) -> Array | float:
        """1 if rotor k may be given up besides those that are: the remaining ones can still hold the position."""
        taken = sum(given, start=0.0)
        if self.laws:
            first = np.where(taken < 0.5, 1.0, 0.0)
            partner = [j for pair in self.pairs if k in pair for j in pair if j != k]
            second = sum((given[j] for j in partner), start=0.0)
            return np.minimum(first + second * np.where(taken < 1.5, 1.0, 0.0), 1.0)
        return np.where(taken < 0.5 * (self.vehicle.model.nu - 3), 1.0, 0.0)

    def dead(self, at: Seen) -> Array:
        """1 for every rotor that is given up (nu,)."""
        suspicions = self._watched(at)[0]
        return vector(*(np.where(suspicions[k] > 0.5 * LATCHED, 1.0, 0.0) for k in range(self.vehicle.model.nu)))

    def _kept_thrusts(self, at: Seen) -> Array:
        """Thrusts (nu,) of stuck rotors, 0 for all others."""
        return self._watched(at)[1] * self.actuators.output(at.signals["rotor_speeds"])

    def acted(self, at: Seen, u: Array) -> Array:
        return self._spinning(at, u) if self.laws else self._shared_among_others(at, u)

    def _spinning(self, at: Seen, u: Array) -> Array:
        """The laws of a quadcopter without one rotor or two."""
        dead, kept = self.dead(at), self._kept_thrusts(at)
        push = RISE * self._stored(at)[-1]
        for failed, law in self.laws.items():
            given = dead[failed[0]] if len(failed) == 1 else dead[failed[0]] * dead[failed[1]]
            stuck = kept[failed[0]] if len(failed) == 1 else 0.0
            u = np.where(given > 0.5, law.thrusts(at.q, at.v, *at.reference, stuck, push), u)
        return u

    def _shared_among_others(self, at: Seen, u: Array) -> Array:
        """The wrench of the law by the sound rotors."""
        dead, kept, hull, nu = self.dead(at), self._kept_thrusts(at), self.hull, self.vehicle.model.nu
        low, high = np.array([rotor.thrust for rotor in self.vehicle.airframe.rotors], dtype=float).T
        E = np.concatenate([hull.wrenches[2:3] / hull.mass, np.linalg.solve(hull.moment, hull.wrenches[3:])])
        H = E.T @ np.diag([1.0, TILT, TILT, HEADING]) @ E
        H = H + 1e-6 * np.trace(H) / nu * np.eye(nu)
        lower = vector(*(np.where(dead[k] > 0.5, kept[k], low[k]) for k in range(nu)))
        upper = vector(*(np.where(dead[k] > 0.5, kept[k], high[k]) for k in range(nu)))
        failed = sum((dead[k] for k in range(nu)), start=0.0)
        return np.where(failed > 0.5, box_qp(H, u, lower, upper), u)

    def following(self, at: Seen, u: Array) -> Array:
        suspicions, stuck, implied, statistics = self._watched(at)
        dead = self.dead(at)
        failed = np.minimum(sum((dead[k] for k in range(self.vehicle.model.nu)), start=0.0), 1.0)
        q_R, v_R, _ = at.reference
        off = limited(self.hull.motion(q_R, v_R).r - self.hull.motion(at.q, at.v).r, 1.0)
        rise = limited(self._stored(at)[-1] + failed * at.period * off, PUSH / RISE)
        command = self.actuators.target(self.acted(at, u))
        return concatenate(command, implied, statistics, suspicions, stuck, rise)

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"dead": self.dead(at)}
